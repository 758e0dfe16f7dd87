"""Isotonic regression on the cells: the nearest map that never falls."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from evenscore.calibration.fit import Fit, average_cells, refit
from evenscore.calibration.rising import rising_blocks
from evenscore.tallies.view import GroupView
from evenscore.types import Floats


@dataclass(frozen=True, slots=True)
class Isotonic:
    """Pool adjacent violators, cells weighted; straight lines between the blocks, as scikit-learn draws them."""

    def fit(self, view: GroupView) -> Fit:
        """A knot at the first and at the last cell of each block."""
        used = view.occupied
        weight = view.sums.W[used]
        blocks = rising_blocks(view.sums.Y[used] / weight, weight)
        knots, owners = [], []
        for start, end in itertools.pairwise(blocks.tolist()):
            for cell in dict.fromkeys((used[start], used[end - 1])):
                knots.append(int(cell))
                owners.append(used[start:end])
        value, matrix = average_cells(view, owners)
        if view.tally.binary:
            value = np.clip(value, 0, 1)  # rounding may take a share beyond 1
        words = f"isotonic, {len(blocks) - 1} levels"
        return Fit(view.score[knots], value, matrix, matrix * value[:, None], words=words)

    def fold_values(self, view: GroupView) -> Floats:
        """The map at the cells without each user fold, (n_folds, n_cells)."""
        return refit(view, self.fit)
