"""What fair thresholds are solved on: each group's curve and people along strictness, and what else the curve might have been."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from evenscore.calibration.fit import Fit, bound
from evenscore.calibration.kernel_map import KernelMap
from evenscore.calibration.maps import knot_weights
from evenscore.calibration.rising import nearest_rising
from evenscore.calibration.stacking import interpolation
from evenscore.estimation.fitted_curves import within_users
from evenscore.estimation.inference import draw_normal, small_sample
from evenscore.estimation.kernels import smoother
from evenscore.estimation.one_side import side_spread
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.spreads import BORROWED_EVENTS, SideLaw, effective_users, rate_spread
from evenscore.marginal.boundary import edge_smoothing
from evenscore.marginal.cut import Cut
from evenscore.ratios import ratio
from evenscore.tallies.view import GroupView
from evenscore.thresholds.solver import Ladder
from evenscore.types import Floats, Ints

DRAWS = 300  # of the curves, each of which is solved
QUANTILES = np.linspace(0.0, 4.0, 13)  # normal ones, at which limits are worked out
UNSEEN_KNOTS = 16  # of a straight line, for people whose outcomes nobody knows
SLOPE_WIDTH = 3.0  # a slope needs more room than a level: bandwidths of the marginal test


@dataclass(frozen=True, slots=True)
class Together:
    """What all groups say together, found when it is first asked for: ``pooled``, the curve of all; ``alike``, the correlation of
    a user's 0/1 outcomes."""

    pooled: Callable[[], Fit]
    alike: Callable[[], float]

    @classmethod
    def of(cls, views: Sequence[GroupView], smoothing: Smoothing) -> Together:
        """Of these groups, which are all of the tally."""
        return cls(
            cache(lambda: KernelMap(smoothing).fit(GroupView.whole(views[0].tally, views[0].weighting))),
            cache(lambda: within_users(views)),
        )


@dataclass(frozen=True, eq=False)
class Rung:
    """One group ready to be solved: its ladder and outcomes at the knots, signed along strictness; how sure these are when asked.

    fit: the curve as the calibrator fits it; order: (k,), its knots along strictness; value: (k,) its values there; weight: (k,) of
    people near a knot; seen: the least strict cut at which outcomes are known; level: value made monotone; remark: why nothing can
    be said beyond it.
    """

    view: GroupView
    ladder: Ladder
    fit: Fit
    order: Ints
    value: Floats
    weight: Floats
    seen: float
    level: Floats
    together: Together
    remark: str = ""

    @property
    def side(self) -> SideLaw:
        """How the values are distributed, without their sign."""
        return self._spread[0]

    @property
    def corr(self) -> Floats:
        """How they go together, (k, k)."""
        return self._spread[1]

    @property
    def scatter(self) -> Floats:
        """What outcomes scatter around, (n_cells,)."""
        return self._scattered[0]

    @cached_property
    def matrix(self) -> Floats:
        """What makes the values of outcome sums, (k, n_cells)."""
        return (self.fit.matrix / (self.fit.matrix @ self.view.sums.W)[:, None])[self.order]

    @cached_property
    def _spread(self) -> tuple[SideLaw, Floats]:
        scatter, at_knots = self._scattered
        return side_spread(self.view, self.matrix, scatter, at_knots[self.order], self.together.alike())

    @cached_property
    def _scattered(self) -> tuple[Floats, Floats]:
        """What outcomes scatter around, at the cells and at the knots of the fit.

        Few events of 0/1 outcomes say little about how many others there might have been: a curve is moved towards that of all
        groups, as if they had shown ``BORROWED_EVENTS`` more.
        """
        view, fit = self.view, self.fit
        if not view.tally.binary:
            return np.interp(view.score, fit.score, fit.value), fit.value
        common = self.together.pooled().at(fit.score)
        events = 4 * effective_users(view, fit.matrix) * rate_spread((common + fit.value) / 2)
        own = events / (events + BORROWED_EVENTS)
        mixed = own * fit.value + (1 - own) * common
        return np.interp(view.score, fit.score, mixed), mixed


def make_rung(
    views: Sequence[GroupView],
    cuts: Sequence[Cut],
    index: int,
    *,
    higher: int,
    smoothing: Smoothing,
    share: float,
    together: Together,
) -> Rung:
    """The curve and people of the group at a position along strictness; share: of all people that are in it."""
    view, cut = views[index], cuts[index]
    fit = KernelMap(smoothing).fit(view)
    seen = float(np.min(cut.sign * fit.score))
    remark = ""
    if not view.sums.W[cut.outside].any():
        fit, remark = _continue_fit(views, cuts, index, higher, fit)
    if cut.lattice.values is not None:
        ladder, fit = _steps(cut, view, fit, share)
        seen = float(np.min(ranks(cut)[view.used]))
    else:
        ladder = _ladder(cut, view, fit, share)
    order = np.argsort(cut.sign * fit.score)
    weight = knot_weights(fit.score, view.score, view.sums.A)[order]
    value = higher * fit.value[order]
    return Rung(
        view=view,
        ladder=ladder,
        fit=fit,
        order=order,
        value=value,
        weight=weight,
        seen=seen,
        level=_level(value, weight),
        together=together,
        remark=remark,
    )


def _ladder(cut: Cut, view: GroupView, fit: Fit, share: float) -> Ladder:
    """Continuous scores: a cut is a score; people inside a cell are spread evenly."""
    edges = cut.lattice.to_score(cut.lattice.axis_edges)
    mass = view.sums.A / view.sums.A.sum()
    passed = np.concatenate([[0.0], np.cumsum(mass)])
    if cut.sign > 0:
        return Ladder(np.sort(fit.score), edges, 1 - passed, share, cut.threshold)
    return Ladder(np.sort(-fit.score), -edges[::-1], passed[::-1], share, -cut.threshold)


