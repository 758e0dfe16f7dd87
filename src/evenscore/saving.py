"""What every saved file needs: labels that keep their type, and content that is read or written whole or not at all."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import os
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evenscore.errors import EvenscoreError, FileError, shortened

# Labels keep their type


def pack_label(label: Any) -> list[Any]:
    """A label with its type, as JSON can hold it."""
    kind = type(label)
    if kind is tuple:
        return ["tuple", [pack_label(part) for part in label]]
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
        return tuple(unpack_label(part) for part in value)
    if kind not in _UNPACK or not isinstance(value, str):
        raise ValueError("a group label is of no known type")
    return _UNPACK[kind](value)


# Files


def read_whole(path: Path) -> bytes:
    """What a file holds."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is never seen half-written; devices and pipes are written to as they are."""
    try:
        path = Path(os.path.realpath(path))  # a link stays a link
        if path.exists() and not path.is_file():
            path.write_bytes(content)
            return
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o666 & ~umask())
        Path(temporary).replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        if isinstance(error, OSError):
            raise FileError(f"cannot write {path}: {error.strerror or error}") from None
        raise


def umask() -> int:
    """The permissions that new files do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
