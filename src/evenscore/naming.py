"""What groups are called: a number or a truth value says little without its column, and a caller may have words for it.

Labels keep their type everywhere; only text for people asks here. The names are those of the data at hand: a public call takes them
from its tally, a result keeps those it was made under and shows itself with them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, ParamSpec, TypeVar

from evenscore.errors import OptionError, did_you_mean, listing, shortened

TRUTH_VALUES = ("yes", "no", "true", "false")
EXACT = 1e15  # whole numbers that a float tells apart

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GroupNames:
    """columns: of the group, one for each part of a label. texts: words for a value of a column, by both, the value as text.

    score, outcome: the columns of the data, for axes; empty when nobody knows.
    """

    columns: tuple[str, ...] = ()
    texts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    score: str = ""
    outcome: str = ""

    def of(self, label: Any) -> str:
        """The name of a group; labels of an intersection are joined."""
        if isinstance(label, tuple):
            columns = self.columns if len(self.columns) == len(label) else ("",) * len(label)
            return " × ".join(self._of_part(*part) for part in zip(columns, label, strict=True))
        return self._of_part(self.columns[0] if len(self.columns) == 1 else "", label)

    def _of_part(self, column: str, value: Any) -> str:
        for written in (str(value), _whole(value)):
            if (column, written) in self.texts:
                return self.texts[column, written]
        return f"{column} = {_whole(value)}" if column and _says_little(value) else str(value)


def _whole(value: Any) -> str:
    """A value as text, whole numbers without a point: a column of whole numbers has fractions as soon as one is missing."""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() and abs(value) < EXACT else str(value)


def _says_little(value: Any) -> bool:
    """Whether a value is nothing without its column: a number, a truth value, or the word for one."""
    if isinstance(value, str):
        return value.lower() in TRUTH_VALUES
    return isinstance(value, int | float | Decimal)


NO_NAMES = GroupNames()
_CURRENT: ContextVar[GroupNames] = ContextVar("group_names", default=NO_NAMES)
_IN_CALL: ContextVar[bool] = ContextVar("in_call", default=False)


def label_text(label: Any) -> str:
    """A group label for people."""
    return _CURRENT.get().of(label)


def plain_label(label: Any) -> str:
    """A label as text without its column, as files and options know it."""
    return NO_NAMES.of(label)


def current_names() -> GroupNames:
    """The names at hand."""
    return _CURRENT.get()


def is_called(label: Any, name: str) -> bool:
    """Whether a caller's text means this group: as it is shown, or as it is in the data."""
    return name in (plain_label(label), label_text(label))


def find_label(groups: Iterable[Any], option: str, name: str) -> Any:
    """The group that an option names. option: as the message should begin."""
    known = list(groups)
    meant = [label for label in known if is_called(label, name)] or [label for label in known if _whole(label) == name]
    if len(meant) != 1:
        names = [plain_label(label) for label in known]
        what = f"several groups are called {shortened(name)}" if meant else f"no group {shortened(name)}{did_you_mean(name, names)}"
        raise OptionError(f"{option}: {what}; there are: {listing(names)}")
    return meant[0]


def use_texts(texts: Mapping[tuple[str, str], str]) -> None:
    """From here on values of columns are called so."""
    _CURRENT.set(replace(_CURRENT.get(), texts={**_CURRENT.get().texts, **texts}))


def use_columns(columns: Any) -> None:
    """Until the call ends, groups are of these columns (of a tally; None when it knows none); outside of a call nothing is kept."""
    if columns is not None and _IN_CALL.get():
        _CURRENT.set(GroupNames(columns.group, _CURRENT.get().texts, columns.score, columns.outcome))


@contextlib.contextmanager
def own_names(names: GroupNames | None = None) -> Iterator[None]:
    """Names that are given, or set inside, end here."""
    token, inside = _CURRENT.set(_CURRENT.get() if names is None else names), _IN_CALL.set(True)
    try:
        yield
    finally:
        _CURRENT.reset(token)
        _IN_CALL.reset(inside)


def in_names(function: Callable[P, T]) -> Callable[P, T]:
    """A function or method that speaks of groups as its first argument does, which has ``group_names``."""

    @functools.wraps(function)
    def named(*args: P.args, **kwargs: P.kwargs) -> T:
        names: Any = args[0]
        with own_names(names.group_names):
            return function(*args, **kwargs)

    return named


def read_labels(labels: Mapping[str, Mapping[Any, str]] | None) -> dict[tuple[str, str], str]:
    """Words for values, as a caller gives them by column and value."""
    if labels is None:
        return {}
    if not isinstance(labels, Mapping) or not all(isinstance(values, Mapping) for values in labels.values()):
        raise OptionError(f"labels={shortened(labels)} must be a dict by column, such as {{'sex': {{1: 'men', 2: 'women'}}}}")
    texts = {(str(column), str(value)): text for column, values in labels.items() for value, text in values.items()}
    for (column, value), text in texts.items():
        if not isinstance(text, str) or not text.strip():
            raise OptionError(f"labels: {column} = {value} is called {shortened(text)}, which is no text")
    return texts


def require_meant(texts: Mapping[tuple[str, str], str], groups: Mapping[tuple[str, ...], list[Any]]) -> None:
    """Refuse words for what is not there, and the same words for two groups. groups: labels by their columns."""
    values: dict[str, dict[str, None]] = {}
    for columns, labels in groups.items():
        for label in labels:
            for column, value in zip(columns, label if isinstance(label, tuple) else (label,), strict=False):
                values.setdefault(column, {})[str(value)] = None
    for column, value in texts:
        if column not in values:
            close = did_you_mean(column, values)
            raise OptionError(f"labels: no group column {shortened(column)}{close} (there are: {listing(values)})")
        if value not in values[column]:
            close = did_you_mean(value, values[column])
            raise OptionError(f"labels: {column} has no value {shortened(value)}{close} (there are: {listing(values[column])})")
    for columns, labels in groups.items():
        known: dict[str, Any] = {}
        for label in labels:
            name = GroupNames(columns, texts).of(label)
            if name in known and any(column in columns for column, _ in texts):
                twice = f"{plain_label(known[name])} and {plain_label(label)}"
                raise OptionError(f"labels: {twice} would both be called {shortened(name)}; give each a name of its own")
            known[name] = label
