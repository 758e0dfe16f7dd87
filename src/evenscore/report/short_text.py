"""An audit in twelve lines: who, the verdict, the largest gaps that are shown, what could have been seen, and one limit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenscore.auditing.audit_result import Audit
from evenscore.auditing.gate import UNSHOWN, GateResult
from evenscore.auditing.subject import Subject
from evenscore.estimation.pairwise import GroupPair
from evenscore.estimation.verdict import DISPARITY
from evenscore.naming import in_names, label_text
from evenscore.report.headline import ordered, score_text, shown_gap, shown_regions, size, tolerance_text, verdict_sentence
from evenscore.report.words import disagreement, headline, widest_band
from evenscore.report.wrapping import TABBED, ink, wrap
from evenscore.tables import printable, shorten
from evenscore.wording import at_least, p_short

LINES, PEOPLE_LINES, GROUPS, PAIRS, SUBJECTS = 12, 2, 5, 3, 5
NAME, SHORTEST = 24, 8  # characters of a group's name in a line with numbers
MORE = ".text(verbose=True)"


@dataclass(frozen=True, slots=True)
class ShownPair:
    """A line about a pair of groups in which a disparity is shown. size: to sort by; joined: what stands between the names."""

    groups: tuple[str, str]
    words: str
    size: float
    joined: str = " - "

    def names(self, limit: int) -> str:
        """Both groups, each in so many characters."""
        return self.joined.join(shorten(name, limit) for name in self.groups)


def short_text(audit: Audit, width: int, colour: bool = False, more: str = MORE, ending: str = "") -> str:
    """At most twelve lines. more: how to see the rest; ending: the last line, such as where the report is."""
    lead = audit.headline
    lines = [*_people(audit, width), *_assumed(audit, width), ""]
    lines += _verdicts(audit, width, colour)
    last = wrap(ending or f'Next: .to_html("audit.html") writes the report, {more} prints the rest.', width, "")
    tried = [_pairs(lead, width, more, most) for most in range(PAIRS, 0, -1)]
    lines += next((pairs for pairs in tried if len(lines) + len(pairs) + len(last) <= LINES), tried[-1])
    for wordings in _remarks(audit, lead):
        tried = [wrap(sentence, width, "") for sentence in wordings]
        lines += next((added for added in tried if len(lines) + len(added) + len(last) <= LINES), [])
    return "\n".join([*lines, *last])


def _people(audit: Audit, width: int) -> list[str]:
    """How many people are in which groups, the largest first, in two lines; of several attributes how many there are."""
    if len(audit.subjects) > 1:
        rows = sum(audit.subjects[0].tally.n_rows.values())
        return wrap(f"{len(audit.subjects)} scores and attributes, {rows:,} rows", width, "")
    tried = (wrap(_of_groups(audit.headline, most), width, "") for most in range(GROUPS, 0, -1))
    groups = next((lines for lines in tried if len(lines) <= PEOPLE_LINES), wrap(_of_groups(audit.headline, 0), width, ""))
    means = _sentence(audit.headline.row_counts.short)  # two questions, before either is answered
    return [*groups, *wrap(means, width, "")] if means else groups


def _assumed(audit: Audit, width: int) -> list[str]:
    """What was assumed about files, whatever room it takes."""
    notes = dict.fromkeys(note for subject in audit.subjects for note in subject.notes if note.startswith("assumed"))
    return [line for note in notes for line in wrap(_sentence(note), width, "")]


@in_names
def _of_groups(subject: Subject, most: int) -> str:
    tally = subject.tally
    users, rows = sum(tally.n_users.values()), sum(tally.n_rows.values())
    who = (
        f"{users:,} users"
        if not tally.independent
        else f"{users:,} {'independent rows' if tally.item is None else 'rows, each a user of its own,'}"
    )
    counted = [f"{rows:,} rows"] if rows != users and not tally.independent else []
    spanning = f", {tally.n_spanning:,} users in more than one" if tally.n_spanning else ""
    if spanning:  # users of several groups would be counted more than once
        who, counted = f"{rows:,} rows", []
    more = counted + ([] if tally.item is None else [f"items: {tally.item}"])
    sizes = sorted(tally.n_users.items(), key=lambda own: -own[1])
    named = [f"{shorten(label_text(group), NAME)} {number:,}" for group, number in sizes[:most]]
    rest = [f"and {len(sizes) - most} more"] if most < len(sizes) else []
    parts = [*named, *rest] if most else []
    inside = f" ({', '.join(more)})" if more else ""
    return f"{who} in {len(sizes)} groups{spanning}{inside}{': ' if parts else ''}{', '.join(parts)}"


def _verdicts(audit: Audit, width: int, colour: bool) -> list[str]:
    if len(audit.subjects) == 1:
        return _verdict(audit.verdict, verdict_sentence(audit.headline, audit.tolerance, with_p=True), width, colour)
    lines = _verdict(audit.verdict, headline(audit), width, colour)
    ranked = sorted(audit.subjects, key=lambda subject: (subject.verdict != DISPARITY, _rank(subject.p_value)))
    for subject in ranked[:SUBJECTS]:
        p_value = p_short(subject.p_value)
        lines.append(f"  {printable(subject.name, width - 32)}: {subject.verdict}{p_value and f' ({p_value})'}")
    if len(ranked) > SUBJECTS:
        lines.append(f"  and {len(ranked) - SUBJECTS} more")
    return lines


def _rank(p_value: float) -> float:
    return p_value if np.isfinite(p_value) else 2.0


def _verdict(verdict: str, sentence: str, width: int, colour: bool) -> list[str]:
    lines = wrap(f"{verdict.upper()}: {sentence}.", width, "", TABBED)
    return [lines[0].replace(verdict.upper(), ink(verdict, colour), 1), *lines[1:]]


# Pairs


@in_names
def _pairs(subject: Subject, width: int, more: str, most: int) -> list[str]:
    """So many of the largest shown gaps, and how many pairs are left."""
    if subject.verdict != DISPARITY:
        return []
    shown = sorted(shown_pairs(subject), key=lambda pair: -pair.size)
    longest = max((len(pair.words) for pair in shown[:most]), default=0)
    limit = min(NAME, max(SHORTEST, (width - longest - 9) // 2))  # names are cut, never numbers
    column = max((len(pair.names(limit)) for pair in shown[:most]), default=0)
    lines = [printable(f"  {pair.names(limit):{column}}  {pair.words}", width) for pair in shown[:most]]
    rest, unshown = max(0, len(shown) - most), len(subject.parity.pairs) - len(shown)
    tolerance = subject.parity.tolerance
    by_more = "" if tolerance is None else f" by more than {tolerance_text(tolerance, subject.tally.binary)}"
    more_than = " by more" if by_more else ""  # than what the headline names: the line has to be short
    counts = [f"{rest} more {'pair differs' if rest == 1 else 'pairs differ'}{more_than}"] if rest else []
    if unshown > 0 and len(subject.parity.pairs) > 1:
        noun, verb = ("", "") if counts else (" pair" if unshown == 1 else " pairs", f" differ{by_more}")
        counts.append(f"{unshown}{noun} {'is' if unshown == 1 else 'are'} not shown to{verb}")
    return [*lines, *wrap(f"{', '.join(counts)} ({more})", width)] if counts else lines


def shown_pairs(subject: Subject) -> list[ShownPair]:
    """What the tests that decide show about each pair, once a pair: a gap at a score before one of the order or the threshold."""
    binary = subject.tally.binary
    found: dict[tuple[str, str], ShownPair] = {}
    if "parity" in subject.decides:
        for region, pair in shown_regions(subject.parity):
            found[_key(pair)] = ShownPair(ordered(pair, region.gap), "+" + shown_gap(region, binary), abs(region.gap))
        for pair in subject.parity.pairs:
            if pair.verdict == DISPARITY and _key(pair) not in found:
                found[_key(pair)] = ShownPair(_both(pair), "differ, but at no single score", 0.0, " and ")
    if "marginal" in subject.decides and subject.marginal is not None:
        for own in subject.marginal.pairs:
            if own.verdict == DISPARITY:
                words = f"+{size(own.gap, binary)} at the threshold {subject.threshold:g}"
                found.setdefault(_key(own), ShownPair(ordered(own, own.gap), words, abs(own.gap)))
    if "ordering" in subject.decides:
        for order in subject.ordering.pairs:
            if order.verdict == DISPARITY:
                words = f"{at_least(order.at_least)} pairs misordered"
                found.setdefault(_key(order), ShownPair(_both(order), words, 0.0, " and "))
    return list(found.values())


def _key(pair: object) -> tuple[str, str]:
    first, second = sorted(repr(getattr(pair, name)) for name in ("group_a", "group_b"))
    return first, second


def _both(pair: GroupPair) -> tuple[str, str]:
    return label_text(pair.group_a), label_text(pair.group_b)


# The rest, the most important first


def _remarks(audit: Audit, lead: Subject) -> list[list[str]]:
    """Each in one wording or more, the fullest first."""
    gate = _gate(audit)
    return [*([[gate]] if gate else []), *_of_subject(lead, audit)]


@in_names
def _of_subject(subject: Subject, audit: Audit) -> list[list[str]]:
    alarms = [] if subject.placebo is None else [_sentence(text) for text in subject.placebo.failures or [subject.placebo.sentence]]
    means = _sentence(subject.row_counts.short) if len(audit.subjects) > 1 else ""  # else told above
    other = _sentence(disagreement(subject).split("; ")[0])
    before = [[sentence] for sentence in (other, *alarms, _unjudged(subject), *_left_out(subject)) if sentence]
    after = [[sentence] for sentence in (means, _limit(subject)) if sentence]
    name = f"{subject.name}: " if len(audit.subjects) > 1 else ""
    return [[name + sentence for sentence in wordings] for wordings in (*before, _detectable(subject), *after) if wordings]


def _gate(audit: Audit) -> str:
    """Only where the gate asks for more than that no disparity is shown."""
    if audit.gate.rule == "difference" and audit.gate.require_power is None:
        return ""
    return gate_words(audit.check())


def gate_words(gate: GateResult) -> str:
    """What the gate makes of the verdict."""
    outcome = "not demonstrated" if gate.outcome == UNSHOWN else gate.outcome
    return f'Gate "{gate.rule}": {outcome}, {gate.reason}.'


def _unjudged(subject: Subject) -> str:
    return "" if np.isfinite(subject.p_value) else f"Why: {subject.reason.rstrip('.')}."  # it may begin with a group's name


def _left_out(subject: Subject) -> list[str]:
    """What is not in the numbers above."""
    dropped = [_sentence(note) for note in subject.tally.dropped_notes]
    unlabelled = sum(subject.tally.n_unlabelled.values())
    if unlabelled:
        dropped.append(f"{unlabelled:,} more {'row has' if unlabelled == 1 else 'rows have'} no known outcome.")
    return [*dropped, _sentence(subject.selection.sentence)]


def _detectable(subject: Subject) -> list[str]:
    """The smallest gap that could have been seen: along the score and at some scores, or where there is no room the former."""
    test, binary = subject.parity, subject.tally.binary
    if np.isnan(test.minimum_detectable_gap):
        return []
    found = "found" if test.tolerance is None else "told from none"
    if np.isinf(test.minimum_detectable_gap):
        between = " between some of the groups" if len(test.pairs) > 1 else ""
        return [f"Even the largest possible gap{between} would not be {found} 4 times out of 5."]
    whose = " between any two groups" if len(test.pairs) > 1 else ""  # the pair with fewest people sets it
    whose += " that could be compared" if not all(pair.judged for pair in test.pairs) else ""
    words = f"A constant gap of {size(test.minimum_detectable_gap, binary)}{whose} would be {found} 4 times out of 5"
    widest = None if subject.verdict == DISPARITY else widest_band(test)
    if widest is None:
        return [f"{words}."]
    score, half = widest
    return [
        f"{words}; at some scores only, it must be larger (at {score_text(score)} the band is ±{size(half, binary)}).",
        f"{words}.",
    ]


def _limit(subject: Subject) -> str:
    """Where groups were compared, or that rows were taken for people."""
    if subject.tally.independent:
        return "Rows were declared independent; if people occur in several, false alarms are likely."
    spans = [pair.interval for pair in subject.parity.pairs if pair.judged]
    if not spans:
        return ""
    low, high = min(span[0] for span in spans), max(span[1] for span in spans)
    scores = f"scores {score_text(low)} to {score_text(high)}" if low < high else f"score {score_text(low)}"
    return f"Compared where both groups have people: {scores}."


def _sentence(text: str) -> str:
    """Words with a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""
