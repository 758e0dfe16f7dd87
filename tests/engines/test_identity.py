"""Who a user is, value by value: SQL gives the hash that Python gives, for every type that an id may have."""

import datetime
import decimal
import uuid

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from compare import assert_same

import evenscore as es
from data import NAMES
from evenscore.data.coding import canonical_id, hash_ids, hash_integers
from evenscore.data.columns import find_column
from evenscore.data.observations import users_of
from evenscore.data.spec import TallySpec
from evenscore.engines.dask import HASHES, _with_hashes
from evenscore.engines.duck import fetch_arrays, find_duckdb_fields, relation_types, select_columns
from evenscore.engines.sql import SPARK, Field, Fields

D = decimal.Decimal
BERLIN = datetime.timezone(datetime.timedelta(hours=1))
MOMENTS = [
    datetime.datetime(1, 1, 1),
    datetime.datetime(999, 12, 31, 23, 59, 59, 999_999),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 1),
    datetime.datetime(1970, 1, 1),
    datetime.datetime(2024, 3, 31, 1, 30, 0, 500_000),
    datetime.datetime(2024, 10, 27, 2, 30, 0, 50),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999),
]
IDS = {
    "integers": ([-(2**63), -1, 0, 1, 2**31, 2**63 - 1], pa.int64()),
    "unsigned": ([0, 2**63, 2**64 - 1], pa.uint64()),
    "small": ([-128, 0, 127], pa.int8()),
    "booleans": ([True, False], pa.bool_()),
    "whole floats": ([0.0, -0.0, 5.0, -(2.0**53), 2.0**53], pa.float64()),
    "text": (["", " ", "5", "05", "é", "é", "😀", "it's", 'a "b"', "\\n", "${x}", "a\nb", "%s"], pa.string()),
    "categories": (["b", "a", "b"], pa.dictionary(pa.int32(), pa.string())),
    "bytes": ([b"", b"\x00\xff'", b"abc"], pa.binary()),
    "UUIDs": ([uuid.UUID(int=0).bytes, uuid.UUID(int=2**128 - 1).bytes, uuid.UUID(int=10**30).bytes], pa.uuid()),
    "moments": (MOMENTS, pa.timestamp("us")),
    "moments in seconds": ([moment.replace(microsecond=0) for moment in MOMENTS], pa.timestamp("s")),
    "moments in milliseconds": (MOMENTS[3:5], pa.timestamp("ms")),
    "whole microseconds": ([0, 10**18, -(10**18) + 1000], pa.timestamp("ns")),
    "instants": ([moment.replace(tzinfo=datetime.UTC) for moment in MOMENTS[1:-1]], pa.timestamp("us", "America/New_York")),
    "dates": ([moment.date() for moment in MOMENTS], pa.date32()),
    "times": ([datetime.time(), datetime.time(23, 59, 59, 999_999), datetime.time(1, 2, 3, 500_000)], pa.time64("us")),
    "durations": (
        [datetime.timedelta(0), datetime.timedelta(microseconds=-1), datetime.timedelta(days=400, microseconds=5)],
        pa.duration("us"),
    ),
    "decimals": ([D("0.00"), D("5.00"), D("-1.50"), D("0.01"), D("-0.25"), D("12345678.90")], pa.decimal128(10, 2)),
    "long decimals": (
        [D(0), D("1E-18"), D("-1E-7"), D(2**63), D(2**64 - 1), D(-(2**63)), D("12345678901234567890.5")],
        pa.decimal128(38, 18),
    ),
    "whole decimals": ([D(0), D(-1), D(2**64 - 1), D(2**64), D(-(2**63) - 1), D(10**37)], pa.decimal128(38, 0)),
}
REFUSED = {
    "nanoseconds": ([1, 1001], pa.timestamp("ns")),
    "nanoseconds in a zone": ([1, 1001], pa.timestamp("ns", "Europe/Berlin")),
    "durations in nanoseconds": ([1, 1001], pa.duration("ns")),
    "times in nanoseconds": ([1, 1001], pa.time64("ns")),
    "lists": ([[1], [2]], pa.list_(pa.int64())),
    "structs": ([{"a": 1}, {"a": 2}], pa.struct([("a", pa.int64())])),
}


