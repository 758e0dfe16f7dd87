"""Groups dealt out anew among users, so that no group can have anything to do with outcomes.

A user's rows fall into parts, one for each group the user is in. Parts never change: rows that shared a group share one again. What
is dealt is the names of the groups. A user in k groups gets the groups of a user drawn at random among all who are in k groups,
and gives them to the k parts in random order. So every group keeps its number of users, and within each k the group of a part is
independent of its scores, its outcomes and its number of rows: no group differs from another by more than chance, whatever the
data were like before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenscore.data.observations import Observations
from evenscore.errors import DataError
from evenscore.types import Floats, Ints, Mask

MOST_STRATA = 50
# Users of the smallest group in a stratum, on average. A stratum keeps its groups, so of n users about 1 / n of a real gap stays.
IN_STRATUM = 25
FEW_USERS = 2 * IN_STRATUM  # groups with fewer have no density to keep

Groups = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Class:
    """Users in equally many groups. parts: (n_users, n_groups_each) numbers of their parts; stratum: (n_users,)."""

    parts: Ints
    stratum: Ints

    def fixed(self, group: Groups) -> Mask:
        """Which users can only get back what they have, (n_users,): those of one group among users of that group only."""
        if self.parts.shape[1] > 1:
            return np.zeros(len(self.parts), dtype=bool)
        own = group[self.parts[:, 0]].astype(np.int64)
        kinds = np.unique(np.column_stack([self.stratum, own]), axis=0)
        return np.asarray(np.bincount(kinds[:, 0], minlength=int(self.stratum.max()) + 1)[self.stratum] == 1)


@dataclass(frozen=True, slots=True)
class Patterns:
    """Who is in which groups. part: (n_rows,) of each row; group: (n_parts,) codes; classes: users by their number of groups."""

    part: Ints
    group: Groups
    classes: tuple[Class, ...]

    def deal(self, rng: np.random.Generator) -> Groups:
        """The group of every row, (n_rows,), after the groups were dealt out anew."""
        dealt = self.group.copy()
        for users in self.classes:
            given = self.group[users.parts[_shuffle(users.stratum, rng)]]
            dealt[users.parts] = rng.permuted(given, axis=1)
        return dealt[self.part]

    @property
    def n_users(self) -> int:
        """Users, each counted once."""
        return sum(len(users.parts) for users in self.classes)

    @property
    def n_spanning(self) -> int:
        """Users in more than one group."""
        return sum(len(users.parts) for users in self.classes if users.parts.shape[1] > 1)

    @property
    def n_fixed(self) -> int:
        """Users who keep their group in every deal."""
        return sum(int(users.fixed(self.group).sum()) for users in self.classes)

    @property
    def n_strata(self) -> int:
        """Strata of scores; 1 when users are dealt with as a whole."""
        return max(len(np.unique(users.stratum)) for users in self.classes)


def _shuffle(stratum: Ints, rng: np.random.Generator) -> Ints:
    """Whose groups each user gets, (n_users,): a random permutation inside every stratum."""
    order = np.empty(len(stratum), dtype=np.int64)
    order[np.argsort(stratum, kind="stable")] = np.lexsort((rng.random(len(stratum)), stratum))
    return order


def find_patterns(observations: Observations, within: str | None) -> Patterns:
    """The patterns of these rows; codes of users are 0, 1, 2, ..."""
    n_groups = len(observations.groups)
    key = observations.users.codes.astype(np.int64) * n_groups + observations.group
    distinct, part = np.unique(key, return_inverse=True)
    group = (distinct % n_groups).astype(np.uint8)
    patterns = Patterns(part, group, tuple(_classes(distinct // n_groups)))
    if within == "score":
        patterns = Patterns(part, group, (_by_score(observations, patterns),))
    if patterns.n_fixed == patterns.n_users:
        raise DataError(_nothing_to_deal(within))
    return patterns


def _classes(user: Ints) -> Iterator[Class]:
    """Users by their number of groups, from the user of each part, ascending."""
    per_user = np.bincount(user)
    of_part = per_user[user]
    for n_groups in np.unique(per_user[per_user > 0]):
        parts = np.flatnonzero(of_part == n_groups).reshape(-1, n_groups)
        yield Class(parts, np.zeros(len(parts), dtype=np.int64))


def _by_score(observations: Observations, patterns: Patterns) -> Class:
    """Users with one row each, in strata of their scores."""
    if len(patterns.part) != patterns.n_users:
        raise DataError(
            f"within='score' needs one row a user, and these are {len(patterns.part):,} rows of {patterns.n_users:,} users: "
            "several rows have several scores. Leave out within=, or keep one row of each user"
        )
    (users,) = patterns.classes
    score = np.empty(len(patterns.part))
    score[patterns.part] = observations.score
    return Class(users.parts, score_strata(score[users.parts[:, 0]], patterns.group[users.parts[:, 0]]))


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
    return "all users are in the same group, so there is nothing to deal out; a placebo needs users of two groups"
