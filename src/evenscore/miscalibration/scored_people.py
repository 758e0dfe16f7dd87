"""The people whose calibration is measured: a group, or all groups together, on the cells that they have scores in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.errors import DataError
from evenscore.estimation.bandwidth import bandwidth_for
from evenscore.estimation.comparison import Whole
from evenscore.estimation.fitted_curves import unsmoothed
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.pairs import PairMatrices
from evenscore.tallies.tally_state import CellSums, Tally
from evenscore.types import Floats, Ints


@dataclass(frozen=True, slots=True)
class People:
    """One group (label None: everybody) on the n_cells cells where it has labelled rows.

    weight W, score (the cells' mean scores), residual D = sum of w (y - s), outcome = sum of w (y - centre), each (n_cells,).
    low, high: between which scores a cell lies, equal on a lattice of values. cells: their numbers on the lattice.
    """

    label: Any
    groups: tuple[Any, ...]
    n_users: int
    lattice: Lattice
    centre: float
    cells: Ints
    weight: Floats
    score: Floats
    residual: Floats
    outcome: Floats
    position: Floats
    low: Floats
    high: Floats
    pairs: PairMatrices
    sums: CellSums

    @property
    def total(self) -> float:
        """The weight of all."""
        return float(self.weight.sum())

    @property
    def unsmoothed(self) -> bool:
        """Whether there are so few scores that each is a point of its own."""
        return unsmoothed(self.lattice, self.sums)

    def bandwidth(self, tally: Tally, rule: float | str, weighting: str, kernel: str, degree: int) -> float:
        """The bandwidth of these people, on the axis of the lattice."""
        side = (self.groups, self.sums, self.n_users)
        return bandwidth_for(tally, [side], bandwidth=rule, weighting=weighting, degree=degree, kernel=kernel)


def people_of(tally: Tally, group: Any, weighting: str) -> People:
    """The people of one group."""
    sums = tally.sums(group, weighting)
    cells = np.flatnonzero(sums.W > 0)
    pairs = tally.pair_matrices(group, group, weighting, cells)
    assert pairs is not None
    return _people(tally, group, (group,), sums, cells, pairs)


def everybody(tally: Tally, weighting: str) -> People:
    """The people of all groups; a user in several groups keeps the weights of each."""
    whole = Whole.of(tally, weighting)
    cells = np.flatnonzero(whole.sums.W > 0)
    return _people(tally, None, tally.groups, whole.sums, cells, whole.pairs.at(cells))


def _people(tally: Tally, label: Any, groups: tuple[Any, ...], sums: CellSums, cells: Ints, pairs: PairMatrices) -> People:
    weight, lattice = sums.W[cells], tally.lattice
    score = sums.X[cells] / weight if lattice.values is None else lattice.values[cells]
    low, high = lattice.limits(cells, score)
    return People(
        label=label,
        groups=groups,
        n_users=sum(tally.n_users[group] for group in groups),
        lattice=lattice,
        centre=tally.centre,
        cells=cells,
        weight=weight,
        score=score,
        residual=sums.Y[cells] + tally.centre * weight - sums.X[cells],
        outcome=sums.Y[cells],
        position=sums.position[cells],
        low=low,
        high=high,
        pairs=pairs,
        sums=sums,
    )


def require_outcome_scale(tally: Tally) -> None:
    """Scores that can be compared with 0/1 outcomes lie between 0 and 1."""
    lattice = tally.lattice
    if tally.binary and not (lattice.low >= 0 and lattice.high <= 1):
        raise DataError(
            f"the scores run from {lattice.low:g} to {lattice.high:g} while outcomes are 0 or 1: a calibration error compares "
            "a score with the expected outcome. Bring scores to the scale of the outcome first, for example with es.calibrate"
        )
