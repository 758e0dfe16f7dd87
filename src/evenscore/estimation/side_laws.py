"""How estimates of one side are distributed, and what limits follow: rates of 0/1 outcomes, and means of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evenscore.estimation.inference import welch_t
from evenscore.estimation.laws import STRAIGHT, Law, within
from evenscore.types import Floats, Ints, Mask

ROUNDS = 3  # towards a limit
DOUBLINGS = 20  # of a step to where a limit is passed
CLOSEST = 1e-6  # an angle from an end that is none
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
        return self.with_rate(within(self.rate + gap))

    @np.errstate(divide="ignore", over="ignore", invalid="ignore")  # where nothing varies, or sums contradict each other
    def limits(self, level: Floats, z: Floats | float) -> tuple[Floats, Floats]:
        """Score limits: rates whose own law has the estimate z away (Wilson 1927), with skewness or without, whichever is wider.

        Of few events the lower limit is too high without, and the upper one too low with it: 0 of 60 allow 6 %.
        """
        rate = within(level)
        df = np.where(self.noise > 0, 2 / np.where(self.noise > 0, self.noise, 1.0), np.inf)
        far = np.minimum(np.abs(welch_t(np.broadcast_to(np.minimum(z, SMALLEST), rate.shape), df)), FARTHEST)
        # Where nothing is known of the variance there are no limits; see the end.
        root = far**2 * np.where(np.isfinite(self.squares), self.squares, 0.0)
        middle, width = rate + root / 2, np.sqrt(root * rate * (1 - rate) + root**2 / 4)
        start = within(np.stack([(middle - width) / (1 + root), (middle + width) / (1 + root)]))  # rounding may go beyond
        limit = self._further(rate, far, start)
        low, high = np.where(np.isfinite(self.squares), limit, np.nan)
        return low, high

    def _further(self, rate: Floats, far: Floats, start: Floats) -> Floats:
        """Limits, (2, n), that are as wide with skewness, where it takes them further than without.

        Ridders' method along the angle whose squared sine is the rate: times the standard error of a row, which goes to 0 at both
        ends, the excess over ``far`` bends little there.
        """
        end = np.array([[0.0], [1.0]])

        def excess(angle: Floats) -> Floats:
            sine = np.sin(angle)
            return sine * np.cos(angle) * (self._deviation(rate, sine * sine) - far)

        near, ends = np.arcsin(np.sqrt(within(start))), np.abs(np.arcsin(end) - CLOSEST)
        reach = near - np.arcsin(np.sqrt(rate))
        at_near = excess(near)
        wider = (at_near < 0) & (reach != 0)
        otherwise = np.where(at_near < 0, end, start)
        beyond = _towards(near, reach, ends)
        at_beyond = excess(beyond)
        for _ in range(DOUBLINGS):
            short = wider & (at_beyond <= 0) & (beyond != ends)
            if not short.any():
                break
            near, at_near, reach = np.where(short, beyond, near), np.where(short, at_beyond, at_near), 2 * reach
            beyond = np.where(short, _towards(beyond, reach, ends), beyond)
            at_beyond = excess(beyond)
        wider &= at_beyond > 0
        angle = near
        for _ in range(ROUNDS):
            middle = (near + beyond) / 2
            at_middle = excess(middle)
            bent = np.sqrt(np.where(wider, at_middle * at_middle - at_near * at_beyond, 1.0))
            angle = middle - np.where(wider, (middle - near) * at_middle / bent, 0.0)
            at_angle = excess(angle)
            # Of the four points, in order from near to beyond, the two between which the sign changes.
            turned = at_middle > 0
            inner, at_inner = np.where(turned, angle, middle), np.where(turned, at_angle, at_middle)
            outer, at_outer = np.where(turned, middle, angle), np.where(turned, at_middle, at_angle)
            first, last = at_inner > 0, at_outer <= 0
            near = np.where(first, near, np.where(last, outer, inner))
            at_near = np.where(first, at_near, np.where(last, at_outer, at_inner))
            beyond = np.where(first, inner, np.where(last, beyond, outer))
            at_beyond = np.where(first, at_inner, np.where(last, at_beyond, at_outer))
        return np.where(wider, np.sin(angle) ** 2, within(otherwise))

    def _deviation(self, rate: Floats, truth: Floats) -> Floats:
        """How far estimates are from a rate that they may have, in normal quantiles, without doubt about the variance.

        As ``unskew(follow(t, followed * gamma), gamma)`` of t deviations and skewness gamma, at half the cost.
        """
        per_error = 1 / np.sqrt(truth * (1 - truth) * self.squares)
        t = (rate - truth) * per_error
        gamma = (1 - 2 * truth) * (self.cubes / self.squares) * per_error
        gamma = np.where(np.abs(gamma) > STRAIGHT, gamma, STRAIGHT)
        half = t * gamma * (self.followed / 2)
        u = t * (half + np.sqrt(half * half + 1))
        return np.abs(6 / gamma * (np.cbrt(np.maximum(1 + gamma * u / 2, 0)) - 1) + gamma / 6)


def _towards(angle: Floats, step: Floats, ends: Floats) -> Floats:
    """A step further, but not beyond the end."""
    return np.where(np.abs(step) < np.abs(ends - angle), angle + step, ends)


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
