"""Decision metrics for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenscore.decisions.decision_result import DecisionMetrics
from evenscore.naming import in_names
from evenscore.report.wrapping import WIDTH, paragraphs, wrap
from evenscore.tables import label_text, text_table

COMPARED = ("group_a", "group_b", "metric", "difference", "difference_low", "difference_high", "ratio", "p_adjusted", "verdict")
RATIOS = ("group", "selection_rate", "ratio", "ci_low", "ci_high", "reference", "reason")
FEW = 12  # rows of a table before -v
MORE = "-v"
SHOWN = 360  # rows of a table with -v; the JSON has all


@in_names
def decision_text(
    result: DecisionMetrics, metrics: Sequence[str] = (), notes: Sequence[str] = (), *, width: int = WIDTH, verbose: bool = False
) -> str:
    """Selection rates and impact ratios, or the metrics that are named; verbose: all groups, everybody and all comparisons."""
    return _all(result, metrics, notes, width) if verbose else _short(result, metrics, notes, width)


def _short(result: DecisionMetrics, metrics: Sequence[str], notes: Sequence[str], width: int) -> str:
    named = _rate_rows(result, metrics)
    ratios, base = ratio_rows(result)
    blocks = [
        paragraphs([result._title()], width),
        text_table(named, FEW, width) if metrics else "\n".join([text_table(ratios, FEW, width), *wrapped(base, width)]),
        paragraphs([*result._remarks(metrics or result.metrics), *notes], width),
        paragraphs([f"All metrics and comparisons: {MORE}"], width),
    ]
    return "\n\n".join(blocks[:2]) + "\n" + "\n".join(block for block in blocks[2:] if block)


def _all(result: DecisionMetrics, metrics: Sequence[str], notes: Sequence[str], width: int) -> str:
    chosen = metrics or result.metrics
    everybody = [{"metric": name, **row} for name, row in result.overall.items() if name in chosen]
    compared = without_blanks([row for row in result.comparisons if row["metric"] in chosen], COMPARED)
    ratios, base = ratio_rows(result)
    blocks = [
        paragraphs([result._title()], width),
        text_table(without_blanks(_rate_rows(result, chosen)), SHOWN, width),
        "  all groups",
        text_table(without_blanks(everybody), width=width),
        "  groups compared, the first minus the second" if compared else "",
        text_table(compared, SHOWN, width) if compared else "",
        "  impact ratios",
        "\n".join([text_table(ratios, SHOWN, width), *wrapped(base, width)]),
        paragraphs([*result._remarks(chosen), *notes], width),
    ]
    return "\n\n".join(block for block in blocks if block)


def without_blanks(rows: Sequence[dict[str, Any]], names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Some columns of the rows, without reasons, which the remarks tell."""
    kept = [name for name in (names or (rows[0] if rows else ())) if name != "reason"]
    return [{name: row[name] for name in kept} for row in rows]


def impact_block(result: DecisionMetrics | None, width: int = WIDTH) -> str:
    """Selection rates and impact ratios, for an audit's text; nothing without a threshold."""
    if result is None:
        return ""
    title = paragraphs([f"{result._title()}: selection rates and impact ratios"], width)
    rows, base = ratio_rows(result)
    return "\n".join([title, "", text_table(rows, width=width), *wrapped(base, width), paragraphs(result._remarks(), width)])


def _rate_rows(result: DecisionMetrics, metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Some metrics of all groups; why a group is not compared at all is told once, in the notes."""
    rows = [row for row in result.rows() if row["metric"] in metrics]
    left_out = tuple(result.left_out.values())
    return [row | {"reason": "" if row["reason"].endswith(left_out) else row["reason"]} for row in rows]


def ratio_rows(result: DecisionMetrics) -> tuple[list[dict[str, Any]], str]:
    """Impact ratios, and below them to which group they are."""
    rows = list(result.impact_ratios)
    bases = [row["reference"] for row in rows if row["reference"] is not None]
    shown = [{name: row[name] for name in RATIOS if name != "reference"} for row in rows]
    shown = [row | {"reason": "" if group in result.left_out else row["reason"]} for row, group in zip(shown, result.groups)]
    if not bases:
        return shown, ""
    why = "" if result.reference is not None else ", which is selected most here; limits allow for its being another"
    return shown, f"ratios are to {label_text(bases[0])}{why}"


def wrapped(text: str, width: int) -> list[str]:
    """A paragraph's lines; none of nothing."""
    return wrap(text, width) if text else []
