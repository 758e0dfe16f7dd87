"""The long form of a tally: lines (what, where, eight numbers) that any engine can add up, so that only sums leave it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from evenscore.data.coding import FOLDS
from evenscore.engines.parts import Recipe, limit_cross
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.tally_state import SKETCH, VECTORS, GroupTally, Tally
from evenscore.types import Floats, Ints

WIDTH = 8
SCALARS, FOLDED, OTHERS, SQUARES, PAIRS, HASHES = range(6)
# What the eight numbers are, and where the line stands:
#   SCALARS  0: users in several groups. g + 1: users, labelled rows, unlabelled rows of group g
#   FOLDED   (g * folds + fold) * cells + cell: W, Y, X, Y2 per user, then per row
#   OTHERS   g * cells + cell: XY, U, A of each weighting in turn, users in the cell
#   SQUARES  g * cells + cell: V0, V1, V2 per user, then per row
#   PAIRS    (a * groups + b) * cells^2 + c * cells + d: ww, wy, yw, yy per user, then per row
#   HASHES   the hash of a user, no numbers
XY, U, A, V0 = (VECTORS.index(name) for name in ("XY", "U", "A", "V0"))


@dataclass(frozen=True, slots=True)
class Lines:
    """kind, place: (n,) integers; values: (n, 8). Lines of the same kind and place add up."""

    kind: Ints
    place: Ints
    values: Floats


def hash_limit(recipe: Recipe) -> int:
    """Hashes from here on are surely not among the smallest that are kept: about eight times as many lie below."""
    top = 2**60 if recipe.hashed else 2**62
    return top if recipe.n_users < 16 * SKETCH else int(top * (8 * SKETCH / recipe.n_users))


def to_lines(tally: Tally, limit: int = 2**62) -> Lines:
    """A tally in the long form; lines of zeros are left out."""
    n_groups = len(tally.groups)
    scalars = np.zeros((n_groups + 1, WIDTH))
    scalars[0, 0] = tally.n_spanning
    found: list[tuple[int, Ints, Floats]] = []
    for g, part in enumerate(tally.parts):
        scalars[g + 1, :3] = part.n_users, part.n_rows, part.n_unlabelled
        found += [_folded(part, g), _others(part, g), _squares(part, g), _pairs(part.pairs, g * n_groups + g)]
    found += [_pairs(sums, a * n_groups + b) for (a, b), sums in tally.cross.items()]
    found.append((SCALARS, np.arange(n_groups + 1), scalars))
    if tally.sketch is not None:
        kept = tally.sketch[tally.sketch < limit]
        found.append((HASHES, kept, np.ones((len(kept), WIDTH))))
    used = [(kind, place[rows], values[rows]) for kind, place, values in found for rows in [np.flatnonzero(values.any(axis=1))]]
    return Lines(
        np.concatenate([np.full(len(place), kind) for kind, place, _ in used]),
        np.concatenate([place for _, place, _ in used]),
        np.concatenate([values for _, _, values in used]),
    )


def _folded(part: GroupTally, g: int) -> tuple[int, Ints, Floats]:
    values = part.folds.reshape(WIDTH, -1).T
    return FOLDED, g * len(values) + np.arange(len(values)), values


def _others(part: GroupTally, g: int) -> tuple[int, Ints, Floats]:
    n_cells = len(part.cell_users)
    picked = part.vectors[:, [XY, U, A]].transpose(1, 0, 2).reshape(6, n_cells)
    values = np.concatenate([picked, part.cell_users[None], np.zeros((1, n_cells))]).T
    return OTHERS, g * n_cells + np.arange(n_cells), values


def _squares(part: GroupTally, g: int) -> tuple[int, Ints, Floats]:
    n_cells = len(part.cell_users)
    values = np.concatenate([part.vectors[:, V0:].reshape(6, n_cells), np.zeros((2, n_cells))]).T
    return SQUARES, g * n_cells + np.arange(n_cells), values


def _pairs(sums: PairSums, pair: int) -> tuple[int, Ints, Floats]:
    return PAIRS, pair * sums.n_cells**2 + sums.pairs.astype(np.int64), sums.values.reshape(WIDTH, -1).T


def from_lines(lines: Lines, recipe: Recipe) -> Tally:
    """The tally that the lines add up to."""
    n_groups, n_cells = len(recipe.labels), recipe.lattice.n_cells
    scalars = _added(lines, SCALARS, n_groups + 1)
    folded = _added(lines, FOLDED, n_groups * FOLDS * n_cells).reshape(n_groups, FOLDS, n_cells, 2, 4)
    others = _added(lines, OTHERS, n_groups * n_cells).reshape(n_groups, n_cells, WIDTH)
    squares = _added(lines, SQUARES, n_groups * n_cells).reshape(n_groups, n_cells, WIDTH)
    pairs = dict(_pair_sums(lines, n_groups, n_cells))
    parts = tuple(_part(scalars[g + 1], folded[g], others[g], squares[g], pairs.get(g * n_groups + g)) for g in range(n_groups))
    cross = {divmod(number, n_groups): sums for number, sums in pairs.items() if number % (n_groups + 1) != 0}
    hashes = np.unique(lines.place[lines.kind == HASHES])[:SKETCH]
    sketch = None if recipe.columns.user is None else hashes
    total = replace(recipe.zero, parts=parts, cross=cross, n_spanning=round(float(scalars[0, 0])), sketch=sketch)
    limit_cross(total)
    return total


def _added(lines: Lines, kind: int, size: int) -> Floats:
    """The numbers of one kind by place, (size, 8)."""
    rows = lines.kind == kind
    sums = np.zeros((size, WIDTH))
    np.add.at(sums, lines.place[rows], lines.values[rows])
    return sums


def _part(scalars: Floats, folded: Floats, others: Floats, squares: Floats, pairs: PairSums | None) -> GroupTally:
    folds = np.ascontiguousarray(folded.transpose(2, 3, 0, 1))
    n_cells = len(others)
    slopes_and_more = others.T[:6].reshape(3, 2, n_cells).transpose(1, 0, 2)
    n_users, n_rows, n_unlabelled = (round(float(value)) for value in scalars[:3])
    return GroupTally(
        n_users,
        n_rows,
        n_unlabelled,
        vectors=np.concatenate([folds.sum(axis=2), slopes_and_more, squares.T[:6].reshape(2, 3, n_cells)], axis=1),
        folds=folds,
        cell_users=others.T[6].copy(),
        pairs=PairSums.empty(n_cells, within=True) if pairs is None else pairs,
    )


def _pair_sums(lines: Lines, n_groups: int, n_cells: int) -> Iterator[tuple[int, PairSums]]:
    rows = np.flatnonzero(lines.kind == PAIRS)
    number, index = np.divmod(lines.place[rows], n_cells**2)
    for pair in np.unique(number).tolist():
        mine = np.flatnonzero(number == pair)
        within = pair // n_groups == pair % n_groups
        sums = PairSums.from_terms(n_cells, within, index[mine], lines.values[rows[mine]].T.reshape(2, 4, -1))
        yield pair, sums + PairSums.empty(n_cells, within)  # dense where that is smaller
