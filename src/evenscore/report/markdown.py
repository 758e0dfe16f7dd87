"""An audit in Markdown, short enough for the summary page of a CI run or a pull request."""

from __future__ import annotations

import re

from evenscore.auditing.audit_result import Audit
from evenscore.report.words import audit_sentences, headline
from evenscore.tables import cell_texts, printable

SIGNS = {"disparity": "❌", "inconclusive": "⚪", "parity": "✅"}
# Signs that mean something anywhere, an underscore that is not inside a word, and a sign that could begin a list.
SPECIAL = re.compile(r"([\\`*{}\[\]#|~$@&]|(?<![^\W_])_|_(?![^\W_])|^[-+]|(?<!\S)[-+](?=\s))")
AS_ENTITIES = str.maketrans({"<": "&lt;", ">": "&gt;"})


def audit_markdown(audit: Audit) -> str:
    """Verdict, gate, a table of tests, and the summary."""
    gate = audit.check()
    lines = [
        f"## {SIGNS[audit.verdict]} {escape(audit.title)}: {audit.verdict}",
        "",
        f"**{escape(headline(audit))}**",
        "",
        f"Gate `{gate.rule}`: **{gate.outcome}**, {escape(gate.reason)}.",
        "",
        *_table(audit),
        "",
        *(f"- {escape(sentence.text)}" for sentence in audit_sentences(audit) if sentence.kind != "verdict"),
        "",
        f"<sub>evenscore {escape(audit.provenance.versions['evenscore'])}, {escape(audit.provenance.created)}</sub>",
    ]
    return "\n".join(lines) + "\n"


def _table(audit: Audit) -> list[str]:
    header, body, numeric = cell_texts(audit.rows())
    lines = [header, ["--:" if number else ":--" for number in numeric]]
    cells = [[escape(cell) for cell in line] for line in body]
    return ["| " + " | ".join(line) + " |" for line in [*lines, *cells]]


def escape(text: str) -> str:
    """Text that stays text in Markdown, whatever a group is called.

    >>> escape("<b>*x*|y")
    '&lt;b&gt;\\\\*x\\\\*\\\\|y'
    >>> escape("-0.2 (race_blind)")
    '\\\\-0.2 (race_blind)'
    """
    return SPECIAL.sub(r"\\\1", printable(text, 600)).translate(AS_ENTITIES)
