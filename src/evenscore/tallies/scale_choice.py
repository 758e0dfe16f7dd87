"""The scale that suits the scores of all groups together, chosen after the scan.

One bandwidth serves the whole axis. Where people crowd it blurs what differs between them, and where they are few it sees nobody.
So the scale is the score itself as long as people are spread evenly over it, and else the rank, on which they always are. The logit
spreads crowded probabilities out as well, but its thin tails cost power, so it is taken only when it is asked for. What this rests
on: docs/lattice.md, benchmarks/scale_choice.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenscore.tallies.lattice import Lattice
from evenscore.types import Floats
from evenscore.wording import figures

WINDOW = 0.5  # standard deviations within groups: a bandwidth to either side for 1,400 people by the rule of thumb, 1.06 sd M^-1/5
NORMAL = 0.1974  # the share of a normal distribution in such a window at its middle
MOST = 0.8  # times that share in any window, and people are spread evenly; it is .73 for a uniform and .85 for a Beta(2, 2)
FEW_VALUES = 20  # up to this many distinct scores of a group are not smoothed, so any scale will do


@dataclass(frozen=True, slots=True)
class Crowd:
    """The window on an axis that holds most people: their share, and between which scores it lies."""

    share: float
    low: float
    high: float

    @property
    def is_dense(self) -> bool:
        """Whether it holds more people than it would if they were spread evenly."""
        return self.share > MOST * NORMAL

    def __str__(self) -> str:
        return f"{100 * self.share:.0f} % have scores from {figures(self.low, 2)} to {figures(self.high, 2)}"


def with_scale(lattice: Lattice, by_group: Floats, mean_scores: Floats) -> Lattice:
    """The lattice with the scale for people of this weight in its cells, (n_groups, n_cells).

    mean_scores: of the cells, (n_cells,), nan where they are not known.
    """
    weight = by_group.sum(axis=0)
    if not weight.sum() > 0:
        return lattice.unread
    by_group, weight = by_group / weight.sum(), weight / weight.sum()
    on_score = lattice.on_scale("score", weight, "")
    if lattice.discrete and (by_group > 0).sum(axis=1).max() <= FEW_VALUES:
        return on_score
    crowd = find_crowd(on_score, by_group, mean_scores)
    if not crowd.is_dense:
        return lattice.on_scale("score", weight, "because people are spread evenly")
    return lattice.on_scale("rank", weight, f"because it spreads people evenly: {crowd}")


def find_crowd(lattice: Lattice, by_group: Floats, mean_scores: Floats) -> Crowd:
    """Where on the axis of the lattice a window holds most people; weights sum to 1. Inside a cell people are spread evenly."""
    position = lattice.positions(mean_scores)
    own = by_group[by_group.sum(axis=1) > 0]
    centre = (own @ position / own.sum(axis=1))[:, None]
    window = WINDOW * float(np.sqrt((own * (position - centre) ** 2).sum()))
    upto = np.concatenate([[0.0], np.cumsum(by_group.sum(axis=0))])
    if lattice.discrete:
        first, last = np.arange(len(position)), np.searchsorted(position, position + window, side="right")
        shares = upto[last] - upto[first]
        best = int(np.argmax(shares))
        low, high = position[best], position[last[best] - 1]
    else:
        edges = lattice.axis_edges
        starts = np.concatenate([edges, edges - window])  # the share changes its slope there only
        shares = np.interp(starts + window, edges, upto) - np.interp(starts, edges, upto)
        best = int(np.argmax(shares))
        low, high = np.clip([starts[best], starts[best] + window], edges[0], edges[-1])
    limits = lattice.to_score(np.array([low, high]))
    return Crowd(float(shares[best]), float(limits[0]), float(limits[1]))
