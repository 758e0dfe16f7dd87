"""What each user put into each cell: sums that add up over days, and become a tally when all rows of a user are there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evenscore.data.coding import FOLDS, Users, folds
from evenscore.data.observations import Observations
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.pairing import Segments, cross_sums, lengths_from, pair_sums
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.spanning import segment_pairs
from evenscore.tallies.tally_state import SKETCH, GroupTally, Tally
from evenscore.types import Array, Floats, Ints

UserCells = dict[str, Array]

PLACE = ("key", "part", "cell")
SUMS = ("n", "a", "w", "y", "x", "y2", "xy", "q0", "q1", "q2", "u")


def user_cells(observations: Observations, lattice: Lattice, centre: float) -> UserCells:
    """One line for each user, group and cell with rows in it.

    key: the user's code; part: the group's number; n, a: labelled and all rows; w, y, x, y2, xy: weight, outcome (from the centre),
    score, squared outcome, score times outcome; q0, q1, q2: row-level sums of w^2, w^2 y, w^2 y^2; u: weight of unlabelled rows.
    """
    n_rows = observations.n_rows
    repeat = np.ones(n_rows) if observations.count is None else observations.count.astype(np.float64)
    known = np.ones(n_rows, dtype=bool) if observations.labelled is None else observations.labelled
    m = repeat * known
    v = np.ones(n_rows) if observations.weight is None else observations.weight
    d = np.where(known, observations.outcome.astype(np.float64) - centre, 0.0)
    s = observations.score.astype(np.float64)
    w = m * v
    columns = (m, repeat, w, w * d, w * s, w * d * d, w * s * d, w * v, w * v * d, w * v * d * d, (repeat - m) * v)
    place = {
        "key": observations.users.codes.astype(np.int64),
        "part": observations.group.astype(np.int64),
        "cell": lattice.cell(s),
    }
    present = repeat > 0
    rows = {**place, **dict(zip(SUMS, columns, strict=True))}
    return added({name: column[present] for name, column in rows.items()})


def added(rows: Mapping[str, Array]) -> UserCells:
    """Lines in order of user, group and cell, each once."""
    order = np.lexsort((rows["cell"], rows["part"], rows["key"]))
    place = [rows[name][order] for name in PLACE]
    if len(order) == 0:
        return {name: np.asarray(column) for name, column in rows.items()}
    is_new = np.zeros(len(order), dtype=bool)
    is_new[0] = True
    for column in place:
        is_new[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(is_new)
    sums = {name: np.add.reduceat(rows[name][order], starts) for name in SUMS}
    return {**{name: column[starts] for name, column in zip(PLACE, place, strict=True)}, **sums}


def recentred(rows: UserCells, shift: float) -> UserCells:
    """The sums for outcomes that are larger by ``shift``."""
    if shift == 0:
        return rows
    changed = dict(rows)
    changed["y2"] = rows["y2"] + 2 * shift * rows["y"] + shift**2 * rows["w"]
    changed["y"] = rows["y"] + shift * rows["w"]
    changed["xy"] = rows["xy"] + shift * rows["x"]
    changed["q2"] = rows["q2"] + 2 * shift * rows["q1"] + shift**2 * rows["q0"]
    changed["q1"] = rows["q1"] + shift * rows["q0"]
    return changed


def tally_user_cells(rows: UserCells, zero: Tally, users: Users) -> Tally:
    """The tally of lines that hold all of their users' rows; ``zero`` is the empty tally that it fills."""
    if len(rows["key"]) == 0:
        return zero
    n_cells = zero.lattice.n_cells
    hashes = np.asarray(users.hashes(rows["key"]))
    parts = tuple(
        _group_tally({name: column[rows["part"] == g] for name, column in rows.items()}, hashes[rows["part"] == g], n_cells)
        for g in range(len(zero.groups))
    )
    labelled = rows["n"] > 0
    cross, n_spanning = _cross({name: column[labelled] for name, column in rows.items()}, n_cells)
    return Tally(
        zero.lattice,
        zero.groups,
        parts,
        cross,
        n_spanning,
        zero.centre,
        zero.binary,
        zero.columns,
        np.unique(hashes[labelled])[:SKETCH],
    )


