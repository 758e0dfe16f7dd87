"""Charts along the score: what a score means in each group, and the gaps between groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evenscore.auditing.audit_result import Subject
from evenscore.estimation.fitted_curves import Curve, Curves
from evenscore.estimation.smoothing import FEW_VALUES, unsmoothed
from evenscore.estimation.verdict import DISPARITY
from evenscore.parity.parity_result import PairTest, ParityTest
from evenscore.report.chart import Axis, Chart, Limits, Panel, Rule, Series
from evenscore.report.sheets import Sheet
from evenscore.report.ticks import percent, score_ticks, short
from evenscore.tables import number_text, p_text
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.tally_state import Tally
from evenscore.types import Floats

MOST_GROUPS, MOST_PAIRS = 10, 8
READINGS = 25  # rows of the table under a picture
DENSITY_BINS, FEWER_BINS = 60, 30
SMALLEST_P = 1e-6  # smaller ones are drawn there
RARE = 0.03  # the share of a band's limits that may lie outside the picture, on either side
CROWD = 4  # more groups than this get fainter bands


def pair_name(pair: Any) -> str:
    """Which group is subtracted from which."""
    return f"{short(pair.group_a)} − {short(pair.group_b)}"


def score_axis(positions: Sequence[Floats], score: str = "score", lattice: Lattice | None = None, kind: str = "line") -> Axis:
    """The scores, on the scale of a lattice if there is one. kind: of the series."""
    low, high = min(float(p[0]) for p in positions), max(float(p[-1]) for p in positions)
    pad = (0.05 if kind == "dodged" else 0.02) * (high - low) or 0.5
    limits = (low - pad, high + pad)
    if lattice is None or lattice.scale == "score":
        return Axis(score, limits)
    return Axis(f"{score} ({lattice.scale} scale)", limits, score_ticks(lattice, limits))


# Curves and distributions


def curve_panel(curves: Curves, shown: Sequence[Curve] = (), score: str = "score", lattice: Lattice | None = None) -> Panel:
    """The expected outcome along the score, a line and a simultaneous band a group; on the scale of a lattice if there is one."""
    shown = shown or curves.curves
    kind = "dodged" if has_few_values(curves, shown) else "line"
    positions = [curve.score if lattice is None else curve.position for curve in shown]
    return Panel(
        score_axis(positions, score, lattice, kind),
        Axis("expected outcome", _outcome_limits(curves.binary, shown, 0.0 if kind == "dodged" else RARE)),
        tuple(
            Series(short(curve.group), style, position, curve.estimate, curve.band_low, curve.band_high, kind)
            for style, (curve, position) in enumerate(zip(shown, positions, strict=True))
        ),
        legend=f"line: estimate; band: {percent(1 - curves.alpha)}, all scores at once",
    )


def has_few_values(curves: Curves, shown: Sequence[Curve]) -> bool:
    """Whether each score is a point by itself."""
    return curves.lattice.discrete and all(len(curve.position) <= FEW_VALUES for curve in shown)


def outcome_chart(key: str, title: str, score: str, curves: Curves, shown: Sequence[Curve], caption: str) -> Chart:
    """Curves with bands, and where outcome and score are equal."""
    lattice = curves.lattice
    panel = curve_panel(curves, shown, score, lattice)
    table, places = _curve_table(lattice, shown, panel.limits()[0], has_few_values(curves, shown))
    if curves.binary and lattice.scale == "score" and lattice.low >= 0 and lattice.high <= 1:
        ends = np.array(panel.limits()[1])
        panel = replace(panel, series=(Series("", 0, ends, ends, kind="diagonal"), *panel.series))
        caption += " Dotted: outcome equal to the score."
    return Chart(key, title, caption, (panel,), table, places, crowded=len(shown) > CROWD)


def curve_chart(subject: Subject, key: str) -> Chart:
    """The expected outcome along the score with bands, above the densities of the scores."""
    shown = shown_curves(subject)
    left_out = len(subject.curves.curves) - len(shown)
    caption = (
        f"Line: estimate. Band: {percent(1 - subject.alpha)} for the whole curve at once. Below: where the scores of each "
        f"group lie. Equal curves mean that a score means the same for everyone."
    )
    chart = outcome_chart(key, f"Expected outcome by {subject.score}", subject.score, subject.curves, shown, caption)
    curves = chart.panels[0]
    densities = tuple(
        _density(subject.selection.tally, curve.group, style, curves.limits()[0]) for style, curve in enumerate(shown)
    )
    top = max((float(series.y.max()) for series in densities), default=1.0)
    people = Panel(curves.x, Axis("people", (0.0, top * 1.08), ticks=()), densities, height=70)
    marked = _mark_threshold((curves, people), subject)
    more = f" {left_out} more groups are in the JSON." if left_out else ""
    return replace(chart, caption=chart.caption + more, panels=marked)


def shown_curves(subject: Subject) -> list[Curve]:
    """The curves to draw: if there are many, of the groups whose pairs differ most."""
    curves = list(subject.curves.curves)
    if len(curves) <= MOST_GROUPS:
        return curves
    wanted: list[Any] = []
    for pair in _pairs_by_gap(subject):
        wanted += [group for group in (pair.group_a, pair.group_b) if not any(group is known for known in wanted)]
    ranked = sorted(curves, key=lambda c: next((i for i, group in enumerate(wanted) if group is c.group), len(wanted)))
    chosen = ranked[:MOST_GROUPS]
    return [curve for curve in curves if any(curve is other for other in chosen)]


def _outcome_limits(binary: bool, curves: Sequence[Curve], rare: float) -> Limits:
    """All estimates and most of the bands: a band of a few users would stretch the axis beyond what an outcome can be."""
    estimates = np.concatenate([curve.estimate for curve in curves])
    bands = np.concatenate([np.concatenate([curve.band_low, curve.band_high]) for curve in curves])
    bands = bands[np.isfinite(bands)]
    estimates = estimates[np.isfinite(estimates)]
    low, high = (float(estimates.min()), float(estimates.max())) if len(estimates) else (0.0, 1.0)
    if len(bands):
        low, high = min(low, float(np.quantile(bands, rare))), max(high, float(np.quantile(bands, 1 - rare)))
    if binary:
        low, high = max(low, 0.0), min(high, 1.0)
    pad = 0.05 * (high - low) or 0.5
    return low - pad, high + pad


def _density(tally: Tally, group: Any, style: int, limits: Limits) -> Series:
    """How many of a group's people lie along the axis."""
    if unsmoothed(tally.lattice, *(tally.sums(label) for label in tally.groups)):
        return share_of_people(tally, group, style, kind="dodged")
    crowded = len(tally.groups) > CROWD
    n_bins = FEWER_BINS if crowded or tally.n_users[group] < 1000 else DENSITY_BINS
    shares = share_of_people(tally, group, style, np.linspace(*limits, n_bins + 1), "line" if crowded else "area")
    return replace(shares, y=shares.y * n_bins)


