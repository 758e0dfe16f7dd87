"""Charts as SVG: no library, no style attributes (a strict content-security policy forbids them), a few kilobytes each."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from evenscore.report.chart import COLOURS, N_DASHES, Chart, Panel, Rule, Series
from evenscore.report.layout import BOTTOM, LINE_HEIGHT, NARROW, ROOMY, TOP, Plane, planes, x_ticks
from evenscore.report.ticks import axis_ticks, minus_signs
from evenscore.tables import printable, shorten
from evenscore.types import Floats

LETTER, SMALL_LETTER = 8.0, 5.7  # pixels, of names and of notes
MOST_POINTS, FEWER_POINTS = 64, 36  # of a line; on a phone
LINES = ("line", "area", "thin", "marked")


def draw(chart: Chart, width: float | None = None) -> str:
    """A chart as an SVG element, laid out for a width in pixels."""
    width = chart.width if width is None else width
    found = planes(chart, width)
    bottom = max(plane.bottom for plane in found)
    most = MOST_POINTS if width >= ROOMY else FEWER_POINTS
    most = most * 2 // 3 if chart.crowded or chart.columns > 1 else most
    key = f"{chart.key}-{width:.0f}"
    pieces = [
        piece
        for place, (panel, plane) in enumerate(zip(chart.panels, found, strict=True))
        for piece in _panel(panel, plane, f"{key}-{place}", most)
    ]
    axis, by_name = chart.panels[0].x, found[0].by_name
    for plane in found:
        if plane.last:
            for x, words in x_ticks(axis, chart.panels[0].limits()[0], plane):
                pieces.append(_text(plane.across(x), plane.bottom + 16, words, kind="tick"))
    left, right = min(plane.left for plane in found), max(plane.right for plane in found)
    if axis.label and by_name and not found[0].roomy:  # a long label needs the room below the names too
        pieces.append(_text(right, bottom + 36, axis.label, "end", "axis", limit=int(right / 6.6)))
    elif axis.label:
        pieces.append(_text((left + right) / 2, bottom + 36, axis.label, kind="axis", limit=int(width / 5.5)))
    alt = f"{chart.title}. {chart.caption}"
    kind = "names" if by_name else "multiples" if chart.columns > 1 else "lines"
    if kind == "lines":
        alt += " The values are in the table below the picture."
        pieces.append(f'<line class="cursor" x1="0" x2="0" y1="{TOP}" y2="{_n(bottom)}" visibility="hidden"/>')
    look = (
        "chart"
        + (" crowd" if chart.crowded else "")
        + (" narrow" if width < chart.width else " wide" if chart.width > NARROW else "")
    )
    height = bottom + (BOTTOM if axis.label else BOTTOM - 20)
    return (
        f'<svg class="{look}" viewBox="0 0 {_n(width)} {_n(height)}" role="img" '
        f'aria-label="{html.escape(printable(alt, 600))}" data-chart="{kind}">{"".join(pieces)}</svg>'
    )


def places(chart: Chart) -> list[str]:
    """Where the rows of the table are in the picture, as shares of its width; on a phone as well."""
    found = []
    for place in chart.places:
        shares = [planes(chart, width)[0].across(place) / width for width in dict.fromkeys((chart.width, NARROW))]
        found.append(" ".join(f"{share:.4f}" for share in shares))
    return found


def sample(series: Series) -> str:
    """A piece of a line or a mark, for a legend."""
    inner = f'<line class="{_look(series)}" x1="1" y1="6" x2="33" y2="6"/>' if series.kind in LINES else _mark(17, 6, series)
    return f'<svg class="key" viewBox="0 0 34 12" width="34" height="12" aria-hidden="true">{inner}</svg>'


# Elements


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "small", limit: int = 90) -> str:
    if kind in ("tick", "note"):  # numbers; a name keeps the characters it has
        words = minus_signs(words)
    words = html.escape(printable(words, max(limit, 6)))
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{words}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"/>'


def _box(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{_n(x1)}" y="{_n(y1)}" width="{_n(x2 - x1)}" height="{_n(y2 - y1)}"/>'


def _path(points: Iterable[tuple[float, float]]) -> str:
    """A line through points: the first as it is, the others as steps, which are shorter to write."""
    (x0, y0), *others = [(round(x, 1), round(y, 1)) for x, y in points]
    steps, (x, y) = [], (x0, y0)
    for left, up in others:
        steps.append(f"{_n(left - x)} {_n(up - y)}")
        x, y = left, up
    return f"M{_n(x0)} {_n(y0)}l{' '.join(steps)}".replace(" -", "-") if steps else f"M{_n(x0)} {_n(y0)}"


def _colour(series: Series) -> str:
    return f"-{series.tone}" if series.tone else str(series.style % len(COLOURS))


def _look(series: Series) -> str:
    """The classes of a line: seven colours and four dashes give 28 looks."""
    if series.kind == "thin" or series.tone:
        return f"{'thin' if series.kind == 'thin' else 'line'} c{_colour(series)}"
    return f"line c{_colour(series)} d{series.style % N_DASHES}"


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
    pieces = [
        _line(plane.across(x), plane.top, plane.across(x), plane.bottom, "grid")
        for x, _ in x_ticks(panel.x, panel.limits()[0], plane)
    ]
    pieces += _names(panel, plane) if plane.by_name else _y_ticks(panel, plane)
    if panel.y.label and not plane.by_name:
        turned = f'transform="translate(12 {_n((plane.top + plane.bottom) / 2)}) rotate(-90)" text-anchor="middle"'
        pieces.append(f'<text class="axis" {turned}>{html.escape(panel.y.label)}</text>')
    inside = _content(panel, plane, most)
    if plane.by_name:
        return [*pieces, *inside]
    clip = f'<clipPath id="{key}">{_box(plane.left, plane.top, plane.right, plane.bottom, "clip")}</clipPath>'
    names = [_rule_name(rule, plane) for rule in panel.rules if rule.name]
    if panel.title and plane.top > TOP:
        title = _fit(panel.title, int((plane.right - plane.left) / LETTER))
        names.append(_text(plane.left, plane.top - 6, title, "start", "name"))
    base = _line(plane.left, plane.bottom, plane.right, plane.bottom, "base")
    return [*pieces, clip, f'<g clip-path="url(#{key})">', *inside, "</g>", *names, *_end_names(panel, plane), base]


def _y_ticks(panel: Panel, plane: Plane) -> list[str]:
    pieces = []
    low, high = sorted(panel.limits()[1])
    for y, words in axis_ticks(panel.y, panel.limits()[1], most=5):
        if low <= y <= high:
            pieces.append(_line(plane.left, plane.up(y), plane.right, plane.up(y), "grid"))
            if plane.first:
                pieces.append(_text(plane.left - 6, plane.up(y) + 4, words, "end", "tick"))
    return pieces


def _names(panel: Panel, plane: Plane) -> list[str]:
    """The name of each line of estimates; where there is little room its notes stand below it."""
    pieces = []
    muted = {float(y) for series in panel.series if series.tone == "unshown" for y in series.y}
    for y, words in panel.y.ticks or ():
        kind = "name mute" if float(y) in muted else "name"
        names = words.split("\n")
        if plane.roomy:
            middle = plane.up(y) + 4 - LINE_HEIGHT * (len(names) - 1) / 2
            for place, name in enumerate(names):
                pieces.append(_text(plane.left - 10, middle + place * LINE_HEIGHT, shorten(name, 26), "end", kind))
            continue
        top = plane.up(y - 0.5) + 16
        for place, name in enumerate(names):
            pieces.append(_text(0, top + place * LINE_HEIGHT, _fit(name, int((plane.left - 8) / LETTER)), "start", kind))
        top += (len(names) - 1) * LINE_HEIGHT
        notes = [note for series in panel.series for at, note in zip(series.y, series.notes, strict=False) if abs(at - y) < 0.5]
        lines = [line for note in notes for line in note.split("\n")]
        for place, line in enumerate(lines, 1):
            pieces.append(_text(0, top + place * LINE_HEIGHT, line, "start", "note", int((plane.left - 4) / SMALL_LETTER)))
    return pieces


def _fit(words: str, limit: int) -> str:
    """A name in so many letters; of two names with a minus both."""
    parts = words.split(" − ")
    return (
        " − ".join(shorten(part, (limit - 3 * (len(parts) - 1)) // len(parts)) for part in parts) if len(words) > limit else words
    )


def _end_names(panel: Panel, plane: Plane) -> list[str]:
    """The names of lines beside their ends, one below the other where they would meet."""
    if not (panel.direct and plane.roomy):
        return []
    ends: list[tuple[float, float, Series]] = []
    for series in panel.series:
        known = np.flatnonzero(np.isfinite(series.y))
        if series.name and len(known):
            ends.append((plane.across(float(series.x[known[-1]])), plane.up(float(series.y[known[-1]])), series))
    short_of = plane.right - 0.14 * (plane.right - plane.left)
    alone = [end for end in ends if end[0] < short_of and not any(_names_meet(end, other) for other in ends if other is not end)]
    pieces = [_text(x + 5, y - 9, series.name, "start", f"end halo f{_colour(series)}") for x, y, series in alone]
    ends = sorted((end for end in ends if not any(end is other for other in alone)), key=lambda end: end[1])
    step = min(30.0, (plane.bottom - plane.top) / max(1, len(ends)))
    notes = step >= 29
    heights = _apart([end[1] for end in ends], step, plane.top + 6, plane.bottom - (12 if notes else 0))
    for (x, y, series), height in zip(ends, heights, strict=True):
        text = plane.right + 12
        x = min(x, plane.right)
        pieces.append(
            f'<path class="lead c{_colour(series)}" d="{_path([(x + 2, y), (plane.right + 2, height), (text - 3, height)])}"/>'
        )
        pieces.append(_text(text, height + 4, series.name, "start", f"end f{_colour(series)}"))
        if notes and series.notes and series.notes[0]:
            pieces.append(_text(text, height + 17, series.notes[0], "start", "tick"))
    return pieces


def _names_meet(one: tuple[float, float, Series], other: tuple[float, float, Series]) -> bool:
    """Whether names just beside the ends of two lines would lie over each other."""
    left, right = sorted((one, other), key=lambda end: end[0])
    return right[0] - left[0] < LETTER * len(left[2].name) + 5 and abs(one[1] - other[1]) < LINE_HEIGHT


def _apart(wanted: list[float], step: float, top: float, bottom: float) -> list[float]:
    """Heights near those wanted, in their order, at least a step apart and inside."""
    heights: list[float] = []
    for height in wanted:
        heights.append(max(height, top, heights[-1] + step if heights else top))
    floor = bottom
    for place in reversed(range(len(heights))):
        heights[place] = min(heights[place], floor)
        floor = heights[place] - step
    return heights


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
    return replace(series, x=series.x[some], y=series.y[some], low=low, high=high)


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
    if plane.by_name and plane.roomy:
        for y, note in zip(series.y, series.notes, strict=False):
            pieces.append(_text(plane.right + 8, plane.up(y) + 4, minus_signs(note).replace("\n", ", "), "start"))
    return "".join(pieces)


def _whisker(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A line with a cap on either end."""
    across, up = (0, 4) if y1 == y2 else (4, 0)
    ends = [f"M{_n(x - across)} {_n(y - up)}l{2 * across} {2 * up}" for x, y in ((x1, y1), (x2, y2))]
    return f'<path class="{kind}" d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}{"".join(ends)}"/>'
