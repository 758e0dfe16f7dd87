"""Smooth calibration error (Błasiok and Nakkiran 2023): residuals smoothed just as much as the error is large."""

from __future__ import annotations

import numpy as np

from evenscore.errors import DataError
from evenscore.miscalibration.measure import Measure
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

POINTS = 512  # t at which the integral is taken
WAVES = 512  # of the kernel: at the narrowest width the last weighs exp(-5)
NARROWEST = 0.002  # about a cell
STEPS = 20  # halvings, which tell widths a millionth apart


def smooth_error(view: GroupView) -> Measure:
    """smECE: the width sigma at which the integral over t of |E (Y - S) K_sigma(t, S)| is sigma itself.

    K is the Gaussian kernel reflected at 0 and 1. The integral falls as sigma rises, so there is one such width.
    """
    if view.score.min() < 0 or view.score.max() > 1:
        raise DataError("method='smooth' needs scores between 0 and 1")
    waves = _waves(view.score)
    amplitude = waves.T @ view.residual / view.total
    width = _fixed_point(amplitude)
    matrix = (_waves(MIDDLES) * _damping(width)) @ waves.T / view.total
    values = matrix @ view.residual
    # Not a mean given the score: where people have their scores is part of the noise.
    fitted = matrix * (view.score - view.tally.centre) + values[:, None] / view.total
    return Measure(matrix, np.full(POINTS, 1 / POINTS), "l1", fitted, detail={"width": width})


MIDDLES = (np.arange(POINTS) + 0.5) / POINTS


def _fixed_point(amplitude: Floats) -> float:
    low, high = NARROWEST, 1.0
    at_points = _waves(MIDDLES) * amplitude
    if np.abs(at_points @ _damping(low)).mean() <= low:
        return low
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if np.abs(at_points @ _damping(middle)).mean() > middle else (low, middle)
    return (low + high) / 2


def _waves(at: Floats) -> Floats:
    """cos(k pi t), (n, WAVES): the reflected kernel is 1 + 2 sum_k exp(-(k pi sigma)^2 / 2) cos(k pi t) cos(k pi s)."""
    return np.asarray(np.cos(np.pi * at[:, None] * np.arange(WAVES)))


def _damping(width: float) -> Floats:
    wave = np.arange(WAVES)
    return np.where(wave == 0, 1.0, 2.0) * np.exp(-0.5 * (np.pi * width * wave) ** 2)
