"""Rows of results as tables of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenscore.tables import cell_texts, printable

ALL_GROUPS = "all groups"


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of text. numeric: which columns stand to the right. left_out: rows that are in the JSON only."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    caption: str = ""
    left_out: int = 0


def with_all_groups(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a result with words for the group None."""
    return [{**row, "group": ALL_GROUPS if row["group"] is None else row["group"]} for row in rows]


def sheet(rows: Sequence[dict[str, Any]], caption: str, limit: int = 1000) -> Sheet:
    """A table of the rows, the first ones only if there are many."""
    if not rows:
        return Sheet((), (), (), caption)
    header, body, numeric = cell_texts(rows[:limit])
    cells = tuple(tuple(printable(cell, 120) for cell in line) for line in body)
    return Sheet(tuple(header), cells, tuple(numeric), caption, max(0, len(rows) - limit))
