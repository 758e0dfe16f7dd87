"""Pairs of groups at a threshold: gaps, p-values, adjustment and verdicts, all pairs at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.estimation.gaps import ROUNDING, SKEWNESS
from evenscore.estimation.inference import DRAWS, RESOLVED, draw_normal, normal_quantile, seeded
from evenscore.estimation.multiplicity import holm, single_step
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY
from evenscore.marginal.boundary import Edge
from evenscore.marginal.levels import Differences, Levels, Shared
from evenscore.marginal.marginal_result import MarginalPair, why
from evenscore.parity.joint import FEWEST_DRAWS, MOST_DRAWN
from evenscore.tables import label_text
from evenscore.types import Floats, Mask

CONSTANT = "the outcomes at the threshold do not vary, so there is nothing to compare"
BENT = "the curve bends so fast within the bandwidth {:.3g} that it could make all of the gap; more users are needed"


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


def differences(
    edges: Sequence[Edge | None], pairs: Sequence[tuple[int, int]], shared: Shared
) -> tuple[Differences[Levels] | None, Mask]:
    """The gaps of those pairs of which both groups have a level, and which these are, (n_pairs,)."""
    known = [number for number, edge in enumerate(edges) if edge is not None]
    place = {number: position for position, number in enumerate(known)}
    both = np.array([i in place and j in place for i, j in pairs])
    if not both.any():
        return None, both
    left, right = np.array([(place[i], place[j]) for (i, j), kept in zip(pairs, both, strict=True) if kept]).T
    moved = {(place[i], place[j]): cross for (i, j), cross in shared.items() if i in place and j in place}
    levels = Levels.of([edge for edge in edges if edge is not None])
    return Differences.of(levels, left, right, moved), both


def compare(
    standings: Sequence[Standing], shared: Shared, bent: Mask, bandwidth: float, higher: int, pairing: Pairing
) -> tuple[tuple[MarginalPair, ...], str]:
    """Every chosen pair, adjusted for their number, with verdicts; higher: 1 when a higher outcome is the higher standard.

    bent: (n_pairs,), where the bend of a curve that both groups have could make the gap at this bandwidth.
    """
    chosen, alpha, tolerance = pairing.chosen, pairing.alpha, pairing.tolerance
    columns = {name: np.full(len(chosen), np.nan) for name in MarginalPair.NUMBERS}
    reasons = np.full(len(chosen), "", dtype=object)
    how = "nothing, there is one pair"
    averages, known = differences([standing.average for standing in standings], chosen, shared)
    if averages is not None:
        columns["average_gap"][known], columns["p_average"][known] = averages.size, averages.p_equal
    gaps, judged = differences([standing.judged for standing in standings], chosen, shared)
    if gaps is not None:
        reasons[judged] = _reasons(gaps, _scatter(standings, judged, chosen))
        reasons[judged & bent & (reasons == "")] = BENT.format(bandwidth)
        able = reasons[judged] == ""
        numbers = _numbers(gaps, alpha, len(chosen), tolerance)
        numbers |= {name: np.where(able, numbers[name], np.nan) for name in ("p_value", "p_equal", "minimum_detectable_gap")}
        numbers["p_adjusted"], how = _adjust(gaps, numbers["p_value"], pairing.seed)
        for name, values in numbers.items():
            columns[name][judged] = values
    rows = [dict(zip(columns, line, strict=True)) for line in zip(*(values.tolist() for values in columns.values()), strict=True)]
    pairs = [
        _pair(standings[i], standings[j], row, reason, higher, pairing)
        for (i, j), row, reason in zip(chosen, rows, reasons, strict=True)
    ]
    return tuple(pairs), how


def _scatter(standings: Sequence[Standing], judged: Mask, chosen: Sequence[tuple[int, int]]) -> Floats:
    """The variance that each judged pair's gap would have by its mean squared outcomes."""
    size = np.array([s.scatter / s.judged.effective_users if s.judged is not None else np.nan for s in standings])
    left, right = np.array(chosen)[judged].T
    return size[left] + size[right]


