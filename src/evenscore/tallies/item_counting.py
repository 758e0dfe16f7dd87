"""Rows of whole users become sums by item, and by user and item."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.data.coding import Users
from evenscore.data.observations import Observations
from evenscore.tallies.item_sums import ItemLines, Products, block_cells, block_of, n_blocks
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.packing import KEY_BITS, bit_length
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.runs import new_runs, run_lengths, run_starts
from evenscore.types import Array, Floats, Ints

DENSE = 8  # codes may be so many times as many as rows before they are made compact
CHUNK = 1 << 17  # rows at a time: their sums stay in the cache

Rows = Ints | slice  # those that have an outcome: all of them, or by number
Chunk = tuple[Ints, Ints, Ints, Floats]  # rows of whole items: item, user, column, and what they weigh, (2 weightings, 2, n)


@dataclass(frozen=True, slots=True)
class CountedItems:
    """Sums by item, and for pairs of groups the products of what a user put into cells by rows of one item."""

    lines: ItemLines
    both: dict[tuple[int, int], PairSums]


def count_items(observations: Observations, lattice: Lattice, centre: float) -> CountedItems:
    """Of the labelled rows; these must hold every row of their users."""
    assert observations.items is not None
    n_cells, n_groups = lattice.n_cells, len(observations.groups)
    rows: Rows = slice(None) if observations.labelled is None else np.flatnonzero(observations.labelled)
    both = Products(n_groups, n_cells)
    if len(observations.score[rows]) == 0:
        return CountedItems(ItemLines.empty(), both.pair_sums())
    user, n_users = _codes(observations.users, rows)
    item, hashes = _item_numbers(observations.items, rows)
    block = block_of(n_cells).astype(np.int16)[lattice.cell(observations.score[rows])]
    columns = observations.group[rows] * np.int16(n_blocks(n_cells)) + block
    owner = user * n_groups + observations.group[rows]
    repeats = None if observations.count is None else observations.count[rows]
    n_rows = np.bincount(owner, repeats, minlength=n_users * n_groups).astype(np.float64)
    plain = observations.weight is None and observations.count is None and observations.binary and centre == 0
    bits = [bit_length(n) for n in (len(hashes), n_users, both.n_columns)]
    lines_of_chunks: list[tuple[Ints, Ints, Floats]] = []
    chunks: Iterator[Chunk]
    if plain and sum(bits) + 1 <= KEY_BITS:
        key = _sorted_keys(item, user, columns, observations.outcome[rows], bits)
        del item, user, owner, columns, block
        chunks = _plain_chunks(key, bits, 1 / np.maximum(n_rows, 1), n_groups, n_blocks(n_cells))
    else:
        weights = _Weights(observations, owner, n_rows, centre)
        ordered = _Ordered.of(item, len(hashes), user, n_users)
        del item, user
        chunks = _weighted_chunks(ordered, weights, columns, rows)
    for own_item, own_user, column, values in chunks:
        lines_of_chunks.append(_lines_of(own_item, column, values, both.n_columns))
        _add_both(both, own_item, own_user, column, values)
    number, column, sums = (np.concatenate(parts, axis=-1) for parts in zip(*lines_of_chunks, strict=True))
    group, block = np.divmod(column, np.int16(n_blocks(n_cells)))
    cell: Any = block_cells(n_cells).astype(np.int16)[block]
    lines = ItemLines(hashes[number], group, cell, sums)
    return CountedItems(lines, both.pair_sums())


def _codes(users: Users, rows: Rows) -> tuple[Ints, int]:
    """Who each row belongs to, from 0 on, and how many codes there may be."""
    if users.span <= DENSE * len(users.codes):
        return users.codes[rows].astype(np.int64) - users.low, users.span
    distinct, codes = np.unique(users.codes[rows], return_inverse=True)
    return codes.astype(np.int64), len(distinct)


def _item_numbers(items: Users, rows: Rows) -> tuple[Ints, Ints]:
    """The number of each row's item in the order of their hashes, and the hashes."""
    codes, distinct = items.codes[rows].astype(np.int64) - items.low, np.arange(items.span if items.span <= len(items.codes) else 0)
    if items.span > len(items.codes):
        distinct, codes = np.unique(codes, return_inverse=True)
    hashes, number = np.unique(items.hashes(distinct + items.low), return_inverse=True)
    return number[codes], hashes


