"""Calibration errors of smoothed residuals: the paper's consistent estimator of the true calibration error, and its CE_NP."""

from __future__ import annotations

import math

import numpy as np

from evenscore.errors import hush
from evenscore.estimation.bandwidth import rule_of_thumb, settle
from evenscore.estimation.comparison import CELLS_A_BANDWIDTH
from evenscore.estimation.kernels import FEW_CELLS
from evenscore.estimation.smoothing import Smoothing, unsmoothed
from evenscore.miscalibration.binned import equal_mass_shares
from evenscore.miscalibration.measure import Measure, norm_name
from evenscore.tallies.view import GroupView
from evenscore.types import Floats, Ints

QUANTILES = 100
ROUGHER = 0.5  # of the bandwidth, where nothing may be hidden by smoothing
ALONE = 3  # users a score, on average, from which on few scores of a group are not smoothed: one person shows no noise


def kernel_error(view: GroupView, smoothing: Smoothing, power: int) -> Measure:
    """The error at every person's score: TCE = (E (f(S) - S)^2)^(1/2) (the paper's Section 7.1), smoothing Y - S and not Y.

    The residual of a calibrated score is zero everywhere, so smoothing it costs no bias there, whatever the bandwidth.
    """
    position = view.sums.position
    place = None if _as_they_are(view) else position
    return _everywhere(view, smoother_at(view, position, smoothing), power, smoothing.h, place)


def rougher_error(view: GroupView, smoothing: Smoothing, power: int) -> Measure | None:
    """The same with less smoothing, for what a wider one hides; None where scores are not smoothed.

    Half the bandwidth of a band, and along the score itself: where scores crowd at one end, a bandwidth in ranks at the other end
    spans scores that are far apart, and so may be their errors.
    """
    narrow, score = _rougher(view, smoothing), view.score
    if narrow is None or _as_they_are(view):
        return None
    matrix = narrow.matrix(score, score, view.sums.W)
    return _everywhere(view, _or_alone(view, matrix, np.arange(len(score))), power, narrow.h, score)


def _rougher(view: GroupView, smoothing: Smoothing) -> Smoothing | None:
    """That smoothing, along the score; None where all have one score."""
    score, weight = view.score, view.sums.W
    deviation = math.sqrt(float(weight @ (score - weight @ score / view.total) ** 2) / view.total)
    if deviation == 0:
        return None
    rule = Smoothing(smoothing.degree, smoothing.kernel, "band")
    return rule.at(ROUGHER * rule_of_thumb(rule, deviation=deviation, users=view.n_users))


def join_cells(view: GroupView, smoothing: Smoothing) -> GroupView:
    """A view on as few cells as its bandwidths allow, where cells are along the score: the axis of the narrower one."""
    narrow = _rougher(view, smoothing)
    if narrow is None or view.lattice.scale != "score":
        return view
    return view.joined(min(settle(smoothing, [view], hush).h / CELLS_A_BANDWIDTH, narrow.h / FEW_CELLS))


def _everywhere(view: GroupView, matrix: Floats, power: int, bandwidth: float, place: Floats | None) -> Measure:
    """The error at every cell, as its people weigh; place: where cells lie on the axis that is smoothed along, if it is."""
    fit = view.score - view.tally.centre + matrix @ view.residual
    return Measure(
        matrix,
        view.sums.W / view.total,
        norm_name(power),
        matrix * fit,
        share=np.eye(len(view.sums.W)),
        fit=fit,
        place=place,
        reach=bandwidth,
        detail={"bandwidth": bandwidth},
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
    matrix = np.full((len(points), len(weight)), np.nan)
    return _or_alone(view, matrix if _as_they_are(view) else smoothing.matrix(points, position, weight), nearest)


def _as_they_are(view: GroupView) -> bool:
    """Whether a group has few scores, and enough users at each."""
    return unsmoothed(view.lattice, view.sums) and view.n_users >= ALONE * len(view.used)


def _or_alone(view: GroupView, matrix: Floats, nearest: Ints) -> Floats:
    """A smoother's matrix with the nearest cell by itself where it has no value."""
    lonely = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    matrix[lonely] = 0.0
    matrix[lonely, nearest[lonely]] = 1 / view.sums.W[nearest[lonely]]
    return matrix
