"""User-level files: for data that arrives day by day, where the same users come again. Parquet, a line for each user and cell.

Tallies of two days cannot be added when they share users: a user's two half-days are not two users, and the pair sums between the
days are in neither. These files can, because they still know whose sums they hold; they are as confidential as the data.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from evenscore.data.groups import label_key
from evenscore.data.observations import Columns
from evenscore.engines.copying import AS_IT_IS, copied_whole
from evenscore.engines.duck import connect, retry_step, try_query
from evenscore.engines.parts import Recipe
from evenscore.engines.paths import name_as_given, parquet_in, path_literal
from evenscore.engines.relations import Scan, count_parts, plan_scan, select_rows
from evenscore.engines.spill import spill_folder
from evenscore.engines.spreading import spill_parts
from evenscore.engines.sql import DUCKDB
from evenscore.errors import FileError, MergeError, OptionError
from evenscore.saving import named, pack_label, unpack_label
from evenscore.tallies.lattice_settings import lattice_from_settings, lattice_settings
from evenscore.tallies.merging import common_lattice, moved_cells
from evenscore.tallies.reshaping import drop_blocks
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.user_cells import (
    HIGHER_MOMENTS,
    PLACE,
    SUMS,
    UserCells,
    added,
    recentred,
    tally_user_cells,
    user_cells,
)

Done = TypeVar("Done")

MARK = "evenscore user-level rows"
LINE_BYTES = 4 * 8 * (len(PLACE) + len(SUMS) + len(HIGHER_MOMENTS.names))  # while lines are read, put in order and counted


@dataclass(frozen=True, slots=True)
class ByUser:
    """What a user-level file says about itself: how its lines become a tally."""

    path: str
    recipe: Recipe

    def to_json(self) -> str:
        """The file's description."""
        recipe = self.recipe
        return json.dumps(
            {
                "what": MARK,
                "version": 1,
                "lattice": lattice_settings(recipe.lattice.unread),
                "edges": [edge.hex() for edge in recipe.lattice.edges.tolist()],
                "labels": [pack_label(label) for label in recipe.labels],
                "columns": msgspec.to_builtins(recipe.columns),
                "binary": recipe.binary,
                "centre": recipe.centre.hex(),
                "hashed": recipe.hashed,
                "n_rows": recipe.n_rows,
                "dropped": recipe.dropped,
            }
        )

    @classmethod
    def from_json(cls, path: str, text: str) -> ByUser:
        """The inverse of ``to_json``."""
        try:
            held = json.loads(text)
            edges = np.array([float.fromhex(edge) for edge in held["edges"]])
            recipe = Recipe(
                lattice=lattice_from_settings(edges, held["lattice"]),
                labels=tuple(unpack_label(label) for label in held["labels"]),
                columns=msgspec.convert(held["columns"], Columns),
                binary=bool(held["binary"]),
                centre=float.fromhex(held["centre"]),
                hashed=bool(held["hashed"]),
                n_rows=int(held["n_rows"]),
                n_users=int(held["n_rows"]),
                dropped={str(name): int(n) for name, n in held["dropped"].items()},
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(f"{path} does not hold valid user-level rows: {error}") from None
        return cls(path, recipe)


# Writing


def write_scan(scan: Scan, output: Path, *, overwrite: bool = False) -> ByUser:
    """The user-level file of a relation; users are not told apart by anything but their id, or its hash."""
    if scan.fields.user is None:
        raise OptionError("user-level rows need users; independent rows can be tallied and added as they are")
    if scan.fields.item is not None:
        raise OptionError("user-level files do not hold items; tally the files of all days in one call, with item= or --item")
    plan = plan_scan(scan)
    recipe = plan.facts.recipe
    n_parts = max(plan.n_parts, count_parts(recipe.n_rows, LINE_BYTES, scan.limit))
    parts = spill_parts(select_rows(scan.relation, plan.facts), n_parts, scan.folder, nullable=plan.facts.nullable)
    lines = (user_cells(recipe.observations(arrays), recipe.lattice, recipe.centre) for arrays in parts)
    return write_lines(lines, ByUser(str(output), recipe), scan.folder, overwrite=overwrite)


def write_lines(parts: Iterable[UserCells], about: ByUser, folder: Path, *, overwrite: bool = False) -> ByUser:
    """Write the lines of each part to one Parquet file, whole or not at all."""
    lines, output = folder / "lines", Path(about.path)
    lines.mkdir()
    with connect(threads=1) as connection:
        for number, cells in enumerate(parts):
            written = {name: column for name, column in cells.items() if name not in _same_powers(about.recipe)}
            _copy(connection, written, lines / f"{number:06}.parquet")
        source = parquet_in(lines)
        options = f"FORMAT parquet, COMPRESSION zstd, KV_METADATA {{evenscore: {DUCKDB.literal(about.to_json())}}}, {AS_IT_IS}"
        with copied_whole(output, overwrite=overwrite) as temporary:
            connection.execute(f"COPY (SELECT * FROM read_parquet({source})) TO {DUCKDB.literal(str(temporary))} ({options})")
    return about


def _copy(connection: Any, cells: UserCells, path: Path) -> None:
    types = {"key": "BIGINT", "part": "UTINYINT", "cell": "USMALLINT"}
    selected = ", ".join(f"CAST({name} AS {types.get(name, 'DOUBLE')}) AS {name}" for name in cells)
    connection.register("cells", cells)
    connection.execute(f"COPY (SELECT {selected} FROM cells) TO {DUCKDB.literal(str(path))} (FORMAT parquet)")


# Reading


def is_by_user(path: Path) -> bool:
    """Whether a file is a user-level one."""
    return path.is_file() and path.suffix.lower() in (".parquet", ".pq") and _metadata(path) is not None


def _metadata(path: Path) -> str | None:
    rows = try_query(f"SELECT decode(value) FROM parquet_kv_metadata({path_literal(str(path))}) WHERE decode(key) = 'evenscore'")
    return str(rows[0][0]) if rows and MARK in rows[0][0] else None


def open_by_user(path: Path) -> ByUser:
    """What a user-level file holds, or an error."""
    text = _metadata(path)
    if text is None:
        raise FileError(f"{path} holds no user-level rows")
    return ByUser.from_json(str(path), text)


def merge_by_user(paths: list[Path], limit: int) -> Tally:
    """The tally of user-level files together."""

    def count(merged: _Merged) -> Tally:
        recipe = merged.recipe
        zero = recipe.zero
        if not merged.with_higher:
            zero = drop_blocks(zero, ["higher"], "user-level files of 0.1.0 do not have it")
        return recipe.finish(recipe.add_up(tally_user_cells(cells, zero, recipe.users(cells["key"])) for cells in merged.parts))

    return _merge(paths, limit, count)


def unite_by_user(paths: list[Path], limit: int, output: Path, *, overwrite: bool = False) -> ByUser:
    """User-level files as one."""

    def write(merged: _Merged) -> ByUser:
        return write_lines(merged.parts, ByUser(str(output), merged.recipe), merged.folder, overwrite=overwrite)

    return _merge(paths, limit, write)


@dataclass(frozen=True, slots=True)
class _Merged:
    """Lines of several files, added up; parts hold whole users, and folder takes what does not fit into memory."""

    recipe: Recipe
    parts: Iterator[UserCells]
    with_higher: bool
    folder: Path


def _merge(paths: list[Path], limit: int, use: Callable[[_Merged], Done]) -> Done:
    """What is made of the lines of all files while they can be read."""
    files = [open_by_user(path) for path in paths]
    recipe = _unite(files)
    names = ", ".join(map(named, paths))

    def explain(complaint: str) -> str:
        return f"{names}: {name_as_given(complaint, map(str, paths))}"

    def read(_settings: object) -> Done:
        with spill_folder() as folder, connect(memory_limit=limit, folder=folder) as connection:
            selects, with_higher = _selects(connection, files)
            rows = connection.sql(" UNION ALL ".join(selects))
            n_lines = int(rows.aggregate("count(*)").fetchall()[0][0])
            parts = spill_parts(rows, count_parts(n_lines, LINE_BYTES, limit), folder)
            lines = (_merge_lines(arrays, files, recipe) for arrays in parts)
            return use(_Merged(recipe, lines, with_higher, folder))

    return retry_step(read, explain)


def _selects(connection: Any, files: list[ByUser]) -> tuple[list[str], bool]:
    """The lines of each file in SQL, and whether they have the higher powers: all files do, or none is asked for them.

    Files of 0.1.0 do not, but for those of 0/1 outcomes without weights, where nothing needs to be written.
    """
    sources = [f"read_parquet({path_literal(file.path)}, hive_partitioning = false)" for file in files]
    with_higher = True
    for source, file in zip(sources, files, strict=True):
        columns = connection.sql(f"SELECT * FROM {source}").columns
        with_higher &= set(columns) | _same_powers(file.recipe).keys() >= set(HIGHER_MOMENTS.names)
    selects = []
    for number, (source, file) in enumerate(zip(sources, files, strict=True)):
        same = _same_powers(file.recipe)
        powers = [f"{same.get(name, name)} AS {name}" for name in HIGHER_MOMENTS.names] if with_higher else []
        selects.append(f"SELECT {', '.join([*PLACE, *SUMS, *powers])}, {number} AS file FROM {source}")
    return selects, with_higher


def _same_powers(recipe: Recipe) -> dict[str, str]:
    """Sums of higher powers that equal others and are not written: without weights w is 1, and of 0/1 outcomes y^k is y."""
    if recipe.columns.weight is not None:
        return {}
    if recipe.binary and recipe.centre == 0:
        return {name: "q1" if factor.y else "q0" for name, (factor,) in HIGHER_MOMENTS.factors.items()}
    return {"c0": "q0", "c1": "q1", "c2": "q2", "f0": "q0", "f1": "q1", "f2": "q2", "f3": "c3"}


def _unite(files: list[ByUser]) -> Recipe:
    """The recipe for the lines of all files; refuses what does not fit."""
    first, recipes = files[0].recipe, [file.recipe for file in files]
    lattice = first.lattice
    for other in files[1:]:
        united = common_lattice(lattice, other.recipe.lattice)
        if united is None:
            raise MergeError(
                f"{files[0].path} and {other.path} have different lattices: {lattice!r} and {other.recipe.lattice!r}; make "
                f"the second with --lattice {files[0].path}"
            )
        lattice = united
        if other.recipe.hashed != first.hashed:
            raise MergeError(f"users are text in one of {files[0].path} and {other.path}, and numbers in the other")
    labels = sorted({label: None for recipe in recipes for label in recipe.labels}, key=label_key)
    binary = all(recipe.binary for recipe in recipes)
    n_rows = sum(recipe.n_rows for recipe in recipes)
    weight = next((recipe.columns.weight for recipe in recipes if recipe.columns.weight is not None), None)
    centre = 0.0 if binary else sum(recipe.centre * recipe.n_rows for recipe in recipes) / n_rows
    dropped: Counter[str] = Counter()
    for recipe in recipes:
        dropped.update(recipe.dropped)
    return replace(
        first,
        lattice=lattice,
        labels=tuple(labels),
        columns=replace(first.columns, weight=weight),
        binary=binary,
        centre=centre,
        n_rows=n_rows,
        n_users=n_rows,
        dropped=dict(dropped),
    )


def _merge_lines(rows: Any, files: list[ByUser], recipe: Recipe) -> UserCells:
    """Lines of several files on common groups and a common centre, added up."""
    names = [name for name in rows if name != "file"]
    lines_by_file = []
    for number, file in enumerate(files):
        of_file = rows["file"] == number
        lines = {name: np.ma.getdata(rows[name])[of_file] for name in names}
        groups = np.array([recipe.labels.index(label) for label in file.recipe.labels], dtype=np.int64)
        cells = moved_cells(file.recipe.lattice, recipe.lattice)[lines["cell"]]
        lines |= {"part": groups[lines["part"]], "cell": cells, "key": lines["key"].astype(np.int64)}
        lines_by_file.append(recentred(lines, file.recipe.centre - recipe.centre))
    return added({name: np.concatenate([lines[name] for lines in lines_by_file]) for name in names})
