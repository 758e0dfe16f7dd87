"""The pair sums of one group's users, and of users in two groups, fast for users with few rows and for users with many.

A user with n rows makes n (n - 1) / 2 pairs. Few are added one by one, all users with the same n in one sweep; many are cheaper as
a matrix product over cells. The switch is where the two cost the same, so the cost per row never jumps.

Pairs are met at random places of a table larger than the cache, which is what they cost. So both weightings go there as one complex
number (a real part by row, an imaginary part by user), and the four sums of a pair of cells lie side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evenscore.tallies.pairs import USER_PAIRS, WW, WY, YW, YY, PairSums, distinct_pairs, every_pair
from evenscore.types import Complexes, Floats, Ints, Mask

BLOCK = 1 << 15  # pairs handled at a time: their arrays stay in the cache
LONG_BINARY, LONG_REAL = 0.30, 0.13  # a user is long from this many rows per cell on; measured
FEW = 0.5  # terms per pair of cells up to which they are collected instead of added in place; measured
USERS = 1024  # long users multiplied at a time


@dataclass(frozen=True, slots=True)
class Segments:
    """The labelled rows of one group in order of user, then cell.

    cell: (n_rows,), 16 bits. starts, lengths: (n_users,) where each user's rows are. n: (n_users,) rows, repeats counted.
    positive: (n_rows,) bool for 0/1 outcomes of weight one; else outcome: (n_rows,) weight * deviation, and weight: (n_rows,), None
    when every weight is one.
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
        held = self.outcome if self.positive is None else self.positive
        assert held is not None
        outcome = held[rows].astype(np.float64, copy=False)
        return np.ones_like(outcome) if self.weight is None else self.weight[rows], outcome


