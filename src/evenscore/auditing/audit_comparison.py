"""Two audits side by side: before and after a repair, or one release and the next."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from evenscore.auditing.audit_result import SCHEMA, SCHEMA_VERSION, Audit
from evenscore.errors import FileError, OptionError
from evenscore.estimation.verdict import DISPARITY
from evenscore.saving import read_whole
from evenscore.tables import Table, json_ready, label_text

NEW, GONE, SAME, OTHER, ADDED, REMOVED = (
    "new disparity",
    "disparity gone",
    "same verdict",
    "other verdict",
    "only after",
    "only before",
)


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
    """The result of ``es.compare_audits``."""

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
        names = ("verdict_before", "verdict_after", "gap_before", "gap_after", "p_before", "p_after", "seen_before", "seen_after")
        return [
            {"score": each.score, "attribute": label_text(each.attribute), "change": each.change}
            | {name: getattr(each, name) for name in names}
            for each in self.changes
        ]

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
    """
    documents = [_document(audit) for audit in (before, after)]
    changes = tuple(_change(*pair) for pair in _matched(*(document["subjects"] for document in documents)))
    return AuditComparison(changes, documents[0]["verdict"], documents[1]["verdict"], tuple(_differences(*documents)))


Subject = dict[str, Any]


def _matched(before: list[Subject], after: list[Subject]) -> list[tuple[Subject | None, Subject | None]]:
    """Subjects of the same score and attribute; of those left, the only ones of an attribute: a repaired score has a new name."""
    pairs: list[tuple[Subject | None, Subject | None]] = []
    left = list(after)
    for names in (("score", "attribute"), ("attribute",)):
        for one in [each for each in before if not any(each is old for old, _ in pairs)]:
            like = [other for other in left if all(one[name] == other[name] for name in names)]
            rivals = [each for each in before if all(one[name] == each[name] for name in names)]
            if len(like) == len(rivals) == 1:
                pairs.append((one, like[0]))
                left = [other for other in left if other is not like[0]]
    alone = [(each, None) for each in before if not any(each is old for old, _ in pairs)]
    return [*pairs, *alone, *((None, other) for other in left)]


class _Numbers(msgspec.Struct):
    max_gap: float | None = None
    p_value: float | None = None
    minimum_detectable_gap: float | None = None


class _Tests(msgspec.Struct):
    parity: _Numbers


class _Judged(msgspec.Struct):
    score: str
    attribute: list[str]
    verdict: str
    tests: _Tests


class _Needed(msgspec.Struct):
    """What is used of an audit's JSON."""

    verdict: str
    alpha: float
    tolerance: float | None
    subjects: list[_Judged]


def _document(audit: Any) -> dict[str, Any]:
    if isinstance(audit, Audit):
        return audit.to_dict()
    if isinstance(audit, str | os.PathLike):
        return _read(Path(audit))
    if isinstance(audit, dict):
        return _checked(audit, "the dict")
    raise OptionError(f"compare_audits takes audits, their dicts or paths of their JSON, not a {type(audit).__name__}")


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_whole(path))
    except FileError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is not JSON: {error}") from None
    return _checked(content, str(path))


def _checked(content: Any, name: str) -> dict[str, Any]:
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise FileError(f"{name} is not an audit; `evenscore audit --json` writes one")
    version = str(content.get("schema_version"))
    if version.split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        raise FileError(f"{name} has schema version {version}; this evenscore reads {SCHEMA_VERSION.split('.')[0]}.x")
    missing = [key for key in ("verdict", "subjects", "alpha", "tolerance") if key not in content]
    if missing:
        raise FileError(f"{name} is damaged: it lacks {', '.join(missing)}")
    try:
        msgspec.convert(content, _Needed)
    except (msgspec.MsgspecError, ArithmeticError) as error:
        raise FileError(f"{name} is damaged: {error}") from None
    return content


def _change(before: Subject | None, after: Subject | None) -> Change:
    known = [subject for subject in (before, after) if subject is not None]
    verdicts = [None if subject is None else str(subject["verdict"]) for subject in (before, after)]
    gaps, p_values, seen = (
        [_number(subject, name) for subject in (before, after)] for name in ("max_gap", "p_value", "minimum_detectable_gap")
    )
    return Change(
        score=" → ".join(dict.fromkeys(subject["score"] for subject in known)),
        attribute=tuple(known[0]["attribute"]),
        change=_word(*verdicts),
        verdict_before=verdicts[0],
        verdict_after=verdicts[1],
        gap_before=abs(gaps[0]),
        gap_after=abs(gaps[1]),
        p_before=p_values[0],
        p_after=p_values[1],
        seen_before=seen[0],
        seen_after=seen[1],
    )


def _word(before: str | None, after: str | None) -> str:
    if before is None or after is None:
        return ADDED if before is None else REMOVED
    if before == after:
        return SAME
    return NEW if after == DISPARITY else GONE if before == DISPARITY else OTHER


def _number(subject: dict[str, Any] | None, name: str) -> float:
    if subject is None:
        return math.nan
    value = subject["tests"]["parity"].get(name)
    return math.nan if value is None else float(value)


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Settings that make the verdicts incomparable."""
    return [
        f"{name} differs: {before[name]} before, {after[name]} after, so verdicts do not answer the same question"
        for name in ("alpha", "tolerance")
        if before[name] != after[name]
    ]