def _sorted_keys(item: Ints, user: Ints, columns: Ints, outcome: Array, bits: list[int]) -> Ints:
    """Keys item | user | column | outcome in order, made in place of what they are made of."""
    columns <<= 1
    columns |= outcome.astype(np.int16)
    user <<= bits[2] + 1
    user |= columns
    item <<= bits[1] + bits[2] + 1
    item |= user
    item.sort()
    return item


def _plain_chunks(key: Ints, bits: list[int], weight: Floats, n_groups: int, n_columns_each: int) -> Iterator[Chunk]:
    """From keys in order, item | user | column | outcome: 0/1 outcomes without weights or counts need nothing else; weight: of
    each row of a user in a group."""
    mask = (1 << bits[2]) - 1
    item_shift, user_shift = bits[1] + bits[2] + 1, bits[2] + 1
    for some in _whole_items(key, item_shift):
        own = key[some]
        column, outcome = own >> 1 & mask, (own & 1).astype(np.float64)
        user = own >> user_shift & ((1 << bits[1]) - 1)
        by_user = weight[user * n_groups + column // n_columns_each]
        yield own >> item_shift, user, column, np.array([[by_user, by_user * outcome], [np.ones(len(own)), outcome]])


def _weighted_chunks(ordered: _Ordered, weights: _Weights, columns: Ints, rows: Rows) -> Iterator[Chunk]:
    """From rows in order."""
    for some in _whole_items(ordered.item):
        order = ordered.order[some]
        values = weights.of(order, order if isinstance(rows, slice) else rows[order])
        yield ordered.item[some], ordered.user[some], columns[order].astype(np.int64), values


class _Weights:
    """What rows weigh by user and by row, and what their outcomes then weigh; owner: the user in a group of each labelled row."""

    def __init__(self, observations: Observations, owner: Ints, n_rows: Floats, centre: float) -> None:
        self.observations = observations
        self.owner = owner
        self.n_rows = n_rows
        self.centre = centre

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
        bits = [bit_length(n) for n in (n_items, n_users, len(item))]
        if sum(bits) > KEY_BITS:
            order = np.lexsort((user, item))
            return cls(order, item[order], user[order])
        key = item << (bits[1] + bits[2])
        key |= user << bits[2]
        key |= np.arange(len(item))
        key.sort()
        return cls(key & ((1 << bits[2]) - 1), key >> (bits[1] + bits[2]), key >> bits[2] & ((1 << bits[1]) - 1))


def _whole_items(item: Ints, shift: int = 0) -> Iterator[slice]:
    """Chunks of rows in order of item, which cut none; shift: bits of what follows the item in each number."""
    begin = 0
    while begin < len(item):
        end = min(len(item), begin + CHUNK)
        if end < len(item):
            end = int(np.searchsorted(item, item[end] >> shift << shift, side="left"))
            end = end if end > begin else int(np.searchsorted(item, ((item[begin] >> shift) + 1) << shift, side="left"))
        yield slice(begin, end)
        begin = end


def _lines_of(item: Ints, column: Ints, values: Floats, n_columns: int) -> tuple[Ints, Ints, Floats]:
    """Rows in order of item added up by item and column: item, column (n,) and sums (2, 2, n), in order."""
    starts = run_starts(item)
    number = np.repeat(np.arange(len(starts)), run_lengths(starts, len(item)))
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
    again = np.flatnonzero(~new_runs(item, user))  # the second row and so on
    if len(again) == 0:
        both.add_alone(column, values)
        return
    several = np.zeros(len(item), dtype=bool)
    several[again] = several[again - 1] = True
    alone, several = np.flatnonzero(~several), np.flatnonzero(several)
    both.add_alone(column[alone], values[:, :, alone])
    starts = run_starts(item[several], user[several])
    owner = np.repeat(np.arange(len(starts)), run_lengths(starts, len(several)))
    lines = ItemLines.of(owner, np.zeros_like(owner), column[several], values[:, :, several])
    both.add(run_starts(lines.item), lines.cell.astype(np.int64), lines.values)
