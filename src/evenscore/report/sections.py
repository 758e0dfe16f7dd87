"""An audit as a document: which sections, figures and tables it has."""

from __future__ import annotations

from evenscore.auditing.audit_result import Audit, Subject
from evenscore.calibration.repair_state import NOT_SHOWN, SHOWN, UNJUDGED, UNTESTED, VERIFIED
from evenscore.estimation.verdict import DISPARITY
from evenscore.report import words
from evenscore.report.decision_section import decision_section
from evenscore.report.document import Chapter, Document, Fact, Section
from evenscore.report.estimate_charts import error_chart, impact_chart, marginal_chart, placebo_chart, threshold_chart
from evenscore.report.score_charts import curve_chart, gap_charts, outcome_chart, shown_curves
from evenscore.report.sheets import Sheet, sheet, with_all_groups
from evenscore.report.text import group_rows
from evenscore.tables import label_text, number_text, p_text

SHOWN_PAIRS = 30  # rows of a table of pairs; the JSON has all
SHOWN_NOTES = 10
REPAIRS = {
    VERIFIED: "Suggested repair, verified",
    NOT_SHOWN: "Suggested repair: the disparity is no longer shown, not verified",
    SHOWN: "Suggested repair: a disparity is still shown",
    UNJUDGED: "Suggested repair: what is left could not be judged",
    UNTESTED: "Suggested repair, unverified",
}
DEPLOYED = "The calibrator is in the JSON; es.calibrate(..., shrink=True) on all users makes the one to deploy."
BAND = "Users that the repair was not fitted on. Line: estimate. Band: for the whole curve at once."


def audit_document(audit: Audit) -> Document:
    """The whole report."""
    gate = audit.check()
    several = len(audit.subjects) > 1
    return Document(
        title=audit.title,
        subtitle="; ".join(subject.name for subject in audit.subjects[:4]) + (" ..." if len(audit.subjects) > 4 else ""),
        verdict=audit.verdict,
        headline=words.headline(audit),
        gate=f"Gate “{gate.rule}”: {gate.outcome}. {_sentence(gate.reason)}",
        gate_outcome=gate.outcome,
        facts=_facts(audit),
        summary=tuple(_end(f"{s.name}: {s.verdict}, {words.largest_gap(s.parity)}") for s in audit.subjects)
        if several
        else _sentences(audit.subjects[0]),
        limits=tuple(_end(text) if several else _sentence(text) for text in words.limits(audit)),
        chapters=tuple(_chapter(subject, place, several) for place, subject in enumerate(audit.subjects)),
        overview=_overview(audit) if several else None,
        provenance=_provenance(audit),
        notes=tuple(map(_end, audit.notes)),
    )


def _sentence(text: str) -> str:
    return _end(text[:1].upper() + text[1:]) if text else ""


def _end(text: str) -> str:
    """A note may begin with the name of a group, which keeps its small letter."""
    return text.rstrip(".") + "."


def _facts(audit: Audit) -> tuple[Fact, ...]:
    """The numbers beside the verdict."""
    subject = audit.headline  # every number is of one score and attribute
    pair, shown = words.largest_pair(subject.parity), words.largest_region(subject.parity)
    of = f" of {subject.name}" if len(audit.subjects) > 1 else ""
    facts = []
    if subject.order_decides and subject.ordering.at_least == subject.ordering.at_least:
        share = f"of pairs of people, one of each group{of}; estimate {subject.ordering.misordered_share:.1%}"
        facts.append(Fact("Misordered, at least", f"{subject.ordering.at_least:.1%}", share))
    elif shown is not None:
        region, pair = shown
        where = f"{words.limits_of(region)}; {words.sides(pair, region.gap)}, at score {number_text(region.at_score)}{of}"
        facts.append(Fact("Largest gap shown", f"{abs(region.gap):.3f}", where))
    elif pair is not None:
        called = "Largest gap" if subject.parity.verdict == DISPARITY else "Largest estimate, not shown"
        where = f"between {pair.name}, at score {number_text(pair.at_score)}{of}"
        facts.append(Fact(called, f"{abs(pair.max_gap):.3f}", where))
    if subject.p_value == subject.p_value:
        facts.append(Fact("p-value", p_text(subject.p_value), f"of the tests that decide{of}, adjusted for all pairs of groups"))
    if subject.minimum_detectable_gap == subject.minimum_detectable_gap:
        meaning = f"smallest constant gap{of} that is found with probability 0.8; one at some scores only must be larger"
        facts.append(Fact("Could have been seen", f"{subject.minimum_detectable_gap:.3f}", meaning))
    users, rows = (sum(counts.values()) for counts in (subject.selection.tally.n_users, subject.selection.tally.n_rows))
    people = "rows, declared independent" if subject.tally.independent else f"users, {rows:,} rows"
    facts.append(Fact("Evidence", f"{users:,}", people))
    return tuple(facts)


