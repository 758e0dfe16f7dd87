"""Would I have been fooled? The same test by somebody who takes rows for people, beside the one that respects users."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import DataError, EvenscoreWarning
from evenscore.estimation.comparison import Sides
from evenscore.estimation.fitted_curves import Curves, curves
from evenscore.estimation.pairwise import Formulation
from evenscore.estimation.smoothing import Smoothing
from evenscore.parity import chosen_pairs, parity_test
from evenscore.parity.pair_tests import Options, judge_pairs
from evenscore.parity.parity_result import ParityTest
from evenscore.tables import Table, json_ready
from evenscore.tallies.row_users import rows_as_users
from evenscore.tallies.tally_state import Tally
from evenscore.threads import in_one_thread
from evenscore.wording import p_text

ALIKE = 1.1  # bands that differ by less than this factor are not worth a word
SMALL = 1e-4


@dataclass(frozen=True, slots=True, repr=False)
class RowsAsPeople(Table):
    """The result of ``es.rows_as_people``: what the parity test says of users, and what it would say if every row were a person.

    by_user, by_row: the two tests; curves, row_curves: the curves with simultaneous bands that go with them. n_users, n_rows: with
    a known outcome, of all groups. several: whether users of more than two groups count in each of theirs, as it is not known how
    many are in how many; item: the other key that rows share, if any. alone: whether no other test has a say in the verdict.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(people, score="score", outcome="outcome", group="group", user="user")
    >>> es.rows_as_people(tally).rows()[0]["people"]
    2400
    """

    by_user: Formulation
    by_row: Formulation
    curves: Curves
    row_curves: Curves
    n_users: int
    n_rows: int
    frame_kind: str | None = None
    several: bool = False
    item: str | None = None
    alone: bool = True

    @property
    def rows_per_user(self) -> float:
        """Rows of a user on average, or, where users are in several of many groups, of a user in a group."""
        return self.n_rows / self.n_users

    @property
    def fooled(self) -> bool:
        """Whether taking rows for people gives another verdict; none is no verdict."""
        return self.by_row.verdict != self.by_user.verdict and not np.isnan(self.by_row.p_value)

    @property
    def narrowing(self) -> float:
        """How many times as wide the bands that respect users are, in the middle of all groups and scores."""
        ratios = []
        for own in self.curves.curves:
            row = self.row_curves[own.group]
            width = np.interp(own.position, row.position, row.band_high - row.band_low, left=np.nan, right=np.nan)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios.append((own.band_high - own.band_low) / width)
        known = np.concatenate(ratios) if ratios else np.zeros(0)
        known = known[np.isfinite(known)]
        return float(np.median(known)) if len(known) else np.nan

    @property
    def sentence(self) -> str:
        """Both verdicts with their p-values."""
        return of_parity(self._sentence, self.alone)

    @property
    def _sentence(self) -> str:
        naive, ours = (f"{test.verdict.upper()} ({p_phrase(test.p_value)})" for test in (self.by_row, self.by_user))
        repeated = f"each user has {_count(self.rows_per_user)} rows {'in a group ' * self.several}on average"
        if self.item is not None:
            repeated = f"rows of one user, and rows of one {self.item}, have something in common"
        if np.isnan(self.by_row.p_value):
            return f"Taking rows for people, nothing could be judged; {repeated}, and the verdict that respects this is {ours}."
        if self.fooled:
            return f"Taking rows for people would have said {naive}; {repeated}, and the verdict that respects this is {ours}."
        by_row, by_user = (p_phrase(test.p_value) for test in (self.by_row, self.by_user))
        p_values = by_row if by_row == by_user else f"{by_row} instead of {by_user}"
        narrow = f", with bands {_count(self.narrowing)} times narrower" if self.narrowing > ALIKE else ""
        same = f"Taking rows for people would have given the same verdict, {self.by_row.verdict.upper()} ({p_values})"
        return f"{same}{narrow}; {repeated}."

    @property
    def people(self) -> str:
        """What is respected, with its number where it is known."""
        users = "users" if self.several else f"{self.n_users:,} users"
        return users if self.item is None else f"{users} and {self.item}"

    def rows(self) -> list[dict[str, Any]]:
        """Both tests: what is taken for a person, how many there would be, verdict, p-value and largest gap."""
        both = (("row", self.n_rows, self.by_row), ("user", self.n_users, self.by_user))
        return [
            {"person": unit, "people": count, "verdict": test.verdict, "p_value": test.p_value, "max_gap": test.max_gap}
            for unit, count, test in both
        ]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values; curves: those with bands that take rows for people."""
        names = ("sentence", "fooled", "rows_per_user", "narrowing", "n_users", "n_rows")
        values = {name: getattr(self, name) for name in names}
        return json_ready(values | {"tests": self.rows(), "curves": self.row_curves.to_dict()})

    def _title(self) -> str:
        return f"Rows taken for people: {self.by_row.verdict}; users respected: {self.by_user.verdict}"

    def _notes(self) -> list[str]:
        return [self.sentence]


