"""Fair thresholds: one for each group, so that the people at them have the same expected outcome."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenscore.boundary import edge_bandwidth, side_sums
from evenscore.calibration.cells import Cells, Fit, group_cells
from evenscore.calibration.kernel import Kernel
from evenscore.calibration.maps import knot_weights
from evenscore.curves import residual_covariance, small_sample
from evenscore.cut import Cut, make_cut, outcomes_rise
from evenscore.errors import DataError, OptionError, require_alpha, require_option
from evenscore.inference import draw_normal
from evenscore.kernels import smoother
from evenscore.tables import label_text
from evenscore.tally import WEIGHTINGS, Tally, require_groups, require_tally
from evenscore.threshold_result import STRATEGIES, GroupThreshold, Rates, ThresholdCurve, Thresholds
from evenscore.threshold_solver import Ladder, solve

Floats = NDArray[np.float64]

DRAWS = 300
FEWEST_USERS = 10  # a group with fewer keeps its threshold
CLEAR = 2.5  # standard errors by which a curve must fall before that is worth a word
UNSEEN_KNOTS = 16


@dataclass(frozen=True, slots=True)
class Rung:
    """One group ready to be solved: its ladder, outcomes at the knots as estimated and their influence, signed along strictness.

    value: (k,) as the calibrator fits it; weight: (k,) of people near a knot; matrix, fitted: (k, n_cells), the influence of users;
    seen: the least strict cut at which outcomes are known; level: value made monotone.
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


def fair_thresholds(
    tally: Tally,
    *,
    threshold: float,
    strategy: str = "rate",
    target: float | None = None,
    positive: str = "above",
    alpha: float = 0.05,
    weighting: str = "user",
    degree: int = 1,
    kernel: str = "gaussian",
    bandwidth: float | str = "risk",
    seed: int = 0,
) -> Thresholds:
    """Thresholds for each group at which the expected outcome is the same.

    Equal outcomes are solved on the curves that ``es.calibrate`` fits, made monotone: deciding by these thresholds is deciding by
    the calibrated score at one threshold.

    Parameters
    ----------
    threshold
        The threshold that all groups have now; it must be a cell edge of the tally (``es.tally(..., cuts=[threshold])``).
    strategy
        "rate": equal outcomes and the same overall positive rate. "raise": raise the bar of groups with a lower standard, where
        outcomes are known. "lower": lower the bar of groups with a higher standard; where outcomes beyond the threshold are not
        known they are continued by a straight line, and the result is marked as suggestive. "target": the outcome ``target``.
    positive
        "above": a score at or above the threshold gets the positive decision; "below": a score below it does. Raising the bar
        then means a lower threshold.
    weighting
        "user": every user counts the same; "row": every row does.
    degree, kernel, bandwidth
        Of the curves, as for ``es.calibrate``.

    Examples
    --------
    >>> import evenscore as es
    >>> data = es.simulate(4000, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(data, score="score", outcome="outcome", group="group", user="user", cuts=[0.5])
    >>> found = es.fair_thresholds(tally, threshold=0.5, strategy="raise")
    >>> found.by_group["a"], 0.6 < found.by_group["b"] < 0.8
    (0.5, True)
    """
    tally = require_tally(tally, "fair_thresholds")
    require_option("strategy", strategy, STRATEGIES)
    require_option("weighting", weighting, WEIGHTINGS)
    require_alpha(alpha)
    require_groups(tally)
    _require_target(tally, strategy, target)
    cut = make_cut(tally, threshold, positive)
    higher = cut.sign if outcomes_rise(tally, weighting) else -cut.sign
    smoothing = Kernel(degree, kernel, bandwidth)
    smoothing.check()
    people = {place: tally.sums(group, weighting).A for place, group in enumerate(tally.groups)}
    rungs = {
        place: _rung(tally, group, cut, higher, smoothing, weighting, people[place].sum() / sum(a.sum() for a in people.values()))
        for place, group in enumerate(tally.groups)
        if tally.n_users[group] >= FEWEST_USERS
    }
    if not rungs:
        raise DataError(f"no group has {FEWEST_USERS} users with a known outcome: there are no curves to solve on")
    order = list(rungs.values())
    goal = None if target is None else higher * (target - tally.centre)
    ladders = [rung.ladder for rung in order]
    cuts, v = solve(ladders, [rung.level for rung in order], strategy, goal)
    draws = _draws(tally, order, higher, weighting, np.random.default_rng([seed, 5]))
    drawn = np.array([solve(ladders, values, strategy, goal, fine=False)[0] for values in zip(*draws, strict=True)])
    limits = np.quantile(drawn, [alpha / 2, 1 - alpha / 2], axis=0)
    placed = {place: i for i, place in enumerate(rungs)}
    groups = [
        _group(tally, place, cut, higher, rungs.get(place), cuts, limits, v, placed.get(place, 0), people[place])
        for place in range(len(tally.groups))
    ]
    return Thresholds(
        groups=_with_ratios(groups),
        curves=tuple(_picture(rung, sample, cut, higher, alpha) for rung, sample in zip(order, draws, strict=True)),
        threshold=cut.threshold,
        strategy=strategy,
        positive=positive,
        outcome=tally.centre + higher * v,
        target=target,
        weighting=weighting,
        alpha=alpha,
        positive_rate=_overall(groups),
        binary=tally.binary,
        frame_kind=tally.frame_kind,
    )


