"""Items on every engine: the same sums by item as in memory, up to the order of adding, for ids of any kind."""

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from compare import assert_same
from engine_cases import DATA, N_ROWS, OPTIONS

import evenscore as es
from data import NAMES
from evenscore.engines import relations
from evenscore.engines.files import write_by_user
from evenscore.errors import DataError, OptionError

# Groups of users with integer items; users of several groups, weights, counts and text.
ITEMS = {
    "plain": np.random.default_rng(5).integers(0, 300, N_ROWS),
    "full": np.array([f"job {item} é" for item in np.random.default_rng(6).integers(0, 200, N_ROWS)]),
}
FRAMES = {kind: pd.DataFrame({**DATA[kind], "i": ITEMS[kind]}) for kind in OPTIONS}
COLUMNS = {kind: {**NAMES, **OPTIONS[kind], "item": "i"} for kind in OPTIONS}
WANTED = {kind: es.tally(FRAMES[kind], **COLUMNS[kind]) for kind in OPTIONS}


@pytest.fixture
def small_memory(monkeypatch):
    monkeypatch.setattr(relations, "FETCHED_BYTES", 10**9)
    monkeypatch.setattr(relations, "COUNTING_SHARE", 1e-4)


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("source", ["parquet", "csv", "relation"])
def test_in_parts(kind, source, tmp_path, small_memory):
    frame = FRAMES[kind]
    data = tmp_path / f"rows.{source}"
    if source == "relation":
        data = duckdb.connect().from_df(frame)
    elif source == "csv":
        frame.to_csv(data, index=False)
    else:
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), data)
    assert_same(es.tally(data, **COLUMNS[kind]), WANTED[kind], exact=False)


@pytest.mark.parametrize("kind", OPTIONS)
def test_dask(kind):
    dd = pytest.importorskip("dask.dataframe")
    assert_same(es.tally(dd.from_pandas(FRAMES[kind], npartitions=4), **COLUMNS[kind]), WANTED[kind], exact=False)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ibis lags behind pandas and DuckDB
def test_ibis():
    ibis = pytest.importorskip("ibis")
    assert_same(es.tally(ibis.memtable(FRAMES["full"]), **COLUMNS["full"]), WANTED["full"], exact=False)


@pytest.mark.filterwarnings("ignore")  # PySpark lags behind pandas
@pytest.mark.parametrize("kind", OPTIONS)
def test_spark(kind, spark):
    frame = spark.createDataFrame(FRAMES[kind]).repartition(3)
    assert_same(es.tally(frame, **COLUMNS[kind], way="arrow"), WANTED[kind], exact=False)
    with pytest.raises(OptionError, match="cannot bring items together"):
        es.tally(frame, **COLUMNS[kind], way="expressions")


@pytest.mark.parametrize("values", [[1.0, 2.5], [1.0, np.inf], ["a", None]])
@pytest.mark.parametrize("source", ["memory", "parts"])
def test_bad_items_are_refused_with_their_column(values, source, tmp_path, small_memory):
    n = 40
    frame = pd.DataFrame({**{name: np.asarray(DATA["plain"][name])[:n] for name in NAMES.values()}, "i": (values * n)[:n]})
    frame.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"i.* \(item\)"):
        es.tally(frame if source == "memory" else tmp_path / "rows.parquet", **COLUMNS["plain"])


def test_nulls_may_be_left_out(tmp_path, small_memory):
    frame = FRAMES["full"].assign(i=FRAMES["full"]["i"].where(np.arange(N_ROWS) % 5 > 0, None))
    frame.to_parquet(tmp_path / "rows.parquet")
    in_memory, in_parts = (es.tally(data, **COLUMNS["full"], nulls="drop") for data in (frame, tmp_path / "rows.parquet"))
    assert in_memory.dropped["i"] > 0
    assert_same(in_parts, in_memory, exact=False)


def test_user_level_files_say_that_they_do_not_hold_items(tmp_path):
    from evenscore.data.spec import TallySpec

    FRAMES["plain"].to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(OptionError, match="user-level files do not hold items"):
        write_by_user(tmp_path / "rows.parquet", tmp_path / "users.parquet", TallySpec(**COLUMNS["plain"]))
