"""``es.audit_objectives``: parity of every objective and of their blend, before and after, with what calibration gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.errors import renamed
from evenscore.estimation.verdict import DISPARITY, VerdictTable, combine, smallest
from evenscore.multiobjective.accuracy import BetterWeights, squared_errors, weights_for
from evenscore.multiobjective.blends import Blend, ParityOptions, judge_blends
from evenscore.multiobjective.calibrator import check_weights
from evenscore.multiobjective.lemma import LemmaTest, lemma_test
from evenscore.multiobjective.rows import JointRows, ObjectivesSpec
from evenscore.multiobjective.versions import BEFORE, COMPOSITE, composite_target, read_objectives, single_targets
from evenscore.parity.parity_result import ParityTest
from evenscore.tables import as_frame, json_ready, values_of
from evenscore.threads import in_one_thread
from evenscore.types import Say
from evenscore.wording import dropped_words, number_text, p_text


@dataclass(frozen=True, slots=True)
class VersionAudit:
    """One version of the scores: each objective and the blend, adjusted together; and the lemma's test."""

    version: str
    blends: tuple[Blend, ...]
    lemma: LemmaTest

    @property
    def tests(self) -> dict[str, ParityTest]:
        """The parity tests, by outcome, and of the blend."""
        return {blend.target: blend.test for blend in self.blends}

    @property
    def p_adjusted(self) -> dict[str, float]:
        """The adjusted p-values of these tests."""
        return {blend.target: blend.p_adjusted for blend in self.blends}

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdicts of these tests, each among all of them."""
        return {blend.target: blend.verdict for blend in self.blends}

    @property
    def verdict(self) -> str:
        """Any disparity makes the whole one; parity needs all."""
        return combine(blend.verdict for blend in self.blends)

    @property
    def p_value(self) -> float:
        """The smallest adjusted p-value of the parity tests."""
        return smallest(blend.p_adjusted for blend in self.blends)


@dataclass(frozen=True, slots=True, repr=False)
class ObjectivesAudit(VerdictTable):
    """The result of ``es.audit_objectives``.

    versions: "before", and the calibrators. weights: of the blend. mse: squared errors by target, group and version.
    better: the weights that would predict the blended outcome best, before calibration. labelled: rows with a label, by outcome.

    Examples
    --------
    >>> import evenscore as es
    >>> from evenscore.simulation.objectives import feed
    >>> posts = feed(150).data(seed=1)
    >>> columns = dict(scores=["score_like", "score_share"], outcomes=["like", "share"], group="group", user="user")
    >>> audit = es.audit_objectives(posts, **columns, weights=[1, 2])
    >>> [row["target"] for row in audit.rows()]
    ['like', 'share', 'composite']
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
        return self.last.tests

    def _judgements(self) -> tuple[Blend, ...]:
        return self.last.blends

    @property
    def null(self) -> str:
        """What is tested, in words."""
        return f"for each objective and for their blend, {self.tests[COMPOSITE].null}"

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        failing = [blend.target for blend in self.last.blends if blend.verdict == DISPARITY]
        if failing:
            return f"a gap is shown for {', '.join(failing)} ({self.last.version})"
        return "; ".join(dict.fromkeys(f"{blend.target}: {blend.reason}" for blend in self.last.blends))

    def rows(self) -> list[dict[str, Any]]:
        """One row for each version and target: the parity test and the squared error of all groups together."""
        errors = {(row["version"], row["target"]): row["mse"] for row in self.mse if row["group"] is None}
        return [
            {
                "version": blend.version,
                "target": blend.target,
                "p_value": blend.test.p_value,
                "p_adjusted": blend.p_adjusted,
                "max_gap": blend.test.max_gap,
                "mse": errors[blend.version, blend.target],
                "verdict": blend.verdict,
            }
            for audited in self.versions
            for blend in audited.blends
        ]

    def mse_frame(self, kind: str | None = None) -> Any:
        """The squared errors as a frame."""
        return as_frame(list(self.mse), self.frame_kind if kind is None else kind)

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        asked = ("outcomes", "weights", "n_rows", "labelled", "dropped", "alpha", "tolerance")
        document = values_of(self, (*asked, "null", "p_value", "verdict", "reason"))
        document |= {"rows": self.rows(), "squared_errors": self.mse, "better_weights": self.better.to_dict()}
        document["versions"] = [
            {
                "version": audited.version,
                "verdict": audited.verdict,
                "given_all_scores": audited.lemma.to_dict(),
                "tests": {name: test.to_dict() for name, test in audited.tests.items()},
            }
            for audited in self.versions
        ]
        return json_ready(document)

    def _heading(self) -> str:
        return f"Audit of {len(self.outcomes)} objectives ({self.last.version})"

    def _notes(self) -> list[str]:
        blend = " + ".join(f"{weight:g} {name}" for weight, name in zip(self.weights, self.outcomes, strict=True))
        notes = [f"blend: {blend}", *VerdictTable._notes(self)]
        for audited in self.versions:
            lemma = audited.lemma
            notes.append(f"given all scores ({audited.version}): {lemma.verdict}, p = {p_text(lemma.p_value)}, {lemma.reason}")
        better = ", ".join(number_text(value) for value in self.better.better.tolist())
        gain = f"{number_text(self.better.gain)} ± {number_text(self.better.gain_se)}"
        notes.append(f"weights that predict the blended outcome best before calibration: {better}; they gain {gain} squared error")
        if any(n < self.n_rows for n in self.labelled.values()):
            notes.append(
                "labelled rows: " + ", ".join(f"{name} {n:,}" for name, n in self.labelled.items()) + f" of {self.n_rows:,}"
            )
        notes += dropped_words(self.dropped)
        notes.append("p adjusted for the objectives and the blend by Holm's method")
        return notes


