"""Two sides to compare: two groups, or a group and all others, with everything a test needs on the cells that occur."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from evenscore.estimation.bandwidth import NARROWEST, finer_words, settle
from evenscore.estimation.kernels import inverse_weight
from evenscore.estimation.smoothing import Smoothing, unsmoothed
from evenscore.tallies.pairs import PairMatrices
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

OVERLAP = np.array([0.05, 0.95])
SIDE_BYTES = 1 << 29  # of dense pair matrices that are kept for the next comparison
# Of the rule of thumb, for tests of a gap: four more bumps in a hundred are found than at 1, for two fewer slopes and as many shifts
# (docs/parity-tests.md).
TESTED = 0.8
DENSE = 0.75  # two groups that fill less than this share of all groups' cells are compared on their own, as if there were no others


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides on the same cells (n_cells,): those that either has rows in, and maybe more.

    cross: pair matrices of users that both have. weight, outcome: (n_cells,), the sums of both together; position: where people of
    both lie in the cells, on the axis.
    """

    a: GroupView
    b: GroupView
    cross: PairMatrices | None
    weight: Floats
    outcome: Floats
    position: Floats

    @classmethod
    def of(cls, a: GroupView, b: GroupView) -> Comparison:
        """Two views on the same cells."""
        weight, outcome = a.sums.W + b.sums.W, a.sums.Y + b.sums.Y
        mean = np.full(a.lattice.n_cells, np.nan)
        mean[a.cells] = np.where(weight > 0, (a.sums.X + b.sums.X) * inverse_weight(weight), np.nan)
        return cls(a, b, a.shared_pairs(b), weight, outcome, a.lattice.positions(mean)[a.cells])

    @property
    def sides(self) -> tuple[GroupView, GroupView]:
        """Both."""
        return self.a, self.b

    @property
    def unsmoothed(self) -> bool:
        """Whether there are so few scores that each is a point of its own."""
        return unsmoothed(self.a.lattice, self.a.sums, self.b.sums)

    def settle(self, smoothing: Smoothing) -> Smoothing:
        """The smoothing with the bandwidth that both sides share; a rule gives no more than half of where they overlap.

        Wider, a curve would rest on scores that the other side does not have, and its bias would not cancel.
        """
        settled = settle(smoothing, self.sides, rare=True)
        if not isinstance(smoothing.bandwidth, str) or self.unsmoothed:
            return settled
        least = NARROWEST * self.a.lattice.cell_width
        h = max(TESTED * settled.h, least) if smoothing.bandwidth == "test" else settled.h
        low, high = overlap(self)
        return settled.at(min(h, max((high - low) / 2, least)) if low < high else h)

    def pooled_fit(self, smoothing: Smoothing) -> Floats:
        """The curve of both sides together at the cells, (n_cells,); a cell that nothing can be fitted at has its mean."""
        if self.unsmoothed:
            return self.outcome * inverse_weight(self.weight)
        return smoothing.fit_at_cells(self.position, self.weight, self.outcome)

    def pooled_matrix(self, smoothing: Smoothing) -> Floats:
        """The same as a matrix on the summed outcomes, (n_cells, n_cells)."""
        means = np.diag(inverse_weight(self.weight))
        if self.unsmoothed:
            return means
        matrix = smoothing.matrix(self.position, self.position, self.weight)
        alone = ~np.isfinite(matrix).all(axis=1)
        matrix[alone] = means[alone]
        return matrix

    def residual_pairs(self, fit: Floats) -> tuple[Floats, Floats, Floats | None]:
        """R of side a, of side b and across, (n_cells, n_cells) each, for residuals from one fit at the cells."""
        cross = None if self.cross is None else self.cross.residual(fit, fit)
        return self.a.pairs.residual(fit, fit), self.b.pairs.residual(fit, fit), cross


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
        return GroupView.whole(self.tally, self.weighting)

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


def compare_groups(tally: Tally, a: Any, b: Any, weighting: str) -> Comparison:
    """Two groups, on the cells that either has rows in."""
    views = [GroupView.of(tally, group, weighting) for group in (a, b)]
    cells = np.flatnonzero(views[0].sums.W + views[1].sums.W > 0)
    return Comparison.of(*(view.at(cells) for view in views))


def compare_rest(own: GroupView, whole: GroupView) -> Comparison:
    """A group and all others together, which are the whole less the group."""
    rest = whole.less(own)
    cells = np.flatnonzero(own.sums.W + rest.sums.W > 0)
    return Comparison.of(own.at(cells), rest.at(cells))


def overlap(comparison: Comparison) -> tuple[float, float]:
    """Where both sides have people: the larger of the 5 % and the smaller of the 95 % quantiles, on the axis.

    Both are the same place when all people share one cell, inside which nothing is known.
    """
    limits = np.array([side.quantiles(OVERLAP) for side in comparison.sides])
    if _shared_cell(comparison) is not None:
        return float(limits.mean()), float(limits.mean())
    return float(limits[:, 0].max()), float(limits[:, 1].min())


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
        return (
            f"all scores are in one of the {comparison.a.lattice.n_cells} cells, from {low[0]:.3g} to {high[0]:.3g}, inside which "
            f"nothing can be compared; {finer_words(comparison.a.lattice)}"
        )
    for side in comparison.sides:
        low, high = side.lattice.to_score(side.quantiles(OVERLAP))
        ranges.append(f"{side.name} has 90 % of its scores in [{low:.3g}, {high:.3g}]")
    return f"the scores of the two do not overlap: {ranges[0]}, {ranges[1]}"
