"""Sums that know what they are sums of: adding, recentring and remapping follow from the description.

A sum is described by the powers of weight w, score x and outcome y that are multiplied: Y2 is the sum of w y^2. A pair sum
multiplies what a user put into one cell by what the same user put into another, and has two factors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from evenscore.errors import require_option
from evenscore.types import Floats, Ints

WEIGHTINGS = ("user", "row")


@dataclass(frozen=True, slots=True)
class Factor:
    """w^w x^x y^y, summed over ``rows``: "labelled" ones, or others that have no outcome y."""

    w: int = 1
    y: int = 0
    x: int = 0
    rows: str = "labelled"

    def coefficient(self, lower: Factor, shift: float) -> float:
        """How often ``lower`` is in this factor when y becomes y + shift: the binomial theorem."""
        if replace(self, y=lower.y) != lower or lower.y > self.y:
            return 0.0
        return math.comb(self.y, lower.y) * shift ** (self.y - lower.y)


@dataclass(frozen=True, slots=True)
class Moments:
    """Named sums, each by its factors: one for sums over cells, two for sums over pairs of cells."""

    factors: Mapping[str, tuple[Factor, ...]]

    def __post_init__(self) -> None:
        for (name, factors), row in zip(self.factors.items(), self._recentring(1.0), strict=True):
            if row.sum() != math.prod(2**factor.y for factor in factors):
                raise ValueError(f"{name} cannot be recentred: a sum with a lower power of y is missing")
            if factors[::-1] not in self.factors.values():
                raise ValueError(f"{name} cannot be turned: the sum with its factors in the other order is missing")

    @classmethod
    def single(cls, **factors: Factor) -> Moments:
        """Sums over cells."""
        return cls({name: (factor,) for name, factor in factors.items()})

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the order in which the sums are kept."""
        return tuple(self.factors)

    @property
    def turned(self) -> list[int]:
        """For each pair sum the position of the one with both factors in the other order."""
        every = list(self.factors.values())
        return [every.index(factors[::-1]) for factors in every]

    def _recentring(self, shift: float) -> Floats:
        every = self.factors.values()
        rows = [[math.prod(map(Factor.coefficient, high, low, itertools.repeat(shift))) for low in every] for high in every]
        return np.array(rows)

    def recentred(self, values: Floats, shift: float) -> Floats:
        """The sums, (..., n_sums, n), for outcomes that are larger by ``shift``."""
        return np.asarray(self._recentring(shift) @ values)


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over cells; values: (2 weightings, n_sums, ..., n_cells), the weightings in the order of ``WEIGHTINGS``."""

    moments: Moments
    values: Floats

    @classmethod
    def from_named(cls, moments: Moments, vectors: Mapping[str, Floats]) -> Sums:
        """From vectors by name, each (2 weightings, ..., n_cells)."""
        return cls(moments, np.stack([vectors[name] for name in moments.names], axis=1))

    def __getitem__(self, name: str) -> Floats:
        """One sum under both weightings."""
        return self.values[:, self.moments.names.index(name)]

    @property
    def named(self) -> dict[str, Floats]:
        """Every sum by its name, (2 weightings, ..., n_cells) each."""
        return {name: self[name] for name in self.moments.names}

    def under(self, weighting: str) -> dict[str, Floats]:
        """The sums of one weighting by name."""
        require_option("weighting", weighting, WEIGHTINGS)
        return dict(zip(self.moments.names, self.values[WEIGHTINGS.index(weighting)], strict=True))

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.values.nbytes

    def __add__(self, other: Self) -> Self:
        return replace(self, values=self.values + other.values)

    def recentred(self, shift: float) -> Self:
        """The sums for outcomes that are larger by ``shift``."""
        if shift == 0:
            return self
        flat = self.values.reshape(*self.values.shape[:2], -1)
        return replace(self, values=self.moments.recentred(flat, shift).reshape(self.values.shape))

    def with_sums(self, **changes: Floats) -> Sums:
        """The same with some of the sums changed, by name."""
        return Sums.from_named(self.moments, self.named | changes)

    def remapped(self, cells: Ints, n_cells: int) -> Self:
        """The sums on other cells: old cell c is in ``cells[c]``."""
        return replace(self, values=sum_cells(self.values, cells, n_cells))

    def scaled(self, factor: float) -> Self:
        """The sums of ``factor`` times as many users like these."""
        return replace(self, values=self.values * factor)


def sum_cells(values: Floats, cells: Ints, n_cells: int) -> Floats:
    """Sums over cells, (..., n_old), on other cells: (..., n_cells)."""
    order = np.argsort(cells, kind="stable")
    used, starts = np.unique(cells[order], return_index=True)
    summed = np.zeros((*values.shape[:-1], n_cells))
    summed[..., used] = np.add.reduceat(values[..., order], starts, axis=-1)
    return summed
