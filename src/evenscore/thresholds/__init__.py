"""Fair thresholds: one for each group, so that the people at them have the same expected outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import DataError, OptionError, is_finite, require_alpha, require_option, shortened
from evenscore.estimation.direction import outcomes_rise
from evenscore.estimation.gaps import ROUNDING
from evenscore.estimation.inference import seeded
from evenscore.estimation.smoothing import Smoothing
from evenscore.marginal.cut import Cut, cut_words, make_cuts
from evenscore.tallies.tally_state import WEIGHTINGS, Tally, require_groups
from evenscore.tallies.two_way import require_enough
from evenscore.tallies.view import GroupView
from evenscore.threads import in_one_thread
from evenscore.thresholds.solver import Ladder, solve
from evenscore.thresholds.strictness_curves import Rung, Together, draw_curves, make_rung, ranks
from evenscore.thresholds.thresholds_result import STRATEGIES, GroupThreshold, Rates, ThresholdCurve, Thresholds
from evenscore.types import Floats
from evenscore.wording import figures

FEWEST_USERS = 10  # a group with fewer keeps its threshold
CLEAR = 2.5  # standard errors by which a curve must fall before that is worth a word


@dataclass(frozen=True, slots=True)
class Solution:
    """One group's cut along strictness with its limits, and the signed outcome that was to be reached."""

    cut: float
    low: float
    high: float
    wanted: float


@in_one_thread
def fair_thresholds(
    tally: Any,
    *,
    threshold: float | Mapping[Any, float],
    strategy: str = "rate",
    target: float | None = None,
    positive: str = "above",
    alpha: float = 0.05,
    weighting: str = "user",
    degree: int = 1,
    kernel: str = "gaussian",
    bandwidth: float | str = "risk",
    seed: int = 0,
    **columns: Unpack[DataColumns],
) -> Thresholds:
    """Thresholds for each group at which the expected outcome is the same.

    Equal outcomes are solved on the curves that ``es.calibrate`` fits, made monotone: deciding by these thresholds is deciding by
    the calibrated score at one threshold.

    Parameters
    ----------
    tally
        What ``es.tally`` made, also as the path of a saved one; or data.
    columns
        With data: ``score=``, ``outcome=``, ``group=``, ``user=`` and what else ``es.tally`` takes.
    threshold
        The threshold that all groups have now, or a dict of one for each; it must be a cell edge of the tally
        (``es.tally(..., cuts=[threshold])``).
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
        Of the curves, as for ``es.calibrate``. With "risk" thresholds are solved on the curves with the smallest error, and their
        intervals on curves with the bandwidth "band": the bias of the first is not small against their standard error.
    target
        The outcome at the thresholds, with strategy="target".
    alpha, seed
        The level, and the seed of the draws behind limits; the same seed gives the same result.

    Returns
    -------
    Thresholds
        With ``.by_group``, ``.outcome_at`` and ``.positive_rate``; one row a group, with limits and the people it concerns.

    Examples
    --------
    >>> import evenscore as es
    >>> data = es.simulate(4000, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(data, score="score", outcome="outcome", group="group", user="user", cuts=[0.5])
    >>> fair = es.fair_thresholds(tally, threshold=0.5, strategy="raise")
    >>> fair.by_group["a"], 0.6 < fair.by_group["b"] < 0.8
    (0.5, True)
    """
    tally = require_enough(as_tally(tally, columns, call="fair_thresholds", threshold=threshold))
    smoothing = Smoothing(degree, kernel, bandwidth)
    return solve_thresholds(
        tally,
        smoothing,
        smoothing.at("band") if bandwidth == "risk" else smoothing,
        threshold=threshold,
        strategy=strategy,
        target=target,
        positive=positive,
        alpha=alpha,
        weighting=weighting,
        seed=seed,
    )


def solve_thresholds(
    tally: Tally,
    smoothing: Smoothing,
    limits: Smoothing,
    *,
    threshold: float | Mapping[Any, float],
    strategy: str,
    target: float | None,
    positive: str,
    alpha: float,
    weighting: str,
    seed: int = 0,
) -> Thresholds:
    """Thresholds solved on curves with one smoothing, and limits drawn around curves with another, or the same."""
    require_option("strategy", strategy, STRATEGIES)
    require_option("weighting", weighting, WEIGHTINGS)
    require_alpha(alpha)
    require_groups(tally)
    _require_target(tally, strategy, target)
    cuts = make_cuts(tally, threshold, positive)
    higher = cuts[0].sign if outcomes_rise(tally, weighting) else -cuts[0].sign
    views = GroupView.each(tally, weighting)
    rungs = make_rungs(views, cuts, higher, smoothing)
    goal = None if target is None else higher * (target - tally.centre)
    wobbly = rungs if limits == smoothing else make_rungs(views, cuts, higher, limits)
    samples = draw_curves(list(wobbly.values()), higher, seeded(seed, 5))
    solutions = _solve_all(rungs, wobbly, samples, strategy, goal, alpha)
    groups = [
        group_threshold(rungs[index], cut, higher, solutions[index]) if index in rungs else _left_alone(view, cut)
        for index, (view, cut) in enumerate(zip(views, cuts, strict=True))
    ]
    pictures = [
        _picture(rung, wobbly[index], sample, cuts[index], higher, alpha)
        for (index, rung), sample in zip(rungs.items(), samples, strict=True)
    ]
    return Thresholds(
        groups=_with_ratios(groups),
        curves=tuple(pictures),
        where=cut_words(cuts, tally.groups),
        strategy=strategy,
        positive=positive,
        outcome=tally.centre + higher * next(iter(solutions.values())).wanted,
        target=target,
        weighting=weighting,
        alpha=alpha,
        positive_rate=_overall(groups),
        binary=tally.binary,
        frame_kind=tally.frame_kind,
    )


