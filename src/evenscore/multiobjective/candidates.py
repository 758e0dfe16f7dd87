"""Candidate maps of one group, each fitted on all users and on every four fifths of them, for its risk on the fifth left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.multiobjective.axes import Axis, Corners, corners, node_positions, shape_of
from evenscore.multiobjective.points import Points
from evenscore.multiobjective.product_kernel import Moments, fill_from_nearest, local_fit, moments, near, rule_of_thumb
from evenscore.multiobjective.regression import Regression, fit_regression
from evenscore.multiobjective.rows import N_FOLDS
from evenscore.types import Floats, Ints, Mask

WIDTHS = tuple(np.geomspace(5.0, 0.6, 6).tolist())  # bandwidths to choose from, in units of the rule of thumb, the widest first


@dataclass(frozen=True, slots=True)
class Candidate:
    """A map of one objective.

    name: "logistic" or "linear", the same "with squares", "kernel" or "guided". risk: mean squared error on users left out, nan
    when that was not asked for. regression: the fit itself, or the guide of a guided kernel. grid: values at the nodes and
    known: which nodes had users near, each (n_nodes,), None for a regression. bandwidth: (K,) on the axes. left_out: (n,) the fit
    at the points by users without those of the point.
    """

    name: str
    risk: float
    regression: Regression | None = None
    grid: Floats | None = None
    known: Mask | None = None
    bandwidth: Floats | None = None
    left_out: Floats | None = None


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
    left_out: Floats


def regress(points: Points, k: int, *, logistic: bool, squares: bool) -> Regressed:
    """Fit on everybody and on every four fifths."""
    weight = points.w[:, k]
    mean = weight @ points.x / weight.sum()
    scale = points.spread(k)
    settings: dict[str, Any] = {"logistic": logistic, "squares": squares, "mean_scale": (mean, np.where(scale > 0, scale, 1.0))}
    whole = fit_regression(points.x, weight, points.y[:, k], **settings)
    fits, fitted = [], np.empty(len(points.x))
    for fold in range(N_FOLDS):
        mine = points.fold == fold
        start = whole.coefficients if logistic else None
        fits.append(fit_regression(points.x[~mine], weight[~mine], points.y[~mine, k], start=start, **settings))
        fitted[mine] = fits[-1].at(points.x[mine])
    return Regressed(whole, tuple(fits), mean_risk(points, k, fitted), fitted)


# Kernels


@dataclass(frozen=True, slots=True)
class KernelTarget:
    """An objective to smooth: its outcomes, or with a guide their residuals from it."""

    k: int
    guide: Regressed | None = None


class KernelGrid:
    """The grid of one group: binned sums, and kernel fits from them."""

    def __init__(self, points: Points, axes: Sequence[Axis], degree: int, binary: tuple[bool, ...]) -> None:
        self.points = points
        self.axes = axes
        self.degree = degree
        self.binary = binary
        self.shape = shape_of(axes)
        self.n_nodes = int(np.prod(self.shape))
        self.nodes = node_positions(axes)
        self.around = corners(axes, list(points.x.T))
        self.w, self.y = self._bin()
        self.used = np.flatnonzero(self.w.sum(axis=(0, 1)) > 0)

    def _bin(self) -> tuple[Floats, Floats]:
        """Weight and outcome at the nodes, by objective and fold, each (K, n_folds, n_nodes)."""
        points, k = self.points, self.points.w.shape[1]
        w, y = np.zeros((k, N_FOLDS, self.n_nodes)), np.zeros((k, N_FOLDS, self.n_nodes))
        for fold in range(N_FOLDS):
            mine, nodes = self._of_fold(fold)
            for objective in range(k):
                known = objective > 0 and points.alike
                w[objective, fold] = w[0, fold] if known else nodes.bin(points.w[mine, objective], self.n_nodes)
                y[objective, fold] = nodes.bin(points.y[mine, objective], self.n_nodes)
        return w, y

    def _of_fold(self, fold: int) -> tuple[Ints, Corners]:
        mine = np.flatnonzero(self.points.fold == fold)
        return mine, Corners(self.around.node[:, mine], self.around.share[:, mine])

    def rule(self, k: int) -> Floats:
        """The rule of thumb for objective k."""
        return rule_of_thumb(self.points.spread(k), float(self.points.n_users[k]))

    def search(self, targets: Sequence[KernelTarget], bandwidths: Sequence[Floats]) -> list[Candidate]:
        """The best bandwidth of each target, fitted on all users; the targets must have the same labelled rows.

        Widest first, until none of them has gained for two steps: the risk falls, and then rises.
        """
        best = [np.inf] * len(targets)
        chosen = [bandwidths[0]] * len(targets)
        fits: list[Floats] = [np.zeros((0, 0))] * len(targets)
        guesses = [self._guesses(target) for target in targets]
        idle = 0
        for bandwidth in bandwidths:
            left_out = self._without_folds(targets, guesses, bandwidth)
            idle += 1
            for place, target in enumerate(targets):
                w, y = self.w[target.k][:, self.used], self.y[target.k][:, self.used]
                risk = float((w * left_out[place] ** 2 - 2 * y * left_out[place]).sum())
                if risk < best[place]:
                    best[place], chosen[place], fits[place] = risk, bandwidth, left_out[place]
                    idle = 0
            if idle == 2:
                break
        candidates = []
        for target, bandwidth, fit in zip(targets, chosen, fits, strict=True):
            fitted = self._left_out(fit)
            candidates.append(replace(self.fit(target, bandwidth), risk=mean_risk(self.points, target.k, fitted), left_out=fitted))
        return candidates

    def _left_out(self, fits: Floats) -> Floats:
        """The fits without each fold, (n_folds, n_used), at the points of that fold, (n,)."""
        fitted, grid = np.empty(len(self.points.x)), np.zeros(self.n_nodes)
        for fold, fit in enumerate(fits):
            grid[self.used] = fit
            mine, nodes = self._of_fold(fold)
            fitted[mine] = nodes.read(grid)
        return fitted

    def _without_folds(self, targets: Sequence[KernelTarget], guesses: Sequence[Floats | None], bandwidth: Floats) -> Floats:
        """The fits of the targets at the nodes in use without each fold, (n_targets, n_folds, n_used)."""
        weight = moments(self.w[targets[0].k], self.axes, bandwidth, 2 * self.degree)
        outcome = {target.k: moments(self.y[target.k], self.axes, bandwidth, self.degree) for target in targets}
        expected = [self._guide_moments(target.k, guess, bandwidth) for target, guess in zip(targets, guesses, strict=True)]
        fits = np.empty((len(targets), N_FOLDS, len(self.used)))
        among = np.zeros(self.n_nodes, dtype=bool)
        among[self.used] = True
        for fold in range(N_FOLDS):
            right = [
                outcome[target.k].without(fold) if guess is None else outcome[target.k].without(fold).minus(guess, fold)
                for target, guess in zip(targets, expected, strict=True)
            ]
            solved = self._solve(weight.without(fold), right, among)[self.used]
            for place, (target, guess) in enumerate(zip(targets, guesses, strict=True)):
                base = 0.0 if guess is None else guess[fold, self.used]
                fits[place, fold] = in_range(base + solved[:, place], self.binary[target.k])
        return fits

    def _guesses(self, target: KernelTarget) -> Floats | None:
        """What the guide without each fold expects at the nodes, (n_folds, n_nodes)."""
        return None if target.guide is None else np.stack([fold.at(self.nodes) for fold in target.guide.folds])

    def _guide_moments(self, k: int, guess: Floats | None, bandwidth: Floats) -> Moments | None:
        """Kernel sums of what the guide without each fold expects of the other folds."""
        return None if guess is None else moments((self.w[k].sum(axis=0) - self.w[k]) * guess, self.axes, bandwidth, self.degree)

    def fit(self, target: KernelTarget, bandwidth: Floats) -> Candidate:
        """The fit on all users at every node; with a guide, residuals from it are smoothed and added to it."""
        k, guide = target.k, target.guide
        total, outcome = self.w[k].sum(axis=0), self.y[k].sum(axis=0)
        base = np.zeros(self.n_nodes) if guide is None else guide.whole.at(self.nodes)
        left = moments(total[None], self.axes, bandwidth, 2 * self.degree).total()
        right = moments((outcome - total * base)[None], self.axes, bandwidth, self.degree).total()
        grid = in_range(base + self._solve(left, [right])[:, 0], self.binary[k])
        name = "kernel" if guide is None else "guided"
        return Candidate(name, np.nan, None if guide is None else guide.whole, grid, near(left), bandwidth)

    def _solve(self, left: Moments, right: Sequence[Moments], among: Mask | None = None) -> Floats:
        """Local fits at all nodes, (n_nodes, n_targets): where nobody is near, the value of the nearest node with users."""
        known = near(left)
        if among is not None and (known & among).any():
            known &= among
        at = np.flatnonzero(known)
        values = np.zeros((self.n_nodes, len(right)))
        values[at] = local_fit(left, right, self.degree, at)
        return fill_from_nearest(values, known, self.shape)
