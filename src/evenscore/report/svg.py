"""Charts as SVG: no library, no style attributes (a strict content-security policy forbids them), a few kilobytes each."""

from __future__ import annotations

import html
from collections.abc import Iterable

from evenscore.report.axes import Scale, linear, log_ticks, logarithmic, nice_ticks, power_text, tick_text
from evenscore.report.document import Chart, Estimate, Intervals, Panel, Series
from evenscore.tables import printable

WIDTH = 720
LEFT, RIGHT, TOP, BOTTOM, BETWEEN = 64, 14, 10, 44, 22
LINE = 26  # height of one line of estimates
NAMES, NUMBERS = 180, 170  # room for the names and the numbers beside estimates
COLOURS, DASHES = 7, 4


def look(style: int) -> str:
    """The classes of a line: seven colours and four dashes give 28 looks."""
    return f"c{style % COLOURS} d{style % DASHES}"


def draw(figure: Chart | Intervals) -> str:
    """A figure as an SVG element."""
    return _chart(figure) if isinstance(figure, Chart) else _intervals(figure)


def pixel(chart: Chart, place: float | None) -> str:
    """Where a place on the horizontal axis is in the picture."""
    return "" if place is None else _n(_across(chart)(place))


def sample(style: int, kind: str = "line") -> str:
    """A piece of a line, for a legend."""
    return (
        f'<svg class="key" viewBox="0 0 34 12" width="34" height="12" aria-hidden="true">'
        f'<line class="line {look(style)}" x1="1" y1="6" x2="33" y2="6"/></svg>'
        if kind == "line"
        else f'<svg class="key" viewBox="0 0 34 12" width="34" height="12" aria-hidden="true">{_mark(17, 6, style)}</svg>'
    )


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "") -> str:
    classes = f' class="{kind}"' if kind else ""
    return f'<text{classes} x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{html.escape(printable(words, 60))}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"/>'


def _open(height: float, label: str, name: str, classes: str = "chart") -> str:
    box = f'viewBox="0 0 {WIDTH} {_n(height)}"'
    return f'<svg class="{classes}" {box} role="img" aria-label="{html.escape(printable(label, 600))}" data-chart="{name}">'


# Lines along the score


def _across(chart: Chart) -> Scale:
    return linear(*chart.limits, LEFT, WIDTH - RIGHT)


def _chart(chart: Chart) -> str:
    across = _across(chart)
    parts, top = [], float(TOP)
    for place, panel in enumerate(chart.panels):
        parts += _panel(panel, across, top, f"{chart.key}-{place}", chart.ticks)
        top += panel.height + BETWEEN
    bottom = top - BETWEEN
    for x, words in chart.ticks:
        parts.append(_text(across(x), bottom + 16, words, kind="tick"))
    for x, words in chart.marks:
        parts.append(_line(across(x), TOP, across(x), bottom, "mark"))
        side = "end" if across(x) > WIDTH / 2 else "start"
        parts.append(_text(across(x) + (-5 if side == "end" else 5), TOP + 11, words, side, "small"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, bottom + 36, chart.label, kind="axis"))
    parts.append(f'<line class="cursor" x1="0" x2="0" y1="{TOP}" y2="{_n(bottom)}" visibility="hidden"/>')
    words = f"{chart.title}. {chart.caption} The values are in the table below the picture."
    return _open(bottom + BOTTOM, words, "lines", "chart crowd" if chart.crowded else "chart") + "".join(parts) + "</svg>"


def _panel(panel: Panel, across: Scale, top: float, key: str, ticks: Iterable[tuple[float, str]]) -> list[str]:
    bottom = top + panel.height
    up = (logarithmic if panel.log else linear)(*panel.limits, bottom, top)
    marks = log_ticks(*panel.limits) if panel.log else nice_ticks(*panel.limits, most=5)
    parts = [
        f'<clipPath id="{key}"><rect x="{LEFT}" y="{_n(top)}" width="{WIDTH - LEFT - RIGHT}" height="{panel.height}"/></clipPath>'
    ]
    parts += [_line(across(x), top, across(x), bottom, "grid") for x, _ in ticks]
    if panel.ticks:
        for tick in marks:
            parts.append(_line(LEFT, up(tick), WIDTH - RIGHT, up(tick), "grid"))
            parts.append(_text(LEFT - 7, up(tick) + 4, (power_text if panel.log else tick_text)(tick), "end", "tick"))
    middle = (top + bottom) / 2
    parts.append(
        f'<text class="axis" transform="translate(14 {_n(middle)}) rotate(-90)" text-anchor="middle">'
        f"{html.escape(panel.label)}</text>"
    )
    parts.append(f'<g clip-path="url(#{key})">')
    parts += [
        f'<rect class="shade" x="{_n(across(low))}" y="{_n(top)}" width="{_n(max(across(high) - across(low), 2))}" '
        f'height="{panel.height}"/>'
        for low, high in panel.shades
    ]
    parts += [_band(series, across, up) for series in panel.series]
    if panel.diagonal:
        low, high = panel.limits
        parts.append(_line(across(low), up(low), across(high), up(high), "diagonal"))
    for rule in panel.rules:
        parts.append(_line(LEFT, up(rule.y), WIDTH - RIGHT, up(rule.y), rule.kind))
    parts += [_series(series, across, up, bottom) for series in panel.series]
    parts.append("</g>")
    for rule in panel.rules:
        if rule.name:
            parts.append(_text(WIDTH - RIGHT - 3, up(rule.y) - 4, rule.name, "end", "small"))
    parts.append(f'<rect class="frame" x="{LEFT}" y="{_n(top)}" width="{WIDTH - LEFT - RIGHT}" height="{panel.height}"/>')
    return parts