def share_of_people(tally: Tally, group: Any, style: int, edges: Floats | None = None, kind: str = "line") -> Series:
    """The share of a group's people at each score, or in bins of the axis, every user weighing the same."""
    sums = tally.sums(group)
    weight = sums.A if sums.A.sum() > 0 else sums.W
    if edges is None:
        used = weight > 0
        return Series(short(group), style, sums.position[used], weight[used] / weight.sum(), kind=kind)
    cumulative = np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum()
    shares = np.diff(np.interp(edges, tally.lattice.axis_edges, cumulative))
    return Series(short(group), style, (edges[1:] + edges[:-1]) / 2, shares, kind=kind)


def _mark_threshold(panels: tuple[Panel, ...], subject: Subject) -> tuple[Panel, ...]:
    """The panels with the threshold as an upright line, if it lies inside; its name stands in the first."""
    if subject.threshold is None:
        return panels
    position = float(subject.selection.tally.lattice.to_axis([subject.threshold])[0])
    low, high = panels[0].limits()[0]
    if not low <= position <= high:
        return panels
    names = [f"threshold {subject.threshold:g}"] + [""] * (len(panels) - 1)
    return tuple(
        replace(panel, rules=(*panel.rules, Rule(position, name, "mark", upright=True)))
        for panel, name in zip(panels, names, strict=True)
    )


