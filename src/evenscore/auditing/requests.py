"""What an audit is asked to look at: scores and attributes of data, or tallies."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenscore.auditing.gate import Gate
from evenscore.auditing.provenance import Source, file_sources
from evenscore.data.spec import TallySpec
from evenscore.data.splits import Split
from evenscore.engines import hold_rows, tally_by_spec
from evenscore.engines.data_or_tally import UNSAID, given_tally, is_saved_tally, require_columns
from evenscore.errors import DataError, OptionError, shortened
from evenscore.naming import plain_label
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.tally_state import Tally
from evenscore.types import Say

ReadShare = Callable[[Split | None], Tally]  # None: all users


@dataclass(frozen=True, slots=True)
class Request:
    """One subject before it is read: a tally, or data and what is asked of them."""

    data: Any
    spec: TallySpec | None = None


def requested_subjects(
    data: Any,
    score: Any,
    group: Any,
    attributes: Sequence[Any] | None,
    columns: dict[str, Any],
    settings: dict[str, Any],
) -> list[Request]:
    """Each score and attribute of the data, or each tally."""
    tallies = _tallies(data)
    if tallies is not None:
        named = {"score": score, "group": group, "attributes": attributes} | columns
        needless = [name for name, value in named.items() if value is not None]
        if needless:
            raise OptionError(f"a tally is made once and for all; leave out {needless[0]}=")
        return [Request(tally) for tally in tallies]
    if group is not None and attributes is not None:
        raise OptionError("give group= (one attribute, or an intersection) or attributes= (several), not both")
    wanted = [group] if attributes is None else _listed(attributes)
    require_columns(columns | {"score": score, "group": wanted[0]}, "name the columns, or give a tally", data)
    scores = score if isinstance(score, list | tuple) and all(isinstance(name, str) for name in score) else [score]
    pairs = itertools.product(scores, wanted)
    return [Request(data, TallySpec(score=name, group=attribute, **columns, **settings)) for name, attribute in pairs]


def open_request(request: Request, notes: list[str], say: Say | None, *, again: bool) -> ReadShare:
    """How tallies are had, of all users or of those in a split. again: rows that fit into memory stay there, to be split later."""
    spec = request.spec
    if spec is None:
        return lambda split: request.data  # a tally

    def progress(done: int, total: int) -> None:
        if say is not None:
            say(f"counting {done:,} of {total:,} rows")

    def tell_reading() -> None:
        if say is not None:
            say("reading")

    held = None
    if again and spec.split is None:
        tell_reading()
        held = hold_rows(request.data, spec, say=notes.append)

    def read(split: Split | None) -> Tally:
        if held is not None:
            return held.tally(split, progress)
        tell_reading()
        return tally_by_spec(request.data, replace(spec, split=split), progress=progress, say=notes.append)

    return read


def _tallies(data: Any) -> list[Tally] | None:
    """The tallies that the data are, or None."""
    items = data if isinstance(data, list | tuple) else [data]
    tallies = [tally for tally in map(given_tally, items) if tally is not None]
    if tallies and len(tallies) < len(items):
        raise DataError("some of the data are tallies and some are not; audit them apart")
    return tallies or None


def _listed(attributes: Sequence[Any]) -> list[Any]:
    if isinstance(attributes, str) or not len(attributes):
        raise OptionError(f"attributes={shortened(attributes)} must be a list of columns, such as ['gender', 'age_band']")
    return [list(each) if isinstance(each, list | tuple) else each for each in attributes]


def data_sources(data: Any, say: Say | None) -> list[Source]:
    """Where the data came from, for the record."""
    items = data if isinstance(data, list | tuple) else [data]
    if not all(isinstance(item, str | os.PathLike) for item in items):
        return [Source(f"{type(item).__module__.split('.')[0]} {type(item).__name__} in memory") for item in items]
    from evenscore.engines.paths import find_files

    if say is not None:
        say("hashing")
    return file_sources([path for item in items for path in ([str(item)] if is_saved_tally(item) else find_files(item))])


def plain_option(value: Any) -> Any:
    """An option for the record: arrays and tallies by what they are, not by their content."""
    if value is UNSAID or value is None or isinstance(value, bool | int | float | str):
        return None if value is UNSAID else value
    if isinstance(value, list | tuple):
        return [plain_option(item) for item in value]
    if isinstance(value, dict):
        return {plain_label(name): plain_option(item) for name, item in value.items()}
    return repr(value) if isinstance(value, Gate | Lattice) else f"({type(value).__name__})"
