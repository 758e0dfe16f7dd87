"""The one door to DuckDB: connections with their settings, queries, what to make of its errors, and a relation that is surveyed."""

from __future__ import annotations

import functools
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from evenscore.data.coding import encode
from evenscore.data.columns import shortened
from evenscore.data.groups import label_from_text
from evenscore.data.spec import TallySpec
from evenscore.engines.spill import process_folder, spill_failure
from evenscore.engines.sql import DUCKDB, ID_ROLES, NUMERIC_ROLES, Fields, find_fields, require_identity
from evenscore.engines.survey import SKETCHED, Answers, Fact
from evenscore.errors import DataError, EvenscoreError, FileError, no_column
from evenscore.types import Array, Floats

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
KINDS = {
    **dict.fromkeys(INTEGERS, "integer"),
    "UBIGINT": "unsigned",
    "FLOAT": "float",
    "DOUBLE": "float",
    "HUGEINT": "huge",
    "UHUGEINT": "huge",
    "BOOLEAN": "boolean",
    "VARCHAR": "text",
    "JSON": "text",
    "BLOB": "binary",
    "UUID": "uuid",
    "DATE": "date",
    "TIME": "time",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"), "moment"),
    "TIMESTAMP_NS": "fine moment",
    "TIMESTAMPTZ_NS": "fine instant",
    "TIME_NS": "fine time",
    "TIMESTAMP WITH TIME ZONE": "instant",
    "INTERVAL": "duration",
}
FAMILIES = {"DECIMAL": "decimal", "ENUM": "text"}  # types with parameters
AS_OBJECTS = ("uuid", "time", "text", "decimal", "huge")  # ids that NumPy has no type for, or not an exact one
PLAIN = ("VARCHAR", "BOOLEAN", "BLOB", "DATE", "TIMESTAMP", "FLOAT", "DOUBLE", "UBIGINT", *INTEGERS)  # Python and NumPy have them
OBJECTS: dict[str, Callable[[Any], Any]] = {"huge": int, "binary": bytes, "decimal": Decimal}  # in arrays of objects
ENGINE_SHARE = 0.35  # of the memory limit
ENGINE_LEAST = 128_000_000  # with less, writing many parts at a time may fail
POLL = 0.2

Share = Callable[[float], object]
Done = TypeVar("Done")


# Connections


def connect(*, threads: int | None = None, memory_limit: int | None = None, folder: Path | None = None) -> Any:
    """A connection of its own; with a memory limit it keeps to its share, and writes nothing to disk unless there is a folder.

    Without a limit it spills what memory cannot hold to a folder that is removed with this process, never to the caller's.
    """
    connection = _duckdb().connect()
    connection.execute("SET enable_progress_bar = true")  # else it cannot tell how far it is
    connection.execute("SET enable_progress_bar_print = false")
    if threads is not None:
        connection.execute(f"SET threads = {threads}")
    if memory_limit is not None:
        connection.execute(f"SET memory_limit = '{max(int(ENGINE_SHARE * memory_limit), ENGINE_LEAST)}B'")
    elif (shared := process_folder()) is not None:
        folder = shared / secrets.token_hex(8)  # older versions do not expect others in theirs
    connection.execute(f"SET temp_directory = {DUCKDB.literal('' if folder is None else str(folder))}")
    return connection


def partition_relation(partition: Any) -> Any:
    """A pandas frame as a relation. Partitions share a connection: making one takes longer than asking it.

    It has one thread, since partitions are handled side by side already, and a cursor for each may be used in any of them.
    """
    return _partitions_connection().cursor().from_df(partition)


@functools.cache
def _partitions_connection() -> Any:
    return connect(threads=1)


def query(sql: str) -> Any:
    """Run SQL on a connection of its own."""
    return connect().execute(sql)


def try_query(sql: str) -> list[Any] | None:
    """The rows of a query, or None when DuckDB refuses."""
    try:
        return list(query(sql).fetchall())
    except _duckdb().Error:
        return None


