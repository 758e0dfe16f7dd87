"""Decision metrics for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenscore.decisions.decision_result import DecisionMetrics
from evenscore.naming import in_names
from evenscore.report.wrapping import WIDTH, paragraphs
from evenscore.tables import text_table

COMPARED = ("group_a", "group_b", "metric", "difference", "difference_low", "difference_high", "ratio", "p_adjusted", "verdict")
RATIOS = ("group", "selection_rate", "ratio", "ci_low", "ci_high", "reference", "reason")
FEW = 12  # rows of a table before -v
MORE = "-v"
SHOWN = 60  # comparisons; the JSON has all


@in_names
def decision_text(
    result: DecisionMetrics, metrics: Sequence[str] = (), notes: Sequence[str] = (), *, width: int = WIDTH, verbose: bool = False
) -> str:
    """Selection rates and impact ratios, or the metrics that are named; verbose: all groups, everybody and all comparisons."""
    return _all(result, metrics, notes, width) if verbose else _short(result, metrics, notes, width)


def _short(result: DecisionMetrics, metrics: Sequence[str], notes: Sequence[str], width: int) -> str:
    named = [row for row in result.rows() if row["metric"] in metrics]
    ratios = without_blanks(list(result.impact_ratios), RATIOS)
    blocks = [
        paragraphs([result._title()], width),
        text_table(without_blanks(named) if metrics else ratios, FEW, width),
        paragraphs([*result._remarks(metrics or result.metrics), *notes], width),
        paragraphs([f"All metrics and comparisons: {MORE}"], width),
    ]
    return "\n\n".join(blocks[:2]) + "\n" + "\n".join(block for block in blocks[2:] if block)


def _all(result: DecisionMetrics, metrics: Sequence[str], notes: Sequence[str], width: int) -> str:
    chosen = metrics or result.metrics
    everybody = [{"metric": name, **row} for name, row in result.overall.items() if name in chosen]
    compared = without_blanks([row for row in result.comparisons if row["metric"] in chosen], COMPARED)
    blocks = [
        paragraphs([result._title()], width),
        text_table(without_blanks([row for row in result.rows() if row["metric"] in chosen]), width=width),
        "  everybody",
        text_table(without_blanks(everybody), width=width),
        "  groups compared, the first minus the second" if compared else "",
        text_table(compared, SHOWN, width) if compared else "",
        "  impact ratios",
        text_table(without_blanks(list(result.impact_ratios), RATIOS), width=width),
        paragraphs([*result._remarks(chosen), *notes], width),
    ]
    return "\n\n".join(block for block in blocks if block)


def without_blanks(rows: Sequence[dict[str, Any]], names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Some columns of the rows, without reasons where nothing has any."""
    kept = [name for name in (names or (rows[0] if rows else ())) if name != "reason" or any(row["reason"] for row in rows)]
    return [{name: row[name] for name in kept} for row in rows]


def impact_block(result: DecisionMetrics | None, width: int = WIDTH) -> str:
    """Selection rates and impact ratios, for an audit's text; nothing without a threshold."""
    if result is None:
        return ""
    title = paragraphs([f"{result._title()}: selection rates and impact ratios"], width)
    table = text_table(without_blanks(list(result.impact_ratios), RATIOS), width=width)
    return "\n".join([title, "", table, paragraphs(result._remarks(), width)])
