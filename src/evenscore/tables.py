"""One way to show every result: as rows, a frame, JSON-ready values, text and HTML."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import math
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np

from evenscore.errors import EvenscoreError, require_flag, require_option, visible
from evenscore.naming import GroupNames, current_names, in_names, own_names, plain_label
from evenscore.naming import label_text as label_text
from evenscore.wording import number_text, p_text

ROWS, FEW = 40, 6  # of a table in a terminal, in full and where only what matters most is told
CUT = 32  # characters of a cell in a table that would be too wide
FRAMES = ("pandas", "polars", "pyarrow")
KEY_COLUMNS = ("metric", "score", "threshold")  # that say, after the groups, what a row is about
PLAIN = frozenset({str, int, bool, type(None)})  # values that JSON has as they are
PEOPLE_COLUMNS = ("users_gain", "users_lose", "to_positive", "to_negative")  # estimates, told as whole people
GROUP_COLUMNS = ("group", "group_a", "group_b", "low_group", "high_group", "reference")
SPEAKING = ("__repr__", "_repr_html_", "to_dict", "plot", "_notes", "_title", "reason", "remarks", "disagreement", "sentence")


class Table:
    """Base of results: a subclass gives ``rows``, a title and notes, and ``frame_kind`` when it knows the kind of the data."""

    __slots__ = ("_made_under",)

    def __new__(cls, *args: Any, **fields: Any) -> Any:
        """A result calls groups as the call does that made it."""
        result = object.__new__(cls)
        object.__setattr__(result, "_made_under", current_names())
        return result

    def __reduce__(self) -> Any:
        """Copies call groups the same, wherever they are made."""
        return _remake, (type(self), self.group_names), self.__getstate__()  # type: ignore[attr-defined, unused-ignore]

    def __init_subclass__(cls) -> None:
        """Whatever speaks of groups does so in the result's own names."""
        super().__init_subclass__()
        for name in SPEAKING:
            own = cls.__dict__.get(name)
            speak = own.fget if isinstance(own, property) else own
            if callable(speak) and not hasattr(speak, "__wrapped__"):
                named = in_names(speak)
                setattr(cls, name, property(named) if isinstance(own, property) else named)

    @property
    def group_names(self) -> GroupNames:
        """What groups are called."""
        return self._made_under  # type: ignore[attr-defined]

    def rows(self) -> list[dict[str, Any]]:
        """The tidy table as plain dicts."""
        raise TypeError(f"{type(self).__name__} has no table")

    def _title(self) -> str:
        return type(self).__name__

    def _notes(self) -> list[str]:
        return []

    def _short_notes(self) -> list[str]:
        """What is printed below the title where there is room for a few lines: why the verdict is what it is."""
        reason = getattr(self, "reason", "")
        return [reason] if isinstance(reason, str) and reason else []

    def _shown_rows(self) -> list[dict[str, Any]]:
        """What is printed; a table with very many rows has a shorter one to show."""
        return self.rows()

    def _tables(self) -> list[list[dict[str, Any]]]:
        """What is printed, one table below the other."""
        return [self._shown_rows()]

    def frame(self, kind: str | None = None) -> Any:
        """The rows as a frame: of the kind the data came in, else the first installed of pandas, polars and pyarrow."""
        return as_frame(self.rows(), getattr(self, "frame_kind", None) if kind is None else kind)

    @in_names
    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        return {"title": self._title(), "rows": json_ready(self.rows()), "notes": self._notes()}

    @in_names
    def plot(self, ax: Any = None) -> Any:
        """Draw the result, on new axes or on those given (needs matplotlib)."""
        from evenscore.report.plots import plot

        return plot(self, ax)

    def __repr__(self) -> str:
        return self.text(verbose=True)

    @in_names
    def text(self, *, verbose: bool = False) -> str:
        """The result for a terminal: its title and what matters most, or with every table and note."""
        from evenscore.report.wrapping import paragraphs, terminal_width, wrap

        require_flag("verbose", verbose)
        width = terminal_width()
        shown = self._tables() if verbose else self._tables()[:1]
        tables = "\n\n".join(text_table(rows, ROWS if verbose else FEW, width) for rows in shown)
        notes = paragraphs(self._notes() if verbose else self._short_notes(), width)
        return "\n".join(["\n".join(wrap(self._title(), width, "")), "", tables, *([notes] if notes else [])])

    @in_names
    def _repr_html_(self) -> str:
        from evenscore.report.notebook import result_html

        return result_html(self)


