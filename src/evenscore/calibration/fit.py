"""What every way of fitting gives: values at knots, with the influence of users on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenscore.calibration.maps import GroupMap, covariance_factor
from evenscore.estimation.inference import small_sample
from evenscore.estimation.one_side import side_law, user_correlation
from evenscore.estimation.spreads import RateLaw
from evenscore.tallies.view import GroupView, no_pairs
from evenscore.types import Floats, Ints


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted map at k knots, outcomes as deviations from the centre.

    score, value: (k,). matrix, fitted: (k, n_cells), the influence of users on the values: matrix_j y_m - fitted_j w_m. means:
    whether the values are means of outcomes near them.
    """

    score: Floats
    value: Floats
    matrix: Floats
    fitted: Floats
    step: bool = False
    words: str = ""
    means: bool = True

    def at(self, scores: Floats) -> Floats:
        """The map at any scores."""
        unknown = np.zeros((len(self.score), 0))
        bare = GroupMap(None, self.score, self.value, unknown, low=0.0, high=0.0, users=0, rows=0, step=self.step)
        return bare.at(scores)


Fitter = Callable[[GroupView], Fit]


def bound(view: GroupView, value: Floats) -> Floats:
    """Values that an outcome can have: probabilities stay between 0 and 1."""
    return np.clip(value, 0.0, 1.0) if view.tally.binary else value


def as_map(view: GroupView, fit: Fit) -> GroupMap:
    """The map with the user-robust covariance of its knots."""
    low, high = view.seen
    return GroupMap(
        group=view.label,
        score=fit.score,
        value=fit.value + view.tally.centre,
        factor=covariance_factor(view.covariance(fit.matrix, fit.fitted)),
        low=low,
        high=high,
        users=view.n_users,
        rows=view.n_rows,
        step=fit.step,
        words=fit.words,
        trials=_trials(view, fit) if view.tally.binary and fit.means else None,
    )


def _trials(view: GroupView, fit: Fit) -> Floats:
    """How many independent 0/1 outcomes each knot is worth, (k,): 1 / sum l^2 V0 over what a user's rows have in common."""
    used, at_cells = view.at(view.used), fit.at(view.score)[view.sums.W > 0]
    law = side_law(used, fit.matrix[:, view.sums.W > 0], at_cells, user_correlation([used], [at_cells]))
    assert isinstance(law, RateLaw)
    return 1 / law.squares


def average_cells(view: GroupView, owners: list[Ints]) -> tuple[Floats, Floats]:
    """Mean outcomes over sets of cells, (k,), and the matrix (k, n_cells) that averages them, allowing for few users."""
    matrix = np.zeros((len(owners), len(view.sums.W)))
    for row, members in enumerate(owners):
        matrix[row, members] = 1 / view.sums.W[members].sum()
    value = matrix @ view.sums.Y
    if view.pairs_at is no_pairs:
        return value, matrix
    return value, matrix * np.nan_to_num(small_sample(view.effective_users(matrix)), nan=1.0)[:, None]


def refit(view: GroupView, fitter: Fitter) -> Floats:
    """A map at the cells, fitted without each user fold, (n_folds, n_cells); such fits have no standard errors."""
    return np.array([fitter(left).at(view.score) if left.sums.W.any() else 0 * view.score for left in view.without_folds()])
