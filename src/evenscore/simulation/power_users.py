"""A few users with very many rows, put into data that would show something else without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from evenscore.errors import require_count, require_number
from evenscore.simulation.distributions import MAX_ROWS, AnyDensity, density_of
from evenscore.simulation.outcomes import AnyCurve, curve_of
from evenscore.types import Floats


@dataclass(frozen=True, slots=True)
class PowerUsers:
    """``users`` users of a group with ``rows`` rows each: user i has the score at quantile (i - 1/2) / users of the group's scores.

    Their expected outcome is the group's curve plus ``lift`` times the score, kept in [0, 1].
    """

    group: Any
    users: int = 10
    rows: int = 1000
    lift: float = 0.7

    def __post_init__(self) -> None:
        object.__setattr__(self, "users", require_count("power users", self.users, high=MAX_ROWS))
        object.__setattr__(self, "rows", require_count("rows of a power user", self.rows, high=MAX_ROWS))
        object.__setattr__(self, "lift", require_number("lift of power users", self.lift, -1, 1))

    def scores(self, density: AnyDensity) -> Floats:
        """The score of each power user, (users,)."""
        levels = (np.arange(self.users) + 0.5) / self.users
        return density_of(density, self.rows).scores(np.asarray(special.ndtri(levels)))

    def means(self, scores: Floats, curve: AnyCurve) -> Floats:
        """What is expected of each power user, (users,)."""
        return np.clip(curve_of(curve, self.rows).at(scores) + self.lift * scores, 0, 1)

    def __str__(self) -> str:
        return f"{self.users:,} power users with {self.rows:,} rows and a lift of {self.lift:g} s"