def make_rungs(views: Sequence[GroupView], cuts: Sequence[Cut], higher: int, smoothing: Smoothing) -> dict[int, Rung]:
    """The groups with enough outcomes to be solved, by position."""
    reasons = [_why_not(view, cut) for view, cut in zip(views, cuts, strict=True)]
    if all(reasons):
        words = "; ".join(f"{view.name}: {reason}" for view, reason in zip(views, reasons, strict=True))
        raise DataError(f"no group has a curve to solve on ({words})")
    if not any(view.varies for view in views):
        raise DataError("all outcomes are equal, so that no threshold is better than another")
    people = [float(view.sums.A.sum()) for view in views]
    shares = [own / sum(people) for own in people]
    together = Together.of(views, smoothing)
    return {
        index: make_rung(views, cuts, index, higher=higher, smoothing=smoothing, share=shares[index], together=together)
        for index, reason in enumerate(reasons)
        if not reason
    }


def _why_not(view: GroupView, cut: Cut) -> str:
    """Why a group has no curve to solve on, or nothing."""
    if view.n_users < FEWEST_USERS:
        return f"only {view.n_users} users with a known outcome, fewer than {FEWEST_USERS}"
    if not view.sums.W[cut.inside].any():
        return f"no row with a known outcome {cut.words}, the positive side"
    return ""


def _solve_all(
    rungs: dict[int, Rung],
    wobbly: dict[int, Rung],
    samples: list[list[Floats]],
    strategy: str,
    goal: float | None,
    alpha: float,
) -> dict[int, Solution]:
    """The cut of each group; its limits are quantiles of the cuts that draws of the less smooth curves give."""
    cuts, wanted = solve([rung.ladder for rung in rungs.values()], [rung.level for rung in rungs.values()], strategy, goal)
    ladders = [rung.ladder for rung in wobbly.values()]
    drawn = np.array([solve(ladders, values, strategy, goal, fine=False)[0] for values in zip(*samples, strict=True)])
    low, middle, high = np.quantile(drawn, [alpha / 2, 0.5, 1 - alpha / 2], axis=0)
    # Of few events limits reach further up than down, and draws with them: these are taken as they are and around the cut.
    ends = np.array([ladder.edge[[0, -1]] for ladder in ladders]).T
    low, high = low + np.minimum(cuts - middle, 0), high + np.maximum(cuts - middle, 0)
    low, high = np.minimum(np.maximum(low, ends[0]), cuts), np.maximum(np.minimum(high, ends[1]), cuts)
    return {index: Solution(float(cuts[i]), float(low[i]), float(high[i]), wanted) for i, index in enumerate(rungs)}


def _require_target(tally: Tally, strategy: str, target: Any) -> None:
    if (strategy == "target") != (target is not None):
        wanted = "needs target=, the marginal outcome to reach" if strategy == "target" else "takes no target="
        raise OptionError(f"strategy={shortened(strategy)} {wanted}")
    if target is None:
        return
    if not is_finite(target):
        raise OptionError(f"target={shortened(target)} must be an outcome, such as 0.2")
    if tally.binary and not 0 <= target <= 1:
        raise OptionError(f"target={target:g} is not a probability; the outcomes are 0 and 1")


# Results


def _score(cut: Cut, ladder: Ladder, strictness: float) -> float:
    """A cut along strictness as a threshold; the present one stays as it is when the decisions do."""
    if strictness == ladder.now:
        return cut.threshold
    if not ladder.steps:
        return cut.sign * strictness
    values = cut.lattice.values
    assert values is not None
    rank = round(strictness) if cut.sign > 0 else len(values) - round(strictness)
    return float(values[rank]) if rank < len(values) else float(np.nextafter(values[-1], np.inf))


def _left_alone(view: GroupView, cut: Cut) -> GroupThreshold:
    """A group without a curve."""
    people = view.sums.A
    rate = float(people[cut.inside].sum() / people.sum()) if people.any() else np.nan
    return GroupThreshold(
        group=view.label,
        before=cut.threshold,
        threshold=cut.threshold,
        rate_before=rate,
        rate_after=rate,
        people=float(people.sum()),
        reason=f"{_why_not(view, cut)}: its threshold is left alone",
    )


