"""Ranked items: what the truth says is what large samples show."""

import json

import numpy as np
import pytest

import evenscore as es
from evenscore.simulation import Discrete, PoissonRows, simulate_ranking

Z = 4.5


def ranks_by(query, values):
    """Positions from 1 within each query, by a loop."""
    found = np.empty(len(values))
    for q in np.unique(query):
        rows = np.flatnonzero(query == q)
        found[rows[np.argsort(-values[rows], kind="stable")]] = np.arange(1, len(rows) + 1)
    return found


SPECS = {
    "fixed": simulate_ranking(3000, items=7, curve={"a": (0, 1), "b": (-0.6, 1)}),
    "densities": simulate_ranking(3000, items=5, score={"a": (2, 5), "b": (5, 2)}, curve={"a": (0.4, 0.7), "b": (-0.3, 1.2)}),
    "sizes": simulate_ranking(3000, items=PoissonRows(4), shares={"a": 0.8, "b": 0.2}, curve={"a": (0, 1), "b": (0.8, 1)}),
    "queries alike": simulate_ranking(3000, items=6, query_correlation=0.5, curve={"a": (0, 1), "b": (-0.6, 1.5)}),
}


@pytest.mark.parametrize("name", SPECS)
def test_truth_is_what_large_samples_show(name):
    spec = SPECS[name]
    data = spec.data(1)
    calibrated = np.empty(len(data["score"]))
    for label in spec.groups:
        own = data["group"] == label
        calibrated[own] = spec.truth.curve(data["score"][own], label)
    before, after = ranks_by(data["query"], data["score"]), ranks_by(data["query"], calibrated)
    changes = {
        "rank_change": (before - after, spec.truth.rank_change()),
        "top_change": ((after <= 2) * 1.0 - (before <= 2), spec.truth.top_change(2)),
        "exposure_change": (1 / np.log2(1 + after) - 1 / np.log2(1 + before), spec.truth.exposure_change()),
    }
    for change, truth in changes.values():
        for label in spec.groups:
            own = data["group"] == label
            by_query = np.bincount(data["query"][own], change[own] - truth[label])
            assert abs(by_query.sum()) < Z * np.sqrt((by_query**2).sum())


def test_items_creators_and_outcomes_are_as_specified():
    spec = simulate_ranking(20_000, items=3, users={"a": 50, "b": 400}, user_correlation=0.5, shares={"a": 0.25, "b": 0.75})
    data = spec.data(0)
    assert np.bincount(data["query"]).tolist() == [3] * 20_000
    assert abs((data["group"] == "a").mean() - 0.25) < 0.01
    assert set(data["user"][data["group"] == "a"]) == set(range(50))
    assert data["user"][data["group"] == "b"].min() == 50
    assert abs((data["outcome"] - data["score"]).mean()) < 0.01
    means = np.bincount(data["user"], data["score"]) / np.bincount(data["user"])
    assert means[:50].std() > 0.1
    assert np.array_equal(spec.data(0)["score"], data["score"])
    assert not np.array_equal(spec.data(1)["score"], data["score"])


def test_no_curves_no_change():
    spec = simulate_ranking(10, curve=(0.5, 0.8))
    assert max(map(abs, spec.truth.rank_change().values())) < 1e-9
    assert max(map(abs, spec.truth.exposure_change().values())) < 1e-9


def test_frames_and_specification():
    spec = simulate_ranking(20, score=Discrete.spaced(5), groups=("x", "y", "z"))
    assert list(spec.data(0, frame="polars").columns) == ["query", "score", "outcome", "group", "user"]
    assert json.loads(json.dumps(spec.to_dict()))["items"] == {"kind": "FixedRows", "rows": 10}
    assert "20 queries" in repr(spec)


def test_a_study_of_rankings():
    spec = simulate_ranking(200, items=4)

    def mean_score(data, seed):
        return {"estimate": float(data["score"].mean())}

    row = es.study(spec, {"mean": mean_score}, runs=5, truth=0.5).rows()[0]
    assert abs(row["bias"]) < 0.03


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"queries": 0}, "queries=0"),
        ({"shares": {"a": 0.5, "b": 0.6}}, "add up to 1"),
        ({"query_correlation": 0.6, "user_correlation": 0.6}, "below 1"),
        ({"users": {"a": 3}}, "users is given for"),
        ({"groups": ()}, "at least one label"),
    ],
)
def test_bad_specifications(bad, message):
    with pytest.raises(es.OptionError, match=message):
        simulate_ranking(**bad)
