"""Figures of thresholds: outcomes at them by group, and the curves near them with the old and the new cuts."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from evenscore.errors import require_option
from evenscore.marginal.marginal_result import MarginalTest
from evenscore.report.display import displayed
from evenscore.report.figures import COLOURS, STYLES, axes, plain
from evenscore.saving import as_path, write_whole
from evenscore.tables import number_text, p_text
from evenscore.thresholds.thresholds_result import Thresholds

KINDS = ("png", "svg", "pdf")
AROUND = 0.35  # of the scores, on either side of all cuts


@displayed
def draw_marginals(test: MarginalTest, ax: Any = None) -> Any:
    """The outcome at the threshold (filled) and the average of everybody beyond it (hollow), by group."""
    ax = axes(ax)
    for place, one in enumerate(test.marginals):
        colour = COLOURS[place % len(COLOURS)]
        kinds = ((one.estimate, one.ci_low, one.ci_high, "full"), (one.average, one.average_ci_low, one.average_ci_high, "none"))
        for row, (value, low, high, fill) in enumerate(kinds):
            height = place + 0.3 * row - 0.15
            ax.plot([low, high], [height, height], color=colour, linewidth=1.5 if row == 0 else 0.8)
            ax.plot([value], [height], "o" if row == 0 else "D", color=colour, fillstyle=fill)
    ax.plot([], [], "o", color="0.3", label="at the threshold")
    ax.plot([], [], "D", color="0.3", fillstyle="none", label="average of all with the positive decision")
    ax.set_yticks(range(len(test.marginals)), [plain(one.group) for one in test.marginals])
    ax.set_ylim(len(test.marginals) - 0.5, -0.5)
    ax.set(xlabel="expected outcome", title=f"{test.verdict} at {test.where} (p = {p_text(test.p_value)})")
    words = f"lines: {1 - test.alpha:.0%} intervals"
    ax.legend(title=words, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    return ax


@displayed
def draw_thresholds(found: Thresholds, ax: Any = None) -> Any:
    """The curves near the thresholds with bands; grey: the cuts before, coloured: those of each group now."""
    ax = axes(ax)
    before = sorted({one.before for one in found.groups})
    for cut in before:
        ax.axvline(cut, color="0.55", linewidth=1, linestyle="--", label="before" if cut == before[0] else None)
    ax.axhline(found.outcome, color="0.8", linewidth=0.8, zorder=0)
    known = {place: one for place, one in enumerate(found.groups) if np.isfinite(one.ci_low)}
    low, high = _window(found)
    for (place, one), curve in zip(known.items(), found.curves, strict=True):
        colour, style = COLOURS[place % len(COLOURS)], STYLES[place % len(STYLES)]
        ax.fill_between(curve.score, curve.ci_low, curve.ci_high, color=colour, alpha=0.13, linewidth=0)
        ax.plot(curve.score, np.where(curve.seen, curve.outcome, np.nan), style, color=colour)
        ax.plot(curve.score, np.where(_unseen(curve.seen), curve.outcome, np.nan), ":", color=colour, linewidth=1)
        limits = f"[{number_text(one.ci_low)}, {number_text(one.ci_high)}]"
        words = f"{plain(one.group)}: {number_text(one.threshold)} {limits}"
        ax.axvline(one.threshold, color=colour, linewidth=1.2)
        ax.plot([one.threshold], [one.outcome_after], "o", color=colour)
        ax.plot([], [], style, color=colour, marker="o", label=words)
    ax.set_xlim(low, high)
    ax.set_ylim(*_heights(found, low, high))
    ax.set(xlabel="score", ylabel="expected outcome", title=found._title())
    dotted = "; dotted: continued, not seen" if found.suggestive else ""
    ax.legend(
        title=f"threshold [{1 - found.alpha:.0%}]; band: {1 - found.alpha:.0%} at each score{dotted}",
        edgecolor="none",
        framealpha=0.85,
    )
    return ax


def save_thresholds(found: Thresholds, path: str) -> None:
    """Draw into a file, whole or not at all; its ending says which kind."""
    kind = as_path(path).suffix.lower().lstrip(".")
    require_option("the ending of the picture's file", kind, KINDS)
    ax = draw_thresholds(found)
    buffer = io.BytesIO()
    ax.figure.savefig(buffer, format=kind, dpi=150)
    write_whole(as_path(path), buffer.getvalue())


def _unseen(seen: Any) -> Any:
    """Where outcomes are not seen, up to the first place where they are."""
    near = seen & (np.append(~seen[1:], False) | np.append(False, ~seen[:-1]))
    return ~seen | near


def _window(found: Thresholds) -> tuple[float, float]:
    """The scores to show: all cuts and their limits, and some of either side."""
    cuts = [value for one in found.groups for value in (one.before, one.threshold, one.ci_low, one.ci_high) if np.isfinite(value)]
    ends = [float(end) for curve in found.curves for end in (curve.score[0], curve.score[-1])]
    room = max(AROUND * (max(cuts) - min(cuts)), 0.06 * (max(ends) - min(ends)))
    return max(min(cuts) - room, min(ends)), min(max(cuts) + room, max(ends))


def _heights(found: Thresholds, low: float, high: float) -> tuple[float, float]:
    """The outcomes that the bands have in the window."""
    inside = [
        np.interp(np.linspace(low, high, 50), curve.score, limit)
        for curve in found.curves
        for limit in (curve.ci_low, curve.ci_high)
    ]
    bottom, top = float(np.min(inside)), float(np.max(inside))
    room = 0.06 * (top - bottom or 1.0)
    return bottom - room, top + room