def group_threshold(rung: Rung, cut: Cut, higher: int, solution: Solution, *, remarked: bool = True) -> GroupThreshold:
    """A group with its new threshold, and whom it concerns; remarked: with what should be known about it."""
    ladder, people, centre = rung.ladder, float(rung.view.sums.A.sum()), rung.view.tally.centre
    before, after = (float(ladder.rate(np.array([strictness]))[0]) for strictness in (ladder.now, solution.cut))
    outcomes = [centre + higher * ladder.outcome(rung.level, strictness) for strictness in (ladder.now, solution.cut)]
    low, high = sorted(_score(cut, ladder, round(limit) if ladder.steps else limit) for limit in (solution.low, solution.high))
    unseen = solution.cut < min(rung.seen - 1e-9, ladder.now)
    return GroupThreshold(
        group=rung.view.label,
        before=cut.threshold,
        threshold=_score(cut, ladder, solution.cut),
        ci_low=low,
        ci_high=high,
        outcome_before=outcomes[0],
        outcome_after=outcomes[1],
        rate_before=before,
        rate_after=after,
        people=people,
        to_positive=max(after - before, 0.0) * people,
        to_negative=max(before - after, 0.0) * people,
        suggestive=unseen,
        reason="; ".join(_remarks(rung, solution, lambda value: centre + higher * value, unseen)) if remarked else "",
    )


def _remarks(rung: Rung, solution: Solution, outcome: Callable[[float], float], unseen: bool) -> list[str]:
    """What should be known about a group's threshold; outcome: from a signed one to what people would call it."""
    remarks = []
    v, reached = solution.wanted, rung.ladder.outcome(rung.level, solution.cut)
    low, high = float(rung.level[0]), float(rung.level[-1])
    if abs(reached - v) > 1e-6 * max(1.0, abs(v)):
        if low - 1e-9 <= v <= high + 1e-9:
            remarks.append(
                f"an outcome of {figures(outcome(v))} is not attained exactly; the nearest is {figures(outcome(reached))}"
            )
        else:
            ends = sorted((outcome(low), outcome(high)))
            ranges = f"its outcomes run from {figures(ends[0])} to {figures(ends[1])}"
            remarks.append(f"an outcome of {figures(outcome(v))} is out of reach, {ranges}: this threshold is the nearest")
    fall = _fall(rung)
    if fall is not None:
        remarks.append(f"its curve is not monotone ({fall}); solved on the nearest monotone curve")
    if unseen:
        remarks.append("suggestive only: outcomes beyond the old threshold are not known and were continued by a straight line")
    elif rung.remark and low > v:
        remarks.append(rung.remark)
    return remarks


def _fall(rung: Rung) -> str | None:
    """Where the curve runs the wrong way beyond its error, in words."""
    gap = np.abs(rung.value - rung.level)
    if not gap.any():
        return None
    se = rung.side.law.se
    worst = int(np.argmax(np.where(rung.weight > 0, gap, 0) - CLEAR * se))
    if gap[worst] <= CLEAR * se[worst] + ROUNDING * np.abs(rung.value).max():
        return None
    return f"off by {figures(gap[worst])} at score {figures(_knot_score(rung, worst))}"


def _knot_score(rung: Rung, knot: int) -> float:
    values = rung.view.lattice.values
    return abs(float(rung.ladder.knot[knot])) if values is None else float(values[knot])


def _with_ratios(groups: Sequence[GroupThreshold]) -> tuple[GroupThreshold, ...]:
    """Each group's positive rate over the highest one."""
    before = max((group.rate_before for group in groups if np.isfinite(group.rate_before)), default=np.nan)
    after = max((group.rate_after for group in groups if np.isfinite(group.rate_after)), default=np.nan)
    return tuple(
        replace(
            group,
            ratio_before=group.rate_before / before if before > 0 else np.nan,
            ratio_after=group.rate_after / after if after > 0 else np.nan,
        )
        for group in groups
    )


def _overall(groups: Sequence[GroupThreshold]) -> Rates:
    known = [group for group in groups if group.people > 0]
    total = sum(group.people for group in known)
    before = sum(group.people * group.rate_before for group in known) / total
    return Rates(before, sum(group.people * group.rate_after for group in known) / total)


def _picture(rung: Rung, wobbly: Rung, sample: list[Floats], cut: Cut, higher: int, alpha: float) -> ThresholdCurve:
    """The monotone curve along the score, with limits point by point."""
    limits = np.quantile(np.array(sample), [alpha / 2, 1 - alpha / 2], axis=0)
    low, high = (np.interp(rung.ladder.knot, wobbly.ladder.knot, limit) for limit in limits)
    low, high = np.minimum(low, rung.level), np.maximum(high, rung.level)
    centre = rung.view.tally.centre
    values = cut.lattice.values
    score = cut.sign * rung.ladder.knot if values is None else values[ranks(cut)]
    order = np.argsort(score)
    lower, upper = (low, high) if higher > 0 else (-high, -low)
    return ThresholdCurve(
        group=rung.view.label,
        score=score[order],
        outcome=(centre + higher * rung.level)[order],
        ci_low=(centre + lower)[order],
        ci_high=(centre + upper)[order],
        seen=(rung.ladder.knot >= rung.seen - 1e-9)[order],
    )
