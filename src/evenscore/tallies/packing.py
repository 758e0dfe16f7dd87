"""Group, user, cell, outcome and row number as one integer: sorted, these bring a user's rows together and keep the way back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenscore.data.coding import Users
from evenscore.data.observations import Observations
from evenscore.tallies.lattice import Lattice
from evenscore.types import Array, Ints, Mask

CHUNK = 1 << 16  # rows at a time: what is made of them stays in the cache
KEY_BITS = 63  # of an integer that is not negative
PASS_BITS = 2  # keys longer by so much are made in 2, 4 passes over the rows; codes of users are made denser beyond


def bit_length(n: int) -> int:
    """How many bits numbers below n have."""
    return max(1, int(n - 1).bit_length())


@dataclass(frozen=True, slots=True)
class Layout:
    """How many bits of a key group, user, cell and row have: group | user | cell | outcome | row."""

    row: int
    cell: int
    user: int
    group: int

    @classmethod
    def fitting(cls, users: Users, observations: Observations, lattice: Lattice) -> Layout:
        """As few bits as all rows can do with."""
        n_groups = len(observations.groups)
        return cls(
            row=bit_length(observations.n_rows),
            cell=bit_length(lattice.n_cells),
            user=bit_length(users.span),
            group=bit_length(n_groups) if n_groups > 1 else 0,
        )

    @property
    def bits(self) -> int:
        """Of a whole key."""
        return self.group + self.user + self.cell + 1 + self.row

    @property
    def is_long(self) -> bool:
        """Whether keys would take many passes over the rows."""
        return self.bits > KEY_BITS + PASS_BITS

    @property
    def n_parts(self) -> int:
        """Passes over the rows, each with a part of the users."""
        return 1 << max(0, self.bits - KEY_BITS)

    @property
    def group_shift(self) -> int:
        """Where the group begins."""
        return min(self.bits, KEY_BITS) - self.group

    def pack(self, group: Array, user: Ints, cell: Ints, positive: Ints, row: Ints) -> Ints:
        """One key for each row."""
        key = user << (self.row + 1 + self.cell)
        key |= cell << (self.row + 1)
        key |= positive << self.row | row
        key |= group.astype(np.int64) << self.group_shift
        return key

    def group_starts(self, keys: Ints, n_groups: int) -> list[int]:
        """Where each group's sorted keys begin."""
        return [0, *np.searchsorted(keys, np.arange(1, n_groups) << self.group_shift).tolist()]

    def rows(self, key: Ints) -> Ints:
        """Numbers of the rows."""
        return key & ((1 << self.row) - 1)

    def positive(self, key: Ints) -> Mask:
        """Whether the outcome is 1."""
        return (key >> self.row & 1).astype(bool)

    def cells(self, key: Ints) -> Ints:
        """Cells of the score."""
        return key >> (self.row + 1) & ((1 << self.cell) - 1)

    def user_cells(self, key: Ints) -> Ints:
        """Group, user and cell as one number."""
        return key >> (self.row + 1)

    def owners(self, key: Ints) -> Ints:
        """Group and user as one number."""
        return key >> (self.row + 1 + self.cell)

    def users(self, key: Ints) -> Ints:
        """Codes of the users."""
        return self.owners(key & ((1 << self.group_shift) - 1))


def sorted_keys(observations: Observations, lattice: Lattice, users: Users, layout: Layout, part: int) -> Ints:
    """Keys of the rows of users in this part, in order."""
    n_parts = layout.n_parts
    keys = np.empty(observations.n_rows, dtype=np.int64)
    filled = 0
    for start in range(0, observations.n_rows, CHUNK):
        number = np.arange(start, min(start + CHUNK, observations.n_rows))
        rows: slice | Ints = slice(start, start + CHUNK)
        user = users.codes[rows].astype(np.int64)
        user -= users.low
        if n_parts > 1:
            rows = number = number[user % n_parts == part]
            user = user[number - start] // n_parts
        positive = np.zeros(len(user), dtype=np.int64)
        if observations.binary:
            positive = observations.outcome[rows].astype(np.int64)
            if observations.labelled is not None:
                positive *= observations.labelled[rows]
        cell = lattice.cell(observations.score[rows])
        keys[filled : filled + len(user)] = layout.pack(observations.group[rows], user, cell, positive, number)
        filled += len(user)
    keys.resize(filled, refcheck=False)
    keys.sort()
    return keys


def user_starts(layout: Layout, keys: Ints) -> Ints:
    """Where each user's rows begin."""
    starts = [np.zeros(1, dtype=np.int64)]
    for start in range(0, len(keys), CHUNK):
        users = layout.owners(keys[max(start - 1, 0) : start + CHUNK])
        starts.append(np.flatnonzero(users[1:] != users[:-1]) + max(start - 1, 0) + 1)
    return np.concatenate(starts)
