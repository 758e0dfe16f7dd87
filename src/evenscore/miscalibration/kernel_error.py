"""Calibration errors of smoothed residuals: the paper's consistent estimator of the true calibration error, and its CE_NP."""

from __future__ import annotations

import numpy as np

from evenscore.estimation.smoothing import Smoothing, unsmoothed
from evenscore.miscalibration.binned import equal_mass_shares
from evenscore.miscalibration.measure import Measure, norm_name
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

QUANTILES = 100


def kernel_error(view: GroupView, smoothing: Smoothing, power: int) -> Measure:
    """The error at every person's score: TCE = (E (f(S) - S)^2)^(1/2) (the paper's Section 7.1), smoothing Y - S and not Y.

    The residual of a calibrated score is zero everywhere, so smoothing it costs no bias there, whatever the bandwidth.
    """
    matrix = smoother_at(view, view.sums.position, smoothing)
    fit = view.score - view.tally.centre + matrix @ view.residual
    share = np.eye(len(view.sums.W))
    return Measure(
        matrix, view.sums.W / view.total, norm_name(power), matrix * fit, share=share, fit=fit, detail={"bandwidth": smoothing.h}
    )


def quantile_error(view: GroupView, smoothing: Smoothing, power: int) -> Measure:
    """CE_NP (the paper's Section 8): the error at 100 quantiles of the score, (q - 1/2) / 100 with people's weights, and averaged.

    As printed the sum lacks its 1/100, and the hundredth quantile is the maximum.
    """
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    points = view.quantiles(levels)
    matrix = smoother_at(view, points, smoothing)
    fit = view.score - view.tally.centre + smoother_at(view, view.sums.position, smoothing) @ view.residual
    share = equal_mass_shares(view.sums.W, QUANTILES)
    weight = np.full(QUANTILES, 1 / QUANTILES)
    share = share / np.maximum(share.sum(axis=0), 1e-300)
    # f(q) - q smooths the outcome; a local line gives back q itself, Nadaraya-Watson (degree 0) does not.
    offset = matrix @ (view.score * view.sums.W) - view.lattice.to_score(points)
    detail = {"bandwidth": smoothing.h, "points": QUANTILES}
    return Measure(matrix, weight, norm_name(power), matrix * fit, offset=offset, share=share, fit=fit, detail=detail)


def smoother_at(view: GroupView, points: Floats, smoothing: Smoothing) -> Floats:
    """The smoother's matrix; cells that stand alone, and scores with few values, are taken as they are."""
    position, weight = view.sums.position, view.sums.W
    nearest = np.abs(position[None, :] - points[:, None]).argmin(axis=1)
    alone = np.zeros((len(points), len(weight)))
    alone[np.arange(len(points)), nearest] = 1 / weight[nearest]
    if unsmoothed(view.lattice, view.sums):
        return alone
    matrix = smoothing.matrix(points, position, weight)
    lonely = ~np.isfinite(matrix).all(axis=1)
    matrix[lonely] = alone[lonely]
    return matrix
