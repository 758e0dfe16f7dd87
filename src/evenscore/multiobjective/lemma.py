"""The lemma's condition, tested directly: given all scores, and in every group, is the expected outcome the score itself?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.errors import renamed, require_alpha
from evenscore.estimation.gaps import MIN_EFFECTIVE
from evenscore.estimation.inference import DRAWS, SupTail, correlation, quadratic_tail, seeded, welch_z
from evenscore.estimation.multiplicity import holm
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, Judgement, VerdictTable, largest
from evenscore.multiobjective.axes import Axis, make_axes
from evenscore.multiobjective.product_kernel import rule_of_thumb
from evenscore.multiobjective.rows import ObjectivesSpec
from evenscore.multiobjective.versions import Objectives, read_objectives, row_weights
from evenscore.parity.methods import Component, Evidence, draw
from evenscore.tables import json_ready, label_text, values_of
from evenscore.tallies.axis import backward
from evenscore.tallies.runs import run_starts, whole_runs
from evenscore.threads import in_one_thread
from evenscore.types import Array, Floats, Ints, Say
from evenscore.wording import number_text

PLACES = 25  # combinations of scores to look at, spread like the people
SAMPLE = 4000  # rows that say how people are spread
ROUNDS = 10  # of k-means, whose centres need not be its last
SHARES = {"sup": 2 / 3, "l2": 1 / 3}  # of the level, to the largest deviation and to the sum of squares
STEP = 1 << 16  # rows at a time: their kernels stay in memory


@dataclass(frozen=True, slots=True)
class LemmaCase(Judgement):
    """One group and objective.

    places: (n_places, K) scores looked at; gap: (n_places,) the mean of Y_k - S_k near each, se: its standard error, z: in
    standard errors as a normal quantile, effective: users it rests on.
    """

    group: Any = None
    outcome: str = ""
    p_value: float = np.nan
    p_adjusted: float = np.nan
    verdict: str = INCONCLUSIVE
    reason: str = ""
    places: Floats | None = None
    gap: Floats | None = None
    se: Floats | None = None
    z: Floats | None = None
    effective: Floats | None = None

    @property
    def worst(self) -> int | None:
        """Where the gap is largest in standard errors."""
        return None if self.z is None else int(np.argmax(np.abs(self.z)))

    @property
    def max_gap(self) -> float:
        """The gap that is largest in standard errors, outcome minus score: a gap in units of the outcome."""
        return np.nan if self.gap is None or self.worst is None else float(self.gap[self.worst])


@dataclass(frozen=True, slots=True, repr=False)
class LemmaTest(VerdictTable):
    """The result of ``es.joint_calibration_test``: one case for each group and objective.

    Examples
    --------
    >>> import evenscore as es
    >>> from evenscore.simulation.objectives import feed
    >>> posts = feed(150).data(seed=1)
    >>> columns = dict(scores=["score_like", "score_share"], outcomes=["like", "share"], group="group", user="user")
    >>> test = es.joint_calibration_test(posts, **columns)
    >>> test.verdict, len(test.rows())
    ('disparity', 4)
    """

    cases: tuple[LemmaCase, ...]
    scores: tuple[str, ...]
    alpha: float
    version: str
    frame_kind: str | None = None

    @property
    def parts(self) -> tuple[LemmaCase, ...]:
        """The cases, as 0.1.0 called them."""
        return self.cases

    def _judgements(self) -> tuple[LemmaCase, ...]:
        return self.cases

    @property
    def max_gap(self) -> float:
        """The largest gap of all cases, outcome minus score."""
        return largest((case.max_gap for case in self.cases), key=abs)

    @property
    def null(self) -> str:
        """What is tested, in words."""
        return "in every group, people with the same scores (all of them) have each score as their expected outcome"

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        failing = [f"{case.outcome} in {label_text(case.group)}" for case in self.cases if case.verdict == DISPARITY]
        if failing:
            return "given all scores, the expected outcome is not the score: " + ", ".join(failing)
        unjudged = dict.fromkeys(case.reason for case in self.cases if not np.isfinite(case.p_value))
        return "; ".join(["no deviation is shown", *unjudged])

    def rows(self) -> list[dict[str, Any]]:
        """One row for each group and objective; max_gap: the deviation that is largest in standard errors, at those scores."""
        table = []
        for case in self.cases:
            worst = case.worst
            row = values_of(case, ("group", "outcome", "p_value", "p_adjusted"))
            row["max_gap"] = case.max_gap
            at = np.full(len(self.scores), np.nan) if worst is None or case.places is None else case.places[worst]
            row |= {f"at_{name}": float(value) for name, value in zip(self.scores, at, strict=True)}
            table.append(row | {"verdict": case.verdict})
        return table

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        names = ("null", "version", "alpha", "p_value", "verdict", "reason", "max_gap")
        return json_ready(values_of(self, names) | {"rows": self.rows()})

    def _heading(self) -> str:
        return f"Calibration given all scores ({self.version})"


@renamed(say="progress")
@in_one_thread
def joint_calibration_test(
    data: Any,
    *,
    scores: Sequence[Any],
    outcomes: Sequence[Any],
    group: Any,
    user: Any,
    calibrator: Any = None,
    weight: Any = None,
    nulls: str = "unlabelled",
    split: str | None = None,
    alpha: float = 0.05,
    seed: int = 0,
    progress: Say | None = None,
) -> LemmaTest:
    """Test whether each score is the outcome expected given all scores and the group, so that every blend is calibrated and fair.

    The paper's lemma: :math:`E(Y_k \\mid S_1, \\ldots, S_K, G) = S_k` for every k and group.

    Near each of some 25 combinations of scores the mean of Y_k - S_k, each user weighing the same, is compared with 0; the largest
    deviation and the sum of their squares give one p-value by joint draws, adjusted for the groups and objectives.

    Parameters
    ----------
    data, scores, outcomes, group, user, weight, nulls, split
        As for ``es.calibrate_jointly``.
    calibrator
        Test the scores that it gives, on users it was not fitted on.
    alpha, seed
        The level, and the seed of the draws behind p-values; the same seed gives the same result.
    progress
        Progress callback: called with what is being done, in words.

    Returns
    -------
    LemmaTest
        A verdict, and one case for each group and objective.

    Examples
    --------
    >>> import evenscore as es
    >>> from evenscore.simulation.objectives import feed
    >>> posts = feed(150).data(seed=1)
    >>> columns = dict(scores=["score_like", "score_share"], outcomes=["like", "share"], group="group", user="user")
    >>> es.joint_calibration_test(posts, **columns).alpha
    0.05
    """
    require_alpha(alpha)
    spec = ObjectivesSpec(scores=scores, outcomes=outcomes, group=group, user=user, weight=weight, nulls=nulls, split=split)
    objectives = read_objectives(data, spec, calibrator, progress)
    return lemma_test(objectives, objectives.last, alpha, seed)


@dataclass(frozen=True, slots=True)
class _Residuals:
    """Rows: positions of the scores, x (n, K); weight, residual Y_k - S_k and user, (n,)."""

    x: Floats
    weight: Floats
    residual: Floats
    user: Array

    def take(self, chosen: Ints) -> _Residuals:
        """Some of the rows."""
        return _Residuals(self.x[chosen], self.weight[chosen], self.residual[chosen], self.user[chosen])


def lemma_test(objectives: Objectives, version: str, alpha: float, seed: int) -> LemmaTest:
    """The test for one version of the scores."""
    rows, scores = objectives.rows, objectives.versions[version]
    axes = make_axes(list(scores.T), rows.columns.scores, "auto", 2)
    x = np.stack([axis.position(scores[:, k]) for k, axis in enumerate(axes)], axis=1)
    codes = rows.users_in_groups()
    cases = []
    for k, outcome in enumerate(rows.columns.outcomes):
        weight = row_weights(rows, rows.labelled[k], codes)
        residuals = _Residuals(x, weight, rows.outcomes[k].astype(np.float64) - scores[:, k], rows.user)
        for group, label in enumerate(rows.groups):
            mine = np.flatnonzero((rows.group == group) & (weight > 0))
            case = _test_case(residuals.take(mine), axes, seeded(seed, k, group))
            cases.append(replace(case, group=label, outcome=outcome))
    adjusted = holm(np.array([case.p_value for case in cases])).tolist()
    judged = [
        replace(case, p_adjusted=p, verdict=DISPARITY if p <= alpha else INCONCLUSIVE, reason=case.reason or _deviation_text(case))
        for case, p in zip(cases, adjusted, strict=True)
    ]
    return LemmaTest(tuple(judged), rows.columns.scores, alpha, version, rows.frame)


def _deviation_text(case: LemmaCase) -> str:
    if case.worst is None:
        return ""
    return f"the outcome is {number_text(case.max_gap)} away from the score where it is farthest in standard errors"


def _test_case(rows: _Residuals, axes: tuple[Axis, ...], rng: np.random.Generator) -> LemmaCase:
    """One group and objective."""
    n_users = len(np.unique(rows.user))
    if n_users < MIN_EFFECTIVE:
        return LemmaCase(reason=f"a group has only {n_users} users with an outcome, fewer than {MIN_EFFECTIVE}")
    x, weight = rows.x, rows.weight
    deviation = np.sqrt(np.maximum(weight @ (x - weight @ x / weight.sum()) ** 2 / weight.sum(), 0.0))
    bandwidth = np.where(deviation > 0, rule_of_thumb(deviation, n_users), 1.0)
    places = _places(x, weight, deviation, rng)
    total, mass, squares, covariance = _sums(rows, places, bandwidth)
    effective = mass**2 / squares
    variance = np.diag(covariance)
    keep = (effective >= MIN_EFFECTIVE) & (variance > 0)
    if not keep.any():
        if (variance == 0).all():  # outcomes that are the score itself, in every row
            return LemmaCase(p_value=1.0, reason="every outcome near is the score itself")
        return LemmaCase(reason=f"nowhere are {MIN_EFFECTIVE} effective users near the same scores")
    factor = effective[keep] / (effective[keep] - 1)
    se = np.sqrt(variance[keep]) * factor
    z = welch_z(total[keep] / se, effective[keep] - 1)
    evidence = _evidence(z, correlation(covariance[np.ix_(keep, keep)]))
    scores = np.stack([backward(places[keep, k], axis.scale) for k, axis in enumerate(axes)], axis=1)
    return LemmaCase(
        p_value=draw(evidence, rng, DRAWS).p_value.value,
        places=scores,
        gap=total[keep] / mass[keep],
        se=se / mass[keep],
        z=z,
        effective=effective[keep],
    )


def _places(x: Floats, weight: Floats, deviation: Floats, rng: np.random.Generator) -> Floats:
    """Centres of clusters of the scores, (n_places, K); outcomes have no say in them."""
    chosen = rng.choice(len(x), size=min(SAMPLE, len(x)), p=weight / weight.sum())
    scale = np.where(deviation > 0, deviation, 1.0)
    sample = np.unique(x[chosen] / scale, axis=0)
    centres = sample[rng.choice(len(sample), min(PLACES, len(sample)), replace=False)]
    for _ in range(ROUNDS):  # Lloyd's k-means
        owner = ((sample[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        centres = np.stack([sample[owner == centre].mean(axis=0) for centre in np.unique(owner)])
    return centres * scale


def _sums(rows: _Residuals, places: Floats, bandwidth: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Near each place: the sum of w K r, of w K, of the users' squared sums of w K, and the covariance of the first over users."""
    n = len(places)
    total, mass, squares = np.zeros((3, n))
    covariance = np.zeros((n, n))
    for chosen, starts in _whole_users(rows.user):
        step = rows.take(chosen)
        kernel = np.repeat(step.weight[:, None], n, axis=1)
        for k in range(places.shape[1]):
            kernel *= np.exp(-0.5 * ((step.x[:, k][:, None] - places[:, k]) / bandwidth[k]) ** 2)
        own_mass = np.add.reduceat(kernel, starts)
        own = np.add.reduceat(kernel * step.residual[:, None], starts)
        total += own.sum(axis=0)
        mass += own_mass.sum(axis=0)
        squares += (own_mass**2).sum(axis=0)
        covariance += own.T @ own
    return total, mass, squares, covariance


def _whole_users(user: Array) -> Iterator[tuple[Ints, Ints]]:
    """Rows in steps that hold whole users side by side, and where in the step each user begins."""
    order = np.argsort(user, kind="stable")
    starts = run_starts(user[order])
    for users, some in whole_runs(starts, len(order), STEP):
        yield order[some], starts[users] - some.start


def _evidence(z: Floats, corr: Floats) -> Evidence:
    """The largest deviation and the sum of squares, each with its share of the level."""
    every = slice(0, len(z))
    values = np.asarray(np.linalg.eigvalsh(corr))
    tails: dict[str, tuple[Floats | None, Callable[[float], float]]] = {
        "sup": (np.ones(len(z)), SupTail.of(corr)),
        "l2": (None, lambda q: quadratic_tail(q, values)),
    }
    components = tuple(Component(name, every, *tails[name], share=share) for name, share in SHARES.items())
    no_cells, ones = np.zeros((len(z), 0)), np.ones(len(z))
    return Evidence(
        comparison=None, components=components, z=z, corr=corr, matrix_a=no_cells, matrix_b=no_cells, se_a=ones, se_b=ones
    )