def _reasons(gaps: Differences[Levels], scatter: Floats) -> list[str]:
    """Why a gap cannot be judged, if so: nothing varies, or too little is known about how far chance takes it."""
    reasons = []
    skewed, constant = np.abs(gaps.null.skewness) > SKEWNESS[1], ~(gaps.null.variance > ROUNDING * scatter)
    thirds = [np.abs(side.law.third) for side in gaps.sides]
    for number, (i, j) in enumerate(zip(gaps.left.tolist(), gaps.right.tolist(), strict=True)):
        if constant[number]:
            reasons.append(CONSTANT)
        elif skewed[number]:
            index = i if thirds[0][number] >= thirds[1][number] else j
            reasons.append(_rare(gaps.levels.edges[index], float(gaps.common[number])))
        else:
            reasons.append("")
    return reasons


def _rare(edge: Edge, common: float) -> str:
    """That a group's level is too skewed to be judged."""
    if not edge.side.tally.binary:
        return f"outcomes too skewed for so few users of {edge.side.name} at the threshold"
    event = "event" if common < 0.5 else "outcome of 0"
    return f"fewer than 1 expected {event} in {edge.side.name} at the threshold, too few to judge it by"


def _numbers(gaps: Differences[Levels], alpha: float, n_pairs: int, tolerance: float | None) -> dict[str, Floats]:
    """What is known about gaps that can be judged, before their number is allowed for."""
    from scipy import special

    shown, p_equal = gaps.shown, gaps.p_equal
    low, high = shown.limits(normal_quantile(alpha))
    p_values = p_equal
    if tolerance is not None:
        excess = shown.excess(tolerance)
        p_values = np.where(np.isnan(p_equal), np.nan, np.where(excess > 0, np.fmax(2 * special.ndtr(-excess), p_equal), 1.0))
    return {
        "gap": gaps.size,
        "se": shown.errors,
        "ci_low": low,
        "ci_high": high,
        "p_value": p_values,
        "p_equal": p_equal,
        "minimum_detectable_gap": gaps.detectable(alpha / n_pairs) + (tolerance or 0.0),
    }


def _adjust(gaps: Differences[Levels], p_values: Floats, seed: int) -> tuple[Floats, str]:
    """Single-step adjusted p-values from joint draws of all groups' levels, as pairs share groups; nan stays."""
    from scipy import special

    judged = np.isfinite(p_values)
    if judged.sum() < 2:
        return p_values, "nothing, there is one pair"
    left, right = gaps.left, gaps.right
    covariance = _covariance(gaps)
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


def _covariance(gaps: Differences[Levels]) -> Floats:
    """Of all groups' levels, (n_groups, n_groups)."""
    variance = gaps.levels.variance
    covariance = np.diag(variance)
    shared = gaps.together * np.sqrt(variance[gaps.left] * variance[gaps.right])
    covariance[gaps.left, gaps.right] = covariance[gaps.right, gaps.left] = shared
    return covariance


def _pair(a: Standing, b: Standing, numbers: dict[str, Any], reason: str, higher: int, pairing: Pairing) -> MarginalPair:
    """One pair with its verdict and why."""
    tolerance = pairing.tolerance
    if a.judged is None or b.judged is None:
        reasons = [f"{label_text(side.group)}: {side.reason}" for side in (a, b) if side.reason]
        return MarginalPair(a.group, b.group, reason="; ".join(reasons), **numbers)
    first = numbers["gap"] * higher > 0
    group = a.group if first else b.group
    if reason:
        return MarginalPair(a.group, b.group, higher=group, reason=reason, **numbers)
    verdict = INCONCLUSIVE
    if numbers["p_adjusted"] <= pairing.alpha:
        verdict = DISPARITY
    elif tolerance is not None and -tolerance < numbers["ci_low"] and numbers["ci_high"] < tolerance:
        verdict = PARITY
    words = (a, b) if first else (b, a)
    labels = (label_text(words[0].group), label_text(words[1].group))
    return MarginalPair(a.group, b.group, higher=group, verdict=verdict, reason=why(verdict, numbers, tolerance, labels), **numbers)
