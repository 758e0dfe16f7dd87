"""``method="auto"``: the simplest map that users left out do not object to, or the best mixture of maps.

Platt's two numbers are the starting point. The map moves from there towards the mixture of Platt, local linear and local quadratic
with the smallest squared error on users left out: not at all when its gain is below half a standard error, all the way when it is
above one and a half, and in between by a share. Isotonic regression enters on the same terms. Moving by degrees costs less than
choosing, where both are nearly right.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from evenscore.calibration.binning import Binning
from evenscore.calibration.fit import Fit
from evenscore.calibration.isotonic import Isotonic
from evenscore.calibration.kernel_map import KernelMap
from evenscore.calibration.platt import Platt
from evenscore.errors import OptionError
from evenscore.estimation.smoothing import Smoothing
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

LEAST = 0.01  # a smaller share is not worth its knots
ROUNDED = 1e-12  # of the squared outcomes, from which squared errors are made by taking away: a smaller gain is rounding
LADDER = (("platt",), ("platt", "kernel", "quadratic"), ("platt", "kernel", "quadratic", "isotonic"))


class Method(Protocol):
    """What every way of fitting can do."""

    def fit(self, view: GroupView) -> Fit:
        """The map with its knots."""
        ...

    def fold_values(self, view: GroupView) -> Floats:
        """The map at the cells without each user fold, (n_folds, n_cells)."""
        ...


@dataclass(frozen=True, slots=True)
class Mixture:
    """Methods with their weights, and the squared error on users left out, by fold (n_folds,)."""

    names: tuple[str, ...]
    weights: Floats
    loss: Floats

    @property
    def shares(self) -> dict[str, float]:
        """The methods with more than a tiny weight."""
        kept = {name: float(weight) for name, weight in zip(self.names, self.weights, strict=True) if weight >= LEAST}
        return {name: weight / sum(kept.values()) for name, weight in kept.items()}


@dataclass(frozen=True, slots=True)
class Auto:
    """Chooses among the methods, by group."""

    kernel: KernelMap
    binning: Binning

    def fit(self, view: GroupView) -> Fit:
        """The chosen map; its words say why."""
        methods = self._methods(view)
        values = {name: method.fold_values(view) for name, method in methods.items()}
        mixture = _climb(view, values)
        fit = _mix(view, mixture, {name: methods[name].fit(view) for name in mixture.shares})
        return replace(fit, words=f"{_recipe(mixture)}; {_evidence(view, values, mixture)}")

    def fold_values(self, view: GroupView) -> Floats:
        """The chosen mixture without each user fold; the choice itself has seen all of them."""
        values = {name: method.fold_values(view) for name, method in self._methods(view).items()}
        mixture = _climb(view, values)
        return np.asarray(sum(share * values[name] for name, share in mixture.shares.items()))

    def _methods(self, view: GroupView) -> dict[str, Method]:
        methods: dict[str, Method] = {
            "kernel": self.kernel.settle(view),
            "quadratic": KernelMap(Smoothing(2, "gaussian", self.kernel.smoothing.bandwidth)).settle(view),
            "isotonic": Isotonic(),
            "binning": self.binning,
        }
        try:
            Platt().check(view)
        except OptionError:
            return methods
        return {"platt": Platt(), **methods}


def _climb(view: GroupView, values: dict[str, Floats]) -> Mixture:
    """Up the ladder of mixtures, each time as far as the gain on users left out is sure."""
    best: Mixture | None = None
    for names in LADDER:
        candidates = {name: values[name] for name in names if name in values}
        if candidates:
            mixture = _best_mixture(view, candidates)
            best = mixture if best is None else _move(view, values, best, mixture)
    assert best is not None
    return best


def _move(view: GroupView, values: dict[str, Floats], start: Mixture, goal: Mixture) -> Mixture:
    """From one mixture towards another."""
    share = sure_share(start.loss - goal.loss, ROUNDED * float(view.folds.Y2.sum()))
    blend = {name: (1 - share) * start.shares.get(name, 0.0) + share * goal.shares.get(name, 0.0) for name in goal.names}
    weights = np.array(list(blend.values()))
    fits = np.einsum("i,ikc->kc", weights, np.array([values[name] for name in blend]))
    return Mixture(tuple(blend), weights, view.fold_losses(fits).sum(axis=1))


def sure_share(gain: Floats, rounding: float = 0.0) -> float:
    """How far to go: z - 1/2, kept in [0, 1], for the total gain over folds in its standard errors z.

    A total that is not above ``rounding`` is no gain, and no standard error is smaller.
    """
    total, error = float(gain.sum()), max(rounding, float(np.sqrt(len(gain)) * gain.std(ddof=1)))
    if not total > rounding:
        return 0.0
    return float(np.clip(total / error - 0.5, 0.0, 1.0)) if error > 0 else 1.0


def _best_mixture(view: GroupView, values: dict[str, Floats]) -> Mixture:
    """Weights that add up to one and minimise the squared error on users left out (stacking, Breiman 1996)."""
    stacked = np.array(list(values.values()))
    quadratic = np.einsum("ikc,jkc,kc->ij", stacked, stacked, view.folds.W, optimize=True)
    linear = np.einsum("ikc,kc->i", stacked, view.folds.Y, optimize=True)
    weights = simplex_minimum(quadratic, linear)
    return Mixture(tuple(values), weights, view.fold_losses(np.einsum("i,ikc->kc", weights, stacked)).sum(axis=1))


def simplex_minimum(quadratic: Floats, linear: Floats) -> Floats:
    """The w >= 0 with sum 1 that minimises w'Qw - 2 b'w, by trying every support: there are only a few methods."""
    size = len(linear)
    unit = max(float(np.abs(quadratic).max()), float(np.abs(linear).max()))
    if 0 < unit < np.inf:  # the units of weights must not drown the sum of 1, nor drown in it
        power = int(np.frexp(unit)[1])
        quadratic, linear = np.ldexp(quadratic, -power), np.ldexp(linear, -power)
    best, minimum = np.inf, np.eye(size)[0]
    for count in range(1, size + 1):
        for support in map(list, itertools.combinations(range(size), count)):
            inner = quadratic[np.ix_(support, support)]
            system = np.block([[inner, np.ones((count, 1))], [np.ones((1, count)), np.zeros((1, 1))]])
            weights = np.linalg.lstsq(system, np.append(linear[support], 1.0), rcond=None)[0][:count]
            if (weights < 0).any() or abs(weights.sum() - 1) > 1e-6:
                continue
            value = weights @ inner @ weights - 2 * linear[support] @ weights
            if value < best - 1e-12 * abs(best if np.isfinite(best) else 0.0):
                best, minimum = value, np.zeros(size)
                minimum[support] = weights / weights.sum()
    return minimum


def _mix(view: GroupView, mixture: Mixture, fits: dict[str, Fit]) -> Fit:
    """The mixture at the knots of all its methods; the influence of users on it mixes alike."""
    if len(fits) == 1:
        return next(iter(fits.values()))
    score = np.unique(np.concatenate([fit.score for fit in fits.values()]))
    score = score[np.concatenate([[True], np.diff(score) > 1e-7 * (score[-1] - score[0])])]
    value = np.zeros(len(score))
    matrix, fitted = np.zeros((2, len(score), len(view.sums.W)))
    for name, share in mixture.shares.items():
        fit = fits[name]
        at = interpolation(fit.score, score)
        value += share * (at @ fit.value)
        matrix += share * (at @ fit.matrix)
        fitted += share * (at @ fit.fitted)
    return Fit(score, value, matrix, fitted, means=all(fit.means for fit in fits.values()))


def interpolation(knots: Floats, score: Floats) -> Floats:
    """The matrix (n_scores, k) of straight lines between knots, constant beyond them."""
    return np.array([np.interp(score, knots, row) for row in np.eye(len(knots))]).T


def _recipe(mixture: Mixture) -> str:
    called = {"kernel": "local linear", "quadratic": "local quadratic", "platt": "Platt", "isotonic": "isotonic"}
    return " + ".join(f"{share:.2f} {called[name]}" for name, share in mixture.shares.items())


def _evidence(view: GroupView, values: dict[str, Floats], mixture: Mixture) -> str:
    total = view.sums.W.sum()
    single = ", ".join(f"{name} {view.fold_losses(fits).sum(axis=1).sum() / total:.5f}" for name, fits in values.items())
    return f"squared error on users left out {mixture.loss.sum() / total:.5f}; alone: {single}"