def _require_target(tally: Tally, strategy: str, target: Any) -> None:
    if (strategy == "target") != (target is not None):
        wanted = "needs target=, the marginal outcome to reach" if strategy == "target" else "takes no target="
        raise OptionError(f"strategy={strategy!r} {wanted}")
    if target is None:
        return
    number = isinstance(target, int | float | np.integer | np.floating) and not isinstance(target, bool)
    if not (number and math.isfinite(target)):
        raise OptionError(f"target={target!r} must be an outcome, such as 0.2")
    if tally.binary and not 0 <= target <= 1:
        raise OptionError(f"target={target:g} is not a probability; the outcomes are 0 and 1")


# One group


def _rung(tally: Tally, group: Any, cut: Cut, higher: int, smoothing: Kernel, weighting: str, share: float) -> Rung:
    """The group's curve and people along strictness."""
    cells = group_cells(tally, group, weighting)
    fit = smoothing.fit(cells)
    seen = float(np.min(cut.sign * fit.score))
    remark = ""
    if not side_sums(tally, group, weighting, cut.outside).W.any():
        fit, remark = _continued(tally, group, cut, higher, cells, fit, weighting)
    if cut.lattice.values is not None:
        ladder, fit = _steps(cut, cells, fit, share)
        seen = float(np.min(_ranks(cut)[cells.used]))
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


def _ranks(cut: Cut) -> NDArray[np.int64]:
    """The rank of each value along strictness."""
    every = np.arange(cut.lattice.n_cells)
    return every if cut.sign > 0 else every[::-1]


def _steps(cut: Cut, cells: Cells, fit: Fit, share: float) -> tuple[Ladder, Fit]:
    """Few scores: a cut is the rank of the first value with the positive decision; the curve is read at the values."""
    values = cut.lattice.values
    assert values is not None
    design = _reading(fit.score, values)
    mass = cells.sums.A[np.argsort(_ranks(cut))] / cells.sums.A.sum()
    beyond = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]])
    now = float(cut.first if cut.sign > 0 else len(values) - cut.first)
    ranks = np.arange(len(values), dtype=np.float64)
    ladder = Ladder(ranks, np.arange(len(values) + 1.0), beyond, share, now, steps=True)
    return ladder, replace(fit, score=values, value=design @ fit.value, matrix=design @ fit.matrix, fitted=design @ fit.fitted)


def _reading(knots: Floats, scores: Floats) -> Floats:
    """The matrix (n_scores, k) that reads a curve of straight lines between knots."""
    return np.array([np.interp(scores, knots, unit) for unit in np.eye(len(knots))]).T


