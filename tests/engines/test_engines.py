"""One fixture, every engine: the same counts, and the same sums up to the order of adding."""

import os
import pickle

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from compare import assert_same
from engine_cases import FRAMES, N_ROWS, OPTIONS, WANTED, check

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.data.coding import hash_ids, hash_integers
from evenscore.data.splits import Split
from evenscore.engines import engine_of, relations, spreading
from evenscore.engines.duck import Duck
from evenscore.engines.lines import from_lines, hash_limit, to_lines
from evenscore.engines.parts import Recipe
from evenscore.engines.sql import DUCKDB, integer_hash
from evenscore.tallies.everyone import all_pairs


def in_files(frame, folder, n_files=3):
    for place in range(n_files):
        pq.write_table(pa.Table.from_pandas(frame.iloc[place::n_files], preserve_index=False), folder / f"{place}.parquet")
    return folder


@pytest.fixture
def small_memory(monkeypatch):
    """Everything is too large, and is cut into many parts."""
    monkeypatch.setattr(relations, "FETCHED_BYTES", 10**9)
    monkeypatch.setattr(relations, "COUNTING_SHARE", 1e-4)


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("source", ["parquet", "csv", "csv.gz", "relation"])
def test_what_does_not_fit_into_memory_is_counted_in_parts(kind, source, tmp_path, small_memory, monkeypatch):
    spilled = []
    monkeypatch.setattr(
        spreading, "read_part", lambda parts, *part, read=spreading.read_part: spilled.append(parts) or read(parts, *part)
    )
    if source == "parquet":
        data = in_files(FRAMES[kind], tmp_path)
    elif source == "relation":
        data = duckdb.connect().from_df(FRAMES[kind])
    else:
        data = tmp_path / f"rows.{source}"
        FRAMES[kind].to_csv(data, index=False)
    check(es.tally(data, **NAMES, **OPTIONS[kind]), kind)
    assert len(spilled) > 3 and not any(folder.exists() for folder in spilled)


@pytest.mark.parametrize("source", ["parquet", "relation"])
def test_progress_is_told_while_rows_are_spread(source, tmp_path, small_memory, monkeypatch):
    monkeypatch.setattr(spreading, "FLUSHED", 1000)
    data = in_files(FRAMES["plain"], tmp_path) if source == "parquet" else duckdb.connect().from_df(FRAMES["plain"])
    done = []
    check(es.tally(data, **NAMES, **OPTIONS["plain"], progress=lambda rows, total: done.append(rows)), "plain")
    assert done == sorted(done) and done[-1] == N_ROWS
    assert any(0 < rows <= N_ROWS / 2 for rows in done) and sum(rows > N_ROWS / 2 for rows in done) > 1


@pytest.mark.parametrize("kind", OPTIONS)
def test_older_versions_of_duckdb_spread_rows_themselves(kind, small_memory, monkeypatch):
    monkeypatch.setattr(spreading, "is_old", lambda: True)
    check(es.tally(duckdb.connect().from_df(FRAMES[kind]), **NAMES, **OPTIONS[kind]), kind)


@pytest.mark.parametrize("kind", OPTIONS)
def test_dask(kind):
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(FRAMES[kind], npartitions=5)
    check(es.tally(frame, **NAMES, **OPTIONS[kind]), kind)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ibis lags behind pandas and DuckDB
@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("backend", ["duckdb", "memtable", "polars"])
def test_ibis(kind, backend, tmp_path):
    ibis = pytest.importorskip("ibis")
    if backend == "duckdb":
        data = ibis.duckdb.connect().read_parquet(str(in_files(FRAMES[kind], tmp_path) / "*.parquet"))
    elif backend == "memtable":
        data = ibis.memtable(FRAMES[kind])
    else:
        import polars as pl

        data = ibis.polars.connect({"rows": pl.from_pandas(FRAMES[kind]).lazy()}).table("rows")
    check(es.tally(data, **NAMES, **OPTIONS[kind]), kind)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_ibis_counts_in_parts_too(small_memory):
    ibis = pytest.importorskip("ibis")
    check(es.tally(ibis.memtable(FRAMES["full"]), **NAMES, **OPTIONS["full"]), "full")


