"""An audit in Markdown, short enough for the summary page of a CI run or a pull request."""

from __future__ import annotations

import re

from evenscore.auditing.audit_result import Audit
from evenscore.report.words import audit_sentences, headline
from evenscore.tables import cell_texts, printable

SIGNS = {"disparity": "❌", "inconclusive": "⚪", "parity": "✅"}
SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~$@&-])")
AS_ENTITIES = str.maketrans({"<": "&lt;", ">": "&gt;"})


def audit_markdown(audit: Audit) -> str:
    """Verdict, gate, a table of tests, and the summary."""
    gate = audit.check()
    lines = [
        f"## {SIGNS[audit.verdict]} {escaped(audit.title)}: {audit.verdict}",
        "",
        f"**{escaped(headline(audit.verdict, audit.tolerance))}**",
        "",
        f"Gate `{gate.rule}`: **{gate.outcome}**, {escaped(gate.reason)}.",
        "",
        *_table(audit),
        "",
        *(f"- {escaped(each.text)}" for each in audit_sentences(audit) if each.kind != "verdict"),
        "",
        f"<sub>evenscore {escaped(audit.provenance.versions['evenscore'])}, {escaped(audit.provenance.created)}</sub>",
    ]
    return "\n".join(lines) + "\n"


def _table(audit: Audit) -> list[str]:
    header, body, numeric = cell_texts(audit.rows())
    lines = [header, ["--:" if number else ":--" for number in numeric]]
    cells = [[escaped(cell) for cell in line] for line in body]
    return ["| " + " | ".join(line) + " |" for line in [*lines, *cells]]


def escaped(text: str) -> str:
    """Text that stays text in Markdown, whatever a group is called.

    >>> escaped("<b>*x*|y")
    '&lt;b&gt;\\\\*x\\\\*\\\\|y'
    """
    return SPECIAL.sub(r"\\\1", printable(text, 600)).translate(AS_ENTITIES)
