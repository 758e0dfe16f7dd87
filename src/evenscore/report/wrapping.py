"""Paragraphs of a terminal's width."""

from __future__ import annotations

import textwrap

from evenscore.tables import printable

WIDTH = 96


def wrap(text: str, indent: str = "  ") -> str:
    """A paragraph of the terminal's width."""
    return textwrap.fill(printable(text, 600), WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")
