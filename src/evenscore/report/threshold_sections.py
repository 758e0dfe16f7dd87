"""What happens at a threshold, in a report: outcomes there, thresholds that even them out, and decisions by calibrated scores."""

from __future__ import annotations

import math

from evenscore.auditing.subject import Subject
from evenscore.estimation.verdict import DISPARITY, PARITY
from evenscore.report import findings, words
from evenscore.report.decision_section import decision_section
from evenscore.report.document import Section
from evenscore.report.estimate_charts import impact_chart, marginal_chart, threshold_chart
from evenscore.report.findings import amount, group_name, score_words, sentence, unit
from evenscore.report.sheets import sheet
from evenscore.report.threshold_text import two_estimates
from evenscore.tables import label_text
from evenscore.wording import p_short

SHOWN_PAIRS = 12  # rows of a table of pairs; the JSON has all
SHOWN_NAMES, FEW_NOTES = 10, 3


def threshold_section(subject: Subject, prefix: str) -> Section | None:
    """Outcomes of people who just get the decision."""
    test = subject.marginal
    if test is None:
        return None
    notes = [
        *map(sentence, test.label_sentences),
        *_first(test.misleading, "pairs of groups"),
        *_first(_by_reason({label_text(side.group): side.reason for side in test.other_side}), "groups"),
        *([test.disagreement] if test.disagreement else []),
    ]
    if subject.thresholds is not None:
        notes += map(sentence, two_estimates(test, subject.thresholds))
    return Section(
        f"{prefix}decision",
        f"Decisions at {subject.threshold:g}",
        _standard(subject),
        test.verdict,
        figures=(marginal_chart(test, f"{prefix}marginal", findings.share_of(subject), subject.tally.binary),),
        tables=(sheet(test.rows(), "Pairs of groups at the threshold; gap is group a minus group b", limit=SHOWN_PAIRS),),
        notes=tuple(map(findings.ended, notes)),
    )


def _first(notes: list[str], what: str) -> list[str]:
    """A few notes, and how many more there are."""
    more = [f"{len(notes) - FEW_NOTES} more {what} like these are in the JSON"] if len(notes) > FEW_NOTES else []
    return [*notes[:FEW_NOTES], *more]


def _by_reason(reasons: dict[str, str]) -> list[str]:
    """Each reason once, after the groups that it holds for."""
    groups: dict[str, list[str]] = {}
    for group, reason in reasons.items():
        groups.setdefault(reason, []).append(group)
    return [f"{', '.join(names[:SHOWN_NAMES])}{', ...' * (len(names) > SHOWN_NAMES)}: {why}" for why, names in groups.items()]


def _standard(subject: Subject) -> str:
    """Which group is held to the highest standard, among those for which that is shown."""
    test = subject.marginal
    assert test is not None
    shown = [pair for pair in test.pairs if pair.verdict == DISPARITY]
    if test.verdict == PARITY:
        return f"Outcomes at the threshold differ by no more than {findings.within(subject, test.tolerance)}."
    if not shown and math.isnan(test.p_value):
        return sentence(words.threshold(subject))
    if not shown:
        size = amount(subject, abs(test.max_gap))[0]
        beyond = "" if test.tolerance is None else f" beyond {findings.within(subject, test.tolerance)}"
        largest = f"the largest estimate is {size}{unit(subject)} ({p_short(test.p_value)})"
        return f"No difference{beyond} is shown at the threshold; {largest}."
    pair = max(shown, key=lambda pair: abs(pair.gap))
    lower = pair.group_b if pair.higher is pair.group_a else pair.group_a
    high, low = (next(own.estimate for own in test.marginals if own.group is group) for group in (pair.higher, lower))
    least, most = amount(subject, low, high)
    mark = " %" if subject.tally.binary else ""
    return (
        f"The standard is higher for {group_name(pair.higher)} than for {group_name(lower)}: at the threshold the "
        f"{findings.share_of(subject)} is {most}{mark} against {least}{mark} ({p_short(pair.p_adjusted)})."
    )


def rates_section(subject: Subject, prefix: str) -> Section | None:
    """Selection and error rates."""
    return decision_section(subject.decisions, prefix)


def fair_section(subject: Subject, prefix: str) -> Section | None:
    """Thresholds that would even out outcomes."""
    solution = subject.thresholds
    if solution is None:
        return None
    reasons = _first(_by_reason({label_text(group): reason for group, reason in solution.reasons.items()}), "groups")
    return Section(
        f"{prefix}fair-thresholds",
        "Fair thresholds",
        _fair(subject),
        figures=(threshold_chart(solution, f"{prefix}thresholds", findings.share_of(subject)),),
        notes=tuple(map(findings.ended, reasons)),
    )


def _fair(subject: Subject) -> str:
    """The lowest and the highest threshold."""
    solution, test = subject.thresholds, subject.marginal
    known = [own for own in solution.groups if math.isfinite(own.threshold)] if solution is not None else []
    if solution is None or test is None or test.verdict != DISPARITY or not known:
        most = "" if test is None or test.tolerance is None else f" by more than {findings.within(subject, test.tolerance)}"
        return f"One threshold for all is not shown to hold groups to standards that differ{most}."
    low, high = (choose(known, key=lambda own: own.threshold) for choose in (min, max))
    if score_words(low.threshold) == score_words(high.threshold):
        return (
            f"No thresholds are found that come closer to equal outcomes than about {score_words(low.threshold)} for every group."
        )
    ends = " to ".join(f"{score_words(own.threshold)} for {group_name(own.group)}" for own in (low, high))
    same, about = ("the same", "as many") if solution.solved else ("nearly the same", "about as many")
    return f"From {ends}: {same} outcome at every threshold, and {about} positive decisions as now."


def impact_section(subject: Subject, prefix: str) -> Section | None:
    """What calibrated scores would change."""
    if subject.impact is None:
        return None
    changes = [row[name] for row in subject.impact.rows() for name in ("estimate", "ci_low", "ci_high")]
    changed = sentence(words.impact(subject)) or "The change could not be judged."
    return Section(
        f"{prefix}calibrated",
        "Decisions by calibrated scores",
        changed if any(changes) else "Calibrated scores would change no decision.",
        figures=(impact_chart(subject.impact, f"{prefix}impact"),),
    )
