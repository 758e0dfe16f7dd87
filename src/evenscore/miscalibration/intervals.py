"""Intervals for a norm, which is never negative and biased upwards by noise: found by asking which true sizes fit what was seen.

A true size theta is kept when the norm of theta u + e is neither too often above nor too often below the observed norm; u is the
observed shape with norm one and e noise with the user-robust covariance. At theta = 0 this is the test of perfect calibration, far
from it the usual interval from influence functions, and in between it does not break down as the bootstrap and the normal do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from evenscore.estimation.inference import CommonNormals, normal_quantile
from evenscore.miscalibration.measure import Measure, norm_of, slope_of
from evenscore.miscalibration.noise import Background, Noise, Observed, noise_of, possible_rates
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

Statistics = Callable[[float], Floats]

STEPS = 14  # halvings, which tell a limit to a sixteen-thousandth of where it was looked for
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


def size_of(
    measure: Measure,
    view: GroupView,
    background: Callable[[], Background],
    *,
    alpha: float,
    interval: bool,
    debias: bool,
    rng: CommonNormals,
    rougher: Measure | None = None,
) -> Size:
    """The size of a calibration error with its limits; what is not asked for is nan.

    rougher: the same with less smoothing. Smoothing can only hide an error, so that a lower limit stands, but not an upper one.
    """
    plug_in, observed = measure.estimate(view), Observed.of(measure, view, background)
    squared = measure.norm == "l2"
    debiased = _debiased_square(observed, plug_in) if squared else np.nan
    if not interval and (squared or not debias):
        return Size(plug_in, debiased)
    statistics = _statistics(observed, rng)
    if not squared:
        debiased = _median_unbiased(statistics, plug_in)
    if not interval:
        return Size(plug_in, debiased)
    low, high = limits(statistics, plug_in, alpha)
    high = max(high, _allowed_by_events(observed, alpha))
    if rougher is not None:
        highest = upper_limit(_statistics(replace(observed, measure=rougher), rng), rougher.estimate(view), alpha)
        high = highest if np.isnan(highest) else max(high, highest)
    low, high = min(low, debiased), max(high, debiased)  # they fit the norm with its noise, which the estimate is less of
    slope = slope_of(measure.norm, measure.weight, measure.values(view))
    return Size(plug_in, debiased, low, high, slope @ measure.matrix, slope @ measure.fitted)


def _allowed_by_events(observed: Observed, alpha: float) -> float:
    """The largest error of rates that the number of events allows; 0 where outcomes are not 0/1."""
    measure, view = observed.measure, observed.view
    norm = norm_of(measure.norm, measure.weight)
    rates = possible_rates(observed, normal_quantile(alpha))
    errors = [norm(measure.matrix @ (view.sums.W * (rate - view.score)) + measure.offset) for rate in rates]
    return max(map(float, errors), default=0.0)


def _debiased_square(observed: Observed, plug_in: float) -> float:
    """The root of the mean square less what noise adds to it; 0 when noise explains all of it."""
    return float(np.sqrt(max(plug_in**2 - observed.measure.mean_variance(observed.view, observed.factor), 0.0)))


def _statistics(observed: Observed, rng: CommonNormals) -> Statistics:
    """Draws of the norm for a given true size, (DRAWS,)."""
    measure, view = observed.measure.thinned(), observed.view
    if measure is not observed.measure:
        observed = replace(observed, measure=measure)
    norm = norm_of(measure.norm, measure.weight)
    values, size = measure.values(view), measure.estimate(view)
    shape = values / size if size > 0 else np.full_like(values, 1 / float(norm(np.ones_like(values))))
    noise = noise_of(observed, shape, rng)
    step = 0.0 if noise.fixed else size
    if measure.norm == "l2":
        return _squares(noise, measure.weight, shape, step)
    return _pointwise(noise, norm, shape, step)


def _pointwise(noise: Noise, norm: Callable[[Floats], Floats], shape: Floats, step: float) -> Statistics:
    unit, direction = noise.unit, shape.astype(np.float32)
    bent = cache(lambda knot: noise.at(knot, unit))

    def draws(theta: float) -> Floats:
        knot, after, part = _between(theta, step)
        values = np.float32(theta / unit) * direction + np.float32(1 - part) * bent(knot)
        if part > 0:
            values += np.float32(part) * bent(after)
        return unit * norm(values) + theta * noise.sway

    return draws


def _squares(noise: Noise, weight: Floats, shape: Floats, step: float) -> Statistics:
    """|theta u + e|^2 in terms of e's squares and products, so that no step needs the points again."""
    unit, direction, root = noise.unit, (np.sqrt(weight) * shape).astype(np.float32), np.sqrt(weight).astype(np.float32)
    bent = cache(lambda knot: noise.at(knot, unit) * root)
    mixed = cache(lambda knot: (bent(knot) @ direction).astype(np.float64))
    product = cache(lambda one, other: np.einsum("dj,dj->d", bent(one), bent(other)).astype(np.float64))

    def draws(theta: float) -> Floats:
        knot, after, part = _between(theta, step)
        own, along = product(knot, knot), mixed(knot)
        if part > 0:
            own = (1 - part) ** 2 * own + 2 * part * (1 - part) * product(knot, after) + part**2 * product(after, after)
            along = (1 - part) * along + part * mixed(after)
        size = theta / unit
        return unit * np.sqrt(np.maximum(own + 2 * size * along + size**2 * (1 + noise.sway), 0))

    return draws


def _between(theta: float, step: float) -> tuple[float, float, float]:
    """Where a size lies among 0, 1, 3, 9, ... times the observed one, between which noise is interpolated: two knots, a share."""
    share = theta / step if step > 0 else 0.0
    if share <= 1:
        return 0.0, 1.0, share
    knot = 3.0 ** int(np.floor(np.log(share) / np.log(3.0)))
    return knot, 3 * knot, (share / knot - 1) / 2


def limits(statistics: Statistics, observed: float, alpha: float) -> tuple[float, float]:
    """The smallest and the largest true size that fit the observed norm, at alpha / 2 on either side.

    What noise alone would give as often as not bounds the upper limit from below: a luckily small norm is no proof of calibration
    (a power-constrained limit, Cowan and others 2011).
    """
    low = _bisect(lambda theta: (statistics(theta) >= observed).mean() <= alpha / 2, 0.0, observed)
    return low, upper_limit(statistics, observed, alpha, low)


def upper_limit(statistics: Statistics, observed: float, alpha: float, low: float = 0.0) -> float:
    """The larger of ``limits``; nan where there is none."""
    seen = max(observed, float(np.median(statistics(0.0))))
    if not seen > 0:  # scores are outcomes, without any noise: nothing else fits
        return seen

    def fits(theta: float) -> bool:
        return bool((statistics(theta) <= seen).mean() > alpha / 2)

    top = seen
    for _ in range(GROWTHS):
        if not fits(top):
            return _bisect(fits, low, top)
        top *= 1.5
    return np.nan


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
