"""Files that DuckDB writes: small tables, and data with one more column, in a stream that never holds all rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenscore.engines.files import Paths, Source, complaint, find_files, group_columns, open_files, quoted, sql_text
from evenscore.errors import DataError, OptionError, listing, shortened
from evenscore.saving import written_whole
from evenscore.types import Array, Floats, Say

PARQUET = "FORMAT parquet"
FORMATS = {".parquet": PARQUET, ".pq": PARQUET, ".csv": "FORMAT csv, HEADER", ".tsv": "FORMAT csv, HEADER, DELIMITER '\t'"}
ADDED = "evenscore_added"  # arrays as a table in SQL
TYPES = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}

Share = Callable[[float], None]


def write_parquet(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A small table of plain values, each column of one type or null."""
    import duckdb

    kinds = {name: next(type(row[name]) for row in rows if row[name] is not None) for name in rows[0]}
    connection = duckdb.connect()
    declared = ", ".join(f"{quoted(name)} {TYPES[kind]}" for name, kind in kinds.items())
    connection.execute(f"CREATE TABLE pieces ({declared})")
    places = f"({', '.join('?' * len(kinds))})"
    connection.execute(f"INSERT INTO pieces VALUES {', '.join([places] * len(rows))}", [x for row in rows for x in row.values()])
    with written_whole(path, path.suffix) as temporary:
        connection.execute(f"COPY pieces TO {sql_text(str(temporary))} ({PARQUET})")


@dataclass(frozen=True, slots=True)
class Stream:
    """Files to be copied with one more column.

    source: where rows come from, unchanged: the columns of a CSV file as text. score, groups: SQL for the score as a double and
    for the group columns in the types that a tally would see.
    """

    found: Source
    source: str
    score: str
    groups: tuple[str, ...]
    group_types: tuple[str, ...]


def open_stream(data: Paths, score: str, groups: Sequence[str], say: Say | None = None) -> Stream:
    """Find the files and their columns."""
    names = {"score": [score], "group": list(groups)}
    found = open_files(data, names)
    for note in found.notes:
        if say is not None:
            say(note)
    selected = group_columns(found, names)
    raw = _unchanged(found)

    def column(name: str, kind: str) -> str:
        return f"CAST({quoted(name)} AS {kind})" if raw != found.sql else quoted(name)

    as_score = found.converted.get(score) or f"CAST({column(score, found.types[score])} AS DOUBLE)"
    as_groups = tuple(
        column(name, found.types[name]) if selected[name] == quoted(name) else f"CAST({quoted(name)} AS VARCHAR)" for name in groups
    )
    return Stream(found, raw, as_score, as_groups, tuple(found.types[name] for name in groups))


def count_groups(stream: Stream) -> tuple[list[Any], list[int], list[int]]:
    """Arrays of the labels of each combination of groups that occurs, its rows, and its rows without a score."""
    labels = [f"{expression} AS g{i}" for i, expression in enumerate(stream.groups)]
    missing = f"count(*) FILTER ({_is_missing(stream.score)})"
    found = _run(f"SELECT {', '.join(labels)}, count(*) AS n, {missing} AS missing FROM {stream.source} GROUP BY ALL").fetchnumpy()
    arrays = [found[f"g{i}"] for i in range(len(labels))]
    arrays = [_dates(array) if kind == "DATE" else array for array, kind in zip(arrays, stream.group_types, strict=True)]
    return arrays, found["n"].tolist(), found["missing"].tolist()


def count_outside(stream: Stream, ranges: Sequence[tuple[str, float, float]]) -> list[tuple[int, int]]:
    """Rows below and above the range of each condition."""
    if not ranges:
        return []
    known = f"NOT {_is_missing(stream.score)}"
    counts = [
        f"count(*) FILTER ({known} AND ({condition}) AND {stream.score} {sign} {limit!r}::DOUBLE)"
        for condition, low, high in ranges
        for sign, limit in (("<", low), (">", high))
    ]
    found = _run(f"SELECT {', '.join(counts)} FROM {stream.source}").fetchone()
    return list(zip(found[::2], found[1::2], strict=True))


def copy_with_column(stream: Stream, expression: str, name: str, path: Path, progress: Share | None = None) -> None:
    """Write all rows with one more column; a missing score stays missing."""
    column = f"CASE WHEN {_is_missing(stream.score)} THEN NULL ELSE {expression} END AS {quoted(name)}"
    _copy(f"SELECT {_held(stream.found, path)}, {column} FROM {stream.source}", stream.found, [name], path, progress)


