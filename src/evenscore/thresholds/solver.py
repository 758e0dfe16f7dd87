"""Thresholds with equal outcomes, as arithmetic: one unknown outcome v, and for each group the score at which its curve reaches v.

Everything runs along *strictness*, which rises with the score when the positive decision is above the threshold and falls with it
otherwise, and outcomes are signed so that they rise with strictness. Raising the bar is then always to the right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenscore.marginal.cut import Cut
from evenscore.ratios import ratio
from evenscore.types import Floats

FINE = np.linspace(0.0, 1.0, 33)
COARSE = np.linspace(0.0, 1.0, 65)
REFINEMENTS = 3  # of an interval into 32 each: to a thirty-thousandth


@dataclass(frozen=True, slots=True)
class Ladder:
    """One group's people along strictness.

    knot: (k,) ascending, where the outcome is known, straight lines between; share: of all people that are in the group. edge,
    beyond: (m,), the share of the group's people with the positive decision for a cut at each edge, linear between. steps: scores
    are few values, knots are their ranks, and a cut is a whole number: values of that rank or higher get the positive decision.
    """

    knot: Floats
    edge: Floats
    beyond: Floats
    share: float
    now: float
    steps: bool = False

    def at(self, cut: Cut) -> Ladder:
        """The same people with another present threshold."""
        if not self.steps:
            return replace(self, now=cut.sign * cut.threshold)
        return replace(self, now=float(cut.first if cut.sign > 0 else cut.lattice.n_cells - cut.first))

    def rate(self, cut: Floats) -> Floats:
        """The share of the group's people with the positive decision."""
        return np.interp(cut, self.edge, self.beyond)

    def reach(self, value: Floats, v: Floats, *, last: bool = False) -> Floats:
        """The least strict cut at which the outcome is at least v (with ``last``: the most strict at which it is not above v).

        value: (k,) outcomes at the knots, never falling; v: (n,). Beyond what is seen: the end of it.
        """
        knot = np.searchsorted(value, v, side="right" if last else "left")
        if self.steps:
            return knot.astype(np.float64)
        top = len(value) - 1
        if not last:  # above all outcomes the nearest is the highest one, from where it is first reached
            knot = np.where(knot > top, np.searchsorted(value, value[-1], side="left"), knot)
            v = np.minimum(v, value[-1])
        right = np.minimum(np.maximum(knot, 1), top) if top else np.zeros_like(knot)
        left = np.maximum(right - 1, 0)
        below = value[left]
        rise = value[right] - below
        share = ratio(v - below, rise, 1.0)
        start = self.knot[left]
        cut = start + np.minimum(np.maximum(share, 0), 1) * (self.knot[right] - start)
        return np.where(knot == 0, self.knot[0], np.where(knot > top, self.knot[-1], cut))

    def outcome(self, value: Floats, cut: float) -> float:
        """The outcome at a cut; for steps that of the marginal value."""
        return float(np.interp(min(cut, len(value) - 1) if self.steps else cut, self.knot, value))


def solve(
    ladders: Sequence[Ladder], values: Sequence[Floats], strategy: str, target: float | None, *, fine: bool = True
) -> tuple[Floats, float]:
    """The cut of each group, (n_groups,), and the outcome v that they share.

    target: the signed outcome for "target". fine: to the last digit, which draws for an interval do not need.
    """
    if strategy == "rate":
        return same_rate(ladders, values, fine=fine)
    now = np.array([ladder.now for ladder in ladders])
    at_now = [ladder.outcome(value, ladder.now) for ladder, value in zip(ladders, values, strict=True)]
    v = max(at_now) if strategy == "raise" else min(at_now) if strategy == "lower" else target
    assert v is not None
    cuts = np.array([_reach(ladder, value, v) for ladder, value in zip(ladders, values, strict=True)])
    if strategy == "raise":  # also where the curve is level: the group that sets the standard stays
        cuts = np.where(np.array(at_now) >= v, now, np.maximum(cuts, now))
    if strategy == "lower":
        cuts = np.where(np.array(at_now) <= v, now, np.minimum(cuts, now))
    return cuts, v


def _reach(ladder: Ladder, value: Floats, v: float) -> float:
    return float(ladder.reach(value, np.array([v]))[0])


def same_rate(ladders: Sequence[Ladder], values: Sequence[Floats], *, fine: bool = True) -> tuple[Floats, float]:
    """Equal outcomes and sum_g p_g (1 - F_g(t_g)) = sum_g p_g (1 - F_g(t)), the overall rate of positive decisions.

    The rate falls as v rises. Candidates for v are the outcomes at the knots; between two of them all cuts move in straight
    lines, and at a level stretch of a curve any cut has the outcome v, so that the rate decides where in it.
    """
    share = np.array([ladder.share for ladder in ladders])
    wanted = float(sum(ladder.share * ladder.rate(np.array([ladder.now]))[0] for ladder in ladders))

    def rates(cuts: Floats) -> Floats:
        return np.asarray(share @ np.array([ladder.rate(cut) for ladder, cut in zip(ladders, cuts, strict=True)]))

    def cuts_at(v: Floats, last: bool = False) -> Floats:
        return np.array([ladder.reach(value, v, last=last) for ladder, value in zip(ladders, values, strict=True)])

    if not fine and not ladders[0].steps:
        low, high = min(value[0] for value in values), max(value[-1] for value in values)
        cuts = cuts_at(low + COARSE * (high - low))
        return _between(cuts, rates(cuts), wanted), np.nan
    outcomes = np.unique(np.concatenate(values))
    if any(ladder.steps for ladder in ladders):
        outcomes = np.append(outcomes, np.inf)
        nearest = int(np.argmin(np.abs(rates(cuts_at(outcomes)) - wanted)))
        return cuts_at(outcomes)[:, nearest], float(min(outcomes[nearest], outcomes[-2]))
    after = rates(cuts_at(outcomes, last=True))
    number = min(int(np.searchsorted(-after, -wanted)), len(outcomes) - 1)
    first, last = cuts_at(outcomes[[number]]), cuts_at(outcomes[[number]], last=True)
    if rates(first)[0] >= wanted or number == 0:
        moved = first + FINE * (last - first)
        return _between(moved, rates(moved), wanted), float(outcomes[number])
    low, high = float(outcomes[number - 1]), float(outcomes[number])
    for _ in range(REFINEMENTS):
        v = low + FINE * (high - low)
        cuts = cuts_at(v)
        cuts[:, 0] = cuts_at(v[:1], last=True)[:, 0]
        reached = rates(cuts)
        step = int(np.clip(np.searchsorted(-reached, -wanted), 1, len(v) - 1))
        low, high = float(v[step - 1]), float(v[step])
    way = _share(reached[step - 1], reached[step], wanted)
    return cuts[:, step - 1] + way * (cuts[:, step] - cuts[:, step - 1]), low + way * (high - low)


def _between(cuts: Floats, rates: Floats, wanted: float) -> Floats:
    """Where along a path of cuts, (n_groups, n), the falling rates reach the wanted one."""
    step = min(max(int(np.searchsorted(-rates, -wanted)), 1), len(rates) - 1)
    share = _share(float(rates[step - 1]), float(rates[step]), wanted)
    return cuts[:, step - 1] + share * (cuts[:, step] - cuts[:, step - 1])


def _share(before: float, after: float, wanted: float) -> float:
    return min(max((before - wanted) / (before - after), 0.0), 1.0) if before > after else 0.0
