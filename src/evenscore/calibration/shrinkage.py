"""Small groups lean on everybody: a group's own map moves the pooled map only as far as users left out show that it helps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenscore.calibration.maps import GroupMap
from evenscore.calibration.stacking import LEAST, ROUNDED, simplex_minimum, sure_share
from evenscore.tallies.view import GroupView
from evenscore.types import Floats


def own_share(view: GroupView, own: Floats, pooled: Floats) -> float:
    """How much of a group's map should be its own, from 0 (the pooled map) to 1.

    own, pooled: both maps at the cells without each user fold, (n_folds, n_cells). The mixture with the smallest squared error on
    users left out (stacking, Breiman 1996), and from the pooled map towards it only as far as its gain is sure.
    """
    if not view.folds.W.any():
        return 1.0
    stacked = np.array([pooled, own])
    quadratic = np.einsum("ikc,jkc,kc->ij", stacked, stacked, view.folds.W, optimize=True)
    linear = np.einsum("ikc,kc->i", stacked, view.folds.Y, optimize=True)
    best = float(simplex_minimum(quadratic, linear)[1])
    losses = [view.fold_losses(values).sum(axis=1) for values in (pooled, (1 - best) * pooled + best * own)]
    share = best * sure_share(losses[0] - losses[1], ROUNDED * float(view.folds.Y2.sum()))
    return 0.0 if share < LEAST else share


def mix_maps(own: GroupMap, pooled: GroupMap, share: float) -> GroupMap:
    """The map that is so much the group's own, at the knots of both."""
    if share == 0:
        return replace(pooled, group=own.group, users=own.users, rows=own.rows, low=own.low, high=own.high, source="pooled")
    if share == 1:
        return own
    score = np.union1d(own.score, pooled.score)
    trials = None
    if own.trials is not None and pooled.trials is not None:
        doubt = share * np.interp(score, own.score, own.trials) ** -0.5
        doubt += (1 - share) * np.interp(score, pooled.score, pooled.trials) ** -0.5
        trials = doubt**-2
    return replace(
        own,
        score=score,
        value=share * own.at(score) + (1 - share) * pooled.at(score),
        factor=np.hstack(_scaled(own.design(score) @ own.factor * share, pooled.design(score) @ pooled.factor * (1 - share))),
        words=f"{own.words}; {share:.0%} its own map, the rest the pooled map",
        trials=trials,
    )


def _scaled(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Factors of two estimates such that together they are at least as uncertain as their sum, however they are correlated.

    Cov(x + y) <= (1 + t) Cov x + (1 + 1/t) Cov y for any t > 0; the sharpest t is the ratio of their standard deviations.
    """
    sizes = [float(np.sqrt((factor**2).sum())) for factor in (first, second)]
    if not all(sizes):
        return first, second
    ratio = sizes[1] / sizes[0]
    return first * np.sqrt(1 + ratio), second * np.sqrt(1 + 1 / ratio)
