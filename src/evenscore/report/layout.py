"""Where the parts of a chart lie in a picture of some width."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from evenscore.report.chart import Axis, Chart, Limits, Panel, Ticks
from evenscore.report.ticks import axis_ticks

NARROW = 358  # pixels, on a phone
LEFT, RIGHT, TOP, BOTTOM, BETWEEN = 46, 14, 10, 44, 22
Y_LABEL, PANEL_TITLE, BESIDE = 18, 20, 16  # room for the label of an upright axis, above small multiples, and between them
NAMES, NOTES, NAMED_END = 180, 170, 126  # room for the names and the notes beside estimates, and for names at the ends of lines
FAR = 1e3  # times the width of a picture: nothing is drawn further away
ROOMY = 560  # pixels from which on names stand beside lines
LINE_HEIGHT = 13.5  # of small words

Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Plane:
    """Where a panel lies, and its scales from numbers to pixels. first, last: whether ticks stand beside and below."""

    left: float
    right: float
    top: float
    bottom: float
    across: Scale
    up: Scale
    by_name: bool
    roomy: bool
    first: bool = True
    last: bool = True


def planes(chart: Chart, width: float) -> list[Plane]:
    """Where each panel lies."""
    if chart.columns > 1:
        return _multiples(chart, width)
    placed, top, roomy = [], float(TOP), width >= ROOMY
    x_limits = chart.panels[0].limits()[0]
    labelled = any(panel.y.label for panel in chart.panels)
    for place, panel in enumerate(chart.panels):
        left, right = float(LEFT + (Y_LABEL if labelled else 0)), width - RIGHT
        height = panel.height
        if panel.by_name:
            left, right = (NAMES, width - NOTES) if roomy else (0.47 * width, width - RIGHT)
            height = panel.height if roomy else _stacked_height(panel)
        elif any(own.direct for own in chart.panels) and roomy:
            right = width - NAMED_END
        bottom = top + height
        placed.append(
            Plane(
                left=left,
                right=right,
                top=top,
                bottom=bottom,
                across=_scale(panel.x, x_limits, left, right),
                up=_scale(panel.y, panel.limits()[1], bottom, top),
                by_name=panel.by_name,
                roomy=roomy,
                last=place == len(chart.panels) - 1,
            )
        )
        top = bottom + BETWEEN
    return placed


def _stacked_height(panel: Panel) -> float:
    """With the notes below the names."""
    lines = [1 + note.count("\n") for series in panel.series for note in series.notes] or [1]
    names = [1 + words.count("\n") for _, words in panel.y.ticks or ()] or [1]
    return len(panel.y.ticks or ()) * (LINE_HEIGHT * (max(names) + panel.lines * max(lines)) + 12)


def _multiples(chart: Chart, width: float) -> list[Plane]:
    """Panels side by side, as many as there is room for, on shared axes."""
    columns = min(chart.columns, len(chart.panels), max(1, int(width // (150 if chart.columns > 2 else 300))))
    panel_width = (width - LEFT - RIGHT - (columns - 1) * BESIDE) / columns
    placed: list[Plane] = []
    top = float(TOP)
    for place, panel in enumerate(chart.panels):
        column = place % columns
        if column == 0:
            top = TOP + PANEL_TITLE if place == 0 else placed[-1].bottom + PANEL_TITLE + BETWEEN / 2
        left = LEFT + column * (panel_width + BESIDE)
        right, bottom = left + panel_width, top + panel.height
        limits = chart.panels[0].limits()
        placed.append(
            Plane(
                left=left,
                right=right,
                top=top,
                bottom=bottom,
                across=_scale(panel.x, limits[0], left, right),
                up=_scale(panel.y, limits[1], bottom, top),
                by_name=False,
                roomy=width >= ROOMY,
                first=column == 0,
                last=place + columns >= len(chart.panels),
            )
        )
    return placed


def _scale(axis: Axis, limits: Limits, start: float, end: float) -> Scale:
    """From numbers to pixels; on a logarithmic scale what is not positive lies at the lower end."""
    low, high = (math.log10(limit) for limit in limits) if axis.kind == "log" else limits
    span = (high - low) or 1.0
    if axis.kind == "log":
        return lambda value: start + (math.log10(max(value, limits[0])) - low) / span * (end - start)
    # Python's own numbers overflow without a word, and nothing is drawn a thousand pictures away.
    return lambda value: start + min(max((float(value) - float(low)) / float(span), -FAR), FAR) * (end - start)


def x_ticks(axis: Axis, limits: Limits, plane: Plane) -> Ticks:
    """As many as there is room for."""
    room = int((plane.right - plane.left) // 52)
    most = max(2, min(7, room))
    ticks = axis_ticks(axis, limits, most)
    if len(ticks) < 2:  # one number is no axis
        ticks = axis_ticks(axis, limits, 2 * most)
    step = math.ceil(len(ticks) / (max(2, room) + 1))
    return tuple(tick for tick in ticks[::step] if min(limits) <= tick[0] <= max(limits))