# Ways of being other than plain


def nulls_in(frame, seed=0):
    rng = np.random.default_rng(seed)
    holes = frame.copy()
    for name in ("s", "y", "g", "u"):
        holes.loc[rng.random(len(frame)) < 0.02, name] = None
    return holes


@pytest.mark.parametrize("nulls", ["drop", "unlabelled"])
@pytest.mark.parametrize("engine", ["duckdb", "dask"])
def test_nulls(engine, nulls, small_memory):
    frame = nulls_in(FRAMES["full"])
    if nulls == "unlabelled":
        frame = frame.dropna(subset=["s", "g", "u"])
    wanted = es.tally(frame, **NAMES, weight="v", nulls=nulls)
    data = duckdb.connect().from_df(frame)
    if engine == "dask":
        data = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=4)
    tally = es.tally(data, **NAMES, weight="v", nulls=nulls)
    assert_same(tally, wanted, exact=False)
    assert tally.dropped == wanted.dropped and tally.n_unlabelled == wanted.n_unlabelled
    assert bool(tally.dropped) == (nulls == "drop")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ibis lags behind pandas and DuckDB
@pytest.mark.parametrize("engine", ["dask", "ibis duckdb", "ibis polars"])
def test_pairs_of_all_rows_where_outcomes_are_not_known(engine, tmp_path):
    """Users in two groups with and without outcomes: the sums behind limits of selection rates, and the limits."""
    rng = np.random.default_rng(4)
    n = 600
    frame = pd.DataFrame(
        {"s": rng.integers(0, 20, n) / 20, "y": (rng.random(n) < 0.4).astype(float), "u": rng.integers(0, 90, n), "g": "a"}
    )
    frame["g"] = np.where((frame["u"] % 3 == 0) & (rng.random(n) < 0.5), "b", np.where(frame["u"] % 2 == 0, "a", "b"))
    frame.loc[frame["s"] < 0.5, "y"] = np.nan
    wanted = es.tally(frame, **NAMES, nulls="unlabelled", cuts=[0.5])
    if engine == "dask":
        data = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=4)
    elif engine == "ibis duckdb":
        ibis = pytest.importorskip("ibis")
        data = ibis.duckdb.connect().read_parquet(str(in_files(frame, tmp_path) / "*.parquet"))
    else:
        import polars as pl

        data = pytest.importorskip("ibis").polars.connect({"rows": pl.from_pandas(frame).lazy()}).table("rows")
    tally = es.tally(data, **NAMES, nulls="unlabelled", cuts=[0.5])
    assert_same(tally, wanted, exact=False)
    assert wanted.n_spanning and wanted.cross_blocks["all_pairs"] and sum(wanted.n_unlabelled.values())
    rows_of = pd.crosstab(frame["u"], frame["g"])  # of each user in each group, with an outcome or not
    for a, b in ((0, 0), (0, 1), (1, 1)):
        for weighting in ("user", "row"):
            ours, theirs = (all_pairs(each, a, b, weighting) for each in (tally, wanted))
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
            products = rows_of["ab"[a]] * rows_of["ab"[b]]
            assert weighting == "user" or ours.sum() == pytest.approx(products.sum())
    one, two = (es.decision_metrics(each, threshold=0.5).rows() for each in (tally, wanted))
    for row, other in zip(one, two, strict=True):
        limits = [[each[name] for name in ("estimate", "ci_low", "ci_high")] for each in (row, other)]
        np.testing.assert_allclose(*limits, rtol=1e-9, atol=1e-9)


