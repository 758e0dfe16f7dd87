"""Curves that bend within the bandwidth: what gap one common curve would show, because groups lie differently along the score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenscore.estimation.gaps import MAX_HIDDEN
from evenscore.estimation.kernels import FEW_CELLS
from evenscore.estimation.smoothing import Smoothing
from evenscore.marginal.boundary import Edge
from evenscore.marginal.cut import Cut
from evenscore.marginal.levels import Differences, Levels
from evenscore.ratios import ratio
from evenscore.tallies.view import GroupView
from evenscore.types import Floats, Mask

FINER = 2.0  # how many times narrower the curve is smoothed that shows a bend
LEFT = FINER**2 / (FINER**2 - 1)  # the finer curve has a bias of its own, which falls with the square of the bandwidth


@dataclass(frozen=True, slots=True)
class Bends:
    """What levels of n groups show of one common curve, as weights on the outcome sums of all groups, (n, n_cells).

    everybody: all groups on the positive side, on the cells that have any; fit: their curve there, (n_cells,); less: weights less
    those of the curve itself where the levels are.
    """

    everybody: GroupView
    fit: Floats
    weights: Floats
    less: Floats

    @classmethod
    def of(cls, edges: Sequence[Edge], cuts: Sequence[Cut], everybody: GroupView, smoothing: Smoothing) -> Bends:
        """From a curve of all groups that is smoothed less.

        A level of group g is l_g @ (W_g f) for a curve f. A straight line is followed exactly, so that only bends remain in the
        difference of two groups.
        """
        finer = smoothing.at(max(smoothing.h / FINER, FEW_CELLS * everybody.lattice.cell_width * smoothing.shape.width))
        sums = everybody.sums
        curve, there = (
            np.nan_to_num(finer.matrix(points, sums.position, sums.W))
            for points in (sums.position, np.array([cut.position for cut in cuts]))
        )
        read = np.array([_between(sums.position, edge.side.sums.position, edge.weights * edge.side.sums.W) for edge in edges])
        weights = read @ curve
        return cls(everybody, curve @ sums.Y, weights, weights - there)

    def too_large(self, gaps: Differences[Levels]) -> Mask:
        """Which gaps one common curve could have moved by more than a share of their standard error, (n_pairs,)."""
        apart = self.weights[gaps.left] - self.weights[gaps.right]
        hidden = np.abs(apart @ self.everybody.sums.Y) - self._noise(apart, gaps.levels)
        return np.asarray(hidden > MAX_HIDDEN * gaps.null.se)

    def biases(self, levels: Levels) -> Floats:
        """How far levels are off, (n,), less what noise explains of it: all of its square below one standard error."""
        shown = self.less @ self.everybody.sums.Y
        with np.errstate(all="ignore"):  # sums that contradict each other
            noise = np.divide(self._noise(self.less, levels), np.abs(shown), out=np.ones_like(shown), where=shown != 0)
            return np.asarray(LEFT * shown * np.maximum(1 - noise**2, 0))

    def shown(self, levels: Levels, errors: float) -> Floats:
        """How far levels are off, (n,); 0 where noise of so many standard errors may have made it."""
        shown = self.less @ self.everybody.sums.Y
        return np.where(np.abs(shown) > errors * self._noise(self.less, levels), LEFT * shown, 0.0)

    def _noise(self, weights: Floats, levels: Levels) -> Floats:
        """Standard errors of what weights make of the outcomes of all groups."""
        with np.errstate(all="ignore"):  # sums that contradict each other
            return np.asarray(np.sqrt(weights**2 @ _rows(self.everybody, self.fit) * _design_effect(levels)))


def _between(knots: Floats, positions: Floats, weights: Floats) -> Floats:
    """Weights of values at positions as weights of values at knots with straight lines between them, (n_knots,)."""
    read = np.zeros(len(knots))
    if len(knots) == 1:
        read[0] = weights.sum()
        return read
    right = np.clip(np.searchsorted(knots, positions), 1, len(knots) - 1)
    apart = knots[right] - knots[right - 1]
    share = np.clip(ratio(positions - knots[right - 1], apart), 0, 1)
    np.add.at(read, right - 1, weights * (1 - share))
    np.add.at(read, right, weights * share)
    return read


def _design_effect(levels: Levels) -> float:
    """How much more levels vary than with independent rows, over all groups."""
    independent = sum(float(edge.weights**2 @ _rows(edge.side, edge.fit)) for edge in levels.edges)
    return max(float(levels.variance.sum()) / independent, 1.0) if independent > 0 else 1.0


def _rows(view: GroupView, fit: Floats) -> Floats:
    """What independent rows show around a fit: the sum of w^2 (y - f)^2, (n_cells,)."""
    sums = view.sums
    return np.maximum(sums.V2 - 2 * fit * sums.V1 + fit**2 * sums.V0, 0)
