"""Differences between points of two curves, against the plain arithmetic of rows."""

import numpy as np
import pytest

import evenscore as es
from evenscore.estimation.inference import draw_normal
from evenscore.estimation.point_pairs import own_curves, point_pairs
from evenscore.estimation.smoothing import Smoothing
from evenscore.tallies.view import GroupView

NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u", "scale": "score"}
CLOSE = 1e-9  # sums in another order, and Wilson and Hilferty's roots


def rare(n=3000, values=4, rate=0.06, seed=0):
    """One row a user, a fifth of them in group 1, scores of few values, rates that rise with the score."""
    rng = np.random.default_rng(seed)
    score = rng.integers(1, values + 1, n)
    return {"s": score, "y": rng.random(n) < rate * score / values, "g": (rng.random(n) < 0.2).astype(int), "u": np.arange(n)}


def pairs_of(data, **smoothing):
    tally = es.tally(data, **NAMES)
    curves = own_curves(GroupView.each(tally, "user"), Smoothing(**smoothing))
    return curves, point_pairs(*curves)


def score_z(low, high):
    """Two rates as linear sums (weights, outcomes): a score test with the common rate's variance, and its skewness taken out."""
    (w, y), (k, x) = low, high
    squares, others = (w**2).sum(), (k**2).sum()
    f, g = np.clip(w @ y, 0, 1), np.clip(k @ x, 0, 1)
    p = (f / squares + g / others) / (1 / squares + 1 / others)
    variance = p * (1 - p) * (squares + others)
    gamma = p * (1 - p) * (1 - 2 * p) * ((w**3).sum() - (k**3).sum()) / variance**1.5
    t = (f - g) / np.sqrt(variance)
    return f - g, 6 / gamma * (np.cbrt(1 + gamma * t / 2) - 1) + gamma / 6


def test_two_rates_are_compared_by_a_score_test():
    data = rare()
    (a, b), pairs = pairs_of(data)
    scores = np.concatenate([a.view.lattice.to_score(a.points), b.view.lattice.to_score(b.points)])
    groups = np.repeat([0, 1], [len(a.points), len(b.points)])

    def mean(point):
        mine = (data["s"] == scores[point]) & (data["g"] == groups[point])
        return np.full(mine.sum(), 1 / mine.sum()), data["y"][mine].astype(float)

    assert len(pairs.low) == 2 * 6  # of four scores in either group
    for number, (low, high) in enumerate(zip(pairs.low, pairs.high, strict=True)):
        assert scores[low] < scores[high] and groups[low] != groups[high]
        value, z = score_z(mean(low), mean(high))
        assert pairs.values[number] == pytest.approx(value, abs=CLOSE)
        assert pairs.beyond(0.0)[number] == pytest.approx(z, abs=CLOSE)


def local_weights(score, point, h):
    """A local linear fit at a point, as weights of rows."""
    kernel, distance = np.exp(-0.5 * ((score - point) / h) ** 2), score - point
    s0, s1, s2 = (kernel @ distance**power for power in range(3))
    return kernel * (s2 - s1 * distance) / (s0 * s2 - s1**2)


def test_smoothed_rates_are_compared_by_a_score_test():
    data, h = rare(values=30), 4.0
    (a, b), pairs = pairs_of(data, bandwidth=h)
    points, groups = np.concatenate([a.points, b.points]), np.repeat([0, 1], [len(a.points), len(b.points)])
    for number in range(0, len(pairs.low), 7):
        sides = []
        for point in (pairs.low[number], pairs.high[number]):
            mine = data["g"] == groups[point]
            sides.append((local_weights(data["s"][mine], points[point], h), data["y"][mine].astype(float)))
        value, z = score_z(*sides)
        assert pairs.values[number] == pytest.approx(value, abs=CLOSE)
        assert pairs.beyond(0.0)[number] == pytest.approx(z, abs=CLOSE)


def test_users_of_both_groups_make_their_curves_go_together():
    """With residuals that are told by thousands of events, the correlation is that of sums of users' residuals."""
    rng = np.random.default_rng(0)
    n = 4000
    user, group = np.repeat(np.arange(n), 2), np.tile([0, 1], n)
    score = rng.integers(1, 3, 2 * n)
    outcome = np.repeat(rng.normal(size=n), 2) + rng.normal(size=2 * n)
    (a, _), pairs = pairs_of({"s": score, "y": outcome, "g": group, "u": user})
    (number,) = np.flatnonzero((pairs.low == 0) & (pairs.high == len(a.points) + 1))

    def residuals(of, value):
        mine = (group == of) & (score == value)
        return np.bincount(user[mine], outcome[mine] - outcome[mine].mean(), minlength=n)

    low, high = residuals(0, 1), residuals(1, 2)
    expected = low @ high / np.sqrt((low @ low) * (high @ high))
    assert expected > 0.2
    assert pairs.together[number] == pytest.approx(expected, abs=CLOSE)


def test_the_largest_of_draws_is_that_of_all_pairs():
    _, pairs = pairs_of(rare())
    drawn = draw_normal(pairs.corr, np.random.default_rng(3))
    size_low, size_high = pairs.null_low.se, pairs.null_high.se
    together = np.sqrt(size_low**2 + size_high**2)
    each = (size_low * drawn[:, pairs.low] - size_high * drawn[:, pairs.high]) / together
    assert pairs.maxima(np.random.default_rng(3)) == pytest.approx(each.max(axis=1), abs=1e-5)  # in single precision


def test_what_one_group_wins_the_other_loses():
    """Races with a candidate in either group: where few events tell, curves were taken to rise together (10 % false alarms)."""
    rng = np.random.default_rng(0)
    chance = rng.random(40)
    won, user = rng.random(40) < chance, np.repeat(np.arange(40), 20)
    score = np.clip(chance[user] + rng.normal(0, 0.05, len(user)), 0.01, 0.99)
    scores, outcomes = np.concatenate([score, 1 - score]), np.concatenate([won[user], ~won[user]]).astype(float)
    data = {"s": scores, "y": outcomes, "g": np.repeat([0, 1], len(score)), "u": np.tile(user, 2)}
    (a, b), pairs = pairs_of(data, bandwidth="band")
    assert a.share < 0.5  # most of the dependence is borrowed
    across = pairs.corr[: len(a.points), len(a.points) :]
    middle = [int(np.abs(curve.points - 0.5).argmin()) for curve in (a, b)]
    assert across.max() < 0.01 and across[middle[0], middle[1]] < -0.8
