"""The pair sums of one group's users, fast for users with few rows and for users with many.

A user with n rows makes n (n - 1) / 2 pairs. Few are added one by one, all users with the same n in one sweep; many are cheaper as
a matrix product over cells. The switch is where the two cost the same, so the cost per row never jumps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenscore.tallies.pairs import USER_PAIRS, WW, WY, YW, YY, PairSums
from evenscore.types import Floats, Ints, Mask

BLOCK = 1 << 17  # pairs handled at a time: their arrays stay in the cache
LONG_BINARY, LONG_REAL = 0.30, 0.13  # a user is long from this many rows per cell on; measured
FEW = 0.5  # terms per pair of cells up to which they are collected instead of added in place; measured
USERS = 1024  # long users multiplied at a time


@dataclass(frozen=True, slots=True)
class Segments:
    """The labelled rows of one group in order of user, then cell.

    cell: (n_rows,), 16 bits. starts, lengths: (n_users,) where each user's rows are. n: (n_users,) rows, repeats counted.
    positive: (n_rows,) bool for 0/1 outcomes of weight one; else weight and outcome: (n_rows,) with outcome = weight * deviation.
    """

    cell: NDArray[np.uint16]
    starts: Ints
    lengths: Ints
    n: Floats
    positive: Mask | None = None
    weight: Floats | None = None
    outcome: Floats | None = None

    @property
    def plain(self) -> bool:
        """0/1 outcomes and weight one: a row is described by its cell and its outcome."""
        return self.positive is not None

    def values(self, rows: Ints | slice) -> tuple[Floats, Floats]:
        """Weight and weighted outcome of some rows."""
        if self.positive is not None:
            positive = self.positive[rows].astype(np.float64)
            return np.ones_like(positive), positive
        assert self.weight is not None and self.outcome is not None
        return self.weight[rows], self.outcome[rows]


def lengths_from(starts: Ints, end: int) -> Ints:
    """How many rows each segment has, given where they start."""
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1] = end - starts[-1]
    return lengths


def pair_sums(segments: Segments, n_cells: int, own: Floats) -> PairSums:
    """The pair sums of a group with itself; ``own`` (2, 4, n_cells) are those of each row with itself."""
    long = segments.lengths > _long(segments.plain, n_cells)
    short = np.flatnonzero(~long)
    lengths = segments.lengths[short]
    n_terms = int((lengths * (lengths - 1) // 2).sum())
    if n_terms <= FEW * n_cells**2 and len(short) == len(long):
        return _sparse(segments, n_cells, own)
    squares = np.zeros((2, 4, n_cells, n_cells))
    _add_short(squares, segments, short, n_cells)
    _add_long(squares, segments, np.flatnonzero(long), n_cells)
    _diagonal(squares)[:] += own
    return PairSums.from_squares(squares, within=True)


def _long(plain: bool, n_cells: int) -> int:
    return max(2, int((LONG_BINARY if plain else LONG_REAL) * n_cells))


def _classes(lengths: Ints, chosen: Ints) -> Iterator[tuple[int, Ints]]:
    """Users of equal length together: (length, their numbers), from two rows on."""
    chosen = chosen[np.argsort(lengths[chosen].astype(np.uint16), kind="stable")]  # 16 bits: a radix sort
    ordered = lengths[chosen]
    ends = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    for start, end in zip([0, *ends], [*ends, len(chosen)], strict=True):
        if start < end and ordered[start] > 1:
            yield int(ordered[start]), chosen[start:end]


def _blocks(users: Ints, size: int) -> Iterator[Ints]:
    for start in range(0, len(users), size):
        yield users[start : start + size]


def _short_pairs(segments: Segments, chosen: Ints) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Rows (left, right) of all pairs of different rows of a user, left before right, and 1 / n^2 of the user."""
    for length, users in _classes(segments.lengths, chosen):
        i, j = np.triu_indices(length, 1)
        for block in _blocks(users, max(1, BLOCK // len(i))):
            first = segments.starts[block]
            scale = np.tile(segments.n[block] ** -2.0, len(i))
            yield (first + i[:, None]).ravel(), (first + j[:, None]).ravel(), scale


def _keys(segments: Segments, left: Ints, right: Ints, n_cells: int) -> Ints:
    """The pair of cells of each pair of rows."""
    return segments.cell[left].astype(np.int64) * n_cells + segments.cell[right]


def _products(segments: Segments, left: Ints, right: Ints) -> tuple[Floats, Floats, Floats, Floats]:
    """What each pair of rows adds to ww, wy, yw and yy."""
    (a, b), (c, d) = segments.values(left), segments.values(right)
    return a * c, a * d, b * c, b * d


def _add_short(squares: Floats, segments: Segments, chosen: Ints, n_cells: int) -> None:
    if segments.plain:
        _add_short_plain(squares, segments, chosen, n_cells)
        return
    flat = squares.reshape(2, 4, -1)
    for left, right, scale in _short_pairs(segments, chosen):
        key = _keys(segments, left, right, n_cells)
        for name, term in enumerate(_products(segments, left, right)):
            np.add.at(flat[1, name], key, term)
            np.add.at(flat[0, name], key, term * scale)
    _double_diagonal(squares)


def _add_short_plain(squares: Floats, segments: Segments, chosen: Ints, n_cells: int) -> None:
    """Count pairs of (cell, outcome) codes: one count gives all four sums, for both weightings."""
    assert segments.positive is not None
    width = 2 * n_cells
    code = segments.cell + segments.positive * np.uint16(n_cells)
    counts = np.zeros((2, width * width))
    alone = np.zeros(width * width)
    for length, users in _classes(segments.lengths, chosen):
        i, j = np.triu_indices(length, 1)
        many = len(users) * len(i) > 2 * width * width  # enough to count by themselves, and scale the count once
        for block in _blocks(users, max(1, BLOCK // len(i))):
            codes = code[segments.starts[block] + np.arange(length)[:, None]].astype(np.int64)
            key = (codes[i] * width + codes[j]).ravel()
            if many:
                np.add.at(alone, key, 1.0)
            else:
                np.add.at(counts[1], key, 1.0)
                np.add.at(counts[0], key, length**-2.0)
        if many:
            counts[1] += alone
            alone *= length**-2.0
            counts[0] += alone
            alone[:] = 0
    for weighting in (0, 1):
        (zero_zero, zero_one), (one_zero, one_one) = counts[weighting].reshape(2, n_cells, 2, n_cells).swapaxes(1, 2)
        squares[weighting, YY] += one_one
        squares[weighting, WY] += zero_one + one_one
        squares[weighting, YW] += one_zero + one_one
        squares[weighting, WW] += zero_zero + zero_one + one_zero + one_one
    _double_diagonal(squares)


def _double_diagonal(squares: Floats) -> None:
    """Two rows in one cell were met once, as (left, right); a cell with itself needs both orders."""
    diagonal = _diagonal(squares)
    diagonal += diagonal[:, USER_PAIRS.turned]


def _diagonal(squares: Floats) -> Floats:
    """A view of each cell's sums with itself, (2, 4, n_cells)."""
    return np.einsum("pqcc->pqc", squares)


def _add_long(squares: Floats, segments: Segments, chosen: Ints, n_cells: int) -> None:
    """Products of what users put into cells, less each row with itself, which is added for all rows at once."""
    diagonal = _diagonal(squares)
    for users in _blocks(chosen, USERS):
        rows = _rows_of(segments, users)
        weight, outcome = user_cells(segments, users, n_cells)
        cell = segments.cell[rows]
        single = segments.values(rows)
        scale = 1 / segments.n[users]
        for weighting, factor in enumerate((scale, np.ones_like(scale))):
            w, y = weight * factor[:, None], outcome * factor[:, None]
            mixed = w.T @ y
            for name, products in ((WW, w.T @ w), (WY, mixed), (YW, mixed.T), (YY, y.T @ y)):
                squares[weighting, name] += products
            a, b = (value * np.repeat(factor, segments.lengths[users]) for value in single)
            for name, own in ((WW, a * a), (WY, a * b), (YW, a * b), (YY, b * b)):
                diagonal[weighting, name] -= np.bincount(cell, own, minlength=n_cells)


def _rows_of(segments: Segments, users: Ints) -> Ints:
    """The rows of some users, one user after the other."""
    lengths = segments.lengths[users]
    return np.repeat(segments.starts[users] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())


def user_cells(segments: Segments, users: Ints, n_cells: int) -> tuple[Floats, Floats]:
    """What each user put into each cell: weight and outcome, (n_users, n_cells) each."""
    rows = _rows_of(segments, users)
    place = np.repeat(np.arange(len(users)) * n_cells, segments.lengths[users]) + segments.cell[rows]
    size = len(users) * n_cells
    weight, outcome = segments.values(rows)
    shape = (len(users), n_cells)
    counted = [np.bincount(place, values, minlength=size).reshape(shape).astype(np.float64) for values in (weight, outcome)]
    return counted[0], counted[1]


def _sparse(segments: Segments, n_cells: int, own: Floats) -> PairSums:
    """For small groups: collect the terms, then add up equal pairs."""
    everyone = np.arange(len(segments.lengths))
    used = np.flatnonzero(own[1, WW])
    keys, terms = [used * (n_cells + 1)], [own[:, :, used]]
    for left, right, scale in _short_pairs(segments, everyone):
        keys.append(_keys(segments, left, right, n_cells))
        by_row = np.stack(_products(segments, left, right))
        same = segments.cell[left] == segments.cell[right]
        by_row[:, same] += by_row[USER_PAIRS.turned][:, same]
        terms.append(np.stack([by_row * scale, by_row]))
    return PairSums.from_terms(n_cells, True, np.concatenate(keys), np.concatenate(terms, axis=2))


def cross_sums(segments: Segments, left: Ints, right: Ints, n_cells: int) -> PairSums:
    """The pair sums of two groups: user ``left[k]`` of the one is user ``right[k]`` of the other, as numbers of segments."""
    n_pairs = segments.lengths[left] * segments.lengths[right]
    if int(n_pairs.sum()) <= FEW * n_cells**2:
        return PairSums.from_terms(n_cells, False, *_cross_terms(segments, left, right, n_cells))
    squares = np.zeros((2, 4, n_cells, n_cells))
    long = n_pairs > _long(False, n_cells) ** 2
    _add_short_cross(squares.reshape(2, 4, -1), segments, left[~long], right[~long], n_cells)
    _add_long_cross(squares, segments, left[long], right[long], n_cells)
    return PairSums.from_squares(squares, within=False)


def _add_short_cross(flat: Floats, segments: Segments, left: Ints, right: Ints, n_cells: int) -> None:
    """Row by row, in blocks of about as many pairs of rows as fit the cache."""
    done = np.cumsum(segments.lengths[left] * segments.lengths[right])
    limits = np.arange(BLOCK, done[-1] if len(done) else 0, BLOCK)
    for users in np.split(np.arange(len(left)), np.unique(np.searchsorted(done, limits))):
        key, terms = _cross_terms(segments, left[users], right[users], n_cells)
        for sums, added in zip(flat.reshape(8, -1), terms.reshape(8, -1), strict=True):
            np.add.at(sums, key, added)


def _add_long_cross(squares: Floats, segments: Segments, left: Ints, right: Ints, n_cells: int) -> None:
    """Products of what users put into the cells of either group."""
    for block in _blocks(np.arange(len(left)), USERS):
        (w, y), (v, z) = (user_cells(segments, side[block], n_cells) for side in (left, right))
        scale = (1 / (segments.n[left[block]] * segments.n[right[block]]))[:, None]
        for weighting, factor in enumerate((scale, np.ones_like(scale))):
            for name, one, other in ((WW, w, v), (WY, w, z), (YW, y, v), (YY, y, z)):
                squares[weighting, name] += (one * factor).T @ other


def _cross_terms(segments: Segments, left: Ints, right: Ints, n_cells: int) -> tuple[Ints, Floats]:
    """Every row of a user in the one group with every row in the other: pairs of cells (n,) and what each adds, (2, 4, n)."""
    rows = _rows_of(segments, left)
    partner = np.repeat(np.arange(len(left)), segments.lengths[left])
    repeats = segments.lengths[right][partner]
    one = np.repeat(rows, repeats)
    offset = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    other = np.repeat(segments.starts[right][partner], repeats) + offset
    scale = np.repeat(1 / (segments.n[left] * segments.n[right])[partner], repeats)
    by_row = np.stack(_products(segments, one, other))
    return _keys(segments, one, other, n_cells), np.stack([by_row * scale, by_row])
