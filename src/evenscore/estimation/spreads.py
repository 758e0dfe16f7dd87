"""How linear estimates of one side spread: from the rate where outcomes are 0/1, from what users show where they are not.

A 0/1 outcome of a row has the variance f (1 - f) whatever the few events of a small side happen to show; only what a user's rows
have in common must be estimated. Other outcomes show their variance themselves, and how well depends on their kurtosis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from evenscore.estimation.inference import small_sample
from evenscore.estimation.laws import Law, blocks, stack, within
from evenscore.estimation.side_laws import NumberLaw as NumberLaw
from evenscore.estimation.side_laws import RateLaw as RateLaw
from evenscore.estimation.side_laws import SideLaw as SideLaw
from evenscore.estimation.side_laws import score_error as score_error
from evenscore.tallies.pairs import PairMatrices
from evenscore.tallies.view import GroupView
from evenscore.types import Floats, Ints, Mask

BORROWED_EVENTS = 20.0  # events' worth of dependence within users that a side takes from elsewhere
BORROWED_DF = 10.0  # degrees of freedom's worth of variance, where outcomes are not 0/1
FARTHER = 4.0  # times another side's variance, from where outcomes clearly spread more
HEAVY = 4.0  # skewness of rows, from where a sample seldom shows all of it; counts and exponential costs have less
STEEPEST = 4.0  # how far the spread of a rate along a fit may be from that at one place
TINY = 1e-300


@dataclass(frozen=True, slots=True)
class Around:
    """One side around a fit at the cells, (n_cells,) each.

    rows: what independent rows show, the sum of w^2 (y - f)^2; known: the same as the rate gives it, for 0/1 outcomes only; cubes:
    the sum of w^3; residual: the residual pair matrix.
    """

    view: GroupView
    fit: Floats
    rows: Floats
    known: Floats | None
    cubes: Floats
    residual: Floats

    @classmethod
    def of(cls, view: GroupView, fit: Floats) -> Around:
        """From the sums of a view."""
        sums = view.sums
        rows = np.maximum(sums.V2 - 2 * fit * sums.V1 + fit**2 * sums.V0, 0)
        residual, higher = view.pairs.residual(fit, fit), view.higher
        # Without sums of cubes: no less than V0^2 / W by Cauchy and Schwarz, which is right when all rows weigh the same.
        cubes = np.divide(sums.V0**2, sums.W, out=np.zeros_like(rows), where=sums.W > 0) if higher is None else higher.T0
        if not view.tally.binary:
            return cls(view, fit, rows, None, cubes, residual)
        return cls(view, fit, rows, sums.V0 * rate_spread(fit), cubes, residual)


def rate_spread(rate: Floats) -> Floats:
    """f (1 - f), of a fit that may have left [0, 1]."""
    inside = within(rate)
    return np.asarray(inside * (1 - inside))


def alike_pairs(pairs: PairMatrices, fit_a: Floats, fit_b: Floats) -> Floats:
    """The residual pair matrix if all rows of a user deviated by the same number of standard deviations from these rates."""
    return pairs.ww * np.outer(np.sqrt(rate_spread(fit_a)), np.sqrt(rate_spread(fit_b)))


def across_correlation(seen: Floats, alike: Floats) -> float:
    """The correlation of a user's rows in two groups, from the residual pairs of users that both have and ``alike_pairs``.

    It has a sign: what one group's rows win may be what the other's lose.
    """
    return float(np.clip(float(seen.sum()) / max(float(alike.sum()), TINY), -1, 1))


def nested_pairs(pairs: PairMatrices, fit: Floats) -> Floats:
    """The same if a user with an event at a lower rate also had one at every higher rate, the most that 0/1 outcomes can share."""
    rate = within(fit)
    nested = np.minimum.outer(rate, rate)
    nested -= np.multiply.outer(rate, rate)  # the smaller times the larger one
    nested *= pairs.ww
    return nested


def effective_users(view: GroupView, matrix: Floats) -> Floats:
    """How many users linear estimates rest on, (l W)^2 / (l Pww l'), (n,); see ``GroupView.effective_users`` for l W = 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = (matrix @ view.sums.W) ** 2 * view.effective_users(matrix)
    return np.where(np.isfinite(effective), effective, 0.0)


def quadratic(matrix: Floats, square: Floats) -> Floats:
    """(l S l')[j, j], (n,)."""
    return np.einsum("jc,jc->j", matrix @ square, matrix)


# 0/1 outcomes


@dataclass(frozen=True, slots=True)
class Dependence:
    """What rows of one user have in common in linear estimates of a rate, (n,) each.

    effective: users; base: the variance of independent rows; between: what pairs of a user's rows are seen to add; potential: what
    they would add if all deviated alike; most: the same over the base, as the weights alone give it, where there is no base;
    events: 4 n f (1 - f), so that n users with a rate of one half count as n. weight, cubes: sums of l^2 w^2 and l^3 w^3; rate:
    the mean of f in the former; third: the third cumulant of independent rows. matrix, seen, alike: (n, n_cells), l, and l times
    the residual pairs and ``alike_pairs``, from which covariances follow.
    """

    effective: Floats
    base: Floats
    between: Floats
    potential: Floats
    most: Floats
    events: Floats
    weight: Floats
    cubes: Floats
    rate: Floats
    third: Floats
    matrix: Floats
    seen: Floats
    alike: Floats

    @classmethod
    def of(cls, around: Around, matrix: Floats, effective: Floats) -> Dependence:
        """From residuals around a fit."""
        return cls.each([around], [matrix], [effective])[1][0]

    @classmethod
    def each(
        cls, arounds: Sequence[Around], matrices: Sequence[Floats], effective: Sequence[Floats]
    ) -> tuple[Dependence, list[Dependence]]:
        """Of several sides: all end to end, without cells, and each by itself. What is small for one is done for all at once."""
        made = [_products(around, matrix) for around, matrix in zip(arounds, matrices, strict=True)]
        base, weight, rows, rates, cubes, third, shown, alike = _end_to_end([sums for sums, _, _ in made])
        users = _end_to_end(effective)
        potential = np.maximum(alike - base, 0)
        most = np.zeros_like(base)
        if not (potential > 0).all():
            squares = [quadratic(matrix, around.view.pairs.ww) for around, matrix in zip(arounds, matrices, strict=True)]
            most = np.maximum(_ratio(_end_to_end(squares), weight) - 1, 0)
        enough = users > 1 + 1e-9
        whole = cls(
            effective=users,
            base=base,
            between=np.where(enough, shown - rows, 0.0) * np.where(enough, small_sample(users), 1.0) ** 2,
            potential=potential,
            most=most,
            events=4 * users * _ratio(base, weight),
            weight=weight,
            cubes=cubes,
            rate=_ratio(rates, weight),
            third=third,
            matrix=(none := np.zeros((len(users), 0))),
            seen=none,
            alike=none,
        )
        places = blocks(map(len, matrices))
        return whole, [
            whole.at(place).on_cells(matrix, seen, alike)
            for place, matrix, (_, seen, alike) in zip(places, matrices, made, strict=True)
        ]

    @property
    def alone(self) -> Dependence:
        """The same without cells, to be put together with those of others."""
        none = self.matrix[:, :0]
        return self.on_cells(none, none, none)

    def at(self, keep: Mask | Ints | slice) -> Dependence:
        """Only these."""
        return Dependence(*[getattr(self, name)[keep] for name in Dependence.__slots__])

    def on_cells(self, matrix: Floats, seen: Floats, alike: Floats) -> Dependence:
        """The same with these cells."""
        return Dependence(
            self.effective,
            self.base,
            self.between,
            self.potential,
            self.most,
            self.events,
            self.weight,
            self.cubes,
            self.rate,
            self.third,
            matrix,
            seen,
            alike,
        )

    def covariance(self, around: Around, share: float, rho: float) -> Floats:
        """How the estimates go together, (n, n): those of ``mixed_cells``."""
        assert around.known is not None
        cells = self.matrix * ((1 - share) * (1 - rho) * around.known)
        cells += share * self.seen
        cells += (1 - share) * rho * self.alike
        return cells @ self.matrix.T


def _products(around: Around, matrix: Floats) -> tuple[Floats, Floats, Floats]:
    """Of one side what ``Dependence.each`` is made of, (8, n) in its order, and l times the residual pairs and ``alike_pairs``."""
    assert around.known is not None
    sums, rate = around.view.sums, within(around.fit)
    size = np.sqrt(rate * (1 - rate))
    squares, seen, alike = matrix * matrix, matrix @ around.residual, ((matrix * size) @ around.view.pairs.ww) * size
    made = np.empty((8, len(matrix)))
    made[:4] = np.array([around.known, sums.V0, around.rows, sums.V0 * rate]) @ squares.T
    squares *= matrix
    made[4:6] = np.array([around.cubes, around.cubes * rate * (1 - rate) * (1 - 2 * rate)]) @ squares.T
    for number, product in ((6, seen), (7, alike)):
        np.einsum("jc,jc->j", product, matrix, out=made[number])
    return made, seen, alike


def _end_to_end(parts: Sequence[Floats]) -> Floats:
    """Parts (..., n) one after the other."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


def common_correlation(*sides: Dependence) -> Floats:
    """The correlation of a user's rows that all sides show together, (n,), between 0 and 1; each weighs as its users do."""
    return within(_ratio(*_seen_and_potential(sides)))


def overall_correlation(*sides: Dependence, potentials: Sequence[Floats] | None = None) -> float:
    """The same of all n estimates together, each weighs as its events do; potentials: (n,) of each side, if others are meant."""
    between, potential = (values.sum(keepdims=True) for values in _seen_and_potential(sides, potentials))
    return float(np.clip(_ratio(between, potential), 0, 1)[0])


def _seen_and_potential(sides: Sequence[Dependence], potentials: Sequence[Floats] | None = None) -> tuple[Floats, Floats]:
    """What pairs of a user's rows add, and what they would add if all deviated alike, (n,); each side weighs as its users do."""
    between = potential = np.zeros(1)
    for side, most in zip(sides, potentials or [side.potential for side in sides], strict=True):
        weight = side.effective * side.effective
        between, potential = between + weight * side.between, potential + weight * most
    return between, potential


@np.errstate(over="ignore", invalid="ignore")  # sums that contradict each other
def rate_law(side: Dependence, common: Floats, borrowed: float, *, own_fit: bool = False) -> tuple[RateLaw, Floats]:
    """The law of linear estimates of a rate, and how much of the dependence rests on what the side shows itself.

    What a side says about its users' dependence is moved towards what all show together, as if it had so many events more.
    own_fit: whether the fit around which that was seen is the side's own. It follows the estimates then, and so the design effect,
    a ratio of what is seen to what the fit expects of independent rows, follows them less.
    """
    own = side.events / (side.events + borrowed)
    shown = np.maximum(own * side.between + (1 - own) * common * side.potential, 0)
    effect = 1 + np.divide(shown, side.base, out=common * side.most, where=side.base > 0)
    rho = within(np.divide(shown, side.potential, out=common.copy(), where=side.potential > 0))
    # The third cumulant of a beta-binomial sum is n f (1 - f) (1 - 2 f) (1 + (n - 1) rho) (1 + (2 n - 1) rho) / (1 + rho); here
    # with the design effect, 1 + (n - 1) rho, and so 2 (effect - 1) + rho for (2 n - 1) rho.
    more = 2 * (effect - 1) / (1 + rho)
    estimated = own * (1 - 1 / effect)
    noise = np.where(estimated > 0, 2 * estimated**2 / np.maximum(side.effective - 1, 0.5), 0.0)
    third = side.third * effect * (1 + more)
    followed = own * more / (1 + more)
    if own_fit:
        # What the fit takes back is the variance times (effect - 1) (1 - 2 f) weight; here as a share of the third cumulant.
        even = np.divide(side.weight**2, side.cubes, out=np.ones_like(own), where=side.cubes > 0)
        followed -= own * (effect - 1) * np.minimum(even, 1) / (1 + more)
    variance = side.base * effect
    return RateLaw(
        law=Law(variance, third, followed * third, noise * variance**2),
        rate=side.rate,
        squares=side.weight * effect,
        cubes=side.cubes * effect * (1 + more),
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

    squares = side.squares * along(matrix * matrix, around.view.sums.V0)
    return replace(side, squares=squares, cubes=side.cubes * along(matrix * matrix * matrix, around.cubes))


def mixed_cells(around: Around, share: float, rho: float) -> Floats:
    """How 0/1 outcomes of cells go together, (n_cells, n_cells): as residuals do, and as equally correlated rows of a user would.

    share: of the former, by how many events there are to tell. Either is a covariance, so their mixture is one.
    """
    assert around.known is not None
    cells = share * around.residual + (1 - share) * rho * alike_pairs(around.view.pairs, around.fit, around.fit)
    cells[np.diag_indices(len(cells))] += (1 - share) * (1 - rho) * around.known
    return np.asarray(cells)


# Other outcomes


@dataclass(frozen=True, slots=True)
class Scatter:
    """How outcomes scatter in linear estimates, (n,) each.

    effective: users; variance: what users show, with the factor for few of them; row_variance, skewness, kurtosis: of a row, the
    last two standardised; cubes: l^3 times the sum of w^3; quarts: l^4 times the sum of w^4, over the square of l^2 times the sum
    of w^2; effect: the design effect. tail, spread, doubt: of all rows of the side, whatever their score: their skewness, their
    variance, and the variance of its logarithm; a few users near a score seldom show how far outcomes can go. matrix, seen:
    (n, n_cells), l, and l times the residual pairs, for covariances.
    """

    effective: Floats
    variance: Floats
    row_variance: Floats
    skewness: Floats
    kurtosis: Floats
    cubes: Floats
    quarts: Floats
    effect: Floats
    tail: Floats
    spread: Floats
    doubt: Floats
    matrix: Floats
    seen: Floats

    @classmethod
    def of(cls, around: Around, matrix: Floats, effective: Floats) -> Scatter:
        """From residuals around a fit."""
        squares, sums, fit = matrix * matrix, around.view.sums, around.fit
        seen = matrix @ around.residual
        shown, weight = np.einsum("jc,jc->j", seen, matrix), squares @ sums.V0
        rows = squares @ around.rows
        variance = np.maximum(shown, 0) * np.where(effective > 1 + 1e-9, small_sample(effective), 1.0) ** 2
        row_variance = np.divide(rows, weight, out=np.zeros_like(rows), where=weight > 0)
        skewness, kurtosis, higher = np.zeros_like(rows), np.full_like(rows, 3.0), around.view.higher
        cubes, quarts = (squares * matrix) @ around.cubes, np.zeros_like(rows)
        if higher is not None:
            third = higher.T3 - 3 * fit * higher.T2 + 3 * fit**2 * higher.T1 - fit**3 * higher.T0
            fourth = higher.Q4 - 4 * fit * higher.Q3 + 6 * fit**2 * higher.Q2 - 4 * fit**3 * higher.Q1 + fit**4 * higher.Q0
            size, fours = squares * np.abs(matrix), squares * squares
            skewness = _ratio(_ratio(size @ third, size @ higher.T0), row_variance**1.5)
            quarts = fours @ higher.Q0
            kurtosis = _ratio(_ratio(fours @ np.maximum(fourth, 0), quarts), row_variance**2)
        effect = np.maximum(_ratio(shown, rows), 1.0)
        quarts = _ratio(quarts, weight**2)
        tail, spread, doubt = np.zeros_like(rows), np.zeros_like(rows), np.full_like(rows, np.inf)
        if higher is not None and around.rows.sum() > 0:
            spread += around.rows.sum() / sums.V0.sum()
            tail += third.sum() / higher.T0.sum() / spread**1.5
            doubt = effect * (fourth.sum() / higher.Q0.sum() / spread**2 - 1) * higher.Q0.sum() / sums.V0.sum() ** 2
        wide = (tail, spread, doubt)
        return cls(effective, variance, row_variance, skewness, kurtosis, cubes, quarts, effect, *wide, matrix, seen)

    @classmethod
    def each(
        cls, arounds: Sequence[Around], matrices: Sequence[Floats], effective: Sequence[Floats]
    ) -> tuple[Scatter, list[Scatter]]:
        """Of several sides: all end to end, without cells, and each by itself."""
        made = [cls.of(*own) for own in zip(arounds, matrices, effective, strict=True)]
        return stack([own.alone for own in made]), made

    @property
    def alone(self) -> Scatter:
        """The same without cells, to be put together with those of others."""
        none = self.matrix[:, :0]
        return replace(self, matrix=none, seen=none)

    def at(self, keep: Mask | Ints | slice) -> Scatter:
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


def unbalanced_skewness(a: Scatter, b: Scatter) -> Floats:
    """How skewed the difference of two sides' estimates may be where one side's heavy tails have no equal, (n,); else 0.

    Equal tails cancel in a difference. Where the variances of all rows differ much, and by more than one standard error, they do
    not, and then a studentised mean of few outcomes lies far from 0 too often: its own skewness is -2 gamma (Hall 1992).
    """
    known = (a.spread > 0) & (b.spread > 0)
    apart = np.abs(np.log(np.where(known, a.spread, 1.0) / np.where(known, b.spread, 1.0)))
    clear = known & (apart > np.maximum(np.log(FARTHER), np.sqrt(np.maximum(a.doubt + b.doubt, 0))))
    clear &= np.maximum(np.abs(a.tail), np.abs(b.tail)) > HEAVY
    thirds = [np.abs(side.tail * side.row_variance**1.5 * side.cubes) * side.effect for side in (a, b)]
    return np.where(clear, _ratio(np.maximum(*thirds), (a.variance + b.variance) ** 1.5), 0.0)


def own_number_law(side: Scatter) -> NumberLaw:
    """The law of linear estimates by what the side shows alone."""
    return number_law(side, side.variance, np.ones_like(side.variance), side.skewness, side.kurtosis)


def scaled_law(side: NumberLaw, variance: Floats) -> NumberLaw:
    """The same shape with another variance."""
    factor = np.sqrt(_ratio(variance, side.law.variance))
    law = side.law
    return replace(side, law=Law(variance, law.third * factor**3, law.pull * factor**3, law.noise * factor**4))
