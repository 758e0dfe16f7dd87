"""Decision metrics for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenscore.decisions.decision_result import DecisionMetrics
from evenscore.report.wrapping import wrap
from evenscore.tables import printable, text_table

COMPARED = ("group_a", "group_b", "metric", "difference", "difference_low", "difference_high", "ratio", "p_adjusted", "verdict")
RATIOS = ("group", "selection_rate", "ratio", "ci_low", "ci_high", "reference", "reason")
SHOWN = 60  # comparisons; the JSON has all


def decision_text(result: DecisionMetrics, metrics: Sequence[str] = (), notes: Sequence[str] = ()) -> str:
    """Groups, everybody, comparisons and impact ratios."""
    chosen = metrics or result.metrics
    everybody = [{"metric": name, **row} for name, row in result.overall.items() if name in chosen]
    compared = without_blanks([row for row in result.comparisons if row["metric"] in chosen], COMPARED)
    blocks = [
        f"  {printable(result._title(), 200)}",
        text_table(without_blanks([row for row in result.rows() if row["metric"] in chosen])),
        "  everybody",
        text_table(without_blanks(everybody)),
        "  groups compared, the first minus the second" if compared else "",
        text_table(compared, SHOWN) if compared else "",
        "  impact ratios",
        text_table(without_blanks(list(result.impact_ratios), RATIOS)),
        "\n".join(wrap(note) for note in [*result._remarks(chosen), *notes]),
    ]
    return "\n\n".join(block for block in blocks if block)


def without_blanks(rows: Sequence[dict[str, Any]], names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Some columns of the rows, without reasons where nothing has any."""
    kept = [name for name in (names or (rows[0] if rows else ())) if name != "reason" or any(row["reason"] for row in rows)]
    return [{name: row[name] for name in kept} for row in rows]


def impact_block(result: DecisionMetrics | None) -> str:
    """Selection rates and impact ratios, for an audit's text; nothing without a threshold."""
    if result is None:
        return ""
    lines = [f"  {printable(result._title(), 200)}: selection rates and impact ratios", ""]
    return "\n".join([*lines, text_table(without_blanks(list(result.impact_ratios), RATIOS)), *map(wrap, result._remarks())])
