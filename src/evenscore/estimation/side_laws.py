"""How estimates of one side are distributed, and what limits follow: rates of 0/1 outcomes, and means of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evenscore.estimation.inference import welch_t
from evenscore.estimation.laws import Law, follow, unskew
from evenscore.types import Floats, Ints, Mask

HALVINGS = 12  # of a limit's bracket
SMALLEST = 37.0  # normal quantiles: no probability beyond is a number
FARTHEST = 1e8  # normal quantiles: no limit lies further away


class SideLaw(Protocol):
    """How n estimates of one side are distributed, and what limits follow."""

    @property
    def law(self) -> Law:
        """Around the fit that residuals were taken from."""

    def limits(self, level: Floats, z: Floats | float) -> tuple[Floats, Floats]:
        """The smallest and the largest expected outcome that these estimates are within z normal quantiles of."""

    def at(self, keep: Mask | Ints | slice) -> SideLaw:
        """Only these."""

    def moved(self, gap: Floats | float) -> Law:
        """The law if all expected outcomes were higher by this."""


@dataclass(frozen=True, slots=True)
class RateLaw:
    """0/1 outcomes, (n,) each: with rate p the variance is p (1 - p) squares and the third cumulant p (1 - p) (1 - 2 p) cubes.

    rate: around which the law is; followed: how much of the third cumulant the estimated variance follows; noise: its own, as a
    share of the squared variance.
    """

    law: Law
    rate: Floats
    squares: Floats
    cubes: Floats
    followed: Floats
    noise: Floats

    def at(self, keep: Mask | Ints | slice) -> RateLaw:
        """Only these."""
        return RateLaw(
            self.law.at(keep), self.rate[keep], self.squares[keep], self.cubes[keep], self.followed[keep], self.noise[keep]
        )

    def with_rate(self, rate: Floats) -> Law:
        """The law of the estimates if this were the rate."""
        variance = rate * (1 - rate) * self.squares
        third = rate * (1 - rate) * (1 - 2 * rate) * self.cubes
        return Law(variance, third, self.followed * third, self.noise * variance**2)

    def moved(self, gap: Floats | float) -> Law:
        """The law if all rates were higher by this."""
        return self.with_rate(np.clip(self.rate + gap, 0, 1))

    def limits(self, level: Floats, z: Floats | float) -> tuple[Floats, Floats]:
        """Score limits: rates whose own law has the estimate z away (Wilson 1927), with skewness or without, whichever is wider.

        Of few events the lower limit is too high without, and the upper one too low with it: 0 of 60 allow 6 %.
        """
        rate = np.clip(level, 0, 1)
        df = np.where(self.noise > 0, 2 / np.where(self.noise > 0, self.noise, 1.0), np.inf)
        far = np.minimum(np.abs(welch_t(np.broadcast_to(np.minimum(z, SMALLEST), rate.shape), df)), FARTHEST)
        # Where nothing is known of the variance there are no limits; see the end.
        root = far**2 * np.where(np.isfinite(self.squares), self.squares, 0.0)
        middle, width = rate + root / 2, np.sqrt(root * rate * (1 - rate) + root**2 / 4)
        start = np.stack([(middle - width) / (1 + root), (middle + width) / (1 + root)])
        # Between a limit without skewness and an end, by halving, and along a straight line in the bracket that is left.
        near, beyond = start, np.repeat([[0.0], [1.0]], len(rate), axis=1)
        at_near, at_beyond = np.zeros_like(start), np.full_like(start, np.inf)
        for _ in range(HALVINGS):
            middle = (near + beyond) / 2
            excess = self._deviation(rate, middle) - far
            inside = excess <= 0
            near, at_near = np.where(inside, middle, near), np.where(inside, excess, at_near)
            beyond, at_beyond = np.where(inside, beyond, middle), np.where(inside, at_beyond, excess)
        reach = np.divide(-at_near, at_beyond - at_near, out=np.ones_like(near), where=np.isfinite(at_beyond) & (at_beyond > 0))
        # A step towards the end that was never taken leaves the limit without skewness.
        limit = np.where(near == start, start, near + reach * (beyond - near))
        low, high = np.where(np.isfinite(self.squares), limit, np.nan)
        return low, high

    def _deviation(self, rate: Floats, truth: Floats) -> Floats:
        """How far estimates are from a rate that they may have, in normal quantiles, without doubt about the variance."""
        spread = truth * (1 - truth)
        se = np.sqrt(np.maximum(spread * self.squares, 0))
        size = se * se * se
        known = size > 0
        t = np.divide(rate - truth, se, out=np.zeros_like(se), where=known)
        skewness = spread * (1 - 2 * truth) * self.cubes / np.where(known, size, 1.0)
        return np.abs(unskew(follow(t, self.followed * skewness), skewness))


def score_error(side: SideLaw, level: Floats) -> Floats:
    """Half the distance of the limits at one standard error: of a rate without a single event it is not 0."""
    low, high = side.limits(level, 1.0)
    return (high - low) / 2


@dataclass(frozen=True, slots=True)
class NumberLaw:
    """Outcomes of any size: what they show themselves."""

    law: Law

    def at(self, keep: Mask | Ints | slice) -> NumberLaw:
        """Only these."""
        return NumberLaw(self.law.at(keep))

    def moved(self, gap: Floats | float) -> Law:
        """The same: the spread of outcomes has nothing to do with their level."""
        return self.law

    def limits(self, level: Floats, z: Floats | float) -> tuple[Floats, Floats]:
        """The estimate less what chance may have added."""
        return level - self.law.deviations(np.asarray(z)), level - self.law.deviations(-np.asarray(z))
