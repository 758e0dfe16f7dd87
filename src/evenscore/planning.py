"""Planning: how many users a gap needs, or the smallest gap that the users at hand can show."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from evenscore.decisions.detecting import detectable_differences
from evenscore.decisions.rates import METRICS
from evenscore.engines.data_or_tally import DataColumns, as_tally, given_tally
from evenscore.errors import DataError, OptionError, require_alpha, require_gap, require_number, require_option
from evenscore.estimation.comparison import Comparison, compare_groups
from evenscore.estimation.gaps import Judged, Look, estimate, judgeable, tame
from evenscore.estimation.grids import comparison_grid
from evenscore.estimation.inference import CommonNormals
from evenscore.estimation.nulls import Null
from evenscore.estimation.pairwise import POWER
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.verdict import largest
from evenscore.parity.methods import AUTO, METHODS, components_of, detectable_gaps, draw, gather, kinds_of
from evenscore.simulation import simulate
from evenscore.tables import Table, json_ready, label_text
from evenscore.tallies.reshaping import change_sums
from evenscore.tallies.tally_state import Tally, require_groups
from evenscore.tallies.two_way import require_enough
from evenscore.threads import in_one_thread
from evenscore.wording import number_text

DRAWS = 4000  # the same for every number of users, so that the gap falls as users grow
MODEL_USERS = 4000  # users of the simulated stand-in when there is no tally; its sums are scaled afterwards
MOST_USERS = 1e9  # a gap that needs more cannot be planned
HALVINGS = 60  # of a ratio on the scale of logarithms; a dozen do
BETA = (2, 2)  # of scores that are assumed

Smallest = Callable[[Any, Any, float], float]  # the gap that two groups show with so many times their users


@dataclass(frozen=True, slots=True)
class PlanPair:
    """Two groups: with this many users a constant gap of this size is found with the wanted probability."""

    group_a: Any
    group_b: Any
    users_a: float
    users_b: float
    gap: float


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Table):
    """The result of ``es.plan``.

    Examples
    --------
    >>> import evenscore as es
    >>> plan = es.plan(gap=0.1)
    >>> plan.rows()[0]["power"]
    0.8
    """

    pairs: tuple[PlanPair, ...]
    power: float
    alpha: float
    method: str
    source: str

    @property
    def users(self) -> dict[Any, int]:
        """Users of each group: enough for every pair that can be planned."""
        needed: dict[Any, float] = {}
        for pair in self.pairs:
            for group, users in ((pair.group_a, pair.users_a), (pair.group_b, pair.users_b)):
                needed[group] = max(needed.get(group, 0.0), users)
        return {group: int(np.ceil(users)) for group, users in needed.items() if np.isfinite(users)}

    @property
    def gap(self) -> float:
        """The gap that is found in every pair that can be planned."""
        return largest(pair.gap for pair in self.pairs)

    def rows(self) -> list[dict[str, Any]]:
        """One row a pair: users of both groups, gap, power."""
        return [
            {
                "group_a": pair.group_a,
                "group_b": pair.group_b,
                "users_a": _whole(pair.users_a),
                "users_b": _whole(pair.users_b),
                "gap": pair.gap,
                "power": self.power,
            }
            for pair in self.pairs
        ]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        names = ("power", "alpha", "method", "source", "gap", "users")
        return {name: json_ready(getattr(self, name)) for name in names} | {"pairs": json_ready(self.rows())}

    def _title(self) -> str:
        gap = "A difference" if self.method.startswith("decision_metrics") else "A constant gap"
        return f"{gap} of {number_text(self.gap)} is found with probability {self.power:g} at level {self.alpha:g}"

    def _notes(self) -> list[str]:
        unplanned = [f"{label_text(p.group_a)} and {label_text(p.group_b)}" for p in self.pairs if not np.isfinite(p.gap)]
        metric = self.method.startswith("decision_metrics")
        notes = [f"from {self.source}, method {self.method}" + ("" if metric else "; a gap at some scores only needs more users")]
        why = "a group has no rows that the metric is about" if metric else "the groups have too few users in common scores"
        return notes + [f"cannot be planned, {why}: {name}" for name in unplanned]


def _whole(users: float) -> int | None:
    return int(np.ceil(users)) if np.isfinite(users) else None


@in_one_thread
def plan(
    tally: Any = None,
    *,
    gap: float | None = None,
    users: int | None = None,
    power: float = POWER,
    alpha: float = 0.05,
    method: str = "auto",
    weighting: str = "user",
    rows_per_user: Any = 1,
    correlation: float = 0.0,
    outcome_rate: float = 0.5,
    score: Any = BETA,
    ratio: float = 1.0,
    metric: str | None = None,
    threshold: Any = None,
    positive: str = "above",
    seed: int = 0,
    **columns: Any,
) -> Plan:
    """The users needed to show a gap, or the smallest gap that can be shown.

    From a tally, whose users are taken as typical: twice the users have twice its sums. Or from assumptions: rows per user, how
    alike they are, and how common the outcome is.

    Parameters
    ----------
    tally
        What ``es.tally`` made, or data, if there are any already.
    columns
        With data: ``outcome=``, ``group=``, ``user=`` and what else ``es.tally`` takes; ``score`` then names the column.
    gap
        The gap to show: gives the users needed, in the proportions of the groups. Without it, the smallest gap is given.
    users
        Users in all to plan with; by default those of the tally.
    rows_per_user, correlation, outcome_rate, score, ratio
        Assumptions when there are no data: a number (or ``PoissonRows``, ``ParetoRows`` of ``evenscore.simulation``), the
        correlation of outcomes within a user, the mean outcome, the Beta parameters of the score, and users of the first group for
        each of the second.
    metric
        Plan for a difference in this metric of ``es.decision_metrics``, such as "tpr", instead of a gap between curves.
    threshold, positive
        With a metric: the score at which decisions change, and which side is selected; without data .5 by default.
    power, alpha
        How likely the gap should be found, and the level of the test.
    method, weighting, seed
        As for ``es.parity_test``.

    Returns
    -------
    Plan
        One row a pair of groups: users, gap and power.

    Examples
    --------
    >>> import evenscore as es
    >>> needed = es.plan(gap=0.05, rows_per_user=4, correlation=0.5)
    >>> 1000 < sum(needed.users.values()) < 10_000
    True
    """
    require_option("method", method, ("auto", *METHODS))
    require_alpha(alpha)
    power = require_number("power", power, 0, 1, open_low=True, open_high=True)
    require_gap("gap", gap)
    if users is not None:
        require_number("users", users, 2)
    if gap is None and users is None and tally is None:
        raise OptionError("give a gap (to learn the users), users (to learn the gap), or a tally")
    if metric is not None:
        require_option("metric", metric, METRICS)
        if threshold is None and tally is not None:
            raise OptionError("metric= needs threshold=, the score at which decisions change")
        threshold = 0.5 if threshold is None else threshold
    name = AUTO if method == "auto" else method
    source = "assumptions" if tally is None else "the tally"
    if tally is None:
        tally = _assumed(rows_per_user, correlation, outcome_rate, score, ratio, seed)
    elif given_tally(tally) is None and score != BETA:
        columns["score"] = score
    tally = require_enough(as_tally(tally, cast(DataColumns, columns), call="plan", threshold=threshold))
    require_groups(tally)
    if source != "assumptions" and tally.item is not None:
        source += f", with more values of {tally.item} in the same measure as more users"
    if sum(tally.n_users.values()) == 0:
        raise DataError("the tally has no labelled rows: there is nothing to plan from")
    chosen = list(itertools.combinations(tally.groups, 2))
    level = alpha / len(chosen)
    if metric is None:

        def smallest(a: Any, b: Any, factor: float) -> float:
            comparison = compare_groups(_scaled(tally, factor), a, b, weighting)
            return _smallest_gap(comparison, name, alpha=level, power=power, seed=seed)

    else:
        name = f"decision_metrics, {metric}"
        differences = detectable_differences(tally, metric, threshold, positive, weighting)

        def smallest(a: Any, b: Any, factor: float) -> float:
            return differences((tally.index(a), tally.index(b)), factor, level, power)

    pairs = tuple(_plan_pair(tally, a, b, smallest, gap, users) for a, b in chosen)
    return Plan(pairs, power, alpha, name, source)


def _plan_pair(tally: Tally, a: Any, b: Any, smallest: Smallest, gap: float | None, users: int | None) -> PlanPair:
    """Two groups with the users that a gap needs, or with so many users in all; of neither, with those of the tally."""
    total = sum(tally.n_users.values())
    factor = 1.0 if users is None else users / total
    if gap is not None:
        factor = _needed(lambda times: smallest(a, b, times), gap, total)
    reached = smallest(a, b, factor) if np.isfinite(factor) else np.nan
    return PlanPair(a, b, tally.n_users[a] * factor, tally.n_users[b] * factor, reached)


def _assumed(rows_per_user: Any, correlation: float, rate: float, score: Any, ratio: float, seed: int) -> Tally:
    """The tally of simulated users that are as assumed."""
    from evenscore.engines import tally

    rate = require_number("outcome_rate", rate, 0, 1, open_low=True, open_high=True)
    ratio = require_number("ratio", ratio, 0, open_low=True)
    first = max(50, int(MODEL_USERS * ratio / (1 + ratio)))
    spec = simulate(
        {"a": first, "b": max(50, MODEL_USERS - first)},
        score=score,
        curve=(float(np.log(rate / (1 - rate))), 0.0),
        rows_per_user=rows_per_user,
        outcome_correlation=correlation,
    )
    return tally(spec.data(seed), score="score", outcome="outcome", group="group", user="user")


def _scaled(tally: Tally, factor: float) -> Tally:
    """The tally of ``factor`` times as many users like these."""
    scaled = change_sums(tally, lambda sums: sums.scaled(factor))
    groups = tuple(
        replace(group, n_users=max(1, round(group.n_users * factor)), n_rows=max(1, round(group.n_rows * factor)))
        for group in scaled.group_tallies
    )
    return replace(scaled, group_tallies=groups)


def _smallest_gap(comparison: Comparison, method: str, *, alpha: float, power: float, seed: int) -> float:
    """The gap that is found with the wanted power; infinite when nothing can be judged."""
    if not (comparison.a.n_rows and comparison.b.n_rows):
        return np.inf
    smoothing = comparison.settle(Smoothing())
    comparison = comparison.joined(smoothing.h)
    points, reason = comparison_grid(comparison, smoothing.h)
    if reason is not None:
        return np.inf
    look = Look(comparison, points, smoothing, Null.of(comparison, smoothing))
    (estimates,) = estimate([look], *kinds_of(components_of(method)))
    keep = tame(estimates["gap"], judgeable(estimates["gap"], comparison))
    if not keep.any():
        return np.inf
    (evidence,) = gather(components_of(method), [Judged(look.at(keep), estimates, keep)])
    return float(detectable_gaps(method, [draw(evidence, CommonNormals(seed), DRAWS)], alpha, power)[0])


def _needed(smallest: Callable[[float], float], gap: float, total: int) -> float:
    """How many times the users are needed, by bisection; the smallest gap falls as users grow."""
    low, high = 20 / total, 1.0
    while smallest(high) > gap:  # at most 1 + log4(MOST_USERS / total) times
        low, high = high, high * 4
        if not high * total <= MOST_USERS:
            return np.nan
    for _ in range(HALVINGS):
        if not high / low > 1.01:
            break
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if smallest(middle) > gap else (low, middle)
    return high
