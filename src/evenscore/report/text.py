"""An audit for a terminal."""

from __future__ import annotations

from typing import Any

from evenscore.auditing.audit_result import Audit, Subject
from evenscore.estimation.verdict import DISPARITY
from evenscore.report.decision_text import impact_block
from evenscore.report.words import (
    MOST_NAMED,
    at_some_scores,
    gap_words,
    headline,
    limits,
    subject_headline,
    subject_sentences,
)
from evenscore.report.wrapping import wrap
from evenscore.tables import p_words, printable, text_table

INK = {"disparity": "31;1", "inconclusive": "33;1", "parity": "36;1"}


def audit_text(audit: Audit, colour: bool = False) -> str:
    """Each score and attribute with its groups, verdict, pairs and the rest in sentences; then the gate."""
    blocks = [_subject(audit, subject, colour) for subject in audit.subjects]
    gate = audit.check()
    lines = [f"gate {gate.rule}: {gate.outcome}, {gate.reason}"]
    lines += [f"limit: {text}" for text in limits(audit)]
    if len(audit.subjects) > 1:
        whole = _ink(audit.verdict, colour)
        blocks.append(f"  {whole} in all: {headline(audit)}\n\n{text_table(audit.rows())}")
    blocks.append("\n".join(wrap(line) for line in lines))
    return "\n\n".join(block for block in blocks if block)


def _ink(verdict: str, colour: bool) -> str:
    return f"\x1b[{INK[verdict]}m{verdict.upper()}\x1b[0m" if colour else verdict.upper()


def _subject(audit: Audit, subject: Subject, colour: bool) -> str:
    several = [f"  {printable(subject.name, 90)}"] if len(audit.subjects) > 1 else []
    blocks = [
        *several,
        _data(subject),
        _verdict(subject, audit, colour),
        text_table(subject.parity.rows()),
        impact_block(subject.decisions),
        _more(subject),
    ]
    return "\n\n".join(block for block in blocks if block)


def _data(subject: Subject) -> str:
    tally = subject.tally
    users = "rows are taken as independent" if tally.independent else f"users: {tally.columns.user}" if tally.columns else ""
    lines = [text_table(group_rows(subject)), wrap(f"{sum(tally.n_rows.values()):,} rows; {users}")]
    said = filter(None, (subject.selection.sentence, subject.row_counts.sentence))
    return "\n".join([*lines, *(wrap(note) for note in (*said, *subject.notes))])


def group_rows(subject: Subject) -> list[dict[str, Any]]:
    """One row a group, with columns that say something only; those that are not judged in a line each only if they are few."""
    rows = subject.group_rows()
    hidden = [row for row in rows if row["not_judged"]]
    if len(hidden) > MOST_NAMED:
        rows = [row for row in rows if not row["not_judged"]]
    idle = {"not_judged"} if len(rows) == len(subject.selection.tally.groups) else set()
    idle |= set() if subject.row_counts.sentence else {"mean_outcome_per_row"}
    return [{name: value for name, value in row.items() if name not in idle} for row in rows]


def _verdict(subject: Subject, audit: Audit, colour: bool) -> str:
    said = subject_headline(subject, audit.tolerance)
    p_value = p_words(subject.p_value)
    lines = [f"  {_ink(subject.verdict, colour)}: {said}{p_value and ' ' + p_value}"]
    if gap := gap_words(subject.parity):
        lines.append(wrap(gap))
    if subject.verdict != DISPARITY:
        lines += [wrap(words) for words in (subject.reason, at_some_scores(subject.parity)) if words]
    return "\n".join(lines)


def _more(subject: Subject) -> str:
    """What stands in no table."""
    test = subject.parity
    said = [
        sentence.text
        for sentence in subject_sentences(subject)
        if sentence.kind not in ("tested", "gap", "power", "means", "groups")
    ]
    by_user = test.weighting == "user" and not test.independent
    weighed = "each user counts once, whatever the number of rows" if by_user else "each row counts once"
    how = [f"tested: {test.null}", f"how: method {test.method}, {weighed}, level {test.alpha:.3g}"]
    remarks = [remark for remark in test.remarks if remark not in said]
    return "\n".join(wrap(line) for line in [*said, *how, *remarks])
