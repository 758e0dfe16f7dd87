"""Rows of whole users become a tally: the hot loop.

Per group: user, cell, outcome and row number are packed into one integer each and sorted, which brings a user's rows together and
keeps the way back to the row's score. All sums follow in cache-sized chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.data.coding import FOLDS, Users, folds
from evenscore.data.observations import Observations, one_row_each
from evenscore.tallies.blocks import FOLDED
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.pairing import Segments, lengths_from, pair_sums
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.spanning import cross_pairs, spanning_users
from evenscore.tallies.tally_state import SKETCH, GroupTally, Tally, group_tally
from evenscore.types import Array, Floats, Ints, Mask, Progress

CHUNK = 1 << 16
KEY_BITS = 63


def count(observations: Observations, lattice: Lattice, progress: Progress | None = None, *, centre: float | None = None) -> Tally:
    """The tally of rows that hold every row of their users; without a centre, outcomes are deviations from their mean."""
    observations = one_row_each(observations)
    if centre is None:
        centre = 0.0 if observations.binary else _mean_outcome(observations)
    users = observations.users
    if _key_bits(users.span, observations.n_rows, lattice.n_cells) > KEY_BITS:
        users = users.compact()
    group_tallies: list[GroupTally] = []
    codes_of_groups: list[Ints] = []
    sketch = np.zeros(0, dtype=np.int64)
    done = 0
    rows_of = _row_finder(observations)
    for group in range(len(observations.groups)):
        counted, codes, smallest = _count_group(observations, lattice, users, rows_of, group, centre)
        group_tallies.append(counted)
        codes_of_groups.append(codes)
        sketch = np.union1d(sketch, smallest)[:SKETCH]
        done += int(np.count_nonzero(observations.group == group))
        if progress is not None:
            progress(done, observations.n_rows)
    several = len(group_tallies) > 1 and not users.independent
    spanning = spanning_users(codes_of_groups, users.span) if several else np.zeros(0, dtype=np.int64)
    cross = cross_pairs(observations, lattice, users, spanning, centre) if len(spanning) else {}
    return Tally(
        lattice=lattice,
        groups=observations.groups,
        group_tallies=tuple(group_tallies),
        cross_blocks={"pairs": cross},
        n_spanning=len(spanning),
        centre=centre,
        binary=observations.binary,
        columns=observations.columns,
        sketch=None if users.independent else sketch,
        dropped=observations.dropped,
        frame_kind=observations.frame if observations.frame in ("pandas", "polars", "pyarrow") else None,
    )


def _mean_outcome(observations: Observations) -> float:
    known = observations.outcome if observations.labelled is None else observations.outcome[observations.labelled]
    return float(np.mean(known, dtype=np.float64))


def _row_finder(observations: Observations) -> Callable[[int], Ints]:
    """A function that gives the row numbers of a group, ascending; rows repeated zero times are left out."""
    n_groups = len(observations.groups)
    counts = observations.count
    if n_groups > 8:
        order = np.argsort(observations.group, kind="stable")
        ends = np.cumsum(np.bincount(observations.group, minlength=n_groups))

    def rows_of(group: int) -> Ints:
        first = ends[group - 1] if group and n_groups > 8 else 0
        rows = order[first : ends[group]] if n_groups > 8 else np.flatnonzero(observations.group == group)
        return rows if counts is None else rows[counts[rows] > 0]

    return rows_of


# Packing


def _bits(n: int) -> int:
    return max(1, int(n - 1).bit_length())


def _key_bits(span: int, n_rows: int, n_cells: int) -> int:
    return _bits(span) + _bits(n_cells) + 1 + _bits(n_rows)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where user, cell, outcome and row lie in a key: user | cell | outcome | row."""

    row: int
    cell: int

    def pack(self, user: Ints, cell: Ints, positive: Ints, row: Ints) -> Ints:
        key = user << (self.row + 1 + self.cell)
        key |= cell << (self.row + 1)
        key |= positive << self.row
        key |= row
        return key

    def rows(self, key: Ints) -> Ints:
        return key & ((1 << self.row) - 1)

    def positive(self, key: Ints) -> Mask:
        return (key >> self.row & 1).astype(bool)

    def cells(self, key: Ints) -> Ints:
        return key >> (self.row + 1) & ((1 << self.cell) - 1)

    def user_cells(self, key: Ints) -> Ints:
        return key >> (self.row + 1)

    def users(self, key: Ints) -> Ints:
        return key >> (self.row + 1 + self.cell)


