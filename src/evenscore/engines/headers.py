"""The columns of files as they are called there: DuckDB takes S and s for one name, and calls the second s_1."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
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


def read_files_sql(function: str, paths: tuple[str, ...], settings: Settings) -> str:
    """What to select from for the columns of files, and their paths."""
    options = {"hive_partitioning": "false", "filename": DUCKDB.literal(FILE), **settings}
    listed = "[" + ", ".join(map(path_literal, paths)) + "]"
    return f"{function}({', '.join([listed, *(f'{name} = {value}' for name, value in options.items())])})"


def _undo_renaming(written: list[str], known: list[str]) -> list[str]:
    """The names as they are written where DuckDB only told equal ones apart by a number."""
    if len(written) != len(known):
        return known
    return [
        name if re.fullmatch(re.escape(name) + r"(_\d+)+", other) else other for name, other in zip(written, known, strict=True)
    ]


def _differ_by_case(names: Iterable[str]) -> bool:
    listed = [name.lower() for name in names]
    return len(set(listed)) < len(listed)


# CSV


@dataclass(frozen=True, slots=True)
class Format:
    """How a CSV file is written. seems: what its columns seem to be, by the first rows."""

    separator: str
    quote: str
    escape: str
    comment: str
    skipped: int
    has_header: bool
    names: tuple[str, ...]
    seems: tuple[str, ...] = field(compare=False)

    @property
    def settings(self) -> dict[str, str]:
        """A double quote that first occurs late is one, too, if there is no other."""
        marks = {"delim": self.separator, "quote": self.quote or '"', "comment": self.comment}
        marks["escape"] = self.escape or marks["quote"]
        return {name: DUCKDB.literal(mark) for name, mark in marks.items()} | {"skip": str(self.skipped), "auto_detect": "false"}

    def read(self, paths: tuple[str, ...], settings: Settings, *, header: bool) -> str:
        """What to select from: all columns as text, called c0, c1, and so on."""
        columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(self.names)))
        options = {**self.settings, "columns": f"{{{columns}}}", "header": str(header).lower(), **settings}
        return read_files_sql("read_csv", paths, options)


def find_format(path: str, settings: Settings) -> Format:
    """How a CSV file is written, by its first lines, and the names of its columns as they are written."""
    options = "".join(f", {name} = {value}" for name, value in settings.items())
    wanted = "Delimiter, Quote, Escape, Comment, SkipRows, HasHeader, Columns"
    row = query(f"SELECT {wanted} FROM sniff_csv({path_literal(path)}{options})").fetchone()
    separator, quote, escape, comment = ("" if text in (None, NONE) else str(text) for text in row[:4])
    known, seems = ([str(column[key]) for column in row[6]] for key in ("name", "type"))
    form = Format(
        separator=separator,
        quote=quote,
        escape=escape,
        comment=comment,
        skipped=int(row[4]),
        has_header=bool(row[5]),
        names=tuple(known),
        seems=tuple(seems),
    )
    if not form.has_header:
        return form
    first = query(f"SELECT * EXCLUDE ({FILE}) FROM {form.read((path,), settings, header=False)} LIMIT 1").fetchone()
    written = ["" if text is None else str(text).strip() for text in first or ()]
    return replace(form, names=tuple(_undo_renaming(written, known)))


def csv_parts(paths: tuple[str, ...], settings: Settings) -> list[tuple[Format, Part]]:
    """CSV files by how they are written, and by their headers."""
    formats: dict[bytes | str, Format] = {}

    def format_of(path: str) -> Format:
        line = _first_line(path) or path
        if line not in formats:
            formats[line] = find_format(path, settings)
        return formats[line]

    parts = []
    for form, run in groupby(paths, format_of):
        files = tuple(run)
        held = tuple((name, f"c{i}", "VARCHAR") for i, name in enumerate(form.names))
        parts.append((form, Part(files, form.read(files, settings, header=form.has_header), held)))
    return parts


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

    described: dict[Any, tuple[tuple[str, str, str], ...]] = {}
    parts = []
    for kind, run in groupby(paths, signature):
        files = tuple(run)
        sql = read_files_sql("read_parquet", files, {})
        if kind not in described:
            described[kind] = _describe(sql, [name for name, _ in schemas[files[0]]])
        parts.append(Part(files, sql, described[kind]))
    return parts


def _describe(sql: str, names: list[str]) -> tuple[tuple[str, str, str], ...]:
    rows = query(f"DESCRIBE SELECT * EXCLUDE ({FILE}) FROM {sql}").fetchall()
    columns = zip(_undo_renaming(names, [str(row[0]) for row in rows]), rows, strict=True)
    return tuple((name, DUCKDB.name(str(row[0])), str(row[1])) for name, row in columns)


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
