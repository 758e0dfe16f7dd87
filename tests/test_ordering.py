"""Definition 2: no lower score may stand for a higher outcome than a higher score of another group."""

import json

import numpy as np
import pytest

import evenscore as es
from data import as_dict, repeated_users

NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}


def lending(n=4000, seed=0, fair=False):
    """Men are scored in [0, 1/2), women in [1/2, 1); unless fair, women default less all the same."""
    rng = np.random.default_rng(seed)
    women = np.arange(n) % 2 == 1
    score = rng.random(n) / 2 + 0.5 * women
    rate = score if fair else np.where(women, 0.1 + 0.3 * (score - 0.5), 0.2 + 0.6 * score)
    return {"s": score, "y": rng.random(n) < rate, "g": np.where(women, "women", "men"), "u": np.arange(n)}


def test_disjoint_scores_are_judged():
    tally = es.tally(lending(), **NAMES)
    assert es.parity_test(tally).verdict == "inconclusive"
    assert "do not overlap" in es.parity_test(tally).reason
    test = es.ordering_test(tally)
    assert test.verdict == "disparity"
    assert test.p_value < 1e-6
    pair = test.pairs[0]
    assert (pair.low_group, pair.high_group) == ("men", "women")
    assert pair.low_score < 0.5 < pair.high_score
    assert 0.5 < pair.at_least <= pair.misordered_share <= 1
    assert "men at score" in test.reason


def test_disjoint_and_calibrated_passes():
    test = es.ordering_test(es.tally(lending(fair=True), **NAMES))
    assert test.verdict == "inconclusive"
    assert test.p_value > 0.05
    assert test.pairs[0].at_least == 0


def true_share(curve_a, curve_b, n=200_000, seed=1):
    """The share of misordered pairs among people with uniform scores, by brute force."""
    rng = np.random.default_rng(seed)
    s, t = rng.random(n), rng.random(n)
    wrong = ((s < t) & (curve_a(s) > curve_b(t))) | ((s > t) & (curve_a(s) < curve_b(t)))
    return wrong.mean()


def test_misordered_share_against_brute_force():
    rng = np.random.default_rng(0)
    n = 40_000
    group, score = np.arange(n) % 2, rng.random(n)

    def high(s):
        return 0.3 + 0.5 * s

    def low(s):
        return 0.1 + 0.5 * s

    data = {"s": score, "y": rng.random(n) < np.where(group == 0, high(score), low(score)), "g": group, "u": np.arange(n)}
    test = es.ordering_test(es.tally(data, **NAMES))
    expected = true_share(high, low)
    assert test.misordered_share == pytest.approx(expected, abs=0.05)
    assert 0 < test.pairs[0].at_least < expected


def test_size_when_overlapping_and_calibrated():
    """Flat curves are the hardest null: every pair is a tie."""
    rejected = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        user = np.repeat(np.arange(400), 3)
        draw = np.where(rng.random(1200) < 0.6, rng.random(400)[user], rng.random(1200))
        data = {"s": rng.random(1200), "y": draw < 0.4, "g": user % 2, "u": user}
        rejected += es.ordering_test(es.tally(data, **NAMES)).p_value < 0.05
    assert rejected / 200 < 0.095


def test_near_ties_do_not_inflate_the_lower_limit():
    rng = np.random.default_rng(0)
    n = 4000
    data = {"s": rng.random(n), "y": rng.random(n) < 0.4, "g": np.arange(n) % 2, "u": np.arange(n)}
    pair = es.ordering_test(es.tally(data, **NAMES)).pairs[0]
    assert pair.misordered_share > 0.1
    assert pair.at_least == 0


def test_tolerance_allows_parity():
    rng = np.random.default_rng(0)
    n = 60_000
    score = rng.random(n)
    data = {"s": score, "y": rng.random(n) < 0.1 + 0.8 * score, "g": np.arange(n) % 2, "u": np.arange(n)}
    tally = es.tally(data, **NAMES)
    assert es.ordering_test(tally).verdict == "inconclusive"
    assert es.ordering_test(tally, tolerance=0.15).verdict == "parity"
    with pytest.raises(es.OptionError, match="tolerance=0"):
        es.ordering_test(tally, tolerance=0)
    with pytest.raises(es.OptionError, match="tolerance='x'"):
        es.ordering_test(tally, tolerance="x")


def test_spanning_users_and_many_groups():
    rows = repeated_users(6000, seed=1, spanning=True, n_groups=3)
    test = es.ordering_test(es.tally(as_dict(rows), **NAMES))
    assert len(test.pairs) == 3
    assert all(np.isfinite(pair.p_adjusted) for pair in test.pairs)
    assert (test.verdict, test.reason) == ("inconclusive", "no misordering is shown")  # once, not for every pair
    assert len(es.ordering_test(es.tally(as_dict(rows), **NAMES), reference=1).pairs) == 2


def test_few_scores_and_small_groups():
    data = {"s": [1, 2] * 30, "y": [0, 1] * 30, "g": ["a"] * 30 + ["b"] * 27 + ["c"] * 3, "u": range(60)}
    test = es.ordering_test(es.tally(data, **NAMES))
    reasons = {(pair.group_a, pair.group_b): pair.reason for pair in test.pairs}
    assert "c has nowhere 10 effective users" in reasons["a", "c"]


def test_constant_score_has_nothing_to_order():
    data = {"s": [0.5] * 200, "y": [0, 1] * 100, "g": ["a", "a", "b", "b"] * 50, "u": range(200)}
    test = es.ordering_test(es.tally(data, **NAMES))
    assert "no two different scores" in test.reason
    json.dumps(test.to_dict(), allow_nan=False)
