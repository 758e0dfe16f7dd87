"""One column at the border: found in any kind of table, looked through for nulls, turned into NumPy.

No frame library is imported here: native methods are reached through objects that the caller already made.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from evenscore.data.coding import CHUNK, FINER, Codes, code_type, encode, encode_integers, encode_typed, types_in
from evenscore.errors import DataError, EvenscoreError, OptionError, listing, no_column
from evenscore.errors import shortened as shortened
from evenscore.types import Array, Floats, Ints, Mask

LARGEST = 1e75  # what the sums need of a number: its fourth power is finite
TABLE_SPAN = 4096  # integers within so small a range are coded by a table


@dataclass(frozen=True, slots=True)
class Column:
    """A column by what it is called and what it is for; values are a narwhals Series or a NumPy array.

    rows: where the values stood in the data, (n_rows,), when some were left out.
    """

    name: str
    role: str
    values: Any
    rows: Ints | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __str__(self) -> str:
        return f"column {shortened(self.name)} ({self.role})"

    def take(self, rows: Ints) -> Column:
        """Only these rows of a column that is still whole."""
        return Column(self.name, self.role, self.values[rows], rows)

    def refuse(self, bad: Mask | Ints, what: str, values: Any = None, hint: str = "") -> None:
        """Raise when some rows are bad: says which column, how many rows, and the first of them with their values."""
        rows = np.flatnonzero(bad) if bad.dtype == bool else bad
        if len(rows) == 0:
            return
        shown = [
            f"{row if self.rows is None else self.rows[row]}" + ("" if values is None else f" ({shortened(values[row])})")
            for row in rows[:3].tolist()
        ]
        raise DataError(
            f"{self} {what} in {len(rows):,} of {len(self):,} rows (first rows, from 0: {', '.join(shown)})"
            + (f"; {hint}" if hint else "")
        )


def number_array(name: str, values: Any) -> Floats:
    """Numbers that an option gives, as an array of any shape; all finite."""
    try:
        array = np.asarray(list(values) if isinstance(values, range | set | frozenset) else values)
        array = array.astype(np.float64, casting="unsafe" if array.dtype == object else "same_kind")
    except (TypeError, ValueError, OverflowError):
        raise OptionError(f"{name}={shortened(values)} must be numbers") from None
    if not np.isfinite(array).all():
        raise OptionError(f"{name}={shortened(values)} must be finite numbers")
    return array


# Finding columns


def open_table(data: Any) -> tuple[Any, str | None]:
    """The data as a narwhals frame or a mapping, and the kind of frame."""
    if data is None or isinstance(data, Mapping):
        return data, None
    try:
        frame = nw.from_native(data)
    except TypeError:
        raise DataError(
            f"data is of type {type(data).__name__}; give a pandas, polars or pyarrow frame, a dict of arrays, or a path to CSV or "
            "Parquet files"
        ) from None
    except DuplicateError:
        names = [str(name) for name in getattr(data, "column_names", data.columns)]  # the columns of pyarrow are arrays
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        raise DataError(
            f"the data has more than one column called {listing(map(repr, twice))}; rename or drop the others"
        ) from None
    return frame, str(frame.implementation).lower().rsplit(".", 1)[-1]


def find_column(table: Any, value: Any, role: str) -> Column:
    """A name in the table, or an array of its length."""
    if value is None:
        raise OptionError(f"{role}=None: name a column or give an array")
    if isinstance(value, str):
        if table is None:
            raise DataError(
                f"{role}={shortened(value)} names a column, but data is None; pass the frame as data, or an array as {role}"
            )
        names = list(table.keys() if isinstance(table, Mapping) else table.columns)
        if value not in names:
            raise no_column(value, role, "data", names)
        held = table[value] if isinstance(table, Mapping) else table.get_column(value)
        return Column(value, role, _values(held, f"column {shortened(value)} ({role})"))
    if isinstance(value, int | float | tuple) and table is not None:
        names = list(table.keys() if isinstance(table, Mapping) else table.columns)
        if value in names:
            raise OptionError(f"{role}={shortened(value)}: column names must be text; rename the column, or pass its values")
    return Column(role, role, _values(value, role))


def _values(value: Any, what: str) -> Any:
    """A narwhals Series where there is one, else a one-dimensional NumPy array."""
    series = nw.from_native(value, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series
    array = value if isinstance(value, np.ndarray) else _array(value, what)
    if array.ndim != 1:
        raise DataError(f"{what} must have one dimension, not {array.ndim} (its shape is {array.shape})")
    if array.dtype.kind == "T":
        return array.astype(object)  # text that may be null
    if isinstance(array, np.ma.MaskedArray) and array.dtype.names:
        raise DataError(f"{what} holds records; give one of their fields ({listing(array.dtype.names)})")
    return _in_microseconds(array) if array.dtype.kind in "mM" else array


def _in_microseconds(array: Array) -> Array:
    """Moments that Python can say: NumPy gives finer ones as bare integers."""
    coarse = array.astype(f"{array.dtype.kind}8[us]")
    finer = np.datetime_data(array.dtype)[0] in FINER
    return coarse if finer and ((coarse == array) | np.isnat(array)).all() else array


def _array(value: Any, what: str) -> Array:
    """A list or other sequence without NumPy's habit of turning [1, 'a'] into text and [1, 2**63] into fractions."""
    if isinstance(value, Iterator):
        raise DataError(f"{what} is a {type(value).__name__}, which can be read only once; give a list of it")
    if isinstance(value, str | bytes | set | frozenset | Mapping) or not hasattr(value, "__len__"):
        raise DataError(f"{what} must be a column name or an array, not {shortened(value)} ({type(value).__name__})")
    try:
        if hasattr(value, "__array__") or isinstance(value, memoryview):
            return np.asarray(value)
        items = list(value)
    except Exception as error:  # the caller's own object failed
        raise DataError(f"{what} cannot be read from a {type(value).__name__}: {shortened(error)}") from error
    kinds = set(map(type, items))
    if kinds == {bool} or kinds == {float} or not kinds:
        return np.array(items, dtype=kinds.pop() if kinds else np.float64)
    if kinds <= {int, float} or (bool not in kinds and all(issubclass(kind, np.number | int | float) for kind in kinds)):
        array = np.asarray(items)
        if array.dtype.kind in "iu" or (array.dtype.kind == "f" and kinds != {int}):
            return array
        if min(items) >= 0 and max(items) < 2**64:
            return np.array(items, dtype=np.uint64)
    return np.fromiter(items, dtype=object, count=len(items))