def _sorted_keys(
    observations: Observations, lattice: Lattice, users: Users, rows: Ints, layout: _Layout, n_parts: int, part: int
) -> Ints:
    """Keys of the rows of users in this part, in order."""
    keys = np.empty(len(rows), dtype=np.int64)
    filled = 0
    binary = observations.binary
    for start in range(0, len(rows), CHUNK):
        chunk = rows[start : start + CHUNK]
        user = users.codes[chunk].astype(np.int64) - users.low
        if n_parts > 1:
            mine = user % n_parts == part
            chunk, user = chunk[mine], user[mine] // n_parts
        cell = lattice.cell(observations.score[chunk])
        positive = observations.outcome[chunk].astype(np.int64) if binary else np.zeros(len(chunk), dtype=np.int64)
        if binary and observations.labelled is not None:
            positive *= observations.labelled[chunk]
        keys[filled : filled + len(chunk)] = layout.pack(user, cell, positive, chunk)
        filled += len(chunk)
    keys = keys[:filled]
    keys.sort()
    return keys


# One group


class _Sums:
    """Running sums of a group by name, (2 weightings, ..., n_cells) each; own: the pair sums of each row with itself."""

    def __init__(self, n_cells: int, repeated: bool) -> None:
        self.n_cells = n_cells
        self.n_users = self.n_rows = self.n_unlabelled = 0
        self.cell_users = np.zeros(n_cells)
        self.folds = {name: np.zeros((2, FOLDS, n_cells)) for name in FOLDED.names}
        self.vectors = {name: np.zeros((2, n_cells)) for name in ("XY", "U", "A", "V0", "V1", "V2")}
        self.own = {name: self.vectors[vector] for name, vector in (("ww", "V0"), ("wy", "V1"), ("yy", "V2"))}
        if repeated:  # V takes a repeated row for several rows; with itself it is one row of so many times the weight
            self.own = {name: np.zeros((2, n_cells)) for name in self.own}

    def own_pairs(self) -> Floats:
        """A copy of the sums of each row with itself, (2, 4, n_cells)."""
        return np.stack([self.own[name] for name in ("ww", "wy", "wy", "yy")], axis=1)

    def group_tally(self, pairs: PairSums) -> GroupTally:
        if self.n_unlabelled == 0:
            self.vectors["A"] = self.folds["W"].sum(axis=1)
        counts = (self.n_users, self.n_rows, self.n_unlabelled)
        return group_tally(counts, self.cell_users, self.folds, self.vectors, pairs)


