"""The report as one HTML page: no network, no style attributes, scripts and styles allowed by their hash alone."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from evenscore.report.document import Document
from evenscore.report.layout import NARROW
from evenscore.report.svg import draw, places, sample
from evenscore.report.ticks import in_json
from evenscore.report.wrapping import NO_BREAK, TOGETHER
from evenscore.tables import printable

PAGE = Path(__file__).parent / "page"
STYLES = ("figure.css", "page.css", "explorer.css")
SCRIPTS = ("script.js", "explorer.js")
HYPHEN = re.compile(r"(?<=[\s(])-(?=\d)")  # that stands for a minus


def render(document: Document) -> str:
    """The whole page."""
    style, script = ("".join(map(_read, names)) for names in (STYLES, SCRIPTS))
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'"
    )
    return _environment().get_template("report.html").render(document=document, style=style, script=script, policy=policy)


def fragment(document: Document) -> str:
    """The verdict, the summary and the first pictures, for a notebook; styles stay within."""
    from evenscore.report.notebook import notebook_style  # with every kind of plot, which a page does not need

    return _environment().get_template("fragment.html").render(document=document, style=notebook_style())


def prose(text: Any) -> str:
    """A sentence as a page sets it: minus signs are minus signs, and no line breaks within "p = 0.02" or "14.8 %"."""
    return HYPHEN.sub("−", TOGETHER.sub(NO_BREAK, printable(str(text), 2000)))


def _read(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _environment() -> Any:
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PAGE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["drawn"] = lambda figure: Markup(draw(figure))  # svg.py escapes every word it writes
    environment.filters["drawn_narrow"] = lambda figure: Markup("" if figure.width == NARROW else draw(figure, NARROW))
    environment.filters["plain"] = lambda text: printable(str(text), 2000)  # no page should hold control characters
    environment.filters["prose"] = prose
    environment.globals["sample"] = lambda series: Markup(sample(series))
    environment.globals["places"] = places
    environment.globals["safe"] = Markup
    environment.globals["in_json"] = in_json
    return environment
