"""The tally: everything that later steps need to know about the data, in a few megabytes a group, without a single row.

Tallies of shards that do not split a user add up to the tally of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenscore.data.coding import FOLDS
from evenscore.data.observations import Columns
from evenscore.errors import DataError, OptionError, listing, require_option, shortened
from evenscore.saving import as_path
from evenscore.tables import Table
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.pairs import PairMatrices, PairSums
from evenscore.types import Floats, Ints

WEIGHTINGS = ("user", "row")
VECTORS = ("W", "Y", "X", "Y2", "XY", "U", "A", "V0", "V1", "V2")
SKETCH = 1024  # hashes kept to notice the same users in two tallies


@dataclass(frozen=True, slots=True)
class CellSums:
    """The sums of one group under one weighting, each (n_cells,).

    W weight; Y outcome and Y2 squared outcome, as deviations from the tally's centre; X score; XY score times outcome.
    U weight of rows without a known outcome; A weight of all rows, labelled or not (a row counts 1 / all rows of the user).
    V0, V1, V2 the row-level sums of w^2, w^2 y, w^2 y^2. N users with a labelled row in the cell.
    position: where the cells lie on the axis, and width: how wide they are there, 0 for a cell that is one value. tilt: sum of
    weighted outcome times the row's distance from that position, so that a smoother can follow outcomes inside a cell.
    """

    W: Floats
    Y: Floats
    X: Floats
    Y2: Floats
    XY: Floats
    U: Floats
    A: Floats
    V0: Floats
    V1: Floats
    V2: Floats
    N: Floats
    position: Floats
    width: Floats
    tilt: Floats


@dataclass(frozen=True, slots=True)
class FoldSums:
    """W, Y, X and Y2 of one group under one weighting for each user fold, each (10, n_cells)."""

    W: Floats
    Y: Floats
    X: Floats
    Y2: Floats


@dataclass(frozen=True, slots=True)
class GroupTally:
    """What is kept of one group.

    vectors: (2 weightings, 10 of ``VECTORS``, n_cells); folds: (2, 4, 10, n_cells); cell_users: (n_cells,).
    """

    n_users: int
    n_rows: int
    n_unlabelled: int
    vectors: Floats
    folds: Floats
    cell_users: Floats
    pairs: PairSums

    @property
    def weighs(self) -> bool:
        """Whether any labelled row has a weight other than 0."""
        return bool((self.vectors[1, 0] > 0).any())

    @classmethod
    def empty(cls, n_cells: int) -> GroupTally:
        """A group without rows."""
        return cls(
            0,
            0,
            0,
            np.zeros((2, len(VECTORS), n_cells)),
            np.zeros((2, 4, FOLDS, n_cells)),
            np.zeros(n_cells),
            PairSums.empty(n_cells, within=True),
        )

    def __add__(self, other: GroupTally) -> GroupTally:
        return GroupTally(
            self.n_users + other.n_users,
            self.n_rows + other.n_rows,
            self.n_unlabelled + other.n_unlabelled,
            self.vectors + other.vectors,
            self.folds + other.folds,
            self.cell_users + other.cell_users,
            self.pairs + other.pairs,
        )

    def recentred(self, shift: float) -> GroupTally:
        """The sums for outcomes that are larger by ``shift``."""
        if shift == 0:
            return self
        vectors, folds = self.vectors.copy(), self.folds.copy()
        vectors[:, 4] += shift * vectors[:, 2]
        for sums, w, y, y2 in ((vectors, 0, 1, 3), (vectors, 7, 8, 9), (folds, 0, 1, 3)):
            sums[:, y2] += 2 * shift * sums[:, y] + shift**2 * sums[:, w]
            sums[:, y] += shift * sums[:, w]
        return replace(self, vectors=vectors, folds=folds, pairs=self.pairs.recentred(shift))

    def moved(self, cells: Ints, n_cells: int) -> GroupTally:
        """The sums on a lattice where old cell c is ``cells[c]``."""

        def spread(old: Floats) -> Floats:
            new = np.zeros((*old.shape[:-1], n_cells))
            new[..., cells] = old
            return new

        return replace(
            self,
            vectors=spread(self.vectors),
            folds=spread(self.folds),
            cell_users=spread(self.cell_users),
            pairs=self.pairs.moved(cells, n_cells),
        )


@dataclass(frozen=True, slots=True, repr=False)
class Tally(Table):
    """Sums over cells of the score axis, by group; made by ``es.tally`` and the starting point of everything else.

    centre: what outcomes are deviations from. cross: pair sums of users that occur in two groups, by (a, b) positions in
    ``groups``, a < b. sketch: the smallest hashes of user ids, or None when rows are independent users. dropped: rows left out
    because of nulls, by column. split: the share of users that was tallied, None for all. released: (users that every cell and
    pair of cells has at least, cells before they were merged), None as long as nothing was thinned.
    """

    lattice: Lattice
    groups: tuple[Any, ...]
    parts: tuple[GroupTally, ...]
    cross: Mapping[tuple[int, int], PairSums] = field(default_factory=dict)
    n_spanning: int = 0
    centre: float = 0.0
    binary: bool = True
    columns: Columns | None = None
    sketch: Ints | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    frame_kind: str | None = None
    split: str | None = None
    released: tuple[int, int] | None = None

    @classmethod
    def zero(cls, lattice: Lattice) -> Tally:
        """The tally of no data: adding it changes nothing."""
        if not isinstance(lattice, Lattice):
            raise OptionError(f"{shortened(lattice)} is no es.Lattice")
        return cls(lattice, (), ())

    @property
    def independent(self) -> bool:
        """Whether rows were declared independent (``user=None``)."""
        return self.columns is not None and self.columns.user is None

    @property
    def n_users(self) -> dict[Any, int]:
        """Users with a labelled row, by group; 0 where all rows weigh nothing."""
        return {label: part.n_users * part.weighs for label, part in zip(self.groups, self.parts, strict=True)}

    @property
    def n_rows(self) -> dict[Any, int]:
        """Labelled rows, by group; 0 where all of them weigh nothing."""
        return {label: part.n_rows * part.weighs for label, part in zip(self.groups, self.parts, strict=True)}

    @property
    def n_unlabelled(self) -> dict[Any, int]:
        """Rows whose outcome is not known, by group."""
        return {label: part.n_unlabelled for label, part in zip(self.groups, self.parts, strict=True)}

    @property
    def nbytes(self) -> int:
        """Memory held by the sums."""
        pairs = [part.pairs for part in self.parts] + list(self.cross.values())
        return sum(p.nbytes for p in pairs) + sum(p.vectors.nbytes + p.folds.nbytes for p in self.parts)

    def index(self, group: Any) -> int:
        """The position of a group; labels of another type are other labels."""
        for position, label in enumerate(self.groups):
            if type(label) is type(group) and label == group:
                return position
        raise OptionError(f"no group {shortened(group)}; the tally has: {listing(repr(label) for label in self.groups)}")

    def sums(self, group: Any, weighting: str = "user") -> CellSums:
        """The vectors of one group."""
        part = self.parts[self.index(group)]
        vectors = part.vectors[_weighting(weighting)]
        weight, score = vectors[0], vectors[2]
        mean = np.divide(score, weight, out=np.full_like(score, np.nan), where=weight > 0)
        tilt = np.where(weight > 0, vectors[4] - np.nan_to_num(mean) * vectors[1], 0.0) * self.lattice.axis_slopes(mean)
        named = dict(zip(VECTORS, vectors, strict=True))
        position, width = self.lattice.positions(mean), self.lattice.cell_widths
        return CellSums(**named, N=part.cell_users, position=position, width=width, tilt=tilt)

    def folds(self, group: Any, weighting: str = "user") -> FoldSums:
        """The vectors of one group by user fold."""
        return FoldSums(*self.parts[self.index(group)].folds[_weighting(weighting)])

    def pair_matrices(self, a: Any, b: Any, weighting: str = "user", cells: Ints | None = None) -> PairMatrices | None:
        """The pair matrices of two groups (or of one with itself), of some cells only if given; None when no user is in both."""
        i, j = self.index(a), self.index(b)
        if i == j:
            return self.parts[i].pairs.matrices(_weighting(weighting), cells)
        sums = self.cross.get((min(i, j), max(i, j)))
        if sums is None:
            return None
        return (sums if i < j else sums.transposed()).matrices(_weighting(weighting), cells)

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        from evenscore.tallies.merging import add

        return add(self, other)

    def __radd__(self, other: object) -> Tally:
        return self if other == 0 else NotImplemented

    def release(self, *, min_users: int = 20) -> Tally:
        """A coarser tally to hand out: every cell, and every pair of cells, stands for at least ``min_users`` users.

        Neighbouring cells are merged until that is certain. User folds and hashes, counts of left-out rows and rows without a known
        outcome are gone; the result says how many cells are left. It protects against reading single people off the sums, not
        against comparing releases of nearly the same data.
        """
        from evenscore.tallies.release import release

        return release(self, min_users)

    def save(self, path: str | Path) -> None:
        """Write the tally to one file, whole or not at all."""
        from evenscore.tallies.archive import save_tally

        save_tally(self, as_path(path))

    @classmethod
    def load(cls, path: str | Path) -> Tally:
        """Read a tally that ``save`` wrote."""
        from evenscore.tallies.archive import load_tally

        return load_tally(as_path(path))

    def rows(self) -> list[dict[str, Any]]:
        """One row a group: rows, users, and the means per user."""
        table = []
        for label, part in zip(self.groups, self.parts, strict=True):
            total = part.vectors[0, :, :].sum(axis=1)
            weight = total[0]
            mean_score, mean_outcome = (total[2] / weight, self.centre + total[1] / weight) if weight > 0 else (np.nan, np.nan)
            row = {"group": label, "rows": part.n_rows, "users": part.n_users}
            if any(p.n_unlabelled for p in self.parts):
                row["unlabelled"] = part.n_unlabelled
            table.append(row | {"mean_score": float(mean_score), "mean_outcome": float(mean_outcome)})
        return table

    def _title(self) -> str:
        users = "rows are independent" if self.independent else f"users: {self.columns.user}" if self.columns else "no data"
        return f"Tally of {sum(self.n_rows.values()):,} rows on {self.lattice!r}, {users}"

    def _notes(self) -> list[str]:
        notes = [f"{n:,} {'row' if n == 1 else 'rows'} left out: {name} is null" for name, n in self.dropped.items()]
        if self.n_spanning:
            notes.append(f"{self.n_spanning:,} users occur in more than one group")
        if self.split is not None:
            notes.append(f"only the users of split {self.split}")
        if self.released:
            least, before = self.released
            notes.append(
                f"released: cells were merged until each, and each pair, stands for at least {least:,} users; "
                f"{self.lattice.n_cells} of {before} cells are left, and no user folds"
            )
        return notes


def _weighting(name: str) -> int:
    require_option("weighting", name, WEIGHTINGS)
    return WEIGHTINGS.index(name)


def require_tally(value: object, call: str) -> Tally:
    """A Tally, or an error that shows how to make one."""
    if isinstance(value, Tally):
        return value
    raise DataError(
        f"es.{call} takes a tally, not a {type(value).__name__}; make one first: "
        f"es.{call}(es.tally(data, score=..., outcome=..., group=..., user=...))"
    )


def require_groups(tally: Tally) -> None:
    """Enough groups to compare."""
    if len(tally.groups) < 2:
        only = shortened(tally.groups[0]) if tally.groups else "none"
        raise DataError(f"comparing needs at least 2 groups; the tally has {len(tally.groups)} ({only})")
