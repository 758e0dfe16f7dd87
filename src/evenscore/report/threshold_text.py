"""Thresholds for a terminal: is the bar equally high, and where it would be."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY
from evenscore.marginal.marginal_result import MarginalTest
from evenscore.naming import own_names
from evenscore.report.wrapping import WIDTH, paragraphs
from evenscore.tables import printable, text_table
from evenscore.tallies.tally_state import Tally
from evenscore.thresholds.thresholds_result import Thresholds
from evenscore.wording import p_short

WHERE = ("group", "before", "threshold", "ci_low", "ci_high", "outcome_before", "outcome_after")
WHOM = ("group", "rate_before", "rate_after", "ratio_before", "ratio_after", "to_positive", "to_negative", "suggestive")
FEW, FEW_REASONS = 12, 2  # rows of a table and reasons before -v
SAME = 5e-4  # estimates that are printed alike
WORDS = {
    DISPARITY: "the bar is not equally high for everyone",
    PARITY: "the outcomes at the threshold are within the tolerance of each other",
    INCONCLUSIVE: "that the bar differs is not shown, which is not the same as parity",
}
UNJUDGED = "whether the bar is equally high for everyone could not be judged"


def thresholds_text(
    tally: Tally, test: MarginalTest, thresholds: Thresholds, notes: list[str], *, width: int = WIDTH, verbose: bool = False
) -> str:
    """The verdict at the old threshold and the new thresholds; verbose: also groups, pairs, and whom new thresholds concern."""
    with own_names(thresholds.group_names):
        return (_all if verbose else _short)(tally, test, thresholds, notes, width)


def _short(tally: Tally, test: MarginalTest, thresholds: Thresholds, notes: list[str], width: int) -> str:
    said = [
        *(note for note in tally._notes() if note not in tally.lattice.notes),
        *notes,
        *_reasons(test),
        *(two_estimates(test, thresholds) if np.isfinite(test.p_value) else []),
        "Pairs of groups, and whose decision would change: -v",
    ]
    return "\n".join(
        [
            _verdict(test, width),
            "",
            paragraphs([thresholds._title()], width),
            text_table(_columns(thresholds, WHERE), FEW, width),
            paragraphs(said, width),
        ]
    )


def _verdict(test: MarginalTest, width: int) -> str:
    p_value = p_short(test.p_value)
    words = WORDS[test.verdict] if p_value else UNJUDGED
    return paragraphs([f"{test.verdict.upper()} at {test.where}: {words}{p_value and f' ({p_value})'}"], width)


def _reasons(test: MarginalTest) -> list[str]:
    """Why the verdict is what it is: the first reasons, and how many there are."""
    reasons = list(dict.fromkeys(filter(None, test.reason.split("; "))))
    more = len(reasons) - FEW_REASONS
    return [printable(reason, 400) for reason in reasons[:FEW_REASONS]] + ([f"and {more} more: -v"] if more > 0 else [])


def _all(tally: Tally, test: MarginalTest, thresholds: Thresholds, notes: list[str], width: int) -> str:
    blocks = [
        "\n".join([text_table(tally.rows(), width=width), paragraphs([*tally._notes(), *notes], width)]),
        _verdict(test, width),
        text_table(test.group_rows(), width=width),
        text_table(test.rows(), width=width),
        paragraphs(test._notes(), width),
        paragraphs([thresholds._title()], width),
        text_table(_columns(thresholds, WHERE), width=width),
        text_table(_whom(thresholds), width=width),
        paragraphs([*two_estimates(test, thresholds), *thresholds._notes()], width),
    ]
    return "\n\n".join(block for block in blocks if block)


def two_estimates(test: MarginalTest, thresholds: Thresholds) -> list[str]:
    """Why the outcome at the threshold has two estimates, where it has."""
    tested = {own.group: own.estimate for own in test.marginals}
    if all(abs(tested[own.group] - own.outcome_before) < SAME for own in thresholds.groups if own.group in tested):
        return []
    return [
        "the outcome at the old threshold has two estimates: the test's, from a fit that is comparable between groups, and "
        "outcome_before, from the curve on which the new thresholds lie"
    ]


def _whom(thresholds: Thresholds) -> list[dict[str, Any]]:
    """Whom new thresholds concern, in whole people; whether outcomes are guesses only where some are."""
    rows = _columns(thresholds, WHOM if thresholds.suggestive else WHOM[:-1])
    return [row | {name: round(row[name]) for name in ("to_positive", "to_negative")} for row in rows]


def _columns(thresholds: Thresholds, names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{name: getattr(group, name) for name in names} for group in thresholds.groups]
