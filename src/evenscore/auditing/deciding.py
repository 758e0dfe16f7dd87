"""Which test decides about each pair of groups, chosen from the scores alone, and what it says.

Parity where groups have scores in common, ordering where they have none, each at the full level. Where scores overlap in part both
decide together: parity of people with common scores, and the order of those beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from evenscore.errors import OptionError
from evenscore.estimation.comparison import Comparison, Sides
from evenscore.estimation.gaps import tame_law
from evenscore.estimation.inference import seeded
from evenscore.estimation.multiplicity import holm
from evenscore.estimation.overlap import BOTH, ORDERING, ScoreOverlap, find_overlap
from evenscore.estimation.overlap import PARITY as BY_PARITY
from evenscore.estimation.pairwise import GroupPair, PairwiseTest, not_judged, not_shown
from evenscore.estimation.point_pairs import OwnCurve, PointPairs, own_curves, point_pairs, turn
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY, combine, join_reasons
from evenscore.false_alarms import choose_tests
from evenscore.ordering import SIGN, order_pair
from evenscore.ordering.ordering_result import RISING, OrderingPair, OrderingTest, judge_order, none_shown
from evenscore.parity.outside import SHARE, joint_p_value
from evenscore.parity.parity_result import PairTest, ParityTest
from evenscore.tables import json_ready, values_of
from evenscore.tallies.tally_state import Tally

AUTO = "auto"
ORDER = ("low_group", "low_score", "high_group", "high_score", "worst", "misordered_share", "at_least")
NAMED = 3  # pairs of groups with their reasons in a sentence
STREAM = 1 << 21  # of random numbers, apart from those of the tests themselves


@dataclass(frozen=True, slots=True)
class DecidedPair(GroupPair):
    """Two groups, which test decides about them and what it says.

    decided_by: "parity", "ordering" or "parity and ordering"; outside_a, outside_b: the share of each group beyond the scores that
    both have. p_order: of the order beyond them, where both tests decide; order: what it found. shown_by: the tests that show
    a disparity.
    """

    group_a: Any
    group_b: Any
    decided_by: str
    p_value: float = np.nan
    p_adjusted: float = np.nan
    p_order: float = np.nan
    outside_a: float = np.nan
    outside_b: float = np.nan
    verdict: str = INCONCLUSIVE
    reason: str = ""
    shown_by: tuple[str, ...] = ()
    order: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Decision(PairwiseTest):
    """What makes the verdict about one score and attribute, pair by pair; adjustment: for the number of pairs, in words."""

    COLUMNS = ("group_a", "group_b", "decided_by", "p_value", "p_adjusted", "verdict")

    pairs: tuple[DecidedPair, ...]
    alpha: float
    adjustment: str
    whole_reason: str = ""
    frame_kind: str | None = None

    @property
    def null(self) -> str:
        """What is tested, in words."""
        return "people with the same score have the same expected outcome, and those beyond common scores are in order"

    @property
    def tests(self) -> tuple[str, ...]:
        """The names of the tests that decide about some pair."""
        deciding = {pair.decided_by for pair in self.told}
        return tuple(name for name in (BY_PARITY, ORDERING) if any(name in decided_by for decided_by in deciding))

    @property
    def told(self) -> tuple[DecidedPair, ...]:
        """The pairs that are judged; all of them where none is."""
        return tuple(pair for pair in self.pairs if pair.judged) or self.pairs

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        return self.whole_reason or _why_shown(self.pairs, self.verdict)

    def to_dict(self) -> dict[str, Any]:
        """In JSON-ready values."""
        pairs = [values_of(pair) for pair in self.pairs]
        return json_ready(values_of(self, ("alpha", "adjustment", "p_value", "verdict", "reason")) | {"pairs": pairs})

    def _heading(self) -> str:
        return "Decision"


def named_tests(decide: Any, threshold: float | None) -> tuple[str, ...]:
    """The tests that the caller wants to decide; none when the scores are to choose them."""
    if decide == AUTO or (isinstance(decide, list | tuple) and list(decide) == [AUTO]):
        return ()
    if isinstance(decide, list | tuple) and AUTO in decide:
        raise OptionError("decide='auto' chooses the tests itself; give it alone, or name the tests")
    return choose_tests("decide", decide, threshold)


def make_decision(
    tally: Tally,
    parity: ParityTest,
    ordering: OrderingTest,
    *,
    alpha: float,
    weighting: str,
    seed: int,
    tolerance: float | None = None,
    overlaps: Sequence[ScoreOverlap] | None = None,
) -> Decision:
    """The deciding test of each pair, and all verdicts at one level; overlaps: those of other groups, which chose the tests."""
    comparisons = _comparisons(tally, parity, weighting)
    if overlaps is None:
        overlaps = [find_overlap(comparison) for comparison in comparisons]
    if all(overlap.decides_by == BY_PARITY for overlap in overlaps):
        return _by_one(parity.pairs, overlaps, parity, parity.adjustment)
    if all(overlap.decides_by == ORDERING for overlap in overlaps) and _same_pairs(parity, ordering):
        return _by_one(ordering.pairs, overlaps, ordering, "Holm's method")
    known = {pair.name: pair for pair in ordering.pairs}
    judge = _PairJudge(alpha, tolerance, seed, parity.method, known, ordering.direction)
    pairs = [
        judge.decide(comparison, overlap, pair, number)
        for number, (comparison, overlap, pair) in enumerate(zip(comparisons, overlaps, parity.pairs, strict=True))
    ]
    if {pair.decided_by for pair, *_ in pairs if pair.judged} == {BY_PARITY}:  # the others no test can judge
        return _by_one(parity.pairs, overlaps, parity, parity.adjustment)
    adjusted = holm([pair.p_value for pair, *_ in pairs])
    decided = tuple(
        _judge(pair, own, order, float(p), alpha, tolerance) for (pair, own, order), p in zip(pairs, adjusted, strict=True)
    )
    why = ""
    if combine(pair.verdict for pair in decided) == INCONCLUSIVE:
        why = _why_undecided(decided, parity, tolerance)
    return Decision(decided, alpha, "Holm's method", why, tally.frame_kind)


def hold_to(parity: ParityTest, decision: Decision) -> ParityTest:
    """The parity test as one of those that decide: adjusted for all pairs with them, it shows no gap that they do not show."""
    if decision.tests == (BY_PARITY,):
        return parity
    pairs = tuple(_held(own, decided, parity.tolerance) for own, decided in zip(parity.pairs, decision.pairs, strict=True))
    return replace(parity, pairs=pairs, adjustment=decision.adjustment)


def _held(own: PairTest, decided: DecidedPair, tolerance: float | None) -> PairTest:
    if own.verdict == DISPARITY and decided.verdict != DISPARITY:
        reason = [*own.reason.split("; ")[:-1], not_shown(own.minimum_detectable_gap, tolerance)]
        return replace(own, p_adjusted=decided.p_adjusted, verdict=INCONCLUSIVE, regions=(), reason="; ".join(reason))
    return replace(own, p_adjusted=max(own.p_adjusted, decided.p_adjusted)) if own.judged and decided.judged else own


def repeat_decision(tally: Tally, parity: ParityTest, weighting: str) -> dict[str, Any]:
    """What ``Deciding`` repeats on other groups: the tests that the scores of these ones have chosen, pair by pair."""
    overlaps = [find_overlap(comparison) for comparison in _comparisons(tally, parity, weighting)]
    chosen = {overlap.decides_by for overlap in overlaps}
    if chosen == {BY_PARITY} or (chosen == {ORDERING} and all(pair.group_b in tally.groups for pair in parity.pairs)):
        return {"tests": tuple(chosen)}
    return {"tests": (BOTH,), "joint": partial(make_decision, alpha=parity.alpha, overlaps=overlaps)}


def _comparisons(tally: Tally, parity: ParityTest, weighting: str) -> list[Comparison]:
    """The two sides of each pair; a label that is no group stands for all others."""
    sides, place = Sides(tally, weighting), tally.index
    return [
        sides.compare(place(pair.group_a), place(pair.group_b) if pair.group_b in tally.groups else None) for pair in parity.pairs
    ]


def _same_pairs(parity: ParityTest, ordering: OrderingTest) -> bool:
    return [pair.name for pair in parity.pairs] == [pair.name for pair in ordering.pairs]


def _by_one(pairs: Any, overlaps: Sequence[ScoreOverlap], test: Any, adjustment: str) -> Decision:
    """One test decides about all pairs: its own verdicts."""
    decided = []
    for pair, overlap in zip(pairs, overlaps, strict=True):
        own = values_of(pair, ("group_a", "group_b", "p_value", "p_adjusted", "verdict", "reason"))
        shown = (overlap.decides_by,) if pair.verdict == DISPARITY else ()
        decided.append(DecidedPair(**own, **_facts(overlap), shown_by=shown))
    return Decision(tuple(decided), test.alpha, adjustment, test.reason, test.frame_kind)


def _facts(overlap: ScoreOverlap) -> dict[str, Any]:
    return {"decided_by": overlap.decides_by} | values_of(overlap, ("outside_a", "outside_b"))


@dataclass(frozen=True, slots=True)
class _PairJudge:
    """Judges pairs one by one, of which at least one has scores that overlap in part or not at all."""

    alpha: float
    tolerance: float | None
    seed: int
    method: str
    orders: dict[str, OrderingPair]
    direction: str

    def decide(
        self, comparison: Comparison, overlap: ScoreOverlap, parity: PairTest, number: int
    ) -> tuple[DecidedPair, PairTest, OrderingPair | None]:
        """A pair before adjustment, with what parity and ordering say about it."""
        pair = DecidedPair(parity.group_a, parity.group_b, **_facts(overlap), p_value=parity.p_value)
        if overlap.decides_by == BY_PARITY:
            return pair, parity, None
        rng = seeded(self.seed, STREAM, number)
        groups, slack = (parity.group_a, parity.group_b), self.tolerance or 0.0
        curves = self._own(comparison)
        if overlap.decides_by == ORDERING:
            order = self.orders.get(parity.name) or order_pair(groups, curves, self.alpha, slack, rng, self.direction)
            return replace(pair, p_value=order.p_value), parity, order
        order, outside = self._order_beyond(groups, curves, overlap, rng)
        if outside is None or not order.judged:
            return pair, parity, order
        p_order = order.p_value
        p_both = p_order
        if parity.judged:
            p_both = min(1.0, parity.p_value / (1 - SHARE), p_order / SHARE)
        if parity.judged and self.tolerance is None:
            first, second = curves
            assert first is not None and second is not None
            own = {"p_parity": parity.p_value, "p_order": p_order}
            p_both = joint_p_value(comparison, outside, (first, second), **own, method=self.method, rng=rng)
        return replace(pair, p_value=p_both, p_order=p_order), parity, order

    def _own(self, comparison: Comparison) -> tuple[OwnCurve | None, OwnCurve | None]:
        first, second = own_curves(comparison.sides, Smoothing(bandwidth="band"))
        return (first, second) if self.direction == RISING else (turn(first), turn(second))

    def _order_beyond(
        self, groups: tuple[Any, Any], curves: tuple[OwnCurve | None, OwnCurve | None], overlap: ScoreOverlap, rng: Any
    ) -> tuple[OrderingPair, PointPairs | None]:
        """The order of people below the common scores and people of the other group above them."""
        first, second = curves
        if first is None or second is None:
            return OrderingPair(*groups), None
        pairs = point_pairs(first, second)
        points = np.concatenate([first.points, second.points])
        low, high = sorted(SIGN[self.direction] * end for end in (overlap.low, overlap.high))
        beyond = (points[pairs.low] < low) & (points[pairs.high] > high)
        told = np.zeros(0, dtype=bool) if not beyond.any() else tame_law(pairs.at(beyond).law, pairs.at(beyond).varies)
        if not told.any():
            return OrderingPair(*groups), None
        outside = pairs.at(beyond)
        return order_pair(groups, curves, self.alpha, self.tolerance or 0.0, rng, self.direction, only=beyond), outside.at(told)


def _why_shown(pairs: Sequence[DecidedPair], verdict: str) -> str:
    """What the verdict rests on: the reasons of the pairs that have it, of several with their names."""
    shown = [pair for pair in pairs if pair.verdict == verdict]
    if len(pairs) == 1:
        return join_reasons(shown, verdict)
    more = [f"and {len(shown) - NAMED} more pairs of groups"] if len(shown) > NAMED else []
    return "; ".join([*(f"{pair.name}: {pair.reason}" for pair in shown[:NAMED]), *more])


def _why_undecided(pairs: Sequence[DecidedPair], parity: ParityTest, tolerance: float | None) -> str:
    """What would have been found, and what could not be judged."""
    seen = [
        test.minimum_detectable_gap
        for pair, test in zip(pairs, parity.pairs, strict=True)
        if pair.judged and pair.decided_by != ORDERING and not np.isnan(test.minimum_detectable_gap)
    ]
    words = [not_shown(max(seen), tolerance)] if seen else []
    if any(pair.judged and pair.decided_by != BY_PARITY for pair in pairs):
        words.append(none_shown(tolerance))
    return "; ".join([*words, *not_judged(pairs)])


def _judge(
    pair: DecidedPair, parity: PairTest, order: OrderingPair | None, p_adjusted: float, alpha: float, tolerance: float | None
) -> DecidedPair:
    """The verdict, and why."""
    if not pair.judged:
        reasons = dict.fromkeys(filter(None, [parity.reason, "" if order is None else order.reason]))
        return replace(pair, reason="; ".join(reasons))
    if pair.decided_by == BY_PARITY:
        p_adjusted = max(p_adjusted, parity.p_adjusted)  # two adjustments of one p-value, and no verdict beyond the test's own
    shown_by = _shown_by(pair, parity, alpha) if p_adjusted <= alpha else ()
    deciding: list[Any] = [parity] if pair.decided_by != ORDERING else []
    if order is not None:
        p_order = alpha if ORDERING in shown_by else 1.0
        deciding.append(judge_order(order, p_order, alpha, tolerance))
    if shown_by:
        told = [own for own, name in zip(deciding, pair.decided_by.split(" and "), strict=True) if name in shown_by]
        verdict = DISPARITY
    else:
        told, verdict = deciding, combine(PARITY if own.verdict == PARITY else INCONCLUSIVE for own in deciding)
    reason = "; ".join(filter(None, (_own_words(own, verdict) for own in told)))
    found = None if order is None else values_of(order, ORDER)
    return replace(pair, p_adjusted=p_adjusted, verdict=verdict, reason=reason, shown_by=shown_by, order=found)


def _shown_by(pair: DecidedPair, parity: PairTest, alpha: float) -> tuple[str, ...]:
    """Which tests show it: the one with the smaller p-value over its share of the level, or both."""
    if pair.decided_by != BOTH:
        return (pair.decided_by,)
    over = {BY_PARITY: parity.p_value / (1 - SHARE), ORDERING: pair.p_order / SHARE}
    least = max(alpha, min(p for p in over.values() if np.isfinite(p)))
    return tuple(name for name, p in over.items() if p <= least)


def _own_words(own: Any, verdict: str) -> str:
    """Why one test says so; a gap that it shows at a level of its own only is not shown by both together."""
    if own.verdict == DISPARITY and verdict != DISPARITY:
        return "the parity test shows a gap only at a level that it does not have to itself"
    return str(own.reason)
