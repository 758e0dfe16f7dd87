"""Files to read: which are meant, whether they agree, and how DuckDB reads them, with what had to be assumed about text."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import Any

from evenscore.data.columns import Column, shortened
from evenscore.engines.duck import is_old, query, select_columns, try_query
from evenscore.engines.sql import DUCKDB, NUMERIC_ROLES
from evenscore.errors import DataError, FileError, listing
from evenscore.saving import named
from evenscore.tallies.archive import is_tally_file

Paths = str | os.PathLike[str] | list[Any] | tuple[Any, ...]

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".csv.zst", ".tsv.zst")
NUMBERS = ("INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BOOLEAN")
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}
MISSING = ("NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", "-", ".", "?")
DECIMAL_COMMA = r"\s*[-+]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)(,[0-9]+)?([eE][-+]?[0-9]+)?\s*"


# Finding files


def file_kind(name: str) -> str | None:
    """Parquet, CSV, or None for something else."""
    lower = name.lower()
    return "Parquet" if lower.endswith(PARQUET) else "CSV" if lower.endswith(CSV) else None


def find_files(data: Paths) -> tuple[str, ...]:
    """The files that a path, folder, glob or list of these stands for."""
    if isinstance(data, list | tuple) and data:
        return tuple(dict.fromkeys(path for item in data for path in find_files(item)))
    if not isinstance(data, str | os.PathLike):
        raise FileError(f"{shortened(data)} is neither a frame nor a path, folder, glob or list of paths")
    path = Path(data)
    if not str(data).strip():
        raise FileError(f"data={shortened(data)} names no file")
    try:
        if path.is_dir():
            return _files_in(path)
    except OSError as error:  # a name that no file can have
        raise FileError(f"cannot read {shortened(str(data))}: {error.strerror or error}") from None
    if path.is_file():
        if is_tally_file(path):
            raise FileError(f"{path} is a saved tally; read it with es.Tally.load")
        return (str(path),)
    matches = sorted(glob(str(path), recursive=True))  # noqa: PTH207 (a pattern may be absolute)
    if not matches:
        remote = "; evenscore reads local files" if "://" in str(data) else ""
        raise FileError(f"no file {named(data)}{remote}")
    return tuple(name for match in matches for name in (_files_in(Path(match)) if Path(match).is_dir() else (match,)))


def _files_in(folder: Path) -> tuple[str, ...]:
    """Data files in a folder and below; what begins with a dot or an underscore is somebody's bookkeeping."""
    files = sorted(path for path in folder.rglob("*") if file_kind(path.name) and path.is_file() and path.name[0] not in "._")
    if not files:
        raise FileError(f"the folder {folder} holds no CSV or Parquet files")
    return tuple(map(str, files))


def list_paths(paths: tuple[str, ...]) -> str:
    """Paths for a message: whole, but not too many."""
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3:,} more files" if len(paths) > 3 else "")


def blame_file(paths: tuple[str, ...], complaint: str) -> str:
    """The one file that the engine complains about, or that cannot be read by itself; else all of them."""
    named_paths = [path for path in paths if path in complaint]
    if len(named_paths) == 1:
        return named_paths[0]
    if len(paths) == 1:
        return paths[0]
    for path in paths:
        reader = "parquet_schema" if file_kind(path) == "Parquet" else "read_csv"
        if try_query(f"SELECT * FROM {reader}({DUCKDB.literal(path)}) LIMIT 1") is None:
            return path
    return list_paths(paths)


# Opening them


@dataclass(frozen=True, slots=True)
class Source:
    """Files that are ready to be read.

    sql: what to select from. types: the columns with their types. names: the columns that each role names. converted: SQL for
    columns that are text in the file and numbers to us. notes: what was assumed.
    """

    paths: tuple[str, ...]
    sql: str
    types: dict[str, str]
    names: dict[str, list[str]]
    converted: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def selected(self) -> dict[str, str]:
        """SQL for the named columns in types that NumPy can take; an error names one that is not there."""
        return select_columns(self.types, self.converted, self.names, "file")


