"""Two audits side by side: before and after a repair, or one release and the next."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from evenscore.auditing.audit_result import SCHEMA, SCHEMA_VERSION, Audit
from evenscore.codec import refuse_invalid
from evenscore.errors import FileError, OptionError
from evenscore.estimation.verdict import DISPARITY, PARITY
from evenscore.naming import plain_label
from evenscore.saving import read_whole
from evenscore.tables import Table, json_ready

NEW, GONE, NOT_SHOWN, UNJUDGED, SAME, OTHER, ADDED, REMOVED = (
    "new disparity",
    "disparity gone",
    "no longer shown",
    "could not be judged",
    "same verdict",
    "other verdict",
    "only after",
    "only before",
)


NOTES = {
    NOT_SHOWN: f"{NOT_SHOWN}: the second audit shows no disparity, which is not proof of parity",
    UNJUDGED: f"{UNJUDGED}: a disparity of the first audit is between groups that the second cannot judge; it may still be there",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One score and attribute in both audits; what one of them lacks is None or nan."""

    score: str
    attribute: tuple[str, ...]
    change: str
    verdict_before: str | None
    verdict_after: str | None
    gap_before: float
    gap_after: float
    p_before: float
    p_after: float
    seen_before: float
    seen_after: float


@dataclass(frozen=True, slots=True, repr=False)
class AuditComparison(Table):
    """The result of ``es.compare_audits``.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> even = es.simulate(300).data(seed=2)
    >>> asked = dict(score="score", outcome="outcome", group="group", user="user", repair=False)
    >>> compared = es.compare_audits(es.audit(even, **asked), es.audit(people, **asked))
    >>> compared.verdict_before, compared.verdict_after
    ('inconclusive', 'disparity')
    >>> [row["change"] for row in compared.rows()]
    ['new disparity']
    """

    changes: tuple[Change, ...]
    verdict_before: str
    verdict_after: str
    notes: tuple[str, ...] = ()

    @property
    def new_disparities(self) -> list[Change]:
        """Disparities that are shown now and were not before."""
        return [change for change in self.changes if change.change == NEW or (change.change == ADDED and _bad(change))]

    def rows(self) -> list[dict[str, Any]]:
        """One row for each score and attribute."""
        return [asdict(change) | {"attribute": plain_label(change.attribute)} for change in self.changes]

    def to_dict(self) -> dict[str, Any]:
        """The comparison in JSON-ready values."""
        return {
            "verdict_before": self.verdict_before,
            "verdict_after": self.verdict_after,
            "changes": json_ready(self.rows()),
            "notes": list(self.notes),
        }

    def _title(self) -> str:
        return f"Audits compared: {self.verdict_before} before, {self.verdict_after} after"

    def _notes(self) -> list[str]:
        return [
            "gap: the largest along the score; seen: the smallest constant gap that is found with probability 0.8",
            "there is no p-value of the change: the audits may share users, which sums cannot tell",
            *(note for change, note in NOTES.items() if any(own.change == change for own in self.changes)),
            *self.notes,
        ]


def _bad(change: Change) -> bool:
    return change.verdict_after == DISPARITY


def compare_audits(before: Any, after: Any) -> AuditComparison:
    """Compare two audits: results of ``es.audit``, their ``to_dict()``, or paths of their JSON.

    Parameters
    ----------
    before, after
        The two audits; each may be given in any of these ways.

    Returns
    -------
    AuditComparison
        Verdicts, gaps and p-values side by side; there is no p-value of the change.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> audit = es.audit(people, score="score", outcome="outcome", group="group", user="user", repair=False)
    >>> es.compare_audits(audit, audit).new_disparities
    []
    """
    old, new = _document(before), _document(after)
    changes = tuple(_change(*pair) for pair in _matched(old.subjects, new.subjects))
    return AuditComparison(changes, old.verdict, new.verdict, tuple(_differences(old, new)))


# What is used of an audit's JSON


@dataclass(frozen=True, slots=True)
class _Pair:
    group_a: Any = None
    group_b: Any = None
    p_value: float | None = None
    verdict: str = ""

    @property
    def groups(self) -> tuple[str, str]:
        return repr(self.group_a), repr(self.group_b)


@dataclass(frozen=True, slots=True)
class _Test:
    max_gap: float | None = None
    p_value: float | None = None
    minimum_detectable_gap: float | None = None
    pairs: tuple[_Pair, ...] = ()

    def judges(self, old: _Test) -> bool:
        """Whether every pair of groups that showed a disparity in an older test is judged in this one."""
        unequal = {pair.groups for pair in old.pairs if pair.verdict == DISPARITY}
        return self.p_value is not None and unequal <= {pair.groups for pair in self.pairs if pair.p_value is not None}