def common_length(table: Any, columns: Sequence[Column]) -> int:
    """The number of rows, which all columns must share."""
    if len({len(column) for column in columns}) > 1:
        lengths = ", ".join(f"{shortened(column.name)}: {len(column):,}" for column in columns)
        raise DataError(f"the columns must have the same number of rows, but have {lengths}")
    n_rows = len(columns[0])
    if isinstance(table, nw.DataFrame) and len(table) != n_rows:
        raise DataError(f"the arrays have {n_rows:,} values, the data has {len(table):,} rows")
    if n_rows == 0:
        raise DataError(f"the data has no rows ({columns[0]} is empty)")
    return n_rows


# Nulls


def nulls_in(column: Column) -> Mask | None:
    """Where a column is null or NaN, or None when nowhere."""
    nulls = _nulls(column.values)
    return nulls if nulls is not None and nulls.any() else None


def _nulls(values: Any) -> Mask | None:
    if isinstance(values, nw.Series):
        mask, dtype = values.is_null(), values.dtype
        if dtype.is_float():
            mask = mask | values.is_nan().fill_null(True)
        nulls = np.asarray(mask.to_numpy(), dtype=bool)
        if dtype == nw.Object and not values.implementation.is_pandas_like():
            nulls = nulls | _null_objects(np.asarray(values.to_numpy(), dtype=object))
        return nulls
    if isinstance(values, np.ma.MaskedArray):
        inner = _nulls(values.data) if values.dtype.kind in "fmM" else None
        masked = np.ma.getmaskarray(values)
        return masked if inner is None else masked | inner
    if values.dtype.kind == "f":
        return np.isnan(values) if len(values) and np.isnan(values.min()) else None
    if values.dtype == object:
        return _null_objects(values)
    return np.isnat(values) if values.dtype.kind in "mM" else None


