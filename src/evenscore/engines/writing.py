"""Files that DuckDB writes: tables, and data with one more column, in a stream that never holds all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenscore.engines.copying import AS_IT_IS, copied_whole
from evenscore.engines.duck import PLAIN, Share, connect, read_labels, run_query, type_kind
from evenscore.engines.files import open_files
from evenscore.engines.paths import TAKEN_IN, Paths, find_files, is_taken_in
from evenscore.engines.sources import Source
from evenscore.engines.sql import DUCKDB
from evenscore.errors import DataError, FileError, OptionError, hush, listing, shortened
from evenscore.saving import file_identity, named, refuse_existing
from evenscore.types import Array, Floats, Say

PARQUET = f"FORMAT parquet, {AS_IT_IS}"
TEXT = f"FORMAT csv, HEADER, {AS_IT_IS}"
FORMATS = {".parquet": PARQUET, ".pq": PARQUET, ".csv": TEXT, ".tsv": f"{TEXT}, DELIMITER '\t'"}
ADDED = "evenscore_added"  # arrays as a table in SQL
TYPES = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}

quoted = DUCKDB.name


# Tables


def write_columns(path: Path, columns: Mapping[str, Array], *, overwrite: bool = False) -> None:
    """Write columns of equal length, whole or not at all; nan becomes null. The same columns give the same bytes."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise FileError(f"cannot write {named(path)}: its name must end in .csv or .parquet")
    plain = {name: column.astype(str) if column.dtype == object else column for name, column in columns.items()}
    options = f"{PARQUET}, COMPRESSION zstd" if suffix == ".parquet" else FORMATS[suffix]
    with copied_whole(path, overwrite=overwrite) as temporary, connect(threads=1) as connection:
        connection.register(ADDED, plain)
        connection.execute(f"COPY (SELECT * FROM {ADDED}) TO {DUCKDB.literal(str(temporary))} ({options})")


