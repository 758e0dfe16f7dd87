"""Gaps between groups in a report: one forest plot of all pairs, and the gap of each along the score on shared axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evenscore.auditing.subject import Subject
from evenscore.estimation.smoothing import unsmoothed
from evenscore.estimation.verdict import PARITY
from evenscore.parity.parity_result import PairTest
from evenscore.report.chart import Axis, Chart, Panel, Rule, Series
from evenscore.report.curve_charts import FINE, axis_positions, with_band
from evenscore.report.estimate_charts import SMALL, names_panel
from evenscore.report.findings import amount, largest_region, score_words, shown_pairs, unit, within
from evenscore.report.headline import score_name
from evenscore.report.score_charts import gap_limits, gap_rules
from evenscore.report.sheets import Sheet
from evenscore.report.smooth_lines import fine_grid, smooth
from evenscore.report.ticks import nice_ticks, pair_name, percent, score_ticks, short, tick_text
from evenscore.types import Floats
from evenscore.wording import number_text, p_short, p_text

MOST_LINES, FEWER_LINES, MOST_PAIRS = 7, 5, 9  # of the forest, also with long names, and small multiples; the JSON has all
MOST_READINGS, READINGS = 12, 60  # rows of the table of all pairs


def ranked_pairs(subject: Subject) -> list[tuple[PairTest, bool]]:
    """Pairs that have a gap to tell, with whether it is shown: shown ones first, the largest first."""
    shown = shown_pairs(subject)
    rest = [pair for pair in subject.parity.pairs if len(pair.score) and all(pair is not other for other in shown)]
    rest.sort(key=lambda pair: -abs(pair.max_gap))
    return [(pair, True) for pair in shown if len(pair.score)] + [(pair, False) for pair in rest]


def pair_title(pair: PairTest, gap: float) -> str:
    """The group with the higher outcome minus the other."""
    return pair_name(pair.group_a, pair.group_b) if gap >= 0 else pair_name(pair.group_b, pair.group_a)


def tone(pair: PairTest, shown: bool) -> str:
    """Of a pair's line: a gap is shown, is shown to lie within the tolerance, or neither."""
    return "shown" if shown else "within" if pair.verdict == PARITY else "unshown"


# All pairs


def forest_chart(subject: Subject, key: str) -> Chart:
    """The largest gap of each pair with its band: those that are shown first, the largest on top."""
    pairs = ranked_pairs(subject)
    names = [pair_title(pair, _largest(pair)[0]) for pair, _ in pairs[:MOST_LINES]]
    most = FEWER_LINES if any("\n" in name for name in names) else MOST_LINES
    lines = [_forest_line(subject, pair, shown, place) for place, (pair, shown) in enumerate(pairs[:most])]
    panel = names_panel("", names[:most], lines)
    rules = [Rule(0.0, kind="zero", upright=True)]
    if subject.parity.tolerance is not None:
        rules.append(Rule(subject.parity.tolerance, "", "limit", upright=True))
    panel = replace(panel, rules=tuple(rules))
    low, high = panel.limits()[0]
    panel = replace(panel, x=_points_axis(subject, low, high))
    left_out = len(pairs) - most
    more = f" {left_out} more {'pair' if left_out == 1 else 'pairs'} below and in the JSON." if left_out > 0 else ""
    dashed = " Dashed: the tolerance." if subject.parity.tolerance is not None else ""
    grey = " Grey: not shown." if any(tone(*own) == "unshown" for own in pairs[:most]) else ""
    caption = f"Line: {percent(1 - subject.parity.alpha)} band of the pair; p is adjusted for all pairs.{grey}{dashed}{more}"
    what = f"gap of each pair, in{unit(subject)}" if subject.tally.binary else "gap of each pair"
    return Chart(key, f"Largest {what}", caption, (panel,), Sheet((), (), ()), width=SMALL)


def _points_axis(subject: Subject, low: float, high: float) -> Axis:
    """Gaps in points if outcomes are shares, with a sign."""
    factor = 100 if subject.tally.binary else 1
    ticks = nice_ticks(factor * low, factor * high, 4)
    return Axis("", (low, high), tuple((tick / factor, f"{'+' if tick > 0 else ''}{tick_text(tick)}") for tick in ticks))


def _largest(pair: PairTest) -> tuple[float, float, float, float]:
    """The largest gap that is shown, or of all, with its band and its score."""
    region = largest_region(pair)
    if region is not None:
        return region.gap, region.low, region.high, region.at_score
    if pair.largest is None:
        return math.nan, math.nan, math.nan, math.nan
    return pair.max_gap, float(pair.band_low[pair.largest]), float(pair.band_high[pair.largest]), pair.at_score


def _forest_line(subject: Subject, pair: PairTest, shown: bool, place: int) -> Series:
    gap, low, high, score = _largest(pair)
    if gap < 0:
        gap, low, high = -gap, -high, -low
    said = amount(subject, gap, low, high)
    limits = f" ({said[1]} to {said[2]})" if math.isfinite(low) and math.isfinite(high) else ""
    judged = p_short(_adjusted(subject, pair))
    words = (
        judged
        if shown
        else "within the tolerance"
        if pair.verdict == PARITY
        else f"{judged}, not shown"
        if judged
        else "not judged"
    )
    note = f"{said[0]}{limits} at {score_words(score)}\n{words}"
    x, y, least, most = (np.array([float(number)]) for number in (gap, place, low, high))
    return Series("", 0, x, y, least, most, "points", not shown, (note,), tone(pair, shown))


