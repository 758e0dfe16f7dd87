"""Which files a path, folder, pattern or list of these stands for, each of them once, and what their folders say about them."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from glob import escape, glob
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from evenscore.data.columns import shortened
from evenscore.engines.sql import DUCKDB
from evenscore.errors import FileError
from evenscore.saving import file_identity, named
from evenscore.tallies.archive import is_tally_file

Paths = str | os.PathLike[str] | list[Any] | tuple[Any, ...]

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".csv.zst", ".tsv.zst")
SEPARATED = r"[/\\]" if os.sep == "\\" else "/"
TAKEN_IN = "would be one of the files that are read, so that the next run reads its own result; write it somewhere else"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def file_kind(name: str) -> str | None:
    """Parquet, CSV, or None for something else."""
    lower = name.lower()
    return "Parquet" if lower.endswith(PARQUET) else "CSV" if lower.endswith(CSV) else None


def find_files(data: Paths) -> tuple[str, ...]:
    """The files that a path, folder, glob or list of these stands for; one under two names, or beside a link to it, is one."""
    files: dict[Any, str] = {}
    for path in _find(data):
        files.setdefault(file_identity(path) or path, path)
    return tuple(files.values())


def _find(data: Paths) -> Iterable[str]:
    if isinstance(data, list | tuple) and data:
        return [path for item in data for path in _find(item)]
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
        return [str(path)]
    matches = sorted(glob(_as_pattern(path), recursive=True))  # noqa: PTH207 (a pattern may be absolute)
    if not matches:
        hint = "; evenscore reads local files" if "://" in str(data) else _near_name(path)
        raise FileError(f"no file {named(data)}{hint}")
    return [name for match in matches for name in (_files_in(Path(match)) if Path(match).is_dir() else [match])]


def _near_name(path: Path) -> str:
    """The data file that was probably meant, in the same folder."""
    try:
        names = {name.name.split(".")[0]: name for name in path.parent.iterdir() if file_kind(name.name) is not None}
    except (OSError, ValueError):  # a folder that is not there, or cannot be
        return ""
    near = difflib.get_close_matches(path.name.split(".")[0], names, n=1)  # two files are not alike because both are .csv
    return f"; did you mean {named(names[near[0]])}?" if near else ""


def _as_pattern(path: Path) -> str:
    """A pattern in which folders that exist under the very name mean themselves."""
    folder = next((parent for parent in path.parents if parent.exists()), None)
    if folder is None or folder == Path():
        return str(path)
    return str(Path(escape(str(folder))) / path.relative_to(folder))


def _files_in(folder: Path) -> list[str]:
    """Data files in a folder and below; what begins with a dot or an underscore is somebody's bookkeeping, or not finished."""
    files = sorted(
        path
        for path in folder.rglob("*")
        if file_kind(path.name) and not any(part[0] in "._" for part in path.relative_to(folder).parts) and path.is_file()
    )
    if not files:
        raise FileError(f"the folder {folder} holds no CSV or Parquet files")
    return list(map(str, files))


def is_taken_in(path: Path, data: Paths) -> bool:
    """Whether a file, once it is written, is among those that a folder or pattern stands for."""
    if isinstance(data, list | tuple):
        return any(is_taken_in(path, item) for item in data)
    if not isinstance(data, str | os.PathLike) or file_kind(path.name) is None or Path(data).is_file():
        return False
    try:
        place = Path(os.path.realpath(path.parent)) / path.name
        if Path(data).is_dir():
            return _lies_in(place, data)
        pattern = _as_pattern(Path(data))
        return _matches(place, pattern) or any(_lies_in(place, match) for match in glob(pattern, recursive=True))  # noqa: PTH207
    except (OSError, ValueError):  # a name that no file can have
        return False


def _lies_in(place: Path, folder: str | os.PathLike[str]) -> bool:
    real = Path(os.path.realpath(folder))
    return real.is_dir() and real in place.parents and not any(part[0] in "._" for part in place.relative_to(real).parts)


def _matches(place: Path, pattern: str) -> bool:
    """Whether a file is called as the pattern says, in a folder that it means."""
    folders, name = os.path.split(pattern)
    if not fnmatch(place.name, name) or (place.name[0] == "." and name[0] != "."):
        return False
    return any(os.path.realpath(folder) == str(place.parent) for folder in glob(folders or os.curdir, recursive=True))  # noqa: PTH207


def list_paths(paths: tuple[str, ...]) -> str:
    """Paths for a message: whole, but not too many."""
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3:,} more files" if len(paths) > 3 else "")


# In SQL


def absolute(path: str) -> str:
    """A path that DuckDB does not expand: ``~x.csv`` is a name. Nothing is resolved, since ``..`` may follow a link."""
    return str(Path.cwd() / path)


def name_as_given(text: str, paths: Iterable[str]) -> str:
    """What DuckDB says about files, under the names that the caller gave them."""
    for path in paths:
        text = text.replace(absolute(path), path)
    return text


def path_literal(path: str) -> str:
    """A path in SQL that means this file and no other: DuckDB takes stars, question marks and brackets for patterns."""
    return DUCKDB.literal(_escaped(path))


def parquet_in(folder: Path) -> str:
    """The Parquet files of a folder in SQL."""
    return DUCKDB.literal(str(Path(_escaped(str(folder))) / "*.parquet"))


def _escaped(path: str) -> str:
    return re.sub(r"[*?\[]", r"[\g<0>]", absolute(path))


# Folders that say what all rows below them have in common


def folder_values(path: str) -> dict[str, str | None]:
    """Columns that folders such as ``day=1`` name, with their values."""
    return dict(_split_folders(path))


def _split_folders(path: str) -> Iterator[tuple[str, str | None]]:
    for part in Path(path).parts[:-1]:
        name, is_pair, value = part.partition("=")
        if is_pair and name:
            yield unquote(name), None if value == NO_VALUE else unquote(value)


def folder_value(name: str, file: str) -> str:
    """SQL for the value that a file's folders have for a column; ``file`` is SQL for the path."""
    pattern = rf"(?s).*{SEPARATED}{re.escape(name)}=([^/]*?){SEPARATED}"
    value = f"regexp_extract({file}, {DUCKDB.literal(pattern)}, 1)"
    return f"url_decode(nullif({value}, {DUCKDB.literal(NO_VALUE)}))"
