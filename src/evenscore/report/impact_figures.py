"""Figures of what miscalibration costs: calibration errors, decisions and ranks."""

from __future__ import annotations

from typing import Any

from evenscore.impact.impact_result import CLASSIFICATION, Impact
from evenscore.miscalibration.error_result import CalibrationError
from evenscore.report.display import displayed
from evenscore.report.figures import COLOURS, STYLES, axes, plain


@displayed
def draw_calibration_error(found: CalibrationError, ax: Any = None) -> Any:
    """The error of each group and overall as a point with its limits."""
    ax = axes(ax)
    names = [plain("all groups" if each.group is None else each.group) for each in found.estimates]
    draw_points(ax, names, [(each.estimate, each.ci_low, each.ci_high) for each in found.estimates])
    ax.set(xlabel=f"calibration error ({found.method}), with {1 - found.alpha:.0%} limits")
    ax.set_xlim(left=0)
    return ax


@displayed
def draw_impact(found: Impact, ax: Any = None) -> Any:
    """The change of each group with its limits: points, or lines along the thresholds when there are several."""
    ax = axes(ax)
    meaning = "positive rate" if found.kind == CLASSIFICATION else "rank: positions moved up"
    if len(found.thresholds) > 1:
        _draw_along(ax, found)
        ax.axhline(0, color="0.4", linewidth=0.8)
        ax.set(xlabel="threshold", ylabel=f"change in {meaning}")
        ax.legend(title=f"line: estimate; band: {1 - found.alpha:.0%}, each threshold by itself", frameon=False)
        return ax
    rows = found.rows()
    names = [plain("all groups" if row["group"] is None else row["group"]) for row in rows]
    draw_points(ax, names, [(row["estimate"], row["ci_low"], row["ci_high"]) for row in rows])
    ax.axvline(0, color="0.4", linewidth=0.8)
    ax.set(xlabel=f"change in {meaning} if scores were calibrated, with {1 - found.alpha:.0%} limits")
    return ax


def _draw_along(ax: Any, found: Impact) -> None:
    for place, group in enumerate(found.groups):
        rows = [row for row in found.rows() if row["group"] == group and type(row["group"]) is type(group)]
        along, estimate, low, high = ([row[name] for row in rows] for name in ("threshold", "estimate", "ci_low", "ci_high"))
        colour = COLOURS[place % len(COLOURS)]
        ax.plot(along, estimate, STYLES[place % len(STYLES)], color=colour, label=plain(group))
        ax.fill_between(along, low, high, color=colour, alpha=0.15, linewidth=0)


def draw_points(ax: Any, names: list[str], values: list[tuple[float, float, float]]) -> None:
    """Estimates with limits, one line each, the first on top; an estimate may lie outside its limits."""
    for place, (estimate, low, high) in enumerate(values):
        colour = COLOURS[place % len(COLOURS)]
        ax.plot([low, high], [place, place], color=colour, linewidth=2)
        ax.plot([estimate], [place], "o", color=colour)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
