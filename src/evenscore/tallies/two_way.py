"""Rows that share a user or an item: the pair matrices of both keys, and in which measure items count.

With U, I and B the residual pair matrices of rows that share a user, an item, and both, the variance of a linear estimate that
allows for either is l (U + I - B) l' (Cameron, Gelbach and Miller 2011). I - B is what different users have in common because they
met the same item. Where items do not matter it is noise around 0 whose size has to do with the number of items alone; to take it in
anyway costs as much as to have no more users than items. So it is taken in the measure s in which all of the data shows it:
U + s (I - B).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from evenscore.errors import DataError
from evenscore.ratios import ratio
from evenscore.tables import label_text
from evenscore.tallies.item_counting import CountedItems
from evenscore.tallies.item_sums import MOST_LINES, block_of, n_blocks, products
from evenscore.tallies.moments import sum_cells
from evenscore.tallies.pairs import PairMatrices, PairSums
from evenscore.tallies.reshaping import pair_block, with_pair_block
from evenscore.tallies.tally_state import Tally
from evenscore.types import Floats, Ints

KEYS = ("both", "user", "item", "full")
FEWEST = 20  # of users and of items in a group: with fewer of either nothing is judged
LEVELS = 16  # at most, of the score, at each of which residuals of an item are looked at together
LEVEL_ROWS = 50  # a level has so many at least
LEVEL_ITEMS = 10  # items for each level that the pilot curve is drawn through, or it would follow the items

Products = Mapping[tuple[int, int], PairSums]


def attach_items(tally: Tally, counted: CountedItems, item: str | None) -> Tally:
    """The tally with sums of its items."""
    tally = with_pair_block(tally, "both_pairs", counted.both)
    return replace(tally, item=item, items=counted.lines, item_counts=counted.lines.counts(len(tally.groups)))


def fold_lines(tally: Tally, most: int = MOST_LINES) -> Tally:
    """The same with the products of sums by item in place of the sums, if there are too many of these."""
    if tally.items is None or len(tally.items) <= most:
        return tally
    return replace(with_pair_block(tally, "item_pairs", _item_pairs(tally)), items=None)


def with_keys(tally: Tally, keys: str) -> Tally:
    """The same with variances that heed "user", "item", "both", or both "full", whether items are seen to matter or not."""
    return tally if tally.item is None or tally.keys == keys else replace(tally, keys=keys)


def in_full(tally: Tally) -> Tally:
    """The same for what rests on the scores of rows as well: these are alike within an item whether outcomes are or not."""
    return with_keys(tally, "full")


def require_enough(tally: Tally) -> Tally:
    """The tally, or an error that says which group has too few users or items; nothing is asked without items."""
    for number, label in enumerate(tally.groups):
        words = few_words(tally, number)
        if words:
            raise DataError(f"{label_text(label)} has {words}")
    return tally


def has_groups_of_items(tally: Tally) -> bool:
    """Whether each item is in one group while users are in several: then groups differ by chance as items do."""
    return tally.item is not None and tally.n_spanning > 0 and not groups_share_items(tally)


def groups_share_items(tally: Tally) -> bool:
    """Whether an item is in several groups."""
    return tally.item is not None and any(a != b for a, b in _item_pairs(tally))


# Matrices


def _item_pairs(tally: Tally) -> Products:
    """For each pair of groups the products of what rows of one item put into cells."""
    if tally.items is None:
        return pair_block(tally, "item_pairs")
    if "item_pairs" not in tally.made:
        tally.made["item_pairs"] = products(tally.items, len(tally.groups), tally.lattice.n_cells)
    return cast(Products, tally.made["item_pairs"])


def _on_blocks(by_groups: Products, pair: tuple[int, int], weighting: str, n_cells: int) -> PairMatrices | None:
    """Pair matrices on the blocks of cells that item sums are kept for."""
    sums = by_groups.get((min(pair), max(pair)))
    if sums is None:
        return None
    matrices = sums.matrices(weighting, block_of(n_cells))
    return matrices if pair[0] <= pair[1] else matrices.transposed()


@dataclass(frozen=True, slots=True)
class Excess:
    """What rows of one item share between two groups, on blocks of cells: item, all of them; other, those of different users."""

    item: PairMatrices
    other: PairMatrices


def excess(tally: Tally, pair: tuple[int, int], weighting: str) -> Excess | None:
    """None when no item is in both groups."""
    made: dict[Any, Excess | None] = tally.made
    if (pair, weighting) not in made:
        n_cells = tally.lattice.n_cells
        item = _on_blocks(_item_pairs(tally), pair, weighting, n_cells)
        both = _on_blocks(pair_block(tally, "both_pairs"), pair, weighting, n_cells)
        made[pair, weighting] = None if item is None else Excess(item, item if both is None else item - both)
    return made[pair, weighting]


def two_way_matrices(
    tally: Tally, pair: tuple[int, int], weighting: str, places: Ints | None, by_user: PairMatrices | None
) -> PairMatrices | None:
    """The pair matrices of two groups by the keys that the tally heeds; by_user: those of users."""
    if tally.keys != "user" and pair[0] == pair[1] and few_words(tally, pair[0]):
        together = _one_cluster(tally, pair[0], weighting, places)
        return together if by_user is None else by_user + together
    share = {"user": 0.0, "full": 1.0}.get(tally.keys)
    if share is None:
        share = 0.0 if tally.keys == "item" else item_share(tally, weighting)
    shared = None if share == 0 and tally.keys != "item" else excess(tally, pair, weighting)
    if tally.keys == "item":
        return None if shared is None else _spread(tally, pair, weighting, places, shared.item)
    if shared is None:
        return by_user
    more = _scaled(_spread(tally, pair, weighting, places, shared.other), share)
    return more if by_user is None else by_user + more


def few_words(tally: Tally, group: int) -> str:
    """That a group has too few users or items for variances that heed both, if so; empty without items."""
    if tally.item is None or not tally.group_tallies[group].n_rows:
        return ""
    users, items = tally.group_tallies[group].n_users, tally.item_counts[group]
    if min(users, items) >= FEWEST:
        return ""
    few = f"{items:,} value{'s' * (items != 1)} of {tally.item}" if items <= users else f"{users:,} user{'s' * (users > 1)}"
    return f"only {few}; with fewer than {FEWEST} users or items chance cannot be told"


def _one_cluster(tally: Tally, group: int, weighting: str, places: Ints | None) -> PairMatrices:
    """As if all rows of a group belonged together: nothing that rests on so few users or items is judged."""
    vectors = tally.group_tallies[group].vectors.under(weighting)
    places = np.arange(tally.lattice.n_cells) if places is None else places
    kept = np.flatnonzero(places >= 0)
    size = int(places.max(initial=-1)) + 1
    w, y = (np.bincount(places[kept], vectors[name][kept], minlength=size).astype(np.float64) for name in ("W", "Y"))
    return PairMatrices(np.outer(w, w), np.outer(w, y), np.outer(y, w), np.outer(y, y))


def _scaled(matrices: PairMatrices, factor: float) -> PairMatrices:
    if factor == 1:
        return matrices
    return PairMatrices(*(factor * square for square in (matrices.ww, matrices.wy, matrices.yw, matrices.yy)))


def _spread(tally: Tally, pair: tuple[int, int], weighting: str, places: Ints | None, held: PairMatrices) -> PairMatrices:
    """Matrices of blocks on cells: what a block holds is spread over its cells as the group's weight is."""
    left, right = (_shares(tally, group, weighting, places) for group in pair)
    return PairMatrices(*(left @ square @ right.T for square in (held.ww, held.wy, held.yw, held.yy)))


