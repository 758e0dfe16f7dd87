"""A picture as data, built once for a kind of result: ``svg`` draws it in reports, ``pyplot`` for ``.plot()``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np

from evenscore.report.sheets import Sheet
from evenscore.types import Floats

Limits = tuple[float, float]
Ticks = tuple[tuple[float, str], ...]

# Okabe and Ito's colours, some darker so that thin lines stand out from white: told apart with any kind of colour vision.
COLOURS = ("#0072b2", "#d55e00", "#008a64", "#b4568c", "#b87a00", "#2b8fcb", "#1b2430")
N_DASHES = N_MARKS = 4


@dataclass(frozen=True, slots=True)
class Axis:
    """limits: None where the numbers decide. ticks: position and words; None: round numbers. kind: "linear", "log" or "names"."""

    label: str = ""
    limits: tuple[float | None, float | None] = (None, None)
    ticks: Ticks | None = None
    kind: str = "linear"


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Numbers that are drawn alike, each array of shape (n_points,); nan where nothing can be said.

    style: colour, dashes and mark. low, high: the band of a line, or the limits of points (along the line of a name).
    kind: "line", "thin" (what continues or connects), "diagonal", "area" (filled to zero), "marked" (a line with marks), "points",
    "dodged" (points of several groups at one score, beside each other) or "bars" (from zero). notes: words beside each point,
    or under the name at the end of a line. tone: "shown" or "unshown" in place of the style's colour.
    """

    name: str
    style: int
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    kind: str = "line"
    hollow: bool = False
    notes: tuple[str, ...] = ()
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across the panel, or upright. kind: "zero", "limit" or "mark". style: the colour, if it is that of a series."""

    at: float
    name: str = ""
    kind: str = "limit"
    upright: bool = False
    style: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """One pair of axes. shades: intervals to mark. legend: its title; None: no legend.

    lines: of estimates under each name. direct: whether lines carry their names at their ends, where there is room. people:
    shares along the score, below.
    """

    x: Axis
    y: Axis
    series: tuple[Series, ...]
    rules: tuple[Rule, ...] = ()
    shades: tuple[Limits, ...] = ()
    title: str = ""
    legend: str | None = None
    height: float = 250
    lines: int = 1
    direct: bool = False
    people: tuple[Series, ...] = ()

    @property
    def by_name(self) -> bool:
        """Whether there are names line by line in place of a vertical axis."""
        return self.y.kind == "names"

    def limits(self) -> tuple[Limits, Limits]:
        """The limits of both axes."""
        ends = [column for series in self.series for column in (series.low, series.high) if column is not None]
        x, y = [series.x for series in self.series], [series.y for series in self.series]
        for values, upright in ((x, True), (y, False)):
            values.append(np.array([rule.at for rule in self.rules if rule.upright == upright]))
            if upright == self.by_name:
                values.extend(ends)
        return _span(self.x, x), _span(self.y, y)


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """Panels above each other on one horizontal axis, with their numbers as a table.

    places: where on the axis each row of the table lies, so that values can be read by pointing. crowded: bands must be faint.
    columns: panels side by side, which share both axes. width: in a report on a large screen, in pixels; lines of estimates look
    the same on any.
    """

    key: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    table: Sheet
    places: tuple[float, ...] = ()
    crowded: bool = False
    columns: int = 1
    width: float = 720

    @property
    def legend(self) -> tuple[Series, ...]:
        """A series for each name in the legend."""
        return named_series(self.panels[0]) if self.panels[0].legend is not None else ()


def named_series(panel: Panel) -> tuple[Series, ...]:
    """The first series of each name."""
    return tuple({series.name: series for series in reversed(panel.series) if series.name}.values())[::-1]


def _span(axis: Axis, columns: Iterable[Floats]) -> Limits:
    values = np.fromiter(chain.from_iterable(columns), float)
    values = np.log10(values[values > 0]) if axis.kind == "log" else values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    room = 0.06 * ((high - low) or 1.0)
    low, high = low - room, high + room
    if axis.kind == "log":
        low, high = 10**low, 10**high
    least, most = axis.limits
    return (low if least is None else least), (high if most is None else most)
