"""A report as data: the first screen, then sections with figures and tables, before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evenscore.report.chart import Chart
from evenscore.report.sheets import Sheet


@dataclass(frozen=True, slots=True)
class Section:
    """One question, folded: its answer in a sentence stays in sight; then a picture, tables behind "numbers", and notes.

    key: of its place in the page, unique. text: what else is to be said. tables: behind "numbers" of the last picture, or in sight
    when there is none; folded: behind "numbers" then too. template: a file of page/ that draws more from data, a dict that it finds
    as ``data``, after the pictures.
    """

    key: str
    title: str
    answer: str
    verdict: str = ""
    text: tuple[str, ...] = ()
    figures: tuple[Chart, ...] = ()
    tables: tuple[Sheet, ...] = ()
    notes: tuple[str, ...] = ()
    folded: bool = False
    template: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chapter:
    """One score and attribute. headline: its verdict in a sentence."""

    key: str
    title: str
    verdict: str
    headline: str
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """A number with its meaning."""

    value: str
    words: str


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """What is read in ten seconds. state: the verdict in a word or two; steps: what to do next, words and a command."""

    verdict: str
    state: str
    headline: str
    lead: tuple[str, ...]
    figures: tuple[Chart, ...]
    facts: tuple[Fact, ...]
    step: tuple[str, str]
    gate: str
    overview: Sheet | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report. before, after: sections about all scores and attributes, around their chapters."""

    title: str
    subtitle: str
    created: str
    first: FirstScreen
    before: tuple[Section, ...]
    chapters: tuple[Chapter, ...]
    after: tuple[Section, ...]

    @property
    def sections(self) -> tuple[Section, ...]:
        """All sections in the order of the page."""
        return (*self.before, *(section for chapter in self.chapters for section in chapter.sections), *self.after)
