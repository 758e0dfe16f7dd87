"""The expected outcome at the edge of what is seen: weighted means of one side's outcomes, with what users add to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenscore.estimation.bandwidth import settle
from evenscore.estimation.inference import small_sample
from evenscore.estimation.kernels import Smoother, indicator_smoother
from evenscore.estimation.smoothing import Smoothing, unsmoothed
from evenscore.marginal.cut import Cut
from evenscore.tallies.pairs import PairMatrices
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

ONE_SIDED = 2.0  # a one-sided fit sees half of the people, and further out: rules of thumb are doubled


@dataclass(frozen=True, slots=True)
class Edge:
    """A linear estimate of one group from some cells: level = weights @ Y, up to what happens inside a cell.

    weights: (n_cells,), 0 in cells that are not used; basis: (k, n_cells), the weights times 1, u, ..., so that the fit that
    residuals are taken from is in its span; coefficients: (k,) of the group's own fit; pull: (k,) what the coefficients become per
    unit when the level is moved; gram: (k + 1, k + 1), sum over users of z z' with z = (weights @ y, basis @ w).
    """

    level: float
    weights: Floats
    basis: Floats
    coefficients: Floats
    pull: Floats
    gram: Floats

    @property
    def effective_users(self) -> float:
        """How many users the estimate rests on: 1 / (l Pww l')."""
        return 1 / float(self.gram[1, 1]) if self.gram[1, 1] > 0 else 0.0

    @property
    def factor(self) -> float:
        """n / (n - 1) for the effective users."""
        return float(small_sample(np.array([self.effective_users]))[0])

    def residual(self, level: float | None = None) -> Floats:
        """What turns z into a user's residual, (k + 1,): around the group's own fit, or around one with another level."""
        moved = 0.0 if level is None else level - float(self.coefficients[0])
        return self.factor * np.concatenate([[1.0], -(self.coefficients + moved * self.pull)])

    def moved_variance(self) -> tuple[float, float, float]:
        """The variance when the level is moved by m, as a quadratic in m: at 0, per m and per m^2."""
        q = self.residual()
        p = self.factor * np.concatenate([[0.0], -self.pull])
        return float(q @ self.gram @ q), float(2 * q @ self.gram @ p), float(p @ self.gram @ p)

    def variance(self, level: float | None = None) -> float:
        """The user-robust variance of the level; with another level imposed, as under a null."""
        q = self.residual(level)
        return max(float(q @ self.gram @ q), 0.0)


def shared_covariance(pairs: PairMatrices, a: Edge, b: Edge, level: float | None = None) -> float:
    """The covariance of two groups' levels from the users that both have."""
    return float(a.residual(level) @ user_gram(pairs, a.weights, a.basis, b.weights, b.basis) @ b.residual(level))


def user_gram(pairs: PairMatrices, l_a: Floats, basis_a: Floats, l_b: Floats, basis_b: Floats) -> Floats:
    """sum over users of z_a z_b', (k + 1, k + 1); see ``Edge``."""
    top = np.concatenate([[l_a @ pairs.yy @ l_b], l_a @ pairs.yw @ basis_b.T])
    return np.vstack([top, np.column_stack([basis_a @ (pairs.wy @ l_b), basis_a @ pairs.ww @ basis_b.T])])


def edge_smoothing(smoothing: Smoothing, views: Sequence[GroupView], cuts: Sequence[Cut]) -> Smoothing:
    """With the bandwidth that all groups share at their cuts: a rule of thumb for the people on the positive side, doubled."""
    positive = []
    for view, cut in zip(views, cuts, strict=True):
        side = view.only(cut.inside)
        if side.sums.W.any():
            share = side.sums.W.sum() / view.sums.W.sum()
            positive.append(replace(side, n_users=max(1, round(share * view.n_users))))
    settled = settle(smoothing, positive)
    return settled.at(ONE_SIDED * settled.h) if isinstance(smoothing.bandwidth, str) else settled


def fit_edge(cut: Cut, side: GroupView, smoothing: Smoothing | None) -> Edge | None:
    """The outcome at the cut of the people on one side: a local polynomial, or without smoothing the marginal value alone."""
    sums = side.sums
    smooth = _smoother_at(cut, side, smoothing)
    weights, u = smooth.matrix[0] * (sums.W > 0), smooth.u[0]
    if not np.isfinite(weights).all():
        return None
    powers = np.arange(smooth.slopes.shape[1] + 1)
    coefficients = np.concatenate([[weights @ sums.Y], smooth.slopes[0] @ sums.Y])
    pull = np.ones(1)
    if len(powers) > 1:
        assert smoothing is not None
        design = u[None, :] ** powers[:, None]
        moments = (design * smoothing.shape.shape(u) * sums.W) @ design.T
        column = np.linalg.solve(moments, np.eye(len(powers))[0])
        pull = column / column[0]
    level = float(smooth.curve(sums.Y, sums.tilt)[0])
    return _edge(side, level, weights, weights * u[None, :] ** powers[:, None], coefficients, pull)


def _edge(side: GroupView, level: float, weights: Floats, basis: Floats, coefficients: Floats, pull: Floats) -> Edge:
    """With the sums over users that its variance needs, from the cells that have people."""
    near, spanned = weights[side.used], basis[:, side.used]
    gram = user_gram(side.at(side.used).pairs, near, spanned, near, spanned)
    return Edge(level=level, weights=weights, basis=basis, coefficients=coefficients, pull=pull, gram=gram)


def _smoother_at(cut: Cut, side: GroupView, smoothing: Smoothing | None) -> Smoother:
    if smoothing is None:
        distance = np.abs(side.sums.position - cut.position)
        value = indicator_smoother(np.array([distance.argmin()]), side.sums.W)
        value.matrix[:, distance.min() > 1e-12] = np.nan
        return value
    return smoothing.local_polynomial(side, np.array([cut.position]))


def mean_edge(side: GroupView) -> Edge:
    """The plain average of all on one side."""
    sums = side.sums
    weights = (sums.W > 0) / sums.W.sum()
    level = float(weights @ sums.Y)
    return _edge(side, level, weights, weights[None, :], np.array([level]), np.ones(1))


def few_scores(views: Sequence[GroupView]) -> bool:
    """Whether scores have so few values that the marginal one is looked at by itself."""
    return unsmoothed(views[0].lattice, *(view.sums for view in views))