def of_parity(sentence: str, alone: bool) -> str:
    """The sentence, which is no word about the verdict of the whole where other tests have a say in that."""
    return sentence if alone else f"By the parity test alone: {sentence[0].lower()}{sentence[1:]}"


def p_phrase(p_value: float) -> str:
    """A p-value for a sentence."""
    return f"p < {SMALL:.4f}" if p_value < SMALL else f"p = {p_text(p_value)}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


@in_one_thread
def rows_as_people(
    tally: Any,
    *,
    method: str = "auto",
    alpha: float = 0.05,
    tolerance: float | None = None,
    compare: str = "pairs",
    reference: Any = None,
    seed: int = 0,
    **columns: Unpack[DataColumns],
) -> RowsAsPeople:
    """What the parity test would have said if every row were another person, beside what it says of users.

    Parameters
    ----------
    tally
        What ``es.tally`` made, also as the path of a saved one; or data. The row-level sums are in the tally: there is no second
        scan.
    columns
        With data: ``score=``, ``outcome=``, ``group=``, ``user=`` and what else ``es.tally`` takes.
    method, alpha, tolerance, compare, reference, seed
        As for ``es.parity_test``.

    Returns
    -------
    RowsAsPeople
        Both verdicts with p-values in ``.sentence`` and ``.rows()``, the curves with both kinds of bands; ``.plot()`` draws them
        side by side.

    Examples
    --------
    >>> import evenscore as es
    >>> data = es.simulate(200, rows_per_user=20, outcome_correlation=0.9, score_correlation=0.9).data(seed=3)
    >>> found = es.rows_as_people(data, score="score", outcome="outcome", group="group", user="user")
    >>> found.by_user.verdict, found.by_row.verdict
    ('inconclusive', 'disparity')
    """
    tally = as_tally(tally, columns, call="rows_as_people")
    shared: dict[str, Any] = {"alpha": alpha, "seed": seed}
    test = parity_test(tally, method=method, tolerance=tolerance, compare=compare, reference=reference, both=False, **shared)
    retaken = retake_rows(tally, test, curves(tally, **shared), compare=compare, reference=reference, seed=seed)
    if retaken is None:
        raise DataError(test.reason if np.isnan(test.p_value) else "every user has one row, so rows are people")
    return retaken


def retake_rows(
    tally: Tally, test: ParityTest, own_curves: Curves, *, compare: str, reference: Any, seed: int
) -> RowsAsPeople | None:
    """The same test and curves on rows as people; None where rows are people, or no pair of groups could be judged."""
    if tally.independent or tally.n_rows == tally.n_users or np.isnan(test.p_value):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvenscoreWarning)  # what is said of a test that should not be made helps nobody
        return _retaken(tally, test, own_curves, compare, reference, seed)


def _retaken(tally: Tally, test: ParityTest, own_curves: Curves, compare: str, reference: Any, seed: int) -> RowsAsPeople:
    by_row = rows_as_users(tally)
    options = Options(Smoothing(test.degree, test.kernel, "test"), test.method, test.alpha, test.tolerance, seed=seed, brief=True)
    chosen = chosen_pairs(by_row, compare, reference)
    pairs, _ = judge_pairs(Sides(by_row, "row"), chosen, replace(options, n_pairs=len(chosen)), None)
    naive = replace(test, pairs=tuple(pairs), weighting="row", independent=True, other=None)
    return RowsAsPeople(
        by_user=Formulation.of(test),
        by_row=Formulation.of(naive),
        curves=own_curves,
        row_curves=curves(by_row, weighting="row", alpha=own_curves.alpha, seed=seed),
        n_users=sum(tally.n_users.values()) - (tally.n_spanning if len(tally.groups) == 2 else 0),
        n_rows=sum(tally.n_rows.values()),
        frame_kind=tally.frame_kind,
        several=tally.n_spanning > 0 and len(tally.groups) > 2,
        item=tally.item,
    )