def _curve_table(lattice: Lattice, curves: Sequence[Curve], limits: Limits, discrete: bool) -> tuple[Sheet, tuple[float, ...]]:
    """The curves side by side at scores that all of them share, and where these lie; between their points they are interpolated."""
    places = np.unique(np.concatenate([c.position for c in curves])) if discrete else np.linspace(*limits, READINGS + 2)[1:-1]
    columns = [[number_text(float(score)) for score in lattice.to_score(places)]]
    header = ["score"]
    for curve in curves:
        readings = [_read(curve, name, places, discrete) for name in ("estimate", "band_low", "band_high")]
        columns.append([_with_band(*numbers) for numbers in zip(*readings, strict=True)])
        header.append(short(curve.group))
    caption = "Expected outcome (band) by score and group"
    sheet = Sheet(tuple(header), tuple(zip(*columns, strict=True)), (True,) * len(header), caption)
    return sheet, tuple(places.tolist())


def _read(curve: Curve, name: str, places: Floats, discrete: bool) -> Floats:
    values = np.interp(places, curve.position, getattr(curve, name), left=np.nan, right=np.nan)
    if discrete:
        values[~np.isclose(places[:, None], curve.position[None, :], rtol=1e-12, atol=1e-12).any(axis=1)] = np.nan
    return values


def _with_band(value: float, low: float, high: float) -> str:
    if not np.isfinite(value):
        return "–"
    return f"{value:.3f} ({low:.3f} to {high:.3f})" if np.isfinite(low) else f"{value:.3f}"


# Gaps


def _pairs_by_gap(subject: Subject) -> list[PairTest]:
    """Pairs that can be drawn, disparities and large gaps first."""
    known = [pair for pair in subject.parity.pairs if len(pair.score)]
    return sorted(known, key=lambda pair: (pair.verdict != DISPARITY, -abs(pair.max_gap)))


def gap_panel(test: ParityTest, score: str = "score") -> Panel:
    """The gap of each pair along the score, with its simultaneous band."""
    pairs = [pair for pair in test.pairs if len(pair.score)]
    series = tuple(
        Series(f"{pair_name(pair)} (p = {p_text(pair.p_adjusted)})", style, pair.score, pair.gap, pair.band_low, pair.band_high)
        for style, pair in enumerate(pairs)
    )
    return Panel(
        score_axis([pair.score for pair in pairs], score) if pairs else Axis(score),
        Axis("gap in expected outcome", _gap_limits(pairs, test.tolerance)),
        series,
        _gap_rules(test.tolerance),
        title=f"{test.verdict} (p = {p_text(test.p_value)})",
        legend=f"line: gap; band: {percent(1 - test.alpha)}, all scores at once",
    )


def gap_charts(subject: Subject, key: str) -> tuple[tuple[Chart, ...], int]:
    """The gap of each pair with band, tolerance and p-values; and how many pairs are not drawn."""
    pairs = _pairs_by_gap(subject)
    charts = tuple(_gap_chart(subject, pair, f"{key}{place}") for place, pair in enumerate(pairs[:MOST_PAIRS]))
    return charts, max(0, len(pairs) - MOST_PAIRS)


