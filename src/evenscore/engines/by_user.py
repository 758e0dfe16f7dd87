"""User-level files: for data that arrives day by day, where the same users come again. Parquet, a line for each user and cell.

Tallies of two days cannot be added when they share users: a user's two half-days are not two users, and the pair sums between the
days are in neither. These files can, because they still know whose sums they hold; they are as confidential as the data.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from evenscore.data.observations import Columns, label_key
from evenscore.engines.duck import COUNTING_SHARE, connect, fetch_parquet, plan_relation, prepared
from evenscore.engines.parts import Recipe
from evenscore.engines.spill import spill_folder
from evenscore.engines.sql import DUCKDB, Fields
from evenscore.errors import FileError, MergeError, OptionError
from evenscore.saving import pack_label, unpack_label
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.user_cells import PLACE, SUMS, UserCells, added, recentred, tally_user_cells, user_cells

MARK = "evenscore user-level rows"
LINE_BYTES = 4 * 8 * (len(PLACE) + len(SUMS))  # while lines are read, put in order and counted


@dataclass(frozen=True, slots=True)
class ByUser:
    """What a user-level file says about itself."""

    path: str
    lattice: Lattice
    labels: tuple[Any, ...]
    columns: Columns
    binary: bool
    centre: float
    hashed: bool
    n_rows: int
    dropped: dict[str, int]

    @property
    def recipe(self) -> Recipe:
        """How its lines become a tally."""
        return Recipe(self.lattice, self.labels, self.columns, self.binary, self.centre, self.hashed, self.n_rows, self.n_rows)

    def to_json(self) -> str:
        """The file's description."""
        return json.dumps(
            {
                "what": MARK,
                "version": 1,
                "lattice": self.lattice.to_dict(),
                "edges": [edge.hex() for edge in self.lattice.edges.tolist()],
                "labels": [pack_label(label) for label in self.labels],
                "columns": msgspec.to_builtins(self.columns),
                "binary": self.binary,
                "centre": self.centre.hex(),
                "hashed": self.hashed,
                "n_rows": self.n_rows,
                "dropped": self.dropped,
            }
        )

    @classmethod
    def from_json(cls, path: str, text: str) -> ByUser:
        """The inverse of ``to_json``."""
        try:
            held = json.loads(text)
            edges = np.array([float.fromhex(edge) for edge in held["edges"]])
            return cls(
                path,
                Lattice.from_parts(edges, held["lattice"]),
                tuple(unpack_label(label) for label in held["labels"]),
                msgspec.convert(held["columns"], Columns),
                bool(held["binary"]),
                float.fromhex(held["centre"]),
                bool(held["hashed"]),
                int(held["n_rows"]),
                {str(name): int(n) for name, n in held["dropped"].items()},
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(f"{path} does not hold valid user-level rows: {error}") from None


# Writing


def write_relation(relation: Any, fields: Fields, options: dict[str, Any], limit: int, output: Path, folder: Path) -> ByUser:
    """The user-level file of a relation; users are not told apart by anything but their id, or its hash."""
    if fields.user is None:
        raise OptionError("user-level rows need users; independent rows can be tallied and added as they are")
    plan = plan_relation(relation, fields, options, limit)
    facts = plan.facts
    about = ByUser(
        str(output),
        plan.lattice,
        facts.labels,
        facts.columns,
        facts.binary,
        facts.centre,
        fields.hashed,
        facts.n_rows,
        facts.dropped,
    )
    n_parts = max(plan.n_parts, -int(-facts.n_rows * LINE_BYTES // (COUNTING_SHARE * limit)))
    rows = prepared(relation, facts).project(f"*, hash(key) % {n_parts} AS place")
    rows.write_parquet(str(folder / "parts"), partition_by=["place"], compression="uncompressed", overwrite=True)
    recipe = about.recipe
    parts = (
        user_cells(recipe.observations(fetch_parquet(place)), plan.lattice, facts.centre)
        for place in sorted((folder / "parts").glob("place=*"))
    )
    write_parts(parts, about, output, folder)
    return about


def write_parts(parts: Iterator[UserCells], about: ByUser, output: Path, folder: Path) -> None:
    """Write lines to one Parquet file, whole or not at all."""
    lines = folder / "lines"
    lines.mkdir()
    with _connected() as connection:
        for number, cells in enumerate(parts):
            _copy(connection, cells, lines / f"{number:06}.parquet")
        partial = output.with_name(f".{output.name}.partial")  # one name: the next run writes over what a killed one left
        text = DUCKDB.literal(about.to_json())
        source = DUCKDB.literal(str(lines / "*.parquet"))
        target = f"{DUCKDB.literal(str(partial))} (FORMAT parquet, COMPRESSION zstd, KV_METADATA {{evenscore: {text}}})"
        try:
            connection.execute(f"COPY (SELECT * FROM read_parquet({source})) TO {target}")
            partial.replace(output)
        except OSError as error:
            raise FileError(f"cannot write {output}: {error.strerror or error}") from None
        finally:
            partial.unlink(missing_ok=True)


@contextlib.contextmanager
def _connected() -> Iterator[Any]:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET threads = 1")
        yield connection


def _copy(connection: Any, cells: UserCells, path: Path) -> None:
    kinds = {"key": "BIGINT", "part": "UTINYINT", "cell": "USMALLINT"}
    selected = ", ".join(f"CAST({name} AS {kinds.get(name, 'DOUBLE')}) AS {name}" for name in (*PLACE, *SUMS))
    columns = {name: cells[name] for name in (*PLACE, *SUMS)}  # noqa: F841 (DuckDB finds it by its name)
    connection.execute(f"COPY (SELECT {selected} FROM columns) TO {DUCKDB.literal(str(path))} (FORMAT parquet)")


# Reading


def is_by_user(path: Path) -> bool:
    """Whether a file is a user-level one."""
    return path.is_file() and path.suffix.lower() in (".parquet", ".pq") and _metadata(path) is not None


def _metadata(path: Path) -> str | None:
    import duckdb

    with _connected() as connection, contextlib.suppress(duckdb.Error):
        found = connection.execute(
            f"SELECT decode(value) FROM parquet_kv_metadata({DUCKDB.literal(str(path))}) WHERE decode(key) = 'evenscore'"
        ).fetchall()
        if found and MARK in found[0][0]:
            return str(found[0][0])
    return None


def open_by_user(path: Path) -> ByUser:
    """What a user-level file holds, or an error."""
    text = _metadata(path)
    if text is None:
        raise FileError(f"{path} holds no user-level rows")
    return ByUser.from_json(str(path), text)


def merge_by_user(paths: list[Path], limit: int, output: Path | None = None) -> Tally | ByUser:
    """User-level files added up: to a tally, or to one user-level file when an output is named."""
    files = [open_by_user(path) for path in paths]
    about = _united(files)
    n_lines = 0
    with spill_folder() as folder, connect(limit, str(folder)) as connection:
        for number, file in enumerate(files):
            relation = connection.sql(f"SELECT *, {number} AS file FROM read_parquet({DUCKDB.literal(file.path)})")
            n_lines += int(relation.aggregate("count(*)").fetchall()[0][0])
        n_parts = max(1, -int(-n_lines * LINE_BYTES // (COUNTING_SHARE * limit)))
        sources = " UNION ALL ".join(
            f"SELECT *, {number} AS file FROM read_parquet({DUCKDB.literal(file.path)})" for number, file in enumerate(files)
        )
        rows = connection.sql(f"SELECT *, hash(key) % {n_parts} AS place FROM ({sources})")
        rows.write_parquet(str(folder / "parts"), partition_by=["place"], compression="uncompressed", overwrite=True)
        parts = (_merged(fetch_parquet(place), files, about) for place in sorted((folder / "parts").glob("place=*")))
        if output is not None:
            write_parts(parts, replace(about, path=str(output)), output, folder)
            return about
        recipe = about.recipe
        total = recipe.added(tally_user_cells(cells, recipe.zero, recipe.users(cells["key"])) for cells in parts)
    return replace(total, dropped=about.dropped)


def _united(files: list[ByUser]) -> ByUser:
    """What the files say together; refuses what does not fit."""
    first = files[0]
    for other in files[1:]:
        if other.lattice != first.lattice:
            raise MergeError(
                f"{first.path} and {other.path} have different lattices: {first.lattice!r} and {other.lattice!r}; make the second "
                f"with --lattice {first.path}"
            )
        if other.hashed != first.hashed:
            raise MergeError(f"users are text in one of {first.path} and {other.path}, and numbers in the other")
    labels = sorted({label: None for file in files for label in file.labels}, key=label_key)
    binary = all(file.binary for file in files)
    n_rows = sum(file.n_rows for file in files)
    centre = 0.0 if binary else sum(file.centre * file.n_rows for file in files) / n_rows
    dropped: dict[str, int] = {}
    for file in files:
        for name, n in file.dropped.items():
            dropped[name] = dropped.get(name, 0) + n
    return replace(first, labels=tuple(labels), binary=binary, centre=centre, n_rows=n_rows, dropped=dropped)


def _merged(rows: Any, files: list[ByUser], about: ByUser) -> UserCells:
    """Lines of several files on common groups and a common centre, added up."""
    found = []
    for number, file in enumerate(files):
        mine = rows["file"] == number
        lines = {name: np.ma.getdata(rows[name])[mine] for name in (*PLACE, *SUMS)}
        place = np.array([about.labels.index(label) for label in file.labels], dtype=np.int64)
        lines |= {"part": place[lines["part"]], "cell": lines["cell"].astype(np.int64), "key": lines["key"].astype(np.int64)}
        found.append(recentred(lines, file.centre - about.centre))
    return added({name: np.concatenate([lines[name] for lines in found]) for name in (*PLACE, *SUMS)})
