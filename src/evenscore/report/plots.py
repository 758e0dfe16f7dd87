"""What ``.plot()`` draws for each kind of result."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from evenscore.auditing.audit_comparison import AuditComparison
from evenscore.auditing.audit_result import Audit
from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.verification import Verification, rms_gap
from evenscore.decisions.decision_result import DecisionMetrics
from evenscore.decisions.over_thresholds import DecisionCurves
from evenscore.errors import EvenscoreError, require_option
from evenscore.estimation.fitted_curves import Curves, people_shares
from evenscore.estimation.smoothing import unsmoothed
from evenscore.estimation.verdict import DISPARITY
from evenscore.false_alarms.placebo_result import Placebo
from evenscore.impact.impact_result import Impact
from evenscore.marginal.marginal_result import MarginalTest
from evenscore.miscalibration.error_result import CalibrationError
from evenscore.multiobjective.sweep import WeightSweep
from evenscore.naming import GroupNames
from evenscore.ordering.ordering_result import OrderingTest
from evenscore.parity.parity_result import ParityTest
from evenscore.parity.row_people import RowsAsPeople
from evenscore.planning import Plan
from evenscore.report import decision_charts, estimate_charts
from evenscore.report.chart import Axis, Limits, Panel, Rule, Series
from evenscore.report.fooled import fooled_panels
from evenscore.report.pyplot import Display, draw
from evenscore.report.score_charts import curve_panel, gap_panel, pair_name, score_axis, share_of_people
from evenscore.report.ticks import percent, short
from evenscore.saving import as_path, write_whole
from evenscore.simulation.study_result import Study
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.view import GroupView
from evenscore.thresholds.thresholds_result import Thresholds
from evenscore.types import Floats
from evenscore.wording import number_text

MOST_GAPS = 6
KINDS = ("png", "svg", "pdf")
AROUND = 0.35  # of the scores, on either side of all cuts


def plot(result: Any, ax: Any = None) -> Display:
    """Draw a result, on the axes given or on new ones."""
    if type(result) not in PANELS:
        raise EvenscoreError(f"{type(result).__name__} has no picture; .rows() and .frame() have its numbers")
    return draw(name_axes(PANELS[type(result)](result), result.group_names), ax)


def name_axes(panels: Any, names: GroupNames) -> Any:
    """The panels with the columns' own names on the axes."""
    if isinstance(panels, list):
        return [name_axes(panel, names) for panel in panels]
    return replace(panels, x=_axis(panels.x, names), y=_axis(panels.y, names))


def _axis(axis: Axis, names: GroupNames) -> Axis:
    """A column by its name, shortened; "score" and "expected outcome" where nobody knows."""
    label = axis.label
    if names.score:
        label = re.sub(r"^(calibrated )?score\b", lambda match: f"{match[1] or ''}{short(names.score)}", label)
    if names.outcome:
        label = label.replace("expected outcome", f"expected {short(names.outcome)}")
    return replace(axis, label=label)


def save_plot(result: Any, path: str) -> None:
    """Draw into a file, whole or not at all; its ending says which kind."""
    kind = as_path(path).suffix.lower().lstrip(".")
    require_option("the ending of the picture's file", kind, KINDS)
    buffer = io.BytesIO()
    plot(result).figure_.savefig(buffer, format=kind, dpi=150)
    write_whole(as_path(path), buffer.getvalue())


def tally_panel(tally: Tally) -> Panel:
    """The distribution of the scores of each group."""
    lattice = tally.lattice
    if lattice.discrete or unsmoothed(lattice, *(tally.sums(group) for group in tally.groups)):
        shares = [share_of_people(tally, group, style, None, "marked") for style, group in enumerate(tally.groups)]
        series = tuple(replace(share, x=lattice.to_score(share.x)) for share in shares)
    else:
        views = GroupView.each(tally, "user")
        series = tuple(Series(short(view.label), style, *people_shares(view)) for style, view in enumerate(views))
    return Panel(Axis("score"), Axis("share of people", (0.0, None)), series, legend="each user counts the same")


def audit_panels(audit: Audit) -> list[list[Panel]]:
    """Curves and gaps of each score and attribute."""
    rows = []
    for subject in audit.subjects:
        curves = replace(curves_panel(subject.curves), title=subject.name)
        if subject.threshold is not None:
            curves = replace(curves, rules=(Rule(subject.threshold, f"threshold {subject.threshold:g}", "mark", upright=True),))
        rows.append([name_axes(panel, subject.group_names) for panel in (curves, gaps_panel(subject.parity))])
    return rows


