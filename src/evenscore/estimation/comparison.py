"""Two sides to compare: two groups, or a group and all others, with everything a test needs on the cells that occur."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from evenscore.errors import hush
from evenscore.estimation.bandwidth import NARROWEST, finer_words, settle
from evenscore.estimation.kernels import Smoother, inverse_weight
from evenscore.estimation.smoothing import CellFits, Smoothing, unsmoothed
from evenscore.tallies.pairs import PairMatrices
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.view import GroupView
from evenscore.types import Floats
from evenscore.wording import figures

CELLS_A_BANDWIDTH = 7  # at least, where cells are joined, and a fifth more at most
SIDE_BYTES = 1 << 28  # of dense pair matrices that are kept for the next comparison
# Of the rule of thumb, for tests of a gap: of 100 bumps four more are found than at 1, and two fewer slopes (docs/parity-tests.md).
TESTED = 0.8
SHARED = 0.5  # of the people of each side: so many have one of few scores that both sides have, or such scores are joined by lines
DENSE = 0.75  # two groups that fill less than this share of all groups' cells are compared on their own, as if there were no others


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two sides on the same cells (n_cells,): those that either has rows in, and maybe more.

    weight, outcome: (n_cells,), the sums of both together; position: where people of both lie in the cells, on the axis.
    """

    a: GroupView
    b: GroupView
    weight: Floats
    outcome: Floats
    position: Floats

    @classmethod
    def of(cls, a: GroupView, b: GroupView) -> Comparison:
        """Two views on the same cells."""
        weight, outcome = a.sums.W + b.sums.W, a.sums.Y + b.sums.Y
        # Weighted, but the plain mean of two equal places where nobody is.
        share = np.divide(a.sums.W, weight, out=np.full_like(weight, 0.5), where=weight > 0)
        return cls(a, b, weight, outcome, b.sums.position + share * (a.sums.position - b.sums.position))

    @cached_property
    def cross(self) -> PairMatrices | None:
        """Pair matrices of users that both have."""
        return self.a.shared_pairs(self.b)

    def joined(self, bandwidth: float) -> Comparison:
        """The same on cells of which a bandwidth spans so many that it makes no difference (docs/lattice.md).

        Bandwidths that are nearly the same have the same cells, so that what belongs to a group is made once for all its pairs.
        """
        step = 2 ** (np.floor(4 * np.log2(bandwidth / CELLS_A_BANDWIDTH)) / 4)
        a, b = (side.joined(float(step)) for side in self.sides)
        return self if a is self.a else Comparison.of(a, b)

    @cached_property
    def overlap(self) -> tuple[float, float]:
        """Where both sides have people: the larger of the 5 % and the smaller of the 95 % quantiles, on the axis.

        Both are the same place when all people share one cell, inside which nothing is known.
        """
        limits = np.array([side.bulk for side in self.sides])
        if _shared_cell(self) is not None:
            return float(limits.mean()), float(limits.mean())
        return float(limits[:, 0].max()), float(limits[:, 1].min())

    @property
    def sides(self) -> tuple[GroupView, GroupView]:
        """Both."""
        return self.a, self.b

    @cached_property
    def unsmoothed(self) -> bool:
        """Whether there are so few scores that each is a point of its own, and most people have one that both sides have."""
        return unsmoothed(self.a.lattice, self.a.sums, self.b.sums) and self._share_values

    @property
    def _share_values(self) -> bool:
        shared = (self.a.sums.W > 0) & (self.b.sums.W > 0)
        return all(side.sums.W[shared].sum() >= SHARED * side.total for side in self.sides)

    @property
    def few_valued(self) -> list[GroupView]:
        """Sides with few scores of their own, which the other side hardly has: calibrated, scores of two groups never coincide."""
        return [] if self.unsmoothed else [side for side in self.sides if unsmoothed(side.lattice, side.sums)]

    def smoothers(self, points: Floats, smoothing: Smoothing, *, sloped: bool = False) -> list[Smoother]:
        """The smoother of each side, with slopes if they are needed; few values of its own are joined by straight lines."""
        if any(unsmoothed(side.lattice, side.sums) for side in self.sides):
            return [smoothing.smoother(side, points, between=not self.unsmoothed, sloped=sloped) for side in self.sides]
        return smoothing.both(self.sides, points, sloped=sloped)

    def settle(self, smoothing: Smoothing) -> Smoothing:
        """The smoothing with the bandwidth that both sides share; a rule gives no more than half of where they overlap.

        Wider, a curve would rest on scores that the other side does not have, and its bias would not cancel.
        """
        settled = settle(smoothing, self.sides, rare=True)
        if not isinstance(smoothing.bandwidth, str) or self.unsmoothed:
            return settled
        least = NARROWEST * self.a.lattice.cell_width
        h = max(TESTED * settled.h, least) if smoothing.bandwidth == "test" else settled.h
        low, high = self.overlap
        if low < high:
            h = min(h, max((high - low) / 2, least))
        return settled.at(max(h, *map(_step, self.sides)))

    def pooled_fit(self, smoothing: Smoothing) -> Floats:
        """The curve of both sides together at the cells, (n_cells,); a cell that nothing can be fitted at has its mean."""
        if self.unsmoothed:
            return self.outcome * inverse_weight(self.weight)
        return self.fits(smoothing).fit(self.outcome)

    def combine_fits(self, values: Floats, smoothing: Smoothing) -> Floats:
        """values @ L, (n, n_cells), with L what makes the same of the summed outcomes; values: (n, n_cells)."""
        if self.unsmoothed:
            return values * inverse_weight(self.weight)
        return self.fits(smoothing).combine(values)

    @cached_property
    def fits(self) -> Callable[[Smoothing], CellFits]:
        """Fits of both sides together at the cells, with a bandwidth that is a number; made once for all that is fitted so."""
        position, weight = self.position, self.weight
        return lru_cache(maxsize=1)(lambda smoothing: smoothing.fits_at(position, weight))


