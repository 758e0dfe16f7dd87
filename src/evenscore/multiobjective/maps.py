"""The maps of one group: from all its scores to the expected outcome of every objective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.multiobjective.axes import Axis, corners
from evenscore.multiobjective.regression import Regression
from evenscore.types import Array, Floats, Mask


@dataclass(frozen=True, slots=True)
class ObjectiveMap:
    """E(Y_k | all scores) in one group: values at the nodes of the grid (multilinear between them), or a regression.

    grid: (n_nodes,) or None; known: (n_nodes,) which nodes had users near when it was fitted, or None. users, rows: with a
    label. risk: mean squared error on users left out, by candidate. reason: why this method.
    """

    method: str
    grid: Floats | None
    known: Mask | None
    regression: Regression | None
    bandwidth: tuple[float, ...]
    centre: float
    users: int
    rows: int
    risk: dict[str, float]
    reason: str


@dataclass(frozen=True, slots=True)
class GroupMaps:
    """The maps of one group, or of everybody (group None).

    low, high: (K,) the scores seen in training, on the axes; beyond, maps are held constant. source: "own", or "pooled" when the
    group had too few users for maps of its own.
    """

    group: Any
    low: Floats
    high: Floats
    objectives: tuple[ObjectiveMap, ...]
    source: str = "own"


@dataclass(frozen=True, slots=True)
class ReadyMaps:
    """The maps of one group, laid out for speed: all grids side by side, the last column saying which nodes had users near."""

    maps: GroupMaps
    axes: tuple[Axis, ...]
    stacked: Floats | None
    gridded: tuple[int, ...]

    @classmethod
    def of(cls, maps: GroupMaps, axes: tuple[Axis, ...]) -> ReadyMaps:
        """Lay out the maps."""
        gridded = tuple(k for k, objective in enumerate(maps.objectives) if objective.grid is not None)
        if not gridded:
            return cls(maps, axes, None, ())
        kernels = [maps.objectives[k] for k in gridded]
        known = np.logical_and.reduce([objective.known for objective in kernels if objective.known is not None])
        columns = [objective.grid + objective.centre for objective in kernels if objective.grid is not None]
        return cls(maps, axes, np.stack([*columns, known.astype(np.float64)], axis=1), gridded)

    def at(self, scores: Sequence[Array]) -> tuple[Floats, int, int]:
        """The maps at scores, K arrays (n,): (n, K); how many rows have a score outside what was seen, and how many nobody near."""
        positions, outside = [], np.zeros(len(scores[0]), dtype=bool)
        for axis, values, low, high in zip(self.axes, scores, self.maps.low, self.maps.high, strict=True):
            position = axis.position(values)
            outside |= (position < low) | (position > high)
            positions.append(np.clip(position, low, high))
        mapped = np.empty((len(outside), len(self.maps.objectives)))
        far = 0
        if self.stacked is not None:
            read = corners(self.axes, positions).read(self.stacked)
            mapped[:, self.gridded] = read[:, :-1]
            far = int((read[:, -1] < 0.5).sum())
        x = None
        for k, objective in enumerate(self.maps.objectives):
            if objective.grid is None:
                assert objective.regression is not None
                x = np.stack(positions, axis=1) if x is None else x
                mapped[:, k] = objective.regression.at(x) + objective.centre
        return mapped, int(outside.sum()), far
