"""A report as data: sections, figures and tables, before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field

Values = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of text. numeric: which columns stand to the right. left_out: rows that are in the JSON only."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    caption: str = ""
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Series:
    """One line with its band, or points with their limits, or an area; None where nothing can be said. style: colour and dashes."""

    name: str
    style: int
    x: Values
    y: Values
    low: Values = ()
    high: Values = ()
    kind: str = "line"


@dataclass(frozen=True, slots=True)
class Rule:
    """A horizontal line with its name. kind: "zero" or "limit"."""

    y: float
    name: str
    kind: str = "limit"


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes.

    shades: score intervals to mark. log: the vertical axis is logarithmic. diagonal: draw where outcome and score are equal.
    """

    label: str
    series: tuple[Series, ...]
    limits: tuple[float, float]
    height: int
    rules: tuple[Rule, ...] = ()
    shades: tuple[tuple[float, float], ...] = ()
    log: bool = False
    ticks: bool = True
    diagonal: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels above each other on one horizontal axis.

    limits, ticks: of that axis, in its own units, with the words under the ticks. marks: vertical lines with their names.
    places: where on the axis each row of the table lies, so that values can be read by pointing. crowded: bands must be faint.
    """

    key: str
    title: str
    caption: str
    label: str
    panels: tuple[Panel, ...]
    limits: tuple[float, float]
    ticks: tuple[tuple[float, str], ...]
    table: Sheet
    places: Values = ()
    marks: tuple[tuple[float, str], ...] = ()
    legend: tuple[tuple[str, int], ...] = ()
    crowded: bool = False


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its limits. style: colour and shape."""

    name: str
    style: int
    value: float | None
    low: float | None = None
    high: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Estimates with limits, line by line; bars start at zero."""

    key: str
    title: str
    caption: str
    label: str
    lines: tuple[tuple[str, tuple[Estimate, ...]], ...]
    table: Sheet
    bars: bool = False
    rules: tuple[Rule, ...] = ()
    legend: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, the result in a sentence or two, then figures and tables."""

    key: str
    title: str
    lead: tuple[str, ...]
    verdict: str = ""
    figures: tuple[Chart | Intervals, ...] = ()
    tables: tuple[Sheet, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One score and attribute."""

    key: str
    title: str
    verdict: str
    sections: tuple[Section, ...]
    summary: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """One of the few numbers that stand beside the verdict."""

    name: str
    value: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report."""

    title: str
    subtitle: str
    verdict: str
    headline: str
    gate: str
    gate_outcome: str
    facts: tuple[Fact, ...]
    summary: tuple[str, ...]
    limits: tuple[str, ...]
    parts: tuple[Part, ...]
    overview: Sheet | None
    provenance: tuple[Sheet, ...]
    notes: tuple[str, ...] = field(default=())
