"""A calibrator applied to files of any size: DuckDB reads and writes them in batches, the map is an expression of its own SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenscore.calibration.calibrator import NULLS, ON_UNKNOWN, Calibrator, Counted
from evenscore.calibration.export import literal, map_expression
from evenscore.calibration.matching import Matched, match_groups, refuse_unknown
from evenscore.engines.writing import Stream, copy_with_column, count_groups, count_outside, open_stream, refuse_overwriting
from evenscore.errors import DataError, OptionError, require_option
from evenscore.types import Say


def apply_files(
    calibrator: Calibrator,
    data: Any,
    out: Path,
    *,
    score: str | None = None,
    group: str | Sequence[str] | None = None,
    name: str = "calibrated",
    on_unknown: str = "error",
    nulls: str = "error",
    progress: Callable[[float], None] | None = None,
    say: Say | None = None,
) -> Counted:
    """Write the files' rows with one more column, the calibrated score, to one CSV or Parquet file."""
    require_option("on_unknown", on_unknown, ON_UNKNOWN)
    require_option("nulls", nulls, NULLS)
    refuse_overwriting(data, out)
    stream = open_stream(data, *_names(calibrator, score, group), say)
    labels, n_rows, n_missing = count_groups(stream)
    if not n_rows:
        raise DataError("the data has no rows")
    if nulls == "error" and any(n_missing):
        raise DataError(f"the score is missing in {sum(n_missing):,} of {sum(n_rows):,} rows; nulls='keep' leaves them missing")
    matched = match_groups(labels if len(labels) > 1 else labels[0], calibrator.groups, len(n_rows))
    if on_unknown == "error":
        refuse_unknown(matched, calibrator.groups, n_rows)
    conditions = _conditions(stream, labels, matched)
    maps = dict(enumerate(calibrator.maps)) | {-1: calibrator.pooled}
    ranges = dict(conditions)
    if on_unknown == "pooled" and (matched.places < 0).any():
        known = " OR ".join(f"({where})" for where in conditions.values()) or "FALSE"
        ranges[-1] = f"NOT coalesce({known}, FALSE)"
    outside = count_outside(stream, [(where, maps[place].low, maps[place].high) for place, where in ranges.items()])
    copy_with_column(stream, _expression(calibrator, stream, conditions, on_unknown), name, out, progress)
    beyond = dict(zip(ranges, outside, strict=True))
    return Counted(_counts(calibrator, matched, n_rows, n_missing, beyond), on_unknown)


def _names(calibrator: Calibrator, score: str | None, group: str | Sequence[str] | None) -> tuple[str, list[str]]:
    known = calibrator.columns
    names = [group] if isinstance(group, str) else list(group) if group else list(known.group) if known else []
    score = score or (known.score if known else None)
    if score is None or not names:
        raise OptionError("name the columns of the score and of the group")
    return score, names


def _conditions(stream: Stream, labels: list[Any], matched: Matched) -> dict[int, str]:
    """SQL that says whether a row is in a group, by the group's place; labels are written as the file has them."""
    found = {}
    for row, place in enumerate(matched.places.tolist()):
        if place >= 0:
            parts = [_plain(column[row]) for column in labels]
            found[place] = " AND ".join(f"{column} = {literal(part)}" for column, part in zip(stream.groups, parts, strict=True))
    return dict(sorted(found.items()))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _expression(calibrator: Calibrator, stream: Stream, conditions: dict[int, str], on_unknown: str) -> str:
    cases = [f"WHEN {where} THEN {map_expression(calibrator.maps[place], stream.score)}" for place, where in conditions.items()]
    other = map_expression(calibrator.pooled, stream.score) if on_unknown == "pooled" else stream.score
    return "\n".join(["CASE", *cases, f"ELSE {other} END"]) if cases else other


def _counts(
    calibrator: Calibrator, matched: Matched, n_rows: list[int], n_missing: list[int], beyond: dict[int, tuple[int, int]]
) -> tuple[dict[str, Any], ...]:
    places = np.maximum(matched.places, -1)
    found = []
    for place in [*range(len(calibrator.maps)), -1]:
        mine = np.flatnonzero(places == place)
        if place < 0 and len(mine) == 0:
            continue
        below, above = beyond.get(place, (0, 0))
        found.append(
            {
                "group": calibrator.groups[place] if place >= 0 else None,
                "known": place >= 0,
                "rows": sum(n_rows[row] for row in mine),
                "below": below,
                "above": above,
                "null_scores": sum(n_missing[row] for row in mine),
            }
        )
    return tuple(found)
