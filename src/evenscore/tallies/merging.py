"""Adding tallies up; what would not be honest is refused, with the reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from evenscore.data.groups import MAX_GROUPS, label_key
from evenscore.data.observations import Columns
from evenscore.errors import MergeError, listing
from evenscore.tallies.blocks import EVERYONE
from evenscore.tallies.everyone import complete
from evenscore.tallies.group_sums import GroupTally
from evenscore.tallies.item_sums import MOST_LINES, ItemLines
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.reshaping import drop_blocks, recentre, remap
from evenscore.tallies.tally_state import SKETCH, Cross, Tally
from evenscore.types import Floats, Ints


def add(a: Tally, b: Tally) -> Tally:
    """The tally of both shards together; refuses what cannot be added honestly."""
    if not a.groups or not b.groups:
        a, b = _same_lattice(a, b)
        return b if not a.groups else a
    _refuse_shared_users(a, b)
    a, b = _same_lattice(a, b)
    if a.independent != b.independent:
        raise MergeError("one tally has users, the other declares its rows independent; they do not add up to either")
    centre = _common_centre(a, b)
    same_split = (a.split, a.by_item) == (b.split, b.by_item)
    groups = _united_groups(a, b)
    a, b = (recentre(shard, centre) for shard in _same_blocks(a, b))
    group_tallies, cross = _add_sums((a, b), groups)
    items = _add_lines(a, b, groups)
    return Tally(
        lattice=a.lattice,
        groups=groups,
        group_tallies=group_tallies,
        cross_blocks=cross,
        n_spanning=a.n_spanning + b.n_spanning,
        centre=centre,
        binary=a.binary and b.binary,
        columns=a.columns if a.columns == b.columns else _merged_columns(a, b),
        sketch=None if a.sketch is None or b.sketch is None else np.union1d(a.sketch, b.sketch)[:SKETCH],
        dropped=_all_dropped(a, b),
        frame_kind=a.frame_kind if a.frame_kind == b.frame_kind else None,
        split=a.split if same_split else None,
        by_item=a.by_item and same_split,
        left_out={**a.left_out, **b.left_out},
        item=a.item,
        items=items,
        item_counts=() if items is None else items.counts(len(groups)),
    )


def _add_sums(shards: Iterable[Tally], groups: tuple[Any, ...]) -> tuple[tuple[GroupTally, ...], dict[str, Cross]]:
    """The sums of each group and between groups, over shards that have the same blocks on the same lattice."""
    group_tallies: dict[int, GroupTally] = {}
    cross: dict[str, dict[tuple[int, int], PairSums]] = {}
    for shard in shards:
        positions = [groups.index(label) for label in shard.groups]
        for g, counted in zip(positions, shard.group_tallies, strict=True):
            group_tallies[g] = group_tallies[g] + counted if g in group_tallies else counted
        for name, between in shard.cross_blocks.items():
            total = cross.setdefault(name, {})
            for (i, j), sums in between.items():
                pair = (positions[i], positions[j])  # both orders are sorted alike, so i < j stays
                total[pair] = total[pair] + sums if pair in total else sums
    return tuple(group_tallies[g] for g in range(len(groups))), dict(cross)


def _all_dropped(a: Tally, b: Tally) -> dict[str, int]:
    """The rows left out of both; two splits of the same data left them out before they were split, and count them once."""
    if None not in (a.split, b.split) and a.split != b.split and a.dropped == b.dropped:
        return dict(a.dropped)
    return {name: a.dropped.get(name, 0) + b.dropped.get(name, 0) for name in {**a.dropped, **b.dropped}}


def _same_blocks(a: Tally, b: Tally) -> tuple[Tally, Tally]:
    """Both without the blocks that only one of them has."""
    if set(EVERYONE) & {*a.block_names, *b.block_names}:
        a, b = complete(a), complete(b)
    if (a.item is None) != (b.item is None):
        raise MergeError("one tally has items, the other has none; tally both with item=, or both without")
    if a.item is not None and (a.items is None or b.items is None):
        raise MergeError(
            f"a tally with more than {MOST_LINES:,} sums by item keeps their products only, which do not add up; tally all files "
            "in one call, or on a coarser lattice (cells=16)"
        )
    known = {**a.left_out, **b.left_out}
    for name in sorted(set(a.block_names) ^ set(b.block_names)):
        reason = known.get(name, "only one of the tallies that were added has it")
        a, b = drop_blocks(a, [name], reason), drop_blocks(b, [name], reason)
    return a, b


def _add_lines(a: Tally, b: Tally, groups: tuple[Any, ...]) -> ItemLines | None:
    """The sums by item of both; None without items."""
    if a.items is None or b.items is None:
        return None

    def moved(lines: ItemLines, labels: tuple[Any, ...]) -> ItemLines:
        return lines.renumbered({g: groups.index(label) for g, label in enumerate(labels)})

    return moved(a.items, a.groups) + moved(b.items, b.groups)


def _has(tally: Tally, label: Any) -> bool:
    return any(label == own and type(label) is type(own) for own in tally.groups)


def _united_groups(a: Tally, b: Tally) -> tuple[Any, ...]:
    fresh = [label for label in b.groups if not _has(a, label)]
    groups = sorted([*a.groups, *fresh], key=label_key)
    if len(set(groups)) < len(groups):
        raise MergeError(
            f"group labels differ in type only: {listing(map(repr, a.groups))} and {listing(map(repr, b.groups))}; make them alike"
        )
    if len(groups) > MAX_GROUPS:
        raise MergeError(f"together the tallies have {len(groups)} groups, more than {MAX_GROUPS}")
    return tuple(groups)


def _refuse_shared_users(a: Tally, b: Tally) -> None:
    if a is b:
        raise MergeError("this would add a tally to itself: its users would count twice")
    if a.released or b.released:
        raise MergeError("a released tally cannot be added to another: nobody can tell any more whether they share users")
    if a.sketch is None or b.sketch is None:
        return
    shared = np.intersect1d(a.sketch, b.sketch)
    if len(shared):
        raise MergeError(
            "the same users are in both tallies (seen in a sample of their hashed ids). A user's rows must be tallied together, "
            "or the user would count as two people; split data into shards by user, not by day or file. For data that arrives day "
            "by day keep user-level files (evenscore tally --by-user) and merge those"
        )


def _same_lattice(a: Tally, b: Tally) -> tuple[Tally, Tally]:
    united = common_lattice(a.lattice, b.lattice)
    if united is None:
        raise MergeError(f"the tallies have different lattices: {a.lattice!r} and {b.lattice!r}; {remedy(a.lattice, b.lattice)}")
    return _moved_to(a, united), _moved_to(b, united)


def common_lattice(a: Lattice, b: Lattice) -> Lattice | None:
    """A lattice that tallies on both fall into exactly: one of all their values, or of [0, 1] where the scale is chosen anew."""
    if a == b:
        return a
    scales = {lattice.scale for lattice in (a, b) if not lattice.auto}  # a scale that was asked for stays
    if len(scales) > 1:
        return None
    if a.values is not None and b.values is not None:
        values, limit = np.union1d(a.values, b.values), max(a.max_cells, b.max_cells)
        if len(values) <= limit:
            return Lattice.from_values(values, scale=scales.pop() if scales else "auto", max_cells=limit)
        return Lattice(0, 1, cells=limit) if not scales and values[0] >= 0 and values[-1] <= 1 else None
    cells, values_only = (a, b) if a.values is None else (b, a)
    inside = values_only.discrete and values_only.low >= 0 and values_only.high <= 1
    return cells if not scales and cells.is_unit and inside else None


def remedy(a: Lattice, b: Lattice) -> str:
    """What to do about lattices that do not fit: the call that makes tallies which do."""
    low, high = min(a.low, b.low), max(a.high, b.high)
    limits = f"{_limit(low, math.floor)}, {_limit(high, math.ceil)}"
    scale = "" if a.auto or b.auto else f", scale={a.scale!r}"
    fixed = ""
    if a.auto == b.auto and a.max_cells == b.max_cells and (a.auto or a.scale == b.scale != "rank") and low < high:
        fixed = f"; or tally every shard with lattice=es.Lattice({limits}{scale}), or --lattice {limits.replace(', ', ':')}"
    return (
        "tally the second shard again on the lattice of the first: es.tally(data, ..., lattice=first), or evenscore tally ... "
        f"--lattice first.tally{fixed}"
    )


def _limit(value: float, to: Callable[[float], int]) -> str:
    """A limit with two digits, rounded outwards."""
    if value == 0:
        return "0"
    step = 10.0 ** (math.floor(math.log10(abs(value))) - 1)
    return f"{to(value / step) * step:.6g}"


def _moved_to(tally: Tally, lattice: Lattice) -> Tally:
    if tally.lattice == lattice:
        return tally
    return remap(tally, lattice, [moved_cells(tally.lattice, lattice)] * len(tally.groups))


def moved_cells(old: Lattice, new: Lattice) -> Ints:
    """Where the cells of the old lattice, (n_cells,), lie on one that ``common_lattice`` gave."""
    return np.arange(old.n_cells) if old == new else new.cell(cast(Floats, old.values))


def _common_centre(a: Tally, b: Tally) -> float:
    if a.centre == b.centre:
        return a.centre
    if a.binary and b.binary:
        return 0.0
    rows_a, rows_b = sum(a.n_rows.values()), sum(b.n_rows.values())
    return (a.centre * rows_a + b.centre * rows_b) / (rows_a + rows_b)


def _merged_columns(a: Tally, b: Tally) -> Columns | None:
    """The columns of either; where they are called differently the larger tally's names are kept.

    A weight or a count that either has is kept: what is refused for weighted rows is refused for a sum that holds some.
    """
    ordered: Iterable[Tally] = sorted((a, b), key=lambda tally: (-sum(tally.n_rows.values()), str(tally.columns)))
    known = [tally.columns for tally in ordered if tally.columns is not None]
    if not known:
        return None
    weight = next(filter(None, (columns.weight for columns in known)), None)
    count = next(filter(None, (columns.count for columns in known)), None)
    return replace(known[0], weight=weight, count=count)
