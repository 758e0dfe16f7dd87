"""A tally as one file: a magic line, a version, a JSON header, compressed arrays and a checksum over everything. No pickle."""

from __future__ import annotations

import contextlib
import hashlib
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from evenscore._version import __version__
from evenscore.data.coding import FOLDS
from evenscore.data.columns import shortened
from evenscore.data.observations import MAX_GROUPS, Columns, label_key
from evenscore.data.splits import Split
from evenscore.errors import EvenscoreError, FileError
from evenscore.saving import MOST_BYTES, pack_label, read_whole, unpack_label, write_whole
from evenscore.tallies.lattice import MAX_CELLS, Lattice
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.tally_state import SKETCH, VECTORS, GroupTally, Tally
from evenscore.types import Array

MAGIC = b"evenscore tally\n"
VERSION = 1
PREFIX = struct.Struct("<16sIQ")
DIGEST = 32
FLOAT = "<f8"
MAX_BYTES = 1 << 32  # unpacked; 200 large groups and the sums between them stay below


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
    split: str | None = None
    released: tuple[int, int] | None = None


# Saving


def save_tally(tally: Tally, path: Path) -> None:
    """Write a tally to one file, whole or not at all."""
    arrays: list[tuple[str, Array]] = [("edges", tally.lattice.edges)]
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
    header = _Header(
        made_with=__version__,
        lattice=tally.lattice.to_dict(),
        groups=[
            _Group(pack_label(label), part.n_users, part.n_rows, part.n_unlabelled)
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
            _Array(name, array.dtype.str, list(array.shape), len(blob)) for (name, array), blob in zip(arrays, packed, strict=True)
        ],
        split=tally.split,
        released=tally.released,
    )
    try:
        encoded = msgspec.json.encode(header)
    except (UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise EvenscoreError(f"the tally's labels or column names cannot be saved: {error}") from None
    body = b"".join([PREFIX.pack(MAGIC, VERSION, len(encoded)), encoded, *packed])
    write_whole(path, body + hashlib.sha256(body).digest())


def _pair_arrays(name: str, sums: PairSums) -> list[tuple[str, Array]]:
    index = [] if sums.index is None else [(f"index {name}", sums.index)]
    return [*index, (f"pairs {name}", sums.values)]


def _compress(array: Array) -> bytes:
    """Bytes of equal significance lie together, which deflate likes."""
    raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1, array.dtype.itemsize)
    return zlib.compress(np.ascontiguousarray(raw.T).tobytes(), level=1)


# Loading


def is_tally_file(path: Path) -> bool:
    """Whether a file begins like a saved tally."""
    try:
        with path.open("rb") if path.is_file() else contextlib.nullcontext() as file:
            return file is not None and file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def load_tally(path: Path) -> Tally:
    """Read a tally, or say what is wrong with the file."""
    content = read_whole(path, MAX_BYTES if is_tally_file(path) else MOST_BYTES)
    if not content:
        raise FileError(f"{path} is empty")
    if not content.startswith(MAGIC[: len(content)]):
        raise FileError(f"{path} is not a saved tally")
    if len(content) < PREFIX.size + DIGEST:
        raise FileError(f"{path} is cut off: it has only {len(content)} bytes")
    if hashlib.sha256(content[:-DIGEST]).digest() != content[-DIGEST:]:
        raise FileError(f"{path} is damaged or cut off: its checksum does not match")
    _, version, header_length = PREFIX.unpack_from(content)
    if version != VERSION:
        raise FileError(f"{path} has format version {version}, this evenscore reads version {VERSION}; update evenscore")
    payload = memoryview(content)[PREFIX.size : -DIGEST]
    try:
        header = msgspec.json.decode(payload[:header_length], type=_Header)
        return _rebuild(header, _Arrays(header.arrays, payload[header_length:]))
    except (
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        ArithmeticError,
        RecursionError,
        zlib.error,
        msgspec.MsgspecError,
    ) as error:
        raise FileError(f"{path} does not hold a valid tally: {error}") from None


class _Arrays:
    """The arrays of a file, each unpacked when its shape is known to be right; nothing is unpacked that is not asked for."""

    def __init__(self, entries: list[_Array], payload: memoryview) -> None:
        self.entries: dict[str, tuple[_Array, memoryview]] = {}
        start = 0
        for entry in entries:
            if entry.name in self.entries or min(entry.nbytes, *entry.shape) < 0:
                raise ValueError(f"array {shortened(entry.name)} is listed wrongly")
            self.entries[entry.name] = entry, payload[start : start + entry.nbytes]
            start += entry.nbytes
        if start != len(payload):
            raise ValueError(f"the arrays take {start:,} bytes, the file has {len(payload):,} for them")
        unpacked = sum(8 * math.prod(entry.shape) for entry in entries)
        if unpacked > MAX_BYTES:
            raise ValueError(f"its arrays would take {unpacked:,} bytes, which no tally needs")

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def entry(self, name: str) -> tuple[_Array, memoryview]:
        if name not in self.entries:
            raise ValueError(f"array {name!r} is missing")
        return self.entries[name]

    def take(self, name: str, dtype: str, shape: tuple[int, ...]) -> Array:
        """The array of that name, which must be of that type and shape, and finite."""
        entry, packed = self.entry(name)
        if entry.dtype != dtype or tuple(entry.shape) != shape:
            raise ValueError(
                f"array {name!r} is {entry.dtype} of shape {tuple(entry.shape)} where {dtype} of shape {shape} belongs"
            )
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(packed, size + 1)
        if len(raw) != size or not unpacker.eof or unpacker.unused_data:
            raise ValueError(f"array {name!r} does not have its {size:,} bytes")
        shuffled = np.frombuffer(raw, dtype=np.uint8).reshape(kind.itemsize, -1)
        array = np.ascontiguousarray(shuffled.T).view(kind).reshape(shape)
        if not np.isfinite(array).all():
            raise ValueError(f"array {name!r} is not finite")
        return array


