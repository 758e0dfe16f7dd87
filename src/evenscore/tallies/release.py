"""A tally that can be handed out: cells are merged until each of them, and each pair that is kept, stands for enough users.

A pair sum of two cells is about the users that are in both, and may be about one person when each cell holds thousands. How many
they are is not kept, but bounded from below by what is: cells are merged until it is certain that there are enough. One of many may
still be nearly all of a sum: ``protection`` sees to outcomes and scores.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from evenscore.data.columns import number_array
from evenscore.errors import DataError, OptionError, listing, require_count, shortened
from evenscore.tallies.blocks import BLOCKS, REQUIRED
from evenscore.tallies.group_sums import GroupTally
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.lattice_settings import lattice_from_settings, lattice_settings
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.protection import clipped, rounded, score_limits, within_limits
from evenscore.tallies.reshaping import drop_blocks, remap
from evenscore.tallies.tally_state import Tally
from evenscore.types import Floats, Ints

ROUNDING = 1e-9  # that sums of shares may be off
STEP = 1.06  # by which cells are made heavier until they are heavy enough


def release(tally: Tally, min_users: int, cuts: Iterable[float] = ()) -> Tally:
    """See ``Tally.release``."""
    _require_releasable(tally, min_users)
    parts = _parts(tally, number_array("cuts", cuts).ravel())
    # Fourth powers are nearly all the largest person's, and rounding that hides the person leaves nothing of them. Even those of
    # 0/1 outcomes tell, to who knows how many rows people have, whose rows are the positive ones.
    tally = drop_blocks(tally, {"higher"} & set(tally.block_names), "third and fourth powers show single persons")
    unknown = set(tally.block_names) - set(REQUIRED)
    tally = drop_blocks(tally, unknown, "it is not known how many users are behind its sums")
    cross = {pair: sums for pair, sums in tally.cross.items() if _shared_users(sums) >= min_users}
    tally = replace(tally, cross_blocks={"pairs": cross})
    starts = _starts(tally, min_users, parts)
    limits = score_limits(tally, min_users)
    tally = within_limits(tally, *limits)
    if not tally.binary:
        tally = clipped(tally, _new_cells(starts, tally.lattice.n_cells))
    coarse = _coarsened(tally, starts, min_users, limits)
    return coarse if tally.binary else rounded(coarse)


def _require_releasable(tally: Tally, min_users: int) -> None:
    require_count("min_users", min_users, 2)
    if not tally.groups:
        raise DataError("the tally is empty; there is nothing to release")
    if tally.item is not None:
        raise DataError(
            f"a tally with sums by item ({shortened(tally.item)}) cannot be released: an item that few people met would show what "
            "they did. Release one without item=, whose variances heed users only, and say so"
        )
    if tally.columns is not None and tally.columns.weight is not None:
        raise DataError(
            "a tally with survey weights does not show how many users are behind a pair of cells; release one without weight="
        )
    small = [f"{shortened(label)} ({n:,})" for label, n in tally.n_users.items() if n < min_users]
    if small:
        raise DataError(f"groups with fewer than {min_users} users cannot be released: {listing(small)}; unite or leave out groups")


def _shared_users(sums: PairSums) -> float:
    """Users that two groups share: the products of a user's shares of cells sum to one."""
    return float(sums.under("user")["ww"].sum()) * (1 + ROUNDING)


# Where to cut


def _parts(tally: Tally, cuts: Floats) -> list[int]:
    """The cells at which a cell must start, from the first on: those above each cut; and how many cells there are."""
    kept = {float(cut): tally.lattice.first_cell(float(cut)) for cut in cuts}
    if None in kept.values():
        through = listing(f"{cut:g}" for cut, first in kept.items() if first is None)
        raise OptionError(f"cuts={through}: no edge of this tally's cells; make it one: es.tally(..., cuts=[{through}])")
    inside = {first for first in kept.values() if first is not None and 0 < first < tally.lattice.n_cells}
    return [0, *sorted(inside), tally.lattice.n_cells]


def _starts(tally: Tally, min_users: int, parts: list[int]) -> Ints:
    """Where the merged cells start, as numbers of old cells: the finest of a series of cuts that leaves enough users everywhere."""
    weights = np.stack([group.vectors.under("user")["W"] for group in tally.group_tallies])
    most = float(weights.sum(axis=1).max())
    enough = float(min_users)
    while enough < most:
        starts = np.concatenate([low + _cuts(weights[:, low:high], enough) for low, high in itertools.pairwise(parts)])
        if len(starts) == 1 or _enough(tally, starts, min_users):
            return starts
        enough *= STEP
    whole = np.array(parts[:-1], dtype=np.int64)
    if len(whole) > 1 and not _enough(tally, whole, min_users):
        raise DataError(
            f"with these cuts it is not certain that every cell, and each pair, stands for at least {min_users} users; cut less"
        )
    return whole


