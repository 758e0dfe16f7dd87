"""Which kind of file a name says it is, whether Parquet files agree about their columns, and which file is to blame."""

from __future__ import annotations

from typing import Any

from evenscore.data.columns import shortened
from evenscore.engines.sql import DUCKDB, NUMERIC_ROLES
from evenscore.errors import FileError

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".csv.zst", ".tsv.zst")
NUMBERS = ("INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BOOLEAN")


def file_kind(name: str) -> str | None:
    """Parquet, CSV, or None for something else."""
    lower = name.lower()
    return "Parquet" if lower.endswith(PARQUET) else "CSV" if lower.endswith(CSV) else None


def same_schemas(paths: tuple[str, ...], wanted: dict[str, str]) -> bool:
    """Whether Parquet files hold the wanted columns (with their roles) in the same types; raises when they cannot be united.

    DuckDB takes the types of the first file for all, and would round the fractions of the second to the integers of the first.
    """
    if len(paths) == 1 or not wanted:
        return True
    types = _types(paths)
    same = True
    for name, role in wanted.items():
        found = {path: held[name] for path, held in types.items() if name in held}
        lacking = [path for path in types if path not in found]
        if found and lacking:
            raise FileError(f"{lacking[0]} has no column {shortened(name)} ({role}); {next(iter(found))} has one")
        if len(set(found.values())) > 1:
            same = False
            _require_one_sort(name, role, found)
    return same


def _types(paths: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """The type of every column, by file."""
    listed = "[" + ", ".join(map(DUCKDB.literal, paths)) + "]"
    rows = _query(f"SELECT file_name, name, type, logical_type FROM parquet_schema({listed}) WHERE type IS NOT NULL").fetchall()
    found: dict[str, dict[str, str]] = {path: {} for path in paths}
    for path, name, physical, logical in rows:
        found.setdefault(path, {})[name] = f"{physical} {logical or ''}"
    return found


def _require_one_sort(name: str, role: str, found: dict[str, str]) -> None:
    """Numbers of different sizes can be united, text and numbers cannot."""
    sorts = {path: kind.split()[0] in NUMBERS or "Decimal" in kind for path, kind in found.items()}
    if len(set(sorts.values())) > 1 and (role in (*NUMERIC_ROLES, "user", "group")):
        number = next(path for path, is_number in sorts.items() if is_number)
        text = next(path for path, is_number in sorts.items() if not is_number)
        raise FileError(f"column {shortened(name)} ({role}) is a number in {number} and text in {text}; make the files alike")


def culprit(paths: tuple[str, ...], complaint: str) -> str | None:
    """The one file that the engine complains about, or that cannot be read by itself."""
    named = [path for path in paths if path in complaint]
    if len(named) == 1:
        return named[0]
    if len(paths) == 1:
        return paths[0]
    import duckdb

    for path in paths:
        reader = "parquet_schema" if file_kind(path) == "Parquet" else "read_csv"
        try:
            _query(f"SELECT * FROM {reader}({DUCKDB.literal(path)}) LIMIT 1").fetchall()
        except duckdb.Error:
            return path
    return None


def _query(sql: str) -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return connection.execute(sql)
