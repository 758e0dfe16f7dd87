"""Intervals for a norm, which is never negative and biased upwards by noise: found by asking which true sizes fit what was seen.

A true size theta is kept when the norm of theta u + e is neither too often above nor too often below the observed norm; u is the
observed shape with norm one and e noise with the user-robust covariance. At theta = 0 this is the test of perfect calibration, far
from it the usual interval from influence functions, and in between it does not break down as the bootstrap and the normal do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenscore.estimation.inference import draw_normal
from evenscore.miscalibration.measure import Measure, norm_of, slope_of, small_sample_factor
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

Statistics = Callable[[float], Floats]

DRAWS = 2000
STEPS = 14
GROWTHS = 52  # by half each: an upper limit a billion times what was seen is none


@dataclass(frozen=True, slots=True)
class Size:
    """The size of an error: as computed, freed of the noise in it, its limits, and the influence of cells' residuals on it.

    reach: (n_cells,) and centre: (n_cells,), so that a user adds reach @ y - centre @ w to the norm.
    """

    plug_in: float
    debiased: float
    low: float = np.nan
    high: float = np.nan
    reach: Floats | None = None
    centre: Floats | None = None


def size_of(measure: Measure, view: GroupView, *, alpha: float, interval: bool, debias: bool, rng: np.random.Generator) -> Size:
    """The size of a calibration error with its limits; what is not asked for is nan."""
    plug_in = measure.estimate(view)
    squared = measure.norm == "l2"
    debiased = _debiased_square(measure, view, plug_in) if squared else np.nan
    if not interval and (squared or not debias):
        return Size(plug_in, debiased)
    statistics = _statistics(measure, view, rng)
    if not squared:
        debiased = _median_unbiased(statistics, plug_in)
    if not interval:
        return Size(plug_in, debiased)
    low, high = limits(statistics, plug_in, alpha)
    slope = slope_of(measure.norm, measure.weight, measure.values(view))
    return Size(plug_in, debiased, low, high, slope @ measure.matrix, slope @ measure.fitted)


def _debiased_square(measure: Measure, view: GroupView, plug_in: float) -> float:
    """The root of the mean square less what noise adds to it; 0 when noise explains all of it."""
    return float(np.sqrt(max(plug_in**2 - measure.mean_variance(view), 0.0)))


def _statistics(measure: Measure, view: GroupView, rng: np.random.Generator) -> Statistics:
    """Draws of the norm for a given true size, (DRAWS,)."""
    values = measure.values(view)
    size = measure.estimate(view)
    shape = values / size if size > 0 else np.zeros_like(values)
    noise, sway = _noise(measure, view, shape, rng)
    norm = norm_of(measure.norm, measure.weight)
    if measure.norm != "l2":
        unit = 2.0 ** int(np.frexp(np.abs(noise).max(initial=0.0))[1])  # outcomes may be larger or smaller than float32 can hold
        shape, noise = shape.astype(np.float32), (noise / unit).astype(np.float32)  # half the time at every step
        return lambda theta: unit * norm(theta / unit * shape + noise) + theta * sway
    own, mixed = noise**2 @ measure.weight, noise @ (measure.weight * shape)
    # |theta u + e|^2 in three terms, so that no step needs the points again
    return lambda theta: np.sqrt(np.maximum(own + 2 * theta * mixed + theta**2 * (1 + sway), 0))


def _noise(measure: Measure, view: GroupView, shape: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draws of the values' noise (DRAWS, n_points), and of how the weights of the points sway the norm (DRAWS,)."""
    covariance = measure.covariance(view)
    if measure.share is None:
        return draw_normal(covariance, rng, DRAWS), np.zeros(DRAWS)
    power = 2 if measure.norm == "l2" else 1
    pull = (np.abs(shape) ** power @ measure.share - 1) / view.total
    pairs = view.pairs
    mixed = small_sample_factor(measure.matrix, view) * ((measure.matrix @ pairs.yw - measure.fitted @ pairs.ww) @ pull)
    unit = _rough_unit(covariance)  # values are outcomes, the sway is a share: one must not be rounding beside the other
    covariance, mixed = covariance / unit / unit, mixed / unit
    joint = np.block([[covariance, mixed[:, None]], [mixed[None, :], np.array([[pull @ pairs.ww @ pull]])]])
    drawn = draw_normal(joint, rng, DRAWS)
    return drawn[:, :-1] * unit, drawn[:, -1]


def _rough_unit(covariance: Floats) -> float:
    """The power of 2^20, about a million, next to the standard errors: 1 for rates, and no bit is changed."""
    deviation = float(np.sqrt(np.diag(covariance).max(initial=0.0)))
    return 2.0 ** (20 * round(np.log2(deviation) / 20)) if 0 < deviation < np.inf else 1.0


def limits(statistics: Statistics, observed: float, alpha: float) -> tuple[float, float]:
    """The smallest and the largest true size that fit the observed norm, at alpha / 2 on either side.

    What noise alone would give as often as not bounds the upper limit from below: a luckily small norm is no proof of calibration
    (a power-constrained limit, Cowan and others 2011).
    """
    low = _bisect(lambda theta: (statistics(theta) >= observed).mean() <= alpha / 2, 0.0, observed)
    seen = max(observed, float(np.median(statistics(0.0))))
    if not seen > 0:  # scores are outcomes, without any noise: nothing else fits
        return low, seen

    def fits(theta: float) -> bool:
        return bool((statistics(theta) <= seen).mean() > alpha / 2)

    top = seen
    for _ in range(GROWTHS):
        if not fits(top):
            return low, _bisect(fits, low, top)
        top *= 1.5
    return low, np.nan


def _median_unbiased(statistics: Statistics, observed: float) -> float:
    """The true size for which the observed norm would be the median; 0 when noise alone gives more as often as not."""
    return _bisect(lambda theta: float(np.median(statistics(theta))) <= observed, 0.0, observed)


def _bisect(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Where something that holds from ``low`` on ceases to; ``low`` when it does not hold even there."""
    if not high > low or not holds(low):
        return low
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return (low + high) / 2
