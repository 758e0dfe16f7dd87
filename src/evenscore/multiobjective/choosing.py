"""``method="auto"``: the plain regression, unless a mixture of maps is better for users left out beyond doubt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenscore.calibration.stacking import simplex_minimum
from evenscore.multiobjective.candidates import Candidate, in_range, mean_risk
from evenscore.multiobjective.points import Points
from evenscore.types import Floats

LEAST_SHARE = 0.02  # of a mixture; smaller ones are noise


def choose(competing: Sequence[Candidate], points: Points, k: int, nodes: Floats | None, binary: bool) -> Candidate:
    """The map of objective k: the first candidate, which is the simplest, or what pays more than it.

    nodes: (n_nodes, K), where a mixture is laid down; None when there is no grid.
    """
    simplest = competing[0]
    if len(competing) == 1:
        return simplest
    rival = min(competing, key=lambda candidate: candidate.risk) if nodes is None else mixture(competing, points, k, nodes, binary)
    return rival if simplest.risk - rival.risk > standard_error(simplest, rival, points, k) else simplest


def standard_error(a: Candidate, b: Candidate, points: Points, k: int) -> float:
    """Of the difference in risk, every user taken as one observation: 2 sqrt(mean (a - b)^2 risk / M)."""
    assert a.left_out is not None and b.left_out is not None
    weight = points.w[:, k]
    apart = float(weight @ (a.left_out - b.left_out) ** 2 / weight.sum())
    return float(2 * np.sqrt(apart * min(a.risk, b.risk) / max(int(points.n_users[k]), 1)))


def mixture(competing: Sequence[Candidate], points: Points, k: int, nodes: Floats, binary: bool) -> Candidate:
    """The shares that add up to one and minimise the squared error on users left out (stacking, Breiman 1996)."""
    values = np.stack([candidate.left_out for candidate in competing if candidate.left_out is not None], axis=1)
    weight = points.w[:, k]
    shares = simplex_minimum(values.T @ (values * weight[:, None]), values.T @ points.y[:, k])
    shares = np.where(shares < LEAST_SHARE, 0.0, shares)
    shares /= shares.sum()
    used = [(share, candidate) for share, candidate in zip(shares.tolist(), competing, strict=True) if share > 0]
    if len(used) == 1:
        return used[0][1]
    grid = np.sum([share * _at_nodes(candidate, nodes) for share, candidate in used], axis=0)
    kernels = [candidate for _, candidate in used if candidate.known is not None]
    left_out = values @ shares
    return Candidate(
        name="mixture: " + ", ".join(f"{share:.0%} {candidate.name}" for share, candidate in used),
        risk=mean_risk(points, k, left_out),
        grid=in_range(grid, binary),
        known=np.logical_and.reduce([kernel.known for kernel in kernels if kernel.known is not None])
        if kernels
        else np.ones(len(nodes), dtype=bool),
        bandwidth=kernels[0].bandwidth if len(kernels) == 1 else None,
        left_out=left_out,
    )


def _at_nodes(candidate: Candidate, nodes: Floats) -> Floats:
    if candidate.grid is not None:
        return candidate.grid
    assert candidate.regression is not None
    return candidate.regression.at(nodes)
