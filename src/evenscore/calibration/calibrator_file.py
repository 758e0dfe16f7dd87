"""The file of a calibrator, of one score or of several, as JSON: what it is, its version, the calibrator, a checksum. No pickle."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from evenscore.errors import EvenscoreError, FileError, shortened
from evenscore.saving import write_whole

Body = TypeVar("Body")
Calibrating = TypeVar("Calibrating")

READERS = {"calibrator": "es.Calibrator.load", "joint calibrator": "es.JointCalibrator.load"}
VERSION = 1


class _Head(msgspec.Struct):
    format: str = ""
    version: int = 0


class Document(msgspec.Struct, Generic[Body], forbid_unknown_fields=True):
    """All that a file holds; Body is the calibrator's own struct."""

    format: str
    version: int
    checksum: str
    calibrator: Body


def sealed(kind: str, body: Body) -> Document[Body]:
    """The document of a calibrator of one of the kinds in ``READERS``, with its checksum."""
    return Document(f"evenscore {kind}", VERSION, _checksum(body), body)


def save_document(document: Document[Any], path: Path) -> None:
    """Write a calibrator to one file, whole or not at all."""
    try:
        encoded = msgspec.json.format(msgspec.json.encode(document), indent=1)
    except (UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise EvenscoreError(f"the calibrator's labels or column names cannot be saved: {error}") from None
    write_whole(path, encoded + b"\n")


def kind_of(content: bytes) -> str:
    """What a file says that it holds, one of ``READERS`` if it is a calibrator's."""
    return msgspec.json.decode(content, type=_Head).format.removeprefix("evenscore ")


def decode_document(
    content: bytes, path: Path, kind: str, document: type[Document[Body]], rebuild: Callable[[Body], Calibrating]
) -> Calibrating:
    """The calibrator of that kind in a file, or what is wrong with the file."""
    if not content.strip():
        raise FileError(f"{path} is empty")
    try:
        head = msgspec.json.decode(content, type=_Head)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FileError(f"{path} is not a saved {kind}, or it is cut off: {error}") from None
    if head.format != f"evenscore {kind}":
        reader = READERS.get(head.format.removeprefix("evenscore "))
        instead = "" if reader is None else f"; read it with {reader}"
        raise FileError(f"{path} is not a saved {kind}: its format is {shortened(head.format)}, not 'evenscore {kind}'{instead}")
    if head.version > VERSION:
        raise FileError(f"{path} has format version {head.version}, this evenscore reads version {VERSION}; update evenscore")
    try:
        found = msgspec.json.decode(content, type=document)
        if _checksum(found.calibrator) != found.checksum:
            raise FileError(f"{path} is damaged or was edited: its checksum does not match")
        return rebuild(found.calibrator)
    except FileError:
        raise
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, IndexError, ArithmeticError, RecursionError) as error:
        raise FileError(f"{path} does not hold a valid {kind}: {error}") from None


def _checksum(body: Any) -> str:
    """Over the content, not the layout: a file may be formatted anew."""
    try:
        return hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()
    except UnicodeEncodeError as error:
        raise EvenscoreError(f"the calibrator's labels or column names cannot be saved: {error}") from None
