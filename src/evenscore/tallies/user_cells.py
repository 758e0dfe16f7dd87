"""What each user put into each cell: sums that add up over days, and become a tally when all rows of a user are there."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

import numpy as np

from evenscore.data.coding import FOLDS, Users, folds
from evenscore.data.observations import Observations
from evenscore.ratios import ratio
from evenscore.tallies.blocks import CUBES, FOLDED, FOURTHS, HIGHER, VECTORS
from evenscore.tallies.everyone import attach_everyone
from evenscore.tallies.group_sums import GroupTally, group_tally
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.moments import Moments
from evenscore.tallies.pairing import Segments, cross_sums, pair_sums
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.reshaping import drop_overflow
from evenscore.tallies.runs import run_lengths, run_starts
from evenscore.tallies.spanning import segment_pairs
from evenscore.tallies.tally_state import SKETCH, Tally
from evenscore.types import Array, Floats, Ints

UserCells = dict[str, Array]

PLACE = ("key", "part", "cell")
SUMS = ("n", "a", "w", "y", "x", "y2", "xy", "q0", "q1", "q2", "u")
VECTOR_OF = {"w": "W", "y": "Y", "x": "X", "y2": "Y2", "xy": "XY", "q0": "V0", "q1": "V1", "q2": "V2"}
MOMENTS = Moments({name: VECTORS.factors[vector] for name, vector in VECTOR_OF.items()})
HIGHER_OF = {**{f"c{k}": name for k, name in enumerate(CUBES)}, **{f"f{k}": name for k, name in enumerate(FOURTHS)}}
HIGHER_MOMENTS = Moments({name: HIGHER.factors[vector] for name, vector in HIGHER_OF.items()})


def user_cells(observations: Observations, lattice: Lattice, centre: float) -> UserCells:
    """One line for each user, group and cell with rows in it.

    key: the user's code; part: the group's number; n, a: labelled and all rows; w, y, x, y2, xy: weight, outcome (from the centre),
    score, squared outcome, score times outcome; q0, q1, q2: row-level sums of w^2, w^2 y, w^2 y^2; u: weight of unlabelled rows;
    c0 to c3, f0 to f4: row-level sums of w^3 y^k and w^4 y^k.
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
    with np.errstate(over="ignore", invalid="ignore"):  # see ``drop_overflow``
        higher = {name: w * v ** (factor.w - 1) * d**factor.y for name, (factor,) in HIGHER_MOMENTS.factors.items()}
    return added({**place, **dict(zip(SUMS, columns, strict=True)), **higher})


def added(rows: Mapping[str, Array]) -> UserCells:
    """Lines in order of user, group and cell, each once."""
    order = np.lexsort((rows["cell"], rows["part"], rows["key"]))
    place = [rows[name][order] for name in PLACE]
    if len(order) == 0:
        return {name: np.asarray(column) for name, column in rows.items()}
    starts = run_starts(*place)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = {name: np.add.reduceat(column[order], starts) for name, column in rows.items() if name not in PLACE}
    return {**{name: column[starts] for name, column in zip(PLACE, place, strict=True)}, **sums}


def recentred(rows: UserCells, shift: float) -> UserCells:
    """The sums for outcomes that are larger by ``shift``."""
    if shift == 0:
        return rows
    moved = dict(rows)
    for moments in (MOMENTS, HIGHER_MOMENTS) if has_higher(rows) else (MOMENTS,):
        with np.errstate(over="ignore", invalid="ignore"):
            values = moments.recentred(np.stack([rows[name] for name in moments.names]), shift)
        moved |= dict(zip(moments.names, values, strict=True))
    return moved


def has_higher(rows: Container[str]) -> bool:
    """Whether lines have sums of third and fourth powers; those of 0.1.0 do not."""
    return HIGHER_MOMENTS.names[0] in rows


def tally_user_cells(rows: UserCells, zero: Tally, users: Users) -> Tally:
    """The tally of lines that hold all of their users' rows; ``zero`` is the empty tally that it fills."""
    if len(rows["key"]) == 0:
        return zero
    n_cells = zero.lattice.n_cells
    hashes = np.asarray(users.hashes(rows["key"]))
    group_tallies = []
    for group in range(len(zero.groups)):
        mine = rows["part"] == group
        own = {name: column[mine] for name, column in rows.items()}
        group_tallies.append(_tally_group(own, hashes[mine], n_cells, zero.block_names))
    labelled = rows["n"] > 0
    cross, n_spanning = _cross({name: column[labelled] for name, column in rows.items()}, n_cells)
    tally = replace(
        zero,
        group_tallies=tuple(group_tallies),
        cross_blocks={"pairs": cross},
        n_spanning=n_spanning,
        sketch=np.unique(hashes[labelled])[:SKETCH],
    )
    if not labelled.all() or (rows["a"] > rows["n"]).any():
        tally = attach_everyone(tally, tally_user_cells(_all_labelled(rows), _with_higher(zero), users))
    return drop_overflow(tally)


