"""Cumulative calibration errors (ECCE; Arrieta-Ibarra and others 2022): running sums of residuals along the score, without bins."""

from __future__ import annotations

import numpy as np

from evenscore.errors import require_option
from evenscore.miscalibration.measure import Measure
from evenscore.tallies.view import GroupView

STATISTICS = ("largest", "range")


def cumulative_error(view: GroupView, *, statistic: str) -> Measure:
    """The largest absolute value ("largest", ECCE-MAD) or the range ("range", ECCE-R) of C(s) = E (Y - S) 1(S <= s)."""
    require_option("statistic", statistic, STATISTICS)
    n_cells = len(view.sums.W)
    matrix = np.tri(n_cells) / view.total
    values = matrix @ view.residual
    # Not a mean given the score: where people have their scores is part of the noise.
    fitted = matrix * (view.score - view.tally.centre) + values[:, None] / view.total
    return Measure(matrix, np.full(n_cells, 1 / n_cells), statistic, fitted, detail={"statistic": statistic})
