"""Platt scaling: expit(b0 + b1 logit s), fitted by weighted likelihood on the cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenscore.calibration.fit import Fit
from evenscore.errors import OptionError
from evenscore.tallies.axis import backward, forward
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

NEAREST = 1e-6  # a logit is taken of nothing nearer to 0 or 1
PRIOR = 1 / 5**2  # a user's worth of doubt that b0 is far from 0 and b1 from 1; keeps separated data finite
STEPS = 50
HALVINGS = 100  # a step that helps nowhere within rounding is none
KNOTS = 97


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
        coefficients, information = _newton(at_cells, view.sums.W, view.sums.Y, _unit(view))
        fitted = _expit(at_cells @ coefficients)
        score = _knots(*view.seen)
        at_knots = _design(score)
        value = _expit(at_knots @ coefficients)
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
        return np.array([_expit(at_cells @ _newton(at_cells, left.sums.W, left.sums.Y, unit)[0]) for left in lefts])


def _expit(x: Floats) -> Floats:
    return backward(x, "logit")


def _design(score: Floats) -> Floats:
    logit = forward(np.clip(score, NEAREST, 1 - NEAREST), "logit")
    return np.stack([np.ones_like(logit), logit], axis=1)


def _unit(view: GroupView) -> float:
    """What one user, or one row, weighs on average: 1 without survey weights, whose units must not matter."""
    weighted = view.tally.columns is not None and view.tally.columns.weight is not None
    return view.total / (view.n_users if view.weighting == "user" else view.n_rows) if weighted else 1.0


def _newton(design: Floats, weight: Floats, outcome: Floats, unit: float) -> tuple[Floats, Floats]:
    """Coefficients that maximise sum y log p + (w - y) log(1 - p), and the information there; a step too far is halved."""
    centre = np.array([0.0, 1.0])
    prior = max(
        PRIOR * unit, 1e-12 * float(weight.sum())
    )  # one score of a large weight would drown it, and nothing could be solved
    coefficients, best = centre, _likelihood(design, weight, outcome, centre, centre, prior)
    for _ in range(STEPS):
        p = _expit(design @ coefficients)
        gradient = design.T @ (outcome - weight * p) - prior * (coefficients - centre)
        information = design.T @ (design * (weight * p * (1 - p))[:, None]) + prior * np.eye(2)
        step = np.linalg.solve(information, gradient)
        for _ in range(HALVINGS):
            value = _likelihood(design, weight, outcome, coefficients + step, centre, prior)
            if value >= best or np.abs(step).max() < 1e-12:
                break
            step = step / 2
        else:
            break
        coefficients, best = coefficients + step, max(value, best)
        if np.abs(step).max() < 1e-10:
            break
    return coefficients, information


def _likelihood(design: Floats, weight: Floats, outcome: Floats, coefficients: Floats, centre: Floats, prior: float) -> float:
    x = design @ coefficients
    return float(outcome @ x - weight @ np.logaddexp(0, x) - prior / 2 * ((coefficients - centre) ** 2).sum())


def _knots(low: float, high: float) -> Floats:
    """Even steps of the score and even steps of its logit, together."""
    ends = np.clip([low, high], NEAREST, 1 - NEAREST)
    even = np.linspace(low, high, KNOTS)
    first, last = forward(ends, "logit")
    by_logit = backward(np.linspace(first, last, KNOTS), "logit")
    knots = np.unique(np.clip(np.concatenate([even, by_logit]), low, high))
    apart = np.concatenate([[True], np.diff(knots) > 1e-9])
    return knots[apart]
