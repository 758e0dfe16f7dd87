"""Groups' levels at their cuts and how far chance may take them: each by itself, and two of them that are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import numpy as np

from evenscore.estimation import bands
from evenscore.estimation.laws import LEAST, Law, skew, stack
from evenscore.estimation.pairwise import POWER
from evenscore.estimation.scatters import Scatter, number_laws, own_number_law
from evenscore.estimation.spreads import BORROWED_EVENTS, Around, Dependence, RateLaw, SideLaw, common_correlation, rate_law, shaped
from evenscore.marginal.boundary import Edge
from evenscore.ratios import ratio
from evenscore.tallies.pairs import PairMatrices
from evenscore.types import Floats, Ints, Mask


class GroupLevels(Protocol):
    """What differences are made of, (n,) each: estimates, how they are distributed, and what they may be.

    scatter: of outcomes that are not 0/1.
    """

    @property
    def level(self) -> Floats:
        """The estimates."""

    @property
    def side(self) -> SideLaw:
        """How they are distributed."""

    @property
    def scatter(self) -> Scatter | None:
        """Of outcomes that are not 0/1."""

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """What they may be."""


Shared = Mapping[tuple[int, int], PairMatrices]
BISECTIONS = 16
CHANCES = 100  # quantiles of an estimate, to see how often a gap is found


@dataclass(frozen=True, slots=True)
class Levels:
    """Estimates of n groups, (n,) each: their level, and how it is distributed.

    shown: the variance that residuals of users show; scatter: of outcomes that are not 0/1.
    """

    edges: tuple[Edge, ...]
    level: Floats
    side: SideLaw
    shown: Floats
    scatter: Scatter | None

    @classmethod
    def of(cls, edges: Sequence[Edge]) -> Levels:
        """From the sums of each group."""
        level = np.array([edge.level for edge in edges])
        around = [Around.of(edge.side, edge.fit) for edge in edges]
        shown = [float(edge.weights @ own.residual @ edge.weights) for edge, own in zip(edges, around, strict=True)]
        users = [np.array([edge.effective_users]) for edge in edges]
        if around[0].known is None:
            scatter = stack([Scatter.of(own, edge.matrix, n).alone for own, edge, n in zip(around, edges, users, strict=True)])
            return cls(tuple(edges), level, own_number_law(scatter), np.maximum(shown, 0), scatter)
        depend = [Dependence.of(own, edge.matrix, n) for own, edge, n in zip(around, edges, users, strict=True)]
        common = common_correlation(*depend)
        laws = []
        for edge, own, rows in zip(edges, around, depend, strict=True):
            law, _ = rate_law(rows, common, BORROWED_EVENTS)
            laws.append(shaped(law, own, edge.matrix, np.array([edge.rate])))
        return cls(tuple(edges), level, stack(laws), np.maximum(shown, 0), None)

    @property
    def effective(self) -> Floats:
        """Effective users."""
        return np.array([edge.effective_users for edge in self.edges])

    @property
    def variance(self) -> Floats:
        """Of each level, around the fit that residuals were taken from."""
        return self.side.law.variance

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """What rates at the cuts may be."""
        return np.array([edge.least for edge in self.edges]), np.array([edge.most for edge in self.edges])

    def correlation(self, i: int, j: int, pairs: PairMatrices) -> float:
        """Of two groups' levels, from the residuals of users that both have; pairs: on all cells of the lattice."""
        a, b = self.edges[i], self.edges[j]
        residual = pairs.residual(a.side.on_lattice(a.fit), b.side.on_lattice(b.fit))
        shared = float(a.side.on_lattice(a.weights) @ residual @ b.side.on_lattice(b.weights))
        size = float(np.sqrt(self.shown[i] * self.shown[j]))
        return float(np.clip(shared / size, -1, 1)) if size > 0 else 0.0


AnyLevels = TypeVar("AnyLevels", bound=GroupLevels)


