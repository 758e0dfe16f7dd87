"""Figures 1 and 2: ten users with a thousand rows each turn the reading of rows around, and leave that of people alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.engines import tally as tally_of
from evenscore.estimation.fitted_curves import Curves, curves
from evenscore.parity import parity_family, parity_test
from evenscore.parity.methods import AUTO
from evenscore.parity.parity_result import PairTest, ParityTest
from evenscore.reproduction.settings import FLIP_BANDWIDTH, FLIP_USERS, ONE, TWO, flip_grid, flip_simulation
from evenscore.tallies.tally_state import Tally
from evenscore.wording import p_text

BEFORE, POOLED, PER_USER = "before the injection", "after, pooled iid", "after, per user"
SHIFTS = (-0.05, -0.10, -0.25, -0.50)
NARROW = "test"  # the rule of this package, 1.06 sd users^(-1/5)


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the data: curves, and the test of their gap at the points."""

    name: str
    curves: Curves
    test: ParityTest

    @property
    def pair(self) -> PairTest:
        """Group 1 minus group 2."""
        return self.test.pairs[0]

    @property
    def below(self) -> int:
        """At how many points group 1 lies below group 2."""
        return int((self.pair.gap < 0).sum())

    @property
    def points(self) -> int:
        """How many points there are."""
        return len(self.pair.gap)

    @property
    def strongest(self) -> float:
        """The gap where it is largest against its standard error."""
        return float(self.pair.gap[np.argmax(np.abs(self.pair.gap / self.pair.se))])

    def row(self) -> dict[str, Any]:
        """The reading as a line of a table."""
        return {
            "reading": self.name,
            "group 1 below": f"{self.below} of {self.points} points",
            "p-value": p_text(self.test.p_value),
            "verdict": self.test.verdict,
            "gap where it is clearest": f"{self.strongest:+.3f}",
        }


def tallies(data: Any) -> dict[str, Tally]:
    """The data before the injection, after it as if rows were people, and after it by users."""
    names: dict[str, Any] = {"score": "score", "outcome": "outcome", "group": "group", "scale": "score"}
    before = {name: column[: 2 * FLIP_USERS] for name, column in data.items()}  # power users come last
    return {
        BEFORE: tally_of(before, user=None, **names),
        POOLED: tally_of(data, user=None, **names),
        PER_USER: tally_of(data, user="user", **names),
    }


def read_all(seed: int) -> list[Reading]:
    """The three readings of one draw."""
    grid, readings = flip_grid(), []
    for name, tally in tallies(flip_simulation().data((seed, 0))).items():
        lines = curves(tally, degree=0, bandwidth=FLIP_BANDWIDTH, grid=grid, seed=seed)
        test = parity_test(tally, degree=0, bandwidth=FLIP_BANDWIDTH, grid=grid, both=False, seed=seed)
        readings.append(Reading(name, lines, test))
    return readings


def sensitivity(seed: int) -> list[dict[str, Any]]:
    """At how many points the pooled reading puts group 1 above group 2 when unstated settings are read otherwise."""
    grid, rows = flip_grid(), []
    for shift in SHIFTS:
        of_shift = tallies(flip_simulation(shift).data((seed, 0)))
        row: dict[str, Any] = {"b0 of group 1": f"{shift:.2f}"}
        for words, bandwidth in (("h = 0.05", FLIP_BANDWIDTH), ("h = 1.06 sd users^(-1/5)", NARROW)):
            for name in (POOLED, PER_USER):
                gap = parity_test(of_shift[name], degree=0, bandwidth=bandwidth, grid=grid, both=False).pairs[0].gap
                row[f"{name}, {words}"] = f"{int((gap > 0).sum())} of {len(gap)}"
        rows.append(row)
    return rows


def count_below(data: Any, seed: int) -> dict[str, dict[str, float]]:
    """A method of a study: at how many points group 1 lies below, by reading, and the p-value of the gap."""
    grid, by_reading = flip_grid(), {}
    for name, tally in tallies(data).items():
        test = parity_test(tally, degree=0, bandwidth=FLIP_BANDWIDTH, grid=grid, both=False, seed=seed)
        by_reading[name] = {"estimate": float((test.pairs[0].gap < 0).sum()), "p_value": test.p_value}
    return by_reading


def both_tests(data: Any, seed: int) -> dict[str, float]:
    """A method of a study: the default test with rows taken for people, and with users."""
    of_data = tallies(data)
    return {name: parity_family(of_data[name], ONE, TWO, seed=seed, methods=(AUTO,))[AUTO] for name in (POOLED, PER_USER)}