def _continued(tally: Tally, group: Any, cut: Cut, higher: int, cells: Cells, fit: Fit, weighting: str) -> tuple[Fit, str]:
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
    unknown = "outcomes beyond the threshold are not known"
    h = edge_bandwidth(tally, [cut] * len(tally.groups), bandwidth="test", weighting=weighting, degree=1, kernel="gaussian")
    line = smoother(points=np.array([cut.position]), positions=cells.sums.position, weight=cells.sums.W, bandwidth=h, near=False)
    slope = line.slopes[0, 0] * (cells.sums.W > 0)
    rise = float(slope @ cells.sums.Y)
    if not (np.isfinite(rise) and rise * cut.sign * higher > 0):
        return fit, f"{unknown}, and do not fall towards it: no lower threshold can be told"
    u = (np.linspace(far, start, UNSEEN_KNOTS, endpoint=False) - start) / h
    effective = 1 / (line.matrix[0] * (cells.sums.W > 0) @ cells.pairs.ww @ (line.matrix[0] * (cells.sums.W > 0)))
    pull = u[:, None] * slope * float(small_sample(np.array([effective]))[0])
    unseen = fit.value[first] + u * rise
    if tally.binary:
        unseen = np.clip(unseen, 0, 1)
    score = np.concatenate([fit.score, cut.lattice.to_score(start + u * h)])
    order = np.argsort(score)
    value = np.concatenate([fit.value, unseen])
    matrix = np.concatenate([fit.matrix, fit.matrix[first] + pull])
    fitted = np.concatenate([fit.fitted, fit.fitted[first] + pull * line.local_fit(cells.sums.Y)[0]])
    return replace(fit, score=score[order], value=value[order], matrix=matrix[order], fitted=fitted[order]), unknown


def _level(value: Floats, weight: Floats) -> Floats:
    """The nearest values that never fall."""
    if (np.diff(value) >= 0).all():
        return value
    from scipy.optimize import isotonic_regression

    floor = 1e-9 * max(float(weight.max()), 1e-300)
    return np.asarray(isotonic_regression(value, weights=np.maximum(weight, floor)).x)


# How well they are known


def _draws(tally: Tally, rungs: Sequence[Rung], higher: int, weighting: str, rng: np.random.Generator) -> list[list[Floats]]:
    """What else the curves might have been: for each group a list of outcomes at its knots, made monotone."""
    sizes = [len(rung.value) for rung in rungs]
    ends = np.cumsum(sizes)
    if not tally.cross:
        noise = [draw_normal(_covariance(rung), rng, DRAWS) for rung in rungs]
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


def _covariance(rung: Rung) -> Floats:
    return residual_covariance(rung.cells.pairs, rung.matrix, rung.fitted, rung.matrix, rung.fitted)


# Results


def _score(cut: Cut, ladder: Ladder, place: float) -> float:
    """A cut along strictness as a threshold; the present one stays as it is when the decisions do."""
    if place == ladder.now:
        return cut.threshold
    if not ladder.steps:
        return cut.sign * place
    values = cut.lattice.values
    assert values is not None
    index = int(round(place)) if cut.sign > 0 else len(values) - int(round(place))
    return float(values[index]) if index < len(values) else float(np.nextafter(values[-1], np.inf))


def _group(
    tally: Tally,
    place: int,
    cut: Cut,
    higher: int,
    rung: Rung | None,
    cuts: Floats,
    limits: Floats,
    v: float,
    row: int,
    people: Floats,
) -> GroupThreshold:
    group, total = tally.groups[place], float(people.sum())
    if rung is None:
        rate = float(people[cut.inside].sum() / total) if total > 0 else np.nan
        reason = f"only {tally.n_users[group]} users with a known outcome, fewer than {FEWEST_USERS}: its threshold is left alone"
        return GroupThreshold(
            group, cut.threshold, np.nan, np.nan, np.nan, np.nan, rate, rate, np.nan, np.nan, total, 0.0, 0.0, reason=reason
        )
    ladder = rung.ladder
    before, after = (float(ladder.rate(np.array([where]))[0]) for where in (ladder.now, cuts[row]))
    low, high = sorted(_score(cut, ladder, float(np.round(limit) if ladder.steps else limit)) for limit in limits[:, row])
    outcomes = [tally.centre + higher * ladder.outcome(rung.level, where) for where in (ladder.now, float(cuts[row]))]
    unseen = bool(cuts[row] < rung.seen - 1e-9 and cuts[row] < ladder.now)
    return GroupThreshold(
        group=group,
        threshold=_score(cut, ladder, float(cuts[row])),
        ci_low=low,
        ci_high=high,
        outcome_before=outcomes[0],
        outcome_after=outcomes[1],
        rate_before=before,
        rate_after=after,
        ratio_before=np.nan,
        ratio_after=np.nan,
        people=total,
        to_positive=max(after - before, 0.0) * total,
        to_negative=max(before - after, 0.0) * total,
        suggestive=unseen,
        reason="; ".join(_remarks(tally, rung, cut, higher, float(cuts[row]), v, unseen)),
    )


