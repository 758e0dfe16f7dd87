"""Metrics of groups compared: differences and ratios with limits, p-values adjusted for all of them at once, verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.decisions.rate_laws import Levels, difference_limits, ratio_limits
from evenscore.decisions.rates import ABOUT, OPPOSITE
from evenscore.estimation.inference import DRAWS, RESOLVED, draw_normal, normal_quantile, seeded
from evenscore.estimation.multiplicity import single_step
from evenscore.estimation.pairwise import POWER
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY
from evenscore.marginal.levels import Differences
from evenscore.parity.joint import FEWEST_DRAWS, MOST_DRAWN
from evenscore.ratios import ratio
from evenscore.tables import label_text
from evenscore.types import Floats, Ints, Mask
from evenscore.wording import p_text

NUMBERS = (
    *("difference", "difference_low", "difference_high", "ratio", "ratio_low", "ratio_high", "p_value", "p_adjusted", "p_equal"),
    *("detectable_difference", "band_low", "band_high", "ratio_band_low", "ratio_band_high"),
)


@dataclass(frozen=True, slots=True)
class Comparing:
    """What is compared and how: groups by their positions, two by two, and every metric.

    present, usable: (n,), the levels that there are, and those that have limits.
    """

    labels: Sequence[Any]
    metrics: Sequence[str]
    chosen: Sequence[tuple[int, int]]
    levels: Levels
    present: Mask
    usable: Mask
    alpha: float
    tolerance: float | None
    seed: int

    def places(self) -> tuple[Ints, Ints]:
        """Where the two levels of each comparison stand: one metric after the other for each pair."""
        n = len(self.metrics)
        a, b = (np.array([pair[side] for pair in self.chosen], dtype=np.int64) for side in (0, 1))
        metric = np.arange(n)
        return (a[:, None] * n + metric).ravel(), (b[:, None] * n + metric).ravel()

    def distinct(self) -> Mask:
        """Comparisons that are hypotheses of their own, (n_pairs n_metrics,): the fnr says what the tpr says."""
        own = [OPPOSITE.get(metric) not in self.metrics for metric in self.metrics]
        return np.tile(own, len(self.chosen))


def critical_value(levels: Levels, left: Ints, right: Ints, alpha: float, seed: int) -> tuple[float, Floats]:
    """How many normal quantiles all differences at once stay within, and the draws of the largest, (n_draws,)."""
    n_draws = int(np.clip(MOST_DRAWN // max(len(left), 1), FEWEST_DRAWS, DRAWS))
    variance = levels.side.law.variance
    scale = np.sqrt(np.where(np.isfinite(variance), np.maximum(variance, 0), 0.0))
    covariance = levels.corr * np.outer(scale, scale)
    noise = draw_normal(covariance, seeded(seed, 20), n_draws) if scale.any() else np.zeros((n_draws, len(scale)))
    own = np.diag(covariance)
    spread = own[left] + own[right] - 2 * covariance[left, right]
    largest = np.zeros(n_draws)
    for i, j, size in zip(left, right, np.sqrt(np.maximum(spread, 0)), strict=True):
        if size > 1e-9 * max(scale[i], scale[j]):
            np.maximum(largest, np.abs(noise[:, i] - noise[:, j]) / size, out=largest)
    return max(float(np.quantile(largest, 1 - alpha)), normal_quantile(alpha)), largest


def compare(asked: Comparing) -> tuple[list[dict[str, Any]], str]:
    """One row for each pair of groups and metric, and how p-values were adjusted."""
    if not asked.chosen:
        return [], "nothing, there is nothing to compare"
    left, right = asked.places()
    known = asked.usable[left] & asked.usable[right]
    own = known & asked.distinct()
    critical, largest = critical_value(asked.levels, left[own], right[own], asked.alpha, asked.seed)
    columns = {name: np.full(len(left), np.nan) for name in NUMBERS}
    present = asked.present[left] & asked.present[right]  # also what has no limits
    estimates = asked.levels.differences(left[present], right[present])
    columns["difference"][present] = estimates.size
    columns["ratio"][present] = _ratio(estimates)
    if known.any():
        for name, values in _numbers(asked.levels.differences(left[known], right[known]), asked, critical).items():
            columns[name][known] = values
        columns["p_adjusted"][known], how = _adjusted(columns["p_value"][known], own[known], largest)
    else:
        how = "nothing, there is nothing to compare"
    _copy_opposites(columns, asked)
    rows = []
    for number, row in enumerate(zip(*(values.tolist() for values in columns.values()), strict=True)):
        pair, metric = divmod(number, len(asked.metrics))
        a, b = (asked.labels[index] for index in asked.chosen[pair])
        rows.append(_row(a, b, asked.metrics[metric], dict(zip(columns, row, strict=True)), asked))
    return rows, how


def _ratio(differences: Differences[Levels]) -> Floats:
    """The estimate on the left over that on the right; over 0 there is none."""
    level = differences.levels.level
    bottom = level[differences.right]
    return ratio(level[differences.left], bottom, np.nan)


def _numbers(differences: Differences[Levels], asked: Comparing, critical: float) -> dict[str, Floats]:
    """What the rows say of comparisons that have limits, by column; (n,) each."""
    from scipy import special

    z, tolerance = normal_quantile(asked.alpha), asked.tolerance
    # Rates of 0 or 1 in both groups vary in nothing, and nothing is against their being equal.
    with np.errstate(invalid="ignore"):
        p_equal = np.where(np.isnan(differences.p_equal), 1.0, differences.p_equal)
    p_value = p_equal
    if tolerance is not None:
        excess = differences.shown.excess(tolerance)
        p_value = np.where(excess > 0, np.fmax(2 * special.ndtr(-excess), p_equal), 1.0)
    (low, high), (ratio_low, ratio_high) = pair_limits(differences, z)
    (band_low, band_high), (ratio_band_low, ratio_band_high) = pair_limits(differences, critical)
    level = 2 * float(special.ndtr(-critical))
    return {
        "difference": differences.size,
        "difference_low": low,
        "difference_high": high,
        "ratio": _ratio(differences),
        "ratio_low": ratio_low,
        "ratio_high": ratio_high,
        "p_value": p_value,
        "p_adjusted": p_value,
        "p_equal": p_equal,
        "detectable_difference": differences.detectable(level) + (tolerance or 0.0),
        "band_low": band_low,
        "band_high": band_high,
        "ratio_band_low": ratio_band_low,
        "ratio_band_high": ratio_band_high,
    }


def pair_limits(differences: Differences[Levels], z: float) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Limits of differences, and of ratios, at z normal quantiles."""
    level, together = differences.levels.level, differences.together
    low, high = differences.levels.limits(z)
    left, right = ((level[side], low[side], high[side]) for side in (differences.left, differences.right))
    return difference_limits(left, right, together), ratio_limits(left, right, together)