def _chapter(subject: Subject, place: int, several: bool) -> Chapter:
    prefix = f"s{place}-" if several else ""
    makers = (_parity, _pairs, _ordering, _calibration, _decision, _rates, _repair, _placebo, _groups)
    sections = [section for make in makers if (section := make(subject, prefix)) is not None]
    return Chapter(f"{prefix}subject", subject.name, subject.verdict, tuple(sections), _sentences(subject))


def _sentences(subject: Subject) -> tuple[str, ...]:
    return tuple(_sentence(sentence.text) for sentence in words.subject_sentences(subject))


def _parity(subject: Subject, prefix: str) -> Section:
    test = subject.parity
    return Section(
        f"{prefix}curves",
        "What a score means in each group",
        (f"Tested: {test.null}.", _sentence(words.could_be_seen(test))),
        test.verdict,
        figures=(curve_chart(subject, f"{prefix}curves"),) if subject.curves.curves else (),
    )


def _pairs(subject: Subject, prefix: str) -> Section:
    test = subject.parity
    charts, left_out = gap_charts(subject, f"{prefix}gap")
    tables = [sheet(test.rows(), "Pairs of groups; gap is group a minus group b", limit=SHOWN_PAIRS)]
    if test.other is not None:
        rows = [
            {"counting": f"each {t.weighting} once", "verdict": t.verdict, "p_value": t.p_value, "largest_gap": abs(t.max_gap)}
            for t in (test, test.other)
        ]
        tables.append(sheet(rows, "The same test, counting users or rows"))
    more = (f"{left_out} more pairs are not drawn; all are in the JSON.",) if left_out else ()
    return Section(
        f"{prefix}gaps",
        "Gaps between groups",
        (_sentence(words.where(test, limit=6) or test.reason),),
        test.verdict,
        figures=charts,
        tables=tuple(tables),
        notes=(*map(_end, test.remarks), *more),
    )


def _ordering(subject: Subject, prefix: str) -> Section:
    test = subject.ordering
    return Section(
        f"{prefix}ordering",
        "Order across groups",
        (f"Tested: {test.null}.", _sentence(words.ordering(subject) or test.reason)),
        test.verdict,
        tables=(sheet(test.rows(), "Pairs of groups", limit=SHOWN_PAIRS),),
        notes=(
            "Misordered share: of pairs of people, one of each group, how many the score puts in the wrong order. Near-ties "
            "inflate it; “at least” does not count them.",
        ),
    )


def _calibration(subject: Subject, prefix: str) -> Section | None:
    error = subject.calibration
    if error is None:
        return None
    return Section(
        f"{prefix}calibration",
        "How far scores are from outcomes",
        (_sentence(words.calibration(subject)),),
        figures=(error_chart(error, f"{prefix}error"),),
        tables=(sheet(error.differences(), "Differences between groups", limit=SHOWN_PAIRS),),
    )


def _decision(subject: Subject, prefix: str) -> Section | None:
    test = subject.marginal
    if test is None:
        return None
    figures = [marginal_chart(test, f"{prefix}marginal")]
    if subject.thresholds is not None:
        figures.append(threshold_chart(subject.thresholds, f"{prefix}thresholds"))
    if subject.impact is not None:
        figures.append(impact_chart(subject.impact, f"{prefix}impact"))
    notes = [
        *test._label_notes(),
        *test.misleading,
        *test.beyond[:SHOWN_NOTES],
        *([test.disagreement] if test.disagreement else []),
    ]
    if subject.thresholds is not None:
        notes += [f"{label_text(group)}: {reason}" for group, reason in subject.thresholds.reasons.items()][:SHOWN_NOTES]
    return Section(
        f"{prefix}decision",
        f"Decisions at the threshold {subject.threshold:g}",
        (f"Tested: {test.null}.", *(_sentence(say(subject)) for say in (words.threshold, words.thresholds, words.impact))),
        test.verdict,
        figures=tuple(figures),
        tables=(sheet(test.rows(), "Pairs of groups at the threshold; gap is group a minus group b", limit=SHOWN_PAIRS),),
        notes=tuple(map(_end, notes)),
    )


