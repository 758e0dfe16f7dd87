"""Memory that may be used, and a folder for the rest: gone when the work ends, or swept by the next run if it was killed."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from evenscore.errors import FileError, OptionError, shortened
from evenscore.saving import unfinished

MEMORY_LIMIT = "1GB"
PREFIX = ".evenscore-spill-"  # hidden, so that reading a folder around it does not take it for data
LOCK = "in-use"
YOUNG = 3600  # seconds in which a folder may be without a lock because it is being made
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
SMALLEST = 200_000_000  # below this not even the engine works
LARGEST = 2**60  # more than any machine has, and as much as the engine can count

_FOLDERS: dict[int, tuple[Path, contextlib.ExitStack]] = {}  # by process, and what removes it
_FOLDERS_LOCK = threading.Lock()


def parse_memory_limit(limit: str | int | float) -> int:
    """A memory limit in bytes.

    >>> parse_memory_limit("1.5 GB"), parse_memory_limit("512MiB")
    (1500000000, 536870912)
    """
    try:
        match = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]I?)?B?\s*", str(limit), re.IGNORECASE)
        size = int(float(match[1]) * UNITS[(match[2] or "").upper()]) if match and not isinstance(limit, bool) else 0
    except (ValueError, OverflowError):
        size = 0
    if not SMALLEST <= size < LARGEST:
        raise OptionError(f"memory_limit={shortened(limit)} must be a size of at least {SMALLEST // 10**6} MB, such as '2GB'")
    return size


def spill_failure(complaint: str) -> FileError | None:
    """The error when DuckDB complains that temporary files cannot be written; None when it complains of something else."""
    if not any(words in complaint.lower() for words in ("no space left", "could not write", "file too large", "failed to offload")):
        return None
    folder = _temporary_place()
    return FileError(f"cannot write temporary files to {folder}: {complaint}; make room there, or let TMPDIR name another place")


def _temporary_place() -> Path:
    """Where temporary files go; TMPDIR says where."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:  # nothing may be written anywhere, as in a container whose disk is read-only
        raise FileError("there is no place for temporary files; let TMPDIR name a folder that can be written to") from None


@contextlib.contextmanager
def spill_folder() -> Iterator[Path]:
    """A temporary folder; folders that killed runs left behind are removed first."""
    parent = _temporary_place()
    sweep(parent)
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    except OSError as error:
        raise FileError(f"cannot make a temporary folder in {parent}: {error.strerror or error}") from None
    with unfinished(folder), (folder / "new").open("w") as lock:
        _take(lock)
        Path(lock.name).replace(folder / LOCK)  # nobody ever sees it unlocked
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def process_folder() -> Path | None:
    """A temporary folder that lasts as long as this process; None where none can be made, and nothing may be spilled."""
    process = os.getpid()  # a fork is a process of its own
    with _FOLDERS_LOCK:
        if process not in _FOLDERS or not _FOLDERS[process][0].is_dir():
            stack = contextlib.ExitStack()
            try:
                _FOLDERS[process] = stack.enter_context(spill_folder()), stack
            except FileError:
                return None
        return _FOLDERS[process][0]


@atexit.register
def remove_process_folder() -> None:
    """Remove what this process has spilled."""
    if os.getpid() in _FOLDERS:
        _FOLDERS.pop(os.getpid())[1].close()


def sweep(parent: Path) -> None:
    """Remove the folders of runs that are no more: nobody holds their lock."""
    for folder in parent.glob(PREFIX + "*"):
        with contextlib.suppress(OSError):
            if not (folder / LOCK).exists():
                abandoned = time.time() - folder.stat().st_mtime > YOUNG
            else:
                with (folder / LOCK).open("r+") as lock:
                    abandoned = _take(lock)
            if abandoned:
                shutil.rmtree(folder, ignore_errors=True)


def _take(lock: IO[str]) -> bool:
    """Lock a file until it is closed, which the system does for the dead; False when another process holds it."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
