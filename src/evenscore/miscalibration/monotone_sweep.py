"""The monotonic sweep: as many bins as there can be while mean outcomes rise from bin to bin (Roelofs and others 2022)."""

from __future__ import annotations

import numpy as np

from evenscore.miscalibration.binned import binned_error, score_range
from evenscore.miscalibration.measure import Measure
from evenscore.miscalibration.scored_people import People
from evenscore.types import Floats


def sweep_error(people: People, *, spacing: str, power: int, n_rows: int) -> Measure:
    """ECE with the largest number of bins before the first whose mean outcomes fall somewhere."""
    return binned_error(people, bins=monotone_bins(people, spacing, n_rows), spacing=spacing, power=power)


def monotone_bins(people: People, spacing: str, n_rows: int) -> int:
    """How many bins the sweep ends with; never more than cells or rows."""
    limit = min(n_rows, people.lattice.n_cells if spacing == "width" else len(people.weight))
    for n_bins in range(2, limit + 1):
        if (np.diff(_means(people, spacing, n_bins)) < -1e-12).any():
            return n_bins - 1
    return max(limit, 1)


def _means(people: People, spacing: str, n_bins: int) -> Floats:
    """Mean outcomes of the bins that have people, from running sums: no matrix for each number of bins."""
    weight = np.concatenate([[0.0], np.cumsum(people.weight)])
    outcome = np.concatenate([[0.0], np.cumsum(people.outcome)])
    if spacing == "mass":
        limits = np.linspace(0, weight[-1], n_bins + 1)
    else:
        limits = _weight_below(people, np.linspace(*score_range(people), n_bins + 1)[1:-1])
        limits = np.concatenate([[0.0], limits, weight[-1:]])
    mass = np.diff(limits)
    filled = mass > 1e-12 * weight[-1]
    return np.diff(np.interp(limits, weight, outcome))[filled] / mass[filled]


def _weight_below(people: People, edges: Floats) -> Floats:
    """The weight of scores below each edge; linear inside a cell."""
    point = people.high <= people.low
    width = np.where(point, 1, people.high - people.low)
    below = np.clip((edges[:, None] - people.low) / width, 0, 1)
    below = np.where(point, edges[:, None] > people.score, below)
    return np.asarray(below @ people.weight)
