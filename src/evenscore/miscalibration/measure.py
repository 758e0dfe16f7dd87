"""What all calibration errors have in common: a norm of linear combinations of residuals, over points along the score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evenscore.errors import DataError, OptionError, shortened, warn
from evenscore.estimation.units import OUTSIDE, scale_mismatch
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

FEWEST = 2.0  # effective users that the small-sample factor counts with at least
POINTS_A_BANDWIDTH = 2  # at which noise is drawn: between them smoothed values hardly change (docs/calibration-error.md)


@dataclass(frozen=True, slots=True)
class Measure:
    """One calibration error of some people, as the norm of values at n_points points.

    matrix: (n_points, n_cells); values = matrix @ residual + offset. weight: (n_points,), adds up to one. norm: "l1", "l2",
    "largest" or "range". fitted: (n_points, n_cells), matrix times the expected outcome that users' outcomes are compared with.
    share: (n_points, n_cells), how much of each cell's weight makes up a point's, or None when weights are not random. variance:
    (n_points,), where a method brings its own. fit: (n_cells,), where fitted is just the matrix times it. place: (n_points,), where
    points lie, ascending, on the axis that values are smoothed along, and reach: the bandwidth; None where they are not smoothed.
    """

    matrix: Floats
    weight: Floats
    norm: str
    fitted: Floats
    offset: Floats | float = 0.0
    share: Floats | None = None
    variance: Floats | None = None
    fit: Floats | None = None
    place: Floats | None = None
    reach: float = np.inf
    detail: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def values(self, view: GroupView) -> Floats:
        """The values at the points, (n_points,)."""
        return self.matrix @ view.residual + self.offset

    def estimate(self, view: GroupView) -> float:
        """The plug-in estimate."""
        return float(norm_of(self.norm, self.weight)(self.values(view)))

    def covariance(self, view: GroupView, factor: Floats) -> Floats:
        """The user-robust covariance of the values, (n_points, n_points); factor: (n_points,), for few users."""
        matrix, fitted = self.matrix * factor[:, None], self.fitted * factor[:, None]
        if self.fit is not None:
            return matrix @ view.pairs.residual(self.fit, self.fit) @ matrix.T
        return view.covariance(matrix, fitted)

    def thinned(self) -> Measure:
        """The same norm with fewer points, each standing for those within half a bandwidth: for draws of smoothed noise.

        A point that is not smoothed stands for itself.
        """
        if self.place is None:
            return self
        number, alone = np.floor(self.place * POINTS_A_BANDWIDTH / self.reach), (self.matrix != 0).sum(axis=1) < 2
        starts = np.diff(number, prepend=np.nan) != 0
        starts[alone] = True
        starts[1:] |= alone[:-1]
        first = np.flatnonzero(starts)
        if len(first) == len(self.place):
            return self
        weight, group = np.add.reduceat(self.weight, first), np.cumsum(starts) - 1
        middle = np.add.reduceat(self.weight * self.place, first) / np.where(weight > 0, weight, 1.0)
        nearest = np.lexsort((np.abs(self.place - middle[group]), group))[first]
        return replace(
            self,
            matrix=self.matrix[nearest],
            weight=weight,
            fitted=self.fitted[nearest],
            offset=self.offset if np.ndim(self.offset) == 0 else np.asarray(self.offset)[nearest],
            share=None if self.share is None else np.add.reduceat(self.share, first, axis=0),
            place=self.place[nearest],
        )

    def mean_variance(self, view: GroupView, factor: Floats) -> float:
        """The weighted mean of the values' variances: what noise adds to a mean square; factor: (n_points,), for few users."""
        if self.variance is not None:
            return float(self.weight @ self.variance)
        scale = self.weight * factor**2
        if self.fit is None:
            return float(scale @ variances(view, self.matrix, self.fitted))
        return float(np.vdot((self.matrix.T * scale) @ self.matrix, view.pairs.residual(self.fit, self.fit)))


def variances(view: GroupView, matrix: Floats, fitted: Floats) -> Floats:
    """The user-robust variances of values, (n_points,), without a factor for few users."""
    pairs = view.pairs
    square = np.einsum("jc,jc->j", matrix @ pairs.yy - 2 * (fitted @ pairs.wy), matrix)
    return np.maximum(square + np.einsum("jc,jc->j", fitted @ pairs.ww, fitted), 0)


def small_sample_factor(effective: Floats) -> Floats:
    """n / (n - 1) with the effective users of each point, counted as two at least; (n_points,)."""
    effective = np.maximum(effective, FEWEST)
    return effective / (effective - 1)


def norm_of(norm: str, weight: Floats) -> Callable[[Floats], Floats]:
    """The norm of values along the last axis."""
    if norm == "l2":
        return lambda values: np.sqrt(values**2 @ weight)
    if norm == "l1":
        return lambda values: np.abs(values) @ weight
    if norm == "largest":
        return lambda values: np.asarray(np.abs(values).max(axis=-1))
    return lambda values: np.maximum(values.max(axis=-1), 0) - np.minimum(values.min(axis=-1), 0)


def slope_of(norm: str, weight: Floats, values: Floats) -> Floats:
    """The derivative of the norm by the values, (n_points,); 0 where all are 0."""
    if norm == "l2":
        size = float(np.sqrt(values**2 @ weight))
        return weight * values / size if size > 0 else np.zeros_like(values)
    if norm == "l1":
        return weight * np.sign(values)
    slope = np.zeros_like(values)
    if norm == "largest":
        largest = int(np.abs(values).argmax())
        slope[largest] = np.sign(values[largest])
        return slope
    slope[int(values.argmax())] += float(values.max() > 0)
    slope[int(values.argmin())] -= float(values.min() < 0)
    return slope


def norm_name(power: int) -> str:
    """The norm for a power of 1 or 2."""
    if power not in (1, 2) or isinstance(power, bool):
        raise OptionError(f"norm={shortened(power)} must be 1 (mean absolute error) or 2 (root of the mean square)")
    return f"l{power}"


def require_outcome_scale(tally: Tally, asked: bool | None) -> None:
    """A calibration error compares a score with the expected outcome: an error when 0/1 outcomes cannot be, else a warning."""
    why = scale_mismatch(tally, asked)
    if not why:
        return
    advice = "a calibration error compares a score with the expected outcome. Bring scores to its scale first, as es.calibrate does"
    if OUTSIDE in why:
        raise DataError(f"{why}; {advice}, or say same_scale=True")
    warn(f"{why}; {advice}; same_scale=True if they are")
