"""Lines through points for pictures: monotone cubics, which bend as little as the points do (Fritsch and Butland 1984).

The same as SciPy's PchipInterpolator, whose import takes longer than all pictures of a report.
"""

from __future__ import annotations

import numpy as np

from evenscore.types import Floats


def fine_grid(x: Floats, points: int) -> Floats:
    """So many places from the first to the last."""
    return np.linspace(x[0], x[-1], points)


def smooth(x: Floats, y: Floats, grid: Floats) -> Floats:
    """A monotone cubic through the points that are known, at the places of a grid; nan beyond them."""
    x, at = np.unique(x, return_index=True)
    known = np.isfinite(y[at])
    x, y = x[known], y[at][known]
    if len(x) < 2:
        return np.full(len(grid), np.nan)
    width = np.diff(x)
    rise, slope = np.diff(y) / width, _slopes(width, np.diff(y) / width)
    step = np.clip(np.searchsorted(x, grid, side="right") - 1, 0, len(width) - 1)
    left, away = slope[step], grid - x[step]
    bend = (slope[step + 1] + left - 2 * rise[step]) / width[step]
    line = y[step] + away * (left + away * ((rise[step] - left) / width[step] - bend + away * bend / width[step]))
    return np.where((grid >= x[0]) & (grid <= x[-1]), line, np.nan)


def _slopes(width: Floats, rise: Floats) -> Floats:
    """The slope at each point, (n,): between two steps their weighted harmonic mean, 0 at a turn."""
    if len(rise) == 1:
        return np.repeat(rise, 2)
    before, after = 2 * width[1:] + width[:-1], width[1:] + 2 * width[:-1]
    turns = np.sign(rise[1:]) * np.sign(rise[:-1]) <= 0
    steps = np.where(turns, 1.0, rise[:-1]), np.where(turns, 1.0, rise[1:])
    between = np.where(turns, 0.0, (before + after) / (before / steps[0] + after / steps[1]))
    ends = [_end_slope(*width[order], *rise[order]) for order in ([0, 1], [-1, -2])]
    return np.concatenate([ends[:1], between, ends[1:]])


def _end_slope(width: float, next_width: float, rise: float, next_rise: float) -> float:
    """That of a parabola through three points, as far as it keeps to the way of the first step."""
    slope = ((2 * width + next_width) * rise - width * next_rise) / (width + next_width)
    if np.sign(slope) != np.sign(rise):
        return 0.0
    return 3 * rise if np.sign(rise) != np.sign(next_rise) and abs(slope) > 3 * abs(rise) else float(slope)