def _count_group(
    observations: Observations,
    lattice: Lattice,
    users: Users,
    rows_of: Callable[[int], Ints],
    group: int,
    centre: float,
) -> tuple[GroupTally, Ints, Ints]:
    """The sums of one group, the codes (from 0) of its labelled users, and the smallest of their hashes."""
    sums = _Sums(lattice.n_cells, repeated=observations.count is not None)
    layout = _Layout(row=_bits(observations.n_rows), cell=_bits(lattice.n_cells))
    n_parts = 1 << max(0, _key_bits(users.span, observations.n_rows, lattice.n_cells) - KEY_BITS)
    pairs = PairSums.empty(lattice.n_cells, within=True)
    every_code, smallest = [np.zeros(0, dtype=np.int64)], np.zeros(0, dtype=np.int64)
    for part in range(n_parts):
        keys = _sorted_keys(observations, lattice, users, rows_of(group), layout, n_parts, part)
        if observations.labelled is not None:
            keys = _count_unlabelled(sums, observations, layout, keys)
        if len(keys) == 0:
            continue
        starts = _starts(layout, keys)
        codes = layout.users(keys[starts]) * n_parts + part
        hashes = _hashes(users, codes)
        before = sums.own_pairs()
        segments = _count_labelled(sums, observations, layout, keys, starts, folds(hashes), centre)
        del keys  # as large as all else together, and no longer needed
        fresh = pair_sums(segments, lattice.n_cells, sums.own_pairs() - before)
        pairs = fresh if part == 0 else pairs + fresh
        every_code.append(codes)
        smallest = np.union1d(smallest, _smallest(hashes))[:SKETCH]
    return sums.group_tally(pairs), np.concatenate(every_code), smallest


def _hashes(users: Users, codes: Ints) -> Ints:
    hashes = np.empty(len(codes), dtype=np.int64)
    for start in range(0, len(codes), CHUNK):
        hashes[start : start + CHUNK] = users.hashes(codes[start : start + CHUNK] + users.low)
    return hashes


def _smallest(hashes: Ints) -> Ints:
    return np.sort(hashes if len(hashes) <= SKETCH else np.partition(hashes, SKETCH)[:SKETCH])


def _starts(layout: _Layout, keys: Ints) -> Ints:
    """Where each user's rows begin."""
    starts = [np.zeros(1, dtype=np.int64)]
    for start in range(0, len(keys), CHUNK):
        users = layout.users(keys[max(start - 1, 0) : start + CHUNK])
        starts.append(np.flatnonzero(users[1:] != users[:-1]) + max(start - 1, 0) + 1)
    return np.concatenate(starts)


def _count_unlabelled(sums: _Sums, observations: Observations, layout: _Layout, keys: Ints) -> Ints:
    """Add U and A; returns the keys of the labelled rows."""
    assert observations.labelled is not None
    if len(keys) == 0:
        return keys
    starts = _starts(layout, keys)
    lengths = lengths_from(starts, len(keys))
    row, cell = layout.rows(keys), layout.cells(keys)
    labelled = observations.labelled[row]
    repeat = np.ones(len(keys)) if observations.count is None else observations.count[row].astype(np.float64)
    weight = repeat if observations.weight is None else repeat * observations.weight[row]
    by_user = weight / np.repeat(np.add.reduceat(repeat, starts), lengths)
    for weighting, value in enumerate((by_user, weight)):
        sums.vectors["U"][weighting] += np.bincount(cell, value * ~labelled, minlength=sums.n_cells)
        sums.vectors["A"][weighting] += np.bincount(cell, value, minlength=sums.n_cells)
    sums.n_unlabelled += int(repeat[~labelled].sum())
    return keys[labelled]


def _count_labelled(
    sums: _Sums, observations: Observations, layout: _Layout, keys: Ints, starts: Ints, fold: Ints, centre: float
) -> Segments:
    """Add the vectors of labelled rows; returns the rows in order, for the pair sums."""
    lengths = lengths_from(starts, len(keys))
    plain = observations.binary and observations.weight is None and observations.count is None
    n = lengths.astype(np.float64)
    if observations.count is not None:
        n = np.add.reduceat(observations.count[layout.rows(keys)].astype(np.float64), starts)
    cell = np.empty(len(keys), dtype=np.uint16)
    positive = np.empty(len(keys), dtype=bool) if plain else None
    weight = None if plain else np.empty(len(keys))
    outcome = None if plain else np.empty(len(keys))
    first_user = 0
    while first_user < len(starts):
        begin = int(starts[first_user])
        last_user = max(first_user + 1, int(np.searchsorted(starts, begin + CHUNK)))
        end = int(starts[last_user]) if last_user < len(starts) else len(keys)
        users = slice(first_user, last_user)
        key = keys[begin:end]
        inverse = np.repeat(1 / n[users], lengths[users])
        in_fold = np.repeat(fold[users], lengths[users])
        cells = layout.cells(key)
        cell[begin:end] = cells
        score = np.take(observations.score, layout.rows(key))
        if positive is not None:
            ones = layout.positive(key)
            positive[begin:end] = ones
            _add_plain(sums, cells, ones, score, inverse, in_fold)
        else:
            assert weight is not None and outcome is not None
            weight[begin:end], outcome[begin:end] = _add_weighted(
                sums, observations, layout.rows(key), cells, score, inverse, in_fold, centre
            )
        user_cell = layout.user_cells(key)
        new = np.concatenate([[True], user_cell[1:] != user_cell[:-1]])
        sums.cell_users += np.bincount(cells[new], minlength=sums.n_cells)
        first_user = last_user
    sums.n_users += len(starts)
    sums.n_rows += int(n.sum())
    return Segments(cell, starts, lengths, n, positive, weight, outcome)


