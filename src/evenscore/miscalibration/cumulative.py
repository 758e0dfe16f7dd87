"""Cumulative calibration errors (ECCE; Arrieta-Ibarra and others 2022): running sums of residuals along the score, without bins."""

from __future__ import annotations

import numpy as np

from evenscore.errors import require_option
from evenscore.miscalibration.measure import Measure
from evenscore.miscalibration.scored_people import People

STATISTICS = ("largest", "range")


def cumulative_error(people: People, *, statistic: str) -> Measure:
    """The largest absolute value ("largest", ECCE-MAD) or the range ("range", ECCE-R) of C(s) = E (Y - S) 1(S <= s)."""
    require_option("statistic", statistic, STATISTICS)
    n_cells = len(people.weight)
    matrix = np.tri(n_cells) / people.total
    values = matrix @ people.residual
    # Not a mean given the score: where people have their scores is part of the noise.
    fitted = matrix * (people.score - people.centre) + values[:, None] / people.total
    return Measure(matrix, np.full(n_cells, 1 / n_cells), statistic, fitted, detail={"statistic": statistic})