@renamed(calibrators="calibrator", say="progress")
@in_one_thread
def audit_objectives(
    data: Any,
    *,
    scores: Sequence[Any],
    outcomes: Sequence[Any],
    group: Any,
    user: Any,
    weights: Any = None,
    calibrator: Any = None,
    weight: Any = None,
    nulls: str = "unlabelled",
    split: str | None = None,
    alpha: float = 0.05,
    tolerance: float | None = None,
    method: str = "auto",
    seed: int = 0,
    progress: Say | None = None,
) -> ObjectivesAudit:
    """Audit several scores and their blend: parity of each, the lemma's condition, squared errors, better weights.

    Parameters
    ----------
    data, scores, outcomes, group, user, weight, nulls, split
        As for ``es.calibrate_jointly``; users on whom the calibrators were not fitted.
    weights
        Of the blend: a list, or a dict by outcome; by default 1 for each.
    calibrator
        What ``es.calibrate_jointly`` made, or a dict of names and calibrators, for an audit before and after.
    alpha, tolerance, method, seed
        As for ``es.parity_test``.
    progress
        Progress callback: called with what is being done, in words.

    Returns
    -------
    ObjectivesAudit
        A verdict for each score and for the blend, with squared errors, the lemma's condition and better weights.

    Examples
    --------
    >>> import evenscore as es
    >>> from evenscore.simulation.objectives import feed
    >>> posts = feed(150).data(seed=1)
    >>> columns = dict(scores=["score_like", "score_share"], outcomes=["like", "share"], group="group", user="user")
    >>> audit = es.audit_objectives(posts, **columns, weights=[1, 2])
    >>> audit.verdict
    'inconclusive'
    """
    options = ParityOptions(alpha, tolerance, method, seed)
    spec = ObjectivesSpec(scores=scores, outcomes=outcomes, group=group, user=user, weight=weight, nulls=nulls, split=split)
    objectives = read_objectives(data, spec, calibrator, progress)
    rows = objectives.rows
    chosen = check_weights(np.ones(rows.n_objectives) if weights is None else weights, rows.columns.scores, rows.columns.outcomes)
    targets = [*single_targets(rows), composite_target(rows, chosen)]
    audits = []
    for version in objectives.versions:
        blends = judge_blends(objectives, version, targets, options)
        audits.append(VersionAudit(version, blends, lemma_test(objectives, version, alpha, seed)))
    return ObjectivesAudit(
        versions=tuple(audits),
        outcomes=rows.columns.outcomes,
        weights=tuple(chosen.tolist()),
        mse=tuple(squared_errors(objectives, targets)),
        better=weights_for(objectives, BEFORE, chosen),
        labelled=_count_labels(rows),
        n_rows=rows.n_rows,
        alpha=alpha,
        tolerance=tolerance,
        dropped=rows.dropped,
        frame_kind=rows.frame,
    )


def _count_labels(rows: JointRows) -> dict[str, int]:
    return {
        name: rows.n_rows if known is None else int(known.sum())
        for name, known in zip(rows.columns.outcomes, rows.labelled, strict=True)
    }
