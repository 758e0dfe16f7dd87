"""Rows spread over parts on disk, so that every row of a user lies in the same part, and handed over part by part."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenscore.engines.arrow_stream import stream_batches
from evenscore.engines.duck import connect, engine_error, is_old
from evenscore.engines.parts import Arrays
from evenscore.engines.paths import parquet_in
from evenscore.engines.spill import spill_failure
from evenscore.errors import FileError
from evenscore.types import Array

FLUSHED = 1 << 20  # rows that are put in order of their part and written at a time
PART, NULL = "part_of_rows", "_is_null"


def spill_parts(
    rows: Any, n_parts: int, folder: Path, *, nullable: Sequence[str] = (), spread: Callable[[int], object] | None = None
) -> Iterator[Arrays]:
    """Write the rows of each user (``key``) into one of the parts, and hand over part by part. nullable: columns that hold nulls.

    ``spread`` is told how many rows have been written so far.
    """
    parts = folder / "parts"
    if is_old():
        return _copy_parts(rows, n_parts, parts)
    kind = "UTINYINT" if n_parts <= 1 << 8 else "USMALLINT" if n_parts <= 1 << 16 else "UINTEGER"
    nulls = "".join(f", CAST({name} IS NULL AS UTINYINT) AS {name}{NULL}" for name in nullable)
    numbered = rows.project(f"*{nulls}, CAST(hash(key) % {n_parts} AS {kind}) AS {PART}")
    return _stream_parts(numbered, n_parts, parts, spread or (lambda done: None))


def _stream_parts(rows: Any, n_parts: int, parts: Path, spread: Callable[[int], object]) -> Iterator[Arrays]:
    """A file for each column and part: nothing to encode, to decode or to keep open."""
    parts.mkdir()
    types: dict[str, np.dtype[Any]] = {}
    done = 0
    for batch in _large_batches(stream_batches(rows, engine_error())):
        numbers = batch.pop(PART)
        types = {name: column.dtype for name, column in batch.items()}
        try:
            _append(batch, numbers, n_parts, parts)
        except OSError as error:
            complaint = error.strerror or str(error)
            raise spill_failure(complaint) or FileError(f"cannot write temporary files to {parts}: {complaint}") from None
        done += len(numbers)
        spread(done)
    for number in range(n_parts):
        if (parts / _name(number, 0)).exists():
            yield read_part(parts, number, types)


def _large_batches(batches: Iterable[dict[str, Array]]) -> Iterator[dict[str, Array]]:
    """The same rows in fewer batches."""
    held: list[dict[str, Array]] = []

    def joined() -> dict[str, Array]:
        return {name: np.concatenate([batch[name] for batch in held]) for name in held[0]}

    for batch in batches:
        held.append(batch)
        if sum(len(some[PART]) for some in held) >= FLUSHED:
            yield joined()
            held.clear()
    if held:
        yield joined()


def _append(batch: dict[str, Array], numbers: Array, n_parts: int, parts: Path) -> None:
    order = np.argsort(numbers, kind="stable")  # 16 bits: a radix sort
    ends = np.cumsum(np.bincount(numbers, minlength=n_parts)).tolist()
    for place, column in enumerate(batch.values()):
        ordered = column[order]
        for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            if start < end:
                with (parts / _name(number, place)).open("ab", buffering=0) as file:
                    _write(file, ordered[start:end].view(np.uint8).data)


def _write(file: Any, content: memoryview) -> None:
    """All of it: a disk that is full may take a beginning and complain only when asked again."""
    while content:
        content = content[file.write(content) :]


def _name(number: int, place: int) -> str:
    return f"{number}-{place}"


def read_part(parts: Path, number: int, types: dict[str, np.dtype[Any]]) -> Arrays:
    """All columns of a part, whose files are removed."""
    arrays: dict[str, Array] = {}
    for place, (name, dtype) in enumerate(types.items()):
        path = parts / _name(number, place)
        column = np.fromfile(path, dtype)
        path.unlink()
        if name.endswith(NULL):
            held = name.removesuffix(NULL)
            arrays[held] = np.ma.MaskedArray(arrays[held], column.astype(bool))
        else:
            arrays[name] = column
    return arrays


# Before DuckDB 2.0


def _copy_parts(rows: Any, n_parts: int, parts: Path) -> Iterator[Arrays]:
    """By DuckDB itself: it cannot hand over rows batch by batch without pyarrow, but spreads them without holding them all."""
    numbered = rows.project(f"*, hash(key) % {n_parts} AS partition")
    numbered.write_parquet(str(parts), partition_by=["partition"], compression="uncompressed")
    for number in range(n_parts):
        part = parts / f"partition={number}"
        if part.exists():
            with connect() as connection:
                files = parquet_in(part)
                arrays = connection.execute(f"SELECT * FROM read_parquet({files}, hive_partitioning = false)").fetchnumpy()
            shutil.rmtree(part)
            yield arrays
