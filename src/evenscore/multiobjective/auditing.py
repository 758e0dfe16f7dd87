"""``es.audit_objectives``: parity of every objective and of their blend, before and after, with what calibration gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.errors import require_alpha, require_gap
from evenscore.estimation.multiplicity import holm
from evenscore.estimation.verdict import DISPARITY, combine, smallest
from evenscore.multiobjective.accuracy import BetterWeights, squared_errors, weights_for
from evenscore.multiobjective.calibrator import check_weights
from evenscore.multiobjective.lemma import LemmaTest, lemma_test
from evenscore.multiobjective.rows import JointRows, observe_jointly
from evenscore.multiobjective.sweep import adjusted_verdict
from evenscore.multiobjective.versions import COMPOSITE, composite_target, single_targets, tally_of, versions_of
from evenscore.parity import parity_test
from evenscore.parity.parity_result import ParityTest
from evenscore.tables import Table, json_ready, number_text, p_text
from evenscore.types import Say


@dataclass(frozen=True, slots=True)
class VersionAudit:
    """One version of the scores: the parity test of each objective and of the blend, adjusted together; and the lemma's test."""

    version: str
    tests: Mapping[str, ParityTest]
    p_adjusted: Mapping[str, float]
    verdicts: Mapping[str, str]
    lemma: LemmaTest

    @property
    def verdict(self) -> str:
        """Any disparity makes the whole one; parity needs all."""
        return combine(self.verdicts.values())

    @property
    def p_value(self) -> float:
        """The smallest adjusted p-value of the parity tests."""
        return smallest(self.p_adjusted.values())


