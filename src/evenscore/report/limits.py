"""What an audit does not say, in sentences."""

from __future__ import annotations

from evenscore.auditing.audit_result import Audit
from evenscore.auditing.subject import Subject
from evenscore.estimation.verdict import INCONCLUSIVE
from evenscore.naming import in_names
from evenscore.tables import label_text
from evenscore.wording import figures

MOST_NAMED = 10  # groups that are not judged; the table has all
MOST_PAIRS = 3  # that could not be compared, with the reason; the JSON has all


def limits(audit: Audit, headline: bool = True) -> list[str]:
    """What the audit does not say. headline: also what the headline of a report says already."""
    texts = []
    if headline and audit.verdict == INCONCLUSIVE:
        texts.append("that no disparity is shown is not evidence that there is none: see what could have been seen")
    for subject in audit.subjects:
        name = f"{subject.name}: " if len(audit.subjects) > 1 else ""
        texts += [name + text for text in _subject_limits(subject)]
    if len(audit.subjects) > 1:
        texts.append(
            f"{len(audit.subjects)} scores and attributes share the level {audit.alpha:g}: each is tested at "
            f"{audit.subjects[0].alpha:.3g}"
        )
    texts.append(
        "outcomes are taken as recorded: if they are measured differently for different groups, equal outcomes would not show it. "
        "Parity of outcomes given the score says nothing about who gets which score, or how the score is used"
    )
    return texts


@in_names
def _subject_limits(subject: Subject) -> list[str]:
    names = {
        "calibration": "calibration error",
        "thresholds": "other thresholds",
        "impact": "impact on decisions",
        "decisions": "rates of decisions",
        "repair": "repair",
        "accuracy": "squared error before the repair",
        "placebo": "false alarms on this data",
    }
    texts = []
    for reason in dict.fromkeys(subject.unavailable.values()):
        steps = [names[step] for step, why in subject.unavailable.items() if why == reason]
        texts.append(f"not given: {' and '.join(steps)}, because {reason}")
    if subject.placebo is not None:
        texts += subject.placebo.failures
    tally, test = subject.selection.tally, subject.parity
    texts += [f"{label_text(group.group)}: {group.words}" for group in subject.selection.unjudged[:MOST_NAMED]]
    spans = [pair.interval for pair in test.pairs if pair.judged]
    if spans:
        low, high = min(span[0] for span in spans), max(span[1] for span in spans)
        compared = f"scores from {figures(low)} to {figures(high)}" if low < high else f"people with score {figures(low)}"
        both = "both groups" if len(test.pairs) == 1 else "both groups of a pair"
        texts.append(f"{compared} were compared, where {both} have enough people")
    if tally.released:
        texts.append(f"this is a released tally: every sum stands for at least {tally.released[0]:,} users, so curves are coarser")
    if tally.independent:
        texts.append("rows were declared independent; if people occur in several rows, false alarms are likely")
    unlabelled = sum(tally.n_unlabelled.values())
    if unlabelled:
        texts.append(f"{unlabelled:,} rows have no known outcome; the audit is about those that have one")
    unjudged = [pair for pair in test.pairs if not pair.judged]
    if unjudged and len(unjudged) < len(test.pairs):
        texts.append(f"{len(unjudged)} of {len(test.pairs)} pairs of groups could not be compared at the same score")
        texts += [f"{label_text(pair.group_a)} and {label_text(pair.group_b)}: {pair.reason}" for pair in unjudged[:MOST_PAIRS]]
    few = [label_text(group) for group, users in tally.n_users.items() if users < 30]
    if few:
        texts.append(f"fewer than 30 users: {', '.join(few[:10])}{' ...' if len(few) > 10 else ''}")
    return texts
