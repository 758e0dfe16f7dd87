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
from evenscore.types import Floats, Ints, Mask

Index = NDArray[np.int32]

W, Y = Factor(), Factor(y=1)
USER_PAIRS = Moments({"ww": (W, W), "wy": (W, Y), "yw": (Y, W), "yy": (Y, Y)})
WW, WY, YW, YY = range(4)  # their positions, for the loops that add them up
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
    def from_squares(cls, squares: Floats, within: bool) -> PairSums:
        """From dense sums, (2 weightings, 4 sums, n_cells, n_cells)."""
        n_cells = squares.shape[-1]
        every = _every_pair(n_cells, within)
        values = squares.reshape(2, 4, -1)[:, :, every]
        occurs = (values != 0).any(axis=(0, 1))
        if occurs.mean() > DENSE_SHARE:
            return cls(USER_PAIRS, values, n_cells, within, None)
        kept = np.ascontiguousarray(values[:, :, occurs])
        return cls(USER_PAIRS, kept, n_cells, within, every[occurs].astype(np.int32))

    @classmethod
    def from_terms(cls, n_cells: int, within: bool, index: Ints, terms: Floats, moments: Moments = USER_PAIRS) -> Self:
        """From single contributions: index (n,) with repeats and terms (2, n_sums, n)."""
        if len(index) == 0:
            return cls.empty(n_cells, within, moments)
        order = np.argsort(index)
        index = index[order]
        starts = np.flatnonzero(np.concatenate([[True], index[1:] != index[:-1]]))
        values = np.add.reduceat(terms[:, :, order], starts, axis=2)
        return cls(moments, values, n_cells, within, index[starts].astype(np.int32))

    @property
    def pairs(self) -> NDArray[np.integer]:
        """The pairs that are kept, as c * n_cells + d."""
        return _every_pair(self.n_cells, self.within) if self.index is None else self.index

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.values.nbytes + (0 if self.index is None else self.index.nbytes)

    def squares(self, weighting: str, cells: Ints | None = None) -> dict[str, Floats]:
        """Dense matrices of one weighting by name; of some cells only, ascending, when these hold all that occurs."""
        size, left, right = self.n_cells, self.pairs // self.n_cells, self.pairs % self.n_cells
        kept: slice | Mask = slice(None)
        if cells is not None and len(cells) < self.n_cells:
            size = len(cells)
            position = np.full(self.n_cells, -1)
            position[cells] = np.arange(size)
            left, right = position[left], position[right]
            kept = (left >= 0) & (right >= 0)
            left, right = left[kept], right[kept]
        above, below = left * size + right, right * size + left
        values = list(self.under(weighting).values())
        matrices = {}
        for name, own, turned in zip(self.moments.names, values, self.moments.turned, strict=True):
            flat = np.zeros(size * size)
            flat[above] = own[kept]
            if self.within:
                flat[below] = values[turned][kept]
            matrices[name] = flat.reshape(size, size)
        return matrices

    def matrices(self, weighting: str, cells: Ints | None = None) -> PairMatrices:
        """The matrices of weights and outcomes."""
        return PairMatrices(**self.squares(weighting, cells))

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
        every = _every_pair(self.n_cells, self.within)
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


@lru_cache(maxsize=4)
def _every_pair(n_cells: int, within: bool) -> Ints:
    if not within:
        return np.arange(n_cells * n_cells)
    rows, columns = np.triu_indices(n_cells)
    return rows * n_cells + columns