def open_source(paths: tuple[str, ...], names: dict[str, list[str]], settings: dict[str, str]) -> Source:
    """Files that are ready to be read, with what had to be assumed about them."""
    kinds = {path: file_kind(path) for path in paths}
    for path, kind in kinds.items():
        _require_readable(path, kind)
    if len(set(kinds.values())) > 1:
        first = {kind: path for path, kind in reversed(kinds.items())}
        examples = ", ".join(f"{path} is {kind}" for kind, path in first.items())
        raise FileError(f"the files are of different kinds ({examples}); give files of one kind")
    if "Parquet" in kinds.values():
        roles = {name: role for role, columns in names.items() for name in columns}
        sql = _reader("read_parquet", paths, {} if same_schemas(paths, roles) else {"union_by_name": "true"})
        return Source(paths, sql, _describe(sql), names)
    return _open_csv(paths, names, settings)


def _require_readable(path: str, kind: str | None) -> None:
    if not Path(path).is_file():
        raise FileError(_say_no_file(Path(path)))
    if not os.access(path, os.R_OK):
        raise FileError(f"cannot read {path}: permission denied")
    if kind is None:
        raise FileError(f"{path}: evenscore reads CSV ({listing(CSV)}) and Parquet ({listing(PARQUET)}) files, and saved tallies")
    if Path(path).stat().st_size == 0:
        raise FileError(f"{path} is empty")
    if path.lower().endswith(".gz") and is_old():
        _require_whole(path)


def _say_no_file(path: Path) -> str:
    if path.exists():
        return f"{named(path)} is a pipe or a device, which can be read only once; write it to a file first"
    return f"no file {named(path)}" + (", only a link to one" if path.is_symlink() else "")


def _require_whole(path: str) -> None:
    """Read a compressed file to its end: DuckDB before 2.0 takes one that is cut off for a short one."""
    try:
        with gzip.open(path) as file:
            while file.read(1 << 20):
                pass
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"cannot read {path}: {error}") from None


def _open_csv(paths: tuple[str, ...], names: dict[str, list[str]], settings: dict[str, str]) -> Source:
    """CSV with whatever separator it has; ids stay exact, and text that means numbers is recognised."""
    notes = []
    if "encoding" in settings:
        notes.append("assumed: the text is in Latin-1, since it is not UTF-8")
    separator = _find_separator(paths[0], settings)
    if separator != "," and not (separator == "\t" and ".tsv" in paths[0].lower()):
        notes.append(f"assumed: columns are separated by {SEPARATORS.get(separator, repr(separator))}")
    sql = _reader("read_csv", paths, settings)
    types = _describe(sql)
    inexact = [name for name in names.get("user", []) if types.get(name) == "DOUBLE" and not _holds_integers(sql, name)]
    if inexact:
        as_text = ", ".join(f"{DUCKDB.literal(name)}: 'VARCHAR'" for name in inexact)
        sql = _reader("read_csv", paths, settings | {"types": "{" + as_text + "}"})
        types = _describe(sql)
    converted: dict[str, str] = {}
    for role in NUMERIC_ROLES:
        for name in names.get(role, []):
            if types.get(name) == "VARCHAR" and name not in converted:
                expression, assumed = _read_numbers(sql, Column(name, role, ()))
                notes += assumed
                if expression is not None:
                    converted[name] = expression
    return Source(paths, sql, types, names, converted, tuple(notes))


def _reader(function: str, paths: tuple[str, ...], settings: Mapping[str, str]) -> str:
    arguments = ["[" + ", ".join(map(DUCKDB.literal, paths)) + "]", *(f"{name} = {value}" for name, value in settings.items())]
    return f"{function}({', '.join(arguments)})"


def _find_separator(path: str, settings: Mapping[str, str]) -> str:
    encoding = f", encoding = {settings['encoding']}" if "encoding" in settings else ""
    return str(query(f"SELECT Delimiter FROM sniff_csv({DUCKDB.literal(path)}{encoding})").fetchone()[0])


def _describe(sql: str) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in query(f"DESCRIBE SELECT * FROM {sql}").fetchall()}


