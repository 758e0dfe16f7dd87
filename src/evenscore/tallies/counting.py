"""Rows of whole users become a tally: the hot loop.

Per group: user, cell, outcome and row number are packed into one integer each and sorted, which brings a user's rows together and
keeps the way back to the row's score. All sums follow in cache-sized chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.data.coding import FOLDS, Users, folds
from evenscore.data.observations import Observations, one_row_each
from evenscore.tallies.blocks import CUBES, FOLDED, FOURTHS, HIGHER
from evenscore.tallies.everyone import attach_everyone, has_unlabelled
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.pairing import Segments, lengths_from, pair_sums
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.reshaping import drop_overflow
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
        counted, codes, smallest = _Group(observations, lattice, users, centre).count(rows_of, group)
        group_tallies.append(counted)
        codes_of_groups.append(codes)
        sketch = np.union1d(sketch, smallest)[:SKETCH]
        done += int(np.count_nonzero(observations.group == group))
        if progress is not None:
            progress(done, observations.n_rows)
    several = len(group_tallies) > 1 and not users.independent
    spanning = spanning_users(codes_of_groups, users.span) if several else np.zeros(0, dtype=np.int64)
    cross = cross_pairs(observations, lattice, users, spanning, centre) if len(spanning) else {}
    counted_all = Tally(
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
    if has_unlabelled(counted_all):
        counted_all = attach_everyone(counted_all, count(_all_labelled(observations), lattice, centre=0.0))
    return drop_overflow(counted_all)


def _all_labelled(observations: Observations) -> Observations:
    """The same rows, each with an outcome of 0: only where they are and what they weigh is asked for."""
    return replace(observations, outcome=np.zeros(observations.n_rows, dtype=np.uint8), binary=True, labelled=None)


def _mean_outcome(observations: Observations) -> float:
    known = observations.outcome if observations.labelled is None else observations.outcome[observations.labelled]
    return float(np.mean(known, dtype=np.float64))


def _row_finder(observations: Observations) -> Callable[[int], Ints]:
    """A function that gives the row numbers of a group, ascending."""
    n_groups = len(observations.groups)
    if n_groups > 8:
        order = np.argsort(observations.group, kind="stable")
        ends = np.cumsum(np.bincount(observations.group, minlength=n_groups))

    def rows_of(group: int) -> Ints:
        first = ends[group - 1] if group and n_groups > 8 else 0
        return order[first : ends[group]] if n_groups > 8 else np.flatnonzero(observations.group == group)

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


class _Group:
    """One group while it is counted; running sums are (2 weightings, ..., n_cells), own: the pair sums of each row with itself."""

    def __init__(self, observations: Observations, lattice: Lattice, users: Users, centre: float) -> None:
        self.observations, self.lattice, self.users, self.centre = observations, lattice, users, centre
        self.n_cells = n_cells = lattice.n_cells
        self.layout = _Layout(row=_bits(observations.n_rows), cell=_bits(n_cells))
        self.n_users = self.n_rows = self.n_unlabelled = 0
        self.cell_users = np.zeros(n_cells)
        self.folds = {name: np.zeros((2, FOLDS, n_cells)) for name in FOLDED.names}
        self.vectors = {name: np.zeros((2, n_cells)) for name in ("XY", "U", "A", "V0", "V1", "V2")}
        self.higher = {name: np.zeros((2, n_cells)) for name in HIGHER.names}
        self.own = {name: self.vectors[vector] for name, vector in (("ww", "V0"), ("wy", "V1"), ("yy", "V2"))}
        if observations.count is not None:  # V takes a repeated row for several; with itself it is one row of so much more weight
            self.own = {name: np.zeros((2, n_cells)) for name in self.own}

    def count(self, rows_of: Callable[[int], Ints], group: int) -> tuple[GroupTally, Ints, Ints]:
        """The sums of the group, the codes (from 0) of its labelled users, and the smallest of their hashes."""
        n_parts = 1 << max(0, _key_bits(self.users.span, self.observations.n_rows, self.n_cells) - KEY_BITS)
        pairs = PairSums.empty(self.n_cells, within=True)
        every_code, smallest = [np.zeros(0, dtype=np.int64)], np.zeros(0, dtype=np.int64)
        for part in range(n_parts):
            keys = self._sorted_keys(rows_of(group), n_parts, part)
            if self.observations.labelled is not None and len(keys):
                keys = self._count_unlabelled(keys, self.observations.labelled)
            if len(keys) == 0:
                continue
            starts = _starts(self.layout, keys)
            codes = self.layout.users(keys[starts]) * n_parts + part
            hashes = _hashes(self.users, codes)
            before = self._own_pairs()
            segments = self._count_labelled(keys, starts, folds(hashes))
            del keys  # as large as all else together, and no longer needed
            fresh = pair_sums(segments, self.n_cells, self._own_pairs() - before)
            pairs = fresh if part == 0 else pairs + fresh
            every_code.append(codes)
            smallest = np.union1d(smallest, _smallest(hashes))[:SKETCH]
        if self.n_unlabelled == 0:
            self.vectors["A"] = self.folds["W"].sum(axis=1)
        counts = (self.n_users, self.n_rows, self.n_unlabelled)
        counted = group_tally(counts, self.cell_users, self.folds, self.vectors, pairs, self.higher)
        return counted, np.concatenate(every_code), smallest

    def _own_pairs(self) -> Floats:
        return np.stack([self.own[name] for name in ("ww", "wy", "wy", "yy")], axis=1)

    def _sorted_keys(self, rows: Ints, n_parts: int, part: int) -> Ints:
        """Keys of the rows of users in this part, in order."""
        observations, users = self.observations, self.users
        keys = np.empty(len(rows), dtype=np.int64)
        filled = 0
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            user = users.codes[chunk].astype(np.int64) - users.low
            if n_parts > 1:
                mine = user % n_parts == part
                chunk, user = chunk[mine], user[mine] // n_parts
            cell = self.lattice.cell(observations.score[chunk])
            positive = np.zeros(len(chunk), dtype=np.int64)
            if observations.binary:
                positive = observations.outcome[chunk].astype(np.int64)
                if observations.labelled is not None:
                    positive *= observations.labelled[chunk]
            keys[filled : filled + len(chunk)] = self.layout.pack(user, cell, positive, chunk)
            filled += len(chunk)
        keys = keys[:filled]
        keys.sort()
        return keys

    def _count_unlabelled(self, keys: Ints, known: Mask) -> Ints:
        """Add U and A; returns the keys of the labelled rows."""
        count, weights = self.observations.count, self.observations.weight
        starts = _starts(self.layout, keys)
        row, cell = self.layout.rows(keys), self.layout.cells(keys)
        labelled = known[row]
        repeat = np.ones(len(keys)) if count is None else count[row].astype(np.float64)
        weight = repeat if weights is None else repeat * weights[row]
        by_user = weight / np.repeat(np.add.reduceat(repeat, starts), lengths_from(starts, len(keys)))
        for weighting, value in enumerate((by_user, weight)):
            self.vectors["U"][weighting] += np.bincount(cell, value * ~labelled, minlength=self.n_cells)
            self.vectors["A"][weighting] += np.bincount(cell, value, minlength=self.n_cells)
        self.n_unlabelled += int(repeat[~labelled].sum())
        return keys[labelled]

    def _count_labelled(self, keys: Ints, starts: Ints, fold: Ints) -> Segments:
        """Add the vectors of labelled rows; returns the rows in order, for the pair sums."""
        observations, layout = self.observations, self.layout
        lengths = lengths_from(starts, len(keys))
        plain = observations.binary and observations.weight is None and observations.count is None
        n = lengths.astype(np.float64)
        if observations.count is not None:
            n = np.add.reduceat(observations.count[layout.rows(keys)].astype(np.float64), starts)
        cell = np.empty(len(keys), dtype=np.uint16)
        positive = np.empty(len(keys), dtype=bool) if plain else None
        weight, outcome = (np.empty(0 if plain else len(keys)) for _ in range(2))
        first_user = 0
        while first_user < len(starts):
            begin = int(starts[first_user])
            last_user = max(first_user + 1, int(np.searchsorted(starts, begin + CHUNK)))
            end = int(starts[last_user]) if last_user < len(starts) else len(keys)
            users = slice(first_user, last_user)
            key = keys[begin:end]
            inverse = np.repeat(1 / n[users], lengths[users])
            in_fold = np.repeat(fold[users], lengths[users])
            cell[begin:end] = cells = layout.cells(key)
            if positive is not None:
                positive[begin:end] = layout.positive(key)
                self._add_plain(cells, positive[begin:end], np.take(observations.score, layout.rows(key)), inverse, in_fold)
            else:
                weight[begin:end], outcome[begin:end] = self._add_weighted(layout.rows(key), cells, inverse, in_fold)
            user_cell = layout.user_cells(key)
            new = np.concatenate([[True], user_cell[1:] != user_cell[:-1]])
            self.cell_users += np.bincount(cells[new], minlength=self.n_cells)
            first_user = last_user
        self.n_users += len(starts)
        self.n_rows += int(n.sum())
        return Segments(cell, starts, lengths, n, positive, weight, outcome)

    def _add_plain(self, cell: Ints, positive: Mask, score: Array, inverse: Floats, fold: Ints) -> None:
        """0/1 outcomes of weight one: count (fold, outcome, cell) codes."""
        n_cells = self.n_cells
        code = cell + n_cells * positive
        fold_code = code + fold * (2 * n_cells)

        def by_fold(values: Any) -> Floats:
            counted = np.bincount(fold_code, values, minlength=FOLDS * 2 * n_cells)
            return np.asarray(counted.reshape(FOLDS, 2, n_cells), dtype=np.float64)

        def by_code(values: Floats) -> Floats:
            counted = np.bincount(code, values, minlength=2 * n_cells)
            return np.asarray(counted.reshape(2, n_cells), dtype=np.float64)

        for weighting, factor in _factors(inverse):
            if factor is None:
                counted, summed = by_fold(None), by_fold(score)
                squares = cubes = fourths = counted.sum(axis=0)
            else:
                counted, summed = by_fold(factor), by_fold(score * factor)
                square = factor * factor
                squares, cubes, fourths = by_code(square), by_code(square * factor), by_code(square * square)
            ones = counted[:, 1]
            for name, total in (("W", counted.sum(axis=1)), ("Y", ones), ("X", summed.sum(axis=1)), ("Y2", ones)):
                self.folds[name][weighting] += total
            slope = summed[:, 1].sum(axis=0)
            for name, total in (("XY", slope), ("V0", squares.sum(axis=0)), ("V1", squares[1]), ("V2", squares[1])):
                self.vectors[name][weighting] += total
            for names, powers in ((CUBES, cubes), (FOURTHS, fourths)):
                self.higher[names[0]][weighting] += powers.sum(axis=0)
                for name in names[1:]:  # y^k is y
                    self.higher[name][weighting] += powers[1]

    def _add_weighted(self, row: Ints, cell: Ints, inverse: Floats, fold: Ints) -> tuple[Floats, Floats]:
        """Any outcomes, weights and counts; returns weight and weighted outcome of the rows, repeats included."""
        observations, n_cells = self.observations, self.n_cells
        score = np.take(observations.score, row)
        deviation = np.take(observations.outcome, row).astype(np.float64) - self.centre
        repeat = 1.0 if observations.count is None else np.take(observations.count, row).astype(np.float64)
        survey = np.ones(len(row)) if observations.weight is None else np.take(observations.weight, row)
        weight = survey * repeat
        fold_cell = fold * n_cells + cell
        for weighting, per_user in _factors(inverse):
            factor = 1.0 if per_user is None else per_user
            w = weight * factor
            wy = w * deviation
            for name, values in (("W", w), ("Y", wy), ("X", w * score), ("Y2", wy * deviation)):
                counted = np.bincount(fold_cell, values, minlength=FOLDS * n_cells)
                self.folds[name][weighting] += counted.reshape(FOLDS, n_cells)
            w2 = w * survey * factor
            for name, values in (("XY", wy * score), ("V0", w2), ("V1", w2 * deviation), ("V2", w2 * deviation * deviation)):
                self.vectors[name][weighting] += np.bincount(cell, values, minlength=n_cells)
            with np.errstate(over="ignore", invalid="ignore"):  # see ``drop_overflow``
                self._add_higher(weighting, cell, w2, survey * factor, deviation)
            if observations.count is not None:
                for name, values in (("ww", w * w), ("wy", w * wy), ("yy", wy * wy)):
                    self.own[name][weighting] += np.bincount(cell, values, minlength=n_cells)
        return weight, weight * deviation

    def _add_higher(self, weighting: int | slice, cell: Ints, w2: Floats, w: Floats, deviation: Floats) -> None:
        """Add w^3 y^k and w^4 y^k; w2 has the repeats of a row in it, w not; without survey weights w is 1 per row."""
        w3 = w2 * w
        w4 = w3 * w
        same = weighting != 0 and self.observations.weight is None
        for k, name in enumerate(FOURTHS):
            counted = np.bincount(cell, w4, minlength=self.n_cells)
            self.higher[name][weighting] += counted
            w4 *= deviation
            if k < len(CUBES):
                if not same:
                    counted = np.bincount(cell, w3, minlength=self.n_cells)
                    w3 *= deviation
                self.higher[CUBES[k]][weighting] += counted


def _factors(inverse: Floats) -> tuple[tuple[int | slice, Floats | None], ...]:
    """Each weighting's position and what a row's weight is multiplied by, None for 1; they are one when users have one row each."""
    return ((slice(None), None),) if (inverse == 1).all() else ((0, inverse), (1, None))


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