def _remake(kind: Any, names: GroupNames) -> Any:
    with own_names(names):
        return kind.__new__(kind)


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
        return [None if value is None else plain_label(value) for value in values]
    return values


def _first_installed() -> str:
    for name in FRAMES:
        if importlib.util.find_spec(name) is not None:
            return name
    raise EvenscoreError("no frame library is installed; install pandas, polars or pyarrow, or use .rows()")


@overload
def json_ready(value: dict[Any, Any]) -> dict[str, Any]: ...
@overload
def json_ready(value: object) -> Any: ...
def json_ready(value: Any) -> Any:
    """Plain values only: no NumPy scalars, and None for what JSON cannot say (nan, infinity)."""
    kind = type(value)
    if kind is float:  # of hundreds of thousands of values most are these
        return value if math.isfinite(value) else None
    if kind in PLAIN:
        return value
    if isinstance(value, dict):
        return {key if type(key) is str else plain_label(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [json_ready(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def json_text(document: Any) -> str:
    """A document as JSON for people and terminals: letters as they are, what is not printable as escapes."""
    import msgspec

    # The standard library indents slowly. As bytes: a column's name may hold half a surrogate pair, which is no UTF-8.
    line = json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")
    text = msgspec.json.format(line, indent=2).decode("utf-8", "surrogatepass") + "\n"
    for char in set(text) - {"\n"}:
        if not char.isprintable():
            text = text.replace(char, json.dumps(char)[1:-1])
    return text


def values_of(record: Any, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Attributes of a record by name; by default all the fields of a dataclass with slots."""
    return {name: getattr(record, name) for name in (type(record).__slots__ if names is None else names)}


def cell_texts(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]], list[bool]]:
    """Header and cells of a table as text, and which columns are numbers."""
    names = list(rows[0])
    broken = [n for n in names if any(isinstance(row[n], float) and not row[n].is_integer() for row in rows if _is_known(row[n]))]
    body = [[_cell_text(n, v, n in broken) for n, v in row.items()] for row in rows]
    numeric = [n not in GROUP_COLUMNS and all(map(_is_number, (row[n] for row in rows))) for n in names]
    return [n.replace("_", " ") for n in names], body, numeric


def _is_known(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _cell_text(name: str, value: Any, broken: bool = False) -> str:
    """broken: whether the column has fractions, and therefore whole numbers as many decimals."""
    if name == "group" and value is None:
        return "all groups"
    if name in GROUP_COLUMNS and value is not None:
        return label_text(value)
    if name.startswith("p_") and isinstance(value, float):
        return p_text(value)
    if name in PEOPLE_COLUMNS and isinstance(value, float) and math.isfinite(value):
        return f"{value:,.0f}"
    if broken and isinstance(value, float) and value.is_integer() and abs(value) < 100_000:
        return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}"
    return number_text(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def printable(text: str, limit: int = 48) -> str:
    """Text for one cell or line of a terminal: no control characters, no endless labels."""
    clean = visible(text).replace("\n", "\ufffd")
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def shorten(text: str, limit: int) -> str:
    """A name in so many characters: long names often differ at their end, so the middle is left out.

    >>> shorten("people of the north-east", 16)
    'people o…th-east'
    """
    clean = printable(text, 400)
    if len(clean) <= limit:
        return clean
    end = (limit - 1) // 2
    return f"{clean[: limit - 1 - end]}…{clean[len(clean) - end :]}"


def text_table(rows: Sequence[dict[str, Any]], limit: int = ROWS, width: int = 80) -> str:
    """An aligned table for a terminal, numbers to the right; columns that do not fit side by side go on below, with the first ones.

    Before that, long names of columns take two lines, and, if that is not enough, long words are cut off. Reasons are sentences,
    and stand below the table.
    """
    if not rows:
        return "  (no rows)"
    reasons = _reasons(rows[:limit], width)
    header, body, numeric = cell_texts([{name: row[name] for name in row if name != "reason"} for row in rows[:limit]])
    body = [[printable(cell) for cell in line] for line in body]
    columns: list[list[Any]] = [[[name], [line[i] for line in body], numeric[i]] for i, name in enumerate(header)]
    n_keys = len(_keys(rows[0])) or 1
    if _table_width(columns) > width:
        for column in columns:
            column[0] = _two_lines(column[0][0])
    if _table_width(columns) > width:
        for column in columns:
            column[1] = [shorten(cell, min(CUT, width // 3)) for cell in column[1]]
    blocks = [_block(side) for side in _side_by_side(columns, n_keys, width)]
    more = [f"  ... {len(rows) - limit:,} more rows"] if len(rows) > limit else []
    return "\n".join(["\n\n".join(blocks), *more, *reasons])


def _keys(row: dict[str, Any]) -> list[str]:
    """The columns that a row begins with and that say what it is about: one or two groups, a metric, a score."""
    return list(itertools.takewhile(lambda name: name in GROUP_COLUMNS or name in KEY_COLUMNS, row))[:3]


def _reasons(rows: Sequence[dict[str, Any]], width: int) -> list[str]:
    """Why numbers are missing, a sentence for each reason with what it is about."""
    about: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if row.get("reason"):
            first, *others = (_cell_text(name, row[name]) for name in _keys(row) or list(row)[:1])
            about.setdefault(row["reason"], {}).setdefault(first, []).append(" ".join(others))
    texts = []
    for reason, found in about.items():
        names = [f"{first} ({', '.join(others)})" if all(others) and len(others) < 4 else first for first, others in found.items()]
        texts.append(f"{', '.join(printable(name) for name in names[:FEW])}{', ...' if len(names) > FEW else ''}: {reason}")
    return [line for text in texts for line in textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ")]


def _two_lines(name: str) -> list[str]:
    """A column's name, broken where the longer of both lines is shortest."""
    words = name.split(" ")
    if len(words) == 1:
        return [name]
    return min(([" ".join(words[:i]), " ".join(words[i:])] for i in range(1, len(words))), key=lambda lines: max(map(len, lines)))


def _column_width(column: list[Any]) -> int:
    return max(map(_width, [*column[0], *column[1]]))


def _table_width(columns: list[list[Any]]) -> int:
    return sum(_column_width(column) + 2 for column in columns)


def _side_by_side(columns: list[list[Any]], n_keys: int, width: int) -> list[list[list[Any]]]:
    """Columns in as many blocks as needed, each of them after those that say what a row is."""
    keys, rest = columns[:n_keys], columns[n_keys:]
    blocks = [list(keys)]
    for column in rest:
        if len(blocks[-1]) > n_keys and _table_width([*blocks[-1], column]) > width:
            blocks.append(list(keys))
        blocks[-1].append(column)
    return blocks


def _block(columns: list[list[Any]]) -> str:
    tall = max(len(column[0]) for column in columns)
    filled = [[*[""] * (tall - len(names)), *names, *cells] for names, cells, _ in columns]
    widths = [max(map(_width, cells)) for cells in filled]
    lines = (
        "  ".join(_pad(cell, width, num) for cell, width, (_, _, num) in zip(line, widths, columns, strict=True)).rstrip()
        for line in zip(*filled, strict=True)
    )
    return "\n".join(f"  {line}" for line in lines)


def _width(text: str) -> int:
    """Columns of a terminal that a text takes: East Asian letters and emoji take two."""
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _pad(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - _width(text))
    return blanks + text if right else text + blanks