def run_query(sql: str, progress: Share | None = None, tables: Mapping[str, Mapping[str, Array]] | None = None) -> Any:
    """Run SQL, which may name tables of arrays, and tell what share is done."""
    connection = connect()
    for name, arrays in (tables or {}).items():
        connection.register(name, dict(arrays))
    if progress is not None:
        progress(0.0)
    try:
        with watch_progress(connection, progress), _hear_interrupts():
            return connection.execute(sql)
    except _duckdb().Error as error:
        raise DataError(f"DuckDB could not do it: {shorten_complaint(str(error))}") from None


@contextmanager
def watch_progress(connection: Any, report: Share | None) -> Iterator[None]:
    """Tell now and then what share of a long query is done."""
    if report is None or not hasattr(connection, "query_progress"):  # DuckDB 1.2 cannot tell
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


def is_old() -> bool:
    """Whether DuckDB is older than 2.0."""
    return int(_duckdb().__version__.split(".")[0]) < 2


def _duckdb() -> Any:
    """Imported when somebody needs it."""
    import duckdb

    return duckdb


# Errors


def complaints() -> tuple[type[Exception], ...]:
    """What a query may raise: DuckDB's own errors, or what became of them."""
    return (_duckdb().Error, EvenscoreError)


def engine_error() -> type[Exception]:
    """DuckDB's own error."""
    return _duckdb().Error


def retry_step(step: Callable[[dict[str, str]], Done], explain: Callable[[str], str]) -> Done:
    """Take a step with the usual settings; when a CSV turns out to be in another encoding, again with that.

    ``explain`` names what cannot be read and says why, given DuckDB's complaint.
    """
    settings: dict[str, str] = {}
    while True:
        try:
            with _hear_interrupts():
                return step(settings)
        except _duckdb().Error as error:
            better = _remedy(str(error), settings)
            if better == settings:
                complaint = shorten_complaint(str(error))
                raise spill_failure(complaint) or FileError(f"cannot read {explain(complaint)}") from None
            settings = better


@contextmanager
def _hear_interrupts() -> Iterator[None]:
    """Turn what DuckDB makes of Ctrl-C back into what it is."""
    try:
        yield
    except (_duckdb().InterruptException, RuntimeError) as error:
        if "interrupt" in str(error).lower():
            raise KeyboardInterrupt from None
        raise


def _remedy(complaint: str, settings: dict[str, str]) -> dict[str, str]:
    """Settings that may help against a complaint, or the same ones."""
    if "invalid unicode" in complaint.lower():
        return settings | {"encoding": "'latin-1'"}
    return settings


def shorten_complaint(text: str) -> str:
    """The first lines of what DuckDB says, without advice, SQL and data."""
    lines = text.strip().split("\n\n")[0].splitlines()
    return " ".join(line.strip() for line in lines if not line.startswith(("Original Line", "LINE ", "Possible", "Potential", "*")))


# Relations


@dataclass(frozen=True, slots=True)
class Duck:
    """A relation as an engine that answers the survey's questions."""

    relation: Any

    def _rows(self, where: str | None) -> Any:
        return self.relation if where is None else self.relation.filter(where)

    def aggregate(self, facts: dict[str, Fact], *, where: str | None = None, by: dict[str, str] | None = None) -> Answers:
        """See ``survey.Engine``."""
        expressions = {**(by or {}), **{name: fact.sql for name, fact in facts.items()}}
        selected = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(expressions.values()))
        rows = self._rows(where).aggregate(selected, ", ".join((by or {}).values())).fetchall()
        return {name: [row[i] for row in rows] for i, name in enumerate(expressions)}

    def smallest_hashes(self, expression: str, *, where: str | None) -> Array:
        """What stands for the distinct values of an expression, see ``survey.Fact``."""
        hashes = self._rows(where).filter(f"{expression} IS NOT NULL").project(f"hash({expression}) AS h").distinct()
        return np.asarray(hashes.order("h").limit(SKETCHED).fetchnumpy()["h"])

    def select(self, column: str, *, where: str | None) -> Floats:
        """See ``survey.Engine``."""
        return np.asarray(self._rows(where).project(f"{column} AS value").fetchnumpy()["value"], dtype=np.float64)

    def first_rows(self, condition: str, value: str | None) -> str:
        """See ``survey.Engine``."""
        numbered = self.relation.project(f"row_number() OVER () - 1 AS row, {condition} AS bad, {value or 'NULL'} AS value")
        rows = numbered.filter("bad").order("row").limit(3).fetchall()
        shown = ", ".join(f"{row}" if value is None else f"{row} ({shortened(held)})" for row, _, held in rows)
        return f" (first rows, from 0: {shown})"