def _add_plain(sums: _Sums, cell: Ints, positive: Mask, score: Array, inverse: Floats, fold: Ints) -> None:
    """0/1 outcomes of weight one: count (fold, outcome, cell) codes."""
    n_cells = sums.n_cells
    code = cell + n_cells * positive
    fold_code = code + fold * (2 * n_cells)

    def by_fold(values: Any) -> Floats:
        counted = np.bincount(fold_code, values, minlength=FOLDS * 2 * n_cells)
        return np.asarray(counted.reshape(FOLDS, 2, n_cells), dtype=np.float64)

    squares = np.bincount(code, inverse * inverse, minlength=2 * n_cells).reshape(2, n_cells)
    for weighting, values, scores in ((0, inverse, score * inverse), (1, None, score)):
        counted, summed = by_fold(values), by_fold(scores)
        if weighting == 1:
            squares = counted.sum(axis=0)
        for name, total in (("W", counted.sum(axis=1)), ("Y", counted[:, 1]), ("X", summed.sum(axis=1)), ("Y2", counted[:, 1])):
            sums.folds[name][weighting] += total
        for name, total in (("XY", summed[:, 1].sum(axis=0)), ("V0", squares.sum(axis=0)), ("V1", squares[1]), ("V2", squares[1])):
            sums.vectors[name][weighting] += total


def _add_weighted(
    sums: _Sums,
    observations: Observations,
    row: Ints,
    cell: Ints,
    score: Array,
    inverse: Floats,
    fold: Ints,
    centre: float,
) -> tuple[Floats, Floats]:
    """Any outcomes, weights and counts; returns weight and weighted outcome of the rows, repeats included."""
    n_cells = sums.n_cells
    deviation = np.take(observations.outcome, row).astype(np.float64) - centre
    repeat = 1.0 if observations.count is None else np.take(observations.count, row).astype(np.float64)
    survey = np.ones(len(row)) if observations.weight is None else np.take(observations.weight, row)
    weight = survey * repeat
    fold_cell = fold * n_cells + cell
    for weighting, factor in ((0, inverse), (1, 1.0)):
        w = weight * factor
        wy = w * deviation
        for name, values in (("W", w), ("Y", wy), ("X", w * score), ("Y2", wy * deviation)):
            counted = np.bincount(fold_cell, values, minlength=FOLDS * n_cells)
            sums.folds[name][weighting] += counted.reshape(FOLDS, n_cells)
        w2 = w * survey * factor
        for name, values in (("XY", wy * score), ("V0", w2), ("V1", w2 * deviation), ("V2", w2 * deviation * deviation)):
            sums.vectors[name][weighting] += np.bincount(cell, values, minlength=n_cells)
        if observations.count is not None:
            for name, values in (("ww", w * w), ("wy", w * wy), ("yy", wy * wy)):
                sums.own[name][weighting] += np.bincount(cell, values, minlength=n_cells)
    return weight, weight * deviation
