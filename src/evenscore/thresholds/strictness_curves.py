"""What fair thresholds are solved on: each group's curve and people along strictness, and what else the curve might have been."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenscore.calibration.cells import Cells, Fit, bounded, group_cells
from evenscore.calibration.kernel_map import Kernel
from evenscore.calibration.maps import knot_weights
from evenscore.estimation.fitted_curves import effective_users, residual_covariance, small_sample
from evenscore.estimation.inference import draw_normal
from evenscore.estimation.kernels import smoother
from evenscore.marginal.boundary import edge_bandwidth, side_sums
from evenscore.marginal.cut import Cut
from evenscore.tallies.tally_state import Tally
from evenscore.thresholds.solver import Ladder
from evenscore.types import Floats, Ints

DRAWS = 300
UNSEEN_KNOTS = 16
SLOPE_WIDTH = 3.0  # a slope needs more room than a level: bandwidths of the marginal test


@dataclass(frozen=True, slots=True)
class Rung:
    """One group ready to be solved: its ladder, outcomes at the knots as estimated and their influence, signed along strictness.

    value: (k,) as the calibrator fits it; weight: (k,) of people near a knot; matrix, fitted: (k, n_cells), the influence of users;
    seen: the least strict cut at which outcomes are known; level: value made monotone; remark: why nothing can be said beyond it.
    """

    cells: Cells
    ladder: Ladder
    value: Floats
    weight: Floats
    matrix: Floats
    fitted: Floats
    seen: float
    level: Floats
    remark: str = ""


def make_rung(tally: Tally, place: int, cuts: Sequence[Cut], higher: int, smoothing: Kernel, weighting: str, share: float) -> Rung:
    """One group's curve and people along strictness."""
    group, cut = tally.groups[place], cuts[place]
    cells = group_cells(tally, group, weighting)
    fit = smoothing.fit(cells)
    seen = float(np.min(cut.sign * fit.score))
    remark = ""
    if not side_sums(tally, group, weighting, cut.outside).W.any():
        fit, remark = _continued(tally, cuts, cut, higher, cells, fit, weighting)
    if cut.lattice.values is not None:
        ladder, fit = _steps(cut, cells, fit, share)
        seen = float(np.min(ranks(cut)[cells.used]))
    else:
        ladder = _ladder(cut, cells, fit, share)
    order = np.argsort(cut.sign * fit.score)
    weight = knot_weights(fit.score, cells.score, cells.sums.A)[order]
    value = higher * fit.value[order]
    level = _level(value, weight)
    return Rung(cells, ladder, value, weight, fit.matrix[order], fit.fitted[order], seen, level, remark)


def _ladder(cut: Cut, cells: Cells, fit: Fit, share: float) -> Ladder:
    """Continuous scores: a cut is a score; people inside a cell are spread evenly."""
    edges = cut.lattice.to_score(cut.lattice.axis_edges)
    mass = cells.sums.A / cells.sums.A.sum()
    passed = np.concatenate([[0.0], np.cumsum(mass)])
    if cut.sign > 0:
        return Ladder(np.sort(fit.score), edges, 1 - passed, share, cut.threshold)
    return Ladder(np.sort(-fit.score), -edges[::-1], passed[::-1], share, -cut.threshold)


def ranks(cut: Cut) -> Ints:
    """The rank of each value along strictness."""
    every = np.arange(cut.lattice.n_cells)
    return every if cut.sign > 0 else every[::-1]


def _steps(cut: Cut, cells: Cells, fit: Fit, share: float) -> tuple[Ladder, Fit]:
    """Few scores: a cut is the rank of the first value with the positive decision; the curve is read at the values."""
    values = cut.lattice.values
    assert values is not None
    design = _reading(fit.score, values)
    mass = cells.sums.A[ranks(cut)] / cells.sums.A.sum()
    beyond = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]])
    now = float(cut.first if cut.sign > 0 else len(values) - cut.first)
    ladder = Ladder(np.arange(float(len(values))), np.arange(len(values) + 1.0), beyond, share, now, steps=True)
    return ladder, replace(fit, score=values, value=design @ fit.value, matrix=design @ fit.matrix, fitted=design @ fit.fitted)


def _reading(knots: Floats, scores: Floats) -> Floats:
    """The matrix (n_scores, k) that reads a curve of straight lines between knots."""
    return np.array([np.interp(scores, knots, unit) for unit in np.eye(len(knots))]).T


