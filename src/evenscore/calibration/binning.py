"""Histogram binning: one value for all scores in a bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenscore.calibration.cells import Cells, Fit, average_matrix, refitted
from evenscore.errors import OptionError, require_option, shortened
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

    def check(self) -> None:
        """Refuse what cannot be used."""
        require_option("bin_by", self.bin_by, BIN_BY)
        if not isinstance(self.bins, int) or isinstance(self.bins, bool) or not 1 <= self.bins <= MOST_BINS:
            raise OptionError(f"bins={shortened(self.bins)} must be a whole number from 1 to {MOST_BINS}")

    def fit(self, cells: Cells) -> Fit:
        """A step at the lower end of each bin that has rows."""
        owners = self._members(cells)
        value, matrix = average_matrix(cells, owners)
        score = np.array([lower_end(cells, int(members[0])) for members in owners])
        words = f"{len(owners)} bins of equal {self.bin_by}"
        return Fit(score, value, matrix, matrix * value[:, None], step=True, words=words)

    def fold_values(self, cells: Cells) -> Floats:
        """The map at the cells without each user fold, (n_folds, n_cells)."""
        return refitted(cells, self.fit)

    def _members(self, cells: Cells) -> list[Ints]:
        """The used cells of each bin."""
        used = cells.used
        if self.bin_by == "mass":
            weight = cells.sums.W[used]
            level = (np.cumsum(weight) - weight / 2) / weight.sum()
        else:
            position = cells.sums.position[used]
            span = position[-1] - position[0]
            level = (position - position[0]) / (span or 1.0)
        number = np.minimum((level * self.bins).astype(np.int64), self.bins - 1)
        return [used[number == each] for each in np.unique(number)]


def lower_end(cells: Cells, cell: int) -> float:
    """The lowest score of a cell."""
    lattice = cells.lattice
    if lattice.values is not None:
        return float(lattice.values[cell])
    return float(lattice.edges[cell - 1]) if cell > 0 else cells.limits[0]
