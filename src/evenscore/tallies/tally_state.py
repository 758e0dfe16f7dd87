"""The tally: everything that later steps need to know about the data, in a few megabytes a group, without a single row.

Tallies of shards that do not split a user add up to the tally of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from evenscore.data.observations import Columns
from evenscore.errors import DataError, OptionError, listing, shortened
from evenscore.naming import GroupNames
from evenscore.ratios import ratio
from evenscore.saving import as_path
from evenscore.tables import Table
from evenscore.tallies.axis import find_ties
from evenscore.tallies.blocks import REQUIRED
from evenscore.tallies.group_sums import CellSums, FoldSums, GroupTally, HigherSums
from evenscore.tallies.item_sums import ItemLines
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.moments import WEIGHTINGS as WEIGHTINGS
from evenscore.tallies.pairs import PairMatrices, PairSums
from evenscore.types import Ints
from evenscore.wording import dropped_words

SKETCH = 1024  # hashes kept to notice the same users in two tallies

Cross: TypeAlias = Mapping[tuple[int, int], PairSums]


@dataclass(frozen=True, slots=True, repr=False)
class Tally(Table):
    """Sums over cells of the score axis, by group; made by ``es.tally`` and the starting point of everything else.

    centre: what outcomes are deviations from. cross_blocks: pair sums between groups, by the block's name and (a, b) positions in
    ``groups``, a < b. sketch: the smallest hashes of user ids, or None when rows are independent users. dropped: rows left out
    because of nulls, by column. split: the share of users, or by_item of items, that was tallied, None for all. released: (users
    that every cell and pair of cells has at least, cells before they were merged), None as long as nothing was thinned. left_out:
    why optional blocks are missing, by name. rounded: whether a release clipped and rounded the outcomes. item: what the second key
    is called that rows share, None without one; item_counts: items of each group; items: sums by item, None where only their
    products are kept; keys: which of the two keys variances heed, see ``two_way``. made: what was computed from the sums once.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(people, score="score", outcome="outcome", group="group", user="user")
    >>> tally.groups, tally.n_users
    (('a', 'b'), {'a': 300, 'b': 300})
    >>> tally.lattice.n_cells <= 1024
    True
    """

    lattice: Lattice
    groups: tuple[Any, ...]
    group_tallies: tuple[GroupTally, ...]
    cross_blocks: Mapping[str, Cross] = field(default_factory=dict)
    n_spanning: int = 0
    centre: float = 0.0
    binary: bool = True
    columns: Columns | None = None
    sketch: Ints | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    frame_kind: str | None = None
    split: str | None = None
    released: tuple[int, int] | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    rounded: bool = False
    item: str | None = None
    item_counts: tuple[int, ...] = ()
    items: ItemLines | None = None
    keys: str = "both"
    by_item: bool = False
    made: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """On a lattice of scale "auto", sums and scale always fit: whoever makes a tally, or adds two, chooses anew."""
        if not self.lattice.discrete or self.lattice.auto:
            object.__setattr__(self, "lattice", self._lattice_with_scale())

    def _lattice_with_scale(self) -> Lattice:
        from evenscore.tallies.scale_choice import with_scale

        if not self.groups:
            return self.lattice.unread.with_ties(None)
        known, everybody, score = (np.stack([group.vectors[name][0] for group in self.group_tallies]) for name in ("W", "A", "X"))
        weight = known.sum(axis=0)
        mean = ratio(score.sum(axis=0), weight, np.nan)
        # Also those whose outcome nobody knows, as curves may be continued there.
        lattice = with_scale(self.lattice, everybody, mean) if self.lattice.auto else self.lattice
        return lattice if lattice.discrete else lattice.with_ties(find_ties(everybody.sum(axis=0), mean))

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
    def cross(self) -> Cross:
        """Pair sums of users that occur in two groups."""
        return self.cross_blocks.get("pairs", {})

    @property
    def tied(self) -> bool:
        """Whether people of two groups have something in common: users that are in both, or items."""
        return bool(self.cross) or self.item is not None

    @property
    def split_of(self) -> str:
        """Whom a split of these data divides: "users", or "items" where these have the groups."""
        return "items" if self.by_item else "users"

    @property
    def block_names(self) -> tuple[str, ...]:
        """The blocks of sums that every group has."""
        return tuple(self.group_tallies[0].blocks) if self.groups else REQUIRED

    @property
    def by_group(self) -> Iterator[tuple[Any, GroupTally]]:
        """Each group's label and tally."""
        return zip(self.groups, self.group_tallies, strict=True)

    @property
    def n_users(self) -> dict[Any, int]:
        """Users with a labelled row, by group; 0 where all rows weigh nothing."""
        return {label: group.n_users * group.has_weight for label, group in self.by_group}

    @property
    def n_rows(self) -> dict[Any, int]:
        """Labelled rows, by group; 0 where all of them weigh nothing."""
        return {label: group.n_rows * group.has_weight for label, group in self.by_group}

    @property
    def n_unlabelled(self) -> dict[Any, int]:
        """Rows whose outcome is not known, by group."""
        return {label: group.n_unlabelled for label, group in self.by_group}

    @property
    def nbytes(self) -> int:
        """Memory held by the sums."""
        blocks = [group.blocks for group in self.group_tallies] + list(self.cross_blocks.values())
        return sum(sums.nbytes for named in blocks for sums in named.values())

    def index(self, group: Any) -> int:
        """The position of a group; labels of another type are other labels, but for NumPy's scalars, which are what they hold."""
        group = group.item() if isinstance(group, np.generic) else group
        for position, label in enumerate(self.groups):
            if type(label) is type(group) and label == group:
                return position
        raise OptionError(f"no group {shortened(group)}; the tally has: {listing(repr(label) for label in self.groups)}")

    def sums(self, group: Any, weighting: str = "user") -> CellSums:
        """The vectors of one group."""
        index = self.index(group)
        group_tally = self.group_tallies[index]
        vectors = {**group_tally.vectors.under(weighting), "N": group_tally.cell_users}
        if ("sums", index, weighting) not in self.made:
            self.made["sums", index, weighting] = CellSums.placed(self.lattice, vectors)
        return cast(CellSums, self.made["sums", index, weighting])

    def folds(self, group: Any, weighting: str = "user") -> FoldSums:
        """The vectors of one group by user fold."""
        return FoldSums(**self.group_tallies[self.index(group)].folds.under(weighting))

    def higher(self, group: Any, weighting: str = "user") -> HigherSums | None:
        """The sums of third and fourth powers of one group; None where they were not kept."""
        sums = self.group_tallies[self.index(group)].blocks.get("higher")
        return None if sums is None else HigherSums(**sums.under(weighting))

    def pair_matrices(self, a: Any, b: Any, weighting: str = "user", places: Ints | None = None) -> PairMatrices | None:
        """The pair matrices of two groups (or of one with itself), None when no user is in both; places: see ``squares``.

        With items also those of different users who share one, in the measure in which items matter: see ``two_way``.
        """
        i, j = self.index(a), self.index(b)
        if self.item is None:
            return self._user_matrices(i, j, weighting, places)
        from evenscore.tallies.two_way import two_way_matrices

        return two_way_matrices(self, (i, j), weighting, places, self._user_matrices(i, j, weighting, places))

    def _user_matrices(self, i: int, j: int, weighting: str, places: Ints | None) -> PairMatrices | None:
        """Those of users alone."""
        if i == j:
            return self.group_tallies[i].pairs.matrices(weighting, places)
        sums = self.cross.get((min(i, j), max(i, j)))
        if sums is None:
            return None
        return (sums if i < j else sums.transposed()).matrices(weighting, places)

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        from evenscore.tallies.merging import add

        return add(self, other)

    def __radd__(self, other: object) -> Tally:
        return self if other == 0 else NotImplemented

    def release(self, *, min_users: int = 20, cuts: Iterable[float] = ()) -> Tally:
        """A coarser tally to hand out: every cell, and every pair of cells, stands for at least ``min_users`` users.

        Neighbouring cells are merged until that is certain. User folds and hashes, counts of left-out rows and rows without a known
        outcome are gone; the result says how many cells are left. Outcomes other than 0/1 are clipped where one person stands out,
        and each sum of them is rounded to at least a quarter of what one person can put into it; scores end where enough people
        are. Sums of 0/1 outcomes stay exact: whoever compares two releases that differ by one person sees that person's outcome.
        cuts: edges of cells that stay, such as a threshold that is to be audited; between two of them there must be enough users.
        """
        from evenscore.tallies.release import release

        return release(self, min_users, cuts)

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
        any_unlabelled = any(self.n_unlabelled.values())
        for label, group in self.by_group:
            vectors = group.vectors.under("user")
            weight, outcome, score = (float(vectors[name].sum()) for name in ("W", "Y", "X"))
            row = {"group": label, "rows": group.n_rows, "users": group.n_users}
            if any_unlabelled:
                row["unlabelled"] = group.n_unlabelled
            row["mean_score"] = score / weight if weight > 0 else np.nan
            row["mean_outcome"] = self.centre + outcome / weight if weight > 0 else np.nan
            table.append(row)
        return table

    @property
    def group_names(self) -> GroupNames:
        """What groups are called."""
        texts = super(Tally, self).group_names.texts
        own = self.columns
        return GroupNames(texts=texts) if own is None else GroupNames(own.group, texts, own.score, own.outcome)

    @property
    def dropped_notes(self) -> list[str]:
        """How many rows were left out, in words; of a split nobody knows, since they are left out before it."""
        return dropped_words(self.dropped, when="" if self.split is None else " before the split")

    def _title(self) -> str:
        users = "rows are independent" if self.independent else f"users: {self.columns.user}" if self.columns else "no data"
        items = "" if self.item is None else f", items: {self.item}"
        return f"Tally of {sum(self.n_rows.values()):,} rows on {self.lattice!r}, {users}{items}"

    def _notes(self) -> list[str]:
        notes = [*self.lattice.notes, *self.dropped_notes]
        if self.n_spanning:
            notes.append(f"{self.n_spanning:,} users occur in more than one group")
        if self.split is not None:
            notes.append(f"only the {self.split_of} of split {self.split}")
        if self.released:
            least, before = self.released
            notes.append(
                f"released: cells were merged until each, and each pair, stands for at least {least:,} users; "
                f"{self.lattice.n_cells} of {before} cells are left, and no user folds"
            )
        if self.rounded:
            notes.append(
                "outcomes are clipped where one person stood out, and each sum of them is rounded to at least a quarter of what "
                "one person can put into it"
            )
        elif self.released and self.binary:
            notes.append("sums of 0/1 outcomes are not rounded: two releases that differ by one person show that person's outcome")
        notes += [f"block {name!r} is left out: {reason}" for name, reason in self.left_out.items()]
        return notes


def require_groups(tally: Tally) -> None:
    """Enough groups to compare."""
    if len(tally.groups) < 2:
        only = shortened(tally.groups[0]) if tally.groups else "none"
        raise DataError(f"comparing needs at least 2 groups; the tally has {len(tally.groups)} ({only})")
