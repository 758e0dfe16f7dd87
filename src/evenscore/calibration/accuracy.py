"""What a repair does to accuracy: squared error, log loss and AUC before and after, by group, from the tally's cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.calibration.calibrated_tally import carried_maps
from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.maps import mean_scores
from evenscore.tallies.tally_state import CellSums, Tally
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
class _Side:
    """A group's sums, its scores before and after at the cells (n_cells,), and its users' contributions to the change."""

    sums: CellSums
    before: Floats
    after: Floats
    variance: float


def accuracies(tally: Tally, calibrator: Calibrator, on_unknown: str, weighting: str, alpha: float) -> tuple[Accuracy, ...]:
    """For each group, and for all together."""
    maps = carried_maps(tally, calibrator, on_unknown)
    sides = []
    for group in tally.groups:
        sums = tally.sums(group, weighting)
        before = mean_scores(tally, sums)
        group_map = maps[group]
        after = before if group_map is None else group_map.at(before)
        sides.append(_Side(sums, before, after, _change_variance(tally, group, weighting, sums, before, after)))
    found = [
        _accuracy(group, [side], tally.n_users[group], tally.n_rows[group], tally, alpha)
        for group, side in zip(tally.groups, sides, strict=True)
    ]
    if len(sides) > 1:
        found.append(_accuracy(None, sides, sum(tally.n_users.values()), sum(tally.n_rows.values()), tally, alpha))
    return tuple(found)


def _accuracy(group: Any, sides: list[_Side], users: int, rows: int, tally: Tally, alpha: float) -> Accuracy:
    from scipy import special

    weight = np.concatenate([side.sums.W for side in sides])
    outcome = np.concatenate([side.sums.Y + tally.centre * side.sums.W for side in sides])
    squares = np.concatenate([side.sums.Y2 + 2 * tally.centre * side.sums.Y + tally.centre**2 * side.sums.W for side in sides])
    scores = [np.concatenate([getattr(side, name) for side in sides]) for name in ("before", "after")]
    total = weight.sum()
    if total == 0:
        return Accuracy(group, users, rows, (np.nan, np.nan), np.nan, np.nan, (np.nan, np.nan), (np.nan, np.nan))
    mse = tuple(float((squares - 2 * score * outcome + score**2 * weight).sum() / total) for score in scores)
    half = float(special.ndtri(1 - alpha / 2) * np.sqrt(sum(side.variance for side in sides)) / total)
    unknown = (np.nan, np.nan)
    change = mse[1] - mse[0]
    return Accuracy(
        group,
        users,
        rows,
        (mse[0], mse[1]),
        change - half,
        change + half,
        (_log_loss(scores[0], weight, outcome), _log_loss(scores[1], weight, outcome)) if tally.binary else unknown,
        (_auc(scores[0], weight, outcome), _auc(scores[1], weight, outcome)) if tally.binary else unknown,
    )


def _change_variance(tally: Tally, group: Any, weighting: str, sums: CellSums, before: Floats, after: Floats) -> float:
    """The variance of the total change sum_c (t^2 - s^2) w - 2 (t - s) y over users, around its mean a user's weight."""
    pairs = tally.pair_matrices(group, group, weighting)
    assert pairs is not None
    if sums.W.sum() == 0:
        return 0.0
    on_outcome = -2 * (after - before)
    on_weight = after**2 - before**2 + on_outcome * tally.centre
    mean = (on_weight @ sums.W + on_outcome @ sums.Y) / sums.W.sum()
    a = on_weight - mean
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
    _, place = np.unique(score, return_inverse=True)
    positive, negative = np.bincount(place, outcome), np.bincount(place, weight - outcome)
    if positive.sum() <= 0 or negative.sum() <= 0:
        return np.nan
    below = np.cumsum(negative) - negative / 2
    return float(positive @ below / (positive.sum() * negative.sum()))
