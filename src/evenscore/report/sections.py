"""An audit as a document: the first screen, then one folded section a question."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from evenscore.auditing.audit_result import Audit
from evenscore.auditing.subject import Subject
from evenscore.estimation.verdict import DISPARITY, PARITY
from evenscore.naming import own_names
from evenscore.report import findings, words
from evenscore.report.curve_charts import curve_chart, has_picture, repair_chart
from evenscore.report.document import Chapter, Document, Section
from evenscore.report.estimate_charts import error_chart, order_chart, placebo_chart
from evenscore.report.explorer import explorer_section
from evenscore.report.findings import amount, ended, group_name, score_words, sentence, unit
from evenscore.report.first_screen import first_screen
from evenscore.report.fooled import fooled_section
from evenscore.report.keys_section import keys_section
from evenscore.report.limits import limits
from evenscore.report.pair_charts import gap_chart
from evenscore.report.sheets import Sheet, sheet, with_all_groups
from evenscore.report.text import group_rows
from evenscore.report.threshold_sections import fair_section, impact_section, rates_section, threshold_section
from evenscore.report.words import null_of
from evenscore.tables import label_text
from evenscore.wording import at_least, p_short, p_words

SHOWN_PAIRS = 12  # rows of a table of pairs; the JSON has all
SHOWN_NOTES = 10
DEPLOYED = "The calibrator is in the JSON; es.calibrate(..., shrink=True) on all users makes the one to deploy."


def audit_document(audit: Audit) -> Document:
    """The whole report."""
    several = len(audit.subjects) > 1
    return Document(
        title=audit.title,
        subtitle="; ".join(subject.name for subject in audit.subjects[:4]) + (" ..." if len(audit.subjects) > 4 else ""),
        created=audit.provenance.created[:10],
        first=first_screen(audit),
        before=_made(make(audit) for make in BEFORE_CHAPTERS),
        chapters=tuple(_chapter(audit, subject, place, several) for place, subject in enumerate(audit.subjects)),
        after=_made(make(audit) for make in AFTER_CHAPTERS),
    )


def _made(sections: Iterable[Section | None]) -> tuple[Section, ...]:
    return tuple(section for section in sections if section is not None)


def _chapter(audit: Audit, subject: Subject, place: int, several: bool) -> Chapter:
    prefix = f"s{place}-" if several else ""
    speaks = subject is findings.speaker(audit)
    makers = OF_A_SUBJECT if speaks else (_curves, *OF_A_SUBJECT)
    with own_names(subject.group_names):
        verdict = sentence(findings.headline(subject, audit.tolerance, several))
        sections = _made(make(subject, prefix) for make in makers)
    if speaks:  # its pictures are on the first screen
        drawn = f"{prefix}{findings.pair_picture(subject)}"
        sections = tuple(replace(own, figures=(), folded=True) if own.key == drawn else own for own in sections)
    return Chapter(f"{prefix}subject", subject.name, subject.verdict, verdict, sections)


def _texts(*texts: str) -> tuple[str, ...]:
    return tuple(sentence(text) for text in texts if text)


# Sections of a score and attribute


def _curves(subject: Subject, prefix: str) -> Section | None:
    """The picture of the first screen, for those that do not stand there."""
    if not has_picture(subject):
        return None
    chart = curve_chart(subject, f"{prefix}curves")
    return Section(f"{prefix}meaning", "What a score means", findings.people(subject), figures=(chart,))


def _pairs(subject: Subject, prefix: str) -> Section:
    test = subject.parity
    chart = gap_chart(subject, f"{prefix}gap")
    tables = [sheet(test.rows(), "Pairs of groups; gap is group a minus group b", limit=SHOWN_PAIRS)]
    if test.regions:
        tables.append(sheet(test.regions, "Scores at which a gap is shown, with the share of each group there", limit=SHOWN_PAIRS))
    if test.other is not None:
        rows = [
            {"counting": f"each {t.weighting} once", "verdict": t.verdict, "p_value": t.p_value, "largest_gap": abs(t.max_gap)}
            for t in (test, test.other)
        ]
        tables.append(sheet(rows, "The same test, counting users or rows"))
    return Section(
        f"{prefix}gaps",
        "Gaps between groups",
        _gap_answer(subject),
        test.verdict,
        _texts(words.decided(subject), words.other_weighting(subject), _at_some_scores(subject)),
        figures=() if chart is None else (chart,),
        tables=tuple(tables) if any(len(pair.score) for pair in test.pairs) else (),
        notes=tuple(ended(remark) for remark in test.remarks if remark != test.disagreement),
    )


def _gap_answer(subject: Subject) -> str:
    test, shown = subject.parity, findings.largest_shown(subject)
    judged = [pair for pair in test.pairs if pair.judged]
    if not judged:
        return "No pair of groups could be judged" + (f": {test.reason}." if test.reason != subject.reason else ".")
    if shown is not None:
        _, region = shown
        low, high = score_words(region.score_low), score_words(region.score_high)
        where = f"at {low}" if low == high else f"at scores from {low} to {high}"
        size = f"up to {amount(subject, abs(region.gap))[0]}{unit(subject)} {where}"
        return f"Shown{_count(subject)}, {size}."
    if findings.shown_pairs(subject):
        return f"Shown{_count(subject)}; no single score shows it by itself."
    pair = words.largest_pair(test)
    if pair is None:
        return "No gap is shown."
    none = "No gap is shown"
    if test.tolerance is not None:
        within = findings.within(subject, test.tolerance)
        none = f"All within {within}" if test.verdict == PARITY else f"No gap beyond {within} is shown"
    return (
        f"{none}; the largest estimate is {amount(subject, abs(pair.max_gap))[0]}{unit(subject)} at "
        f"{score_words(pair.at_score)}{p_words(test.p_value) and f' ({p_short(test.p_value)})'}."
    )


def _at_some_scores(subject: Subject) -> str:
    widest = words.widest_band(subject.parity)
    if widest is None:
        return ""
    score, half = widest
    band = f"±{amount(subject, half)[0]}{unit(subject)}"
    return f"a gap at some scores only must be larger to be found: at {score_words(score)} the band is {band}"


def _count(subject: Subject) -> str:
    pairs = subject.parity.pairs
    return "" if len(pairs) == 1 else f" for {len(findings.shown_pairs(subject))} of {len(pairs)} pairs"


def _ordering(subject: Subject, prefix: str) -> Section:
    test = subject.ordering
    shown = [pair for pair in test.pairs if pair.verdict == DISPARITY and math.isfinite(pair.at_least)]
    if shown:
        worst = max(shown, key=lambda pair: pair.at_least)
        answer = (
            f"{sentence(at_least(worst.at_least))[:-1]} pairs of people, one from {group_name(worst.group_a)} and one from "
            f"{group_name(worst.group_b)}, are misordered ({p_short(test.p_value)})."
        )
        answer += f" {sentence(words.NO_VERDICT)}" if words.order_aside(subject) else ""
    elif math.isnan(test.p_value):
        answer = sentence(test.reason) if test.reason != subject.reason else "It could not be judged."
    else:
        answer = f"{sentence(words.no_misordering(test)).rstrip('.')} ({p_short(test.p_value)})."
    falls = [f"{own.words}, which is no disparity between groups" for own in test.not_monotone[:SHOWN_NOTES]]
    judged = any(math.isfinite(pair.misordered_share) for pair in test.pairs)
    return Section(
        f"{prefix}ordering",
        "Order across groups",
        answer,
        "" if words.order_aside(subject) else test.verdict,
        _texts(*falls),
        figures=(order_chart(test, f"{prefix}order"),) if judged else (),
        tables=(sheet(test.rows(), "Pairs of groups", limit=SHOWN_PAIRS),) if judged else (),
        notes=("Near-ties inflate the estimated share; “at least” does not count them.",) if judged else (),
    )


def _calibration(subject: Subject, prefix: str) -> Section | None:
    error = subject.calibration
    if error is None:
        return None
    return Section(
        f"{prefix}calibration",
        "Calibration error",
        sentence(words.calibration(subject).partition(": the root")[0]),
        figures=(error_chart(error, f"{prefix}error"),),
        tables=(sheet(error.differences(), "Differences between groups", limit=SHOWN_PAIRS),),
    )


def _repair(subject: Subject, prefix: str) -> Section | None:
    repair = subject.repair
    if repair is None:
        return None
    suggested = "Scores calibrated by group" if repair.suggested else "No repair is suggested"
    answer = f"{suggested}: {findings.after_repair(subject, repair.state)}."
    if repair.verification is None or repair.curves_before is None or repair.curves_after is None:
        return Section(f"{prefix}repair", "Repair", answer, text=_texts(repair.words), notes=(DEPLOYED,))
    test = repair.verification
    return Section(
        f"{prefix}repair",
        "Repair",
        answer,
        test.verdict,
        _texts(repair.words),
        figures=(repair_chart(subject, repair.curves_before, repair.curves_after, test.split_of, f"{prefix}repaired"),),
        tables=(
            sheet(test.gaps(), f"Gaps before and after, on {test.split_of} that the repair was not fitted on", limit=SHOWN_PAIRS),
            sheet(with_all_groups(test.rows()), "Accuracy before and after"),
        ),
        notes=_texts(test.unseen, DEPLOYED),
    )


def _placebo(subject: Subject, prefix: str) -> Section | None:
    placebo = subject.placebo
    if placebo is None:
        return None
    return Section(
        f"{prefix}false-alarms",
        "False alarms on this data",
        sentence(placebo.sentence),
        figures=(placebo_chart(placebo, f"{prefix}placebo"),),
        notes=_texts(*placebo.remarks),
    )


def _groups(subject: Subject, prefix: str) -> Section:
    tables = [sheet(group_rows(subject), f"Groups of {label_text(subject.attribute)}", limit=200)]
    reasons = [{"group": group, "reason": why} for group, why in subject.selection.justifications.items()]
    if reasons:
        tables.append(sheet(reasons, "Groups left out, and why", limit=200))
    count = len(subject.selection.tally.groups)
    answer = sentence(subject.selection.sentence) or (
        "Both groups are judged." if count == 2 else f"All {count} groups are judged."
    )
    return Section(f"{prefix}groups", "Data", answer, text=_texts(subject.row_counts.sentence), tables=tuple(tables))


# Sections of the whole audit


def _limits(audit: Audit) -> Section:
    tested = [null_of(subject) for subject in audit.subjects[:1]]
    methods = {subject.parity.method for subject in audit.subjects}
    gate = audit.check()
    text = (
        f"Null hypothesis: {tested[0]}.",
        f"Method {', '.join(sorted(methods))}, level {audit.alpha:g} for any false alarm in the whole audit.",
        f"Gate “{gate.rule}”: {gate.reason.rstrip('.')}.",
    )
    names = tuple(label_text(group) for subject in audit.subjects for group in subject.tally.groups)
    names += tuple(subject.name for subject in audit.subjects)
    found = [ended(limit) if limit.startswith(names) else sentence(limit) for limit in limits(audit, headline=False)]
    found.sort(key=lambda limit: not limit.startswith(("Scores from", "Outcomes are taken")))
    return Section("limits", "Method and limits", found[0], text=(*text, *found[1:]), notes=tuple(map(ended, audit.notes)))


def _provenance(audit: Audit) -> Section:
    source = audit.provenance
    items = [("created", source.created), ("seed", str(source.seed))]
    items += [(f"{name} version", version) for name, version in source.versions.items()]
    for subject in audit.subjects:
        of = f" ({subject.name})" if len(audit.subjects) > 1 else ""
        items.append((f"fingerprint of the sums{of}", subject.fingerprint))
    files = []
    for data in source.sources[:50]:
        size, otherwise = ("", "in memory") if data.size is None else (f"{data.size:,}", "not hashed: above 1 GiB")
        files.append((data.name, size, data.sha256 or otherwise))
    options = "; ".join(f"{name} = {value}" for name, value in source.configuration.items() if value is not None)
    tables = (
        Sheet(("item", "value"), tuple(items), (False, False), "How this was made"),
        Sheet(("data", "bytes", "SHA-256"), tuple(files), (False, True, False), "Data", max(0, len(source.sources) - 50)),
    )
    made = f"evenscore {source.versions['evenscore']}, {source.created[:10]}, seed {source.seed}"
    answer = f"{made}: data, versions and options to make it again."
    return Section(
        "provenance", "Provenance", answer, text=(f"Options that were given or have a default: {options}.",), tables=tables
    )


# The contents of the page, in its order. A new section is a function that gives a Section, or None where it has nothing to say: of
# a score and attribute, called with the subject and a prefix for keys; or of the whole audit, called with the audit.
OF_A_SUBJECT = (
    _pairs,
    fooled_section,
    keys_section,
    explorer_section,
    _ordering,
    _calibration,
    threshold_section,
    fair_section,
    impact_section,
    rates_section,
    _repair,
    _placebo,
    _groups,
)
BEFORE_CHAPTERS: tuple[Callable[[Audit], Section | None], ...] = ()
AFTER_CHAPTERS = (_limits, _provenance)