LATTICES = {
    "beyond 0 and 1": ({}, lambda s: s * 550 + 300),
    "outliers": ({}, lambda s: np.where(s > 0.999, 1e9, s * 3 - 1)),
    "logit": ({"scale": "logit"}, lambda s: s),
    "rank": ({"scale": "rank", "cells": 64}, lambda s: s**3),
    "few scores": ({}, lambda s: np.round(s, 1)),
    "cuts": ({"cuts": [0.37]}, lambda s: s),
    "one score twice as often as all others": ({"scale": "rank", "cells": 16}, lambda s: np.where(s < 0.6, 0.25, s)),
}


@pytest.mark.parametrize("name", LATTICES)
def test_the_lattice_is_the_one_that_memory_gives(name, small_memory):
    options, change = LATTICES[name]
    frame = FRAMES["plain"].assign(s=change(FRAMES["plain"]["s"].to_numpy()))
    wanted = es.tally(frame, **NAMES, **options)
    tally = es.tally(duckdb.connect().from_df(frame), **NAMES, **options)
    assert tally.lattice == wanted.lattice
    assert_same(tally, wanted, exact=False)


def test_order_statistics_are_exact_even_when_bins_are_crowded(monkeypatch):
    from evenscore.engines import survey

    monkeypatch.setattr(survey, "FETCHED", 50)
    monkeypatch.setattr(survey, "BINS", 8)
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(0, 1e-6, 2_000), rng.normal(5, 1, 1_000), np.full(500, 5.0)])
    relation = duckdb.connect().from_df(pd.DataFrame({"s": scores}))
    ranks = np.array([0, 1, 1_000, 1_999, 2_000, 2_600, 3_498, 3_499])
    found = survey.order_statistics(Duck(relation), '"s"', None, ranks)
    assert np.array_equal(found, np.sort(scores)[ranks])


def test_independent_rows(small_memory, tmp_path):
    data = in_files(FRAMES["plain"], tmp_path, n_files=1)
    options = NAMES | {"user": None}
    assert_same(es.tally(data, **options), es.tally(FRAMES["plain"], **options), exact=False)


def test_intersections_of_any_type(small_memory):
    frame = FRAMES["plain"].assign(day=pd.to_datetime("2024-01-01") + pd.to_timedelta(FRAMES["plain"]["u"] % 2, unit="D"), ok=True)
    options = NAMES | {"group": ["g", "day", "ok"]}
    relation = duckdb.connect().from_df(frame)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relations, "FETCHED_BYTES", 1)
        wanted = es.tally(relation, **options)
    assert_same(es.tally(relation, **options), wanted, exact=False)


def test_a_given_lattice_is_kept_and_checked(small_memory):
    relation = duckdb.connect().from_df(FRAMES["plain"])
    lattice = es.Lattice(0, 1, cells=32, cuts=[0.3])
    assert es.tally(relation, **NAMES, lattice=lattice).lattice == lattice
    with pytest.raises(es.DataError, match="6,000 of 6,000 scores lie outside the lattice's range"):
        es.tally(relation, **NAMES, lattice=es.Lattice(2, 3))
    with pytest.warns(es.EvenscoreWarning, match="share its end cells"):
        es.tally(relation, **NAMES, lattice=es.Lattice(0, 0.5))


