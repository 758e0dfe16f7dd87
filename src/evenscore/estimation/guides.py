"""Guided smoothing: a curve of four parameters takes what bends, and what it leaves is smoothed.

A local line is off where a curve bends within a bandwidth, most of all at the ends, and the more rows users have the less of that
is hidden by noise. So a parametric curve is fitted first, its residuals are smoothed and it is added back (Glad 1998): a wrong
guide costs little, as what it leaves is still followed, and a good one takes the bias away at hardly any variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenscore.estimation.bandwidth import narrow_words
from evenscore.estimation.kernels import Smoother
from evenscore.estimation.logistic import expit, fit_logistic
from evenscore.estimation.smoothing import Smoothing, unsmoothed
from evenscore.estimation.spreads import Around, mixed_cells, quadratic
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

DEVIATIONS = np.array([3.0, 1.5, 0.75])  # of what is believed about coefficients, one user's worth, so that no event is too few
NARROWER = 0.5**0.5
MOST_STEPS = 6  # from the bandwidth of the rule to an eighth of it
BEND = 0.3  # mean squared bias in units of the variance that is let pass: about what noise of a curve without bias may show


@dataclass(frozen=True, slots=True)
class Guide:
    """A polynomial of third degree in the normal scores of a group: of the logit of 0/1 outcomes, of others themselves.

    used, normal: positions and normal scores of the cells with people; coefficients: (k,), none for a guide that is 0 everywhere;
    at_cells: (n_cells,), the guide there; slopes: (n_cells, k), how it moves with the coefficients; sensitivity: (k, n_cells), how
    these move with outcome sums.
    """

    binary: bool
    used: Floats
    normal: Floats
    coefficients: Floats
    at_cells: Floats
    slopes: Floats
    sensitivity: Floats

    @classmethod
    def none(cls, view: GroupView) -> Guide:
        """No guide: everything is left to smoothing."""
        n_cells, empty = len(view.sums.W), np.zeros(0)
        return cls(False, empty, empty, empty, np.zeros(n_cells), np.zeros((n_cells, 0)), np.zeros((0, n_cells)))

    @classmethod
    def of(cls, view: GroupView) -> Guide:
        """Fitted to the sums of a view; none where outcomes do not vary or scores have few values, which are not smoothed."""
        try:
            return cls._fitted(view)
        except np.linalg.LinAlgError:  # sums that contradict each other
            return cls.none(view)

    @classmethod
    def _fitted(cls, view: GroupView) -> Guide:
        sums, binary = view.sums, view.tally.binary
        has = sums.W > 0
        if unsmoothed(view.lattice, sums) or (binary and not 0 < sums.Y.sum() < view.total):
            return cls.none(view)
        used, normal = sums.position[has], normal_scores(view)[has]
        design = _hermite(np.interp(sums.position, used, normal))
        unit = view.total / view.n_users
        weight, outcome = sums.W / unit, sums.Y / unit
        prior = np.concatenate([[0.0], DEVIATIONS**-2])
        if binary:
            start = np.zeros(design.shape[1])
            start[0] = np.log(sums.Y.sum() / (view.total - sums.Y.sum()))
            coefficients, information = fit_logistic(design, weight, outcome, centre=start, prior=prior)
        else:
            information = design.T @ (design * weight[:, None]) + np.diag(prior)
            coefficients = np.asarray(np.linalg.solve(information, design.T @ outcome), np.float64)
        at_cells, slopes = _at(design, coefficients, binary)
        sensitivity = np.asarray(np.linalg.solve(information, design.T) / unit, np.float64)
        return cls(binary, used, normal, coefficients, at_cells, slopes, sensitivity)

    @property
    def bends(self) -> bool:
        """Whether it is a curve, and not 0 everywhere."""
        return len(self.coefficients) > 0

    def at(self, points: Floats) -> tuple[Floats, Floats]:
        """The guide at points on the axis, (n_points,), and how it moves with the coefficients, (n_points, k)."""
        if not self.bends:
            return np.zeros(len(points)), np.zeros((len(points), 0))
        return _at(_hermite(np.interp(points, self.used, self.normal)), self.coefficients, self.binary)

    def left(self, view: GroupView) -> Floats:
        """Outcome sums less the guide, (n_cells,)."""
        return np.asarray(view.sums.Y - view.sums.W * self.at_cells)

    def curve(self, view: GroupView, smooth: Smoother, points: Floats) -> Floats:
        """The guided curve at the points of a smoother, (n_points,)."""
        return self.at(points)[0] + smooth.curve(self.left(view), view.sums.tilt)

    def matrix(self, view: GroupView, smooth: Smoother, points: Floats) -> Floats:
        """How it moves with outcome sums, (n_points, n_cells): l + (dg(points) - l W dg(cells)), to first order in the guide g."""
        return smooth.matrix + (self.at(points)[1] - (smooth.matrix * view.sums.W) @ self.slopes) @ self.sensitivity

    def influence(self, view: GroupView, smooth: Smoother, points: Floats, fit: Floats) -> tuple[Floats, Floats]:
        """Of users on the guided curve, (n_points, n_cells) each: matrix_j y_m - fitted_j w_m.

        Near a point residuals are those of its local fit; what outcomes do through the guide reaches further, and is taken around
        the fit at the cells.
        """
        near = self.at_cells + smooth.local_fit(self.left(view))
        matrix = self.matrix(view, smooth, points)
        return matrix, smooth.matrix * near + (matrix - smooth.matrix) * fit

    def fit_at(self, view: GroupView, smoothing: Smoothing) -> Floats:
        """The guided curve at the cells, (n_cells,)."""
        if not self.bends:
            return smoothing.fit_at(view)
        return self.at_cells + smoothing.fit_at_cells(view.sums.position, view.sums.W, self.left(view))


def normal_scores(view: GroupView) -> Floats:
    """Normal quantiles of the mean ranks of the cells' people, (n_cells,) (van der Waerden 1952)."""
    from scipy import special

    weight = view.sums.W
    rank = (np.cumsum(weight) - weight / 2) / view.total
    least = 0.5 / max(view.n_users, 2)
    return np.asarray(special.ndtri(np.clip(rank, least, 1 - least)))


