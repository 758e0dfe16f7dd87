"""DuckDB relations larger than memory: users are hash-partitioned to a temporary folder, and the parts counted one by one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenscore.data.columns import shortened
from evenscore.engines.parts import COUNTED_BYTES, Arrays, Recipe, finished
from evenscore.engines.sql import DUCKDB, Fields, find_fields
from evenscore.engines.survey import Survey, lattice_for, survey
from evenscore.tallies.tally_state import Tally
from evenscore.types import Floats, Progress

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
KINDS = {
    **dict.fromkeys(INTEGERS, "integer"),
    "UBIGINT": "unsigned",
    "FLOAT": "float",
    "DOUBLE": "float",
    "HUGEINT": "decimal",
    "UHUGEINT": "decimal",
    "BOOLEAN": "boolean",
    "VARCHAR": "text",
    "BLOB": "binary",
}
LABELS = ("VARCHAR", "BOOLEAN", "BLOB", "DATE", "TIMESTAMP", "FLOAT", "DOUBLE", "UBIGINT", *INTEGERS)
ENGINE_SHARE, COUNTING_SHARE = 0.35, 0.55  # of the memory limit; they take turns, mostly
ENGINE_LEAST = 128_000_000  # with less, writing many parts at a time may fail
SPILLED = 0.5  # of the work is done when everything is spilled
POLL = 0.2


@dataclass(frozen=True, slots=True)
class Duck:
    """A relation as an engine that answers the survey's questions."""

    relation: Any

    def aggregate(self, columns: dict[str, str], *, where: str | None = None, by: dict[str, str] | None = None) -> list[list[Any]]:
        """See ``survey.Engine``."""
        rows = self.relation if where is None else self.relation.filter(where)
        expressions = {**(by or {}), **columns}
        selected = ", ".join(f"{sql} AS {DUCKDB.name(name)}" for name, sql in expressions.items())
        found = rows.aggregate(selected, ", ".join((by or {}).values())).fetchall()
        return [list(column) for column in zip(*found, strict=True)] if found else [[] for _ in expressions]

    def select(self, column: str, *, where: str | None) -> Floats:
        """See ``survey.Engine``."""
        rows = self.relation if where is None else self.relation.filter(where)
        return np.asarray(rows.project(f"{column} AS value").fetchnumpy()["value"], dtype=np.float64)

    def first_rows(self, condition: str, value: str | None) -> str:
        """See ``survey.Engine``."""
        numbered = self.relation.project(f"row_number() OVER () - 1 AS row, {condition} AS bad, {value or 'NULL'} AS value")
        found = numbered.filter("bad").order("row").limit(3).fetchall()
        shown = ", ".join(f"{row}" + ("" if value is None else f" ({shortened(held)})") for row, _, held in found)
        return f" (first rows, from 0: {shown})"


def kinds_of(types: dict[str, str]) -> dict[str, str]:
    """What sort of thing each column holds."""
    return {name: KINDS.get(kind, "decimal" if kind.startswith("DECIMAL") else "other") for name, kind in types.items()}


def fields_of(types: dict[str, str], roles: dict[str, Any], nulls: str, where: str, converted: dict[str, str]) -> Fields:
    """The columns in their roles; labels of types that Python does not have are text."""
    labels = {name: DUCKDB.as_text(DUCKDB.name(name)) for name, kind in types.items() if kind not in LABELS}
    return find_fields(roles, kinds_of(types), DUCKDB, nulls, where, converted, labels)


@dataclass(frozen=True, slots=True)
class DuckPlan:
    """What will be done with a relation."""

    facts: Survey
    lattice: Any
    n_parts: int

    def lines(self) -> list[str]:
        """The plan in words."""
        spilled = f"hash-partition users into {self.n_parts} parts in a temporary folder, then count part by part"
        return [spilled if self.n_parts > 1 else "fetch the columns at once and count"]


