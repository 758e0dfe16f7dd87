"""Files and relations, small or large: fetched at once when they fit into memory, counted in parts when they do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenscore.engines.duck import connect, fields_of, tally_relation
from evenscore.engines.schemas import CSV, file_kind
from evenscore.engines.spill import spill_folder
from evenscore.tallies.tally_state import Tally

MEMORY_LIMIT = "1GB"
FETCHED_BYTES = 150  # what a row takes when its columns are fetched as they are, text included; measured
SHORT_LINE = 25  # bytes of a row of CSV, at least
UNPACKED = 8  # how much larger text is before it is compressed


def fits(paths: tuple[str, ...], sql: str, limit: int) -> bool:
    """Whether the columns of files can be held in memory as they are."""
    if file_kind(paths[0]) == "Parquet":
        with connect(limit, None) as connection:
            n_rows = int(connection.execute(f"SELECT count(*) FROM {sql}").fetchall()[0][0])
        return n_rows * FETCHED_BYTES <= limit
    size = sum(Path(path).stat().st_size * (1 if path.lower().endswith(CSV[:3]) else UNPACKED) for path in paths)
    return size * FETCHED_BYTES <= limit * SHORT_LINE


def tally_source(sql: str, types: dict[str, str], converted: dict[str, str], options: dict[str, Any], limit: int) -> Tally:
    """The tally of files that are larger than memory; ``sql`` reads them."""
    with spill_folder() as folder, connect(limit, str(folder)) as connection:
        fields = fields_of(types, options, options["nulls"], "file", converted)
        return tally_relation(connection.sql(f"SELECT * FROM {sql}"), fields, options, limit, folder, connection)