def _adjusted(p_values: Floats, own: Mask, largest: Floats) -> tuple[Floats, str]:
    from scipy import special

    adjusted = p_values.copy()
    if own.sum() < 2:
        return adjusted, "nothing, there is one comparison"
    adjusted[own], complete = single_step(p_values[own], 2 * special.ndtr(-largest), RESOLVED)
    how = "joint draws of all comparisons"
    return adjusted, how if complete else how + ", far tails by Holm's method"


def _copy_opposites(columns: dict[str, Floats], asked: Comparing) -> None:
    """The fnr and the tnr are the same hypotheses as the tpr and the fpr."""
    size = len(asked.metrics)
    for metric, twin in OPPOSITE.items():
        if metric in asked.metrics and twin in asked.metrics:
            to, of = (list(asked.metrics).index(name) for name in (metric, twin))
            for name in ("p_value", "p_adjusted", "p_equal", "detectable_difference"):
                columns[name][to::size] = columns[name][of::size]


def _row(a: Any, b: Any, metric: str, numbers: dict[str, float], asked: Comparing) -> dict[str, Any]:
    verdict, reason = _verdict(a, b, metric, numbers, asked)
    return {"group_a": a, "group_b": b, "metric": metric, **numbers, "verdict": verdict, "reason": reason}


def _verdict(a: Any, b: Any, metric: str, numbers: dict[str, float], asked: Comparing) -> tuple[str, str]:
    if np.isnan(numbers["p_adjusted"]):
        return INCONCLUSIVE, f"one of the two groups has no {ABOUT[metric]}, or there are no limits for it"
    higher, lower = (a, b) if numbers["difference"] > 0 else (b, a)
    size, tolerance = abs(numbers["difference"]), asked.tolerance
    if numbers["p_adjusted"] <= asked.alpha:
        beyond = "" if tolerance is None else f", beyond the tolerance {tolerance:g}"
        words = f"{metric} of {label_text(higher)} is {size:.3g} above that of {label_text(lower)}{beyond}"
        return DISPARITY, f"{words} (adjusted p = {p_text(numbers['p_adjusted'])})"
    if tolerance is not None and -tolerance < numbers["band_low"] and numbers["band_high"] < tolerance:
        return PARITY, f"all differences between {numbers['band_low']:.3g} and {numbers['band_high']:.3g}, within {tolerance:g}"
    detectable = numbers["detectable_difference"]
    return INCONCLUSIVE, f"not shown; a difference of {detectable:.3g} would have been found with probability {POWER:g}"
