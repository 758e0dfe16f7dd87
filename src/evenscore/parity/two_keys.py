"""Which key matters? The same test with variances that allow for users alone, items alone, and both."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.errors import EvenscoreWarning
from evenscore.estimation.comparison import Sides
from evenscore.estimation.pairwise import Formulation
from evenscore.estimation.smoothing import Smoothing
from evenscore.parity import chosen_pairs
from evenscore.parity.pair_tests import Options, judge_pairs
from evenscore.parity.parity_result import ParityTest
from evenscore.parity.row_people import of_parity, p_phrase
from evenscore.tables import Table, json_ready
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.two_way import design_effects, item_share, with_keys


@dataclass(frozen=True, slots=True, repr=False)
class TwoKeys(Table):
    """Parity tests by the key that variances allow for: "user", "item" and "both".

    item: what the second key is called; measure: from 0 to 1, how far items count in "both"; tests, effects: by key, the latter the
    variance of a group's mean outcome given the score over what it would be if rows were independent. alone: whether no other
    test has a say in the verdict.
    """

    item: str
    measure: float
    tests: dict[str, Formulation]
    effects: dict[str, float]
    frame_kind: str | None = None
    alone: bool = True

    @property
    def sentence(self) -> str:
        """What items change."""
        return of_parity(self._sentence, self.alone)

    @property
    def _sentence(self) -> str:
        by_user, both = (f"{self.tests[key].verdict.upper()} ({p_phrase(self.tests[key].p_value)})" for key in ("user", "both"))
        if self.measure == 0:
            return f"Outcomes of one {self.item} are not shown to be alike beyond what the score says, so it changes nothing."
        times = f"the variance of a group's mean is {self.effects['both']:.1f} times that of independent rows"
        if self.tests["user"].verdict == self.tests["both"].verdict:
            return f"Allowing for {self.item} as well, {times}; the verdict stays {both}."
        return f"Allowing for users alone, the verdict would be {by_user}; with {self.item}, {times}, and the verdict is {both}."

    def rows(self) -> list[dict[str, Any]]:
        """One row a key: the design effect, the p-value and the verdict."""
        return [
            {"variances_by": key, "design_effect": self.effects[key], "p_value": test.p_value, "verdict": test.verdict}
            for key, test in self.tests.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        return json_ready({"sentence": self.sentence, "item": self.item, "measure": self.measure, "tests": self.rows()})

    def _title(self) -> str:
        return f"Which key matters: users, {self.item}, or both"

    def _notes(self) -> list[str]:
        return [self.sentence]


def compare_keys(tally: Tally, test: ParityTest, *, compare: str, reference: Any, seed: int) -> TwoKeys | None:
    """The same test by each key; None without items, or where no pair of groups could be judged. test: that by both."""
    if tally.item is None or np.isnan(test.p_value):
        return None
    options = Options(Smoothing(test.degree, test.kernel, "test"), test.method, test.alpha, test.tolerance, seed=seed, brief=True)
    chosen = chosen_pairs(tally, compare, reference)
    tests = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvenscoreWarning)  # said once of the test that counts
        for key in ("user", "item"):
            sides = Sides(with_keys(tally, key), test.weighting)
            pairs, _ = judge_pairs(sides, chosen, replace(options, n_pairs=len(chosen)), None)
            tests[key] = Formulation.of(replace(test, pairs=tuple(pairs), other=None))
    return TwoKeys(
        item=tally.item,
        measure=item_share(tally, test.weighting),
        tests=tests | {"both": Formulation.of(test)},
        effects=design_effects(tally, test.weighting),
        frame_kind=tally.frame_kind,
    )
