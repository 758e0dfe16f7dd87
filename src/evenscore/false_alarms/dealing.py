"""Groups dealt out anew among users, so that no group can have anything to do with outcomes.

A user's rows fall into parts, one for each group the user is in. Parts never change: rows that shared a group share one again. What
is dealt is the names of the groups. A user in k groups gets the groups of a user drawn at random among all who are in k groups,
and gives them to the k parts in random order. So every group keeps its number of users, and the group of a part is independent of
its scores, its outcomes and its number of rows: no group differs from another by more than chance, whatever the data were like.

That holds for users in equally many groups. If those in one group differ from those in two, and some group has more of the first
kind, dealing leaves that difference between groups, and what tests find then is no false alarm. Users in other numbers of groups
than most are therefore left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evenscore.data.coding import Users
from evenscore.data.observations import Observations, take_rows
from evenscore.errors import DataError, listing
from evenscore.types import Floats, Ints, Mask

MOST = 0.5  # of the users must be in equally many groups
MOST_STRATA = 50
# Users of the smallest group in a stratum, on average. A stratum keeps its groups, so of n users about 1 / n of a real gap stays.
IN_STRATUM = 25
FEW_USERS = 2 * IN_STRATUM  # groups with fewer have no density to keep

Groups = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Patterns:
    """Who is in which groups. part: (n_rows,) of each row; group: (n_parts,) codes; parts: (n_users, groups of each) numbers of
    the parts of each user; stratum: (n_users,), inside which groups are dealt out."""

    part: Ints
    group: Groups
    parts: Ints
    stratum: Ints

    def deal(self, rng: np.random.Generator) -> Groups:
        """The group of every row, (n_rows,), after the groups were dealt out anew."""
        dealt = self.group.copy()
        given = self.group[self.parts[_shuffle(self.stratum, rng)]]
        dealt[self.parts] = rng.permuted(given, axis=1)
        return dealt[self.part]

    @property
    def n_users(self) -> int:
        """Users among whom groups are dealt out."""
        return len(self.parts)

    @property
    def n_spanning(self) -> int:
        """Users in more than one group: all or none."""
        return self.n_users if self.parts.shape[1] > 1 else 0

    @property
    def fixed(self) -> Mask:
        """Which users can only get back what they have, (n_users,): those of one group, among users of that group only."""
        if self.n_spanning:
            return np.zeros(self.n_users, dtype=bool)
        own = self.group[self.parts[:, 0]].astype(np.int64)
        kinds = np.unique(np.column_stack([self.stratum, own]), axis=0)
        return np.asarray(np.bincount(kinds[:, 0], minlength=int(self.stratum.max()) + 1)[self.stratum] == 1)

    @property
    def n_strata(self) -> int:
        """Strata of scores; 1 when groups are dealt out among all users."""
        return len(np.unique(self.stratum))


def _shuffle(stratum: Ints, rng: np.random.Generator) -> Ints:
    """Whose groups each user gets, (n_users,): a random permutation inside every stratum."""
    order = np.empty(len(stratum), dtype=np.int64)
    order[np.argsort(stratum, kind="stable")] = np.lexsort((rng.random(len(stratum)), stratum))
    return order


def keep_most(observations: Observations) -> tuple[Observations, int]:
    """The rows of users in the most common number of groups, with codes 0, 1, 2, ...; and how many users are left out."""
    user, codes = np.unique(observations.users.codes, return_inverse=True)
    of_pair = np.unique(codes * len(observations.groups) + observations.group) // len(observations.groups)
    n_groups = np.bincount(of_pair)
    usual = int(np.bincount(n_groups).argmax())
    kept = n_groups == usual
    if kept.mean() < MOST:
        counts = listing(f"{n:,} users in {k}" for k, n in enumerate(np.bincount(n_groups)) if n)
        raise DataError(
            f"groups can be dealt out only among users in equally many groups, and these are too mixed: {counts}. Keep the rows of "
            "users in one number of groups"
        )
    observations = take_rows(observations, kept[codes])
    hashes = observations.users.hashes(user[kept].astype(np.int64)).take  # unlike a closure, can be sent to a worker
    codes = (np.cumsum(kept) - 1)[codes[kept[codes]]]
    users = Users(codes, 0, int(kept.sum()), hashes, observations.users.independent)
    return replace(observations, users=users), int((~kept).sum())


def find_patterns(observations: Observations, within: str | None) -> Patterns:
    """The patterns of rows of users in equally many groups, with codes 0, 1, 2, ..."""
    n_groups = len(observations.groups)
    key = observations.users.codes.astype(np.int64) * n_groups + observations.group
    distinct, part = np.unique(key, return_inverse=True)
    parts = np.arange(len(distinct)).reshape(observations.users.span, -1)
    patterns = Patterns(part, (distinct % n_groups).astype(np.uint8), parts, np.zeros(len(parts), dtype=np.int64))
    if within == "score":
        patterns = replace(patterns, stratum=_by_score(observations, patterns))
    if patterns.fixed.all():
        raise DataError(_nothing_to_deal(within))
    return patterns


def _by_score(observations: Observations, patterns: Patterns) -> Ints:
    """The stratum of every user, from one row each."""
    if observations.n_rows != patterns.n_users:
        raise DataError(
            f"within='score' needs one row a user, and these are {observations.n_rows:,} rows of {patterns.n_users:,} users: "
            "several rows have several scores. Leave out within=, or keep one row of each user"
        )
    score = np.empty(observations.n_rows)
    score[patterns.part] = observations.score
    return score_strata(score, patterns.group)


def score_strata(score: Floats, group: Groups) -> Ints:
    """Strata of scores that hold equal shares of the groups on average, (n_users,); equal scores stay together.

    Each group weighs the same, so that strata are narrow wherever any group has many of its users.
    """
    size = np.bincount(group)
    enough = size[size >= FEW_USERS]
    if len(enough) < 2:
        raise DataError(f"within='score' needs at least {FEW_USERS} users in each of two groups, to keep their scores apart")
    n_strata = int(np.clip(enough.min() // IN_STRATUM, 2, MOST_STRATA))
    _, value = np.unique(score, return_inverse=True)
    mass = np.bincount(value, 1 / size[group])
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    return np.asarray((middle * n_strata).astype(np.int64)[value])


def _nothing_to_deal(within: str | None) -> str:
    if within == "score":
        return "the groups have no scores in common, so within='score' leaves every user where they are; leave out within="
    return "all users are in the same group, or most of them; there is nothing to deal out, a placebo needs users of two groups"
