"""What a repair does to accuracy: squared error, log loss and AUC before and after, by group, from the tally's cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.calibration.calibrated_tally import carried_maps
from evenscore.calibration.calibrator import Calibrator
from evenscore.estimation.inference import normal_quantile
from evenscore.estimation.units import scale_mismatch
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

NEAREST = 1e-6  # log loss takes no probability nearer to 0 or 1


@dataclass(frozen=True, slots=True)
class Accuracy:
    """One group (None: all), each pair before and after; mse_low, mse_high: an interval for the change of the squared error."""

    group: Any
    users: int
    rows: int
    mse: tuple[float, float]
    mse_low: float
    mse_high: float
    log_loss: tuple[float, float]
    auc: tuple[float, float]

    def row(self) -> dict[str, Any]:
        """As a row of a table."""
        return {
            "group": self.group,
            "users": self.users,
            "rows": self.rows,
            "mse_before": self.mse[0],
            "mse_after": self.mse[1],
            "mse_change": self.mse[1] - self.mse[0],
            "ci_low": self.mse_low,
            "ci_high": self.mse_high,
            "log_loss_before": self.log_loss[0],
            "log_loss_after": self.log_loss[1],
            "auc_before": self.auc[0],
            "auc_after": self.auc[1],
        }


@dataclass(frozen=True, slots=True)
class _Scored:
    """A group, its scores after the repair at the cells (n_cells,), and the variance of its users' contributions to the change."""

    view: GroupView
    after: Floats
    variance: float


def accuracies(
    tally: Tally, calibrator: Calibrator, on_unknown: str, weighting: str, alpha: float, same_scale: bool | None = None
) -> tuple[Accuracy, ...]:
    """For each group, and for all together; nothing is said about errors of scores that are not on the scale of the outcome."""
    maps = carried_maps(tally, calibrator, on_unknown)
    scored = []
    for view in GroupView.each(tally, weighting):
        group_map = maps[view.label]
        after = view.score if group_map is None else group_map.at(view.score)
        scored.append(_Scored(view, after, _change_variance(view, after)))
    rows = [_accuracy(own.view.label, [own], tally, alpha) for own in scored]
    if len(scored) > 1:
        rows.append(_accuracy(None, scored, tally, alpha))
    return tuple(map(_without_before, rows) if scale_mismatch(tally, same_scale) else rows)


def _without_before(accuracy: Accuracy) -> Accuracy:
    """Without what would compare old scores with outcomes; their order still says something."""
    mse, log_loss = ((np.nan, after) for _, after in (accuracy.mse, accuracy.log_loss))
    return replace(accuracy, mse=mse, mse_low=np.nan, mse_high=np.nan, log_loss=log_loss)


def _accuracy(group: Any, scored: list[_Scored], tally: Tally, alpha: float) -> Accuracy:
    views = [own.view for own in scored]
    centre = tally.centre
    weight = np.concatenate([view.sums.W for view in views])
    outcome = np.concatenate([view.sums.Y + centre * view.sums.W for view in views])
    squares = np.concatenate([view.sums.Y2 + 2 * centre * view.sums.Y + centre**2 * view.sums.W for view in views])
    scores = np.concatenate([view.score for view in views]), np.concatenate([own.after for own in scored])
    total = weight.sum()
    unknown = (np.nan, np.nan)
    mse = log_loss = auc = unknown
    half = np.nan
    if total > 0:
        before, after = (float((squares - 2 * score * outcome + score**2 * weight).sum() / total) for score in scores)
        mse = before, after
        half = float(normal_quantile(alpha) * np.sqrt(sum(own.variance for own in scored)) / total)
        if tally.binary:
            log_loss = _log_loss(scores[0], weight, outcome), _log_loss(scores[1], weight, outcome)
            auc = _auc(scores[0], weight, outcome), _auc(scores[1], weight, outcome)
    return Accuracy(
        group=group,
        users=sum(view.n_users for view in views),
        rows=sum(view.n_rows for view in views),
        mse=mse,
        mse_low=mse[1] - mse[0] - half,
        mse_high=mse[1] - mse[0] + half,
        log_loss=log_loss,
        auc=auc,
    )


def _change_variance(view: GroupView, after: Floats) -> float:
    """The variance of the total change sum_c (t^2 - s^2) w - 2 (t - s) y over users, around its mean a user's weight."""
    before, sums = view.score, view.sums
    if sums.W.sum() == 0:
        return 0.0
    on_outcome = -2 * (after - before)
    on_weight = after**2 - before**2 + on_outcome * view.tally.centre
    mean = (on_weight @ sums.W + on_outcome @ sums.Y) / sums.W.sum()
    a, pairs = on_weight - mean, view.pairs
    total = a @ pairs.ww @ a + 2 * a @ pairs.wy @ on_outcome + on_outcome @ pairs.yy @ on_outcome
    return max(float(total), 0.0)


def _log_loss(score: Floats, weight: Floats, outcome: Floats) -> float:
    """The mean of -y log p - (1 - y) log(1 - p); nan when scores are no probabilities."""
    used = weight > 0
    if (score[used] < 0).any() or (score[used] > 1).any():
        return np.nan
    p = np.clip(score, NEAREST, 1 - NEAREST)
    return float(-(outcome @ np.log(p) + (weight - outcome) @ np.log1p(-p)) / weight.sum())


def _auc(score: Floats, weight: Floats, outcome: Floats) -> float:
    """The share of pairs of a positive and a negative outcome that the score orders rightly, ties counting half."""
    _, rank = np.unique(score, return_inverse=True)
    positive, negative = np.bincount(rank, outcome), np.bincount(rank, weight - outcome)
    if positive.sum() <= 0 or negative.sum() <= 0:
        return np.nan
    below = np.cumsum(negative) - negative / 2
    return float(positive @ below / (positive.sum() * negative.sum()))
