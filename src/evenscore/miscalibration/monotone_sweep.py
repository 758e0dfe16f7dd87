"""The monotonic sweep: as many bins as there can be while mean outcomes rise from bin to bin (Roelofs and others 2022)."""

from __future__ import annotations

import numpy as np

from evenscore.miscalibration.binned import binned_error, score_range
from evenscore.miscalibration.measure import Measure
from evenscore.tallies.view import GroupView
from evenscore.types import Floats


def sweep_error(view: GroupView, *, spacing: str, power: int) -> Measure:
    """ECE with the largest number of bins before the first whose mean outcomes fall somewhere."""
    return binned_error(view, bins=monotone_bins(view, spacing), spacing=spacing, power=power)


def monotone_bins(view: GroupView, spacing: str) -> int:
    """How many bins the sweep ends with; never more than cells or rows."""
    limit = min(view.n_rows, view.lattice.n_cells if spacing == "width" else len(view.sums.W))
    for n_bins in range(2, limit + 1):
        if (np.diff(_means(view, spacing, n_bins)) < -1e-12).any():
            return n_bins - 1
    return max(limit, 1)


def _means(view: GroupView, spacing: str, n_bins: int) -> Floats:
    """Mean outcomes of the bins that have people, from running sums: no matrix for each number of bins."""
    weight = np.concatenate([[0.0], np.cumsum(view.sums.W)])
    outcome = np.concatenate([[0.0], np.cumsum(view.sums.Y)])
    if spacing == "mass":
        limits = np.linspace(0, weight[-1], n_bins + 1)
    else:
        limits = _weight_below(view, np.linspace(*score_range(view), n_bins + 1)[1:-1])
        limits = np.concatenate([[0.0], limits, weight[-1:]])
    mass = np.diff(limits)
    filled = mass > 1e-12 * weight[-1]
    return np.diff(np.interp(limits, weight, outcome))[filled] / mass[filled]


def _weight_below(view: GroupView, edges: Floats) -> Floats:
    """The weight of scores below each edge; linear inside a cell."""
    low, high = view.lattice.limits(view.cells, view.score)
    point = high <= low
    width = np.where(point, 1, high - low)
    below = np.clip((edges[:, None] - low) / width, 0, 1)
    below = np.where(point, edges[:, None] > view.score, below)
    return np.asarray(below @ view.sums.W)
