"""Sums over pairs of cells: what a user put into cell c times what the same user put into cell d, summed over users.

They are what makes a covariance respect users. For cells c of group a and d of group b, with w and y the user's weight and weighted
outcome in a cell, four sums are kept for each of the two weightings: w[c]w[d], w[c]y[d], y[c]w[d] and y[c]y[d].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evenscore.types import Floats, Ints

Index = NDArray[np.int32]

WW, WY, YW, YY = range(4)
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
        found = left * self.ww
        found -= self.yw
        found *= right
        found += self.yy
        found -= left * self.wy
        return found


@dataclass(frozen=True, slots=True)
class PairSums:
    """Pair sums of two groups, or of a group with itself (then only c <= d is kept).

    index: the pairs that occur, ascending, as c * n_cells + d (n_pairs,), or None when all are kept. values: (2 weightings, 4 sums,
    n_pairs), the weightings in the order of ``tally.WEIGHTINGS``.
    """

    n_cells: int
    within: bool
    index: Index | None
    values: Floats

    @classmethod
    def empty(cls, n_cells: int, within: bool) -> PairSums:
        """No users at all."""
        return cls(n_cells, within, np.zeros(0, dtype=np.int32), np.zeros((2, 4, 0)))

    @classmethod
    def from_squares(cls, squares: Floats, within: bool) -> PairSums:
        """From dense sums, (2 weightings, 4 sums, n_cells, n_cells)."""
        n_cells = squares.shape[-1]
        every = _every_pair(n_cells, within)
        values = squares.reshape(2, 4, -1)[:, :, every]
        occurs = (values != 0).any(axis=(0, 1))
        if occurs.mean() > DENSE_SHARE:
            return cls(n_cells, within, None, values)
        return cls(n_cells, within, every[occurs].astype(np.int32), np.ascontiguousarray(values[:, :, occurs]))

    @classmethod
    def from_terms(cls, n_cells: int, within: bool, index: Ints, terms: Floats) -> PairSums:
        """From single contributions: index (n,) with repeats and terms (2, 4, n)."""
        if len(index) == 0:
            return cls.empty(n_cells, within)
        order = np.argsort(index)
        index = index[order]
        starts = np.flatnonzero(np.concatenate([[True], index[1:] != index[:-1]]))
        values = np.add.reduceat(terms[:, :, order], starts, axis=2)
        return cls(n_cells, within, index[starts].astype(np.int32), values)

    @property
    def pairs(self) -> NDArray[np.integer]:
        """The pairs that are kept, as c * n_cells + d."""
        return _every_pair(self.n_cells, self.within) if self.index is None else self.index

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.values.nbytes + (0 if self.index is None else self.index.nbytes)

    def matrices(self, weighting: int, cells: Ints | None = None) -> PairMatrices:
        """Dense matrices of one weighting; of some cells only, ascending, when these hold all that occurs."""
        values = self.values[weighting]
        size = self.n_cells if cells is None else len(cells)
        if cells is None or size == self.n_cells:
            size, left, right = self.n_cells, self.pairs // self.n_cells, self.pairs % self.n_cells
        else:
            place = np.full(self.n_cells, -1)
            place[cells] = np.arange(size)
            left, right = place[self.pairs // self.n_cells], place[self.pairs % self.n_cells]
            inside = (left >= 0) & (right >= 0)
            left, right, values = left[inside], right[inside], values[:, inside]
        squares = np.zeros((4, size * size))
        straight, mirrored = left * size + right, right * size + left
        for place_of, kept in ((WW, WW), (WY, WY), (YW, YW), (YY, YY)):
            squares[place_of][straight] = values[kept]
        if self.within:
            for place_of, kept in ((WW, WW), (WY, YW), (YW, WY), (YY, YY)):
                squares[place_of][mirrored] = values[kept]
        return PairMatrices(*squares.reshape(4, size, size))

    def __add__(self, other: PairSums) -> PairSums:
        if self.index is None and other.index is None:
            return PairSums(self.n_cells, self.within, None, self.values + other.values)
        index = np.union1d(self.pairs, other.pairs).astype(np.int32)
        values = np.zeros((2, 4, len(index)))
        for part in (self, other):
            values[:, :, np.searchsorted(index, part.pairs)] += part.values
        if len(index) > DENSE_SHARE * len(_every_pair(self.n_cells, self.within)):
            return _densified(self.n_cells, self.within, index, values)
        return PairSums(self.n_cells, self.within, index, values)

    def recentred(self, shift: float) -> PairSums:
        """The sums for outcomes that are larger by ``shift``."""
        if shift == 0:
            return self
        ww, wy, yw, yy = np.moveaxis(self.values, 1, 0)
        values = np.stack([ww, wy + shift * ww, yw + shift * ww, yy + shift * (wy + yw) + shift**2 * ww], axis=1)
        return PairSums(self.n_cells, self.within, self.index, values)

    def moved(self, cells: Ints, n_cells: int) -> PairSums:
        """The sums on a lattice where old cell c is ``cells[c]``; the order of cells is kept."""
        old = self.pairs.astype(np.int64)
        index = cells[old // self.n_cells] * n_cells + cells[old % self.n_cells]
        return PairSums(n_cells, self.within, index.astype(np.int32), self.values)

    def transposed(self) -> PairSums:
        """The same sums with the two groups in the other order."""
        if self.within:
            return self
        old = self.pairs.astype(np.int64)
        index = old % self.n_cells * self.n_cells + old // self.n_cells
        order = np.argsort(index)
        values = self.values[:, [WW, YW, WY, YY]][:, :, order]
        return PairSums(self.n_cells, False, None if self.index is None else index[order].astype(np.int32), values)


@lru_cache(maxsize=4)
def _every_pair(n_cells: int, within: bool) -> Ints:
    if not within:
        return np.arange(n_cells * n_cells)
    rows, columns = np.triu_indices(n_cells)
    return rows * n_cells + columns


def _densified(n_cells: int, within: bool, index: Index, values: Floats) -> PairSums:
    every = _every_pair(n_cells, within)
    dense = np.zeros((2, 4, len(every)))
    dense[:, :, np.searchsorted(every, index)] = values
    return PairSums(n_cells, within, None, dense)
