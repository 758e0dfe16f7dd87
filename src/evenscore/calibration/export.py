"""A calibrator for other engines: SQL text, and a lookup table as rows, CSV or Parquet. They give the numbers of ``transform``."""

from __future__ import annotations

import csv
import datetime
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenscore.calibration.maps import GroupMap, Segment
from evenscore.data.columns import shortened
from evenscore.engines.sql import DUCKDB
from evenscore.errors import EvenscoreError, OptionError, require_option, require_sequence, require_text
from evenscore.saving import named, write_whole

if TYPE_CHECKING:
    from evenscore.calibration.calibrator import Calibrator

STYLES = ("case", "join")
ON_UNKNOWN = ("null", "pooled", "keep")
PIECE = ("score_from", "score_to", "origin", "value", "slope")

quoted = DUCKDB.name


# SQL


def to_sql(
    calibrator: Calibrator,
    *,
    style: str = "case",
    table: str | None = None,
    score: str | None = None,
    group: str | Sequence[str] | None = None,
    name: str = "calibrated",
    on_unknown: str = "null",
) -> str:
    """SQL for the calibrated score: a CASE expression, or a SELECT that joins a table of pieces."""
    require_option("style", style, STYLES)
    require_option("on_unknown", on_unknown, ON_UNKNOWN)
    require_text("name", name)
    score, groups = column_names(calibrator, score, group)
    score_sql, group_sql = quoted(score), [quoted(each) for each in groups]
    table = None if table is None else _table_sql(table)
    refuse_equal_texts(calibrator.groups)
    if style == "case":
        expression = case_expression(calibrator, score_sql, group_sql, on_unknown)
        return expression if table is None else f"SELECT *, {expression} AS {quoted(name)} FROM {table}"
    if table is None:
        raise OptionError("style='join' needs table=, the table with the scores")
    return _join(calibrator, table, score_sql, group_sql, name, on_unknown)


def _table_sql(table: str) -> str:
    """A table by its name; schema.table and what is quoted already stay as they are, any other text becomes one quoted name."""
    require_text("table", table)
    return table if re.fullmatch(r"""([A-Za-z_]\w*|"[^"]+"|`[^`]+`)(\.([A-Za-z_]\w*|"[^"]+"|`[^`]+`))*""", table) else quoted(table)


def column_names(calibrator: Calibrator, score: str | None, group: str | Sequence[str] | None) -> tuple[str, list[str]]:
    """The columns by name, those of the training data by default."""
    known = calibrator.columns
    if score is None or group is None:
        if known is None:
            raise OptionError("name the columns: score=... and group=...")
        score, group = known.score if score is None else score, known.group if group is None else group
    names = [group] if isinstance(group, str) else list(require_sequence("group", group))
    for role, value in (("score", score), *(("group", each) for each in names)):
        require_text(role, value)
    width = len(calibrator.groups[0]) if isinstance(calibrator.groups[0], tuple) else 1
    if len(names) != width:
        raise OptionError(f"the calibrator's groups are made of {width} columns; group= names {len(names)}")
    return score, names


def case_expression(calibrator: Calibrator, score: str, groups: Sequence[str], on_unknown: str) -> str:
    """CASE WHEN group = ... THEN CASE WHEN score < ... END ... END; a missing score stays missing."""
    lines = [f"CASE WHEN {score} IS NULL THEN NULL"]
    for each in calibrator.maps:
        lines.append(f"  WHEN {_is_group(groups, each.group)} THEN {map_expression(each, score)}")
    other = {"null": "NULL", "keep": score, "pooled": map_expression(calibrator.pooled, score)}[on_unknown]
    return "\n".join([*lines, f"  ELSE {other} END"])


def map_expression(each: GroupMap, score: str) -> str:
    """One group's map of a column."""
    segments = each.segments()
    pieces = [f"    WHEN {score} < {number(piece.end)} THEN {_line(piece, score)}" for piece in segments[:-1]]
    last = _line(segments[-1], score)
    return "\n".join(["CASE", *pieces, f"    ELSE {last} END"]) if pieces else last


def _line(piece: Segment, score: str) -> str:
    if piece.slope == 0:
        return number(piece.value)
    if (piece.origin, piece.value, piece.slope) == (0.0, 0.0, 1.0):
        return score
    return f"{number(piece.value)} + {number(piece.slope)} * ({score} - {number(piece.origin)})"


def _is_group(columns: Sequence[str], label: Any) -> str:
    parts = label if isinstance(label, tuple) else (label,)
    return " AND ".join(f"{column} = {literal(part)}" for column, part in zip(columns, parts, strict=True))


