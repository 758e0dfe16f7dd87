"""The border: any frame or arrays become aligned, checked, coded columns.

Nothing behind this module knows what kind of frame the data came in. Native methods are reached through objects the caller
already made, so no frame library is ever imported here.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from evenscore.coding import Ints, Users, coded_users, encode, encode_typed, independent_users, integer_users
from evenscore.errors import DataError, OptionError, listing, require_option

MAX_GROUPS = 200
NULLS = ("error", "drop", "unlabelled")


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
    is 0 or 1. dropped: rows left out, by column. frame: the kind of frame the data came in.
    """

    score: NDArray[Any]
    outcome: NDArray[Any]
    group: NDArray[np.uint8]
    groups: tuple[Any, ...]
    users: Users
    columns: Columns
    binary: bool
    weight: NDArray[np.float64] | None = None
    count: NDArray[np.int64] | None = None
    labelled: NDArray[np.bool_] | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    frame: str | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows, before counts repeat them."""
        return len(self.score)


@dataclass(frozen=True, slots=True)
class Column:
    """One column at the border: its name and its values, a narwhals Series or a NumPy array."""

    name: str
    values: Any

    def __len__(self) -> int:
        return len(self.values)


def observe(
    data: Any,
    *,
    score: Any,
    outcome: Any,
    group: Any,
    user: Any,
    weight: Any = None,
    count: Any = None,
    nulls: str = "error",
) -> Observations:
    """Check and code the columns of a frame, a dict of arrays, or (data=None) arrays alone."""
    require_option("nulls", nulls, NULLS)
    table, kind = _table(data)
    groups = list(group) if isinstance(group, list | tuple) else [group]
    if not groups:
        raise OptionError("group=[] names no column; give one name, or several for their intersection")
    columns = {
        "score": _column(table, score, "score"),
        "outcome": _column(table, outcome, "outcome"),
        **{f"group {i}": _column(table, part, "group") for i, part in enumerate(groups)},
    }
    for role, value in (("user", user), ("weight", weight), ("count", count)):
        if value is not None:
            columns[role] = _column(table, value, role)
    n_rows = _common_length(table, columns)
    missing = {role: _is_null(column) for role, column in columns.items()}
    missing = {role: mask for role, mask in missing.items() if mask is not None}
    labelled = None
    if nulls == "unlabelled" and "outcome" in missing:
        labelled = ~missing.pop("outcome")
        if not labelled.any():
            raise DataError(f"column {columns['outcome'].name!r} (outcome) is null in all {n_rows:,} rows: nothing is labelled")
    keep, dropped = _handle_nulls(columns, missing, nulls, n_rows)
    if keep is not None:
        columns = {role: Column(column.name, _rows(column.values, keep)) for role, column in columns.items()}
        labelled = None if labelled is None else labelled[keep]
    group_parts = [columns[f"group {i}"] for i in range(len(groups))]
    codes, labels = _groups(group_parts)
    outcomes = _numbers(columns["outcome"], "outcome", known=labelled)
    counts = _counts(columns.get("count"))
    return Observations(
        score=_numbers(columns["score"], "score"),
        outcome=outcomes,
        group=codes,
        groups=labels,
        users=_users(columns.get("user"), n_rows if keep is None else int(keep.sum())),
        columns=Columns(
            columns["score"].name,
            columns["outcome"].name,
            tuple(part.name for part in group_parts),
            *(columns[role].name if role in columns else None for role in ("user", "weight", "count")),
        ),
        binary=_is_binary(outcomes, labelled),
        weight=_weights(columns.get("weight")),
        count=counts,
        labelled=labelled,
        dropped=dropped,
        frame=kind,
    )


def column_names(data: Any) -> list[str]:
    """The columns of a frame or dict."""
    table, _ = _table(data)
    return [] if table is None else list(table.keys() if isinstance(table, Mapping) else table.columns)


# Finding columns


def _table(data: Any) -> tuple[Any, str | None]:
    """The data as a narwhals frame or a mapping, and the kind of frame."""
    if data is None:
        return None, None
    if isinstance(data, Mapping):
        return data, None
    try:
        frame = nw.from_native(data)
    except TypeError:
        raise DataError(
            f"data is a {type(data).__name__}; give a pandas, polars or pyarrow frame, a dict of arrays, or a path to CSV or "
            "Parquet files"
        ) from None
    return frame, str(frame.implementation).lower().rsplit(".", 1)[-1]


def _column(table: Any, value: Any, role: str) -> Column:
    """A name in the table, or an array of its length."""
    if isinstance(value, str):
        if table is None:
            raise DataError(f"{role}={value!r} names a column, but data is None; give an array or pass the frame as data")
        names = list(table.keys()) if isinstance(table, Mapping) else table.columns
        if value not in names:
            raise DataError(f"no column {value!r} for {role}; the data has: {listing(names)}")
        found = table[value] if isinstance(table, Mapping) else table.get_column(value)
        return Column(value, _values(found, value, role))
    if value is None:
        raise OptionError(f"{role}=None: name a column or give an array")
    if not isinstance(table, Mapping) and table is not None and not isinstance(value, Sequence) and _is_name(table, value):
        raise OptionError(f"{role}={value!r}: column names must be text; rename the column, or pass its values")
    return Column(role, _values(value, role, role))


def _is_name(table: Any, value: Any) -> bool:
    return isinstance(value, int | float) and value in table.columns


def _values(value: Any, name: str, role: str) -> Any:
    """A narwhals Series where there is one, else a one-dimensional NumPy array."""
    series = nw.from_native(value, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series
    array = value if isinstance(value, np.ndarray) else _array(value)
    if isinstance(array, np.ma.MaskedArray):
        return array
    if array.ndim != 1:
        raise DataError(
            f"{role}: {name!r} must have one dimension, not {array.ndim}"
            + (" (a single number is not a column)" if array.ndim == 0 else "")
        )
    return array


def _array(value: Any) -> NDArray[Any]:
    """A list or other sequence without NumPy's habit of turning [1, 'a'] into text."""
    if isinstance(value, str | bytes) or not hasattr(value, "__len__"):
        raise DataError(f"a column must be a name or an array, not {type(value).__name__}")
    items = list(value)
    if all(isinstance(item, bool | np.bool_) for item in items):
        return np.array(items, dtype=bool)
    if all(isinstance(item, int | float | np.number) and not isinstance(item, bool) for item in items):
        return np.asarray(items)
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def _common_length(table: Any, columns: dict[str, Column]) -> int:
    lengths = {column.name: len(column) for column in columns.values()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name}: {length:,}" for name, length in lengths.items())
        raise DataError(f"columns must have one length, but there are {found}")
    n_rows = next(iter(lengths.values()))
    if isinstance(table, nw.DataFrame) and len(table) != n_rows:
        raise DataError(f"the arrays have {n_rows:,} values, the data has {len(table):,} rows")
    if n_rows == 0:
        raise DataError("the data has no rows")
    return n_rows