def write_parquet(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A small table of plain values, each column of one type or null."""
    kinds = {name: next(type(row[name]) for row in rows if row[name] is not None) for name in rows[0]}
    declared = ", ".join(f"{quoted(name)} {TYPES[kind]}" for name, kind in kinds.items())
    inserted = ", ".join([f"({', '.join('?' * len(kinds))})"] * len(rows))
    with copied_whole(path, overwrite=True) as temporary, connect() as connection:
        connection.execute(f"CREATE TABLE pieces ({declared})")
        connection.execute(f"INSERT INTO pieces VALUES {inserted}", [value for row in rows for value in row.values()])
        connection.execute(f"COPY pieces TO {DUCKDB.literal(str(temporary))} ({PARQUET})")


# Data with one more column


@dataclass(frozen=True, slots=True)
class Stream:
    """Files to be copied with one more column.

    source: the files; score, groups: SQL for the score as a double and for the group columns, as text if Python lacks their type.
    """

    source: Source
    score: str
    groups: tuple[str, ...]
    group_types: tuple[str, ...]


def open_stream(data: Paths, score: str, groups: Sequence[str], say: Say | None = None) -> Stream:
    """Find the files and their columns."""
    source = open_files(data, {"score": [score], "group": list(groups)}, say)
    _ = source.selected  # an error names a column that is not there
    columns, types = source.columns, source.types
    as_groups = [
        columns[name] if types[name] in PLAIN else DUCKDB.as_label(columns[name], type_kind(types[name])) for name in groups
    ]
    return Stream(source, f"CAST({columns[score]} AS DOUBLE)", tuple(as_groups), tuple(types[name] for name in groups))


def count_groups(stream: Stream) -> tuple[list[Any], list[int], list[int]]:
    """Arrays of the labels of each combination of groups that occurs, its rows, and its rows without a score."""
    labels = [f"{expression} AS g{i}" for i, expression in enumerate(stream.groups)]
    missing = f"count(*) FILTER ({_is_missing(stream.score)})"
    sql = f"SELECT {', '.join(labels)}, count(*) AS n, {missing} AS missing FROM {stream.source.sql} GROUP BY ALL"
    columns = run_query(sql).fetchnumpy()
    arrays = [columns[f"g{i}"] for i in range(len(labels))]
    for i, kind in enumerate(stream.group_types):
        if kind == "DATE":  # a date is a date and not a moment
            arrays[i] = arrays[i].astype("datetime64[D]")
    return arrays, columns["n"].tolist(), columns["missing"].tolist()


def as_in_tallies(stream: Stream, labels: Sequence[Array]) -> list[Array]:
    """Labels of the stream in the types that a tally would see."""
    return [read_labels(kind, array) for kind, array in zip(stream.group_types, labels, strict=True)]


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
    numbers = run_query(f"SELECT {', '.join(counts)} FROM {stream.source.sql}").fetchone()
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def copy_with_column(
    stream: Stream, expression: str, name: str, path: Path, progress: Share | None = None, *, overwrite: bool = False
) -> None:
    """Write all rows with one more column; a missing score stays missing."""
    column = f"CASE WHEN {_is_missing(stream.score)} THEN NULL ELSE {expression} END"
    source = stream.source
    held = _held(source, path)
    rows = f"SELECT {', '.join(f'{sql} AS c{i}' for i, sql in enumerate([*held.values(), column]))} FROM {source.sql}"
    _copy(rows, source, [name], path, progress=progress, overwrite=overwrite)


def copy_with_arrays(
    data: Paths, arrays: Mapping[str, Floats], path: Path, progress: Share | None = None, *, overwrite: bool = False
) -> None:
    """Write all rows with a column for each array, in the order of the rows; nan becomes null."""
    source = open_files(data, say=hush)
    held = _held(source, path)
    columns = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(held.values()))
    added = ", ".join(f"nullif(added.{quoted(name)}, 'nan'::DOUBLE) AS c{len(held) + i}" for i, name in enumerate(arrays))
    rows = f"SELECT held.*, {added} FROM (SELECT {columns} FROM {source.sql}) AS held POSITIONAL JOIN {ADDED} AS added"
    _copy(rows, source, list(arrays), path, progress=progress, overwrite=overwrite, tables={ADDED: arrays})


def _copy(
    rows: str,
    source: Source,
    new: Sequence[str],
    path: Path,
    *,
    progress: Share | None,
    overwrite: bool,
    tables: Mapping[str, Mapping[str, Array]] | None = None,
) -> None:
    """Write what SQL selects as c0, c1, ..., if the file and its new columns can be called so."""
    if path.suffix.lower() not in FORMATS:
        raise OptionError(f"{named(path)}: results are written as {listing(FORMATS)}")
    if taken := [name for name in new if name.lower() in {known.lower() for known in source.held}]:
        raise OptionError(f"the data has a column {shortened(taken[0])} already; give the new one another name")
    if source.twice:
        raise DataError(f"the data has more than one column called {listing(map(repr, source.twice))}; rename or drop the others")
    selected, options = _name_columns(rows, [*source.held, *new], path)
    with copied_whole(path, overwrite=overwrite) as temporary:
        run_query(f"COPY ({selected}) TO {DUCKDB.literal(str(temporary))} ({options})", progress, tables)


def _name_columns(rows: str, names: list[str], path: Path) -> tuple[str, str]:
    """The rows with their names, and the format. DuckDB would rename a column that differs from another only by case.

    In CSV the names can be written as a first row instead.
    """
    options = FORMATS[path.suffix.lower()]
    first: dict[str, str] = {}
    rivals = [(first[name.lower()], name) for name in names if first.setdefault(name.lower(), name) != name]
    if not rivals:
        return f"SELECT {', '.join(f'c{i} AS {quoted(name)}' for i, name in enumerate(names))} FROM ({rows})", options
    if options == PARQUET:
        earlier, later = map(shortened, rivals[0])
        raise OptionError(
            f"the columns {earlier} and {later} differ only by case, and cannot both be written to Parquet; write CSV"
        )
    header = ", ".join(map(DUCKDB.literal, names))
    as_text = ", ".join(DUCKDB.as_text(f"c{i}") for i in range(len(names)))
    return f"SELECT {header} UNION ALL SELECT {as_text} FROM ({rows})", options.replace("HEADER", "HEADER false")


def _held(source: Source, path: Path) -> dict[str, str]:
    """The columns as they are; in a Parquet file those of a CSV file have their types, where no value is lost or altered by it."""
    if FORMATS.get(path.suffix.lower()) != PARQUET:
        return source.held
    longest = [name for name in source.held if source.types[name] in ("HUGEINT", "UHUGEINT")]  # DuckDB writes them as doubles
    if not source.is_text:
        return source.held | {name: f"CAST({source.held[name]} AS DECIMAL(38, 0))" for name in longest}
    typed = {name: source.types[name] for name in source.held if name not in longest and source.types[name] != "VARCHAR"}
    if not typed:
        return source.held
    values = {name: f"TRY_CAST({source.held[name]} AS {kind})" for name, kind in typed.items()}
    counts = ", ".join(f"count(*) FILTER ({_is_altered(source.held[name], values[name], kind)})" for name, kind in typed.items())
    lost = run_query(f"SELECT {counts} FROM {source.sql}").fetchone()
    return source.held | {name: value for (name, value), n in zip(values.items(), lost, strict=True) if not n}


def _is_altered(text: str, value: str, kind: str) -> str:
    """SQL for whether a text is more than its value says: 007 is not 7, and of long numbers a double keeps only 15 digits."""
    altered = f"{value} IS NULL"
    if kind == "BIGINT":
        altered = f"CAST({value} AS VARCHAR) IS DISTINCT FROM {text}"
    elif kind == "DOUBLE":
        kept = f"(length({text}) <= 15 AND isfinite({value}) AND NOT regexp_matches({text}, '^[-+]?0[0-9]'))"
        altered = f"{value} IS NULL OR NOT ({kept} OR CAST({value} AS VARCHAR) = {text})"
    return f"{text} IS NOT NULL AND ({altered})"


def refuse_overwriting(data: Paths, path: Path, overwrite: bool = False) -> None:
    """The result must not take the place of what it is made from, nor of anything else unless told so."""
    if path.exists() and file_identity(path) in map(file_identity, find_files(data)):
        raise OptionError(f"{named(path)} is read and written at once; give the result another name")
    if is_taken_in(path, data):
        raise OptionError(f"{named(path)} {TAKEN_IN}")
    refuse_existing(path, overwrite)


def _is_missing(score: str) -> str:
    return f"({score} IS NULL OR isnan({score}))"
