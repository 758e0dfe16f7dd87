"""Charts of estimates with limits, one line each: errors, outcomes at the threshold, thresholds, decisions, and more."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evenscore.auditing.audit_comparison import AuditComparison
from evenscore.false_alarms.placebo_result import Placebo
from evenscore.impact.impact_result import CLASSIFICATION, Impact
from evenscore.marginal.marginal_result import MarginalTest
from evenscore.miscalibration.error_result import CalibrationError
from evenscore.ordering.ordering_result import OrderingTest
from evenscore.planning import Plan
from evenscore.report.chart import Axis, Chart, Panel, Rule, Series
from evenscore.report.sheets import ALL_GROUPS, Sheet, sheet, with_all_groups
from evenscore.report.ticks import in_json, nice_ticks, pair_name, percent, short, tick_text
from evenscore.simulation.study_result import Study
from evenscore.tables import label_text
from evenscore.thresholds.thresholds_result import Thresholds
from evenscore.wording import number_text, p_short

MOST_LINES, FEWER_LINES = 30, 16  # of a picture; in a report, whose tables have more
MOST_ORDERED = 10  # pairs of groups
ALONG = ("threshold", "estimate", "ci_low", "ci_high")
SMALL = 358  # pixels: estimates need no more width on a large screen than on a phone
LINE, ROOM = 26, 8  # height of a line of estimates, and of the room between names with several lines
RATES = ("rate_before", "rate_after", "ratio_before", "ratio_after")
IMPACT_COLUMNS = ("group", "estimate", "ci_low", "ci_high", *RATES, "users_gain", "users_lose")

Numbers = tuple[float, float, float]


def names_panel(label: str, names: Sequence[str], series: Iterable[Series], *, lines: int = 1, low: float | None = None) -> Panel:
    """A panel with a name for each line, or for every few lines, the first on top. low: where the axis begins."""
    height = len(names) * (LINE * lines + (ROOM if lines > 1 else 0))
    axis = Axis("", (len(names) - 0.5, -0.5), tuple(enumerate(names)), "names")
    return Panel(Axis(label, (low, None)), axis, tuple(series), height=height, lines=lines)


def estimate(place: float, numbers: Numbers, style: int, write: Callable[[float], str] = "{:.3f}".format, **look: Any) -> Series:
    """An estimate with its limits, and the numbers that are written beside it."""
    value, low, high = numbers
    note = write(value)
    if not math.isfinite(value):
        note = "cannot be judged"
    elif math.isfinite(low) and math.isfinite(high):
        note = f"{note} ({write(low)} to {write(high)})"
    look = {"name": "", "kind": "points", **look}
    x, y, least, most = (np.array([float(number)]) for number in (value, place, low, high))
    return Series(style=style, x=x, y=y, low=least, high=most, notes=(note,), **look)


def _estimates(key: str, title: str, caption: str, panel: Panel, table: Sheet, label: str = "") -> Chart:
    """Lines of estimates in a report, with a label that fits."""
    return Chart(key, title, caption, (replace(panel, x=replace(panel.x, label=label or panel.x.label)),), table, width=SMALL)


def extremes(items: Sequence[Any], value: Callable[[Any], float], most: int) -> list[Any]:
    """Of many the lowest and the highest, in their order."""
    if len(items) <= most:
        return list(items)
    ranked = sorted((own for own in items if math.isfinite(value(own))), key=value)
    kept = [*ranked[: most // 2], *ranked[max(most // 2, len(ranked) - most // 2) :]]
    return [own for own in items if any(own is other for other in kept)]


def _left_out(chart: Chart, count: int) -> Chart:
    """The chart, with how many groups are not drawn."""
    drawn = len(chart.panels[0].y.ticks or ())
    if drawn >= count:
        return chart
    return replace(chart, caption=f"{chart.caption} Drawn: the lowest and the highest. {in_json(count - drawn, 'group')}")


def _group_name(group: Any) -> str:
    return ALL_GROUPS if group is None else short(group)


def _tone(group: Any) -> str:
    """All groups together are grey: each colour is one group's."""
    return "unshown" if group is None else ""


# In reports and from results