def copy_with_arrays(data: Paths, arrays: Mapping[str, Floats], path: Path, progress: Share | None = None) -> None:
    """Write all rows with a column for each array, in the order of the rows; nan becomes null."""
    found = open_files(data)
    columns = ", ".join(f"nullif(added.{quoted(name)}, 'nan'::DOUBLE) AS {quoted(name)}" for name in arrays)
    held = f"(SELECT {_held(found, path)} FROM {_unchanged(found)})"
    rows = f"SELECT held.*, {columns} FROM {held} AS held POSITIONAL JOIN {ADDED} AS added"
    _copy(rows, found, list(arrays), path, progress, arrays)


def _copy(
    rows: str,
    found: Source,
    new: Sequence[str],
    path: Path,
    progress: Share | None,
    arrays: Mapping[str, Array] | None = None,
) -> None:
    """Write what SQL selects, if the file and its new columns can be called so."""
    if path.suffix.lower() not in FORMATS:
        raise OptionError(f"{path}: results are written as {listing(FORMATS)}")
    if taken := [name for name in new if name.lower() in {known.lower() for known in found.types}]:
        raise OptionError(f"the data has a column {shortened(taken[0])} already; give the new one another name")
    with written_whole(path, path.suffix) as temporary:
        _run(f"COPY ({rows}) TO {sql_text(str(temporary))} ({FORMATS[path.suffix.lower()]})", progress, arrays)


def _held(found: Source, path: Path) -> str:
    """The columns as they are; in a Parquet file those of a CSV file have their types, where no value is lost or altered by it."""
    typed = {name: kind for name, kind in found.types.items() if kind != "VARCHAR"}
    if _unchanged(found) == found.sql or FORMATS.get(path.suffix.lower()) != PARQUET or not typed:
        return "*"
    counts = []
    for name, kind in typed.items():
        text, value = quoted(name), f"TRY_CAST({quoted(name)} AS {kind})"
        altered = f"{value} IS NULL" + (f" OR CAST({value} AS VARCHAR) != {text}" if kind.endswith("INT") else "")  # 007 is not 7
        counts.append(f"count(*) FILTER ({text} IS NOT NULL AND ({altered}))")
    lost = _run(f"SELECT {', '.join(counts)} FROM {_unchanged(found)}").fetchone()
    kept = [
        f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}" for (name, kind), n in zip(typed.items(), lost, strict=True) if not n
    ]
    return f"* REPLACE ({', '.join(kept)})" if kept else "*"


def _unchanged(found: Source) -> str:
    """The files as they are: the columns of a CSV file as text."""
    return found.sql.removesuffix(")") + ", all_varchar = true)" if found.sql.startswith("read_csv(") else found.sql


def refuse_overwriting(data: Paths, path: Path) -> None:
    """The result must not take the place of what it is made from."""
    if path.exists() and any(Path(name).samefile(path) for name in find_files(data)):
        raise OptionError(f"{path} is read and written at once; give the result another name")


def _dates(array: Any) -> Any:
    """A date is a date and not a moment."""
    return array.astype("datetime64[D]")


def _is_missing(score: str) -> str:
    return f"({score} IS NULL OR isnan({score}))"


def _run(sql: str, progress: Share | None = None, arrays: Mapping[str, Array] | None = None) -> Any:
    """Run SQL, which may name arrays as a table, and tell how far it is, from 0 to 1."""
    import duckdb

    connection = duckdb.connect()
    if arrays is not None:
        connection.register(ADDED, dict(arrays))
    connection.execute("SET enable_progress_bar = true")
    connection.execute("SET enable_progress_bar_print = false")
    failures: list[BaseException] = []

    def work() -> None:
        try:
            connection.execute(sql)
        except BaseException as error:  # it is raised again in the thread that waits
            failures.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.1)
            if progress is not None and hasattr(connection, "query_progress"):  # DuckDB 1.2 cannot tell
                progress(max(float(connection.query_progress()), 0.0) / 100)
    except KeyboardInterrupt:
        connection.interrupt()
        thread.join()
        raise
    if failures and isinstance(failures[0], duckdb.Error):
        raise DataError(f"DuckDB could not do it: {complaint(str(failures[0]))}") from None
    if failures:
        raise failures[0]
    return connection