def _all_labelled(rows: UserCells) -> UserCells:
    """The lines with every row taken as labelled, its outcome 0.

    Squares and cubes of the weights of unlabelled rows are not in the lines: inside a line these rows are taken to weigh the same.
    """
    unlabelled = rows["a"] - rows["n"]
    mean = ratio(rows["u"], unlabelled)
    zeros = np.zeros_like(rows["w"])
    squares = rows["q0"] + unlabelled * mean**2
    labelled_cubes = rows["c0"] if has_higher(rows) else ratio(rows["q0"] ** 2, rows["w"])
    flat = dict.fromkeys((*SUMS, *HIGHER_MOMENTS.names), zeros)
    known = {"n": rows["a"], "a": rows["a"], "w": rows["w"] + rows["u"], "q0": squares}
    return {name: rows[name] for name in PLACE} | flat | known | {"c0": labelled_cubes + unlabelled * mean**3}


def _with_higher(zero: Tally) -> Tally:
    return replace(zero, group_tallies=tuple(GroupTally.empty(zero.lattice.n_cells) for _ in zero.groups), binary=True, centre=0.0)


def _segments(rows: Mapping[str, Array], owner: Ints) -> Segments:
    starts = run_starts(owner)
    lengths = run_lengths(starts, len(owner))
    n = np.add.reduceat(rows["n"], starts)
    return Segments(rows["cell"].astype(np.uint16), starts, lengths, n, weight=rows["w"], outcome=rows["y"])


def _tally_group(rows: UserCells, hashes: Ints, n_cells: int, blocks: Iterable[str]) -> GroupTally:
    """The sums of one group."""
    if len(rows["key"]) == 0:
        return GroupTally.empty(n_cells, blocks)
    everyone = _segments(rows, rows["key"])
    known = rows["n"] > 0
    inverse_all = np.repeat(1 / np.add.reduceat(rows["a"], everyone.starts), everyone.lengths)
    vectors = _by_cell({"U": rows["u"], "A": rows["w"] + rows["u"]}, rows["cell"], n_cells, inverse_all)
    n_unlabelled = round(float((rows["a"] - rows["n"]).sum()))
    labelled = {name: column[known] for name, column in rows.items()}
    n_users, inverse = 0, np.zeros(0)
    pairs = PairSums.empty(n_cells, within=True)
    cell = labelled["cell"]
    if known.any():
        segments = _segments(labelled, labelled["key"])
        n_users, inverse = len(segments.starts), np.repeat(1 / segments.n, segments.lengths)
        w, y = labelled["w"], labelled["y"]
        own = _by_cell({"ww": w * w, "wy": w * y, "yw": y * w, "yy": y * y}, cell, n_cells, inverse**2)
        pairs = pair_sums(segments, n_cells, np.stack(list(own.values()), axis=1))
    fold_cell = folds(hashes[known]) * n_cells + cell
    in_folds = _by_cell({name: labelled[name.lower()] for name in FOLDED.names}, fold_cell, FOLDS * n_cells, inverse)
    vectors |= _by_cell({"XY": labelled["xy"]}, cell, n_cells, inverse)
    vectors |= _by_cell({f"V{k}": labelled[f"q{k}"] for k in range(3)}, cell, n_cells, inverse**2)
    return group_tally(
        (n_users, round(float(labelled["n"].sum())), n_unlabelled),
        np.bincount(cell, minlength=n_cells).astype(np.float64),
        {name: values.reshape(2, FOLDS, n_cells) for name, values in in_folds.items()},
        vectors,
        pairs,
        _higher(labelled, cell, n_cells, inverse) if "higher" in blocks else None,
    )


def _higher(rows: UserCells, cell: Ints, n_cells: int, inverse: Floats) -> dict[str, Floats]:
    sums: dict[str, Floats] = {}
    for name, vector in HIGHER_OF.items():
        sums |= _by_cell({vector: rows[name]}, cell, n_cells, inverse ** HIGHER.factors[vector][0].w)
    return sums


def _by_cell(columns: Mapping[str, Floats], cell: Ints, n_cells: int, per_user: Floats) -> dict[str, Floats]:
    """Each column added up by cell, times a factor and as it is: (2 weightings, n_cells)."""
    return {
        name: np.array([np.bincount(cell, column * factor, minlength=n_cells) for factor in (per_user, 1.0)], dtype=np.float64)
        for name, column in columns.items()
    }


def _cross(rows: UserCells, n_cells: int) -> tuple[dict[tuple[int, int], PairSums], int]:
    """Pair sums between groups, and how many users are in several."""
    if len(rows["key"]) == 0:
        return {}, 0
    starts = run_starts(rows["key"], rows["part"])
    key, part = rows["key"][starts], rows["part"][starts]
    segments = _segments(rows, np.repeat(np.arange(len(starts)), run_lengths(starts, len(rows["key"]))))
    n_spanning = len(np.unique(key[1:][key[1:] == key[:-1]]))
    return {pair: cross_sums(segments, segments, *sides, n_cells) for pair, sides in segment_pairs(key, part).items()}, n_spanning