def _shares(tally: Tally, group: int, weighting: str, places: Ints | None) -> Floats:
    """The share of each block, (n_blocks,), that lies in each place, (n_places, n_blocks)."""
    n_cells = tally.lattice.n_cells
    block, weight = block_of(n_cells), tally.group_tallies[group].vectors.under(weighting)["W"]
    total = sum_cells(weight, block, n_blocks(n_cells))[block]
    share = ratio(weight, total)
    places = np.arange(n_cells) if places is None else places
    kept = np.flatnonzero(places >= 0)
    size = (int(places.max(initial=-1)) + 1, n_blocks(n_cells))
    flat = np.bincount(places[kept] * size[1] + block[kept], share[kept], minlength=size[0] * size[1])
    return flat.reshape(size).astype(np.float64)


# Whether items matter


def item_share(tally: Tally, weighting: str) -> float:
    """The measure s, from 0 to 1, in which items count.

    T is what residuals of different users of one item add to the variance, in all groups together, and e its standard error if
    items did not matter. Then s = max(0, 1 - e^2 / T^2), the share of T that is no noise (James and Stein 1961). Residuals are in
    units of their spread at the level of the score: where costs are high their noise would hide what items do elsewhere. T is taken
    once over whole groups and once level by level, as an item may do well at low scores and badly at high ones, and the larger
    T / e counts.
    """
    if ("share", weighting) not in tally.made:
        sums = np.zeros((2, 2))
        for group in range(len(tally.groups)):
            sums += _evidence(tally, group, weighting)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = float(np.nanmax(np.append(sums[:, 0] / np.sqrt(sums[:, 1]), 0.0)))
        tally.made["share", weighting] = 1 - 1 / z**2 if z > 1 else 0.0
    return float(tally.made["share", weighting])


