"""How far chance may take rates, their differences and their ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from evenscore.decisions.rates import GroupRates, RateTable
from evenscore.estimation.inference import correlation
from evenscore.estimation.laws import stack
from evenscore.estimation.spreads import BORROWED_EVENTS, Dependence, RateLaw, common_correlation, rate_law
from evenscore.marginal.levels import Differences
from evenscore.ratios import ratio
from evenscore.types import Floats, Ints

Limited = tuple[Floats, Floats, Floats]  # a rate, its lower limit and its upper one


@dataclass(frozen=True)
class Levels:
    """Rates of groups, one metric after the other inside a group: n = groups times metrics, (n,) each; see ``Differences``.

    level: nan-free, 0 where a metric has no rows; effective: users that it rests on; cover: their covariance, (n, n).
    """

    level: Floats
    side: RateLaw
    effective: Floats
    cover: Floats
    scatter: None = None
    known_limits: dict[float, tuple[Floats, Floats]] = field(init=False, default_factory=dict, compare=False)

    def limits(self, z: float) -> tuple[Floats, Floats]:
        """Limits of each level at z normal quantiles, found once; of a rate of 0 or 1 one is exact."""
        if z not in self.known_limits:
            low, high = self.side.limits(self.level, z)
            self.known_limits[z] = np.where(self.level == 0, 0.0, low), np.where(self.level == 1, 1.0, high)
        return self.known_limits[z]

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """What rates may be."""
        return np.zeros_like(self.level), np.ones_like(self.level)

    @cached_property
    def corr(self) -> Floats:
        """How the estimates go together, (n, n)."""
        return correlation(self.cover)

    def differences(self, left: Ints, right: Ints) -> Differences[Levels]:
        """Pairs of estimates, left minus right."""
        return Differences(self, left, right, np.clip(self.corr[left, right], -1, 1))


def laws_of(groups: Sequence[GroupRates]) -> list[RateLaw]:
    """The law of each group's metrics; where a group has few events, its users' rows are as alike as those of all groups."""
    depend = [Dependence.of(group.around, group.matrix, np.nan_to_num(group.effective_users)) for group in groups]
    common = common_correlation(*depend)
    potential, most = (np.sum([getattr(side, name) for side in depend], axis=0) for name in ("potential", "most"))
    common = np.where((potential > 0) | ~(most > 1e-12), common, 1.0)  # no event at all: rows of a user may be all alike
    return [rate_law(side, common, BORROWED_EVENTS)[0] for side in depend]


def levels_of(table: RateTable) -> Levels:
    """The metrics of all groups."""
    groups = table.groups
    n = len(groups[0].about)
    cover = np.zeros((n * len(groups), n * len(groups)))
    for number, group in enumerate(groups):
        own = slice(number * n, (number + 1) * n)
        cover[own, own] = group.matrix @ group.around.residual @ group.matrix
    for (a, b), pairs in table.shared.items():
        residual = pairs.residual(groups[a].around.fit, groups[b].around.fit)
        part = groups[a].matrix @ residual @ groups[b].matrix
        cover[a * n : (a + 1) * n, b * n : (b + 1) * n] = part
        cover[b * n : (b + 1) * n, a * n : (a + 1) * n] = part.T
    return Levels(
        level=np.concatenate([group.around.fit for group in groups]),
        side=stack(laws_of(groups)),
        effective=np.concatenate([np.nan_to_num(group.effective_users) for group in groups]),
        cover=cover,
    )


def difference_limits(left_rate: Limited, right_rate: Limited, together: Floats) -> tuple[Floats, Floats]:
    """Limits of a difference from limits of both rates and their correlation (Newcombe 1998, Zou and Donner 2008)."""
    (a, low_a, high_a), (b, low_b, high_b) = left_rate, right_rate

    def joined(left: Floats, right: Floats) -> Floats:
        return np.sqrt(np.maximum(left**2 + right**2 - 2 * together * left * right, 0))

    return a - b - joined(a - low_a, high_b - b), a - b + joined(high_a - a, b - low_b)


def ratio_limits(left_rate: Limited, right_rate: Limited, together: Floats) -> tuple[Floats, Floats]:
    """Limits of a ratio from limits of both rates and their correlation (Donner and Zou 2012, equation 9).

    Written so that a rate of 0 needs no case of its own: over a rate that may be 0 there is no upper limit.
    """
    (a, low_a, high_a), (b, low_b, high_b) = left_rate, right_rate

    def root(low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
        top, bottom = low * (2 * a - low), high * (2 * b - high)
        middle = a * b - together * (a - low) * (high - b)
        return top, bottom, middle + np.sqrt(np.maximum(middle**2 - top * bottom, 0))

    top, _, below = root(low_a, high_b)
    lower = ratio(top, below)
    _, bottom, above = root(high_a, low_b)
    upper = ratio(above, bottom, np.inf)
    return np.maximum(lower, 0), upper
