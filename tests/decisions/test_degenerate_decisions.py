"""Whatever the data: a result or a reason, no warning, and limits around the estimate."""

import warnings

import numpy as np
import pytest

import evenscore as es

NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}


def degenerate(rng):
    n = int(rng.integers(1, 60))
    values = rng.choice(np.array([0, 1, 0.5, 1e-300, 1 - 1e-16, 1e9, -1, 3.0]), int(rng.integers(1, 5)), replace=False)
    outcome = [np.zeros(n), np.ones(n), rng.integers(0, 2, n).astype(float), rng.normal(size=n)][int(rng.integers(4))]
    if rng.random() < 0.3:
        outcome[rng.random(n) < 0.5] = np.nan
    user = rng.integers(0, int(rng.integers(1, n + 1)), n)
    return {"s": rng.choice(values, n), "y": outcome, "g": rng.integers(0, int(rng.integers(1, 4)), n), "u": user}


def check(row):
    if np.isfinite(row["ci_low"]):
        assert 0 <= row["ci_low"] <= row["estimate"] + 1e-12 and row["estimate"] <= row["ci_high"] + 1e-12 <= 1 + 2e-12
    else:
        assert row["reason"]


@pytest.mark.parametrize("seed", range(12))
def test_degenerate_frames(seed):
    rng = np.random.default_rng(seed)
    data = degenerate(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", es.EvenscoreWarning)
        try:
            tally = es.tally(data, **NAMES, nulls="unlabelled")
        except es.EvenscoreError:
            return
        for threshold in (float(data["s"][0]), "median"):
            found = es.decision_metrics(tally, threshold=threshold, weighting=("user", "row")[seed % 2])
            for row in found.rows():
                check(row)
            assert repr(found) and found.to_dict()
            for metric in found.metrics:
                found.difference(metric), found.ratio(metric)
        curves = es.decision_curves(tally)
        assert repr(curves) and curves.to_dict() and isinstance(curves.roc, list)


def test_a_tally_of_0_1_0_has_no_limits_of_selection_rates():
    from pathlib import Path

    tally = es.Tally.load(Path(__file__).parents[1] / "golden" / "unlabelled.tally")
    assert sum(tally.n_unlabelled.values()) > 0
    found = es.decision_metrics(tally, threshold="median")
    assert all(np.isnan(row["ci_low"]) and "anew" in row["reason"] for row in found.rows())
