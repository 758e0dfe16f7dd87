"""The gap as it is shown: each side's curve by itself, with limits that no null is imposed on."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from evenscore.estimation.comparison import Comparison
from evenscore.estimation.inference import CommonNormals, correlation, draw_standard, small_sample, standard_errors
from evenscore.estimation.kernels import Smoother
from evenscore.estimation.laws import stack
from evenscore.estimation.nulls import Dispersion, Null
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.spreads import NumberLaw, SideLaw, scaled_law
from evenscore.tallies.view import GroupView, residual_covariance
from evenscore.types import Floats, Mask

BORROWED_USERS = 20  # users' worth of variance that a side takes from both together; own fits leave small residuals
FARTHEST = 10.0  # normal quantiles: how far beyond a tolerance a gap can be told to be
STEPS = 16


@dataclass(frozen=True, slots=True)
class Differences:
    """n differences of two estimates, a minus b, (n,) each.

    values, level_a, level_b: the differences, and what they are made of; side_a, side_b: how these are distributed; together: the
    correlation of the two, of users that both have.
    """

    values: Floats
    level_a: Floats
    level_b: Floats
    side_a: SideLaw
    side_b: SideLaw
    together: Floats

    def limits(self, z: Floats | float) -> tuple[Floats, Floats]:
        """Limits of each at z normal quantiles: those of the two sides put together (Newcombe 1998, Zou and Donner 2008)."""
        if isinstance(self.side_a, NumberLaw):
            shared = self.together * self.side_a.law.se * self.side_b.law.se
            both = NumberLaw(self.side_a.law.minus(self.side_b.law, shared))
            return both.limits(self.values, z)
        (low_a, low_b), (high_a, high_b) = _limits_of_both(self.side_a, self.level_a, self.side_b, self.level_b, z)
        below = _joined(self.level_a - low_a, high_b - self.level_b, self.together)
        above = _joined(high_a - self.level_a, self.level_b - low_b, self.together)
        return self.values - below, self.values + above

    @property
    def errors(self) -> Floats:
        """Standard errors: half the distance of the limits at one normal quantile, so that a rate without an event has one."""
        low, high = self.limits(1.0)
        return (high - low) / 2

    def excess(self, tolerance: float) -> Floats:
        """How far beyond the tolerance each gap is, in normal quantiles: where its limit reaches it; 0 for a gap within."""
        near, far = np.zeros_like(self.values), np.full_like(self.values, FARTHEST)
        above = self.values > 0
        for _ in range(STEPS):
            middle = (near + far) / 2
            low, high = self.limits(middle)
            beyond = np.where(above, low > tolerance, high < -tolerance)
            near, far = np.where(beyond, middle, near), np.where(beyond, far, middle)
        return np.where(np.abs(self.values) > tolerance, near, 0.0)


@dataclass(frozen=True, slots=True)
class ShownGap(Differences):
    """The curve of side a minus that of side b at n points, with what is known about it.

    se, effective_a, effective_b: (n,); matrix_a, matrix_b: (n, n_cells), what makes the curves of outcome sums; corr: how the gaps
    go together, (n, n).
    """

    se: Floats
    effective_a: Floats
    effective_b: Floats
    matrix_a: Floats
    matrix_b: Floats
    corr: Floats

    @property
    def is_known(self) -> Mask:
        """Where limits can be given, (n,)."""
        return np.isfinite(self.values) & np.isfinite(self.se) & (self.se > 0)

    def at(self, keep: Mask) -> ShownGap:
        """Only these."""
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        corr, side_a, side_b = kept.pop("corr"), kept.pop("side_a"), kept.pop("side_b")
        rest = {name: value[keep] for name, value in kept.items()}
        return ShownGap(**rest, corr=corr[np.ix_(keep, keep)], side_a=side_a.at(keep), side_b=side_b.at(keep))

    def maxima(self, rng: CommonNormals) -> Floats:
        """The largest of all gaps in normal quantiles, in draws of what chance does to them, (DRAWS,)."""
        known = self.is_known
        return np.abs(draw_standard(self.corr[np.ix_(known, known)], rng)).max(axis=1, initial=0.0).astype(np.float64)

    def band(self, alpha: float, maxima: Floats) -> tuple[Floats, Floats]:
        """Limits of all gaps at once."""
        known = self.is_known
        low, high = np.full(len(known), np.nan), np.full(len(known), np.nan)
        if known.any():
            lower, upper = self.limits(float(np.quantile(maxima, 1 - alpha)))
            low[known], high[known] = lower[known], upper[known]
        return low, high


def _limits_of_both(side_a: SideLaw, level_a: Floats, side_b: SideLaw, level_b: Floats, z: Floats | float) -> tuple[Floats, Floats]:
    """The lower and the upper limits of two sides, (2, n) each."""
    z = np.broadcast_to(z, level_a.shape)
    low, high = stack([side_a, side_b]).limits(np.concatenate([level_a, level_b]), np.concatenate([z, z]))
    return low.reshape(2, -1), high.reshape(2, -1)


def _joined(one: Floats, other: Floats, together: Floats) -> Floats:
    return np.sqrt(np.maximum(one**2 + other**2 - 2 * together * one * other, 0))


def shown_gap(comparison: Comparison, points: Floats, smoothing: Smoothing, null: Null) -> ShownGap:
    """The gap at the points; the null only tells how outcomes scatter and how a user's rows go together."""
    a, b = comparison.sides
    smooth_a, smooth_b = comparison.smoothers(points, smoothing, sloped=not a.tally.binary)
    spread = null.spread(smooth_a.matrix, smooth_b.matrix)
    level_a, level_b = (_level(view, smooth) for view, smooth in ((a, smooth_a), (b, smooth_b)))
    if isinstance(spread.side_a, NumberLaw) and isinstance(spread.side_b, NumberLaw):
        return _of_numbers(comparison, smooth_a, level_a, spread.side_a, smooth_b, level_b, spread.side_b, spread)
    level_a, level_b = np.clip(level_a, 0, 1), np.clip(level_b, 0, 1)
    low, high = _limits_of_both(spread.side_a, level_a, spread.side_b, level_b, 1.0)
    se_a, se_b = (high - low) / 2  # of a rate without a single event it is not 0
    return ShownGap(
        values=level_a - level_b,
        se=_joined(se_a, se_b, spread.together),
        effective_a=spread.effective_a,
        effective_b=spread.effective_b,
        level_a=level_a,
        level_b=level_b,
        matrix_a=smooth_a.matrix,
        matrix_b=smooth_b.matrix,
        side_a=spread.side_a,
        side_b=spread.side_b,
        together=spread.together,
        corr=spread.corr,
    )


