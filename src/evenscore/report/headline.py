"""The verdict in one sentence, in the words of the data: the same in a terminal, on the page and in the JSON's summary."""

from __future__ import annotations

import math

from evenscore.auditing.subject import Subject
from evenscore.estimation.pairwise import GapPair
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY
from evenscore.naming import in_names, label_text
from evenscore.ordering.ordering_result import RISING
from evenscore.parity.parity_result import PairTest, ParityTest, Region
from evenscore.tables import printable
from evenscore.wording import number_text, p_short

NAME = 40  # characters of a column in a sentence


def verdict_sentence(subject: Subject, tolerance: float | None, *, with_p: bool = False) -> str:
    """What is shown about one score and attribute, and no more than that; without a full stop. with_p: with the p-value."""
    claim = _claim(subject, tolerance)
    p_value = p_short(subject.p_value)
    if with_p and p_value:
        claim = f"{claim} ({p_value})"
    unproven = subject.verdict == INCONCLUSIVE and tolerance is None and not math.isnan(subject.p_value) and not order_only(subject)
    return f"{claim}. That is not proof that there is none" if unproven else claim


@in_names
def _claim(subject: Subject, tolerance: float | None) -> str:
    score, outcome = score_name(subject), outcome_name(subject)
    binary = subject.tally.binary
    if order_only(subject):
        return order_claim(subject, tolerance)
    if subject.verdict == DISPARITY and subject.order_decides:
        more = f"stands for {outcome} more often" if binary else f"stands for a higher mean of {outcome}"
        first, second = ("lower", "higher") if subject.ordering.direction == RISING else ("higher", "lower")
        return f"A {first} {score} in one group {more} than a {second} {score} in another"
    if subject.verdict == DISPARITY and tolerance is not None:
        amount = tolerance_text(tolerance, binary)
        other = "the other" if _two(subject) else "another"
        differs = f"{outcome} is more common in one group than in {other}, by" if binary else f"the mean of {outcome} differs by"
        return f"At the same {score}, {differs} more than {amount}{'' if binary else ' between groups'}"
    if subject.verdict == DISPARITY:
        state = f"{outcome} is not equally common" if binary else f"the mean of {outcome} is not the same"
        return f"At the same {score}, {state} {_everywhere(subject)}"
    if subject.verdict == PARITY and tolerance is not None:
        amount, where = tolerance_text(tolerance, binary), _everywhere(subject)
        same = f"equally common {where}" if binary else f"the same {where}"
        what = outcome if binary else f"the mean of {outcome}"
        return f"At the same {score}, {what} is {same} to within {amount}, wherever there are enough people to tell"
    if math.isnan(subject.p_value):
        return f"At the same {score}, nothing could be judged {_between(subject)}"
    if tolerance is not None:
        return f"Neither a difference of more than {tolerance_text(tolerance, binary)} nor its absence is shown {_between(subject)}"
    return f"No difference is shown {_between(subject)}"


def order_only(subject: Subject) -> bool:
    """Whether nobody could be compared at the same score, and the order across groups, which was judged, shows no disparity."""
    return subject.verdict != DISPARITY and subject.order_decides and not math.isnan(subject.p_value)


def order_claim(subject: Subject, tolerance: float | None) -> str:
    """What the order across groups shows where no score has enough people of two groups: nothing about the same score."""
    score, binary = score_name(subject), subject.tally.binary
    more = f"{outcome_name(subject)} more often" if binary else f"a higher mean of {outcome_name(subject)}"
    first, second = ("lower", "higher") if subject.ordering.direction == RISING else ("higher", "lower")
    beyond = "" if tolerance is None else f", by more than {tolerance_text(tolerance, binary)},"
    if subject.verdict == PARITY:
        stands = f"No {first} {score} in one group stands for {more}{beyond} than a {second} one in another"
        return f"{stands}; no {score} is common to both"
    none = f"At the same {score} nothing could be judged"
    if subject.nothing_in_common:
        none = f"No {score} has enough people of two groups to compare"
    if tolerance is not None:
        stands = f"a {first} one in one group stands for {more}{beyond} than a {second} one in another"
        return f"{none}; whether {stands} is not shown either way"
    stands = f"no {first} one in one group is shown to stand for {more} than a {second} one in another"
    return f"{none}; {stands}, which is no proof that none does"


