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
from evenscore.parity.parity_result import PairTest
from evenscore.report.axes import score_ticks
from evenscore.report.document import Chart, Panel, Rule, Series, Sheet, Values
from evenscore.tables import label_text, number_text, p_text, printable
from evenscore.tallies.lattice import Lattice
from evenscore.types import Floats, Ints

MOST_GROUPS, MOST_PAIRS = 10, 8
READINGS = 25  # rows of the table under a picture of curves
MOST_ROWS, MOST_POINTS = 25, 50
CROWDED_POINTS = 30  # of each curve, when there are many
DENSITY_BINS, FEWER_BINS = 60, 30
SMALLEST_P = 1e-6  # smaller ones are drawn there
CROWD = 4  # more groups than this get fainter bands
NAME = 32


def values(array: Any) -> Values:
    """Numbers for a chart; None where there is none."""
    return tuple(float(x) if np.isfinite(x) else None for x in array)


def short(label: Any) -> str:
    """A group's name for a legend."""
    return printable(label_text(label), NAME)


# Curves and densities


def curve_chart(subject: Subject, key: str) -> Chart:
    """The expected outcome along the score with bands, above the densities of the scores."""
    shown = shown_curves(subject)
    left_out = len(subject.curves.curves) - len(shown)
    more = f" {left_out} more groups are in the JSON." if left_out else ""
    chart = outcome_chart(key, f"Expected outcome by {subject.score}", subject.score, subject.curves, shown, subject.tally.lattice)
    positions = [curve.position for curve in shown]
    discrete = unsmoothed(subject.tally.lattice, *(subject.tally.sums(curve.group) for curve in shown))
    densities = tuple(_density(subject, curve.group, place, chart.limits, discrete) for place, curve in enumerate(shown))
    top = max((y for series in densities for y in series.y if y is not None), default=1.0)
    return replace(
        chart,
        caption=(
            f"Line: estimate. Band: {_percent(1 - subject.alpha)} for the whole curve at once. Below: where the scores of each "
            f"group lie. Equal curves mean that a score means the same for everyone.{_diagonal_words(chart)}{more}"
        ),
        panels=(*chart.panels, Panel("people", densities, (0.0, top * 1.08), 70, ticks=False)),
        marks=_threshold_mark(subject, _limits(positions)),
    )


def outcome_chart(key: str, title: str, score: str, curves: Curves, shown: Sequence[Curve], lattice: Lattice) -> Chart:
    """Curves with bands, and where outcome and score are equal."""
    discrete = lattice.discrete and all(len(curve.position) <= FEW_VALUES for curve in shown)
    limits = _limits([curve.position for curve in shown])
    most = MOST_POINTS if len(shown) <= CROWD else CROWDED_POINTS
    lines = tuple(_curve(curve, place, discrete, most) for place, curve in enumerate(shown))
    diagonal = curves.binary and lattice.scale == "score" and lattice.low >= 0 and lattice.high <= 1
    return Chart(
        key=key,
        title=title,
        caption="",
        label=_axis_label(score, lattice),
        panels=(Panel("expected outcome", lines, _outcome_limits(curves.binary, shown), 250, diagonal=diagonal),),
        limits=limits,
        ticks=score_ticks(lattice, limits),
        legend=tuple((short(curve.group), place) for place, curve in enumerate(shown)),
        crowded=len(shown) > CROWD,
        **_curve_table(lattice, list(shown), limits, discrete),
    )


def _diagonal_words(chart: Chart) -> str:
    return " Dotted: outcome equal to the score." if chart.panels[0].diagonal else ""


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _axis_label(score: str, lattice: Lattice) -> str:
    return score if lattice.scale == "score" else f"{score} ({lattice.scale} scale)"


def shown_curves(subject: Subject) -> list[Curve]:
    """The curves to draw: if there are many, of the groups whose pairs differ most."""
    curves = list(subject.curves.curves)
    if len(curves) <= MOST_GROUPS:
        return curves
    wanted: list[Any] = []
    for pair in _by_weight(subject):
        wanted += [group for group in (pair.group_a, pair.group_b) if not any(group is known for known in wanted)]
    ranked = sorted(curves, key=lambda c: next((i for i, group in enumerate(wanted) if group is c.group), len(wanted)))
    chosen = ranked[:MOST_GROUPS]
    return [curve for curve in curves if any(curve is one for one in chosen)]


