"""Every engine chooses the lattice that memory chooses, however many partitions or files hold the rows."""

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenscore as es
from data import NAMES
from evenscore.data.spec import TallySpec
from evenscore.engines import relations
from evenscore.engines.dask import DaskEngine, find_dask_fields
from evenscore.engines.duck import Duck, find_duckdb_fields, relation_types
from evenscore.engines.survey import SKETCHED, Aggregate, Fact, take_survey

N_ROWS = 4_000
N_USERS = 1_500
SPEC = TallySpec(**NAMES)


def few_scores(n_scores):
    """Every one of so many scores occurs, most of them in every partition."""
    rng = np.random.default_rng(n_scores)
    scores = np.sort(rng.random(n_scores))
    return rng.permutation(np.concatenate([scores, rng.choice(scores, N_ROWS - n_scores)]))


def tied_scores():
    scores = np.random.default_rng(2).normal(size=N_ROWS)
    return np.where(np.abs(scores) < 0.4, 0.25, scores)


SCORES = {
    "101 scores": few_scores(101),
    "512 scores": few_scores(512),
    "513 scores": few_scores(513),
    "600 scores": few_scores(600),
    "continuous": np.random.default_rng(1).beta(2, 5, N_ROWS),
    "wide": np.random.default_rng(1).normal(600, 80, N_ROWS),
    "ties": tied_scores(),
}
SCALES = {"wide": "score", "ties": "rank"}


def frame_of(kind):
    rng = np.random.default_rng(3)
    user = rng.permutation(np.concatenate([np.arange(N_USERS), rng.integers(0, N_USERS, N_ROWS - N_USERS)]))
    outcome = rng.integers(0, 2, N_ROWS)
    return pd.DataFrame({"s": SCORES[kind], "y": outcome, "g": np.array(["a", "b"])[user % 2], "u": user})


def options_of(kind):
    return NAMES | {"scale": SCALES.get(kind, "auto")}


@pytest.fixture
def surveyed(monkeypatch):
    """Nothing is fetched to be looked at in memory."""
    monkeypatch.setattr(relations, "FETCHED_BYTES", 10**9)


@pytest.fixture(scope="module")
def wanted():
    lattices = {kind: es.tally(frame_of(kind), **options_of(kind)).lattice for kind in SCORES}
    n_cells = {kind: lattice.n_cells for kind, lattice in lattices.items() if lattice.discrete}
    assert n_cells == {"101 scores": 101, "512 scores": 512}
    return lattices


@pytest.mark.parametrize("n_partitions", [1, 10, 40])
@pytest.mark.parametrize("kind", SCORES)
def test_dask(kind, n_partitions, wanted):
    dd = pytest.importorskip("dask.dataframe")
    facts = survey_dask(dd.from_pandas(frame_of(kind), npartitions=n_partitions), TallySpec(**options_of(kind)))
    assert facts.recipe.lattice == wanted[kind]


def survey_dask(frame, spec):
    return take_survey(DaskEngine(frame.to_delayed()), find_dask_fields(frame, spec), spec)


@pytest.mark.parametrize("n_partitions", [10, 40])
def test_a_whole_tally_of_dask_has_it_too(n_partitions, wanted):
    dd = pytest.importorskip("dask.dataframe")
    tally = es.tally(dd.from_pandas(frame_of("101 scores"), npartitions=n_partitions), **options_of("101 scores"))
    assert tally.lattice == wanted["101 scores"] and sum(tally.n_rows.values()) == N_ROWS


@pytest.mark.parametrize("kind", SCORES)
def test_many_files_and_relations(kind, wanted, surveyed, tmp_path):
    frame = frame_of(kind)
    for number in range(40):
        pq.write_table(pa.Table.from_pandas(frame.iloc[number::40], preserve_index=False), tmp_path / f"{number}.parquet")
    for data in (tmp_path, duckdb.connect().from_df(frame)):
        plan = es.tally.explain(data, **options_of(kind))
        assert plan.n_rows == N_ROWS and plan.lattice == wanted[kind]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ibis lags behind pandas and DuckDB
@pytest.mark.parametrize("kind", SCORES)
def test_ibis(kind, wanted, surveyed):
    ibis = pytest.importorskip("ibis")
    assert es.tally(ibis.memtable(frame_of(kind)), **options_of(kind)).lattice == wanted[kind]


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("kind", SCORES)
def test_spark(kind, wanted, spark):
    frame = spark.createDataFrame(frame_of(kind)).repartition(7)
    plan = es.tally.explain(frame, **options_of(kind))
    assert plan.n_rows == N_ROWS and plan.lattice == wanted[kind]
    assert abs(plan.n_users - N_USERS) < 0.15 * N_USERS


def test_users_are_counted_once_however_they_are_scattered():
    dd = pytest.importorskip("dask.dataframe")
    frame = frame_of("continuous")
    few = frame.assign(u=frame["u"] % 700)
    for n_partitions in (1, 10):
        many = survey_dask(dd.from_pandas(frame, npartitions=n_partitions), SPEC)
        assert abs(many.recipe.n_users - N_USERS) < 0.1 * N_USERS
    assert survey_dask(dd.from_pandas(few, npartitions=20), SPEC).recipe.n_users == 700
    relation = duckdb.connect().from_df(frame)
    facts = take_survey(Duck(relation), find_duckdb_fields(SPEC, relation_types(relation), "relation"), SPEC)
    assert abs(facts.recipe.n_users - N_USERS) < 0.3 * N_USERS


@pytest.mark.parametrize(
    ("aggregate", "answers", "merged"),
    [
        (Aggregate.SUM, [3, None, 4], 7),
        (Aggregate.LEAST, [3.0, None, -1.0], -1.0),
        (Aggregate.MOST, [3.0, None, -1.0], 3.0),
        (Aggregate.MOST, [None, None], None),
        (Aggregate.DISTINCT, [np.arange(5, dtype=np.uint64), np.arange(3, 9, dtype=np.uint64)], 9),
    ],
)
def test_each_fact_merges_by_its_own_rule(aggregate, answers, merged):
    assert Fact(aggregate, "x").merge(answers) == merged


def test_a_sketch_of_many_values_tells_how_many_there_are():
    hashes = np.sort(np.random.default_rng(0).integers(0, 2**64, 50_000, dtype=np.uint64))
    sketches = [hashes[start::4][:SKETCHED] for start in range(4)]
    assert abs(Fact(Aggregate.DISTINCT, "x").merge(sketches) - 50_000) < 0.1 * 50_000
