"""Figures of calibrators and of what they change."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.verification import Verification, rms_gap
from evenscore.report.display import displayed
from evenscore.report.figures import COLOURS, STYLES, axes, plain
from evenscore.tables import p_text


@displayed
def draw_calibrator(calibrator: Calibrator, ax: Any = None) -> Any:
    """The map of each group with two standard errors on either side."""
    ax = axes(ax)
    low = min(each.low for each in calibrator.maps)
    high = max(each.high for each in calibrator.maps)
    if calibrator.binary or calibrator.reference is not None:
        ax.plot([low, high], [low, high], color="0.6", linewidth=0.8)
    for place, each in enumerate(calibrator.maps):
        colour = COLOURS[place % len(COLOURS)]
        score = np.linspace(each.low, each.high, 400) if each.step else each.score
        value, se = each.at(score), each.se(score)
        ax.plot(score, value, STYLES[place % len(STYLES)], color=colour, label=plain(each.group))
        ax.fill_between(score, value - 2 * se, value + 2 * se, color=colour, alpha=0.15, linewidth=0)
    if calibrator.binary:
        bottom, top = ax.get_ylim()
        ax.set_ylim(max(bottom, -0.03), min(top, 1.03))
    ax.set(xlabel="score", ylabel="calibrated score")
    ax.legend(title="line: map; band: two standard errors; grey: unchanged", frameon=False)
    return ax


@displayed
def draw_verification(verification: Verification, ax: Any = None) -> Any:
    """The gap of each pair along the score, before and after the repair, side by side; ``ax`` may be a pair of axes."""
    left, right = _pair_of_axes(ax)
    for side, test, words in ((left, verification.before, "before"), (right, verification.after, "after")):
        side.axhline(0, color="0.4", linewidth=0.8)
        if test.tolerance is not None:
            side.axhspan(-test.tolerance, test.tolerance, color="0.9", zorder=0)
        for place, pair in enumerate(test.pairs):
            colour = COLOURS[place % len(COLOURS)]
            name = f"{plain(pair.group_a)} − {plain(pair.group_b)} (rms {rms_gap(pair):.3f})"
            side.plot(pair.score, pair.gap, STYLES[place % len(STYLES)], color=colour, label=name)
            side.fill_between(pair.score, pair.band_low, pair.band_high, color=colour, alpha=0.12, linewidth=0)
        side.set(
            xlabel="score" if words == "before" else "calibrated score",
            title=f"{words}: {test.verdict} (p = {p_text(test.p_value)})",
        )
        title = f"line: gap; band: {1 - test.alpha:.0%}, all scores at once"
        side.legend(title=title, title_fontsize="small", frameon=False, fontsize="small")
    left.set_ylabel("gap in expected outcome")
    return np.array([left, right])


def _pair_of_axes(ax: Any) -> tuple[Any, Any]:
    if ax is not None:
        left, right = ax
        return left, right
    first = axes(None)
    figure = first.figure
    first.remove()
    figure.set_size_inches(11, 4.5)
    left, right = figure.subplots(1, 2, sharey=True)
    return left, right
