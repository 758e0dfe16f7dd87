"""Rows of whole users become sums by item, and by user and item."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.data.coding import Users
from evenscore.data.observations import Observations
from evenscore.tallies.item_sums import ItemLines, Products, block_cells, block_of, n_blocks, run_starts
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.pairs import PairSums
from evenscore.types import Floats, Ints

DENSE = 8  # codes may be so many times as many as rows before they are made compact
KEY_BITS = 63
CHUNK = 1 << 17  # rows at a time: their sums stay in the cache


@dataclass(frozen=True, slots=True)
class CountedItems:
    """Sums by item, and for pairs of groups the products of what a user put into cells by rows of one item."""

    lines: ItemLines
    both: dict[tuple[int, int], PairSums]


def count_items(observations: Observations, lattice: Lattice, centre: float) -> CountedItems:
    """Of the labelled rows; these must hold every row of their users."""
    assert observations.items is not None
    n_cells, n_groups = lattice.n_cells, len(observations.groups)
    rows = np.arange(observations.n_rows) if observations.labelled is None else np.flatnonzero(observations.labelled)
    both = Products(n_groups, n_cells)
    if len(rows) == 0:
        return CountedItems(ItemLines.empty(), both.pair_sums())
    user, n_users = _codes(observations.users, rows)
    item, hashes = _item_numbers(observations.items, rows)
    block = block_of(n_cells)[lattice.cell(observations.score[rows])]
    columns = (observations.group[rows] * np.int16(n_blocks(n_cells)) + block).astype(np.int16)
    weights = _Weights(observations, rows, user, n_users * n_groups, centre)
    ordered = _Ordered.of(item, len(hashes), user, n_users)
    del item, user
    found: list[tuple[Ints, Ints, Floats]] = []
    for some in _whole_items(ordered.item):
        order, column = ordered.order[some], columns[ordered.order[some]].astype(np.int64)
        values = weights.of(order, order if observations.labelled is None else rows[order])
        found.append(_lines_of(ordered.item[some], column, values, both.n_columns))
        _add_both(both, ordered.item[some], ordered.user[some], column, values)
    number, column, sums = (np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True))
    group, block = np.divmod(column, np.int16(n_blocks(n_cells)))
    cell: Any = block_cells(n_cells).astype(np.int16)[block]
    lines = ItemLines(hashes[number], group, cell, sums)
    return CountedItems(lines, both.pair_sums())


def _codes(users: Users, rows: Ints) -> tuple[Ints, int]:
    """Who each row belongs to, from 0 on, and how many codes there may be."""
    if users.span <= DENSE * len(users.codes):
        return users.codes[rows].astype(np.int64) - users.low, users.span
    distinct, codes = np.unique(users.codes[rows], return_inverse=True)
    return codes.astype(np.int64), len(distinct)


def _item_numbers(items: Users, rows: Ints) -> tuple[Ints, Ints]:
    """The number of each row's item in the order of their hashes, and the hashes."""
    codes, distinct = items.codes[rows].astype(np.int64) - items.low, np.arange(items.span if items.span <= len(rows) else 0)
    if items.span > len(rows):
        distinct, codes = np.unique(codes, return_inverse=True)
    hashes, number = np.unique(items.hashes(distinct + items.low), return_inverse=True)
    return number[codes], hashes


class _Weights:
    """What rows weigh by user and by row, and what their outcomes then weigh."""

    def __init__(self, observations: Observations, rows: Ints, user: Ints, n_owners: int, centre: float) -> None:
        self.observations, self.centre = observations, centre
        self.owner = user * len(observations.groups) + observations.group[rows]
        repeat = None if observations.count is None else observations.count[rows].astype(np.float64)
        self.n_rows = np.bincount(self.owner, repeat, minlength=n_owners)

    def of(self, some: Ints, rows: Ints) -> Floats:
        """(2 weightings, 2, n): weight and weighted outcome of some of the labelled rows, which are these of all."""
        observations = self.observations
        by_row = np.ones(len(rows)) if observations.count is None else observations.count[rows].astype(np.float64)
        if observations.weight is not None:
            by_row = by_row * observations.weight[rows]
        outcome = observations.outcome[rows].astype(np.float64) - self.centre
        by_user = by_row / self.n_rows[self.owner[some]]
        return np.array([[by_user, by_user * outcome], [by_row, by_row * outcome]])


@dataclass(frozen=True, slots=True)
class _Ordered:
    """Rows by item, then user: the number of each row, its item and its user."""

    order: Ints
    item: Ints
    user: Ints

    @classmethod
    def of(cls, item: Ints, n_items: int, user: Ints, n_users: int) -> _Ordered:
        bits = [max(1, int(n - 1).bit_length()) for n in (n_items, n_users, len(item))]
        if sum(bits) > KEY_BITS:
            order = np.lexsort((user, item))
            return cls(order, item[order], user[order])
        key = item << (bits[1] + bits[2])
        key |= user << bits[2]
        key |= np.arange(len(item))
        key.sort()
        return cls(key & ((1 << bits[2]) - 1), key >> (bits[1] + bits[2]), key >> bits[2] & ((1 << bits[1]) - 1))


def _whole_items(item: Ints) -> Iterator[slice]:
    """Chunks of rows in order of item, which cut none."""
    begin = 0
    while begin < len(item):
        end = min(len(item), begin + CHUNK)
        if end < len(item):
            end = int(np.searchsorted(item, item[end], side="left"))
            end = end if end > begin else int(np.searchsorted(item, item[begin], side="right"))
        yield slice(begin, end)
        begin = end


def _lines_of(item: Ints, column: Ints, values: Floats, n_columns: int) -> tuple[Ints, Ints, Floats]:
    """Rows in order of item added up by item and column: item, column (n,) and sums (2, 2, n), in order."""
    starts = run_starts(item)
    number = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(item)))
    place = number * n_columns + column
    size = len(starts) * n_columns
    if size > 16 * len(place):
        used, position = np.unique(place, return_inverse=True)
        sums = [[np.bincount(position, own, minlength=len(used)) for own in weighting] for weighting in values]
    else:
        used = np.flatnonzero(np.bincount(place, minlength=size))
        sums = [[np.bincount(place, own, minlength=size)[used] for own in weighting] for weighting in values]
    return item[starts][used // n_columns], (used % n_columns).astype(np.int16), np.array(sums)


def _add_both(both: Products, item: Ints, user: Ints, column: Ints, values: Floats) -> None:
    """Products within each user's rows of one item; rows are in order of item, then user."""
    starts = run_starts(item, user)
    if len(starts) == len(item):
        both.add(starts, column, values)
        return
    lengths = np.diff(starts, append=len(item))
    several = np.repeat(lengths > 1, lengths)
    alone = np.flatnonzero(~several)
    both.add(np.arange(len(alone)), column[alone], values[:, :, alone])
    owner = np.repeat(np.arange(len(starts)), lengths)[several]
    lines = ItemLines.of(owner, np.zeros_like(owner), column[several], values[:, :, several])
    both.add(run_starts(lines.item), lines.cell.astype(np.int64), lines.values)
