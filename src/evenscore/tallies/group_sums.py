"""What a tally keeps of one group, and its sums under one weighting by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from evenscore.ratios import ratio
from evenscore.tallies.blocks import BLOCKS, COUNTED, FOLDED, HIGHER, VECTORS, Blocks
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.moments import Sums, sum_cells
from evenscore.tallies.pairs import PairSums
from evenscore.types import Floats, Ints


@dataclass(frozen=True, slots=True)
class CellSums:
    """The sums of one group under one weighting, each (n_cells,).

    W weight; Y outcome and Y2 squared outcome, as deviations from the tally's centre; X score; XY score times outcome.
    U weight of rows without a known outcome; A weight of all rows, labelled or not (a row counts 1 / all rows of the user).
    V0, V1, V2 the row-level sums of w^2, w^2 y, w^2 y^2. N users with a labelled row in the cell.
    position: where the cells lie on the axis, and width: how wide they are there, 0 for a cell that is one value. tilt: sum of
    weighted outcome times the row's distance from that position, so that a smoother can follow outcomes inside a cell.
    """

    W: Floats
    Y: Floats
    X: Floats
    Y2: Floats
    XY: Floats
    U: Floats
    A: Floats
    V0: Floats
    V1: Floats
    V2: Floats
    N: Floats
    position: Floats
    width: Floats
    tilt: Floats

    @classmethod
    def placed(cls, lattice: Lattice, sums: Mapping[str, Floats]) -> CellSums:
        """The sums, W to N, with the position, width and tilt of their cells."""
        weight = sums["W"]
        mean = ratio(sums["X"], weight, np.nan)
        tilt = np.where(weight > 0, sums["XY"] - np.nan_to_num(mean) * sums["Y"], 0.0) * lattice.axis_slopes(mean)
        return cls(**sums, position=lattice.positions(mean), width=lattice.cell_widths, tilt=tilt)


@dataclass(frozen=True, slots=True)
class FoldSums:
    """W, Y, X and Y2 of one group under one weighting for each user fold, each (10, n_cells)."""

    W: Floats
    Y: Floats
    X: Floats
    Y2: Floats


@dataclass(frozen=True, slots=True)
class HigherSums:
    """Row-level sums for skewness and kurtosis of one group under one weighting, each (n_cells,): T0 to T3 are w^3 y^k, Q0 to Q4
    w^4 y^k, with outcomes y as deviations from the tally's centre."""

    T0: Floats
    T1: Floats
    T2: Floats
    T3: Floats
    Q0: Floats
    Q1: Floats
    Q2: Floats
    Q3: Floats
    Q4: Floats


@dataclass(frozen=True, slots=True)
class GroupTally:
    """What is kept of one group: counts, users with a labelled row in each cell (n_cells,), and blocks of sums by name."""

    n_users: int
    n_rows: int
    n_unlabelled: int
    cell_users: Floats
    blocks: Blocks

    @classmethod
    def empty(cls, n_cells: int, blocks: Iterable[str] = COUNTED) -> GroupTally:
        """A group without rows."""
        return cls(0, 0, 0, np.zeros(n_cells), {name: BLOCKS[name].empty(n_cells) for name in blocks})

    @property
    def vectors(self) -> Sums:
        """The sums of ``CellSums``."""
        return self.blocks["vectors"]

    @property
    def folds(self) -> Sums:
        """The sums of ``FoldSums``."""
        return self.blocks["folds"]

    @property
    def pairs(self) -> PairSums:
        """The sums over pairs of cells."""
        return cast(PairSums, self.blocks["pairs"])

    @property
    def has_weight(self) -> bool:
        """Whether any labelled row has a weight other than 0."""
        return bool((self.vectors.under("row")["W"] > 0).any())

    def __add__(self, other: GroupTally) -> GroupTally:
        return GroupTally(
            self.n_users + other.n_users,
            self.n_rows + other.n_rows,
            self.n_unlabelled + other.n_unlabelled,
            self.cell_users + other.cell_users,
            {name: sums + other.blocks[name] for name, sums in self.blocks.items()},
        )

    def with_blocks(self, **blocks: Sums) -> GroupTally:
        """The same with these blocks in place of its own, or beside them."""
        return replace(self, blocks={**self.blocks, **blocks})

    def changed(self, change: Callable[[Sums], Sums]) -> GroupTally:
        """The same with every block changed."""
        return replace(self, blocks={name: change(sums) for name, sums in self.blocks.items()})

    def remapped(self, cells: Ints, n_cells: int) -> GroupTally:
        """The sums on other cells: old cell c is in ``cells[c]``; a user of cells that become one may count twice there."""
        users = np.minimum(sum_cells(self.cell_users, cells, n_cells), self.n_users)
        return replace(self.changed(lambda sums: sums.remapped(cells, n_cells)), cell_users=users)


def group_tally(
    counts: tuple[int, int, int],
    cell_users: Floats,
    folds: Mapping[str, Floats],
    vectors: Mapping[str, Floats],
    pairs: PairSums,
    higher: Mapping[str, Floats] | None,
) -> GroupTally:
    """A group's tally from sums by name, each (2 weightings, ..., n_cells): those by fold, the vectors that are not by fold, and
    those of higher powers if they are known."""
    totals = {name: values.sum(axis=1) for name, values in folds.items()}
    blocks: Blocks = {
        "vectors": Sums.from_named(VECTORS, {**totals, **vectors}),
        "folds": Sums.from_named(FOLDED, folds),
        "pairs": pairs,
        **({} if higher is None else {"higher": Sums.from_named(HIGHER, higher)}),
    }
    return GroupTally(*counts, cell_users, blocks)
