"""Where two sides are compared: points along the score at which both have people."""

from __future__ import annotations

import numpy as np

from evenscore.errors import OptionError
from evenscore.estimation.comparison import Comparison, no_overlap
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.view import quantiles
from evenscore.types import Floats

# What these rest on: docs/parity-tests.md (where a test looks).
MIN_POINTS, MAX_POINTS = 20, 200
LEVELS, STEPS = np.linspace(0, 1, 20 * MIN_POINTS + 1), np.linspace(0, 1, MIN_POINTS)  # of the people of both, and of the points


def comparison_grid(comparison: Comparison, bandwidth: float) -> tuple[Floats, str | None]:
    """Points at which both sides have users, and a reason when there are none.

    Quantiles inside [max q05, min q95], at least 20 and no further apart than the bandwidth. Few distinct scores: those that both
    sides have, or, when most people have none of these, those of either side.
    """
    a, b = comparison.a.sums, comparison.b.sums
    if comparison.unsmoothed:
        shared = (a.W > 0) & (b.W > 0)
        return a.position[shared], None if shared.any() else no_overlap(comparison)
    if comparison.few_valued:
        points = _values_between(comparison)
        return points, None if len(points) else no_overlap(comparison)
    low, high = comparison.overlap
    lattice = comparison.a.lattice
    if low == high and lattice.ties is not None and low in lattice.tie_positions:
        return np.array([low]), None
    if not low < high:
        return np.zeros(0), no_overlap(comparison)
    mixture = comparison.a.lattice_weight / comparison.a.total + comparison.b.lattice_weight / comparison.b.total
    spaced = quantiles(lattice, mixture, LEVELS)
    if lattice.ties is not None:
        spaced = np.unique(spaced)
    spaced = spaced[(spaced > low) & (spaced < high)]
    inner = np.interp(STEPS, np.linspace(0, 1, len(spaced) + 2), np.concatenate([[low], spaced, [high]]))
    points = _no_wider(inner[np.diff(inner, prepend=-np.inf) > 0], bandwidth)
    if lattice.ties is None:
        return points, None
    # One point where people share a score: between there and the next people are none.
    tied = lattice.tie_positions
    return np.union1d(lattice.snap(points), tied[(tied >= low) & (tied <= high)]), None


def _values_between(comparison: Comparison) -> Floats:
    """The few scores of a side that lie within the scores of both."""
    ranges = np.array([side.sums.position[side.sums.W > 0][[0, -1]] for side in comparison.sides])
    points = np.unique(np.concatenate([side.sums.position[side.sums.W > 0] for side in comparison.few_valued]))
    return points[(points >= ranges[:, 0].max()) & (points <= ranges[:, 1].min())]


def _no_wider(points: Floats, bandwidth: float) -> Floats:
    """The points with more between them wherever they are further apart than the bandwidth."""
    step = max(bandwidth, (points[-1] - points[0]) / MAX_POINTS)
    n_steps = np.maximum(1, np.ceil(np.diff(points) / step - 1e-9)).astype(np.int64)
    return np.interp(np.arange(n_steps.sum() + 1), np.concatenate([[0], np.cumsum(n_steps)]), points)


def require_inside(tally: Tally, positions: Floats) -> None:
    """A grid given by the caller must touch the scores that occur."""
    weight = sum(group.vectors.under("user")["W"] for group in tally.group_tallies)
    used = np.flatnonzero(np.asarray(weight) > 0)
    edges = tally.lattice.axis_edges
    low, high = edges[used[0]], edges[used[-1] + 1]
    if not ((positions >= low) & (positions <= high)).any():
        low, high = tally.lattice.to_score(np.array([low, high]))
        raise OptionError(f"the grid lies outside the data, whose scores run from {low:.4g} to {high:.4g}")