def _continued(tally: Tally, cuts: Sequence[Cut], cut: Cut, higher: int, cells: Cells, fit: Fit, weighting: str) -> tuple[Fit, str]:
    """The curve continued to where people are whose outcomes nobody knows, by the slope at the threshold.

    The paper's "linear regression of outcomes near the marginal threshold"; all is linear in the outcomes, so that the covariance
    of the continuation with the curve is known too.
    """
    people = np.flatnonzero(cells.sums.A > 0)
    end = int(people[0] if cut.sign > 0 else people[-1])
    edges = cut.lattice.axis_edges
    far = float(edges[end] if cut.sign > 0 else edges[end + 1])
    first = int(np.argmin(cut.sign * fit.score))
    start = float(cut.lattice.to_axis(fit.score[[first]])[0])
    if cut.sign * (start - far) <= cut.lattice.cell_width:
        return fit, ""
    h = SLOPE_WIDTH * edge_bandwidth(tally, cuts, bandwidth="test", weighting=weighting, degree=1, kernel="gaussian")
    line = smoother(points=np.array([cut.position]), positions=cells.sums.position, weight=cells.sums.W, bandwidth=h, near=False)
    slope = line.slopes[0, 0] * (cells.sums.W > 0)
    rise = float(slope @ cells.sums.Y)
    if not (np.isfinite(rise) and rise * cut.sign * higher > 0):
        return fit, "outcomes beyond the threshold are not known, and those near it do not point to where they would be lower"
    u = (np.linspace(far, start, UNSEEN_KNOTS, endpoint=False) - start) / h
    assert cells.pairs is not None
    effective = effective_users(line.matrix * (cells.sums.W > 0), cells.pairs)
    pull = u[:, None] * slope * small_sample(effective)
    unseen = bounded(cells, fit.value[first] + u * rise)
    score = np.concatenate([fit.score, cut.lattice.to_score(start + u * h)])
    order = np.argsort(score)
    value = np.concatenate([fit.value, unseen])
    matrix = np.concatenate([fit.matrix, fit.matrix[first] + pull])
    fitted = np.concatenate([fit.fitted, fit.fitted[first] + pull * line.local_fit(cells.sums.Y)[0]])
    return replace(fit, score=score[order], value=value[order], matrix=matrix[order], fitted=fitted[order]), ""


def _level(value: Floats, weight: Floats) -> Floats:
    """The nearest values that never fall."""
    if (np.diff(value) >= 0).all():
        return value
    from scipy.optimize import isotonic_regression

    floor = 1e-9 * max(float(weight.max()), 1e-300)
    return np.asarray(isotonic_regression(value, weights=np.maximum(weight, floor)).x)


def draw_curves(tally: Tally, rungs: Sequence[Rung], higher: int, weighting: str, rng: np.random.Generator) -> list[list[Floats]]:
    """What else the curves might have been: for each group a list of outcomes at its knots, made monotone."""
    sizes = [len(rung.value) for rung in rungs]
    ends = np.cumsum(sizes)
    if not tally.cross:
        noise = [draw_normal(knot_covariance(rung), rng, DRAWS) for rung in rungs]
    else:
        joint = np.zeros((ends[-1], ends[-1]))
        for i, one in enumerate(rungs):
            for j, two in enumerate(rungs):
                pairs = tally.pair_matrices(one.cells.group, two.cells.group, weighting)
                if pairs is not None:
                    block = residual_covariance(pairs, one.matrix, one.fitted, two.matrix, two.fitted)
                    joint[ends[i] - sizes[i] : ends[i], ends[j] - sizes[j] : ends[j]] = block
        noise = np.split(draw_normal(joint, rng, DRAWS), ends[:-1], axis=1)
    low, high = sorted((0.0, float(higher))) if tally.binary else (-np.inf, np.inf)
    return [
        [_level(draw, rung.weight) for draw in np.clip(rung.value + each, low, high)]
        for rung, each in zip(rungs, noise, strict=True)
    ]


def knot_covariance(rung: Rung) -> Floats:
    """The user-robust covariance of the outcomes at the knots, (k, k)."""
    assert rung.cells.pairs is not None
    return residual_covariance(rung.cells.pairs, rung.matrix, rung.fitted, rung.matrix, rung.fitted)
