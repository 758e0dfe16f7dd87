"""Which key matters, users or items: the test by each of them."""

from __future__ import annotations

from evenscore.auditing.subject import Subject
from evenscore.report.document import Section
from evenscore.report.sheets import sheet


def keys_section(subject: Subject, prefix: str) -> Section | None:
    """The test by users, by items and by both; None without items."""
    keys = subject.keys
    if keys is None:
        return None
    caption = "The same test by what its variances allow for; design effect: the variance over that of independent rows"
    return Section(f"{prefix}keys", "Which key matters?", keys.sentence, tables=(sheet(keys.rows(), caption),))