def _limits(positions: list[Floats]) -> tuple[float, float]:
    low, high = min(float(p[0]) for p in positions), max(float(p[-1]) for p in positions)
    pad = 0.02 * (high - low) or 0.5
    return low - pad, high + pad


def _outcome_limits(binary: bool, curves: Sequence[Curve]) -> tuple[float, float]:
    """All estimates and most of the bands: a band of a few users would stretch the axis beyond what an outcome can be."""
    estimates = np.concatenate([curve.estimate for curve in curves])
    bands = np.concatenate([np.concatenate([curve.band_low, curve.band_high]) for curve in curves])
    bands = bands[np.isfinite(bands)]
    estimates = estimates[np.isfinite(estimates)]
    low, high = (float(estimates.min()), float(estimates.max())) if len(estimates) else (0.0, 1.0)
    if len(bands):
        low, high = min(low, float(np.quantile(bands, 0.03))), max(high, float(np.quantile(bands, 0.97)))
    if binary:
        low, high = max(low, 0.0), min(high, 1.0)
    pad = 0.05 * (high - low) or 0.5
    return low - pad, high + pad


def _curve(curve: Curve, style: int, discrete: bool, most: int) -> Series:
    some = _thinned(len(curve.position), most)
    x, y, low, high = (values(column[some]) for column in (curve.position, curve.estimate, curve.band_low, curve.band_high))
    return Series(short(curve.group), style, x, y, low, high, "points" if discrete else "line")


def _density(subject: Subject, group: Any, style: int, limits: tuple[float, float], discrete: bool) -> Series:
    """The share of a group's people along the axis, every user weighing the same."""
    lattice, sums = subject.tally.lattice, subject.tally.sums(group)
    weight = sums.A if sums.A.sum() > 0 else sums.W
    if discrete:
        used = weight > 0
        return Series(short(group), style, values(sums.position[used]), values(weight[used] / weight.sum()), kind="points")
    cumulative = np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum()
    edges = np.linspace(*limits, (DENSITY_BINS if subject.tally.n_users[group] >= 1000 else FEWER_BINS) + 1)
    density = np.diff(np.interp(edges, lattice.axis_edges, cumulative)) / np.diff(edges)
    kind = "area" if len(subject.tally.groups) <= CROWD else "line"
    return Series(short(group), style, values((edges[1:] + edges[:-1]) / 2), values(density), kind=kind)


def _threshold_mark(subject: Subject, limits: tuple[float, float]) -> tuple[tuple[float, str], ...]:
    if subject.threshold is None:
        return ()
    place = float(subject.tally.lattice.to_axis([subject.threshold])[0])
    return ((place, f"threshold {subject.threshold:g}"),) if limits[0] <= place <= limits[1] else ()


def _curve_table(lattice: Lattice, curves: list[Curve], limits: tuple[float, float], discrete: bool) -> dict[str, Any]:
    """The curves side by side at scores that all of them share; between their own points they are interpolated."""
    places = np.unique(np.concatenate([c.position for c in curves])) if discrete else np.linspace(*limits, READINGS + 2)[1:-1]
    columns = [[number_text(float(score)) for score in lattice.to_score(places)]]
    header = ["score"]
    for curve in curves:
        at = [_reading(curve, name, places, discrete) for name in ("estimate", "band_low", "band_high")]
        columns.append([_with_band(*numbers) for numbers in zip(*at, strict=True)])
        header.append(short(curve.group))
    caption = "Expected outcome (band) by score and group"
    rows = tuple(zip(*columns, strict=True))
    return {"table": Sheet(tuple(header), rows, (True,) * len(header), caption), "places": values(places)}


def _reading(curve: Curve, name: str, places: Floats, discrete: bool) -> Floats:
    found = np.interp(places, curve.position, getattr(curve, name), left=np.nan, right=np.nan)
    if discrete:
        found[~np.isclose(places[:, None], curve.position[None, :], rtol=1e-12, atol=1e-12).any(axis=1)] = np.nan
    return found


def _with_band(value: float, low: float, high: float) -> str:
    if not np.isfinite(value):
        return "–"
    return f"{value:.3f} ({low:.3f} to {high:.3f})" if np.isfinite(low) else f"{value:.3f}"


# Gaps


def _by_weight(subject: Subject) -> list[PairTest]:
    """Pairs that can be drawn, disparities and large gaps first."""
    known = [pair for pair in subject.parity.pairs if len(pair.score)]
    return sorted(known, key=lambda pair: (pair.verdict != DISPARITY, -abs(pair.max_gap)))


