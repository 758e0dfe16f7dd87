"""CSV and Parquet files, read by DuckDB: only the columns that are needed."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from evenscore.data.columns import Column, shortened
from evenscore.engines.memory import tally_frame
from evenscore.engines.scan import MEMORY_LIMIT, fits, tally_source
from evenscore.engines.schemas import CSV, PARQUET, culprit, file_kind, same_schemas
from evenscore.engines.spill import bytes_of, temporary_place
from evenscore.engines.sql import NUMERIC_ROLES, ROLES
from evenscore.errors import DataError, FileError, OptionError, listing, no_column
from evenscore.saving import named
from evenscore.tallies.archive import is_tally_file
from evenscore.tallies.tally_state import Tally
from evenscore.types import Say

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
AS_THEY_ARE = ("VARCHAR", "BOOLEAN", "BLOB", "DATE", "TIMESTAMP", "FLOAT", "DOUBLE", *INTEGERS)
OBJECTS: dict[str, Callable[[Any], Any]] = {"HUGEINT": int, "UHUGEINT": int, "BLOB": bytes}
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}
MISSING = ("NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", "-", ".", "?")
DECIMAL_COMMA = r"\s*[-+]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)(,[0-9]+)?([eE][-+]?[0-9]+)?\s*"

Paths = str | os.PathLike[str] | list[Any] | tuple[Any, ...]
Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class Source:
    """Files that are ready to be read.

    sql: what to select from. types: the columns with their types. converted: SQL for columns that are text in the file and numbers
    to us. notes: what was assumed.
    """

    paths: tuple[str, ...]
    sql: str
    types: dict[str, str]
    converted: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def tally_files(data: Paths, *, say: Say | None = None, memory_limit: str | int = MEMORY_LIMIT, **options: Any) -> Tally:
    """The tally of one or more files; ``say`` is told what was assumed about them."""
    limit = bytes_of(memory_limit)

    def read(source: Source, names: dict[str, list[str]]) -> dict[str, Any] | Tally:
        if fits(source.paths, source.sql, limit):
            return _fetch(source, names)
        return tally_source(source.sql, source.types, source.converted, options, limit)

    found = _told(data, {role: options[role] for role in ROLES}, say, read)
    return found if isinstance(found, Tally) else tally_frame(found, **options)


def read_files(data: Paths, roles: dict[str, Any], say: Say | None = None) -> dict[str, Any]:
    """The columns that roles name, as arrays; a role may name several."""
    return _told(data, roles, say, _fetch)


def _told(
    data: Paths,
    roles: dict[str, Any],
    say: Say | None,
    step: Callable[[Source, dict[str, list[str]]], Done],
) -> Done:
    """Open files, take a step with them, and tell what was assumed."""
    paths = find_files(data)
    names = named_columns(roles)

    def read(settings: dict[str, str]) -> tuple[Source, Done]:
        source = open_source(paths, names, settings)
        return source, step(source, names)

    source, found = patiently(paths, read)
    for note in source.notes:
        if say is not None:
            say(note)
    return found


def open_files(data: Paths, names: dict[str, list[str]] | None = None) -> Source:
    """Find the files, and which columns they have; named columns are made ready for their role."""
    paths = find_files(data)
    return patiently(paths, lambda settings: open_source(paths, names or {}, settings))


def group_columns(source: Source, names: dict[str, list[str]]) -> dict[str, str]:
    """SQL for the named columns in types that NumPy can take; an error names one that is not there."""
    return _selection(source.types, source.converted, names, "file")


def fetch_relation(relation: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The needed columns of a DuckDB relation; roles may also be given as arrays."""
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    wanted = {role: value if isinstance(value, list | tuple) else [value] for role, value in options.items() if role != "nulls"}
    named = {role: [name for name in names if isinstance(name, str)] for role, names in wanted.items()}
    selected = _selection(types, {}, named, "relation")
    if not selected:
        return {}
    chosen = relation.project(", ".join(selected.values()))
    return _tidied(patiently(("the relation",), lambda _: chosen.fetchnumpy()), types, selected)


# Finding files


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
    found = sorted(glob(str(path), recursive=True))  # noqa: PTH207 (a pattern may be absolute)
    if not found:
        remote = "; evenscore reads local files" if "://" in str(data) else ""
        raise FileError(f"no file {named(data)}{remote}")
    return tuple(name for match in found for name in (_files_in(Path(match)) if Path(match).is_dir() else (match,)))


def _files_in(folder: Path) -> tuple[str, ...]:
    """Data files in a folder and below; what begins with a dot or an underscore is somebody's bookkeeping."""
    found = sorted(path for path in folder.rglob("*") if file_kind(path.name) and path.is_file() and path.name[0] not in "._")
    if not found:
        raise FileError(f"the folder {folder} holds no CSV or Parquet files")
    return tuple(map(str, found))


def _shown(paths: tuple[str, ...]) -> str:
    """Paths for a message: whole, but not too many."""
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3:,} more files" if len(paths) > 3 else "")


# Opening


