"""Pictures of decisions: rates by group with limits, and ROC curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evenscore.decisions.decision_result import DecisionMetrics
from evenscore.decisions.over_thresholds import DecisionCurves
from evenscore.report.chart import Axis, Chart, Panel, Series
from evenscore.report.estimate_charts import SMALL, extremes, names_panel
from evenscore.report.sheets import Sheet
from evenscore.report.ticks import percent, short

MAIN_RATES = {  # that a report draws; its table has all
    "selection_rate": "selection rate",
    "tpr": "true positive rate",
    "fpr": "false positive rate",
    "ppv": "precision (ppv)",
}
MOST_GROUPS = 10  # of a report; the JSON has all
SPREAD = 0.6  # of a line, that the groups of a metric take


def decision_panel(result: DecisionMetrics, metrics: Sequence[str] = (), groups: Sequence[Any] = ()) -> Panel:
    """Every metric, or some, of every group, or some, with its limits; groups of one metric stand below each other."""
    groups, metrics = groups or result.groups, metrics or result.metrics
    series = []
    for style, group in enumerate(groups):
        rows = [result.of(group, metric) for metric in metrics]
        estimate, low, high = (np.array([row[name] for row in rows], float) for name in ("estimate", "ci_low", "ci_high"))
        shift = SPREAD * ((style + 0.5) / len(groups) - 0.5)
        places = np.arange(float(len(metrics))) + shift
        series.append(Series(short(group), style, estimate, places, low=low, high=high, kind="points"))
    panel = names_panel("rate", metrics, series, lines=max(1, len(groups) // 2), low=0.0)
    return replace(panel, title=result.where, legend=f"lines: {percent(1 - result.alpha)} limits")


def rates_chart(result: DecisionMetrics, key: str) -> Chart:
    """The rates in a report."""
    metrics = [metric for metric in result.metrics if metric in MAIN_RATES]
    groups = extremes(result.groups, lambda group: float(result.of(group, metrics[0])["estimate"]), MOST_GROUPS)
    panel = decision_panel(result, metrics, groups)
    names = tuple((place, MAIN_RATES[name]) for place, name in panel.y.ticks or ())
    panel = replace(panel, y=replace(panel.y, ticks=names), title="")
    caption = f"Lines: {percent(1 - result.alpha)} limits."
    if len(groups) < len(result.groups):
        left_out = len(result.groups) - len(groups)
        caption += f" Drawn: the groups with the lowest and the highest {MAIN_RATES[metrics[0]]}; {left_out} more are in the JSON."
    return Chart(key, "Rates by group", caption, (panel,), Sheet((), (), ()), width=SMALL)


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
