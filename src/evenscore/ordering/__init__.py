"""The ordering test: is there a lower score in one group that stands for a higher outcome than a higher score in another?

This is the second half of the paper's Definition 2. It also judges groups whose scores do not overlap, which equality of curves
passes vacuously. What a decline within a group explains is no disparity between groups: the score is not monotone then. Scores
that fall as the outcome rises, such as credit points and defaults, are judged the other way round.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import require_alpha, require_gap, require_option
from evenscore.estimation.comparison import join_views
from evenscore.estimation.direction import outcomes_rise
from evenscore.estimation.gaps import MIN_EFFECTIVE, skewed_words, tame_law
from evenscore.estimation.inference import CommonNormals, empirical_p
from evenscore.estimation.multiplicity import holm
from evenscore.estimation.pairwise import index_pairs
from evenscore.estimation.point_pairs import LIKELY, OwnCurve, PointPairs, own_curves, own_pairs, point_pairs, turn
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.verdict import INCONCLUSIVE, PARITY
from evenscore.ordering.ordering_result import FALLING, RISING, Decline, OrderingPair, OrderingTest, judge_order
from evenscore.tables import label_text
from evenscore.tallies.tally_state import Tally, require_groups
from evenscore.tallies.view import GroupView
from evenscore.threads import in_one_thread
from evenscore.types import Floats, Ints, Mask

AUTO = "auto"
SIGN = {RISING: 1, FALLING: -1}
CLEARLY = 0.005  # how often a pair of points would be taken to be in order beyond doubt though it is not


@in_one_thread
def ordering_test(
    tally: Any,
    *,
    alpha: float = 0.05,
    tolerance: float | None = None,
    weighting: str = "user",
    degree: int = 1,
    kernel: str = "gaussian",
    bandwidth: float | str = "band",
    reference: Any = None,
    direction: str = AUTO,
    seed: int = 0,
    **columns: Unpack[DataColumns],
) -> OrderingTest:
    """Test whether a higher score ever stands for a lower expected outcome across groups.

    For every pair of groups the largest of f_g(s) - f_g'(s') over s < s' is compared with what noise alone would give, each group
    on its own grid, so that the groups' scores need not overlap. It counts as far as no decline within either group, from any score
    between the two to another, explains it: where a curve falls within a group, ``not_monotone`` says so, and that is no disparity.
    Scores at which a group has too few events to tell are left out, and the reason says so.

    Parameters
    ----------
    tally
        What ``es.tally`` made, also as the path of a saved one; or data.
    columns
        With data: ``score=``, ``outcome=``, ``group=``, ``user=`` and what else ``es.tally`` takes.
    tolerance
        How much misordering does not matter. With it the verdict is "parity" when the simultaneous limits rule out more.
    reference
        Compare every group with this one only; by default all pairs are compared.
    direction
        "rising": a higher score should stand for a higher outcome; "falling": for a lower one, as credit points do for defaults.
        "auto" takes "falling" where outcomes are likely to fall along the score within groups.
    weighting, degree, kernel, bandwidth
        As for ``es.curves``.
    alpha, seed
        The level, and the seed of the draws behind p-values; the same seed gives the same result.

    Returns
    -------
    OrderingTest
        A verdict, and for each pair of groups the share of pairs of people that the score orders wrongly.

    Examples
    --------
    >>> import evenscore as es
    >>> data = es.simulate(1000, curve={"a": (0, 1), "b": (-0.5, 1)}).data(seed=1)
    >>> test = es.ordering_test(es.tally(data, score="score", outcome="outcome", group="group", user="user"))
    >>> test.verdict, test.pairs[0].low_group  # a lower score of this group stands for more than a higher one of the other
    ('disparity', 'a')
    """
    tally = as_tally(tally, columns, call="ordering_test")
    require_alpha(alpha)
    require_groups(tally)
    require_gap("tolerance", tolerance)
    require_option("direction", direction, (AUTO, RISING, FALLING))
    smoothing = Smoothing(degree, kernel, bandwidth)
    curves = own_curves(join_views(GroupView.each(tally, weighting), smoothing), smoothing)
    if direction == AUTO:
        direction = RISING if outcomes_rise(tally, weighting, LIKELY) else FALLING
    if direction == FALLING:
        curves = list(map(turn, curves))
    chosen = index_pairs(range(len(curves)), None if reference is None else tally.index(reference))
    slack, rng = tolerance or 0.0, CommonNormals(seed)
    pairs = [
        order_pair((tally.groups[i], tally.groups[j]), (curves[i], curves[j]), alpha, slack, rng, direction) for i, j in chosen
    ]
    pairs = [_with_few(tally, pair) for pair in pairs] if tally.item is not None else pairs
    adjusted = holm([pair.p_value for pair in pairs])
    judged = tuple(judge_order(pair, float(p), alpha, tolerance) for pair, p in zip(pairs, adjusted, strict=True))
    declines = _find_declines(tally, curves, alpha, slack, rng, direction)
    return OrderingTest(
        pairs=judged,
        alpha=alpha,
        tolerance=tolerance,
        weighting=weighting,
        frame_kind=tally.frame_kind,
        not_monotone=declines,
        direction=direction,
    )


def _with_few(tally: Tally, pair: OrderingPair) -> OrderingPair:
    """A pair that cannot be judged, with the number of users or items if that is why."""
    few = [GroupView.of(tally, group, "user").few for group in (pair.group_a, pair.group_b)]
    return replace(pair, reason=next(filter(None, few))) if not pair.judged and any(few) else pair


def _find_declines(
    tally: Tally, curves: list[OwnCurve | None], alpha: float, tolerance: float, rng: CommonNormals, direction: str
) -> tuple[Decline, ...]:
    """Groups whose own curve is shown to fall, or to rise where it should fall, adjusted for their number by Holm's method."""
    falls: list[tuple[int, float, PointPairs, int]] = []  # number of the group, p-value, pairs of points, the worst of them
    for number, curve in enumerate(curves):
        pairs = None if curve is None else own_pairs(curve)
        tame = np.zeros(0, dtype=bool) if pairs is None else tame_law(pairs.law, pairs.varies)
        if pairs is None or not tame.any():
            continue
        judged = pairs.at(tame)
        beyond = judged.beyond(tolerance)
        close = _close(judged, tolerance, beyond)
        worst = int(np.argmax(beyond))
        p = _p_value(close.maxima(rng), float(beyond[worst]), len(close.low)) if beyond[worst] > 0 else 1.0
        falls.append((number, p, judged, worst))
    declines = []
    for (number, _, judged, worst), p_adjusted in zip(falls, holm([p for _, p, _, _ in falls]), strict=True):
        curve = curves[number]
        if p_adjusted <= alpha and curve is not None:
            way = SIGN[direction]
            low, high = sorted(tally.lattice.to_score(way * curve.points[[judged.low[worst], judged.high[worst]]]).tolist())
            declines.append(Decline(tally.groups[number], float(p_adjusted), way * float(judged.values[worst]), low, high))
    return tuple(declines)


