import numpy as np
import pytest
from oracle import KERNELS

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.estimation.bandwidth import (
    fold_risks,
    harmonic_users,
    residual_risks,
    risk_bandwidth,
    rule_of_thumb,
    settle,
    spread,
)
from evenscore.estimation.smoothing import Smoothing
from evenscore.tallies.view import GroupView


@pytest.fixture(scope="module")
def tally():
    return es.tally(as_dict(repeated_users(20_000, seed=1)), **NAMES)


def test_spread_is_within_groups():
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], 5000)
    data = {"s": np.clip(rng.normal(0.3 + 0.4 * group, 0.05), 0, 1), "y": group, "g": group, "u": np.arange(10_000)}
    tally = es.tally(data, **NAMES)
    assert spread(GroupView.each(tally, "user")) == pytest.approx(0.05, rel=0.02)


def test_rules_count_users():
    assert harmonic_users([200, 40]) == pytest.approx(2 / (1 / 200 + 1 / 40))
    assert rule_of_thumb(Smoothing(bandwidth="test"), deviation=2, users=32) == pytest.approx(1.06 * 2 / 2)
    assert rule_of_thumb(Smoothing(bandwidth="band"), deviation=2, users=16) == pytest.approx(1.06 * 2 / 2)
    assert rule_of_thumb(Smoothing(bandwidth="theorem"), deviation=2, users=8) == pytest.approx(1.06 * 2 / 2)
    assert rule_of_thumb(Smoothing(0, "gaussian4", "theorem"), deviation=2, users=128) == pytest.approx(1.06 * 2 / 2)
    assert rule_of_thumb(Smoothing(0, "gaussian6", "theorem"), deviation=2, users=2048) == pytest.approx(1.06 * 2 / 2)


def choose_bandwidth(tally, groups, bandwidth):
    return settle(Smoothing(bandwidth=bandwidth), [GroupView.of(tally, group, "user") for group in groups]).h


def test_repeating_rows_does_not_narrow_the_bandwidth(tally):
    data = {name: np.repeat(column, 5) for name, column in as_dict(repeated_users(20_000, seed=1)).items()}
    again = es.tally(data, **NAMES, lattice=tally)
    assert choose_bandwidth(again, (0, 1), bandwidth="test") == pytest.approx(choose_bandwidth(tally, (0, 1), bandwidth="test"))


def brute_fold_risk(rows, fold, h):
    """Leave-a-fold-of-users-out risk of local linear regression, from rows."""
    _, inverse, counts = np.unique(rows.user, return_inverse=True, return_counts=True)
    weight = 1 / counts[inverse]
    risk = 0.0
    for number in range(10):
        train, held = fold != number, fold == number
        u = (rows.score[train][None, :] - rows.score[held][:, None]) / h
        kw = KERNELS["gaussian"](u) * weight[train]
        s0, s1, s2 = kw.sum(1), (kw * u).sum(1), (kw * u * u).sum(1)
        t0, t1 = kw @ rows.outcome[train], (kw * u) @ rows.outcome[train]
        fit = (s2 * t0 - s1 * t1) / (s0 * s2 - s1**2)
        risk += (weight[held] * (rows.outcome[held] - fit) ** 2).sum()
    return risk


def test_fold_risk_against_rows():
    from evenscore.data.coding import folds, hash_integers

    rows = repeated_users(4000, seed=2, n_groups=1)
    tally = es.tally(as_dict(rows), **NAMES)
    candidates = np.array([0.03, 0.08, 0.2])
    found = fold_risks(GroupView.of(tally, 0, "user"), candidates, Smoothing())
    fold = folds(hash_integers(rows.user))
    expected = [brute_fold_risk(rows, fold, h) for h in candidates]
    np.testing.assert_allclose(found, expected, rtol=2e-3)


@pytest.mark.parametrize("seed", range(3))
def test_both_risks_find_a_sensible_bandwidth(seed):
    """Near the bandwidth with the smallest true error, which the known curve tells."""
    rng = np.random.default_rng(seed)
    n_users = 1500
    user = np.repeat(np.arange(n_users), 4)
    score = rng.random(len(user))
    truth = 0.5 + 0.3 * np.sin(7 * score)
    outcome = truth + 0.3 * rng.normal(size=n_users)[user] + 0.3 * rng.normal(size=len(user))
    tally = es.tally({"s": score, "y": outcome, "g": [0] * len(user), "u": user}, **NAMES)
    assert tally.lattice.scale == "score"
    sums = tally.sums(0)
    grid = np.linspace(0.05, 0.95, 60)
    target = 0.5 + 0.3 * np.sin(7 * grid)

    def error(h):
        return np.sqrt(((es.curves(tally, grid=grid, bandwidth=h)[0].estimate - target) ** 2).mean())

    candidates = np.geomspace(0.01, 0.6, 20)
    best = min(error(h) for h in candidates)
    view = GroupView.of(tally, 0, "user")
    by_folds = risk_bandwidth(view, Smoothing())
    by_residuals = candidates[np.argmin(residual_risks(view, candidates, Smoothing()))]
    for chosen in (by_folds, by_residuals):
        assert 0.02 < chosen < 0.2
        assert error(chosen) < best + 0.01
    assert sums.W.sum() == pytest.approx(n_users)


def test_unknown_rules_and_numbers(tally):
    with pytest.raises(es.OptionError, match="'test', 'band', 'theorem', 'risk'"):
        choose_bandwidth(tally, (0,), bandwidth="silverman")
    with pytest.raises(es.OptionError, match="positive"):
        choose_bandwidth(tally, (0,), bandwidth=-1)


def test_narrow_bandwidths_warn():
    rows = repeated_users(2000, seed=1)
    tally = es.tally(as_dict(rows), **NAMES, cells=16)
    with pytest.warns(es.EvenscoreWarning, match="more cells"):
        choose_bandwidth(tally, (0, 1), bandwidth=0.05)


@pytest.mark.parametrize("weighting", ["user", "row"])
def test_groups_compared_by_risk_share_the_geometric_mean_of_their_bandwidths(tally, weighting):
    own = [risk_bandwidth(view, Smoothing()) for view in GroupView.each(tally, weighting)]
    test = es.parity_test(tally, bandwidth="risk", weighting=weighting, method="sup", both=False, degree=1)
    assert test.pairs[0].bandwidth == pytest.approx(np.exp(np.mean(np.log(own))))


def test_rules_stop_at_half_a_cell_and_numbers_are_taken_as_they_are():
    tally = es.tally(as_dict(repeated_users(20_000, seed=1)), **NAMES, cells=8, scale="score")
    with pytest.warns(es.EvenscoreWarning, match="no wider than a cell, and nothing inside a cell can be seen"):
        assert choose_bandwidth(tally, (0, 1), bandwidth="theorem") == 0.5 / 8
    with pytest.warns(es.EvenscoreWarning, match="no wider than a cell"):
        assert choose_bandwidth(tally, (0, 1), bandwidth=0.01) == 0.01
