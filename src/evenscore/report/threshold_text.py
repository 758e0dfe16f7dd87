"""Thresholds for a terminal: is the bar equally high, and where it would be."""

from __future__ import annotations

from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY
from evenscore.marginal.marginal_result import MarginalTest
from evenscore.report.wrapping import wrap
from evenscore.tables import p_text, printable, text_table
from evenscore.tallies.tally_state import Tally
from evenscore.thresholds.thresholds_result import Thresholds

WHERE = ("group", "before", "threshold", "ci_low", "ci_high", "outcome_before", "outcome_after")
WHOM = ("group", "rate_before", "rate_after", "ratio_before", "ratio_after", "to_positive", "to_negative", "suggestive")
SAME = 5e-4  # estimates that are printed alike
WORDS = {
    DISPARITY: "the bar is not equally high for everyone",
    PARITY: "the outcomes at the threshold are within the tolerance of each other",
    INCONCLUSIVE: "that the bar differs is not shown, which is not the same as parity",
}


def thresholds_text(tally: Tally, test: MarginalTest, thresholds: Thresholds, notes: list[str]) -> str:
    """Groups and verdict at the old threshold, then the new thresholds and whom they concern."""
    blocks = [
        "\n".join([text_table(tally.rows()), *(wrap(note) for note in [*tally._notes(), *notes])]),
        f"  {test.verdict.upper()} at {test.where}: {WORDS[test.verdict]}  (p = {p_text(test.p_value)})",
        text_table(test.group_rows()),
        text_table(test.rows()),
        "\n".join(wrap(note) for note in test._notes()),
        f"  {printable(thresholds._title(), 200)}",
        text_table(_columns(thresholds, WHERE)),
        text_table(_columns(thresholds, WHOM)),
        "\n".join(wrap(note) for note in (*_two_numbers(test, thresholds), *thresholds._notes())),
    ]
    return "\n\n".join(block for block in blocks if block)


def _two_numbers(test: MarginalTest, thresholds: Thresholds) -> list[str]:
    """Why the outcome at the threshold has two estimates, where it has."""
    tested = {own.group: own.estimate for own in test.marginals}
    if all(abs(tested[own.group] - own.outcome_before) < SAME for own in thresholds.groups if own.group in tested):
        return []
    return [
        "the outcome at the old threshold has two estimates: the test's, from a fit that is comparable between groups, and "
        "outcome_before, from the curve that the new thresholds are read off"
    ]


def _columns(thresholds: Thresholds, names: tuple[str, ...]) -> list[dict[str, object]]:
    return [{name: getattr(group, name) for name in names} for group in thresholds.groups]