def patiently(paths: tuple[str, ...], step: Callable[[dict[str, str]], Done]) -> Done:
    """Take a step with the usual settings; when a CSV turns out to be other than it began, again with others."""
    import duckdb

    settings = {"sample_size": "100000"}
    while True:
        try:
            return step(settings)
        except (duckdb.InterruptException, RuntimeError) as error:  # what DuckDB makes of Ctrl-C
            if "interrupt" in str(error).lower():
                raise KeyboardInterrupt from None
            raise
        except duckdb.Error as error:
            better = _remedy(str(error), settings)
            if better == settings:
                raise _failure(paths, complaint(str(error))) from None
            settings = better


def _failure(paths: tuple[str, ...], found: str) -> FileError:
    """Which file cannot be read, or that temporary ones cannot be written."""
    if any(words in found.lower() for words in ("no space left", "could not write", "file too large", "failed to offload")):
        place = temporary_place()
        return FileError(f"cannot write temporary files to {place}: {found}; make room there, or let TMPDIR name another place")
    guilty = culprit(paths, found)
    return FileError(f"cannot read {_shown(paths) if guilty is None else guilty}: {found}")


def _remedy(complaint: str, settings: dict[str, str]) -> dict[str, str]:
    """Settings that may help against a complaint, or the same ones."""
    if "invalid unicode" in complaint.lower():
        return settings | {"encoding": "'latin-1'"}
    if complaint.startswith("Conversion Error") and "CSV" in complaint:
        return settings | {"sample_size": "-1", "union_by_name": "true"}
    return settings


def complaint(text: str) -> str:
    """The first lines of what DuckDB says, without advice, SQL and data."""
    lines = text.strip().split("\n\n")[0].splitlines()
    return " ".join(line.strip() for line in lines if not line.startswith(("Original Line", "LINE ", "Possible", "Potential", "*")))


def open_source(paths: tuple[str, ...], names: dict[str, list[str]], settings: dict[str, str]) -> Source:
    """Files that are ready to be read, with what had to be assumed about them."""
    kinds = {path: file_kind(path) for path in paths}
    for path, kind in kinds.items():
        if not Path(path).is_file():
            raise FileError(_not_a_file(Path(path)))
        if not os.access(path, os.R_OK):
            raise FileError(f"cannot read {path}: permission denied")
        if kind is None:
            raise FileError(
                f"{path}: evenscore reads CSV ({listing(CSV)}) and Parquet ({listing(PARQUET)}) files, and saved tallies"
            )
        if Path(path).stat().st_size == 0:
            raise FileError(f"{path} is empty")
        if path.lower().endswith(".gz") and _is_old_duckdb():
            _require_whole(path)
    if len(set(kinds.values())) > 1:
        first = {kind: path for path, kind in reversed(kinds.items())}
        examples = ", ".join(f"{path} is {kind}" for kind, path in first.items())
        raise FileError(f"the files are of different kinds ({examples}); give files of one kind")
    if "Parquet" in kinds.values():
        wanted = {name: role for role, columns in names.items() for name in columns}
        sql = _reader("read_parquet", paths, {} if same_schemas(paths, wanted) else {"union_by_name": "true"})
        return Source(paths, sql, _describe(sql))
    return _open_csv(paths, names, settings)


def _not_a_file(path: Path) -> str:
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
    separator = _separator(paths[0], settings)
    if separator != "," and not (separator == "\t" and ".tsv" in paths[0].lower()):
        notes.append(f"assumed: columns are separated by {SEPARATORS.get(separator, repr(separator))}")
    sql = _reader("read_csv", paths, settings)
    types = _describe(sql)
    inexact = [name for name in names.get("user", []) if types.get(name) == "DOUBLE" and not _holds_integers(sql, name)]
    if inexact:
        as_text = ", ".join(f"{sql_text(name)}: 'VARCHAR'" for name in inexact)
        sql = _reader("read_csv", paths, settings | {"types": "{" + as_text + "}"})
        types = _describe(sql)
    converted: dict[str, str] = {}
    for role in NUMERIC_ROLES:
        for name in names.get(role, []):
            if types.get(name) == "VARCHAR" and name not in converted:
                expression, assumed = _text_as_numbers(sql, Column(name, role, ()))
                converted |= {name: expression} if expression else {}
                notes += assumed
    return Source(paths, sql, types, converted, tuple(notes))


def _reader(function: str, paths: tuple[str, ...], settings: Mapping[str, str]) -> str:
    arguments = ["[" + ", ".join(map(sql_text, paths)) + "]", *(f"{name} = {value}" for name, value in settings.items())]
    return f"{function}({', '.join(arguments)})"


def _separator(path: str, settings: Mapping[str, str]) -> str:
    encoding = f", encoding = {settings['encoding']}" if "encoding" in settings else ""
    return str(query(f"SELECT Delimiter FROM sniff_csv({sql_text(path)}{encoding})").fetchone()[0])


def _describe(sql: str) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in query(f"DESCRIBE SELECT * FROM {sql}").fetchall()}


