"""Rare outcomes whose scores crowd at 0: where hardly an event is expected nothing can be said, whatever skewness says."""

import dataclasses

import numpy as np
import pytest

import evenscore as es
from evenscore.estimation.comparison import compare_groups
from evenscore.estimation.gaps import estimate_gaps, least_third
from evenscore.estimation.smoothing import Smoothing
from support.looks import of_one

NAMES = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


def crowded(seed: int, gap: float = 0.0):
    """Scores near 0, most of which stand for no event at all; the small group is of 1 in 70 and may have a gap."""
    layout = np.random.default_rng(5)
    score, small = layout.beta(0.4, 20, 8000), layout.random(8000) < 0.0125
    outcome = np.random.default_rng(seed).random(8000) < score * 0.6 + gap * small
    return {"score": score, "outcome": outcome.astype(int), "group": np.where(small, "small", "large"), "user": np.arange(8000)}


def test_where_no_event_is_expected_no_gap_is_promised():
    """At the lowest score a fit below 0 left hardly any variance and a skewness of -1: a gap of .2 points would have been found."""
    test = es.parity_test(crowded(5), **NAMES, both=False)
    (pair,) = test.pairs
    assert "fewer than 3 expected events in small" in pair.too_rare and pair.score.min() > 0.01
    assert test.minimum_detectable_gap > 0.03
    found = [es.parity_test(crowded(seed, test.minimum_detectable_gap), **NAMES, both=False).p_value <= 0.05 for seed in range(40)]
    assert 0.6 <= np.mean(found) <= 0.97


@pytest.mark.parametrize("users", [(400, 400), (4000, 100), (60, 3000)])
@pytest.mark.parametrize("rate", [0.01, 0.3, 0.99])
def test_least_skewness_is_half_that_of_a_count(users, rate):
    """Ten scores with independent rows, each a point of its own: the third cumulants of binomial means, which are not raised."""
    rng = np.random.default_rng(0)
    n = np.repeat([0, 1], users)
    score = np.concatenate([np.arange(size) % 10 for size in users]) / 10
    outcome = (rng.random(len(n)) < rate).astype(int)
    outcome[:10], outcome[users[0] : users[0] + 10] = 1, 0
    tally = es.tally({"score": score, "outcome": outcome, "group": n, "user": np.arange(len(n))}, **NAMES)
    comparison = compare_groups(tally, 0, 1, "user")
    process = of_one(estimate_gaps, comparison, comparison.a.sums.position, Smoothing(bandwidth=0.1))
    pooled = comparison.outcome / comparison.weight
    sides = (process.side_a.law, process.scatter_a, users[0] / 10), (process.side_b.law, process.scatter_b, users[1] / 10)
    for law, scatter, size in sides:
        expected = pooled * (1 - pooled) * (1 - 2 * pooled) / size**2
        np.testing.assert_allclose(law.third, expected, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(least_third(law, scatter), expected, rtol=1e-9, atol=1e-15)
        flat = dataclasses.replace(law, third=np.zeros(10))
        np.testing.assert_allclose(least_third(flat, scatter), expected / 2, rtol=1e-9, atol=1e-15)
