"""Where along the score a gap is shown, and how many people live there."""

from __future__ import annotations

import numpy as np

from evenscore.estimation.comparison import Comparison
from evenscore.parity.parity_result import PairTest, Region
from evenscore.tallies.view import GroupView
from evenscore.types import Floats


def find_regions(pair: PairTest, comparison: Comparison, points: Floats, tolerance: float) -> tuple[Region, ...]:
    """Runs of points whose simultaneous band excludes 0 (or the tolerance), with the share of each side's users in them."""
    sign = np.where(pair.band_low > tolerance, 1, np.where(pair.band_high < -tolerance, -1, 0))
    ends = np.flatnonzero(np.diff(sign)) + 1
    regions = []
    for start, end in zip([0, *ends], [*ends, len(sign)], strict=True):
        if start == end or sign[start] == 0:
            continue
        peak = start + int(np.argmax(np.abs(pair.gap[start:end])))
        low, high = float(points[start]), float(points[end - 1])
        regions.append(
            Region(
                score_low=float(pair.score[start]),
                score_high=float(pair.score[end - 1]),
                gap=float(pair.gap[peak]),
                low=float(pair.band_low[peak]),
                high=float(pair.band_high[peak]),
                at_score=float(pair.score[peak]),
                share_a=_share(comparison.a, low, high),
                share_b=_share(comparison.b, low, high),
            )
        )
    return tuple(regions)


def _share(side: GroupView, low: float, high: float) -> float:
    """The share of a side's weight between two positions; mass inside a cell is spread evenly."""
    weight, lattice = side.on_lattice(side.sums.W), side.lattice
    if lattice.discrete:
        position = lattice.positions(np.zeros(len(weight)))
        inside = (position >= low - 1e-12) & (position <= high + 1e-12)
        return float(weight[inside].sum() / weight.sum())
    cumulative = np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum()
    return float(np.interp(high, lattice.axis_edges, cumulative) - np.interp(low, lattice.axis_edges, cumulative))
