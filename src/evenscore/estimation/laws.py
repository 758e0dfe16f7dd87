"""How far chance may take an estimate: its variance, its skewness, and how its own standard error follows it.

A mean of rare or skewed outcomes is not normal, and a standard error that is estimated from the same few events is small just when
the mean is low. Both are known to first order: with u = (estimate - truth) / se of skewness gamma, and an estimated variance that
is expected to be se^2 (1 + C u), the studentised value is t = u / sqrt(1 + C u). Its expansion is Hall's (1992, section 2.4),
P(t <= x) = Phi(x) - phi(x) [-C / 2 + (gamma - 3 C) (x^2 - 1) / 6].
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from evenscore.estimation.inference import welch_t, welch_z
from evenscore.types import Floats, Ints, Mask

NORMAL = 1e6  # degrees of freedom from which nobody can tell Student from Gauss
LEAST = 0.04  # of a variance: the expansion does not reach further, where a standard error would be five times too small
STRAIGHT = 1e-6  # a skewness below this changes nothing that could be told apart
MOST = 1e50  # where a variance is rounding, skewness may be anything; more than this overflows

Laws = TypeVar("Laws")


@dataclass(frozen=True, slots=True)
class Law:
    """The distribution of n estimates around what they estimate, (n,) each.

    variance; third: the third cumulant; pull: the covariance with the estimated variance, 0 where the variance is known from
    elsewhere; noise: the variance of the estimated variance that the estimate itself does not explain.
    """

    variance: Floats
    third: Floats
    pull: Floats
    noise: Floats

    @classmethod
    def normal(cls, variance: Floats, df: Floats) -> Law:
        """No skewness: Student's t with df degrees of freedom."""
        flat = np.zeros_like(variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            return cls(variance, flat, flat, np.where(np.isinf(df), 0.0, 2 * variance**2 / df))

    @property
    def se(self) -> Floats:
        """Standard errors."""
        return np.sqrt(np.maximum(self.variance, 0))

    @property
    def df(self) -> Floats:
        """Satterthwaite's degrees of freedom of the variance, given the estimate."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.noise > 0, 2 * self.variance**2 / self.noise, np.inf)

    @property
    def skewness(self) -> Floats:
        """gamma, the third standardised cumulant; 0 where nothing varies."""
        return self._standardised(self.third)

    @property
    def pulled(self) -> Floats:
        """C, how the estimated variance follows the estimate."""
        return self._standardised(self.pull)

    def _standardised(self, cumulant: Floats) -> Floats:
        se = self.se
        size = se * se * se
        return np.divide(cumulant, size, out=np.zeros_like(size), where=size > 0)

    def at(self, keep: Mask | Ints | slice) -> Law:
        """Only these."""
        return Law(self.variance[keep], self.third[keep], self.pull[keep], self.noise[keep])

    @property
    def shape(self) -> Law:
        """The same without doubt about the variance: how the estimates themselves are distributed."""
        flat = np.zeros_like(self.variance)
        return Law(self.variance, self.third, flat, flat)

    @property
    def turned(self) -> Law:
        """The law of what has the other sign."""
        return Law(self.variance, -self.third, -self.pull, self.noise)

    def minus(self, other: Law, shared: Floats | float = 0.0) -> Law:
        """The law of a difference; shared: the covariance of the two."""
        variance = np.maximum(self.variance + other.variance - 2 * shared, 0)
        return Law(variance, self.third - other.third, self.pull - other.pull, self.noise + other.noise)

    def z(self, deviations: Floats) -> Floats:
        """Deviations as normal quantiles with the same tail probability."""
        with np.errstate(divide="ignore", invalid="ignore"):
            t = deviations / self.se
        return welch_z(unskew(follow(t, self.pulled), self.skewness), self.df)

    def rough_z(self, deviations: Floats) -> Floats:
        """The same within .02 from three degrees of freedom on (Wallace 1959), at a tenth of the cost: for thousands of draws."""
        t = unskew(follow(deviations / self.se, self.pulled), self.skewness)
        df = np.minimum(self.df, NORMAL)
        return np.copysign((8 * df + 1) / (8 * df + 3) * np.sqrt(df * np.log1p(t**2 / df)), t)

    def deviations(self, z: Floats) -> Floats:
        """The inverse of ``z``: which deviations have these normal quantiles."""
        return self.of_t(self.t(np.asarray(z)))

    def t(self, z: Floats) -> Floats:
        """Student quantiles with the tail probability of normal ones."""
        return np.copysign(welch_t(np.abs(z), self.df), z)

    def of_t(self, t: Floats) -> Floats:
        """The deviations that have these Student quantiles."""
        u = skew(t, self.skewness)
        with np.errstate(over="ignore", invalid="ignore"):  # infinite t, or sums that contradict each other
            return u / np.sqrt(np.maximum(1 + self.pulled * u, LEAST)) * self.se


def stack(parts: Sequence[Laws]) -> Laws:
    """Several of one kind (dataclasses of arrays (n,), or of such) as one, one after the other; what is neither is that of all."""
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {}
    for field in fields(parts[0]):  # type: ignore[arg-type]
        values = [getattr(part, field.name) for part in parts]
        if isinstance(values[0], np.ndarray):
            columns[field.name] = np.concatenate(values)
        else:
            columns[field.name] = stack(values) if is_dataclass(values[0]) else values[0]
    return type(parts[0])(**columns)


def blocks(sizes: Iterable[int]) -> list[slice]:
    """Where each of several of these sizes lies when they are stacked one after the other."""
    ends = list(itertools.accumulate(sizes, initial=0))
    return [slice(start, end) for start, end in itertools.pairwise(ends)]


def within(values: Floats, low: float = 0.0, high: float = 1.0) -> Floats:
    """``np.clip``, which takes five times as long for the few values of a curve."""
    return np.minimum(np.maximum(values, low), high)


def follow(t: Floats, pulled: Floats) -> Floats:
    """u from t = u / sqrt(1 + C u): what the value would be in units of its true standard error."""
    known = np.isfinite(t)  # without a standard error it is infinite
    half = np.where(known, t, 0.0) * pulled / 2
    return np.where(known, t * (half + np.sqrt(half**2 + 1)), t)


def unskew(u: Floats, skewness: Floats) -> Floats:
    """The normal quantile of a standardised gamma variable u with this skewness (Wilson and Hilferty 1931)."""
    bent = np.abs(skewness) > STRAIGHT
    gamma = np.where(bent, within(skewness, -MOST, MOST), 1.0)
    root = np.cbrt(np.maximum(1 + gamma * np.where(np.isfinite(u), u, 0.0) / 2, 0))
    return np.where(bent & np.isfinite(u), 6 / gamma * (root - 1) + gamma / 6, u)


def skew(z: Floats, skewness: Floats) -> Floats:
    """The inverse of ``unskew``."""
    bent = np.abs(skewness) > STRAIGHT
    gamma = np.where(bent, within(skewness, -MOST, MOST), 1.0)
    root = within(gamma / 6 * (z - gamma / 6) + 1, 0, 1e100)
    return np.where(bent, 2 / gamma * (root * root * root - 1), z)
