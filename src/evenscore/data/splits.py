"""Shares of the users, by a hash of their ids: the same users in every run, file and engine."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evenscore.data.coding import hash_ids, hash_integers
from evenscore.errors import OptionError, shortened
from evenscore.types import Ints, Mask

PATTERN = re.compile(r"\s*(\d{1,6})(?:-(\d{1,6}))?/(\d{1,6})(?:@(.+))?\s*")


@dataclass(frozen=True, slots=True)
class Split:
    """Parts ``first`` to ``last`` of the users dealt into ``parts`` equal parts; another key deals them anew.

    >>> Split.parse("1/2"), Split.parse("1/2").rest()
    (1/2, 2/2)
    >>> Split.parse("1-7/10").rest()
    8-10/10
    """

    first: int
    last: int
    parts: int
    key: str = ""

    @classmethod
    def parse(cls, text: str) -> Split:
        """From "1/2" (the first half), "1-7/10" (seven tenths) or "1/2@key"."""
        match = PATTERN.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise OptionError(f"split={shortened(text)} must be like '1/2' (the first half of users), '1-7/10' or '1/2@some key'")
        first, parts = int(match[1]), int(match[3])
        last = int(match[2]) if match[2] else first
        if not 1 <= first <= last <= parts:
            raise OptionError(f"split={shortened(text)}: parts are numbered from 1 to {parts}, and the first is not after the last")
        return cls(first, last, parts, match[4] or "")

    def holds(self, hashes: Ints) -> Mask:
        """Which users are in it, given their hashes; dealt by a second hash, so that folds stay balanced."""
        salt = int(hash_ids([f"split {self.key}"])[0])
        top = hash_integers(hashes ^ salt) >> 31
        number = (top * self.parts >> 31) + 1
        return (number >= self.first) & (number <= self.last)

    def rest(self) -> Split:
        """All other users."""
        if self.first == 1 and self.last < self.parts:
            return Split(self.last + 1, self.parts, self.parts, self.key)
        if self.last == self.parts and self.first > 1:
            return Split(1, self.first - 1, self.parts, self.key)
        raise OptionError(f"the users outside split={str(self)!r} are none, or not one range; name their split")

    def disjoint(self, other: Split) -> bool:
        """Whether no user can be in both."""
        if self.key != other.key:
            return False
        return (
            self.last * other.parts <= (other.first - 1) * self.parts or other.last * self.parts <= (self.first - 1) * other.parts
        )

    def __str__(self) -> str:
        numbers = f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"
        return f"{numbers}/{self.parts}" + (f"@{self.key}" if self.key else "")

    __repr__ = __str__
