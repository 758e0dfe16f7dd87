"""Fair thresholds: one for each group, so that the people at them have the same expected outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.calibration.kernel_map import Kernel
from evenscore.errors import DataError, OptionError, is_finite, require_alpha, require_option, shortened
from evenscore.estimation.inference import seeded
from evenscore.marginal.cut import Cut, cut_words, make_cuts, outcomes_rise
from evenscore.tables import label_text
from evenscore.tallies.tally_state import WEIGHTINGS, Tally, require_groups, require_tally
from evenscore.thresholds.solver import Ladder, solve
from evenscore.thresholds.strictness_curves import Rung, draw_curves, knot_covariance, make_rung, ranks
from evenscore.thresholds.thresholds_result import STRATEGIES, GroupThreshold, Rates, ThresholdCurve, Thresholds
from evenscore.types import Floats

FEWEST_USERS = 10  # a group with fewer keeps its threshold
CLEAR = 2.5  # standard errors by which a curve must fall before that is worth a word


@dataclass(frozen=True, slots=True)
class Found:
    """One group's cut along strictness with its limits, and the signed outcome that was to be reached."""

    place: float
    low: float
    high: float
    wanted: float


def fair_thresholds(
    tally: Tally,
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
) -> Thresholds:
    """Thresholds for each group at which the expected outcome is the same.

    Equal outcomes are solved on the curves that ``es.calibrate`` fits, made monotone: deciding by these thresholds is deciding by
    the calibrated score at one threshold.

    Parameters
    ----------
    tally
        What ``es.tally`` made.
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
    >>> found = es.fair_thresholds(tally, threshold=0.5, strategy="raise")
    >>> found.by_group["a"], 0.6 < found.by_group["b"] < 0.8
    (0.5, True)
    """
    tally = require_tally(tally, "fair_thresholds")
    smoothing = Kernel(degree, kernel, bandwidth)
    smoothing.check()
    return solve_thresholds(
        tally,
        smoothing,
        replace(smoothing, bandwidth="band") if bandwidth == "risk" else smoothing,
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
    smoothing: Kernel,
    limits: Kernel,
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
    rungs = _rungs(tally, cuts, higher, smoothing, weighting)
    goal = None if target is None else higher * (target - tally.centre)
    wobbly = rungs if limits == smoothing else _rungs(tally, cuts, higher, limits, weighting)
    samples = draw_curves(tally, list(wobbly.values()), higher, weighting, seeded(seed, 5))
    found = _solved(rungs, wobbly, samples, strategy, goal, alpha)
    groups = [
        _group(tally, place, cuts[place], higher, rungs[place], found[place], weighting)
        if place in rungs
        else _left_alone(tally, place, cuts[place], weighting)
        for place in range(len(tally.groups))
    ]
    pictures = [
        _picture(rung, wobbly[place], sample, cuts[place], higher, alpha)
        for (place, rung), sample in zip(rungs.items(), samples, strict=True)
    ]
    return Thresholds(
        groups=_with_ratios(groups),
        curves=tuple(pictures),
        where=cut_words(cuts, tally.groups),
        strategy=strategy,
        positive=positive,
        outcome=tally.centre + higher * next(iter(found.values())).wanted,
        target=target,
        weighting=weighting,
        alpha=alpha,
        positive_rate=_overall(groups),
        binary=tally.binary,
        frame_kind=tally.frame_kind,
    )


def _rungs(tally: Tally, cuts: Sequence[Cut], higher: int, smoothing: Kernel, weighting: str) -> dict[int, Rung]:
    """The groups with enough outcomes to be solved, by position."""
    people = [float(tally.sums(group, weighting).A.sum()) for group in tally.groups]
    able = [place for place, cut in enumerate(cuts) if not _why_not(tally, place, cut, weighting)]
    if not able:
        reasons = "; ".join(
            f"{label_text(group)}: {_why_not(tally, i, cuts[i], weighting)}" for i, group in enumerate(tally.groups)
        )
        raise DataError(f"no group has a curve to solve on ({reasons})")
    return {place: make_rung(tally, place, cuts, higher, smoothing, weighting, people[place] / sum(people)) for place in able}


def _why_not(tally: Tally, place: int, cut: Cut, weighting: str) -> str:
    """Why a group has no curve to solve on, or nothing."""
    group = tally.groups[place]
    if tally.n_users[group] < FEWEST_USERS:
        return f"only {tally.n_users[group]} users with a known outcome, fewer than {FEWEST_USERS}"
    if not tally.sums(group, weighting).W[cut.inside].any():
        return f"no row with a known outcome {cut.words}, the positive side"
    return ""


def _solved(
    rungs: dict[int, Rung],
    wobbly: dict[int, Rung],
    samples: list[list[Floats]],
    strategy: str,
    goal: float | None,
    alpha: float,
) -> dict[int, Found]:
    """The cut of each group; its limits are quantiles of the cuts that draws of the less smooth curves give."""
    places, wanted = solve([rung.ladder for rung in rungs.values()], [rung.level for rung in rungs.values()], strategy, goal)
    ladders = [rung.ladder for rung in wobbly.values()]
    drawn = np.array([solve(ladders, values, strategy, goal, fine=False)[0] for values in zip(*samples, strict=True)])
    low, high = np.quantile(drawn, [alpha / 2, 1 - alpha / 2], axis=0)
    low, high = np.minimum(low, places), np.maximum(high, places)
    return {group: Found(float(places[i]), float(low[i]), float(high[i]), wanted) for i, group in enumerate(rungs)}


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


def _score(cut: Cut, ladder: Ladder, place: float) -> float:
    """A cut along strictness as a threshold; the present one stays as it is when the decisions do."""
    if place == ladder.now:
        return cut.threshold
    if not ladder.steps:
        return cut.sign * place
    values = cut.lattice.values
    assert values is not None
    index = round(place) if cut.sign > 0 else len(values) - round(place)
    return float(values[index]) if index < len(values) else float(np.nextafter(values[-1], np.inf))


def _left_alone(tally: Tally, place: int, cut: Cut, weighting: str) -> GroupThreshold:
    """A group without a curve."""
    group = tally.groups[place]
    people = tally.sums(group, weighting).A
    rate = float(people[cut.inside].sum() / people.sum()) if people.any() else np.nan
    return GroupThreshold(
        group=group,
        before=cut.threshold,
        threshold=cut.threshold,
        rate_before=rate,
        rate_after=rate,
        people=float(people.sum()),
        reason=f"{_why_not(tally, place, cut, weighting)}: its threshold is left alone",
    )


def _group(tally: Tally, place: int, cut: Cut, higher: int, rung: Rung, found: Found, weighting: str) -> GroupThreshold:
    """A group with its new threshold, and whom it concerns."""
    ladder, people = rung.ladder, float(tally.sums(tally.groups[place], weighting).A.sum())
    before, after = (float(ladder.rate(np.array([where]))[0]) for where in (ladder.now, found.place))
    outcomes = [tally.centre + higher * ladder.outcome(rung.level, where) for where in (ladder.now, found.place)]
    low, high = sorted(_score(cut, ladder, round(limit) if ladder.steps else limit) for limit in (found.low, found.high))
    unseen = found.place < min(rung.seen - 1e-9, ladder.now)
    return GroupThreshold(
        group=tally.groups[place],
        before=cut.threshold,
        threshold=_score(cut, ladder, found.place),
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
        reason="; ".join(_remarks(rung, found, lambda value: tally.centre + higher * value, unseen)),
    )


def _remarks(rung: Rung, found: Found, outcome: Callable[[float], float], unseen: bool) -> list[str]:
    """What should be known about a group's threshold; outcome: from a signed one to what people would call it."""
    remarks = []
    v, reached = found.wanted, rung.ladder.outcome(rung.level, found.place)
    low, high = float(rung.level[0]), float(rung.level[-1])
    if abs(reached - v) > 1e-6 * max(1.0, abs(v)):
        if low - 1e-9 <= v <= high + 1e-9:
            remarks.append(f"an outcome of {outcome(v):.3g} is not attained exactly; the nearest is {outcome(reached):.3g}")
        else:
            ends = sorted((outcome(low), outcome(high)))
            ranges = f"its outcomes run from {ends[0]:.3g} to {ends[1]:.3g}"
            remarks.append(f"an outcome of {outcome(v):.3g} is out of reach, {ranges}: this threshold is the nearest")
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
    se = np.sqrt(np.maximum(np.diag(knot_covariance(rung)), 0))
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


def _picture(rung: Rung, wobbly: Rung, sample: list[Floats], cut: Cut, higher: int, alpha: float) -> ThresholdCurve:
    """The monotone curve along the score, with limits point by point."""
    limits = np.quantile(np.array(sample), [alpha / 2, 1 - alpha / 2], axis=0)
    low, high = (np.interp(rung.ladder.knot, wobbly.ladder.knot, limit) for limit in limits)
    low, high = np.minimum(low, rung.level), np.maximum(high, rung.level)
    centre = rung.cells.centre
    values = cut.lattice.values
    score = cut.sign * rung.ladder.knot if values is None else values[ranks(cut)]
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
