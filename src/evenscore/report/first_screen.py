"""What is read in ten seconds: verdict, pictures, three facts, and what to do next."""

from __future__ import annotations

import shlex

import numpy as np

from evenscore.auditing.audit_result import Audit
from evenscore.auditing.gate import UNSHOWN
from evenscore.auditing.subject import Subject
from evenscore.calibration.repair_state import SHOWN, UNJUDGED
from evenscore.estimation.verdict import DISPARITY, PARITY
from evenscore.naming import own_names
from evenscore.report import findings
from evenscore.report.chart import Chart
from evenscore.report.curve_charts import curve_chart, has_picture
from evenscore.report.document import Fact, FirstScreen
from evenscore.report.estimate_charts import order_chart
from evenscore.report.findings import above, amount, finite, group_name, sentence, unit
from evenscore.report.headline import score_name
from evenscore.report.pair_charts import forest_chart, single_gap_chart
from evenscore.report.sheets import Sheet, sheet
from evenscore.report.ticks import percent
from evenscore.report.words import shown_changes
from evenscore.tables import label_text, printable
from evenscore.wording import at_least, p_short

MOST_FACTS = 3


def first_screen(audit: Audit) -> FirstScreen:
    """The top of the report: of the score and attribute that stands for the whole."""
    subject = findings.speaker(audit)
    with own_names(subject.group_names):
        return _first_screen(audit, subject, len(audit.subjects) > 1)


def _first_screen(audit: Audit, subject: Subject, several: bool) -> FirstScreen:
    pictures = [curve_chart(subject, "curves")] if has_picture(subject) else []
    pictures += _pairs(subject)
    return FirstScreen(
        audit.verdict,
        findings.state(subject, audit.tolerance),
        sentence(findings.headline(subject, audit.tolerance, several)),
        tuple(filter(None, (f"{findings.people(subject)} {findings.pair_counts(subject)}".strip(), _reason(subject)))),
        tuple(pictures),
        _facts(subject),
        _next_step(audit, subject),
        _gate(audit),
        _overview(audit) if several else None,
    )


def _pairs(subject: Subject) -> list[Chart]:
    kind = findings.pair_picture(subject)
    if kind == "ordering":
        return [order_chart(subject.ordering, "pairs")]
    if kind == "gaps":
        return [single_gap_chart(subject, "pairs")]
    return [forest_chart(subject, "pairs")] if kind else []


def _gate(audit: Audit) -> str:
    """What the gate makes of the verdict, where it asks for more than that no disparity is shown."""
    gate = audit.check()
    if gate.rule == "difference" and audit.gate.require_power is None:
        return ""
    return f"Gate “{gate.rule}”: {'not demonstrated' if gate.outcome == UNSHOWN else gate.outcome}"


def _reason(subject: Subject) -> str:
    """Why the verdict is no disparity, where the headline and the facts do not say it."""
    test = subject.parity
    undecided = test.tolerance is None or (test.verdict != PARITY and all(pair.judged for pair in test.pairs))
    said = subject.verdict in (DISPARITY, PARITY) or (finite(subject.p_value) and undecided)
    return "" if said else sentence(subject.reason)


# Facts


def _facts(subject: Subject) -> tuple[Fact, ...]:
    """The three numbers that matter most, each with its meaning."""
    makers = OF_A_DISPARITY if subject.verdict == DISPARITY else OF_NO_DISPARITY
    return tuple([fact for make in makers if (fact := make(subject)) is not None][:MOST_FACTS])


def _order(subject: Subject) -> Fact | None:
    share, shown = subject.ordering.misordered_share, findings.misordered_pair(subject)
    if not subject.order_decides or not finite(share) or shown is None or at_least(shown.at_least) == "all":
        return None
    return Fact(
        f"{100 * share:.3g} %", "of pairs of people, one of each group, are misordered by the estimate; near-ties inflate it."
    )


