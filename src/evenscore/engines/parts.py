"""Parts of the data that hold whole users: each becomes a tally, and the tallies add up. All that a worker needs to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evenscore.data.coding import Users, hashed_users, independent_users, integer_users
from evenscore.data.observations import Columns, Observations, empty_split, rows_in_split
from evenscore.data.splits import Split
from evenscore.tallies.counting import count
from evenscore.tallies.group_sums import GroupTally
from evenscore.tallies.item_counting import CountedItems
from evenscore.tallies.item_sums import ItemLines
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.spanning import limit_cross
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.two_way import attach_items, fold_lines
from evenscore.types import Array

Arrays = Mapping[str, Array]

COUNTED_BYTES = 48  # what counting holds for a row, measured; weights and counts come on top

ITEM_BYTES = 100  # and what items add to that, measured


@dataclass(frozen=True, slots=True)
class Recipe:
    """How rows of whole users become a tally; small, and can be sent to workers.

    labels: the groups in order. centre: what outcomes will be deviations from. hashed: users are known by a hash of their id.
    n_users: about how many. dropped: rows left out, by column. item: what the second key of rows is called; items are
    known by a hash.
    """

    lattice: Lattice
    labels: tuple[Any, ...]
    columns: Columns
    binary: bool
    centre: float
    hashed: bool
    n_rows: int
    n_users: int
    split: Split | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    item: str | None = None

    @property
    def zero(self) -> Tally:
        """The tally of a part without rows."""
        empty = tuple(GroupTally.empty(self.lattice.n_cells) for _ in self.labels)
        sketch = None if self.columns.user is None else np.zeros(0, dtype=np.int64)
        zero = Tally(self.lattice, self.labels, empty, centre=self.centre, binary=self.binary, columns=self.columns, sketch=sketch)
        return zero if self.item is None else attach_items(zero, CountedItems(ItemLines.empty(), {}), self.item)

    def tally(self, arrays: Arrays) -> Tally:
        """The tally of rows that hold every row of their users: score, outcome, group (its number), key, weight, count."""
        if len(arrays["score"]) == 0:
            return self.zero
        if self.split is not None and "key" in arrays:
            held = rows_in_split(self.split, self.users(arrays["key"]))
            return replace(self, split=None).tally({name: array[held] for name, array in arrays.items()})
        return count(self.observations(arrays), self.lattice, centre=self.centre)

    def observations(self, arrays: Arrays) -> Observations:
        """The rows as counting takes them."""
        outcome = arrays["outcome"]
        masked = np.ma.getmaskarray(outcome) if isinstance(outcome, np.ma.MaskedArray) else None
        labelled = None if masked is None or not masked.any() else ~masked
        return Observations(
            score=_plain(arrays["score"]),
            outcome=_plain(outcome),
            group=_plain(arrays["group"]).astype(np.uint8),
            groups=self.labels,
            users=self.users(arrays["key"]) if "key" in arrays else independent_users(len(arrays["score"])),
            columns=self.columns,
            binary=self.binary,
            weight=_plain(arrays["weight"]) if "weight" in arrays else None,
            count=_plain(arrays["count"]) if "count" in arrays else None,
            labelled=labelled,
            items=hashed_users(_plain(arrays["item"])) if "item" in arrays else None,
            item=self.item,
        )

    def users(self, keys: Array) -> Users:
        """Who the keys stand for."""
        users = (hashed_users if self.hashed else integer_users)(_plain(keys))
        return replace(users, independent=self.columns.user is None)

    def add_up(self, tallies: Iterable[Tally]) -> Tally:
        """The sum of the parts' tallies."""
        total: Tally | None = None
        for part in tallies:
            total = part if total is None else total + part
            limit_cross(total.cross, total.n_spanning, len(total.groups))
        return self.zero if total is None else total

    def finish(self, total: Tally) -> Tally:
        """The sum of all parts with what no part knows."""
        if self.split is not None and not any(total.n_rows.values()):
            raise empty_split(self.split, self.n_rows)
        sketch = None if total.independent else total.sketch
        split = None if self.split is None else str(self.split)
        return fold_lines(replace(total, dropped=self.dropped, sketch=sketch, split=split))


def _plain(array: Array) -> Array:
    return array.filled(0) if isinstance(array, np.ma.MaskedArray) else array
