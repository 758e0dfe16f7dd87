"""Mean outcomes by quantile bin and group, each user weighing 1: the Wald and the score test that no bin has a gap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

BINS = 10
BIN_USERS = 10  # in each group; a bin with fewer is left out, as evenscore leaves out such points
WALD, SCORE, EXCHANGED = "10-bin cluster Wald", "10-bin cluster score test", "10-bin score test, pooled variance"

Floats = NDArray[np.float64]


def bin_tests(data: dict[str, Any], n_bins: int = BINS) -> dict[str, float]:
    """P-values of both; nan where no bin has enough users of both groups, or no outcome differs from another.

    The covariance is that of users. The Wald test takes residuals from each group's own mean of a bin. The score test imposes the
    null: the scores of group-by-bin dummies at the fit without them, whose residuals are from the mean of both groups. Its variance
    still rests on the small group's own outcomes; the third takes what users of both groups vary together, as if groups were dealt
    out to users, which holds where the groups have the same scores and rows a user.
    """
    user = np.unique(data["user"], return_inverse=True)[1]
    group = np.unique(data["group"], return_inverse=True)[1]
    outcome, score = np.asarray(data["outcome"], dtype=np.float64), np.asarray(data["score"])
    edges = np.unique(np.quantile(score, np.linspace(0, 1, n_bins + 1)[1:-1]))
    cell: NDArray[np.int64] = np.searchsorted(edges, score, side="right")
    size, n_users = len(edges) + 1, int(user.max()) + 1
    member = 2 * user + group
    weight = 1 / np.bincount(member)[member]

    def by_user(values: Floats) -> Floats:
        """Sums of each user in each bin, (n_users, n_bins)."""
        return np.bincount(user * size + cell, values, n_users * size).reshape(n_users, size)

    seen = np.bincount(member * size + cell, minlength=2 * n_users * size).reshape(n_users, 2, size) > 0
    enough = (seen.sum(axis=0) >= BIN_USERS).all(axis=0)
    place = group * size + cell
    total = np.bincount(place, weight, 2 * size).reshape(2, size)
    sums = np.bincount(place, weight * outcome, 2 * size).reshape(2, size)
    mean = sums / np.where(total > 0, total, np.nan)
    sign = np.where(group == 0, 1.0, -1.0)
    own = sign * weight * (outcome - mean.ravel()[place]) / total.ravel()[place]
    pooled = sums.sum(axis=0) / total.sum(axis=0)
    # The group, less its share of the bin: what the group adds to a model that has the bins.
    share = total[0] / total.sum(axis=0)
    scores = weight * ((group == 0) - share[cell]) * (outcome - pooled[cell])
    wald, null, alike = (by_user(values)[:, enough] for values in (own, scores, weight * (outcome - pooled[cell])))
    in_both = share[enough]
    dealt = np.minimum.outer(in_both, in_both) - np.outer(in_both, in_both)
    return {
        WALD: chi_square((mean[0] - mean[1])[enough], wald.T @ wald * n_users / (n_users - 1)),
        SCORE: chi_square(null.sum(axis=0), null.T @ null),
        EXCHANGED: chi_square(null.sum(axis=0), dealt * (alike.T @ alike)),
    }


def chi_square(difference: Floats, covariance: Floats) -> float:
    """That all differences are 0."""
    rank = int(np.linalg.matrix_rank(covariance, hermitian=True)) if len(difference) else 0
    if rank == 0:
        return math.nan
    statistic = float(difference @ np.linalg.pinv(covariance, hermitian=True) @ difference)
    return float(stats.chi2.sf(statistic, rank))
