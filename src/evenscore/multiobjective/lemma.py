"""The lemma's condition, tested directly: given all scores, and in every group, is the expected outcome the score itself?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.errors import require_alpha
from evenscore.estimation.gaps import MIN_EFFECTIVE
from evenscore.estimation.inference import DRAWS, correlation, quadratic_tail, seeded, sup_tail, welch_z
from evenscore.estimation.multiplicity import holm
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, combine, smallest
from evenscore.multiobjective.axes import Axis, make_axes
from evenscore.multiobjective.product_kernel import rule_of_thumb
from evenscore.multiobjective.rows import JointRows, observe_jointly
from evenscore.multiobjective.versions import row_weights, versions_of
from evenscore.parity.methods import COMPONENTS, Component, Evidence, draw_statistics, p_value
from evenscore.tables import Table, json_ready, label_text, number_text, p_text
from evenscore.tallies.axis import backward
from evenscore.types import Array, Floats, Ints, Say

PLACES = 25  # combinations of scores to look at, spread like the people
SAMPLE = 4000  # rows that say how people are spread
ROUNDS = 10
STEP = 1 << 16


@dataclass(frozen=True, slots=True)
class LemmaPart:
    """One group and objective.

    places: (n_places, K) scores looked at; gap: (n_places,) the mean of Y_k - S_k near each, se: its standard error, z: in
    standard errors as a normal quantile, effective: users it rests on.
    """

    group: Any
    outcome: str
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


@dataclass(frozen=True, slots=True, repr=False)
class LemmaTest(Table):
    """The result of ``es.joint_calibration_test``: one part for each group and objective."""

    parts: tuple[LemmaPart, ...]
    scores: tuple[str, ...]
    alpha: float
    version: str
    frame_kind: str | None = None

    @property
    def null(self) -> str:
        """What is tested, in words."""
        return "in every group, people with the same scores (all of them) have each score as their expected outcome"

    @property
    def p_value(self) -> float:
        """The smallest adjusted p-value; nan when nothing could be judged."""
        return smallest(part.p_adjusted for part in self.parts)

    @property
    def verdict(self) -> str:
        """ "disparity" when the condition is shown to fail in some group, else "inconclusive"."""
        return combine(part.verdict for part in self.parts)

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        failing = [f"{part.outcome} in {label_text(part.group)}" for part in self.parts if part.verdict == DISPARITY]
        if failing:
            return "given all scores, the expected outcome is not the score: " + ", ".join(failing)
        unjudged = dict.fromkeys(part.reason for part in self.parts if not np.isfinite(part.p_value))
        return "; ".join(["no deviation is shown", *unjudged])

    def rows(self) -> list[dict[str, Any]]:
        """One row for each group and objective; max_gap: the deviation that is largest in standard errors, at those scores."""
        table = []
        for part in self.parts:
            worst = part.worst
            row = {"group": part.group, "outcome": part.outcome, "p_value": part.p_value, "p_adjusted": part.p_adjusted}
            row["max_gap"] = np.nan if worst is None or part.gap is None else float(part.gap[worst])
            at = np.full(len(self.scores), np.nan) if worst is None or part.places is None else part.places[worst]
            row |= {f"at_{name}": float(value) for name, value in zip(self.scores, at, strict=True)}
            table.append(row | {"verdict": part.verdict})
        return table

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        names = ("null", "version", "alpha", "p_value", "verdict", "reason")
        return {name: json_ready(getattr(self, name)) for name in names} | {"rows": json_ready(self.rows())}

    def _title(self) -> str:
        return f"Calibration given all scores ({self.version}): {self.verdict}, p = {p_text(self.p_value)}"

    def _notes(self) -> list[str]:
        return [f"null: {self.null}", f"verdict: {self.verdict}, because {self.reason}"]


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
    say: Say | None = None,
) -> LemmaTest:
    """Test E(Y_k | S_1 ... S_K, G) = S_k for every k and group: then every blend is calibrated and fair (the paper's lemma).

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
    say
        Called with words of progress now and then.

    Returns
    -------
    LemmaTest
        A verdict, and one part for each group and objective.
    """
    require_alpha(alpha)
    rows = observe_jointly(
        data, scores=scores, outcomes=outcomes, group=group, user=user, weight=weight, nulls=nulls, split=split, say=say
    )
    name, values = list(versions_of(rows, calibrator).items())[-1]
    return lemma_test(rows, values, name, alpha, seed)


def lemma_test(rows: JointRows, scores: Floats, version: str, alpha: float, seed: int) -> LemmaTest:
    """The test for one version of the scores."""
    axes = make_axes(list(scores.T), rows.columns.scores, "auto", 2)
    x = np.stack([axis.position(scores[:, k]) for k, axis in enumerate(axes)], axis=1)
    codes = rows.users_in_groups()
    parts = []
    for k, outcome in enumerate(rows.columns.outcomes):
        weight = row_weights(rows, rows.labelled[k], codes)
        residual = rows.outcomes[k].astype(np.float64) - scores[:, k]
        for place, label in enumerate(rows.groups):
            mine = np.flatnonzero((rows.group == place) & (weight > 0))
            rng = seeded(seed, k, place)
            part = _one(x[mine], weight[mine], residual[mine], rows.user[mine], axes, rng)
            parts.append(replace(part, group=label, outcome=outcome))
    adjusted = holm(np.array([part.p_value for part in parts]))
    judged = [
        replace(part, p_adjusted=float(p), verdict=DISPARITY if p <= alpha else INCONCLUSIVE, reason=part.reason or _found(part))
        for part, p in zip(parts, adjusted, strict=True)
    ]
    return LemmaTest(tuple(judged), rows.columns.scores, alpha, version, rows.frame)


def _found(part: LemmaPart) -> str:
    worst = part.worst
    if worst is None or part.gap is None:
        return ""
    return f"the outcome is {number_text(float(part.gap[worst]))} away from the score where it is farthest in standard errors"


def _one(x: Floats, weight: Floats, residual: Floats, user: Array, axes: tuple[Axis, ...], rng: np.random.Generator) -> LemmaPart:
    """One group and objective."""
    n_users = len(np.unique(user))
    if n_users < MIN_EFFECTIVE:
        return LemmaPart(None, "", reason=f"a group has only {n_users} users with an outcome, fewer than {MIN_EFFECTIVE}")
    deviation = np.sqrt(np.maximum(weight @ (x - weight @ x / weight.sum()) ** 2 / weight.sum(), 0.0))
    bandwidth = np.where(deviation > 0, rule_of_thumb(deviation, n_users), 1.0)
    places = _places(x, weight, deviation, rng)
    total, mass, squares, covariance = _sums(x, weight, residual, user, places, bandwidth)
    effective = mass**2 / squares
    variance = np.diag(covariance)
    keep = (effective >= MIN_EFFECTIVE) & (variance > 0)
    if not keep.any():
        if (variance == 0).all():  # outcomes that are the score itself, in every row
            return LemmaPart(None, "", p_value=1.0, reason="every outcome near is the score itself")
        return LemmaPart(None, "", reason=f"nowhere are {MIN_EFFECTIVE} effective users near the same scores")
    factor = effective[keep] / (effective[keep] - 1)
    se = np.sqrt(variance[keep]) * factor
    z = welch_z(total[keep] / se, effective[keep] - 1)
    evidence = _evidence(z, correlation(covariance[np.ix_(keep, keep)]))
    _, statistics = draw_statistics(evidence, rng, DRAWS)
    scores = np.stack([backward(places[keep, k], axis.scale) for k, axis in enumerate(axes)], axis=1)
    return LemmaPart(
        None,
        "",
        p_value=p_value(evidence, statistics).value,
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
        centres = np.stack([sample[owner == place].mean(axis=0) for place in np.unique(owner)])
    return centres * scale


def _sums(
    x: Floats, weight: Floats, residual: Floats, user: Array, places: Floats, bandwidth: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Near each place: the sum of w K r, of w K, of the users' squared sums of w K, and the covariance of the first over users."""
    n = len(places)
    total, mass, squares, covariance = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros((n, n))
    for chosen, starts in _whole_users(user):
        kernel = np.repeat(weight[chosen][:, None], n, axis=1)
        for k in range(x.shape[1]):
            kernel *= np.exp(-0.5 * ((x[chosen, k][:, None] - places[:, k]) / bandwidth[k]) ** 2)
        own_mass = np.add.reduceat(kernel, starts)
        own = np.add.reduceat(kernel * residual[chosen][:, None], starts)
        total += own.sum(axis=0)
        mass += own_mass.sum(axis=0)
        squares += (own_mass**2).sum(axis=0)
        covariance += own.T @ own
    return total, mass, squares, covariance


def _whole_users(user: Array) -> Iterator[tuple[Ints, Ints]]:
    """Rows in steps that hold whole users side by side, and where in the step each user begins."""
    order = np.argsort(user, kind="stable")
    ordered = user[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    first = 0
    while first < len(starts):
        begin = int(starts[first])
        last = max(first + 1, int(np.searchsorted(starts, begin + STEP)))
        end = int(starts[last]) if last < len(starts) else len(order)
        yield order[begin:end], starts[first:last] - begin
        first = last


def _evidence(z: Floats, corr: Floats) -> Evidence:
    """The largest deviation and the sum of squares, with the shares of the level that the parity test gives them."""
    every = slice(0, len(z))
    values = np.asarray(np.linalg.eigvalsh(corr))
    tails: dict[str, tuple[Callable[[Floats], Floats], Callable[[float], float]]] = {
        "sup": (lambda d: np.abs(d).max(axis=-1), lambda q: sup_tail(q, corr)),
        "l2": (lambda d: (d * d).sum(axis=-1), lambda q: quadratic_tail(q, values)),
    }
    components = tuple(Component(name, every, *tails[name], share=share) for name, share in COMPONENTS["combined"].items())
    none = np.zeros((len(z), 0))
    return Evidence(components, z, corr, np.ones(len(z)), none, none)