def _null_objects(values: Array) -> Mask:
    if not any(map(_may_be_null, types_in(values))):
        return np.zeros(len(values), dtype=bool)
    return np.fromiter(map(_is_null, values), bool, len(values))


def _may_be_null(kind: type) -> bool:
    return kind is type(None) or kind.__name__ in ("NAType", "NaTType") or issubclass(kind, float | np.floating | decimal.Decimal)


def _is_null(value: Any) -> bool:
    if isinstance(value, decimal.Decimal):
        return value.is_nan()  # a signalling one cannot even be compared
    if isinstance(value, float | np.floating):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


# Numbers


def numbers_in(column: Column, known: Mask | None = None) -> Array:
    """A finite numeric column; booleans and integers stay what they are. Where ``known`` is False the value does not matter."""
    if isinstance(column.values, nw.Series) and column.values.dtype.is_nested():
        column.refuse(np.arange(len(column)), f"holds {column.values.dtype}, not numbers,")
    try:
        array = to_numpy(column.values)
    except Exception:  # what no array can hold: unions, or times of a fraction of a microsecond
        array = np.empty(0)
        kind = getattr(column.values.to_native(), "type", column.values.dtype)
        column.refuse(np.arange(len(column)), f"holds {kind}, not numbers,")
    if isinstance(array, np.ma.MaskedArray):
        array = array.data if known is None else array.filled(0)
    if array.dtype == object:
        array = _from_objects(array, column)
    if array.dtype.kind not in "biuf":
        kind = "text" if array.dtype.kind in "US" else str(column.values.dtype)
        column.refuse(np.arange(len(array)), f"holds {kind}, not numbers,", array)
    if array.dtype.kind == "f":
        if array.dtype.itemsize not in (4, 8):
            with np.errstate(over="ignore"):  # what only a wider float can hold is not finite
                array = array.astype(np.float64)
        if known is not None:
            array = np.where(known, array, 0)
        _require_finite(array, column)
    return array


def to_numpy(values: Any) -> Array:
    """A column as a NumPy array, without a copy where that can be; masked arrays stay masked."""
    if not isinstance(values, nw.Series):
        return np.asanyarray(values)
    if values.dtype == nw.Boolean:
        values = values.cast(nw.Int8)
    if isinstance(values.dtype, nw.Decimal | nw.Int128 | nw.UInt128) or (values.dtype.is_numeric() and values.null_count()):
        values = values.cast(nw.Float64)
    return np.asarray(values.to_numpy())


def _from_objects(array: Array, column: Column) -> Array:
    """Python numbers in an array of objects; text and anything else is refused."""
    fine = tuple(kind for kind in types_in(array) if _is_number(kind))
    bad = np.fromiter((not (isinstance(value, fine) or _is_null(value)) for value in array), bool, len(array))
    column.refuse(bad, "does not hold a number", array)
    try:
        return np.array([np.nan if _is_null(value) else float(value) for value in array])
    except OverflowError:
        too_large = np.fromiter((not _is_null(value) and abs(value) > LARGEST for value in array), bool, len(array))
        column.refuse(too_large, f"is beyond {LARGEST:g}", array)
        raise
    except Exception as error:  # a number of the caller's own making
        raise DataError(f"{column} holds a {type(array[0]).__name__} that is no number: {shortened(error)}") from error


def _is_number(kind: type) -> bool:
    return issubclass(kind, int | float | np.integer | np.floating | np.bool_ | decimal.Decimal)


def _require_finite(array: Array, column: Column) -> None:
    low, high = float(array.min()), float(array.max())
    if low >= -LARGEST and high <= LARGEST:
        return
    column.refuse(~np.isfinite(array), "is not finite", array)
    column.refuse(np.abs(array) > LARGEST, f"is beyond {LARGEST:g}", array, "is that a code for a missing value?")


# Codes