def _rebuild(header: _Header, arrays: _Arrays) -> Tally:
    n_cells = _length(arrays, "edges", 4 * MAX_CELLS) + 1
    edges = arrays.take("edges", FLOAT, (n_cells - 1,))
    lattice = Lattice.from_parts(edges, header.lattice)
    if not np.array_equal(lattice.edges, edges) or not -math.inf < lattice.low <= lattice.high < math.inf:
        raise ValueError("the lattice's limits and edges do not fit")
    labels = tuple(unpack_label(group.label) for group in header.groups)
    if len(labels) > MAX_GROUPS or len(set(labels)) < len(labels) or list(labels) != sorted(labels, key=label_key):
        raise ValueError("the groups are too many, not different or out of order")
    if min(header.n_spanning, *header.dropped.values(), 0) < 0:
        raise ValueError("negative counts")
    if not math.isfinite(header.centre):
        raise ValueError("the centre is not finite")
    cross = {}
    for a, b in header.cross:
        if not 0 <= a < b < len(labels):
            raise ValueError("cross sums of unknown groups")
        cross[a, b] = _rebuild_pairs(arrays, f"{a} {b}", n_cells, within=False)
    sketch = None
    if "sketch" in arrays:
        sketch = arrays.take("sketch", "<i8", (_length(arrays, "sketch", SKETCH),))
        if (sketch < 0).any() or (np.diff(sketch) <= 0).any():
            raise ValueError("the sketch of users is out of order")
    return Tally(
        lattice=lattice,
        groups=labels,
        parts=tuple(_rebuild_group(group, arrays, str(place), n_cells) for place, group in enumerate(header.groups)),
        cross=cross,
        n_spanning=header.n_spanning,
        centre=header.centre,
        binary=header.binary,
        columns=None if header.columns is None else msgspec.convert(header.columns, Columns),
        sketch=sketch,
        dropped=header.dropped,
        frame_kind=header.frame_kind,
        split=None if header.split is None else str(Split.parse(header.split)),
        released=header.released,
    )


def _rebuild_group(group: _Group, arrays: _Arrays, name: str, n_cells: int) -> GroupTally:
    part = GroupTally(
        group.n_users,
        group.n_rows,
        group.n_unlabelled,
        arrays.take(f"vectors {name}", FLOAT, (2, len(VECTORS), n_cells)),
        arrays.take(f"folds {name}", FLOAT, (2, 4, FOLDS, n_cells)),
        arrays.take(f"cell_users {name}", FLOAT, (n_cells,)),
        _rebuild_pairs(arrays, name, n_cells, within=True),
    )
    weights = part.vectors[:, [VECTORS.index(vector) for vector in ("W", "U", "A", "V0")]]
    if min(group.n_users, group.n_rows, group.n_unlabelled, weights.min(), part.folds[:, 0].min(), part.cell_users.min()) < 0:
        raise ValueError("negative counts or weights")
    return part


def _rebuild_pairs(arrays: _Arrays, name: str, n_cells: int, within: bool) -> PairSums:
    n_pairs = n_cells * (n_cells + 1) // 2 if within else n_cells**2
    index = None
    if f"index {name}" in arrays:
        n_pairs = _length(arrays, f"index {name}", n_pairs)
        index = arrays.take(f"index {name}", "<i4", (n_pairs,))
        if n_pairs and not 0 <= index[0] <= index[-1] < n_cells**2:
            raise ValueError("pair sums of unknown cells")
        if (np.diff(index) <= 0).any() or (within and (index // n_cells > index % n_cells).any()):
            raise ValueError("pair sums out of order")
    return PairSums(n_cells, within, index, arrays.take(f"pairs {name}", FLOAT, (2, 4, n_pairs)))


def _length(arrays: _Arrays, name: str, at_most: int) -> int:
    """The length of an array that may have any, up to a limit."""
    shape = tuple(arrays.entry(name)[0].shape)
    if len(shape) != 1 or not 0 <= shape[0] <= at_most:
        raise ValueError(f"array {name!r} has shape {shape} where at most ({at_most},) belongs")
    return shape[0]