def score_name(subject: Subject) -> str:
    """What the score's column is called."""
    return printable(subject.score, NAME)


def outcome_name(subject: Subject) -> str:
    """What the outcome's column is called."""
    name = subject.tally.columns.outcome if subject.tally.columns is not None else "outcome"
    return "the outcome" if name == "outcome" and subject.tally.binary else printable(name, NAME)


def _everywhere(subject: Subject) -> str:
    names = _two(subject)
    return f"in {names[0]} and {names[1]}" if names else "in every group"


def _between(subject: Subject) -> str:
    names = _two(subject)
    return f"between {names[0]} and {names[1]}" if names else "between groups"


def _two(subject: Subject) -> list[str]:
    """The names of the groups, if there are two to compare."""
    groups = subject.selection.tally.groups
    return [printable(label_text(group)) for group in groups] if len(groups) == 2 else []


# Gaps


def size(gap: float, binary: bool) -> str:
    """A gap without its sign: of shares in points, else in the outcome's own unit."""
    return f"{_digits(100 * abs(gap))} points" if binary else _digits(abs(gap))


def tolerance_text(tolerance: float, binary: bool) -> str:
    """A tolerance as its user gave it: 5 points, and not 5.0."""
    return f"{100 * tolerance:g} points" if binary else f"{tolerance:g}"


def shown_gap(region: Region, binary: bool) -> str:
    """The largest gap of a region with its limits in the same direction, such as "16 points at 0.10 (9 to 23)"."""
    factor = 100 if binary else 1
    low, high = sorted((abs(region.low), abs(region.high)))
    gap, low_text, high_text = (_digits(factor * value) for value in (abs(region.gap), low, high))
    return f"{gap}{' points' if binary else ''} at {score_text(region.at_score)} ({low_text} to {high_text})"


def shown_regions(test: ParityTest) -> list[tuple[Region, PairTest]]:
    """The largest shown gap of each pair that shows one at a score, the largest first."""
    tops = [(max(pair.regions, key=lambda region: abs(region.gap)), pair) for pair in test.pairs if pair.regions]
    return sorted(tops, key=lambda shown: -abs(shown[0].gap))


def ordered(pair: GapPair, gap: float) -> tuple[str, str]:
    """The group with more and the group with less."""
    names = label_text(pair.group_a), label_text(pair.group_b)
    return names if gap > 0 else (names[1], names[0])


@in_names
def finding(subject: Subject) -> str:
    """The largest gap that is shown, in words; empty when none is shown at a score.

    For example: at the same risk, Asian have diabetes more often than White: by 16 points at 0.10 (9 to 23).
    """
    shown = shown_regions(subject.parity)
    if subject.verdict != DISPARITY or not shown:
        return ""
    region, pair = shown[0]
    more, less = ordered(pair, region.gap)
    score, outcome, binary = score_name(subject), outcome_name(subject), subject.tally.binary
    has = (
        f"{outcome} is more common in {more} than in {less}"
        if binary
        else f"the mean of {outcome} is higher in {more} than in {less}"
    )
    return f"At the same {score}, {has}: by {shown_gap(region, binary)}"


def score_text(score: float) -> str:
    """A score in a sentence."""
    if 1 <= abs(score) < 99.5:
        return f"{score:.3g}"  # 29.5 is a score of its own, and no 30
    return f"{score:.2g}" if 1e-4 <= abs(score) < 1 else number_text(round(score) if abs(score) >= 1000 else float(score))


def _digits(value: float) -> str:
    """Two figures or so: no digits that the limits make meaningless.

    >>> [_digits(value) for value in (16.2, 1.84, 0.031, 1234.5, 0.0)]
    ['16', '1.8', '0.031', '1,234', '0']
    """
    if value >= 9.95 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 0.95 else f"{value:#.2g}"
