"""Which group each row is in, for labels of any kind; a label of another type is another label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenscore.data.coding import CHUNK
from evenscore.data.columns import Column, codes_of, find_column, nulls_in, numbers_in, shortened
from evenscore.data.groups import plain_label
from evenscore.errors import DataError, OptionError, listing, require_option
from evenscore.types import Floats, Ints, Mask

Places = NDArray[np.int16]

UNKNOWN, MISSING = -1, -2
ON_UNKNOWN = ("error", "pooled", "keep")
NULLS = ("error", "keep")


@dataclass(frozen=True, slots=True)
class Matched:
    """The place of each row's group among the known ones, (n_rows,), or UNKNOWN or MISSING; strangers: labels nobody knows."""

    places: Places
    strangers: tuple[Any, ...]

    def chunks(self, size: int) -> Iterator[tuple[slice, int, slice | Ints]]:
        """Cache-sized steps: some rows, a place that occurs among them (-1: unknown or missing), and which of them are there."""
        for start in range(0, len(self.places), size):
            chunk = slice(start, start + size)
            places = np.maximum(self.places[chunk], UNKNOWN)
            occurring = (np.flatnonzero(np.bincount(places - UNKNOWN)) + UNKNOWN).tolist()
            for place in occurring:
                yield chunk, place, slice(None) if len(occurring) == 1 else np.flatnonzero(places == place)


def require_treatment(on_unknown: str, nulls: str = "error") -> None:
    """What is done about groups without a map and rows without a score, one of the known ways."""
    require_option("on_unknown", on_unknown, ON_UNKNOWN)
    require_option("nulls", nulls, NULLS)


def read_scores(scores: Any, nulls: str) -> tuple[Floats, Mask | None]:
    """Scores as floats, and where they are missing (None: nowhere); anything else that is no number is an error."""
    column = find_column(None, np.array([scores]) if isinstance(scores, str) or np.isscalar(scores) else scores, "scores")
    if len(column) == 0:
        return np.zeros(0), None
    missing = nulls_in(column)
    if missing is not None and nulls == "error":
        column.refuse(missing, "is null or NaN", hint="nulls='keep' leaves such scores as NaN and counts them")
    scores_array = numbers_in(column, known=None if missing is None else ~missing).astype(np.float64, copy=False)
    if missing is None:
        return scores_array, None
    return np.where(missing, np.nan, scores_array), missing


def match_groups(
    groups: Any, labels: Sequence[Any], n_rows: int, on_unknown: str = "error", counts: Sequence[int] | None = None
) -> Matched:
    """Find each row's group; several columns in a list are an intersection, as for ``es.tally``.

    on_unknown: "error" refuses groups that are unknown or missing. counts: how many rows of a file each row stands for.
    """
    columns = [find_column(None, column, "groups") for column in _columns(groups, labels)]
    for column in columns:
        if len(column) != n_rows:
            raise DataError(f"groups has {len(column):,} values, scores has {n_rows:,}: they must have the same length")
    if n_rows == 0:
        return Matched(np.zeros(0, dtype=np.int16), ())
    if len(columns) == 1:
        matched = _match(columns[0], {_key(label): place for place, label in enumerate(labels)})
    else:
        matched = _match_intersection(columns, labels)
    if on_unknown == "error":
        _refuse_unknown(matched, labels, counts)
    return matched


def _columns(groups: Any, labels: Sequence[Any]) -> list[Any]:
    """The columns of an intersection, or the one column."""
    width = len(labels[0]) if labels and isinstance(labels[0], tuple) else 1
    if width == 1 or not isinstance(groups, list | tuple):
        return [groups]
    if len(groups) == width and not all(isinstance(group, tuple) for group in groups):
        return list(groups)
    if all(isinstance(group, tuple) and len(group) == width for group in groups):
        objects = np.empty(len(groups), dtype=object)
        objects[:] = list(groups)
        return [objects]
    raise OptionError(f"the groups are intersections of {width} columns: give a list of {width} arrays, or a list of tuples")


