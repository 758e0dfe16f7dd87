"""Saved tallies with something changed in them and a checksum that fits again."""

import hashlib
import json
import zlib

import numpy as np
import pytest

import evenscore as es
from evenscore.tallies.archive import MAGIC, PREFIX


def sealed(body):
    return body + hashlib.sha256(body).digest()


def forge(content, change):
    """The file with a changed header and a checksum that fits again; change also gets the packed arrays."""
    _, version, length = PREFIX.unpack_from(content)
    header = json.loads(content[PREFIX.size : PREFIX.size + length])
    arrays, start = {}, PREFIX.size + length
    for entry in header["arrays"]:
        arrays[entry["name"]] = content[start : start + entry["nbytes"]]
        start += entry["nbytes"]
    change(header, arrays)
    encoded = json.dumps(header).encode()
    return sealed(PREFIX.pack(MAGIC, version, len(encoded)) + encoded + b"".join(arrays.values()))


def refuse(path, content, message):
    path.write_bytes(content)
    with pytest.raises(es.FileError, match=message) as caught:
        es.Tally.load(path)
    assert str(path) in str(caught.value)


def repack(name, edit):
    """A change to the values of one array."""

    def change(header, arrays):
        entry = next(entry for entry in header["arrays"] if entry["name"] == name)
        kind = np.dtype(entry["dtype"])
        shuffled = np.frombuffer(zlib.decompress(arrays[name]), np.uint8).reshape(kind.itemsize, -1)
        array = np.ascontiguousarray(shuffled.T).view(kind).reshape(entry["shape"]).copy()
        array = edit(array)
        raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1, kind.itemsize)
        arrays[name] = zlib.compress(np.ascontiguousarray(raw.T).tobytes())
        entry.update(shape=list(array.shape), nbytes=len(arrays[name]))

    return change


def put(value, *place):
    def edit(array):
        array[place] = value
        return array

    return edit


def header(**fields):
    return lambda header, _: header.update(fields)


def in_list(part, place, **fields):
    return lambda header, _: header[part][place].update(fields)
