"""Two sides to compare: two groups, or a group and all others, with everything a test needs on the cells that occur."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenscore.bandwidth import FEW_CELLS, bandwidth_for
from evenscore.curves import quantiles, smooth_at, unsmoothed
from evenscore.kernels import Smoother, smoother
from evenscore.lattice import Lattice
from evenscore.pairs import PairMatrices
from evenscore.tables import label_text
from evenscore.tally import CellSums, Tally

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REST = "the rest"
OVERLAP = (0.05, 0.95)


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
    """Two sides on the cells (n_cells,) that either has rows in; cross: pair matrices of users that both sides have."""

    lattice: Lattice
    weighting: str
    cells: Ints
    a: Side
    b: Side
    cross: PairMatrices | None
    position: Floats

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
        return min(chosen, max((high - low) / 2, FEW_CELLS * self.lattice.cell_width)) if low < high else chosen

    def pooled(self, bandwidth: float, degree: int, kernel: str) -> tuple[Floats, Floats]:
        """The curve of both sides together at the cells, as a matrix (n_cells, n_cells) on the summed outcomes, and its values."""
        weight, outcome = self.a.sums.W + self.b.sums.W, self.a.sums.Y + self.b.sums.Y
        means = np.diag(1 / weight)
        if self.unsmoothed:
            return means, means @ outcome
        matrix = smoother(
            points=self.position,
            positions=self.position,
            weight=weight,
            bandwidth=bandwidth,
            degree=degree,
            kernel=kernel,
            near=False,
        ).matrix
        alone = ~np.isfinite(matrix).all(axis=1)
        matrix[alone] = means[alone]
        return matrix, matrix @ outcome

    def residual_pairs(self, fit: Floats) -> tuple[Floats, Floats, Floats | None]:
        """R of side a, of side b and across, (n_cells, n_cells) each, for residuals from one fit at the cells."""
        cross = None if self.cross is None else self.cross.residual(fit, fit)
        return self.a.pairs.residual(fit, fit), self.b.pairs.residual(fit, fit), cross


def compare_groups(tally: Tally, a: Any, b: Any, weighting: str) -> Comparison:
    """Two groups."""
    sums = [tally.sums(group, weighting) for group in (a, b)]
    return _comparison(tally, weighting, sums, ((a, (a,)), (b, (b,))))


def compare_rest(tally: Tally, group: Any, weighting: str) -> Comparison:
    """A group and all others together; a user keeps the weights of each group, so no further scan is needed."""
    others = tuple(label for label in tally.groups if label is not tally.groups[tally.index(group)])
    sums = [tally.sums(group, weighting), _summed(tally, others, weighting)]
    return _comparison(tally, weighting, sums, ((group, (group,)), (REST, others)))


def _comparison(
    tally: Tally, weighting: str, sums: list[CellSums], sides: tuple[tuple[Any, tuple[Any, ...]], ...]
) -> Comparison:
    cells = np.flatnonzero(sums[0].W + sums[1].W > 0)
    kept = [_at_cells(one, cells) for one in sums]
    made = [
        Side(
            label,
            groups,
            sum(tally.n_users[group] for group in groups),
            sum(tally.n_rows[group] for group in groups),
            own,
            _added([tally.pair_matrices(x, y, weighting, cells) for x in groups for y in groups], len(cells)),
        )
        for (label, groups), own in zip(sides, kept, strict=True)
    ]
    a, b = made
    shared = [tally.pair_matrices(x, y, weighting, cells) for x in a.groups for y in b.groups] if tally.cross else []
    weight = a.sums.W + b.sums.W
    mean = np.full(tally.lattice.n_cells, np.nan)
    mean[cells] = (a.sums.X + b.sums.X) / weight
    return Comparison(
        tally.lattice,
        weighting,
        cells,
        a,
        b,
        _added(shared, len(cells)) if any(pairs is not None for pairs in shared) else None,
        tally.lattice.positions(mean)[cells],
    )


def _at_cells(sums: CellSums, cells: Ints) -> CellSums:
    return CellSums(**{name: getattr(sums, name)[cells] for name in CellSums.__slots__})


def _added(matrices: list[PairMatrices | None], n_cells: int) -> PairMatrices:
    zero = PairMatrices(*(np.zeros((n_cells, n_cells)) for _ in range(4)))
    return reduce(lambda x, y: x + y, [pairs for pairs in matrices if pairs is not None], zero)


def _summed(tally: Tally, groups: tuple[Any, ...], weighting: str) -> CellSums:
    """The sums of several groups together."""
    parts = [tally.sums(group, weighting) for group in groups]
    total = {name: sum(getattr(part, name) for part in parts) for name in CellSums.__slots__ if name not in ("position", "tilt")}
    weight = np.asarray(total["W"])
    mean = np.divide(total["X"], weight, out=np.full(len(weight), np.nan), where=weight > 0)
    tilt = (np.asarray(total["XY"]) - np.nan_to_num(mean) * total["Y"]) * tally.lattice.axis_slopes(mean)
    return CellSums(**total, position=tally.lattice.positions(mean), tilt=tilt)  # type: ignore[arg-type]


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