def _join(calibrator: Calibrator, table: str, score: str, groups: list[str], name: str, on_unknown: str) -> str:
    """A join on group and score_from <= score < score_to, in words that every SQL has."""
    keys = [f"group_{i + 1}" for i in range(len(groups))]
    rows = [
        f"    ({', '.join([literal(part) for part in _parts(each.group)] + [number(value) for value in piece])})"
        for each in calibrator.maps
        for piece in each.segments()
    ]
    header = ", ".join([*keys, *PIECE])
    matches = [f"rows_to_score.{column} = pieces.{key}" for column, key in zip(groups, keys, strict=True)]
    column = f"rows_to_score.{score}"
    within = f"{column} >= pieces.score_from AND {column} < pieces.score_to"
    found = f"pieces.value + pieces.slope * ({column} - pieces.origin)"
    if on_unknown != "null":
        other = column if on_unknown == "keep" else map_expression(calibrator.pooled, column)
        found = f"CASE WHEN pieces.value IS NOT NULL OR {column} IS NULL THEN {found} ELSE {other} END"
    return (
        f"WITH pieces ({header}) AS (VALUES\n" + ",\n".join(rows) + "\n)\n"
        f"SELECT rows_to_score.*, {found} AS {quoted(name)}\n"
        f"FROM {table} AS rows_to_score\n"
        f"LEFT JOIN pieces ON {' AND '.join(matches)} AND {within}"
    )


def number(value: float) -> str:
    """A float in SQL: with an exponent, so that it is a double and not a decimal."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def literal(label: Any) -> str:
    """A label in SQL."""
    if isinstance(label, bool):
        return "TRUE" if label else "FALSE"
    if isinstance(label, int):
        return str(label)
    if isinstance(label, float):
        return number(label)
    if isinstance(label, str):
        return DUCKDB.literal(label)
    if isinstance(label, datetime.datetime):
        return f"TIMESTAMP '{label.isoformat(sep=' ')}'"
    if isinstance(label, datetime.date):
        return f"DATE '{label.isoformat()}'"
    raise EvenscoreError(
        f"group label {shortened(label)} is of type {type(label).__name__} and cannot be written in SQL; turn the column into text"
    )


# Lookup tables


def lookup_rows(calibrator: Calibrator) -> list[dict[str, Any]]:
    """The pieces of all maps: value + slope (s - origin) for score_from <= s < score_to; the map of everybody last (group None)."""
    names = _group_names(calibrator)
    return [
        dict(zip(names, _parts(each.group) if each.group is not None else [None] * len(names), strict=True))
        | dict(zip(PIECE, piece, strict=True))
        for each in (*calibrator.maps, calibrator.pooled)
        for piece in each.segments()
    ]


def save_lookup(calibrator: Calibrator, path: Path) -> None:
    """Write the lookup table as CSV or Parquet, whole or not at all."""
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise OptionError(f"{named(path)}: a lookup table is written as .csv or .parquet")
    rows = lookup_rows(calibrator)
    names = _group_names(calibrator)
    text = kind == ".csv" or not _one_type(calibrator)
    if text:
        refuse_equal_texts(calibrator.groups)
        rows = [row | {name: None if row[name] is None else _as_text(row[name]) for name in names} for row in rows]
    if kind == ".csv":
        write_whole(path, _csv(rows))
        return
    from evenscore.engines.writing import write_parquet

    write_parquet(rows, path)


def _csv(rows: list[dict[str, Any]]) -> bytes:
    """CSV with floats as Python writes them, which is exact."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue().encode("utf-8", "backslashreplace")


def _group_names(calibrator: Calibrator) -> list[str]:
    width = len(calibrator.groups[0]) if isinstance(calibrator.groups[0], tuple) else 1
    known = list(calibrator.columns.group) if calibrator.columns is not None else []
    usable = len(known) == width and not set(known) & set(PIECE)
    return known if usable else ["group"] if width == 1 else [f"group_{i + 1}" for i in range(width)]


def _parts(label: Any) -> list[Any]:
    return list(label) if isinstance(label, tuple) else [label]


def _one_type(calibrator: Calibrator) -> bool:
    """Whether each group column has labels of one plain type."""
    columns = zip(*map(_parts, calibrator.groups), strict=True)
    kinds = [{type(part) for part in column} for column in columns]
    return all(len(kind) == 1 and kind <= {str, int, float, bool} for kind in kinds)


def _as_text(label: Any) -> str:
    return label if isinstance(label, str) else str(label)


def refuse_equal_texts(labels: Sequence[Any]) -> None:
    """Labels that become one text, such as 1 and "1", cannot be told apart where labels are text."""
    seen: dict[tuple[str, ...], Any] = {}
    for label in labels:
        text = tuple(_as_text(part) for part in _parts(label))
        if text in seen:
            raise EvenscoreError(
                f"group labels {shortened(seen[text])} and {shortened(label)} are the same text; rename one before the export"
            )
        seen[text] = label
