"""What an audit found: for each score and attribute every test, and one verdict for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenscore.auditing.deciding import Decision
from evenscore.auditing.gate import Gate, GateResult, judge
from evenscore.auditing.judged_groups import Selection
from evenscore.auditing.provenance import Provenance
from evenscore.auditing.repair import Repair
from evenscore.calibration import fingerprint
from evenscore.decisions.decision_result import DecisionMetrics
from evenscore.errors import EvenscoreError, OptionError, listing, shortened
from evenscore.estimation.fitted_curves import Curves
from evenscore.estimation.row_counts import RowCounts, row_counts
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY, combine, join_reasons, largest, smallest
from evenscore.false_alarms.placebo_result import Placebo
from evenscore.impact.impact_result import Impact
from evenscore.marginal.marginal_result import MarginalTest
from evenscore.miscalibration.error_result import CalibrationError
from evenscore.ordering import OrderingTest
from evenscore.parity.parity_result import ParityTest
from evenscore.tables import Table, json_ready, json_text, label_text, values_of
from evenscore.tallies.tally_state import Tally
from evenscore.thresholds.thresholds_result import Thresholds

SCHEMA = "evenscore-audit"
SCHEMA_VERSION = "1.1"


class GateError(EvenscoreError, AssertionError):
    """An audit did not pass its gate; ``audit`` and ``result`` say why."""

    def __init__(self, message: str, audit: Audit, result: GateResult) -> None:
        super().__init__(message)
        self.audit = audit
        self.result = result


@dataclass(frozen=True, slots=True)
class Subject:
    """One score and one attribute (or intersection of attributes), with all that was found about it.

    tally: of all groups, of which ``selection`` says which are judged. same_scale: whether score and outcome are on one scale.
    decides: the names of the tests that make the verdict; decision: which of them does for each pair, None when the caller named
    them. alpha: the level of each of them. marginal, thresholds, impact and decisions: only with a threshold; repair: only after
    a disparity; placebo: only when asked for. unavailable: what could not be done, with the reason.
    """

    score: str
    attribute: tuple[str, ...]
    tally: Tally
    selection: Selection
    same_scale: bool
    curves: Curves
    parity: ParityTest
    ordering: OrderingTest
    decides: tuple[str, ...]
    alpha: float
    decision: Decision | None = None
    marginal: MarginalTest | None = None
    calibration: CalibrationError | None = None
    thresholds: Thresholds | None = None
    impact: Impact | None = None
    decisions: DecisionMetrics | None = None
    repair: Repair | None = None
    placebo: Placebo | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)
    threshold: float | None = None
    positive: str = "above"
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The score and the attribute, for people."""
        return f"{self.score} by {label_text(self.attribute)}"

    @property
    def tests(self) -> dict[str, Any]:
        """Every test, by name."""
        found: dict[str, Any] = {"parity": self.parity, "ordering": self.ordering}
        return found if self.marginal is None else found | {"marginal": self.marginal}

    @property
    def verdict(self) -> str:
        """The verdict of the tests that decide."""
        return INCONCLUSIVE if self._hidden else self._decided

    @property
    def _decided(self) -> str:
        if self.decision is not None:
            return self.decision.verdict
        return combine(self.tests[name].verdict for name in self.decides)

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        if self._hidden or self.decision is None:
            return self._hidden or join_reasons((self.tests[name] for name in self.decides), self.verdict)
        return self.decision.reason

    @property
    def _hidden(self) -> str:
        """Why parity is not shown for everyone though it is for the groups that are judged; else empty."""
        unexcused = self.selection.unexcused
        if not unexcused or self._decided != PARITY:
            return ""
        names = listing((f"{label_text(group.group)} ({group.words})" for group in unexcused), 5)
        return f"every gap between the judged groups lies within the tolerance, but parity needs every group: {names}"

    @property
    def row_counts(self) -> RowCounts:
        """The mean outcome per user and per row."""
        return row_counts(self.selection.tally)

    def group_rows(self) -> list[dict[str, Any]]:
        """One row a group, all groups: why one is not judged, and then no means."""
        return self.selection.rows()

    @property
    def p_value(self) -> float:
        """The p-value of the tests that decide, adjusted for all pairs of groups; the smallest of several tests."""
        return smallest([self.decision.p_value] if self.decision else (self.tests[name].p_value for name in self.decides))

    @property
    def order_decides(self) -> bool:
        """Whether the headline is a share of misordered pairs: the ordering test decides, and parity shows no gap."""
        return (
            "ordering" in self.decides
            and self.parity.verdict != DISPARITY
            and (self.ordering.verdict == DISPARITY or bool(np.isnan(self.parity.max_gap)))
        )

    @property
    def minimum_detectable_gap(self) -> float:
        """The constant gap that the parity test finds with probability .8 in each pair that it could judge."""
        return self.parity.minimum_detectable_gap

    @property
    def fully_judged(self) -> bool:
        """Whether every pair of groups could be judged."""
        return all(pair.judged for pair in self.parity.pairs) and not self.selection.unexcused

    def rows(self) -> list[dict[str, Any]]:
        """One row a test."""
        return [
            {
                "score": self.score,
                "attribute": label_text(self.attribute),
                "test": name,
                "verdict": test.verdict,
                "p_value": test.p_value,
                "max_gap": getattr(test, "max_gap", np.nan),
                "decides": "yes" if name in self.decides else "no",
            }
            for name, test in self.tests.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """In JSON-ready values."""
        document = values_of(self, ("score", "attribute", "verdict", "reason", "alpha", "decides", "minimum_detectable_gap"))
        document |= {
            "max_gap": self.parity.max_gap,
            "shown_gap": self.parity.shown_gap,
            "p_value": self.p_value,
            "decision": None if self.decision is None else self.decision.to_dict(),
            "fingerprint": fingerprint(self.tally),
            "groups": self.group_rows(),
            "tally": self.tally.to_dict() | {"rows": self.group_rows()},
            "tests": {name: test.to_dict() for name, test in self.tests.items()},
            "curves": self.curves.to_dict(),
        }
        document |= self.selection.to_dict()
        document["mean_outcomes"] = values_of(
            self.row_counts, ("per_user", "per_row", "difference", "ci_low", "ci_high", "sentence")
        )
        document |= values_of(self, ("threshold", "positive", "same_scale"))
        steps = {"calibration_error": self.calibration} | values_of(
            self, ("thresholds", "impact", "decisions", "repair", "placebo")
        )
        document |= {name: None if step is None else step.to_dict() for name, step in steps.items()}
        return json_ready(document | {"unavailable": {**self.unavailable, **self._no_gap}, "notes": self.notes})

    @property
    def _no_gap(self) -> dict[str, str]:
        """Why there is no gap to tell of, by the names of what is null."""
        names = ("max_gap", "minimum_detectable_gap")
        return {name: self.parity.reason for name in names if np.isnan(getattr(self.parity, name))}


@dataclass(frozen=True, slots=True, repr=False)
class Audit(Table):
    """The result of ``es.audit``: a verdict, everything that it rests on, and ways to show it.

    gate: what ``assert_ok`` and the command line ask for. alpha: the chance of any false alarm in the whole audit.
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
        return judge(chosen, self.verdict, float(np.max(seen)), self.tolerance)

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
        text = json_text(self.to_dict())
        _write(path, text)
        return text

    def to_html(self, path: str | Path | None = None) -> str:
        """The report: one self-contained page, written to a file if a path is given, whole or not at all."""
        from evenscore.report.html import render
        from evenscore.report.sections import audit_document

        text = render(audit_document(self))
        _write(path, text)
        return text

    def to_markdown(self) -> str:
        """A short summary in Markdown, for a pull request or the summary page of a CI run."""
        from evenscore.report.markdown import audit_markdown

        return audit_markdown(self)

    def to_junit(self, path: str | Path | None = None) -> str:
        """Every test that decides as a test case of JUnit's XML, which CI systems show."""
        from evenscore.report.junit import audit_junit

        text = audit_junit(self)
        _write(path, text)
        return text

    def log_mlflow(self, run_id: str | None = None, prefix: str = "evenscore") -> str:
        """Log verdict, numbers, report and JSON to an MLflow run (needs mlflow); the id of the run."""
        from evenscore.report.tracking import log_mlflow

        return log_mlflow(self, run_id, prefix)

    def __getitem__(self, name: str) -> Subject:
        for subject in self.subjects:
            if isinstance(name, str) and name in (subject.name, label_text(subject.attribute), subject.score):
                return subject
        raise OptionError(f"no subject {shortened(name)}; there are: {', '.join(subject.name for subject in self.subjects)}")

    def __repr__(self) -> str:
        from evenscore.report.text import audit_text

        return audit_text(self)

    def _repr_html_(self) -> str:
        from evenscore.report.html import fragment
        from evenscore.report.sections import audit_document

        return fragment(audit_document(self))

    def _title(self) -> str:
        return f"{self.title}: {self.verdict}"

    def _notes(self) -> list[str]:
        return self.summary

    @property
    def frame_kind(self) -> str | None:
        """The kind of frame that the data came in."""
        return self.subjects[0].tally.frame_kind


def _write(path: str | Path | None, text: str) -> None:
    if path is None:
        return
    from evenscore.saving import as_path, write_whole

    write_whole(as_path(path), text.encode("utf-8", "backslashreplace"))
