"""Charts of estimates with limits: calibration errors, outcomes at the threshold, thresholds, decisions that would change."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from evenscore.impact.impact_result import Impact
from evenscore.marginal.marginal_result import MarginalTest
from evenscore.miscalibration.error_result import CalibrationError
from evenscore.report.document import Estimate, Intervals, Rule
from evenscore.report.score_charts import short
from evenscore.report.sheets import sheet, with_everybody
from evenscore.thresholds.thresholds_result import Thresholds

MOST_LINES = 30


def error_chart(found: CalibrationError, key: str) -> Intervals:
    """The calibration error of each group, and of everybody."""
    lines = tuple(
        ("everybody" if one.group is None else short(one.group), (estimate("", place, one.estimate, one.ci_low, one.ci_high),))
        for place, one in enumerate(found.estimates[:MOST_LINES])
    )
    rows = with_everybody(found.rows())
    return Intervals(
        key,
        "Calibration error by group",
        f"How far scores are from the outcomes to be expected at them: {found.what}. Lines: {_percent(found.alpha)} limits.",
        "calibration error, in units of the outcome",
        lines,
        sheet(rows, "Calibration error"),
    )


def marginal_chart(test: MarginalTest, key: str) -> Intervals:
    """The outcome at the threshold, and the average of all who get the decision."""
    lines = tuple(
        (
            short(one.group),
            (
                estimate("at the threshold", 0, one.estimate, one.ci_low, one.ci_high),
                estimate("average of all with the decision", 1, one.average, one.average_ci_low, one.average_ci_high),
            ),
        )
        for one in test.marginals[: MOST_LINES // 2]
    )
    return Intervals(
        key,
        "Expected outcome of people who just get the decision",
        f"A group with a higher outcome there is held to a higher standard. Averages of all who get it also depend on how far "
        f"beyond the threshold their scores lie. Lines: {_percent(test.alpha)} limits.",
        "expected outcome",
        lines,
        sheet(test.group_rows(), "Outcome at the threshold and average beyond it"),
        legend=(("at the threshold", 0), ("average of all with the decision", 1)),
    )


def threshold_chart(found: Thresholds, key: str) -> Intervals:
    """The threshold of each group that would even out outcomes there."""
    lines = tuple(
        (short(one.group), (estimate("", place, one.threshold, one.ci_low, one.ci_high, _short),))
        for place, one in enumerate(found.groups[:MOST_LINES])
    )
    before = sorted({one.before for one in found.groups})
    return Intervals(
        key,
        "Thresholds at which people of every group have the same expected outcome",
        f"Solved so that as many people as now get the decision. Dashed: the threshold now. Lines: {_percent(found.alpha)} limits.",
        "score",
        lines,
        sheet(found.rows(), "Thresholds, outcomes there, and rates of the decision"),
        rules=tuple(Rule(value, "now") for value in before),
    )


def impact_chart(found: Impact, key: str) -> Intervals:
    """The change in each group's rate of positive decisions if scores were calibrated."""
    rows = [row for row in found.rows() if row["group"] is not None]
    lines = tuple((short(row["group"]), (_change(row, place),)) for place, row in enumerate(rows[:MOST_LINES]))
    table = with_everybody(found.rows())
    return Intervals(
        key,
        "What calibrated scores would change about decisions",
        f"Change in the share of each group that gets the decision, at the same threshold. Lines: {_percent(found.alpha)} limits.",
        "change in the share with the decision, percentage points",
        lines,
        sheet(_chosen(table, IMPACT_COLUMNS), "Shares before and after, and people whose decision changes"),
        bars=True,
        rules=(Rule(0.0, "", "zero"),),
    )


def _change(row: dict[str, Any], style: int) -> Estimate:
    return estimate("", style, 100 * row["estimate"], 100 * row["ci_low"], 100 * row["ci_high"], _signed)


IMPACT_COLUMNS = (
    "group",
    "estimate",
    "ci_low",
    "ci_high",
    "rate_before",
    "rate_after",
    "ratio_before",
    "ratio_after",
    "users_gain",
    "users_lose",
)


def _chosen(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in names if name in row} for row in rows]


def estimate(name: str, style: int, value: float, low: float, high: float, words: Callable[[float], str] | None = None) -> Estimate:
    """An estimate with limits, and the numbers that are written beside it."""
    if not math.isfinite(value):
        return Estimate(name, style, None)
    write = words or (lambda number: f"{number:.3f}")
    if not (math.isfinite(low) and math.isfinite(high)):
        return Estimate(name, style, value, text=write(value))
    return Estimate(name, style, value, low, high, f"{write(value)} ({write(low)} to {write(high)})")


def _signed(points: float) -> str:
    return f"{points:+.1f}"


def _short(score: float) -> str:
    return f"{score:.3g}"


def _percent(alpha: float) -> str:
    return f"{100 * (1 - alpha):.4g} %"
