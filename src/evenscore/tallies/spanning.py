"""Users that occur in several groups tie the groups' curves together: their pair sums between groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from evenscore.errors import DataError
from evenscore.tallies.pairing import Segments, cross_sums
from evenscore.tallies.pairs import PairSums
from evenscore.types import Ints

Held: TypeAlias = dict[int, tuple[Ints, Segments]]  # by part of the users: their codes, ascending, and their labelled rows

MAX_CROSS_BYTES = 1 << 30  # of all pairs of groups together
FEW_MORE = 1 << 16  # a table over all codes pays while there are not many more codes than users


def cross_pairs(groups: Sequence[Held], span: int, n_cells: int) -> tuple[dict[tuple[int, int], PairSums], int]:
    """Pair sums between groups, and how many users are in several; codes of users are below ``span``."""
    cross: dict[tuple[int, int], PairSums] = {}
    n_spanning = 0
    for part in sorted(set().union(*groups)):
        held = {number: group[part] for number, group in enumerate(groups) if part in group}
        spanning = spanning_users([codes for codes, _ in held.values()], span)
        n_spanning += len(spanning)
        if len(spanning) == 0:
            continue
        for (a, b), (left, right) in _shared_segments(held, spanning).items():
            sums = cross_sums(held[a][1], held[b][1], left, right, n_cells)
            cross[a, b] = cross[a, b] + sums if (a, b) in cross else sums
            limit_cross(cross, n_spanning, len(groups))
    return dict(sorted(cross.items())), n_spanning


def spanning_users(codes_of_groups: list[Ints], span: int) -> Ints:
    """Codes of users that occur in more than one group, ascending."""
    codes = np.concatenate(codes_of_groups)
    if span <= 8 * len(codes) + FEW_MORE:
        return np.flatnonzero(np.bincount(codes, minlength=span) > 1)
    codes.sort()
    return np.unique(codes[1:][codes[1:] == codes[:-1]])


def _shared_segments(held: Mapping[int, tuple[Ints, Segments]], spanning: Ints) -> dict[tuple[int, int], tuple[Ints, Ints]]:
    """For each pair of groups the users in both, as numbers of segments of the one and of the other."""
    places = {number: np.flatnonzero(np.isin(codes, spanning, kind=None)) for number, (codes, _) in held.items()}
    user = np.concatenate([held[number][0][place] for number, place in places.items()])
    group = np.concatenate([np.full(len(place), number) for number, place in places.items()])
    order = np.argsort(user, kind="stable")  # which merges runs: codes of a group ascend
    segment = np.concatenate(list(places.values()))[order]
    pairs = segment_pairs(user[order], group[order])
    return {pair: (segment[left], segment[right]) for pair, (left, right) in pairs.items()}


def limit_cross(cross: Mapping[tuple[int, int], PairSums], n_spanning: int, n_groups: int) -> None:
    """Refuse sums between groups that outgrow the memory."""
    if sum(sums.nbytes for sums in cross.values()) > MAX_CROSS_BYTES:
        raise DataError(
            f"{n_spanning:,} users occur in several of {n_groups} groups, and the sums that tie the groups together outgrow "
            f"{MAX_CROSS_BYTES >> 30} GB; use fewer groups or a coarser lattice (cells=128)"
        )


def segment_pairs(user: Ints, group: Ints) -> dict[tuple[int, int], tuple[Ints, Ints]]:
    """For each pair of groups the segments that belong to one user; segments are in order of user, then group."""
    pairs: dict[tuple[int, int], list[tuple[Ints, Ints]]] = {}
    step = 1
    while True:
        left = np.flatnonzero(user[step:] == user[:-step]) if step < len(user) else np.zeros(0, dtype=np.int64)
        if len(left) == 0:
            break
        key = (group[left] * 256 + group[left + step]).astype(np.uint16)
        order = np.argsort(key, kind="stable")  # 16 bits: a radix sort
        codes, starts = np.unique(key[order], return_index=True)
        for code, mine in zip(codes.tolist(), np.split(left[order], starts[1:]), strict=True):
            pairs.setdefault((code // 256, code % 256), []).append((mine, mine + step))
        step += 1
    return {
        pair: (np.concatenate([left for left, _ in steps]), np.concatenate([right for _, right in steps]))
        for pair, steps in sorted(pairs.items())
    }
