"""What all calibration errors have in common: a norm of linear combinations of residuals, over points along the score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenscore.errors import OptionError, shortened
from evenscore.estimation.fitted_curves import effective_users, residual_covariance
from evenscore.miscalibration.scored_people import People
from evenscore.types import Floats

FEWEST = 2.0  # effective users that the small-sample factor counts with at least


@dataclass(frozen=True, slots=True)
class Measure:
    """One calibration error of some people, as the norm of values at n_points points.

    matrix: (n_points, n_cells); values = matrix @ residual + offset. weight: (n_points,), adds up to one. norm: "l1", "l2",
    "largest" or "range". fitted: (n_points, n_cells), matrix times the expected outcome that users' outcomes are compared with.
    share: (n_points, n_cells), how much of each cell's weight makes up a point's, or None when weights are not random. variance:
    (n_points,), where a method brings its own. fit: (n_cells,), where fitted is just the matrix times it.
    """

    matrix: Floats
    weight: Floats
    norm: str
    fitted: Floats
    offset: Floats | float = 0.0
    share: Floats | None = None
    variance: Floats | None = None
    fit: Floats | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def values(self, people: People) -> Floats:
        """The values at the points, (n_points,)."""
        return self.matrix @ people.residual + self.offset

    def estimate(self, people: People) -> float:
        """The plug-in estimate."""
        return float(norm_of(self.norm, self.weight)(self.values(people)))

    def covariance(self, people: People) -> Floats:
        """The user-robust covariance of the values, (n_points, n_points)."""
        factor = small_sample_factor(self.matrix, people)[:, None]
        matrix, fitted = self.matrix * factor, self.fitted * factor
        if self.fit is not None:
            return matrix @ people.pairs.residual(self.fit, self.fit) @ matrix.T
        return residual_covariance(people.pairs, matrix, fitted, matrix, fitted)

    def mean_variance(self, people: People) -> float:
        """The weighted mean of the values' variances: what noise adds to a mean square."""
        if self.variance is not None:
            return float(self.weight @ self.variance)
        scale = self.weight * small_sample_factor(self.matrix, people) ** 2
        if self.fit is None:
            return float(scale @ variances(people, self.matrix, self.fitted))
        return float(np.vdot((self.matrix.T * scale) @ self.matrix, people.pairs.residual(self.fit, self.fit)))


def variances(people: People, matrix: Floats, fitted: Floats) -> Floats:
    """The user-robust variances of values, (n_points,), without a factor for few users."""
    pairs = people.pairs
    square = np.einsum("jc,jc->j", matrix @ pairs.yy - 2 * (fitted @ pairs.wy), matrix)
    return np.maximum(square + np.einsum("jc,jc->j", fitted @ pairs.ww, fitted), 0)


def small_sample_factor(matrix: Floats, people: People) -> Floats:
    """n / (n - 1) with the effective users of each point; (n_points,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        total = matrix @ people.weight
        effective = effective_users(matrix, people.pairs) * total**2
    effective = np.maximum(np.nan_to_num(effective, nan=FEWEST), FEWEST)
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
        place = int(np.abs(values).argmax())
        slope[place] = np.sign(values[place])
        return slope
    slope[int(values.argmax())] += float(values.max() > 0)
    slope[int(values.argmin())] -= float(values.min() < 0)
    return slope


def norm_name(power: int) -> str:
    """The norm for a power of 1 or 2."""
    if power not in (1, 2) or isinstance(power, bool):
        raise OptionError(f"norm={shortened(power)} must be 1 (mean absolute error) or 2 (root of the mean square)")
    return f"l{power}"
