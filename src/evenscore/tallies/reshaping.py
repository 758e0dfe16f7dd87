"""A tally with all of its sums changed alike: other weights, another centre, other cells, fewer blocks, fewer groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from evenscore.tallies.blocks import BLOCKS, REQUIRED
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.tally_state import Cross, Tally
from evenscore.types import Ints

MOST = 1e290  # of a sum: many more can be added before they overflow


def change_sums(tally: Tally, change: Callable[[Any], Any]) -> Tally:
    """The same with every block changed, and the sums by item."""
    groups = tuple(group.changed(change) for group in tally.group_tallies)
    cross = {name: {pair: change(sums) for pair, sums in named.items()} for name, named in tally.cross_blocks.items()}
    items = None if tally.items is None else change(tally.items)
    return replace(tally, group_tallies=groups, cross_blocks=cast(Mapping[str, Cross], cross), items=items)


def recentre(tally: Tally, centre: float) -> Tally:
    """The same with outcomes as deviations from ``centre``."""
    shift = tally.centre - centre
    with np.errstate(over="ignore", invalid="ignore"):
        moved = change_sums(tally, lambda sums: sums.recentred(shift))
    return drop_overflow(replace(moved, centre=centre))


def remap(tally: Tally, lattice: Lattice, cells: Sequence[Ints]) -> Tally:
    """The same on another lattice, where old cell c of group g is ``cells[g][c]``."""
    n_cells = lattice.n_cells
    groups = tuple(group.remapped(own, n_cells) for group, own in zip(tally.group_tallies, cells, strict=True))
    cross = {
        name: {(a, b): sums.remapped(cells[a], n_cells, cells[b]) for (a, b), sums in named.items()}
        for name, named in tally.cross_blocks.items()
    }
    items = None if tally.items is None else tally.items.remapped(cells, n_cells)
    return replace(tally, lattice=lattice, group_tallies=groups, cross_blocks=cross, items=items)


def pair_block(tally: Tally, name: str) -> dict[tuple[int, int], PairSums]:
    """A block of pair sums by positions of groups (a, b), a <= b: of each with itself, and of two that have something in common."""
    own = {(g, g): cast(PairSums, group.blocks[name]) for g, group in enumerate(tally.group_tallies)}
    return {**own, **tally.cross_blocks.get(name, {})}


def with_pair_block(tally: Tally, name: str, pairs: Mapping[tuple[int, int], PairSums]) -> Tally:
    """The same with this block of pair sums; the inverse of ``pair_block``."""
    empty = BLOCKS[name].empty(tally.lattice.n_cells)
    groups = tuple(group.with_blocks(**{name: pairs.get((g, g), empty)}) for g, group in enumerate(tally.group_tallies))
    cross = {(a, b): sums for (a, b), sums in pairs.items() if a != b}
    return replace(tally, group_tallies=groups, cross_blocks={**tally.cross_blocks, name: cross})


def drop_blocks(tally: Tally, names: Iterable[str], reason: str) -> Tally:
    """The same without some optional blocks, and with the reason."""
    gone = set(names)
    groups = tuple(
        replace(group, blocks={name: sums for name, sums in group.blocks.items() if name not in gone})
        for group in tally.group_tallies
    )
    cross = {name: named for name, named in tally.cross_blocks.items() if name not in gone}
    left_out = {**tally.left_out, **dict.fromkeys(sorted(gone), reason)}
    return replace(tally, group_tallies=groups, cross_blocks=cross, left_out=left_out)


def drop_overflow(tally: Tally) -> Tally:
    """The same without optional blocks whose sums are too large for a number, as fourth powers of weight times outcome may be."""
    optional = set(tally.block_names) - set(REQUIRED)
    groups = tally.group_tallies
    gone = {name for name in optional if not all((np.abs(group.blocks[name].values) < MOST).all() for group in groups)}
    return drop_blocks(tally, gone, "its powers of outcomes and weights are too large for a number")


def keep_groups(tally: Tally, groups: Sequence[Any]) -> Tally:
    """The same with some of its groups only, in the tally's order; on scale "auto" the scale is chosen anew."""
    kept = sorted(map(tally.index, groups))
    if len(kept) == len(tally.groups):
        return tally
    place = {old: new for new, old in enumerate(kept)}
    cross = {
        name: {(place[a], place[b]): sums for (a, b), sums in named.items() if a in place and b in place}
        for name, named in tally.cross_blocks.items()
    }
    items = None if tally.items is None else tally.items.renumbered(place)
    return replace(
        tally,
        groups=tuple(tally.groups[index] for index in kept),
        group_tallies=tuple(tally.group_tallies[index] for index in kept),
        cross_blocks=cast(Mapping[str, Cross], cross),
        item_counts=tuple(tally.item_counts[index] for index in kept) if tally.item_counts else (),
        items=items,
    )
