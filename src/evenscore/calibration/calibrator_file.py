"""The file of a calibrator, of one score or of several, as JSON: what it is, its version, the calibrator, a checksum. No pickle."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from evenscore.codec import INVALID, Codec, refuse_invalid
from evenscore.errors import EvenscoreError, FileError, shortened
from evenscore.saving import read_whole, write_whole

Calibrating = TypeVar("Calibrating")

READERS = {"evenscore calibrator": "es.Calibrator.load", "evenscore joint calibrator": "es.JointCalibrator.load"}
VERSION = 1


class _Head(msgspec.Struct):
    format: str = ""
    version: int = 0


class _Document(_Head, kw_only=True, forbid_unknown_fields=True):
    checksum: str
    calibrator: msgspec.Raw


@dataclass(frozen=True, slots=True)
class CalibratorFile(Generic[Calibrating]):
    """Saves and loads calibrators of one kind."""

    kind: str
    codec: Codec[Calibrating]

    @property
    def format(self) -> str:
        """What such a file says that it is."""
        return f"evenscore {self.kind}"

    def save(self, calibrator: Calibrating, path: Path) -> None:
        """Write a calibrator to one file, whole or not at all."""
        write_whole(path, msgspec.json.format(msgspec.json.encode(self.document(calibrator)), indent=1) + b"\n")

    def document(self, calibrator: Calibrating) -> dict[str, Any]:
        """What a file holds, as plain values."""
        body = self.codec.pack(calibrator)
        sealed = {"format": self.format, "version": VERSION, "checksum": checksum(body)}
        return sealed | {"calibrator": msgspec.to_builtins(body)}

    def load(self, path: Path) -> Calibrating:
        """Read a calibrator, or say what is wrong with the file."""
        return self.decode(read_whole(path), str(path))

    def decode(self, content: bytes, name: str) -> Calibrating:
        """The calibrator that a file, or what stands in one, holds."""
        if not content.strip():
            raise FileError(f"{name} is empty")
        with refuse_invalid(f"{name} is not a saved {self.kind}, or it is cut off"):
            head = msgspec.json.decode(content, type=_Head)
        if head.format != self.format:
            reader = f"; read it with {READERS[head.format]}" if head.format in READERS else ""
            raise FileError(
                f"{name} is not a saved {self.kind}: its format is {shortened(head.format)}, not {self.format!r}{reader}"
            )
        if head.version > VERSION:
            raise FileError(f"{name} has format version {head.version}, this evenscore reads version {VERSION}; update evenscore")
        invalid = f"{name} does not hold a valid {self.kind}"
        with refuse_invalid(invalid):
            document = msgspec.json.decode(content, type=_Document)
            body = msgspec.json.decode(document.calibrator, type=self.codec.stored)
            intact = checksum(body) == document.checksum
        if not intact:
            raise FileError(f"{name} is damaged or was edited: its checksum does not match")
        with refuse_invalid(invalid):
            return self.codec.unpack(body)


def format_of(content: bytes) -> str:
    """What a file says that it is; empty when it does not say."""
    try:
        return msgspec.json.decode(content, type=_Head).format
    except INVALID:
        return ""


def checksum(body: Any) -> str:
    """Over the content, not the layout: a file may be formatted anew."""
    try:
        return hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()
    except (UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise EvenscoreError(f"the calibrator's labels or column names cannot be saved: {error}") from None
