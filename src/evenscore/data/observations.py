"""The border: any frame or arrays become aligned, checked, coded columns.

Nothing behind this module knows what kind of frame the data came in.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from evenscore.data.coding import NO_MICROSECONDS, Users, coded_users, independent_users, integer_users, types_in
from evenscore.data.columns import (
    LARGEST,
    Column,
    chunk_slices,
    codes_of,
    common_length,
    find_column,
    nulls_in,
    numbers_in,
    open_table,
    shortened,
    to_numpy,
)
from evenscore.data.groups import group_columns, groups_of
from evenscore.data.splits import Split
from evenscore.errors import DataError
from evenscore.types import Array, Floats, Ints, Mask

if TYPE_CHECKING:
    from evenscore.data.spec import TallySpec

MAX_REPEATED = 200_000_000  # people that rows with a count may stand for in one tally
NULLS = ("error", "drop", "unlabelled")
EXACT = 2**53  # from here on floats skip integers
SMALLEST = 1 / LARGEST  # what is divided by a sum of weights must be finite, too
SCALE_WEIGHTS = "give all weights larger units, or make it 0"


@dataclass(frozen=True, slots=True)
class Columns:
    """What each column is called, for messages and for the record."""

    score: str
    outcome: str
    group: tuple[str, ...]
    user: str | None
    weight: str | None = None
    count: str | None = None


@dataclass(frozen=True, slots=True)
class Observations:
    """Aligned columns of n_rows rows.

    score, outcome: numeric (n_rows,); outcome is anything where ``labelled`` is False. group: codes (n_rows,) into ``groups``.
    weight, count: (n_rows,) or None. labelled: bool (n_rows,) or None when every outcome is known. binary: every known outcome
    is 0 or 1. dropped: rows left out, by column. frame: the kind of frame the data came in. items: what else rows share, a job or a
    day, coded as users are, and item: what that column is called; None without one.
    """

    score: Array
    outcome: Array
    group: NDArray[np.uint8]
    groups: tuple[Any, ...]
    users: Users
    columns: Columns
    binary: bool
    weight: Floats | None = None
    count: Ints | None = None
    labelled: Mask | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    frame: str | None = None
    items: Users | None = None
    item: str | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows, before counts repeat them."""
        return len(self.score)


def observe(data: Any, spec: TallySpec) -> Observations:
    """Check and code the columns of a frame, a dict of arrays, or (data=None) arrays alone."""
    table, kind = open_table(data)
    columns = [find_column(table, spec.score, "score"), find_column(table, spec.outcome, "outcome")]
    columns += group_columns(table, spec.group)
    for role in ("user", "item", "weight", "count"):
        if getattr(spec, role) is not None:
            columns.append(find_column(table, getattr(spec, role), role))
    common_length(table, columns)
    columns, labelled, dropped = without_nulls(columns, spec.nulls)
    of_groups = [column for column in columns if column.role == "group"]
    by_role = {column.role: column for column in columns}
    names = {role: column.name for role, column in by_role.items()}
    scores = numbers_in(by_role["score"])
    outcomes = numbers_in(by_role["outcome"], known=labelled)
    codes, labels = groups_of(of_groups)
    observations = Observations(
        score=scores,
        outcome=outcomes,
        group=codes,
        groups=labels,
        users=users_of(by_role["user"]) if "user" in by_role else independent_users(len(scores)),
        columns=Columns(
            names["score"],
            names["outcome"],
            tuple(column.name for column in of_groups),
            names.get("user"),
            names.get("weight"),
            names.get("count"),
        ),
        binary=False,
        weight=weights_of(by_role["weight"]) if "weight" in by_role else None,
        count=_counts(by_role["count"]) if "count" in by_role else None,
        labelled=labelled,
        dropped=dropped,
        frame=kind,
        items=users_of(by_role["item"]) if "item" in by_role else None,
        item=names.get("item"),
    )
    observations = _only_counted(observations)
    return replace(observations, binary=is_binary(observations.outcome, observations.labelled))


def _only_counted(observations: Observations) -> Observations:
    """Without rows of weight 0 or repeated 0 times: they are nobody's, and must not change anything."""
    sizes = [size for size in (observations.weight, observations.count) if size is not None]
    if all(size.min() > 0 for size in sizes):
        return observations
    counted = np.logical_and.reduce([size > 0 for size in sizes])
    if not counted.any():
        raise nobody_counts(observations.n_rows)
    kept = take_rows(observations, counted)
    return replace(kept, users=independent_users(kept.n_rows)) if kept.users.independent else kept


