"""The repair of an audit is fitted and tested on rows that were read once."""

import duckdb
import numpy as np
import pandas as pd
import pytest

import evenscore as es
from evenscore.data.spec import TallySpec
from evenscore.data.splits import Split
from evenscore.engines import hold_rows, tally_by_spec

COLUMNS = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


@pytest.fixture(scope="module")
def people():
    data = es.simulate({"a": 300, "b": 300}, curve={"a": (0, 1), "b": (-1, 1)}, rows_per_user=2).data(seed=4)
    return pd.DataFrame(data)


@pytest.fixture
def path(people, tmp_path):
    people.to_parquet(tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


def test_a_file_is_not_read_again_for_the_repair(path):
    away = path.with_name("away.parquet")

    def follow(words):
        if words == "testing":
            path.rename(away)  # whoever reads from here on finds nothing
        if words == "hashing":
            away.rename(path)

    found = es.audit(path, **COLUMNS, progress=follow).subjects[0]
    assert found.repair is not None
    assert found.repair.verification is not None
    assert found.unavailable == {}


@pytest.mark.parametrize("way", ["frame", "file", "relation"])
@pytest.mark.parametrize("split", [None, "1/2", "2/2"])
def test_held_rows_have_the_tally_of_a_scan(people, path, way, split):
    data = {"frame": people, "file": path, "relation": duckdb.from_df(people)}[way]
    spec = TallySpec(**COLUMNS, split=split)
    held = hold_rows(data, TallySpec(**COLUMNS)).tally(None if split is None else Split.parse(split))
    scanned = tally_by_spec(data, spec)
    assert es.audit(held, repair=False).subjects[0].fingerprint == es.audit(scanned, repair=False).subjects[0].fingerprint
    assert (held.split, held.n_rows, held.columns) == (scanned.split, scanned.n_rows, scanned.columns)


def test_what_does_not_fit_into_memory_is_not_held(tmp_path):
    n = 1_400_000
    rows = {"score": np.linspace(0, 1, n), "outcome": np.arange(n) % 2, "group": np.arange(n) % 3, "user": np.arange(n)}
    pd.DataFrame(rows).to_parquet(tmp_path / "many.parquet")
    assert hold_rows(tmp_path / "many.parquet", TallySpec(**COLUMNS), memory_limit="200MB") is None
    assert hold_rows(tmp_path / "many.parquet", TallySpec(**COLUMNS)) is not None