@dataclass(frozen=True)
class Differences(Generic[AnyLevels]):
    """Gaps of n pairs of groups, left minus right by position; together: the correlation of the two levels, (n,)."""

    levels: AnyLevels
    left: Ints
    right: Ints
    together: Floats

    @classmethod
    def of(cls, levels: Levels, left: Ints, right: Ints, shared: Shared) -> Differences[Levels]:
        """With users that are in both groups; shared: by position of the two."""
        together = np.zeros(len(left))
        if shared:
            for number, (i, j) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
                if (i, j) in shared:
                    together[number] = levels.correlation(i, j, shared[i, j])
        return Differences(levels, left, right, together)

    @cached_property
    def sides(self) -> tuple[SideLaw, SideLaw]:
        """How the two levels of each pair are distributed."""
        if self.levels.scatter is None:
            return self.levels.side.at(self.left), self.levels.side.at(self.right)
        return number_laws(self.levels.scatter.at(self.left), self.levels.scatter.at(self.right))

    @property
    def size(self) -> Floats:
        """The gaps."""
        return self.levels.level[self.left] - self.levels.level[self.right]

    @property
    def shown(self) -> bands.Differences:
        """The gaps with limits."""
        level = self.levels.level
        return bands.Differences(self.size, level[self.left], level[self.right], *self.sides, self.together)

    @cached_property
    def null(self) -> Law:
        """How gaps are distributed when both groups have one level: that of their mean, by how well each is known.

        For one row a user and no smoothing, 0/1 outcomes give the score test of two proportions.
        """
        return self._law(self.common, self.common)

    @cached_property
    def _weight(self) -> Floats:
        """The share of the first group in the mean, (n,)."""
        a, b = self.sides
        spread_a, spread_b = (side.squares if isinstance(side, RateLaw) else side.law.variance for side in (a, b))
        return ratio(spread_b, spread_a + spread_b, 0.5)

    @cached_property
    def common(self) -> Floats:
        """The mean level of each pair."""
        mean = self._mean(self.levels.level)
        if self.levels.scatter is not None:
            return mean  # only rates are bounded
        return np.clip(mean, *(self._mean(bound) for bound in self.levels.bounds))

    def _mean(self, values: Floats) -> Floats:
        return self._weight * values[self.left] + (1 - self._weight) * values[self.right]

    def _law(self, rate_a: Floats, rate_b: Floats) -> Law:
        """Of the gaps, for 0/1 outcomes if these were the rates."""
        a, b = self.sides
        law_a, law_b = a.law, b.law
        if isinstance(a, RateLaw) and isinstance(b, RateLaw):
            law_a, law_b = a.with_rate(rate_a), b.with_rate(rate_b)
        return law_a.minus(law_b, self.together * law_a.se * law_b.se)

    @property
    def p_equal(self) -> Floats:
        """P-values of no difference; nan where nothing varies."""
        from scipy import special

        return np.where(self.null.variance > 0, 2 * special.ndtr(-np.abs(self.null.z(self.size))), np.nan)

    def detectable(self, alpha: float, chance: float = POWER) -> Floats:
        """The gap that is found with probability ``chance`` whichever group is higher, by bisection.

        A direction in which a rate would have to be below 0 or above 1 is not asked for, unless both are such.
        """
        low, high = np.zeros_like(self.size), np.ones_like(self.size)
        if not isinstance(self.sides[0], RateLaw):
            high = 20 * self.null.se
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            (up, can_rise), (down, can_fall) = self._power(middle, alpha), self._power(-middle, alpha)
            neither = ~(can_rise | can_fall)
            power = np.minimum(np.where(can_rise | neither, up, 1.0), np.where(can_fall | neither, down, 1.0))
            low, high = np.where(power >= chance, low, middle), np.where(power >= chance, middle, high)
        return np.where(self.null.variance > 0, high, np.nan)

    def _power(self, gap: Floats, alpha: float) -> tuple[Floats, Mask]:
        """How often a gap of this size is found, and whether there can be one around the mean level of the two groups."""
        from scipy import special

        rate_b, possible = self.common - self._weight * gap, np.ones(len(gap), dtype=bool)
        if isinstance(self.sides[0], RateLaw):
            inside = np.clip(rate_b, np.maximum(-gap, 0), np.minimum(1 - gap, 1))
            rate_b, possible = inside, inside == rate_b
        common = rate_b + self._weight * gap
        null, law = self._law(common, common), self._law(rate_b + gap, rate_b)
        noise = skew(special.ndtri((np.arange(CHANCES) + 0.5) / CHANCES)[:, None], law.skewness)
        estimated = np.sqrt(np.maximum(1 + law.pulled * noise, LEAST))  # standard errors follow the estimate
        z, shown = special.ndtri(1 - alpha / 2), (gap + law.se * noise) / estimated
        is_shown = (shown >= null.deviations(z)) | (shown <= null.deviations(-z))
        return is_shown.mean(axis=0), possible
