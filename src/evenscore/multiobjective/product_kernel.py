"""Product-kernel local regression of several outcomes on several scores, on a grid.

Points are binned to the nodes of a grid and convolved axis by axis, so the cost depends on the nodes and not on the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenscore.multiobjective.axes import Axis, shape_of
from evenscore.types import Floats, Ints, Mask

Powers = tuple[int, ...]

RIDGE = 0.5  # users: slopes are worth nothing where fewer are near, and the fit becomes a local mean
NEAR = 2.0  # users' worth of kernel weight, below which a node has nobody near


def rule_of_thumb(deviation: Floats, users: float) -> Floats:
    """1.06 sd_j M^(-1 / (K + 4)) for each of K scores, M users."""
    return 1.06 * deviation * max(users, 1.0) ** (-1 / (len(deviation) + 4))


@dataclass(frozen=True, slots=True)
class Moments:
    """Kernel sums at the nodes of one or several sets (n_sets, *nodes), by the powers of u = (node' - node) / h they carry."""

    by_powers: dict[Powers, Floats]

    def without(self, fold: int) -> Moments:
        """The sums of all sets but one."""
        return Moments({powers: value.sum(axis=0) - value[fold] for powers, value in self.by_powers.items()})

    def minus(self, other: Moments, fold: int) -> Moments:
        """These sums less one set of others, of as many powers."""
        return Moments({powers: value - other.by_powers[powers][fold] for powers, value in self.by_powers.items()})

    def total(self) -> Moments:
        """The sums of all sets."""
        return Moments({powers: value.sum(axis=0) for powers, value in self.by_powers.items()})


def moments(sums: Floats, axes: Sequence[Axis], bandwidth: Floats, degree: int) -> Moments:
    """Sums over nodes c of sums[., c] prod_j K(u_j) u_j^p_j for all powers that add up to at most ``degree``; K(0) = 1.

    sums: (n_sets, n_nodes). The kernel is a product, so each axis is one matrix product.
    """
    by_powers: dict[Powers, Floats] = {(): sums.reshape(len(sums), *shape_of(axes))}
    for place, (axis, h) in enumerate(zip(axes, bandwidth, strict=True), start=1):
        u = (axis.nodes[None, :] - axis.nodes[:, None]) / max(h, 1e-300)
        kernel = np.exp(-0.5 * u * u)
        matrices = [kernel * u**power for power in range(degree + 1)]
        by_powers = {
            (*powers, power): np.moveaxis(np.tensordot(matrices[power], value, (1, place)), 0, place)
            for powers, value in by_powers.items()
            for power in range(degree + 1 - sum(powers))
        }
    return Moments(by_powers)


def powers_up_to_one(k: int) -> list[Powers]:
    """The powers of a local plane: none, then one of each score."""
    unit = np.eye(k, dtype=int).tolist()
    return [(0,) * k, *(tuple(line) for line in unit)]


def local_fit(weight: Moments, outcomes: Sequence[Moments], degree: int, at: Ints) -> Floats:
    """Local means (degree 0) or local planes (degree 1) at the nodes ``at``, (len(at), n_outcomes).

    With B = (1, u) the plane solves (sum K W B B' + diag(0, ridge ...)) beta = sum K Y B and its level is the fit.
    """
    k = len(next(iter(weight.by_powers)))
    basis = powers_up_to_one(k)[: 1 if degree == 0 else k + 1]
    right = np.empty((len(at), len(basis), len(outcomes)))
    for place, outcome in enumerate(outcomes):
        for i, powers in enumerate(basis):
            right[:, i, place] = outcome.by_powers[powers].ravel()[at]
    left = np.empty((len(at), len(basis), len(basis)))
    for i, a in enumerate(basis):
        for j, b in enumerate(basis):
            both = tuple(p + q for p, q in zip(a, b, strict=True))
            left[:, i, j] = weight.by_powers[both].ravel()[at]
    slopes = np.arange(1, len(basis))
    left[:, slopes, slopes] += RIDGE
    return np.asarray(np.linalg.solve(left, right)[:, 0], dtype=np.float64)


def near(weight: Moments) -> Mask:
    """The nodes that have users near, (n_nodes,); those with the most when none have enough."""
    k = len(next(iter(weight.by_powers)))
    level = weight.by_powers[(0,) * k].ravel()
    return level >= min(NEAR, float(level.max()))


def fill_from_nearest(values: Floats, known: Mask, shape: tuple[int, ...]) -> Floats:
    """Values (n_nodes, m) with each node that is not known given the value of the nearest that is."""
    if known.all():
        return values
    from scipy import ndimage

    index = ndimage.distance_transform_edt(~known.reshape(shape), return_distances=False, return_indices=True)
    return values[np.ravel_multi_index(tuple(index), shape).ravel()]
