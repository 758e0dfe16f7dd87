"""Rows of whole users become a tally: the hot loop.

Group, user, cell, outcome and row number are packed into one integer each and sorted, which brings a user's rows together and
keeps the way back to the row's score. All sums follow in cache-sized chunks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from evenscore.data.coding import FOLDS, Users, folds
from evenscore.data.observations import Observations, one_row_each
from evenscore.tallies.blocks import CUBES, FOLDED, FOURTHS, HIGHER
from evenscore.tallies.everyone import attach_everyone, has_unlabelled
from evenscore.tallies.group_sums import GroupTally, group_tally
from evenscore.tallies.item_counting import count_items
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.packing import CHUNK, Layout, sorted_keys, user_starts
from evenscore.tallies.pairing import Segments, pair_sums
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.reshaping import drop_overflow
from evenscore.tallies.runs import new_runs, run_lengths, whole_runs
from evenscore.tallies.spanning import Held, cross_pairs
from evenscore.tallies.tally_state import SKETCH, Tally
from evenscore.tallies.two_way import attach_items
from evenscore.types import Array, Floats, Ints, Mask, Progress


def count(observations: Observations, lattice: Lattice, progress: Progress | None = None, *, centre: float | None = None) -> Tally:
    """The tally of rows that hold every row of their users; without a centre, outcomes are deviations from their mean."""
    observations = one_row_each(observations)
    if centre is None:
        centre = 0.0 if observations.binary else _mean_outcome(observations)
    users = observations.users
    if Layout.fitting(users, observations, lattice).is_long:
        users = users.compact()
    layout = Layout.fitting(users, observations, lattice)
    groups = [_Group(observations, users, layout, lattice.n_cells, centre) for _ in observations.groups]
    held = _scan(groups, lattice, progress)
    sketch = np.unique(np.concatenate([group.smallest for group in groups]))[:SKETCH]
    cross, n_spanning = cross_pairs(held, users.span, lattice.n_cells) if any(held) else ({}, 0)
    tally = Tally(
        lattice=lattice,
        groups=observations.groups,
        group_tallies=tuple(group.finish() for group in groups),
        cross_blocks={"pairs": cross},
        n_spanning=n_spanning,
        centre=centre,
        binary=observations.binary,
        columns=observations.columns,
        sketch=None if users.independent else sketch,
        dropped=observations.dropped,
        frame_kind=observations.frame if observations.frame in ("pandas", "polars", "pyarrow") else None,
    )
    if observations.items is not None:
        tally = attach_items(tally, count_items(observations, lattice, centre), observations.item)
    if has_unlabelled(tally):
        tally = attach_everyone(tally, count(_all_labelled(observations), lattice, centre=0.0))
    return drop_overflow(tally)


def _scan(groups: list[_Group], lattice: Lattice, progress: Progress | None) -> list[Held]:
    """Add all rows to their groups; returns the labelled users of each group and their rows, where users may be in several."""
    observations, users, layout = groups[0].observations, groups[0].users, groups[0].layout
    held: list[Held] = [{} for _ in groups]
    keeps = len(groups) > 1 and not users.independent
    done = 0
    for part in range(layout.n_parts):
        keys = sorted_keys(observations, lattice, users, layout, part)
        starts = layout.group_starts(keys, len(groups))
        for number, group in reversed(list(enumerate(groups))):
            labelled = group.add(keys[starts[number] :], part)
            done += len(keys) - starts[number]
            keys.resize(starts[number], refcheck=False)  # as large as all else together, and no longer needed
            if labelled is not None:
                group.add_pairs(labelled[1])
                if keeps:
                    held[number][part] = labelled
            if progress is not None:
                progress(done, observations.n_rows)
    return held


def _all_labelled(observations: Observations) -> Observations:
    """The same rows, each with an outcome of 0: only where they are and what they weigh is asked for."""
    flat = np.zeros(observations.n_rows, dtype=np.uint8)
    return replace(observations, outcome=flat, binary=True, labelled=None, items=None, item=None)


def _mean_outcome(observations: Observations) -> float:
    known = observations.outcome if observations.labelled is None else observations.outcome[observations.labelled]
    return float(np.mean(known, dtype=np.float64))


class _Group:
    """One group while it is counted; running sums are (2 weightings, ..., n_cells), own: the pair sums of each row with itself.

    With w a row's weight, x its score, y its outcome less the centre: W, Y, X, Y2 are sums of w, w y, w x, w y^2 by user fold, XY
    of w x y, V_k of w^2 y^k; U is the weight of rows without an outcome, A that of all rows."""

    def __init__(self, observations: Observations, users: Users, layout: Layout, n_cells: int, centre: float) -> None:
        self.observations = observations
        self.users = users
        self.layout = layout
        self.n_cells = n_cells
        self.centre = centre
        self.n_users = self.n_rows = self.n_unlabelled = 0
        self.pairs: PairSums | None = None
        self.smallest = np.zeros(0, dtype=np.int64)
        self.cell_users = np.zeros(n_cells)
        self.folds = {name: np.zeros((2, FOLDS, n_cells)) for name in FOLDED.names}
        self.vectors = {name: np.zeros((2, n_cells)) for name in ("XY", "U", "A", "V0", "V1", "V2")}
        self.higher = {name: np.zeros((2, n_cells)) for name in HIGHER.names}
        self.own = {name: self.vectors[vector] for name, vector in (("ww", "V0"), ("wy", "V1"), ("yy", "V2"))}
        self.own_paired = np.zeros((2, 4, n_cells))
        if observations.count is not None:  # V takes a repeated row for several; with itself it is one row of so much more weight
            self.own = {name: np.zeros((2, n_cells)) for name in self.own}

    def add(self, keys: Ints, part: int) -> tuple[Ints, Segments] | None:
        """Add the rows of the group with these keys; returns its labelled users and their rows."""
        known = self.observations.labelled
        keys = keys if known is None or len(keys) == 0 else self._count_unlabelled(keys, known)
        if len(keys) == 0:
            return None
        starts = user_starts(self.layout, keys)
        codes = self.layout.users(keys[starts]) * self.layout.n_parts + part
        hashes = _hashes(self.users, codes)
        self.smallest = np.union1d(self.smallest, _smallest(hashes))[:SKETCH]
        fold = folds(hashes)
        del hashes
        return codes, self._count_labelled(keys, starts, fold)

    def add_pairs(self, segments: Segments) -> None:
        """Add the pair sums of rows that were added last."""
        own = self._own_pairs()
        fresh = pair_sums(segments, self.n_cells, own - self.own_paired)
        self.pairs = fresh if self.pairs is None else self.pairs + fresh
        self.own_paired = own

    def finish(self) -> GroupTally:
        """The sums of the group."""
        if self.n_unlabelled == 0:
            self.vectors["A"] = self.folds["W"].sum(axis=1)
        pairs = PairSums.empty(self.n_cells, within=True) if self.pairs is None else self.pairs
        counts = (self.n_users, self.n_rows, self.n_unlabelled)
        return group_tally(counts, self.cell_users, self.folds, self.vectors, pairs, self.higher)

    def _own_pairs(self) -> Floats:
        return np.stack([self.own[name] for name in ("ww", "wy", "wy", "yy")], axis=1)

    def _count_unlabelled(self, keys: Ints, known: Mask) -> Ints:
        """Add U and A; returns the keys of the labelled rows."""
        count, weights = self.observations.count, self.observations.weight
        starts = user_starts(self.layout, keys)
        row, cell = self.layout.rows(keys), self.layout.cells(keys)
        labelled = known[row]
        repeat = np.ones(len(keys)) if count is None else count[row].astype(np.float64)
        weight = repeat if weights is None else repeat * weights[row]
        by_user = weight / np.repeat(np.add.reduceat(repeat, starts), run_lengths(starts, len(keys)))
        for weighting, value in enumerate((by_user, weight)):
            self.vectors["U"][weighting] += np.bincount(cell, value * ~labelled, minlength=self.n_cells)
            self.vectors["A"][weighting] += np.bincount(cell, value, minlength=self.n_cells)
        self.n_unlabelled += int(repeat[~labelled].sum())
        return keys[labelled]

    def _count_labelled(self, keys: Ints, starts: Ints, fold: Ints) -> Segments:
        """Add the vectors of labelled rows; returns the rows in order, for the pair sums."""
        observations, layout = self.observations, self.layout
        lengths = run_lengths(starts, len(keys))
        plain = observations.binary and observations.weight is None and observations.count is None
        n = lengths.astype(np.float64)
        if observations.count is not None:
            n = np.add.reduceat(observations.count[layout.rows(keys)].astype(np.float64), starts)
        cell = np.empty(len(keys), dtype=np.uint16)
        positive = np.empty(len(keys), dtype=bool) if plain else None
        outcome = None if plain else np.empty(len(keys))
        weight = None if observations.weight is None and observations.count is None else np.empty(len(keys))
        for users, some in whole_runs(starts, len(keys), CHUNK):
            key = keys[some]
            inverse = np.repeat(1 / n[users], lengths[users])
            in_fold = np.repeat(fold[users], lengths[users])
            cell[some] = cells = layout.cells(key)
            if positive is not None:
                positive[some] = layout.positive(key)
                self._add_plain(cells, positive[some], np.take(observations.score, layout.rows(key)), inverse, in_fold)
            elif outcome is not None:
                w, outcome[some] = self._add_weighted(layout.rows(key), cells, inverse, in_fold)
                if weight is not None:
                    weight[some] = w
            self.cell_users += np.bincount(cells[new_runs(layout.user_cells(key))], minlength=self.n_cells)
        self.n_users += len(starts)
        self.n_rows += int(n.sum())
        return Segments(cell, starts, lengths, n, positive=positive, weight=weight, outcome=outcome)

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

        # A row weighs 1/n per user and 1 per row. As y is 0 or 1, y^k is y: every sum counts rows with outcome 1 or 0.
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

    def _add_weighted(self, row: Ints, cell: Ints, inverse: Floats, fold: Ints) -> tuple[Floats | None, Floats]:
        """Any outcomes, weights and counts; returns weight (None where all are one) and weighted outcome, repeats included."""
        observations, n_cells = self.observations, self.n_cells
        score = np.take(observations.score, row)
        deviation = np.take(observations.outcome, row).astype(np.float64)
        deviation -= self.centre
        survey = None if observations.weight is None else np.take(observations.weight, row)
        weight = survey
        if observations.count is not None:
            repeat = np.take(observations.count, row).astype(np.float64)
            weight = repeat if survey is None else survey * repeat
        fold_cell = fold * n_cells + cell
        for weighting, factor in _factors(inverse):
            if factor is None and weight is None:
                self._add_unit(weighting, cell, fold_cell, score, deviation)
                continue
            w, single = _product(weight, factor), _product(survey, factor)  # single: of one of the repeats
            wy = w * deviation
            for name, values in (("W", w), ("Y", wy), ("X", w * score), ("Y2", wy * deviation)):
                counted = np.bincount(fold_cell, values, minlength=FOLDS * n_cells)
                self.folds[name][weighting] += counted.reshape(FOLDS, n_cells)
            # A count repeats the row: `repeat` rows of weight u = single have sum of squares repeat u^2 = w u, not w^2.
            w2 = w * single
            w2y = w2 * deviation
            for name, values in (("XY", wy * score), ("V0", w2), ("V1", w2y), ("V2", w2y * deviation)):
                self.vectors[name][weighting] += np.bincount(cell, values, minlength=n_cells)
            with np.errstate(over="ignore", invalid="ignore"):  # see ``drop_overflow``
                self._add_higher(weighting, cell, w2, single, deviation)
            if observations.count is not None:
                for name, values in (("ww", w * w), ("wy", w * wy), ("yy", wy * wy)):
                    self.own[name][weighting] += np.bincount(cell, values, minlength=n_cells)
        return weight, deviation if weight is None else weight * deviation

    def _add_unit(self, weighting: int | slice, cell: Ints, fold_cell: Ints, score: Array, deviation: Floats) -> None:
        """Rows of weight one each, whose sums of w^2 y^k, w^3 y^k and w^4 y^k are those of w y^k."""
        n_cells = self.n_cells
        square = deviation * deviation
        totals = {}
        for name, values in (("W", None), ("Y", deviation), ("X", score), ("Y2", square)):
            counted = np.bincount(fold_cell, values, minlength=FOLDS * n_cells).reshape(FOLDS, n_cells)
            self.folds[name][weighting] += counted
            totals[name] = counted.sum(axis=0)
        self.vectors["XY"][weighting] += np.bincount(cell, deviation * score, minlength=n_cells)
        with np.errstate(over="ignore", invalid="ignore"):  # see ``drop_overflow``
            cubes, fourths = (np.bincount(cell, square * other, minlength=n_cells) for other in (deviation, square))
            powers = (totals["W"], totals["Y"], totals["Y2"], cubes, fourths)
            for block, names in ((self.vectors, ("V0", "V1", "V2")), (self.higher, CUBES), (self.higher, FOURTHS)):
                for name, power in zip(names, powers, strict=False):
                    block[name][weighting] += power

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


def _product(weight: Floats | None, factor: Floats | None) -> Floats:
    """Both multiplied, where None is 1."""
    if weight is None:
        return np.ones(1) if factor is None else factor
    return weight if factor is None else weight * factor


def _hashes(users: Users, codes: Ints) -> Ints:
    hashes = np.empty(len(codes), dtype=np.int64)
    for start in range(0, len(codes), CHUNK):
        hashes[start : start + CHUNK] = users.hashes(codes[start : start + CHUNK] + users.low)
    return hashes


def _smallest(hashes: Ints) -> Ints:
    return np.sort(hashes if len(hashes) <= SKETCH else np.partition(hashes, SKETCH)[:SKETCH])