def design_effects(tally: Tally, weighting: str) -> dict[str, float]:
    """How many times as large as with independent rows the variance of a group's mean is, given the score: by each key.

    Over all groups together, each in units of its weight; "both" in the measure in which items count.
    """
    totals = np.zeros(4)
    for group in range(len(tally.groups)):
        pilot = _pilot_residuals(tally, group, weighting)
        if pilot is not None:
            fit, shared = pilot.fit[block_of(tally.lattice.n_cells)], pilot.shared
            users = tally._user_matrices(group, group, weighting, None)
            assert users is not None
            of_items = (square.residual(pilot.fit, pilot.fit).sum() for square in (shared.item, shared.other))
            totals += np.array([pilot.rows.sum(), users.residual(fit, fit).sum(), *of_items]) / pilot.weight.sum() ** 2
    rows, by_user, by_item, other = totals.tolist()
    variances = {"user": by_user, "item": by_item, "both": by_user + item_share(tally, weighting) * other}
    return {key: value / rows if rows > 0 else np.nan for key, value in variances.items()}


@dataclass(frozen=True, slots=True)
class _Pilot:
    """A group around a curve of its own, on blocks: fit, weight, and rows, the sum of squared residuals of rows, (n_blocks,) each;
    level: of the score; shared: what rows of one item share."""

    fit: Floats
    weight: Floats
    rows: Floats
    level: Ints
    shared: Excess


def _pilot_residuals(tally: Tally, group: int, weighting: str) -> _Pilot | None:
    """None for a group without items."""
    shared = excess(tally, (group, group), weighting)
    n_cells = tally.lattice.n_cells
    vectors = tally.group_tallies[group].vectors.under(weighting)
    blocks = block_of(n_cells), n_blocks(n_cells)
    weight, outcome, score, *squares = (sum_cells(vectors[name], *blocks) for name in ("W", "Y", "X", "V0", "V1", "V2"))
    if shared is None or not weight.sum() > 0:
        return None
    n_levels = min(LEVELS, tally.group_tallies[group].n_rows // LEVEL_ROWS)
    level = _levels(weight, n_levels)
    through = _levels(weight, min(n_levels, tally.item_counts[group] // LEVEL_ITEMS))
    fit = _pilot(weight, outcome, score, through)
    rows = np.maximum(squares[2] - 2 * fit * squares[1] + fit**2 * squares[0], 0)
    return _Pilot(fit, weight, rows, level, shared)


def _evidence(tally: Tally, group: int, weighting: str) -> Floats:
    """T and e^2 of one group: over the whole of it, and level by level, (2, 2); in units of the group's weight.

    One row of a level has the variance rows / V0 and the weight V0 / W, if all of its rows are alike: rows / W.
    """
    pilot = _pilot_residuals(tally, group, weighting)
    if pilot is None:
        return np.zeros((2, 2))
    other, level = pilot.shared.other, pilot.level
    spread, held = (np.bincount(level, own)[level] for own in (pilot.rows, pilot.weight))
    unit = np.sqrt(ratio(spread, held))
    inverse = ratio(1.0, unit)
    residual = other.residual(pilot.fit, pilot.fit) * np.outer(inverse, inverse)
    known = np.outer(unit > 0, unit > 0)
    sums = []
    for same in (known, known & (level[:, None] == level)):
        # T has each two users of an item twice: its variance is 4 times the sum over pairs, 2 times that over both orders.
        sums.append([float(residual[same].sum()), 2 * float(other.ww[same].sum())])
    total = pilot.weight.sum()
    return np.array(sums) / [total**2, total**4]


def _levels(weight: Floats, n_levels: int) -> Ints:
    """Levels with the same weight each, (n_blocks,)."""
    n_levels = max(n_levels, 1)
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    return np.minimum((middle * n_levels).astype(np.int64), n_levels - 1)


def _pilot(weight: Floats, outcome: Floats, score: Floats, level: Ints) -> Floats:
    """A curve over the score through the means of levels, (n_blocks,); outcome, score: sums."""
    held, *sums = (np.bincount(level, own) for own in (weight, outcome, score))
    mean, place = (own[held > 0] / held[held > 0] for own in sums)
    if len(mean) == 1:
        return np.full_like(weight, mean[0])
    position = np.divide(score, weight, out=np.zeros_like(score), where=weight > 0)  # what nobody has says nothing
    fit = np.interp(position, place, mean)
    for end, inner, beyond in ((0, 1, position < place[0]), (-1, -2, position > place[-1])):
        slope = (mean[inner] - mean[end]) / (place[inner] - place[end])
        fit = np.where(beyond, mean[end] + slope * (position - place[end]), fit)
    return fit
