"""Two sides to compare: two groups, or a group and all others, with everything a test needs on the cells that occur."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from evenscore.estimation.bandwidth import NARROWEST, bandwidth_for
from evenscore.estimation.fitted_curves import quantiles, smooth_at, unsmoothed
from evenscore.estimation.kernels import Smoother, fit_at_cells, inverse_weight, smoother
from evenscore.tables import label_text
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.pairs import PairMatrices
from evenscore.tallies.tally_state import CellSums, Tally
from evenscore.types import Floats, Ints

REST = "the rest"
OVERLAP = (0.05, 0.95)
SIDE_BYTES = 1 << 29  # of dense pair matrices that are kept for the next comparison
DENSE = 0.75  # two groups that fill less than this share of all groups' cells are compared on their own, as if there were no others
SUMMED = tuple(name for name in CellSums.__slots__ if name not in ("position", "width", "tilt"))


@dataclass(frozen=True, slots=True)
class Side:
    """One side: its label, the groups it is made of, its users, and its sums on the cells of the comparison."""

    label: Any
    groups: tuple[Any, ...]
    n_users: int
    n_rows: int
    sums: CellSums
    pairs: PairMatrices

    @property
    def name(self) -> str:
        """The label, for people."""
        return label_text(self.label)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides on the cells (n_cells,) that either has rows in, and maybe more.

    cross: pair matrices of users that both have; binary: whether outcomes are 0 and 1.
    """

    lattice: Lattice
    weighting: str
    cells: Ints
    a: Side
    b: Side
    cross: PairMatrices | None
    position: Floats
    binary: bool

    @property
    def unsmoothed(self) -> bool:
        """Whether there are so few scores that each is a point of its own."""
        return unsmoothed(self.lattice, self.a.sums, self.b.sums)

    def smooth(self, side: Side, points: Floats, bandwidth: float, degree: int, kernel: str) -> Smoother:
        """The smoother of one side."""
        return smooth_at(self.lattice, side.sums, points, bandwidth, degree, kernel)

    def bandwidth(self, rule: float | str, degree: int, kernel: str, tally: Tally) -> float:
        """The bandwidth that both sides share; a rule gives no more than half of where they overlap.

        Wider, a curve would rest on scores that the other side does not have, and its bias would not cancel.
        """
        chosen = bandwidth_for(
            tally,
            [(side.groups, side.sums, side.n_users) for side in (self.a, self.b)],
            bandwidth=rule,
            weighting=self.weighting,
            degree=degree,
            kernel=kernel,
        )
        if not isinstance(rule, str) or self.unsmoothed:
            return chosen
        low, high = overlap(self)
        return min(chosen, max((high - low) / 2, NARROWEST * self.lattice.cell_width)) if low < high else chosen

    @property
    def weight(self) -> Floats:
        """The weight of both sides together, (n_cells,)."""
        return self.a.sums.W + self.b.sums.W

    def pooled_fit(self, bandwidth: float, degree: int, kernel: str) -> Floats:
        """The curve of both sides together at the cells, (n_cells,); a cell that nothing can be fitted at has its mean."""
        weight, outcome = self.weight, self.a.sums.Y + self.b.sums.Y
        if self.unsmoothed:
            return outcome * inverse_weight(weight)
        return fit_at_cells(
            position=self.position, weight=weight, outcome=outcome, bandwidth=bandwidth, degree=degree, kernel=kernel
        )

    def pooled_matrix(self, bandwidth: float, degree: int, kernel: str) -> Floats:
        """The same as a matrix on the summed outcomes, (n_cells, n_cells)."""
        means = np.diag(inverse_weight(self.weight))
        if self.unsmoothed:
            return means
        matrix = smoother(
            points=self.position,
            positions=self.position,
            weight=self.weight,
            bandwidth=bandwidth,
            degree=degree,
            kernel=kernel,
            near=False,
        ).matrix
        alone = ~np.isfinite(matrix).all(axis=1)
        matrix[alone] = means[alone]
        return matrix

    def residual_pairs(self, fit: Floats) -> tuple[Floats, Floats, Floats | None]:
        """R of side a, of side b and across, (n_cells, n_cells) each, for residuals from one fit at the cells."""
        cross = None if self.cross is None else self.cross.residual(fit, fit)
        return self.a.pairs.residual(fit, fit), self.b.pairs.residual(fit, fit), cross


@dataclass(frozen=True, slots=True)
class Whole:
    """All groups together: their sums, and the pair matrices of all their users over all cells."""

    sums: CellSums
    pairs: PairMatrices

    @classmethod
    def of(cls, tally: Tally, weighting: str) -> Whole:
        """Add up the groups; a user keeps the weights of each group, so no further scan is needed."""
        parts = [tally.sums(group, weighting) for group in tally.groups]
        total = {name: np.sum([getattr(part, name) for part in parts], axis=0) for name in SUMMED}
        n_cells = tally.lattice.n_cells
        pairs = PairMatrices(*(np.zeros((n_cells, n_cells)) for _ in range(4)))
        for a in tally.groups:
            for b in tally.groups if tally.cross else (a,):
                found = tally.pair_matrices(a, b, weighting)
                pairs = pairs if found is None else pairs + found
        return cls(_placed(tally.lattice, total), pairs)


