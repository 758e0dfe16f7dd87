"""Rare outcomes, small groups and curves that bend fast: levels, gaps and promises that hold there."""

import numpy as np
import pytest
from scipy import optimize, stats

import evenscore as es
from data import NAMES


def two_values(counts, events):
    """One row a user at a score of 1, and as many users without any event at 0: groups of ``counts`` with so many events."""
    group = np.repeat(np.arange(len(counts)), counts)
    outcome = np.concatenate([np.arange(n) < k for n, k in zip(counts, events, strict=True)]).astype(float)
    columns = {"s": np.ones(len(group)), "y": outcome, "g": group}
    below = {"s": np.zeros(len(group)), "y": np.zeros(len(group)), "g": group}
    data = {name: np.concatenate([column, below[name]]) for name, column in columns.items()}
    return data | {"u": np.arange(len(data["s"]))}


def judged(counts, events, **options):
    return es.marginal_test(es.tally(two_values(counts, events), **NAMES), threshold=0.5, both=False, **options)


def wilson_hilferty(u, gamma):
    """The normal quantile of a standardised gamma variable of this skewness."""
    return 6 / gamma * (np.cbrt(1 + gamma * u / 2) - 1) + gamma / 6 if abs(gamma) > 1e-6 else u


@pytest.mark.parametrize(("counts", "events"), [((60, 900), (6, 30)), ((400, 400), (12, 25)), ((80, 2000), (70, 1900))])
def test_p_value_is_that_of_a_score_test_of_two_proportions(counts, events):
    n, k = np.array(counts), np.array(events)
    rate, pooled = k / n, k.sum() / n.sum()
    spread = pooled * (1 - pooled)
    se = np.sqrt(spread * (1 / n).sum())
    skewness = spread * (1 - 2 * pooled) * (1 / n[0] ** 2 - 1 / n[1] ** 2) / se**3
    expected = 2 * stats.norm.sf(abs(wilson_hilferty((rate[0] - rate[1]) / se, skewness)))
    pair = judged(counts, events).pairs[0]
    assert pair.gap == pytest.approx(rate[0] - rate[1])
    assert pair.p_value == pytest.approx(expected, rel=1e-6)


def test_limits_are_those_of_a_score_with_skewness_or_without_and_put_together():
    counts, events = (60, 900), (6, 30)
    test = judged(counts, events)
    found = []
    for group, (n, k) in enumerate(zip(counts, events, strict=True)):

        def away(p, n=n, k=k):
            se = np.sqrt(p * (1 - p) / n)
            return wilson_hilferty((k / n - p) / se, (1 - 2 * p) / np.sqrt(p * (1 - p) * n))

        wilson = stats.binomtest(k, n).proportion_ci(method="wilson")
        low = min(optimize.brentq(lambda p: away(p) - 1.959964, 1e-4, k / n), wilson.low)
        high = max(optimize.brentq(lambda p: away(p) + 1.959964, k / n, 0.5), wilson.high)
        level = test.by_group[group]
        assert (level["ci_low"], level["ci_high"]) == pytest.approx((low, high), rel=1e-5)
        found.append((low, k / n, high))
    (low_a, a, high_a), (low_b, b, high_b) = found
    pair = test.pairs[0]
    assert pair.ci_low == pytest.approx(a - b - np.hypot(a - low_a, high_b - b), rel=1e-5)
    assert pair.ci_high == pytest.approx(a - b + np.hypot(high_a - a, b - low_b), rel=1e-5)


def test_a_side_without_events_shows_no_parity():
    """0 of 30 allow 10 %: a band that collapses around 0 would call that within .05."""
    test = judged((30, 5000), (0, 100), tolerance=0.05)
    level = test.by_group[0]
    assert level["estimate"] == 0 and level["ci_low"] == 0 and level["ci_high"] > 0.08 and level["se"] > 0.005
    assert test.verdict == "inconclusive" and test.pairs[0].ci_low < -0.02 and test.pairs[0].ci_high > 0.06
    full = judged((30, 5000), (30, 4900), tolerance=0.05)
    assert full.by_group[0]["ci_low"] < 0.92 and full.by_group[0]["ci_high"] == 1 and full.verdict == "inconclusive"
    nobody = judged((30, 5000), (0, 0))
    assert nobody.verdict == "inconclusive" and "do not vary" in nobody.reason


