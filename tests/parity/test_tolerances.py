"""Which tolerances a pair exceeds or lies within, beside the test at these tolerances."""

import numpy as np
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.estimation.multiplicity import CriticalP, holm, single_step

BESIDE = 1e-7  # of a limit: the test at a tolerance a little smaller and a little larger


def told(pair, tolerance):
    return "disparity" if tolerance < pair.exceeds else "parity" if tolerance > pair.within else "inconclusive"


@pytest.mark.parametrize(
    ("n_groups", "options"),
    [(2, {"weighting": "row", "method": "holm"}), (3, {}), (3, {"alpha": 0.004})],  # the last leaves too few draws: Holm's method
)
def test_a_verdict_changes_where_it_is_said_to(n_groups, options):
    rows = repeated_users(1200 * n_groups, seed=n_groups, n_groups=n_groups, rows_per_user=2, gap=0.3)
    data = as_dict(rows)
    if n_groups > 2:  # few values are quick to compare
        data["s"] = np.ceil(rows.score * 6) / 6
    tally = es.tally(data, cells=64, **NAMES)
    base = es.parity_test(tally, both=False, **options)
    assert any(pair.exceeds > 0 for pair in base.pairs)
    limits = [limit for pair in base.pairs for limit in (pair.exceeds, pair.within) if 0 < limit < np.inf]
    some = np.random.default_rng(1)
    tried = [limit * (1 + side * BESIDE) for limit in some.permutation(limits)[:2] for side in (-1, 1)]
    for tolerance in [*tried, some.uniform(0.001, 0.3)]:
        test = es.parity_test(tally, both=False, tolerance=float(tolerance), **options)
        assert [pair.verdict for pair in test.pairs] == [told(pair, tolerance) for pair in base.pairs], tolerance
    assert [pair.exceeds for pair in test.pairs] == [pair.exceeds for pair in base.pairs]


def test_numbers_have_tolerances_of_their_own_unit():
    rows = repeated_users(800, seed=5, n_groups=2, rows_per_user=2)
    data = as_dict(rows) | {"y": 100 * rows.score + 20 * rows.group + np.random.default_rng(1).normal(size=len(rows.score))}
    pair = es.parity_test(es.tally(data, cells=64, **NAMES), both=False).pairs[0]
    assert 15 < pair.exceeds < 20 < pair.within < 30


def test_a_pair_that_cannot_be_judged_exceeds_nothing():
    data = {"s": [0.1, 0.2, 0.8, 0.9] * 3, "y": [0, 1] * 6, "g": ["a"] * 6 + ["b"] * 6, "u": range(12)}
    pair = es.parity_test(data, **NAMES).pairs[0]
    assert (pair.exceeds, pair.within) == (-np.inf, np.inf)


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05])
def test_the_critical_p_value_is_that_of_the_adjustment(alpha):
    rng = np.random.default_rng(4)
    minima = rng.beta(1, 3, 1000)
    critical = CriticalP.of_single_step(alpha, minima, 20)
    others = np.array([1e-9, 0.4, 0.9])
    for p in np.concatenate([np.sort(minima)[:80], rng.uniform(0, 2 * alpha, 200)]):
        adjusted = single_step([p, *others], minima, 20)[0][0]
        by_holm = p <= critical.ceiling and holm([p, *others])[0] <= alpha
        assert (adjusted <= alpha) == (by_holm if critical.own is None else p <= critical.own)


def test_adjusted_p_values_never_fall_as_p_values_rise():
    """Draws that go together make a p-value of the draws far smaller than Holm's, which serves below them."""
    minima = np.random.default_rng(1).uniform(size=1000)
    p = np.linspace(1e-4, 0.1, 300)
    adjusted = [single_step([value, *[0.9] * 44], minima, 20)[0][0] for value in p]
    assert np.all(np.diff(adjusted) >= 0)
