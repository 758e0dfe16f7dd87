"""What is asked of the data: which column is what, and on which cells it is counted. Checked once, here, for every engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenscore.data.columns import number_array
from evenscore.data.observations import NULLS
from evenscore.data.splits import Split
from evenscore.errors import OptionError, listing, require_count, require_option, shortened
from evenscore.tallies.lattice import MAX_CELLS, SCALES, Lattice
from evenscore.tallies.tally_state import Tally

ROLES = ("score", "outcome", "group", "user", "item", "weight", "count")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TallySpec:
    """What ``es.tally`` is asked for, which explains each field. A column is a name or an array.

    A tally may be given for the lattice, any numbers for the cuts, and text for the split: they become what is declared here.
    """

    score: Any
    outcome: Any
    group: Any
    user: Any
    item: Any = None
    weight: Any = None
    count: Any = None
    lattice: Lattice | None = None
    cuts: tuple[float, ...] = ()
    cells: int = MAX_CELLS
    scale: str = "auto"
    nulls: str = "error"
    split: Split | None = None

    def __post_init__(self) -> None:
        cuts = tuple(number_array("cuts", self.cuts).ravel().tolist())
        for role in ("score", "outcome", "group"):
            if getattr(self, role) is None:
                raise OptionError(f"{role}=None: name a column or give an array")
        if isinstance(self.group, list | tuple) and not self.group:
            raise OptionError("group=[] names no column; give one name, or several for their intersection")
        if isinstance(self.item, str) and self.item == self.user:
            raise OptionError(f"item={shortened(self.item)} is the user; an item is a second key, such as a job that users see")
        require_option("nulls", self.nulls, NULLS)
        require_option("scale", self.scale, SCALES)
        cells = require_count("cells", self.cells, high=MAX_CELLS)
        lattice = None if self.lattice is None else _reuse_lattice(self.lattice, cuts)
        split = self.split if self.split is None or isinstance(self.split, Split) else Split.parse(self.split)
        for name, value in {"cuts": cuts, "cells": cells, "lattice": lattice, "split": split}.items():
            object.__setattr__(self, name, value)

    @property
    def roles(self) -> dict[str, Any]:
        """The column, or columns, of each role; None for one that has none."""
        return {role: getattr(self, role) for role in ROLES}


def _reuse_lattice(given: Any, cuts: tuple[float, ...]) -> Lattice:
    """The lattice of a tally, or a lattice itself; it must have the cuts as edges."""
    lattice = given.lattice if isinstance(given, Tally) else given
    if not isinstance(lattice, Lattice):
        raise OptionError(f"lattice={shortened(lattice)} must be a Tally or an es.Lattice, not of type {type(lattice).__name__}")
    missing = [cut for cut in cuts if lattice.first_cell(cut) is None]
    if missing:
        raise OptionError(f"the given lattice has no edge at {listing(missing)}; make it with cuts={list(cuts)}")
    return lattice.unread