def codes_of(column: Column, typed: bool = False) -> tuple[Codes, list[Any]]:
    """Codes and distinct values of a column, by the fastest way its container offers; typed keeps 1, True and 1.0 apart."""
    values = column.values
    try:
        if isinstance(values, nw.Series):
            return _series_codes(values, typed)
        array = values.data if isinstance(values, np.ma.MaskedArray) else values
        return _array_codes(array, typed)
    except EvenscoreError:
        raise
    except Exception as error:  # lists, structs, and objects that fail when they are compared
        raise DataError(f"{column} holds values that cannot be compared, such as {shortened(values[0])}") from error


def _array_codes(array: Array, typed: bool) -> tuple[Codes, list[Any]]:
    if array.dtype == object and typed:
        return encode_typed(array)
    if array.dtype.kind in "biu" and int(array.max()) < 2**63:
        low = int(array.min())
        if int(array.max()) - low < TABLE_SPAN:
            return encode_integers(array, low)
    return encode(array)


def _series_codes(series: nw.Series[Any], typed: bool) -> tuple[Codes, list[Any]]:
    native = series.to_native()
    if series.implementation.is_pandas_like():
        if native.dtype == object:
            return _array_codes(np.asarray(native, dtype=object), typed)
        if hasattr(native, "cat") and hasattr(native.cat, "codes"):
            return _only_used(np.asarray(native.cat.codes), native.cat.categories.tolist())
        codes, distinct = native.factorize()
        return np.asarray(codes), list(distinct)
    if series.implementation.is_pyarrow():
        return _arrow_codes(native, typed)
    dtype = series.dtype
    if dtype == nw.Object:
        return _array_codes(np.asarray(native.to_numpy(), dtype=object), typed)
    if dtype == nw.Categorical or isinstance(dtype, nw.Enum):
        return _polars_categories(native)
    return _polars_codes(native)


def _polars_codes(native: Any) -> tuple[Codes, list[Any]]:
    rows_of_values = native.to_frame("value").with_row_index("row").group_by("value", maintain_order=True).agg("row")
    rows = rows_of_values.get_column("row")
    codes: Codes = np.empty(len(native), dtype=code_type(len(native)))
    codes[rows.explode().to_numpy()] = np.repeat(np.arange(len(rows)), rows.list.len().to_numpy())
    return codes, rows_of_values.get_column("value").to_list()


def _polars_categories(native: Any) -> tuple[Codes, list[Any]]:
    """The codes that polars holds; their texts are those of one row each, as codes may be shared with other columns."""
    held = native.to_physical().to_numpy()
    row = np.full(int(held.max()) + 1, -1, dtype=np.int64)
    row[held] = np.arange(len(held))
    used = np.flatnonzero(row >= 0)
    rank = np.empty(len(row), dtype=code_type(len(row)))
    rank[used] = np.arange(len(used))
    return rank[held], native.gather(row[used]).to_list()


def _arrow_codes(native: Any, typed: bool) -> tuple[Codes, list[Any]]:
    if not str(native.type).startswith("dictionary"):
        try:
            native = native.dictionary_encode()
        except NotImplementedError:  # UUIDs, structs, lists
            objects = np.empty(len(native), dtype=object)
            objects[:] = native.to_pylist()
            return _array_codes(objects, typed)
    chunks = native.unify_dictionaries().chunks
    codes = np.concatenate([np.asarray(chunk.indices) for chunk in chunks])
    return _only_used(codes, chunks[0].dictionary.to_pylist())


def _only_used(codes: Codes, distinct: list[Any]) -> tuple[Codes, list[Any]]:
    """Without dictionary entries that no row has."""
    used = np.zeros(len(distinct), dtype=bool)
    used[codes] = True
    if used.all():
        return codes, distinct
    rank: Codes = (np.cumsum(used) - 1).astype(code_type(len(used)))
    return rank[codes], [value for value, occurs in zip(distinct, used.tolist(), strict=True) if occurs]


def chunk_slices(n_rows: int) -> list[slice]:
    """Slices that go through the rows in cache-sized steps."""
    return [slice(start, start + CHUNK) for start in range(0, n_rows, CHUNK)]
