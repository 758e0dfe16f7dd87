"""How to smooth, as one value: degree, kernel and bandwidth, with the smoothers that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenscore.errors import OptionError, is_finite, require_option, shortened
from evenscore.estimation.kernels import (
    KERNELS,
    TINY,
    Kernel,
    Smoother,
    first_row,
    indicator_smoother,
    inverse_weight,
    kernel_for,
    kernel_powers,
    line_smoother,
    smoother,
)
from evenscore.tallies.group_sums import CellSums
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.scale_choice import FEW_VALUES as FEW_VALUES
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

RULES = ("test", "band", "theorem", "risk")


@dataclass(frozen=True, slots=True)
class Smoothing:
    """Local polynomials of a degree, weighted by a kernel whose bandwidth is a number on the lattice's axis, or a rule.

    degree: 0 Nadaraya-Watson (the paper's), 1 local linear, 2 local quadratic. A rule becomes a number by ``settle``.
    """

    degree: int = 1
    kernel: str = "gaussian"
    bandwidth: float | str = "test"

    def __post_init__(self) -> None:
        kernel_for(self.kernel, self.degree)
        if isinstance(self.bandwidth, str):
            require_option("bandwidth", self.bandwidth, RULES)
        elif not (is_finite(self.bandwidth) and self.bandwidth > 0):
            rules = ", ".join(map(repr, RULES))
            raise OptionError(f"bandwidth={shortened(self.bandwidth)} must be a positive number or one of {rules}")

    @property
    def h(self) -> float:
        """The bandwidth, once it is a number."""
        assert not isinstance(self.bandwidth, str)
        return float(self.bandwidth)

    @property
    def shape(self) -> Kernel:
        """The kernel itself."""
        return KERNELS[self.kernel]

    @property
    def words(self) -> str:
        """The estimator, for people."""
        return ("Nadaraya-Watson", "local linear", "local quadratic")[self.degree]

    def at(self, bandwidth: float | str) -> Smoothing:
        """The same with another bandwidth."""
        return Smoothing(self.degree, self.kernel, bandwidth)

    def smoother(self, view: GroupView, points: Floats, *, between: bool = False, sloped: bool = True) -> Smoother:
        """The smoother of a view at points, with slopes or without; few distinct scores are not smoothed at all.

        between: draw straight lines between few scores, to compare them with scores of others; else nothing is said there.
        """
        sums = view.sums
        if unsmoothed(view.lattice, sums):
            if between:
                return line_smoother(points, sums.position, sums.W)
            cells = np.abs(sums.position[None, :] - points[:, None]).argmin(axis=1)
            exact = np.isclose(sums.position[cells], points, rtol=1e-12, atol=1e-12)
            values = indicator_smoother(cells, sums.W)
            values.matrix[~exact] = np.nan
            return values
        return self.local_polynomial(view, points, sloped=sloped)

    def both(self, views: Sequence[GroupView], points: Floats, *, sloped: bool) -> list[Smoother]:
        """``local_polynomial`` of views on the same cells, made at once."""
        made = smoother(
            points=points,
            positions=np.stack([view.sums.position for view in views]),
            weight=np.stack([view.sums.W for view in views]),
            bandwidth=self.h,
            degree=self.degree,
            kernel=self.kernel,
            cell_width=views[0].sums.width,
            sloped=sloped,
        )
        return [made.of(side) for side in range(len(views))]

    def local_polynomial(self, view: GroupView, points: Floats, *, sloped: bool = True) -> Smoother:
        """The same, however few scores there are."""
        return smoother(
            points=points,
            positions=view.sums.position,
            weight=view.sums.W,
            bandwidth=self.h,
            degree=self.degree,
            kernel=self.kernel,
            cell_width=view.sums.width,
            sloped=sloped,
        )

    def matrix(self, points: Floats, positions: Floats, weight: Floats) -> Floats:
        """The smoother's matrix at points, however far the nearest cell is; (n_points, n_cells), nan where nothing can be said."""
        return smoother(
            points=points,
            positions=positions,
            weight=weight,
            bandwidth=self.h,
            degree=self.degree,
            kernel=self.kernel,
            near=False,
            sloped=False,
        ).matrix

    def fit_at(self, view: GroupView) -> Floats:
        """The curve of a view at its cells, (n_cells,); few distinct scores are not smoothed at all."""
        sums = view.sums
        if not sums.W.any() or unsmoothed(view.lattice, sums):
            return sums.Y * inverse_weight(sums.W)
        return self.fit_at_cells(sums.position, sums.W, sums.Y)

    def fit_at_cells(self, position: Floats, weight: Floats, outcome: Floats) -> Floats:
        """The curve at the cells, (n_cells,); a cell that nothing can be fitted at has its mean, or 0 without any weight."""
        return self.fits_at(position, weight).fit(outcome)

    def fits_at(self, position: Floats, weight: Floats) -> CellFits:
        """The fits at the cells, for any outcomes."""
        u = position / self.h
        u = u[None, :] - u[:, None]
        powers = kernel_powers(self.shape.shape(u), u, 2 * self.degree)
        moments = [power @ weight for power in powers]
        return CellFits(weight, powers[: self.degree + 1], moments[0], first_row(moments, self.degree))


@dataclass(frozen=True, slots=True)
class CellFits:
    """Local polynomial fits at the cells, each with all cells around it.

    weight: (n_cells,); powers: K u^p, (n_cells, n_cells) each, up to the degree; near: (n_cells,), the kernel's weight around each;
    first: what makes the value of a fit of the sums of powers times outcomes, (n_cells,) each, nan where it is singular.
    """

    weight: Floats
    powers: list[Floats]
    near: Floats
    first: list[Floats]

    def fit(self, outcome: Floats) -> Floats:
        """The curve, (n_cells,); a cell that nothing can be fitted at has its mean, or 0 without any weight."""
        fit = np.sum([entry * (power @ outcome) for entry, power in zip(self.first, self.powers, strict=True)], axis=0)
        return self._or_own(fit, outcome)

    def means(self, outcome: Floats) -> Floats:
        """The same of degree 0, with the same kernel: local means."""
        known = np.abs(self.near) > TINY
        return self._or_own(np.divide(self.powers[0] @ outcome, self.near, out=np.full_like(outcome, np.nan), where=known), outcome)

    def _or_own(self, fit: Floats, outcome: Floats) -> Floats:
        return np.where(np.isfinite(fit), fit, outcome * inverse_weight(self.weight))

    def combine(self, values: Floats) -> Floats:
        """values @ L, (n, n_cells), with L what makes the curve of outcome sums; values: (n, n_cells)."""
        alone = ~np.isfinite(self.first[0])
        known = values.copy() if alone.any() else values
        known[:, alone] = 0.0
        combined = np.zeros_like(values)
        for entry, power in zip(self.first, self.powers, strict=True):
            combined += (known * np.where(alone, 0.0, entry)) @ power
        combined[:, alone] += values[:, alone] * inverse_weight(self.weight)[alone]
        return combined


def unsmoothed(lattice: Lattice, *sums: CellSums) -> bool:
    """Whether the scores have so few values that each is its own point."""
    if lattice.n_cells == 1 or not lattice.discrete:
        return lattice.n_cells == 1
    weight = sum(group.W for group in sums)
    return int((np.asarray(weight) > 0).sum()) <= FEW_VALUES
