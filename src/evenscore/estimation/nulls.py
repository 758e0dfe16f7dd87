"""Two sides with one curve: how far chance alone would take linear estimates of either, and their difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from evenscore.estimation.comparison import Comparison
from evenscore.estimation.inference import correlation as _correlation
from evenscore.estimation.laws import Law
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.spreads import (
    BORROWED_EVENTS,
    Around,
    Dependence,
    Scatter,
    SideLaw,
    alike_pairs,
    common_correlation,
    effective_users,
    number_laws,
    rate_law,
)
from evenscore.types import Floats

TINY = 1e-300


@dataclass(frozen=True, slots=True)
class Dispersion:
    """How n differences of two sides spread under a null: their law, covariance (n, n), and each side's law and effective users.

    together: the correlation of the two sides, of users that both have, (n,). scatter_a, scatter_b: what it is all made of.
    """

    law: Law
    covariance: Floats
    together: Floats
    side_a: SideLaw
    side_b: SideLaw
    effective_a: Floats
    effective_b: Floats
    scatter_a: Dependence | Scatter
    scatter_b: Dependence | Scatter

    @property
    def corr(self) -> Floats:
        """How the differences go together, (n, n)."""
        return _correlation(self.covariance)


@dataclass(frozen=True, slots=True)
class Null:
    """The pair's pooled curve, as if there were no gap.

    fit: (n_cells,); a, b: the sides around it; shared, shared_alike: residual pairs of users that both have, and what they would be
    if all rows of a user deviated alike; matrix: makes the fit as a matrix on the summed outcomes, (n_cells, n_cells), which only
    residual processes need.
    """

    fit: Floats
    a: Around
    b: Around
    shared: Floats | None
    shared_alike: Floats | None
    matrix: Callable[[], Floats]

    @classmethod
    def of(cls, comparison: Comparison, smoothing: Smoothing) -> Null:
        """Fit it."""
        fit = comparison.pooled_fit(smoothing)
        a, b = (Around.of(side, fit) for side in comparison.sides)
        shared, alike = None, None
        if comparison.cross is not None:
            shared = comparison.cross.residual(fit, fit)
            alike = None if a.known is None else alike_pairs(comparison.cross, fit, fit)
        return cls(fit, a, b, shared, alike, cache(lambda: comparison.pooled_matrix(smoothing)))

    def spread(self, matrix_a: Floats, matrix_b: Floats, raw_a: Floats | None = None, raw_b: Floats | None = None) -> Dispersion:
        """The joint spread of the differences matrix_a @ Y_a - matrix_b @ Y_b.

        raw_a, raw_b: (n, n_cells), which users the values rest on, when the matrices take a pooled curve away as well.
        """
        effective_a = effective_users(self.a.view, matrix_a if raw_a is None else raw_a)
        effective_b = effective_users(self.b.view, matrix_b if raw_b is None else raw_b)
        kind = Scatter if self.a.known is None else Dependence
        return self.disperse(kind.of(self.a, matrix_a, effective_a), kind.of(self.b, matrix_b, effective_b))

    def disperse(self, a: Dependence | Scatter, b: Dependence | Scatter) -> Dispersion:
        """The same of estimates of which is known how they scatter."""
        if isinstance(a, Dependence) and isinstance(b, Dependence):
            return _of_rates(self, a, b)
        assert isinstance(a, Scatter) and isinstance(b, Scatter)
        return _of_numbers(self, a, b)


def _of_rates(null: Null, a: Dependence, b: Dependence) -> Dispersion:
    """0/1 outcomes: the pooled rate's variance, times what users add by what both sides show together and each by itself."""
    common = common_correlation(a, b)
    side_a, own_a = rate_law(a, common, BORROWED_EVENTS)
    side_b, own_b = rate_law(b, common, BORROWED_EVENTS)
    share, rho = min(_median(own_a), _median(own_b)), _median(common)
    block_a, block_b = a.covariance(null.a, share, rho), b.covariance(null.b, share, rho)
    cross = None
    if null.shared is not None and null.shared_alike is not None:
        # What one group's rows win may be what the other's lose, so that this correlation has a sign.
        across = float(np.clip(float(null.shared.sum()) / max(float(null.shared_alike.sum()), TINY), -1, 1))
        cross = a.matrix @ (share * null.shared + (1 - share) * across * null.shared_alike) @ b.matrix.T
    return _dispersion(a, side_a, block_a, b, side_b, block_b, cross)


def _of_numbers(null: Null, a: Scatter, b: Scatter) -> Dispersion:
    """Other outcomes: each side's variance per user, moved towards that of both together by how little it can tell."""
    side_a, side_b = number_laws(a, b)
    cross = None if null.shared is None else a.matrix @ null.shared @ b.matrix.T
    return _dispersion(a, side_a, a.seen @ a.matrix.T, b, side_b, b.seen @ b.matrix.T, cross)


def _dispersion(
    a: Dependence | Scatter,
    side_a: SideLaw,
    block_a: Floats,
    b: Dependence | Scatter,
    side_b: SideLaw,
    block_b: Floats,
    cross: Floats | None,
) -> Dispersion:
    """Covariances taken to the variances of the laws."""
    up_a, up_b = (_rescaling(side.law, block) for side, block in ((side_a, block_a), (side_b, block_b)))
    covariance = block_a * np.outer(up_a, up_a) + block_b * np.outer(up_b, up_b)
    together = np.zeros(len(covariance))
    if cross is not None:
        cross = cross * np.outer(up_a, up_b)
        covariance = covariance - cross - cross.T
        size = side_a.law.se * side_b.law.se
        together = np.clip(np.divide(np.diag(cross), size, out=together, where=size > 0), -1, 1)
    law = side_a.law.minus(side_b.law, together * side_a.law.se * side_b.law.se)
    return Dispersion(law, covariance, together, side_a, side_b, a.effective, b.effective, a, b)


def _median(values: Floats) -> float:
    """As ``np.median`` of finite values, which takes ten times as long for few of them."""
    ordered = np.sort(values)
    return float(ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2


def _rescaling(law: Law, block: Floats) -> Floats:
    """What takes the standard errors of a covariance to those of a law."""
    variance = np.diag(block)
    return np.sqrt(np.divide(law.variance, variance, out=np.ones_like(variance), where=variance > 0))
