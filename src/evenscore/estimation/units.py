"""Whether a score and its outcome are on one scale: whether the one may be subtracted from the other.

Scores are on the scale of the outcome when they could be predictions of it, good or bad. A percentile and a count, points from 300
to 850 and a default, a logit and a probability, a logarithm and a sum of money are not, and then a calibration error, a squared
error before a repair and a threshold for repaired scores mean nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenscore.errors import require_option
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.view import GroupView
from evenscore.wording import number_text, place_text

WORST = 2.0  # times the variance of outcomes: the squared error of the outcomes of other people, drawn at random
SMALLER = 4.0  # times: scores of which both mean and spread are so much smaller than those of outcomes are in another unit
SCALES = (None, True, False)
DECISIONS = "the scores are decisions, 0 or 1, and no probabilities"
OUTSIDE = "while outcomes are 0 or 1"


@dataclass(frozen=True, slots=True)
class Moments:
    """What is known about a score and an outcome, everybody together: means, standard deviations, and the mean squared difference;
    low, high: the lowest and the highest score; labels: whether all scores are 0 or 1."""

    binary: bool
    low: float
    high: float
    mean_score: float
    sd_score: float
    mean_outcome: float
    sd_outcome: float
    squared_difference: float
    labels: bool = False

    @classmethod
    def of_tally(cls, tally: Tally) -> Moments | None:
        """From the sums, each user weighing the same; None without anybody."""
        if not tally.groups:
            return None
        view = GroupView.whole(tally, "user")
        view = view.at(view.used)
        total = view.total
        if not total > 0:
            return None
        weight, outcome, score = view.sums.W / total, view.sums.Y / total, view.score
        mean_score, mean_outcome = float(weight @ score), float(outcome.sum())
        # Outcomes are kept as deviations from the centre, so scores are taken as such too.
        squares = float(view.sums.Y2.sum()) / total
        products = float(view.sums.XY.sum()) / total - tally.centre * mean_outcome
        return cls(
            binary=tally.binary,
            low=float(score.min()),
            high=float(score.max()),
            mean_score=mean_score,
            sd_score=float(np.sqrt(weight @ (score - mean_score) ** 2)),
            mean_outcome=tally.centre + mean_outcome,
            sd_outcome=float(np.sqrt(max(squares - mean_outcome**2, 0.0))),
            labels=bool(np.isin(score, (0.0, 1.0)).all()),
            squared_difference=max(squares - 2 * products + float(weight @ (score - tally.centre) ** 2), 0.0),
        )

    @property
    def mismatch(self) -> str:
        """Why the two are not on one scale; empty when they may be."""
        scores = f"scores run from {place_text(self.low)} to {place_text(self.high)}"
        if self.binary and not (self.low >= 0 and self.high <= 1):
            return f"the {scores} {OUTSIDE}"
        if self.binary and self.labels:
            return DECISIONS
        # Scores from 0 to 1 may be probabilities, however wrong: to be told of, not hidden.
        if self.binary or not self.sd_outcome > 0:
            return ""
        outcomes = f"outcomes have mean {number_text(self.mean_outcome)} and standard deviation {number_text(self.sd_outcome)}"
        if self.squared_difference > WORST * self.sd_outcome**2:
            better = "outcomes of other people at random would be better predictions"
            return f"the {scores} (mean {number_text(self.mean_score)}), {outcomes}: {better}"
        smaller = SMALLER * abs(self.mean_score) < abs(self.mean_outcome) and SMALLER * self.sd_score < self.sd_outcome
        if smaller:
            return f"the {scores} while {outcomes}"
        return ""


def same_scale(tally: Tally, asked: bool | None = None) -> bool:
    """Whether scores and outcomes are on one scale: as the caller says, or as the sums tell (None)."""
    return not scale_mismatch(tally, asked)


def scale_mismatch(tally: Tally, asked: bool | None = None) -> str:
    """Why scores and outcomes are not on one scale, in words; empty when they are."""
    require_option("same_scale", asked, SCALES)
    if asked is not None:
        return "" if asked else "score and outcome are declared not to be on one scale"
    moments = Moments.of_tally(tally)
    why = "" if moments is None else moments.mismatch
    return f"score and outcome are not on one scale: {why}" if why and why != DECISIONS else why