def curves_panel(curves: Curves) -> Panel:
    """The curves, with the people below them."""
    if not curves.curves:
        return Panel(Axis("score", (0.0, 1.0)), Axis("expected outcome", (0.0, 1.0)), ())
    panel = curve_panel(curves)
    people = tuple(
        Series(short(curve.group), style, own[0], own[1])
        for style, (curve, own) in enumerate(zip(curves.curves, curves.people, strict=False))
    )
    return replace(panel, people=people)


def gaps_panel(test: ParityTest) -> Panel:
    """The gaps of every pair; of many, those that are shown and the largest."""
    panel = gap_panel(test)
    if len(panel.series) <= MOST_GAPS:
        return panel
    drawn = [pair for pair in test.pairs if len(pair.score)]
    ranked = sorted(range(len(drawn)), key=lambda place: (drawn[place].verdict != DISPARITY, -abs(drawn[place].max_gap)))
    kept = [replace(panel.series[place], style=style) for style, place in enumerate(sorted(ranked[:MOST_GAPS]))]
    return replace(panel, series=tuple(kept), legend=f"{panel.legend}; {len(drawn) - MOST_GAPS} more pairs: .rows()")


def calibrator_panel(calibrator: Calibrator) -> Panel:
    """The map of each group with two standard errors on either side."""
    series = []
    for style, own in enumerate(calibrator.maps):
        score = np.linspace(own.low, own.high, 400) if own.step else own.score
        value, se = own.at(score), own.se(score)
        series.append(Series(short(own.group), style, score, value, value - 2 * se, value + 2 * se))
    x = score_axis([s.x for s in series])
    panel = Panel(x, Axis("calibrated score"), tuple(series), legend="line: map; band: two standard errors")
    if calibrator.binary:
        low, high = panel.limits()[1]
        panel = replace(panel, y=replace(panel.y, limits=(max(low, -0.03), min(high, 1.03))))
    if calibrator.binary or calibrator.reference is not None:
        ends = np.array([min(s.x[0] for s in series), max(s.x[-1] for s in series)])
        unchanged = Series("", 0, ends, ends, kind="diagonal")
        panel = replace(panel, series=(unchanged, *series), legend=f"{panel.legend}; dotted: unchanged")
    return panel


def verification_panels(verification: Verification) -> list[Panel]:
    """The gap of each pair along the score, before and after the repair."""
    panels = []
    for words, test, score in (("before", verification.before, "score"), ("after", verification.after, "calibrated score")):
        panel = gap_panel(test, score)
        pairs = [pair for pair in test.pairs if len(pair.score)]
        names = [f"{pair_name(pair)} (rms {rms_gap(pair):.3f})" for pair in pairs]
        series = tuple(replace(s, name=name) for s, name in zip(panel.series, names, strict=True))
        panels.append(replace(panel, series=series, title=f"{words}: {panel.title}"))
    return panels


# Thresholds


def thresholds_panel(thresholds: Thresholds) -> Panel:
    """The curves near the thresholds with bands, the cuts before, and those of each group now."""
    series: list[Series] = []
    rules = [Rule(thresholds.outcome, kind="zero")]
    cuts = sorted({group.before for group in thresholds.groups})
    rules += [Rule(cut, "before" if cut == cuts[0] else "", upright=True) for cut in cuts]
    known = [(style, group) for style, group in enumerate(thresholds.groups) if np.isfinite(group.ci_low)]
    for (style, group), curve in zip(known, thresholds.curves, strict=True):
        name = f"{short(group.group)}: {number_text(group.threshold)} [{number_text(group.ci_low)}, {number_text(group.ci_high)}]"
        unseen = np.where(_near_unseen(curve.seen), curve.outcome, np.nan)
        series.append(Series(name, style, curve.score, np.where(curve.seen, curve.outcome, np.nan), curve.ci_low, curve.ci_high))
        series.append(Series("", style, curve.score, unseen, kind="thin"))
        point = np.array([group.threshold]), np.array([group.outcome_after])
        series.append(Series("", style, *point, kind="marked"))
        rules.append(Rule(group.threshold, upright=True, style=style))
    limits = _window(thresholds)
    level = percent(1 - thresholds.alpha)
    dotted = "; dotted: continued, not seen" if thresholds.suggestive else ""
    return Panel(
        Axis("score", limits),
        Axis("expected outcome", _heights(thresholds, limits)),
        tuple(series),
        tuple(rules),
        title=thresholds._title(),
        legend=f"threshold [{level}]; band: {level} at each score{dotted}",
    )


