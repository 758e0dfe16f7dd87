"""Files to read: whether they agree, which type each column has, and how DuckDB reads them, with what had to be assumed."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from evenscore.data.columns import shortened
from evenscore.engines.duck import KINDS, is_old, query, select_columns, try_query
from evenscore.engines.headers import FILE, Part, Settings, csv_parts, parquet_parts
from evenscore.engines.paths import (
    CSV,
    PARQUET,
    file_kind,
    folder_value,
    folder_values,
    list_paths,
    name_as_given,
    path_literal,
)
from evenscore.engines.sql import DUCKDB, NUMERIC_ROLES
from evenscore.engines.text_types import type_columns
from evenscore.errors import DataError, FileError, listing
from evenscore.saving import named

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}

Names = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Source:
    """Files that are ready to be read.

    sql: what to select from. held: SQL for each column as it is in the files. columns, types: SQL for it in the type that its role
    needs, and that type; other columns of a CSV file are text, and their type is what they seem to be. names: the columns that
    each role names. notes: what was assumed. twice: names that several columns have.
    """

    paths: tuple[str, ...]
    sql: str
    held: dict[str, str]
    columns: dict[str, str]
    types: dict[str, str]
    names: Names
    notes: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()

    @property
    def selected(self) -> dict[str, str]:
        """SQL for the named columns in types that NumPy can take; an error names one that is not there."""
        return select_columns(self.types, self.columns, self.names, "file")

    @property
    def is_text(self) -> bool:
        """Whether the files are CSV."""
        return file_kind(self.paths[0]) == "CSV"


def explain_file(paths: tuple[str, ...], complaint: str) -> str:
    """What the engine complains about, with files as the caller named them."""
    return f"{_blame_file(paths, complaint)}: {name_as_given(complaint, paths)}"


def _blame_file(paths: tuple[str, ...], complaint: str) -> str:
    """The one file that the engine complains about, or that cannot be read by itself; else all of them."""
    named_paths = [path for path in paths if path in complaint]
    if len(named_paths) == 1:
        return named_paths[0]
    if len(paths) == 1:
        return paths[0]
    for path in paths:
        reader = "parquet_schema" if file_kind(path) == "Parquet" else "read_csv"
        if try_query(f"SELECT * FROM {reader}({path_literal(path)}) LIMIT 1") is None:
            return path
    return list_paths(paths)


def open_source(paths: tuple[str, ...], names: Names, settings: Settings, *, every: bool = False) -> Source:
    """Files that are ready to be read, with what had to be assumed about them; ``every``: also columns without a role."""
    kinds = {path: file_kind(path) for path in paths}
    for path, kind in kinds.items():
        _require_readable(path, kind)
    if len(set(kinds.values())) > 1:
        first = {kind: path for path, kind in reversed(kinds.items())}
        examples = ", ".join(f"{path} is {kind}" for kind, path in first.items())
        raise FileError(f"the files are of different kinds ({examples}); give files of one kind")
    roles = {name: role for role, columns in names.items() for name in columns}
    if "Parquet" in kinds.values():
        parts = parquet_parts(paths, None if every else roles)
        return _unite(paths, parts, names, roles, every=every)
    read = csv_parts(paths, settings)
    form, first_part = read[0]
    notes = []
    if "encoding" in settings:
        notes.append("assumed: the text is in Latin-1, since it is not UTF-8")
    if form.separator != "," and not (form.separator == "\t" and ".tsv" in paths[0].lower()):
        notes.append(f"assumed: columns are separated by {SEPARATORS.get(form.separator, repr(form.separator))}")
    source = _unite(paths, [part for _, part in read], names, roles, every=every, notes=notes)
    seems = {name: kind for name, kind in zip(first_part.names, form.seems, strict=True) if name not in roles}
    return replace(source, types=source.types | seems)


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


# One source of parts


def _unite(
    paths: tuple[str, ...], parts: list[Part], names: Names, roles: dict[str, str], *, every: bool, notes: Iterable[str] = ()
) -> Source:
    """The parts as one, columns by their very names, with those that only the names of folders hold."""
    twice = {name: None for part in parts for name in part.names if part.names.count(name) > 1}
    if asked := [name for name in twice if name in roles]:
        raise DataError(f"the data has more than one column called {listing(map(repr, asked))}; rename or drop the others")
    _require_alike(parts, roles)
    wanted = dict.fromkeys(name for part in parts for name in part.names if every or len(parts) == 1 or name in roles)
    types = {name: {part.columns[name][1] for part in parts if name in part.columns} for name in wanted}
    if len(parts) == 1:
        sql = parts[0].sql
        held = {name: parts[0].columns[name][0] for name in wanted}
    else:
        sql = "(" + " UNION ALL ".join(_select_part(part, types, roles) for part in parts) + ")"
        held = {name: f"c{i}" for i, name in enumerate(wanted)}
    filled = _find_folder_columns(paths, sql, held, roles, every=every)
    known = {name: kind for part in parts for name, _, kind in part.held}
    if len(parts) > 1:
        known |= _united_types(sql, held)
    as_text = filled if file_kind(paths[0]) == "Parquet" else held | filled
    typed = type_columns(sql, as_text, names)
    return Source(
        paths,
        sql,
        held | filled,
        columns=held | filled | {name: column.sql for name, column in typed.items()},
        types=known | dict.fromkeys(filled, "VARCHAR") | {name: column.kind for name, column in typed.items()},
        names=names,
        notes=(*notes, *(note for column in typed.values() for note in column.notes)),
        twice=tuple(twice),
    )


def _united_types(sql: str, held: dict[str, str]) -> dict[str, str]:
    selected = ", ".join(f"{column} AS c{i}" for i, column in enumerate(held.values()))
    described = query(f"DESCRIBE SELECT {selected} FROM {sql}").fetchall() if held else []
    return {name: str(row[1]) for name, row in zip(held, described, strict=True)}


def _require_alike(parts: list[Part], roles: dict[str, str]) -> None:
    """Each part has each column that a role names, or none has; numbers are not text elsewhere."""
    for name, role in roles.items():
        types = {part.paths[0]: part.columns[name][1] for part in parts if name in part.columns}
        lacking = [part.paths[0] for part in parts if name not in part.columns]
        if types and lacking:
            raise FileError(f"{lacking[0]} has no column {shortened(name)} ({role}); {next(iter(types))} has one")
        numeric = {path: _is_number(kind) for path, kind in types.items() if kind != '"NULL"'}
        if len(set(numeric.values())) > 1:
            number = next(path for path, is_number in numeric.items() if is_number)
            text = next(path for path, is_number in numeric.items() if not is_number)
            raise FileError(f"column {shortened(name)} ({role}) is a number in {number} and text in {text}; make the files alike")


def _is_number(kind: str) -> bool:
    return kind.startswith("DECIMAL") or KINDS.get(kind) in ("integer", "unsigned", "float", "decimal", "boolean")


def _select_part(part: Part, types: dict[str, set[str]], roles: dict[str, str]) -> str:
    """The columns of a part under common names; null where it has none."""
    selected = []
    for i, (name, kinds) in enumerate(types.items()):
        sql, kind = part.columns.get(name, ("NULL", '"NULL"'))
        selected.append(f"{_widen(name, sql, kind, kinds, roles.get(name))} AS c{i}")
    return f"SELECT {', '.join([*selected, FILE])} FROM {part.sql}"


def _widen(name: str, sql: str, kind: str, kinds: set[str], role: str | None) -> str:
    """A number that has fractions in other files, unrounded: DuckDB would make all of them floats of 32 bits if some are."""
    if not kinds & {"FLOAT", "DOUBLE"} or kinds <= {kind, '"NULL"'} or not all(map(_is_number, kinds - {'"NULL"'})):
        return sql
    number = f"CAST({sql} AS DOUBLE)"
    if role in NUMERIC_ROLES or KINDS.get(kind) in ("float", "boolean") or not _is_number(kind):
        return number
    refusal = f"column {shortened(name)} holds fractions in some files and whole numbers beyond 2^53 in others"
    return (
        f"CASE WHEN {sql} IS NULL OR TRY_CAST({number} AS {kind}) = {sql} THEN {number} ELSE error({DUCKDB.literal(refusal)}) END"
    )


# Folders


def _find_folder_columns(
    paths: tuple[str, ...], sql: str, held: dict[str, str], roles: dict[str, str], *, every: bool
) -> dict[str, str]:
    """SQL for columns that only the names of folders hold; what the files hold must not say otherwise."""
    by_path = {path: folder_values(path) for path in paths}
    named_by_folders = dict.fromkeys(name for values in by_path.values() for name in values if every or name in roles)
    filled = {}
    for name in named_by_folders:
        value = folder_value(name, FILE)
        if name in held:
            _require_no_conflict(paths, name, sql, held[name], value)
            continue
        lacking = [path for path, values in by_path.items() if name not in values]
        if lacking and name in roles:
            raise FileError(f"{lacking[0]} has no column {shortened(name)} ({roles[name]}), and no folder says what it is")
        filled[name] = value
    return filled


def _require_no_conflict(paths: tuple[str, ...], name: str, sql: str, column: str, value: str) -> None:
    text = f"CAST({column} AS VARCHAR)"
    same = f"({text} = {value} OR coalesce(TRY_CAST({text} AS DOUBLE) = TRY_CAST({value} AS DOUBLE), false))"
    rows = query(
        f"SELECT {FILE}, {text}, {value} FROM {sql} WHERE {value} <> '' AND NOT coalesce({same}, false) LIMIT 1"
    ).fetchall()
    for place, inside, outside in rows:
        path = name_as_given(place, paths)
        raise FileError(
            f"{named(path)}: column {shortened(name)} holds {shortened(inside)}, and its folder says {shortened(outside)}"
        )
