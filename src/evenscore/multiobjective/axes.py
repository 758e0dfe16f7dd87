"""The axes of several scores: a scale and nodes for each; between nodes everything is multilinear."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenscore.errors import DataError, require_option, shortened
from evenscore.tallies.axis import TAIL, forward
from evenscore.types import Array, Floats, Ints

SCALES = ("auto", "score", "logit")
NODES = {1: 256, 2: 96, 3: 32, 4: 16}  # nodes an axis by the number of scores; a bandwidth spans several of them
INSIDE = 1e-6  # a probability of 0 or 1 is taken this far inside on the logit scale
SAMPLE = 1_000_000  # rows that the ends of an axis are found from


@dataclass(frozen=True, slots=True)
class Axis:
    """One score: its scale ("score" or "logit") and the nodes on it, (n_nodes,), rising."""

    scale: str
    nodes: Floats

    def position(self, scores: Array) -> Floats:
        """Scores in units of the scale."""
        values = np.asarray(scores, dtype=np.float64)
        if self.scale == "logit":
            return forward(np.clip(values, INSIDE, 1 - INSIDE), "logit")
        return values

    def fraction(self, positions: Floats) -> tuple[Ints, Floats]:
        """The node below each position and how far it is to the next, in [0, 1]; beyond the last node it is that node."""
        last = len(self.nodes) - 1
        if self._uniform():
            index = (positions - self.nodes[0]) * (last / (self.nodes[-1] - self.nodes[0]))
        else:
            index = np.interp(positions, self.nodes, np.arange(last + 1))
        np.clip(index, 0, last, out=index)
        below = index.astype(np.int64)
        np.minimum(below, max(last - 1, 0), out=below)
        index -= below
        return below, index

    def _uniform(self) -> bool:
        steps = np.diff(self.nodes)
        return bool(len(steps) and np.ptp(steps) <= 1e-9 * steps[0])


def make_axes(scores: Sequence[Array], names: Sequence[str], scale: str, n_nodes: int) -> tuple[Axis, ...]:
    """An axis for each score: on the logit scale when it is a probability ("auto"), with its values as nodes when they are few."""
    require_option("scale", scale, SCALES)
    return tuple(_axis(values, name, scale, n_nodes) for values, name in zip(scores, names, strict=True))


def _axis(values: Array, name: str, scale: str, n_nodes: int) -> Axis:
    low, high = float(values.min()), float(values.max())
    unit = low >= 0 and high <= 1
    if scale == "logit" and not unit:
        raise DataError(f"scale='logit' needs scores between 0 and 1; {shortened(name)} runs from {low:g} to {high:g}")
    chosen = Axis("logit" if scale == "logit" or (scale == "auto" and unit) else "score", np.zeros(1))
    step = max(1, len(values) // SAMPLE)
    distinct = np.unique(values[:: max(1, len(values) // 10_000)])
    if len(distinct) <= n_nodes and len(distinct := np.unique(values)) <= n_nodes:
        return Axis(chosen.scale, np.unique(chosen.position(distinct)))
    ends = chosen.position(np.quantile(values[::step], [TAIL, 1 - TAIL]))
    if not ends[0] < ends[1]:
        ends = chosen.position(np.array([low, high]))
    return Axis(chosen.scale, np.linspace(ends[0], ends[1], n_nodes))


def shape_of(axes: Sequence[Axis]) -> tuple[int, ...]:
    """The numbers of nodes."""
    return tuple(len(axis.nodes) for axis in axes)


def node_positions(axes: Sequence[Axis]) -> Floats:
    """Where all nodes lie, (n_nodes, K), the last axis running fastest."""
    mesh = np.meshgrid(*(axis.nodes for axis in axes), indexing="ij")
    return np.stack([positions.ravel() for positions in mesh], axis=1)


@dataclass(frozen=True, slots=True)
class Corners:
    """The 2^K nodes around each position and their multilinear shares, each (2^K, n)."""

    node: NDArray[np.int32]
    share: Floats

    def bin(self, values: Floats, n_nodes: int) -> Floats:
        """Sums at the nodes, (n_nodes,): a value is split among its corners, so that mean positions are kept (Wand 1994)."""
        total = np.zeros(n_nodes)
        for node, share in zip(self.node, self.share, strict=True):
            total += np.bincount(node, share * values, minlength=n_nodes)
        return total

    def read(self, grid: Floats) -> Floats:
        """A grid (n_nodes,) or several (n_nodes, m) at the positions: multilinear between nodes."""
        values = self.share[0][..., None] * grid[self.node[0]] if grid.ndim > 1 else self.share[0] * grid[self.node[0]]
        for node, share in zip(self.node[1:], self.share[1:], strict=True):
            values += share[..., None] * grid[node] if grid.ndim > 1 else share * grid[node]
        return values


def corners(axes: Sequence[Axis], positions: Sequence[Floats]) -> Corners:
    """The corners of positions, one array (n,) an axis."""
    steps = [axis.fraction(position) for axis, position in zip(axes, positions, strict=True)]
    n, k = len(positions[0]), len(axes)
    node, share = np.empty((2**k, n), dtype=np.int32), np.empty((2**k, n))
    strides = np.cumprod([1, *shape_of(axes)[:0:-1]])[::-1]
    base = sum(below * stride for (below, _), stride in zip(steps, strides, strict=True))
    for number, corner in enumerate(itertools.product((0, 1), repeat=k)):
        offset = sum(up * int(stride) for up, stride, axis in zip(corner, strides, axes, strict=True) if len(axis.nodes) > 1)
        node[number] = base + offset
        share[number] = np.prod([above if up else 1 - above for up, (_, above) in zip(corner, steps, strict=True)], axis=0)
    return Corners(node, share)
