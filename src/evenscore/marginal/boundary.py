"""The expected outcome at the edge of what is seen: weighted means of one side's outcomes, with what users add to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.estimation.bandwidth import bandwidth_for
from evenscore.estimation.fitted_curves import small_sample, unsmoothed
from evenscore.estimation.kernels import Smoother, indicator_smoother, kernel_named, smoother
from evenscore.marginal.cut import Cut
from evenscore.tallies.pairs import PairMatrices
from evenscore.tallies.tally_state import CellSums, Tally
from evenscore.types import Floats, Ints

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


def side_sums(tally: Tally, group: Any, weighting: str, cells: Ints) -> CellSums:
    """The sums with nobody in the other cells."""
    sums = tally.sums(group, weighting)
    mine = np.zeros(len(sums.W), dtype=bool)
    mine[cells] = True
    counted = (name for name in CellSums.__slots__ if name not in ("position", "width"))
    return replace(sums, **{name: np.where(mine, getattr(sums, name), 0.0) for name in counted})


def edge_bandwidth(tally: Tally, cuts: Sequence[Cut], *, bandwidth: float | str, weighting: str, degree: int, kernel: str) -> float:
    """The bandwidth that all groups share at their cuts: a rule of thumb for the people on the positive side, doubled."""
    sides = []
    for group, cut in zip(tally.groups, cuts, strict=True):
        sums = side_sums(tally, group, weighting, cut.inside)
        if sums.W.any():
            share = sums.W.sum() / tally.sums(group, weighting).W.sum()
            sides.append(((group,), sums, max(1, round(share * tally.n_users[group]))))
    chosen = bandwidth_for(tally, sides, bandwidth=bandwidth, weighting=weighting, degree=degree, kernel=kernel)
    return ONE_SIDED * chosen if isinstance(bandwidth, str) else chosen


def fit_edge(
    cut: Cut, sums: CellSums, pairs: PairMatrices, cells: Ints, *, bandwidth: float | None, degree: int, kernel: str
) -> Edge | None:
    """The outcome at the cut: a local polynomial, or without bandwidth the marginal value alone.

    pairs: the pair matrices of ``cells``, which are those with weight.
    """
    smooth = _smoother_at(cut, sums, bandwidth, degree, kernel)
    weights, u = smooth.matrix[0] * (sums.W > 0), smooth.u[0]
    if not np.isfinite(weights).all():
        return None
    powers = np.arange(smooth.slopes.shape[1] + 1)
    coefficients = np.concatenate([[weights @ sums.Y], smooth.slopes[0] @ sums.Y])
    pull = np.ones(1)
    if len(powers) > 1:
        design = u[None, :] ** powers[:, None]
        moments = (design * kernel_named(kernel).shape(u) * sums.W) @ design.T
        column = np.linalg.solve(moments, np.eye(len(powers))[0])
        pull = column / column[0]
    basis = weights * u[None, :] ** powers[:, None]
    near, spanned = weights[cells], basis[:, cells]
    gram = user_gram(pairs, near, spanned, near, spanned)
    return Edge(float(smooth.curve(sums.Y, sums.tilt)[0]), weights, basis, coefficients, pull, gram)


def _smoother_at(cut: Cut, sums: CellSums, bandwidth: float | None, degree: int, kernel: str) -> Smoother:
    if bandwidth is None:
        distance = np.abs(sums.position - cut.position)
        found = indicator_smoother(np.array([distance.argmin()]), sums.W)
        found.matrix[:, distance.min() > 1e-12] = np.nan
        return found
    return smoother(
        points=np.array([cut.position]),
        positions=sums.position,
        weight=sums.W,
        bandwidth=bandwidth,
        degree=degree,
        kernel=kernel,
        cell_width=sums.width,
    )


def mean_edge(sums: CellSums, pairs: PairMatrices, cells: Ints) -> Edge | None:
    """The plain average of all; pairs: of ``cells``, those with weight."""
    if not sums.W.any():
        return None
    weights = (sums.W > 0) / sums.W.sum()
    level = float(weights @ sums.Y)
    used = weights[cells]
    gram = user_gram(pairs, used, used[None, :], used, used[None, :])
    return Edge(level, weights, weights[None, :], np.array([level]), np.ones(1), gram)


def few_scores(tally: Tally, weighting: str) -> bool:
    """Whether scores have so few values that the marginal one is looked at by itself."""
    return unsmoothed(tally.lattice, *(tally.sums(group, weighting) for group in tally.groups))