def hashes_in(values):
    """The hash of every id of a column in memory, in order."""
    users = users_of(find_column({"u": values}, "u", "user"))
    return users.hashes(users.codes.astype(np.int64)).tolist()


def objects(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def python_values(kind):
    values, dtype = IDS[kind]
    return pa.array(values, dtype).to_pylist()


def key_sql(relation):
    """SQL for the key of each row, and whether it is the hash."""
    fields = find_duckdb_fields(TallySpec(score="s", outcome="s", group="s", user="u"), relation_types(relation), "relation")
    return fields.key, fields.hashed


def as_hashes(keys, hashed):
    keys = np.array(keys, dtype=np.uint64 if max(keys) >= 2**63 else np.int64)
    return keys.tolist() if hashed else hash_integers(keys).tolist()


def relation_of(kind):
    values, dtype = IDS[kind]
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'Asia/Kolkata'")
    connection.register("held", pa.table({"n": list(range(len(values))), "s": [0.5] * len(values), "u": pa.array(values, dtype)}))
    return connection.sql("SELECT * FROM held ORDER BY n"), connection


@pytest.mark.parametrize("kind", IDS)
def test_duckdb_gives_the_hash_of_python_at_once_and_in_parts(kind):
    wanted = hash_ids(python_values(kind)).tolist()
    relation, _connection = relation_of(kind)
    key, hashed = key_sql(relation)
    assert as_hashes([row[0] for row in relation.project(f"{key} AS key").fetchall()], hashed) == wanted
    types = relation_types(relation)
    selected = select_columns(types, {}, {"user": ["u"]}, "relation")
    assert hashes_in(fetch_arrays(relation.project(selected["u"]), types, selected, {"user": ["u"]})["u"]) == wanted


@pytest.mark.parametrize("kind", IDS)
def test_every_container_in_memory_gives_the_same_hash(kind):
    wanted = hash_ids(python_values(kind)).tolist()
    values, dtype = IDS[kind]
    table = pa.table({"u": pa.array(values, dtype)})
    assert hashes_in(objects(python_values(kind))) == wanted
    assert hashes_in(table["u"]) == wanted
    if kind == "UUIDs":
        return
    assert hashes_in(table["u"].to_pandas()) == wanted
    assert hashes_in(pd.Series(python_values(kind)).astype("category")) == wanted
    assert hashes_in(pl.from_arrow(table)["u"]) == wanted
    frame = _with_hashes(pd.DataFrame({"u": objects([*python_values(kind), None])}), "u", "user")
    found = frame[HASHES["user"]]
    assert found.isna().tolist() == [False] * len(wanted) + [True] and found.tolist()[:-1] == wanted


@pytest.mark.parametrize("container", ["pyarrow", "pandas", "polars", "duckdb", "ibis", "dask"])
@pytest.mark.parametrize("kind", REFUSED)
def test_what_not_all_engines_tell_apart_is_refused(kind, container):
    import dask.dataframe as dd
    import ibis

    values, dtype = REFUSED[kind]
    table = pa.table({"s": [0.2, 0.8], "y": [0, 1], "g": ["a", "b"], "u": pa.array(values, dtype)})
    if container == "duckdb" and "nanoseconds in" in kind.replace("durations in", "nanoseconds in"):
        pytest.skip("DuckDB has cut it off when the relation is made")
    try:
        data = {
            "pyarrow": lambda: table,
            "pandas": table.to_pandas,
            "polars": lambda: pl.from_arrow(table),
            "duckdb": lambda: duckdb.connect().from_arrow(table),
            "ibis": lambda: ibis.memtable(table),
            "dask": lambda: dd.from_pandas(table.to_pandas(), npartitions=1),
        }[container]()
    except (ValueError, pa.ArrowException):
        pytest.skip("this container cannot hold it")
    if container == "dask" and str(data.dtypes["u"]) == "string":
        pytest.skip("Dask has made text of it")
    with pytest.raises(es.EvenscoreError, match="user"):
        es.tally(data, **NAMES)


def test_ids_by_hand():
    aware = datetime.datetime(2024, 1, 1, 0, 30, tzinfo=BERLIN)
    assert canonical_id(aware) == canonical_id(pd.Timestamp(aware)) == "2023-12-31 23:30:00"
    assert canonical_id(np.datetime64("2024-01-01T00:00:00.5")) == "2024-01-01 00:00:00.500000"
    assert canonical_id(np.datetime64("2024-01-01")) == "2024-01-01"
    assert canonical_id(np.timedelta64(3, "s")) == canonical_id(pd.Timedelta(seconds=3)) == 3_000_000
    assert [canonical_id(value) for value in (np.int64(5), 5.0, D("5.00"), D("5E0"), np.float32(5))] == [5] * 5
    assert [canonical_id(value) for value in (True, np.bool_(False), D("1E+2"), D("-0.50"))] == [1, 0, 100, "-0.5"]
    assert canonical_id(D("1E+99999999")) == "1E+99999999" and canonical_id(10**30) == str(10**30)
    for value in (
        np.datetime64(1, "ns"),
        pd.Timestamp(1),
        pd.Timedelta(1),
        np.datetime64("20000-01-01"),
        datetime.time(tzinfo=BERLIN),
    ):
        with pytest.raises(es.DataError, match="user id"):
            canonical_id(value)


def test_equal_numbers_are_one_user_in_any_order():
    equal = [5, 5.0, D("5.0"), D("5.00"), D("5E0")]
    assert {hash for value in equal for hash in hashes_in(objects([value, *equal]))} == {int(hash_ids([5])[0])}


# Spark

SETTINGS = {
    "usual": {},
    "escaped": {"spark.sql.parser.escapedStringLiterals": "true", "spark.sql.caseSensitive": "true"},
    "not ANSI, elsewhere": {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "America/New_York"},
    "strictly ANSI, elsewhere": {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.ansi.enforceReservedKeywords": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
        "spark.sql.session.timeZone": "Australia/Lord_Howe",
    },
}


@pytest.fixture(params=SETTINGS)
def session(spark, request):
    """A session with settings that change what SQL means; they are restored."""
    before = {name: spark.conf.get(name) for name in SETTINGS[request.param]}
    try:
        for name, value in SETTINGS[request.param].items():
            spark.conf.set(name, value)
        yield spark
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def made_in_utc(session, table):
    """A frame; of moments without a zone Spark makes instants, as clocks in the zone of the session say."""
    zone = session.conf.get("spark.sql.session.timeZone")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        return session.createDataFrame(table)
    finally:
        session.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
def test_spark_gives_the_hash_of_moments_without_a_zone(session):
    frame = session.createDataFrame([(i, str(moment)) for i, moment in enumerate(MOMENTS)], "n int, t string")
    user = Field("u", "user", "moment", "c1", "c1")
    fields = Fields(SPARK, user, user, (user,), user, None, None, "error")
    rows = frame.selectExpr("n", "CAST(t AS TIMESTAMP_NTZ) AS c1").selectExpr("n", f"{fields.key} AS key").collect()
    assert [row[1] for row in sorted(rows)] == hash_ids(MOMENTS).tolist()


NOT_IN_SPARK = ("unsigned", "UUIDs", "categories", "times")


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
def test_spark_gives_the_hash_of_python(session):
    from evenscore.engines.spark import rename_columns, type_kind

    for kind, (values, dtype) in IDS.items():
        if kind in NOT_IN_SPARK:
            continue
        table = pa.table({"n": list(range(len(values))), "u${x}`": pa.array(values, dtype)})
        frame = rename_columns(made_in_utc(session, table), {"n": "n", "u${x}`": "c1"})
        types = dict(frame.dtypes)
        user = Field("u", "user", type_kind(types["c1"]), "c1", "c1")
        fields = Fields(SPARK, user, user, (user,), user, None, None, "error")
        rows = frame.selectExpr("n", f"{fields.key} AS key").collect()
        wanted = hash_ids(python_values(kind)).tolist()
        assert as_hashes([row[1] for row in sorted(rows)], fields.hashed) == wanted, (kind, types)


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", ["expressions", "arrow"])
def test_spark_takes_names_and_labels_as_they_are(session, way):
    """Also where it would replace ${...}, or take a backslash for itself."""
    labels = ["it's", 'say "x"', "back\\slash", "\\'", "\\n", "a\nb", "${spark.app.name}", "%s {x}", "é😀", "", "plain"]
    rng = np.random.default_rng(0)
    user = rng.integers(0, 60, 400)
    names = {"score": "s'\\", "outcome": "y.z", "group": "g` ${spark.app.name}", "user": 'u"\n'}
    columns = [
        rng.random(400),
        rng.integers(0, 2, 400),
        [labels[code % len(labels)] for code in user],
        [f"${{x}}\\{code}'" for code in user],
    ]
    data = dict(zip(names.values(), (list(column) for column in columns), strict=True))
    frame = session.createDataFrame(pa.table(data))
    lattice = es.Lattice(0, 1, cells=16)
    found, wanted = es.tally(frame, **names, lattice=lattice, way=way), es.tally(data, **names, lattice=lattice)
    assert_same(found, wanted, exact=False)
    if way == "expressions":
        calibrator = es.calibrate(wanted, method="platt")
        applied = es.apply_calibrator(frame, calibrator, name="cal ${x}`").toArrow()
        assert applied.column_names == [*data, "cal ${x}`"]
        expected = calibrator.transform(applied[names["score"]].to_numpy(), np.array(applied[names["group"]].to_pylist()))
        np.testing.assert_allclose(applied["cal ${x}`"].to_numpy(), expected, rtol=1e-9)


# Names


HOSTILE = ['a"b', "a.b", "a`b", "select", "it's", "${x}", "%s", "{x}", "a\\b", "é\n", "*", "--", "s y"]


@pytest.mark.parametrize("container", ["duckdb", "ibis", "dask", "parquet", "spilled"])
@pytest.mark.parametrize("name", HOSTILE)
def test_columns_of_any_name(name, container, tmp_path, monkeypatch):
    import dask.dataframe as dd
    import ibis
    import pyarrow.parquet as pq

    from evenscore.engines import files

    rng = np.random.default_rng(0)
    names = {role: f"{name}{i}" for i, role in enumerate(NAMES)}
    user = rng.integers(0, 20, 100)
    columns = [rng.random(100), rng.integers(0, 2, 100), [HOSTILE[code % 5] for code in user], [f"{name} {code}" for code in user]]
    table = pa.table(dict(zip(names.values(), columns, strict=True)))
    pq.write_table(table, tmp_path / "rows.parquet")
    if container == "spilled":
        monkeypatch.setattr(files, "is_small", lambda source, limit: False)
    data = {
        "duckdb": lambda: duckdb.connect().from_arrow(table),
        "ibis": lambda: ibis.memtable(table),
        "dask": lambda: dd.from_pandas(table.to_pandas(), npartitions=2),
    }.get(container, lambda: tmp_path / "rows.parquet")()
    found, wanted = es.tally(data, **names, split="1/2"), es.tally(table, **names, split="1/2")
    assert found.groups == wanted.groups and found.n_rows == wanted.n_rows and np.array_equal(found.sketch, wanted.sketch)
