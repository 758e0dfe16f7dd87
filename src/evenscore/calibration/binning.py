"""Histogram binning: one value for all scores in a bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenscore.calibration.fit import Fit, average_cells, refit
from evenscore.errors import OptionError, require_option, shortened
from evenscore.tallies.view import GroupView
from evenscore.types import Floats, Ints

BIN_BY = ("mass", "width")
MOST_BINS = 512


@dataclass(frozen=True, slots=True)
class Binning:
    """How many bins, and whether they hold equally many users ("mass") or are equally wide on the axis ("width").

    Bins end where cells end.
    """

    bins: int = 15
    bin_by: str = "mass"

    def __post_init__(self) -> None:
        require_option("bin_by", self.bin_by, BIN_BY)
        if not isinstance(self.bins, int) or isinstance(self.bins, bool) or not 1 <= self.bins <= MOST_BINS:
            raise OptionError(f"bins={shortened(self.bins)} must be a whole number from 1 to {MOST_BINS}")

    def fit(self, view: GroupView) -> Fit:
        """A step at the lower end of each bin that has rows."""
        owners = self._members(view)
        value, matrix = average_cells(view, owners)
        score = np.array([lower_end(view, int(members[0])) for members in owners])
        words = f"{len(owners)} bins of equal {self.bin_by}"
        return Fit(score, value, matrix, matrix * value[:, None], step=True, words=words)

    def fold_values(self, view: GroupView) -> Floats:
        """The map at the cells without each user fold, (n_folds, n_cells)."""
        return refit(view, self.fit)

    def _members(self, view: GroupView) -> list[Ints]:
        """The used cells of each bin."""
        used = view.occupied
        if self.bin_by == "mass":
            weight = view.sums.W[used]
            level = (np.cumsum(weight) - weight / 2) / weight.sum()
        else:
            position = view.sums.position[used]
            span = position[-1] - position[0]
            level = (position - position[0]) / (span or 1.0)
        number = np.minimum((level * self.bins).astype(np.int64), self.bins - 1)
        return [used[number == chosen] for chosen in np.unique(number)]


def lower_end(view: GroupView, cell: int) -> float:
    """The lowest score of one of its cells."""
    lattice, cell = view.lattice, int(view.cells[cell])
    if lattice.values is not None:
        return float(lattice.values[cell])
    return float(lattice.edges[cell - 1]) if cell > 0 else view.seen[0]
