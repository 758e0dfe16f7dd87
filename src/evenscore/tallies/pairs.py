"""Sums over pairs of cells: what a user put into cell c times what the same user put into cell d, summed over users.

They are what makes a covariance respect users. For cells c of group a and d of group b, with w and y the user's weight and weighted
outcome in a cell, four sums are kept for each of the two weightings: w[c]w[d], w[c]y[d], y[c]w[d] and y[c]y[d].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from evenscore.tallies.moments import Factor, Moments, Sums
from evenscore.types import Floats, Ints

Index = NDArray[np.int32]

W, Y = Factor(), Factor(y=1)
USER_PAIRS = Moments({"ww": (W, W), "wy": (W, Y), "yw": (Y, W), "yy": (Y, Y)})
WW, WY, YW, YY = range(4)  # their positions, for the loops that add them up
SORTED = 64  # a table of all pairs costs less than sorting those that are met unless they are so many times fewer
ALIASED, PAD = 64, 8  # rows of a multiple of 512 bytes share lines of a cache, so that a column takes three times as long to read
DENSE_SHARE = 0.5  # an index of 4 bytes beside 64 bytes of sums pays while fewer than about this share of pairs occur


@dataclass(frozen=True, slots=True)
class PairMatrices:
    """Dense pair matrices of one weighting, each (n_cells, n_cells): ww[c, d] = sum w_a[c] w_b[d], wy[c, d] = sum w_a[c] y_b[d],
    yw[c, d] = sum y_a[c] w_b[d], yy[c, d] = sum y_a[c] y_b[d]."""

    ww: Floats
    wy: Floats
    yw: Floats
    yy: Floats

    def __add__(self, other: PairMatrices) -> PairMatrices:
        return PairMatrices(self.ww + other.ww, self.wy + other.wy, self.yw + other.yw, self.yy + other.yy)

    def __sub__(self, other: PairMatrices) -> PairMatrices:
        return PairMatrices(self.ww - other.ww, self.wy - other.wy, self.yw - other.yw, self.yy - other.yy)

    def at(self, cells: Ints) -> PairMatrices:
        """The same for some of the cells."""
        square = np.ix_(cells, cells)
        return PairMatrices(self.ww[square], self.wy[square], self.yw[square], self.yy[square])

    def transposed(self) -> PairMatrices:
        """The same with the two sides in the other order."""
        return PairMatrices(self.ww.T, self.yw.T, self.wy.T, self.yy.T)

    def residual(self, fit_a: Floats, fit_b: Floats) -> Floats:
        """R[c, d] = sum of (y_a - F_a w_a)[c] (y_b - F_b w_b)[d], for fitted values F at the cells, (n_cells,) each."""
        left, right = fit_a[:, None], fit_b[None, :]
        residual = left * self.ww
        residual -= self.yw
        residual *= right
        residual += self.yy
        residual -= left * self.wy
        return residual

    def residual_sum(self, fit_a: Floats, fit_b: Floats) -> float:
        """The sum of all of ``residual``, without making it."""
        return float(self.yy.sum() - fit_a @ self.wy.sum(axis=1) - self.yw.sum(axis=0) @ fit_b + fit_a @ self.ww @ fit_b)


@dataclass(frozen=True, slots=True)
class PairSums(Sums):
    """Pair sums of two groups, or of a group with itself (then only c <= d is kept).

    index: the pairs that occur, ascending, as c * n_cells + d (n_pairs,), or None when all are kept. values: (2 weightings,
    n_sums, n_pairs).
    """

    n_cells: int
    within: bool
    index: Index | None

    @classmethod
    def empty(cls, n_cells: int, within: bool, moments: Moments = USER_PAIRS) -> Self:
        """No users at all."""
        return cls(moments, np.zeros((2, len(moments.names), 0)), n_cells, within, np.zeros(0, dtype=np.int32))

    @classmethod
    def from_kept(cls, values: Floats, n_cells: int, within: bool, pairs: Ints) -> PairSums:
        """From the sums of some pairs, ascending, or of all (then those of 0 are left out): (2 weightings, 4 sums, n_pairs)."""
        if len(pairs) == len(every_pair(n_cells, within)):
            occurs = values[1, WW] != 0
            if not occurs.all():  # weights may cancel, or be 0; one sum after the other takes a tenth of the time of all at once
                for own in values.reshape(-1, values.shape[-1]):
                    occurs |= own != 0
            if occurs.mean() > DENSE_SHARE:
                return cls(USER_PAIRS, values, n_cells, within, None)
            values, pairs = np.ascontiguousarray(values[:, :, occurs]), pairs[occurs]
        return cls(USER_PAIRS, values, n_cells, within, pairs.astype(np.int32))

    @classmethod
    def from_terms(cls, n_cells: int, within: bool, index: Ints, terms: Floats, moments: Moments = USER_PAIRS) -> Self:
        """From single contributions: index (n,) with repeats and terms (2, n_sums, n)."""
        if len(index) == 0:
            return cls.empty(n_cells, within, moments)
        pairs, position = distinct_pairs(index, n_cells * n_cells)
        sums = [np.bincount(position, term, minlength=len(pairs)) for weighting in terms for term in weighting]
        return cls(moments, np.array(sums, dtype=np.float64).reshape(*terms.shape[:2], -1), n_cells, within, pairs.astype(np.int32))

    @property
    def pairs(self) -> NDArray[np.integer]:
        """The pairs that are kept, as c * n_cells + d."""
        return every_pair(self.n_cells, self.within) if self.index is None else self.index

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.values.nbytes + (0 if self.index is None else self.index.nbytes)

    def squares(self, weighting: str, places: Ints | None = None) -> dict[str, Floats]:
        """Dense matrices of one weighting by name, in which cell c is row and column places[c], as others may be, or none (-1)."""
        places = np.arange(self.n_cells) if places is None else places
        if self.index is None:
            targets = _targets_of_all(self.n_cells, self.within, places.astype(np.int64, copy=False).tobytes())
        else:
            targets = Targets.of(self.index, self.n_cells, self.within, places)
        values: list[Floats] = list(self.under(weighting).values())
        if targets.kept is not None:
            values = [own[targets.kept] for own in values]
        size, stride = targets.size, targets.stride
        sums = [
            np.bincount(targets.at, own, size * stride).astype(np.float64, copy=False).reshape(size, stride)[:, :size]
            for own in values
        ]
        if self.within:  # a pair of two cells also stands for the same pair in the other order, one of a cell with itself does not
            sums = [own + sums[turned].T for own, turned in zip(sums, self.moments.turned, strict=True)]
            for square, own in zip(sums, values, strict=True):
                square.flat[:: size + 1] -= np.bincount(targets.diagonal, own[targets.same], size)
        return dict(zip(self.moments.names, sums, strict=True))

    def matrices(self, weighting: str, places: Ints | None = None) -> PairMatrices:
        """The matrices of weights and outcomes."""
        return PairMatrices(**self.squares(weighting, places))

    def __add__(self, other: Self) -> Self:
        if self.index is None and other.index is None:
            return replace(self, values=self.values + other.values)
        index = np.union1d(self.pairs, other.pairs).astype(np.int32)
        values = np.zeros((*self.values.shape[:2], len(index)))
        for sums in (self, other):
            values[:, :, np.searchsorted(index, sums.pairs)] += sums.values
        return replace(self, values=values, index=index).packed()

    def packed(self) -> Self:
        """The same, without an index when most pairs occur."""
        every = every_pair(self.n_cells, self.within)
        if self.index is None or len(self.index) <= DENSE_SHARE * len(every):
            return self
        dense = np.zeros((*self.values.shape[:2], len(every)))
        dense[:, :, np.searchsorted(every, self.index)] = self.values
        return replace(self, values=dense, index=None)

    def remapped(self, cells: Ints, n_cells: int, right_cells: Ints | None = None) -> Self:
        """The sums on other cells: old cells c and d are in ``cells[c]`` and ``right_cells[d]``, by default ``cells[d]``."""
        c, d = np.divmod(self.pairs.astype(np.int64), self.n_cells)
        left, right = cells[c], (cells if right_cells is None else right_cells)[d]
        terms = self.values
        if self.within:
            # Only left <= right is kept: a pair in the other order is turned, and one whose cells have become one stands for both.
            turned = terms[:, self.moments.turned]
            terms = np.where(left > right, turned, np.where((left == right) & (c != d), terms + turned, terms))
            left, right = np.minimum(left, right), np.maximum(left, right)
        return self.from_terms(n_cells, self.within, left * n_cells + right, terms, self.moments).packed()

    def transposed(self) -> Self:
        """The same sums with the two groups in the other order."""
        if self.within:
            return self
        c, d = np.divmod(self.pairs.astype(np.int64), self.n_cells)
        order = np.argsort(d * self.n_cells + c)
        index = None if self.index is None else (d * self.n_cells + c)[order].astype(np.int32)
        return replace(self, values=self.values[:, self.moments.turned][:, :, order], index=index)


@dataclass(frozen=True, slots=True)
class Targets:
    """Where pairs of cells go in a dense matrix of size rows, each of which is stride long.

    kept: which of the pairs go anywhere, None for all; at: (n_kept,), where; same: which of those are pairs of a cell with itself,
    and diagonal: in which row.
    """

    size: int
    stride: int
    kept: Ints | None
    at: Ints
    same: Ints
    diagonal: Ints

    @classmethod
    def of(cls, pairs: NDArray[np.integer], n_cells: int, within: bool, places: Ints) -> Targets:
        """Pairs of cells, ascending, (n_pairs,), as c * n_cells + d, of which cell c goes to places[c], or nowhere (-1)."""
        size, kept = int(places.max(initial=-1)) + 1, None
        stride = size + PAD if within and size % ALIASED == 0 else size
        at = _table(stride, places.astype(np.int64, copy=False).tobytes())[pairs]
        if at.min(initial=0) < 0:
            kept = np.flatnonzero(at >= 0)
            pairs, at = pairs[kept], at[kept]
        if not within or len(pairs) == 0:
            return cls(size, stride, kept, at, none := np.zeros(0, dtype=np.int64), none)
        squares = np.arange(n_cells) * (n_cells + 1)  # of a cell with itself
        same = np.minimum(np.searchsorted(pairs, squares), len(pairs) - 1)
        met = pairs[same] == squares
        return cls(size, stride, kept, at, same[met], places[met])


@lru_cache(maxsize=4)
def _table(stride: int, places: bytes) -> Ints:
    """Where each pair that could occur goes in a dense matrix whose rows are stride long, -1 for nowhere."""
    rows = np.frombuffer(places, dtype=np.int64)
    table = rows[:, None] * stride + rows
    table[rows < 0], table[:, rows < 0] = -1, -1
    return table.ravel()


@lru_cache(maxsize=4)
def _targets_of_all(n_cells: int, within: bool, places: bytes) -> Targets:
    """Of all pairs that could occur: the same for every group whose cells go to the same places."""
    return Targets.of(every_pair(n_cells, within), n_cells, within, np.frombuffer(places, dtype=np.int64))


def distinct_pairs(index: Ints, n_possible: int) -> tuple[Ints, Ints]:
    """The distinct of these integers below n_possible, ascending, and the place of each one among them."""
    if len(index) * SORTED < n_possible:
        return np.unique(index, return_inverse=True)
    occurs = np.zeros(n_possible, dtype=bool)
    occurs[index] = True
    distinct = np.flatnonzero(occurs)
    place = np.empty(n_possible, dtype=np.int64)
    place[distinct] = np.arange(len(distinct))
    return distinct, place[index]


@lru_cache(maxsize=4)
def _both_cells(n_cells: int, within: bool) -> tuple[Ints, Ints]:
    """The first and the second cell of every pair that could occur."""
    if within:
        return np.triu_indices(n_cells)
    return np.divmod(np.arange(n_cells * n_cells), n_cells)


@lru_cache(maxsize=4)
def every_pair(n_cells: int, within: bool) -> Ints:
    """All pairs that can be kept, ascending, as c * n_cells + d."""
    c, d = _both_cells(n_cells, within)
    return c * n_cells + d