def nobody_counts(n_rows: int) -> DataError:
    """The error when every row has a weight or a count of 0."""
    return DataError(f"weight or count is zero in each of the {n_rows:,} rows")


def one_row_each(observations: Observations) -> Observations:
    """Independent rows that stand for several people, as that many rows: each of them is a person of its own."""
    if observations.count is None or not observations.users.independent:
        return observations
    total = int(observations.count.sum())
    if total > MAX_REPEATED:
        raise DataError(
            f"with user=None every repeat of a row is a person of its own, and count adds up to {total:,} of them; at most "
            f"{MAX_REPEATED:,} can be tallied at once: tally parts of the rows on one lattice and add the tallies"
        )
    rows = np.repeat(np.arange(observations.n_rows), observations.count)
    return replace(_take_rows(replace(observations, count=None), rows), users=independent_users(total))


def keep_split(observations: Observations, split: Split | None) -> Observations:
    """The rows of the users in a split; all rows without one."""
    if split is None:
        return observations
    kept = rows_in_split(split, who_is_split(observations))
    if not kept.any():
        raise empty_split(split, observations.n_rows)
    return take_rows(observations, kept)


def who_is_split(observations: Observations) -> Users:
    """Users; but items where each is in one group only while users are in several: halves that share items share their noise."""
    items = observations.items
    if items is None or not _one_group_each(items, observations) or _one_group_each(observations.users, observations):
        return observations.users
    return items


def _one_group_each(ids: Users, observations: Observations) -> bool:
    codes = np.unique(ids.codes, return_inverse=True)[1].astype(np.int64)
    return len(np.unique(codes * len(observations.groups) + observations.group)) == int(codes.max()) + 1


def take_rows(observations: Observations, rows: Mask) -> Observations:
    """The observations of these rows only."""
    users = observations.users
    return replace(_take_rows(observations, rows), users=replace(users, codes=users.codes[rows]))


def _take_rows(observations: Observations, rows: Mask | Ints) -> Observations:
    """Every column but the users with only these rows."""
    columns = {name: getattr(observations, name) for name in ("score", "outcome", "group", "weight", "count", "labelled")}
    items = observations.items
    kept = {name: column[rows] for name, column in columns.items() if column is not None}
    return replace(observations, **kept, items=None if items is None else replace(items, codes=items.codes[rows]))


def empty_split(split: Split, n_rows: int) -> DataError:
    """The error for a split that nobody is in."""
    return DataError(f"split={shortened(str(split))} holds none of the users of these {n_rows:,} rows")


def rows_in_split(split: Split, users: Users) -> Mask:
    """Which rows belong to users in the split; every user is hashed once where codes are dense."""
    if users.span <= len(users.codes):
        return split.holds(users.hashes(np.arange(users.span) + users.low))[users.codes.astype(np.int64) - users.low]
    return np.concatenate(
        [split.holds(users.hashes(users.codes[rows].astype(np.int64))) for rows in chunk_slices(len(users.codes))]
    )


# Nulls


def without_nulls(columns: list[Column], nulls: str) -> tuple[list[Column], Mask | None, dict[str, int]]:
    """The columns without rows that have nulls, which rows are labelled (None = all), and rows left out by column; or an error."""
    missing: dict[int, Mask] = {}
    labelled = None
    for i, column in enumerate(columns):
        mask = nulls_in(column)
        if mask is None:
            continue
        if nulls == "unlabelled" and column.role == "outcome":
            if mask.all():
                raise DataError(f"{column} is null in all {len(column):,} rows: nothing is labelled")
            labelled = ~mask
        elif nulls == "drop":
            missing[i] = mask
        else:
            column.refuse(mask, "is null or NaN", hint=null_hint(column.role))
    if not missing:
        return columns, labelled, {}
    dropped = {columns[i].name: int(mask.sum()) for i, mask in missing.items()}
    kept = np.flatnonzero(~np.logical_or.reduce(list(missing.values())))
    if len(kept) == 0:
        raise nothing_left(len(columns[0]), dropped)
    return [column.take(kept) for column in columns], labelled, dropped


def null_hint(role: str) -> str:
    """What can be done about nulls in a column."""
    hint = "nulls='drop' leaves such rows out and counts them"
    return f"{hint}; nulls='unlabelled' keeps their scores" if role == "outcome" else hint


def nothing_left(n_rows: int, dropped: dict[str, int]) -> DataError:
    """The error when every row has a null."""
    nulls = ", ".join(f"{shortened(name)} is null in {n:,}" for name, n in dropped.items())
    return DataError(f"nulls='drop' leaves none of the {n_rows:,} rows: {nulls}")


# Outcomes, weights, counts


