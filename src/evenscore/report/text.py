"""An audit for a terminal."""

from __future__ import annotations

from evenscore.auditing.audit_result import Audit, Subject
from evenscore.estimation.verdict import DISPARITY
from evenscore.report.decision_text import impact_block
from evenscore.report.words import at_some_scores, headline, largest_pair, limits, sides, subject_sentences
from evenscore.report.wrapping import wrap
from evenscore.tables import number_text, p_text, printable, text_table

INK = {"disparity": "31;1", "inconclusive": "33;1", "parity": "36;1"}


def audit_text(audit: Audit, colour: bool = False) -> str:
    """Each score and attribute with its groups, verdict, pairs and the rest in sentences; then the gate."""
    blocks = [_subject(audit, subject, colour) for subject in audit.subjects]
    gate = audit.check()
    lines = [f"gate {gate.rule}: {gate.outcome}, {gate.reason}"]
    lines += [f"limit: {text}" for text in limits(audit)]
    if len(audit.subjects) > 1:
        whole = _ink(audit.verdict, colour)
        blocks.append(f"  {whole} in all: {headline(audit.verdict, audit.tolerance)}\n\n{text_table(audit.rows())}")
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
    lines = [text_table(tally.rows()), wrap(f"{sum(tally.n_rows.values()):,} rows; {users}")]
    return "\n".join([*lines, *(wrap(note) for note in subject.notes)])


def _verdict(subject: Subject, audit: Audit, colour: bool) -> str:
    p_value = min((subject.tests[name].p_value for name in subject.decides), key=lambda p: p if p == p else 2.0)
    lines = [f"  {_ink(subject.verdict, colour)}: {headline(subject.verdict, audit.tolerance)}  (p = {p_text(p_value)})"]
    pair = largest_pair(subject.parity)
    if pair is not None:
        where = f"at score {number_text(pair.at_score)}, {sides(pair, pair.max_gap)}"
        lines.append(wrap(f"largest gap: {abs(pair.max_gap):.3f} {where}"))
    if subject.verdict != DISPARITY:
        lines += [wrap(words) for words in (subject.reason, at_some_scores(subject.parity)) if words]
    return "\n".join(lines)


def _more(subject: Subject) -> str:
    """What stands in no table."""
    test = subject.parity
    said = [sentence.text for sentence in subject_sentences(subject) if sentence.kind not in ("tested", "gap", "power")]
    by_user = test.weighting == "user" and not test.independent
    weighed = "each user counts once, whatever the number of rows" if by_user else "each row counts once"
    how = [f"tested: {test.null}", f"how: method {test.method}, {weighed}, level {test.alpha:.3g}"]
    remarks = [remark for remark in test.remarks if remark not in said]
    return "\n".join(wrap(line) for line in [*said, *how, *remarks])
