"""What rows of one item share: sums by item that add up over shards, and the pair sums that follow from them.

An item, such as a job, a creator or a day, is met by many users, so a shard of whole users holds only some of its rows. What its
rows put into a cell adds up over shards; products of such sums do not, and are taken at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from evenscore.errors import DataError
from evenscore.tallies.moments import Factor, Moments
from evenscore.tallies.pairs import USER_PAIRS, PairSums
from evenscore.tallies.runs import run_lengths, run_starts
from evenscore.types import Floats, Ints

BLOCKS = 64  # item sums are kept for at most so many blocks of neighbouring cells
MOST_LINES = 1 << 20  # 44 bytes each; beyond them only their products are kept, and the tally cannot be added to others
MOST_COLUMNS = 1 << 12  # blocks of all groups: their products take a gigabyte
OWNERS_AT_ONCE = 2048  # rows of the dense matrix
CHUNK = 1 << 18  # lines at a time
LONG = 6  # an owner of lines is a row of a dense matrix from 1 / LONG of the columns on; measured
SUMS = Moments.single(w=Factor(), y=Factor(y=1))


def n_blocks(n_cells: int) -> int:
    """How many blocks so many cells make."""
    return min(n_cells, BLOCKS)


def block_of(n_cells: int) -> Ints:
    """The block of each cell, (n_cells,): neighbours in equal numbers, a cell each while there are few."""
    return np.arange(n_cells) * n_blocks(n_cells) // n_cells


def block_cells(n_cells: int) -> Ints:
    """The cell in the middle of each block, (n_blocks,), which stands for it."""
    starts = np.searchsorted(block_of(n_cells), np.arange(n_blocks(n_cells) + 1))
    return (starts[:-1] + starts[1:] - 1) // 2


@dataclass(frozen=True, slots=True)
class ItemLines:
    """One line for each item, group and cell with labelled rows in it, in this order.

    item: (n,) the hash of its id; group, cell: (n,), 16 bits, the cell stands for its block; values: (2 weightings, 2, n), what
    its rows weigh and their weighted outcome.
    """

    item: Ints
    group: Ints
    cell: Ints
    values: Floats

    @classmethod
    def empty(cls) -> Self:
        """No rows at all."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none.astype(np.int16), none.astype(np.int16), np.zeros((2, 2, 0)))

    @classmethod
    def of(cls, item: Ints, group: Ints, cell: Ints, values: Floats) -> Self:
        """From lines in any order, of which several may be about the same."""
        order = np.lexsort((cell, group, item))
        item, group, cell = item[order], group[order], cell[order]
        starts = run_starts(item, group, cell)
        summed = np.add.reduceat(values[:, :, order], starts, axis=2) if len(order) else values
        return cls(item[starts], group[starts].astype(np.int16), cell[starts].astype(np.int16), summed)

    def __len__(self) -> int:
        return len(self.item)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.item.nbytes + self.group.nbytes + self.cell.nbytes + self.values.nbytes

    def __add__(self, other: Self) -> Self:
        item, group = np.concatenate([self.item, other.item]), np.concatenate([self.group, other.group])
        values = np.concatenate([self.values, other.values], axis=2)
        return self.of(item, group, np.concatenate([self.cell, other.cell]), values)

    def recentred(self, shift: float) -> Self:
        """The sums for outcomes that are larger by ``shift``."""
        return type(self)(self.item, self.group, self.cell, SUMS.recentred(self.values, shift)) if shift else self

    def scaled(self, factor: float) -> Self:
        """The sums of so many times as many items like these, as far as their products go."""
        return type(self)(self.item, self.group, self.cell, self.values * np.sqrt(factor))

    def remapped(self, cells: Sequence[Ints], n_cells: int) -> Self:
        """The sums on other cells: old cell c of group g is in ``cells[g][c]``."""
        moved = np.array(cells)[self.group, self.cell] if len(self) else self.cell
        return self.of(self.item, self.group, block_cells(n_cells)[block_of(n_cells)[moved]], self.values)

    def renumbered(self, places: Mapping[int, int]) -> Self:
        """The lines of some groups only, under other numbers that are in the same order."""
        numbers = np.full(max(places, default=-1) + 1, -1)
        numbers[list(places)] = list(places.values())
        kept = np.flatnonzero(np.isin(self.group, list(places)))
        return self.of(self.item[kept], numbers[self.group[kept]], self.cell[kept], self.values[:, :, kept])

    def counts(self, n_groups: int) -> tuple[int, ...]:
        """Items of each group."""
        first = run_starts(self.item, self.group)
        return tuple(np.bincount(self.group[first], minlength=n_groups).tolist())


def is_ordered(lines: ItemLines) -> bool:
    """Whether lines are in order, each once."""
    order = np.lexsort((lines.cell, lines.group, lines.item))
    ordered = bool((order == np.arange(len(lines))).all())
    return ordered and len(run_starts(lines.item, lines.group, lines.cell)) == len(lines)


