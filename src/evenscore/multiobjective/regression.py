"""Regressions of an outcome on all scores: logistic for 0/1 outcomes (the paper's remark), least squares for others."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from evenscore.tallies.axis import backward
from evenscore.types import Floats

RIDGE = 0.05  # users' worth of pull towards no slope, so that outcomes that never vary or separate have a finite fit
STEPS = 60  # of Newton's method; a dozen do
CONVERGED = 1e-9  # of the largest coefficient, and 1


@dataclass(frozen=True, slots=True)
class Regression:
    """A fitted regression: link(c + coefficients @ terms of (x - mean) / scale); mean and scale (K,), coefficients (n_terms,)."""

    logistic: bool
    squares: bool
    mean: Floats
    scale: Floats
    coefficients: Floats

    def at(self, x: Floats) -> Floats:
        """The fit at positions (n, K)."""
        linear = design(x, self.mean, self.scale, self.squares) @ self.coefficients
        return backward(linear, "logit") if self.logistic else linear


def design(x: Floats, mean: Floats, scale: Floats, squares: bool) -> Floats:
    """1, the scores standardised, and with ``squares`` their products two by two, (n, n_terms)."""
    z = (x - mean) / scale
    columns = [np.ones(len(z)), *z.T]
    if squares:
        columns += [z[:, i] * z[:, j] for i, j in itertools.combinations_with_replacement(range(z.shape[1]), 2)]
    return np.stack(columns, axis=1)


def fit_regression(
    x: Floats,
    w: Floats,
    y: Floats,
    *,
    logistic: bool,
    squares: bool,
    start: Floats | None = None,
    mean_scale: tuple[Floats, Floats],
) -> Regression:
    """Weighted least squares, or maximum likelihood by Newton steps, with a tiny ridge on the slopes.

    x: (n, K); w, y: (n,) weights and weighted outcomes.
    """
    mean, scale = mean_scale
    terms = design(x, mean, scale, squares)
    penalty = np.full(terms.shape[1], RIDGE)
    penalty[0] = 0.0
    if not logistic:
        gram = terms.T @ (terms * w[:, None]) + np.diag(penalty)
        return Regression(False, squares, mean, scale, np.asarray(np.linalg.lstsq(gram, terms.T @ y, rcond=None)[0], np.float64))
    return Regression(True, squares, mean, scale, _newton(terms, w, y, penalty, start))


def _newton(terms: Floats, w: Floats, y: Floats, penalty: Floats, start: Floats | None) -> Floats:
    total = float(w.sum())
    level = min(max(float(y.sum()) / total, 0.5 / (total + 1)), 1 - 0.5 / (total + 1)) if total > 0 else 0.5
    beta = np.zeros(terms.shape[1]) if start is None else start.copy()
    if start is None:
        beta[0] = np.log(level / (1 - level))
    value = _penalised_loss(terms, w, y, penalty, beta)
    for _ in range(STEPS):
        p = backward(terms @ beta, "logit")
        gradient = terms.T @ (y - w * p) - penalty * beta
        curvature = terms.T @ (terms * (w * p * (1 - p))[:, None]) + np.diag(penalty + 1e-9 * (total + 1))
        step = np.linalg.solve(curvature, gradient)
        for _ in range(30):  # halve a step that overshoots
            new = _penalised_loss(terms, w, y, penalty, beta + step)
            if new <= value + 1e-12 * abs(value):
                break
            step /= 2
        beta, value = beta + step, new
        if np.abs(step).max() < CONVERGED * (1 + np.abs(beta).max()):
            break
    return beta


def _penalised_loss(terms: Floats, w: Floats, y: Floats, penalty: Floats, beta: Floats) -> float:
    linear = terms @ beta
    return float(w @ np.logaddexp(0, linear) - y @ linear + 0.5 * penalty @ beta**2)
