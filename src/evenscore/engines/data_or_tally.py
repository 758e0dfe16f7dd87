"""A call takes data or a tally: functions that need a tally make it themselves when they are given data and its columns."""

from __future__ import annotations

import difflib
import enum
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict, cast

from evenscore.engines import tally as make_tally
from evenscore.errors import DataError, OptionError, listing, shortened
from evenscore.naming import use_columns
from evenscore.tallies.archive import is_tally_file
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.tally_state import Tally

NEEDED = ("score", "outcome", "group")


class Unsaid(enum.Enum):
    """The default of ``user=`` where it is a parameter: None says that rows are independent, and any text may name a column."""

    UNSAID = enum.auto()

    def __repr__(self) -> str:
        return "<unsaid>"


UNSAID = Unsaid.UNSAID


class DataColumns(TypedDict, total=False):
    """What ``es.tally`` takes beside the data."""

    score: Any
    outcome: Any
    group: Any
    user: Any
    item: Any
    weight: Any
    count: Any
    lattice: Tally | Lattice | None
    cuts: Iterable[float]
    cells: int
    scale: str
    nulls: str
    split: str | None
    memory_limit: str | int


def as_tally(data: Any, columns: DataColumns, *, call: str, threshold: Any = None) -> Tally:
    """The tally that is given (also as the path of a saved one), or the tally of the data; a threshold becomes a cell edge.

    From here on groups are called as its columns have it.
    """
    refuse_unknown(columns, call)
    tally = given_tally(data)
    if tally is not None:
        if columns:
            raise OptionError(f"a tally is made once and for all; leave out {next(iter(columns))}=")
        use_columns(tally.columns)
        return tally
    if data is None or isinstance(data, bool | int | float):
        raise DataError(
            f"es.{call} takes a tally, or data with the names of its columns, not {shortened(data)} ({type(data).__name__}); "
            f"for example es.{call}(data, score=..., outcome=..., group=..., user=...)"
        )
    hint = f"name them, or give a tally: es.{call}(es.tally(data, score=..., outcome=..., group=..., user=...))"
    require_columns(columns, hint, data)
    edges = {} if threshold is None or "cuts" in columns or columns.get("lattice") is not None else {"cuts": _edges(threshold)}
    made = make_tally(data, **cast(Any, columns | edges))
    use_columns(made.columns)
    return made


def given_tally(data: Any) -> Tally | None:
    """A tally, or the one that was saved under this path."""
    if isinstance(data, Tally):
        return data
    return Tally.load(data) if is_saved_tally(data) else None


def is_saved_tally(data: Any) -> bool:
    """Whether data is the path of a saved tally."""
    return isinstance(data, str | os.PathLike) and is_tally_file(Path(data))


def require_columns(columns: Mapping[str, Any], hint: str, data: Any = None) -> None:
    """The columns without which nothing can be counted; ``user`` may be None, but must be said."""
    missing = [f"{name}=" for name in NEEDED if columns.get(name) is None]
    if missing:
        missing += ["user="] if "user" not in columns else []
        raise OptionError(f"missing: {', '.join(missing)}; {hint}{_say_columns(data)}")
    if "user" not in columns:
        raise OptionError(
            "missing: user=, which says whose row it is. Rows of one user are not independent, and a test that takes them so gives "
            "false alarms; user=None, written out, declares that every row is a different person"
        )


def _say_columns(data: Any) -> str:
    """What the data has, where that is known without reading it."""
    names = data.keys() if isinstance(data, Mapping) else getattr(data, "columns", ())
    known = [name for name in names if isinstance(name, str)] if isinstance(names, Iterable) else []
    return f"; the data has: {listing(known)}" if known else ""


def refuse_unknown(columns: Mapping[str, Any], call: str) -> None:
    """What Python itself would say, with the name that was probably meant."""
    unknown = next((name for name in columns if name not in DataColumns.__annotations__), None)
    if unknown is not None:
        near = difflib.get_close_matches(unknown, DataColumns.__annotations__, n=1)
        hint = f"; did you mean {near[0]}=?" if near else ""
        raise TypeError(f"{call}() got an unexpected keyword argument {unknown!r}{hint}")


def _edges(threshold: Any) -> tuple[Any, ...]:
    return tuple(threshold.values()) if isinstance(threshold, Mapping) else (threshold,)
