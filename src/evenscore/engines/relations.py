"""DuckDB relations: fetched at once when they fit into memory; else users are hash-partitioned to disk and counted in parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenscore.data.spec import TallySpec
from evenscore.engines.duck import (
    Duck,
    fetch_arrays,
    find_duckdb_fields,
    is_old,
    relation_types,
    retry_step,
    select_columns,
    watch_progress,
)
from evenscore.engines.memory import HeldRows, hold_memory, tally_memory
from evenscore.engines.parts import COUNTED_BYTES, ITEM_BYTES, Arrays
from evenscore.engines.plans import FETCHED, TallyPlan
from evenscore.engines.spill import MEMORY_LIMIT, parse_memory_limit, spill_folder
from evenscore.engines.spreading import spill_parts
from evenscore.engines.sql import DUCKDB, Fields
from evenscore.engines.survey import Survey, take_survey
from evenscore.tallies.tally_state import Tally
from evenscore.types import Progress

FETCHED_BYTES = 150  # what a row takes when its columns are fetched as they are, text included; measured
COUNTING_SHARE = 0.55  # of the memory limit; it takes turns with the engine's own, mostly
SPILLED = 0.5  # of the work is done when everything is spilled


def tally_duckdb(data: Any, spec: TallySpec, *, memory_limit: str | int = MEMORY_LIMIT, progress: Progress | None = None) -> Tally:
    """The tally of a DuckDB relation; columns may also be given as arrays while it fits into memory."""
    limit = parse_memory_limit(memory_limit)
    if is_small(data, limit):
        return tally_memory(fetch_relation(data, spec.roles), spec, progress=progress)
    with _open_scan(data, spec, limit) as scan:
        return retry_step(lambda _: tally_scan(scan, progress), _explain_relation)


def hold_duckdb(data: Any, spec: TallySpec, *, memory_limit: str | int = MEMORY_LIMIT) -> HeldRows | None:
    """The rows of a relation that fits into memory, checked and coded."""
    return hold_memory(fetch_relation(data, spec.roles), spec) if is_small(data, parse_memory_limit(memory_limit)) else None


def plan_duckdb(data: Any, spec: TallySpec, *, memory_limit: str | int = MEMORY_LIMIT) -> TallyPlan:
    """What would be done with a DuckDB relation."""
    limit = parse_memory_limit(memory_limit)
    if is_small(data, limit):
        return TallyPlan("duckdb", FETCHED)
    with _open_scan(data, spec, limit) as scan:
        return retry_step(lambda _: plan_scan(scan).describe("duckdb"), _explain_relation)


@contextmanager
def _open_scan(data: Any, spec: TallySpec, limit: int) -> Iterator[Scan]:
    fields = find_duckdb_fields(spec, relation_types(data), "relation")
    with spill_folder() as folder:
        yield Scan(data, fields, spec, limit, folder)


def fetch_relation(data: Any, roles: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a DuckDB relation that roles name; what is given as an array is left out."""
    listed = {role: value if isinstance(value, list | tuple) else [value] for role, value in roles.items()}
    names = {role: [name for name in values if isinstance(name, str)] for role, values in listed.items()}
    types = relation_types(data)
    selected = select_columns(types, {}, names, "relation")
    if not selected:
        return {}
    return retry_step(lambda _: fetch_arrays(data.project(", ".join(selected.values())), types, selected, names), _explain_relation)


def fits_memory(n_rows: int, limit: int) -> bool:
    """Whether the needed columns can be held in memory as they are."""
    return n_rows * FETCHED_BYTES <= limit


def is_small(relation: Any, limit: int) -> bool:
    """Whether the columns of a relation can be held in memory as they are."""
    rows = retry_step(lambda _: relation.aggregate("count(*)").fetchall(), _explain_relation)
    return fits_memory(int(rows[0][0]), limit)


def _explain_relation(complaint: str) -> str:
    return f"the relation: {complaint}"


# In bounded memory


@dataclass(frozen=True, slots=True)
class Scan:
    """A relation that is counted in ``limit`` bytes of memory. connection: its own, if that can tell how far it is."""

    relation: Any
    fields: Fields
    spec: TallySpec
    limit: int
    folder: Path
    connection: Any = None


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What will be done with a relation."""

    facts: Survey
    n_parts: int

    def describe(self, engine: str) -> TallyPlan:
        """The plan in words."""
        step = "fetch the columns at once and count"
        if self.n_parts > 1:
            step = f"hash-partition users into {self.n_parts} parts in a temporary folder, then count part by part"
        return TallyPlan.from_survey(engine, self.facts, "survey (one aggregate, the groups)", step)


def plan_scan(scan: Scan) -> ScanPlan:
    """Survey a relation and decide into how many parts it must be cut."""
    facts = take_survey(Duck(scan.relation), scan.fields, scan.spec)
    sizes = {"score": 8, "outcome": 1 if facts.recipe.binary else 8, "group": 1, "weight": 8, "count": 8, "item": 8}
    handed_over = 8 + sum(sizes[name] for name in facts.selected)
    counted = COUNTED_BYTES + (ITEM_BYTES if facts.recipe.item is not None else 0)
    return ScanPlan(facts, count_parts(facts.recipe.n_rows, 2 * handed_over + counted, scan.limit))


def count_parts(n_rows: int, row_bytes: int, limit: int) -> int:
    """Into how many parts rows must be cut so that each can be counted in its share of the memory."""
    return max(1, -int(-n_rows * row_bytes // (COUNTING_SHARE * limit)))


def tally_scan(scan: Scan, progress: Progress | None = None) -> Tally:
    """The tally of a relation in bounded memory."""
    plan = plan_scan(scan)
    recipe = plan.facts.recipe
    rows = select_rows(scan.relation, plan.facts)
    report = progress or (lambda done, total: None)
    if plan.n_parts == 1:
        arrays = _report_parts(iter([rows.fetchnumpy()]), report, recipe.n_rows, 0.0)
        return recipe.finish(recipe.add_up(map(recipe.tally, arrays)))

    def spread(done: float) -> None:
        report(int(SPILLED * done), recipe.n_rows)

    with watch_progress(scan.connection if is_old() else None, lambda share: spread(share * recipe.n_rows)):
        parts = spill_parts(rows, plan.n_parts, scan.folder, nullable=plan.facts.nullable, spread=spread)
        arrays = _report_parts(parts, report, recipe.n_rows, SPILLED)
        return recipe.finish(recipe.add_up(map(recipe.tally, arrays)))


def select_rows(relation: Any, facts: Survey) -> Any:
    """The relation that counting needs: short names, plain types, only rows that count."""
    rows = relation if facts.fields.counted is None else relation.filter(facts.fields.counted)
    key = "row_number() OVER () - 1" if facts.fields.user is None else facts.fields.key
    columns = {"key": key, **facts.selected}
    return rows.project(", ".join(f"{sql} AS {DUCKDB.name(name)}" for name, sql in columns.items()))


def _report_parts(parts: Iterator[Arrays], report: Progress, n_rows: int, start: float) -> Iterator[Arrays]:
    """Hand parts on, and tell after each how much is done; ``start`` is the share done before the first."""
    done = 0
    for arrays in parts:
        size = len(arrays["score"])
        yield arrays
        done += size
        report(int(start * n_rows + (1 - start) * done), n_rows)
