"""One score and one attribute of an audit, with all that was found about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenscore.auditing.deciding import Decision
from evenscore.auditing.judged_groups import Selection
from evenscore.auditing.repair import Repair
from evenscore.calibration import fingerprint
from evenscore.decisions.decision_result import DecisionMetrics
from evenscore.errors import listing
from evenscore.estimation.fitted_curves import Curves
from evenscore.estimation.row_counts import RowCounts, row_counts
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY, combine, join_reasons, smallest
from evenscore.false_alarms.placebo_result import Placebo
from evenscore.impact.impact_result import Impact
from evenscore.marginal.marginal_result import MarginalTest
from evenscore.miscalibration.error_result import CalibrationError
from evenscore.naming import GroupNames, in_names, label_text, plain_label
from evenscore.ordering.ordering_result import OrderingTest
from evenscore.parity.parity_result import ParityTest
from evenscore.parity.row_people import RowsAsPeople
from evenscore.parity.two_keys import TwoKeys
from evenscore.tables import json_ready, values_of
from evenscore.tallies.tally_state import Tally
from evenscore.thresholds.thresholds_result import Thresholds


@dataclass(frozen=True, slots=True)
class Subject:
    """One score and one attribute (or intersection of attributes), with all that was found about it.

    tally: of all groups, of which ``selection`` says which are judged. same_scale: whether score and outcome are on one scale.
    decides: the names of the tests that make the verdict; decision: which of them does for each pair, None when the caller named
    them. alpha: the level of each of them. marginal, thresholds, impact and decisions: only with a threshold; repair: only after
    a disparity; placebo: only when asked for; rows_as_people: where users have several rows; keys: where there are items, which of
    the two keys matters. unavailable: what could not be done, with the reason.
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
    rows_as_people: RowsAsPeople | None = None
    keys: TwoKeys | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)
    threshold: float | None = None
    positive: str = "above"
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The score and the attribute, for people."""
        return f"{self.score} by {plain_label(self.attribute)}"

    @property
    def group_names(self) -> GroupNames:
        """What groups are called."""
        return self.parity.group_names

    @property
    def fingerprint(self) -> str:
        """A digest of the sums: equal data give equal fingerprints."""
        return fingerprint(self.tally)

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
    @in_names
    def reason(self) -> str:
        """Why the verdict is what it is."""
        if self._hidden or self.decision is None:
            return self._hidden or join_reasons((self.tests[name] for name in self.decides), self.verdict)
        return self.decision.reason

    @property
    @in_names
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
        if "ordering" not in self.decides or self.parity.verdict == DISPARITY:
            return False
        return self._order_shown or bool(np.isnan(self.parity.max_gap))

    @property
    def _order_shown(self) -> bool:
        """Whether the order shows a disparity of a pair that it decides about."""
        if self.decision is None:
            return self.ordering.verdict == DISPARITY
        return any("ordering" in pair.shown_by for pair in self.decision.pairs)

    @property
    def nothing_in_common(self) -> bool:
        """Whether no score has enough people of any two groups, so that the order decides about all that could be judged."""
        return self.decision is None or all(pair.decided_by == "ordering" for pair in self.decision.told)

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
                "attribute": plain_label(self.attribute),
                "test": name,
                "verdict": test.verdict,
                "p_value": test.p_value,
                "max_gap": getattr(test, "max_gap", np.nan),
                "decides": "yes" if name in self.decides else "no",
            }
            for name, test in self.tests.items()
        ]

    @in_names
    def to_dict(self) -> dict[str, Any]:
        """In JSON-ready values."""
        document = values_of(self, ("score", "attribute", "verdict", "reason", "alpha", "decides", "minimum_detectable_gap"))
        document |= {
            "max_gap": self.parity.max_gap,
            "shown_gap": self.parity.shown_gap,
            "p_value": self.p_value,
            "decision": None if self.decision is None else self.decision.to_dict(),
            "fingerprint": self.fingerprint,
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
            self, ("thresholds", "impact", "decisions", "repair", "placebo", "rows_as_people")
        )
        document |= {name: None if step is None else step.to_dict() for name, step in steps.items()}
        document |= {} if self.keys is None else {"keys": self.keys.to_dict()}
        return json_ready(document | {"unavailable": {**self.unavailable, **self._no_gap}, "notes": self.notes})

    @property
    def _no_gap(self) -> dict[str, str]:
        """Why there is no gap to tell of, by the names of what is null."""
        names = ("max_gap", "minimum_detectable_gap")
        return {name: self.parity.reason for name in names if not np.isfinite(getattr(self.parity, name))}
