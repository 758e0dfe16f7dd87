"""Platt scaling: expit(b0 + b1 logit s), fitted by weighted likelihood on the cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenscore.calibration.fit import Fit
from evenscore.errors import OptionError
from evenscore.estimation.logistic import expit, fit_logistic
from evenscore.tallies.axis import backward, forward
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

NEAREST = 1e-6  # a logit is taken of nothing nearer to 0 or 1
PRIOR = 1 / 5**2  # a user's worth of doubt that b0 is far from 0 and b1 from 1; keeps separated data finite
KNOTS = 97  # evenly along the score, and as many along its logit


@dataclass(frozen=True, slots=True)
class Platt:
    """Two numbers a group. As printed in the paper the curve falls; this one has the sign that Platt meant."""

    def check(self, view: GroupView) -> None:
        """Refuse outcomes and scores that are no probabilities, and say why."""
        if not view.tally.binary:
            raise OptionError(
                "method='platt' fits a probability, and these outcomes are not all 0 or 1; "
                "use method='kernel', 'isotonic' or 'binning' for real outcomes"
            )
        low, high = view.seen
        if low < 0 or high > 1:
            raise OptionError(
                f"method='platt' takes the logit of the score, and these scores run from {low:g} to {high:g}; "
                "use method='kernel', 'isotonic' or 'binning', or scores between 0 and 1"
            )

    def fit(self, view: GroupView) -> Fit:
        """The curve tabulated at knots dense enough that straight lines between them do not show."""
        self.check(view)
        at_cells = _design(view.score)
        coefficients, information = _coefficients(at_cells, view, _unit(view))
        fitted = expit(at_cells @ coefficients)
        score = _knots(*view.seen)
        at_knots = _design(score)
        value = expit(at_knots @ coefficients)
        slopes = np.linalg.solve(information, at_cells.T)
        factor = view.n_users / max(view.n_users - 2, 1)
        matrix = factor * (value * (1 - value))[:, None] * (at_knots @ slopes)
        words = f"Platt, expit({coefficients[0]:.3g} + {coefficients[1]:.3g} logit s)"
        return Fit(score, value, matrix, matrix * fitted, words=words, means=False)

    def fold_values(self, view: GroupView) -> Floats:
        """The curve at the cells without each user fold, (n_folds, n_cells)."""
        self.check(view)
        at_cells = _design(view.score)
        unit, lefts = _unit(view), view.without_folds()
        return np.array([expit(at_cells @ _coefficients(at_cells, left, unit)[0]) for left in lefts])


def _design(score: Floats) -> Floats:
    logit = forward(np.clip(score, NEAREST, 1 - NEAREST), "logit")
    return np.stack([np.ones_like(logit), logit], axis=1)


def _unit(view: GroupView) -> float:
    """What one user, or one row, weighs on average: 1 without survey weights, whose units must not matter."""
    weighted = view.tally.columns is not None and view.tally.columns.weight is not None
    return view.total / (view.n_users if view.weighting == "user" else view.n_rows) if weighted else 1.0


def _coefficients(design: Floats, view: GroupView, unit: float) -> tuple[Floats, Floats]:
    """b0 and b1, and the information there."""
    # One score of a large weight would drown the prior, and nothing could be solved.
    prior = max(PRIOR * unit, 1e-12 * view.total)
    return fit_logistic(design, view.sums.W, view.sums.Y, centre=np.array([0.0, 1.0]), prior=np.full(2, prior))


def _knots(low: float, high: float) -> Floats:
    """Even steps of the score and even steps of its logit, together."""
    ends = np.clip([low, high], NEAREST, 1 - NEAREST)
    even = np.linspace(low, high, KNOTS)
    first, last = forward(ends, "logit")
    by_logit = backward(np.linspace(first, last, KNOTS), "logit")
    knots = np.unique(np.clip(np.concatenate([even, by_logit]), low, high))
    apart = np.concatenate([[True], np.diff(knots) > 1e-9])
    return knots[apart]
