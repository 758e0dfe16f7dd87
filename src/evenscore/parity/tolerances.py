"""Gaps against a tolerance: its p-value, and which tolerances a gap is shown to exceed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenscore.estimation.bands import FARTHEST, STEPS, Differences, ShownGap
from evenscore.estimation.comparison import Comparison
from evenscore.estimation.inference import PValue, Singles, SupTail, sorted_p
from evenscore.estimation.multiplicity import CriticalP
from evenscore.parity.methods import Component, Evidence
from evenscore.types import Floats

GRID = 2**STEPS  # steps of normal quantiles, FARTHEST in all, in which an excess is found


@dataclass(frozen=True, slots=True)
class ToleranceTest:
    """The test of |gap| <= tolerance for one pair, at any tolerance.

    gaps: with limits; maxima: (draws,), ascending, of the largest |gap| in normal quantiles, the draws a simultaneous band rests
    on; tail: and far out; p_equal: of no gap at all, which knows the variance of both sides together; a tolerance cannot be easier
    to exceed.
    """

    gaps: Differences
    maxima: Singles
    tail: SupTail
    p_equal: float

    @classmethod
    def of(cls, shown: ShownGap, maxima: Floats, p_equal: float) -> ToleranceTest:
        """Without what makes the gaps: those of many pairs are kept until all are known."""
        return cls(shown.differences, np.sort(maxima.astype(np.float32)), SupTail.of(shown.corr), p_equal)

    def p_value(self, tolerance: float) -> PValue:
        """Of |gap| <= tolerance, by the largest excess."""
        return self._p_of(float(self.gaps.excess(tolerance).max()))

    def _p_of(self, excess: float) -> PValue:
        p = sorted_p(self.maxima, excess, self.tail) if excess > 0 else PValue(1.0, "draws")
        return PValue(max(p.value, self.p_equal), p.source)

    def exceeded(self, critical: float) -> float:
        """The tolerance below which the p-value is at most critical; -inf when it never is.

        ``excess`` is a multiple of FARTHEST / GRID, as large as one when a limit at so many quantiles lies beyond the tolerance.
        """
        if self.p_equal > critical:
            return -np.inf
        low, high = 0, GRID  # a p-value of no excess is 1, and no excess is as large as FARTHEST
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._p_of(middle * FARTHEST / GRID).value <= critical else (middle, high)
        if high == GRID:
            return -np.inf
        lower, upper = self.gaps.limits(high * FARTHEST / GRID)
        return float(np.maximum(lower, -upper).max())


def largest_gap(comparison: Comparison, shown: ShownGap) -> Evidence:
    """What the joint adjustment of many pairs needs of the largest gap that is shown."""
    corr = shown.corr
    return Evidence(
        comparison=comparison,
        components=(Component("sup", slice(0, len(corr)), np.ones(len(corr)), SupTail.of(corr)),),
        z=shown.values / shown.se,
        corr=corr,
        matrix_a=shown.matrix_a,
        matrix_b=shown.matrix_b,
        se_a=shown.side_a.law.se,
        se_b=shown.side_b.law.se,
    )


def exceeded_tolerances(tests: Sequence[ToleranceTest], critical: CriticalP) -> Floats:
    """For each pair the tolerance below which a disparity is shown among all pairs, (n,).

    As the tolerance falls, p-values fall, and Holm's method takes the pairs one after the other, each at a milder level.
    """
    if critical.own is not None:
        return np.array([test.exceeded(critical.own) for test in tests])
    exceeded, left, last = np.full(len(tests), -np.inf), list(range(len(tests))), np.inf
    while left:
        level = min(critical.alpha / len(left), critical.ceiling)
        reached = {index: tests[index].exceeded(level) for index in left}
        first = max(reached, key=reached.__getitem__)
        last = exceeded[first] = min(last, reached[first])
        left.remove(first)
    return exceeded
