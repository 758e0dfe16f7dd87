"""Rates of decisions in a report: selection and error rates by group, comparisons and impact ratios."""

from __future__ import annotations

from evenscore.decisions.decision_result import DecisionMetrics
from evenscore.report.decision_text import COMPARED, RATIOS, without_blanks
from evenscore.report.document import Section
from evenscore.report.sheets import sheet

SHOWN = 45  # rows of a table; the JSON has all


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
    lead = f"Selected: {result.where}. Every {result.weighting} counts the same."
    notes = tuple(note[:1].upper() + note[1:].rstrip(".") + "." for note in result._notes())
    return Section(f"{prefix}rates", "Selection and error rates", (lead,), tables=tuple(tables), notes=notes)
