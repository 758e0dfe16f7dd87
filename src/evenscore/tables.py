"""One way to show every result: as rows, a frame, JSON-ready values, text and HTML."""

from __future__ import annotations

import html
import importlib
import importlib.util
import json
import math
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np

from evenscore.errors import EvenscoreError, require_option, visible

FRAMES = ("pandas", "polars", "pyarrow")


class Table:
    """Base of results: a subclass gives ``rows``, a title and notes, and ``frame_kind`` when it knows the kind of the data."""

    __slots__ = ()

    def rows(self) -> list[dict[str, Any]]:
        """The tidy table as plain dicts."""
        raise TypeError(f"{type(self).__name__} has no table")

    def _title(self) -> str:
        return type(self).__name__

    def _notes(self) -> list[str]:
        return []

    def _shown_rows(self) -> list[dict[str, Any]]:
        """What is printed; a table with very many rows has a shorter one to show."""
        return self.rows()

    def frame(self, kind: str | None = None) -> Any:
        """The rows as a frame: of the kind the data came in, else the first installed of pandas, polars and pyarrow."""
        return as_frame(self.rows(), getattr(self, "frame_kind", None) if kind is None else kind)

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        return {"title": self._title(), "rows": json_ready(self.rows()), "notes": self._notes()}

    def plot(self, ax: Any = None) -> Any:
        """Draw the result, on new axes or on those given (needs matplotlib)."""
        from evenscore.report.plots import plot

        return plot(self, ax)

    def __repr__(self) -> str:
        notes = [f"  {printable(note, 400)}" for note in self._notes()]
        return "\n".join([printable(self._title(), 400), "", text_table(self._shown_rows()), *notes])

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(printable(note, 400))}</p>" for note in self._notes())
        return f"<p><b>{html.escape(printable(self._title(), 400))}</b></p>{html_table(self._shown_rows())}{notes}"


def as_frame(rows: list[dict[str, Any]], kind: str | None = None) -> Any:
    """Rows as a pandas, polars or pyarrow frame."""
    columns = {name: [row.get(name) for row in rows] for name in (rows[0] if rows else {})}
    columns = {name: _alike(values) for name, values in columns.items()}
    if kind is None:
        kind = next((name for name in FRAMES if name in sys.modules), None) or _first_installed()
    require_option("kind", kind, FRAMES)
    if importlib.util.find_spec(kind) is None:
        raise EvenscoreError(f"{kind} is not installed; install it, name another of {', '.join(FRAMES)}, or use .rows()")
    library = importlib.import_module(kind)
    return library.table(columns) if kind == "pyarrow" else library.DataFrame(columns)


def _alike(values: list[Any]) -> list[Any]:
    """Values that fit into one column: labels of mixed types, and tuples, become text."""
    kinds = {type(value) for value in values if value is not None}
    if tuple in kinds or (len(kinds) > 1 and not kinds <= {int, float}):
        return [None if value is None else label_text(value) for value in values]
    return values


def _first_installed() -> str:
    for name in FRAMES:
        if importlib.util.find_spec(name) is not None:
            return name
    raise EvenscoreError("no frame library is installed; install pandas, polars or pyarrow, or use .rows()")


def label_text(label: Any) -> str:
    """A group label for people: labels of an intersection are joined."""
    if isinstance(label, tuple):
        return " × ".join(map(label_text, label))
    return str(label)


@overload
def json_ready(value: dict[Any, Any]) -> dict[str, Any]: ...
@overload
def json_ready(value: object) -> Any: ...
def json_ready(value: Any) -> Any:
    """Plain values only: no NumPy scalars, and None for what JSON cannot say (nan, infinity)."""
    if isinstance(value, dict):
        return {label_text(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [json_ready(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def json_text(document: Any) -> str:
    """A document as JSON for people and terminals: letters as they are, what is not printable as escapes."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return "\n".join(line if line.isprintable() else "".join(map(_escape, line)) for line in text.split("\n"))


def _escape(char: str) -> str:
    return char if char.isprintable() else json.dumps(char)[1:-1]


def values_of(record: Any, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Attributes of a record by name; by default all the fields of a dataclass with slots."""
    return {name: getattr(record, name) for name in (type(record).__slots__ if names is None else names)}


def number_text(value: Any) -> str:
    """A number as a person would write it."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return label_text(value)
    if isinstance(value, int):
        return f"{value:,}"
    if value != 0 and not 0.001 <= abs(value) < 100000:
        return f"{value:.2g}" if abs(value) < 0.001 else f"{value:,.0f}"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}"


def p_text(p_value: float) -> str:
    """A p-value: never a bare 0."""
    if math.isnan(p_value):
        return "–"
    if p_value >= 0.0995:
        return f"{p_value:.2f}"
    return f"{p_value:.3f}" if p_value >= 0.0005 else f"{p_value:.1e}"


def p_words(p_value: float) -> str:
    """A p-value to put after a sentence; empty when there is none."""
    return "" if math.isnan(p_value) else f" (p = {p_text(p_value)})"


def cell_texts(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]], list[bool]]:
    """Header and cells of a table as text, and which columns are numbers."""
    names = list(rows[0])
    body = [[p_text(v) if _is_p(n, v) else number_text(v) for n, v in row.items()] for row in rows]
    numeric = [all(isinstance(row[n], int | float) and not isinstance(row[n], bool) for row in rows) for n in names]
    return [n.replace("_", " ") for n in names], body, numeric


def _is_p(name: str, value: Any) -> bool:
    return name.startswith("p_") and isinstance(value, float)


def printable(text: str, limit: int = 48) -> str:
    """Text for one cell or line of a terminal: no control characters, no endless labels."""
    clean = visible(text).replace("\n", "\ufffd")
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def text_table(rows: Sequence[dict[str, Any]], limit: int = 40) -> str:
    """An aligned table for a terminal; numbers to the right."""
    if not rows:
        return "  (no rows)"
    header, body, numeric = cell_texts(rows[:limit])
    body = [[printable(cell) for cell in line] for line in body]
    widths = [max(_width(line[i]) for line in [header, *body]) for i in range(len(header))]
    lines = [
        "  " + "  ".join(_pad(cell, width, num) for cell, width, num in zip(line, widths, numeric, strict=True)).rstrip()
        for line in [header, *body]
    ]
    if len(rows) > limit:
        lines.append(f"  ... {len(rows) - limit:,} more rows")
    return "\n".join(lines)


def _width(text: str) -> int:
    """Columns of a terminal that a text takes: East Asian letters and emoji take two."""
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _pad(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - _width(text))
    return blanks + text if right else text + blanks


def html_table(rows: Sequence[dict[str, Any]], limit: int = 200) -> str:
    """A plain HTML table; every label is escaped."""
    if not rows:
        return "<p>(no rows)</p>"
    header, body, numeric = cell_texts(rows[:limit])
    body = [[printable(cell, 200) for cell in line] for line in body]

    def line(cells: list[str], tag: str) -> str:
        styled = (
            f"<{tag} style='text-align:{'right' if num else 'left'}'>{html.escape(cell)}</{tag}>"
            for cell, num in zip(cells, numeric, strict=True)
        )
        return "<tr>" + "".join(styled) + "</tr>"

    return f"<table>{line(header, 'th')}{''.join(line(cells, 'td') for cells in body)}</table>"