def plan_relation(relation: Any, fields: Fields, options: dict[str, Any], limit: int) -> DuckPlan:
    """Survey a relation and decide into how many parts it must be cut."""
    engine = Duck(relation)
    facts = survey(engine, fields)
    lattice = lattice_for(engine, facts, options["lattice"], options["cuts"], options["cells"], options["scale"])
    row = 2 * row_bytes(facts) + COUNTED_BYTES
    return DuckPlan(facts, lattice, max(1, -int(-facts.n_rows * row // (COUNTING_SHARE * limit))))


def row_bytes(facts: Survey) -> int:
    """What a row takes while it is handed over."""
    sizes = {"score": 8, "outcome": 1 if facts.binary else 8, "part": 1, "weight": 8, "count": 8}
    return 8 + sum(sizes[name] for name in facts.prepared)


def tally_relation(
    relation: Any,
    fields: Fields,
    options: dict[str, Any],
    limit: int,
    folder: Path,
    connection: Any = None,
) -> Tally:
    """The tally of a relation in bounded memory."""
    plan = plan_relation(relation, fields, options, limit)
    recipe = Recipe.of(plan.facts, plan.lattice, options["split"])
    report = options["progress"] or (lambda done, total: None)
    with contextlib.ExitStack() as stack:
        if plan.n_parts == 1:
            parts: Iterator[Arrays] = iter([prepared(relation, plan.facts).fetchnumpy()])
        else:
            stack.enter_context(_watched(connection, lambda share: report(int(share * SPILLED * recipe.n_rows), recipe.n_rows)))
            parts = _spilled(relation, plan, folder)
        total = recipe.added(map(recipe.tally, _reported(parts, report, recipe.n_rows, plan.n_parts)))
    return finished(total, plan.facts, options["split"])


def prepared(relation: Any, facts: Survey) -> Any:
    """The relation that counting needs: short names, plain types, only rows that count."""
    rows = relation if facts.fields.kept is None else relation.filter(facts.fields.kept)
    key = "row_number() OVER () - 1" if facts.fields.user is None else facts.fields.key
    columns = {"key": key, **facts.prepared}
    return rows.project(", ".join(f"{sql} AS {DUCKDB.name(name)}" for name, sql in columns.items()))


def _spilled(relation: Any, plan: DuckPlan, folder: Path) -> Iterator[Arrays]:
    """Write each user's rows into one of the parts, and hand over part by part."""
    rows = prepared(relation, plan.facts).project(f"*, hash(key) % {plan.n_parts} AS place")
    place = folder / "parts"
    rows.write_parquet(str(place), partition_by=["place"], compression="uncompressed", overwrite=True)
    for part in range(plan.n_parts):
        files = place / f"place={part}"
        if files.exists():
            yield fetch_parquet(files)


def fetch_parquet(folder: Path) -> Arrays:
    """All columns of the files in a folder, which is then removed."""
    import shutil

    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        files = DUCKDB.literal(str(folder / "*.parquet"))
        arrays = connection.execute(f"SELECT * FROM read_parquet({files}, hive_partitioning = false)").fetchnumpy()
    shutil.rmtree(folder)
    return arrays


def _reported(parts: Iterator[Arrays], report: Progress, n_rows: int, n_parts: int) -> Iterator[Arrays]:
    done = 0
    start = SPILLED if n_parts > 1 else 0.0
    for arrays in parts:
        size = len(arrays["score"])
        yield arrays
        done += size
        report(int(start * n_rows + (1 - start) * done), n_rows)


@contextlib.contextmanager
def _watched(connection: Any, report: Callable[[float], None]) -> Iterator[None]:
    """Tell now and then what share of a long query is done."""
    if connection is None:
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(POLL):
            share = float(connection.query_progress())
            if 0 < share < 100:
                report(share / 100)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def connect(limit: int, folder: str | None) -> Any:
    """A connection that keeps to its share of the memory."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    connection.execute(f"SET memory_limit = '{max(int(ENGINE_SHARE * limit), ENGINE_LEAST)}B'")
    connection.execute("SET temp_directory = ''" if folder is None else f"SET temp_directory = {DUCKDB.literal(folder)}")
    return connection
