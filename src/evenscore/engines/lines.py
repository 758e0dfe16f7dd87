"""The long form of a tally: lines (what, where, eight numbers) that any engine can add up, so that only sums leave it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from evenscore.data.coding import FOLDS
from evenscore.engines.parts import Recipe
from evenscore.tallies.blocks import BLOCKS, HIGHER
from evenscore.tallies.blocks import FOLDED as FOLDED_SUMS
from evenscore.tallies.group_sums import GroupTally, group_tally
from evenscore.tallies.item_counting import CountedItems
from evenscore.tallies.item_sums import ItemLines
from evenscore.tallies.moments import Moments, Sums
from evenscore.tallies.pairs import USER_PAIRS, PairSums
from evenscore.tallies.reshaping import drop_overflow, with_pair_block
from evenscore.tallies.spanning import limit_cross
from evenscore.tallies.tally_state import SKETCH, Tally
from evenscore.tallies.two_way import attach_items
from evenscore.types import Floats, Ints

WIDTH = 8
SCALARS, FOLDED, OTHERS, SQUARES, PAIRS, HASHES, CUBES, FOURTHS, ALL_ROWS, ALL_PAIRS, BOTH_PAIRS, BY_ITEM = range(12)
# What the eight numbers are, and where the line stands:
#   SCALARS  0: users in several groups. g + 1: users, labelled rows, unlabelled rows of group g
#   FOLDED   (g * folds + fold) * cells + cell: W, Y, X, Y2 per user, then per row
#   OTHERS   g * cells + cell: XY, U, A of each weighting in turn, users in the cell
#   SQUARES  g * cells + cell: V0, V1, V2 per user, then per row; Q4 per user, per row, for which FOURTHS has no room
#   PAIRS    (a * groups + b) * cells^2 + c * cells + d: ww, wy, yw, yy per user, then per row
#   HASHES   the hash of a user, no numbers
#   CUBES    g * cells + cell: T0, T1, T2, T3 per user, then per row
#   FOURTHS  g * cells + cell: Q0, Q1, Q2, Q3 per user, then per row
#   ALL_ROWS g * cells + cell: R2, R3 per user, then per row; only where rows have no outcome
#   ALL_PAIRS as PAIRS: aa per user, then per row; only where rows have no outcome
#   BOTH_PAIRS as PAIRS, of rows that share user and item; only where there are items
#   BY_ITEM + g * cells + cell is the kind, and the place is the hash of an item: w, y per user, then per row
OTHER_NAMES, SQUARE_NAMES = ("XY", "U", "A"), ("V0", "V1", "V2")


@dataclass(frozen=True, slots=True)
class Lines:
    """kind, place: (n,) integers; values: (n, 8). Lines of the same kind and place add up."""

    kind: Ints
    place: Ints
    values: Floats


def hash_limit(recipe: Recipe) -> int:
    """Hashes from here on are surely not among the smallest that are kept: about eight times as many lie below, of text 32."""
    top = 2**62
    return top if recipe.n_users < 16 * SKETCH else int(top * (8 * SKETCH / recipe.n_users))


def to_lines(tally: Tally, limit: int = 2**62) -> Lines:
    """A tally in the long form; lines of zeros are left out."""
    n_groups = len(tally.groups)
    scalars = np.zeros((n_groups + 1, WIDTH))
    scalars[0, 0] = tally.n_spanning
    parts: list[tuple[int | Ints, Ints, Floats]] = []
    for g, group in enumerate(tally.group_tallies):
        scalars[g + 1, :3] = group.n_users, group.n_rows, group.n_unlabelled
        parts += [_folded(group, g), _others(group, g), *_powers(group, g), _pairs(group.pairs, g * n_groups + g)]
        if "all_pairs" in tally.block_names:
            parts += _all_lines(group, g, n_groups)
    parts += [_pairs(sums, a * n_groups + b) for (a, b), sums in tally.cross.items()]
    parts += [_all_pairs(sums, a * n_groups + b) for (a, b), sums in tally.cross_blocks.get("all_pairs", {}).items()]
    parts += _item_lines(tally)
    parts.append((SCALARS, np.arange(n_groups + 1), scalars))
    if tally.sketch is not None:
        kept = tally.sketch[tally.sketch < limit]
        parts.append((HASHES, kept, np.ones((len(kept), WIDTH))))
    used = []
    for kind, place, values in parts:
        rows = np.flatnonzero(values.any(axis=1))
        used.append((np.broadcast_to(kind, len(place))[rows], place[rows], values[rows]))
    return Lines(
        np.concatenate([kind for kind, _, _ in used]),
        np.concatenate([place for _, place, _ in used]),
        np.concatenate([values for _, _, values in used]),
    )


def _folded(group: GroupTally, g: int) -> tuple[int, Ints, Floats]:
    values = group.folds.values.reshape(WIDTH, -1).T
    return FOLDED, g * len(values) + np.arange(len(values)), values


def _others(group: GroupTally, g: int) -> tuple[int, Ints, Floats]:
    n_cells = len(group.cell_users)
    vectors = np.concatenate([group.vectors[name] for name in OTHER_NAMES])
    values = np.concatenate([vectors, group.cell_users[None], np.zeros((1, n_cells))]).T
    return OTHERS, g * n_cells + np.arange(n_cells), values


def _powers(group: GroupTally, g: int) -> Iterator[tuple[int, Ints, Floats]]:
    """Sums of w^2 y^k, w^3 y^k and w^4 y^k; what a worker had to leave out is not a number, nor is what it is added to then."""
    n_cells = len(group.cell_users)
    place = g * n_cells + np.arange(n_cells)
    squares = np.stack([group.vectors[name] for name in SQUARE_NAMES], axis=1)
    shape = BLOCKS["higher"].shape(n_cells)
    higher = group.blocks["higher"].values if "higher" in group.blocks else np.full(shape, np.nan)
    cubes, fourths, last = higher[:, :4], higher[:, 4:8], higher[:, 8]
    yield SQUARES, place, np.concatenate([squares.reshape(6, n_cells), last]).T
    yield CUBES, place, cubes.reshape(WIDTH, n_cells).T
    yield FOURTHS, place, fourths.reshape(WIDTH, n_cells).T


def _item_lines(tally: Tally) -> Iterator[tuple[int | Ints, Ints, Floats]]:
    """Sums by item, and by user and item; none without items."""
    if tally.items is None:
        return
    n_groups, n_cells, lines = len(tally.groups), tally.lattice.n_cells, tally.items
    for g, group in enumerate(tally.group_tallies):
        yield _pairs(cast(PairSums, group.blocks["both_pairs"]), g * n_groups + g, BOTH_PAIRS)
    for (a, b), sums in tally.cross_blocks["both_pairs"].items():
        yield _pairs(sums, a * n_groups + b, BOTH_PAIRS)
    yield BY_ITEM + lines.group.astype(np.int64) * n_cells + lines.cell, lines.item, _widened(lines.values.reshape(4, -1).T)


def _with_items(total: Tally, lines: Lines) -> Tally:
    """The tally with its sums by item."""
    n_groups, n_cells = len(total.groups), total.lattice.n_cells
    both = {divmod(number, n_groups): sums for number, sums in _pair_sums(lines, BOTH_PAIRS, n_groups, n_cells, USER_PAIRS)}
    mine = np.flatnonzero(lines.kind >= BY_ITEM)
    group, cell = np.divmod(lines.kind[mine] - BY_ITEM, n_cells)
    by_item = ItemLines.of(lines.place[mine], group, cell, lines.values[mine, :4].T.reshape(2, 2, -1))
    return attach_items(total, CountedItems(by_item, both), total.item)


def _pairs(sums: PairSums, pair: int, kind: int = PAIRS) -> tuple[int, Ints, Floats]:
    return kind, pair * sums.n_cells**2 + sums.pairs.astype(np.int64), sums.values.reshape(WIDTH, -1).T


def _all_lines(group: GroupTally, g: int, n_groups: int) -> Iterator[tuple[int, Ints, Floats]]:
    n_cells = len(group.cell_users)
    powers = group.blocks["all_rows"].values.reshape(4, n_cells).T
    yield ALL_ROWS, g * n_cells + np.arange(n_cells), _widened(powers)
    yield _all_pairs(cast(PairSums, group.blocks["all_pairs"]), g * n_groups + g)


def _all_pairs(sums: PairSums, pair: int) -> tuple[int, Ints, Floats]:
    return ALL_PAIRS, pair * sums.n_cells**2 + sums.pairs.astype(np.int64), _widened(sums.values.reshape(2, -1).T)


def _widened(values: Floats) -> Floats:
    return np.concatenate([values, np.zeros((len(values), WIDTH - values.shape[1]))], axis=1)


def from_lines(lines: Lines, recipe: Recipe) -> Tally:
    """The tally that the lines add up to."""
    n_groups, n_cells = len(recipe.labels), recipe.lattice.n_cells
    scalars = _added(lines, SCALARS, n_groups + 1)
    folded = _added(lines, FOLDED, n_groups * FOLDS * n_cells).reshape(n_groups, FOLDS, n_cells, 2, 4)
    others = _added(lines, OTHERS, n_groups * n_cells).reshape(n_groups, n_cells, WIDTH)
    powers = np.stack([_added(lines, kind, n_groups * n_cells) for kind in (SQUARES, CUBES, FOURTHS)])
    powers = powers.reshape(3, n_groups, n_cells, WIDTH)
    pairs = dict(_pair_sums(lines, PAIRS, n_groups, n_cells, USER_PAIRS))
    groups = tuple(_group(scalars[g + 1], folded[g], others[g], powers[:, g], pairs.get(g * n_groups + g)) for g in range(n_groups))
    cross = {divmod(number, n_groups): sums for number, sums in pairs.items() if number % (n_groups + 1) != 0}
    hashes = np.unique(lines.place[lines.kind == HASHES])[:SKETCH]
    sketch = None if recipe.columns.user is None else hashes
    n_spanning = round(float(scalars[0, 0]))
    total = replace(recipe.zero, group_tallies=groups, cross_blocks={"pairs": cross}, n_spanning=n_spanning, sketch=sketch)
    if recipe.item is not None:
        total = _with_items(total, lines)
    limit_cross(cross, n_spanning, n_groups)
    if any(group.n_unlabelled for group in groups):
        total = _with_all_rows(total, lines)
    return drop_overflow(total)


def _with_all_rows(total: Tally, lines: Lines) -> Tally:
    """The tally with the sums of all rows, with an outcome or not."""
    n_groups, n_cells = len(total.groups), total.lattice.n_cells
    powers = _added(lines, ALL_ROWS, n_groups * n_cells)[:, :4].reshape(n_groups, n_cells, 4)
    pairs = dict(_pair_sums(lines, ALL_PAIRS, n_groups, n_cells, BLOCKS["all_pairs"].moments))
    rows = [Sums(BLOCKS["all_rows"].moments, sums.T.reshape(2, 2, n_cells).copy()) for sums in powers]
    groups = tuple(group.with_blocks(all_rows=own) for group, own in zip(total.group_tallies, rows, strict=True))
    by_groups = {divmod(number, n_groups): sums for number, sums in pairs.items()}
    return with_pair_block(replace(total, group_tallies=groups), "all_pairs", by_groups)


def _added(lines: Lines, kind: int, size: int) -> Floats:
    """The numbers of one kind by place, (size, 8)."""
    rows = lines.kind == kind
    sums = np.zeros((size, WIDTH))
    with np.errstate(over="ignore", invalid="ignore"):  # see ``drop_overflow``
        np.add.at(sums, lines.place[rows], lines.values[rows])
    return sums


def _group(scalars: Floats, folded: Floats, others: Floats, powers: Floats, pairs: PairSums | None) -> GroupTally:
    """folded: (folds, n_cells, 2, 4); others: (n_cells, 8); powers: (3, n_cells, 8)."""
    n_cells = len(others)
    n_users, n_rows, n_unlabelled = (round(float(value)) for value in scalars[:3])
    folds = dict(zip(FOLDED_SUMS.names, np.ascontiguousarray(folded.transpose(3, 2, 0, 1)), strict=True))
    vectors = dict(zip(OTHER_NAMES, others.T[:6].reshape(3, 2, n_cells), strict=True))
    squares, cubes, fourths = powers.transpose(0, 2, 1)
    vectors |= dict(zip(SQUARE_NAMES, squares[:6].reshape(2, 3, n_cells).transpose(1, 0, 2), strict=True))
    by_power = [sums.reshape(2, -1, n_cells) for sums in (cubes, fourths, squares[6:])]
    higher = dict(zip(HIGHER.names, np.concatenate(by_power, axis=1).transpose(1, 0, 2), strict=True))
    pairs = PairSums.empty(n_cells, within=True) if pairs is None else pairs
    return group_tally((n_users, n_rows, n_unlabelled), others.T[6].copy(), folds, vectors, pairs, higher)


def _pair_sums(lines: Lines, kind: int, n_groups: int, n_cells: int, moments: Moments) -> Iterator[tuple[int, PairSums]]:
    rows = np.flatnonzero(lines.kind == kind)
    number, index = np.divmod(lines.place[rows], n_cells**2)
    for pair in np.unique(number).tolist():
        mine = np.flatnonzero(number == pair)
        within = pair // n_groups == pair % n_groups
        n_sums = len(moments.names)
        terms = lines.values[rows[mine], : 2 * n_sums].T.reshape(2, n_sums, -1)
        yield pair, PairSums.from_terms(n_cells, within, index[mine], terms, moments).packed()
