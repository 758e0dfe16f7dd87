"""An audit for a terminal, in full."""

from __future__ import annotations

from typing import Any

from evenscore.auditing.audit_result import Audit
from evenscore.auditing.subject import Subject
from evenscore.estimation.verdict import DISPARITY
from evenscore.naming import in_names
from evenscore.report.decision_text import impact_block
from evenscore.report.headline import verdict_sentence
from evenscore.report.limits import MOST_NAMED, limits
from evenscore.report.short_text import gate_words
from evenscore.report.words import at_some_scores, gap_words, headline, null_of, subject_sentences, weighted
from evenscore.report.wrapping import WIDTH, ink, paragraphs
from evenscore.tables import text_table
from evenscore.wording import p_short

TOLD = ("tested", "gap", "power", "means", "groups", "decided")  # elsewhere in the text


def full_text(audit: Audit, width: int = WIDTH, colour: bool = False) -> str:
    """Each score and attribute with its groups, verdict, pairs and the rest in sentences; then the gate."""
    blocks = [_subject(subject, audit, width, colour) for subject in audit.subjects]
    if len(audit.subjects) > 1:
        whole = _inked(f"{audit.verdict.upper()} in all: {headline(audit)}", audit.verdict, width, colour)
        blocks.append(f"{whole}\n\n{text_table(audit.rows(), width=width)}")
    blocks.append(paragraphs([gate_words(audit.check()), *(f"limit: {text}" for text in limits(audit))], width))
    return "\n\n".join(block for block in blocks if block)


@in_names
def _subject(subject: Subject, audit: Audit, width: int, colour: bool) -> str:
    several = [paragraphs([subject.name], width)] if len(audit.subjects) > 1 else []
    blocks = [
        *several,
        _data(subject, width),
        _verdict(subject, audit, width, colour),
        text_table(subject.parity.rows(), width=width),
        _keys(subject, width),
        impact_block(subject.decisions, width),
        _more(subject, width),
    ]
    return "\n\n".join(block for block in blocks if block)


def _keys(subject: Subject, width: int) -> str:
    """The test by users, by items and by both; nothing without items."""
    if subject.keys is None:
        return ""
    return f"{text_table(subject.keys.rows(), width=width)}\n{paragraphs([subject.keys.sentence], width)}"


def _data(subject: Subject, width: int) -> str:
    tally = subject.tally
    users = "rows are taken as independent" if tally.independent else f"users: {tally.columns.user}" if tally.columns else ""
    said = [note for note in (subject.selection.sentence, subject.row_counts.sentence) if note]
    if tally.item is not None:
        users = f"{'each row is a user of its own' if tally.independent else users}, items: {tally.item}"
    lines = [f"{sum(tally.n_rows.values()):,} rows; {users}", *said, *subject.notes]
    return f"{text_table(group_rows(subject), width=width)}\n{paragraphs(lines, width)}"


def group_rows(subject: Subject) -> list[dict[str, Any]]:
    """One row a group, with columns that say something only; those that are not judged in a line each only if they are few."""
    rows = subject.group_rows()
    hidden = [row for row in rows if row["not_judged"]]
    if len(hidden) > MOST_NAMED:
        rows = [row for row in rows if not row["not_judged"]]
    idle = {"not_judged"} if len(rows) == len(subject.selection.tally.groups) else set()
    idle |= set() if subject.row_counts.sentence else {"mean_outcome_per_row"}
    return [{name: value for name, value in row.items() if name not in idle} for row in rows]


def _verdict(subject: Subject, audit: Audit, width: int, colour: bool) -> str:
    sentence = verdict_sentence(subject, audit.tolerance, with_p=True)
    lines = [_inked(f"{subject.verdict.upper()}: {sentence}.", subject.verdict, width, colour)]
    said = [gap_words(subject.parity)]
    if subject.verdict != DISPARITY:
        said += [subject.reason, at_some_scores(subject.parity)]
    return "\n".join([*lines, paragraphs([words for words in said if words], width)]).rstrip("\n")


def _inked(sentence: str, verdict: str, width: int, colour: bool) -> str:
    return paragraphs([sentence], width).replace(verdict.upper(), ink(verdict, colour), 1)


def _more(subject: Subject, width: int) -> str:
    """What stands in no table."""
    test = subject.parity
    said = [sentence.text for sentence in subject_sentences(subject) if sentence.kind not in TOLD]
    decided = [sentence.text for sentence in subject_sentences(subject) if sentence.kind == "decided"]
    by_user = test.weighting == "user" and not test.independent
    weighed = "each user counts once, whatever the number of rows" if by_user else "each row counts once"
    if weighted(subject):
        weighed = f"each {'user' if by_user else 'row'} counts by its weight"
    exact = p_short(subject.p_value).startswith("p <") and f", p = {subject.p_value:.1e}"
    how = [f"null hypothesis: {null_of(subject)}", f"how: method {test.method}, {weighed}, level {test.alpha:.3g}{exact or ''}"]
    remarks = [remark for remark in test.remarks if remark not in said]
    return paragraphs([*decided, *said, *how, *remarks], width)
