"""A tally as one file: a magic line, a version, a JSON header, compressed arrays and a checksum over everything. No pickle.

Since format 2 the header lists the blocks of sums. What a later version adds is one more block, which this one leaves out if it may
and otherwise refuses with the reason. Format 1 has the required blocks and no others.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import numpy as np

from evenscore._version import __version__
from evenscore.data.columns import shortened
from evenscore.data.groups import MAX_GROUPS, label_key
from evenscore.data.splits import Split
from evenscore.errors import EvenscoreError, FileError
from evenscore.saving import MOST_BYTES, pack_label, read_whole, unpack_label, write_whole
from evenscore.tallies.blocks import BLOCKS, REQUIRED, Block
from evenscore.tallies.group_sums import GroupTally
from evenscore.tallies.item_sums import MOST_LINES, ItemLines, is_ordered
from evenscore.tallies.lattice import MAX_CELLS
from evenscore.tallies.lattice_settings import lattice_from_settings, lattice_settings
from evenscore.tallies.moments import Sums
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.reshaping import drop_blocks
from evenscore.tallies.tally_state import SKETCH, Tally
from evenscore.types import Array

MAGIC = b"evenscore tally\n"
VERSION = 2  # of the format; 1 is that of 0.1.0
PREFIX = struct.Struct("<16sIQ")
DIGEST = 32  # bytes of a SHA-256
FLOAT = "<f8"
MAX_BYTES = 1 << 32  # unpacked; 200 large groups and the sums between them stay below
# A file of few bytes may be unpacked to many only if it was made to: sums of people take 3 to 30 times their packed bytes. Beyond
# FREE_BYTES nothing is packed more tightly than this, neither written nor read.
MOST_PACKED = 60
FREE_BYTES = 1 << 27
INVALID = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, zlib.error, msgspec.MsgspecError)


class _ArrayEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array; it begins where the one before it ends."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


class _BlockEntry(msgspec.Struct, frozen=True):
    """A block of sums; its arrays are "name g" for group number g, and "name a b" for each pair of groups in ``cross``."""

    name: str
    kind: str
    sums: tuple[str, ...]
    required: bool
    cross: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, block: Block, cross: Iterable[tuple[int, int]] = ()) -> _BlockEntry:
        return cls(block.name, block.kind, block.moments.names, block.required, tuple(sorted(cross)))

    @property
    def is_known(self) -> bool:
        """Whether this version knows a block of that name with these sums."""
        block = BLOCKS.get(self.name)
        return block is not None and (block.kind, block.moments.names) == (self.kind, self.sums)


# The header holds what the dataclasses say, typed as there, and refuses what they do not know.
COUNTS = ("n_users", "n_rows", "n_unlabelled")
PLAIN = ("n_spanning", "centre", "binary", "columns", "dropped", "frame_kind")
LATER: dict[str, Any] = {  # not written while they say nothing
    "split": None,
    "released": None,
    "left_out": {},
    "rounded": False,
    "item": None,
    "item_counts": (),
    "by_item": False,
}
_TYPES = get_type_hints(Tally)
_Group: Any = msgspec.defstruct("_Group", [("label", Any), *((name, int) for name in COUNTS)], forbid_unknown_fields=True)
_Header: Any = msgspec.defstruct(
    "_Header",
    [
        ("made_with", str),
        ("lattice", dict[str, Any]),
        ("groups", list[_Group]),
        ("blocks", list[_BlockEntry]),
        ("arrays", list[_ArrayEntry]),
        *((name, _TYPES[name]) for name in PLAIN),
        *((name, _TYPES[name], default) for name, default in LATER.items()),
    ],
    forbid_unknown_fields=True,
    omit_defaults=True,
)


# Saving


def save_tally(tally: Tally, path: Path) -> None:
    """Write a tally to one file, whole or not at all."""
    arrays = _named_arrays(tally)
    packed = [_compress(array) for array in arrays.values()]
    if sum(array.nbytes for array in arrays.values()) > _most_unpacked(sum(map(len, packed))):
        packed = [_compress(array, level=0) for array in arrays.values()]
    header = _Header(
        made_with=__version__,
        lattice=lattice_settings(tally.lattice.unread),
        groups=[_Group(pack_label(label), *(getattr(group, name) for name in COUNTS)) for label, group in tally.by_group],
        blocks=[_BlockEntry.of(BLOCKS[name], tally.cross_blocks.get(name, ())) for name in tally.block_names],
        arrays=[
            _ArrayEntry(name, array.dtype.str, array.shape, len(blob))
            for (name, array), blob in zip(arrays.items(), packed, strict=True)
        ],
        **{name: getattr(tally, name) for name in (*PLAIN, *LATER)},
    )
    try:
        encoded = msgspec.json.encode(header)
    except (UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise EvenscoreError(f"the tally's labels or column names cannot be saved: {error}") from None
    body = b"".join([PREFIX.pack(MAGIC, VERSION, len(encoded)), encoded, *packed])
    write_whole(path, body + hashlib.sha256(body).digest())


def _named_arrays(tally: Tally) -> dict[str, Array]:
    arrays: dict[str, Array] = {"edges": tally.lattice.edges}
    for number, group in enumerate(tally.group_tallies):
        for name, sums in group.blocks.items():
            arrays |= _block_arrays(name, str(number), sums)
        arrays[f"cell_users {number}"] = group.cell_users
    for name, cross in tally.cross_blocks.items():
        for (a, b), sums in sorted(cross.items()):
            arrays |= _block_arrays(name, f"{a} {b}", sums)
    if tally.items is not None:
        arrays |= {f"item_lines {name}": getattr(tally.items, name) for name in ("item", "group", "cell", "values")}
    return arrays if tally.sketch is None else arrays | {"sketch": tally.sketch}


def _block_arrays(name: str, where: str, sums: Sums) -> dict[str, Array]:
    index = {f"{name} index {where}": sums.index} if isinstance(sums, PairSums) and sums.index is not None else {}
    return {**index, f"{name} {where}": sums.values}


def _most_unpacked(n_bytes: int) -> int:
    """How many bytes arrays of this many packed bytes may take in memory."""
    return min(MAX_BYTES, max(FREE_BYTES, MOST_PACKED * n_bytes))


def _compress(array: Array, level: int = 1) -> bytes:
    """Bytes of equal significance lie together, which deflate likes."""
    raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1, array.dtype.itemsize)
    return zlib.compress(np.ascontiguousarray(raw.T).tobytes(), level=level)


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
    if not 1 <= version <= VERSION:
        raise FileError(f"{path} has format version {version}, this evenscore reads versions up to {VERSION}; update evenscore")
    payload = memoryview(content)[PREFIX.size : -DIGEST]
    try:
        header = _read_header(payload[:header_length], version)
        return _rebuild(header, _Arrays(header.arrays, payload[header_length:]))
    except _NewerError as error:
        raise FileError(f"{path} needs a newer evenscore: {error}; update evenscore") from None
    except INVALID as error:
        raise FileError(f"{path} does not hold a valid tally: {error}") from None


class _NewerError(Exception):
    """A block may not be left out, and is not known."""


def _read_header(encoded: memoryview, version: int) -> Any:
    content = msgspec.json.decode(encoded)
    if version == 1:  # the required blocks, and an index of pairs that has no block's name
        cross = msgspec.convert(content.pop("cross"), list[tuple[int, int]])
        blocks = [_BlockEntry.of(BLOCKS[name], cross if name == "pairs" else ()) for name in REQUIRED]
        content["blocks"] = msgspec.to_builtins(blocks)
        for entry in content["arrays"]:
            entry["name"] = entry["name"].replace("index", "pairs index")
    return msgspec.convert(content, _Header)


class _Arrays:
    """The arrays of a file, each unpacked when its shape is known to be right; nothing is unpacked that is not asked for."""

    def __init__(self, entries: list[_ArrayEntry], payload: memoryview) -> None:
        self.taken: set[str] = set()
        self.entries: dict[str, tuple[_ArrayEntry, memoryview]] = {}
        start = 0
        for entry in entries:
            if entry.name in self.entries or min(entry.nbytes, *entry.shape) < 0:
                raise ValueError(f"array {shortened(entry.name)} is listed wrongly")
            self.entries[entry.name] = entry, payload[start : start + entry.nbytes]
            start += entry.nbytes
        if start != len(payload):
            raise ValueError(f"the arrays take {start:,} bytes, the file has {len(payload):,} for them")
        unpacked = sum(8 * math.prod(entry.shape) for entry in entries)
        if unpacked > _most_unpacked(len(payload)):
            raise ValueError(f"its arrays would take {unpacked:,} bytes, which no tally of {len(payload):,} packed bytes needs")

    def entry(self, name: str) -> tuple[_ArrayEntry, memoryview]:
        if name not in self.entries:
            raise ValueError(f"array {name!r} is missing")
        return self.entries[name]

    def length(self, name: str, at_most: int) -> int:
        """The length of an array that may have any, up to a limit."""
        shape = self.entry(name)[0].shape
        if len(shape) != 1 or not 0 <= shape[0] <= at_most:
            raise ValueError(f"array {name!r} has shape {shape} where at most ({at_most},) belongs")
        return shape[0]

    def take(self, name: str, dtype: str, shape: tuple[int, ...]) -> Array:
        """The array of that name, which must be of that type and shape, and finite."""
        entry, packed = self.entry(name)
        if entry.dtype != dtype or entry.shape != shape:
            raise ValueError(f"array {name!r} is {entry.dtype} of shape {entry.shape} where {dtype} of shape {shape} belongs")
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
        self.taken.add(name)
        return array

    def require_all_taken(self, left_out: Iterable[str]) -> None:
        """Every array belongs to what was read, or to a block that was left out."""
        prefixes = tuple(f"{block} " for block in left_out)
        for name in self.entries:
            if name not in self.taken and not name.startswith(prefixes):
                raise ValueError(f"array {shortened(name)} belongs to no block")


def _rebuild(header: Any, arrays: _Arrays) -> Tally:
    n_cells = arrays.length("edges", 4 * MAX_CELLS) + 1
    edges = arrays.take("edges", FLOAT, (n_cells - 1,))
    lattice = lattice_from_settings(edges, header.lattice)
    if not np.array_equal(lattice.edges, edges) or not -math.inf < lattice.low <= lattice.high < math.inf:
        raise ValueError("the lattice's limits and edges do not fit")
    labels = tuple(unpack_label(group.label) for group in header.groups)
    _require_sound(header, labels)
    sketch = None
    if "sketch" in arrays.entries:
        sketch = arrays.take("sketch", "<i8", (arrays.length("sketch", SKETCH),))
        if (sketch < 0).any() or (np.diff(sketch) <= 0).any():
            raise ValueError("the sketch of users is out of order")
    items = _rebuild_lines(arrays, len(labels), n_cells) if "item_lines item" in arrays.entries else None
    known, unknown = _sorted_blocks(header.blocks)
    if header.item is not None and not ("both_pairs" in known and (items is not None or "item_pairs" in known)):
        raise ValueError("the sums of items are missing")
    plain = {name: getattr(header, name) for name in (*PLAIN, *LATER)}
    tally = Tally(
        lattice=lattice,
        groups=labels,
        group_tallies=tuple(_rebuild_group(group, arrays, str(g), n_cells, known) for g, group in enumerate(header.groups)),
        cross_blocks={name: _rebuild_cross(entry, arrays, n_cells, len(labels)) for name, entry in known.items() if entry.cross},
        sketch=sketch,
        items=None if header.item is None else items,
        **plain | {"split": None if header.split is None else str(Split.parse(header.split))},
    )
    arrays.require_all_taken(unknown)
    return drop_blocks(tally, unknown, "this evenscore does not know it, a newer one does")


def _require_sound(header: Any, labels: tuple[Any, ...]) -> None:
    """Labels in order, and numbers that can be."""
    if len(labels) > MAX_GROUPS or len(set(labels)) < len(labels) or list(labels) != sorted(labels, key=label_key):
        raise ValueError("the groups are too many, not different or out of order")
    if min(header.n_spanning, *header.dropped.values(), 0) < 0:
        raise ValueError("negative counts")
    if not math.isfinite(header.centre):
        raise ValueError("the centre is not finite")
    if len(header.item_counts) != (0 if header.item is None else len(labels)) or min(header.item_counts, default=0) < 0:
        raise ValueError("the numbers of items are wrong")


def _rebuild_lines(arrays: _Arrays, n_groups: int, n_cells: int) -> ItemLines:
    n_lines = arrays.length("item_lines item", MOST_LINES)
    kinds = {"item": "<i8", "group": "<i2", "cell": "<i2"}
    places = {name: arrays.take(f"item_lines {name}", kind, (n_lines,)) for name, kind in kinds.items()}
    lines = ItemLines(**places, values=arrays.take("item_lines values", FLOAT, (2, 2, n_lines)))
    for name, limit in (("group", n_groups), ("cell", n_cells)):
        if n_lines and not 0 <= places[name].min() <= places[name].max() < limit:
            raise ValueError(f"sums by item of an unknown {name}")
    if (lines.values[:, 0] < 0).any() or not is_ordered(lines):
        raise ValueError("sums by item are negative or out of order")
    return lines


def _sorted_blocks(entries: list[_BlockEntry]) -> tuple[dict[str, _BlockEntry], list[str]]:
    """The blocks that are known, and the names of those that are not and may be left out."""
    known = {entry.name: entry for entry in entries if entry.is_known}
    unknown = [entry for entry in entries if not entry.is_known]
    for entry in unknown:
        if entry.required:
            raise _NewerError(f"this one does not know block {shortened(entry.name)}, which may not be left out")
    if len({entry.name for entry in entries}) < len(entries) or not known.keys() >= set(REQUIRED):
        raise ValueError("a block is missing or listed twice")
    return known, [entry.name for entry in unknown]


def _rebuild_group(group: Any, arrays: _Arrays, number: str, n_cells: int, names: Iterable[str]) -> GroupTally:
    counts = {name: getattr(group, name) for name in COUNTS}
    users = arrays.take(f"cell_users {number}", FLOAT, (n_cells,))
    blocks = {name: _rebuild_sums(BLOCKS[name], arrays, number, n_cells) for name in names}
    if min(*counts.values(), users.min(), *map(_least_weight, blocks.values())) < 0:
        raise ValueError("negative counts or weights")
    return GroupTally(**counts, cell_users=users, blocks=blocks)


def _least_weight(sums: Sums) -> float:
    """The smallest sum of weights; pair sums are not looked at."""
    weights = [name for name, factors in sums.moments.factors.items() if len(factors) == 1 and not factors[0].x + factors[0].y]
    return min((float(sums[name].min()) for name in weights), default=0.0)


def _rebuild_cross(entry: _BlockEntry, arrays: _Arrays, n_cells: int, n_groups: int) -> dict[tuple[int, int], PairSums]:
    cross = {}
    for a, b in entry.cross:
        if not 0 <= a < b < n_groups or entry.kind != "pairs":
            raise ValueError("cross sums of unknown groups")
        cross[a, b] = _rebuild_pairs(BLOCKS[entry.name], arrays, f"{a} {b}", n_cells, within=False)
    return cross


def _rebuild_sums(block: Block, arrays: _Arrays, number: str, n_cells: int) -> Sums:
    if block.kind == "pairs":
        return _rebuild_pairs(block, arrays, number, n_cells, within=True)
    return Sums(block.moments, arrays.take(f"{block.name} {number}", FLOAT, block.shape(n_cells)))


def _rebuild_pairs(block: Block, arrays: _Arrays, where: str, n_cells: int, within: bool) -> PairSums:
    n_pairs = n_cells * (n_cells + 1) // 2 if within else n_cells**2
    index = None
    name = f"{block.name} index {where}"
    if name in arrays.entries:
        n_pairs = arrays.length(name, n_pairs)
        index = arrays.take(name, "<i4", (n_pairs,))
        if n_pairs and not 0 <= index[0] <= index[-1] < n_cells**2:
            raise ValueError("pair sums of unknown cells")
        if (np.diff(index) <= 0).any() or (within and (index // n_cells > index % n_cells).any()):
            raise ValueError("pair sums out of order")
    values = arrays.take(f"{block.name} {where}", FLOAT, (2, len(block.moments.names), n_pairs))
    return PairSums(block.moments, values, n_cells, within, index)
