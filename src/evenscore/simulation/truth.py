"""What a simulation's data would show if there were no end of users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from evenscore.errors import OptionError, require_option
from evenscore.simulation.distributions import Beta, BusyBeta, Density, busy_lead, density_of, masses, user_weights
from evenscore.simulation.outcomes import BusyCurve, Curve, curve_of, pulled
from evenscore.tables import Table
from evenscore.types import Floats

if TYPE_CHECKING:
    from evenscore.simulation.specification import Simulation


WEIGHTINGS = ("user", "row")
SHOWN = np.linspace(0, 1, 21)


@dataclass(frozen=True, slots=True)
class Level:
    """Users with the same scores and curve: what they weigh among the group's users, at a score and in all."""

    density: Density
    curve: Curve
    at_score: float
    in_all: float


@dataclass(frozen=True, slots=True, repr=False)
class Truth(Table):
    """The true curves and what follows from them. Power users are no part of it: they are what a method should not follow."""

    simulation: Simulation

    @property
    def groups(self) -> tuple[Any, ...]:
        """The groups, in order."""
        return self.simulation.groups

    def curve(self, score: ArrayLike, group: Any, weighting: str = "user") -> Floats:
        """E(Y | S = score) in the group, each user or each row weighing the same, over rows whose outcome is known."""
        require_option("weighting", weighting, WEIGHTINGS)
        scores = np.asarray(score, dtype=np.float64)
        if not ((scores >= 0) & (scores <= 1)).all():
            raise OptionError("scores of a simulation lie in [0, 1]")
        spec, place = self.simulation, self.simulation.place(group)
        pull = spec.informative[place]
        if not pull:
            return _mixture(self._levels(place, weighting), scores)
        labelled = self._labelled(density_of(spec.scores[place], 1))
        lead = busy_lead(spec.rows_per_user[place], spec.shares[place], labelled, weighting)
        return pulled(curve_of(spec.curves[place], 1).at(scores), pull * lead)

    def gap(self, score: ArrayLike, a: Any, b: Any, weighting: str = "user") -> Floats:
        """The curve of group a minus that of group b."""
        return self.curve(score, a, weighting) - self.curve(score, b, weighting)

    def tce(self, group: Any, weighting: str = "user") -> float:
        """The true calibration error: the root of the mean of (E(Y | S) - S)^2 over the group's users, or rows."""
        total = 0.0
        for level in self._levels(self.simulation.place(group), weighting):
            nodes = level.density.nodes()
            total += level.in_all * level.density.mean((self.curve(nodes, group, weighting) - nodes) ** 2)
        return float(np.sqrt(total))

    def marginal(self, t: float, weighting: str = "user") -> dict[Any, float]:
        """The expected outcome of people at the threshold t, by group."""
        return {group: float(self.curve(t, group, weighting)) for group in self.groups}

    def positive_rate(self, t: float, weighting: str = "user") -> dict[Any, float]:
        """The share of scores at the threshold t or above, by group."""
        require_option("weighting", weighting, WEIGHTINGS)
        return {
            group: sum(level.in_all * level.density.share_from(t) for level in self._levels(place, weighting))
            for place, group in enumerate(self.groups)
        }

    def rows(self, score: ArrayLike = SHOWN) -> list[dict[str, Any]]:
        """The curves along the score: one row for each group and score."""
        scores = np.asarray(score, dtype=np.float64)
        rows = []
        for group in self.groups:
            by_user, by_row = (self.curve(scores, group, weighting) for weighting in WEIGHTINGS)
            rows += [
                {"group": group, "score": float(s), "per_user": float(user), "per_row": float(row)}
                for s, user, row in zip(scores, by_user, by_row, strict=True)
            ]
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Calibration errors and curves in JSON-ready values."""
        errors = [{"group": group} | {f"per_{kind}": self.tce(group, kind) for kind in WEIGHTINGS} for group in self.groups]
        return {"calibration_error": errors, "curve": self.rows(np.linspace(0, 1, 101)), "notes": self._notes()}

    def _title(self) -> str:
        errors = ", ".join(f"{group} {self.tce(group):.4f}" for group in self.groups)
        return f"Truth of {self.simulation.name}; calibration error: {errors}"

    def _notes(self) -> list[str]:
        notes = ["per user: every user counts the same; per row: every row does"]
        return notes + (["power users are no part of the truth"] if self.simulation.power_users else [])

    def _labelled(self, density: Density) -> float:
        """The share of scores whose outcome is known."""
        threshold = self.simulation.threshold
        if threshold is None:
            return 1.0
        share = density.share_from(threshold)
        return share if self.simulation.positive == "above" else 1 - share

    def _levels(self, place: int, weighting: str) -> list[Level]:
        """The group's users by scores and curve: all alike, or by number of rows."""
        require_option("weighting", weighting, WEIGHTINGS)
        spec = self.simulation
        density, curve, share = spec.scores[place], spec.curves[place], spec.shares[place]
        limit = max([busy.limit for busy in (density, curve) if isinstance(busy, BusyBeta | BusyCurve)], default=1)
        numbers, mass, _ = masses(spec.rows_per_user[place])
        everybody = float(mass @ user_weights(numbers, share, 1.0, weighting))
        levels = []
        for level in range(1, limit + 1):
            own = np.minimum(numbers, limit) == level
            if mass[own].sum() > 0:
                scores = density_of(density, level)
                at_score = mass[own] @ user_weights(numbers[own], share, self._labelled(scores), weighting)
                in_all = mass[own] @ user_weights(numbers[own], share, 1.0, weighting) / everybody
                levels.append(Level(scores, curve_of(curve, level), float(at_score), float(in_all)))
        return levels


def _mixture(levels: list[Level], scores: Floats) -> Floats:
    """sum_k w_k b_k(s) f_k(s) / sum_k w_k b_k(s), with b_k the score density of level k; equal densities cancel."""
    if len(levels) == 1:
        return levels[0].curve.at(scores)
    curves = np.stack([level.curve.at(scores) for level in levels])
    weight = np.stack([np.full(scores.shape, np.log(level.at_score)) for level in levels])
    if len({level.density for level in levels}) > 1:
        weight += np.stack([level.density.log_density(scores) for level in levels if isinstance(level.density, Beta)])
    return np.asarray((special.softmax(weight, axis=0) * curves).sum(axis=0))
