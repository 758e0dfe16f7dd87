"""Scores without a threshold: the scoring rate is the share of a group above the median of the sample, whose own error enters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evenscore.decisions.rate_laws import Levels
from evenscore.decisions.rates import RateTable, Selection
from evenscore.estimation.laws import Law
from evenscore.estimation.spreads import RateLaw
from evenscore.ratios import ratio
from evenscore.tallies.view import GroupView, quantiles
from evenscore.types import Floats

MEDIAN = "median"
NEAR = 0.1  # of the sample on either side of its median: by these a group's density there is known
LEAST = 1e-3  # of a variance, that the median's error may leave


class KnownMedian(float):
    """The median of the whole sample, where rows whose group is not known belong to the sample too."""

    @property
    def cut(self) -> float:
        """The smallest score above it."""
        return float(np.nextafter(self, np.inf))

    def select(self, view: GroupView, positive: str) -> Selection:
        """Whose score is above it, or below it."""
        return replace(Selection.at(view, self.cut if positive == "above" else float(self), positive), threshold=self)


def is_median(threshold: Any) -> bool:
    """Whether the scoring rate is asked for."""
    return isinstance(threshold, KnownMedian) or (isinstance(threshold, str) and threshold == MEDIAN)


def at_median(views: Sequence[GroupView], threshold: Any, positive: str) -> list[Selection]:
    """Who is above (or below) the median of all rows; on a lattice of values, which may hold the median often, strictly so."""
    lattice = views[0].lattice
    if isinstance(threshold, KnownMedian):
        return [threshold.select(view, positive) for view in views]
    weight = np.sum([view.sums.A for view in views], axis=0)
    if lattice.values is None:
        median = float(lattice.to_score(quantiles(lattice, weight, np.array([0.5])))[0])
        return [Selection.at(view, median, positive) for view in views]
    reached = np.cumsum(weight) / weight.sum()
    used = np.flatnonzero(weight > 0)
    middle = used[np.searchsorted(reached[used], 0.5 - 1e-12)]
    median = float(lattice.values[middle])
    if abs(reached[middle] - 0.5) <= 1e-12:
        median = (median + float(lattice.values[used[used > middle][0]])) / 2
    share = lattice.values > median if positive == "above" else lattice.values < median
    return [Selection(median, share.astype(np.float64)) for _ in views]


def density_ratios(views: Sequence[GroupView]) -> Floats:
    """How dense each group is at the median of the sample, over how dense the sample is there, (n_groups,)."""
    weight = np.sum([view.sums.A for view in views], axis=0)
    reached = (np.cumsum(weight) - weight / 2) / weight.sum()
    near = np.abs(reached - 0.5) <= max(NEAR, float(np.abs(reached - 0.5)[weight > 0].min()))
    shares = np.array([view.sums.A[near].sum() / view.sums.A.sum() for view in views])
    return np.asarray(shares * weight.sum() / weight[near].sum())


def with_median_error(levels: Levels, table: RateTable, density: Floats) -> Levels:
    """The scoring rates' levels when the median moves with the sample.

    A median that is too high lowers every rate: rate_g moves by -density_g (overall rate - 1/2), to first order. Where groups are
    large parts of the sample this takes error away, as the rates must average to one half.
    """
    groups, overall = table.groups, table.overall
    n = len(groups)
    pairs = {name: np.zeros((n, n)) for name in ("ww", "wy", "yw", "yy")}
    for name, matrix in pairs.items():
        for g, group in enumerate(groups):
            matrix[g, g] = getattr(group.pairs, name)[0, 0]
        for (a, b), shared in table.shared.items():
            matrix[a, b], matrix[b, a] = getattr(shared, name)[0, 0], getattr(shared.transposed(), name)[0, 0]
    about, rates = np.array([group.about[0] for group in groups]), levels.level
    total, whole = float(overall.about[0]), float(overall.around.fit[0])
    events = np.diag(1 / about) - density[:, None] / total
    rows = -np.diag(rates / about) + density[:, None] * whole / total
    cover = events @ pairs["yy"] @ events.T + events @ pairs["yw"] @ rows.T
    cover += rows @ pairs["wy"] @ events.T + rows @ pairs["ww"] @ rows.T
    own = np.diag(levels.cover)
    factor = np.maximum(ratio(np.diag(cover), own, 1.0), LEAST)
    return replace(levels, side=_scaled(levels.side, factor), cover=cover)


def _scaled(side: RateLaw, factor: Floats) -> RateLaw:
    """The law with so many times the variance, of the same shape."""
    law, cubed = side.law, factor**1.5
    scaled = Law(law.variance * factor, law.third * cubed, law.pull * cubed, law.noise * factor**2)
    return replace(side, law=scaled, squares=side.squares * factor, cubes=side.cubes * cubed)
