"""The same rows with several versions of their scores: as they are, calibrated one by one, calibrated jointly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.matching import match_groups
from evenscore.data.observations import Columns, Observations
from evenscore.data.splits import Split
from evenscore.errors import DataError, OptionError, listing, shortened
from evenscore.multiobjective.calibrator import JointCalibrator
from evenscore.multiobjective.rows import JointRows, ObjectivesSpec, observe_jointly
from evenscore.tallies.counting import count
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.tally_state import Tally
from evenscore.types import Array, Floats, Mask, Say

BEFORE = "before"
COMPOSITE = "composite"


@dataclass(frozen=True, slots=True)
class Target:
    """What a score is judged by: one outcome or a blend. weights: (K,). outcome: (n_rows,); labelled: None when all are known."""

    name: str
    weights: Floats
    outcome: Floats
    labelled: Mask | None
    binary: bool


@dataclass(frozen=True, slots=True)
class Objectives:
    """Rows of several objectives and the versions of their scores, (n_rows, K) each: as they are ("before"), by each calibrator."""

    rows: JointRows
    versions: dict[str, Floats]

    @property
    def last(self) -> str:
        """The version that would be used: calibrated when there is a calibrator."""
        return list(self.versions)[-1]


def read_objectives(data: Any, spec: ObjectivesSpec, calibrators: Any, say: Say | None = None) -> Objectives:
    """Observe the rows and calibrate their scores; refuses calibrators that were fitted on these users."""
    rows = observe_jointly(data, spec, say)
    versions = {BEFORE: np.stack([score.astype(np.float64) for score in rows.scores], axis=1)}
    for name, calibrator in _name_calibrators(calibrators).items():
        _require_other_users(rows, name, calibrator)
        versions[name] = _calibrate(rows, versions[BEFORE], calibrator)
    return Objectives(rows, versions)


def _name_calibrators(calibrators: Any) -> dict[str, Any]:
    """Calibrators by name, from one, a list of one for each score, or a dict of such."""
    if calibrators is None:
        return {}
    if isinstance(calibrators, JointCalibrator):
        return {"joint": calibrators}
    if isinstance(calibrators, Mapping):
        if BEFORE in calibrators:
            raise OptionError(f"a calibrator cannot be called {BEFORE!r}: so the scores are called as they are")
        return {str(name): calibrator for name, calibrator in calibrators.items()}
    return {"one by one": calibrators}


def _require_other_users(rows: JointRows, name: str, calibrator: Any) -> None:
    """Refuse the users that a calibrator was fitted on: they would never object to it."""
    if not isinstance(calibrator, JointCalibrator):
        return
    splits = None if rows.split is None or calibrator.split is None else (Split.parse(rows.split), Split.parse(calibrator.split))
    if (splits is not None and not splits[0].disjoint(splits[1])) or calibrator.fingerprint == rows.fingerprint():
        raise DataError(
            f"the calibrator {shortened(name)} was fitted on these users, who cannot say whether it works for others; fit on one "
            "share of the users and audit on the rest, such as split='1/2' and split='2/2'"
        )


def _calibrate(rows: JointRows, scores: Floats, calibrator: Any) -> Floats:
    if isinstance(calibrator, JointCalibrator):
        if len(calibrator.scores) != rows.n_objectives:
            raise OptionError(f"the calibrator has {len(calibrator.scores)} scores, the data {rows.n_objectives}")
        if calibrator.single is not None:
            return _one_by_one(rows, scores, [calibrator.single])
        return calibrator.map_rows(list(scores.T), _match_rows(rows, calibrator.groups)).scores
    if not isinstance(calibrator, Sequence) or not all(isinstance(single, Calibrator) for single in calibrator):
        raise OptionError(
            f"a calibrator must be what es.calibrate_jointly makes, or a list of one es.calibrate makes for each score, not a "
            f"{type(calibrator).__name__}"
        )
    if len(calibrator) != rows.n_objectives:
        raise OptionError(f"there are {len(calibrator)} calibrators for {rows.n_objectives} scores; give one for each, in order")
    return _one_by_one(rows, scores, calibrator)


def _match_rows(rows: JointRows, known: Sequence[Any]) -> Any:
    """The place of each row's group among those the calibrator knows."""
    labels = np.empty(len(rows.groups), dtype=object)
    labels[:] = rows.groups
    matched = match_groups(list(rows.groups) if isinstance(rows.groups[0], tuple) else labels, known, len(labels))
    return type(matched)(matched.places[rows.group], matched.strangers)


def _one_by_one(rows: JointRows, scores: Floats, calibrators: Sequence[Calibrator]) -> Floats:
    calibrated = np.empty_like(scores)
    for k, calibrator in enumerate(calibrators):
        group = _match_rows(rows, calibrator.groups).places
        for number, own_map in enumerate(calibrator.maps):
            mine = np.flatnonzero(group == number)
            calibrated[mine, k] = own_map.at(scores[mine, k])
    return calibrated


def single_targets(rows: JointRows) -> list[Target]:
    """Each outcome by itself."""
    units = np.eye(rows.n_objectives)
    return [
        Target(name, units[k], rows.outcomes[k].astype(np.float64), rows.labelled[k], rows.binary[k])
        for k, name in enumerate(rows.columns.outcomes)
    ]


def composite_target(rows: JointRows, weights: Floats) -> Target:
    """The blend of the outcomes; known where all outcomes are that count in it."""
    counting = np.flatnonzero(weights)
    if len(counting) == 1 and weights[counting[0]] == 1:
        alone = single_targets(rows)[int(counting[0])]
        return replace(alone, name=COMPOSITE, weights=weights)
    outcome = np.zeros(rows.n_rows)
    for k in counting:
        outcome += weights[k] * rows.outcomes[k]
    masks = [known for k in counting if (known := rows.labelled[k]) is not None]
    labelled = np.logical_and.reduce(masks) if masks else None
    if labelled is not None and not labelled.any():
        names = listing(rows.columns.outcomes[k] for k in counting)
        raise DataError(f"no row has all of the outcomes {names}: their blend is never known")
    return Target(COMPOSITE, weights, outcome, labelled, False)


def tally_of(rows: JointRows, scores: Floats, target: Target) -> Tally:
    """The tally of a blended score and its outcome."""
    score = scores @ target.weights
    columns = Columns(target.name, target.name, rows.columns.group, rows.columns.user, rows.columns.weight)
    observations = Observations(
        score=score,
        outcome=target.outcome.astype(np.int64) if target.binary else target.outcome,
        group=rows.group,
        groups=rows.groups,
        users=rows.users,
        columns=columns,
        binary=target.binary,
        weight=rows.weight,
        labelled=target.labelled,
        dropped=rows.dropped,
        frame=rows.frame,
    )
    return count(observations, Lattice.from_scores(score), None)


def row_weights(rows: JointRows, labelled: Mask | None, codes: Array | None = None) -> Floats:
    """v / n_m for labelled rows, n_m the user's labelled rows in the group, else 0; (n_rows,)."""
    codes = rows.users_in_groups() if codes is None else codes
    weight = 1.0 / np.maximum(rows.labels_per_user(labelled, codes)[codes], 1)
    if rows.weight is not None:
        weight *= rows.weight
    return weight if labelled is None else weight * labelled
