"""Ranked items from any frame, file or stream, brought query by query and given their calibrated scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.maps import GroupMap
from evenscore.data.columns import common_length, find_column, numbers_in, open_table
from evenscore.data.groups import group_columns, groups_of
from evenscore.data.observations import users_of, without_nulls
from evenscore.engines import collect
from evenscore.errors import DataError, OptionError
from evenscore.types import Floats, Ints
from evenscore.wording import dropped_words


@dataclass(frozen=True, slots=True)
class Items:
    """Items query by query: query, group and user codes, scores and calibrated scores, (n_items,) each; user None: none given."""

    query: Ints
    score: Floats
    calibrated: Floats
    group: NDArray[np.uint8]
    user: Ints | None

    def __len__(self) -> int:
        return len(self.score)

    def at(self, rows: Any) -> Items:
        """Some of the items."""
        user = None if self.user is None else self.user[rows]
        return Items(self.query[rows], self.score[rows], self.calibrated[rows], self.group[rows], user)


def read_items(
    data: Any, roles: dict[str, Any], nulls: str, calibrator: Calibrator, on_unknown: str
) -> tuple[Items, tuple[Any, ...], list[GroupMap], str | None, tuple[str, ...]]:
    """Items in the order of their queries, labels and maps of the groups, the kind of frame, and what was left out.

    roles: the columns query, score, group and user.
    """
    table, kind = open_table(_join_stream(data, roles) if isinstance(data, Iterator) else collect(data, roles))
    columns = [find_column(table, roles[role], role) for role in ("query", "score")] + group_columns(table, roles["group"])
    if roles["user"] is not None:
        columns.append(find_column(table, roles["user"], "user"))
    common_length(table, columns)
    columns, _, dropped = without_nulls(columns, nulls)
    by_role = {column.role: column for column in columns}
    codes, labels = groups_of([column for column in columns if column.role == "group"])
    scores = numbers_in(by_role["score"]).astype(np.float64, copy=False)
    queries = users_of(by_role["query"]).codes.astype(np.int64, copy=False)
    users = users_of(by_role["user"]).compact().codes.astype(np.int64, copy=False) if "user" in by_role else None
    maps = [calibrator.map_of(label, unknown=on_unknown) for label in labels]
    calibrated = np.empty(len(scores))
    for code, group_map in enumerate(maps):
        rows = np.flatnonzero(codes == code)
        calibrated[rows] = group_map.at(scores[rows])
    items = Items(queries, scores, calibrated, codes, users)
    if (queries[1:] < queries[:-1]).any():
        items = items.at(np.argsort(queries, kind="stable"))
    notes = tuple(dropped_words(dropped, "item"))
    return items, labels, maps, kind, notes


def _join_stream(chunks: Iterator[Any], roles: dict[str, Any]) -> dict[str, Any]:
    """The needed columns of a stream of frames, side by side; a query may be spread over any of them."""
    wanted = [value if isinstance(value, list | tuple) else [value] for value in roles.values() if value is not None]
    names = [name for columns in wanted for name in columns]
    if not all(isinstance(name, str) for name in names):
        raise OptionError("with a stream of frames, name columns instead of giving arrays")
    arrays: dict[str, list[Any]] = {name: [] for name in names}
    for chunk in chunks:
        table, _ = open_table(chunk)
        for name, pieces in arrays.items():
            values = find_column(table, name, name).values
            pieces.append(np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values))
    if not next(iter(arrays.values())):
        raise DataError("the stream holds no frames")
    return {name: np.concatenate(pieces) for name, pieces in arrays.items()}
