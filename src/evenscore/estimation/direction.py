"""Whether a higher score stands for more of the outcome, or for less."""

from __future__ import annotations

import math

import numpy as np

from evenscore.tallies.tally_state import Tally
from evenscore.tallies.view import GroupView

CLEARLY = 3.0  # standard errors of the slope, from which on outcomes are taken to fall along the score


def outcomes_rise(tally: Tally, weighting: str, clearly: float = CLEARLY) -> bool:
    """Whether outcomes rise along the score, as they should; False only when the slope within groups is clearly negative.

    Credit points and defaults fall. What lies between groups has no part in it. clearly: how many standard errors that takes.

    The slope's sign is that of sum_g sum_c (x_c - mean_g) Y_c, with a user-robust standard error around each group's mean.
    """
    slope, levers = 0.0, []
    for group in GroupView.each(tally, weighting):
        view = group.at(group.used)
        if len(view.cells) > 1:
            weight, position = view.sums.W, view.sums.position
            lever = position - weight @ position / weight.sum()
            slope += float(lever @ view.sums.Y)
            levers.append((view, lever))
    if slope >= 0:
        return True
    variance = 0.0
    for view, lever in levers:
        mean = np.full(len(lever), view.mean)
        variance += float(lever @ view.pairs.residual(mean, mean) @ lever)
    return not slope < -clearly * math.sqrt(max(variance, 0.0))
