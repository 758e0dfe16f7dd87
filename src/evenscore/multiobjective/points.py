"""What fitting sees of a group: its rows, or, when there are very many, one point for each fold and cell of a fine grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenscore.multiobjective.axes import Axis
from evenscore.multiobjective.rows import N_FOLDS, JointRows
from evenscore.types import Floats, Ints

MANY_ROWS = 300_000  # of a group, beyond which rows are gathered into cells
CELLS = {1: 4096, 2: 160, 3: 48, 4: 20}  # cells an axis by the number of scores
STEP = 1 << 18  # rows at a time


@dataclass(frozen=True, slots=True)
class Points:
    """Weighted points of one group, or of several together.

    x: (n, K) positions on the axes. w, y: (n, K) weight and weighted outcome of each objective. fold: (n,) of the users.
    y2: (K,) weighted squares of the outcomes. low, high: (K,) the range of positions. n_users, n_rows: (K,) with a label.
    """

    x: Floats
    w: Floats
    y: Floats
    fold: NDArray[np.int8]
    y2: Floats
    low: Floats
    high: Floats
    n_users: Ints
    n_rows: Ints

    def spread(self, k: int) -> Floats:
        """Standard deviations of the scores among those labelled for objective k, (K,)."""
        weight = self.w[:, k]
        mean = weight @ self.x / weight.sum()
        return np.sqrt(weight @ (self.x - mean) ** 2 / weight.sum())

    @property
    def alike(self) -> bool:
        """Whether all objectives have the same labelled rows, and so the same weights."""
        return bool((self.w == self.w[:, :1]).all())


def join(groups: Sequence[Points]) -> Points:
    """Several groups as one."""
    columns = {name: [getattr(points, name) for points in groups] for name in Points.__slots__}
    side_by_side = {name: np.concatenate(columns[name]) for name in ("x", "w", "y", "fold")}
    added = {name: np.sum(columns[name], axis=0) for name in ("y2", "n_users", "n_rows")}
    return Points(**side_by_side, **added, low=np.min(columns["low"], axis=0), high=np.max(columns["high"], axis=0))


def points_of_groups(rows: JointRows, axes: Sequence[Axis], weighting: str, centre: Floats) -> list[Points]:
    """The points of each group, in order; outcomes are deviations from a centre, (K,), so that offsets do no harm."""
    codes = rows.users_in_groups()
    same = all(known is None for known in rows.labelled)
    counts = [rows.labels_per_user(known, codes) for known in (rows.labelled[:1] if same else rows.labelled)]
    del codes
    counts = counts * rows.n_objectives if same else counts
    n_groups = len(rows.groups)
    return [_points(rows, axes, group, [n[group::n_groups] for n in counts], weighting, centre) for group in range(n_groups)]


def _points(rows: JointRows, axes: Sequence[Axis], group: int, labels: list[Ints], weighting: str, centre: Floats) -> Points:
    """The points of one group; labels: for each objective the labelled rows of each user in the group, (n_codes,)."""
    mine = np.flatnonzero(rows.group == group)
    if len(mine) < len(rows.group) // 2 or len(mine) > MANY_ROWS:
        mine = mine.astype(np.int32 if len(rows.group) < 2**31 else np.int64)
    gathered = len(mine) > MANY_ROWS and rows.n_objectives in CELLS
    sums = _Gathered(axes) if gathered else _Kept()
    y2 = np.zeros(rows.n_objectives)
    low, high = np.full(rows.n_objectives, np.inf), np.full(rows.n_objectives, -np.inf)
    for start in range(0, len(mine), STEP):
        chosen = mine[start : start + STEP]
        x = np.stack([axis.position(score[chosen]) for axis, score in zip(axes, rows.scores, strict=True)], axis=1)
        low, high = np.minimum(low, x.min(axis=0)), np.maximum(high, x.max(axis=0))
        user = rows.user[chosen]
        w, y = np.empty_like(x), np.empty_like(x)
        for k in range(rows.n_objectives):
            outcome = rows.outcomes[k][chosen].astype(np.float64) - centre[k]
            w[:, k] = _weights(rows, k, chosen, labels[k][user] if weighting == "user" else None)
            y[:, k] = w[:, k] * outcome
            y2[k] += y[:, k] @ outcome
        sums.add(x, w, y, rows.fold[user])
    x, w, y, fold = sums.result()
    n_users, n_rows = np.array([(n > 0).sum() for n in labels]), np.array([n.sum() for n in labels])
    return Points(x=x, w=w, y=y, fold=fold, y2=y2, low=low, high=high, n_users=n_users, n_rows=n_rows)


def _weights(rows: JointRows, k: int, chosen: Ints, labels: Ints | None) -> Floats:
    """v / n_m of labelled rows with n_m the user's labelled rows in the group, or v alone when rows weigh the same; else 0."""
    weight = np.ones(len(chosen)) if rows.weight is None else rows.weight[chosen].astype(np.float64)
    if labels is not None:
        weight /= np.maximum(labels, 1)
    known = rows.labelled[k]
    return weight if known is None else weight * known[chosen]


class _Kept:
    """Every row is a point."""

    def __init__(self) -> None:
        self.steps: list[tuple[Floats, Floats, Floats, NDArray[np.int8]]] = []

    def add(self, x: Floats, w: Floats, y: Floats, fold: NDArray[np.int8]) -> None:
        self.steps.append((x, w, y, fold))

    def result(self) -> tuple[Floats, Floats, Floats, NDArray[np.int8]]:
        x, w, y, fold = (np.concatenate(arrays) for arrays in zip(*self.steps, strict=True))
        return x, w, y, fold


class _Gathered:
    """Sums for each fold and cell; a cell stands at its mean position."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        k = len(axes)
        self.cells = CELLS[k]
        self.low = np.array([axis.nodes[0] for axis in axes])
        self.width = np.array([max(axis.nodes[-1] - axis.nodes[0], 1e-300) for axis in axes]) / self.cells
        self.size = N_FOLDS * self.cells**k
        self.n = np.zeros(self.size)
        self.x, self.w, self.y = (np.zeros((k, self.size)) for _ in range(3))

    def add(self, x: Floats, w: Floats, y: Floats, fold: NDArray[np.int8]) -> None:
        code = fold.astype(np.int64)
        for k in range(x.shape[1]):
            cell = ((x[:, k] - self.low[k]) / self.width[k]).astype(np.int64)
            code = code * self.cells + np.clip(cell, 0, self.cells - 1)
        self.n += np.bincount(code, minlength=self.size)
        shared = (w == w[:, :1]).all()
        for k in range(x.shape[1]):
            self.x[k] += np.bincount(code, x[:, k], minlength=self.size)
            self.y[k] += np.bincount(code, y[:, k], minlength=self.size)
            if k == 0 or not shared:
                weight = np.bincount(code, w[:, k], minlength=self.size)
            self.w[k] += weight

    def result(self) -> tuple[Floats, Floats, Floats, NDArray[np.int8]]:
        used = np.flatnonzero(self.n)
        fold = (used // self.cells ** len(self.x)).astype(np.int8)
        return (self.x[:, used] / self.n[used]).T, self.w[:, used].T, self.y[:, used].T, fold