def is_binary(outcomes: Array, labelled: Mask | None) -> bool:
    """Whether every known outcome is 0 or 1."""
    if outcomes.dtype.kind == "b":
        return True
    for rows in chunk_slices(len(outcomes)):
        known = outcomes[rows] if labelled is None else outcomes[rows][labelled[rows]]
        if not ((known == 0) | (known == 1)).all():
            return False
    return True


def weights_of(column: Column) -> Floats:
    """Weights that are not negative and not all 0."""
    weights = numbers_in(column).astype(np.float64, copy=False)
    _require_sizes(column, weights)
    if weights.min(where=weights > 0, initial=np.inf) < SMALLEST:
        column.refuse((weights > 0) & (weights < SMALLEST), f"is below {SMALLEST:g} and not 0", weights, SCALE_WEIGHTS)
    return weights


def _counts(column: Column) -> Ints:
    counts = numbers_in(column)
    _require_sizes(column, counts)
    if counts.dtype.kind == "f":
        column.refuse(counts % 1 != 0, "is not a whole number", counts, "for survey weights use weight=")
    if counts.max() >= EXACT:
        column.refuse(counts >= EXACT, f"is beyond {EXACT:,}", counts)
    return counts.astype(np.int64, copy=False)


def _require_sizes(column: Column, sizes: Array) -> None:
    if sizes.min() < 0:
        column.refuse(sizes < 0, "is negative", sizes)
    if sizes.max() == 0:
        raise DataError(f"{column} is zero in all {len(column):,} rows")


# Users


def users_of(column: Column) -> Users:
    """Who each row belongs to, from ids of any kind."""
    _require_identities(column)
    values, dtype = column.values, column.values.dtype  # read once: those of enums with many categories are slow to make
    durations = dtype == nw.Duration if isinstance(values, nw.Series) else dtype.kind == "m"
    if durations:
        return integer_users(np.asarray(to_numpy(values)).astype("m8[us]").astype(np.int64))
    if isinstance(values, nw.Series):
        integers = dtype.is_integer() and dtype not in (nw.Int128, nw.UInt128)
        floats = dtype.is_float()
    else:
        integers, floats = dtype.kind in "iu", dtype.kind == "f"
    if integers:
        return integer_users(np.asarray(to_numpy(values)))
    if floats:
        return integer_users(_whole_numbers(np.asarray(to_numpy(values)), column))
    if isinstance(values, np.ndarray) and values.dtype == object and types_in(values) == {int}:
        with contextlib.suppress(OverflowError):
            return integer_users(np.asarray(values).astype(np.int64))
    return coded_users(*codes_of(column))


def _require_identities(column: Column) -> None:
    """Refuse ids that not all engines could tell apart; ``coding.canonical_id`` says what an id is."""
    values = column.values
    if not isinstance(values, nw.Series):
        if values.dtype.kind in "mM":
            micros = values.astype(f"{values.dtype.kind}8[us]")
            far = np.zeros(len(values), dtype=bool)
            if values.dtype.kind == "M":
                far = (micros < np.datetime64("0001-01-01")) | (micros >= np.datetime64("10000-01-01"))
            column.refuse(np.asarray((micros != values) | far), NO_MICROSECONDS, values)
        return
    dtype = values.dtype
    if dtype.is_nested():
        raise DataError(f"{column} holds {dtype}, which is no id; cast it to text")
    if getattr(dtype, "time_unit", None) == "ns":
        nanoseconds = values.dt.total_nanoseconds() if dtype == nw.Duration else values.dt.timestamp("ns")
    elif dtype == nw.Time and "ns" in str(getattr(values.to_native(), "type", "ns")):  # those of polars always are
        nanoseconds = values.cast(nw.Int64)
    else:
        return
    column.refuse(np.asarray(nanoseconds.to_numpy()) % 1000 != 0, NO_MICROSECONDS, values)


def _whole_numbers(ids: NDArray[np.floating[Any]], column: Column) -> Ints:
    """Ids that were integers once, until a null or a file format made them floats."""
    whole = np.empty(len(ids), dtype=np.int64)
    limit = EXACT if ids.dtype.itemsize == 8 else 2**24 if ids.dtype.itemsize == 4 else 2**11
    for rows in chunk_slices(len(ids)):
        chunk = ids[rows]
        fits = np.abs(chunk) <= limit
        if not fits.all():
            column.refuse(~(np.abs(ids) <= limit), "holds floats too large to tell ids apart", ids, "give ids as integers or text")
        if (chunk % 1 != 0).any():
            column.refuse(ids % 1 != 0, "holds fractions", ids, "ids are integers, text or UUIDs")
        whole[rows] = chunk
    return whole