class Products:
    """Sums over owners (items, or users and their items) of what one put into a column times what it put into another.

    A column is a block of a group. total: (2 weightings, 2, n_columns, 2, n_columns), the 2 being weight and outcome.
    """

    def __init__(self, n_groups: int, n_cells: int) -> None:
        self.n_groups = n_groups
        self.n_cells = n_cells
        self.n_blocks = n_blocks(n_cells)
        self.n_columns = n_groups * self.n_blocks
        if self.n_columns > MOST_COLUMNS:
            raise DataError(
                f"item= with {n_groups} groups: the sums that tie the groups together outgrow the memory; use at most "
                f"{MOST_COLUMNS // self.n_blocks} groups, or a coarser lattice (cells=16)"
            )
        self.total = np.zeros((2, 2, self.n_columns, 2, self.n_columns))

    def add(self, starts: Ints, column: Ints, values: Floats) -> None:
        """Lines of owners, one owner after the other: starts: where each begins; column: (n,); values: (2 weightings, 2, n)."""
        lengths = run_lengths(starts, len(column))
        if (lengths == 1).all():
            self.add_alone(column, values)
            return
        for chosen, add in (
            (lengths == 1, self.add_alone),
            ((lengths > 1) & (lengths * LONG <= self.n_columns), self._add_short),
            ((lengths > 1) & (lengths * LONG > self.n_columns), self._add_long),
        ):
            if chosen.all():
                add(column, values, lengths)
            elif chosen.any():
                mine = np.repeat(chosen, lengths)
                add(column[mine], values[:, :, mine], lengths[chosen])

    def add_alone(self, column: Ints, values: Floats, _lengths: Ints | None = None) -> None:
        """Owners with a single line, which make pairs of a column with itself only."""
        every = np.arange(self.n_columns)
        for weighting, (w, y) in enumerate(values):
            mixed = np.bincount(column, w * y, minlength=self.n_columns)
            for i, j, term in ((0, 0, w * w), (0, 1, None), (1, 0, None), (1, 1, y * y)):
                summed = mixed if term is None else np.bincount(column, term, minlength=self.n_columns)
                self.total[weighting, i, every, j, every] += summed

    def _add_long(self, column: Ints, values: Floats, lengths: Ints) -> None:
        """Owners with many lines, as rows of a dense matrix, some at a time."""
        size = self.n_columns
        ends = np.cumsum(lengths)
        for first in range(0, len(lengths), OWNERS_AT_ONCE):
            last = min(first + OWNERS_AT_ONCE, len(lengths))
            some = slice(int(ends[first] - lengths[first]), int(ends[last - 1]))
            row = np.repeat(np.arange(last - first), lengths[first:last])
            place = row * (2 * size) + column[some]
            dense = np.zeros((last - first, 2 * size))
            for weighting in range(2):
                dense.reshape(-1)[place], dense.reshape(-1)[place + size] = values[weighting, :, some]
                self.total[weighting] += (dense.T @ dense).reshape(2, size, 2, size)

    def _add_short(self, column: Ints, values: Floats, lengths: Ints) -> None:
        """Owners with few lines: every pair of an owner's lines, by a product of sparse matrices."""
        from scipy import sparse

        size = self.n_columns
        begins = np.concatenate([[0], np.cumsum(2 * lengths)])
        columns = np.stack([column, column + size], axis=1).ravel()
        for weighting in range(2):
            held = (values[weighting].T.ravel(), columns, begins)
            matrix = sparse.csr_array(held, shape=(len(lengths), 2 * size))
            self.total[weighting] += (matrix.T @ matrix).toarray().reshape(2, size, 2, size)

    def pair_sums(self) -> dict[tuple[int, int], PairSums]:
        """For each pair of groups (a <= b) that has any; blocks by the cell that stands for them."""
        size, cell = self.n_blocks, block_cells(self.n_cells)
        by_groups: dict[tuple[int, int], PairSums] = {}
        pairs = cell[:, None] * self.n_cells + cell
        for a in range(self.n_groups):
            for b in range(a, self.n_groups):
                left, right = (slice(g * size, (g + 1) * size) for g in (a, b))
                square = self.total[:, :, left, :, right].transpose(0, 1, 3, 2, 4).reshape(2, 4, size, size)
                kept = (square != 0).any(axis=(0, 1)) & ((a != b) | (cell[:, None] <= cell))
                if a == b or kept.any():
                    sums = PairSums(USER_PAIRS, square[:, :, kept], self.n_cells, a == b, pairs[kept].astype(np.int32))
                    by_groups[a, b] = sums.packed()
        return by_groups


def products(lines: ItemLines, n_groups: int, n_cells: int) -> dict[tuple[int, int], PairSums]:
    """For each pair of groups (a <= b) the sum over items of what the item put into one cell times what it put into another."""
    total = Products(n_groups, n_cells)
    starts = run_starts(lines.item)
    block = block_of(n_cells)
    ends = np.append(starts[1:], len(lines))
    first = 0
    while first < len(starts):
        last = max(first + 1, int(np.searchsorted(ends, starts[first] + CHUNK, side="right")))
        some = slice(int(starts[first]), int(ends[last - 1]))
        column = lines.group[some].astype(np.int64) * n_blocks(n_cells) + block[lines.cell[some]]
        total.add(starts[first:last] - starts[first], column, lines.values[:, :, some])
        first = last
    return total.pair_sums()
