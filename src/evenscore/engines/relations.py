"""DuckDB relations, and what else is done with files beside tallying them at once: user-level rows, and the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenscore.engines import scan
from evenscore.engines.duck import connect, fields_of, plan_relation, tally_relation
from evenscore.engines.files import Paths, Source, fetch_relation, find_files, named_columns, open_source, patiently
from evenscore.engines.memory import tally_frame
from evenscore.engines.scan import MEMORY_LIMIT, fits
from evenscore.engines.spill import bytes_of, spill_folder
from evenscore.engines.sql import ROLES
from evenscore.tallies.tally_state import Tally
from evenscore.types import Say


def tally_duckdb(relation: Any, *, memory_limit: str | int = MEMORY_LIMIT, **options: Any) -> Tally:
    """The tally of a DuckDB relation; roles may also be given as arrays while it fits into memory."""
    limit = bytes_of(memory_limit)
    roles = {role: options[role] for role in (*ROLES, "nulls")}
    n_rows = int(patiently(("the relation",), lambda _: relation.aggregate("count(*)").fetchall())[0][0])
    if n_rows * scan.FETCHED_BYTES <= limit:
        return tally_frame(fetch_relation(relation, roles), **options)
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    with spill_folder() as folder:
        fields = fields_of(types, roles, options["nulls"], "relation", {})
        return patiently(("the relation",), lambda _: tally_relation(relation, fields, options, limit, folder))


def explain_files(engine: str, data: Any, memory_limit: str | int, options: dict[str, Any]) -> tuple[Any, Any, list[str]]:
    """What the survey saw, the lattice, and the steps for files, relations and Ibis tables."""
    limit = bytes_of(memory_limit)
    at_once = ["fetch the needed columns and count in memory"]
    if engine == "ibis":
        return None, None, ["select the needed columns", "count DuckDB's tables where they are; stream the rows of other backends"]
    if engine == "duckdb":
        if int(data.aggregate("count(*)").fetchall()[0][0]) * scan.FETCHED_BYTES <= limit:
            return None, None, at_once
        types = dict(zip(data.columns, map(str, data.types), strict=True))
        plan = plan_relation(data, fields_of(types, options, options["nulls"], "relation", {}), options, limit)
        return plan.facts, plan.lattice, plan.lines()
    paths = find_files(data)
    source = patiently(paths, lambda settings: open_source(paths, named_columns({role: options[role] for role in ROLES}), settings))
    if fits(source.paths, source.sql, limit):
        return None, None, at_once
    with spill_folder() as folder, connect(limit, str(folder)) as connection:
        relation = connection.sql(f"SELECT * FROM {source.sql}")
        plan = plan_relation(relation, fields_of(source.types, options, options["nulls"], "file", source.converted), options, limit)
    return plan.facts, plan.lattice, plan.lines()


def write_by_user(
    data: Paths, output: Path, *, say: Say | None = None, memory_limit: str | int = MEMORY_LIMIT, **options: Any
) -> Any:
    """The user-level file of one or more files; see ``by_user``."""
    from evenscore.engines.by_user import write_relation

    paths = find_files(data)
    names = named_columns({role: options[role] for role in ROLES})
    limit = bytes_of(memory_limit)

    def write(settings: dict[str, str]) -> tuple[Source, Any]:
        source = open_source(paths, names, settings)
        with spill_folder() as folder, connect(limit, str(folder)) as connection:
            relation = connection.sql(f"SELECT * FROM {source.sql}")
            fields = fields_of(source.types, options, options["nulls"], "file", source.converted)
            return source, write_relation(relation, fields, options, limit, output, folder)

    source, about = patiently(paths, write)
    for note in source.notes:
        if say is not None:
            say(note)
    return about
