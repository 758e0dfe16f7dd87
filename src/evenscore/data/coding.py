"""Labels and user ids as small integers, and the user hash that every engine computes alike."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import numbers
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenscore.errors import DataError, shortened
from evenscore.types import Array, Ints

Codes = NDArray[np.integer[Any]]

FOLDS = 10  # of users: fitting on nine and scoring on one
PRIME = 2**31 - 1  # of ``hash_integers``: products of two remainders stay below 2^63
CHUNK = 1 << 16  # rows at a time: what is made of them stays in the cache
MOST_BITS = 2**10  # integers beyond are hashed by their hexadecimal digits: Python does not write thousands of decimal ones
MOST_DIGITS = 300  # decimals with more of them are hashed as they are written
FINER = ("ns", "ps", "fs", "as")  # units below a microsecond
NO_MICROSECONDS = "holds fractions of a microsecond, or lies outside the years 1 to 9999; cast such ids to microseconds, or to text"


@dataclass(frozen=True, slots=True)
class Users:
    """Who each row belongs to.

    ``codes`` (n_rows,) are integers from ``low`` to ``low + span - 1``; equal codes mean the same user. ``hashes`` gives the
    62-bit hash of the ids behind some codes.
    """

    codes: Codes
    low: int
    span: int
    hashes: Callable[[Ints], Ints]
    independent: bool = False

    def compact(self) -> Users:
        """The same users with codes 0, 1, 2, ...; for ids spread too thinly to be used as they are."""
        distinct, codes = np.unique(self.codes, return_inverse=True)
        return Users(codes, 0, len(distinct), lambda picked: self.hashes(distinct[picked].astype(np.int64)))


def independent_users(n_rows: int) -> Users:
    """Every row is a user of its own."""
    return Users(np.arange(n_rows, dtype=code_type(n_rows)), 0, n_rows, hash_integers, independent=True)


def integer_users(ids: Codes) -> Users:
    """Integer ids are their own codes, unless they do not fit into 64 signed bits."""
    low, high = int(ids.min()), int(ids.max())
    if high > np.iinfo(np.int64).max:
        distinct, codes = np.unique(ids, return_inverse=True)
        return Users(codes, 0, len(distinct), lambda picked: hash_integers(distinct[picked]))
    return Users(ids, low, high - low + 1, hash_integers)


def hashed_users(hashes: Ints) -> Users:
    """Users known by their hash alone, as an engine computed it from ids of any type."""
    low, high = int(hashes.min()), int(hashes.max())
    return Users(hashes, low, high - low + 1, lambda picked: picked)


def coded_users(codes: Codes, distinct: Sequence[Any]) -> Users:
    """Users given by codes 0, 1, ... into a list of distinct ids of any type; each id is hashed once."""

    @cache
    def every_hash() -> Ints:
        return hash_ids(distinct)

    return Users(codes, 0, len(distinct), lambda picked: every_hash()[picked])


# Codes for things


def encode(values: Array) -> tuple[Codes, list[Any]]:
    """Codes in order of appearance and the distinct values, for an array of any hashable things.

    >>> codes, distinct = encode(np.array(["b", "a", "b"]))
    >>> codes.tolist(), distinct
    ([0, 1, 0], ['b', 'a'])
    """
    beginning = values[:CHUNK]
    if len(values) > CHUNK and values.dtype.kind in "OUS" and len(set(beginning.tolist())) > CHUNK // 16:
        return _encode_many(values)
    return _encode_few(values)


def encode_typed(values: Array) -> tuple[Codes, list[Any]]:
    """Like ``encode`` for an array of objects, but 1, True and 1.0 are three different values."""
    if sum(issubclass(kind, numbers.Number) for kind in types_in(values)) <= 1:
        return encode(values)
    pairs = np.empty(len(values), dtype=object)
    pairs[:] = [(type(value), value) for value in values.tolist()]
    codes, keys = encode(pairs)
    return codes, [value for _, value in keys]


def types_in(values: Array) -> set[type]:
    """The types that occur in an array of objects."""
    return {kind for chunk in _chunks(values) for kind in set(map(type, chunk.tolist()))}


def encode_integers(values: Array, low: int) -> tuple[Codes, list[Any]]:
    """Like ``encode`` for integers or booleans of a small range from ``low``: by a table, and with codes in the order of values."""
    seen = np.zeros(0, dtype=np.int64)
    for chunk in _chunks(values):
        counts = np.bincount(chunk.astype(np.int64) - low, minlength=len(seen))
        counts[: len(seen)] += seen
        seen = counts
    present = np.flatnonzero(seen)
    rank = np.zeros(len(seen), dtype=np.uint8 if len(present) <= 256 else np.uint16)
    rank[present] = np.arange(len(present))
    whole = len(present) == len(seen)  # no integer in between is missing: codes are what is above the lowest
    codes = np.empty(len(values), dtype=rank.dtype)
    for start in range(0, len(values), CHUNK):
        above = values[start : start + CHUNK].astype(np.int64) - low
        codes[start : start + CHUNK] = above if whole else rank[above]
    return codes, [values.dtype.type(value + low).item() for value in present.tolist()]


def _chunks(values: Array) -> Iterator[Array]:
    return (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))


def code_type(n_rows: int) -> type[np.int32] | type[np.int64]:
    """The type of codes for so many rows."""
    return np.int32 if n_rows < 2**31 else np.int64


def _encode_few(values: Array) -> tuple[Codes, list[Any]]:
    """By a dict, which is fast while it fits into the cache."""
    seen: defaultdict[Any, int] = defaultdict()
    seen.default_factory = seen.__len__
    codes = np.empty(len(values), dtype=code_type(len(values)))
    for start in range(0, len(values), CHUNK):
        chunk = values[start : start + CHUNK].tolist()
        codes[start : start + CHUNK] = np.fromiter(map(seen.__getitem__, chunk), np.int64, len(chunk))
    return codes, list(seen)


def _encode_many(values: Array) -> tuple[Codes, list[Any]]:
    """By sorting hash | row; values that only share their hash are told apart afterwards."""
    bits = (len(values) - 1).bit_length()
    keys = np.empty(len(values), dtype=np.int64)
    for start in range(0, len(values), CHUNK):
        chunk = values[start : start + CHUNK]
        high = _quick_hashes(chunk) >> np.uint64(bits + 1) << np.uint64(bits)
        keys[start : start + CHUNK] = high.view(np.int64) | np.arange(start, start + len(chunk))
    keys.sort()
    is_new = np.ones(len(keys), dtype=bool)
    for start in range(1, len(keys), CHUNK):
        some = keys[start - 1 : start + CHUNK] >> bits
        is_new[start : start + CHUNK] = some[1:] != some[:-1]
    keys &= (1 << bits) - 1  # rows alone
    first = keys[is_new]
    codes = np.empty(len(keys), dtype=code_type(len(keys)))
    before = -1
    for start in range(0, len(keys), CHUNK):
        code_of_key = np.cumsum(is_new[start : start + CHUNK]) + before
        codes[keys[start : start + CHUNK]] = code_of_key
        before = int(code_of_key[-1])
    del keys, is_new
    return _in_order(values, *_separate_collisions(values, codes, first))


def _separate_collisions(values: Array, codes: Codes, first: Ints) -> tuple[Codes, Ints]:
    """New codes for values that are not equal to the first one of their code; ``first`` has the first row of each code."""
    representative = values[first]
    unequal = [
        start + np.flatnonzero(values[start : start + CHUNK] != representative[codes[start : start + CHUNK]])
        for start in range(0, len(values), CHUNK)
    ]
    rows = np.concatenate(unequal)
    if len(rows) == 0:
        return codes, first
    others, _ = _encode_few(values[rows])
    codes[rows] = others + len(first)
    return codes, np.concatenate([first, rows[np.unique(others, return_index=True)[1]]])


def _in_order(values: Array, codes: Codes, first: Ints) -> tuple[Codes, list[Any]]:
    """Codes renumbered in the order of first appearance."""
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=codes.dtype)
    rank[order] = np.arange(len(order))
    for start in range(0, len(codes), CHUNK):
        codes[start : start + CHUNK] = rank[codes[start : start + CHUNK]]
    return codes, values[first[order]].tolist()


def _quick_hashes(values: Array) -> NDArray[np.uint64]:
    """64-bit hashes for this process only: equal values have equal ones."""
    factor = np.uint64(0xD6E8FEB86659FD93)
    hashes = np.full(len(values), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for word in _words(values).T:
        hashes ^= word
        hashes *= factor
        hashes ^= hashes >> np.uint64(32)
    return hashes * factor


def _words(values: Array) -> NDArray[np.unsignedinteger[Any]]:
    """The values as rows of numbers: characters of text, Python's own hash of objects."""
    if values.dtype == object:
        return np.fromiter(map(hash, values.tolist()), np.int64, len(values)).view(np.uint64).reshape(-1, 1)
    if values.dtype.kind == "U":
        return np.ascontiguousarray(values).view(np.uint32).reshape(len(values), -1)
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)


