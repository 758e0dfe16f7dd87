"""A tally as one file: a magic line, a version, a JSON header, compressed arrays and a checksum over everything. No pickle."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import hashlib
import os
import struct
import tempfile
import uuid
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from evenscore.coding import FOLDS
from evenscore.errors import EvenscoreError, FileError
from evenscore.lattice import MAX_CELLS, Lattice
from evenscore.observations import MAX_GROUPS, Columns
from evenscore.pairs import PairSums
from evenscore.tally import SKETCH, VECTORS, GroupTally, Tally

MAGIC = b"evenscore tally\n"
VERSION = 1
PREFIX = struct.Struct("<16sIQ")
DIGEST = 32


class _Array(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    dtype: str
    shape: list[int]
    nbytes: int


class _Group(msgspec.Struct, forbid_unknown_fields=True):
    label: Any
    n_users: int
    n_rows: int
    n_unlabelled: int


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    made_with: str
    lattice: dict[str, Any]
    groups: list[_Group]
    cross: list[tuple[int, int]]
    n_spanning: int
    centre: float
    binary: bool
    columns: dict[str, Any] | None
    dropped: dict[str, int]
    frame_kind: str | None
    arrays: list[_Array]


# Labels keep their type


def _pack_label(label: Any) -> list[Any]:
    if isinstance(label, tuple):
        return ["tuple", [_pack_label(part) for part in label]]
    if isinstance(label, float):
        return ["float", label.hex()]
    if isinstance(label, bytes):
        return ["bytes", label.hex()]
    if isinstance(label, datetime.date):  # datetimes are dates too
        return [type(label).__name__ if isinstance(label, datetime.datetime) else "date", label.isoformat()]
    if isinstance(label, bool | int | str | decimal.Decimal | uuid.UUID):
        return [type(label).__name__, str(label)]
    raise EvenscoreError(f"group label {label!r} is a {type(label).__name__} and cannot be saved; turn the column into text first")


_UNPACK: dict[str, Any] = {
    "str": str,
    "int": int,
    "bool": {"True": True, "False": False}.__getitem__,
    "float": float.fromhex,
    "bytes": bytes.fromhex,
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
    "Timestamp": datetime.datetime.fromisoformat,
    "Decimal": decimal.Decimal,
    "UUID": uuid.UUID,
}


def _unpack_label(packed: Any) -> Any:
    kind, value = packed
    if kind == "tuple":
        return tuple(_unpack_label(part) for part in value)
    return _UNPACK[kind](value)


# Saving


def save_tally(tally: Tally, path: Path) -> None:
    """Write a tally to one file, whole or not at all."""
    arrays: list[tuple[str, NDArray[Any]]] = [("edges", tally.lattice.edges)]
    for place, part in enumerate(tally.parts):
        arrays += [
            (f"vectors {place}", part.vectors),
            (f"folds {place}", part.folds),
            (f"cell_users {place}", part.cell_users),
            *_pair_arrays(f"{place}", part.pairs),
        ]
    for (a, b), sums in sorted(tally.cross.items()):
        arrays += _pair_arrays(f"{a} {b}", sums)
    if tally.sketch is not None:
        arrays.append(("sketch", tally.sketch))
    packed = [_compress(array) for _, array in arrays]
    from evenscore import __version__

    header = _Header(
        made_with=__version__,
        lattice=tally.lattice.to_dict(),
        groups=[
            _Group(_pack_label(label), part.n_users, part.n_rows, part.n_unlabelled)
            for label, part in zip(tally.groups, tally.parts, strict=True)
        ],
        cross=sorted(tally.cross),
        n_spanning=tally.n_spanning,
        centre=tally.centre,
        binary=tally.binary,
        columns=None if tally.columns is None else msgspec.to_builtins(tally.columns),
        dropped=dict(tally.dropped),
        frame_kind=tally.frame_kind,
        arrays=[
            _Array(name, array.dtype.str, list(array.shape), len(blob))
            for (name, array), blob in zip(arrays, packed, strict=True)
        ],
    )
    try:
        encoded = msgspec.json.encode(header)
    except (UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise EvenscoreError(f"the tally's labels or column names cannot be saved: {error}") from None
    body = b"".join([PREFIX.pack(MAGIC, VERSION, len(encoded)), encoded, *packed])
    write_whole(path, body + hashlib.sha256(body).digest())


def _pair_arrays(name: str, sums: PairSums) -> list[tuple[str, NDArray[Any]]]:
    values = [(f"pairs {name}", sums.values)]
    return values if sums.index is None else [(f"index {name}", sums.index), *values]  # type: ignore[list-item]


def _compress(array: NDArray[Any]) -> bytes:
    """Bytes of equal significance lie together, which deflate likes."""
    raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1, array.dtype.itemsize)
    return zlib.compress(np.ascontiguousarray(raw.T).tobytes(), level=1)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is never seen half-written."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    except OSError as error:
        raise FileError(f"cannot write to {path.parent}: {error.strerror or error}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise FileError(f"cannot write {path}: {error.strerror or error}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# Loading


def is_tally_file(path: Path) -> bool:
    """Whether a file begins like a saved tally."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def load_tally(path: Path) -> Tally:
    """Read a tally, or say what is wrong with the file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None
    if not content.startswith(MAGIC[: len(content)]) or not content:
        raise FileError(f"{path} is not a saved tally")
    if len(content) < PREFIX.size + DIGEST:
        raise FileError(f"{path} is cut off: it has only {len(content)} bytes")
    _, version, header_length = PREFIX.unpack_from(content)
    if version > VERSION:
        raise FileError(f"{path} has format version {version}, this evenscore reads up to {VERSION}; update evenscore")
    if hashlib.sha256(content[:-DIGEST]).digest() != content[-DIGEST:]:
        raise FileError(f"{path} is damaged or cut off: its checksum does not match")
    try:
        header = msgspec.json.decode(content[PREFIX.size : PREFIX.size + header_length], type=_Header)
        arrays = _read_arrays(header, content[PREFIX.size + header_length : -DIGEST])
        return _rebuild(header, arrays)
    except (EvenscoreError, ValueError, KeyError, TypeError, IndexError, zlib.error, ArithmeticError) as error:
        raise FileError(f"{path} does not hold a valid tally: {error}") from None


def _read_arrays(header: _Header, payload: bytes) -> dict[str, NDArray[Any]]:
    arrays, start = {}, 0
    for entry in header.arrays:
        dtype = np.dtype(entry.dtype)
        if entry.dtype not in ("<f8", "<i4", "<i8") or any(size < 0 for size in entry.shape):
            raise ValueError(f"array {entry.name!r} has an unexpected type")
        size = int(np.prod(entry.shape, dtype=np.float64)) * dtype.itemsize
        if size > 64 * MAX_CELLS**2 * 16:
            raise ValueError(f"array {entry.name!r} is too large")
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(payload[start : start + entry.nbytes], size + 1)
        if len(raw) != size:
            raise ValueError(f"array {entry.name!r} has the wrong length")
        shuffled = np.frombuffer(raw, dtype=np.uint8).reshape(dtype.itemsize, -1)
        arrays[entry.name] = np.ascontiguousarray(shuffled.T).view(dtype).reshape(entry.shape)
        start += entry.nbytes
    return arrays


def _rebuild(header: _Header, arrays: dict[str, NDArray[Any]]) -> Tally:
    lattice = Lattice.from_parts(arrays["edges"].astype(np.float64), header.lattice)
    n_cells = lattice.n_cells
    if len(header.groups) > MAX_GROUPS:
        raise ValueError("too many groups")
    parts = []
    for place, group in enumerate(header.groups):
        part = GroupTally(
            group.n_users,
            group.n_rows,
            group.n_unlabelled,
            _expect(arrays[f"vectors {place}"], (2, len(VECTORS), n_cells)),
            _expect(arrays[f"folds {place}"], (2, 4, FOLDS, n_cells)),
            _expect(arrays[f"cell_users {place}"], (n_cells,)),
            _rebuild_pairs(arrays, f"{place}", n_cells, within=True),
        )
        if min(group.n_users, group.n_rows, group.n_unlabelled) < 0 or (part.vectors[:, 0] < 0).any():
            raise ValueError("negative counts or weights")
        parts.append(part)
    labels = tuple(_unpack_label(group.label) for group in header.groups)
    if len(set(labels)) < len(labels):
        raise ValueError("a group occurs twice")
    cross = {}
    for a, b in header.cross:
        if not 0 <= a < b < len(labels):
            raise ValueError("cross sums of unknown groups")
        cross[a, b] = _rebuild_pairs(arrays, f"{a} {b}", n_cells, within=False)
    sketch = arrays.get("sketch")
    if sketch is not None and (sketch.ndim != 1 or len(sketch) > SKETCH):
        raise ValueError("the sketch of users has the wrong shape")
    return Tally(
        lattice=lattice,
        groups=labels,
        parts=tuple(parts),
        cross=cross,
        n_spanning=header.n_spanning,
        centre=header.centre,
        binary=header.binary,
        columns=None if header.columns is None else msgspec.convert(header.columns, Columns),
        sketch=sketch,
        dropped=header.dropped,
        frame_kind=header.frame_kind,
    )


def _expect(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float64]:
    if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
        raise ValueError(f"an array has shape {array.shape} where {shape} is expected, or is not finite")
    return array


def _rebuild_pairs(arrays: dict[str, NDArray[Any]], name: str, n_cells: int, within: bool) -> PairSums:
    index = arrays.get(f"index {name}")
    n_pairs = n_cells * (n_cells + 1) // 2 if within else n_cells**2
    if index is not None:
        if index.ndim != 1 or index.dtype != np.int32 or (len(index) and not 0 <= index[0] <= index[-1] < n_cells**2):
            raise ValueError("pair sums have a wrong index")
        if (np.diff(index) <= 0).any() or (within and (index // n_cells > index % n_cells).any()):
            raise ValueError("pair sums have a wrong index")
        n_pairs = len(index)
    return PairSums(n_cells, within, index, _expect(arrays[f"pairs {name}"], (2, 4, n_pairs)))