def _decisions(subject: Subject) -> Fact | None:
    """Whose decisions calibrated scores would change most, among those that are shown to change."""
    if subject.impact is None or subject.threshold is None:
        return None
    rows = [row for row in subject.impact.rows() if row["group"] is not None and finite(row["estimate"])]
    shown = shown_changes(rows)
    if not shown:
        return None
    row = max(shown, key=lambda row: abs(row["estimate"]))
    before, after = (f"{100 * row[name]:.1f} %" for name in ("rate_before", "rate_after"))
    side = "of at least" if subject.positive == "above" else "below"
    return Fact(
        f"{before} → {after}",
        f"{group_name(row['group'])}: share with a score {side} {subject.threshold:g}, now and if scores were calibrated.",
    )


def _repair(subject: Subject) -> Fact | None:
    repair = subject.repair
    if repair is None or repair.verification is None or not repair.suggested or repair.state == UNJUDGED:
        return None
    before, after = repair.verification.rms_gap_before, repair.verification.rms_gap_after
    if not (finite(before) and finite(after)):
        return None
    old, new = (f"{100 * gap:.1f}" for gap in (before, after)) if subject.tally.binary else amount(subject, before, after)
    whom = repair.verification.split_of
    fitted = f"typical gap beyond noise, before and after a repair fitted on half of the {whom}, judged on the other half"
    return Fact(f"{old} → {new}{unit(subject)}", f"{fitted}: {findings.after_repair(subject, repair.state)}.")


def _power(subject: Subject) -> Fact | None:
    if not finite(subject.minimum_detectable_gap):
        return None
    found = "be found" if subject.parity.tolerance is None else "be told from none"
    where = "" if all(pair.judged for pair in subject.parity.pairs) else " in each pair that could be compared"
    return Fact(
        f"{amount(subject, subject.minimum_detectable_gap)[0]}{unit(subject)}",
        f"is the smallest constant gap that would {found}{where} 4 times out of 5. One at some scores only must be larger.",
    )


def _ruled_out(subject: Subject) -> Fact | None:
    """The gap that the bands of all pairs exclude."""
    pairs = subject.parity.pairs
    largest = max((pair.within for pair in pairs), default=np.nan)
    if not (pairs and all(pair.judged for pair in pairs) and finite(largest)):
        return None
    level = percent(1 - subject.parity.alpha)
    return Fact(f"{above(subject, largest)}{unit(subject)}", f"is the largest gap that the {level} bands leave possible.")


def _fooled(subject: Subject) -> Fact | None:
    """What somebody would have said who takes rows for people, if it is something else."""
    found = subject.rows_as_people
    if found is None or not found.fooled:
        return None
    said = f"is what a test that takes {found.n_rows:,} rows for people would have said ({p_short(found.by_row.p_value)})."
    return Fact(found.by_row.verdict.capitalize(), said)


def _p_value(subject: Subject) -> Fact | None:
    if not finite(subject.p_value):
        return None
    adjusted = ", adjusted for all pairs of groups" if len(subject.parity.pairs) > 1 else ""
    null = "no difference between groups" if subject.parity.tolerance is None else "no gap beyond the tolerance"
    return Fact(p_short(subject.p_value), f"for {null}, by the tests that decide{adjusted}.")


def _evidence(subject: Subject) -> Fact | None:
    spans = [pair.interval for pair in subject.parity.pairs if pair.judged]
    if not spans:
        return None
    low, high = min(span[0] for span in spans), max(span[1] for span in spans)
    return Fact(
        f"{findings.score_words(low)} to {findings.score_words(high)}",
        f"are the values of {score_name(subject)} at which groups were compared: both have enough people there.",
    )


OF_A_DISPARITY = (_order, _decisions, _repair, _power, _fooled, _p_value, _evidence)
OF_NO_DISPARITY = (_ruled_out, _power, _fooled, _decisions, _evidence)


# Next


