"""A tally that can be handed out: cells are merged until each of them, and each pair that is kept, stands for enough users.

A pair sum of two cells is about the users that are in both, and may be about one person when each cell holds thousands. How many
they are is not kept, but bounded from below by what is: cells are merged until it is certain that there are enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from evenscore.errors import DataError, listing, require_count, shortened
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.tally_state import VECTORS, GroupTally, Tally
from evenscore.types import Floats, Ints

ROUNDING = 1e-9
STEP = 1.06  # by which cells are made heavier until they are heavy enough

Cross = Mapping[tuple[int, int], PairSums]


def release(tally: Tally, min_users: int) -> Tally:
    """See ``Tally.release``."""
    _require_releasable(tally, min_users)
    kept = {(i, j): sums for (i, j), sums in tally.cross.items() if _shared_users(sums) >= min_users}
    return _coarsened(tally, _starts(tally, kept, min_users), kept, min_users)


def _require_releasable(tally: Tally, min_users: int) -> None:
    require_count("min_users", min_users, 2)
    if not tally.parts:
        raise DataError("the tally is empty; there is nothing to release")
    if tally.columns is not None and tally.columns.weight is not None:
        raise DataError(
            "a tally with survey weights does not show how many users are behind a pair of cells; release one without weight="
        )
    small = [f"{shortened(label)} ({n:,})" for label, n in tally.n_users.items() if n < min_users]
    if small:
        raise DataError(f"groups with fewer than {min_users} users cannot be released: {listing(small)}; unite or leave out groups")


def _shared_users(sums: PairSums) -> float:
    """Users that two groups share: the products of a user's shares of cells sum to one."""
    return float(sums.values[0, 0].sum()) * (1 + ROUNDING)


# Where to cut


def _starts(tally: Tally, cross: Cross, min_users: int) -> Ints:
    """Where the merged cells start, as numbers of old cells: the finest of a series of cuts that leaves enough users everywhere."""
    weights = np.stack([part.vectors[0, 0] for part in tally.parts])
    most = float(weights.sum(axis=1).max())
    each = float(min_users)
    while each < most:
        starts = _cuts(weights, each)
        if len(starts) == 1 or _enough(tally, cross, starts, min_users):
            return starts
        each *= STEP
    return np.zeros(1, dtype=np.int64)


def _cuts(weights: Floats, each: float) -> Ints:
    """Cells in which every group that is there at all weighs enough; weights are (n_groups, n_cells).

    A user weighs at most 1 in a cell, so that a cell of weight 20 holds at least 20 users.
    """
    starts, held = [0], [np.zeros(len(weights))]
    for cell, weight in enumerate(weights.T):
        if _is_full(held[-1], each):
            starts.append(cell)
            held.append(np.zeros(len(weights)))
        held[-1] = held[-1] + weight
    while len(starts) > 1 and not _is_full(held[-1], each):
        starts.pop()
        held[-2:] = [held[-2] + held[-1]]
    return np.array(starts, dtype=np.int64)


def _is_full(held: Floats, each: float) -> bool:
    return bool(held.max() >= each and ((held >= each) | (held == 0)).all())


def _enough(tally: Tally, cross: Cross, starts: Ints, min_users: int) -> bool:
    """Whether it is certain that every pair of merged cells with any users has enough of them.

    A user's n_c n_d / n^2 is at most 1/4 for two cells of a group, and n_c n_d / (n n') at most 1 between groups; their sums Pww
    therefore bound the number of users. And cells of a group that together weigh more than its users share the excess.
    """
    cell = _new_cells(starts, tally.lattice.n_cells)
    for part in tally.parts:
        products = _coarse_pairs(part.pairs, cell, len(starts)).matrices(0).ww
        weight = np.add.reduceat(part.vectors[0, 0], starts)
        certain = np.maximum(4 * products, weight[:, None] + weight[None, :] - part.n_users)
        np.fill_diagonal(certain, np.inf)
        if ((products > 0) & (certain * (1 + ROUNDING) < min_users)).any():
            return False
    for sums in cross.values():
        products = _coarse_pairs(sums, cell, len(starts)).matrices(0).ww
        if ((products > 0) & (products * (1 + ROUNDING) < min_users)).any():
            return False
    return True


def _new_cells(starts: Ints, n_cells: int) -> Ints:
    return np.searchsorted(starts, np.arange(n_cells), side="right") - 1


# The coarse tally


def _coarsened(tally: Tally, starts: Ints, cross: Cross, min_users: int) -> Tally:
    lattice = _coarse_lattice(tally.lattice, starts)
    cell = _new_cells(starts, tally.lattice.n_cells)
    return replace(
        tally,
        lattice=lattice,
        parts=tuple(_coarse_part(part, starts, cell) for part in tally.parts),
        cross={pair: _coarse_pairs(sums, cell, len(starts)) for pair, sums in cross.items()},
        n_spanning=tally.n_spanning if cross else 0,
        sketch=None,
        dropped={},
        released=(min_users, tally.lattice.n_cells),
    )


def _coarse_lattice(lattice: Lattice, starts: Ints) -> Lattice:
    settings = lattice.to_dict() | {"discrete": False}
    if lattice.discrete and len(starts) == lattice.n_cells:
        return lattice
    if lattice.open_ended and (len(starts) < 3 or starts[1] != 1 or starts[-1] != lattice.n_cells - 1):
        settings["open_ended"] = False  # an end cell that swallowed its neighbour is a cell like others
    return Lattice.from_parts(lattice.edges[starts[1:] - 1], settings)


def _coarse_part(part: GroupTally, starts: Ints, cell: Ints) -> GroupTally:
    vectors = np.add.reduceat(part.vectors, starts, axis=2)
    vectors[:, VECTORS.index("U")] = 0.0
    vectors[:, VECTORS.index("A")] = vectors[:, VECTORS.index("W")]
    pairs = _coarse_pairs(part.pairs, cell, len(starts))
    certain = np.maximum(np.maximum.reduceat(part.cell_users, starts), np.ceil(vectors[0, 0] * (1 - ROUNDING)))
    return GroupTally(part.n_users, part.n_rows, 0, vectors, np.zeros((*part.folds.shape[:3], len(starts))), certain, pairs)


def _coarse_pairs(sums: PairSums, cell: Ints, n_cells: int) -> PairSums:
    """Pair sums on merged cells; two cells of a group that become one count in both orders."""
    old = sums.pairs.astype(np.int64)
    left, right = old // sums.n_cells, old % sums.n_cells
    terms = sums.values.copy()
    if sums.within:
        inside = (cell[left] == cell[right]) & (left != right)
        terms[:, :, inside] += sums.values[:, [0, 2, 1, 3]][:, :, inside]
    merged = PairSums.from_terms(n_cells, sums.within, cell[left] * n_cells + cell[right], terms)
    return merged + PairSums.empty(n_cells, sums.within)
