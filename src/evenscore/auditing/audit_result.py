"""What an audit found: for each score and attribute every test, and one verdict for all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenscore.auditing.gate import Gate, GateResult, judge
from evenscore.auditing.provenance import Provenance
from evenscore.auditing.subject import Subject
from evenscore.errors import EvenscoreError, OptionError, require_count, require_flag, shortened
from evenscore.estimation.verdict import DISPARITY, combine, largest
from evenscore.impact.impact_result import Impact
from evenscore.naming import GroupNames, in_names, plain_label
from evenscore.tables import Table, json_ready, json_text, values_of

SCHEMA = "evenscore-audit"
SCHEMA_VERSION = "1.1"


class GateError(EvenscoreError, AssertionError):
    """An audit did not pass its gate; ``audit`` and ``result`` say why.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> try:
    ...     es.audit(people, score="score", outcome="outcome", group="group", user="user", repair=False).assert_ok()
    ... except es.GateError as error:
    ...     print(error.result.code, str(error).splitlines()[0])
    1 gate difference: failed, a disparity is shown
    """

    def __init__(self, message: str, audit: Audit, result: GateResult) -> None:
        super().__init__(message)
        self.audit = audit
        self.result = result


@dataclass(frozen=True, slots=True, repr=False)
class Audit(Table):
    """The result of ``es.audit``: a verdict, everything that it rests on, and ways to show it.

    gate: what ``assert_ok`` and the command line ask for. alpha: the chance of any false alarm in the whole audit.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> audit = es.audit(people, score="score", outcome="outcome", group="group", user="user", repair=False)
    >>> audit.verdict, audit.check().code
    ('disparity', 1)
    >>> list(audit.subjects[0].tests)
    ['parity', 'ordering']
    """

    subjects: tuple[Subject, ...]
    alpha: float
    tolerance: float | None
    gate: Gate
    provenance: Provenance
    title: str = "Audit of predictive parity"

    @property
    def verdict(self) -> str:
        """ "disparity", "parity" (with a tolerance only) or "inconclusive"."""
        return combine(subject.verdict for subject in self.subjects)

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        wanted = [subject for subject in self.subjects if subject.verdict == self.verdict]
        if len(self.subjects) == 1:
            return wanted[0].reason
        return "; ".join(f"{subject.name}: {subject.reason}" for subject in wanted)

    @property
    def tests(self) -> dict[str, Any]:
        """Every test by name; with several scores or attributes the name says which."""
        return {key: test for subject in self.subjects for key, test in self._name_tests(subject, subject.tests).items()}

    def _name_tests(self, subject: Subject, found: dict[str, Any]) -> dict[str, Any]:
        return found if len(self.subjects) == 1 else {f"{subject.name}: {name}": value for name, value in found.items()}

    @property
    def impact(self) -> Impact | None:
        """What calibrated scores would change about decisions; None without a threshold."""
        if len(self.subjects) > 1:
            raise OptionError(f"there are {len(self.subjects)} impacts; say whose: audit[{self.subjects[0].name!r}].impact")
        return self.subjects[0].impact

    @property
    def headline(self) -> Subject:
        """The score and attribute that stands for the whole: with a disparity if any has one, then with the smallest p-value.

        Every number beside the verdict is of this one.
        """

        def rank(subject: Subject) -> tuple[bool, float]:
            return subject.verdict != DISPARITY, subject.p_value if np.isfinite(subject.p_value) else 2.0

        return min(self.subjects, key=rank)

    @property
    def max_gap(self) -> float:
        """The largest gap, with its sign, among pairs of groups that show one; among all when none does."""
        shown = [subject for subject in self.subjects if subject.parity.verdict == DISPARITY]
        return largest((subject.parity.max_gap for subject in shown or self.subjects), key=abs)

    @property
    def shown_gap(self) -> dict[str, Any] | None:
        """The largest gap inside a range of scores in which one is shown, with its simultaneous limits; None when none is."""
        found = [subject.parity.shown_gap for subject in self.subjects if subject.parity.shown_gap is not None]
        return max(found, key=lambda gap: abs(gap["gap"]), default=None)

    @property
    def minimum_detectable_gap(self) -> float:
        """The constant gap that is found with probability .8 in each score and attribute; nan when one cannot be judged at all."""
        return float(np.max([subject.minimum_detectable_gap for subject in self.subjects]))

    @property
    def notes(self) -> list[str]:
        """What was assumed or left out, once each."""
        return list(dict.fromkeys(note for subject in self.subjects for note in subject.notes))

    @property
    def summary(self) -> list[str]:
        """The result in plain sentences."""
        from evenscore.report.words import audit_sentences

        return [sentence.text for sentence in audit_sentences(self)]

    # The gate

    def check(self, gate: str | Gate | None = None, *, require_power: float | None = None) -> GateResult:
        """What a gate makes of the verdict; by default the gate that the audit was asked for."""
        chosen = self.gate if gate is None else gate if isinstance(gate, Gate) else Gate(gate)
        if require_power is not None:
            chosen = replace(chosen, require_power=require_power)
        chosen.check(self.tolerance)
        seen = [subject.minimum_detectable_gap if subject.fully_judged else np.nan for subject in self.subjects]
        order = all(subject.order_decides for subject in self.subjects)
        nothing = all(np.isnan(subject.p_value) for subject in self.subjects)
        return judge(chosen, self.verdict, float(np.max(seen)), self.tolerance, order, nothing)

    def check_subject(self, subject: Subject) -> GateResult:
        """What the gate makes of one score and attribute."""
        return replace(self, subjects=(subject,)).check()

    def assert_ok(self, gate: str | Gate | None = None, *, require_power: float | None = None) -> None:
        """Raise ``GateError``, which is an AssertionError, unless the gate is passed."""
        found = self.check(gate, require_power=require_power)
        if not found.passed:
            raise GateError("\n".join([f"gate {found.rule}: {found.outcome}, {found.reason}", *self.summary]), self, found)

    # Ways to show it

    def rows(self) -> list[dict[str, Any]]:
        """One row for each score, attribute and test."""
        return [row for subject in self.subjects for row in subject.rows()]

    def to_dict(self) -> dict[str, Any]:
        """The whole audit in JSON-ready values, as the published schema describes them."""
        gate = self.check()
        versions = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, "evenscore": self.provenance.versions["evenscore"]}
        found = ("title", "verdict", "reason", "summary", "alpha", "tolerance", "max_gap", "shown_gap", "minimum_detectable_gap")
        head = values_of(self.headline, ("score", "attribute", "verdict", "p_value", "minimum_detectable_gap"))
        head |= {"max_gap": self.headline.parity.max_gap, "misordered_share": self.headline.ordering.misordered_share}
        head |= {"misordered_at_least": self.headline.ordering.at_least}
        asked = {"rule": gate.rule, "require_power": self.gate.require_power}
        return json_ready(versions | values_of(self, found) | {"headline": head}) | {
            "gate": asked | {"outcome": gate.outcome, "exit_code": gate.code, "reason": gate.reason},
            "subjects": [subject.to_dict() for subject in self.subjects],
            "notes": self.notes,
            "provenance": self.provenance.to_dict(),
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """The audit as JSON text; written to a file as well if a path is given, whole or not at all."""
        return _written(path, json_text(self.to_dict()))

    @in_names
    def to_html(self, path: str | Path | None = None) -> str:
        """The report: one self-contained page, written to a file if a path is given, whole or not at all."""
        from evenscore.report.html import render
        from evenscore.report.sections import audit_document

        return _written(path, render(audit_document(self)))

    @in_names
    def to_markdown(self) -> str:
        """A short summary in Markdown, for a pull request or the summary page of a CI run."""
        from evenscore.report.markdown import audit_markdown

        return audit_markdown(self)

    @in_names
    def to_junit(self, path: str | Path | None = None) -> str:
        """Every test that decides as a test case of JUnit's XML, which CI systems show."""
        from evenscore.report.junit import audit_junit

        return _written(path, audit_junit(self))

    def log_mlflow(self, run_id: str | None = None, prefix: str = "evenscore") -> str:
        """Log verdict, numbers, report and JSON to an MLflow run (needs mlflow); the id of the run."""
        from evenscore.report.tracking import log_mlflow

        return log_mlflow(self, run_id, prefix)

    def __getitem__(self, name: str) -> Subject:
        for subject in self.subjects:
            if isinstance(name, str) and name in (subject.name, plain_label(subject.attribute), subject.score):
                return subject
        raise OptionError(f"no subject {shortened(name)}; there are: {', '.join(subject.name for subject in self.subjects)}")

    def text(self, *, verbose: bool = False, width: int | None = None) -> str:
        """The audit for a terminal: in twelve lines, or all of it.

        width: columns of the terminal; found out by default, and 80 where there is none.
        """
        from evenscore.report.short_text import short_text
        from evenscore.report.text import full_text
        from evenscore.report.wrapping import terminal_width

        require_flag("verbose", verbose)
        columns = terminal_width() if width is None else require_count("width", width, low=20)
        return full_text(self, columns) if verbose else short_text(self, columns)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from evenscore.report.html import fragment
        from evenscore.report.sections import audit_document

        return fragment(audit_document(self))

    def _title(self) -> str:
        return f"{self.title}: {self.verdict}"

    def _notes(self) -> list[str]:
        return self.summary

    @property
    def group_names(self) -> GroupNames:
        """What groups are called in the score and attribute that stands for the whole."""
        return self.headline.group_names

    @property
    def frame_kind(self) -> str | None:
        """The kind of frame that the data came in."""
        return self.subjects[0].tally.frame_kind


class WrittenText(str):
    """A text that is in a file: the last line of a notebook's cell says so, and does not show 200 kB of it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self):,} characters, written to the file>"


def _written(path: str | Path | None, text: str) -> str:
    if path is None:
        return text
    from evenscore.saving import as_path, write_whole

    write_whole(as_path(path), text.encode("utf-8", "backslashreplace"))
    return WrittenText(text)
