"""Calibration errors of smoothed residuals: the paper's consistent estimator of the true calibration error, and its CE_NP."""

from __future__ import annotations

import numpy as np

from evenscore.estimation.fitted_curves import quantiles
from evenscore.estimation.kernels import smoother
from evenscore.miscalibration.binned import equal_mass_shares
from evenscore.miscalibration.measure import Measure, norm_name
from evenscore.miscalibration.scored_people import People
from evenscore.types import Floats

QUANTILES = 100


def kernel_error(people: People, *, bandwidth: float, kernel: str, degree: int, power: int) -> Measure:
    """The error at every person's score: TCE = (E (f(S) - S)^2)^(1/2) (the paper's Section 7.1), smoothing Y - S and not Y.

    The residual of a calibrated score is zero everywhere, so smoothing it costs no bias there, whatever the bandwidth.
    """
    matrix = _smoother_at(people, people.position, bandwidth, kernel, degree)
    fit = people.score - people.centre + matrix @ people.residual
    share = np.eye(len(people.weight))
    return Measure(
        matrix, people.weight / people.total, norm_name(power), matrix * fit, share=share, fit=fit, detail={"bandwidth": bandwidth}
    )


def quantile_error(people: People, *, bandwidth: float, kernel: str, degree: int, power: int) -> Measure:
    """CE_NP (the paper's Section 8): the error at 100 quantiles of the score, (q - 1/2) / 100 with people's weights, and averaged.

    As printed the sum lacks its 1/100, and the hundredth quantile is the maximum.
    """
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    points = quantiles(people.lattice, people.sums.W, levels)
    matrix = _smoother_at(people, points, bandwidth, kernel, degree)
    fit = people.score - people.centre + _smoother_at(people, people.position, bandwidth, kernel, degree) @ people.residual
    share = equal_mass_shares(people.weight, QUANTILES)
    weight = np.full(QUANTILES, 1 / QUANTILES)
    share = share / np.maximum(share.sum(axis=0), 1e-300)
    # f(q) - q smooths the outcome; a local line gives back q itself, Nadaraya-Watson (degree 0) does not.
    offset = matrix @ (people.score * people.weight) - people.lattice.to_score(points)
    detail = {"bandwidth": bandwidth, "points": QUANTILES}
    return Measure(matrix, weight, norm_name(power), matrix * fit, offset=offset, share=share, fit=fit, detail=detail)


def _smoother_at(people: People, points: Floats, bandwidth: float, kernel: str, degree: int) -> Floats:
    """The smoother's matrix; cells that stand alone, and scores with few values, are taken as they are."""
    nearest = np.abs(people.position[None, :] - points[:, None]).argmin(axis=1)
    alone = np.zeros((len(points), len(people.weight)))
    alone[np.arange(len(points)), nearest] = 1 / people.weight[nearest]
    if people.unsmoothed:
        return alone
    matrix = smoother(
        points=points,
        positions=people.position,
        weight=people.weight,
        bandwidth=bandwidth,
        degree=degree,
        kernel=kernel,
        near=False,
    ).matrix
    lonely = ~np.isfinite(matrix).all(axis=1)
    matrix[lonely] = alone[lonely]
    return matrix
