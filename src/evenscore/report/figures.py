"""Figures through matplotlib, which is an extra. Lines differ in colour and in style, so that neither alone is needed."""

from __future__ import annotations

from typing import Any

from evenscore.errors import EvenscoreError
from evenscore.estimation.fitted_curves import Curves
from evenscore.parity.parity_result import ParityTest
from evenscore.report.display import displayed
from evenscore.tables import label_text, p_text

# Okabe and Ito's colours, told apart with any kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":")


def axes(ax: Any) -> Any:
    """The axes to draw on: those given, or new ones."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise EvenscoreError("plots need matplotlib: install evenscore[plot]") from None
    return plt.subplots(figsize=(7, 4.5), layout="constrained")[1] if ax is None else ax


def plain(label: Any) -> str:
    """A label as it is: matplotlib would read $ as mathematics and hide a leading underscore."""
    return "\u200b" + label_text(label).replace("$", r"\$")


@displayed
def draw_curves(curves: Curves, ax: Any = None) -> Any:
    """The expected outcome along the score, a line and a simultaneous band a group."""
    ax = axes(ax)
    for place, curve in enumerate(curves.curves):
        colour = COLOURS[place % len(COLOURS)]
        ax.plot(curve.score, curve.estimate, STYLES[place % len(STYLES)], color=colour, label=plain(curve.group))
        ax.fill_between(curve.score, curve.band_low, curve.band_high, color=colour, alpha=0.15, linewidth=0)
    ax.set(xlabel="score", ylabel="expected outcome")
    if curves.binary:  # a band of a few users would otherwise stretch the axis far beyond what an outcome can be
        low, high = ax.get_ylim()
        ax.set_ylim(max(low, -0.03), min(high, 1.03))
    ax.legend(title=f"line: estimate; band: {1 - curves.alpha:.0%}, all scores at once", frameon=False)
    return ax


@displayed
def draw_gaps(test: ParityTest, ax: Any = None) -> Any:
    """The gap of each pair along the score, with its simultaneous band."""
    ax = axes(ax)
    ax.axhline(0, color="0.4", linewidth=0.8)
    for place, pair in enumerate(test.pairs):
        colour = COLOURS[place % len(COLOURS)]
        name = f"{plain(pair.group_a)} − {plain(pair.group_b)} (p = {p_text(pair.p_adjusted)})"
        ax.plot(pair.score, pair.gap, STYLES[place % len(STYLES)], color=colour, label=name)
        ax.fill_between(pair.score, pair.band_low, pair.band_high, color=colour, alpha=0.15, linewidth=0)
    ax.set(xlabel="score", ylabel="gap in expected outcome", title=f"{test.verdict} (p = {p_text(test.p_value)})")
    ax.legend(title=f"line: gap; band: {1 - test.alpha:.0%}, all scores at once", frameon=False)
    return ax
