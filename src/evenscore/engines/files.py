"""CSV and Parquet files, read by DuckDB: only the columns that are needed."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenscore.engines.memory import tally_frame
from evenscore.errors import DataError, FileError, OptionError, listing
from evenscore.tally import Tally

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".csv.zst", ".tsv.zst")
NUMERIC_ROLES = ("score", "outcome", "weight", "count")
DECIMAL_COMMA = r"[-+]?[0-9]{1,3}(\.[0-9]{3})*,[0-9]+([eE][-+]?[0-9]+)?|[-+]?[0-9]+"

Paths = str | os.PathLike[str] | list[Any] | tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """Files that are ready to be read: SQL for their rows, the columns with their types, and what was assumed about them."""

    paths: tuple[str, ...]
    sql: str
    types: dict[str, str]
    notes: tuple[str, ...] = ()


def tally_files(data: Paths, *, say: Callable[[str], None] | None = None, **options: Any) -> Tally:
    """The tally of one or more files."""
    roles = {role: options[role] for role in ("score", "outcome", "group", "user", "weight", "count")}
    source = open_files(data, numeric=[value for role, value in roles.items() if role in NUMERIC_ROLES])
    for note in source.notes:
        if say is not None:
            say(note)
    return tally_frame(_fetch(source, roles), **options)


def open_files(data: Paths, numeric: Iterable[Any] = ()) -> Source:
    """Find the files, and how to read them."""
    paths = find_files(data)
    suffixes = {_kind(path) for path in paths}
    if len(suffixes) > 1:
        raise FileError(f"the files are of different kinds ({listing(sorted(suffixes))}); give files of one kind")
    names = "[" + ", ".join(_text(path) for path in paths) + "]"
    if suffixes == {"parquet"}:
        sql = f"read_parquet({names}, union_by_name = false)"
        return Source(paths, sql, _describe(sql, paths))
    return _open_csv(paths, names, [name for name in numeric if isinstance(name, str)])


def _open_csv(paths: tuple[str, ...], names: str, numeric: list[str]) -> Source:
    """CSV with whatever separator it has; numbers with a decimal comma are told from text."""
    notes = []
    sql = f"read_csv({names}, sample_size = 100000)"
    types = _describe(sql, paths)
    separator = _separator(paths[0])
    if separator not in (",", None):
        notes.append(f"assumed: columns are separated by {_separator_name(separator)}")
    suspects = [name for name in numeric if types.get(name) == "VARCHAR" and _has_decimal_comma(sql, name, paths)]
    if suspects:
        sql = f"read_csv({names}, sample_size = 100000, decimal_separator = ',', delim = {_text(separator or ';')})"
        types = _describe(sql, paths)
        notes.append(f"assumed: numbers have a decimal comma ({listing(suspects)})")
    return Source(paths, sql, types, tuple(notes))


def find_files(data: Paths) -> tuple[str, ...]:
    """The files that a path, folder, glob or list of these stands for."""
    if isinstance(data, list | tuple):
        return tuple(path for item in data for path in find_files(item))
    path = os.fspath(data)
    if Path(path).is_dir():
        found = sorted(str(file) for file in Path(path).rglob("*") if file.is_file() and _kind(str(file), strict=False))
        if not found:
            raise FileError(f"the folder {path} holds no CSV or Parquet files")
        return tuple(found)
    if Path(path).is_file():
        if not os.access(path, os.R_OK):
            raise FileError(f"cannot read {path}: permission denied")
        return (path,)
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise FileError(f"no file {path}")
    return tuple(found)


def _kind(path: str, strict: bool = True) -> str:
    lower = path.lower()
    if lower.endswith(PARQUET):
        return "parquet"
    if lower.endswith(CSV):
        return "csv"
    if strict:
        raise FileError(f"{path}: evenscore reads {listing((*CSV[:4], *PARQUET))} files and saved tallies; what is this?")
    return ""


def _query(sql: str, paths: tuple[str, ...]) -> Any:
    """Run SQL on a connection of its own; DuckDB's complaints name the files."""
    import duckdb

    try:
        connection = duckdb.connect()
        connection.execute("SET enable_progress_bar = false")
        return connection.execute(sql)
    except duckdb.Error as error:
        raise FileError(f"cannot read {listing(paths, 3)}: {str(error).strip().splitlines()[0]}") from None


def _describe(sql: str, paths: tuple[str, ...]) -> dict[str, str]:
    rows = _query(f"DESCRIBE SELECT * FROM {sql}", paths).fetchall()
    return {str(row[0]): str(row[1]) for row in rows}


def _separator(path: str) -> str | None:
    found = _query(f"SELECT Delimiter FROM sniff_csv({_text(path)})", (path,)).fetchone()
    return None if found is None else str(found[0])


def _separator_name(separator: str) -> str:
    return {";": "semicolons", "\t": "tabs", "|": "bars"}.get(separator, repr(separator))


def _has_decimal_comma(sql: str, name: str, paths: tuple[str, ...]) -> bool:
    column = quoted(name)
    odd, commas = _query(
        f"SELECT count(*) FILTER (NOT regexp_full_match({column}, {_text(DECIMAL_COMMA)})), "
        f"count(*) FILTER (contains({column}, ',')) FROM (SELECT {column} FROM {sql} WHERE {column} IS NOT NULL LIMIT 10000)",
        paths,
    ).fetchone()
    return bool(odd == 0 and commas > 0)


def _fetch(source: Source, roles: dict[str, Any]) -> dict[str, Any]:
    """The needed columns as arrays."""
    wanted: dict[str, str] = {}
    for role, value in roles.items():
        for name in value if isinstance(value, list | tuple) else [value]:
            if name is None:
                continue
            if not isinstance(name, str):
                raise OptionError(f"{role}: with files, name a column of the file instead of giving an array")
            if name not in source.types:
                raise DataError(f"no column {name!r} for {role}; the file has: {listing(source.types)}")
            wanted[name] = _selected(name, source.types[name], role)
    rows = _query(f"SELECT {', '.join(wanted.values())} FROM {source.sql}", source.paths).fetchnumpy()
    return {name: rows[name] for name in wanted}


def _selected(name: str, kind: str, role: str) -> str:
    """A column as NumPy can take it."""
    column = quoted(name)
    if kind.startswith(("DECIMAL", "HUGEINT", "UHUGEINT")) and role in NUMERIC_ROLES:
        return f"CAST({column} AS DOUBLE) AS {column}"
    if kind.startswith(("DECIMAL", "HUGEINT", "UHUGEINT", "ENUM", "UUID", "DATE", "TIME")):
        return f"CAST({column} AS VARCHAR) AS {column}"
    return column


def quoted(name: str) -> str:
    """A column name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
