"""The area under the ROC curve by group, with limits that respect users.

The area is the probability that a positive outscores a negative, ties counting one half. What is known is in which cells they are:
two of one cell are taken as a tie, so the area may be off by half the probability that they share one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.estimation.inference import DRAWS, RESOLVED, correlation, draw_normal, normal_quantile, seeded, welch_t
from evenscore.estimation.multiplicity import single_step
from evenscore.estimation.pairwise import index_pairs
from evenscore.tallies.view import GroupView
from evenscore.types import Floats


@dataclass(frozen=True, slots=True)
class Area:
    """One group's area. by_weight, by_outcome: (n_cells,), how much a user's weight and outcome in a cell move it; error: how
    far it may be off because cells are coarse; df: degrees of freedom by the effective positives and negatives."""

    view: GroupView
    value: float
    error: float
    by_weight: Floats
    by_outcome: Floats
    df: float


def area(view: GroupView, positive: str) -> Area | None:
    """The area of one group; None without a positive or a negative."""
    events = view.sums.Y
    others = np.maximum(view.sums.W - events, 0)
    n_events, n_others = float(events.sum()), float(others.sum())
    if not (n_events > 0 and n_others > 0):
        return None
    below = (np.cumsum(others) - others / 2) / n_others  # the share of negatives that a positive of this cell outscores
    above = 1 - (np.cumsum(events) - events / 2) / n_events  # the share of positives that outscore a negative of this cell
    if positive == "below":
        below, above = 1 - below, 1 - above
    value = float(events @ below / n_events)
    error = float(events @ others / (2 * n_events * n_others)) if not view.lattice.discrete else 0.0
    by_weight = (above - value) / n_others
    by_outcome = (below - value) / n_events - by_weight
    users = []
    for of_weight, of_outcome, total in ((0.0, 1.0, n_events), (1.0, -1.0, n_others)):
        pairs = view.pairs
        squares = of_weight**2 * pairs.ww.sum() + 2 * of_weight * of_outcome * pairs.wy.sum() + of_outcome**2 * pairs.yy.sum()
        users.append(total**2 / squares if squares > 0 else 0.0)
    return Area(view, value, error, by_weight, by_outcome, max(min(users) - 1, 0.5))


def covariance(a: Area, b: Area) -> float:
    """Of two groups' areas, or of one with itself: DeLong's (1988) with users in place of rows."""
    pairs = a.view.pairs if a is b else a.view.shared_pairs(b.view)
    if pairs is None:
        return 0.0
    from_w, from_y = a.by_weight @ pairs.ww + a.by_outcome @ pairs.yw, a.by_weight @ pairs.wy + a.by_outcome @ pairs.yy
    return float(from_w @ b.by_weight + from_y @ b.by_outcome)


def area_rows(
    views: Sequence[GroupView], positive: str, alpha: float, seed: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """One row a group, and one for each pair of groups that both have an area."""
    areas = [area(view, positive) for view in views]
    z = normal_quantile(alpha)
    rows = [_row(view, own, z) for view, own in zip(views, areas, strict=True)]
    known = [own for own in areas if own is not None]
    cover = np.array([[covariance(a, b) for b in known] for a in known]).reshape(len(known), len(known))
    return rows, _differences(known, (cover + cover.T) / 2, z, seed)


def _row(view: GroupView, own: Area | None, z: float) -> dict[str, Any]:
    if own is None:
        empty = dict.fromkeys(("estimate", "ci_low", "ci_high", "cell_error"), np.nan)
        return {"group": view.label, **empty, "users": view.n_users, "reason": "there are no positives, or no negatives"}
    se = np.sqrt(max(covariance(own, own), 0.0)) * (own.df + 1) / own.df
    far = float(welch_t(np.array(z), np.array(own.df)))
    low, high = _logit_limits(own.value, far * se)
    numbers = {"estimate": own.value, "ci_low": low, "ci_high": high, "cell_error": own.error}
    return {"group": view.label, **numbers, "users": view.n_users, "reason": ""}


def _logit_limits(value: float, distance: float) -> tuple[float, float]:
    """Limits on the scale of log odds; an area of 0 or 1 has the whole distance towards the other end only."""
    from scipy import special

    spread = value * (1 - value)
    if not spread > 0:
        return max(0.0, value - distance), min(1.0, value + distance)
    middle = special.logit(value)
    return float(special.expit(middle - distance / spread)), float(special.expit(middle + distance / spread))


def _differences(areas: Sequence[Area], cover: Floats, z: float, seed: int) -> list[dict[str, Any]]:
    """Differences of areas with limits, and p-values adjusted by joint draws."""
    from scipy import special

    pairs = index_pairs(range(len(areas)), None)
    if not pairs:
        return []
    left, right = np.array(pairs).T
    apart = np.zeros((len(pairs), len(areas)))
    apart[np.arange(len(pairs)), left], apart[np.arange(len(pairs)), right] = 1, -1
    joint = apart @ cover @ apart.T
    se = np.sqrt(np.maximum(np.diag(joint), 0))
    df = np.minimum([areas[i].df for i in left], [areas[j].df for j in right])
    size = apart @ np.array([own.value for own in areas])
    far = welch_t(np.full(len(pairs), z), df)
    p_values = np.where(se > 0, 2 * special.stdtr(df, -np.abs(size) / np.where(se > 0, se, 1.0)), 1.0)
    adjusted = p_values
    if len(pairs) > 1:
        largest = np.abs(draw_normal(correlation(joint), seeded(seed, 22), DRAWS)).max(axis=1)
        adjusted, _ = single_step(p_values, 2 * special.ndtr(-largest), RESOLVED)
    return [
        {
            "group_a": areas[i].view.label,
            "group_b": areas[j].view.label,
            "difference": float(size[k]),
            "ci_low": float(size[k] - far[k] * se[k]),
            "ci_high": float(size[k] + far[k] * se[k]),
            "p_value": float(p_values[k]),
            "p_adjusted": float(adjusted[k]),
        }
        for k, (i, j) in enumerate(pairs)
    ]
