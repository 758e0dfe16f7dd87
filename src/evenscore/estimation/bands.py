"""The gap as it is shown: each side's curve by itself, with limits that no null is imposed on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from evenscore.estimation.comparison import Comparison
from evenscore.estimation.gaps import Look
from evenscore.estimation.inference import CommonNormals, correlation, draw_standard, small_sample, standard_errors
from evenscore.estimation.kernels import Smoother
from evenscore.estimation.laws import blocks, stack
from evenscore.estimation.nulls import Contrast, Dispersion, disperse
from evenscore.estimation.scatters import scaled_law
from evenscore.estimation.side_laws import NumberLaw
from evenscore.estimation.spreads import SideLaw
from evenscore.tables import values_of
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

    @property
    def differences(self) -> Differences:
        """These alone, without what more is known."""
        return Differences(**values_of(self, Differences.__slots__))

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
        if keep.all():
            return self
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        corr, side_a, side_b = kept.pop("corr"), kept.pop("side_a"), kept.pop("side_b")
        rest = {name: value[keep] for name, value in kept.items()}
        return ShownGap(**rest, corr=corr[np.ix_(keep, keep)], side_a=side_a.at(keep), side_b=side_b.at(keep))

    def maxima(self, rng: CommonNormals) -> Floats:
        """The largest of all gaps in normal quantiles, in draws of what chance does to them, (DRAWS,)."""
        known = self.is_known
        return np.abs(draw_standard(self.corr[np.ix_(known, known)], rng)).max(axis=1, initial=0.0).astype(np.float64)


def bands(gaps: Sequence[ShownGap], alpha: float, maxima: Sequence[Floats]) -> list[tuple[Floats, Floats]]:
    """For each comparison limits of all gaps at once."""
    whole, known = stack([gap.differences for gap in gaps]), [gap.is_known for gap in gaps]
    far = [float(np.quantile(own, 1 - alpha)) if some.any() else 0.0 for own, some in zip(maxima, known, strict=True)]
    low, high = whole.limits(np.repeat(far, [len(some) for some in known]))
    return [
        (np.where(some, low[place], np.nan), np.where(some, high[place], np.nan))
        for some, place in zip(known, blocks(map(len, known)), strict=True)
    ]


def _limits_of_both(side_a: SideLaw, level_a: Floats, side_b: SideLaw, level_b: Floats, z: Floats | float) -> tuple[Floats, Floats]:
    """The lower and the upper limits of two sides, (2, n) each."""
    z = np.broadcast_to(z, level_a.shape)
    low, high = stack([side_a, side_b]).limits(np.concatenate([level_a, level_b]), np.concatenate([z, z]))
    return low.reshape(2, -1), high.reshape(2, -1)


def _joined(one: Floats, other: Floats, together: Floats) -> Floats:
    return np.sqrt(np.maximum(one**2 + other**2 - 2 * together * one * other, 0))


@dataclass(frozen=True, slots=True)
class _TwoCurves:
    """The curves of two sides: what makes them, their levels at n points, (n,), and how they spread."""

    comparison: Comparison
    smooth_a: Smoother
    smooth_b: Smoother
    level_a: Floats
    level_b: Floats
    spread: Dispersion

    def shown(self, side_a: SideLaw, side_b: SideLaw, together: Floats, se: Floats, corr: Floats) -> ShownGap:
        """Their difference, with these laws and standard errors."""
        return ShownGap(
            values=self.level_a - self.level_b,
            se=se,
            effective_a=self.spread.effective_a,
            effective_b=self.spread.effective_b,
            level_a=self.level_a,
            level_b=self.level_b,
            matrix_a=self.smooth_a.matrix,
            matrix_b=self.smooth_b.matrix,
            side_a=side_a,
            side_b=side_b,
            together=together,
            corr=corr,
        )


def shown_gaps(looks: Sequence[Look]) -> list[ShownGap]:
    """For each comparison the gap at the points; the null only tells how outcomes scatter and how a user's rows go together."""
    binary = looks[0].comparison.a.tally.binary
    smooths = [look.comparison.smoothers(look.points, look.smoothing, sloped=not binary) for look in looks]
    contrasts = [Contrast(a.matrix, b.matrix, (a.matrix, b.matrix)) for a, b in smooths]
    spreads = disperse([look.null for look in looks], contrasts)
    curves = [
        _TwoCurves(look.comparison, a, b, _level(look.comparison.a, a), _level(look.comparison.b, b), spread)
        for look, (a, b), spread in zip(looks, smooths, spreads, strict=True)
    ]
    return _of_rates(curves) if binary else [_of_numbers(both) for both in curves]


def _of_rates(curves: Sequence[_TwoCurves]) -> list[ShownGap]:
    """With score limits of each side, those of all comparisons end to end."""
    side_a, side_b = stack([both.spread.side_a for both in curves]), stack([both.spread.side_b for both in curves])
    level_a, level_b = (np.concatenate([getattr(both, name) for both in curves]) for name in ("level_a", "level_b"))
    low, high = _limits_of_both(side_a, level_a, side_b, level_b, 1.0)
    se_a, se_b = (high - low) / 2  # of a rate without a single event it is not 0
    se = _joined(se_a, se_b, np.concatenate([both.spread.together for both in curves]))
    places = blocks(len(both.level_a) for both in curves)
    return [
        both.shown(both.spread.side_a, both.spread.side_b, both.spread.together, se[place], both.spread.corr)
        for both, place in zip(curves, places, strict=True)
    ]


def _level(view: GroupView, smooth: Smoother) -> Floats:
    """The curve; a rate stays within [0, 1]."""
    level = smooth.curve(view.sums.Y, view.sums.tilt) + view.tally.centre
    return np.clip(level, 0, 1) if view.tally.binary else level


def _of_numbers(both: _TwoCurves) -> ShownGap:
    """With the variance around each side's own local fits, and the shape of both together."""
    (a, b), spread, cross = both.comparison.sides, both.spread, both.comparison.cross
    side_a, side_b, l_a, l_b = spread.side_a, spread.side_b, both.smooth_a.matrix, both.smooth_b.matrix
    assert isinstance(side_a, NumberLaw) and isinstance(side_b, NumberLaw)
    fit_a, fit_b = l_a * both.smooth_a.local_fit(a.sums.Y), l_b * both.smooth_b.local_fit(b.sums.Y)
    cov_a, cov_b = a.covariance(l_a, fit_a), b.covariance(l_b, fit_b)
    var_a, var_b = _borrowing(np.diag(cov_a), spread.effective_a, np.diag(cov_b), spread.effective_b)
    up_a, up_b = _rescale(var_a, cov_a), _rescale(var_b, cov_b)
    covariance = cov_a * np.outer(up_a, up_a) + cov_b * np.outer(up_b, up_b)
    covariance[np.diag_indices(len(covariance))] = var_a + var_b
    together = np.zeros_like(var_a)
    if cross is not None:
        shared = residual_covariance(cross, l_a, fit_a, l_b, fit_b) * np.outer(up_a, up_b)
        covariance = covariance - shared - shared.T
        size = np.sqrt(var_a * var_b)
        together = np.clip(np.divide(np.diag(shared), size, out=together, where=size > 0), -1, 1)
    laws = scaled_law(side_a, var_a), scaled_law(side_b, var_b)
    return both.shown(*laws, together, standard_errors(covariance), correlation(covariance))


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