# Nulls


def _is_null(column: Column) -> NDArray[np.bool_] | None:
    """Where a column is null or NaN, or None when nowhere."""
    values = column.values
    if isinstance(values, nw.Series):
        mask = values.is_null()
        if values.dtype.is_float():
            mask = mask | values.is_nan().fill_null(True)
        nulls = mask.to_numpy()
        if values.dtype == nw.Object:
            nulls = nulls | _null_objects(np.asarray(values.to_numpy(), dtype=object))
    elif isinstance(values, np.ma.MaskedArray):
        nulls = np.ma.getmaskarray(values)
        if np.issubdtype(values.dtype, np.floating):
            nulls = nulls | np.isnan(values.data)
    elif np.issubdtype(values.dtype, np.floating):
        total = values.min() if len(values) else 0.0
        nulls = np.isnan(values) if np.isnan(total) else None
    elif values.dtype == object:
        nulls = _null_objects(values)
    elif values.dtype.kind in "mM":
        nulls = np.isnat(values)
    else:
        nulls = None
    return nulls if nulls is not None and nulls.any() else None


def _null_objects(values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.fromiter((_is_null_object(value) for value in values), bool, len(values))


def _is_null_object(value: Any) -> bool:
    if value is None or (isinstance(value, float | np.floating) and value != value):
        return True
    return type(value).__name__ in ("NAType", "NaTType")


def _handle_nulls(
    columns: dict[str, Column], missing: dict[str, NDArray[np.bool_]], nulls: str, n_rows: int
) -> tuple[NDArray[np.bool_] | None, dict[str, int]]:
    """Which rows to keep (None = all) and how many were dropped for which column; or an error."""
    if not missing:
        return None, {}
    if nulls != "drop":
        role, mask = next(iter(missing.items()))
        where = ", ".join(str(row) for row in np.flatnonzero(mask)[:3])
        hint = "nulls='drop' leaves such rows out and counts them"
        if role == "outcome":
            hint += "; nulls='unlabelled' keeps their scores"
        raise DataError(
            f"column {columns[role].name!r} ({role.split()[0]}) is null or NaN in {int(mask.sum()):,} of {n_rows:,} rows "
            f"(first rows: {where}); {hint}"
        )
    gone = np.logical_or.reduce(list(missing.values()))
    if gone.all():
        raise DataError(f"nulls='drop' leaves none of the {n_rows:,} rows")
    dropped = {columns[role].name: int(mask.sum()) for role, mask in missing.items()}
    return ~gone, dropped


def _rows(values: Any, keep: NDArray[np.bool_]) -> Any:
    return values.filter(keep.tolist()) if isinstance(values, nw.Series) else values[keep]


# Numbers


def _numbers(column: Column, role: str, known: NDArray[np.bool_] | None = None) -> NDArray[Any]:
    """A finite numeric column; booleans and integers stay what they are."""
    array = _to_numpy(column.values)
    if isinstance(array, np.ma.MaskedArray):
        array = array.filled(0) if known is not None else array.data
    if array.dtype == object:
        array = _from_objects(array, column, role)
    if array.dtype.kind not in "biuf":
        example = "" if len(array) == 0 else f" (first value: {array[0]!r})"
        raise DataError(f"column {column.name!r} ({role}) must hold numbers, not {_type_name(column.values)}{example}")
    if array.dtype.kind == "f":
        if array.dtype.itemsize not in (4, 8):
            array = array.astype(np.float64)
        if known is not None:
            array = np.where(known, array, 0)
        _require_finite(array, column, role)
    return array


def _to_numpy(values: Any) -> NDArray[Any]:
    if not isinstance(values, nw.Series):
        return np.asarray(values) if not isinstance(values, np.ma.MaskedArray) else values
    if values.dtype == nw.Boolean:
        values = values.cast(nw.Int8)
    if values.dtype.is_numeric() and values.null_count():
        values = values.cast(nw.Float64)
    if isinstance(values.dtype, nw.Decimal):
        values = values.cast(nw.Float64)
    return np.asarray(values.to_numpy())


def _from_objects(array: NDArray[Any], column: Column, role: str) -> NDArray[Any]:
    """Python numbers in an object array; text and anything else is refused."""
    for row, value in enumerate(array):
        if not isinstance(value, int | float | np.number | np.bool_) and not _is_null_object(value) and not _is_decimal(value):
            raise DataError(f"column {column.name!r} ({role}) must hold numbers; row {row} holds {value!r}")
    return np.array([np.nan if _is_null_object(value) else float(value) for value in array])


def _is_decimal(value: Any) -> bool:
    decimal = sys.modules.get("decimal")
    return decimal is not None and isinstance(value, decimal.Decimal)


def _require_finite(array: NDArray[Any], column: Column, role: str) -> None:
    if np.isfinite(array.min()) and np.isfinite(array.max()):
        return
    bad = np.flatnonzero(~np.isfinite(array))
    where = ", ".join(f"{row} ({array[row]})" for row in bad[:3])
    raise DataError(f"column {column.name!r} ({role}) is not finite in {len(bad):,} of {len(array):,} rows (first rows: {where})")


def _type_name(values: Any) -> str:
    return str(values.dtype) if isinstance(values, nw.Series) else str(values.dtype)


def _is_binary(outcomes: NDArray[Any], labelled: NDArray[np.bool_] | None) -> bool:
    if outcomes.dtype.kind == "b":
        return True
    known = outcomes if labelled is None else outcomes[labelled]
    low, high = known.min(), known.max()
    if low < 0 or high > 1:
        return False
    return outcomes.dtype.kind != "f" or all(
        bool(np.isin(known[start : start + 65536], (0, 1)).all()) for start in range(0, len(known), 65536)
    )


def _weights(column: Column | None) -> NDArray[np.float64] | None:
    if column is None:
        return None
    weights = _numbers(column, "weight").astype(np.float64)
    _refuse(weights < 0, weights, column, "weight", "is negative")
    if not weights.any():
        raise DataError(f"column {column.name!r} (weight) is zero everywhere")
    return weights


def _counts(column: Column | None) -> NDArray[np.int64] | None:
    if column is None:
        return None
    counts = _numbers(column, "count")
    _refuse(counts < 0, counts, column, "count", "is negative")
    _refuse(counts != np.floor(counts), counts, column, "count", "is not a whole number (for survey weights use weight=)")
    if not counts.any():
        raise DataError(f"column {column.name!r} (count) is zero everywhere")
    return counts.astype(np.int64)


def _refuse(bad: NDArray[np.bool_], array: NDArray[Any], column: Column, role: str, what: str) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        where = ", ".join(f"{row} ({array[row]})" for row in rows[:3])
        raise DataError(f"column {column.name!r} ({role}) {what} in {len(rows):,} of {len(array):,} rows (first rows: {where})")


# Groups and users


def _groups(parts: list[Column]) -> tuple[NDArray[np.uint8], tuple[Any, ...]]:
    """Codes (n_rows,) and the labels in order; several columns give their intersection, as tuples."""
    coded = [_encode_column(part) for part in parts]
    codes, labels = coded[0]
    if len(parts) > 1:
        labels = [(label,) for label in labels]
        for more, other in coded[1:]:
            pairs, distinct = encode(codes.astype(np.int64) * len(other) + more)
            _limit_groups(len(distinct), parts)
            labels = [(*labels[pair // len(other)], other[pair % len(other)]) for pair in distinct]
            codes = pairs
    _limit_groups(len(labels), parts)
    labels = [_plain(label) for label in labels]
    order = sorted(range(len(labels)), key=lambda i: label_key(labels[i]))
    if len(set(labels)) < len(labels):
        raise DataError(f"group labels such as {_equal_labels(labels)} are equal in Python; turn the column into text first")
    rank = np.empty(len(order), dtype=np.uint8)
    rank[order] = np.arange(len(order))
    return rank[codes], tuple(labels[i] for i in order)


def _equal_labels(labels: list[Any]) -> str:
    first = next(label for label in labels if labels.count(label) > 1)
    return " and ".join(repr(label) for label in labels if label == first)


def _limit_groups(n_groups: int, parts: list[Column]) -> None:
    if n_groups > MAX_GROUPS:
        names = " x ".join(repr(part.name) for part in parts)
        raise DataError(
            f"{names} has {n_groups:,} groups, more than {MAX_GROUPS}: is it an id or a number? A group column should have a few "
            "values; cut numbers into bands first"
        )


def label_key(label: Any) -> tuple[Any, ...]:
    """Sorts labels of mixed types: numbers among numbers, text among text."""
    if isinstance(label, tuple):
        return ("tuple", *(label_key(part) for part in label))
    return (type(label).__name__, label)


def _plain(label: Any) -> Any:
    """A label as a plain Python object."""
    if isinstance(label, tuple):
        return tuple(_plain(part) for part in label)
    return label.item() if isinstance(label, np.generic) else label


def _encode_column(column: Column) -> tuple[Ints, list[Any]]:
    """Codes and distinct values of a column, by the fastest way its container offers."""
    values = column.values
    if isinstance(values, nw.Series):
        return _encode_series(values)
    array = np.asarray(values.data if isinstance(values, np.ma.MaskedArray) else values)
    if array.dtype == object:
        try:
            return encode_typed(array.tolist())
        except TypeError:
            raise DataError(f"column {column.name!r} holds values that cannot be compared, such as lists") from None
    if array.dtype.kind in "biu" and array.size and int(array.max()) - int(array.min()) < 4096:
        return _encode_small(array, int(array.min()))
    return encode(array)


def _encode_small(array: NDArray[Any], low: int) -> tuple[Ints, list[Any]]:
    """Integers and booleans of a small range: by a table, without sorting."""
    offsets = (array.view(np.uint8) if array.dtype == bool else array - array.dtype.type(low)).astype(np.uint16)
    present = np.flatnonzero(np.bincount(offsets))
    rank = np.zeros(present[-1] + 1, dtype=np.uint16)
    rank[present] = np.arange(len(present))
    return rank[offsets], [array.dtype.type(value + low).item() for value in present.tolist()]


def _encode_series(series: nw.Series[Any]) -> tuple[Ints, list[Any]]:
    native = series.to_native()
    if hasattr(native, "factorize"):  # pandas and its kin
        codes, distinct = native.factorize()
        if native.dtype == object:
            return encode_typed(native.tolist())
        return np.asarray(codes, dtype=np.int64), list(distinct)
    if hasattr(native, "dictionary_encode"):  # pyarrow
        if not str(native.type).startswith("dictionary"):
            native = native.dictionary_encode()
        native = native.unify_dictionaries() if hasattr(native, "unify_dictionaries") else native
        chunks = native.chunks if hasattr(native, "chunks") else [native]
        codes = np.concatenate([np.asarray(chunk.indices, dtype=np.int64) for chunk in chunks])
        return _only_used(codes, chunks[0].dictionary.to_pylist())
    if series.dtype in (nw.Categorical, nw.Object) or isinstance(series.dtype, nw.Enum):
        if series.dtype == nw.Object:
            return encode_typed(series.to_list())
        series = series.cast(nw.String)
        native = series.to_native()
    table = native.to_frame("value")  # polars
    distinct = table.unique(maintain_order=True).with_row_index("code")
    codes = table.join(distinct, on="value", how="left", maintain_order="left").get_column("code")
    return codes.to_numpy().astype(np.int64), distinct.get_column("value").to_list()


def _only_used(codes: Ints, distinct: list[Any]) -> tuple[Ints, list[Any]]:
    """Without dictionary entries that no row has."""
    used = np.flatnonzero(np.bincount(codes, minlength=len(distinct)))
    rank = np.zeros(len(distinct), dtype=np.int64)
    rank[used] = np.arange(len(used))
    return rank[codes], [distinct[i] for i in used]


def _users(column: Column | None, n_rows: int) -> Users:
    if column is None:
        return independent_users(n_rows)
    values = column.values
    dtype = values.dtype
    integers = dtype.is_integer() if isinstance(values, nw.Series) else dtype.kind in "iu"
    floats = dtype.is_float() if isinstance(values, nw.Series) else dtype.kind == "f"
    if integers or floats:
        array = np.asarray(_to_numpy(values))
        if floats:
            if not (np.isfinite(array).all() and (array == np.floor(array)).all() and np.abs(array).max() < 2**53):
                raise DataError(f"column {column.name!r} (user) holds fractions; user ids are integers, text or UUIDs")
            array = array.astype(np.int64)
        return integer_users(array)
    if isinstance(values, np.ndarray) and values.dtype == object and len(values) and isinstance(values[0], uuid.UUID):
        return coded_users(*encode(values))
    codes, distinct = _encode_column(column)
    return coded_users(codes, distinct)
