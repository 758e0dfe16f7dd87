"""Progress on a terminal: the step's name, a bar, rows a second and the time left; silent where nobody watches."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from evenscore.errors import visible

if TYPE_CHECKING:
    from evenscore.types import Progress

BAR = 8  # so that billions of rows, their pace and the time left fit 80 columns
COUNTED = re.compile(r"(?P<name>.+?) (?P<done>[\d,]+) of (?P<total>[\d,]+)(?: (?P<unit>\w+))?$")
SOON = 0.5  # seconds before a rate means something


def show(message: str, quiet: bool) -> None:
    """One line of progress on a terminal, cut to its width; an empty message removes it."""
    if not quiet and sys.stderr.isatty():
        width = shutil.get_terminal_size((80, 24)).columns - 1
        click.echo("\r\x1b[K" + visible(message)[:width], err=True, nl=False)


@dataclass
class Steps:
    """What is being done now, and since when."""

    quiet: bool
    name: str = ""
    started: float = field(default_factory=time.monotonic)

    def say(self, words: str) -> None:
        """Progress in words, such as "counting 1,000 of 5,000 rows"; with numbers it is a bar."""
        counted = COUNTED.match(words)
        if counted is None:
            self._begin(words)
            show(words, self.quiet)
            return
        done, total = (int(counted[name].replace(",", "")) for name in ("done", "total"))
        self.tell(counted["name"], done, total, counted["unit"] or "")

    def count(self, name: str, unit: str = "") -> Progress:
        """A callback for what is done of a total."""
        return lambda done, total: self.tell(name, done, total, unit)

    def share(self, name: str) -> Callable[[float], None]:
        """A callback for the share that is done, where rows are not counted."""

        def tell(share: float) -> None:
            self._begin(name)
            spent = time.monotonic() - self.started
            left = f", {duration(spent * (1 - share) / share)} left" if share and spent > SOON else ""
            show(f"{name} [{_filled(share)}] {share:.0%}{left}", self.quiet)

        return tell

    def tell(self, name: str, done: int, total: int, unit: str) -> None:
        """A bar."""
        self._begin(name)
        show(bar(name, done, total, unit, time.monotonic() - self.started), self.quiet)

    def _begin(self, name: str) -> None:
        if name != self.name:
            self.name, self.started = name, time.monotonic()


def bar(name: str, done: int, total: int, unit: str, spent: float) -> str:
    """One line of progress.

    >>> bar("counting", 500_000, 2_000_000, "rows", 2.0)
    'counting [##......] 500,000 of 2,000,000 rows, 250,000/s, 6 s left'
    """
    counts = f"{done:,} of {total:,} {unit}".rstrip()
    pace = ""
    if done and spent > SOON:
        rate = done / spent
        pace = f", {f'{rate:,.0f}' if rate >= 10 else f'{rate:.2g}'}/s, {duration((total - done) / rate)} left"
    return f"{name} [{_filled(done / max(total, 1))}] {counts}{pace}"


def _filled(share: float) -> str:
    done = min(BAR, int(BAR * share))
    return "#" * done + "." * (BAR - done)


def duration(seconds: float) -> str:
    """Seconds, or minutes when there are many.

    >>> [duration(seconds) for seconds in (4.4, 89, 600)]
    ['4 s', '89 s', '10 min']
    """
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
