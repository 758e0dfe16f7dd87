"""How linear estimates of one side spread around a fit, and from the rate where outcomes are 0/1; for others see ``scatters``.

A 0/1 outcome of a row has the variance f (1 - f) whatever the few events of a small side happen to show; only what a user's rows
have in common must be estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenscore.estimation.inference import small_sample
from evenscore.estimation.laws import Law, blocks, within
from evenscore.estimation.side_laws import RateLaw as RateLaw
from evenscore.estimation.side_laws import SideLaw as SideLaw
from evenscore.estimation.side_laws import score_error as score_error
from evenscore.ratios import ratio
from evenscore.tallies.pairs import PairMatrices
from evenscore.tallies.view import GroupView
from evenscore.types import Floats, Ints, Mask

BORROWED_EVENTS = 20.0  # events' worth of dependence within users that a side takes from elsewhere
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
            most = np.maximum(ratio(_end_to_end(squares), weight) - 1, 0)
        enough = users > 1 + 1e-9
        whole = cls(
            effective=users,
            base=base,
            between=np.where(enough, shown - rows, 0.0) * np.where(enough, small_sample(users), 1.0) ** 2,
            potential=potential,
            most=most,
            events=4 * users * ratio(base, weight),
            weight=weight,
            cubes=cubes,
            rate=ratio(rates, weight),
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
    return within(ratio(*_seen_and_potential(sides)))


def overall_correlation(*sides: Dependence, potentials: Sequence[Floats] | None = None) -> float:
    """The same of all n estimates together, each weighs as its events do; potentials: (n,) of each side, if others are meant."""
    between, potential = (values.sum(keepdims=True) for values in _seen_and_potential(sides, potentials))
    return float(np.clip(ratio(between, potential), 0, 1)[0])


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
