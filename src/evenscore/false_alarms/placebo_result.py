"""How often tests gave a false alarm on groups that were dealt out anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from evenscore.estimation.overlap import BOTH
from evenscore.tables import Table, json_ready, values_of
from evenscore.types import Floats, Mask

COVERAGE = 0.95
WHOLE = "any"  # the tests together
PURPOSE = (
    "a check on this data of what the tests promise, not a test of parity: the groups that are compared have nothing to do with "
    "the real ones"
)


@dataclass(frozen=True, slots=True, eq=False)
class PlaceboTest:
    """One test over all runs. p_values: (runs,), nan where nothing could be judged; alarms: (runs,) whether it said disparity."""

    name: str
    alpha: float
    p_values: Floats
    alarms: Mask

    @property
    def rejected(self) -> int:
        """Runs with a false alarm."""
        return int(self.alarms.sum())

    @property
    def rejection_rate(self) -> float:
        """The share of all runs with a false alarm; a run in which nothing could be judged has none."""
        return self.rejected / len(self.alarms)

    @property
    def limits(self) -> tuple[float, float]:
        """Clopper and Pearson's 95 % limits of the chance of a false alarm."""
        return clopper_pearson(self.rejected, len(self.alarms))

    @property
    def not_judged(self) -> int:
        """Runs in which nothing could be judged."""
        return int(np.isnan(self.p_values).sum())

    @property
    def level_holds(self) -> bool:
        """Whether the promised level is not refuted: the lower limit is at most alpha."""
        return self.limits[0] <= self.alpha

    @property
    def what(self) -> str:
        """What gave the alarms, in words."""
        if self.name == WHOLE:
            return "the tests together"
        return f"the {self.name} tests" if self.name == BOTH else f"the {self.name} test"

    @property
    def failure(self) -> str:
        """That the level does not hold, in words; empty when it does."""
        if self.level_holds:
            return ""
        return (
            f"the level of {_percent(self.alpha)} does not hold on this data: {self.what} gave a false alarm in "
            f"{_percent(self.rejection_rate)} of {len(self.alarms):,} placebo runs, so a disparity that it shows should not be "
            "trusted at this level"
        )

    @property
    def finding(self) -> str:
        """How often it gave a false alarm, in words."""
        if self.not_judged == len(self.alarms):
            return f"{self.what} could never judge, so its false alarms are not known"
        low, high = self.limits
        words = (
            f"{self.what} gave a false alarm {_times(self.rejected)} "
            f"({_percent(self.rejection_rate)}, 95 % limits {100 * low:.1f} to {_percent(high)}) where {_percent(self.alpha)} is "
            "promised"
        )
        if self.not_judged:
            words += f", and could not judge {_times(self.not_judged)}"
        if not self.level_holds:
            words += ": the level does not hold on this data, and the verdict should not be trusted at this level"
        return words


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Placebo(Table):
    """The result of ``es.placebo``: how often the tests gave a false alarm when groups were dealt out anew.

    alpha: the promised chance of a false alarm of all tests together. n_spanning: users in several groups; n_left_out: users
    in other numbers of groups than most; n_fixed: users who kept their group in every run; n_strata: of scores, with
    ``within="score"``.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> found = es.placebo(people, score="score", outcome="outcome", group="group", user="user", runs=5)
    >>> found.runs, found.rejection_rate
    (5, 0.0)
    """

    tests: tuple[PlaceboTest, ...]
    alpha: float
    runs: int
    seed: int
    within: str | None
    n_users: int
    n_spanning: int
    n_left_out: int
    n_fixed: int
    n_strata: int
    independent: bool
    frame_kind: str | None = None

    @property
    def together(self) -> PlaceboTest:
        """All tests as one, which gives an alarm when any of them does."""
        if len(self.tests) == 1:
            return self.tests[0]
        p_values = np.stack([test.p_values for test in self.tests])
        smallest = np.where(np.isnan(p_values), np.inf, p_values).min(axis=0)
        alarms = np.logical_or.reduce([test.alarms for test in self.tests])
        return PlaceboTest(WHOLE, self.alpha, np.where(np.isinf(smallest), np.nan, smallest), alarms)

    @property
    def rejection_rate(self) -> float:
        """The share of runs in which any test gave a false alarm."""
        return self.together.rejection_rate

    @property
    def ci_low(self) -> float:
        """The lower of Clopper and Pearson's 95 % limits of the chance of a false alarm."""
        return self.together.limits[0]

    @property
    def ci_high(self) -> float:
        """The upper limit."""
        return self.together.limits[1]

    @property
    def not_judged(self) -> int:
        """Runs in which no test could judge anything."""
        return self.together.not_judged

    @property
    def level_holds(self) -> bool:
        """Whether no test is shown to give more false alarms than it promises."""
        return not self.failures

    @property
    def failures(self) -> list[str]:
        """For each test whose level does not hold, that it does not."""
        tests = self.tests if len(self.tests) == 1 else (*self.tests, self.together)
        return [test.failure for test in tests if test.failure]

    @property
    def sentence(self) -> str:
        """The result in a sentence."""
        units = "rows" if self.independent else "users"
        dealt = f"{units} with nearby scores" if self.within == "score" else units
        return f"with groups dealt out anew among {dealt} {self.runs:,} times, " + "; ".join(test.finding for test in self.tests)

    def rows(self) -> list[dict[str, Any]]:
        """One row a test."""
        return [
            {
                "test": test.name,
                "runs": self.runs,
                "rejected": test.rejected,
                "rejection_rate": test.rejection_rate,
                "ci_low": test.limits[0],
                "ci_high": test.limits[1],
                "not_judged": test.not_judged,
                "alpha": test.alpha,
            }
            for test in self.tests
        ]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values, with the p-value of every run."""
        names = ("runs", "seed", "alpha", "within", "rejection_rate", "ci_low", "ci_high", "not_judged", "level_holds", "sentence")
        counts = ("n_users", "n_spanning", "n_left_out", "n_fixed", "n_strata")
        p_values = {test.name: test.p_values for test in self.tests}
        return json_ready(values_of(self, names + counts) | {"rows": self.rows(), "p_values": p_values, "notes": self.remarks})

    @property
    def remarks(self) -> list[str]:
        """What was dealt out how, and what that means."""
        return [*self._how(), PURPOSE, "limits are Clopper and Pearson's"]

    def _how(self) -> list[str]:
        unit = "row" if self.independent else "user"
        if self.within == "score":
            notes = [
                f"groups are dealt out among {unit}s in {self.n_strata} strata of the score, each with about the same share of "
                "every group on average: scores of the groups stay as they are"
            ]
        else:
            notes = [f"every group keeps its number of {unit}s; the scores of all groups become alike"]
        if self.n_spanning:
            notes.append(
                f"{self.n_spanning:,} users are in several groups: their rows that share a group stay together, and get the groups "
                "of another user in as many, in random order; groups keep their users, not their rows"
            )
        if self.n_left_out:
            notes.append(
                f"{self.n_left_out:,} users in other numbers of groups than most are left out: dealt out apart, they would leave "
                "differences between groups that are no false alarms"
            )
        if self.n_fixed:
            notes.append(
                f"{self.n_fixed:,} of {self.n_users:,} {unit}s keep their group: nobody of another one could change with them"
            )
        return notes

    def _title(self) -> str:
        return f"Placebo: groups dealt out anew in {self.runs:,} runs, seed {self.seed}"

    def _notes(self) -> list[str]:
        whole = [] if len(self.tests) == 1 else [self.together.finding]
        return [self.sentence, *whole, *self.remarks]


def clopper_pearson(successes: int, runs: int) -> tuple[float, float]:
    """The exact 95 % limits of a share (Clopper and Pearson 1934): quantiles of beta distributions.

    >>> [round(limit, 4) for limit in clopper_pearson(9, 200)]
    [0.0208, 0.0837]
    """
    tail = (1 - COVERAGE) / 2
    low = float(special.betaincinv(successes, runs - successes + 1, tail)) if successes else 0.0
    high = float(special.betaincinv(successes + 1, runs - successes, 1 - tail)) if successes < runs else 1.0
    return low, high


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %".replace(".0 %", " %")


def _times(number: int) -> str:
    return "once" if number == 1 else "twice" if number == 2 else f"{number:,} times"