def _key(label: Any) -> tuple[Any, ...]:
    """What makes two labels the same: type and value, also inside an intersection."""
    if isinstance(label, tuple):
        return tuple(map(_key, label))
    label = plain_label(label)
    return (type(label), label)


def _match(column: Column, known: dict[tuple[Any, ...], int]) -> Matched:
    missing = nulls_in(column)
    if missing is not None and missing.all():
        return Matched(np.full(len(column), MISSING, dtype=np.int16), ())
    kept = column if missing is None else column.take(np.flatnonzero(~missing))
    codes, distinct = codes_of(kept, typed=True)
    keys = [_key(label) for label in distinct]
    table = np.array([known.get(key, UNKNOWN) for key in keys], dtype=np.int16)
    strangers = tuple(label for label, place in zip(distinct, table.tolist(), strict=True) if place == UNKNOWN)
    place_of_row = np.empty(len(codes), dtype=np.int16)
    for start in range(0, len(codes), CHUNK):
        place_of_row[start : start + CHUNK] = table[codes[start : start + CHUNK]]
    if missing is None:
        return Matched(place_of_row, strangers)
    places = np.full(len(column), MISSING, dtype=np.int16)
    places[~missing] = place_of_row
    return Matched(places, strangers)


def _match_intersection(columns: list[Column], labels: Sequence[Any]) -> Matched:
    """Codes of each column, then a table over their combinations."""
    choices = [list(dict.fromkeys(_key(label[i]) for label in labels)) for i in range(len(columns))]
    matched = [_match(column, {key: i for i, key in enumerate(keys)}) for column, keys in zip(columns, choices, strict=True)]
    table = np.full([len(keys) for keys in choices], UNKNOWN, dtype=np.int16)
    for place, label in enumerate(labels):
        table[tuple(keys.index(_key(value)) for keys, value in zip(choices, label, strict=True))] = place
    places = table[tuple(np.maximum(part.places, 0) for part in matched)]
    for part in matched:
        places[part.places < 0] = np.minimum(places, part.places)[part.places < 0]
    places[np.any([part.places == MISSING for part in matched], axis=0)] = MISSING
    unknown = np.flatnonzero(np.any([part.places == UNKNOWN for part in matched], axis=0) | (places == UNKNOWN))[:3]
    strangers = tuple(tuple(_at(column, row) for column in columns) for row in unknown.tolist())
    return Matched(places, strangers)


def _at(column: Column, row: int) -> Any:
    value = column.values[row]
    return value.item() if isinstance(value, np.generic) else value


def _refuse_unknown(matched: Matched, labels: Sequence[Any], counts: Sequence[int] | None) -> None:
    """Raise when a row's group is unknown or missing."""
    rows_of = np.ones(len(matched.places), dtype=np.int64) if counts is None else np.asarray(counts)
    n_unknown, n_missing = (int(rows_of[matched.places == kind].sum()) for kind in (UNKNOWN, MISSING))
    if not n_unknown and not n_missing:
        return
    wrong = [f"{n_unknown:,} unknown" if n_unknown else "", f"{n_missing:,} missing" if n_missing else ""]
    rows = ", ".join(map(str, np.flatnonzero(matched.places < 0)[:3].tolist()))
    where = f" (first rows, from 0: {rows})" if counts is None else ""
    shown = f", such as {listing(shortened(label) for label in matched.strangers[:5])}" if matched.strangers else ""
    alike = [label for label in labels if any(str(label) == str(other) for other in matched.strangers)]
    hint = (
        f"; {shortened(alike[0])} is known as {type(alike[0]).__name__}: labels of another type are other labels" if alike else ""
    )
    raise DataError(
        f"groups: {' and '.join(filter(None, wrong))} of {int(rows_of.sum()):,} labels{shown}{where}; "
        f"the calibrator knows {listing(map(repr, labels))}{hint}. "
        "on_unknown='pooled' gives them the pooled map, on_unknown='keep' leaves their scores as they are"
    )
