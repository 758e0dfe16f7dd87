"""What every saved file needs: labels that keep their type, and content that is read or written whole or not at all, at once."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import itertools
import os
import secrets
import shutil
import stat
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from evenscore.errors import EvenscoreError, FileError, OptionError, shortened

MOST_BYTES = 1 << 29  # of a file that is read at once; tallies have a limit of their own
PIECE = 1 << 20
AT_ONCE = getattr(os, "O_NONBLOCK", 0)  # opening a pipe must not wait for its other end
CASELESS = sys.platform in ("darwin", "win32")  # a.csv and A.csv are one file
DATA_NAMES = tuple(f".{kind}{packed}" for kind in ("csv", "tsv", "parquet", "pq") for packed in ("", ".gz", ".zst"))
OWN = (b"{", b"<", b"evenscore tally\n")  # how JSON, HTML, XML and tallies begin, and no table

_UNFINISHED: dict[Path, int] = {}  # temporary files and folders that are in use, and the process that will remove them

# Labels keep their type


def pack_label(label: Any) -> list[Any]:
    """A label with its type, as JSON can hold it."""
    kind = type(label)
    if kind is tuple:
        return ["tuple", [*map(pack_label, label)]]
    if kind in (float, bytes):
        return [kind.__name__, label.hex()]
    if kind in (datetime.date, datetime.datetime, datetime.time):
        return [kind.__name__, label.isoformat()]
    if kind in (bool, int, str, decimal.Decimal, uuid.UUID):
        return [kind.__name__, str(label)]
    raise EvenscoreError(
        f"group label {shortened(label)} is of type {kind.__name__} and cannot be saved; turn the column into text before es.tally"
    )


_UNPACK: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "bool": {"True": True, "False": False}.__getitem__,
    "float": float.fromhex,
    "bytes": bytes.fromhex,
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
    "time": datetime.time.fromisoformat,
    "Decimal": decimal.Decimal,
    "UUID": uuid.UUID,
}


def unpack_label(packed: Any) -> Any:
    """The label that ``pack_label`` packed."""
    kind, value = packed
    if kind == "tuple":
        return tuple(map(unpack_label, value))
    if kind not in _UNPACK or not isinstance(value, str):
        raise ValueError("a group label is of no known type")
    return _UNPACK[kind](value)


# Files


def as_path(path: Any) -> Path:
    """A path that the caller gave."""
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise OptionError(f"{shortened(path)} is no path; give text or a pathlib.Path")
    return Path(path)


def named(path: str | os.PathLike[str]) -> str:
    """A path for a message; one that would garble it is quoted."""
    text = str(path)
    return text if text.isprintable() and len(text) <= 300 else shortened(text)


def file_identity(path: str | os.PathLike[str]) -> tuple[Any, ...] | None:
    """What all names of a file have in common, be it there or not; None for a device, which may be named twice, and for no name."""
    try:
        about = Path(path).stat()
        return None if stat.S_ISCHR(about.st_mode) else (about.st_dev, about.st_ino)
    except FileNotFoundError:
        folder, name = os.path.split(os.path.realpath(path))
        return file_identity(folder) if not name else (file_identity(folder), name.casefold() if CASELESS else name)
    except (OSError, ValueError):
        return None


def holds_data(path: str | os.PathLike[str]) -> bool:
    """Whether a file is there that is a table, by its name or, for Parquet, by how it begins."""
    try:
        with open(path, "rb", opener=_opened) as file:
            begin = file.read(16) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except (OSError, ValueError):
        return False
    named_so = os.fspath(path).lower().endswith(DATA_NAMES)
    return begin.startswith(b"PAR1") or (named_so and bool(begin) and not begin.startswith(OWN))


def refuse_data(path: str | os.PathLike[str]) -> None:
    """Reports, tallies and the like replace what is there, but never a table."""
    if holds_data(path):
        raise FileError(f"{named(path)} is there already and holds data; give the result another name")


def refuse_existing(path: Path, overwrite: bool) -> None:
    """Data replace what is there only when told so."""
    if not overwrite and os.path.lexists(path):
        raise FileError(f"{named(path)} is there already; give the result another name, or say overwrite=True")


def read_whole(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a file or a pipe, if it is not too much."""
    with _explained("read", path), open(path, "rb", opener=_opened) as file:
        about = os.fstat(file.fileno())
        if stat.S_ISCHR(about.st_mode):
            raise FileError(f"cannot read {named(path)}: it is a device, not a file")
        pieces = itertools.takewhile(len, (file.read(PIECE) for _ in range(most // PIECE + 1)))  # a pipe cannot tell its size
        content = b"" if about.st_size > most else file.read() if stat.S_ISREG(about.st_mode) else b"".join(pieces)
    if max(about.st_size, len(content)) > most:
        raise FileError(f"cannot read {named(path)}: it has more than {most:,} bytes, which nothing that belongs here needs")
    return content


def write_whole(path: Path, content: bytes, *, data: bool = False) -> None:
    """Write a file so that it is never seen half-written; devices and pipes are written to as they are.

    What is no data itself does not take the place of data.
    """
    if not data:
        refuse_data(path)
    with _explained("write", path):
        place = Path(os.path.realpath(path))  # a link stays a link
        if place.exists() and not place.is_file():
            with open(place, "wb", opener=_opened) as file:
                file.write(content)
            return
    with written_whole(place) as temporary, _explained("write", path):
        temporary.write_bytes(content)


@contextlib.contextmanager
def written_whole(path: Path, suffix: str = "", *, overwrite: bool = True) -> Iterator[Path]:
    """A hidden file that takes the place of the path when all went well, and vanishes otherwise. A link stays a link."""
    refuse_existing(path, overwrite)
    with _explained("write", path):
        place = Path(os.path.realpath(path))
        temporary = place.with_name(f".evenscore-{secrets.token_hex(8)}{suffix}")
    with unfinished(temporary):
        try:
            with _explained("write", path):
                os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            yield temporary
            with _explained("write", path):
                _move(temporary, place, overwrite)
        except BaseException:
            with contextlib.suppress(OSError, ValueError):
                temporary.unlink()
            raise


@contextlib.contextmanager
def unfinished(path: Path) -> Iterator[None]:
    """Keep a temporary file or folder in mind for ``remove_unfinished`` while it is used."""
    _UNFINISHED[path] = os.getpid()
    try:
        yield
    finally:
        _UNFINISHED.pop(path, None)


def remove_unfinished() -> None:
    """Remove what this process has not finished; for those who end it where nothing unwinds any more."""
    for path, process in list(_UNFINISHED.items()):
        if process == os.getpid():  # a fork leaves its parent's alone
            shutil.rmtree(path, ignore_errors=True)
            with contextlib.suppress(OSError):
                path.unlink()


def _move(temporary: Path, place: Path, overwrite: bool) -> None:
    """Give a file its name; one that came to be there meanwhile is kept, unless it is to be replaced."""
    if overwrite:
        temporary.replace(place)
        return
    try:
        os.link(temporary, place)
    except FileExistsError:
        refuse_existing(place, overwrite)
        raise
    except OSError:  # not every disk has links
        refuse_existing(place, overwrite)
        temporary.replace(place)
    else:
        temporary.unlink()


def _opened(path: Any, flags: int) -> int:
    handle = os.open(path, flags | AT_ONCE, 0o666)
    if AT_ONCE:
        os.set_blocking(handle, True)
    return handle


@contextlib.contextmanager
def _explained(what: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """What the system says against a path, in one line."""
    try:
        yield
    except EvenscoreError:
        raise
    except OSError as error:
        raise FileError(f"cannot {what} {named(path)}: {error.strerror or error}") from None
    except ValueError:  # a null byte, or what no bytes stand for
        raise FileError(f"cannot {what} {named(path)}: no file can have such a name") from None
