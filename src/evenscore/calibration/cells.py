"""What a map is fitted from: the sums of one group, or of all groups together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.calibration.maps import GroupMap, covariance_factor, mean_scores
from evenscore.estimation.bandwidth import folds_left
from evenscore.estimation.comparison import Whole
from evenscore.estimation.fitted_curves import effective_users, residual_covariance, small_sample
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.pairs import PairMatrices
from evenscore.tallies.tally_state import CellSums, FoldSums, Tally
from evenscore.types import Floats, Ints


@dataclass(frozen=True, slots=True)
class Cells:
    """The sums of a group (label None: of all groups), the mean score of each cell (n_cells,), and its users' folds."""

    group: Any
    lattice: Lattice
    sums: CellSums
    score: Floats
    folds: FoldSums
    pairs: PairMatrices | None
    n_users: int
    n_rows: int
    centre: float
    binary: bool

    @property
    def used(self) -> Ints:
        """The cells that have labelled rows."""
        return np.flatnonzero(self.sums.W > 0)

    @property
    def mean(self) -> float:
        """The mean outcome, as a deviation from the centre."""
        return float(self.sums.Y.sum() / self.sums.W.sum())

    @property
    def limits(self) -> tuple[float, float]:
        """The scores between which rows were seen, up to their cells; an end cell without a limit ends at its mean."""
        ends = self.used[[0, -1]]
        means = self.score[ends]
        low, high = self.lattice.limits(ends, means)
        return float(min(low[0], means[0])), float(max(high[1], means[1]))

    def without_folds(self) -> list[Cells]:
        """The cells without each user fold; inside a cell, and about pairs of cells, nothing is known then."""
        flat = np.zeros_like(self.sums.W)
        left = zip(*folds_left(self.sums, self.folds), strict=True)
        return [replace(self, sums=replace(self.sums, W=w, Y=y, tilt=flat), pairs=None) for w, y in left]

    def fold_loss(self, fits: Floats) -> Floats:
        """Squared error on the users left out, (n_folds,), for fits at the cells without each fold, (n_folds, n_cells)."""
        folds = self.folds
        return np.where(folds.W > 0, folds.Y2 - 2 * fits * folds.Y + fits**2 * folds.W, 0.0).sum(axis=1)


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted map at k knots, outcomes as deviations from the centre.

    score, value: (k,). matrix, fitted: (k, n_cells), the influence of users on the values: matrix_j y_m - fitted_j w_m.
    """

    score: Floats
    value: Floats
    matrix: Floats
    fitted: Floats
    step: bool = False
    words: str = ""

    def at(self, scores: Floats) -> Floats:
        """The map at any scores."""
        return GroupMap(None, self.score, self.value, np.zeros((0, 0)), 0.0, 0.0, 0, 0, self.step).at(scores)


Fitter = Callable[[Cells], Fit]


def group_cells(tally: Tally, group: Any, weighting: str) -> Cells:
    """One group."""
    sums = tally.sums(group, weighting)
    pairs = tally.pair_matrices(group, group, weighting)
    assert pairs is not None
    return Cells(
        group=group,
        lattice=tally.lattice,
        sums=sums,
        score=mean_scores(tally, sums),
        folds=tally.folds(group, weighting),
        pairs=pairs,
        n_users=tally.n_users[group],
        n_rows=tally.n_rows[group],
        centre=tally.centre,
        binary=tally.binary,
    )


def pooled_cells(tally: Tally, weighting: str) -> Cells:
    """All groups together; a user of several groups keeps the weight of each."""
    whole = Whole.of(tally, weighting)
    folds = [tally.folds(group, weighting) for group in tally.groups]
    return Cells(
        group=None,
        lattice=tally.lattice,
        sums=whole.sums,
        score=mean_scores(tally, whole.sums),
        folds=FoldSums(*(np.sum([getattr(fold, name) for fold in folds], axis=0) for name in FoldSums.__slots__)),
        pairs=whole.pairs,
        n_users=sum(tally.n_users.values()),
        n_rows=sum(tally.n_rows.values()),
        centre=tally.centre,
        binary=tally.binary,
    )


def bounded(cells: Cells, value: Floats) -> Floats:
    """Values that an outcome can have: probabilities stay between 0 and 1."""
    return np.clip(value, 0.0, 1.0) if cells.binary else value


def as_map(cells: Cells, fit: Fit) -> GroupMap:
    """The map with the user-robust covariance of its knots."""
    assert cells.pairs is not None
    covariance = residual_covariance(cells.pairs, fit.matrix, fit.fitted, fit.matrix, fit.fitted)
    return GroupMap(
        group=cells.group,
        score=fit.score,
        value=fit.value + cells.centre,
        factor=covariance_factor(covariance),
        low=cells.limits[0],
        high=cells.limits[1],
        users=cells.n_users,
        rows=cells.n_rows,
        step=fit.step,
        words=fit.words,
    )


def average_matrix(cells: Cells, owners: list[Ints]) -> tuple[Floats, Floats]:
    """Mean outcomes over sets of cells, (k,), and the matrix (k, n_cells) that averages them, allowing for few users."""
    matrix = np.zeros((len(owners), len(cells.sums.W)))
    for row, members in enumerate(owners):
        matrix[row, members] = 1 / cells.sums.W[members].sum()
    value = matrix @ cells.sums.Y
    if cells.pairs is None:
        return value, matrix
    effective = effective_users(matrix, cells.pairs)
    return value, matrix * np.nan_to_num(small_sample(effective), nan=1.0)[:, None]


def refitted(cells: Cells, fitter: Fitter) -> Floats:
    """A map at the cells, fitted without each user fold, (n_folds, n_cells); such fits have no standard errors."""
    return np.array([fitter(part).at(cells.score) if part.sums.W.any() else 0 * cells.score for part in cells.without_folds()])
