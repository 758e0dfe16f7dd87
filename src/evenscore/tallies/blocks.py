"""The blocks of sums that a tally is made of. A block that is described here is added, recentred, remapped, saved and loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evenscore.data.coding import FOLDS
from evenscore.tallies.moments import Factor, Moments, Sums
from evenscore.tallies.pairs import USER_PAIRS, PairSums

Blocks: TypeAlias = Mapping[str, Sums]


@dataclass(frozen=True, slots=True)
class Block:
    """A block by its name.

    kind: "vectors" over cells, "folds" over user folds and cells, "pairs" over pairs of cells of a group and between groups.
    required: whether a reader that does not know the block must refuse the file; an optional one it may leave out.
    """

    name: str
    kind: str
    moments: Moments
    required: bool = False

    def shape(self, n_cells: int) -> tuple[int, ...]:
        """The shape of its values; of pairs, that of none."""
        last = {"vectors": (n_cells,), "folds": (FOLDS, n_cells), "pairs": (0,)}[self.kind]
        return (2, len(self.moments.names), *last)

    def empty(self, n_cells: int) -> Sums:
        """No rows at all."""
        if self.kind == "pairs":
            return PairSums.empty(n_cells, within=True, moments=self.moments)
        return Sums(self.moments, np.zeros(self.shape(n_cells)))


VECTORS = Moments.single(
    W=Factor(),
    Y=Factor(y=1),
    X=Factor(x=1),
    Y2=Factor(y=2),
    XY=Factor(x=1, y=1),
    U=Factor(rows="unlabelled"),
    A=Factor(rows="all"),
    V0=Factor(w=2),
    V1=Factor(w=2, y=1),
    V2=Factor(w=2, y=2),
)
FOLDED = Moments.single(W=Factor(), Y=Factor(y=1), X=Factor(x=1), Y2=Factor(y=2))
CUBES, FOURTHS = ("T0", "T1", "T2", "T3"), ("Q0", "Q1", "Q2", "Q3", "Q4")
HIGHER = Moments.single(
    **{name: Factor(w=3, y=k) for k, name in enumerate(CUBES)}, **{name: Factor(w=4, y=k) for k, name in enumerate(FOURTHS)}
)
ALL = Factor(rows="all")
ALL_ROWS = Moments.single(R2=Factor(w=2, rows="all"), R3=Factor(w=3, rows="all"))
ALL_PAIRS = Moments({"aa": (ALL, ALL)})
BLOCKS = {
    block.name: block
    for block in (
        Block("vectors", "vectors", VECTORS, required=True),
        Block("folds", "folds", FOLDED, required=True),
        Block("pairs", "pairs", USER_PAIRS, required=True),
        Block("higher", "vectors", HIGHER),
        Block("all_rows", "vectors", ALL_ROWS),
        Block("all_pairs", "pairs", ALL_PAIRS),
        Block("both_pairs", "pairs", USER_PAIRS),
        Block("item_pairs", "pairs", USER_PAIRS),
    )
}
REQUIRED = tuple(name for name, block in BLOCKS.items() if block.required)
EVERYONE = ("all_rows", "all_pairs")  # of rows with an outcome or not; kept only where some have none
# Of rows that share user and item, and item; kept only where there are items, the latter where lines by item are too many to keep.
ITEMS = ("both_pairs", "item_pairs")
COUNTED = tuple(name for name in BLOCKS if name not in (*EVERYONE, *ITEMS))  # what a scan of rows always makes
