"""The map of one group: knots, straight lines or steps between them, and how well the knots are known."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from evenscore.calibration.rising import rising_blocks
from evenscore.estimation.spreads import BORROWED_EVENTS
from evenscore.tallies.group_sums import CellSums
from evenscore.tallies.tally_state import Tally
from evenscore.types import Floats

LARGEST = sys.float_info.max  # a limit that every engine and file format can write
ROUNDING = 1e-10  # directions that carry less than this share of the variance are not kept
LEAST_TRIALS = 1e-6  # fewer say nothing


class Segment(NamedTuple):
    """A piece of a map: value + slope (s - origin) for start <= s < end."""

    start: float
    end: float
    origin: float
    value: float
    slope: float


@dataclass(frozen=True, slots=True)
class GroupMap:
    """A group's map at k knots: t(s) is the straight line between knots, or with ``step`` the value of the last knot at or below s.

    score: ascending (k,); value: (k,); factor: (k, r) with covariance = factor factor'. low, high: what was seen in training, up to
    its cell; beyond, the map is held constant. group: the label, None for all groups together. users, rows: what it was fitted
    on. identity: scores stay as they are. source: "own", or "pooled" when the group had too few users for a map of its own. words:
    how it was fitted. trials: (k,), how many independent 0/1 outcomes a knot is worth; None for other outcomes and in older files.
    """

    group: Any
    score: Floats
    value: Floats
    factor: Floats
    low: float
    high: float
    users: int
    rows: int
    step: bool = False
    identity: bool = False
    source: str = "own"
    words: str = ""
    trials: Floats | None = None

    @property
    def covariance(self) -> Floats:
        """The user-robust covariance of the values at the knots, (k, k)."""
        return self.factor @ self.factor.T

    @property
    def slope(self) -> Floats:
        """The slope from each knot to the next, (k,); 0 from the last on, and everywhere for steps."""
        slopes = np.zeros(len(self.score))
        if not self.step and len(slopes) > 1:
            slopes[:-1] = np.diff(self.value) / np.diff(self.score)
        return slopes

    def at(self, scores: ArrayLike) -> Floats:
        """The map at any scores."""
        array = np.asarray(scores, dtype=np.float64)
        if self.identity:
            return array.copy()
        if self.step:
            return self.value[np.searchsorted(self.score[1:], array, side="right")]
        return np.interp(array, self.score, self.value)

    def segments(self) -> list[Segment]:
        """The map as pieces from the lowest to the highest number: t(s) = value + slope (s - origin) for start <= s < end."""
        if self.identity:
            return [Segment(-LARGEST, LARGEST, 0.0, 0.0, 1.0)]
        starts, slopes = self.score.tolist(), self.slope.tolist()
        first = Segment(-LARGEST, starts[0], starts[0], float(self.value[0]), 0.0)
        inner = zip(starts, [*starts[1:], LARGEST], starts, self.value.tolist(), slopes, strict=True)
        return [first, *(Segment(*piece) for piece in inner)]

    def design(self, scores: ArrayLike) -> Floats:
        """The matrix (n_scores, k) that makes values at scores of values at knots; for standard errors and draws."""
        array = np.clip(np.asarray(scores, dtype=np.float64), self.score[0], self.score[-1])
        left = np.searchsorted(self.score[1:], array, side="right")
        right = np.minimum(left + 1, len(self.score) - 1)
        gap = self.score[right] - self.score[left]
        share = np.where((gap > 0) & (not self.step), (array - self.score[left]) / np.where(gap > 0, gap, 1.0), 0.0)
        matrix = np.zeros((len(array), len(self.score)))
        matrix[np.arange(len(array)), left] += 1 - share
        matrix[np.arange(len(array)), right] += share
        return matrix

    def se(self, scores: ArrayLike) -> Floats:
        """Standard errors of the map at any scores."""
        return np.sqrt(((self.design(scores) @ self.factor) ** 2).sum(axis=1))

    def draw(self, rng: np.random.Generator, n_draws: int) -> Floats:
        """Draws of the values at the knots, (n_draws, k): what else the map might have been.

        A rate is drawn as its score limits at a normal quantile (Wilson 1927), which stay in [0, 1] and know what no events allow.
        Few events do not tell how knots go together either: they are taken to do so altogether, or errors would seem to cancel.
        """
        normal = rng.standard_normal((n_draws, max(self.factor.shape[1], 1)))
        if self.trials is None:
            return self.value + normal[:, : self.factor.shape[1]] @ self.factor.T
        z, rate, doubt = normal @ self._directions().T, np.clip(self.value, 0, 1), 1 / np.maximum(self.trials, LEAST_TRIALS)
        events = 4 * self.trials * rate * (1 - rate)
        own = events / (events + BORROWED_EVENTS)
        z = np.sqrt(own) * z + np.sqrt(1 - own) * rng.standard_normal((n_draws, 1))
        spread = rate * (1 - rate) * doubt + (z * doubt / 2) ** 2
        return np.clip((rate + z**2 * doubt / 2 + z * np.sqrt(spread)) / (1 + z**2 * doubt), 0, 1)

    def _directions(self) -> Floats:
        """Rows of the factor with length one, (k, r): how the values go together; one that does not vary follows the nearest."""
        length = np.sqrt((self.factor**2).sum(axis=1))
        known = np.flatnonzero(length > 0)
        if len(known) == 0:
            return np.ones((len(length), 1))
        nearest = known[np.abs(known[None, :] - np.arange(len(length))[:, None]).argmin(axis=1)]
        return np.asarray(self.factor[nearest] / length[nearest, None])

    def outside(self, scores: Floats) -> tuple[int, int]:
        """How many scores lie below and above what was seen in training."""
        return int((scores < self.low).sum()), int((scores > self.high).sum())

    def monotone(self, weight: Floats) -> GroupMap:
        """The nearest map that never falls, knots weighted; knots of one level share their mean and its variance."""
        if (np.diff(self.value) >= 0).all():
            return self
        level = level_blocks(self.value, weight)
        return replace(self, value=level @ self.value, factor=level @ self.factor)


def level_blocks(value: Floats, weight: Floats) -> Floats:
    """The matrix (k, k) that averages each block of an isotonic fit; applied to the values it gives the fit."""
    weight = np.maximum(weight, 1e-9 * max(weight.max(), 1e-300))
    blocks = rising_blocks(value, weight)
    matrix = np.zeros((len(value), len(value)))
    for start, end in itertools.pairwise(blocks.tolist()):
        matrix[start:end, start:end] = weight[start:end] / weight[start:end].sum()
    return matrix


def covariance_factor(covariance: Floats) -> Floats:
    """A factor (k, r) of a covariance, without the directions that rounding alone left."""
    size, directions = np.linalg.eigh((covariance + covariance.T) / 2)
    kept = size > ROUNDING * max(size.max(initial=0.0), 0.0)
    return directions[:, kept] * np.sqrt(size[kept])


def knot_weights(score: Floats, cell_score: Floats, weight: Floats) -> Floats:
    """The weight of the cells nearest to each knot, (k,)."""
    middle = (score[1:] + score[:-1]) / 2
    return np.bincount(np.searchsorted(middle, cell_score, side="right"), weight, minlength=len(score)).astype(np.float64)


def mean_scores(tally: Tally, sums: CellSums) -> Floats:
    """The mean score of each cell, (n_cells,); the middle of a cell without rows."""
    if tally.lattice.values is not None:
        return tally.lattice.values
    middle = tally.lattice.to_score(sums.position)
    return np.divide(sums.X, sums.W, out=middle.copy(), where=sums.W > 0)
