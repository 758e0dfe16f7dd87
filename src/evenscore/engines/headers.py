"""The columns of files as they are called there: DuckDB takes S and s for one name, and calls the second s_1."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from evenscore.engines.duck import query
from evenscore.engines.paths import absolute, path_literal
from evenscore.engines.sql import DUCKDB

FILE = "evenscore_file"  # the path, beside the columns of a file
LINE = 1 << 20
NONE = "(empty)"  # as DuckDB writes that there is none

Settings = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Part:
    """Files that follow each other and have the same columns. sql: what to select from; held: (name, SQL, type) of each column."""

    paths: tuple[str, ...]
    sql: str
    held: tuple[tuple[str, str, str], ...]

    @property
    def names(self) -> list[str]:
        """What the columns are called in the files."""
        return [name for name, _, _ in self.held]

    @property
    def columns(self) -> dict[str, tuple[str, str]]:
        """SQL and type by name; of several columns of the same name one."""
        return {name: (sql, kind) for name, sql, kind in reversed(self.held)}


def _make_part(function: str, paths: Iterable[str], names: tuple[str, ...], settings: Settings) -> Part:
    listed = tuple(paths)
    sql = read_files_sql(function, listed, settings)
    described = query(f"DESCRIBE SELECT * FROM {sql}").fetchall()
    columns = [(str(row[0]), str(row[1])) for row in described if row[0] != FILE]
    true_names = _undo_renaming(names, [name for name, _ in columns])
    held = tuple((name, DUCKDB.name(known), kind) for name, (known, kind) in zip(true_names, columns, strict=True))
    return Part(listed, sql, held)


def read_files_sql(function: str, paths: tuple[str, ...], settings: Settings) -> str:
    """What to select from for the columns of files, and their paths."""
    options = {"hive_partitioning": "false", "filename": DUCKDB.literal(FILE), **settings}
    listed = "[" + ", ".join(map(path_literal, paths)) + "]"
    return f"{function}({', '.join([listed, *(f'{name} = {value}' for name, value in options.items())])})"


def _undo_renaming(written: tuple[str, ...], known: list[str]) -> list[str]:
    """The names as they are written where DuckDB only told equal ones apart by a number."""
    if len(written) != len(known):
        return known
    return [name if re.fullmatch(re.escape(name) + r"_\d+", other) else other for name, other in zip(written, known, strict=True)]


def _differ_by_case(names: Iterable[str]) -> bool:
    listed = [name.lower() for name in names]
    return len(set(listed)) < len(listed)


# CSV


@dataclass(frozen=True, slots=True)
class Format:
    """How a CSV file is written."""

    separator: str
    quote: str
    escape: str
    skipped: int
    has_header: bool

    @property
    def settings(self) -> dict[str, str]:
        """All columns are text. A quote that first occurs late is one, too, if there is no other."""
        return {"all_varchar": "true", "header": str(self.has_header).lower(), "quote": DUCKDB.literal(self.quote or '"')}


def find_format(path: str, settings: Settings) -> Format:
    """How a CSV file is written, by its first lines."""
    options = "".join(f", {name} = {value}" for name, value in settings.items())
    wanted = "Delimiter, Quote, Escape, SkipRows, HasHeader"
    row = query(f"SELECT {wanted} FROM sniff_csv({path_literal(path)}{options})").fetchone()
    separator, quote, escape = ("" if text in (None, NONE) else str(text) for text in row[:3])
    return Format(separator, quote, escape, int(row[3]), bool(row[4]))


def csv_parts(paths: tuple[str, ...], first: Format, settings: Settings) -> list[Part]:
    """CSV files by their headers."""
    options = {**first.settings, **settings}
    headers: dict[bytes | str, tuple[str, ...]] = {}

    def header_of(path: str) -> tuple[str, ...]:
        line = _first_line(path) or path
        if line not in headers:
            headers[line] = _read_header(path, settings) if first.has_header else ()
        return headers[line]

    return [_make_part("read_csv", files, header, options) for header, files in groupby(paths, header_of)]


def _first_line(path: str) -> bytes | None:
    """The first line of a file, if Python can read it; files with the same one have the same columns."""
    lower = path.lower()
    if lower.endswith(".zst"):
        return None
    try:
        with gzip.open(path) if lower.endswith(".gz") else Path(path).open("rb") as file:
            return file.readline(LINE)
    except (OSError, EOFError):  # DuckDB will say what is wrong
        return None


def _read_header(path: str, settings: Settings) -> tuple[str, ...]:
    """The names of the columns as they are written; where there is none, nothing."""
    form = find_format(path, settings)
    options = {
        "delim": DUCKDB.literal(form.separator),
        "quote": DUCKDB.literal(form.quote or '"'),
        "escape": DUCKDB.literal(form.escape),
        "skip": str(form.skipped),
        "header": "false",
        "all_varchar": "true",
        **settings,
    }
    row = query(f"SELECT * EXCLUDE ({FILE}) FROM {read_files_sql('read_csv', (path,), options)} LIMIT 1").fetchone()
    return tuple("" if text is None else str(text).strip() for text in row or ())


# Parquet


def parquet_parts(paths: tuple[str, ...], wanted: Iterable[str] | None) -> list[Part]:
    """Parquet files by the types of the columns that are wanted (None: all); DuckDB would take those of the first for all."""
    chosen = None if wanted is None else set(wanted)
    schemas = _read_schemas(paths)

    def signature(path: str) -> Any:
        schema = schemas[path]
        if chosen is None or _differ_by_case(name for name, _ in schema):
            return schema
        return frozenset(column for column in schema if column[0] in chosen)

    runs = [tuple(files) for _, files in groupby(paths, signature)]
    return [_make_part("read_parquet", files, tuple(name for name, _ in schemas[files[0]]), {}) for files in runs]


def _read_schemas(paths: tuple[str, ...]) -> dict[str, tuple[tuple[str, Any], ...]]:
    """The columns of each file, with all that its schema says about them."""
    listed = "[" + ", ".join(map(path_literal, paths)) + "]"
    rows = query(
        f"SELECT file_name, name, num_children, type, converted_type, logical_type FROM parquet_schema({listed})"
    ).fetchall()
    by_file: dict[str, list[Any]] = {}
    for file, *element in rows:
        by_file.setdefault(file, []).append(tuple(element))
    return {path: _split_columns(by_file[absolute(path)]) for path in paths}


def _split_columns(elements: list[Any]) -> tuple[tuple[str, Any], ...]:
    """The columns of a schema, which lists the fields of each after it; the first element is the whole."""
    columns, at = [], 1
    while at < len(elements):
        end, open_fields = at, 1
        while open_fields:
            open_fields += (elements[end][1] or 0) - 1
            end += 1
        columns.append((str(elements[at][0]), tuple(elements[at:end])))
        at = end
    return tuple(columns)