WRONG = {
    "null user": ({"u": [None, 2.0, 3.0]}, {}, r"column 'u' \(user\) is null or NaN in 1 of 3 rows \(first rows, from 0: 0\)"),
    "fraction": (
        {"u": [1.5, 2.0, 3.0]},
        {},
        r"column 'u' \(user\) holds fractions, .* in 1 of 3 rows .*0 \(1.5",
    ),
    "infinite": ({"s": [0.1, np.inf, 0.2]}, {}, r"column 's' \(score\) is not finite, .* in 1 of 3 rows .*1 \(inf"),
    "text": ({"s": ["x", "y", "z"]}, {}, r"column 's' \(score\) holds text, not numbers"),
    "negative": ({"v": [1.0, -1.0, 1.0]}, {"weight": "v"}, r"column 'v' \(weight\) is negative in 1 of 3 rows"),
    "no weight": ({"v": [0.0, 0.0, 0.0]}, {"weight": "v"}, r"column 'v' \(weight\) is zero in all 3 rows"),
    "half a row": ({"v": [0.5, 1.0, 1.0]}, {"count": "v"}, r"column 'v' \(count\) is not a whole number in 1 of 3 rows"),
    "all dropped": ({"y": [None, None, np.nan]}, {"nulls": "drop"}, r"leaves none of the 3 rows: 'y' is null in 3"),
    "nothing labelled": ({"y": [None, None, np.nan]}, {"nulls": "unlabelled"}, r"is null in all 3 rows: nothing is labelled"),
    "no column": ({}, {"score": "S"}, "no column 'S' for score; the relation has: s, y, g, u, v"),
    "an array": ({}, {"score": np.ones(3)}, "score: with a relation, name a column instead of giving an array"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_rows_are_found_in_parts_too(name, small_memory):
    change, options, message = WRONG[name]
    rows = {"s": [0.1, 0.2, 0.3], "y": [0.0, 1.0, 0.0], "g": ["a", "b", "a"], "u": [1.0, 2.0, 3.0], "v": [1.0, 2.0, 3.0]} | change
    with pytest.raises(es.EvenscoreError, match=message):
        es.tally(duckdb.connect().from_arrow(pa.table(rows)), **NAMES | options)


def test_too_many_groups(small_memory):
    frame = FRAMES["plain"].assign(g=np.arange(N_ROWS))
    with pytest.raises(es.DataError, match=r"'g' .*more than the 200 different values"):
        es.tally(duckdb.connect().from_df(frame), **NAMES)


# The hash


IDS = [0, 1, -1, 5, 2**31 - 1, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63)]


def test_engines_hash_integers_alike():
    relation = duckdb.connect().from_df(pd.DataFrame({"id": np.array(IDS, dtype=np.int64)}))
    found = relation.project(integer_hash(DUCKDB, "id") + " AS h").fetchall()
    assert [row[0] for row in found] == hash_integers(np.array(IDS)).tolist()


def test_engines_hash_text_alike():
    texts = ["", "a", "user 1", "é🦔", "x" * 500, "it's"]
    frame = pd.DataFrame({"id": texts})
    found = duckdb.connect().from_df(frame).project(DUCKDB.md5_key.format(x="id") + " AS h").fetchall()
    assert [row[0] for row in found] == hash_ids(texts).tolist()


def test_collisions_are_as_rare_as_sixty_random_bits_make_them():
    """Two of n ids share k random bits with n (n - 1) / 2^(k + 1) pairs expected; seen where they can be counted, at fewer bits."""
    hashes = hash_ids([f"user-{i}" for i in range(60_000)])
    for bits in (24, 28, 32):
        n_pairs = len(hashes) - len(np.unique(hashes >> (60 - bits)))
        expected = len(hashes) ** 2 / 2 ** (bits + 1)
        assert abs(n_pairs - expected) <= 5 * np.sqrt(expected) + 1
    assert len(np.unique(hashes)) == len(hashes)


# Pieces


def test_lines_and_back():
    for kind, tally in WANTED.items():
        recipe = Recipe(tally.lattice, tally.groups, tally.columns, tally.binary, tally.centre, kind == "full", N_ROWS, 1_200)
        recipe = pickle.loads(pickle.dumps(recipe))
        again = from_lines(to_lines(tally, hash_limit(recipe)), recipe)
        assert_same(again, tally, exact=False)
        assert np.array_equal(again.sketch, tally.sketch)


def test_an_engine_is_known_by_its_data(tmp_path):
    assert engine_of(tmp_path) == engine_of([str(tmp_path)]) == "files"
    assert engine_of(FRAMES["plain"]) == engine_of({}) == engine_of(None) == "memory"
    assert engine_of(duckdb.connect().sql("SELECT 1")) == "duckdb"


def test_memory_is_bounded_for_real(tmp_path):
    """Two million rows in a fifth of a gigabyte, counted in a process of its own."""
    import subprocess
    import sys

    rng = np.random.default_rng(0)
    n_rows = 2_000_000
    user = rng.integers(0, n_rows // 4, n_rows)
    table = pa.table({"s": rng.random(n_rows), "y": (rng.random(n_rows) < 0.5) * 1, "g": np.array(["a", "b"])[user % 2], "u": user})
    pq.write_table(table, tmp_path / "rows.parquet")
    program = (
        "import sys, evenscore as es; t = es.tally(sys.argv[1], score='s', outcome='y', group='g', user='u', memory_limit='200MB');"
        "t.save(sys.argv[2])"
    )
    output = tmp_path / "rows.tally"
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "rows.parquet"), str(output)], check=True, env=environment)
    assert_same(es.Tally.load(output), es.tally(table, **NAMES), exact=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.parquet", "rows.tally"]


@pytest.mark.parametrize("source", ["parquet", "csv", "relation"])
def test_the_plan_of_what_does_not_fit_says_what_was_surveyed_and_in_how_many_parts(source, tmp_path, small_memory):
    frame = pd.DataFrame(as_dict(repeated_users(3000, seed=1)))
    if source == "csv":
        frame.to_csv(tmp_path / "rows.csv", index=False)
    else:
        in_files(frame, tmp_path)
    data = duckdb.sql(f"SELECT * FROM '{tmp_path}/*.parquet'") if source == "relation" else tmp_path
    plan = es.tally.explain(data, **NAMES)
    assert plan.n_rows == len(frame) and plan.lattice == es.tally(data, **NAMES).lattice
    assert any("parts" in step for step in plan.steps), plan.steps
    assert f"{len(frame):,} rows" in str(plan)


def test_the_plan_of_a_small_relation_is_to_fetch_it(tmp_path):
    in_files(pd.DataFrame(as_dict(repeated_users(300, seed=1))), tmp_path)
    plan = es.tally.explain(duckdb.sql(f"SELECT * FROM '{tmp_path}/*.parquet'"), **NAMES)
    assert plan.steps == ("fetch the needed columns and count in memory",)


def test_a_share_of_the_users_is_the_same_in_every_engine(tmp_path, small_memory):
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(as_dict(repeated_users(3000, seed=1)))
    expected = es.tally(frame, **NAMES, split="1/2")
    assert 0.3 < sum(expected.n_rows.values()) / len(frame) < 0.7
    for data in (in_files(frame, tmp_path), dd.from_pandas(frame, npartitions=3)):
        found = es.tally(data, **NAMES, split="1/2", lattice=expected)
        assert_same(found, expected, exact=False)
    one = frame[frame["u"] == frame["u"].iloc[0]]
    held = [split for split in ("1/2", "2/2") if Split.parse(split).holds(hash_integers(one["u"].to_numpy()))[0]]
    none = "2/2" if held == ["1/2"] else "1/2"
    folder = tmp_path / "one"
    folder.mkdir()
    for data in (one, in_files(one, folder, 1), dd.from_pandas(one, npartitions=1)):
        with pytest.raises(es.DataError, match="holds none of the users"):
            es.tally(data, **NAMES, split=none)


def test_names_of_columns_survive_a_merge():
    rows = as_dict(repeated_users(900, seed=1))
    whole = es.tally(rows, **NAMES)
    small, large = rows["u"] % 3 == 0, rows["u"] % 3 != 0
    other = {name * 2: column[small] for name, column in rows.items()}
    a = es.tally(other, score="ss", outcome="yy", group="gg", user="uu", lattice=whole)
    b = es.tally({name: column[large] for name, column in rows.items()}, **NAMES, lattice=whole)
    assert (a + b).columns == (b + a).columns == b.columns