# The hash of a user


def hash_ids(ids: Sequence[Any]) -> Ints:
    """The hashes of ids of any type: integers by arithmetic, all else by the MD5 of its text."""
    if set(map(type, ids)) == {str}:
        return _hash_texts(text.encode("utf-8", "surrogatepass") for text in ids)
    return np.fromiter(map(_hash_id, ids), np.int64, len(ids))


def _hash_id(value: object) -> int:
    known = canonical_id(value)
    if isinstance(known, int):
        return int(hash_integers(np.array([known], dtype=np.uint64 if known >= 2**63 else np.int64))[0])
    return int(_hash_texts([known if isinstance(known, bytes) else known.encode("utf-8", "surrogatepass")])[0])


def canonical_id(value: Any) -> int | str | bytes:
    """What an id is in every engine, see docs/scale.md: an integer of 64 bits, or text, or bytes.

    >>> canonical_id(5.0), canonical_id(decimal.Decimal("1.50")), canonical_id(datetime.timedelta(seconds=1))
    (5, '1.5', 1000000)
    >>> canonical_id(datetime.datetime(2024, 1, 1, 12, 30, 0, 500_000, datetime.UTC))
    '2024-01-01 12:30:00.500000'
    """
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, np.generic):
        value = _python_value(value)
    if isinstance(value, datetime.timedelta):
        _refuse_nanoseconds(value, "nanoseconds")
        value = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
    elif isinstance(value, datetime.datetime):
        _refuse_nanoseconds(value, "nanosecond")
        value = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
    elif isinstance(value, datetime.time) and value.tzinfo is not None:
        raise DataError(f"the user id {shortened(value)} is a time of day in a time zone; cast such ids to text")
    elif isinstance(value, decimal.Decimal):
        value = plain_decimal(value)
    elif isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        value = int(value)
    if isinstance(value, int):
        if -(2**63) <= value < 2**64:
            return int(value)
        value = hex(value) if value.bit_length() > MOST_BITS else int(value)
    try:
        return str(value)
    except Exception as error:  # an object of the caller's own making
        raise DataError(f"a user id of type {type(value).__name__} cannot be written as text: {shortened(error)}") from error