class Sides:
    """Groups on the cells that any of them has rows in, so that what belongs to one group is made once for all its comparisons."""

    def __init__(self, tally: Tally, groups: Sequence[Any], weighting: str) -> None:
        self.tally, self.weighting = tally, weighting
        self._sums = {tally.index(group): tally.sums(group, weighting) for group in groups}
        self.cells = np.flatnonzero(np.any([sums.W > 0 for sums in self._sums.values()], axis=0))
        self.kept = max(2, SIDE_BYTES // (32 * len(self.cells) ** 2 + 1))
        self._kept_side = lru_cache(maxsize=self.kept)(lambda place: self._at(place, self.cells))

    def side(self, group: Any) -> Side:
        """A group on the cells of all."""
        return self._kept_side(self.tally.index(group))

    def _at(self, place: int, cells: Ints) -> Side:
        group = self.tally.groups[place]
        pairs = self.tally.pair_matrices(group, group, self.weighting, cells)
        return _side(self.tally, (group,), group, _at_cells(self._sums[place], cells), pairs)

    def compare(self, a: Any, b: Any) -> Comparison:
        """Two of the groups."""
        places = [self.tally.index(group) for group in (a, b)]
        cells = np.flatnonzero(self._sums[places[0]].W + self._sums[places[1]].W > 0)
        if len(cells) < DENSE * len(self.cells):
            one, other = (self._at(place, cells) for place in places)
        else:
            cells = self.cells
            one, other = (self._kept_side(place) for place in places)
        cross = self.tally.pair_matrices(a, b, self.weighting, cells)
        return _comparison(self.tally, self.weighting, cells, one, other, cross)

    def tiled(self, pairs: Sequence[tuple[Any, Any]]) -> list[int]:
        """The places of the pairs in an order in which groups that were used lately, and so are kept, come again."""
        size = max(1, self.kept // 2)
        tiles = [tuple(self.tally.index(group) // size for group in pair if group is not None) for pair in pairs]
        return sorted(range(len(pairs)), key=lambda place: tiles[place])


def compare_groups(tally: Tally, a: Any, b: Any, weighting: str) -> Comparison:
    """Two groups."""
    return Sides(tally, (a, b), weighting).compare(a, b)


def compare_rest(tally: Tally, group: Any, weighting: str, whole: Whole | None = None) -> Comparison:
    """A group and all others together, which are the whole less the group."""
    whole = whole or Whole.of(tally, weighting)
    own = tally.sums(group, weighting)
    position = tally.index(group)
    others = tuple(label for i, label in enumerate(tally.groups) if i != position)
    left = {name: getattr(whole.sums, name) - getattr(own, name) for name in SUMMED}
    gone = left["W"] <= 1e-12 * whole.sums.W  # what a difference of equal sums leaves is rounding
    rest = _placed(tally.lattice, {name: np.where(gone, 0.0, value) for name, value in left.items()})
    cells = np.flatnonzero(own.W + rest.W > 0)
    own_pairs = tally.pair_matrices(group, group, weighting, cells)
    assert own_pairs is not None
    shared = None
    for other in others if tally.cross else ():
        found = tally.pair_matrices(group, other, weighting, cells)
        shared = found if shared is None else shared if found is None else shared + found
    rest_pairs = whole.pairs.at(cells) - own_pairs
    if shared is not None:
        rest_pairs = rest_pairs - shared - shared.transposed()
    a = _side(tally, (group,), group, _at_cells(own, cells), own_pairs)
    b = _side(tally, others, REST, _at_cells(rest, cells), rest_pairs)
    return _comparison(tally, weighting, cells, a, b, shared)


def _side(tally: Tally, groups: tuple[Any, ...], label: Any, sums: CellSums, pairs: PairMatrices | None) -> Side:
    assert pairs is not None
    n_users, n_rows = tally.n_users, tally.n_rows
    return Side(label, groups, sum(n_users[group] for group in groups), sum(n_rows[group] for group in groups), sums, pairs)


def _comparison(tally: Tally, weighting: str, cells: Ints, a: Side, b: Side, cross: PairMatrices | None) -> Comparison:
    lattice = tally.lattice
    mean = np.full(lattice.n_cells, np.nan)
    weight = a.sums.W + b.sums.W
    mean[cells] = np.where(weight > 0, (a.sums.X + b.sums.X) * inverse_weight(weight), np.nan)
    return Comparison(lattice, weighting, cells, a, b, cross, lattice.positions(mean)[cells], tally.binary)


def _at_cells(sums: CellSums, cells: Ints) -> CellSums:
    return CellSums(**{name: getattr(sums, name)[cells] for name in CellSums.__slots__})


def _placed(lattice: Lattice, total: dict[str, Floats]) -> CellSums:
    """Sums with the position, width and tilt of their cells."""
    weight = total["W"]
    mean = np.divide(total["X"], weight, out=np.full(len(weight), np.nan), where=weight > 0)
    tilt = (total["XY"] - np.nan_to_num(mean) * total["Y"]) * lattice.axis_slopes(mean)
    return CellSums(**total, position=lattice.positions(mean), width=lattice.cell_widths, tilt=tilt)


def full(comparison: Comparison, side: Side) -> Floats:
    """The weight of a side on every cell of the lattice."""
    weight = np.zeros(comparison.lattice.n_cells)
    weight[comparison.cells] = side.sums.W
    return weight


def overlap(comparison: Comparison) -> tuple[float, float]:
    """Where both sides have people: the larger of the 5 % and the smaller of the 95 % quantiles, on the axis."""
    limits = np.array(
        [quantiles(comparison.lattice, full(comparison, side), np.array(OVERLAP)) for side in (comparison.a, comparison.b)]
    )
    return float(limits[:, 0].max()), float(limits[:, 1].min())


def no_overlap(comparison: Comparison) -> str:
    """Why nothing can be compared: where each side has its scores."""
    ranges = []
    for side in (comparison.a, comparison.b):
        low, high = comparison.lattice.to_score(quantiles(comparison.lattice, full(comparison, side), np.array(OVERLAP)))
        ranges.append(f"{side.name} has 90 % of its scores in [{low:.3g}, {high:.3g}]")
    return f"the scores of the two do not overlap: {ranges[0]}, {ranges[1]}"
