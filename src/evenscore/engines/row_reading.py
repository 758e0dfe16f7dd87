"""Rows themselves, for what sums cannot answer: read into memory by whichever engine holds them, or refused in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenscore.data.observations import Observations, observe
from evenscore.data.spec import TallySpec
from evenscore.engines import engine_of, unwrap
from evenscore.engines.data_or_tally import is_saved_tally
from evenscore.engines.memory import collect_frame
from evenscore.errors import DataError
from evenscore.tallies.tally_state import Tally
from evenscore.types import Say

SAMPLE = "write a sample of whole users (all rows of some users) to a file, and name that"


def require_rows(data: Any, call: str) -> None:
    """Refuse what holds no rows, and rows that lie on other machines; ``call`` says what needs them."""
    items = data if isinstance(data, list | tuple) else [data]
    if any(isinstance(item, Tally) or is_saved_tally(item) for item in items):
        raise DataError(
            f"{call} needs rows, and a tally holds only sums: who is in which group cannot be dealt out anew. Give the data that "
            "the tally was made from, with the names of the columns"
        )
    kind = engine_of(unwrap(data))
    if kind in ("spark", "dask"):
        raise DataError(f"{call} needs all rows in the memory of this machine, and a {kind.title()} frame is not; {SAMPLE}")


def read_rows(data: Any, spec: TallySpec, *, call: str, memory_limit: int, say: Say | None = None) -> Observations:
    """The needed columns of all rows, checked and coded; ``say`` is told what was assumed about files."""
    require_rows(data, call)
    return observe(_collect(unwrap(data), spec, call, memory_limit, say), spec)


def _collect(data: Any, spec: TallySpec, call: str, limit: int, say: Say | None) -> Any:
    """Data of any kind as a frame or arrays in memory, unless they are too large for that."""
    kind = engine_of(data)
    if kind == "files":
        return _collect_files(data, spec.roles, call, limit, say)
    if kind == "ibis":
        from evenscore.engines.ibis import open_ibis

        with open_ibis(data, spec) as rows:
            return _collect(rows, spec, call, limit, say)
    if kind == "duckdb":
        from evenscore.engines.relations import is_small

        if not is_small(data, limit):
            raise _too_large(call, limit)
    return collect_frame(data, spec.roles)


def _collect_files(data: Any, roles: Mapping[str, Any], call: str, limit: int, say: Say | None) -> Any:
    from evenscore.engines.files import fetch_columns, is_small, use_files

    def fetch(source: Any) -> Any:
        if not is_small(source, limit):
            raise _too_large(call, limit)
        return fetch_columns(source)

    return use_files(data, roles, fetch, say)


def _too_large(call: str, limit: int) -> DataError:
    return DataError(
        f"{call} needs all rows in memory, and they do not fit into {limit:,} bytes (memory_limit= of es.placebo); "
        f"{SAMPLE}, or allow more"
    )
