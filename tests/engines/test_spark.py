"""Spark for real, in local mode: the sums that memory gives, by native expressions and by Arrow."""

import warnings

import numpy as np
import pytest
from compare import assert_same
from engine_cases import DATA, FRAMES, OPTIONS, check

import evenscore as es
from data import NAMES

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def frames(spark):
    """The fixture as Spark frames whose partitions split users."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark lags behind pandas
        found = {kind: spark.createDataFrame(frame) for kind, frame in FRAMES.items()}
    return {kind: frame.repartition(3).cache() for kind, frame in found.items()}


@pytest.mark.parametrize("way", ["expressions", "arrow"])
@pytest.mark.parametrize("kind", OPTIONS)
def test_every_way_gives_what_memory_gives(kind, way, frames):
    check(es.tally(frames[kind], **NAMES, **OPTIONS[kind], way=way), kind)


def test_cells_are_those_of_numpy_on_every_lattice(spark):
    from evenscore.engines.spark_native import with_cell

    scores = np.concatenate([DATA["plain"]["s"][:60], [0.0, 1.0, 0.25, 0.37, -3.0, 7.0]])
    frame = spark.createDataFrame([(float(score),) for score in scores], "s double")
    lattices = [
        es.Lattice(0, 1, cells=64),
        es.Lattice(0, 1, cells=16, cuts=[0.37]),
        es.Lattice(-1, 2, cells=9),
        es.Lattice(0.01, 0.9, cells=17, scale="logit"),
        es.Lattice.from_values(np.unique(scores)),
        es.Lattice(0, 1, cells=1),
    ]
    for place, lattice in enumerate(lattices):
        frame = with_cell(frame, "s", f"c{place}", lattice)
    found = frame.collect()
    for place, lattice in enumerate(lattices):
        assert [row[f"c{place}"] for row in found] == lattice.cell([row["s"] for row in found]).tolist()


def test_arrow_is_taken_where_the_workers_have_evenscore(frames, monkeypatch):
    from evenscore.engines import spark

    plan = es.tally.explain(frames["plain"], **NAMES)
    assert plan.engine == "spark" and "6,000 rows" in repr(plan)
    assert "mapInArrow" in plan.steps[-1] and plan.steps[-1].endswith("(the workers have evenscore)")
    monkeypatch.setattr(spark, "_MISSING", type(spark._MISSING)())
    monkeypatch.setattr(spark, "__version__", "another")
    with pytest.warns(es.EvenscoreWarning, match=r"Spark's workers have evenscore .*, so .* install evenscore another there"):
        plan = es.tally.explain(frames["plain"], **NAMES)
    assert "native expressions" in plan.steps[-1]


@pytest.mark.parametrize("sizes", [{"BATCH": 1000}, {"BATCH": 1000, "UNSORTED": 10}])
def test_rows_of_a_user_meet_in_small_partitions_and_in_large_ones(sizes, frames, monkeypatch):
    from evenscore.engines import spark

    for name, size in sizes.items():
        monkeypatch.setattr(spark, name, size)
    check(es.tally(frames["plain"], **NAMES, **OPTIONS["plain"]), "plain")


def test_unlabelled_rows_whales_and_independent_rows(spark):
    rng = np.random.default_rng(0)
    rows = [(float(s), None if s < 0.2 else float(s > 0.5), "ab"[i % 2], i % 3) for i, s in enumerate(rng.random(300))]
    frame = spark.createDataFrame(rows, "s double, y double, g string, u int")
    columns = dict(zip("sygu", (np.array(column, dtype=object) for column in zip(*rows, strict=True)), strict=True))
    lattice = es.Lattice(0, 1, cells=16)
    for way in ("expressions", "arrow"):
        tally = es.tally(frame, **NAMES, nulls="unlabelled", lattice=lattice, way=way)
        assert_same(tally, es.tally(columns, **NAMES, nulls="unlabelled", lattice=lattice), exact=False)
    options = NAMES | {"user": None, "nulls": "drop", "lattice": lattice}
    tally, wanted = es.tally(frame, **options), es.tally(columns, **options)
    assert tally.dropped == wanted.dropped and tally.independent and tally.sketch is None
    assert_same(tally, wanted, exact=False, folds=False)


def test_bad_input_says_what_is_wrong(spark):
    frame = spark.createDataFrame([(0.5, 1.0, "a", None), (0.25, 0.0, "b", 2)], "s double, y double, g string, u bigint")
    with pytest.raises(es.DataError, match=r"column 'u' \(user\) is null or NaN in 1 of 2 rows; nulls='drop'"):
        es.tally(frame, **NAMES)
    with pytest.raises(es.DataError, match="no column 'score' for score; the frame has: s, y, g, u"):
        es.tally(frame, **NAMES | {"score": "score"})
    with pytest.raises(es.OptionError, match="way='magic' is not known"):
        es.tally(frame, **NAMES, way="magic")
