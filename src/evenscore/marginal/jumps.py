"""Whether outcomes jump at a threshold within groups, as they do where the decision itself changes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evenscore.estimation.gaps import MAX_HIDDEN, SKEWNESS
from evenscore.estimation.inference import normal_quantile
from evenscore.estimation.multiplicity import holm
from evenscore.estimation.smoothing import Smoothing
from evenscore.marginal.bends import Bends
from evenscore.marginal.boundary import Edge, fit_edge
from evenscore.marginal.cut import Cut
from evenscore.marginal.levels import Differences, Levels
from evenscore.marginal.marginal_result import MIN_EFFECTIVE, Jump
from evenscore.tallies.view import GroupView
from evenscore.types import Ints

SHOWN = 2.0  # standard errors of a bend that keeps a jump from being judged
BENT = "bends so fast within the bandwidth that it could look like a jump"


def find_jumps(
    views: Sequence[GroupView], cuts: Sequence[Cut], everybody: GroupView, smoothing: Smoothing, alpha: float
) -> tuple[Jump, ...]:
    """Every group's outcome just inside its threshold minus that just outside (Hahn, Todd and Van der Klaauw 2001).

    everybody: all groups, on both sides. P-values are adjusted for the groups by Holm's method. Where a curve bends within
    the bandwidth that could look like a jump, and none is judged.
    """
    jumps = [_jump(view, cut, everybody, smoothing, alpha) for view, cut in zip(views, cuts, strict=True)]
    adjusted = holm([jump.p_value for jump in jumps])
    return tuple(replace(jump, p_value=float(p)) for jump, p in zip(jumps, adjusted, strict=True))


def _jump(view: GroupView, cut: Cut, everybody: GroupView, smoothing: Smoothing, alpha: float) -> Jump:
    inside, outside = (_edge(view, cut, cells, everybody, smoothing) for cells in (cut.inside, cut.outside))
    if inside is None or outside is None:
        side = "inside" if inside is None else "outside"
        reason = f"fewer than {MIN_EFFECTIVE} effective users with known outcomes just {side} the threshold"
        return Jump(view.label, reason=reason)
    gaps = Differences.of(Levels.of([inside, outside]), np.array([0]), np.array([1]), {(0, 1): view.pairs})
    shown = gaps.shown
    bent = [_bias(edge, cut, cells, everybody, smoothing) for edge, cells in ((inside, cut.inside), (outside, cut.outside))]
    if abs(bent[0] - bent[1]) > MAX_HIDDEN * gaps.null.se[0]:
        return Jump(view.label, float(gaps.size[0]), reason=f"the curve {BENT}")
    low, high = shown.limits(normal_quantile(alpha))
    if np.abs(gaps.null.skewness[0]) > SKEWNESS[1] or not gaps.null.variance[0] > 0:
        return Jump(view.label, float(gaps.size[0]), reason="too few events at the threshold to tell what chance may have done")
    return Jump(view.label, float(gaps.size[0]), float(shown.errors[0]), float(low[0]), float(high[0]), float(gaps.p_equal[0]))


def _bias(edge: Edge, cut: Cut, cells: Ints, everybody: GroupView, smoothing: Smoothing) -> float:
    """How far the level on one side is off because the curve bends, as far as that is shown."""
    there = everybody.only(cells)
    return float(Bends.of([edge], [cut], there.at(there.used), smoothing).shown(Levels.of([edge]), SHOWN)[0])


def _edge(view: GroupView, cut: Cut, cells: Ints, everybody: GroupView, smoothing: Smoothing) -> Edge | None:
    """The level at the cut of the people on one side; None when too few are there."""
    side, all_there = view.only(cells), everybody.only(cells)
    if not side.sums.W.any():
        return None
    edge = fit_edge(cut, side, smoothing, all_there.at(all_there.used))
    return edge if edge is not None and edge.effective_users >= MIN_EFFECTIVE else None