def _rates(subject: Subject, prefix: str) -> Section | None:
    return decision_section(subject.decisions, prefix)


def _repair(subject: Subject, prefix: str) -> Section | None:
    repair = subject.repair
    if repair is None:
        return None
    if repair.verification is None or repair.curves_before is None or repair.curves_after is None:
        return Section(f"{prefix}repair", REPAIRS[repair.state], (_sentence(repair.words),))
    test = repair.verification
    charts = []
    drawn = [curve.group for curve in shown_curves(subject)]
    before, after = ("before", repair.curves_before, subject.score), ("after", repair.curves_after, f"calibrated {subject.score}")
    for when, curves, score in (before, after):
        title = f"{when.capitalize()} the repair: expected outcome by {score}"
        shown = [curve for curve in curves.curves if curve.group in drawn]
        charts.append(outcome_chart(f"{prefix}{when}", title, score, curves, shown, BAND))
    return Section(
        f"{prefix}repair",
        REPAIRS[repair.state] if repair.suggested else "A repair that is not suggested",
        (_sentence(repair.sentence),),
        test.verdict,
        figures=tuple(charts),
        tables=(
            sheet(test.gaps(), "Gaps before and after, on users that the repair was not fitted on", limit=SHOWN_PAIRS),
            sheet(with_all_groups(test.rows()), "Accuracy before and after"),
        ),
        notes=(
            _sentence(test.unseen),
            DEPLOYED,
        ),
    )


def _placebo(subject: Subject, prefix: str) -> Section | None:
    placebo = subject.placebo
    if placebo is None:
        return None
    return Section(
        f"{prefix}placebo",
        "False alarms on this data",
        (_sentence(placebo.sentence),),
        figures=(placebo_chart(placebo, f"{prefix}placebo"),),
        notes=tuple(map(_sentence, placebo.remarks)),
    )


def _groups(subject: Subject, prefix: str) -> Section:
    table = sheet(group_rows(subject), f"Groups of {label_text(subject.attribute)}", limit=200)
    tables = [table]
    reasons = [{"group": group, "reason": words} for group, words in subject.selection.justifications.items()]
    if reasons:
        tables.append(sheet(reasons, "Groups left out, and why", limit=200))
    return Section(
        f"{prefix}groups", "The data", tuple(filter(None, (_sentence(subject.selection.sentence),))), tables=tuple(tables)
    )


def _overview(audit: Audit) -> Sheet:
    rows = [
        {
            "score": subject.score,
            "attribute": label_text(subject.attribute),
            "verdict": subject.verdict,
            "p_value": subject.p_value,
            "largest_gap": abs(subject.parity.max_gap),
            "smallest_gap_seen": subject.minimum_detectable_gap,
        }
        for subject in audit.subjects
    ]
    return sheet(rows, "Scores and attributes")


def _provenance(audit: Audit) -> tuple[Sheet, ...]:
    source = audit.provenance
    items = [("created", source.created), ("seed", str(source.seed))]
    items += [(f"{name} version", version) for name, version in source.versions.items()]
    for subject in audit.subjects:
        of = f" ({subject.name})" if len(audit.subjects) > 1 else ""
        items.append((f"fingerprint of the sums{of}", subject.to_dict()["fingerprint"]))
    files = []
    for data in source.sources[:50]:
        size, otherwise = ("", "in memory") if data.size is None else (f"{data.size:,}", "not hashed: above 1 GiB")
        files.append((data.name, size, data.sha256 or otherwise))
    options = [(name, "–" if value is None else str(value)) for name, value in source.configuration.items()]
    text = (False, False)
    return (
        Sheet(("item", "value"), tuple(items), text, "How this was made"),
        Sheet(("data", "bytes", "SHA-256"), tuple(files), (False, True, False), "Data", max(0, len(source.sources) - 50)),
        Sheet(("option", "value"), tuple(options), text, "Configuration"),
    )
