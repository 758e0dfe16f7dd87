"""Candidate maps of one group, each fitted on all users and on every four fifths of them, for its risk on the fifth left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evenscore.multiobjective.axes import Axis, Corners, corners, node_positions, shape_of
from evenscore.multiobjective.kernel import Moments, held, local_fit, moments, near, rule_of_thumb
from evenscore.multiobjective.points import Points
from evenscore.multiobjective.regression import Regression, fit_regression
from evenscore.multiobjective.rows import N_FOLDS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

WIDTHS = tuple(np.geomspace(0.5, 5.0, 8).tolist())  # bandwidths to choose from, in units of the rule of thumb


@dataclass(frozen=True, slots=True)
class Candidate:
    """A map of one objective.

    name: "logistic" or "linear", the same "with squares", "kernel" or "guided". risk: mean squared error on users left out, nan
    when that was not asked for. regression: the fit itself, or the guide of a guided kernel. grid: values at the nodes and
    known: which nodes had users near, each (n_nodes,), None for a regression. bandwidth: (K,) on the axes.
    """

    name: str
    risk: float
    regression: Regression | None = None
    grid: Floats | None = None
    known: Mask | None = None
    bandwidth: Floats | None = None


def in_range(values: Floats, binary: bool) -> Floats:
    """Fits of 0/1 outcomes stay in [0, 1]."""
    return np.clip(values, 0.0, 1.0) if binary else values


def mean_risk(points: Points, k: int, fitted: Floats) -> float:
    """The mean of (Y - fit)^2 over the users, from fits at the points (n,)."""
    w, y = points.w[:, k], points.y[:, k]
    return float((points.y2[k] - 2 * (y @ fitted) + w @ fitted**2) / w.sum())


# Regressions


@dataclass(frozen=True, slots=True)
class Regressed:
    """A regression of one objective on all users, and those without each fold."""

    whole: Regression
    folds: tuple[Regression, ...]
    risk: float


def regress(points: Points, k: int, *, logistic: bool, squares: bool) -> Regressed:
    """Fit on everybody and on every four fifths."""
    weight = points.w[:, k]
    mean = weight @ points.x / weight.sum()
    scale = points.spread(k)
    settings = {"logistic": logistic, "squares": squares, "mean_scale": (mean, np.where(scale > 0, scale, 1.0))}
    whole = fit_regression(points.x, weight, points.y[:, k], **settings)
    fits, fitted = [], np.empty(len(points.x))
    for fold in range(N_FOLDS):
        mine = points.fold == fold
        start = whole.coefficients if logistic else None
        fits.append(fit_regression(points.x[~mine], weight[~mine], points.y[~mine, k], start=start, **settings))
        fitted[mine] = fits[-1].at(points.x[mine])
    return Regressed(whole, tuple(fits), mean_risk(points, k, fitted))


# Kernels


class Smoothing:
    """The grid of one group: binned sums, and kernel fits from them."""

    def __init__(self, points: Points, axes: Sequence[Axis], degree: int, binary: tuple[bool, ...]) -> None:
        self.points, self.axes, self.degree, self.binary = points, axes, degree, binary
        self.shape = shape_of(axes)
        self.n_nodes = int(np.prod(self.shape))
        self.nodes = node_positions(axes)
        self.around = corners(axes, list(points.x.T))
        self.w, self.y = self._binned()
        self.used = np.flatnonzero(self.w.sum(axis=(0, 1)) > 0)

    def _binned(self) -> tuple[Floats, Floats]:
        """Weight and outcome at the nodes, by objective and fold, each (K, n_folds, n_nodes)."""
        points, k = self.points, self.points.w.shape[1]
        w, y = np.zeros((k, N_FOLDS, self.n_nodes)), np.zeros((k, N_FOLDS, self.n_nodes))
        for fold in range(N_FOLDS):
            mine, part = self._of_fold(fold)
            for objective in range(k):
                known = objective > 0 and points.alike
                w[objective, fold] = w[0, fold] if known else part.bin(points.w[mine, objective], self.n_nodes)
                y[objective, fold] = part.bin(points.y[mine, objective], self.n_nodes)
        return w, y

    def _of_fold(self, fold: int) -> tuple[Ints, Corners]:
        mine = np.flatnonzero(self.points.fold == fold)
        return mine, Corners(self.around.node[:, mine], self.around.share[:, mine])

    def rule(self, k: int) -> Floats:
        """The rule of thumb for objective k."""
        return rule_of_thumb(self.points.spread(k), float(self.points.n_users[k]))

    def choose(self, k: int, bandwidths: Sequence[Floats], guide: Regressed | None) -> Candidate:
        """The bandwidth with the smallest risk, fitted on all; with a guide, residuals from it are smoothed and added to it."""
        name = "kernel" if guide is None else "guided"
        best, best_risk, fits = bandwidths[0], np.inf, None
        for bandwidth in bandwidths:
            found = list(self._without_folds(k, bandwidth, guide))
            risk = sum(float(self.w[k, f, self.used] @ fit**2 - 2 * self.y[k, f, self.used] @ fit) for f, fit in enumerate(found))
            if risk < best_risk:
                best, best_risk, fits = bandwidth, risk, found
        assert fits is not None
        whole = self.fit(k, best, guide)
        return replace(whole, name=name, risk=self._risk(k, fits))

    def _risk(self, k: int, fits: list[Floats]) -> float:
        fitted, grid = np.empty(len(self.points.x)), np.zeros(self.n_nodes)
        for fold, fit in enumerate(fits):
            grid[self.used] = fit
            mine, part = self._of_fold(fold)
            fitted[mine] = part.read(grid)
        return mean_risk(self.points, k, fitted)

    def _without_folds(self, k: int, bandwidth: Floats, guide: Regressed | None) -> Iterator[Floats]:
        """The fit at the nodes in use without each fold, (n_used,)."""
        weight = moments(self.w[k], self.axes, bandwidth, 2 * self.degree)
        outcome = moments(self.y[k], self.axes, bandwidth, self.degree)
        guided, expected = self._guided(k, guide, bandwidth)
        for fold in range(N_FOLDS):
            left, right = weight.without(fold), outcome.without(fold)
            if expected is not None:
                right = right.minus(expected, fold)
            fit = self._solved(left, right)[self.used]
            yield in_range(fit if guided is None else fit + guided[fold][self.used], self.binary[k])

    def _guided(self, k: int, guide: Regressed | None, bandwidth: Floats) -> tuple[list[Floats] | None, Moments | None]:
        """The guide without each fold at the nodes, and the kernel sums of what it expects of the others."""
        if guide is None:
            return None, None
        at_nodes = [part.at(self.nodes) for part in guide.folds]
        total = self.w[k].sum(axis=0)
        expected = np.stack([(total - own) * fit for own, fit in zip(self.w[k], at_nodes, strict=True)])
        return at_nodes, moments(expected, self.axes, bandwidth, self.degree)

    def fit(self, k: int, bandwidth: Floats, guide: Regressed | None) -> Candidate:
        """The fit on all users at every node."""
        total, outcome = self.w[k].sum(axis=0), self.y[k].sum(axis=0)
        base = None if guide is None else guide.whole.at(self.nodes)
        residual = outcome if base is None else outcome - total * base
        left = moments(total[None], self.axes, bandwidth, 2 * self.degree).total()
        right = moments(residual[None], self.axes, bandwidth, self.degree).total()
        grid = self._solved(left, right)
        grid = in_range(grid if base is None else grid + base, self.binary[k])
        return Candidate("kernel", np.nan, None if guide is None else guide.whole, grid, near(left), bandwidth)

    def _solved(self, left: Moments, right: Moments) -> Floats:
        """Local fits at all nodes, (n_nodes,): where nobody is near, the value of the nearest node with users."""
        known = near(left)
        at = np.flatnonzero(known)
        values = np.zeros(self.n_nodes)
        values[at] = local_fit(left, right, self.degree, at)
        return held(values, known, self.shape)
