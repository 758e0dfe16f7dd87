"""What every saved file needs: labels that keep their type, and content that is read or written whole or not at all, at once."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import itertools
import os
import secrets
import stat
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from evenscore.errors import EvenscoreError, FileError, OptionError, shortened

MOST_BYTES = 1 << 29  # of a file that is read at once; tallies have a limit of their own
PIECE = 1 << 20
AT_ONCE = getattr(os, "O_NONBLOCK", 0)  # opening a pipe must not wait for its other end

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


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is never seen half-written; devices and pipes are written to as they are."""
    with _explained("write", path):
        place = Path(os.path.realpath(path))  # a link stays a link
        if place.exists() and not place.is_file():
            with open(place, "wb", opener=_opened) as file:
                file.write(content)
            return
    with written_whole(place) as temporary, _explained("write", path):
        temporary.write_bytes(content)


@contextlib.contextmanager
def written_whole(path: Path, suffix: str = "") -> Iterator[Path]:
    """A temporary file that takes the place of the path when all went well, and vanishes otherwise."""
    with _explained("write", path):
        temporary = Path(os.path.realpath(path.parent)) / f".{path.name[:40]}.{secrets.token_hex(8)}{suffix}"
    try:
        with _explained("write", path):
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield temporary
        with _explained("write", path):
            temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError, ValueError):
            temporary.unlink()
        raise


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