def _gap_chart(subject: Subject, pair: PairTest, key: str) -> Chart:
    test, name = subject.parity, pair_name(pair)
    panels = _mark_threshold(_gap_panels(subject, pair), subject)
    tolerance = f" Dashed: the tolerance of ±{test.tolerance:g}." if test.tolerance is not None else ""
    shaded = " Shaded: where the band shows a gap." if pair.regions else ""
    caption = (
        f"Line: gap. Band: {percent(1 - test.alpha)} for all scores at once.{tolerance}{shaded} Below: p-value of no gap at "
        f"each score, adjusted for looking at all scores. This pair: {pair.verdict}, p = {p_text(pair.p_adjusted)}."
    )
    some = np.unique(np.linspace(0, len(pair.score) - 1, min(READINGS, len(pair.score))).round().astype(np.int64))
    places = tuple(subject.selection.tally.lattice.to_axis(pair.score)[some].tolist())
    return Chart(key, f"Gap in expected outcome, {name}", caption, panels, _gap_table(pair, some.tolist()), places)


def _gap_panels(subject: Subject, pair: PairTest) -> tuple[Panel, Panel]:
    """The gap above its p-values, on the scale of the lattice."""
    lattice, test = subject.selection.tally.lattice, subject.parity
    kind = (
        "dodged"
        if unsmoothed(lattice, *(subject.selection.tally.sums(group) for group in subject.selection.tally.groups))
        else "line"
    )
    position = lattice.to_axis(pair.score)
    axis = score_axis([position], subject.score, lattice, kind)
    gap = Series(pair_name(pair), 0, position, pair.gap, pair.band_low, pair.band_high, kind)
    shades = tuple((float(lattice.to_axis([r.score_low])[0]), float(lattice.to_axis([r.score_high])[0])) for r in pair.regions)
    p_low = min(1e-3, float(10 ** np.floor(np.log10(max(pair.p_points.min(), SMALLEST_P)))))
    p_values = Series("p-value", 0, position, pair.p_points, kind=kind)
    return (
        Panel(axis, Axis("gap", _gap_limits([pair], test.tolerance)), (gap,), _gap_rules(test.tolerance), shades, height=190),
        Panel(
            axis,
            Axis("p-value", (p_low, 1.5), kind="log"),
            (p_values,),
            (Rule(test.alpha, f"level {test.alpha:.3g}"),),
            height=70,
        ),
    )


def _gap_rules(tolerance: float | None) -> tuple[Rule, ...]:
    zero = (Rule(0.0, kind="zero"),)
    return zero if tolerance is None else (*zero, Rule(tolerance, "tolerance"), Rule(-tolerance))


def _gap_limits(pairs: Sequence[PairTest], tolerance: float | None) -> Limits:
    """All gaps and most of the bands."""
    bands = np.concatenate([np.concatenate([pair.band_low, pair.band_high]) for pair in pairs] or [np.zeros(0)])
    bands = bands[np.isfinite(bands)]
    reach = [0.0, *(gap for pair in pairs for gap in pair.gap)]
    if tolerance is not None:
        reach += [tolerance, -tolerance]
    if len(bands):
        reach += [float(np.quantile(bands, RARE)), float(np.quantile(bands, 1 - RARE))]
    low, high = float(np.nanmin(reach)), float(np.nanmax(reach))
    pad = 0.08 * (high - low) or 0.5
    return low - pad, high + pad


def _gap_table(pair: PairTest, some: list[int]) -> Sheet:
    header = ("score", "gap (band)", "p-value", *(f"effective users, {short(label)}" for label in (pair.group_a, pair.group_b)))
    rows = tuple(
        (
            number_text(float(pair.score[i])),
            _with_band(pair.gap[i], pair.band_low[i], pair.band_high[i]),
            p_text(float(pair.p_points[i])),
            f"{pair.effective_a[i]:,.0f}",
            f"{pair.effective_b[i]:,.0f}",
        )
        for i in some
    )
    return Sheet(header, rows, (True,) * 5, "Gap (band) and p-value by score", len(pair.score) - len(some))