def _holds_integers(sql: str, name: str) -> bool:
    column = DUCKDB.name(name)
    whole = f"{column} = floor({column}) AND abs({column}) < 2^53"
    return bool(query(f"SELECT coalesce(bool_and({whole}), true) FROM {sql}").fetchone()[0])


def _read_numbers(sql: str, column: Column) -> tuple[str | None, list[str]]:
    """SQL that turns text into numbers, if all of it can be, and what that assumes; or an error that shows where it cannot."""
    name = DUCKDB.name(column.name)
    missing = f"trim({name}) IN ({', '.join(map(DUCKDB.literal, MISSING))})"
    n_rows, n_texts, n_missing, n_plain, n_commas = query(
        f"SELECT count(*), count({name}), count(*) FILTER ({missing}), count(TRY_CAST({name} AS DOUBLE)) FILTER (NOT {missing}), "
        f"count(*) FILTER (regexp_full_match({name}, {DUCKDB.literal(DECIMAL_COMMA)})) FROM {sql}"
    ).fetchone()
    notes = []
    if n_missing:
        notes.append(f"assumed: {column.name} is missing where it says NA or the like, in {n_missing:,} of {n_rows:,} rows")
    if n_texts == 0:
        return None, []
    if n_plain == n_texts - n_missing:
        return f"CASE WHEN NOT {missing} THEN CAST({name} AS DOUBLE) END", notes
    if n_commas == n_texts - n_missing:
        number = f"CAST(replace(replace(trim({name}), '.', ''), ',', '.') AS DOUBLE)"
        return f"CASE WHEN NOT {missing} THEN {number} END", [f"assumed: {column.name} has a decimal comma", *notes]
    if n_plain < n_texts / 2:
        return None, []
    rows = query(
        f"SELECT row, {name} FROM (SELECT row_number() OVER () - 1 AS row, {name} FROM {sql}) "
        f"WHERE NOT {missing} AND TRY_CAST({name} AS DOUBLE) IS NULL LIMIT 3"
    ).fetchall()
    shown = ", ".join(f"{row} ({shortened(text)})" for row, text in rows)
    n_bad = n_texts - n_missing - n_plain
    raise DataError(f"{column} does not hold a number in {n_bad:,} of {n_rows:,} rows (first rows, from 0: {shown})")


# Schemas of Parquet files


def same_schemas(paths: tuple[str, ...], roles: dict[str, str]) -> bool:
    """Whether Parquet files hold columns (with their roles) in the same types; raises when they cannot be united.

    DuckDB takes the types of the first file for all, and would round the fractions of the second to the integers of the first.
    """
    if len(paths) == 1 or not roles:
        return True
    types_by_file = _types_by_file(paths)
    same = True
    for name, role in roles.items():
        types = {path: held[name] for path, held in types_by_file.items() if name in held}
        lacking = [path for path in types_by_file if path not in types]
        if types and lacking:
            raise FileError(f"{lacking[0]} has no column {shortened(name)} ({role}); {next(iter(types))} has one")
        if len(set(types.values())) > 1:
            same = False
            _require_one_sort(name, role, types)
    return same


def _types_by_file(paths: tuple[str, ...]) -> dict[str, dict[str, str]]:
    listed = "[" + ", ".join(map(DUCKDB.literal, paths)) + "]"
    rows = query(f"SELECT file_name, name, type, logical_type FROM parquet_schema({listed}) WHERE type IS NOT NULL").fetchall()
    types: dict[str, dict[str, str]] = {path: {} for path in paths}
    for path, name, physical, logical in rows:
        types.setdefault(path, {})[name] = f"{physical} {logical or ''}"
    return types


def _require_one_sort(name: str, role: str, types: dict[str, str]) -> None:
    """Numbers of different sizes can be united, text and numbers cannot."""
    numeric = {path: kind.split()[0] in NUMBERS or "Decimal" in kind for path, kind in types.items()}
    if len(set(numeric.values())) > 1 and role in (*NUMERIC_ROLES, "user", "group"):
        number = next(path for path, is_number in numeric.items() if is_number)
        text = next(path for path, is_number in numeric.items() if not is_number)
        raise FileError(f"column {shortened(name)} ({role}) is a number in {number} and text in {text}; make the files alike")
