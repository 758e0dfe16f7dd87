"""Curves of two groups, each at points of its own, and all differences between a point of one and a higher point of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from evenscore.estimation.bands import Differences
from evenscore.estimation.bandwidth import settle
from evenscore.estimation.fitted_curves import within_users
from evenscore.estimation.gaps import MIN_EFFECTIVE, ROUNDING
from evenscore.estimation.inference import DRAWS, CommonNormals, Singles, correlation, draw_standard
from evenscore.estimation.laws import Law
from evenscore.estimation.scatters import Scatter, number_laws
from evenscore.estimation.smoothing import Smoothing, unsmoothed
from evenscore.estimation.spreads import (
    BORROWED_EVENTS,
    Around,
    Dependence,
    RateLaw,
    SideLaw,
    across_correlation,
    alike_pairs,
    effective_users,
    rate_law,
)
from evenscore.tallies.pairs import PairMatrices
from evenscore.tallies.view import GroupView
from evenscore.types import Floats, Ints, Mask

LEVELS = np.linspace(0.05, 0.95, 24)
HALF_EVENT = 0.5  # what is added where residuals are taken from a rate of 0: a side without events could have had some
# Standard errors from which on a fall within a group explains a misordering. With every estimated fall 4 % of groups of 500 that
# are flat and .1 apart were found, at 2 there are 42 %, and fair curves that fall gave 0 to 5 % of alarms; at 2.5 up to 20 %.
LIKELY = 2.0
AT_ONCE = 8  # pairs of points whose draws fit into a processor's cache


@dataclass(frozen=True, slots=True)
class OwnCurve:
    """A group's curve at n points of its own.

    points, mass, level: (n,), positions on the axis, what the group weighs there, and the curve; matrix: (n, n_cells), what makes
    it of outcome sums; around: the group's cells around its curve; scatter: how 0/1 outcomes (RateLaw) or others (Scatter) make
    the curve vary; share: how much of a user's dependence rests on what the group shows itself; parts: how the estimates go
    together, (n, n) each, see ``covariance``.
    """

    view: GroupView
    points: Floats
    mass: Floats
    level: Floats
    matrix: Floats
    around: Around
    scatter: RateLaw | Scatter
    share: float
    parts: tuple[Floats, ...]

    def covariance(self, share: float) -> Floats:
        """How the estimates go together, (n, n): as residuals do, and of rates by how many events can tell, a share, else as a
        user's rows would."""
        if len(self.parts) == 1:
            return self.parts[0]
        seen, otherwise = self.parts
        return share * seen + (1 - share) * otherwise


def own_curves(views: Sequence[GroupView], smoothing: Smoothing) -> list[OwnCurve | None]:
    """The curve of each group at quantiles of its scores; None when nowhere enough users are near."""
    rho = within_users([view for view in views if view.n_rows > 0])
    return [_own_curve(view, smoothing, rho) if view.n_rows > 0 else None for view in views]


def _own_curve(view: GroupView, smoothing: Smoothing, rho: float) -> OwnCurve | None:
    sums = view.sums
    if unsmoothed(view.lattice, sums):
        points, mass = sums.position[sums.W > 0], sums.W[sums.W > 0]
    else:
        points, counts = np.unique(view.quantiles(LEVELS), return_counts=True)
        mass = counts.astype(np.float64)
        smoothing = settle(smoothing, [view], rare=True)
    smooth = smoothing.smoother(view, points)
    effective = effective_users(view, smooth.matrix)
    keep = effective >= MIN_EFFECTIVE
    if not keep.any():
        return None
    level = smooth.curve(sums.Y, sums.tilt)[keep] + view.tally.centre
    fit, matrix, share = smoothing.fit_at(view), smooth.matrix[keep], 1.0
    scatter: RateLaw | Scatter
    if view.tally.binary:
        level, least = np.clip(level, 0, 1), HALF_EVENT / view.n_users
        around = Around.of(view, np.clip(fit, least, 1 - least))
        depend = Dependence.of(around, matrix, effective[keep])
        scatter, own = rate_law(depend, np.full(len(matrix), rho), BORROWED_EVENTS, own_fit=True)
        share, parts = float(np.median(own)), tuple(depend.covariance(around, part, rho) for part in (1.0, 0.0))
    else:
        around = Around.of(view, fit)
        whole = Scatter.of(around, matrix, effective[keep])
        scatter, parts = whole.alone, (whole.seen @ matrix.T,)
    return OwnCurve(view, points[keep], mass[keep] / mass[keep].sum(), level, matrix, around, scatter, share, parts)