def _holds_integers(sql: str, name: str) -> bool:
    column = quoted(name)
    return bool(
        query(f"SELECT coalesce(bool_and({column} = floor({column}) AND abs({column}) < 2^53), true) FROM {sql}").fetchone()[0]
    )


def _text_as_numbers(sql: str, column: Column) -> tuple[str | None, list[str]]:
    """SQL that turns text into numbers, if all of it can be, and what that assumes; or an error that shows where it cannot."""
    name = quoted(column.name)
    missing = f"trim({name}) IN ({', '.join(map(sql_text, MISSING))})"
    n_rows, n_texts, n_missing, n_plain, n_commas = query(
        f"SELECT count(*), count({name}), count(*) FILTER ({missing}), count(TRY_CAST({name} AS DOUBLE)) FILTER (NOT {missing}), "
        f"count(*) FILTER (regexp_full_match({name}, {sql_text(DECIMAL_COMMA)})) FROM {sql}"
    ).fetchone()
    notes = [f"assumed: {column.name} is missing where it says NA or the like, in {n_missing:,} of {n_rows:,} rows"] * (
        n_missing > 0
    )
    if n_texts == 0:
        return None, []
    if n_plain == n_texts - n_missing:
        return f"CASE WHEN NOT {missing} THEN CAST({name} AS DOUBLE) END", notes
    if n_commas == n_texts - n_missing:
        number = f"CAST(replace(replace(trim({name}), '.', ''), ',', '.') AS DOUBLE)"
        return f"CASE WHEN NOT {missing} THEN {number} END", [f"assumed: {column.name} has a decimal comma", *notes]
    if n_plain < n_texts / 2:
        return None, []
    found = query(
        f"SELECT row, {name} FROM (SELECT row_number() OVER () - 1 AS row, {name} FROM {sql}) "
        f"WHERE NOT {missing} AND TRY_CAST({name} AS DOUBLE) IS NULL LIMIT 3"
    ).fetchall()
    shown = ", ".join(f"{row} ({shortened(text)})" for row, text in found)
    n_bad = n_texts - n_missing - n_plain
    raise DataError(f"{column} does not hold a number in {n_bad:,} of {n_rows:,} rows (first rows, from 0: {shown})")


# Reading


def _is_old_duckdb() -> bool:
    import duckdb

    return int(duckdb.__version__.split(".")[0]) < 2


def query(sql: str) -> Any:
    """Run SQL on a connection of its own."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return connection.execute(sql)


def named_columns(roles: dict[str, Any]) -> dict[str, list[str]]:
    """The columns that each role names."""
    names = {}
    for role, value in roles.items():
        if value is None and role in ("user", "weight", "count"):
            continue
        names[role] = list(value) if isinstance(value, list | tuple) else [value]
        if not all(isinstance(name, str) for name in names[role]):
            raise OptionError(f"{role}: with files, name a column of the file instead of giving an array")
    return names


def _fetch(source: Source, names: dict[str, list[str]]) -> dict[str, Any]:
    """The needed columns as arrays."""
    selected = _selection(source.types, source.converted, names, "file")
    columns = _tidied(query(f"SELECT {', '.join(selected.values())} FROM {source.sql}").fetchnumpy(), source.types, selected)
    if all(len(values) == 0 for values in columns.values()):
        raise DataError(f"{_shown(source.paths)}: the data has no rows, only the columns {listing(source.types)}")
    return columns


def _selection(types: dict[str, str], converted: dict[str, str], names: dict[str, list[str]], where: str) -> dict[str, str]:
    """SQL for each needed column, in a type that NumPy can take."""
    selected: dict[str, str] = {}
    for role, wanted in names.items():
        for name in wanted:
            if name not in types:
                unnamed = all(re.fullmatch(r"column\d+", known) for known in types)
                hint = " (is there no line with the names of the columns?)" if unnamed else ""
                raise no_column(name, role, where, types, hint)
            column = quoted(name)
            expression = converted.get(name, column)
            if expression == column and types[name] not in AS_THEY_ARE:
                as_number = role in NUMERIC_ROLES and types[name].startswith(("DECIMAL", "HUGEINT", "UHUGEINT"))
                expression = f"CAST({column} AS {'DOUBLE' if as_number else 'VARCHAR'})"
            if selected.get(name, column) == column:
                selected[name] = column if expression == column else f"{expression} AS {column}"
    return selected


def _tidied(fetched: dict[str, Any], types: dict[str, str], selected: dict[str, str]) -> dict[str, Any]:
    """Arrays by column name; a date is a date and not a moment, and long integers are integers again."""
    arrays = dict(zip(selected, fetched.values(), strict=True))
    for name, array in arrays.items():
        if types[name] == "DATE":
            arrays[name] = array.astype("datetime64[D]")
        elif types[name] in OBJECTS and array.dtype == object:
            known = ~np.ma.getmaskarray(array)
            array[known] = [OBJECTS[types[name]](value) for value in array[known]]
    return arrays


def quoted(name: str) -> str:
    """A column name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def sql_text(value: str) -> str:
    """A text in SQL."""
    return "'" + value.replace("'", "''") + "'"
