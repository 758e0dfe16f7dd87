"""Logistic regression on cells, with a prior that keeps separated outcomes finite."""

from __future__ import annotations

import numpy as np

from evenscore.tallies.axis import backward
from evenscore.types import Floats

STEPS = 50  # of Newton's method; a dozen do
HALVINGS = 100  # a step that helps nowhere within rounding is none


def expit(x: Floats) -> Floats:
    """1 / (1 + exp(-x))."""
    return backward(x, "logit")


def fit_logistic(design: Floats, weight: Floats, outcome: Floats, *, centre: Floats, prior: Floats) -> tuple[Floats, Floats]:
    """Coefficients (k,) that maximise sum y log p + (w - y) log(1 - p) less the prior, and the information there, (k, k).

    design: (n_cells, k); weight, outcome: sums of the cells. prior: (k,), the precision of the belief that coefficients are at
    ``centre``. By Newton; a step too far is halved.
    """
    coefficients, best = centre, _likelihood(design, weight, outcome, centre, centre, prior)
    for _ in range(STEPS):
        p = expit(design @ coefficients)
        gradient = design.T @ (outcome - weight * p) - prior * (coefficients - centre)
        information = design.T @ (design * (weight * p * (1 - p))[:, None]) + np.diag(prior)
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


def _likelihood(design: Floats, weight: Floats, outcome: Floats, coefficients: Floats, centre: Floats, prior: Floats) -> float:
    x = design @ coefficients
    return float(outcome @ x - weight @ np.logaddexp(0, x) - prior @ (coefficients - centre) ** 2 / 2)