def order_pair(
    groups: tuple[Any, Any],
    curves: tuple[OwnCurve | None, OwnCurve | None],
    alpha: float,
    tolerance: float,
    rng: CommonNormals | np.random.Generator,
    direction: str,
    only: Mask | None = None,
) -> OrderingPair:
    """One pair of groups, before adjustment, on curves that are turned where outcomes fall; only: some of their pairs of points."""
    (a, b), (first, second) = groups, curves
    if first is None or second is None:
        few = label_text(a if first is None else b)
        return OrderingPair(a, b, reason=f"at no score does {few} have {MIN_EFFECTIVE} effective users")
    pairs = point_pairs(first, second)
    if only is not None:
        pairs = pairs.at(only)
    tame = tame_law(pairs.law, pairs.varies)
    rare = _rare_words(pairs, tame, (first, second), direction)
    if not tame.any():
        return OrderingPair(a, b, reason=_why_not(pairs, rare))
    judged = pairs.at(tame)
    beyond = judged.beyond(tolerance)
    across, close = judged.beyond_across(tolerance, beyond), _close(judged, tolerance, beyond)
    maxima = close.maxima(rng)
    critical = float(np.quantile(maxima, 1 - alpha))
    p_value, p_any = (_p_value(maxima, float(far.max()), len(close.low)) for far in (across, beyond))
    within = "a decline within a group explains what misordering there is" if p_any <= alpha < p_value else ""
    pair = OrderingPair(
        a,
        b,
        p_value=p_value,
        misordered_share=float(pairs.mass[pairs.values > 0].sum()),
        at_least=float(judged.mass[beyond > max(critical, 0.0)].sum()),
        # Also where the test cannot judge: a side without events is not shown to have none.
        verdict=PARITY if tolerance > 0 and bool((pairs.limits(critical)[1] < tolerance).all()) else INCONCLUSIVE,
        reason="; ".join(filter(None, [rare, within])),
    )
    # The clearest misordering; where there are only declines within a group, the clearest of these.
    worst = int(np.argmax(across if across.max() > 0 else beyond))
    return _with_worst(pair, judged, worst, (first, second), direction)


