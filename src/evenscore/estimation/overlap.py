"""Which test can judge a pair of groups, told by their scores and numbers of users alone, before any outcome is looked at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenscore.estimation.bandwidth import NARROWEST, by_rule
from evenscore.estimation.comparison import Comparison
from evenscore.estimation.gaps import MIN_EFFECTIVE
from evenscore.estimation.grids import comparison_grid
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.spreads import effective_users
from evenscore.tallies.view import BULK, GroupView
from evenscore.types import Floats, Mask

PARITY, ORDERING, BOTH = "parity", "ordering", "parity and ordering"
MUCH = 0.1  # of each group's people beyond the common scores: from there on their order is worth a share of the level


@dataclass(frozen=True, slots=True)
class ScoreOverlap:
    """Where two groups have scores in common, and so which test decides.

    decides_by: "parity", "ordering", or both. low, high: the ends of the common scores, on the axis; outside_a, outside_b: the
    share of each group beyond them that is not just the last 5 % of either end.
    """

    decides_by: str
    low: float
    high: float
    outside_a: float
    outside_b: float


def find_overlap(comparison: Comparison) -> ScoreOverlap:
    """How far the scores of two sides overlap. It reads weights and counts of users, never an outcome."""
    if any(side.n_rows == 0 or side.n_users < MIN_EFFECTIVE or side.few for side in comparison.sides):
        return ScoreOverlap(PARITY, np.nan, np.nan, np.nan, np.nan)  # no test can judge it; parity says why
    low, high = _common(comparison)
    shares = [_outside(side, low, high) for side in comparison.sides]
    if not _share_users(comparison):
        return ScoreOverlap(ORDERING, low, high, *shares)
    return ScoreOverlap(BOTH if min(shares) >= MUCH else PARITY, low, high, *shares)


def _common(comparison: Comparison) -> tuple[float, float]:
    """The ends of the common scores; of few distinct scores, the first and last that both have."""
    if not comparison.unsmoothed:
        return comparison.overlap
    shared = comparison.position[(comparison.a.sums.W > 0) & (comparison.b.sums.W > 0)]
    return (float(shared[0]), float(shared[-1])) if len(shared) else (np.nan, np.nan)


def _share_users(comparison: Comparison) -> bool:
    """Whether at one of the points that a parity test would look at both sides have enough users."""
    smoothing = by_rule(Smoothing(), comparison.sides)
    points, reason = comparison_grid(comparison, smoothing.h)
    if reason is not None:
        return False
    low, high = _common(comparison)
    if not comparison.unsmoothed and low < high:
        smoothing = smoothing.at(min(smoothing.h, max((high - low) / 2, NARROWEST * comparison.a.lattice.cell_width)))
    middle = len(points) // 2  # first, as most often that settles it
    return any(_enough_users(comparison, some, smoothing).any() for some in (points[middle : middle + 1], points))


def _enough_users(comparison: Comparison, points: Floats, smoothing: Smoothing) -> Mask:
    """At which points both sides have enough users, (n_points,)."""
    smooths = comparison.smoothers(points, smoothing, sloped=False)
    enough = [effective_users(side, smooth.matrix) >= MIN_EFFECTIVE for side, smooth in zip(comparison.sides, smooths, strict=True)]
    return np.asarray(enough[0] & enough[1])


def _outside(side: GroupView, low: float, high: float) -> float:
    """The share of a side beyond both ends, less the 5 % that a quantile leaves at each."""
    position, weight = side.sums.position, side.sums.W
    if np.isnan(low):
        return 1.0
    ends = (weight[position < low].sum(), weight[position > high].sum())
    return float(sum(max(0.0, end / weight.sum() - BULK[0]) for end in ends))
