"""Rates of decisions in a report: selection and error rates by group, comparisons and impact ratios."""

from __future__ import annotations

import math

from evenscore.decisions.decision_result import DecisionMetrics
from evenscore.report.decision_charts import rates_chart
from evenscore.report.decision_text import COMPARED, RATIOS, without_blanks
from evenscore.report.document import Section
from evenscore.report.sheets import sheet
from evenscore.tables import label_text, printable

SHOWN = 36  # rows of a table, four groups with all metrics; the JSON has all


def decision_section(result: DecisionMetrics | None, prefix: str) -> Section | None:
    """The section, or None where no threshold is given."""
    if result is None:
        return None
    percent = f"{100 * (1 - result.alpha):g} %"
    tables = [sheet(without_blanks(result.rows()), f"Rates by group with {percent} limits", limit=SHOWN)]
    if result.comparisons:
        shown = without_blanks(list(result.comparisons), COMPARED)
        tables.append(sheet(shown, "Groups compared; difference is group a minus group b", limit=SHOWN))
        ratios = without_blanks(list(result.impact_ratios), RATIOS)
        tables.append(sheet(ratios, "Impact ratios; limits hold for all groups at once", limit=SHOWN))
    notes = tuple(note[:1].upper() + note[1:].rstrip(".") + "." for note in result._notes())
    counted = f"Every {result.weighting} counts the same."
    figures = (rates_chart(result, f"{prefix}rate"),)
    return Section(
        f"{prefix}rates",
        "Selection and error rates",
        _answer(result),
        text=(counted,),
        figures=figures,
        tables=tuple(tables),
        notes=notes,
    )


def _answer(result: DecisionMetrics) -> str:
    """The groups with the lowest and the highest share of positive decisions."""
    rows = [row for row in result.rows() if row["metric"] == "selection_rate" and math.isfinite(row["estimate"])]
    if len(rows) < 2:
        return f"Selected: {result.where}."
    low, high = (choose(rows, key=lambda row: row["estimate"]) for choose in (min, max))
    if f"{100 * low['estimate']:.1f}" == f"{100 * high['estimate']:.1f}":
        return f"Selected ({result.where}): {100 * low['estimate']:.1f} % of every group."
    least, most = (f"{100 * row['estimate']:.1f} % ({printable(label_text(row['group']), 60)})" for row in (low, high))
    return f"Selected ({result.where}): from {least} to {most}."