def _runs(*columns: Iterable[float | None]) -> list[list[tuple[float, ...]]]:
    """Stretches without a missing value."""
    runs: list[list[tuple[float, ...]]] = [[]]
    for values in zip(*columns, strict=True):
        if any(value is None for value in values):
            runs.append([])
        else:
            runs[-1].append(values)
    return [run for run in runs if run]


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)


def _band(series: Series, across: Scale, up: Scale) -> str:
    if series.kind != "line" or not series.low:
        return ""
    found = []
    for run in _runs(series.x, series.low, series.high):
        there = [(across(x), up(high)) for x, _, high in run]
        back = [(across(x), up(low)) for x, low, _ in reversed(run)]
        found.append(f'<path class="band f{series.style % COLOURS}" d="{_path(there + back)}Z"/>')
    return "".join(found)


def _series(series: Series, across: Scale, up: Scale, bottom: float) -> str:
    if series.kind == "points":
        return _points(series, across, up)
    found = []
    for run in _runs(series.x, series.y):
        points = [(across(x), up(y)) for x, y in run]
        if series.kind == "area":
            closed = [(points[0][0], bottom), *points, (points[-1][0], bottom)]
            found.append(f'<path class="area f{series.style % COLOURS}" d="{_path(closed)}Z"/>')
        found.append(f'<path class="line {look(series.style)}" d="{_path(points)}"/>')
    return "".join(found)


def _points(series: Series, across: Scale, up: Scale) -> str:
    found = []
    limits = (series.low, series.high) if series.low else (series.y, series.y)
    for x, y, low, high in (values for run in _runs(series.x, series.y, *limits) for values in run):
        shift = 5 * (series.style - 1)  # several groups at one score stand beside each other
        found.append(_line(across(x) + shift, up(low), across(x) + shift, up(high), f"line c{series.style % COLOURS}"))
        found.append(_mark(across(x) + shift, up(y), series.style))
    return "".join(found)


def _mark(x: float, y: float, style: int) -> str:
    """A filled circle, square, diamond or triangle."""
    shapes = (
        f"M{_n(x - 4)} {_n(y)}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
        f"M{_n(x - 4)} {_n(y - 4)}h8v8h-8Z",
        f"M{_n(x)} {_n(y - 5)}l5 5l-5 5l-5 -5Z",
        f"M{_n(x)} {_n(y - 5)}l5 9h-10Z",
    )
    return f'<path class="dot f{style % COLOURS}" d="{shapes[style % len(shapes)]}"/>'


# Estimates with limits


def _intervals(figure: Intervals) -> str:
    values = [v for _, row in figure.lines for e in row for v in (e.value, e.low, e.high) if v is not None]
    values += [rule.y for rule in figure.rules] + ([0.0] if figure.bars else [])
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    pad = 0.06 * ((high - low) or 1.0)
    low, high = (low - pad if low < 0 or not figure.bars else 0.0), high + pad
    start, end = NAMES, WIDTH - NUMBERS
    across = linear(low, high, start, end)
    n_lines = sum(len(row) for _, row in figure.lines)
    gap = 8 if any(len(row) > 1 for _, row in figure.lines) else 0
    bottom = TOP + n_lines * LINE + gap * len(figure.lines)
    parts = []
    for tick in nice_ticks(low, high):
        parts.append(_line(across(tick), TOP, across(tick), bottom, "grid"))
        parts.append(_text(across(tick), bottom + 16, tick_text(tick), kind="tick"))
    for rule in figure.rules:
        parts.append(_line(across(rule.y), TOP, across(rule.y), bottom, rule.kind))
    y = float(TOP)
    for name, row in figure.lines:
        parts.append(_text(start - 10, y + LINE / 2 + 4, printable(name, 26), "end", "name"))
        for estimate in row:
            parts += _estimate(estimate, across, y + LINE / 2, figure.bars, end)
            y += LINE
        y += gap
    parts.append(f'<rect class="frame" x="{start}" y="{TOP}" width="{end - start}" height="{_n(bottom - TOP)}"/>')
    parts.append(_text((start + end) / 2, bottom + 36, figure.label, kind="axis"))
    return _open(bottom + BOTTOM, f"{figure.title}. {figure.caption}", "intervals") + "".join(parts) + "</svg>"


def _estimate(estimate: Estimate, across: Scale, y: float, bars: bool, end: float) -> list[str]:
    if estimate.value is None:
        return [_text(end + 8, y + 4, estimate.text or "cannot be judged", "start", "small")]
    parts = []
    colour = estimate.style % COLOURS
    if bars:
        left, right = sorted((across(0.0), across(estimate.value)))
        parts.append(f'<rect class="bar f{colour}" x="{_n(left)}" y="{_n(y - 8)}" width="{_n(max(right - left, 1))}" height="16"/>')
    if estimate.low is not None and estimate.high is not None:
        left, right = across(estimate.low), across(estimate.high)
        kind = "whisker" if bars else f"line c{colour}"
        parts += [_line(left, y, right, y, kind), _line(left, y - 4, left, y + 4, kind), _line(right, y - 4, right, y + 4, kind)]
    if not bars:
        parts.append(_mark(across(estimate.value), y, estimate.style))
    parts.append(_text(end + 8, y + 4, estimate.text, "start", "small"))
    return parts
