"""Score limits of rates against plain bisection, and cumulative sums that end inside cells."""

import numpy as np
import pytest

from evenscore.estimation.gaps import ENDS, _upto
from evenscore.estimation.inference import welch_t
from evenscore.estimation.laws import Law, follow, unskew
from evenscore.estimation.side_laws import RateLaw

CLOSE = 0.002  # of the distance of two limits: three rounds of Ridders' method
ROUNDING = 1e-12


def laws(n=600, seed=0):
    """Rates from 0 to 1, 10 to 100,000 users with more or less alike rows, known variances and estimated ones."""
    rng = np.random.default_rng(seed)
    rate = np.where(rng.random(n) < 0.1, 0.0, 10 ** rng.uniform(-4, -0.31, n))
    rate = np.where(rng.random(n) < 0.3, 1 - rate, rate)
    users, effect = 10 ** rng.uniform(1, 5, n), 1 + rng.exponential(1, n)
    squares = effect / users
    cubes = squares / users * np.sqrt(effect) * rng.uniform(0.5, 3, n)
    followed = rng.uniform(0, 1, n) * (rng.random(n) < 0.7)
    noise = np.where(rng.random(n) < 0.5, 0.0, 2 / users)
    return RateLaw(Law(squares, cubes, cubes, noise), rate, squares, cubes, followed, noise)


def bisected(law, z):
    """From Wilson's limits on towards 0 and 1, as long as the estimate is no more than z away."""
    df = np.where(law.noise > 0, 2 / np.where(law.noise > 0, law.noise, 1.0), np.inf)
    far = np.abs(welch_t(np.full(len(law.rate), z), df))
    root = far**2 * law.squares
    middle, width = law.rate + root / 2, np.sqrt(root * law.rate * (1 - law.rate) + root**2 / 4)
    near = np.stack([(middle - width) / (1 + root), (middle + width) / (1 + root)])
    beyond = np.repeat([[0.0], [1.0]], len(law.rate), axis=1)
    for _ in range(60):
        truth = (near + beyond) / 2
        variance = np.maximum(truth * (1 - truth) * law.squares, 1e-30)
        skewness = truth * (1 - truth) * (1 - 2 * truth) * law.cubes / variance**1.5
        deviation = np.abs(unskew(follow((law.rate - truth) / np.sqrt(variance), law.followed * skewness), skewness))
        inside = deviation <= far
        near, beyond = np.where(inside, truth, near), np.where(inside, beyond, truth)
    return near


@pytest.mark.parametrize("z", [1.0, 1.96, 2.9, 4.5])
def test_limits_are_those_of_bisection(z):
    law = laws()
    low, high = law.limits(law.rate, z)
    expected = bisected(law, z)
    assert ((low >= 0) & (low <= law.rate + ROUNDING) & (law.rate <= high + ROUNDING) & (high <= 1)).all()
    assert (np.abs(np.stack([low, high]) - expected) <= CLOSE * (expected[1] - expected[0])).all()


def test_no_event_among_sixty_thousand_users():
    """Limits were looked for in steps of .00024, and the upper one was 6.4e-05."""
    users = 60_000.0
    one = np.ones(1)
    law = RateLaw(Law(one / users, one / users**2, one, 0 * one), 0 * one, one / users, 2.3 * one / users**2, 0.96 * one, 0 * one)
    low, high = law.limits(np.zeros(1), 1.96)
    assert low[0] == 0 and high[0] == pytest.approx(bisected(law, 1.96)[1, 0], rel=CLOSE)
    assert high[0] > 1e-4


def test_sums_end_at_the_same_people_however_wide_cells_are():
    rng = np.random.default_rng(0)
    fine = rng.random(200)
    joined = fine.reshape(50, 4).sum(axis=1)
    upto = _upto(fine, whole=False)
    assert upto @ fine == pytest.approx(np.arange(1, ENDS + 1) / ENDS * fine.sum())
    assert _upto(joined, whole=False) @ joined == pytest.approx(upto @ fine)
    assert (np.diff(upto, axis=0) >= 0).all() and upto[-1] == pytest.approx(1)
    assert set(np.unique(_upto(fine, whole=True))) == {0.0, 1.0}
