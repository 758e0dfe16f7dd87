"""Scales of the score axis: the score itself, its logit, or its rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenscore.types import Floats, Ints

TAIL = 0.0005  # beyond these quantiles scores share an end cell, so that one outlier spoils nothing
HALF = (0.25, 0.75)  # quantiles between which half of the rows lie
CROWDED = 1 / 8  # of the range: when half of the rows lie closer together, equal cells would be too coarse for them
TIED = 0.05  # of all people in one cell, and
ALONE = 4  # times as many as in either neighbour: they have one score, and the cell is a point


def forward(scores: ArrayLike, scale: str) -> Floats:
    """Scores in units of the scale."""
    array = np.asarray(scores, dtype=np.float64)
    if scale != "logit":
        return array
    with np.errstate(divide="ignore"):
        return np.log(array) - np.log1p(-array)


def backward(positions: Floats, scale: str) -> Floats:
    """Positions on the scale as scores."""
    if scale != "logit":
        return positions
    return np.asarray(0.5 * (1 + np.tanh(positions / 2)))


def inside_unit(low: float, high: float) -> tuple[float, float]:
    """Limits that a logit can take: 0 and 1 themselves go to the end cells."""
    low, high = max(low, 1e-6), min(high, 1 - 1e-6)
    return (low, high) if low < high else (1e-6, 1 - 1e-6)


def end_values_inside(positions: Floats) -> Floats:
    """Scores of 0 and 1 on the logit axis: one typical step beyond their neighbours."""
    finite = positions[np.isfinite(positions)]
    if len(finite) == len(positions):
        return positions
    if len(finite) == 0:
        return np.where(positions > 0, 1.0, -1.0)
    step = float(np.median(np.diff(finite))) if len(finite) > 1 else 1.0
    return np.where(np.isfinite(positions), positions, np.where(positions > 0, finite[-1] + step, finite[0] - step))


def rank_limits(n_cells: int, weight: Floats | None) -> Floats:
    """Limits of cells as shares of the people below them, or of the cells where nobody was counted, (n_cells + 1,)."""
    if weight is None:
        return np.arange(n_cells + 1) / n_cells
    weight = np.maximum(weight, 1e-9 * weight.sum())  # a cell without people keeps a little room, so that no two edges are one
    return np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum()


def find_ties(weight: Floats, mean_scores: Floats) -> Floats | None:
    """The score of each cell in which most people have one and the same, nan for other cells; None when there is no such cell."""
    padded = np.concatenate([[0.0], weight, [0.0]])
    tied = (weight >= TIED * weight.sum()) & (weight > ALONE * np.maximum(padded[:-2], padded[2:])) & np.isfinite(mean_scores)
    return np.where(tied, mean_scores, np.nan) if tied.any() and np.count_nonzero(weight) > 1 else None


def typical_width(widths: Floats, weight: Floats | None, ties: Floats | None = None) -> float:
    """The median width of cells, weighted with the people in them where they are known; cells that are one score have none."""
    if ties is not None:
        apart = np.isnan(ties) if weight is None else np.isnan(ties) & (weight > 0)
        if not apart.any():
            return 0.0
        widths, weight = widths[apart], None if weight is None else weight[apart]
    if weight is None:
        return float(np.median(widths))
    order = np.argsort(widths)
    upto = np.cumsum(weight[order])
    return float(widths[order][np.searchsorted(upto, upto[-1] / 2)])


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Quantiles of scores that are somewhere else; ``at_ranks`` gives the scores of some ranks (from 0)."""

    n_rows: int
    low: float
    high: float
    at_ranks: Callable[[Ints], Floats]

    def between(self, *shares: float) -> list[float]:
        """Interpolated between the two nearest scores, as ``np.quantile`` does; all of them with one look at the scores."""
        places = [(self.n_rows - 1) * share for share in shares]
        ranks = [rank for place in places for rank in (int(place), min(int(place) + 1, self.n_rows - 1))]
        pairs = self.at_ranks(np.array(ranks)).reshape(-1, 2)
        return [float(np.quantile(pair, place - int(place))) for pair, place in zip(pairs, places, strict=True)]

    def central_range(self) -> tuple[float, float, bool]:
        """The range of all scores but the outermost, and whether half of the rows crowd in a small part of it."""
        low, below, above, high = self.between(TAIL, *HALF, 1 - TAIL)
        crowded = above - below < CROWDED * (high - low)
        return (low, high, crowded) if low < high else (self.low, self.high, crowded)

    def at_or_above(self, shares: Floats) -> Floats:
        """The smallest scores with at least these shares of rows at or below them: ``method="inverted_cdf"``."""
        ranks = np.clip(np.ceil(self.n_rows * shares - 1), 0, self.n_rows - 1).astype(np.int64)
        return self.at_ranks(ranks)