def _segments(rows: Mapping[str, Array], owner: Ints) -> Segments:
    starts = np.flatnonzero(np.concatenate([[True], owner[1:] != owner[:-1]]))
    lengths = lengths_from(starts, len(owner))
    n = np.add.reduceat(rows["n"], starts)
    return Segments(rows["cell"].astype(np.uint16), starts, lengths, n, weight=rows["w"], outcome=rows["y"])


def _group_tally(rows: UserCells, hashes: Ints, n_cells: int) -> GroupTally:
    """The sums of one group."""
    if len(rows["key"]) == 0:
        return GroupTally.empty(n_cells)
    everyone = _segments(rows, rows["key"])
    all_rows = np.repeat(np.add.reduceat(rows["a"], everyone.starts), everyone.lengths)
    n_unlabelled = round(float((rows["a"] - rows["n"]).sum()))

    def by_cell(values: Floats, chosen: Mapping[str, Array] = rows) -> Floats:
        return np.bincount(chosen["cell"], values, minlength=n_cells).astype(np.float64)

    unlabelled = [(by_cell(rows["u"] / scale), by_cell((rows["w"] + rows["u"]) / scale)) for scale in (all_rows, 1.0)]
    known = {name: column[rows["n"] > 0] for name, column in rows.items()}
    if len(known["key"]) == 0:
        return _empty_but(n_cells, n_unlabelled, unlabelled)
    segments = _segments(known, known["key"])
    inverse = np.repeat(1 / segments.n, segments.lengths)
    fold = folds(hashes[rows["n"] > 0]) * n_cells + known["cell"]
    in_folds = np.zeros((2, 4, FOLDS, n_cells))
    vectors = np.zeros((2, 10, n_cells))
    own = np.zeros((2, 3, n_cells))
    for weighting, f in enumerate((inverse, np.ones_like(inverse))):
        for place, name in enumerate(("w", "y", "x", "y2")):
            counted = np.bincount(fold, known[name] * f, minlength=FOLDS * n_cells)
            in_folds[weighting, place] = counted.reshape(FOLDS, n_cells)
        vectors[weighting, 4] = by_cell(known["xy"] * f, known)
        vectors[weighting, 5:7] = unlabelled[weighting]
        vectors[weighting, 7:] = [by_cell(known[name] * f * f, known) for name in ("q0", "q1", "q2")]
        w, y = known["w"] * f, known["y"] * f
        own[weighting] = [by_cell(values, known) for values in (w * w, w * y, y * y)]
    vectors[:, :4] = in_folds.sum(axis=2)
    return GroupTally(
        len(segments.starts),
        round(float(known["n"].sum())),
        n_unlabelled,
        vectors,
        in_folds,
        by_cell(np.ones(len(known["key"])), known),
        pair_sums(segments, n_cells, own),
    )


def _empty_but(n_cells: int, n_unlabelled: int, unlabelled: list[tuple[Floats, Floats]]) -> GroupTally:
    empty = GroupTally.empty(n_cells)
    empty.vectors[:, 5:7] = unlabelled
    return GroupTally(0, 0, n_unlabelled, empty.vectors, empty.folds, empty.cell_users, empty.pairs)


def _cross(rows: UserCells, n_cells: int) -> tuple[dict[tuple[int, int], PairSums], int]:
    """Pair sums between groups, and how many users are in several."""
    if len(rows["key"]) == 0:
        return {}, 0
    starts = np.flatnonzero(
        np.concatenate([[True], (rows["key"][1:] != rows["key"][:-1]) | (rows["part"][1:] != rows["part"][:-1])])
    )
    key, part = rows["key"][starts], rows["part"][starts]
    segments = _segments(rows, np.repeat(np.arange(len(starts)), lengths_from(starts, len(rows["key"]))))
    n_spanning = len(np.unique(key[1:][key[1:] == key[:-1]]))
    return {pair: cross_sums(segments, *sides, n_cells) for pair, sides in segment_pairs(key, part).items()}, n_spanning
