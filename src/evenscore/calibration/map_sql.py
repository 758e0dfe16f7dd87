"""The calibrated score of a row as an SQL expression: for the text of ``to_sql``, for engines, and for files that DuckDB reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenscore.calibration.maps import Segment
from evenscore.engines.sql import Dialect
from evenscore.errors import OptionError, require_sequence, require_text

if TYPE_CHECKING:
    from evenscore.calibration.calibrator import Calibrator

LISTED = 4  # pieces that an engine compares one by one; more are searched by halves, which takes nine comparisons for 512


def column_names(calibrator: Calibrator, score: str | None, group: str | Sequence[str] | None) -> tuple[str, list[str]]:
    """The columns by name, those of the training data by default."""
    known = calibrator.columns
    if score is None or group is None:
        if known is None:
            raise OptionError("name the columns: score=... and group=...")
        score, group = known.score if score is None else score, known.group if group is None else group
    names = [group] if isinstance(group, str) else list(require_sequence("group", group))
    for role, value in (("score", score), *(("group", name) for name in names)):
        require_text(role, value)
    width = len(label_values(calibrator.groups[0]))
    if len(names) != width:
        raise OptionError(f"the calibrator's groups are made of {width} columns; group= names {len(names)}")
    return score, names


def label_values(label: Any) -> tuple[Any, ...]:
    """The values of a group's columns."""
    return label if isinstance(label, tuple) else (label,)


def group_condition(dialect: Dialect, columns: Sequence[str], label: Any) -> str:
    """Whether a row is in a group."""
    return " AND ".join(f"{column} = {dialect.literal(value)}" for column, value in zip(columns, label_values(label), strict=True))


def calibrated_score(
    calibrator: Calibrator,
    dialect: Dialect,
    score: str,
    conditions: Mapping[int, str],
    on_unknown: str,
    *,
    missing: str | None = None,
    listed: int = LISTED,
) -> str:
    """SQL for the calibrated score of a row.

    score: SQL for the score as a double. conditions: SQL for whether a row is in a group, by the group's place. missing: SQL for
    whether there is no score, which then stays missing. listed: see ``map_expression``.
    """
    branches = [] if missing is None else [(missing, "NULL")]
    for place, condition in conditions.items():
        branches.append((condition, map_expression(calibrator.maps[place].segments(), dialect, score, listed)))
    other = "NULL" if on_unknown == "null" else score
    if on_unknown == "pooled":
        other = map_expression(calibrator.pooled.segments(), dialect, score, listed)
    return _case(branches, other, "  ")


def map_expression(pieces: Sequence[Segment], dialect: Dialect, score: str, listed: int) -> str:
    """One map: up to ``listed`` pieces one after the other, as people read it; more of them by halves, as engines are fast."""
    if len(pieces) > listed:
        half = len(pieces) // 2
        low, high = (map_expression(some, dialect, score, listed) for some in (pieces[:half], pieces[half:]))
        return f"CASE WHEN {score} < {dialect.literal(pieces[half].start)} THEN {low} ELSE {high} END"
    lines = [_line(piece, dialect, score) for piece in pieces]
    ends = [f"{score} < {dialect.literal(piece.end)}" for piece in pieces[:-1]]
    return _case(list(zip(ends, lines[:-1], strict=True)), lines[-1], "    ")


def _line(piece: Segment, dialect: Dialect, score: str) -> str:
    if piece.slope == 0:
        return dialect.literal(piece.value)
    if (piece.origin, piece.value, piece.slope) == (0.0, 0.0, 1.0):
        return score
    value, slope, origin = map(dialect.literal, (piece.value, piece.slope, piece.origin))
    return f"{value} + {slope} * ({score} - {origin})"


def _case(branches: Sequence[tuple[str, str]], other: str, indent: str) -> str:
    if not branches:
        return other
    lines = [f"{indent}WHEN {condition} THEN {value}" for condition, value in branches]
    return "\n".join(["CASE", *lines, f"{indent}ELSE {other} END"])
