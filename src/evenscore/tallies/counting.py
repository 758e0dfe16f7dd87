"""Rows of whole users become a tally: the hot loop.

Per group: user, cell, outcome and row number are packed into one integer each and sorted, which brings a user's rows together and
keeps the way back to the row's score. All sums follow in cache-sized chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenscore.data.coding import FOLDS, Users, folds
from evenscore.data.observations import Observations, one_row_each
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.pairing import Segments, lengths_from, pair_sums
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.spanning import cross_pairs, spanning_users
from evenscore.tallies.tally_state import SKETCH, VECTORS, GroupTally, Tally
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
    parts: list[GroupTally] = []
    found: list[Ints] = []
    sketch = np.zeros(0, dtype=np.int64)
    done = 0
    rows_of = _row_finder(observations)
    for group in range(len(observations.groups)):
        part, codes, smallest = _count_group(observations, lattice, users, rows_of, group, centre)
        parts.append(part)
        found.append(codes)
        sketch = np.union1d(sketch, smallest)[:SKETCH]
        done += int(np.count_nonzero(observations.group == group))
        if progress is not None:
            progress(done, observations.n_rows)
    spanning = spanning_users(found, users.span) if len(parts) > 1 and not users.independent else np.zeros(0, dtype=np.int64)
    cross = cross_pairs(observations, lattice, users, spanning, centre) if len(spanning) else {}
    return Tally(
        lattice=lattice,
        groups=observations.groups,
        parts=tuple(parts),
        cross=cross,
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


@dataclass(slots=True)
class _Sums:
    """Running sums of a group; see ``tally.GroupTally`` for the shapes."""

    n_cells: int
    n_users: int = 0
    n_rows: int = 0
    n_unlabelled: int = 0
    folds: Floats = field(init=False)
    slopes: Floats = field(init=False)  # XY
    squares: Floats = field(init=False)  # V0, V1, V2
    own: Floats = field(init=False)  # ww, wy, yy of each row with itself; other than squares only when rows are repeated
    unlabelled: Floats = field(init=False)  # U, A
    cell_users: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.folds = np.zeros((2, 4, FOLDS, self.n_cells))
        self.slopes = np.zeros((2, 1, self.n_cells))
        self.squares = np.zeros((2, 3, self.n_cells))
        self.own = self.squares
        self.unlabelled = np.zeros((2, 2, self.n_cells))
        self.cell_users = np.zeros(self.n_cells)

    def vectors(self) -> Floats:
        totals = self.folds.sum(axis=2)
        unlabelled = self.unlabelled
        if self.n_unlabelled == 0:
            unlabelled = np.stack([np.zeros_like(totals[:, 0]), totals[:, 0]], axis=1)
        vectors = np.concatenate([totals, self.slopes, unlabelled, self.squares], axis=1)
        assert vectors.shape[1] == len(VECTORS)
        return vectors


def _count_group(
    observations: Observations,
    lattice: Lattice,
    users: Users,
    rows_of: Callable[[int], Ints],
    group: int,
    centre: float,
) -> tuple[GroupTally, Ints, Ints]:
    """The sums of one group, the codes (from 0) of its labelled users, and the smallest of their hashes."""
    sums = _Sums(lattice.n_cells)
    if observations.count is not None:
        sums.own = np.zeros_like(sums.squares)
    layout = _Layout(row=_bits(observations.n_rows), cell=_bits(lattice.n_cells))
    n_parts = 1 << max(0, _key_bits(users.span, observations.n_rows, lattice.n_cells) - KEY_BITS)
    pairs = PairSums.empty(lattice.n_cells, within=True)
    found, smallest = [], np.zeros(0, dtype=np.int64)
    for part in range(n_parts):
        keys = _sorted_keys(observations, lattice, users, rows_of(group), layout, n_parts, part)
        if observations.labelled is not None:
            keys = _count_unlabelled(sums, observations, layout, keys)
        if len(keys) == 0:
            continue
        starts = _starts(layout, keys)
        codes = layout.users(keys[starts]) * n_parts + part
        hashes = _hashes(users, codes)
        before = sums.own.copy()
        segments = _count_labelled(sums, observations, layout, keys, starts, folds(hashes), centre)
        del keys  # as large as all else together, and no longer needed
        fresh = pair_sums(segments, lattice.n_cells, sums.own - before)
        pairs = fresh if part == 0 else pairs + fresh
        found.append(codes)
        smallest = np.union1d(smallest, _smallest(hashes))[:SKETCH]
    part_tally = GroupTally(sums.n_users, sums.n_rows, sums.n_unlabelled, sums.vectors(), sums.folds, sums.cell_users, pairs)
    return part_tally, np.concatenate(found) if found else np.zeros(0, dtype=np.int64), smallest


def _hashes(users: Users, codes: Ints) -> Ints:
    hashes = np.empty(len(codes), dtype=np.int64)
    for start in range(0, len(codes), CHUNK):
        hashes[start : start + CHUNK] = users.hashes(codes[start : start + CHUNK] + users.low)
    return hashes


def _smallest(hashes: Ints) -> Ints:
    return np.sort(hashes if len(hashes) <= SKETCH else np.partition(hashes, SKETCH)[:SKETCH])


def _starts(layout: _Layout, keys: Ints) -> Ints:
    """Where each user's rows begin."""
    found = [np.zeros(1, dtype=np.int64)]
    for start in range(0, len(keys), CHUNK):
        users = layout.users(keys[max(start - 1, 0) : start + CHUNK])
        found.append(np.flatnonzero(users[1:] != users[:-1]) + max(start - 1, 0) + 1)
    return np.concatenate(found)


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
        sums.unlabelled[weighting, 0] += np.bincount(cell, value * ~labelled, minlength=sums.n_cells)
        sums.unlabelled[weighting, 1] += np.bincount(cell, value, minlength=sums.n_cells)
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
    sums.squares[0] += (squares.sum(axis=0), squares[1], squares[1])
    for weighting, values, scores in ((0, inverse, score * inverse), (1, None, score)):
        counted = by_fold(values)
        total = counted.sum(axis=1)
        summed = by_fold(scores)
        sums.folds[weighting] += (total, counted[:, 1], summed.sum(axis=1), counted[:, 1])
        sums.slopes[weighting, 0] += summed[:, 1].sum(axis=0)
        if weighting == 1:
            ones = counted[:, 1].sum(axis=0)
            sums.squares[1] += (total.sum(axis=0), ones, ones)


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
    place = fold * n_cells + cell
    for weighting, factor in ((0, inverse), (1, 1.0)):
        w = weight * factor
        wy = w * deviation
        for vector, values in enumerate((w, wy, w * score, wy * deviation)):
            counted = np.bincount(place, values, minlength=FOLDS * n_cells)
            sums.folds[weighting, vector] += counted.reshape(FOLDS, n_cells)
        sums.slopes[weighting, 0] += np.bincount(cell, wy * score, minlength=n_cells)
        w2 = w * survey * factor
        for vector, values in enumerate((w2, w2 * deviation, w2 * deviation * deviation)):
            sums.squares[weighting, vector] += np.bincount(cell, values, minlength=n_cells)
        if observations.count is not None:
            for vector, values in enumerate((w * w, w * wy, wy * wy)):
                sums.own[weighting, vector] += np.bincount(cell, values, minlength=n_cells)
    return weight, weight * deviation