def _next_step(audit: Audit, subject: Subject) -> tuple[str, str]:
    """What to do, and the command that does it."""
    if subject.verdict == DISPARITY:
        if subject.repair is not None and not subject.repair.suggested:
            return "No repair is suggested: collect more users, then audit again.", _command(audit, subject, "audit")
        whole = _of_a_tally(audit)
        others, options = ("on other people's rows", "") if whole else ("on the other half", "--split 1/2 ")
        repair = f"Repair the score by group, and verify it {others}:"
        if subject.repair is not None and subject.repair.state == SHOWN:
            repair = f"The repair leaves a disparity; fit it on more users, and verify it {others}:"
        return repair, _command(audit, subject, "calibrate", f"{options}--shrink -o repair.json")
    if subject.verdict == PARITY:
        return "Keep it so, and gate each new version of the score:", _command(
            audit, subject, "audit", f"--tolerance {audit.tolerance:g} --gate equivalence"
        )
    if not finite(subject.p_value):
        return "Collect more people where scores of the groups overlap, then audit again:", _command(audit, subject, "audit")
    if audit.tolerance is not None and subject.selection.unexcused and subject.parity.verdict == PARITY:
        left_out = shlex.quote(f"{group_name(subject.selection.unexcused[0].group)}=REASON")
        options = f"--tolerance {audit.tolerance:g} --left-out {left_out}"
        return "Collect more people of the groups that are not judged, or say why one is left out:", _command(
            audit, subject, "audit", options
        )
    if audit.tolerance is None:
        return "Say which gap would not matter; then parity can be shown:", _command(audit, subject, "audit", "--tolerance GAP")
    return "Ask how many users would settle it:", f"es.plan(tally, gap={audit.tolerance:g})"


def _data(audit: Audit) -> str:
    sources = audit.provenance.sources
    return sources[0].name if len(sources) == 1 and sources[0].size is not None else "DATA"


def _of_a_tally(audit: Audit) -> bool:
    """Whether the data are a saved tally, which knows its columns and cannot be split."""
    return _data(audit).endswith(".tally")


def _command(audit: Audit, subject: Subject, command: str, options: str = "") -> str:
    columns, data = subject.tally.columns, _data(audit)
    words = ["evenscore", command, data]
    if columns is not None and not _of_a_tally(audit):
        words += ["--score", columns.score, "--outcome", columns.outcome]
        for name in columns.group:
            words += ["--group", name]
        words += ["--independent"] if columns.user is None else ["--user", columns.user]
        words += _as_asked(audit)
    return " ".join(filter(None, [*(shlex.quote(printable(word, 120)) for word in words), options]))


def _as_asked(audit: Audit) -> list[str]:
    """How the audit read its rows, so that the next command reads the same."""
    asked = audit.provenance.configuration
    words = [
        word for name in ("item", "weight", "count") if isinstance(asked.get(name), str) for word in (f"--{name}", asked[name])
    ]
    return words if asked.get("nulls", "error") == "error" else [*words, "--nulls", str(asked["nulls"])]


def _overview(audit: Audit) -> Sheet:
    """A line for each score and attribute; the score is named where there are several."""
    several = len({subject.score for subject in audit.subjects}) > 1
    rows = [
        ({"score": subject.score} if several else {})
        | {
            "attribute": label_text(subject.attribute),
            "verdict": subject.verdict,
            "p": p_short(subject.p_value).removeprefix("p = ").removeprefix("p ") or "–",
            "largest gap, estimated": _size(subject, abs(subject.parity.max_gap)),
            "detectable gap": _size(subject, subject.minimum_detectable_gap),
        }
        for subject in audit.subjects
    ]
    return sheet(rows, "Scores and attributes" if several else "Attributes")


def _size(subject: Subject, gap: float) -> str:
    return f"{amount(subject, gap)[0]}{unit(subject)}" if finite(gap) else "–"
