"""What was found, as the page says it: the verdict with its largest shown gap, in the outcome's own name, and no more."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from evenscore.auditing.audit_result import Audit
from evenscore.auditing.subject import Subject
from evenscore.calibration.repair_state import NOT_SHOWN, SHOWN, UNJUDGED, UNTESTED, VERIFIED
from evenscore.estimation.verdict import DISPARITY, PARITY
from evenscore.ordering.ordering_result import OrderingPair
from evenscore.parity.parity_result import PairTest, Region
from evenscore.report.headline import order_claim, order_only, outcome_name, score_name, tolerance_text
from evenscore.report.ticks import percent
from evenscore.tables import label_text, printable
from evenscore.wording import at_least, decimals

NAME = 60  # characters of a group's or a column's name in a sentence
MOST_LETTERS = 110  # of a list of groups
RUNNING = re.compile(r",| (?:and|or|to|than|for) ")  # "40 and older", "high, but falling"


# Numbers


def score_words(score: float) -> str:
    """A score in a sentence."""
    figures = 3 if 1 <= abs(score) < 100 else 2  # 29.5 is a score of its own, and no 30
    return f"{score:,.0f}" if float(score).is_integer() else f"{score:,.{decimals(score, digits=figures)}f}"


def amount(subject: Subject, *values: float) -> list[str]:
    """Outcomes, or differences of them, with as many decimals each: in points or percent if they are shares."""
    if not subject.tally.binary:
        places = decimals(max(values, key=abs), digits=3)
        return [f"{value:,.{places}f}" for value in values]
    shares = [100 * value for value in values]
    places = min(2, decimals(*shares, digits=1) or (0 if abs(shares[0]) >= 9.5 else 1))
    return [f"{share:.{places}f}" for share in shares]


def above(subject: Subject, gap: float) -> str:
    """A gap, in points if outcomes are shares, rounded up: what is ruled out lies beyond it."""
    return _rounded(subject, gap, math.ceil)


def below(subject: Subject, gap: float) -> str:
    """A gap, in points if outcomes are shares, rounded down: what is shown is no less."""
    return _rounded(subject, gap, math.floor)


def _rounded(subject: Subject, gap: float, towards: Callable[[float], int]) -> str:
    value = 100 * gap if subject.tally.binary else gap
    places = decimals(value, digits=3)
    slack = 1e-9 if towards is math.floor else -1e-9
    return f"{towards(value * 10**places + slack) / 10**places:,.{places}f}"


def unit(subject: Subject) -> str:
    """What differences of outcomes are counted in; empty for outcomes in units of their own."""
    return " points" if subject.tally.binary else ""


# Sentences


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return text[:1].upper() + text[1:].rstrip(".") + "." if text else ""


def ended(text: str) -> str:
    """With a full stop; a note may begin with the name of a group, which keeps its small letter."""
    return text.rstrip(".") + "."


# Names


def group_name(group: Any) -> str:
    """A group in a sentence, in quotation marks where its name would run into the sentence."""
    name = printable(label_text(group), NAME)
    return f"“{name}”" if RUNNING.search(name) else name


def share_of(subject: Subject) -> str:
    """What the curves show."""
    return f"share with {outcome_name(subject)}" if subject.tally.binary else f"mean {outcome_name(subject)}"


# What is shown


def shown_pairs(subject: Subject) -> list[PairTest]:
    """The pairs in which a gap at the same score is shown by a test that decides, the largest first."""
    decided = None
    if subject.decision is not None:
        decided = {id(pair): own for pair, own in zip(subject.parity.pairs, subject.decision.pairs, strict=False)}
    elif "parity" not in subject.decides:
        return []
    shown = [
        pair
        for pair in subject.parity.pairs
        if pair.verdict == DISPARITY
        and (decided is None or (decided[id(pair)].verdict == DISPARITY and "parity" in decided[id(pair)].shown_by))
    ]
    return sorted(shown, key=lambda pair: -_size(pair))


def _size(pair: PairTest) -> float:
    region = largest_region(pair)
    return abs(pair.max_gap) if region is None else abs(region.gap)


def largest_region(pair: PairTest) -> Region | None:
    """Where the largest gap of a pair is shown."""
    return max(pair.regions, key=lambda region: abs(region.gap), default=None)


def largest_shown(subject: Subject) -> tuple[PairTest, Region] | None:
    """The largest gap that is shown, if one is at a score."""
    found = [(pair, region) for pair in shown_pairs(subject) if (region := largest_region(pair)) is not None]
    return max(found, key=lambda shown: abs(shown[1].gap), default=None)


def pair_picture(subject: Subject) -> str:
    """Which picture of pairs belongs on the first screen: "ordering", "gaps" of the only pair, a "forest" of several, or none."""
    if misordered_pair(subject) is not None:
        return "ordering"
    known = any(len(pair.score) for pair in subject.parity.pairs)
    return "" if not known else "gaps" if len(subject.parity.pairs) == 1 else "forest"


def misordered_pair(subject: Subject) -> OrderingPair | None:
    """The pair of groups with the largest share of misordered people, if the order decides and shows one."""
    if not subject.order_decides:
        return None
    shown = [pair for pair in subject.ordering.pairs if pair.verdict == DISPARITY and math.isfinite(pair.at_least)]
    return max(shown, key=lambda pair: pair.at_least, default=None)


# The verdict


def speaker(audit: Audit) -> Subject:
    """The score and attribute of which the headline speaks: its verdict is that of the whole audit."""
    if audit.headline.verdict == audit.verdict:
        return audit.headline
    return next(subject for subject in audit.subjects if subject.verdict == audit.verdict)


def state(subject: Subject, tolerance: float | None) -> str:
    """The verdict in a word or two."""
    if subject.verdict == DISPARITY:
        return "Disparity in order" if not shown_pairs(subject) and misordered_pair(subject) else "Disparity"
    if subject.verdict == PARITY:
        return f"{'In order' if order_only(subject) else 'Parity'} within {within(subject, tolerance)}"
    return "Inconclusive: nothing could be judged" if math.isnan(subject.p_value) else "Inconclusive"


def within(subject: Subject, tolerance: float | None) -> str:
    """A tolerance in words."""
    assert tolerance is not None
    return tolerance_text(tolerance, subject.tally.binary)


def headline(subject: Subject, tolerance: float | None, several: bool = False) -> str:
    """The verdict about a score and attribute in a sentence. several: whether there are others, so that it must name its own."""
    groups = _groups(subject, several)
    if subject.verdict == DISPARITY:
        return _disparity(subject, groups)
    if order_only(subject):
        return order_claim(subject, tolerance)
    what, score = outcome_name(subject), score_name(subject)
    if subject.verdict == PARITY:
        most = within(subject, tolerance)
        return (
            f"At the same {score}, the {share_of(subject)} differs between {groups} by no more than {most}, wherever there are "
            "enough people to tell"
        )
    if math.isnan(subject.p_value):
        return f"Nothing could be compared between {groups} at the same {score}"
    if subject.selection.unexcused and tolerance is not None and subject.parity.verdict == PARITY:
        return f"Gaps between {groups} stay within {within(subject, tolerance)}, but not every group could be judged"
    if tolerance is not None:
        most = within(subject, tolerance)
        return f"Whether {what} differs by more than {most} between {groups} at the same {score} is not shown either way"
    return f"At the same {score}, no difference in {what} is shown between {groups}, which is not proof that there is none"


def _groups(subject: Subject, several: bool) -> str:
    """The groups by name if they are two."""
    labels = subject.selection.tally.groups
    if len(labels) == 2:
        return " and ".join(map(group_name, labels))
    return f"groups of {printable(label_text(subject.attribute), NAME)}" if several else "groups"


def _disparity(subject: Subject, groups: str) -> str:
    shown, misordered, score = largest_shown(subject), misordered_pair(subject), score_name(subject)
    if shown is not None:
        pair, region = shown
        high, low = (pair.group_a, pair.group_b) if region.gap > 0 else (pair.group_b, pair.group_a)
        gap, least, most = amount(subject, abs(region.gap), *sorted((abs(region.low), abs(region.high))))
        level = percent(1 - subject.parity.alpha)
        return (
            f"At the same {score}, {_is_more(subject, high, low)}: by {gap}{unit(subject)} at {score_words(region.at_score)} "
            f"({level} band {least} to {most})"
        )
    if shown_pairs(subject):
        return f"At the same {score}, {outcome_name(subject)} is not the same in {groups}; no single score shows it by itself"
    if misordered is not None:
        low, high = group_name(misordered.low_group), group_name(misordered.high_group)
        name = outcome_name(subject)
        more = f"{name} more often" if subject.tally.binary else f"a higher {name}"
        first, second = ("lower", "higher") if misordered.worst > 0 else ("higher", "lower")
        low, high = (low, high) if misordered.worst > 0 else (high, low)
        return (
            f"A {first} {score} in {low} stands for {more} than a {second} one in {high}: {at_least(misordered.at_least)} pairs of "
            "people, one of each group, are misordered"
        )
    marginal = subject.marginal
    if marginal is not None and marginal.verdict == DISPARITY and "marginal" in subject.decides:
        people = f"people of {groups} who just get the decision"
        return f"At the threshold {subject.threshold:g}, {people} differ in {outcome_name(subject)}"
    return f"{score_name(subject)} does not put people of {groups} in the order of {outcome_name(subject)}"


def _is_more(subject: Subject, high: Any, low: Any) -> str:
    if subject.tally.binary:
        return f"{outcome_name(subject)} is more common in {group_name(high)} than in {group_name(low)}"
    return f"the mean {outcome_name(subject)} is higher in {group_name(high)} than in {group_name(low)}"


def after_repair(subject: Subject, state: str) -> str:
    """What a repair is shown to do, in few words."""
    beyond = "" if subject.parity.tolerance is None else " beyond the tolerance"
    return {
        VERIFIED: "what is left is shown to lie within the tolerance",
        NOT_SHOWN: f"no gap{beyond} is shown any more",
        SHOWN: "a disparity is still shown",
        UNJUDGED: "what is left could not be judged",
        UNTESTED: "not verified on other users",
    }[state]


# Who, and how many pairs


def people(subject: Subject) -> str:
    """Who was looked at: how many, in which groups."""
    tally = subject.selection.tally if subject.selection.tally.groups else subject.selection.whole
    users, rows = sum(tally.n_users.values()), sum(tally.n_rows.values())
    if tally.independent:
        count = f"{rows:,} rows, {'taken as independent' if tally.item is None else 'each a user of its own'},"
    elif tally.n_spanning:  # they would be counted more than once
        count = f"{rows:,} rows, with {tally.n_spanning:,} users in more than one group,"
    elif users == rows:
        count = f"{users:,} users, one row each,"
    else:
        count = f"{users:,} users ({rows:,} rows)"
    count += "" if tally.item is None else f"{'' if count.endswith(',') else ','} items: {tally.item},"
    sizes = sorted(tally.n_users.items(), key=lambda item: -item[1])
    named = [f"{group_name(group)} ({size:,})" for group, size in sizes]
    while len(named) > 2 and len(", ".join(named)) > MOST_LETTERS:
        named.pop()
    more = f" and {len(sizes) - len(named)} more" if len(sizes) > len(named) else ""
    return f"{count} in {len(sizes)} groups: {', '.join(named)}{more}."


def pair_counts(subject: Subject) -> str:
    """How many pairs of groups differ, are not shown to, or could not be judged."""
    pairs, shown = subject.parity.pairs, shown_pairs(subject)
    if len(pairs) < 2 or subject.verdict != DISPARITY or not shown:
        return ""
    unjudged = [pair for pair in pairs if not pair.judged]
    open_pairs = [pair for pair in pairs if pair.judged and all(pair is not other for other in shown)]
    tolerance = subject.parity.tolerance
    more, beyond = (
        ("", "") if tolerance is None else (f" {word} {within(subject, tolerance)}" for word in ("by more than", "beyond"))
    )
    which = f"{len(shown)} of {len(pairs)}" if len(shown) < len(pairs) else f"All {len(pairs)}"
    said = [f"{which} pairs of groups {'differs' if len(shown) == 1 else 'differ'}{more}"]
    if 0 < len(open_pairs) <= 2:
        names = ", and for ".join(f"{group_name(pair.group_a)} and {group_name(pair.group_b)}" for pair in open_pairs)
        said.append(f"for {names}{',' if len(open_pairs) > 1 else ''} no gap{beyond} is shown")
    if unjudged:
        said.append(f"{len(unjudged)} could not be judged")
    return "; ".join(said) + "."


def finite(value: float | None) -> bool:
    """Whether there is such a number."""
    return value is not None and bool(np.isfinite(value))
