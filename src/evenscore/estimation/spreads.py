"""How linear estimates of one side spread: from the rate where outcomes are 0/1, from what users show where they are not.

A 0/1 outcome of a row has the variance f (1 - f) whatever the few events of a small side happen to show; only what a user's rows
have in common must be estimated. Other outcomes show their variance themselves, and how well depends on their kurtosis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol

import numpy as np

from evenscore.estimation.inference import small_sample, welch_t
from evenscore.estimation.laws import Law, follow, unskew
from evenscore.tallies.pairs import PairMatrices
from evenscore.tallies.view import GroupView
from evenscore.types import Floats, Ints, Mask

BORROWED_EVENTS = 20.0  # events' worth of dependence within users that a side takes from elsewhere
BORROWED_DF = 10.0  # degrees of freedom's worth of variance, where outcomes are not 0/1
HALVINGS = 30  # of a limit's bracket: to 1e-9 of a rate
STEEPEST = 4.0  # how far the spread of a rate along a fit may be from that at one place


class SideLaw(Protocol):
    """How n estimates of one side are distributed, and what limits follow."""

    @property
    def law(self) -> Law:
        """Around the fit that residuals were taken from."""

    def limits(self, level: Floats, z: Floats | float) -> tuple[Floats, Floats]:
        """The smallest and the largest expected outcome that these estimates are within z normal quantiles of."""

    def at(self, keep: Mask | Ints) -> SideLaw:
        """Only these."""

    def moved(self, gap: float) -> Law:
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

    def at(self, keep: Mask | Ints) -> RateLaw:
        """Only these."""
        return RateLaw(
            self.law.at(keep), self.rate[keep], self.squares[keep], self.cubes[keep], self.followed[keep], self.noise[keep]
        )

    def with_rate(self, rate: Floats) -> Law:
        """The law of the estimates if this were the rate."""
        variance = rate * (1 - rate) * self.squares
        third = rate * (1 - rate) * (1 - 2 * rate) * self.cubes
        return Law(variance, third, self.followed * third, self.noise * variance**2)

    def moved(self, gap: float) -> Law:
        """The law if all rates were higher by this."""
        return self.with_rate(np.clip(self.rate + gap, 0, 1))

    def limits(self, level: Floats, z: Floats | float) -> tuple[Floats, Floats]:
        """Score limits: rates whose own law has the estimate z away (Wilson 1927), with skewness or without, whichever is wider.

        Of few events the lower limit is too high without, and the upper one too low with it: 0 of 60 allow 6 %.
        """
        rate = np.clip(level, 0, 1)
        df = np.where(self.noise > 0, 2 / np.where(self.noise > 0, self.noise, 1.0), np.inf)
        far = welch_t(np.broadcast_to(z, rate.shape), df)
        root = far**2 * self.squares
        middle, width = rate + root / 2, np.sqrt(root * rate * (1 - rate) + root**2 / 4)
        low, high = (middle - width) / (1 + root), (middle + width) / (1 + root)
        return self._bound(rate, far, low, np.zeros_like(rate)), self._bound(rate, far, high, np.ones_like(rate))

    def _bound(self, rate: Floats, far: Floats, near: Floats, beyond: Floats) -> Floats:
        """Between a limit without skewness and an end, by halving."""
        start = near
        for _ in range(HALVINGS):
            middle = (near + beyond) / 2
            law = self.with_rate(middle)
            t = np.divide(rate - middle, law.se, out=np.zeros_like(rate), where=law.se > 0)
            inside = np.abs(unskew(follow(t, law.pulled), law.skewness)) <= far
            near, beyond = np.where(inside, middle, near), np.where(inside, beyond, middle)
        # A step towards the end that was never taken leaves the limit without skewness.
        return np.where(np.isfinite(self.squares), np.where(near == start, start, beyond), np.nan)


def score_error(side: SideLaw, level: Floats) -> Floats:
    """Half the distance of the limits at one standard error: of a rate without a single event it is not 0."""
    low, high = side.limits(level, 1.0)
    return (high - low) / 2


@dataclass(frozen=True, slots=True)
class NumberLaw:
    """Outcomes of any size: what they show themselves."""

    law: Law

    def at(self, keep: Mask | Ints) -> NumberLaw:
        """Only these."""
        return NumberLaw(self.law.at(keep))

    def moved(self, gap: float) -> Law:
        """The same: the spread of outcomes has nothing to do with their level."""
        return self.law

    def limits(self, level: Floats, z: Floats | float) -> tuple[Floats, Floats]:
        """The estimate less what chance may have added."""
        return level - self.law.deviations(np.asarray(z)), level - self.law.deviations(-np.asarray(z))


@dataclass(frozen=True, slots=True)
class Around:
    """One side around a fit at the cells, (n_cells,) each.

    rows: what independent rows show, the sum of w^2 (y - f)^2; known: the same as the rate gives it, for 0/1 outcomes only; cubes:
    the sum of w^3; residual: the residual pair matrix; alike: what it would be if all rows of a user deviated alike.
    """

    view: GroupView
    fit: Floats
    rows: Floats
    known: Floats | None
    cubes: Floats
    residual: Floats
    alike: Floats | None

    @classmethod
    def of(cls, view: GroupView, fit: Floats) -> Around:
        """From the sums of a view."""
        sums = view.sums
        rows = np.maximum(sums.V2 - 2 * fit * sums.V1 + fit**2 * sums.V0, 0)
        residual, higher = view.pairs.residual(fit, fit), view.higher
        # Without sums of cubes: no less than V0^2 / W by Cauchy and Schwarz, which is right when all rows weigh the same.
        cubes = np.divide(sums.V0**2, sums.W, out=np.zeros_like(rows), where=sums.W > 0) if higher is None else higher.T0
        if not view.tally.binary:
            return cls(view, fit, rows, None, cubes, residual, None)
        spread = rate_spread(fit)
        return cls(view, fit, rows, sums.V0 * spread, cubes, residual, alike_pairs(view.pairs, fit, fit))


def rate_spread(rate: Floats) -> Floats:
    """f (1 - f), of a fit that may have left [0, 1]."""
    inside = np.clip(rate, 0, 1)
    return np.asarray(inside * (1 - inside))


def alike_pairs(pairs: PairMatrices, fit_a: Floats, fit_b: Floats) -> Floats:
    """The residual pair matrix if all rows of a user deviated by the same number of standard deviations from these rates."""
    return pairs.ww * np.sqrt(np.outer(rate_spread(fit_a), rate_spread(fit_b)))


def effective_users(view: GroupView, matrix: Floats) -> Floats:
    """How many users linear estimates rest on, (l W)^2 / (l Pww l'), (n,); see ``GroupView.effective_users`` for l W = 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num((matrix @ view.sums.W) ** 2 * view.effective_users(matrix), nan=0.0, posinf=0.0)


def quadratic(matrix: Floats, square: Floats) -> Floats:
    """(l S l')[j, j], (n,)."""
    return np.einsum("jc,jc->j", matrix @ square, matrix)


# 0/1 outcomes


@dataclass(frozen=True, slots=True)
class Dependence:
    """What rows of one user have in common in linear estimates of a rate, (n,) each.

    effective: users; base: the variance of independent rows; between: what pairs of a user's rows are seen to add; potential: what
    they would add if all deviated alike; most: the same over the base, as the weights alone give it; events: 4 n f (1 - f), so
    that n users with a rate of one half count as n.
    """

    effective: Floats
    base: Floats
    between: Floats
    potential: Floats
    most: Floats
    events: Floats

    @classmethod
    def of(cls, around: Around, matrix: Floats, effective: Floats) -> Dependence:
        """From residuals around a fit."""
        assert around.known is not None and around.alike is not None
        squares = matrix**2
        base, weight = squares @ around.known, squares @ around.view.sums.V0
        between = quadratic(matrix, around.residual) - squares @ around.rows
        enough = effective > 1 + 1e-9
        return cls(
            effective=effective,
            base=base,
            between=np.where(enough, between, 0.0) * np.where(enough, small_sample(effective), 1.0) ** 2,
            potential=np.maximum(quadratic(matrix, around.alike) - base, 0),
            most=np.maximum(_ratio(quadratic(matrix, around.view.pairs.ww), weight) - 1, 0),
            events=4 * effective * np.divide(base, weight, out=np.zeros_like(base), where=weight > 0),
        )


def common_correlation(*sides: Dependence) -> Floats:
    """The correlation of a user's rows that all sides show together, (n,), between 0 and 1; each weighs as its users do."""
    between = np.sum([side.effective**2 * side.between for side in sides], axis=0)
    potential = np.sum([side.effective**2 * side.potential for side in sides], axis=0)
    return np.clip(_ratio(between, potential), 0, 1)


def rate_law(around: Around, matrix: Floats, side: Dependence, common: Floats, borrowed: float) -> tuple[RateLaw, Floats]:
    """The law of linear estimates of a rate, and how much of the dependence rests on what the side shows itself.

    What a side says about its users' dependence is moved towards what all show together, as if it had so many events more.
    """
    own = side.events / (side.events + borrowed)
    within = np.maximum(own * side.between + (1 - own) * common * side.potential, 0)
    effect = 1 + np.divide(within, side.base, out=common * side.most, where=side.base > 0)
    rho = np.clip(np.divide(within, side.potential, out=common.copy(), where=side.potential > 0), 0, 1)
    # The third cumulant of a beta-binomial sum is n f (1 - f) (1 - 2 f) (1 + (n - 1) rho) (1 + (2 n - 1) rho) / (1 + rho); here
    # with the design effect, 1 + (n - 1) rho, and so 2 (effect - 1) + rho for (2 n - 1) rho.
    more = 2 * (effect - 1) / (1 + rho)
    estimated = own * (1 - 1 / effect)
    noise = np.where(estimated > 0, 2 * estimated**2 / np.maximum(side.effective - 1, 0.5), 0.0)
    rate = np.clip(around.fit, 0, 1)
    third = matrix**3 @ (around.cubes * rate * (1 - rate) * (1 - 2 * rate)) * effect * (1 + more)
    followed = own * more / (1 + more)
    variance, weight = side.base * effect, matrix**2 @ around.view.sums.V0
    return RateLaw(
        law=Law(variance, third, followed * third, noise * variance**2),
        rate=_ratio(matrix**2 @ (around.view.sums.V0 * rate), weight),
        squares=weight * effect,
        cubes=matrix**3 @ around.cubes * effect * (1 + more),
        followed=followed,
        noise=noise,
    ), own


def shaped(side: RateLaw, around: Around, matrix: Floats, rate: Floats) -> RateLaw:
    """The law of estimates at one end of a fit, where it has this rate: other rates keep the shape of the fit.

    A rare outcome may be several times as frequent a bandwidth away, and so is its variance.
    """
    spread = rate_spread(around.fit)

    def along(weights: Floats, sums: Floats) -> Floats:
        here = weights @ sums * rate * (1 - rate)
        ratio = np.divide(weights @ (sums * spread), here, out=np.ones_like(here), where=here > 0)
        return np.clip(ratio, 1 / STEEPEST, STEEPEST)

    squares = side.squares * along(matrix**2, around.view.sums.V0)
    return replace(side, squares=squares, cubes=side.cubes * along(matrix**3, around.cubes))


def mixed_cells(around: Around, share: float, rho: float) -> Floats:
    """How 0/1 outcomes of cells go together, (n_cells, n_cells): as residuals do, and as equally correlated rows of a user would.

    share: of the former, by how many events there are to tell. Either is a covariance, so their mixture is one.
    """
    assert around.known is not None and around.alike is not None
    cells = share * around.residual + (1 - share) * rho * around.alike
    cells[np.diag_indices(len(cells))] += (1 - share) * (1 - rho) * around.known
    return np.asarray(cells)


# Other outcomes


@dataclass(frozen=True, slots=True)
class Scatter:
    """How outcomes scatter in linear estimates, (n,) each.

    effective: users; variance: what users show, with the factor for few of them; row_variance, skewness, kurtosis: of a row, the
    last two standardised; cubes: l^3 times the sum of w^3; quarts: l^4 times the sum of w^4, over the square of l^2 times the sum
    of w^2; effect: the design effect.
    """

    effective: Floats
    variance: Floats
    row_variance: Floats
    skewness: Floats
    kurtosis: Floats
    cubes: Floats
    quarts: Floats
    effect: Floats

    @classmethod
    def of(cls, around: Around, matrix: Floats, effective: Floats) -> Scatter:
        """From residuals around a fit."""
        squares, sums, fit = matrix**2, around.view.sums, around.fit
        shown, weight = quadratic(matrix, around.residual), squares @ sums.V0
        rows = squares @ around.rows
        variance = np.maximum(shown, 0) * np.where(effective > 1 + 1e-9, small_sample(effective), 1.0) ** 2
        row_variance = np.divide(rows, weight, out=np.zeros_like(rows), where=weight > 0)
        skewness, kurtosis, higher = np.zeros_like(rows), np.full_like(rows, 3.0), around.view.higher
        cubes, quarts = matrix**3 @ around.cubes, np.zeros_like(rows)
        if higher is not None:
            third = higher.T3 - 3 * fit * higher.T2 + 3 * fit**2 * higher.T1 - fit**3 * higher.T0
            fourth = higher.Q4 - 4 * fit * higher.Q3 + 6 * fit**2 * higher.Q2 - 4 * fit**3 * higher.Q1 + fit**4 * higher.Q0
            size = np.abs(matrix) ** 3
            skewness = _ratio(_ratio(size @ third, size @ higher.T0), row_variance**1.5)
            quarts = squares**2 @ higher.Q0
            kurtosis = _ratio(_ratio(squares**2 @ np.maximum(fourth, 0), quarts), row_variance**2)
        effect = np.maximum(_ratio(shown, rows), 1.0)
        return cls(effective, variance, row_variance, skewness, kurtosis, cubes, _ratio(quarts, weight**2), effect)

    def at(self, keep: Mask | Ints) -> Scatter:
        """Only these."""
        return Scatter(*(getattr(self, field.name)[keep] for field in fields(self)))

    def uncertainty(self, kurtosis: Floats) -> Floats:
        """The variance of the estimated variance over its square: (kurtosis - 1) / n for rows, 2 / (n - 1) for many users."""
        few = 2 / np.maximum(self.effective - 1, 0.5)
        return np.maximum(few, (kurtosis - 1) * self.quarts)


def _ratio(top: Floats, bottom: Floats) -> Floats:
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


def pooled_shape(*sides: Scatter) -> tuple[Floats, Floats]:
    """Skewness and kurtosis of a row that all sides show together, (n,); a small side cannot tell its own tails."""
    users = np.sum([side.effective for side in sides], axis=0)
    skewness = _ratio(np.sum([side.effective * side.skewness for side in sides], axis=0), users)
    return skewness, _ratio(np.sum([side.effective * side.kurtosis for side in sides], axis=0), users)


def number_law(side: Scatter, variance: Floats, own: Floats, skewness: Floats, kurtosis: Floats) -> NumberLaw:
    """The law of linear estimates with this variance, of which the share ``own`` rests on what the side shows itself."""
    spread = np.sqrt(side.row_variance * _ratio(variance, side.variance))
    third = skewness * spread**3 * side.cubes * side.effect * (1 + 2 * (side.effect - 1))
    pull = own * third
    known = variance > 0
    explained = np.where(known, pull / np.sqrt(np.where(known, variance, 1.0)), 0.0) ** 2  # powers of outcomes may be large
    least = 2 * variance**2 / np.maximum(side.effective - 1, 0.5)
    noise = np.maximum(side.uncertainty(kurtosis) * variance**2 - explained, least)
    return NumberLaw(Law(variance, third, pull, noise))


def number_laws(a: Scatter, b: Scatter) -> tuple[NumberLaw, NumberLaw]:
    """The laws of two sides' estimates: each one's variance per user is moved towards that of both by how little it can tell.

    Only upwards: a test must not become surer because the other side varies less.
    """
    skewness, kurtosis = pooled_shape(a, b)
    df_a, df_b = 2 / a.uncertainty(kurtosis), 2 / b.uncertainty(kurtosis)
    common = (df_a * a.variance * a.effective + df_b * b.variance * b.effective) / (df_a + df_b)
    laws = []
    for side, df in ((a, df_a), (b, df_b)):
        own = df / (df + BORROWED_DF)
        moved = own * side.variance + (1 - own) * _ratio(common, side.effective)
        up = moved >= side.variance
        laws.append(number_law(side, np.where(up, moved, side.variance), np.where(up, own, 1.0), skewness, kurtosis))
    return laws[0], laws[1]


def own_number_law(side: Scatter) -> NumberLaw:
    """The law of linear estimates by what the side shows alone."""
    return number_law(side, side.variance, np.ones_like(side.variance), side.skewness, side.kurtosis)


def scaled_law(side: NumberLaw, variance: Floats) -> NumberLaw:
    """The same shape with another variance."""
    factor = np.sqrt(_ratio(variance, side.law.variance))
    law = side.law
    return replace(side, law=Law(variance, law.third * factor**3, law.pull * factor**3, law.noise * factor**4))


# One side by itself


def side_law(view: GroupView, matrix: Floats, fit: Floats, correlation: float) -> SideLaw:
    """The law of linear estimates of one side around its own fit at the cells.

    correlation: of a user's rows, which is what the side is moved towards where it has few events to tell; see
    ``user_correlation``.
    """
    around, effective = Around.of(view, fit), effective_users(view, matrix)
    if around.known is None:
        return own_number_law(Scatter.of(around, matrix, effective))
    depend = Dependence.of(around, matrix, effective)
    return rate_law(around, matrix, depend, np.full(len(matrix), correlation), BORROWED_EVENTS)[0]


def user_correlation(views: Sequence[GroupView], fits: Sequence[Floats]) -> float:
    """The correlation of the 0/1 outcomes of a user's rows, from all groups together; 1 where nothing can be told."""
    if not views[0].tally.binary:
        return 0.0
    between, potential, possible = 0.0, 0.0, 0.0
    for view, fit in zip(views, fits, strict=True):
        around = Around.of(view, fit)
        assert around.known is not None and around.alike is not None
        between += float(around.residual.sum() - around.rows.sum())
        potential += float(around.alike.sum() - around.known.sum())
        possible += float(view.pairs.ww.sum() - view.sums.V0.sum())
    if not possible > 1e-12 * sum(float(view.sums.V0.sum()) for view in views):
        return 0.0  # one row a user
    return float(np.clip(between / potential, 0, 1)) if potential > 0 else 1.0
