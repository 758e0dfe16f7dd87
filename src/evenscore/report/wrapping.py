"""Paragraphs of a terminal's width, and its colours."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap

from evenscore.tables import printable

WIDTH = 80  # where there is no terminal
NARROWEST, WIDEST = 40, 120  # longer lines are hard to read
TABBED = " " * 4
NO_BREAK = "\u00a0"
TOGETHER = re.compile(r"(?<=\bp) (?=[=<])|(?<=\bp [=<]) (?=\d)|(?<=\d) (?=%)")  # "p = 0.02" and "14.8 %" stay on one line
INK = {"disparity": "31;1", "inconclusive": "33;1", "parity": "36;1"}


def terminal_width() -> int:
    """Of the terminal that is printed to; 80 columns when it is a file, a pipe or a notebook."""
    if not (sys.stdout is not None and sys.stdout.isatty()):
        return WIDTH
    return min(max(shutil.get_terminal_size((WIDTH, 24)).columns, NARROWEST), WIDEST)


def wrap(text: str, width: int = WIDTH, indent: str = "  ", hanging: str | None = None) -> list[str]:
    """The lines of a paragraph; those that go on stand further in."""
    further = f"{indent}  " if hanging is None else hanging
    whole = TOGETHER.sub(NO_BREAK, printable(text, 600))
    lines = textwrap.wrap(whole, width, initial_indent=indent, subsequent_indent=further)
    return [line.replace(NO_BREAK, " ") for line in lines] or [""]


def paragraphs(texts: list[str], width: int = WIDTH) -> str:
    """Paragraphs one below the other."""
    return "\n".join(line for text in texts for line in wrap(text, width))


def ink(verdict: str, colour: bool) -> str:
    """A verdict, in its colour where there is one."""
    return f"\x1b[{INK[verdict]}m{verdict.upper()}\x1b[0m" if colour else verdict.upper()