def gap_charts(subject: Subject, key: str) -> tuple[tuple[Chart, ...], int]:
    """The gap of each pair with band, tolerance and p-values; and how many pairs are not drawn."""
    pairs = _by_weight(subject)
    charts = tuple(_gap_chart(subject, pair, f"{key}{place}") for place, pair in enumerate(pairs[:MOST_PAIRS]))
    return charts, max(0, len(pairs) - MOST_PAIRS)


def _gap_chart(subject: Subject, pair: PairTest, key: str) -> Chart:
    lattice, test = subject.tally.lattice, subject.parity
    sums = [subject.tally.sums(group) for group in subject.tally.groups]
    kind = "points" if unsmoothed(lattice, *sums) else "line"
    position = lattice.to_axis(pair.score)
    limits = _limits([position])
    some = _thinned(len(position), MOST_POINTS)
    name = f"{short(pair.group_a)} − {short(pair.group_b)}"
    x, y, low, high = (values(column[some]) for column in (position, pair.gap, pair.band_low, pair.band_high))
    gap = Series(name, 0, x, y, low, high, kind)
    shades = tuple((float(lattice.to_axis([r.score_low])[0]), float(lattice.to_axis([r.score_high])[0])) for r in pair.regions)
    p_low = min(1e-3, float(10 ** np.floor(np.log10(max(pair.p_points.min(), SMALLEST_P)))))
    p_values = Series("p-value", 0, values(position[some]), values(pair.p_points[some]), kind=kind)
    tolerance = f" Dashed: the tolerance of ±{test.tolerance:g}." if test.tolerance is not None else ""
    marked = " Shaded: where the band shows a gap." if shades else ""
    return Chart(
        key=key,
        title=f"Gap in expected outcome, {name}",
        caption=(
            f"Line: gap. Band: {_percent(1 - test.alpha)} for all scores at once.{tolerance}{marked} Below: p-value of no gap at "
            f"each score, adjusted for looking at all scores. This pair: {pair.verdict}, p = {p_text(pair.p_adjusted)}."
        ),
        label=_axis_label(subject.score, lattice),
        panels=(
            Panel("gap", (gap,), _gap_limits(pair, test.tolerance), 190, _gap_rules(test.tolerance), shades),
            Panel("p-value", (p_values,), (p_low, 1.5), 70, (Rule(test.alpha, f"level {test.alpha:.3g}"),), log=True),
        ),
        limits=limits,
        ticks=score_ticks(lattice, limits),
        marks=_threshold_mark(subject, limits),
        **_gap_table(pair, position),
    )


def _thinned(n_points: int, most: int) -> Ints:
    return np.arange(n_points) if n_points <= most else np.unique(np.linspace(0, n_points - 1, most).round().astype(np.int64))


def _gap_rules(tolerance: float | None) -> tuple[Rule, ...]:
    zero = (Rule(0.0, "", "zero"),)
    return zero if tolerance is None else (*zero, Rule(tolerance, "tolerance"), Rule(-tolerance, ""))


def _gap_limits(pair: PairTest, tolerance: float | None) -> tuple[float, float]:
    bands = np.concatenate([pair.band_low, pair.band_high])
    bands = bands[np.isfinite(bands)]
    reach = [*pair.gap, *((tolerance, -tolerance) if tolerance is not None else ()), 0.0]
    reach += [float(np.quantile(bands, 0.03)), float(np.quantile(bands, 0.97))] if len(bands) else []
    low, high = min(reach), max(reach)
    pad = 0.08 * (high - low) or 0.5
    return low - pad, high + pad


def _gap_table(pair: PairTest, position: Floats) -> dict[str, Any]:
    some = _thinned(len(position), MOST_ROWS)
    header = (
        "score",
        "gap (band)",
        "p-value",
        f"effective users, {short(pair.group_a)}",
        f"effective users, {short(pair.group_b)}",
    )
    rows = tuple(
        (
            number_text(float(pair.score[i])),
            _with_band(pair.gap[i], pair.band_low[i], pair.band_high[i]),
            p_text(float(pair.p_points[i])),
            *(f"{effective[i]:,.0f}" for effective in (pair.effective_a, pair.effective_b)),
        )
        for i in some
    )
    caption = "Gap (band) and p-value by score"
    left_out = len(position) - len(some)
    return {"table": Sheet(header, rows, (True,) * 5, caption, left_out), "places": values(position[some])}