def turn(curve: OwnCurve | None) -> OwnCurve | None:
    """The curve along the axis turned round, on which an outcome that falls rises."""
    if curve is None:
        return None
    back = np.arange(len(curve.points))[::-1]
    return replace(
        curve,
        points=-curve.points[back],
        mass=curve.mass[back],
        level=curve.level[back],
        matrix=curve.matrix[back],
        scatter=curve.scatter.at(back),
        parts=tuple(part[np.ix_(back, back)] for part in curve.parts),
    )


@dataclass(frozen=True, slots=True)
class PointPairs(Differences):
    """Two curves end to end, N points, and n pairs of a point of one and a higher one of the other: the lower minus the higher.

    low, high: (n,), which points; mass: (n,), the share of pairs of people; across: (n,), what of the difference no decline within
    a group explains, and across_se: (n,), what it may be off by; law: how the differences are distributed if both points have one
    expected outcome, null_low, null_high: and each of the two; corr: how the N estimates go together, (N, N).
    """

    low: Ints
    high: Ints
    mass: Floats
    across: Floats
    across_se: Floats
    law: Law
    null_low: Law
    null_high: Law
    corr: Floats

    @property
    def varies(self) -> Mask:
        """Where outcomes vary beyond rounding, (n,)."""
        return np.asarray(self.law.variance > ROUNDING * self.law.variance.max(initial=1e-300))

    def beyond(self, tolerance: float) -> Floats:
        """How far each difference is above what is tolerated, in normal quantiles, (n,).

        Without a tolerance, as if both points had one expected outcome: of 0/1 outcomes a score test of two rates.
        """
        if tolerance == 0:
            return self.law.z(self.values)
        wrong = self.values > tolerance
        far = np.zeros(len(wrong))
        far[wrong] = self.at(wrong).excess(tolerance)
        return far

    def beyond_across(self, tolerance: float, beyond: Floats) -> Floats:
        """The same for what no decline within a group explains, (n,); beyond: for the differences themselves."""
        explained = self.across < self.values
        if not explained.any():
            return beyond
        own, far = self.at(explained), beyond.copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            # The decline that would explain it may be less well known than the two points themselves.
            least = np.where(own.across_se > 0, (own.across - tolerance) / own.across_se, np.inf)
        far[explained] = np.minimum(replace(own, values=own.across).beyond(tolerance), np.maximum(least, 0.0))
        return far

    def at(self, keep: Mask) -> PointPairs:
        """Only these pairs."""
        kept = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "corr"}
        return replace(self, **{name: value.at(keep) if hasattr(value, "at") else value[keep] for name, value in kept.items()})

    def at_most(self, tolerance: float, z: float) -> Mask:
        """Which differences are shown to be less than a tolerance, at z normal quantiles."""
        return np.asarray(self.limits(z)[1] < tolerance)

    def maxima(self, rng: CommonNormals | np.random.Generator) -> Floats:
        """The largest of all differences, in standard errors, in draws of both curves without a difference; (DRAWS,)."""
        return self.maxima_of(draw_standard(self.corr, rng, DRAWS))

    def maxima_of(self, drawn_points: Floats | Singles) -> Floats:
        """The same in these draws of the N estimates, in standard errors, (draws, N); (draws,)."""
        noise = np.ascontiguousarray(drawn_points.T, dtype=np.float32)
        part_low, part_high = ((null.se / self.law.se).astype(np.float32) for null in (self.null_low, self.null_high))
        largest = np.full(noise.shape[1], -np.inf, dtype=np.float32)
        for start in range(0, len(self.low), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            drawn, taken = noise[self.low[some]], noise[self.high[some]]
            drawn *= part_low[some, None]
            taken *= part_high[some, None]
            drawn -= taken
            np.maximum(largest, drawn.max(axis=0), out=largest)
        return largest.astype(np.float64)


def point_pairs(a: OwnCurve, b: OwnCurve) -> PointPairs:
    """All pairs of a point of one and a higher point of the other; the first points are those of a."""
    points = np.concatenate([a.points, b.points])
    of_b = np.arange(len(points)) >= len(a.points)
    low, high = np.nonzero((points[:, None] < points[None, :]) & (of_b[:, None] != of_b[None, :]))
    covariance = _joint_covariance(a, b)
    level, mass = np.concatenate([a.level, b.level]), np.concatenate([a.mass, b.mass])
    pairs = _differences(low, high, level, mass, covariance, _end_to_end(a.scatter, b.scatter))
    across, variance = np.empty(len(low)), np.empty(len(low))
    own, start = np.diag(covariance), len(a.points)
    for side, other, (first, second) in ((a, b, (0, start)), (b, a, (start, 0))):
        mine = of_b[low] == (side is b)
        i, j = low[mine] - first, high[mine] - second
        # Everybody of either group between the two scores: a decline there would explain the difference.
        last = np.searchsorted(side.points, other.points[j], side="right") - 1
        earliest = np.searchsorted(other.points, side.points[i])
        var_low, var_high = own[first : first + len(side.points)], own[second : second + len(other.points)]
        falls_after, falls_before = (
            _likely_falls(curve.level, covariance[at : at + len(curve.points), at : at + len(curve.points)])
            for curve, at in ((side, first), (other, second))
        )
        least = side.level[i] - np.maximum.accumulate(falls_after, axis=1)[i, last]
        most = other.level[j] + np.maximum.accumulate(falls_before[::-1], axis=0)[::-1][earliest, j]
        across[mine] = least - most
        variance[mine] = _largest_between(var_low)[i, last] + _largest_between(var_high)[earliest, j]
    return replace(pairs, across=across, across_se=np.sqrt(np.maximum(variance, 0)))


def own_pairs(curve: OwnCurve) -> PointPairs:
    """All pairs of a point of a group's curve and a higher one: where the lower one is above, the score is not monotone."""
    low, high = np.nonzero(curve.points[:, None] < curve.points[None, :])
    return _differences(low, high, curve.level, curve.mass, curve.covariance(curve.share), curve.scatter)


def _likely_falls(level: Floats, covariance: Floats) -> Floats:
    """By how much each point is above a later one, (n, n), where that is more than LIKELY standard errors; otherwise 0."""
    fall, own = level[:, None] - level[None, :], np.diag(covariance)
    se = np.sqrt(np.maximum(own[:, None] + own[None, :] - 2 * covariance, 0))
    return np.where((fall > LIKELY * se) & (np.arange(len(level))[:, None] < np.arange(len(level))), fall, 0.0)


def _largest_between(values: Floats) -> Floats:
    """The largest of values[i] to values[j], (n, n), for i <= j."""
    n = len(values)
    return np.maximum.accumulate(np.where(np.arange(n)[:, None] <= np.arange(n), values, -np.inf), axis=1)


def _differences(low: Ints, high: Ints, level: Floats, mass: Floats, covariance: Floats, scatter: RateLaw | Scatter) -> PointPairs:
    """Pairs of N points with these levels, masses and covariance."""
    corr = correlation(covariance)
    together = np.clip(corr[low, high], -1, 1)
    side_low: SideLaw
    side_high: SideLaw
    if isinstance(scatter, RateLaw):
        side_low, side_high = scatter.at(low), scatter.at(high)
        rate = _common_rate(level[low], side_low, level[high], side_high)
        null_low, null_high = side_low.with_rate(rate), side_high.with_rate(rate)
    else:
        side_low, side_high = number_laws(scatter.at(low), scatter.at(high))
        null_low, null_high = side_low.law, side_high.law
    values = level[low] - level[high]
    return PointPairs(
        values=values,
        level_a=level[low],
        level_b=level[high],
        side_a=side_low,
        side_b=side_high,
        together=together,
        low=low,
        high=high,
        mass=mass[low] * mass[high] / max(float((mass[low] * mass[high]).sum()), 1e-300),
        across=values,
        across_se=np.zeros(len(values)),
        law=null_low.minus(null_high, together * null_low.se * null_high.se),
        null_low=null_low,
        null_high=null_high,
        corr=corr,
    )


def _common_rate(low: Floats, side_low: RateLaw, high: Floats, side_high: RateLaw) -> Floats:
    """The one rate that two estimates speak for, each as much as it would be precise with that rate."""
    return np.asarray((low * side_high.squares + high * side_low.squares) / (side_low.squares + side_high.squares))


def _joint_covariance(a: OwnCurve, b: OwnCurve) -> Floats:
    """Of the estimates of both, (N, N): as residuals go together, and as a user's rows would, by how many events can tell."""
    n, share = len(a.points), min(a.share, b.share)
    joint = np.zeros((n + len(b.points),) * 2)
    joint[:n, :n], joint[n:, n:] = a.covariance(share), b.covariance(share)
    shared = a.view.shared_pairs(b.view)
    if shared is not None:
        joint[:n, n:] = a.matrix @ _shared_cells(a, b, shared, share) @ b.matrix.T
        joint[n:, :n] = joint[:n, n:].T
    return joint


def _shared_cells(a: OwnCurve, b: OwnCurve, shared: PairMatrices, share: float) -> Floats:
    seen = shared.residual(a.around.fit, b.around.fit)
    if a.around.known is None:
        return seen
    alike = alike_pairs(shared, a.around.fit, b.around.fit)
    return share * seen + (1 - share) * across_correlation(seen, alike) * alike


def _end_to_end(one: Any, other: Any) -> Any:
    """Two records of arrays as one, the second after the first."""
    if isinstance(one, np.ndarray):
        return np.concatenate([one, other])
    return replace(one, **{field.name: _end_to_end(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)})