def test_too_few_expected_events_are_named():
    test = judged((30, 20_000), (1, 40))
    assert test.verdict == "inconclusive" and np.isnan(test.p_value)
    assert "fewer than 1 expected event in g = 0 at the threshold" in test.reason
    mirrored = judged((30, 20_000), (29, 19_960))
    assert "fewer than 1 expected outcome of 0 in g = 0" in mirrored.reason


def test_one_user_is_not_judged():
    test = judged((1, 500), (1, 50))
    assert test.verdict == "inconclusive" and "only 1.0 effective users" in test.reason
    assert np.isnan(test.by_group[0]["ci_low"]) or test.by_group[0]["ci_low"] >= 0


def test_a_tolerance_makes_no_p_value_smaller():
    for counts, events in (((40, 40), (38, 2)), ((100, 2000), (30, 60)), ((400, 400), (40, 60))):
        plain = judged(counts, events)
        for tolerance in (1e-6, 0.01, 0.05):
            within = judged(counts, events, tolerance=tolerance)
            assert within.pairs[0].p_value >= plain.pairs[0].p_value
            assert within.p_equal == plain.p_equal


def uniform(rng, n_a, n_b, curve, score_a=(1, 1), score_b=(1, 1)):
    score = np.concatenate([rng.beta(*score_a, n_a), rng.beta(*score_b, n_b)])
    group = np.repeat([0, 1], [n_a, n_b])
    return {"s": score, "y": (rng.random(len(score)) < curve(score, group)) * 1.0, "g": group, "u": np.arange(n_a + n_b)}


def verdicts(runs, *design, seed, t=0.5, **scores):
    found = []
    for run in range(runs):
        data = uniform(np.random.default_rng([seed, run]), *design, **scores)
        found.append(es.marginal_test(es.tally(data, **NAMES, cuts=[t], cells=128, scale="score"), threshold=t, both=False))
    return found


def test_size_with_rare_outcomes_and_a_small_group():
    """A quarter of these were called a disparity when a side's own few events gave its standard error."""
    tests = verdicts(40, 600, 6000, lambda s, g: 0.04 * s, seed=1)
    assert sum(test.verdict == "disparity" for test in tests) <= 6  # 40 times 5 % plus 3 standard deviations
    level = [test.by_group[0] for test in tests]
    assert np.mean([one["ci_low"] <= 0.02 <= one["ci_high"] for one in level]) >= 0.85


def test_size_on_a_curve_that_bends_fast():
    """Half of these were called a disparity: with different densities the bias of a line does not cancel."""
    wave = {"score_a": (2, 4), "score_b": (4, 2)}
    tests = verdicts(24, 5000, 5000, lambda s, g: 0.5 + 0.4 * np.sin(40 * s), seed=2, **wave)
    assert sum(test.verdict == "disparity" for test in tests) <= 4
    assert np.median([test.bandwidth for test in tests]) < 0.04  # it was halved
    fixed = uniform(np.random.default_rng(1), 20_000, 20_000, lambda s, g: 0.5 + 0.4 * np.sin(40 * s), **wave)
    stubborn = es.marginal_test(es.tally(fixed, **NAMES, cuts=[0.5]), threshold=0.5, bandwidth=0.06)
    assert stubborn.bandwidth == 0.06 and "bends so fast within the bandwidth 0.06" in stubborn.reason


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "n_a", "n_b"), [(0.05, 600, 6000), (0.3, 600, 6000), (0.3, 800, 800)])
def test_promised_power_comes_true(rate, n_a, n_b):
    promised = np.median([t.minimum_detectable_gap for t in verdicts(20, n_a, n_b, lambda s, g: rate + 0 * s, seed=3)])
    tests = verdicts(150, n_a, n_b, lambda s, g: rate + promised * (g == 0), seed=4)
    assert np.mean([test.verdict == "disparity" for test in tests]) == pytest.approx(0.8, abs=0.1 + 2 * np.sqrt(0.16 / 150))


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "n_a", "n_b"), [(0.02, 600, 6000), (0.05, 600, 6000), (0.05, 500, 500), (0.3, 200, 4000)])
def test_size_and_coverage_in_the_grid(rate, n_a, n_b):
    tests = verdicts(200, n_a, n_b, lambda s, g: 2 * rate * s, seed=5)
    assert np.mean([test.verdict == "disparity" for test in tests]) <= 0.08 + 2 * np.sqrt(0.08 * 0.92 / 200)
    covered = [test.by_group[0]["ci_low"] <= rate <= test.by_group[0]["ci_high"] for test in tests]
    assert np.mean(covered) >= 0.92 - 2 * np.sqrt(0.08 * 0.92 / 200)
