"""A report as data: sections, figures and tables, before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field

from evenscore.report.chart import Chart
from evenscore.report.sheets import Sheet


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, the result in a sentence or two, then figures and tables."""

    key: str
    title: str
    lead: tuple[str, ...]
    verdict: str = ""
    figures: tuple[Chart, ...] = ()
    tables: tuple[Sheet, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chapter:
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
    chapters: tuple[Chapter, ...]
    overview: Sheet | None
    provenance: tuple[Sheet, ...]
    notes: tuple[str, ...] = field(default=())