def _level(view: GroupView, smooth: Smoother) -> Floats:
    return smooth.curve(view.sums.Y, view.sums.tilt) + view.tally.centre


def _of_numbers(
    comparison: Comparison,
    smooth_a: Smoother,
    level_a: Floats,
    side_a: NumberLaw,
    smooth_b: Smoother,
    level_b: Floats,
    side_b: NumberLaw,
    spread: Dispersion,
) -> ShownGap:
    """With the variance around each side's own local fits, and the shape of both together."""
    a, b = comparison.sides
    fit_a, fit_b = (smooth.matrix * smooth.local_fit(side.sums.Y) for side, smooth in ((a, smooth_a), (b, smooth_b)))
    cov_a, cov_b = a.covariance(smooth_a.matrix, fit_a), b.covariance(smooth_b.matrix, fit_b)
    var_a, var_b = _borrowing(np.diag(cov_a), spread.effective_a, np.diag(cov_b), spread.effective_b)
    side_a, side_b = scaled_law(side_a, var_a), scaled_law(side_b, var_b)
    up_a, up_b = _rescale(var_a, cov_a), _rescale(var_b, cov_b)
    covariance = cov_a * np.outer(up_a, up_a) + cov_b * np.outer(up_b, up_b)
    covariance[np.diag_indices(len(covariance))] = var_a + var_b
    together = np.zeros_like(var_a)
    if comparison.cross is not None:
        cross = residual_covariance(comparison.cross, smooth_a.matrix, fit_a, smooth_b.matrix, fit_b) * np.outer(up_a, up_b)
        covariance = covariance - cross - cross.T
        size = np.sqrt(var_a * var_b)
        together = np.clip(np.divide(np.diag(cross), size, out=together, where=size > 0), -1, 1)
    return ShownGap(
        values=level_a - level_b,
        se=standard_errors(covariance),
        effective_a=spread.effective_a,
        effective_b=spread.effective_b,
        level_a=level_a,
        level_b=level_b,
        matrix_a=smooth_a.matrix,
        matrix_b=smooth_b.matrix,
        side_a=side_a,
        side_b=side_b,
        together=together,
        corr=correlation(covariance),
    )


def _borrowing(own_a: Floats, users_a: Floats, own_b: Floats, users_b: Floats) -> tuple[Floats, Floats]:
    """Variances that few users are not trusted with: as if more had shown the variance of both sides together.

    Only upwards: a band must not become narrower because the other side varies less.
    """
    own_a, own_b = (np.maximum(own, 0) * small_sample(users) ** 2 for own, users in ((own_a, users_a), (own_b, users_b)))
    common = (users_a**2 * own_a + users_b**2 * own_b) / (users_a + users_b)
    a, b = (
        (users**2 * own + BORROWED_USERS * common) / (users + BORROWED_USERS) / users
        for own, users in ((own_a, users_a), (own_b, users_b))
    )
    return np.maximum(a, own_a), np.maximum(b, own_b)


def _rescale(variance: Floats, covariance: Floats) -> Floats:
    own = np.diag(covariance)
    return np.sqrt(np.divide(variance, own, out=np.zeros_like(own), where=own > 0))