def _python_value(value: np.generic) -> Any:
    """A NumPy scalar as a Python object; NumPy makes bare integers of what is finer than a microsecond, or far away."""
    if not isinstance(value, np.datetime64 | np.timedelta64):
        return value.item()
    coarse = value.astype(f"{value.dtype.kind}8[us]") if np.datetime_data(value.dtype)[0] in FINER else value
    if coarse != value or isinstance(coarse.item(), int):
        raise DataError(f"the user id {shortened(value)} {NO_MICROSECONDS}")
    return coarse.item()


def _refuse_nanoseconds(value: Any, attribute: str) -> None:
    """Pandas has them; DuckDB, Spark and Python cut them off."""
    if getattr(value, attribute, 0):
        raise DataError(f"the user id {shortened(value)} {NO_MICROSECONDS}")


def plain_decimal(value: decimal.Decimal) -> int | str:
    """By its value, not by how many zeros are written: 1.50 is 1.5, and 5.00 is the integer 5."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or abs(value.adjusted()) > MOST_DIGITS or abs(exponent) > MOST_DIGITS:
        return str(value)  # infinite, or too long to be written out
    text = "".join(map(str, digits)) + "0" * exponent
    whole, fraction = (text, "") if exponent >= 0 else (text.zfill(1 - exponent)[:exponent], text.zfill(1 - exponent)[exponent:])
    fraction = fraction.rstrip("0")
    minus = "-" if sign else ""
    return f"{minus}{int(whole)}.{fraction}" if fraction else int(minus + whole)


def _hash_texts(texts: Iterable[bytes]) -> Ints:
    """The first 60 bits (15 hexadecimal digits) of each MD5."""
    digests = b"".join([hashlib.md5(text, usedforsecurity=False).digest() for text in texts])
    return (np.frombuffer(digests, dtype=">u8")[::2] >> np.uint64(4)).astype(np.int64)


def hash_integers(ids: Codes) -> Ints:
    """A 62-bit hash of integer ids from sums, products, remainders and shifts that stay below 2^63.

    SQL engines disagree about overflow and about their own hash functions, but not about this. Ids from 0 to 2^31 - 2 never share
    a hash: the third part tells apart what the second confuses.
    """
    if ids.dtype.kind == "u" and ids.dtype.itemsize == 8:
        low = (ids % np.uint64(PRIME)).astype(np.int64)
        high = (ids // np.uint64(PRIME) % np.uint64(PRIME)).astype(np.int64)
    else:
        wide = ids.astype(np.int64)
        low, high = wide % PRIME, wide // PRIME % PRIME
    first = (low * 1103515245 + high * 69069 + 12345) % PRIME
    first ^= first >> 13
    second = (first * 1597334677 + low + 1013904223) % PRIME
    second ^= second >> 15
    third = (second * 741103597 + low * 48271 + high + 7) % PRIME
    third ^= third >> 14
    return second * 2**31 + third


def folds(hashes: Ints) -> Ints:
    """The fold of each user, 0 to 9."""
    return hashes % FOLDS