def _cuts(weights: Floats, enough: float) -> Ints:
    """Cells in which every group that is there at all weighs enough; weights are (n_groups, n_cells).

    A user weighs at most 1 in a cell, so that a cell of weight 20 holds at least 20 users.
    """
    starts, held = [0], [np.zeros(len(weights))]
    for cell, weight in enumerate(weights.T):
        if _is_full(held[-1], enough):
            starts.append(cell)
            held.append(np.zeros(len(weights)))
        held[-1] = held[-1] + weight
    while len(starts) > 1 and not _is_full(held[-1], enough):
        starts.pop()
        held[-2:] = [held[-2] + held[-1]]
    return np.array(starts, dtype=np.int64)


def _is_full(held: Floats, enough: float) -> bool:
    return bool(held.max() >= enough and ((held >= enough) | (held == 0)).all())


def _enough(tally: Tally, starts: Ints, min_users: int) -> bool:
    """Whether it is certain that every pair of merged cells with any users has enough of them.

    A user's n_c n_d / n^2 is at most 1/4 for two cells of a group, and n_c n_d / (n n') at most 1 between groups; their sums Pww
    therefore bound the number of users. And cells of a group that together weigh more than its users share the excess.
    """
    cells = _new_cells(starts, tally.lattice.n_cells)
    for group in tally.group_tallies:
        held = np.add.reduceat(group.vectors.under("user")["W"], starts)
        if ((held > 0) & (held * (1 + ROUNDING) < min_users)).any():
            return False
        products = group.pairs.remapped(cells, len(starts)).matrices("user").ww
        certain = np.maximum(4 * products, held[:, None] + held[None, :] - group.n_users)
        np.fill_diagonal(certain, np.inf)
        if ((products > 0) & (certain * (1 + ROUNDING) < min_users)).any():
            return False
    for sums in tally.cross.values():
        products = sums.remapped(cells, len(starts)).matrices("user").ww
        if ((products > 0) & (products * (1 + ROUNDING) < min_users)).any():
            return False
    return True


def _new_cells(starts: Ints, n_cells: int) -> Ints:
    return np.searchsorted(starts, np.arange(n_cells), side="right") - 1


# The coarse tally


def _coarsened(tally: Tally, starts: Ints, min_users: int, limits: tuple[float, float]) -> Tally:
    cells = _new_cells(starts, tally.lattice.n_cells)
    coarse = remap(tally, _coarse_lattice(tally.lattice, starts, limits), [cells] * len(tally.groups))
    groups = zip(tally.group_tallies, coarse.group_tallies, strict=True)
    return replace(
        coarse,
        group_tallies=tuple(_thinned(merged, np.maximum.reduceat(fine.cell_users, starts)) for fine, merged in groups),
        n_spanning=tally.n_spanning if tally.cross else 0,
        sketch=None,
        dropped={},
        released=(min_users, tally.lattice.n_cells),
    )


def _thinned(group: GroupTally, least_users: Floats) -> GroupTally:
    """The group without folds and rows that have no outcome, and with users that are certain: at least so many, and at least the
    weight, since a user weighs at most 1."""
    sums = group.vectors.with_sums(U=np.zeros_like(group.vectors["U"]), A=group.vectors["W"])
    users = np.maximum(least_users, np.ceil(sums.under("user")["W"] * (1 - ROUNDING)))
    thinned = group.with_blocks(vectors=sums, folds=BLOCKS["folds"].empty(len(users)))
    return replace(thinned, n_unlabelled=0, cell_users=users)


def _coarse_lattice(lattice: Lattice, starts: Ints, limits: tuple[float, float]) -> Lattice:
    settings = lattice_settings(lattice.unread) | {"discrete": False}
    if lattice.discrete and len(starts) == lattice.n_cells:
        return lattice
    if lattice.ends_at_data:  # which are of one person each
        settings["low"], settings["high"] = limits
    if lattice.open_ended and (len(starts) < 3 or starts[1] != 1 or starts[-1] != lattice.n_cells - 1):
        settings["open_ended"] = False  # an end cell that swallowed its neighbour is a cell like others
    return lattice_from_settings(lattice.edges[starts[1:] - 1], settings)
