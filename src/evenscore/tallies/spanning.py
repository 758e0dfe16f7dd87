"""Users that occur in several groups tie the groups' curves together: their pair sums between groups."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evenscore.data.coding import Users
from evenscore.data.observations import Observations
from evenscore.errors import DataError
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.pairing import Segments, cross_sums, lengths_from
from evenscore.tallies.pairs import PairSums
from evenscore.types import Ints

MAX_CROSS_BYTES = 1 << 30
FEW_MORE = 1 << 16  # a table over all codes pays while there are not many more codes than users


def spanning_users(codes_of_groups: list[Ints], span: int) -> Ints:
    """Codes of users that occur in more than one group."""
    codes = np.concatenate(codes_of_groups)
    if span <= 8 * len(codes) + FEW_MORE:
        return np.flatnonzero(np.bincount(codes, minlength=span) > 1)
    codes.sort()
    return np.unique(codes[1:][codes[1:] == codes[:-1]])


def cross_pairs(
    observations: Observations, lattice: Lattice, users: Users, spanning: Ints, centre: float
) -> dict[tuple[int, int], PairSums]:
    """Pair sums between groups, from the rows of users that span them."""
    codes = users.codes.astype(np.int64) - users.low
    near = np.searchsorted(spanning, codes).clip(max=len(spanning) - 1)
    chosen = spanning[near] == codes
    if observations.labelled is not None:
        chosen &= observations.labelled
    rows = np.flatnonzero(chosen)
    n_groups = len(observations.groups)
    owner = near[rows] * n_groups + observations.group[rows]
    order = np.lexsort((lattice.cell(observations.score[rows]), owner))
    rows, owner = rows[order], owner[order]
    starts = np.flatnonzero(np.concatenate([[True], owner[1:] != owner[:-1]]))
    segments = _segments_of(observations, lattice, rows, starts, centre)
    user, group = np.divmod(owner[starts], n_groups)
    cross: dict[tuple[int, int], PairSums] = {}
    for pair, (left, right) in segment_pairs(user, group).items():
        cross[pair] = cross_sums(segments, left, right, lattice.n_cells)
        limit_cross(cross, len(spanning), n_groups)
    return cross


def limit_cross(cross: Mapping[tuple[int, int], PairSums], n_spanning: int, n_groups: int) -> None:
    """Refuse sums between groups that outgrow the memory."""
    if sum(sums.nbytes for sums in cross.values()) > MAX_CROSS_BYTES:
        raise DataError(
            f"{n_spanning:,} users occur in several of {n_groups} groups, and the sums that tie the groups together outgrow "
            f"{MAX_CROSS_BYTES >> 30} GB; use fewer groups or a coarser lattice (cells=128)"
        )


def _segments_of(observations: Observations, lattice: Lattice, rows: Ints, starts: Ints, centre: float) -> Segments:
    lengths = lengths_from(starts, len(rows))
    repeat = np.ones(len(rows)) if observations.count is None else observations.count[rows].astype(np.float64)
    weight = repeat if observations.weight is None else repeat * observations.weight[rows]
    outcome = weight * (observations.outcome[rows].astype(np.float64) - centre)
    cell = lattice.cell(observations.score[rows]).astype(np.uint16)
    return Segments(cell, starts, lengths, np.add.reduceat(repeat, starts), weight=weight, outcome=outcome)


def segment_pairs(user: Ints, group: Ints) -> dict[tuple[int, int], tuple[Ints, Ints]]:
    """For each pair of groups the segments that belong to one user; segments are in order of user, then group."""
    pairs: dict[tuple[int, int], list[tuple[Ints, Ints]]] = {}
    step = 1
    while True:
        left = np.flatnonzero(user[step:] == user[:-step]) if step < len(user) else np.zeros(0, dtype=np.int64)
        if len(left) == 0:
            break
        key = group[left] * 256 + group[left + step]
        for code in np.unique(key):
            mine = left[key == code]
            pairs.setdefault((int(code) // 256, int(code) % 256), []).append((mine, mine + step))
        step += 1
    return {
        pair: (np.concatenate([left for left, _ in steps]), np.concatenate([right for _, right in steps]))
        for pair, steps in sorted(pairs.items())
    }
