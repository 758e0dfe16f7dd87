"""Figures of what miscalibration costs: calibration errors, decisions and ranks."""

from __future__ import annotations

from typing import Any

from evenscore.calibration_error.result import CalibrationError
from evenscore.report.figures import COLOURS, _axes, _plain


def draw_calibration_error(found: CalibrationError, ax: Any = None) -> Any:
    """The error of each group and overall as a point with its limits."""
    ax = _axes(ax)
    names = [_plain("all groups" if each.group is None else each.group) for each in found.estimates]
    draw_points(ax, names, [(each.estimate, each.ci_low, each.ci_high) for each in found.estimates])
    ax.set(xlabel=f"calibration error ({found.method}), with {1 - found.alpha:.0%} limits")
    ax.set_xlim(left=0)
    return ax


def draw_points(ax: Any, names: list[str], values: list[tuple[float, float, float]]) -> None:
    """Estimates with limits, one line each, the first on top; an estimate may lie outside its limits."""
    for place, (estimate, low, high) in enumerate(values):
        colour = COLOURS[place % len(COLOURS)]
        ax.plot([low, high], [place, place], color=colour, linewidth=2)
        ax.plot([estimate], [place], "o", color=colour)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
