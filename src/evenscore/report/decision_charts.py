"""Pictures of decisions: rates by group with limits, and ROC curves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenscore.decisions.decision_result import DecisionMetrics
from evenscore.decisions.over_thresholds import DecisionCurves
from evenscore.report.chart import Axis, Panel, Series
from evenscore.report.estimate_charts import names_panel
from evenscore.report.ticks import percent, short

SPREAD = 0.6  # of a line, that the groups of a metric take


def decision_panel(result: DecisionMetrics) -> Panel:
    """Every metric of every group with its limits; groups of one metric stand below each other."""
    groups, metrics = result.groups, result.metrics
    series = []
    for style, group in enumerate(groups):
        rows = [result.of(group, metric) for metric in metrics]
        estimate, low, high = (np.array([row[name] for row in rows], float) for name in ("estimate", "ci_low", "ci_high"))
        shift = SPREAD * ((style + 0.5) / len(groups) - 0.5)
        series.append(Series(short(group), style, estimate, np.arange(float(len(metrics))) + shift, low, high, "points"))
    panel = names_panel("rate", metrics, series, lines=max(1, len(groups) // 2), low=0.0)
    return replace(panel, title=result.where, legend=f"lines: {percent(1 - result.alpha)} limits")


def roc_panel(curves: DecisionCurves) -> Panel:
    """The ROC curve of each group; without one, selection rates against the threshold."""
    series = []
    groups = list(dict.fromkeys(row["group"] for row in curves.table))
    points = [point for point in curves.roc if "tpr" in point and "fpr" in point]
    if not points:
        for style, group in enumerate(groups):
            rows = [row for row in curves.table if row["group"] == group and row["metric"] == curves.table[0]["metric"]]
            x, y, low, high = (
                np.array([row[n] for row in rows], float) for n in ("threshold", "estimate", "band_low", "band_high")
            )
            series.append(Series(short(group), style, x, y, low, high))
        return Panel(
            Axis("threshold"), Axis(curves.table[0]["metric"], (0.0, None)), tuple(series), legend="band: all thresholds at once"
        )
    for style, group in enumerate(groups):
        own = [point for point in points if point["group"] == group][::-1]
        x, y = (np.array([0.0, *(point[name] for point in own), 1.0]) for name in ("fpr", "tpr"))
        series.append(Series(short(group), style, x, y))
    chance = Series("", 0, np.array([0.0, 1.0]), np.array([0.0, 1.0]), kind="diagonal")
    axes = (Axis("fpr", (0.0, 1.0)), Axis("tpr", (0.0, 1.0)))
    return Panel(*axes, (chance, *series), legend="dotted: chance")
