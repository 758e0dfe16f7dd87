"""Where along the score a gap is shown, and how many people live there."""

from __future__ import annotations

import numpy as np

from evenscore.estimation.comparison import Comparison, Side, full
from evenscore.parity.parity_result import PairTest, Region
from evenscore.types import Floats


def find_regions(pair: PairTest, comparison: Comparison, points: Floats, tolerance: float) -> tuple[Region, ...]:
    """Runs of points whose simultaneous band excludes 0 (or the tolerance), with the share of each side's users in them."""
    sign = np.where(pair.band_low > tolerance, 1, np.where(pair.band_high < -tolerance, -1, 0))
    ends = np.flatnonzero(np.diff(sign)) + 1
    found = []
    for start, end in zip([0, *ends], [*ends, len(sign)], strict=True):
        if start == end or sign[start] == 0:
            continue
        peak = start + int(np.argmax(np.abs(pair.gap[start:end])))
        low, high = float(points[start]), float(points[end - 1])
        found.append(
            Region(
                float(pair.score[start]),
                float(pair.score[end - 1]),
                float(pair.gap[peak]),
                float(pair.band_low[peak]),
                float(pair.band_high[peak]),
                float(pair.score[peak]),
                *(_share(comparison, side, low, high) for side in (comparison.a, comparison.b)),
            )
        )
    return tuple(found)


def _share(comparison: Comparison, side: Side, low: float, high: float) -> float:
    """The share of a side's weight between two positions; mass inside a cell is spread evenly."""
    weight = full(comparison, side)
    edges = comparison.lattice.axis_edges
    if comparison.lattice.discrete:
        position = comparison.lattice.positions(np.zeros(len(weight)))
        inside = (position >= low - 1e-12) & (position <= high + 1e-12)
        return float(weight[inside].sum() / weight.sum())
    cumulative = np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum()
    return float(np.interp(high, edges, cumulative) - np.interp(low, edges, cumulative))
