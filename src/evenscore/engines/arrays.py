"""Arrays written as a CSV or Parquet file by DuckDB."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from evenscore.errors import FileError
from evenscore.saving import write_whole
from evenscore.types import Array

FORMATS = {".csv": "FORMAT csv, HEADER", ".parquet": "FORMAT parquet, COMPRESSION zstd"}


def write_columns(path: Path, columns: Mapping[str, Array]) -> None:
    """Write columns of equal length, whole or not at all; nan becomes null. The same columns give the same bytes."""
    import duckdb

    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise FileError(f"cannot write {path}: its name must end in .csv or .parquet")
    plain = {name: column.astype(str) if column.dtype == object else column for name, column in columns.items()}
    with duckdb.connect(config={"threads": 1}) as connection, tempfile.TemporaryDirectory(prefix="evenscore") as folder:
        connection.register("columns_to_write", plain)
        whole = Path(folder) / f"data{kind}"
        connection.execute(f"COPY (SELECT * FROM columns_to_write) TO '{whole}' ({FORMATS[kind]})")
        write_whole(path, whole.read_bytes())