def ranks(cut: Cut) -> Ints:
    """The rank of each value along strictness."""
    every = np.arange(cut.lattice.n_cells)
    return every if cut.sign > 0 else every[::-1]


def _steps(cut: Cut, view: GroupView, fit: Fit, share: float) -> tuple[Ladder, Fit]:
    """Few scores: a cut is the rank of the first value with the positive decision; the curve is read at the values."""
    values = cut.lattice.values
    assert values is not None
    design = interpolation(fit.score, values)
    mass = view.sums.A[ranks(cut)] / view.sums.A.sum()
    beyond = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]])
    now = float(cut.first if cut.sign > 0 else len(values) - cut.first)
    ladder = Ladder(np.arange(float(len(values))), np.arange(len(values) + 1.0), beyond, share, now, steps=True)
    return ladder, replace(fit, score=values, value=design @ fit.value, matrix=design @ fit.matrix, fitted=design @ fit.fitted)


def _continue_fit(views: Sequence[GroupView], cuts: Sequence[Cut], index: int, higher: int, fit: Fit) -> tuple[Fit, str]:
    """The curve continued to where people are whose outcomes nobody knows, by the slope at the threshold.

    The paper's "linear regression of outcomes near the marginal threshold"; all is linear in the outcomes, so that the covariance
    of the continuation with the curve is known too.
    """
    view, cut = views[index], cuts[index]
    people = np.flatnonzero(view.sums.A > 0)
    end = int(people[0] if cut.sign > 0 else people[-1])
    edges = cut.lattice.axis_edges
    far = float(edges[end] if cut.sign > 0 else edges[end + 1])
    first = int(np.argmin(cut.sign * fit.score))
    start = float(cut.lattice.to_axis(fit.score[[first]])[0])
    if cut.sign * (start - far) <= cut.lattice.cell_width:
        return fit, ""
    h = SLOPE_WIDTH * edge_smoothing(Smoothing(), views, cuts).h
    line = smoother(points=np.array([cut.position]), positions=view.sums.position, weight=view.sums.W, bandwidth=h, near=False)
    slope = line.slopes[0, 0] * (view.sums.W > 0)
    rise = float(slope @ view.sums.Y)
    if not (np.isfinite(rise) and rise * cut.sign * higher > 0):
        return fit, "outcomes beyond the threshold are not known, and those near it do not point to where they would be lower"
    u = (np.linspace(far, start, UNSEEN_KNOTS, endpoint=False) - start) / h
    effective = view.effective_users(line.matrix * (view.sums.W > 0))
    pull = u[:, None] * slope * small_sample(effective)
    unseen = bound(view, fit.value[first] + u * rise)
    score = np.concatenate([fit.score, cut.lattice.to_score(start + u * h)])
    order = np.argsort(score)
    value = np.concatenate([fit.value, unseen])
    matrix = np.concatenate([fit.matrix, fit.matrix[first] + pull])
    fitted = np.concatenate([fit.fitted, fit.fitted[first] + pull * line.local_fit(view.sums.Y)[0]])
    return replace(fit, score=score[order], value=value[order], matrix=matrix[order], fitted=fitted[order]), ""


def _level(value: Floats, weight: Floats) -> Floats:
    """The nearest values that never fall."""
    if (np.diff(value) >= 0).all():
        return value
    floor = 1e-9 * max(float(weight.max()), 1e-300)
    return nearest_rising(value, np.maximum(weight, floor))


def draw_curves(rungs: Sequence[Rung], higher: int, rng: np.random.Generator) -> list[list[Floats]]:
    """What else the curves might have been: for each group a list of outcomes at its knots, made monotone.

    Normal draws that go together as the knots do, each turned into the limit that its knot has at this normal quantile: limits of
    rates stay within [0, 1] and do not collapse where there is no event.
    """
    if not rungs[0].view.tally.tied:
        normal = [draw_normal(rung.corr, rng, DRAWS) for rung in rungs]
    else:
        ends = np.cumsum([len(rung.value) for rung in rungs])
        normal = np.split(draw_normal(_joint(rungs), rng, DRAWS), ends[:-1], axis=1)
    drawn = [_confidence(rung, higher, own) for rung, own in zip(rungs, normal, strict=True)]
    return [[_level(curve, rung.weight) for curve in curves] for rung, curves in zip(rungs, drawn, strict=True)]


def _confidence(rung: Rung, higher: int, normal: Floats) -> Floats:
    """Outcomes at the knots, signed, with normal quantiles (draws, k): those that the estimate would be so far away from."""
    level = higher * rung.value
    limits = [rung.side.limits(level, float(z)) for z in QUANTILES]
    # From the far lower limit over the estimate to the far upper one.
    quantiles = np.concatenate([-QUANTILES[:0:-1], QUANTILES])
    values = np.array([low for low, _ in limits[:0:-1]] + [level] + [high for _, high in limits[1:]])
    values = np.where(np.isfinite(values), values, level)
    return higher * np.array([np.interp(own, quantiles, knot) for own, knot in zip(normal.T, values.T, strict=True)]).T


def _joint(rungs: Sequence[Rung]) -> Floats:
    """How the knots of all groups go together when users are in several."""
    blocks = []
    for a in rungs:
        row = []
        for b in rungs:
            pairs = None if a is b else a.view.shared_pairs(b.view)
            size = np.outer(a.side.law.se, b.side.law.se)
            if a is b:
                row.append(a.corr)
            elif pairs is None:
                row.append(np.zeros_like(size))
            else:
                block = a.matrix @ pairs.residual(a.scatter, b.scatter) @ b.matrix.T
                row.append(ratio(block, size))
        blocks.append(row)
    return np.block(blocks)