def _hermite(z: Floats) -> Floats:
    """Polynomials that are orthonormal where z is standard normal, (n, 4)."""
    return np.stack([np.ones_like(z), z, (z**2 - 1) / np.sqrt(2), (z**3 - 3 * z) / np.sqrt(6)], axis=1)


def _at(design: Floats, coefficients: Floats, binary: bool) -> tuple[Floats, Floats]:
    linear = design @ coefficients
    if not binary:
        return linear, design
    rate = expit(linear)
    return rate, design * (rate * (1 - rate))[:, None]


# Bends that a guide does not take


def narrowed(view: GroupView, smoothing: Smoothing, guide: Guide, points: Floats, correlation: float) -> Smoothing:
    """The bandwidth of a local line, narrower where it is seen to bend: by steps until no bend is seen, and one more, if cells can
    tell.

    correlation: of a user's rows, see ``user_correlation``.
    """
    around = Around.of(view, guide.fit_at(view, smoothing))
    cells = around.residual if around.known is None else mixed_cells(around, 0.0, correlation)
    seen = False
    for _ in range(MOST_STEPS):
        bends = _bend(view, smoothing, guide, points, cells) > BEND
        narrower = smoothing.at(smoothing.h * NARROWER)
        if not (bends or seen) or narrow_words(view.lattice, narrower):
            break
        smoothing = narrower
        if not bends:
            break
        seen = True
    return smoothing


def _bend(view: GroupView, smoothing: Smoothing, guide: Guide, points: Floats, cells: Floats) -> float:
    """The mean squared bias of a guided local line over its variance, without bias itself: by its distance from a local parabola.

    cells: the covariance of the cells' outcome sums. What is not known at a point counts for nothing.
    """
    line, parabola = smoothing.smoother(view, points), Smoothing(2, smoothing.kernel, smoothing.h).smoother(view, points)
    apart = guide.curve(view, line, points) - guide.curve(view, parabola, points)
    matrix = guide.matrix(view, line, points)
    variance, noise = quadratic(matrix, cells), quadratic(matrix - guide.matrix(view, parabola, points), cells)
    known = np.isfinite(apart) & np.isfinite(noise) & (variance > 0)
    return float(np.mean((apart[known] ** 2 - noise[known]) / variance[known])) if known.any() else 0.0
