"""Two sides with one curve: how far chance alone would take linear estimates of either, and their difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from evenscore.estimation.comparison import Comparison
from evenscore.estimation.inference import correlation as _correlation
from evenscore.estimation.laws import Law, blocks
from evenscore.estimation.scatters import Scatter, number_laws
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.spreads import (
    BORROWED_EVENTS,
    Around,
    Dependence,
    SideLaw,
    across_correlation,
    alike_pairs,
    common_correlation,
    effective_users,
    rate_law,
)
from evenscore.types import Floats

OneSide = Dependence | Scatter


@dataclass(frozen=True, eq=False)
class Contrast:
    """n differences matrix_a @ Y_a - matrix_b @ Y_b of the outcome sums of two sides, (n, n_cells) each.

    users: which users of a and of b they rest on, (n, n_cells) each: these matrices, or, where they take a pooled curve away as
    well, what they are without it.
    """

    matrix_a: Floats
    matrix_b: Floats
    users: tuple[Floats, Floats]


@dataclass(frozen=True, eq=False)
class Dispersion:
    """How n differences of two sides spread under a null: their law, and each side's law and effective users.

    together: the correlation of the two sides, of users that both have, (n,). scatter_a, scatter_b: what it is all made of.
    """

    law: Law
    null: Null
    together: Floats
    side_a: SideLaw
    side_b: SideLaw
    effective_a: Floats
    effective_b: Floats
    scatter_a: OneSide
    scatter_b: OneSide

    @cached_property
    def covariance(self) -> Floats:
        """How they go together, (n, n), which not all who ask for the law need."""
        return self.null.joint_covariance(self.scatter_a, self.side_a, self.scatter_b, self.side_b)

    @property
    def corr(self) -> Floats:
        """The same in standard errors."""
        return _correlation(self.covariance)


@dataclass(frozen=True, slots=True)
class Null:
    """The pair's pooled curve, as if there were no gap.

    fit: (n_cells,); a, b: the sides around it; shared, shared_alike: residual pairs of users that both have, and what they would be
    if all rows of a user deviated alike; combine: makes combinations of the fit at the cells, (n, n_cells), such on the summed
    outcomes.
    """

    fit: Floats
    a: Around
    b: Around
    shared: Floats | None
    shared_alike: Floats | None
    combine: Callable[[Floats], Floats]

    @classmethod
    def of(cls, comparison: Comparison, smoothing: Smoothing) -> Null:
        """Fit it."""
        fit = comparison.pooled_fit(smoothing)
        a, b = (Around.of(side, fit) for side in comparison.sides)
        shared, alike = None, None
        if comparison.cross is not None:
            shared = comparison.cross.residual(fit, fit)
            alike = None if a.known is None else alike_pairs(comparison.cross, fit, fit)
        return cls(fit, a, b, shared, alike, partial(comparison.combine_fits, smoothing=smoothing))

    def together(self, a: OneSide, side_a: SideLaw, b: OneSide, side_b: SideLaw) -> Floats:
        """The correlation of the two sides of each difference, of users that both have, (n,)."""
        none = np.zeros(len(a.matrix))
        _, shared = (None, None) if self.shared is None else self._rescaled(a, side_a, b, side_b)
        if shared is None:
            return none
        size = side_a.law.se * side_b.law.se
        return np.clip(np.divide(np.diag(shared), size, out=none, where=size > 0), -1, 1)

    def joint_covariance(self, a: OneSide, side_a: SideLaw, b: OneSide, side_b: SideLaw) -> Floats:
        """How differences go together, (n, n), of estimates that scatter so, with the standard errors of these laws."""
        both, shared = self._rescaled(a, side_a, b, side_b)
        return both if shared is None else both - shared - shared.T

    def _rescaled(self, a: OneSide, side_a: SideLaw, b: OneSide, side_b: SideLaw) -> tuple[Floats, Floats | None]:
        """The covariances of the two sides added up, and that across, None where nobody is in both."""
        block_a, block_b, shared = self._of_rates(a, b) if isinstance(a, Dependence) else self._of_numbers(a, b)
        up_a, up_b = _rescaling(side_a.law, block_a), _rescaling(side_b.law, block_b)
        if shared is not None:
            shared *= np.outer(up_a, up_b)
        return block_a * np.outer(up_a, up_a) + block_b * np.outer(up_b, up_b), shared

    def _of_rates(self, a: Dependence, b: OneSide) -> tuple[Floats, Floats, Floats | None]:
        """0/1 outcomes: cells go together as residuals do where there are events to tell, else as equally correlated rows."""
        assert isinstance(b, Dependence)
        share, rho = (
            min(_median(side.events / (side.events + BORROWED_EVENTS)) for side in (a, b)),
            _median(common_correlation(a, b)),
        )
        shared = None
        if self.shared is not None and self.shared_alike is not None:
            across = across_correlation(self.shared, self.shared_alike)
            shared = a.matrix @ (share * self.shared + (1 - share) * across * self.shared_alike) @ b.matrix.T
        return a.covariance(self.a, share, rho), b.covariance(self.b, share, rho), shared

    def _of_numbers(self, a: Scatter, b: OneSide) -> tuple[Floats, Floats, Floats | None]:
        """Other outcomes: cells go together as residuals do."""
        assert isinstance(b, Scatter)
        shared = None if self.shared is None else a.matrix @ self.shared @ b.matrix.T
        return a.seen @ a.matrix.T, b.seen @ b.matrix.T, shared


def disperse(nulls: Sequence[Null], contrasts: Sequence[Contrast]) -> list[Dispersion]:
    """The joint spread of the differences of each of several comparisons: their laws all at once, end to end."""
    arounds = [null.a for null in nulls] + [null.b for null in nulls]
    matrices = [own.matrix_a for own in contrasts] + [own.matrix_b for own in contrasts]
    users = [own.users[0] for own in contrasts] + [own.users[1] for own in contrasts]
    effective = [effective_users(around.view, matrix) for around, matrix in zip(arounds, users, strict=True)]
    whole, sides = _scatter(arounds, matrices, effective)
    places = blocks(len(own.matrix_a) for own in contrasts)
    n = places[-1].stop
    laws = _side_laws(whole.at(slice(None, n)), whole.at(slice(n, None)))
    of_pairs = [(laws[0].at(place), laws[1].at(place)) for place in places]
    pairs = list(zip(nulls, sides[: len(nulls)], sides[len(nulls) :], of_pairs, strict=True))
    together = [null.together(a, side_a, b, side_b) for null, a, b, (side_a, side_b) in pairs]
    size = laws[0].law.se * laws[1].law.se
    law = laws[0].law.minus(laws[1].law, np.concatenate(together) * size)
    return [
        Dispersion(law.at(place), null, own, side_a, side_b, a.effective, b.effective, a, b)
        for (null, a, b, (side_a, side_b)), own, place in zip(pairs, together, places, strict=True)
    ]


def _scatter(
    arounds: Sequence[Around], matrices: Sequence[Floats], effective: Sequence[Floats]
) -> tuple[OneSide, Sequence[OneSide]]:
    """How outcomes scatter in several sides, end to end and each by itself."""
    if arounds[0].known is None:
        return Scatter.each(arounds, matrices, effective)
    return Dependence.each(arounds, matrices, effective)


def _side_laws(a: OneSide, b: OneSide) -> tuple[SideLaw, SideLaw]:
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
