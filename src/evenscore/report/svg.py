"""Charts as SVG: no library, no style attributes (a strict content-security policy forbids them), a few kilobytes each."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from evenscore.report.chart import COLOURS, N_DASHES, Axis, Chart, Limits, Panel, Rule, Series
from evenscore.report.ticks import axis_ticks
from evenscore.tables import printable
from evenscore.types import Floats

WIDTH = 720
LEFT, RIGHT, TOP, BOTTOM, BETWEEN = 64, 14, 10, 44, 22
NAMES, NOTES = 180, 170  # room for the names and the notes beside estimates
MOST_POINTS, CROWDED_POINTS = 60, 30  # of a line
LINES = ("line", "area", "thin", "marked")

Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Plane:
    """Where a panel lies in the picture, and its scales from numbers to pixels."""

    left: float
    right: float
    top: float
    bottom: float
    across: Scale
    up: Scale
    by_name: bool


def draw(chart: Chart) -> str:
    """A chart as an SVG element."""
    planes = _planes(chart)
    left, right, bottom = planes[0].left, planes[0].right, planes[-1].bottom
    most = CROWDED_POINTS if chart.crowded else MOST_POINTS
    pieces = [
        piece
        for place, (panel, plane) in enumerate(zip(chart.panels, planes, strict=True))
        for piece in _panel(panel, plane, f"{chart.key}-{place}", most)
    ]
    axis, by_name = chart.panels[0].x, planes[0].by_name
    for x, words in axis_ticks(axis, chart.panels[0].limits()[0]):
        pieces.append(_text(planes[0].across(x), bottom + 16, words, kind="tick"))
    pieces.append(_text((left + right) / 2, bottom + 36, axis.label, kind="axis"))
    alt = f"{chart.title}. {chart.caption}"
    if not by_name:
        alt += " The values are in the table below the picture."
        pieces.append(f'<line class="cursor" x1="0" x2="0" y1="{TOP}" y2="{_n(bottom)}" visibility="hidden"/>')
    return (
        f'<svg class="chart{" crowd" if chart.crowded else ""}" viewBox="0 0 {WIDTH} {_n(bottom + BOTTOM)}" role="img" '
        f'aria-label="{html.escape(printable(alt, 600))}" data-chart="{"names" if by_name else "lines"}">{"".join(pieces)}</svg>'
    )


def places(chart: Chart) -> list[str]:
    """Where the rows of the table are in the picture."""
    across = _planes(chart)[0].across
    return [_n(across(place)) for place in chart.places]


def sample(series: Series) -> str:
    """A piece of a line or a mark, for a legend."""
    inner = f'<line class="{_look(series)}" x1="1" y1="6" x2="33" y2="6"/>' if series.kind in LINES else _mark(17, 6, series)
    return f'<svg class="key" viewBox="0 0 34 12" width="34" height="12" aria-hidden="true">{inner}</svg>'


def _planes(chart: Chart) -> list[Plane]:
    planes, top = [], float(TOP)
    x_limits = chart.panels[0].limits()[0]
    for panel in chart.panels:
        left, right = (NAMES, WIDTH - NOTES) if panel.by_name else (LEFT, WIDTH - RIGHT)
        bottom = top + panel.height
        across, up = _scale(panel.x, x_limits, left, right), _scale(panel.y, panel.limits()[1], bottom, top)
        planes.append(Plane(left, right, top, bottom, across, up, panel.by_name))
        top = bottom + BETWEEN
    return planes


def _scale(axis: Axis, limits: Limits, start: float, end: float) -> Scale:
    """From numbers to pixels; on a logarithmic scale what is not positive lies at the lower end."""
    low, high = (math.log10(limit) for limit in limits) if axis.kind == "log" else limits
    span = (high - low) or 1.0
    if axis.kind == "log":
        return lambda value: start + (math.log10(max(value, limits[0])) - low) / span * (end - start)
    return lambda value: start + (value - low) / span * (end - start)


# Elements


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "small") -> str:
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{html.escape(printable(words, 90))}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"/>'


def _box(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{_n(x1)}" y="{_n(y1)}" width="{_n(x2 - x1)}" height="{_n(y2 - y1)}"/>'


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)


def _colour(series: Series) -> int:
    return series.style % len(COLOURS)


def _look(series: Series) -> str:
    """The classes of a line: seven colours and four dashes give 28 looks."""
    return f"thin c{_colour(series)}" if series.kind == "thin" else f"line c{_colour(series)} d{series.style % N_DASHES}"


def _mark(x: float, y: float, series: Series) -> str:
    """A circle, square, diamond or triangle."""
    shapes = (
        f"M{_n(x - 4)} {_n(y)}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
        f"M{_n(x - 4)} {_n(y - 4)}h8v8h-8Z",
        f"M{_n(x)} {_n(y - 5)}l5 5l-5 5l-5 -5Z",
        f"M{_n(x)} {_n(y - 5)}l5 9h-10Z",
    )
    look = f"ring c{_colour(series)}" if series.hollow else f"dot f{_colour(series)}"
    return f'<path class="{look}" d="{shapes[series.style % len(shapes)]}"/>'


# Panels


def _panel(panel: Panel, plane: Plane, key: str, most: int) -> list[str]:
    x_ticks, y_ticks = (axis_ticks(panel.x, panel.limits()[0]), axis_ticks(panel.y, panel.limits()[1], most=5))
    pieces = [_line(plane.across(x), plane.top, plane.across(x), plane.bottom, "grid") for x, _ in x_ticks]
    for y, words in y_ticks:
        if plane.by_name:
            pieces.append(_text(plane.left - 10, plane.up(y) + 4, printable(words, 26), "end", "name"))
        else:
            pieces.append(_line(plane.left, plane.up(y), plane.right, plane.up(y), "grid"))
            pieces.append(_text(plane.left - 7, plane.up(y) + 4, words, "end", "tick"))
    if panel.y.label:
        turned = f'transform="translate(14 {_n((plane.top + plane.bottom) / 2)}) rotate(-90)" text-anchor="middle"'
        pieces.append(f'<text class="axis" {turned}>{html.escape(panel.y.label)}</text>')
    frame = _box(plane.left, plane.top, plane.right, plane.bottom, "frame")
    inside = _content(panel, plane, most)
    if plane.by_name:
        return [*pieces, *inside, frame]
    clip = f'<clipPath id="{key}">{_box(plane.left, plane.top, plane.right, plane.bottom, "clip")}</clipPath>'
    names = [_rule_name(rule, plane) for rule in panel.rules if rule.name]
    return [*pieces, clip, f'<g clip-path="url(#{key})">', *inside, "</g>", *names, frame]


def _content(panel: Panel, plane: Plane, most: int) -> list[str]:
    pieces = []
    for low, high in panel.shades:
        left, right = plane.across(low), plane.across(high)
        pieces.append(_box(left, plane.top, max(right, left + 2), plane.bottom, "shade"))
    thinned = [_thin(series, most) for series in panel.series]
    pieces += [_band(series, plane) for series in thinned if series.kind in LINES and series.kind != "marked"]
    pieces += [_rule(rule, plane) for rule in panel.rules]
    return pieces + [_series(series, plane) for series in thinned]


def _rule(rule: Rule, plane: Plane) -> str:
    kind = rule.kind if rule.style is None else f"line c{rule.style % len(COLOURS)}"
    if rule.upright:
        return _line(plane.across(rule.at), plane.top, plane.across(rule.at), plane.bottom, kind)
    return _line(plane.left, plane.up(rule.at), plane.right, plane.up(rule.at), kind)


def _rule_name(rule: Rule, plane: Plane) -> str:
    if not rule.upright:
        return _text(plane.right - 3, plane.up(rule.at) - 4, rule.name, "end")
    x = plane.across(rule.at)
    on_the_right = x > (plane.left + plane.right) / 2
    return _text(x - 5, plane.top + 11, rule.name, "end") if on_the_right else _text(x + 5, plane.top + 11, rule.name, "start")


# Series


def _thin(series: Series, most: int) -> Series:
    """So many points of a line as can be told apart."""
    if len(series.x) <= most:
        return series
    some = np.unique(np.linspace(0, len(series.x) - 1, most).round().astype(np.int64))
    low, high = (None if column is None else column[some] for column in (series.low, series.high))
    return Series(series.name, series.style, series.x[some], series.y[some], low, high, series.kind, series.hollow)


def _runs(*columns: Floats) -> list[list[tuple[float, ...]]]:
    """Stretches without a missing value."""
    runs: list[list[tuple[float, ...]]] = [[]]
    for values in zip(*columns, strict=True):
        if all(math.isfinite(value) for value in values):
            runs[-1].append(values)
        else:
            runs.append([])
    return [run for run in runs if run]


def _band(series: Series, plane: Plane) -> str:
    if series.low is None or series.high is None:
        return ""
    paths = []
    for run in _runs(series.x, series.low, series.high):
        there = [(plane.across(x), plane.up(high)) for x, _, high in run]
        back = [(plane.across(x), plane.up(low)) for x, low, _ in reversed(run)]
        paths.append(f'<path class="band f{_colour(series)}" d="{_path(there + back)}Z"/>')
    return "".join(paths)


def _series(series: Series, plane: Plane) -> str:
    if series.kind not in LINES and series.kind != "diagonal":
        return _points(series, plane)
    look = "diagonal" if series.kind == "diagonal" else _look(series)
    paths = []
    for run in _runs(series.x, series.y):
        points = [(plane.across(x), plane.up(y)) for x, y in run]
        if series.kind == "area":
            closed = [(points[0][0], plane.bottom), *points, (points[-1][0], plane.bottom)]
            paths.append(f'<path class="area f{_colour(series)}" d="{_path(closed)}Z"/>')
        paths.append(f'<path class="{look}" d="{_path(points)}"/>')
    return "".join(paths) + (_points(series, plane) if series.kind == "marked" else "")


def _points(series: Series, plane: Plane) -> str:
    """Points or bars with their limits and notes."""
    missing = np.full(len(series.x), np.nan)
    low, high = missing if series.low is None else series.low, missing if series.high is None else series.high
    beside = 5 * (series.style - 1) if series.kind == "dodged" else 0
    pieces = []
    for x, y, least, most in zip(series.x, series.y, low, high, strict=True):
        if not (math.isfinite(x) and math.isfinite(y)):
            continue
        across, up = plane.across(x) + beside, plane.up(y)
        if series.kind == "bars":
            left, right = sorted((plane.across(0.0), across))
            pieces.append(_box(left, up - 8, max(right, left + 1), up + 8, f"bar f{_colour(series)}"))
        if math.isfinite(least) and math.isfinite(most):
            kind = "whisker" if series.kind == "bars" else f"line c{_colour(series)}"
            x1, x2 = (plane.across(least), plane.across(most)) if plane.by_name else (across, across)
            y1, y2 = (up, up) if plane.by_name else (plane.up(least), plane.up(most))
            pieces.append(_whisker(x1, y1, x2, y2, kind))
        if series.kind != "bars":
            pieces.append(_mark(across, up, series))
    pieces += [_text(plane.right + 8, plane.up(y) + 4, note, "start") for y, note in zip(series.y, series.notes, strict=False)]
    return "".join(pieces)


def _whisker(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A line with a cap on either end."""
    across, up = (0, 4) if y1 == y2 else (4, 0)
    caps = [_line(x - across, y - up, x + across, y + up, kind) for x, y in ((x1, y1), (x2, y2))]
    return _line(x1, y1, x2, y2, kind) + "".join(caps)
