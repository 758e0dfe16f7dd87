"""What calibrated scores add up to: mean outcome and mean calibrated score, per user and per row."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenscore.tallies.tally_state import Tally
from evenscore.tallies.view import GroupView


def mean_shifts(repaired: Tally, alpha: float) -> tuple[dict[str, Any], ...]:
    """Both means of each group, all together last (group None); ci_low, ci_high: outcome minus calibrated score per row.

    Limits hold for all groups at once (Bonferroni). Without labelled rows a group has none.
    """
    from scipy import special

    labels = [group for group in repaired.groups if repaired.n_rows[group]]
    z = float(special.ndtri(1 - alpha / 2 / (len(labels) + 1)))
    views = [[GroupView.of(repaired, group, weighting) for weighting in ("user", "row")] for group in labels]
    views.append([GroupView.whole(repaired, weighting) for weighting in ("user", "row")])
    return tuple(_means(by_user, by_row, z) for by_user, by_row in views)


def _means(by_user: GroupView, by_row: GroupView, z: float) -> dict[str, Any]:
    row: dict[str, Any] = {"group": by_user.label}
    for view, unit in ((by_user, "user"), (by_row, "row")):
        row[f"outcome_per_{unit}"] = view.mean + view.tally.centre
        row[f"calibrated_per_{unit}"] = float(view.sums.X.sum() / view.total)
    shift = row["outcome_per_row"] - row["calibrated_per_row"]
    half = z * _error(by_row, shift)
    return row | {"difference_per_row": shift, "ci_low": shift - half, "ci_high": shift + half}


def _error(view: GroupView, shift: float) -> float:
    """The user-robust standard error of a mean of outcome minus score."""
    used = view.at(view.used)
    fit = used.sums.X / used.sums.W + shift - view.tally.centre
    return float(np.sqrt(max(used.pairs.residual_sum(fit, fit), 0.0)) / view.total)
