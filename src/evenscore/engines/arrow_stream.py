"""Rows that DuckDB hands over batch by batch, read through the Arrow C stream interface: no pyarrow, and never all rows at once.

The structures are those of https://arrow.apache.org/docs/format/CStreamInterface.html.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np

from evenscore.types import Array

TYPES = dict(zip("cCsSiIlLfg", ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"), strict=True))

_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Fill = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Schema(ctypes.Structure):
    pass


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.c_void_p),
    ("release", _Release),
    ("private_data", ctypes.c_void_p),
]


class _Array(ctypes.Structure):
    pass


_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", _Release),
    ("private_data", ctypes.c_void_p),
]


class _Stream(ctypes.Structure):
    _fields_ = (
        ("get_schema", _Fill),
        ("get_next", _Fill),
        ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
        ("release", _Release),
        ("private_data", ctypes.c_void_p),
    )


def stream_batches(relation: Any, failure: type[Exception]) -> Iterator[dict[str, Array]]:
    """The columns of a relation by name, some rows at a time; all are numbers of fixed width, and what is null is any number.

    ``failure`` is raised with what the engine says.
    """
    capsule = relation.__arrow_c_stream__()  # releases the stream when it is let go
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    stream = _Stream.from_address(pointer(capsule, b"arrow_array_stream"))

    def fill(ask: Any, answer: _Schema | _Array) -> None:
        if ask(ctypes.addressof(stream), ctypes.addressof(answer)):
            message = stream.get_last_error(ctypes.addressof(stream))
            raise failure((message or b"the stream of rows broke off").decode(errors="replace"))

    schema = _Schema()
    fill(stream.get_schema, schema)
    columns = [schema.children[i].contents for i in range(schema.n_children)]
    types = {column.name.decode(): np.dtype(TYPES[column.format.decode()]) for column in columns}
    schema.release(ctypes.addressof(schema))
    while True:
        batch = _Array()
        fill(stream.get_next, batch)
        if not batch.release:  # the end
            del stream, capsule
            return
        try:
            arrays = {name: _copy(batch.children[i].contents, dtype) for i, (name, dtype) in enumerate(types.items())}
        finally:
            batch.release(ctypes.addressof(batch))
        yield arrays


def _copy(column: _Array, dtype: np.dtype[Any]) -> Array:
    """The values of a column, which outlive it."""
    if column.length == 0:
        return np.zeros(0, dtype)
    start = column.buffers[1] + column.offset * dtype.itemsize
    held = (ctypes.c_char * (column.length * dtype.itemsize)).from_address(start)
    return np.frombuffer(held, dtype).copy()
