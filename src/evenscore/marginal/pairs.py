"""Pairs of groups at a threshold: gaps, p-values, adjustment and verdicts, all pairs at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.estimation.gaps import ROUNDING
from evenscore.estimation.inference import DRAWS, RESOLVED, draw_normal, seeded, welch_df, welch_t, welch_z
from evenscore.estimation.multiplicity import holm, single_step
from evenscore.estimation.pairwise import POWER
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY
from evenscore.marginal.boundary import Edge, shared_covariance
from evenscore.marginal.marginal_result import MarginalPair, why
from evenscore.parity.joint import FEWEST_DRAWS, MOST_DRAWN
from evenscore.tables import label_text
from evenscore.tallies.pairs import PairMatrices
from evenscore.types import Floats, Ints

Shared = dict[tuple[int, int], PairMatrices]


@dataclass(frozen=True, slots=True)
class Standing:
    """One group at the cut: the outcome there and the average beyond it, or why there is none; scatter: mean squared outcome."""

    group: Any
    edge: Edge | None
    average: Edge | None
    scatter: float
    reason: str = ""

    @property
    def judged(self) -> Edge | None:
        """The outcome at the cut when enough users are there."""
        return None if self.reason else self.edge


@dataclass(frozen=True, slots=True)
class Pairing:
    """Which groups are compared, by position, and how."""

    chosen: list[tuple[int, int]]
    alpha: float
    tolerance: float | None
    seed: int


@dataclass(frozen=True, slots=True)
class Gaps:
    """Differences of two groups' levels, (n_pairs,) each; nan where a group has none.

    size; variance and df around own fits; null_variance and null_df with a common level imposed.
    """

    size: Floats
    variance: Floats
    df: Floats
    null_variance: Floats
    null_df: Floats

    @property
    def p_equal(self) -> Floats:
        """P-values of no difference, with the null imposed."""
        from scipy import special

        with np.errstate(divide="ignore", invalid="ignore"):
            z = welch_z(self.size / np.sqrt(self.null_variance), self.null_df)
        return np.where(self.null_variance > 0, 2 * special.ndtr(-np.abs(z)), np.nan)


def differences(edges: Sequence[Edge | None], shared: Shared, left: Ints, right: Ints) -> Gaps:
    """Every pair's difference. Under the null both have the level of their mean, weighted by effective users, and own slopes.

    A group's variance is a quadratic in how far the null moves its level, so that pairs cost next to nothing.
    """
    level, base, users = (np.array([np.nan if e is None else value(e) for e in edges]) for value in (_level, _base, _users))
    quadratic = np.array([[np.nan] * 3 if edge is None else edge.moved_variance() for edge in edges])
    n_a, n_b = users[left], users[right]
    common = (n_a * base[left] + n_b * base[right]) / (n_a + n_b)
    estimates: list[Floats] = []
    for imposed in (False, True):
        variances = []
        for side in (left, right):
            own, linear, square = quadratic[side].T
            moved = common - base[side] if imposed else np.zeros(len(side))
            variances.append(np.maximum(own + linear * moved + square * moved**2, 0))
        cross = np.zeros(len(left))
        for number, (i, j) in enumerate(zip(left.tolist(), right.tolist(), strict=True)) if shared else ():
            a, b, pairs = edges[i], edges[j], shared.get((i, j))
            if a is not None and b is not None and pairs is not None:
                cross[number] = shared_covariance(pairs, a, b, float(common[number]) if imposed else None)
        df = welch_df(variances[0], n_a - 1, variances[1], n_b - 1)
        estimates += [np.maximum(variances[0] + variances[1] - 2 * cross, 0), df]
    return Gaps(level[left] - level[right], *estimates)


def _level(edge: Edge) -> float:
    return edge.level


def _base(edge: Edge) -> float:
    return float(edge.coefficients[0])


def _users(edge: Edge) -> float:
    return edge.effective_users


def student(alpha: float, df: Floats) -> Floats:
    """Two-sided Student quantiles; nan without degrees of freedom."""
    from scipy import special

    known = df > 0
    return np.where(known, welch_t(np.full(len(df), special.ndtri(1 - alpha / 2)), np.where(known, df, 1.0)), np.nan)


def compare(standings: Sequence[Standing], shared: Shared, higher: int, pairing: Pairing) -> tuple[tuple[MarginalPair, ...], str]:
    """Every chosen pair, adjusted for their number, with verdicts; higher: 1 when a higher outcome is the higher standard."""
    from scipy import special

    chosen, alpha, tolerance = pairing.chosen, pairing.alpha, pairing.tolerance
    left, right = np.array(chosen).T
    edges = [standing.judged for standing in standings]
    gaps = differences(edges, shared, left, right)
    averages = differences([standing.average for standing in standings], shared, left, right)
    scatter = np.array(
        [s.scatter / edge.effective_users if edge is not None else np.nan for s, edge in zip(standings, edges, strict=True)]
    )
    with np.errstate(invalid="ignore"):
        varies = np.minimum(gaps.variance, gaps.null_variance) > ROUNDING * (scatter[left] + scatter[right])
    p_equal = np.where(varies, gaps.p_equal, np.nan)
    se = np.sqrt(np.where(varies, gaps.variance, np.nan))
    margin = student(alpha, gaps.df) * se
    p_values = p_equal
    if tolerance is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = welch_z((np.abs(gaps.size) - tolerance) / se, gaps.df)
        p_values = np.where(np.isnan(p_equal), np.nan, np.where(excess > 0, 2 * special.ndtr(-excess), 1.0))
    adjusted, how = _adjust(edges, shared, left, right, p_values, pairing.seed)
    null_se = np.sqrt(np.where(varies, gaps.null_variance, np.nan))
    detectable = (student(alpha / len(chosen), gaps.null_df) + special.ndtri(POWER)) * null_se + (tolerance or 0.0)
    numbers = {
        "gap": gaps.size,
        "se": se,
        "ci_low": gaps.size - margin,
        "ci_high": gaps.size + margin,
        "p_value": p_values,
        "p_adjusted": adjusted,
        "p_equal": p_equal,
        "average_gap": averages.size,
        "p_average": averages.p_equal,
        "minimum_detectable_gap": detectable,
    }
    columns = {name: values.tolist() for name, values in numbers.items()}
    return tuple(
        _pair(standings[i], standings[j], {name: values[number] for name, values in columns.items()}, higher, alpha, tolerance)
        for number, (i, j) in enumerate(chosen)
    ), how


def _adjust(
    edges: Sequence[Edge | None], shared: Shared, left: Ints, right: Ints, p_values: Floats, seed: int
) -> tuple[Floats, str]:
    """Single-step adjusted p-values from joint draws of all groups' levels, as pairs share groups; nan stays."""
    from scipy import special

    judged = np.isfinite(p_values)
    if judged.sum() < 2:
        return p_values, "nothing, there is one pair"
    covariance = np.diag([0.0 if edge is None else edge.variance() for edge in edges])
    for (i, j), pairs in shared.items():
        a, b = edges[i], edges[j]
        if a is not None and b is not None:
            covariance[i, j] = covariance[j, i] = shared_covariance(pairs, a, b)
    n_draws = int(np.clip(MOST_DRAWN // len(left), FEWEST_DRAWS, DRAWS))
    noise = draw_normal(covariance, seeded(seed, 11), n_draws)
    variance = np.diag(covariance)
    spread = variance[left] + variance[right] - 2 * covariance[left, right]
    varied = judged & (spread > 0)  # groups of the same users may differ in nothing
    largest = np.zeros(n_draws)
    for i, j, size in zip(left[varied], right[varied], np.sqrt(spread[varied]), strict=True):
        np.maximum(largest, np.abs(noise[:, i] - noise[:, j]) / size, out=largest)
    adjusted = holm(p_values)
    adjusted[judged], complete = single_step(p_values[judged], 2 * special.ndtr(-largest), RESOLVED)
    how = "joint draws of all groups"
    return adjusted, how if complete else how + ", far tails by Holm's method"


def _pair(a: Standing, b: Standing, numbers: dict[str, Any], higher: int, alpha: float, tolerance: float | None) -> MarginalPair:
    """One pair with its verdict and why."""
    if a.judged is None or b.judged is None:
        reasons = [f"{label_text(side.group)}: {side.reason}" for side in (a, b) if side.reason]
        return MarginalPair(a.group, b.group, reason="; ".join(reasons), **numbers)
    first = numbers["gap"] * higher > 0
    group = a.group if first else b.group
    if np.isnan(numbers["p_value"]):
        reason = "the outcomes at the threshold do not vary, so there is nothing to compare"
        return MarginalPair(a.group, b.group, higher=group, reason=reason, **numbers)
    verdict = INCONCLUSIVE
    if numbers["p_adjusted"] <= alpha:
        verdict = DISPARITY
    elif tolerance is not None and -tolerance < numbers["ci_low"] and numbers["ci_high"] < tolerance:
        verdict = PARITY
    words = (a, b) if first else (b, a)
    labels = (label_text(words[0].group), label_text(words[1].group))
    reason = why(verdict, numbers, tolerance, labels)
    return MarginalPair(a.group, b.group, higher=group, verdict=verdict, reason=reason, **numbers)
