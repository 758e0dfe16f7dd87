"""CSV and Parquet files, read by DuckDB: only the columns that are needed, at once or in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from evenscore.data.spec import TallySpec
from evenscore.engines.by_user import ByUser, write_scan
from evenscore.engines.duck import connect, fetch_arrays, find_duckdb_fields, query, retry_step
from evenscore.engines.memory import HeldRows, hold_memory, tally_memory
from evenscore.engines.paths import CSV, Paths, file_kind, find_files, list_paths
from evenscore.engines.plans import FETCHED, TallyPlan
from evenscore.engines.relations import Scan, fits_memory, plan_scan, tally_scan
from evenscore.engines.sources import Source, explain_file, open_source
from evenscore.engines.spill import MEMORY_LIMIT, parse_memory_limit, spill_folder
from evenscore.errors import DataError, OptionError, listing, warn
from evenscore.tallies.tally_state import Tally
from evenscore.types import Progress, Say

SHORT_LINE = 25  # bytes of a row of CSV, at least
UNPACKED = 8  # how much larger text is before it is compressed

Done = TypeVar("Done")


def tally_files(
    data: Paths,
    spec: TallySpec,
    *,
    memory_limit: str | int = MEMORY_LIMIT,
    progress: Progress | None = None,
    say: Say | None = None,
) -> Tally:
    """The tally of one or more files; ``say`` is told what was assumed about them."""
    limit = parse_memory_limit(memory_limit)

    def read(source: Source) -> dict[str, Any] | Tally:
        if is_small(source, limit):
            return fetch_columns(source)
        with _open_scan(source, spec, limit) as scan:
            return tally_scan(scan, progress)

    columns = use_files(data, spec.roles, read, say)
    return columns if isinstance(columns, Tally) else tally_memory(columns, spec, progress=progress)


def hold_files(data: Paths, spec: TallySpec, *, memory_limit: str | int = MEMORY_LIMIT, say: Say | None = None) -> HeldRows | None:
    """The rows of files that fit into memory, checked and coded."""
    limit = parse_memory_limit(memory_limit)
    columns = use_files(data, spec.roles, lambda source: fetch_columns(source) if is_small(source, limit) else None, say)
    return None if columns is None else hold_memory(columns, spec)


def plan_files(data: Paths, spec: TallySpec, *, memory_limit: str | int = MEMORY_LIMIT) -> TallyPlan:
    """What would be done with files."""
    limit = parse_memory_limit(memory_limit)

    def plan(source: Source) -> TallyPlan:
        if is_small(source, limit):
            return TallyPlan("files", FETCHED)
        with _open_scan(source, spec, limit) as scan:
            return plan_scan(scan).describe("files")

    return use_files(data, spec.roles, plan)


def write_by_user(
    data: Paths,
    output: Path,
    spec: TallySpec,
    *,
    memory_limit: str | int = MEMORY_LIMIT,
    say: Say | None = None,
    overwrite: bool = False,
) -> ByUser:
    """The user-level file of one or more files; see ``by_user``."""
    limit = parse_memory_limit(memory_limit)

    def write(source: Source) -> ByUser:
        with _open_scan(source, spec, limit) as scan:
            return write_scan(scan, output, overwrite=overwrite)

    return use_files(data, spec.roles, write, say)


def read_files(data: Paths, roles: Mapping[str, Any], say: Say | None = None) -> dict[str, Any]:
    """The columns that roles name, as arrays; a role may name several."""
    return use_files(data, roles, fetch_columns, say)


def open_files(data: Paths, roles: Mapping[str, Any] | None = None, say: Say | None = None) -> Source:
    """Find the files, and which columns they have; named columns are made ready for their role."""
    return use_files(data, roles or {}, lambda source: source, say, every=True)


def use_files(
    data: Paths, roles: Mapping[str, Any], step: Callable[[Source], Done], say: Say | None = None, *, every: bool = False
) -> Done:
    """Open files, take a step with them, and say what was assumed: to whoever listens, else in a warning.

    every: also columns that no role names are made ready.
    """
    paths = find_files(data)
    names = _list_names(roles)

    def take(settings: dict[str, str]) -> tuple[Source, Done]:
        source = open_source(paths, names, settings, every=every)
        return source, step(source)

    source, done = retry_step(take, lambda complaint: explain_file(paths, complaint))
    for note in source.notes:
        (say or warn)(note)
    return done


def _list_names(roles: Mapping[str, Any]) -> dict[str, list[str]]:
    """The columns that each role names."""
    names = {}
    for role, value in roles.items():
        if value is not None:
            names[role] = list(value) if isinstance(value, list | tuple) else [value]
            if not all(isinstance(name, str) for name in names[role]):
                raise OptionError(f"{role}: with files, name a column of the file instead of giving an array")
    return names


def fetch_columns(source: Source) -> dict[str, Any]:
    """The needed columns as arrays."""
    selected = source.selected
    columns = fetch_arrays(query(f"SELECT {', '.join(selected.values())} FROM {source.sql}"), source.types, selected, source.names)
    if all(len(values) == 0 for values in columns.values()):
        raise DataError(f"{list_paths(source.paths)}: the data has no rows, only the columns {listing(source.types)}")
    return columns


def is_small(source: Source, limit: int) -> bool:
    """Whether the columns of files can be held in memory as they are."""
    if file_kind(source.paths[0]) == "Parquet":
        with connect(memory_limit=limit) as connection:
            return fits_memory(int(connection.execute(f"SELECT count(*) FROM {source.sql}").fetchall()[0][0]), limit)
    return fits_memory(sum(map(_text_bytes, source.paths)) // SHORT_LINE, limit)


@contextmanager
def _open_scan(source: Source, spec: TallySpec, limit: int) -> Iterator[Scan]:
    """Files as a relation that is counted in bounded memory."""
    fields = find_duckdb_fields(spec, source.types, "file", source.columns)
    with spill_folder() as folder, connect(memory_limit=limit, folder=folder) as connection:
        relation = connection.sql(f"SELECT * FROM {source.sql}")
        yield Scan(relation, fields, spec, limit, folder, connection)


def _text_bytes(path: str) -> int:
    """The size of a CSV file once it is unpacked, at most."""
    return Path(path).stat().st_size * (1 if path.lower().endswith(CSV[:3]) else UNPACKED)
