"""How close scores come to outcomes: squared errors of every version, and the weights that would blend scores best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.errors import renamed
from evenscore.multiobjective.calibrator import check_weights
from evenscore.multiobjective.rows import N_FOLDS, ObjectivesSpec
from evenscore.multiobjective.versions import BEFORE, Objectives, Target, composite_target, read_objectives, row_weights
from evenscore.tables import Table, values_of
from evenscore.threads import in_one_thread
from evenscore.types import Array, Floats, Say
from evenscore.wording import number_text


def squared_errors(objectives: Objectives, targets: Sequence[Target]) -> list[dict[str, Any]]:
    """The mean squared error of each version and target, each user weighing the same, by group (None: all).

    change: from the scores as they were, with its user-robust standard error.
    """
    rows = objectives.rows
    codes = rows.users_in_groups()
    table = []
    for target in targets:
        weight = row_weights(rows, target.labelled, codes)
        losses = {name: (target.outcome - scores @ target.weights) ** 2 for name, scores in objectives.versions.items()}
        in_group = [(None, weight), *((label, weight * (rows.group == code)) for code, label in enumerate(rows.groups))]
        for group, own in in_group:
            for name, loss in losses.items():
                change, se = mean_by_user(loss - losses[BEFORE], own, rows.user)
                mse = float(own @ loss / own.sum())
                table.append({"target": target.name, "group": group, "version": name, "mse": mse, "change": change, "se": se})
    return table


def mean_by_user(values: Floats, weight: Floats, user: Array) -> tuple[float, float]:
    """A weighted mean of rows and its standard error, users being independent."""
    total = weight.sum()
    mean = float(weight @ values / total)
    sums = np.bincount(user, weight * (values - mean))
    n_users = int((np.bincount(user, weight) > 0).sum())
    return mean, float(np.sqrt((sums**2).sum() * n_users / max(n_users - 1, 1)) / total)


@dataclass(frozen=True, slots=True, repr=False)
class BetterWeights(Table):
    """The weights that predict the blended outcome best, by least squares on the scores; made by ``es.better_weights``.

    weights: as given, (K,). better, se: (K,) least squares and their user-robust standard errors. mse: of the blended score with
    the given weights; mse_better: with the better ones, each on users left out of the fit; gain: what is gained, with its se.

    Examples
    --------
    >>> import evenscore as es
    >>> from evenscore.simulation.objectives import feed
    >>> posts = feed(150).data(seed=1)
    >>> columns = dict(scores=["score_like", "score_share"], outcomes=["like", "share"], group="group", user="user")
    >>> better = es.better_weights(posts, **columns, weights=[1, 2])
    >>> [round(float(row["better"]), 2) for row in better.rows()]
    [1.05, 2.0]
    """

    outcomes: tuple[str, ...]
    weights: Floats
    better: Floats
    se: Floats
    mse: float
    mse_better: float
    gain: float
    gain_se: float
    frame_kind: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One row for each score."""
        columns = zip(self.outcomes, self.weights.tolist(), self.better.tolist(), self.se.tolist(), strict=True)
        return [dict(zip(("outcome", "weight", "better", "se"), line, strict=True)) for line in columns]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        return Table.to_dict(self) | values_of(self, ("mse", "mse_better", "gain", "gain_se"))

    def _title(self) -> str:
        gain = f"{number_text(self.gain)} ± {number_text(self.gain_se)}"
        return f"Better weights: squared error {number_text(self.mse)} becomes {number_text(self.mse_better)} (gain {gain})"

    def _notes(self) -> list[str]:
        return ["better: least squares of the blended outcome on the scores; errors are those of users left out of the fit"]


@renamed(say="progress")
@in_one_thread
def better_weights(
    data: Any,
    *,
    scores: Sequence[Any],
    outcomes: Sequence[Any],
    group: Any,
    user: Any,
    weights: Any,
    calibrator: Any = None,
    weight: Any = None,
    nulls: str = "unlabelled",
    split: str | None = None,
    progress: Say | None = None,
) -> BetterWeights:
    """The weights of the scores whose blend comes closest to the blended outcome, a remark of the paper's fifth section.

    They minimise the squared error of :math:`\\sum_k \\tilde w_k S_k` for :math:`\\sum_k w_k Y_k`.

    They differ from ``weights`` when some score tells of another's outcome; after joint calibration they do not, up to noise.

    Parameters
    ----------
    data, scores, outcomes, group, user, weight, nulls, split
        As for ``es.calibrate_jointly``.
    weights
        The weights of the outcomes: a list, or a dict by outcome.
    calibrator
        Use scores calibrated with it.
    progress
        Progress callback: called with what is being done, in words.

    Returns
    -------
    BetterWeights
        The weights with their standard errors, and what they would gain in squared error.

    Examples
    --------
    >>> import evenscore as es
    >>> from evenscore.simulation.objectives import feed
    >>> posts = feed(150).data(seed=1)
    >>> columns = dict(scores=["score_like", "score_share"], outcomes=["like", "share"], group="group", user="user")
    >>> better = es.better_weights(posts, **columns, weights=[1, 2])
    >>> [round(float(row["better"]), 2) for row in better.rows()]
    [1.05, 2.0]
    """
    spec = ObjectivesSpec(scores=scores, outcomes=outcomes, group=group, user=user, weight=weight, nulls=nulls, split=split)
    objectives = read_objectives(data, spec, calibrator, progress)
    columns = objectives.rows.columns
    return weights_for(objectives, objectives.last, check_weights(weights, columns.scores, columns.outcomes))


def weights_for(objectives: Objectives, version: str, weights: Floats) -> BetterWeights:
    """Least squares, with errors on users left out by fold."""
    rows, scores = objectives.rows, objectives.versions[version]
    target = composite_target(rows, weights)
    weight = row_weights(rows, target.labelled)
    fold = rows.fold[rows.user]
    better = _least_squares(scores, target.outcome, weight)
    fitted = np.empty(rows.n_rows)
    for left_out in range(N_FOLDS):
        mine = fold == left_out
        fitted[mine] = scores[mine] @ _least_squares(scores, target.outcome, weight * ~mine)
    old, new = (target.outcome - scores @ weights) ** 2, (target.outcome - fitted) ** 2
    gain, gain_se = mean_by_user(old - new, weight, rows.user)
    return BetterWeights(
        outcomes=rows.columns.outcomes,
        weights=weights,
        better=better,
        se=_standard_errors(scores, target.outcome - scores @ better, weight, rows.user),
        mse=mean_by_user(old, weight, rows.user)[0],
        mse_better=mean_by_user(new, weight, rows.user)[0],
        gain=gain,
        gain_se=gain_se,
        frame_kind=rows.frame,
    )


def _least_squares(scores: Floats, outcome: Floats, weight: Floats) -> Floats:
    gram = scores.T @ (scores * weight[:, None])
    return np.asarray(np.linalg.lstsq(gram, scores.T @ (weight * outcome), rcond=None)[0])


def _standard_errors(scores: Floats, residual: Floats, weight: Floats, user: Array) -> Floats:
    """Sandwich: A^-1 (sum_m u_m u_m') A^-1 with u_m the user's sum of w S (Y - S'b)."""
    inverse = np.linalg.pinv(scores.T @ (scores * weight[:, None]))
    sums = np.stack([np.bincount(user, weight * residual * scores[:, k]) for k in range(scores.shape[1])], axis=1)
    return np.sqrt(np.diag(inverse @ (sums.T @ sums) @ inverse))
