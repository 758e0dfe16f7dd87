"""A threshold on a tally's lattice: which cells get the positive decision, and where the marginal people stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.errors import DataError, OptionError, is_finite, listing, require_option, shortened
from evenscore.tables import label_text
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.tally_state import Tally
from evenscore.types import Ints

ABOVE, BELOW = "above", "below"
POSITIVE = (ABOVE, BELOW)
NEAR = 0.05  # of the range of the scores


@dataclass(frozen=True, slots=True)
class Cut:
    """Decisions by one threshold: positive when score >= threshold, or with positive="below" when score < threshold.

    first: the first cell at or above the threshold; position: where the marginal people are, on the axis; score: the same as a
    score, which is the threshold itself unless scores are discrete: then it is the last value that gets the positive decision.
    both: whether outcomes on the other side count as well.
    """

    lattice: Lattice
    threshold: float
    positive: str
    first: int
    position: float
    score: float
    both: bool = False

    @property
    def seen(self) -> Ints:
        """The cells whose outcomes tell the one at the threshold: those with the positive decision, or all."""
        return np.arange(self.lattice.n_cells) if self.both else self.inside

    @property
    def sign(self) -> int:
        """1 when higher scores get the positive decision, -1 when lower ones do."""
        return 1 if self.positive == ABOVE else -1

    @property
    def inside(self) -> Ints:
        """The cells with the positive decision."""
        every = np.arange(self.lattice.n_cells)
        return every[self.first :] if self.positive == ABOVE else every[: self.first]

    @property
    def outside(self) -> Ints:
        """The other cells."""
        every = np.arange(self.lattice.n_cells)
        return every[: self.first] if self.positive == ABOVE else every[self.first :]

    @property
    def words(self) -> str:
        """The side with the positive decision, for people."""
        return f"{'at or above' if self.positive == ABOVE else 'below'} {self.threshold:g}"


def make_cut(tally: Tally, threshold: Any, positive: str) -> Cut:
    """The cut at a threshold that the tally's lattice knows exactly."""
    require_option("positive", positive, POSITIVE)
    value = require_score(threshold)
    lattice = tally.lattice
    require_inside(tally, value, positive)
    first = lattice.first_cell(value)
    if first is None:
        released = "; ask whoever released the tally for that, and to keep the edge: .release(cuts=...)" if tally.released else ""
        raise DataError(
            f"the threshold {value:g} runs through a cell of the tally, between {_neighbours(lattice, value)}; make it an edge: "
            f"es.tally(..., cuts=[{value:g}]){released}"
        )
    if not lattice.discrete:
        return Cut(lattice, value, positive, first, float(lattice.to_axis(np.array([value]))[0]), value)
    cell = _marginal_value(tally, first, positive)
    assert lattice.values is not None
    position = float(lattice.positions(lattice.values)[cell])
    return Cut(lattice, value, positive, first, position, float(lattice.values[cell]))


def make_cuts(tally: Tally, threshold: Any, positive: str) -> list[Cut]:
    """The cut of each group, in their order: the same for all, or by group."""
    return [make_cut(tally, value, positive) for value in thresholds_of(tally, threshold)]


def thresholds_of(tally: Tally, threshold: Any) -> list[Any]:
    """What is given as the threshold of each group, in their order."""
    if not isinstance(threshold, Mapping):
        return [threshold] * len(tally.groups)
    missing = [group for group in tally.groups if group not in threshold]
    unknown = [group for group in threshold if group not in tally.groups]
    if missing or unknown:
        which = f"has none for {listing(map(repr, missing))}" if missing else f"names {listing(map(repr, unknown))}"
        raise OptionError(f"threshold by group {which}; the groups are: {listing(map(repr, tally.groups))}")
    return [threshold[group] for group in tally.groups]


def cut_words(cuts: Sequence[Cut], groups: Sequence[Any]) -> str:
    """The threshold or thresholds, for people."""
    if len({cut.threshold for cut in cuts}) == 1:
        return f"the threshold {cuts[0].threshold:g}"
    return "the thresholds " + listing(f"{cut.threshold:g} ({label_text(group)})" for cut, group in zip(cuts, groups, strict=True))


def require_score(threshold: Any) -> float:
    """A threshold as a number."""
    if not is_finite(threshold):
        raise OptionError(f"threshold={shortened(threshold)} must be a score, such as 0.5")
    return float(threshold)


def require_inside(tally: Tally, value: float, positive: str) -> None:
    """A threshold beyond all scores decides nothing; rows with the positive decision only may begin a little further on."""
    vectors = [group.vectors.under("user") for group in tally.group_tallies]
    weight = np.sum([sums["W"] + sums["U"] for sums in vectors], axis=0)
    used = np.flatnonzero(weight > 0)
    if len(used) == 0:
        raise DataError("the tally has no rows")
    if tally.lattice.values is not None:
        low, high = tally.lattice.values[used[0]], tally.lattice.values[used[-1]]
    else:
        low, high = tally.lattice.to_score(tally.lattice.axis_edges[[used[0], used[-1] + 1]])
    before, behind = (NEAR * (high - low), 0.0) if positive == ABOVE else (0.0, NEAR * (high - low))
    if not low - before <= value <= high + behind:
        raise OptionError(f"the threshold {value:g} lies outside the scores, which run from {low:.6g} to {high:.6g}")


def _neighbours(lattice: Lattice, value: float) -> str:
    above = int(np.searchsorted(lattice.edges, value))
    near = [f"{lattice.edges[i]:.6g}" for i in (above - 1, above) if 0 <= i < len(lattice.edges)]
    return " and ".join(near) if len(near) == 2 else f"its end and {near[0]}" if near else "its ends"


def _marginal_value(tally: Tally, first: int, positive: str) -> int:
    """The value nearest to the threshold on the positive side that anybody has."""
    weight = np.sum([group.vectors.under("user")["W"] for group in tally.group_tallies], axis=0)
    side = np.flatnonzero(weight[first:] > 0) + first if positive == ABOVE else np.flatnonzero(weight[:first] > 0)
    if len(side) == 0:
        return min(first, tally.lattice.n_cells - 1) if positive == ABOVE else max(first - 1, 0)
    return int(side[0] if positive == ABOVE else side[-1])
