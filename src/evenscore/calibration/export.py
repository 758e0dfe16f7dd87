"""A calibrator for other engines: SQL text, and a lookup table as rows, CSV or Parquet. They give the numbers of ``transform``."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenscore.calibration.map_sql import calibrated_score, column_names, group_condition, label_values, map_expression
from evenscore.data.columns import shortened
from evenscore.engines.sql import DUCKDB as SQL  # in what is written here, DuckDB's is standard SQL
from evenscore.errors import EvenscoreError, OptionError, require_option, require_text
from evenscore.saving import named, write_whole

if TYPE_CHECKING:
    from evenscore.calibration.calibrator import Calibrator

STYLES = ("case", "join")
ON_UNKNOWN = ("null", "pooled", "keep")
NAME = r"""([A-Za-z_]\w*|"[^"]+"|`[^`]+`)"""
TABLE_NAME = re.compile(rf"{NAME}(\.{NAME})*")
PIECE = ("score_from", "score_to", "origin", "value", "slope")


# SQL


def to_sql(
    calibrator: Calibrator,
    *,
    style: str,
    table: str | None,
    score: str | None,
    group: str | Sequence[str] | None,
    name: str,
    on_unknown: str,
) -> str:
    """SQL for the calibrated score: a CASE expression, or a SELECT that joins a table of pieces."""
    require_option("style", style, STYLES)
    require_option("on_unknown", on_unknown, ON_UNKNOWN)
    require_text("name", name)
    score, groups = column_names(calibrator, score, group)
    score_sql, group_sql, name_sql = SQL.name(score), [SQL.name(column) for column in groups], SQL.name(name)
    table = None if table is None else _table_sql(table)
    refuse_equal_texts(calibrator.groups)
    if style == "case":
        conditions = {place: group_condition(SQL, group_sql, label) for place, label in enumerate(calibrator.groups)}
        expression = calibrated_score(
            calibrator, SQL, score_sql, conditions, on_unknown, missing=f"{score_sql} IS NULL", listed=sys.maxsize
        )
        return expression if table is None else f"SELECT *, {expression} AS {name_sql} FROM {table}"
    if table is None:
        raise OptionError("style='join' needs table=, the table with the scores")
    return _join(calibrator, table, score_sql, group_sql, name_sql, on_unknown)


def _table_sql(table: str) -> str:
    """A table by its name; schema.table and what is quoted already stay as they are, any other text becomes one quoted name."""
    require_text("table", table)
    return table if TABLE_NAME.fullmatch(table) else SQL.name(table)


def _join(calibrator: Calibrator, table: str, score: str, groups: list[str], name: str, on_unknown: str) -> str:
    """A join on group and score_from <= score < score_to, in words that every SQL has."""
    keys = [f"group_{i + 1}" for i in range(len(groups))]
    rows = [
        f"    ({', '.join(map(SQL.literal, (*label_values(group_map.group), *piece)))})"
        for group_map in calibrator.maps
        for piece in group_map.segments()
    ]
    header = ", ".join([*keys, *PIECE])
    matches = [f"rows_to_score.{column} = pieces.{key}" for column, key in zip(groups, keys, strict=True)]
    column = f"rows_to_score.{score}"
    within = f"{column} >= pieces.score_from AND {column} < pieces.score_to"
    calibrated = f"pieces.value + pieces.slope * ({column} - pieces.origin)"
    if on_unknown != "null":
        other = column if on_unknown == "keep" else map_expression(calibrator.pooled.segments(), SQL, column, sys.maxsize)
        calibrated = f"CASE WHEN pieces.value IS NOT NULL OR {column} IS NULL THEN {calibrated} ELSE {other} END"
    return (
        f"WITH pieces ({header}) AS (VALUES\n" + ",\n".join(rows) + "\n)\n"
        f"SELECT rows_to_score.*, {calibrated} AS {name}\n"
        f"FROM {table} AS rows_to_score\n"
        f"LEFT JOIN pieces ON {' AND '.join(matches)} AND {within}"
    )


# Lookup tables


def lookup_rows(calibrator: Calibrator) -> list[dict[str, Any]]:
    """The pieces of all maps: value + slope (s - origin) for score_from <= s < score_to; the pooled map last (group None)."""
    names = _group_names(calibrator)
    return [
        dict(zip(names, label_values(group_map.group) if group_map.group is not None else [None] * len(names), strict=True))
        | dict(zip(PIECE, piece, strict=True))
        for group_map in (*calibrator.maps, calibrator.pooled)
        for piece in group_map.segments()
    ]


def save_lookup(calibrator: Calibrator, path: Path) -> None:
    """Write the lookup table as CSV or Parquet, whole or not at all."""
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise OptionError(f"{named(path)}: a lookup table is written as .csv or .parquet")
    require_utf8(calibrator.groups)
    rows = lookup_rows(calibrator)
    names = _group_names(calibrator)
    text = kind == ".csv" or not _one_type(calibrator)
    if text:
        refuse_equal_texts(calibrator.groups)
        rows = [row | {name: None if row[name] is None else _as_text(row[name]) for name in names} for row in rows]
    if kind == ".csv":
        write_whole(path, _csv(rows), data=True)
        return
    from evenscore.engines.writing import write_parquet

    write_parquet(rows, path)


def _csv(rows: list[dict[str, Any]]) -> bytes:
    """CSV with floats as Python writes them, which is exact."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue().encode("utf-8")


def _group_names(calibrator: Calibrator) -> list[str]:
    width = len(label_values(calibrator.groups[0]))
    known = list(calibrator.columns.group) if calibrator.columns is not None else []
    taken = {*PIECE, *(name.lower() for name in known)}  # engines take names that differ in case alone for one
    usable = len(known) == width and len(taken) == len(PIECE) + width and all(map(_is_name, known))
    return known if usable else ["group"] if width == 1 else [f"group_{i + 1}" for i in range(width)]


def _is_name(name: str) -> bool:
    """Whether a column of a file can be called so."""
    return bool(name) and "\x00" not in name and is_utf8(name)


def _one_type(calibrator: Calibrator) -> bool:
    """Whether each group column has labels of one plain type, and no integers that files have no type for."""
    columns = list(zip(*map(label_values, calibrator.groups), strict=True))
    kinds = [{type(value) for value in column} for column in columns]
    plain = all(len(kind) == 1 and kind <= {str, int, float, bool} for kind in kinds)
    return plain and all(is_int64(value) for column in columns for value in column if type(value) is int)


def _as_text(label: Any) -> str:
    return label if isinstance(label, str) else str(label)


def is_int64(value: int) -> bool:
    """Whether an integer is one in other engines, too."""
    return -(2**63) <= value < 2**63


def is_utf8(text: str) -> bool:
    """Whether text can be written: half of a surrogate pair cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def require_utf8(labels: Sequence[Any]) -> None:
    """Labels that other programs can read."""
    for label in labels:
        if not all(is_utf8(_as_text(value)) for value in label_values(label)):
            raise EvenscoreError(
                f"group label {shortened(label)} holds half of a surrogate pair, which no file can: repair the text, then fit again"
            )


def refuse_equal_texts(labels: Sequence[Any]) -> None:
    """Labels that become one text, such as 1 and "1", cannot be told apart where labels are text."""
    seen: dict[tuple[str, ...], Any] = {}
    for label in labels:
        text = tuple(_as_text(value) for value in label_values(label))
        if text in seen:
            raise EvenscoreError(
                f"group labels {shortened(seen[text])} and {shortened(label)} are the same text; rename one before the export"
            )
        seen[text] = label