def _remarks(tally: Tally, rung: Rung, cut: Cut, higher: int, place: float, v: float, unseen: bool) -> list[str]:
    """What should be known about a group's threshold."""
    found = []
    reached = rung.ladder.outcome(rung.level, place)
    if abs(reached - v) > 1e-6 * max(1.0, abs(v)):
        wanted, got = (tally.centre + higher * value for value in (v, reached))
        ends = sorted(tally.centre + higher * value for value in (rung.level[0], rung.level[-1]))
        if rung.level[0] - 1e-9 <= v <= rung.level[-1] + 1e-9:
            found.append(f"an outcome of {wanted:.3g} is not attained exactly; the nearest is {got:.3g}")
        else:
            ranges = f"its outcomes run from {ends[0]:.3g} to {ends[1]:.3g}"
            found.append(f"an outcome of {wanted:.3g} is out of reach, {ranges}: this threshold is the nearest")
    fall = _fall(rung)
    if fall is not None:
        found.append(f"its curve is not monotone ({fall}); solved on the nearest monotone curve")
    if unseen:
        found.append("suggestive only: outcomes beyond the old threshold are not known and were continued by a straight line")
    elif rung.remark and "no lower" in rung.remark and rung.level[0] > v:
        found.append(rung.remark)
    return found


def _fall(rung: Rung) -> str | None:
    """Where the curve runs the wrong way beyond its error, in words."""
    gap = np.abs(rung.value - rung.level)
    if not gap.any():
        return None
    se = np.sqrt(np.maximum(np.diag(_covariance(rung)), 0))
    worst = int(np.argmax(np.where(rung.weight > 0, gap, 0) - CLEAR * se))
    if gap[worst] <= CLEAR * se[worst]:
        return None
    return f"off by {gap[worst]:.3g} at score {_knot_score(rung, worst):.3g}"


def _knot_score(rung: Rung, place: int) -> float:
    values = rung.cells.lattice.values
    if values is None:
        return abs(float(rung.ladder.knot[place]))
    return float(values[place])


def _with_ratios(groups: Sequence[GroupThreshold]) -> tuple[GroupThreshold, ...]:
    """Each group's positive rate over the highest one."""
    before, after = (
        max((getattr(one, name) for one in groups if np.isfinite(getattr(one, name))), default=np.nan)
        for name in ("rate_before", "rate_after")
    )
    return tuple(
        replace(
            one,
            ratio_before=one.rate_before / before if before > 0 else np.nan,
            ratio_after=one.rate_after / after if after > 0 else np.nan,
        )
        for one in groups
    )


def _overall(groups: Sequence[GroupThreshold]) -> Rates:
    known = [one for one in groups if one.people > 0]
    total = sum(one.people for one in known)
    return Rates(*(sum(one.people * getattr(one, name) for one in known) / total for name in ("rate_before", "rate_after")))


def _picture(rung: Rung, sample: list[Floats], cut: Cut, higher: int, alpha: float) -> ThresholdCurve:
    """The monotone curve along the score, with limits point by point."""
    low, high = np.quantile(np.array(sample), [alpha / 2, 1 - alpha / 2], axis=0)
    centre = rung.cells.centre
    values = cut.lattice.values
    score = cut.sign * rung.ladder.knot if values is None else values[np.argsort(_ranks(cut))]
    order = np.argsort(score)
    lower, upper = (low, high) if higher > 0 else (-high, -low)
    return ThresholdCurve(
        group=rung.cells.group,
        score=score[order],
        outcome=(centre + higher * rung.level)[order],
        ci_low=(centre + lower)[order],
        ci_high=(centre + upper)[order],
        seen=(rung.ladder.knot >= rung.seen - 1e-9)[order],
    )


def describe(thresholds: Thresholds) -> str:
    """The thresholds in one line."""
    return ", ".join(f"{label_text(group)} {value:.4g}" for group, value in thresholds.by_group.items())