def _adjusted(subject: Subject, pair: PairTest) -> float:
    """The p-value that decides about a pair."""
    if subject.decision is not None:
        for decided, own in zip(subject.decision.pairs, subject.parity.pairs, strict=False):
            if own is pair and math.isfinite(decided.p_adjusted):
                return decided.p_adjusted
    return pair.p_adjusted


# Pair by pair


def single_gap_chart(subject: Subject, key: str) -> Chart:
    """The gap of the only pair along the score, small."""
    chart = gap_chart(subject, key)
    assert chart is not None
    title = f"Gap{' in points' if subject.tally.binary else ''}: {chart.panels[0].title}"
    return replace(chart, title=title, panels=(replace(chart.panels[0], height=215),), columns=1, width=SMALL)


def gap_chart(subject: Subject, key: str) -> Chart | None:
    """The gap of each pair along the score with its band, as small multiples."""
    pairs = ranked_pairs(subject)[:MOST_PAIRS]
    if not pairs:
        return None
    test, tally = subject.parity, subject.selection.tally
    lattice = tally.lattice
    few = unsmoothed(lattice, *(tally.sums(group) for group in tally.groups))
    flipped = [_flip(pair) for pair, _ in pairs]
    x = [axis_positions(lattice, pair.score) for pair in flipped]
    low, high = min(own[0] for own in x), max(own[-1] for own in x)
    pad = (0.08 if few else 0.02) * (high - low) or 0.5
    across = (low - pad, high + pad)
    ticks = score_ticks(lattice, across) if lattice.scale == "logit" else None
    y_axis = _points_axis(subject, *_reach(flipped, test.tolerance))
    rules = tuple(replace(rule, name="") for rule in gap_rules(test.tolerance))
    panels = tuple(
        Panel(
            Axis(score_name(subject), across, ticks),
            y_axis,
            (_gap_line(own, place, tone(pair, shown), few),),
            rules,
            tuple(
                (float(axis_positions(lattice, [r.score_low])[0]), float(axis_positions(lattice, [r.score_high])[0]))
                for r in pair.regions
            )
            if shown
            else (),
            title=f"{short(own.group_a)} − {short(own.group_b)}",
            height=130,
        )
        for own, place, (pair, shown) in zip(flipped, x, pairs, strict=True)
    )
    tolerance = f" Dashed: the tolerance of ±{within(subject, test.tolerance)}." if test.tolerance is not None else ""
    shaded = " Shaded: where it shows a gap." if any(shown and pair.regions for pair, shown in pairs) else ""
    beyond = "" if test.tolerance is None else " beyond the tolerance"
    shaded += f" Grey: no gap{beyond} is shown." if any(tone(*own) == "unshown" for own in pairs) else ""
    band = f"Band: {percent(1 - test.alpha)}, for all scores of the pair at once."
    what = "in points" if tally.binary else "of means"
    title = f"Gap {what} along {score_name(subject)}"
    return Chart(key, title, f"{band}{shaded}{tolerance}", panels, _gap_table(flipped), columns=3, width=1100)


def _gap_line(pair: PairTest, x: Floats, look: str, few: bool) -> Series:
    """A smooth line with its band, or points where there are few scores."""
    if few or len(x) < 3:
        kind = "points" if few else "line"
        return Series("", 0, x, pair.gap, pair.band_low, pair.band_high, kind, tone=look)
    grid = fine_grid(x, FINE)
    gap, low, high = (smooth(x, column, grid) for column in (pair.gap, pair.band_low, pair.band_high))
    return Series("", 0, grid, gap, low, high, tone=look)


def _reach(pairs: Sequence[PairTest], tolerance: float | None) -> tuple[float, float]:
    """Limits that hold all gaps, most of the bands, and the whole band where the largest gap of a pair is shown."""
    low, high = gap_limits(pairs, tolerance)
    ends = []
    for pair in pairs:
        if pair.regions:
            gap, *limits = _largest(pair)[:3]
            ends += [math.copysign(1, gap) * limit for limit in limits if math.isfinite(limit)]
    return min([low, *ends]), max([high, *ends])


def _flip(pair: PairTest) -> PairTest:
    """The pair with the higher group first."""
    if _largest(pair)[0] >= 0:
        return pair
    ends: dict[str, Any] = {"gap": -pair.gap, "band_low": -pair.band_high, "band_high": -pair.band_low}
    sides = {"group_a": pair.group_b, "group_b": pair.group_a, "effective_a": pair.effective_b, "effective_b": pair.effective_a}
    return replace(pair, **ends, **sides)


def _gap_table(pairs: Sequence[PairTest]) -> Sheet:
    header = ("pair", "score", "gap (band)", "p-value", "effective users")
    rows = []
    for pair in pairs:
        some = np.unique(
            np.linspace(0, len(pair.score) - 1, min(READINGS // len(pairs), len(pair.score), MOST_READINGS))
            .round()
            .astype(np.int64)
        )
        rows += [_reading(pair, int(i)) for i in some]
    left_out = sum(len(pair.score) for pair in pairs) - len(rows)
    caption = "Gap (band) along the score, p-value of no gap adjusted for looking at all scores, effective users of both groups"
    return Sheet(header, tuple(rows), (False, True, True, True, True), caption, left_out)


def _reading(pair: Any, i: int) -> tuple[str, ...]:
    return (
        f"{short(pair.group_a)} − {short(pair.group_b)}",
        number_text(float(pair.score[i])),
        with_band(pair.gap[i], pair.band_low[i], pair.band_high[i]),
        p_text(float(pair.p_points[i])),
        f"{pair.effective_a[i]:,.0f} and {pair.effective_b[i]:,.0f}",
    )
