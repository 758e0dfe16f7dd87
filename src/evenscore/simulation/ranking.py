"""Ranked items with a known truth: queries with items of several groups, scored alike or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from evenscore.errors import OptionError, require_count, require_number, require_option, require_sequence, require_text, shortened
from evenscore.simulation.distributions import Density, RowsPerUser, rows_of
from evenscore.simulation.drawing import Data, Specification, label_array
from evenscore.simulation.ingredients import Label, as_curve, as_density, as_rows, by_group, require_distinct
from evenscore.simulation.outcomes import BINARY, Curve, draw_outcomes
from evenscore.types import Floats

NODES = np.linspace(-6, 6, 1201)  # of an item's own latent score
HERMITE = 31  # nodes for what the items of a query have in common
LONGEST = 200  # items of a query up to which discounted exposure is added up exactly


@dataclass(frozen=True, slots=True, repr=False)
class RankingSimulation(Specification):
    """What ``simulate_ranking`` specifies; tuples are in the order of the groups.

    users: creators of items, by group. shares: how likely an item is of each group. Items of a query, and items of a creator, have
    correlated latent scores.
    """

    name: str
    queries: int
    items: RowsPerUser
    groups: tuple[Label, ...]
    shares: tuple[float, ...]
    users: tuple[int, ...]
    scores: tuple[Density, ...]
    curves: tuple[Curve, ...]
    query_correlation: float
    user_correlation: float
    outcome_correlation: float

    def __post_init__(self) -> None:
        require_text("name", self.name)
        require_count("queries", self.queries)
        require_distinct(self.groups)
        for label, users, share in zip(self.groups, self.users, self.shares, strict=True):
            require_count(f"users of group {shortened(label)}", users)
            require_number(f"share of group {shortened(label)}", share, 0, 1)
        if abs(sum(self.shares) - 1) > 1e-9:
            raise OptionError(f"the shares of the groups must add up to 1, not {sum(self.shares):g}")
        for name in ("query_correlation", "user_correlation", "outcome_correlation"):
            require_number(name, getattr(self, name), 0, 1, open_high=True)
        if self.query_correlation + self.user_correlation >= 1:
            raise OptionError("query_correlation and user_correlation together must stay below 1")

    @property
    def truth(self) -> RankingTruth:
        """What calibration would do to the ranks, without end of queries and creators."""
        return RankingTruth(self)

    def _draw(self, rng: np.random.Generator) -> Data:
        return _draw_items(self, rng)

    def __repr__(self) -> str:
        head = f"RankingSimulation: {self.name}, {self.queries:,} queries of {str(self.items).replace('row', 'item')}"
        lines = [
            f"  {label}: {share:.0%} of items, {users:,} creators, scores {density}, curve {curve}"
            for label, share, users, density, curve in zip(
                self.groups, self.shares, self.users, self.scores, self.curves, strict=True
            )
        ]
        return "\n".join([head, *lines])


def simulate_ranking(
    queries: int = 1000,
    *,
    items: RowsPerUser | int = 10,
    groups: Iterable[Label] = ("a", "b"),
    shares: Mapping[Any, float] | None = None,
    users: int | Mapping[Any, int] = 1000,
    score: Any = (2, 2),
    curve: Any = (0, 1),
    query_correlation: float = 0.0,
    user_correlation: float = 0.0,
    outcome_correlation: float = 0.0,
    name: str = "ranking",
) -> RankingSimulation:
    """Specify ranked items with a known truth.

    Parameters
    ----------
    queries, items
        How many queries, and items in each: a number, ``PoissonRows(mean)`` or ``ParetoRows(shape, cap)``.
    shares
        How likely an item is of each group; equal unless given.
    users
        Creators of items in each group, or a dict by group; an item's creator is drawn at random.
    score, curve
        As in ``es.simulate``: densities of scores and curves E(Y | S = s), one for all groups or a dict by group.
    query_correlation, user_correlation
        Of the latent scores of two items of a query, and of a creator.
    outcome_correlation
        Of the latent values behind the outcomes of a creator.
    groups, name
        Labels of the groups, and what the simulation is called.

    Returns
    -------
    RankingSimulation
        Frozen; ``.data(seed)`` draws items, ``.truth`` has the true changes of ranks.

    Examples
    --------
    >>> spec = simulate_ranking(100, items=5, curve={"a": (0, 1), "b": (-0.5, 1)})
    >>> {group: round(change, 3) for group, change in spec.truth.rank_change().items()}
    {'a': 0.252, 'b': -0.252}
    """
    labels = require_sequence("groups", groups)
    even = dict.fromkeys(labels, 1 / len(labels)) if labels else {}
    return RankingSimulation(
        name=name,
        queries=queries,
        items=as_rows(items),
        groups=labels,
        shares=tuple(by_group("shares", even if shares is None else shares, labels)),
        users=tuple(by_group("users", users, labels)),
        scores=tuple(map(as_density, by_group("score", score, labels))),
        curves=tuple(map(as_curve, by_group("curve", curve, labels))),
        query_correlation=query_correlation,
        user_correlation=user_correlation,
        outcome_correlation=outcome_correlation,
    )


def _draw_items(spec: RankingSimulation, rng: np.random.Generator) -> Data:
    n_items = rows_of(spec.items, rng.random(spec.queries))
    query = np.repeat(np.arange(spec.queries), n_items)
    group = np.searchsorted(np.cumsum(spec.shares)[:-1], rng.random(len(query)), side="right")
    first = np.concatenate([[0], np.cumsum(spec.users)[:-1]])
    user = first[group] + np.floor(rng.random(len(query)) * np.array(spec.users)[group]).astype(np.int64)
    own = 1 - spec.query_correlation - spec.user_correlation
    latent = np.sqrt(own) * rng.standard_normal(len(query))
    latent += np.sqrt(spec.query_correlation) * rng.standard_normal(spec.queries)[query]
    latent += np.sqrt(spec.user_correlation) * rng.standard_normal(sum(spec.users))[user]
    score, mean = np.empty(len(query)), np.empty(len(query))
    for place in range(len(spec.groups)):
        rows = np.flatnonzero(group == place)
        score[rows] = spec.scores[place].scores(latent[rows])
        mean[rows] = spec.curves[place].at(score[rows])
    outcome = draw_outcomes(
        rng, mean=mean, user=user, n_users=sum(spec.users), kind=BINARY, correlation=spec.outcome_correlation, scale=0.0
    )
    return {"query": query, "score": score, "outcome": outcome, "group": label_array(spec.groups)[group], "user": user}


# The truth: an item's rank in a query of m items is 1 plus a binomial number of better ones, given what the query has in common


@dataclass(frozen=True, slots=True)
class RankingTruth:
    """True changes when items are ranked by E(Y | S, G) instead of S, by group; positive is to the good of the group's items."""

    spec: RankingSimulation

    def curve(self, score: Any, group: Any) -> Floats:
        """E(Y | S = score) in the group."""
        require_option("group", group, self.spec.groups)
        return self.spec.curves[self.spec.groups.index(group)].at(score)

    def rank_change(self) -> dict[Any, float]:
        """E(rank by score - rank by calibrated score): how many positions an item would move up."""
        return self._mean_change(lambda n_items, beaten: -(n_items - 1) * beaten)

    def top_change(self, k: int) -> dict[Any, float]:
        """The change in an item's chance to be among the first k."""
        require_count("k", k)
        return self._mean_change(lambda n_items, beaten: special.bdtr(min(k, n_items) - 1, n_items - 1, beaten))

    def exposure_change(self) -> dict[Any, float]:
        """The change in an item's discounted exposure, E(1 / log2(1 + rank))."""
        return self._mean_change(_exposure)

    def _mean_change(self, gain: Any) -> dict[Any, float]:
        """The mean over items of gain(items, chance to be beaten) by calibrated score minus the same by score."""
        numbers, chances = self.spec.items.support()
        weight = np.diff(chances, prepend=0.0) * numbers  # an item is more likely to be of a long query
        known = weight > 1e-12 * weight.max()
        numbers, weight = numbers[known], weight[known] / weight[known].sum()
        total = np.zeros(len(self.spec.groups))
        for chance, common in _query_effects(self.spec.query_correlation):
            density = np.exp(-0.5 * (NODES - common) ** 2 / (1 - self.spec.query_correlation))
            density /= density.sum()
            before, after = self._beaten(density, calibrated=False), self._beaten(density, calibrated=True)
            for place in range(len(total)):
                for n_items, share in zip(numbers.tolist(), weight.tolist(), strict=True):
                    change = gain(n_items, after[place]) - gain(n_items, before[place])
                    total[place] += chance * share * float(density @ change)
        return dict(zip(self.spec.groups, total.tolist(), strict=True))

    def _beaten(self, density: Floats, calibrated: bool) -> list[Floats]:
        """For each group, the chance that another item of the query is better than an item at each node, (n_nodes,)."""
        spec = self.spec
        scores = [spec.scores[place].scores(NODES) for place in range(len(spec.groups))]
        values = [curve.at(score) for curve, score in zip(spec.curves, scores, strict=True)] if calibrated else scores
        better = [np.zeros(len(NODES)) for _ in values]
        for share, other in zip(spec.shares, values, strict=True):
            order = np.argsort(other, kind="stable")
            middle = np.cumsum(density[order]) - density[order] / 2
            for place, own in enumerate(values):
                better[place] += share * (1 - np.interp(own, other[order], middle, left=0, right=1))
        return [np.clip(chance, 0, 1) for chance in better]  # rounding may go beyond


def _query_effects(correlation: float) -> list[tuple[float, float]]:
    """Chances and latent levels of queries."""
    if correlation == 0:
        return [(1.0, 0.0)]
    nodes, weights = np.polynomial.hermite_e.hermegauss(HERMITE)
    return list(zip((weights / weights.sum()).tolist(), (np.sqrt(correlation) * nodes).tolist(), strict=True))


def _exposure(n_items: int, beaten: Floats) -> Floats:
    """E(1 / log2(1 + rank)) for a binomial number of better items."""
    if n_items > LONGEST:
        raise OptionError(f"a query with {n_items} items: exposure is known for at most {LONGEST}")
    ranks = np.arange(1, n_items + 1)
    at_most = special.bdtr(ranks[None, :] - 1, n_items - 1, beaten[:, None])
    return np.asarray(np.diff(at_most, axis=1, prepend=0.0) @ (1 / np.log2(1 + ranks)))
