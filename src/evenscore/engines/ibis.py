"""Ibis tables: DuckDB's are counted where they are; of other backends the needed columns are fetched to disk, and counted here."""

from __future__ import annotations

from typing import Any

from evenscore.engines.files import tally_files
from evenscore.engines.relations import tally_duckdb
from evenscore.engines.scan import MEMORY_LIMIT
from evenscore.engines.spill import spill_folder
from evenscore.engines.sql import ROLES
from evenscore.errors import OptionError, no_column
from evenscore.tallies.tally_state import Tally


def tally_ibis(data: Any, *, memory_limit: str | int = MEMORY_LIMIT, **options: Any) -> Tally:
    """The tally of an Ibis table, in bounded memory."""
    chosen = data.select(*_columns(data, options))
    backend = chosen._find_backend(use_default=True)
    if backend.name == "duckdb":
        return tally_duckdb(_relation(chosen, backend), memory_limit=memory_limit, **options)
    with spill_folder() as folder:
        path = folder / "rows.parquet"
        chosen.to_parquet(path)
        return tally_files(path, memory_limit=memory_limit, **options)


def _columns(data: Any, options: dict[str, Any]) -> list[str]:
    """The needed columns, each once."""
    found: dict[str, None] = {}
    for role in ROLES:
        value = options[role]
        for name in value if isinstance(value, list | tuple) else [value]:
            if name is None and role in ("user", "weight", "count"):
                continue
            if not isinstance(name, str):
                raise OptionError(f"{role}: with an Ibis table, name a column instead of giving an array")
            if name not in data.columns:
                raise no_column(name, role, "table", data.columns)
            found[name] = None
    return list(found)


def _relation(table: Any, backend: Any) -> Any:
    """The table as a DuckDB relation on the backend's own connection."""
    import ibis

    if hasattr(backend, "_run_pre_execute_hooks"):  # tables made in Python must be known to the connection
        backend._run_pre_execute_hooks(table)
    return backend.con.sql(str(ibis.to_sql(table, dialect="duckdb")))
