"""Ibis tables: DuckDB's are counted where they are; of other backends the needed columns are fetched to disk, and counted here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evenscore.data.spec import TallySpec
from evenscore.engines.files import tally_files
from evenscore.engines.relations import tally_duckdb
from evenscore.engines.spill import MEMORY_LIMIT, spill_folder
from evenscore.engines.sql import ID_ROLES
from evenscore.errors import DataError, OptionError, no_column, shortened
from evenscore.tallies.tally_state import Tally
from evenscore.types import Progress

NANOSECONDS = 9  # digits after the second


def tally_ibis(data: Any, spec: TallySpec, *, memory_limit: str | int = MEMORY_LIMIT, progress: Progress | None = None) -> Tally:
    """The tally of an Ibis table, in bounded memory."""
    with open_ibis(data, spec) as rows:
        tally_rows = tally_files if isinstance(rows, Path) else tally_duckdb
        return tally_rows(rows, spec, memory_limit=memory_limit, progress=progress)


@contextmanager
def open_ibis(data: Any, spec: TallySpec) -> Iterator[Any]:
    """The needed columns of an Ibis table as a DuckDB relation, or as the path of a file that is removed in the end."""
    chosen = data.select(*_find_columns(data, spec))
    for role in ID_ROLES:
        _refuse_nanoseconds(chosen, getattr(spec, role), role)
    backend = chosen._find_backend(use_default=True)
    if backend.name == "duckdb":
        yield _as_relation(chosen, backend)
        return
    with spill_folder() as folder:
        path = folder / "rows.parquet"
        chosen.to_parquet(path)
        yield path


def _find_columns(data: Any, spec: TallySpec) -> list[str]:
    """The needed columns, each once."""
    names: dict[str, None] = {}
    for role, value in spec.roles.items():
        if value is None:
            continue
        for name in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(name, str):
                raise OptionError(f"{role}: with an Ibis table, name a column instead of giving an array")
            if name not in data.columns:
                raise no_column(name, role, "table", data.columns)
            names[name] = None
    return list(names)


def _refuse_nanoseconds(table: Any, name: Any, role: str) -> None:
    """Backends cut them off before they can be looked at, but for moments without a zone in DuckDB."""
    if name is None:
        return
    dtype = table.schema()[name]
    fine_instant = dtype.is_timestamp() and dtype.scale == NANOSECONDS and dtype.timezone is not None
    if fine_instant or (dtype.is_interval() and dtype.unit.short == "ns"):
        raise DataError(
            f"column {shortened(name)} ({role}) is in nanoseconds, which not all engines keep; cast it to microseconds, or to text"
        )


def _as_relation(table: Any, backend: Any) -> Any:
    """The table as a DuckDB relation on the backend's own connection."""
    import ibis

    if hasattr(backend, "_run_pre_execute_hooks"):  # tables made in Python must be known to the connection
        backend._run_pre_execute_hooks(table)
    return backend.con.sql(str(ibis.to_sql(table, dialect="duckdb")))
