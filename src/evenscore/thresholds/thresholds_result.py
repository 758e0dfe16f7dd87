"""Group thresholds with equal marginal outcomes: what they are, how well they are known, and whose decisions they change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evenscore.calibration.matching import match_groups, read_scores
from evenscore.tables import Table, json_ready, label_text, values_of
from evenscore.types import Floats, Mask
from evenscore.wording import number_text

STRATEGIES = ("rate", "raise", "lower", "target")
WORDS = {
    "rate": "equal marginal outcomes at the same overall rate of positive decisions",
    "raise": "the bar is raised for groups with a lower standard",
    "lower": "the bar is lowered for groups with a higher standard",
    "target": "the marginal outcome is set",
}


class Rates(NamedTuple):
    """The share of people with the positive decision, before and after."""

    before: float
    after: float


@dataclass(frozen=True, slots=True)
class GroupThreshold:
    """One group: its threshold before and now, with limits.

    outcome_before, outcome_after: the expected outcome at the old and at the new threshold, on the curve that is solved on. people:
    how many the group has (users, or rows with weighting="row"); to_positive, to_negative: those whose decision changes. ratio:
    the group's rate over the highest of all groups. suggestive: the new threshold rests on outcomes that nobody has seen.
    """

    group: Any
    before: float
    threshold: float
    ci_low: float = np.nan
    ci_high: float = np.nan
    outcome_before: float = np.nan
    outcome_after: float = np.nan
    rate_before: float = np.nan
    rate_after: float = np.nan
    ratio_before: float = np.nan
    ratio_after: float = np.nan
    people: float = 0.0
    to_positive: float = 0.0
    to_negative: float = 0.0
    suggestive: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ThresholdCurve:
    """One group's curve for a picture: score, outcome, ci_low, ci_high (n_points,); seen: where outcomes are known."""

    group: Any
    score: Floats
    outcome: Floats
    ci_low: Floats
    ci_high: Floats
    seen: Mask


@dataclass(frozen=True, slots=True, repr=False)
class Thresholds(Table):
    """The result of ``es.fair_thresholds``.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(people, score="score", outcome="outcome", group="group", user="user", cuts=[0.5])
    >>> found = es.fair_thresholds(tally, threshold=0.5, strategy="rate")
    >>> {group: round(bar, 2) for group, bar in found.by_group.items()}
    {'a': 0.43, 'b': 0.57}
    """

    groups: tuple[GroupThreshold, ...]
    curves: tuple[ThresholdCurve, ...]
    where: str
    strategy: str
    positive: str
    outcome: float
    target: float | None
    weighting: str
    alpha: float
    positive_rate: Rates
    binary: bool
    frame_kind: str | None = None

    @property
    def threshold(self) -> float | dict[Any, float]:
        """The threshold before; by group when they differed."""
        before = {group.group: group.before for group in self.groups}
        return before if len(set(before.values())) > 1 else self.groups[0].before

    @property
    def by_group(self) -> dict[Any, float]:
        """The threshold of each group."""
        return {group.group: group.threshold for group in self.groups}

    @property
    def outcome_at(self) -> dict[Any, float]:
        """The expected outcome of each group at its threshold."""
        return {group.group: group.outcome_after for group in self.groups}

    @property
    def solved(self) -> bool:
        """Whether all groups have the same marginal outcome now."""
        values = [value for value in self.outcome_at.values() if np.isfinite(value)]
        size = max((abs(value) for value in values), default=1.0)
        return len(values) == len(self.groups) and max(values) - min(values) <= 1e-3 * max(size, 1e-12)

    @property
    def suggestive(self) -> bool:
        """Whether a threshold rests on outcomes that nobody has seen."""
        return any(group.suggestive for group in self.groups)

    @property
    def reasons(self) -> dict[Any, str]:
        """What should be known about a group's threshold, where there is something."""
        return {group.group: group.reason for group in self.groups if group.reason}

    def decide(self, scores: Any, groups: Any) -> Mask:
        """The decision for each row, (n_rows,): arrays or columns of scores and groups."""
        array, _ = read_scores(scores, "error")
        labels = tuple(self.by_group)
        matched = match_groups(groups, labels, len(array))
        limits = np.array(list(self.by_group.values()))[matched.places]
        return array >= limits if self.positive == "above" else array < limits

    def rows(self) -> list[dict[str, Any]]:
        """One row a group."""
        names = [name for name in GroupThreshold.__slots__ if name not in ("reason", "people")]
        return [values_of(group, names) for group in self.groups]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        names = ("threshold", "strategy", "positive", "outcome", "target", "weighting", "alpha", "solved", "suggestive")
        groups = [values_of(group) for group in self.groups]
        return json_ready(values_of(self, names) | {"positive_rate": self.positive_rate._asdict(), "groups": groups})

    def _title(self) -> str:
        state = f"an outcome of {number_text(self.outcome)} at every threshold" if self.solved else "no exact solution"
        return f"Thresholds ({self.strategy}): {state}"

    def _notes(self) -> list[str]:
        before, after = self.positive_rate
        side = "at or above" if self.positive == "above" else "below"
        everybody = "users" if self.weighting == "user" else "rows"
        notes = [
            f"{WORDS[self.strategy]}; before: {self.where}; a score {side} the threshold gets the positive decision",
            "outcome before and after: on the curves that are solved on, which use every known outcome; es.marginal_test uses "
            "those of the positive side alone",
            f"overall positive rate: {100 * before:.1f} % before, {100 * after:.1f} % after; to_positive and to_negative count "
            f"{everybody}",
            f"ci: {100 * (1 - self.alpha):g} %, for each threshold by itself; ratio: to the highest positive rate of all groups",
        ]
        return notes + [f"{label_text(group)}: {reason}" for group, reason in self.reasons.items()]