class Sides:
    """All groups, each also on the cells that any has rows in, so that what belongs to one is made once for all its pairs."""

    def __init__(self, tally: Tally, weighting: str) -> None:
        self.tally, self.weighting = tally, weighting
        self.views = GroupView.each(tally, weighting)
        self.cells = np.flatnonzero(np.any([view.sums.W > 0 for view in self.views], axis=0))
        self.kept = max(2, SIDE_BYTES // (32 * len(self.cells) ** 2 + 1))
        views, cells = self.views, self.cells
        # Not a method: a cache that held the object would keep it alive until the next collection of cycles.
        self.side = lru_cache(maxsize=self.kept)(lambda index: views[index].at(cells))

    @cached_property
    def whole(self) -> GroupView:
        """All groups together."""
        whole = GroupView.whole(self.tally, self.weighting)
        pairs_of = lru_cache(maxsize=2)(lambda places: whole.pairs_at(np.frombuffer(places, dtype=np.int64)))
        return replace(whole, pairs_at=lambda places: pairs_of(places.tobytes()))

    def compare(self, a: int, b: int | None) -> Comparison:
        """Two of the groups, by position in the tally, or a group and all others (None)."""
        if b is None:
            return compare_rest(self.views[a], self.whole)
        cells = np.flatnonzero(self.views[a].sums.W + self.views[b].sums.W > 0)
        if len(cells) < DENSE * len(self.cells):
            return Comparison.of(self.views[a].at(cells), self.views[b].at(cells))
        return Comparison.of(self.side(a), self.side(b))

    def tile(self, pairs: Sequence[tuple[int, int | None]]) -> list[int]:
        """The numbers of the pairs in an order in which groups that were used lately, and so are kept, come again."""
        size = max(1, self.kept // 2)

        def tile(number: int) -> tuple[int, int]:
            a, b = pairs[number]
            return a // size, 0 if b is None else b // size

        return sorted(range(len(pairs)), key=tile)


def join_views(views: Sequence[GroupView], smoothing: Smoothing) -> list[GroupView]:
    """Views on the same cells, joined as far as the narrowest bandwidth of their own curves allows."""
    # Hushed: those who smooth say that a bandwidth is narrow.
    widths = [settle(smoothing, [view], hush, rare=True).h for view in views if view.n_rows > 0]
    return [view.joined(min(widths) / CELLS_A_BANDWIDTH) for view in views] if widths else list(views)


def compare_groups(tally: Tally, a: Any, b: Any, weighting: str) -> Comparison:
    """Two groups, on the cells that either has rows in."""
    views = [GroupView.of(tally, group, weighting) for group in (a, b)]
    cells = np.flatnonzero(views[0].sums.W + views[1].sums.W > 0)
    return Comparison.of(*(view.at(cells) for view in views))


def compare_rest(own: GroupView, whole: GroupView) -> Comparison:
    """A group and all others together, which are the whole less the group."""
    return Comparison.of(own.at(whole.used), whole.less(own).at(whole.used))


def _step(side: GroupView) -> float:
    """From one score of a side to the next, typically, on the axis; 0 where cells are not scores, and so have no holes between."""
    if not side.lattice.discrete:
        return 0.0
    values = side.sums.position[side.sums.W > 0]
    return float(np.median(np.diff(values))) if len(values) > 1 else 0.0


def _shared_cell(comparison: Comparison) -> int | None:
    """The one cell that everybody is in although there are others; None when people are in several, or a cell is a score."""
    used = comparison.a.cells[comparison.weight > 0]
    lattice = comparison.a.lattice
    return int(used[0]) if len(used) == 1 and lattice.n_cells > 1 and not lattice.discrete else None


def no_overlap(comparison: Comparison) -> str:
    """Why nothing can be compared: where each side has its scores."""
    ranges = []
    cell = _shared_cell(comparison)
    if cell is not None:
        low, high = comparison.a.lattice.limits(np.array([cell]), comparison.a.score[comparison.weight > 0])
        where = f"from {figures(low[0])} to {figures(high[0])}"
        return (
            f"all scores are in one of the {comparison.a.lattice.n_cells} cells, {where}, inside which "
            f"nothing can be compared; {finer_words(comparison.a.lattice)}"
        )
    for side in comparison.sides:
        low, high = side.lattice.to_score(side.bulk)
        ranges.append(f"from {figures(low)} to {figures(high)} in {side.name}")
    return f"the scores of the two do not overlap: 90 % lie {ranges[0]}, and {ranges[1]}"
