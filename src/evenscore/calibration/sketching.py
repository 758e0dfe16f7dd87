"""Recognising users without knowing them: keyed hashes of the fitted users with the smallest plain hashes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from evenscore.calibration.calibrator import UserSketch
from evenscore.errors import DataError, OptionError
from evenscore.tallies.tally_state import SKETCH, Tally
from evenscore.types import Ints


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many users could be looked up among the fitted ones, and how many of these are fitted ones."""

    n_checked: int
    n_shared: int


def sketch_users(tally: Tally, key: str) -> UserSketch:
    """Remember the fitted users under a key; all of them if there are fewer than the 1024 that a tally knows."""
    if tally.sketch is None:
        raise DataError("remember_users: the rows of this tally are independent (user=None), so there are no users to remember")
    below = int(tally.sketch[-1]) + 1 if len(tally.sketch) == SKETCH else 2**63 - 1
    return UserSketch(tuple(sorted(_keyed(tally.sketch, key))), below)


def overlap(sketch: UserSketch, tally: Tally, key: str) -> Overlap:
    """Look up the users of a tally: those whose hash is so small that both sides would have kept it."""
    if tally.sketch is None:
        return Overlap(0, 0)
    limit = int(tally.sketch[-1]) + 1 if len(tally.sketch) == SKETCH else 2**63 - 1
    mine = tally.sketch[tally.sketch < min(sketch.below, limit)]
    known = set(sketch.hashes)
    return Overlap(len(mine), sum(value in known for value in _keyed(mine, key)))


def _keyed(hashes: Ints, key: str) -> list[int]:
    """63 bits of a keyed hash of each hash."""
    if not isinstance(key, str) or len(key.encode()) < 8:
        raise OptionError("the key to recognise users by must be a text of at least 8 characters")
    secret = hashlib.blake2b(key.encode(), digest_size=32).digest()
    return [
        int.from_bytes(hashlib.blake2b(int(value).to_bytes(8, "big"), key=secret, digest_size=8).digest(), "big") >> 1
        for value in hashes
    ]