def pair_sums(segments: Segments, n_cells: int, own: Floats) -> PairSums:
    """The pair sums of a group with itself; ``own`` (2, 4, n_cells) are those of each row with itself.

    A user's product is (sum_i w_i [c_i = c]) (sum_j w_j [c_j = d]) = sum over i != j, plus i = j where c = d. The first is met as
    unordered pairs, of which (c, d) and (d, c) are the two orders; the second is ``own``, which needs no pairs at all.
    """
    long = segments.lengths > _long(segments.plain, n_cells)
    short = np.flatnonzero(~long)
    lengths = segments.lengths[short]
    n_terms = int((lengths * (lengths - 1) // 2).sum())
    blocks = _within_blocks(segments, short)
    if n_terms <= FEW * n_cells**2 and len(short) == len(long):
        used = np.flatnonzero(own[1, WW]) * (n_cells + 1)
        pairs, values = _sparse_sums(blocks, n_cells, segments.plain, also=used)
    else:
        pairs, values = _dense_sums(blocks, n_cells, segments.plain, every_pair(n_cells, within=True))
    diagonal = np.flatnonzero(pairs % (n_cells + 1) == 0)
    cells = pairs[diagonal] // (n_cells + 1)
    # Two rows in one cell were met once, as (left, right); a cell with itself needs both orders.
    values[:, :, diagonal] += values[:, :, diagonal][:, USER_PAIRS.turned]
    if long.any():
        squares = np.zeros((2, 4, n_cells, n_cells))
        _add_long(squares, segments, np.flatnonzero(long), n_cells)
        values += squares.reshape(2, 4, -1)[:, :, pairs]
    values[:, :, diagonal] += own[:, :, cells]
    return PairSums.from_kept(values, n_cells, True, pairs)


def _long(plain: bool, n_cells: int) -> int:
    return max(2, int((LONG_BINARY if plain else LONG_REAL) * n_cells))


def _classes(lengths: Ints, chosen: Ints, least: int) -> Iterator[tuple[int, Ints]]:
    """Users of equal length together: (length, their numbers), from so many rows on."""
    chosen = chosen[np.argsort(lengths[chosen].astype(np.uint16), kind="stable")]  # 16 bits: a radix sort
    ordered = lengths[chosen]
    ends = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    for start, end in zip([0, *ends], [*ends, len(chosen)], strict=True):
        if start < end and ordered[start] >= least:
            yield int(ordered[start]), chosen[start:end]


def _blocks(users: Ints, size: int) -> Iterator[Ints]:
    for start in range(0, len(users), size):
        yield users[start : start + size]


# Pairs of rows


@dataclass(frozen=True, slots=True)
class _RowPairs:
    """Some pairs of rows of the same user: the rows ``left`` (n_left, m) of segments a and ``right`` (n_right, m) of segments b are
    paired as ``left[i]`` with ``right[j]``, (n_times, m); scale (m,): 1 over the user's rows in a times those in b."""

    a: Segments
    b: Segments
    left: Ints
    right: Ints
    i: Ints | slice
    j: Ints | slice
    n_times: int
    scale: Floats

    def keys(self, n_cells: int) -> Ints:
        """The pair of cells of each pair of rows, times 4; plain rows: + 2 * outcome on the left + outcome on the right."""
        code, other = self.a.cell[self.left].astype(np.int64) * (4 * n_cells), self.b.cell[self.right].astype(np.int64) * 4
        if self.a.positive is not None and self.b.positive is not None:
            code += 2 * self.a.positive[self.left]
            other += self.b.positive[self.right]
        return (code[self.i] + other[self.j]).ravel()

    def terms(self) -> Iterator[Complexes]:
        """What each pair adds to ww, wy, yw and yy, both weightings in one number; plain rows: what it adds to its count."""
        both = (1 + 1j * self.scale).astype(np.complex128, copy=False)
        if self.a.weight is None and self.b.weight is None:
            yield np.tile(both, self.n_times)
            if not self.a.plain:
                yield from self._unit_terms(both)
            return
        (w, y), (v, z) = self.a.values(self.left), self.b.values(self.right)
        of_v: Complexes = (v * both)[self.j]
        of_z: Complexes = (z * both)[self.j]
        yield (w[self.i] * of_v).ravel()
        yield (w[self.i] * of_z).ravel()
        yield (y[self.i] * of_v).ravel()
        yield (y[self.i] * of_z).ravel()

    def _unit_terms(self, both: Complexes) -> Iterator[Complexes]:
        """What pairs of weight one add to wy, yw and yy."""
        assert self.a.outcome is not None and self.b.outcome is not None
        y = self.a.outcome[self.left]
        of_y = y * both
        of_z: Complexes = (of_y if self.right is self.left else self.b.outcome[self.right] * both)[self.j]
        yield np.broadcast_to(of_z, (self.n_times, len(both))).ravel()
        yield of_y[self.i].ravel()
        yield (y[self.i] * of_z).ravel()


def _within_blocks(segments: Segments, chosen: Ints) -> Iterator[_RowPairs]:
    """All pairs of different rows of a user, left before right."""
    for length, users in _classes(segments.lengths, chosen, least=2):
        i, j = _every_two(length)
        for block in _blocks(users, max(1, BLOCK // len(i))):
            rows = segments.starts[block] + np.arange(length)[:, None]
            scale = segments.n[block] ** -2.0
            yield _RowPairs(a=segments, b=segments, left=rows, right=rows, i=i, j=j, n_times=len(i), scale=scale)


@lru_cache(maxsize=64)
def _every_two(length: int) -> tuple[Ints, Ints]:
    return np.triu_indices(length, 1)


def _cross_blocks(a: Segments, b: Segments, left: Ints, right: Ints) -> Iterator[_RowPairs]:
    """Every row of a user in the one group with every row in the other: users with equally many rows on the left together."""
    order, lengths = np.arange(len(left)), a.lengths[left]
    for length, users in _classes(lengths, order, least=1):
        n_right = b.lengths[right[users]]
        size = max(1, BLOCK // length)
        limits = np.arange(size, int(n_right.sum()), size)
        ends = np.unique(np.searchsorted(np.cumsum(n_right), limits))
        for block in np.split(users, ends):
            if len(block):
                repeats = b.lengths[right[block]]
                first = np.repeat(a.starts[left[block]], repeats)
                scale = np.repeat(1 / (a.n[left[block]] * b.n[right[block]]), repeats)
                every = slice(None)
                yield _RowPairs(
                    a=a,
                    b=b,
                    left=first + np.arange(length)[:, None],
                    right=_rows_of(b, right[block])[None, :],
                    i=every,
                    j=every,
                    n_times=length,
                    scale=scale,
                )


def _dense_sums(blocks: Iterator[_RowPairs], n_cells: int, plain: bool, kept: Ints) -> tuple[Ints, Floats]:
    """The sums of all pairs in ``kept``, met or not."""
    table = np.zeros((n_cells * n_cells, 4), dtype=np.complex128)
    flat = table.reshape(-1)
    for pairs in blocks:
        key = pairs.keys(n_cells)
        for name, term in enumerate(pairs.terms()):
            np.add.at(flat, key + name if name else key, term)
    sums = table[kept].T
    values = np.stack([sums.imag, sums.real])
    return kept, _by_name(values) if plain else values


def _sparse_sums(blocks: Iterator[_RowPairs], n_cells: int, plain: bool, also: Ints) -> tuple[Ints, Floats]:
    """For small groups: the pairs of cells that are met, and some others, with their sums."""
    n_terms = 1 if plain else 4
    keys, terms = [also * 4], [np.zeros((n_terms, len(also)), dtype=np.complex128)]
    for pairs in blocks:
        keys.append(pairs.keys(n_cells))
        terms.append(np.stack(list(pairs.terms())))
    key, both = np.concatenate(keys), np.concatenate(terms, axis=1)
    met, position = distinct_pairs(key >> 2, n_cells * n_cells)
    size = len(met) * 4 // n_terms
    if plain:
        position += (key & 3) * len(met)
    sums = [np.bincount(position, term, minlength=size) for weighting in (both.imag, both.real) for term in weighting]
    values = np.array(sums, dtype=np.float64).reshape(2, 4, -1)
    return met, _by_name(values) if plain else values


def _by_name(values: Floats) -> Floats:
    """Counts by the outcomes 00, 01, 10 and 11 of a pair, (2 weightings, 4, n_pairs), turned into the sums ww, wy, yw and yy."""
    values[:, WY] += values[:, YY]
    values[:, WW] += values[:, WY] + values[:, YW]
    values[:, YW] += values[:, YY]
    return values


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


def cross_sums(a: Segments, b: Segments, left: Ints, right: Ints, n_cells: int) -> PairSums:
    """The pair sums of two groups: user ``left[k]`` of the one is user ``right[k]`` of the other, as numbers of segments."""
    n_pairs = a.lengths[left] * b.lengths[right]
    long = n_pairs > _long(a.plain, n_cells) ** 2 * 2 // 3
    blocks = _cross_blocks(a, b, left[~long], right[~long])
    if int(n_pairs.sum()) <= FEW * n_cells**2 and not long.any():
        pairs, values = _sparse_sums(blocks, n_cells, a.plain, also=np.zeros(0, dtype=np.int64))
    else:
        pairs, values = _dense_sums(blocks, n_cells, a.plain, every_pair(n_cells, within=False))
    if long.any():
        _add_long_cross(values.reshape(2, 4, n_cells, n_cells), (a, b), left[long], right[long], n_cells)
    return PairSums.from_kept(values, n_cells, False, pairs)


def _add_long_cross(squares: Floats, groups: tuple[Segments, Segments], left: Ints, right: Ints, n_cells: int) -> None:
    """Products of what users put into the cells of either group."""
    a, b = groups
    for block in _blocks(np.arange(len(left)), USERS):
        (w, y), (v, z) = user_cells(a, left[block], n_cells), user_cells(b, right[block], n_cells)
        scale = (1 / (a.n[left[block]] * b.n[right[block]]))[:, None]
        for weighting, factor in enumerate((scale, np.ones_like(scale))):
            for name, one, other in ((WW, w, v), (WY, w, z), (YW, y, v), (YY, y, z)):
                squares[weighting, name] += (one * factor).T @ other
