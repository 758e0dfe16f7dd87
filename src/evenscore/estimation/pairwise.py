"""What the results of tests share that compare groups two by two: how pairs make one verdict, one reason and one largest gap."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from evenscore.errors import listing
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, Judgement, VerdictTable, join_reasons, smallest
from evenscore.tables import label_text, values_of
from evenscore.wording import figures, p_words

MOST_REASONS = 2  # why pairs could not be judged, in one sentence; the tables have all
POWER = 0.8  # with which a minimum detectable gap is found
WHAT_IT_ANSWERS = {
    "user": "each user counts once: does the score mean the same for a person of either group",
    "row": "each row counts once, so users with many rows count more: does it mean the same for a decision",
}


def index_pairs(indices: Sequence[int], fixed: int | None) -> list[tuple[int, int]]:
    """Which groups are compared, by position: all of them two by two, or each other one with the fixed one."""
    if fixed is None:
        return list(itertools.combinations(indices, 2))
    return [(index, fixed) for index in indices if index != fixed]


class GroupPair(Judgement):
    """Two groups and what their comparison shows."""

    __slots__ = ()

    group_a: Any
    group_b: Any
    p_value: float
    reason: str

    @property
    def name(self) -> str:
        """Both groups, for people."""
        return f"{label_text(self.group_a)} and {label_text(self.group_b)}"

    @property
    def judged(self) -> bool:
        """Whether there is a p-value."""
        return bool(np.isfinite(self.p_value))


class GapPair(GroupPair):
    """Two groups and the gap between their expected outcomes, group_a minus group_b."""

    __slots__ = ()

    p_equal: float
    minimum_detectable_gap: float

    @property
    def max_gap(self) -> float:
        """The largest gap, with its sign; nan when there is none."""
        raise NotImplementedError


class PairwiseTest(VerdictTable):
    """A test of every pair of groups. COLUMNS: what a row says of a pair."""

    __slots__ = ()

    COLUMNS: ClassVar[tuple[str, ...]]
    pairs: tuple[GroupPair, ...]

    def _judgements(self) -> tuple[GroupPair, ...]:
        return self.pairs

    def rows(self) -> list[dict[str, Any]]:
        """One row a pair."""
        return [values_of(pair, self.COLUMNS) for pair in self.pairs]


@dataclass(frozen=True, slots=True)
class Formulation:
    """The same test with the other weighting. shown: the pairs of groups in which it shows a disparity."""

    weighting: str
    p_value: float
    max_gap: float
    verdict: str
    shown: tuple[tuple[Any, Any], ...] = ()

    @classmethod
    def of(cls, test: GapTest[Any]) -> Formulation:
        """Of the test with that weighting."""
        return cls(test.weighting, test.p_value, test.max_gap, test.verdict, test.shown)


Pair = TypeVar("Pair", bound=GapPair)


class GapTest(PairwiseTest, Generic[Pair]):
    """A test of gaps between expected outcomes. UNSEEN: the kind of gap that ``minimum_detectable_gap`` is."""

    __slots__ = ()

    UNSEEN: ClassVar[str] = "a constant gap"
    pairs: tuple[Pair, ...]
    tolerance: float | None
    weighting: str
    adjustment: str
    other: Formulation | None

    @property
    def p_equal(self) -> float:
        """The smallest p-value of exact equality, not adjusted; with a tolerance it differs from ``p_value``."""
        return smallest(pair.p_equal for pair in self.pairs)

    @property
    def largest_pair(self) -> Pair | None:
        """The pair whose gap stands for the whole: the largest of those that show a disparity, or of all if none does."""
        judged = [pair for pair in self.pairs if pair.judged and np.isfinite(pair.max_gap)]
        shown = [pair for pair in judged if pair.verdict == DISPARITY]
        return max(shown or judged, key=lambda pair: abs(pair.max_gap), default=None)

    @property
    def max_gap(self) -> float:
        """The largest gap, with its sign (group_a minus group_b), of the pairs that show one; of all pairs when none does."""
        pair = self.largest_pair
        return np.nan if pair is None else pair.max_gap

    @property
    def minimum_detectable_gap(self) -> float:
        """The gap (along the score: a constant one) that the test finds with probability .8 in each pair it could judge."""
        known = [pair.minimum_detectable_gap for pair in self.pairs if not np.isnan(pair.minimum_detectable_gap)]
        return max(known, default=np.nan)  # infinite where no gap is large enough

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        if self.verdict != INCONCLUSIVE:
            return self._why_shown()
        detectable = self.minimum_detectable_gap
        judged = [] if np.isnan(detectable) else [not_shown(detectable, self.tolerance, self.UNSEEN)]
        return "; ".join([*judged, *not_judged(self.pairs)])

    def _why_shown(self) -> str:
        return join_reasons(self.pairs, self.verdict)

    @property
    def shown(self) -> tuple[tuple[Any, Any], ...]:
        """The pairs of groups with a disparity."""
        return tuple((pair.group_a, pair.group_b) for pair in self.pairs if pair.verdict == DISPARITY)

    @property
    def disagreement(self) -> str:
        """One sentence when per user and per row come to different verdicts, or show gaps between other groups; else empty."""
        other = self.other
        if other is None or (other.verdict == self.verdict and set(other.shown) == set(self.shown)):
            return ""
        if other.verdict == self.verdict:
            own, theirs = (_names(shown, than) for shown, than in ((self.shown, other.shown), (other.shown, self.shown)))
            only = [
                f"only per {unit} a gap is shown between {names}"
                for unit, names in ((self.weighting, own), (other.weighting, theirs))
                if names
            ]
            return (
                f"per {self.weighting} and per {other.weighting} the verdict is {self.verdict}, but not for the same groups: "
                f"{'; '.join(only)}"
            )
        return (
            f"per {self.weighting} the verdict is {self.verdict}{p_words(self.p_value)}, per {other.weighting} it is "
            f"{other.verdict}{p_words(other.p_value)}; per user, {WHAT_IT_ANSWERS['user']}; per row, "
            f"{WHAT_IT_ANSWERS['row']}"
        )

    def _disagreement_notes(self) -> list[str]:
        return [self.disagreement] if self.disagreement else []

    def _adjustment_notes(self) -> list[str]:
        judged = sum(pair.judged for pair in self.pairs)
        return [f"p adjusted for {judged} pairs by {self.adjustment}"] if judged > 1 else []


def not_judged(pairs: Sequence[GroupPair]) -> list[str]:
    """Why pairs could not be judged, each reason once; of many reasons the first, and how many pairs have one."""
    unjudged = [pair for pair in pairs if not pair.judged]
    if len(unjudged) == 1:
        return [unjudged[0].reason]
    reasons = list(dict.fromkeys(words for pair in unjudged for words in pair.reason.split("; ") if words))
    if len(reasons) <= MOST_REASONS:
        return reasons
    return [f"{len(unjudged)} of {len(pairs)} pairs of groups could not be judged, such as {unjudged[0].name}: {reasons[0]}"]


def _names(shown: Iterable[tuple[Any, Any]], than: Iterable[tuple[Any, Any]]) -> str:
    """The pairs that are shown here and not there, for people."""
    there = set(than)
    return listing((f"{label_text(a)} and {label_text(b)}" for a, b in shown if (a, b) not in there), 5)


def not_shown(detectable: float, tolerance: float | None = None, gap: str = GapTest.UNSEEN) -> str:
    """The reason when no gap is shown: what would have been."""
    if np.isinf(detectable):
        shown = "no gap is shown" if tolerance is None else f"neither a gap beyond {tolerance:g} nor its absence is shown"
        return f"{shown}; even the largest possible gap would not have been found with probability {POWER:g}"
    if tolerance is not None:
        return (
            f"neither a gap beyond {tolerance:g} nor its absence is shown; {gap} of {figures(detectable)} or more, whether or "
            f"not it matters, would have been found with probability {POWER:g}"
        )
    return f"no gap is shown; {gap} of {figures(detectable)} or more would have been found with probability {POWER:g}"