def relation_types(relation: Any) -> dict[str, str]:
    """The type of each column."""
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


def type_kind(name: str) -> str:
    """The kind of a type, see ``sql.Field``."""
    return KINDS.get(name) or FAMILIES.get(name.split("(")[0] if name.endswith(")") else "", "other")


def find_duckdb_fields(spec: TallySpec, types: dict[str, str], where: str, columns: dict[str, str] | None = None) -> Fields:
    """The columns in their roles; labels of types that Python does not have are text. columns: SQL for some of them."""
    kinds = {name: type_kind(kind) for name, kind in types.items()}
    expressions = {name: DUCKDB.name(name) for name in types} | (columns or {})
    labels = {name: DUCKDB.as_label(expressions[name], kinds[name]) for name, kind in types.items() if kind not in PLAIN}
    return find_fields(spec, kinds, DUCKDB, where, expressions=expressions, labels=labels)


# Columns as arrays


def select_columns(types: dict[str, str], columns: dict[str, str], names: dict[str, list[str]], where: str) -> dict[str, str]:
    """SQL for each column that a role names, in a type that NumPy can take; an error names one that is not there.

    columns: SQL for those that are not simply called so.
    """
    selected: dict[str, str] = {}
    for role, wanted in names.items():
        for name in wanted:
            if name not in types:
                unnamed = all(re.fullmatch(r"column\d+", known) for known in types)
                hint = " (is there no line with the names of the columns?)" if unnamed else ""
                raise no_column(name, role, where, types, hint)
            column = columns.get(name, DUCKDB.name(name))
            if types[name] not in PLAIN:
                column = _plain_column(column, type_kind(types[name]), role, name)
            selected.setdefault(name, column)
    return {name: f"{sql} AS c{i}" for i, (name, sql) in enumerate(selected.items())}


def _plain_column(column: str, kind: str, role: str, name: str) -> str:
    """SQL for a column in a type that NumPy can take; ids keep what tells them apart."""
    if role in ID_ROLES:
        require_identity(DUCKDB, kind, f"column {shortened(name)} ({role})")
        if kind == "time":
            return str(DUCKDB.ids[kind].text).format(x=column)
        if kind not in AS_OBJECTS:
            return column
    if role in NUMERIC_ROLES and kind in ("decimal", "huge"):
        return f"CAST({column} AS DOUBLE)"
    return DUCKDB.as_label(column, kind) if role == "group" else DUCKDB.as_text(column)


def fetch_arrays(relation: Any, types: dict[str, str], selected: dict[str, str], names: dict[str, list[str]]) -> dict[str, Any]:
    """Arrays by column name; a date is a date and not a moment, long integers, users and groups are again what they were."""
    users, groups = [*names.get("user", ()), *names.get("item", ())], names.get("group", ())
    arrays = dict(zip(selected, relation.fetchnumpy().values(), strict=True))
    for name, array in arrays.items():
        if types[name] == "DATE":
            arrays[name] = array.astype("datetime64[D]")
        elif (kind := type_kind(types[name])) in OBJECTS and array.dtype == object and (kind != "decimal" or name in users):
            known = ~np.ma.getmaskarray(array)
            array[known] = [OBJECTS[kind](value) for value in array[known]]
        elif name in groups:
            arrays[name] = read_labels(types[name], array)
    return arrays


def read_labels(kind: str, texts: Array) -> Array:
    """Labels of a type in the form in which arrays in memory hold them."""
    if kind in PLAIN or texts.dtype != object:
        return texts
    codes, distinct = encode(np.ma.getdata(texts))
    labels = np.empty(len(distinct), dtype=object)
    labels[:] = [label_from_text(type_kind(kind), text) for text in distinct]
    return np.ma.MaskedArray(labels[codes], np.ma.getmask(texts)) if isinstance(texts, np.ma.MaskedArray) else labels[codes]