def _near_unseen(seen: Any) -> Any:
    """Where outcomes are not seen, up to the first score at which they are."""
    near = seen & (np.append(~seen[1:], False) | np.append(False, ~seen[:-1]))
    return ~seen | near


def _window(thresholds: Thresholds) -> Limits:
    """The scores to show: all cuts and their limits, and some of either side."""
    numbers = [number for g in thresholds.groups for number in (g.before, g.threshold, g.ci_low, g.ci_high)]
    cuts = [number for number in numbers if np.isfinite(number)]
    ends = [float(end) for curve in thresholds.curves for end in (curve.score[0], curve.score[-1])]
    room = max(AROUND * (max(cuts) - min(cuts)), 0.06 * (max(ends) - min(ends)))
    return max(min(cuts) - room, min(ends)), min(max(cuts) + room, max(ends))


def _heights(thresholds: Thresholds, window: Limits) -> Limits:
    """The outcomes that the bands have in the window."""
    scores = np.linspace(*window, 50)
    bands: list[Floats] = [np.interp(scores, c.score, limit) for c in thresholds.curves for limit in (c.ci_low, c.ci_high)]
    low, high = float(np.min(bands)), float(np.max(bands))
    room = 0.06 * (high - low or 1.0)
    return low - room, high + room


# Blends


def sweep_panel(sweep: WeightSweep) -> Panel:
    """The size of the largest gap of every blend; a filled mark is a gap that is shown."""
    weights = [blend.weights for blend in sweep.of(sweep.versions[0])]
    are_shares = len(sweep.outcomes) == 2 and all(abs(sum(chosen) - 1) < 1e-9 for chosen in weights)
    if are_shares:
        first, second = map(short, sweep.outcomes)
        along, axis = np.array([chosen[0] for chosen in weights]), Axis(f"weight of {first} (of {second}: the rest)")
    else:
        along = np.arange(float(len(weights)))
        ticks = tuple((place, " / ".join(f"{weight:.2g}" for weight in chosen)) for place, chosen in enumerate(weights))
        axis = Axis("weights of " + ", ".join(map(short, sweep.outcomes)), ticks=ticks)
    series = []
    for style, version in enumerate(sweep.versions):
        blends = sweep.of(version)
        size = np.array([abs(blend.test.max_gap) for blend in blends])
        shown = np.array([blend.verdict == DISPARITY for blend in blends])
        name = f"{short(version)} ({int(shown.sum())} of {len(blends)})"
        series.append(Series("", style, along, size, kind="thin"))
        series.append(Series(name, style, along, np.where(shown, size, np.nan), kind="points"))
        series.append(Series("", style, along, np.where(shown, np.nan, size), kind="points", hollow=True))
    legend = f"filled: a gap is shown at level {sweep.alpha:g}, all weights at once"
    return Panel(axis, Axis("largest gap in expected outcome", (0.0, None)), tuple(series), legend=legend)


PANELS: dict[type, Callable[..., Any]] = {
    Audit: audit_panels,
    AuditComparison: estimate_charts.comparison_panel,
    CalibrationError: estimate_charts.error_panel,
    Calibrator: calibrator_panel,
    Curves: curves_panel,
    DecisionCurves: decision_charts.roc_panel,
    DecisionMetrics: decision_charts.decision_panel,
    Impact: estimate_charts.impact_panel,
    MarginalTest: estimate_charts.marginal_panel,
    OrderingTest: estimate_charts.ordering_panel,
    ParityTest: gaps_panel,
    Placebo: estimate_charts.placebo_panel,
    Plan: estimate_charts.plan_panel,
    RowsAsPeople: fooled_panels,
    Study: estimate_charts.study_panel,
    Tally: tally_panel,
    Thresholds: thresholds_panel,
    Verification: verification_panels,
    WeightSweep: sweep_panel,
}
