"""The same people everywhere: hashes, folds and splits by kind of id, container and memory limit; weights of any size, or 0."""

import datetime
import decimal
import itertools
import uuid

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from black_box import COLUMNS, CONTAINERS, NAMES, assert_alike, csv_text, ended, in_parquet, in_spilled_csv, people, some

import evenscore as es
from hostile import THOROUGH

N_USERS = 60
BASE = people(600, seed=4, n_users=N_USERS)
CODES = np.array(BASE["u"].to_pylist())
START = datetime.datetime(2024, 3, 30, 22, 0, 0)
RNG = np.random.default_rng(0)
MICROSECONDS = RNG.integers(1, 10**12, N_USERS).tolist()

IDS = {
    "timestamps with fractions": (
        [START + datetime.timedelta(microseconds=10**6 * i + 500_000 * (i % 3)) for i in range(N_USERS)],
        pa.timestamp("us"),
    ),
    "timestamps with microseconds": ([START + datetime.timedelta(microseconds=m) for m in MICROSECONDS], pa.timestamp("us")),
    "timestamps": ([START + datetime.timedelta(hours=i) for i in range(N_USERS)], pa.timestamp("us")),
    "timestamps in milliseconds": ([START + datetime.timedelta(milliseconds=250 * i) for i in range(N_USERS)], pa.timestamp("ms")),
    "timestamps in seconds": ([START + datetime.timedelta(seconds=i) for i in range(N_USERS)], pa.timestamp("s")),
    "timestamps in nanoseconds": ([10**18 + 7 * i for i in range(N_USERS)], pa.timestamp("ns")),
    "time zones": (
        [(START + datetime.timedelta(minutes=20 * i)).replace(tzinfo=datetime.UTC) for i in range(N_USERS)],
        pa.timestamp("us", "Europe/Berlin"),
    ),
    "UTC": (
        [(START + datetime.timedelta(seconds=i / 2)).replace(tzinfo=datetime.UTC) for i in range(N_USERS)],
        pa.timestamp("us", "UTC"),
    ),
    "dates": ([datetime.date(2020, 1, 1) + datetime.timedelta(days=i) for i in range(N_USERS)], pa.date32()),
    "times": ([datetime.time(i % 24, i // 24, 1, 500_000 * (i % 2)) for i in range(N_USERS)], pa.time64("us")),
    "durations": ([datetime.timedelta(hours=i, microseconds=250_000 * (i % 4)) for i in range(N_USERS)], pa.duration("us")),
    "decimals": ([decimal.Decimal(i) / 4 for i in range(N_USERS)], pa.decimal128(10, 2)),
    "whole decimals": ([decimal.Decimal(10**25 + i) for i in range(N_USERS)], pa.decimal128(38, 0)),
    "UUIDs": ([str(uuid.UUID(int=i * 10**30 + 7)) for i in range(N_USERS)], pa.string()),
    "bytes": ([bytes([i, 255, 0, 39]) for i in range(N_USERS)], pa.binary()),
    "text": ([f"user {i} é\u0301😀'\\" for i in range(N_USERS)], pa.string()),
    "text that looks like numbers": ([f"{i:05}" for i in range(N_USERS)], pa.string()),
    "text with blanks": ([" " * (i % 3) + f"u{i // 3}" for i in range(N_USERS)], pa.string()),
    "large unsigned": ([2**63 + i for i in range(N_USERS)], pa.uint64()),
    "negative": ([-i * 10**12 for i in range(N_USERS)], pa.int64()),
    "small integers": (list(range(N_USERS)), pa.int8()),
    "floats": ([float(i) for i in range(N_USERS)], pa.float64()),
    "booleans": ([i % 2 == 0 for i in range(N_USERS)], pa.bool_()),
}
NO_TEXT = ("bytes", "durations")  # CSV has no way to write these
AS_TEXT = (
    "timestamps in nanoseconds",
    "decimals",
    "text with blanks",
    "text that looks like numbers",
)  # CSV writes them otherwise, or trims


def with_ids(kind):
    """The rows with ids of a kind: user i has the i-th of them."""
    values, dtype = IDS[kind]
    return BASE.set_column(BASE.column_names.index("u"), "u", pa.array([values[code] for code in CODES], dtype))


def reference(kind, **options):
    """Plain Python objects in a dict: what an id is, its text says."""
    table = with_ids(kind)
    ids = np.empty(table.num_rows, dtype=object)
    ids[:] = table["u"].to_pylist()
    data = {name: table[name].to_pylist() for name in "syg"} | {"u": ids}
    return es.tally(data, **NAMES, lattice=es.Lattice(0, 1), **options)


def readable(kind, container):
    if container.startswith("csv") or container == "spilled":
        return kind not in (*NO_TEXT, *AS_TEXT)
    return True


def cases():
    """Every kind in every container; by default each in Dask, which asks in SQL, and in two others by turns."""
    for number, kind in enumerate(some(IDS, 15)):
        able = [name for name in CONTAINERS if name not in ("dict", "dask") and readable(kind, name)]
        chosen = some(["dask", *able[number % len(able) :], *able[: number % len(able)]], 3)
        yield from (pytest.param(kind, container, id=f"{kind} in {container}") for container in chosen)


@pytest.mark.parametrize(("kind", "container"), list(cases()))
def test_folds_and_splits_are_those_of_memory(kind, container, tmp_path):
    try:
        data = CONTAINERS[container](with_ids(kind), tmp_path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, NotImplementedError):
        pytest.skip("this container cannot hold such ids")
    lattice = es.Lattice(0, 1)
    try:
        found = es.tally(data, **NAMES, lattice=lattice)
    except es.DataError as error:
        assert "user" in str(error)  # refused in words, nowhere counted otherwise
        return
    wanted = reference(kind)
    assert_alike(found, wanted)
    half = es.tally(data, **NAMES, lattice=lattice, split="1/2")
    assert half.n_rows == reference(kind, split="1/2").n_rows
    if found.sketch is not None:
        assert np.array_equal(found.sketch, wanted.sketch)


@pytest.mark.parametrize(
    "kind", some(["timestamps with fractions", "time zones", "UUIDs", "whole decimals", "text", "dates", "times"], 3)
)
def test_a_memory_limit_does_not_change_who_is_in_a_split(kind, tmp_path):
    """0.1.0 kept 341 rows instead of 313."""
    path = in_spilled_csv(with_ids(kind), tmp_path)
    for split in ("1/2", "3/4@key"):
        small = es.tally(path, **NAMES, lattice=es.Lattice(0, 1), split=split, memory_limit="200MB")
        large = es.tally(path, **NAMES, lattice=es.Lattice(0, 1), split=split, memory_limit="8GB")
        assert small.n_rows == large.n_rows
        assert_alike(small, large)


RELATIONS = ["timestamps with fractions", "durations", "time zones", "bytes", "decimals", "large unsigned", "UUIDs"]


@pytest.mark.parametrize("kind", some(RELATIONS, 1))
def test_a_relation_larger_than_memory_holds_the_same_people(kind):
    """1.4 million rows without an outcome make it large; they are dropped."""
    connection = duckdb.connect()
    connection.register("held", with_ids(kind))
    few = "SELECT s, y, g, u FROM held"
    none = "SELECT 0.5 AS s, NULL AS y, 'a' AS g, (SELECT min(u) FROM held) AS u FROM range(1400000)"
    if kind == "bytes":
        none = none.replace("(SELECT min(u) FROM held)", "'x'::BLOB")
    relation = connection.sql(f"{few} UNION ALL {none}")
    options = {"lattice": es.Lattice(0, 1), "nulls": "drop", "split": "1/2"}
    assert_alike(es.tally(relation, **NAMES, **options, memory_limit="200MB"), reference(kind, split="1/2"))


@pytest.mark.parametrize("kind", some(["timestamps with fractions", "UUIDs", "time zones", "whole decimals", "dates", "text"], 3))
def test_user_level_files_hold_the_same_people(kind, tmp_path):
    (tmp_path / "rows.csv").write_text(csv_text(with_ids(kind)), encoding="utf-8")
    words = ["tally", tmp_path / "rows.csv", *COLUMNS, "--by-user", "--lattice", "0:1", "--quiet", "-o", tmp_path / "users.parquet"]
    assert ended(*words) == 0
    assert ended("merge", tmp_path / "users.parquet", "--quiet", "-o", tmp_path / "out.tally") == 0
    assert_alike(es.Tally.load(tmp_path / "out.tally"), reference(kind))


@pytest.mark.parametrize("kind", ["UUIDs as objects", "a native UUID", "pandas timestamps", "pandas durations"])
def test_objects_of_libraries_are_the_same_people_as_text(kind):
    import pandas as pd

    ids = {
        "UUIDs as objects": ("UUIDs", lambda texts: [uuid.UUID(text) for text in texts]),
        "a native UUID": (
            "UUIDs",
            lambda texts: duckdb.connect().from_arrow(with_ids("UUIDs")).project("s, y, g, CAST(u AS UUID) AS u"),
        ),
        "pandas timestamps": ("timestamps with fractions", lambda values: pd.Series(values)),
        "pandas durations": ("durations", lambda values: pd.Series(values)),
    }
    name, make = ids[kind]
    table = with_ids(name)
    made = make(table["u"].to_pylist())
    data = made if kind == "a native UUID" else {column: table[column].to_pylist() for column in "syg"} | {"u": made}
    assert_alike(es.tally(data, **NAMES, lattice=es.Lattice(0, 1)), reference(name))


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_the_zone_of_the_machine_does_not_matter(zone, tmp_path):
    """DuckDB writes a moment in the zone of its session."""
    table = with_ids("time zones")
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = '{zone}'")
    connection.register("held", table)
    found = es.tally(connection.sql("SELECT * FROM held"), **NAMES, lattice=es.Lattice(0, 1))
    other = duckdb.connect()
    other.execute("SET TimeZone = 'UTC'")
    other.register("held", table)
    assert_alike(found, es.tally(other.sql("SELECT * FROM held"), **NAMES, lattice=es.Lattice(0, 1)))


# Spark


@pytest.mark.spark
@pytest.mark.parametrize("escaped", ["true", "false"])
def test_spark_reads_quotes_and_backslashes_as_they_are(spark, escaped):
    """With escapedStringLiterals=true all rows were counted in one group, or Spark crashed."""
    names = ["it's", 'say "x"', "back\\slash", "\\'", "\\n", "é\t"]
    groups = [names[code % len(names)] for code in CODES]
    data = {"s'\\": BASE["s"].to_pylist(), "y": BASE["y"].to_pylist(), "g`": groups, "u": [f"\\{code}'" for code in CODES]}
    columns = {"score": "s'\\", "outcome": "y", "group": "g`", "user": "u"}
    before = spark.conf.get("spark.sql.parser.escapedStringLiterals")
    spark.conf.set("spark.sql.parser.escapedStringLiterals", escaped)
    try:
        frame = spark.createDataFrame(list(zip(*data.values(), strict=True)), list(data))
        found = es.tally(frame, **columns, lattice=es.Lattice(0, 1), way="expressions")
        assert_alike(found, es.tally(data, **columns, lattice=es.Lattice(0, 1)))
        calibrator = es.calibrate(found, method="platt")
        applied = es.apply_calibrator(frame, calibrator).collect() if hasattr(es, "apply_calibrator") else []
        wanted = calibrator.transform(data["s'\\"], groups)
        for row, value in list(zip(applied, wanted, strict=False))[:50]:
            assert row["calibrated"] == pytest.approx(value, rel=1e-9)
    finally:
        spark.conf.set("spark.sql.parser.escapedStringLiterals", before)


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["timestamps with fractions", "dates", "decimals", "bytes"])
def test_spark_knows_the_same_people(spark, kind):
    table = with_ids(kind)
    frame = spark.createDataFrame(list(zip(*(column.to_pylist() for column in table.columns), strict=True)), table.column_names)
    found = es.tally(frame, **NAMES, lattice=es.Lattice(0, 1), way="expressions")
    assert_alike(found, reference(kind))


# Weights of any size


def weighted(scale, seed=0, n_groups=3):
    rng = np.random.default_rng(seed)
    table = people(900, seed=seed, n_users=200)
    weight = rng.gamma(2, 1, table.num_rows)
    group = np.array(["a", "b", "c"])[:n_groups][np.array(table["u"].to_pylist()) % n_groups]
    data = {name: table[name].to_numpy() for name in "syu"} | {"g": group}
    return es.tally(data | {"v": weight * scale}, **NAMES, weight="v", lattice=es.Lattice(0, 1))


RESULTS = {
    "parity": lambda tally: es.parity_test(tally),
    "parity sup": lambda tally: es.parity_test(tally, method="sup"),
    "parity multiscale": lambda tally: es.parity_test(tally, method="multiscale"),
    "parity l2 by row": lambda tally: es.parity_test(tally, method="l2", weighting="row"),
    "parity combined": lambda tally: es.parity_test(tally, method="combined"),
    "parity with a tolerance": lambda tally: es.parity_test(tally, tolerance=0.1),
    "parity against the rest": lambda tally: es.parity_test(tally, compare="rest"),
    "curves": es.curves,
    "ordering": es.ordering_test,
    "marginal": lambda tally: es.marginal_test(tally, threshold=0.5),
    "calibration error": lambda tally: es.calibration_error(tally),
    "calibration error by row": lambda tally: es.calibration_error(tally, method="ece", weighting="row"),
    "thresholds": lambda tally: es.fair_thresholds(tally, threshold=0.5),
    "impact": lambda tally: es.classification_impact(tally, threshold=0.5),
    "platt": lambda tally: es.calibrate(tally, method="platt"),
    "isotonic": lambda tally: es.calibrate(tally, method="isotonic"),
    "auto": lambda tally: es.calibrate(tally, method="auto"),
    "calibration error, mean absolute": lambda tally: es.calibration_error(tally, norm=1),
    "smooth calibration error": lambda tally: es.calibration_error(tally, method="smooth"),
}


def plain_numbers(result):
    """Every number of a result's table."""
    return [{key: value for key, value in row.items() if isinstance(value, int | float | str | None)} for row in result.rows()]


@pytest.fixture(scope="module")
def at_one():
    tally = weighted(1.0)
    return {name: plain_numbers(call(tally)) for name, call in RESULTS.items()}


@pytest.mark.parametrize("power", some([130, -199, 123, 199, -100, 100, -149], 2))
@pytest.mark.parametrize("name", RESULTS)
def test_the_units_of_weights_change_nothing(name, power, at_one):
    """Weights are relative; beyond 1e37 or near 1e-60 float32 overflowed and the adjustment was lost.

    Powers of two scale without rounding, so that even draws are the same draws. Some results count people in the units of weights.
    """
    found = plain_numbers(RESULTS[name](weighted(2.0**power)))
    assert len(found) == len(at_one[name])
    for row, wanted in zip(found, at_one[name], strict=True):
        for key, value in wanted.items():
            if isinstance(value, float):
                units = pytest.approx(value * 2.0**power, rel=1e-6)
                assert row[key] == pytest.approx(value, rel=1e-6, abs=1e-9, nan_ok=True) or row[key] == units, (key, row)
            elif isinstance(value, str):
                assert row[key] == value, (key, row)


@pytest.mark.filterwarnings("ignore:.*nobody in training came near")
@pytest.mark.parametrize("power", some([130, -199, 100], 2))
@pytest.mark.parametrize("method", ["kernel", "guided", "logistic", "linear"])
def test_the_units_of_weights_change_no_joint_map(method, power):
    """Penalties and limits there are in users, and would drown weights of 1e-60 or drown in weights of 1e39."""
    rng = np.random.default_rng(1)
    data = {name: rng.random(400) for name in ("s", "t")} | {name: (rng.random(400) < 0.4).astype(int) for name in ("y", "z")}
    data |= {"g": np.arange(400) % 2, "u": np.arange(400) // 2}
    weight = rng.gamma(2, 1, 400) * (np.arange(400) % 7 > 0)
    roles = {"scores": ["s", "t"], "outcomes": ["y", "z"], "group": "g", "user": "u", "weight": "v", "method": method}
    one, other = (es.calibrate_jointly(data | {"v": weight * scale}, **roles).transform(data) for scale in (1.0, 2.0**power))
    np.testing.assert_array_equal(one, other)
    without = {name: column[weight > 0] for name, column in data.items()}
    alone = es.calibrate_jointly(without | {"v": weight[weight > 0]}, **roles).transform(data)
    np.testing.assert_allclose(alone, one, rtol=1e-9)


# People of weight 0


def with_nobodies(how, n_extra=300, seed=0):
    """The same people, and with them others whose rows weigh nothing, or who stand for nobody."""
    rng = np.random.default_rng(seed)
    table = people(800, seed=seed, n_users=160)
    data = {name: table[name].to_numpy() for name in "syu"} | {"g": np.array(table["g"].to_pylist())}
    n = table.num_rows
    extra = {
        "s": rng.random(n_extra) ** 4,
        "y": (rng.random(n_extra) < 0.5).astype(int),
        "u": 10**6 + rng.integers(0, 100, n_extra),
        "g": rng.choice(["a", "b"], n_extra),
    }
    if how == "zero rows of the same people":
        extra["u"] = rng.choice(data["u"], n_extra)
        extra["g"] = np.array(["a", "b"])[extra["u"] % 2]
    both = {name: np.concatenate([data[name], extra[name]]) for name in data}
    return data | {"v": np.ones(n)}, both | {"v": np.concatenate([np.ones(n), np.zeros(n_extra)])}


@pytest.mark.parametrize("role", ["weight", "count"])
def test_people_of_weight_0_are_no_users_and_change_nothing(role):
    data, both = with_nobodies("zero people")
    options = NAMES | {role: "v", "lattice": es.Lattice(0, 1)}
    if role == "count":
        data, both = ({**frame, "v": frame["v"].astype(int)} for frame in (data, both))
    wanted, found = es.tally(data, **options), es.tally(both, **options)
    assert found.n_users == wanted.n_users
    assert_alike(found, wanted)
    for call in (es.curves, lambda tally: es.parity_test(tally), es.calibration_error):
        assert plain_numbers(call(found)) == plain_numbers(call(wanted))


@pytest.mark.parametrize("how", ["zero people", "zero rows of the same people"])
@pytest.mark.parametrize("container", ["dict", "parquet", "dask", "duckdb"])
def test_people_of_weight_0_are_no_users_in_any_engine(container, how, tmp_path):
    data, both = with_nobodies(how)
    held = CONTAINERS[container](pa.table(both), tmp_path)
    found = es.tally(held, **NAMES, weight="v", lattice=es.Lattice(0, 1))
    assert_alike(found, es.tally(data, **NAMES, weight="v", lattice=es.Lattice(0, 1)))


def with_strange_nobodies(scores, role):
    """The same people, and others who count for nothing, with scores and outcomes that nobody else has."""
    data, both = with_nobodies("zero people")
    nobody = both["v"] == 0
    if scores == "few":
        for frame in (data, both):
            frame["s"] = frame["s"].round(1)
    elif scores == "wide":
        for frame in (data, both):
            frame["s"] = 100 * frame["s"] - 30
    both["s"] = np.where(nobody, both["s"] * 1e4 - 77, both["s"])
    both["y"] = np.where(nobody, 1e6, both["y"])
    both["g"] = np.where(nobody, "a", both["g"])
    if role == "count":
        data, both = ({**frame, "v": frame["v"].astype(int)} for frame in (data, both))
    order = np.random.default_rng(1).permutation(len(both["s"]))
    return data, {name: column[order] for name, column in both.items()}


@pytest.mark.parametrize("role", ["weight", "count"])
@pytest.mark.parametrize("scores", ["unit", "few", "wide"])
def test_people_of_weight_0_do_not_change_the_lattice(scores, role, tmp_path, monkeypatch):
    """Nor whether outcomes are 0 and 1: in memory, in files that are fetched or scanned, and in Dask."""
    data, both = with_strange_nobodies(scores, role)
    for scale, user in itertools.product(("rank", "score"), (None, "u")) if THOROUGH else [("score", "u")]:
        options = NAMES | {role: "v", "user": user, "scale": scale}
        wanted = es.tally(data, **options)
        for container, fetched in (("dict", True), ("csv", True), ("parquet", False), ("dask", True))[: None if THOROUGH else 3]:
            with monkeypatch.context() as patched:
                patched.setattr("evenscore.engines.relations.FETCHED_BYTES", 1 if fetched else 10**9)
                found = es.tally(CONTAINERS[container](pa.table(both), tmp_path), **options)
            assert found.lattice == wanted.lattice and found.binary == wanted.binary, (container, options)
            assert_alike(found, wanted, folds=user is not None)


def test_a_lattice_that_is_given_need_not_hold_people_of_weight_0():
    data, both = with_strange_nobodies("few", "weight")
    lattice = es.tally(data, **NAMES, weight="v").lattice
    assert_alike(es.tally(both, **NAMES, weight="v", lattice=lattice), es.tally(data, **NAMES, weight="v", lattice=lattice))


@pytest.mark.parametrize("container", ["dict", "dask"])
def test_nobody_counts_where_weight_or_count_is_always_0(container, tmp_path):
    table = people(40, seed=1)
    half = np.arange(40) % 2
    table = table.append_column("v", pa.array(1.0 * half)).append_column("k", pa.array(1 - half))
    with pytest.raises(es.DataError, match="zero in each of the 40 rows"):
        es.tally(CONTAINERS[container](table, tmp_path), **NAMES, weight="v", count="k")


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("way", ["expressions", "arrow"])
def test_people_of_weight_0_are_no_users_in_spark(spark, way):
    data, both = with_strange_nobodies("wide", "weight")
    frame = spark.createDataFrame(list(zip(*(column.tolist() for column in both.values()), strict=True)), list(both))
    assert_alike(es.tally(frame, **NAMES, weight="v", way=way), es.tally(data, **NAMES, weight="v"))


def test_a_bandwidth_does_not_depend_on_people_of_weight_0():
    data, both = with_nobodies("zero people")
    options = NAMES | {"weight": "v", "lattice": es.Lattice(0, 1)}
    one, other = es.curves(es.tally(data, **options)), es.curves(es.tally(both, **options))
    assert getattr(other, "bandwidth", None) == getattr(one, "bandwidth", None)
    assert plain_numbers(one) == plain_numbers(other)


# Groups are called the same everywhere

UTC = datetime.UTC
LABELS = {
    "zoned": (
        [datetime.datetime(2024, 3, 31, 1, 30, 0, 500_000, UTC), datetime.datetime(2024, 7, 1, tzinfo=UTC)],
        pa.timestamp("us", "Europe/Berlin"),
    ),
    "decimals": ([decimal.Decimal("-2"), decimal.Decimal("1.5")], pa.decimal128(12, 8)),
    "times in nanoseconds": ([datetime.time(1, 2, 3, 450_000), datetime.time(22)], pa.time64("ns")),
    "small decimals": ([decimal.Decimal("1E-8"), decimal.Decimal("3")], pa.decimal128(12, 8)),
    "moments in nanoseconds": (
        [datetime.datetime(2024, 3, 31, 1, 0, 0, 500_000), datetime.datetime(2024, 7, 1)],
        pa.timestamp("ns"),
    ),
    "moments in seconds": ([datetime.datetime(2024, 3, 31, 1), datetime.datetime(2024, 7, 1)], pa.timestamp("s")),
    "times": ([datetime.time(1, 2, 3, 450_000), datetime.time(22)], pa.time64("us")),
    "zoned in nanoseconds": (
        [datetime.datetime(2024, 3, 31, 1, tzinfo=UTC), datetime.datetime(2024, 7, 1, tzinfo=UTC)],
        pa.timestamp("ns", "Asia/Tokyo"),
    ),
}


def labelled(kind):
    labels, held = LABELS[kind]
    table = people(300, seed=2)
    place = [("a", "b").index(label) for label in table["g"].to_pylist()]
    return table.set_column(2, "g", pa.array([labels[i] for i in place], type=held)), labels


@pytest.mark.parametrize("kind", some(LABELS, 3))
def test_labels_are_the_same_in_every_container(kind, tmp_path, monkeypatch):
    """Also their types; 0.1.0 took the engine's own text, in the zone of its session."""
    table, labels = labelled(kind)
    wanted = es.tally(table, **NAMES)
    assert list(map(repr, wanted.groups)) == list(map(repr, labels))
    for container in ("dict", "pandas", "polars", "duckdb", "parquet", "dask"):
        found = es.tally(CONTAINERS[container](table, tmp_path), **NAMES)
        assert list(map(repr, found.groups)) == list(map(repr, labels)), container
    session = duckdb.connect()
    session.execute("SET TimeZone = 'America/New_York'")
    monkeypatch.setattr("evenscore.engines.relations.FETCHED_BYTES", 10**9)
    for data in (tmp_path / "rows.parquet", session.from_arrow(table)):
        found = es.tally(data, **NAMES)
        assert list(map(repr, found.groups)) == list(map(repr, labels)), "scanned"
        assert_alike(found, wanted)


@pytest.mark.parametrize("kind", some(LABELS, 3))
def test_maps_know_the_labels_of_every_container(kind, tmp_path):
    """A calibrator of frames is applied to files, arrays and by its SQL, whatever the zone of the session."""
    table, labels = labelled(kind)
    calibrator = es.calibrate(es.tally(CONTAINERS["pandas"](table, tmp_path), **NAMES), method="binning", bins=4)
    calibrator.save(tmp_path / "map.json")
    assert list(map(repr, es.Calibrator.load(tmp_path / "map.json").groups)) == list(map(repr, labels))
    wanted = calibrator.transform(table["s"], table["g"])
    assert ended("apply", tmp_path / "map.json", in_parquet(table, tmp_path), "--quiet", "-o", tmp_path / "out.parquet") == 0
    np.testing.assert_allclose(pq.read_table(tmp_path / "out.parquet")["calibrated"].to_numpy(), wanted, rtol=1e-12)
    session = duckdb.connect()
    session.execute("SET TimeZone = 'America/New_York'")
    session.register("rows", table)
    found = session.execute(calibrator.to_sql(table="rows", score="s", group="g")).fetchnumpy()["calibrated"]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_labels_are_the_same_in_spark(spark):
    for kind, type_name in (("zoned", "timestamp"), ("small decimals", "decimal(12,8)")):
        table, labels = labelled(kind)
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        frame = spark.createDataFrame(rows, f"s double, y bigint, g {type_name}, u bigint")
        found = es.tally(frame, **NAMES, way="expressions")
        assert list(map(repr, found.groups)) == list(map(repr, labels))
        assert_alike(found, es.tally(table, **NAMES))
