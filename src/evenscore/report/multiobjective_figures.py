"""Pictures of blends of several objectives."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenscore.estimation.verdict import DISPARITY
from evenscore.multiobjective.sweep import WeightSweep
from evenscore.report.display import displayed
from evenscore.report.figures import COLOURS, axes, plain

MARKS = ("o", "s", "^", "D", "v", "P", "X")


@displayed
def draw_sweep(sweep: WeightSweep, ax: Any = None) -> Any:
    """The size of the largest gap of every blend; a filled mark is a gap that is shown."""
    ax = axes(ax)
    chosen = [blend.weights for blend in sweep.of(sweep.versions[0])]
    shares = len(sweep.outcomes) == 2 and all(abs(sum(weights) - 1) < 1e-9 for weights in chosen)
    along = np.array([weights[0] for weights in chosen]) if shares else np.arange(len(chosen))
    for place, version in enumerate(sweep.versions):
        colour, mark = COLOURS[place % len(COLOURS)], MARKS[place % len(MARKS)]
        blends = sweep.of(version)
        size = np.array([abs(blend.test.max_gap) for blend in blends])
        shown = np.array([blend.verdict == DISPARITY for blend in blends])
        ax.plot(along, size, "-", color=colour, linewidth=0.8, alpha=0.5)
        ax.plot(along[shown], size[shown], mark, color=colour)
        ax.plot(along[~shown], size[~shown], mark, color=colour, fillstyle="none")
        label = f"{plain(version)} ({int(shown.sum())} of {len(blends)})"
        ax.plot([], [], mark, color=colour, label=label)
    if shares:
        ax.set(xlabel=f"weight of {plain(sweep.outcomes[0])} (of {plain(sweep.outcomes[1])}: the rest)")
    else:
        names = [" / ".join(f"{weight:.2g}" for weight in weights) for weights in chosen]
        ax.set_xticks(along, names, rotation=90, fontsize=7)
        ax.set(xlabel="weights of " + ", ".join(plain(name) for name in sweep.outcomes))
    ax.set(ylabel="largest gap in expected outcome")
    ax.set_ylim(bottom=0)
    title = f"filled: a gap is shown at level {sweep.alpha:g}, all weights at once"
    style = {"frameon": False, "fontsize": "small", "title_fontsize": "small", "columnspacing": 1.0, "handletextpad": 0.2}
    ax.legend(title=title, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=min(len(sweep.versions), 4), **style)
    return ax
