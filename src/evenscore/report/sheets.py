"""Rows of results as tables of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenscore.report.document import Sheet
from evenscore.tables import cell_texts, printable


def with_everybody(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a result with a word for the group None, which is everybody."""
    return [{**row, "group": "everybody" if row["group"] is None else row["group"]} for row in rows]


def sheet(rows: Sequence[dict[str, Any]], caption: str, limit: int = 1000) -> Sheet:
    """A table of the rows, the first ones only if there are many."""
    if not rows:
        return Sheet((), (), (), caption)
    header, body, numeric = cell_texts(rows[:limit])
    cells = tuple(tuple(printable(cell, 120) for cell in line) for line in body)
    return Sheet(tuple(header), cells, tuple(numeric), caption, max(0, len(rows) - limit))