@dataclass(frozen=True, slots=True, repr=False)
class ObjectivesAudit(Table):
    """The result of ``es.audit_objectives``.

    versions: "before", and the calibrators. weights: of the blend. mse: squared errors by target, group and version.
    better: the weights that would predict the blended outcome best, before calibration. labelled: rows with a label, by outcome.
    """

    versions: tuple[VersionAudit, ...]
    outcomes: tuple[str, ...]
    weights: tuple[float, ...]
    mse: tuple[dict[str, Any], ...]
    better: BetterWeights
    labelled: Mapping[str, int]
    n_rows: int
    alpha: float
    tolerance: float | None
    dropped: Mapping[str, int]
    frame_kind: str | None = None

    @property
    def last(self) -> VersionAudit:
        """The scores as they would be used: calibrated when there is a calibrator."""
        return self.versions[-1]

    @property
    def tests(self) -> dict[str, ParityTest]:
        """The parity tests of the last version, by outcome, and of the blend."""
        return dict(self.last.tests)

    @property
    def null(self) -> str:
        """What is tested, in words."""
        return f"for each objective and for their blend, {self.last.tests[COMPOSITE].null}"

    @property
    def p_value(self) -> float:
        """The smallest adjusted p-value of the last version."""
        return self.last.p_value

    @property
    def verdict(self) -> str:
        """The verdict of the last version."""
        return self.last.verdict

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        last = self.last
        failing = [name for name, verdict in last.verdicts.items() if verdict == DISPARITY]
        if failing:
            return f"a gap is shown for {', '.join(failing)} ({last.version})"
        return "; ".join(dict.fromkeys(f"{name}: {test.reason}" for name, test in last.tests.items()))

    def rows(self) -> list[dict[str, Any]]:
        """One row for each version and target: the parity test and the squared error of all groups together."""
        errors = {(row["version"], row["target"]): row["mse"] for row in self.mse if row["group"] is None}
        return [
            {
                "version": each.version,
                "target": name,
                "p_value": test.p_value,
                "p_adjusted": each.p_adjusted[name],
                "max_gap": test.max_gap,
                "mse": errors[each.version, name],
                "verdict": each.verdicts[name],
            }
            for each in self.versions
            for name, test in each.tests.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        names = (
            "outcomes",
            "weights",
            "n_rows",
            "labelled",
            "dropped",
            "alpha",
            "tolerance",
            "null",
            "p_value",
            "verdict",
            "reason",
        )
        return {name: json_ready(getattr(self, name)) for name in names} | {
            "rows": json_ready(self.rows()),
            "squared_errors": json_ready(list(self.mse)),
            "better_weights": self.better.to_dict(),
            "versions": [
                {
                    "version": each.version,
                    "verdict": each.verdict,
                    "given_all_scores": each.lemma.to_dict(),
                    "tests": {name: test.to_dict() for name, test in each.tests.items()},
                }
                for each in self.versions
            ],
        }

    def _title(self) -> str:
        return f"Audit of {len(self.outcomes)} objectives ({self.last.version}): {self.verdict}, p = {p_text(self.p_value)}"

    def _notes(self) -> list[str]:
        blend = " + ".join(f"{weight:g} {name}" for weight, name in zip(self.weights, self.outcomes, strict=True))
        notes = [f"blend: {blend}", f"null: {self.null}", f"verdict: {self.verdict}, because {self.reason}"]
        notes += [
            f"given all scores ({each.version}): {each.lemma.verdict}, p = {p_text(each.lemma.p_value)}, {each.lemma.reason}"
            for each in self.versions
        ]
        better = ", ".join(number_text(value) for value in self.better.better.tolist())
        gain = f"{number_text(self.better.gain)} ± {number_text(self.better.gain_se)}"
        notes.append(f"weights that predict the blended outcome best before calibration: {better}; they gain {gain} squared error")
        if any(n < self.n_rows for n in self.labelled.values()):
            notes.append(
                "labelled rows: " + ", ".join(f"{name} {n:,}" for name, n in self.labelled.items()) + f" of {self.n_rows:,}"
            )
        notes += [f"{n:,} {'row' if n == 1 else 'rows'} left out: {name} is null" for name, n in self.dropped.items()]
        notes.append("p adjusted for the objectives and the blend by Holm's method")
        return notes


def audit_objectives(
    data: Any,
    *,
    scores: Sequence[Any],
    outcomes: Sequence[Any],
    group: Any,
    user: Any,
    weights: Any = None,
    calibrators: Any = None,
    weight: Any = None,
    nulls: str = "unlabelled",
    split: str | None = None,
    alpha: float = 0.05,
    tolerance: float | None = None,
    method: str = "auto",
    seed: int = 0,
    say: Say | None = None,
) -> ObjectivesAudit:
    """Audit several scores and their blend: parity of each, the lemma's condition, squared errors, better weights.

    Parameters
    ----------
    data, scores, outcomes, group, user, weight, nulls, split
        As for ``es.calibrate_jointly``; users on whom the calibrators were not fitted.
    weights
        Of the blend: a list, or a dict by outcome; by default 1 for each.
    calibrators
        What ``es.calibrate_jointly`` made, or a dict of names and calibrators, for an audit before and after.
    alpha, tolerance, method, seed
        As for ``es.parity_test``.
    say
        Called with words of progress now and then.

    Returns
    -------
    ObjectivesAudit
        A verdict for each score and for the blend, with squared errors, the lemma's condition and better weights.
    """
    require_alpha(alpha)
    require_gap("tolerance", tolerance)
    rows = observe_jointly(
        data, scores=scores, outcomes=outcomes, group=group, user=user, weight=weight, nulls=nulls, split=split, say=say
    )
    k = rows.n_objectives
    chosen = check_weights(np.ones(k) if weights is None else weights, rows.columns.scores, rows.columns.outcomes)
    versions = versions_of(rows, calibrators)
    targets = [*single_targets(rows), composite_target(rows, chosen)]
    options: dict[str, Any] = {"alpha": alpha, "tolerance": tolerance, "method": method, "seed": seed}
    audits = []
    for version, values in versions.items():
        tests = {target.name: parity_test(tally_of(rows, values, target), both=False, **options) for target in targets}
        adjusted = dict(zip(tests, holm(np.array([test.p_value for test in tests.values()])).tolist(), strict=True))
        verdicts = {name: adjusted_verdict(test, adjusted[name], alpha) for name, test in tests.items()}
        audits.append(VersionAudit(version, tests, adjusted, verdicts, lemma_test(rows, values, version, alpha, seed)))
    return ObjectivesAudit(
        versions=tuple(audits),
        outcomes=rows.columns.outcomes,
        weights=tuple(chosen.tolist()),
        mse=tuple(squared_errors(rows, versions, targets)),
        better=weights_for(rows, versions["before"], chosen),
        labelled=_labelled(rows),
        n_rows=rows.n_rows,
        alpha=alpha,
        tolerance=tolerance,
        dropped=rows.dropped,
        frame_kind=rows.frame,
    )


def _labelled(rows: JointRows) -> dict[str, int]:
    return {
        name: rows.n_rows if known is None else int(known.sum())
        for name, known in zip(rows.columns.outcomes, rows.labelled, strict=True)
    }
