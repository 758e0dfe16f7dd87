"""Dataclasses as JSON and back: a file's fields are those of the dataclass, which nothing else declares again."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import math
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from evenscore.data.columns import LARGEST
from evenscore.errors import FileError
from evenscore.saving import pack_label, unpack_label
from evenscore.types import Array, Floats, Mask

Value = TypeVar("Value")

INVALID = (msgspec.MsgspecError, ValueError, KeyError, TypeError, IndexError, ArithmeticError, RecursionError)


@dataclasses.dataclass(frozen=True, slots=True)
class Codec(Generic[Value]):
    """How values of one type are stored: the type that JSON is checked against, and the way there and back."""

    stored: Any
    pack: Callable[[Value], Any]
    unpack: Callable[[Any], Value]


@contextlib.contextmanager
def refuse_invalid(message: str) -> Iterator[None]:
    """Whatever is wrong with what a file holds, as one error."""
    try:
        yield
    except INVALID as error:
        raise FileError(f"{message}: {error}") from None


# Values


def _same(value: Any) -> Any:
    return value


def finite_array(values: Any) -> Floats:
    """Numbers that arithmetic can use."""
    array = np.array(values, dtype=np.float64)
    if not (np.abs(array) <= LARGEST).all():
        raise ValueError("a number is not finite or too large")
    return array


def _pack_bytes(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _unpack_bytes(text: str, dtype: str) -> Array:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=dtype)


def optional(codec: Codec[Any]) -> Codec[Any]:
    """None stays None."""
    return Codec(
        codec.stored | None,
        lambda value: None if value is None else codec.pack(value),
        lambda stored: None if stored is None else codec.unpack(stored),
    )


def tuple_of(codec: Codec[Any]) -> Codec[tuple[Any, ...]]:
    """Any number of values in a list."""
    return Codec(list[codec.stored], lambda values: [*map(codec.pack, values)], lambda stored: tuple(map(codec.unpack, stored)))  # type: ignore[name-defined]


def dict_of(codec: Codec[Any]) -> Codec[dict[str, Any]]:
    """Values by name."""
    return Codec(
        dict[str, codec.stored],  # type: ignore[name-defined]
        lambda values: {name: codec.pack(value) for name, value in values.items()},
        lambda stored: {name: codec.unpack(value) for name, value in stored.items()},
    )


LABEL: Codec[Any] = Codec(
    Any,
    lambda label: None if label is None else pack_label(label),
    lambda stored: None if stored is None else unpack_label(stored),
)
TEXT_BY_LABEL: Codec[Mapping[Any, str]] = Codec(
    list[tuple[Any, str]],
    lambda texts: [(pack_label(label), text) for label, text in texts.items()],
    lambda stored: {unpack_label(label): text for label, text in stored},
)
NUMBER: Codec[float] = Codec(float, float, _same)
NUMBER_OR_NAN: Codec[float] = Codec(
    float | None,
    lambda value: float(value) if math.isfinite(value) else None,
    lambda stored: math.nan if stored is None else stored,
)
ARRAY: Codec[Floats] = Codec(list[float], np.ndarray.tolist, finite_array)
MATRIX: Codec[Floats] = Codec(list[list[float]], np.ndarray.tolist, finite_array)
BASE64: Codec[Floats] = Codec(
    str, lambda array: _pack_bytes(array.astype("<f8").tobytes()), lambda stored: finite_array(_unpack_bytes(stored, "<f8"))
)
BITS: Codec[Mask] = Codec(  # as many as fill whole bytes come back
    str,
    lambda mask: _pack_bytes(np.packbits(mask).tobytes()),
    lambda stored: np.unpackbits(_unpack_bytes(stored, "u1")).astype(bool),
)


# Dataclasses


def codec_of(hint: Any) -> Codec[Any]:
    """The codec of a field by its type; ``Any`` is a group's label."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return LABEL
    if hint is float:
        return NUMBER
    if origin is types.UnionType and inner[1:] == (types.NoneType,):
        return optional(codec_of(inner[0]))
    if origin is tuple and inner[1:] == (...,):
        return tuple_of(codec_of(inner[0]))
    if hint == Mapping[Any, str]:
        return TEXT_BY_LABEL
    if origin in (np.ndarray, NDArray):  # the latter from NumPy 2.5 on, whose name for arrays does not say what it stands for
        return ARRAY
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return record_codec(hint)
    return Codec(hint, _same, _same)


def dict_codec(kind: type[Value]) -> Codec[Value]:
    """A dataclass of plain values as an object that may have more fields, in any order."""
    return Codec(dict[str, Any], msgspec.to_builtins, lambda stored: msgspec.convert(stored, kind))


def record_codec(
    kind: type[Value],
    *,
    keys: Mapping[str, str] | None = None,
    order: str = "",
    constants: Mapping[str, Any] | None = None,
    check: Callable[[Value], Value] = _same,
    later: str = "",
    **codecs: Codec[Any] | None,
) -> Codec[Value]:
    """A dataclass as an object that has exactly the dataclass's fields.

    keys: what fields are called in a file, where that differs. order: the fields as the file has them, which a checksum depends
    on. constants: what a file says beside the fields, in front of them. check: refuses or completes what was read. later: the last
    fields, which older files lack; None is left out. codecs: for fields whose type does not say how they are stored; None leaves a
    field out, and it is None when it is read.
    """
    names, constants = keys or {}, constants or {}
    hints = get_type_hints(kind)
    fields = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    assert not order or sorted(order.split()) == sorted(fields), f"the order does not name every field of {kind.__name__}"
    chosen = {name: codecs[name] if name in codecs else codec_of(hints[name]) for name in order.split() or fields}
    stored = {names.get(name, name): (name, codec) for name, codec in chosen.items() if codec is not None}
    members: list[tuple[Any, ...]] = [(key, type(value)) for key, value in constants.items()]
    members += [(key, codec.stored, *([None] if name in later.split() else [])) for key, (name, codec) in stored.items()]
    struct = msgspec.defstruct(kind.__name__, members, forbid_unknown_fields=True, omit_defaults=True)

    def pack(value: Value) -> Any:
        return struct(*constants.values(), *(codec.pack(getattr(value, name)) for name, codec in stored.values()))

    def unpack(read: Any) -> Value:
        values: dict[str, Any] = {name: codec.unpack(getattr(read, key)) for key, (name, codec) in stored.items()}
        return check(kind(**dict.fromkeys(chosen.keys() - values.keys()), **values))

    return Codec(struct, pack, unpack)
