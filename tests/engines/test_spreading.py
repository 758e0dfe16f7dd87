"""Rows are spread over parts as they come: every one arrives, users stay whole, and what goes wrong on the way is told."""

import tempfile

import duckdb
import numpy as np
import pytest

import evenscore as es
from data import NAMES
from evenscore.engines import relations, spreading
from evenscore.engines.arrow_stream import TYPES, stream_batches
from evenscore.engines.spreading import spill_parts

DUCKDB_TYPES = ("TINYINT", "UTINYINT", "SMALLINT", "USMALLINT", "INTEGER", "UINTEGER", "BIGINT", "UBIGINT", "FLOAT", "DOUBLE")
pytestmark = pytest.mark.skipif(duckdb.__version__ < "2", reason="older versions spread rows themselves")


@pytest.mark.parametrize("name", DUCKDB_TYPES)
def test_numbers_of_every_width_come_through_a_stream(name):
    rows = duckdb.connect().sql(f"SELECT CAST(range % 100 AS {name}) AS x, range AS y FROM range(300000)")
    batches = list(stream_batches(rows, duckdb.Error))
    assert len(batches) > 1
    x, y = (np.concatenate([batch[column] for batch in batches]) for column in "xy")
    assert x.dtype == TYPES["cCsSiIlLfg"[DUCKDB_TYPES.index(name)]]
    order = np.argsort(y)
    assert (y[order] == np.arange(300_000)).all() and (x[order] == np.arange(300_000) % 100).all()


def test_a_stream_that_breaks_off_says_why():
    rows = duckdb.connect().sql(
        "SELECT CAST(CASE WHEN range = 250000 THEN 'no number' ELSE '1' END AS DOUBLE) AS x FROM range(300000)"
    )
    with pytest.raises(duckdb.Error, match="no number"):
        list(stream_batches(rows, duckdb.Error))


def test_a_stream_without_rows():
    assert sum(len(batch["x"]) for batch in stream_batches(duckdb.sql("SELECT 1 AS x WHERE false"), duckdb.Error)) == 0


@pytest.mark.parametrize("n_parts", [1, 7, 300])
def test_users_stay_whole_and_nothing_is_lost(n_parts, tmp_path, monkeypatch):
    monkeypatch.setattr(spreading, "FLUSHED", 20_000)
    rows = duckdb.connect().sql(
        "SELECT hash(range) % 5000 AS key, range AS row, CASE WHEN range % 3 > 0 THEN range END AS outcome FROM range(400000)"
    )
    told = []
    seen, keys = [], []
    for arrays in spill_parts(rows, n_parts, tmp_path, nullable=("outcome",), spread=told.append):
        assert set(arrays) == {"key", "row", "outcome"}
        missing = np.ma.getmaskarray(arrays["outcome"])
        assert (missing == (arrays["row"] % 3 == 0)).all() and (arrays["outcome"] == arrays["row"])[~missing].all()
        seen.append(arrays["row"])
        keys.append(np.unique(arrays["key"]))
    assert (np.sort(np.concatenate(seen)) == np.arange(400_000)).all()
    assert len(np.concatenate(keys)) == len(np.unique(np.concatenate(keys))) == 5000
    assert len(told) > 2 and told[-1] == 400_000 and told == sorted(told)
    assert list((tmp_path / "parts").iterdir()) == []


class StoppedError(Exception):
    pass


def test_whoever_stops_it_halfway_finds_nothing_left_and_can_go_on(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(relations, "FETCHED_BYTES", 10**9)
    monkeypatch.setattr(relations, "COUNTING_SHARE", 1e-3)
    monkeypatch.setattr(spreading, "FLUSHED", 10_000)
    rows = "SELECT random() AS s, range % 2 AS y, range % 3 AS g, hash(range) % 20000 AS u FROM range(400000)"

    def stop(done, total):
        assert [path.name[:17] for path in tmp_path.iterdir()] == [".evenscore-spill-"]
        raise StoppedError

    connection = duckdb.connect()
    for _ in range(3):
        with pytest.raises(StoppedError):
            es.tally(connection.sql(rows), **NAMES, progress=stop)
        assert list(tmp_path.iterdir()) == []
    assert sum(es.tally(connection.sql(rows), **NAMES).n_rows.values()) == 400_000
