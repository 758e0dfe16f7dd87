"""What a simulation's data would show if there were no end of users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenscore.errors import OptionError, listing, require_option
from evenscore.simulation.distributions import Density, RowsPerUser, busy_lead
from evenscore.simulation.outcomes import Curve, pulled

Floats = NDArray[np.float64]

WEIGHTINGS = ("user", "row")


@dataclass(frozen=True, slots=True)
class Truth:
    """The true curves and what follows from them; tuples are in the order of the groups.

    shares: each group's share of a user's rows, 1 when users stay in one group.
    """

    groups: tuple[Any, ...]
    curves: tuple[Curve, ...]
    scores: tuple[Density, ...]
    rows_per_user: RowsPerUser
    informative: tuple[float, ...]
    shares: tuple[float, ...]

    def curve(self, score: ArrayLike, group: Any, weighting: str = "user") -> Floats:
        """E(Y | S = score) in the group, each user or each row weighing the same."""
        require_option("weighting", weighting, WEIGHTINGS)
        scores = np.asarray(score, dtype=np.float64)
        if not ((scores >= 0) & (scores <= 1)).all():
            raise OptionError("scores of a simulation lie in [0, 1]")
        place = self._place(group)
        lead = busy_lead(self.rows_per_user, self.shares[place], weighting) if self.informative[place] else 0.0
        return pulled(self.curves[place].at(scores), self.informative[place] * lead)

    def gap(self, score: ArrayLike, a: Any, b: Any, weighting: str = "user") -> Floats:
        """The curve of group a minus that of group b."""
        return self.curve(score, a, weighting) - self.curve(score, b, weighting)

    def tce(self, group: Any) -> float:
        """The true calibration error: the root of the mean of (E(Y | S) - S)^2 over the group's users."""
        density = self.scores[self._place(group)]
        nodes = density.nodes()
        return float(np.sqrt(density.mean((self.curve(nodes, group) - nodes) ** 2)))

    def marginal(self, t: float) -> dict[Any, float]:
        """The expected outcome of people at the threshold t, by group."""
        return {group: float(self.curve(t, group)) for group in self.groups}

    def _place(self, group: Any) -> int:
        for place, label in enumerate(self.groups):
            if label == group and type(label) is type(group):
                return place
        raise OptionError(f"no group {group!r}; the simulation has: {listing(map(repr, self.groups))}")