def error_panel(error: CalibrationError, most: int = MOST_LINES) -> Panel:
    """The calibration error of each group, and of all together."""
    shown = [*extremes(error.estimates[:-1], lambda own: own.estimate, most), *error.estimates[-1:]]
    series = (estimate(place, (e.estimate, e.ci_low, e.ci_high), place, tone=_tone(e.group)) for place, e in enumerate(shown))
    label = f"calibration error ({error.method}), in units of the outcome, with {percent(1 - error.alpha)} limits"
    return names_panel(label, [_group_name(e.group) for e in shown], series, low=0.0)


def error_chart(error: CalibrationError, key: str) -> Chart:
    """The calibration errors in a report."""
    level = percent(1 - error.alpha)
    caption = f"How far scores are from the outcomes to be expected at them: {error.what}. Lines: {level} limits."
    table = sheet(with_all_groups(error.rows()), "Calibration error")
    panel = error_panel(error, FEWER_LINES)
    chart = _estimates(key, "Calibration error by group", caption, panel, table, "calibration error")
    return _left_out(chart, len(error.estimates))


def marginal_panel(test: MarginalTest, write: Callable[[float], str] = "{:.3f}".format) -> Panel:
    """The outcome at the threshold, and the average of all who get the decision."""
    shown = extremes(test.marginals, lambda own: own.estimate, MOST_LINES // 2)
    apart = LINE / (2 * LINE + ROOM) / 2
    series = []
    for place, m in enumerate(shown):
        series.append(estimate(place - apart, (m.estimate, m.ci_low, m.ci_high), 0, write, name="at the threshold"))
        average = (m.average, m.average_ci_low, m.average_ci_high)
        series.append(estimate(place + apart, average, 1, write, name="average of all with the decision", hollow=True))
    title = f"{test.verdict} at {test.where}{_p_words(test.p_value)}"
    panel = names_panel("expected outcome", [short(m.group) for m in shown], series, lines=2)
    return replace(panel, title=title, legend=f"lines: {percent(1 - test.alpha)} limits")


def marginal_chart(test: MarginalTest, key: str, outcome: str, binary: bool) -> Chart:
    """The outcomes at the threshold in a report. outcome: what they are called; binary: whether they are shares."""
    stricter = "higher" if (test.positive == "above") == test.rising else "lower"
    caption = (
        f"A group with a {stricter} outcome there is held to a higher standard. Averages of all who get it also depend on how far "
        f"beyond the threshold their scores lie. Lines: {percent(1 - test.alpha)} limits."
    )
    table = sheet(test.group_rows(), "Outcome at the threshold and average beyond it")
    panel = _in_percent(marginal_panel(test, _percent)) if binary else marginal_panel(test, "{:,.4g}".format)
    title = f"{outcome[:1].upper()}{outcome[1:]} of people who just get the decision"
    return _left_out(_estimates(key, title, caption, panel, table, f"{outcome}{', in %' if binary else ''}"), len(test.marginals))


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _in_percent(panel: Panel) -> Panel:
    """With percent on its axis of numbers."""
    low, high = panel.limits()[0]
    ticks = tuple((tick / 100, tick_text(tick)) for tick in nice_ticks(100 * low, 100 * high, 5))
    return replace(panel, x=replace(panel.x, limits=(low, high), ticks=ticks))


def threshold_chart(thresholds: Thresholds, key: str, outcome: str = "expected outcome") -> Chart:
    """The threshold of each group that would even out outcomes there. outcome: what these are called."""
    shown = extremes(thresholds.groups, lambda own: own.threshold, FEWER_LINES)
    series = (estimate(place, (g.threshold, g.ci_low, g.ci_high), place, _three_figures) for place, g in enumerate(shown))
    rules = tuple(Rule(cut, "now", upright=True) for cut in sorted({g.before for g in thresholds.groups}))
    panel = replace(names_panel("score", [short(g.group) for g in shown], series), rules=rules)
    level = percent(1 - thresholds.alpha)
    about = "" if thresholds.solved else "about "
    caption = f"Solved so that {about}as many people as now get the decision. Dashed: the threshold now. Lines: {level} limits."
    table = sheet(thresholds.rows(), "Thresholds, outcomes there, and rates of the decision")
    chart = _estimates(key, f"Thresholds with the same {outcome} in every group", caption, panel, table)
    return _left_out(chart, len(thresholds.groups))


def _p_words(p_value: float) -> str:
    """A p-value to put after a verdict; empty when there is none."""
    return f" ({p_short(p_value)})" if p_short(p_value) else ""


def _three_figures(value: float) -> str:
    return f"{value:#.3g}".rstrip(".")


def impact_panel(impact: Impact, most: int = MOST_LINES) -> Panel:
    """The change of each group's rate of positive decisions, or rank, if scores were calibrated."""
    if len(impact.thresholds) > 1:
        return _impact_along(impact)
    decisions = impact.kind == CLASSIFICATION
    every = impact.rows()
    of_groups = [row for row in every if row["group"] is not None]
    rows = [*extremes(of_groups, lambda row: row["estimate"], most), *(row for row in every if row["group"] is None)]
    look: dict[str, Any] = {"kind": "bars", "write": _signed_percent} if decisions else {"write": "{:+.2f}".format}
    series = (
        estimate(place, (row["estimate"], row["ci_low"], row["ci_high"]), place, tone=_tone(row["group"]), **look)
        for place, row in enumerate(rows)
    )
    level = f"with {percent(1 - impact.alpha)} limits"
    what = "share with the decision, percentage points" if decisions else "rank: positions moved up if scores were calibrated"
    panel = names_panel(f"change in {what}, {level}", [_group_name(row["group"]) for row in rows], series)
    panel = replace(panel, rules=(Rule(0.0, kind="zero", upright=True),))
    if not decisions:
        return panel
    return _in_percent(panel)


def _impact_along(impact: Impact) -> Panel:
    """Lines along the thresholds."""
    series = []
    for style, group in enumerate(impact.groups):
        rows = [row for row in impact.rows() if row["group"] == group and type(row["group"]) is type(group)]
        along, change, low, high = np.array([[row[name] for name in ALONG] for row in rows], float).T
        series.append(Series(short(group), style, along, change, low, high))
    what = "positive rate" if impact.kind == CLASSIFICATION else "rank: positions moved up"
    legend = f"line: estimate; band: {percent(1 - impact.alpha)}, each threshold by itself"
    zero = (Rule(0.0, kind="zero"),)
    return Panel(Axis("threshold"), Axis(f"change in {what}"), tuple(series), zero, legend=legend)


def impact_chart(impact: Impact, key: str) -> Chart:
    """The change of decisions in a report."""
    level = percent(1 - impact.alpha)
    same = "threshold" if impact.keep == "threshold" else "overall share of positive decisions"
    caption = f"Change in the share of each group that gets the decision, at the same {same}. Lines: {level} limits."
    rows = [{name: row[name] for name in IMPACT_COLUMNS if name in row} for row in with_all_groups(impact.rows())]
    table = sheet(rows, "Shares before and after, and people whose decision changes")
    panel = impact_panel(impact, FEWER_LINES)
    chart = _estimates(key, "What calibrated scores would change about decisions", caption, panel, table, "points")
    return _left_out(chart, len(rows))


def _signed_percent(share: float) -> str:
    return f"{100 * share:+.1f}"


# From results only


def ordering_panel(test: OrderingTest) -> Panel:
    """The share of misordered pairs of people for each pair of groups; the bar is what is shown at least."""
    places = np.arange(float(len(test.pairs)))
    bars = Series("shown at least", 1, np.array([pair.at_least for pair in test.pairs], float), places, kind="bars", tone="shown")
    shares = Series("estimate", 6, np.array([pair.misordered_share for pair in test.pairs], float), places, kind="points")
    panel = names_panel("share of misordered pairs of people", _pair_names(test.pairs), (bars, shares), low=0.0)
    return replace(panel, title=f"{test.verdict}{_p_words(test.p_value)}", legend="")


def order_chart(test: OrderingTest, key: str) -> Chart:
    """The misordered shares in a report, the largest first."""
    pairs = sorted(test.pairs, key=lambda pair: -(pair.misordered_share if math.isfinite(pair.misordered_share) else -1))
    panel = _in_percent(replace(ordering_panel(replace(test, pairs=tuple(pairs[:MOST_ORDERED]))), title=""))
    caption = "Of pairs of people, one of each group, how many the score puts in the wrong order."
    if len(pairs) > MOST_ORDERED:
        caption += f" {in_json(len(pairs) - MOST_ORDERED, 'pair of groups', 'pairs of groups')}"
    return _estimates(key, "Misordered pairs of people", caption, panel, Sheet((), (), ()), "% of pairs")


def plan_panel(plan: Plan) -> Panel:
    """The smallest gap for each pair of groups, with the users that it needs."""
    gaps = np.array([pair.gap for pair in plan.pairs], float)
    gaps[~np.isfinite(gaps)] = np.nan
    series = Series("", 0, gaps, np.arange(float(len(gaps))), np.zeros(len(gaps)), gaps, "points")
    users = [f"{number_text(row['users_a'])} and {number_text(row['users_b'])} users" for row in plan.rows()]
    names = [f"{short(p.group_a)}, {short(p.group_b)}\n{words}" for p, words in zip(plan.pairs, users, strict=True)]
    return names_panel(f"constant gap found with probability {plan.power:g}", names, (series,), lines=2, low=0.0)


def _pair_names(pairs: Sequence[Any]) -> list[str]:
    return [pair_name(pair.group_a, pair.group_b, "and") for pair in pairs]


def comparison_panel(comparison: AuditComparison) -> Panel:
    """The largest gap of each score and attribute before (hollow) and after (filled)."""
    before, after = (np.array([getattr(c, name) for c in comparison.changes], float) for name in ("gap_before", "gap_after"))
    places = np.arange(float(len(before)))
    series = (
        Series("before", 0, before, places, kind="points", hollow=True),
        Series("after", 1, after, places, before, after, kind="points"),
    )
    names = [short(f"{change.score} by {label_text(change.attribute)}") for change in comparison.changes]
    panel = names_panel("largest gap in expected outcome", names, series, low=0.0)
    return replace(panel, title=f"{comparison.verdict_before} before, {comparison.verdict_after} after", legend="")


def study_panel(study: Study) -> Panel:
    """How often each method rejected, or its limits held the truth, with two Monte Carlo errors on either side."""
    rows = study.rows()
    measure = next((name for name in ("rejected", "coverage", "bias") if name in rows[0]), "runs")
    aims = {"rejected": study.alpha, "coverage": 1 - study.alpha, "bias": 0.0}
    series = []
    for place, row in enumerate(rows):
        value, error = float(row[measure]), 2 * float(row.get(f"{measure}_error", 0.0))
        series.append(estimate(place, (value, value - error, value + error), place))
    label = f"{measure}, {study.runs:,} runs; lines: two Monte Carlo errors"
    panel = names_panel(label, [short(row["method"]) for row in rows], series)
    return replace(panel, rules=(Rule(aims[measure], upright=True),) if measure in aims else ())


def placebo_panel(placebo: Placebo) -> Panel:
    """The p-values of every test, sorted, against those that a test which keeps its level has at most."""
    series = [Series("", 0, np.array([0.0, 1.0]), np.array([0.0, 1.0]), kind="diagonal")]
    share = (np.arange(placebo.runs) + 1) / placebo.runs
    for style, test in enumerate(placebo.tests):
        known = np.sort(test.p_values[~np.isnan(test.p_values)])
        series.append(Series(test.name, style, np.append(0.0, known), np.append(0.0, share[: len(known)])))
    levels = {test.alpha for test in placebo.tests}
    rules = tuple(Rule(level, f"level {level:.3g}", "mark", upright=True) for level in levels)
    x, y = Axis("p-value", (0.0, 1.0)), Axis("share of runs with a smaller one", (0.0, 1.0))
    return Panel(x, y, tuple(series), rules, legend="dotted: where a level just holds")


def placebo_chart(placebo: Placebo, key: str) -> Chart:
    """The false alarms in a report."""
    caption = "Groups dealt out anew, so that no gap is real. A line above the dotted one means more false alarms than promised."
    table = sheet(placebo.rows(), "False alarms of the deciding tests")
    return Chart(key, "P-values on groups dealt out anew", caption, (placebo_panel(placebo),), table)