def _with_worst(
    pair: OrderingPair, judged: PointPairs, worst: int, curves: tuple[OwnCurve, OwnCurve], direction: str
) -> OrderingPair:
    """The pair of groups with its clearest misordering, the pair of points of this number."""
    first, second = curves
    sign = SIGN[direction]
    low, high = (int(judged.low[worst]), int(judged.high[worst]))[::sign]
    scores = first.view.lattice.to_score(sign * np.concatenate([first.points, second.points]))
    low_is_a = low < len(first.points)
    return replace(
        pair,
        worst=sign * float(judged.values[worst]),
        low_group=pair.group_a if low_is_a else pair.group_b,
        low_score=float(scores[low]),
        high_group=pair.group_b if low_is_a else pair.group_a,
        high_score=float(scores[high]),
    )


def _close(judged: PointPairs, tolerance: float, beyond: Floats) -> PointPairs:
    """The pairs of points that are not clearly in order; beyond: how far each is above the tolerance.

    Where the curve rises a far higher score is worth more beyond doubt, and no noise will turn the two round. Leaving such pairs
    out adds at most CLEARLY to the level (Romano, Shaikh and Wolf 2014).
    """
    from scipy import special

    z = -float(special.ndtri(CLEARLY / len(judged.low)))
    close = ~(beyond < -z if tolerance == 0 else judged.at_most(tolerance, z))
    return judged.at(close) if close.any() else judged


def _p_value(maxima: Floats, statistic: float, n_pairs: int) -> float:
    """How often noise alone gives as much; far out Bonferroni's bound over the pairs of points."""
    from scipy import special

    if not statistic > 0:
        return 1.0
    return empirical_p(maxima, statistic, lambda z: min(1.0, n_pairs * float(special.ndtr(-z)))).value


def _why_not(pairs: PointPairs, rare: str) -> str:
    """Why nothing can be judged."""
    if len(pairs.low) == 0:
        return "there are no two different scores to compare"
    return rare if pairs.varies.any() else "the outcomes do not vary"


def _rare_words(pairs: PointPairs, tame: Mask, curves: tuple[OwnCurve, OwnCurve], direction: str) -> str:
    """Where a group's estimates are too skewed to be judged against the nearest of the other's; empty when they are nowhere."""
    if tame.all():
        return ""
    first, second = curves
    outcome, weight = (sum(float(getattr(curve.view.sums, name).sum()) for curve in curves) for name in ("Y", "W"))
    silent = _silent(pairs, tame, np.concatenate([first.points, second.points]))
    words = []
    for curve, start in ((first, 0), (second, len(first.points))):
        mine = np.flatnonzero(silent[start : start + len(curve.points)])
        if len(mine) > 0:
            third = _third(pairs, ~tame, start + mine)
            points = np.sort(SIGN[direction] * curve.points[mine])
            words.append((third, skewed_words(curve.view, points, outcome / weight, len(curve.points))))
    return max(words)[1] if words else ""


def _silent(pairs: PointPairs, tame: Mask, points: Floats) -> Mask:
    """Which points of both curves are not judged against the nearest point of the other, (N,)."""
    silent = np.zeros(len(points), dtype=bool)
    distance = points[pairs.high] - points[pairs.low]
    for point in range(len(points)):
        mine = np.flatnonzero((pairs.low == point) | (pairs.high == point))
        silent[point] = len(mine) > 0 and not tame[mine[np.argmin(distance[mine])]]
    return silent


def _third(pairs: PointPairs, wild: Mask, points: Ints) -> float:
    """How much these points add to the skewness of differences that cannot be judged."""
    low, high = wild & np.isin(pairs.low, points), wild & np.isin(pairs.high, points)
    return float(np.abs(pairs.null_low.third[low]).sum() + np.abs(pairs.null_high.third[high]).sum())
