"""Two sides with one curve: how far chance alone would take linear estimates of either, and their difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial

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
    across_correlation,
    alike_pairs,
    common_correlation,
    effective_users,
    number_laws,
    rate_law,
)
from evenscore.types import Floats


@dataclass(frozen=True, eq=False)
class Dispersion:
    """How n differences of two sides spread under a null: their law, and each side's law and effective users.

    joint: makes their covariance, (n, n), which not all who ask for the law need. together: the correlation of the two sides, of
    users that both have, (n,). scatter_a, scatter_b: what it is all made of.
    """

    law: Law
    joint: Callable[[], Floats]
    together: Floats
    side_a: SideLaw
    side_b: SideLaw
    effective_a: Floats
    effective_b: Floats
    scatter_a: Dependence | Scatter
    scatter_b: Dependence | Scatter

    @cached_property
    def covariance(self) -> Floats:
        """How they go together, (n, n)."""
        return self.joint()

    @property
    def corr(self) -> Floats:
        """The same in standard errors."""
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
        side_a, side_b = _side_laws(a, b)
        size, together = side_a.law.se * side_b.law.se, np.zeros(len(a.matrix))
        if self.shared is not None:
            _, shared = self._rescaled(a, side_a, b, side_b)
            together = np.clip(np.divide(np.diag(shared), size, out=together, where=size > 0), -1, 1)
        law = side_a.law.minus(side_b.law, together * size)
        joint = partial(self.joint_covariance, a, side_a, b, side_b)
        return Dispersion(law, joint, together, side_a, side_b, a.effective, b.effective, a, b)

    def joint_covariance(self, a: Dependence | Scatter, side_a: SideLaw, b: Dependence | Scatter, side_b: SideLaw) -> Floats:
        """How differences go together, (n, n), of estimates that scatter so, with the standard errors of these laws."""
        both, shared = self._rescaled(a, side_a, b, side_b)
        return both if self.shared is None else both - shared - shared.T

    def _rescaled(
        self, a: Dependence | Scatter, side_a: SideLaw, b: Dependence | Scatter, side_b: SideLaw
    ) -> tuple[Floats, Floats]:
        """The covariances of the two sides added up, and that across, which is 0 where nobody is in both."""
        block_a, block_b, shared = self._of_rates(a, b) if isinstance(a, Dependence) else self._of_numbers(a, b)
        up_a, up_b = _rescaling(side_a.law, block_a), _rescaling(side_b.law, block_b)
        return block_a * np.outer(up_a, up_a) + block_b * np.outer(up_b, up_b), shared * np.outer(up_a, up_b)

    def _of_rates(self, a: Dependence, b: Dependence | Scatter) -> tuple[Floats, Floats, Floats]:
        """0/1 outcomes: cells go together as residuals do where there are events to tell, else as equally correlated rows."""
        assert isinstance(b, Dependence)
        share, rho = (
            min(_median(side.events / (side.events + BORROWED_EVENTS)) for side in (a, b)),
            _median(common_correlation(a, b)),
        )
        shared = np.zeros((len(a.matrix), len(b.matrix)))
        if self.shared is not None and self.shared_alike is not None:
            across = across_correlation(self.shared, self.shared_alike)
            shared = a.matrix @ (share * self.shared + (1 - share) * across * self.shared_alike) @ b.matrix.T
        return a.covariance(self.a, share, rho), b.covariance(self.b, share, rho), shared

    def _of_numbers(self, a: Scatter, b: Dependence | Scatter) -> tuple[Floats, Floats, Floats]:
        """Other outcomes: cells go together as residuals do."""
        assert isinstance(b, Scatter)
        shared = np.zeros((len(a.matrix), len(b.matrix))) if self.shared is None else a.matrix @ self.shared @ b.matrix.T
        return a.seen @ a.matrix.T, b.seen @ b.matrix.T, shared


def _side_laws(a: Dependence | Scatter, b: Dependence | Scatter) -> tuple[SideLaw, SideLaw]:
    """0/1 outcomes: the pooled rate's variance, times what users add by what both sides show together and each by itself.

    Other outcomes: each side's variance per user, moved towards that of both together by how little it can tell.
    """
    if isinstance(a, Scatter) or isinstance(b, Scatter):
        assert isinstance(a, Scatter) and isinstance(b, Scatter)
        return number_laws(a, b)
    common = common_correlation(a, b)
    return rate_law(a, common, BORROWED_EVENTS)[0], rate_law(b, common, BORROWED_EVENTS)[0]


def _median(values: Floats) -> float:
    """As ``np.median`` of finite values, which takes ten times as long for few of them."""
    ordered = np.sort(values)
    return float(ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) / 2


def _rescaling(law: Law, block: Floats) -> Floats:
    """What takes the standard errors of a covariance to those of a law."""
    variance = np.diag(block)
    return np.sqrt(np.divide(law.variance, variance, out=np.ones_like(variance), where=variance > 0))
