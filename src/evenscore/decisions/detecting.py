"""Which differences in a metric so many users would show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from evenscore.decisions import Rates
from evenscore.errors import OptionError
from evenscore.estimation.laws import Law
from evenscore.estimation.spreads import RateLaw
from evenscore.tallies.tally_state import Tally

Detectable = Callable[[tuple[int, int], float, float, float], float]


def detectable_differences(tally: Tally, metric: str, threshold: Any, positive: str, weighting: str) -> Detectable:
    """A function that gives the difference which a pair of groups shows with ``factor`` times the users: (pair, factor, alpha,
    power). Infinite where one of them has none of the rows that the metric is about."""
    rates = Rates.of(tally, threshold, positive, weighting)
    if metric not in rates.metrics:
        raise OptionError(f"metric={metric!r} cannot be planned: {rates.unavailable[metric]}")
    n, place = len(rates.metrics), rates.metrics.index(metric)

    def smallest(pair: tuple[int, int], factor: float, alpha: float, power: float) -> float:
        left, right = (np.array([number * n + place]) for number in pair)
        if not (rates.usable[left] & rates.usable[right]).all():
            return np.inf
        levels = replace(rates.levels, side=_with_users(rates.levels.side, factor))
        size = float(levels.differences(left, right).detectable(alpha, power)[0])
        return size if np.isfinite(size) else np.inf

    return smallest


def _with_users(side: RateLaw, factor: float) -> RateLaw:
    """The law with so many times the users: variances fall with their number, third cumulants with its square."""
    law = side.law
    fewer = Law(law.variance / factor, law.third / factor**2, law.pull / factor**2, law.noise / factor**3)
    return replace(side, law=fewer, squares=side.squares / factor, cubes=side.cubes / factor**2, noise=side.noise / factor)
