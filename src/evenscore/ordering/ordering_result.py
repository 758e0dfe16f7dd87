"""What the ordering test gives: pairs of groups, and declines within groups, with their words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.errors import listing
from evenscore.estimation.pairwise import GroupPair, PairwiseTest, not_judged
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY, join_reasons, largest
from evenscore.tables import json_ready, label_text, values_of
from evenscore.wording import at_least, number_text, place_text

RISING, FALLING = "rising", "falling"


@dataclass(frozen=True, slots=True)
class Decline:
    """A group whose own curve falls: at low_score its expected outcome is by ``fall`` above that at high_score.

    A negative fall is a rise, of a score that falls elsewhere.
    """

    group: Any
    p_adjusted: float
    fall: float
    low_score: float
    high_score: float

    @property
    def words(self) -> str:
        """In a sentence."""
        low, high = place_text(self.low_score), place_text(self.high_score)
        return (
            f"the score is not monotone in {label_text(self.group)}: the expected outcome {'falls' if self.fall > 0 else 'rises'} "
            f"by {number_text(abs(self.fall))} from score {low} to {high}"
        )


@dataclass(frozen=True, slots=True)
class OrderingPair(GroupPair):
    """Two groups: whether a lower score of one goes with a higher outcome than a higher score of the other.

    p_value: of no misordering beyond what a decline within a group explains. misordered_share: estimated share of pairs of people,
    one of each group, that the score orders wrongly; at_least: its lower limit, the share of pairs whose simultaneous lower limit
    is above the tolerance. worst: the clearest misordering, f(low_score) in low_group minus f(high_score) in high_group.
    """

    group_a: Any
    group_b: Any
    p_value: float = np.nan
    p_adjusted: float = np.nan
    misordered_share: float = np.nan
    at_least: float = np.nan
    worst: float = np.nan
    low_group: Any = None
    low_score: float = np.nan
    high_group: Any = None
    high_score: float = np.nan
    verdict: str = INCONCLUSIVE
    reason: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class OrderingTest(PairwiseTest):
    """The result of ``es.ordering_test``. A row has the misordered_share of pairs of people, and its lower limit at_least.

    direction: "rising" where a higher score should stand for a higher outcome, "falling" where it should for a lower one.

    not_monotone: groups within which the opposite is shown, which is no disparity.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(people, score="score", outcome="outcome", group="group", user="user")
    >>> test = es.ordering_test(tally)
    >>> test.verdict, test.alpha
    ('disparity', 0.05)
    """

    COLUMNS = ("group_a", "group_b", "p_value", "p_adjusted", "misordered_share", "at_least", "worst", "verdict")

    pairs: tuple[OrderingPair, ...]
    alpha: float
    tolerance: float | None
    weighting: str
    frame_kind: str | None = None
    not_monotone: tuple[Decline, ...] = ()
    direction: str = RISING

    @property
    def null(self) -> str:
        """What is tested, in words."""
        slack = "" if self.tolerance is None else f" by more than {self.tolerance:g}"
        worse = "a lower" if self.direction == RISING else "a higher"
        return f"a higher score never stands for {worse} expected outcome{slack}, whichever groups the two people are from"

    @property
    def misordered_share(self) -> float:
        """The largest estimated share of misordered pairs of people."""
        return largest(pair.misordered_share for pair in self.pairs)

    @property
    def at_least(self) -> float:
        """The largest lower limit of a share of misordered pairs of people, among pairs of groups that show a misordering."""
        shown = [pair for pair in self.pairs if pair.verdict == DISPARITY]
        return largest(pair.at_least for pair in shown or self.pairs)

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        undecided = [pair for pair in self.pairs if pair.verdict == INCONCLUSIVE]
        if self.verdict == INCONCLUSIVE and len(undecided) > 1:
            unshown = [none_shown(self.tolerance)] if any(pair.judged for pair in undecided) else []
            return "; ".join([*unshown, *not_judged(self.pairs)])
        if self.verdict == DISPARITY:
            worst, *others = sorted((pair for pair in self.pairs if pair.verdict == DISPARITY), key=lambda pair: -pair.at_least)
            too = [f"misordered too: {listing((pair.name for pair in others), 5)}"] if others else []
            return "; ".join([worst.reason, *too])
        return join_reasons(self.pairs, self.verdict)

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        names = ("null", "alpha", "tolerance", "weighting", "p_value", "misordered_share", "verdict", "reason", "direction")
        lists = {"pairs": [values_of(pair) for pair in self.pairs], "not_monotone": [values_of(own) for own in self.not_monotone]}
        return json_ready(values_of(self, names) | lists)

    def _heading(self) -> str:
        return "Ordering test"

    def _notes(self) -> list[str]:
        how = (
            "misordered share: of pairs of people, one of each group; near-ties inflate the estimate, at_least does not count them"
        )
        return [*PairwiseTest._notes(self), how, *(own.words for own in self.not_monotone)]


def judge_order(pair: OrderingPair, p_adjusted: float, alpha: float, tolerance: float | None) -> OrderingPair:
    """A pair with its verdict at the adjusted p-value; as it is when it could not be judged."""
    if np.isnan(pair.p_value):
        return pair
    verdict = DISPARITY if p_adjusted <= alpha else PARITY if pair.verdict == PARITY else INCONCLUSIVE
    caveats = pair.reason
    # Of a pair that was judged before, at another level.
    for earlier in (DISPARITY, INCONCLUSIVE, *([PARITY] if tolerance is not None else [])):
        caveats = caveats.replace(_shown(pair, earlier, tolerance), "").strip("; ")
    reason = "; ".join(filter(None, [_shown(pair, verdict, tolerance), caveats]))
    return replace(pair, p_adjusted=p_adjusted, verdict=verdict, reason=reason)


def _shown(pair: OrderingPair, verdict: str, tolerance: float | None) -> str:
    """What a verdict rests on."""
    low, high = label_text(pair.low_group), label_text(pair.high_group)
    if verdict == DISPARITY:
        way = "above" if pair.worst > 0 else "below"
        return (
            f"the expected outcome of {low} at score {place_text(pair.low_score)} is {number_text(abs(pair.worst))} {way} that of "
            f"{high} at the higher score {place_text(pair.high_score)}; {at_least(pair.at_least)} pairs are misordered"
        )
    if verdict == PARITY:
        return f"for {low} and {high} no misordering beyond {tolerance:g} is compatible with the data"
    return f"{none_shown(tolerance)} for {low} and {high}"


def none_shown(tolerance: float | None) -> str:
    """That no misordering is shown, or none that matters."""
    return "no misordering is shown" if tolerance is None else f"no misordering beyond {tolerance:g} is shown"
