"""Formulas as MathML, written when the page is built: readers fetch no script, and see formulas without JavaScript."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def inline(translator: Any, node: Any) -> None:
    """A formula in a line of text."""
    translator.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def block(translator: Any, node: Any) -> None:
    """A formula by itself; wide ones scroll rather than widen the page."""
    translator.body.append(f'<div class="math-block">{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_html_math_renderer("plain", (inline, None), (block, None))
    return {"parallel_read_safe": True}