@dataclass(frozen=True, slots=True)
class _Tests:
    parity: _Test
    ordering: _Test = _Test()
    marginal: _Test = _Test()

    def judge(self, old: _Tests) -> bool:
        """Whether whatever showed a disparity in older tests is judged by these."""
        names = [field.name for field in fields(_Tests)]
        shown = [name for name in names if any(pair.verdict == DISPARITY for pair in getattr(old, name).pairs)]
        return all(getattr(self, name).judges(getattr(old, name)) for name in shown or ["parity"])


@dataclass(frozen=True, slots=True)
class _Subject:
    score: str
    attribute: tuple[str, ...]
    verdict: str
    tests: _Tests
    p_value: float | msgspec.UnsetType | None = msgspec.UNSET  # of the verdict; documents of version 1.0 have the tests' only


@dataclass(frozen=True, slots=True)
class _Document:
    verdict: str
    subjects: tuple[_Subject, ...]
    alpha: float
    tolerance: float | None


def _document(audit: Any) -> _Document:
    if isinstance(audit, Audit):
        return msgspec.convert(audit.to_dict(), _Document)
    if isinstance(audit, str | os.PathLike):
        written = read_whole(Path(audit))
        with refuse_invalid(f"{audit} is not JSON"):
            content = json.loads(written)
        return _checked(content, str(audit))
    if isinstance(audit, dict):
        return _checked(audit, "the dict")
    raise OptionError(f"compare_audits takes audits, their dicts or paths of their JSON, not a {type(audit).__name__}")


def _checked(content: Any, name: str) -> _Document:
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise FileError(f"{name} is not an audit; `evenscore audit --json` writes one")
    version = str(content.get("schema_version"))
    if version.split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        raise FileError(f"{name} has schema version {version}; this evenscore reads {SCHEMA_VERSION.split('.')[0]}.x")
    if missing := [field.name for field in fields(_Document) if field.name not in content]:
        raise FileError(f"{name} is damaged: it lacks {', '.join(missing)}")
    with refuse_invalid(f"{name} is damaged"):
        return msgspec.convert(content, _Document)


# The comparison


def _matched(before: Sequence[_Subject], after: Sequence[_Subject]) -> list[tuple[_Subject | None, _Subject | None]]:
    """Subjects of the same score and attribute; of those left, the only ones of an attribute: a repaired score has a new name."""
    pairs: list[tuple[_Subject | None, _Subject | None]] = []
    left = list(after)

    def unpaired() -> list[_Subject]:
        return [subject for subject in before if not any(subject is old for old, _ in pairs)]

    for same in (lambda a, b: (a.score, a.attribute) == (b.score, b.attribute), lambda a, b: a.attribute == b.attribute):
        for subject in unpaired():
            like = [other for other in left if same(subject, other)]
            rivals = [other for other in before if same(subject, other)]
            if len(like) == len(rivals) == 1:
                pairs.append((subject, like[0]))
                left = [other for other in left if other is not like[0]]
    return [*pairs, *((subject, None) for subject in unpaired()), *((None, other) for other in left)]


def _change(before: _Subject | None, after: _Subject | None) -> Change:
    known = [subject for subject in (before, after) if subject is not None]
    return Change(
        score=" → ".join(dict.fromkeys(subject.score for subject in known)),
        attribute=known[0].attribute,
        change=_word(before, after),
        **_facts(before, "before"),
        **_facts(after, "after"),
    )


def _facts(subject: _Subject | None, when: str) -> dict[str, Any]:
    parity = _Test() if subject is None else subject.tests.parity
    p_value = None if subject is None else subject.p_value
    return {
        f"verdict_{when}": None if subject is None else subject.verdict,
        f"gap_{when}": abs(_or_nan(parity.max_gap)),
        f"p_{when}": _or_nan(parity.p_value if p_value is msgspec.UNSET else p_value),
        f"seen_{when}": _or_nan(parity.minimum_detectable_gap),
    }


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _word(before: _Subject | None, after: _Subject | None) -> str:
    if before is None or after is None:
        return ADDED if before is None else REMOVED
    if before.verdict == after.verdict:
        return SAME
    if after.verdict == DISPARITY:
        return NEW
    if before.verdict != DISPARITY:
        return OTHER
    if after.verdict == PARITY:
        return GONE
    return NOT_SHOWN if after.tests.judge(before.tests) else UNJUDGED


def _differences(before: _Document, after: _Document) -> list[str]:
    """Settings that make the verdicts incomparable."""
    return [
        f"{name} differs: {old} before, {new} after, so verdicts do not answer the same question"
        for name, old, new in (("alpha", before.alpha, after.alpha), ("tolerance", before.tolerance, after.tolerance))
        if old != new
    ]
