"""What is stored comes back as it was, and what was not stored so is refused."""

import dataclasses
import datetime
import math
import types
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

import evenscore as es
from evenscore.codec import ARRAY, BASE64, BITS, MATRIX, NUMBER_OR_NAN, Codec, codec_of, dict_of, record_codec, refuse_invalid
from evenscore.types import Floats, Mask


@dataclasses.dataclass(frozen=True)
class Inner:
    group: Any
    value: Floats
    limit: float | None = None


@dataclasses.dataclass(frozen=True)
class Outer:
    members: tuple[Inner, ...]
    square: Floats
    packed: Floats
    known: Mask
    risk: dict[str, float]
    reasons: Mapping[Any, str]
    only: Inner | None = None


CODEC: Codec[Outer] = record_codec(
    Outer,
    keys={"square": "matrix"},
    constants={"made": "now"},
    square=MATRIX,
    packed=BASE64,
    known=BITS,
    risk=dict_of(NUMBER_OR_NAN),
)
LABELS = [True, 1, 1.5, "1", b"x", datetime.date(2020, 1, 2), ("a", 1), None]


def example():
    inner = tuple(Inner(label, np.array([0.1, 1 / 3])) for label in LABELS)
    reasons = {label: "why" for label in LABELS if label is not None and label is not True}
    return Outer(inner, np.eye(2), np.array([1e-300, 2.0]), np.array([True, False] * 4), {"a": math.nan, "b": 1.0}, reasons)


def stored(value):
    return msgspec.json.decode(msgspec.json.encode(CODEC.pack(value)))


def read(document):
    return CODEC.unpack(msgspec.convert(document, CODEC.stored))


def test_everything_comes_back_with_its_type():
    given = example()
    document = stored(given)
    assert list(document) == ["made", "members", "matrix", "packed", "known", "risk", "reasons", "only"]
    assert document["risk"] == {"a": None, "b": 1.0}
    back = read(document)
    assert [(type(inner.group), inner.group) for inner in back.members] == [(type(label), label) for label in LABELS]
    assert all(inner.value.tolist() == [0.1, 1 / 3] and inner.limit is None for inner in back.members)
    for name in ("square", "packed", "known"):
        np.testing.assert_array_equal(getattr(back, name), getattr(given, name))
    assert math.isnan(back.risk["a"]) and back.risk["b"] == 1.0 and back.only is None
    assert [(type(label), label) for label in back.reasons] == [(type(label), label) for label in given.reasons]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"more": 1}, "unknown field `more`"),
        ({"matrix": [[1, 2], [3]]}, "inhomogeneous"),
        ({"matrix": [[1e80]]}, "not finite or too large"),
        ({"matrix": [["1"]]}, "Expected `float`, got `str`"),
        ({"packed": "?"}, "base64"),
        ({"members": [{"group": ["list", "x"], "value": [], "limit": None}]}, "no known type"),
        ({"members": [{"group": None, "value": []}]}, "missing required field `limit`"),
    ],
    ids=str,
)
def test_anything_else_is_refused(change, message):
    with pytest.raises(es.FileError, match=f"invalid: .*{message}"), refuse_invalid("invalid"):
        read(stored(example()) | change)


def test_an_order_names_every_field():
    packed = record_codec(Inner, order="limit group value").pack(Inner(1, np.ones(1)))
    assert list(msgspec.to_builtins(packed)) == ["limit", "group", "value"]
    with pytest.raises(AssertionError, match="every field of Inner"):
        record_codec(Inner, order="limit group")


def test_arrays_are_known_under_the_name_that_newer_numpy_has_for_them():
    """From NumPy 2.5 on, with Python 3.12, the origin of NDArray[float64] is NDArray itself; calibrators could not be saved."""
    assert codec_of(types.GenericAlias(NDArray, (np.float64,))) is ARRAY is codec_of(Floats)
