"""Groups: which columns make them, their codes, and labels of every kind in one order."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenscore.data.coding import encode_integers, plain_decimal
from evenscore.data.columns import Column, codes_of, find_column, shortened
from evenscore.errors import DataError, OptionError

MAX_GROUPS = 200  # codes are 8 bits
DIGITS = {"decimal": 100}  # after the point, of text that is no moment


def group_columns(table: Any, group: Any) -> list[Column]:
    """The one group column, or the several whose intersection is meant."""
    if not isinstance(group, list | tuple):
        return [find_column(table, group, "group")]
    if not group:
        raise OptionError("group=[] names no column; give one name, or several for their intersection")
    if isinstance(group[0], bool | int | float) or (table is None and isinstance(group[0], str)):
        raise OptionError(
            f"group=[{shortened(group[0])}, ...]: a list means the intersection of several columns; give labels as a NumPy array"
        )
    columns = [find_column(table, given, "group") for given in group]
    return [
        column if isinstance(given, str) or len(columns) == 1 else Column(f"group {i}", "group", column.values)
        for i, (column, given) in enumerate(zip(columns, group, strict=True), start=1)
    ]


def groups_of(columns: list[Column]) -> tuple[NDArray[np.uint8], tuple[Any, ...]]:
    """Codes (n_rows,) and the labels in order; several columns give their intersection, as tuples."""
    coded = [_group_codes(column) for column in columns]
    codes, labels = coded[0]
    if len(columns) > 1:
        labels = [(label,) for label in labels]
        for more, other in coded[1:]:
            both = codes.astype(np.uint16) * np.uint16(len(other))
            both += more
            pairs, present = encode_integers(both, 0)
            _limit_groups(len(present), columns)
            codes = pairs.astype(np.uint8, copy=False)
            labels = [(*labels[pair // len(other)], other[pair % len(other)]) for pair in present]
    order = sorted(range(len(labels)), key=lambda i: label_key(labels[i]))
    if len(set(labels)) < len(labels):
        raise DataError(f"group labels such as {_equal_labels(labels)} are equal in Python; turn the column into text first")
    if order == list(range(len(order))):
        return codes, tuple(labels)
    rank = np.empty(len(order), dtype=np.uint8)
    rank[order] = np.arange(len(order))
    return rank[codes], tuple(labels[i] for i in order)


def _group_codes(column: Column) -> tuple[NDArray[np.uint8], list[Any]]:
    codes, labels = codes_of(column, typed=True)
    _limit_groups(len(labels), [column])
    labels = [plain_label(label) for label in labels]
    for label in labels:
        if not _is_label(label):
            raise DataError(f"{column} holds {shortened(label)}, which cannot be a label; turn the column into text first")
    return codes.astype(np.uint8, copy=False), labels


def _is_label(label: Any) -> bool:
    """Whether a value can be looked up and written out."""
    try:
        hash(label)
        str(label)
        return bool(label == label)
    except Exception:
        return False


def _limit_groups(n_groups: int, columns: list[Column]) -> None:
    if n_groups > MAX_GROUPS:
        names = " x ".join(shortened(column.name) for column in columns)
        raise DataError(
            f"column {names} (group) has {n_groups:,} different values in {len(columns[0]):,} rows, more than the {MAX_GROUPS} "
            "groups that are possible: is it an id or a number? Cut numbers into bands first"
        )


def plain_label(label: Any) -> Any:
    """A label as a plain Python object, the same whatever it was held in: moments in a zone are in UTC, decimals without zeros.

    >>> plain_label(decimal.Decimal("1.50")), plain_label(np.int64(3))
    (Decimal('1.5'), 3)
    """
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, datetime.datetime):
        if hasattr(label, "to_pydatetime"):
            label = label.to_pydatetime(warn=False)
        return label if label.tzinfo is None else label.astimezone(datetime.UTC)
    if isinstance(label, datetime.timedelta) and hasattr(label, "to_pytimedelta"):
        return label.to_pytimedelta()
    return decimal.Decimal(plain_decimal(label)) if isinstance(label, decimal.Decimal) else label


_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "huge": int,
    "decimal": decimal.Decimal,
    **dict.fromkeys(("time", "fine time"), datetime.time.fromisoformat),
    **dict.fromkeys(("moment", "fine moment"), datetime.datetime.fromisoformat),
    **dict.fromkeys(("instant", "fine instant"), lambda text: datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)),
}


def label_from_text(kind: str, value: Any) -> Any:
    """A label of a kind of which engines give the text, as in memory; kinds are those of ``engines.identity``.

    Text that Python has no value for stays text: moments with nanoseconds, or outside the years 1 to 9999.
    """
    if not isinstance(value, str) or kind not in _FROM_TEXT or len(value.partition(".")[2]) > DIGITS.get(kind, 6):
        return value
    try:
        return plain_label(_FROM_TEXT[kind](value))
    except (ValueError, OverflowError, decimal.InvalidOperation):
        return value


def _equal_labels(labels: list[Any]) -> str:
    first = next(label for label in labels if labels.count(label) > 1)
    return " and ".join(shortened(label) for label in labels if label == first)


def label_key(label: Any) -> tuple[Any, ...]:
    """Sorts labels of mixed types: numbers among numbers, text among text, what has no order by its text."""
    if isinstance(label, tuple):
        return ("tuple", *map(label_key, label))
    kind = type(label).__name__
    if isinstance(label, datetime.datetime):
        return (kind, label.tzinfo is not None, label)
    try:
        label < label  # noqa: B015
    except TypeError:
        return (kind, repr(label))
    return (kind, label)
