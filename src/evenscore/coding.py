"""Labels and user ids as small integers, and the user hash that every engine computes alike."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

FOLDS = 10
PRIME = 2**31 - 1
CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Users:
    """Who each row belongs to.

    ``codes`` (n_rows,) are integers from ``low`` to ``low + span - 1``; equal codes mean the same user. ``hashes`` gives the
    62-bit hash of the ids behind some codes.
    """

    codes: NDArray[np.integer]
    low: int
    span: int
    hashes: Callable[[Ints], Ints]
    independent: bool = False

    def compact(self) -> Users:
        """The same users with codes 0, 1, 2, ...; for ids spread too thinly to be used as they are."""
        distinct, codes = np.unique(self.codes, return_inverse=True)
        return Users(codes, 0, len(distinct), lambda picked: self.hashes(distinct[picked].astype(np.int64)))

    def take(self, rows: NDArray[np.bool_]) -> Users:
        """Only these rows."""
        return Users(self.codes[rows], self.low, self.span, self.hashes, self.independent)


def independent_users(n_rows: int) -> Users:
    """Every row is a user of its own."""
    return Users(np.arange(n_rows), 0, n_rows, hash_integers, independent=True)


def integer_users(ids: NDArray[np.integer]) -> Users:
    """Integer ids are their own codes, unless they do not fit into 64 signed bits."""
    low, high = int(ids.min()), int(ids.max())
    if high > np.iinfo(np.int64).max:
        distinct, codes = np.unique(ids, return_inverse=True)
        return Users(codes, 0, len(distinct), lambda picked: hash_integers(distinct[picked]))
    return Users(ids, low, high - low + 1, hash_integers)


def coded_users(codes: NDArray[np.integer], distinct: Sequence[Any]) -> Users:
    """Users given by codes 0, 1, ... into a list of distinct ids of any type."""

    def hashes(picked: Ints) -> Ints:
        return np.fromiter((hash_id(distinct[code]) for code in picked.tolist()), np.int64, len(picked))

    return Users(codes, 0, len(distinct), hashes)


def encode(values: NDArray[Any]) -> tuple[Ints, list[Any]]:
    """Codes in order of appearance and the distinct values, for an array of any hashable things.

    >>> encode(np.array(["b", "a", "b"]))
    (array([0, 1, 0]), ['b', 'a'])
    """
    seen: defaultdict[Any, int] = defaultdict()
    seen.default_factory = seen.__len__
    codes = np.empty(len(values), dtype=np.int64)
    for start in range(0, len(values), CHUNK):
        chunk = values[start : start + CHUNK].tolist()
        codes[start : start + CHUNK] = np.fromiter(map(seen.__getitem__, chunk), np.int64, len(chunk))
    return codes, list(seen)


def encode_typed(values: Sequence[Any]) -> tuple[Ints, list[Any]]:
    """Like ``encode``, but 1, True and 1.0 are three different values."""
    codes, keys = encode(_objects([(type(value), value) for value in values]))
    return codes, [value for _, value in keys]


def _objects(values: list[Any]) -> NDArray[Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def hash_id(value: object) -> int:
    """The hash of one id: integers by arithmetic, all else by the MD5 of its text."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        value = int(value)
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return int(hash_integers(np.array([value], dtype=np.uint64 if value >= 2**63 else np.int64))[0])
    if isinstance(value, bytes):
        text = value
    else:
        text = str(value).encode("utf-8", "surrogatepass")
    return int(hashlib.md5(text, usedforsecurity=False).hexdigest()[:15], 16)


def hash_integers(ids: NDArray[np.integer]) -> Ints:
    """A 62-bit hash of integer ids from sums, products, remainders and shifts that stay below 2^63.

    SQL engines disagree about overflow and about their own hash functions, but not about this.
    """
    if ids.dtype == np.uint64:
        low = (ids % np.uint64(PRIME)).astype(np.int64)
        high = (ids // np.uint64(PRIME) % np.uint64(PRIME)).astype(np.int64)
    else:
        wide = ids.astype(np.int64)
        low, high = wide % PRIME, wide // PRIME % PRIME
    first = (low * 1103515245 + high * 69069 + 12345) % PRIME
    first ^= first >> 13
    second = (first * 1597334677 + low + 1013904223) % PRIME
    second ^= second >> 15
    third = (second * 741103597 + high + 7) % PRIME
    third ^= third >> 14
    return second * 2**31 + third


def folds(hashes: Ints) -> Ints:
    """The fold of each user, 0 to 9."""
    return hashes % FOLDS
