"""A page as data, written as Markdown and as one HTML file that needs no other."""

from __future__ import annotations

import base64
import html
import re
from dataclasses import dataclass
from typing import Any

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0;font-size:.92rem}td,th{border-bottom:1px solid #ddd;padding:.3rem .7rem;"
    "text-align:left;vertical-align:top}img{max-width:100%}code{background:#f3f3f3;padding:0 .2rem}"
    "@media print{body{margin:0;max-width:none}}"
)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is the title of the page."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Words:
    """A paragraph; ``code`` and **strong** are marked as in Markdown."""

    text: str


@dataclass(frozen=True, slots=True)
class Lines:
    """A list of short paragraphs."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """A table; all rows have the same entries."""

    rows: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure that is written beside the page as PNG and SVG."""

    name: str
    words: str
    svg: bytes


Block = Heading | Words | Lines | Rows | Picture


def to_markdown(blocks: list[Block]) -> str:
    """The page as Markdown."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {block.text}"
    if isinstance(block, Lines):
        return "\n".join(f"- {item}" for item in block.items)
    if isinstance(block, Picture):
        return f"![{block.words}]({block.name}.svg)"
    if isinstance(block, Rows):
        names = list(block.rows[0])
        lines = [names, ["---"] * len(names), *([str(row[name]) for name in names] for row in block.rows)]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return block.text


def to_html(blocks: list[Block]) -> str:
    """The page as one HTML file, figures inside."""
    title = next(block.text for block in blocks if isinstance(block, Heading))
    body = "\n".join(_html(block) for block in blocks)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head><body>\n{body}\n</body></html>\n'


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{_inline(block.text)}</h{block.level}>"
    if isinstance(block, Lines):
        return "<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in block.items) + "</ul>"
    if isinstance(block, Picture):
        source = base64.b64encode(block.svg).decode()
        return f'<p><img alt="{html.escape(block.words)}" src="data:image/svg+xml;base64,{source}"></p>'
    if isinstance(block, Rows):
        head = "".join(f"<th>{_inline(name)}</th>" for name in block.rows[0])
        lines = ("".join(f"<td>{_inline(str(cell))}</td>" for cell in row.values()) for row in block.rows)
        return f"<table><tr>{head}</tr>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
    return f"<p>{_inline(block.text)}</p>"


def _inline(text: str) -> str:
    escaped = html.escape(text, quote=False)
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", escaped)
