"""A calibrator applied to files of any size: DuckDB reads and writes them in batches, the map is an expression of its own SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenscore.calibration.calibrator import COUNTS, Calibrator, Counted, counts_by_group
from evenscore.calibration.map_sql import calibrated_score, column_names, group_condition
from evenscore.calibration.matching import UNKNOWN, Matched, match_groups, require_treatment
from evenscore.engines.sql import DUCKDB
from evenscore.engines.writing import (
    Stream,
    as_in_tallies,
    copy_with_column,
    count_groups,
    count_outside,
    open_stream,
    refuse_overwriting,
)
from evenscore.errors import DataError
from evenscore.naming import in_names
from evenscore.types import Say


@in_names
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
    overwrite: bool = False,
) -> Counted:
    """Write the files' rows with one more column, the calibrated score, to one CSV or Parquet file."""
    require_treatment(on_unknown, nulls)
    refuse_overwriting(data, out, overwrite)
    stream = open_stream(data, *column_names(calibrator, score or None, group or None), say)
    labels, n_rows, n_missing = count_groups(stream)
    if not n_rows:
        raise DataError("the data has no rows")
    if nulls == "error" and any(n_missing):
        raise DataError(f"the score is missing in {sum(n_missing):,} of {sum(n_rows):,} rows; nulls='keep' leaves them missing")
    known_as = as_in_tallies(stream, labels)
    matched = match_groups(known_as if len(labels) > 1 else known_as[0], calibrator.groups, len(n_rows), on_unknown, n_rows)
    conditions = _conditions(stream, labels, matched)
    maps = dict(enumerate(calibrator.maps)) | {-1: calibrator.pooled}
    ranges = dict(conditions)
    if on_unknown == "pooled" and (matched.places < 0).any():
        known = " OR ".join(f"({where})" for where in conditions.values()) or "FALSE"
        ranges[-1] = f"NOT coalesce({known}, FALSE)"
    outside = count_outside(stream, [(where, maps[place].low, maps[place].high) for place, where in ranges.items()])
    calibrated = calibrated_score(calibrator, DUCKDB, stream.score, conditions, on_unknown)
    copy_with_column(stream, calibrated, name, out, progress, overwrite=overwrite)
    counts = np.zeros((len(calibrator.maps) + 1, len(COUNTS)), dtype=np.int64)
    places = np.maximum(matched.places, UNKNOWN)
    np.add.at(counts[:, 0], places, n_rows)
    np.add.at(counts[:, 3], places, n_missing)
    for place, below_and_above in zip(ranges, outside, strict=True):
        counts[place, 1:3] = below_and_above
    return Counted(counts_by_group(calibrator.groups, COUNTS, counts), on_unknown)


def _conditions(stream: Stream, labels: list[Any], matched: Matched) -> dict[int, str]:
    """SQL that says whether a row is in a group, by the group's place; labels are written as the file has them."""
    conditions = {}
    for row, place in enumerate(matched.places.tolist()):
        if place >= 0:
            values = tuple(column[row].item() if isinstance(column[row], np.generic) else column[row] for column in labels)
            conditions[place] = group_condition(DUCKDB, stream.groups, values)
    return dict(sorted(conditions.items()))
