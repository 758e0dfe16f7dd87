"""What a marginal test found: the outcome at the threshold by group, pair by pair, and as a whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY, combine, largest, smallest
from evenscore.parity.parity_result import Formulation, differing, not_shown
from evenscore.tables import Table, html_table, json_ready, label_text, p_text, printable, text_table

MIN_EFFECTIVE = 20  # effective users at the threshold that a group needs
BURDEN = (
    "a higher standard is to a group's disadvantage when a positive decision is wanted (a loan), "
    "to its advantage when it is not (a search)"
)


@dataclass(frozen=True, slots=True)
class GroupMarginal:
    """One group: its expected outcome at the threshold, and the average outcome of everybody with the positive decision."""

    group: Any
    estimate: float = np.nan
    se: float = np.nan
    ci_low: float = np.nan
    ci_high: float = np.nan
    effective_users: float = 0.0
    average: float = np.nan
    average_se: float = np.nan
    average_ci_low: float = np.nan
    average_ci_high: float = np.nan
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MarginalPair:
    """Two groups at the threshold, gap = group_a minus group_b; average_gap and p_average compare the infra-marginal averages.

    higher: the group that is held to the higher standard, whether or not that is shown.
    """

    group_a: Any
    group_b: Any
    gap: float = np.nan
    se: float = np.nan
    ci_low: float = np.nan
    ci_high: float = np.nan
    p_value: float = np.nan
    p_adjusted: float = np.nan
    p_equal: float = np.nan
    higher: Any = None
    average_gap: float = np.nan
    p_average: float = np.nan
    minimum_detectable_gap: float = np.nan
    verdict: str = INCONCLUSIVE
    reason: str = ""

    @property
    def name(self) -> str:
        """Both groups, for people."""
        return f"{label_text(self.group_a)} and {label_text(self.group_b)}"


@dataclass(frozen=True, slots=True)
class OtherSide:
    """One group: whether outcomes without the positive decision go beyond the marginal one, where labels tell.

    excess: by how much at most, at at_score; p_value: of no excess anywhere, adjusted for the groups; nan without labels there.
    """

    group: Any
    excess: float = np.nan
    at_score: float = np.nan
    p_value: float = np.nan
    reason: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class MarginalTest(Table):
    """The result of ``es.marginal_test``."""

    marginals: tuple[GroupMarginal, ...]
    pairs: tuple[MarginalPair, ...]
    other_side: tuple[OtherSide, ...]
    thresholds: tuple[float, ...]
    at_scores: tuple[float, ...]
    where: str
    positive: str
    rising: bool
    alpha: float
    tolerance: float | None
    weighting: str
    degree: int
    kernel: str
    bandwidth: float
    adjustment: str
    other: Formulation | None = None
    frame_kind: str | None = None

    @property
    def threshold(self) -> float | dict[Any, float]:
        """The threshold; by group when they differ."""
        if len(set(self.thresholds)) == 1:
            return self.thresholds[0]
        return {one.group: value for one, value in zip(self.marginals, self.thresholds, strict=True)}

    @property
    def by_group(self) -> dict[Any, dict[str, float]]:
        """The expected outcome at the threshold: group -> estimate, se, ci_low, ci_high, effective_users."""
        names = ("estimate", "se", "ci_low", "ci_high", "effective_users")
        return {one.group: {name: getattr(one, name) for name in names} for one in self.marginals}

    @property
    def averages(self) -> dict[Any, dict[str, float]]:
        """The average outcome of all with the positive decision: group -> estimate, se, ci_low, ci_high.

        This is what outcome tests usually compare. It also depends on how far beyond the threshold people's scores lie, so that it
        differs between groups under one and the same standard, or hides that standards differ.
        """
        names = {"estimate": "average", "se": "average_se", "ci_low": "average_ci_low", "ci_high": "average_ci_high"}
        return {one.group: {name: getattr(one, field) for name, field in names.items()} for one in self.marginals}

    @property
    def null(self) -> str:
        """What is tested, in words."""
        same = "equal" if self.tolerance is None else f"within {self.tolerance:g} of each other"
        return (
            f"at {self.where} the expected outcomes of all groups are {same} "
            f"(each {self.weighting} weighs the same, seen from scores {self._side} only)"
        )

    @property
    def _side(self) -> str:
        return f"{'at or above' if self.positive == 'above' else 'below'} {self.where}"

    @property
    def p_value(self) -> float:
        """The smallest adjusted p-value; nan when no pair could be judged."""
        return smallest(pair.p_adjusted for pair in self.pairs)

    @property
    def p_equal(self) -> float:
        """The smallest p-value of exact equality, not adjusted; with a tolerance it differs from ``p_value``."""
        return smallest(pair.p_equal for pair in self.pairs)

    @property
    def max_gap(self) -> float:
        """The largest gap of all pairs, with its sign (group_a minus group_b)."""
        return largest((pair.gap for pair in self.pairs if np.isfinite(pair.p_value)), key=abs)

    @property
    def minimum_detectable_gap(self) -> float:
        """The gap that the test finds with probability .8 in each pair it could judge."""
        return largest(pair.minimum_detectable_gap for pair in self.pairs)

    @property
    def verdict(self) -> str:
        """ "disparity", "parity" (with a tolerance only) or "inconclusive"."""
        return combine(pair.verdict for pair in self.pairs)

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        if self.verdict != INCONCLUSIVE:
            return "; ".join(dict.fromkeys(pair.reason for pair in self.pairs if pair.verdict == self.verdict))
        unjudged = dict.fromkeys(pair.reason for pair in self.pairs if np.isnan(pair.p_value))
        judged = [] if np.isnan(self.minimum_detectable_gap) else [unshown(self.minimum_detectable_gap, self.tolerance)]
        return "; ".join([*judged, *unjudged])

    @property
    def higher_standard(self) -> list[str]:
        """One sentence for each pair with a disparity: which group is held to the higher standard."""
        return [pair.reason for pair in self.pairs if pair.verdict == DISPARITY]

    @property
    def disagreement(self) -> str:
        """One sentence when per user and per row come to different verdicts, else empty."""
        return differing(self.weighting, self.verdict, self.p_value, self.other)

    @property
    def misleading(self) -> list[str]:
        """One sentence for each pair in which the infra-marginal averages tell another story than the threshold does.

        Both are tests of equality for the pair by itself.
        """
        found = []
        for pair in self.pairs:
            if not (np.isfinite(pair.p_value) and np.isfinite(pair.p_average)):
                continue
            shown, average_shown = pair.p_equal <= self.alpha, pair.p_average <= self.alpha
            opposite = shown and average_shown and pair.gap * pair.average_gap < 0
            if shown != average_shown or opposite:
                found.append(self._story(pair, shown, average_shown))
        return found

    def _story(self, pair: MarginalPair, shown: bool, average_shown: bool) -> str:
        a, b = label_text(pair.group_a), label_text(pair.group_b)
        marginal = f"at the threshold a gap of {pair.gap:+.3g} is {'shown' if shown else 'not shown'}"
        average = f"average outcomes {self._side} differ by {pair.average_gap:+.3g} ({a} minus {b}, p = {p_text(pair.p_average)})"
        if not average_shown:
            average = f"average outcomes {self._side} show no difference ({pair.average_gap:+.3g}, p = {p_text(pair.p_average)})"
        return f"{pair.name}: {average}, but {marginal}; averages also reflect how far beyond the threshold people's scores lie"

    @property
    def beyond(self) -> list[str]:
        """One sentence for each group in which the other side of the threshold says something, or cannot."""
        return [f"{label_text(side.group)}: {side.reason}" for side in self.other_side]

    def rows(self) -> list[dict[str, Any]]:
        """One row a pair: gap at the threshold with its limits, p_value, p_adjusted; average_gap of all beyond it; verdict."""
        estimates = ("p_value", "p_adjusted", "gap", "se", "ci_low", "ci_high", "average_gap", "p_average")
        return [{name: getattr(pair, name) for name in ("group_a", "group_b", *estimates, "verdict")} for pair in self.pairs]

    def group_rows(self) -> list[dict[str, Any]]:
        """One row a group: the outcome at the threshold, and the average on the positive side."""
        names = ("group", "estimate", "se", "ci_low", "ci_high", "effective_users", "average", "average_ci_low", "average_ci_high")
        return [{name: getattr(one, name) for name in names} for one in self.marginals]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        names = (
            *("threshold", "at_scores", "positive", "rising", "alpha", "tolerance", "weighting", "degree", "kernel", "bandwidth"),
            *("adjustment", "null", "p_value", "p_equal", "verdict", "reason", "max_gap", "minimum_detectable_gap"),
            *("higher_standard", "misleading", "disagreement"),
        )
        return {name: json_ready(getattr(self, name)) for name in names} | {
            "groups": [json_ready(_fields(one)) for one in self.marginals],
            "pairs": [json_ready(_fields(pair)) for pair in self.pairs],
            "other_side": [json_ready(_fields(side)) for side in self.other_side],
        }

    def _title(self) -> str:
        return f"Marginal test at {self.where}: {self.verdict}, p = {p_text(self.p_value)}"

    def _notes(self) -> list[str]:
        notes = [f"null: {self.null}", f"verdict: {self.verdict}, because {self.reason}"]
        moved = dict.fromkeys(f"{score:g}" for score, t in zip(self.at_scores, self.thresholds, strict=True) if score != t)
        if moved:
            notes.append(f"the marginal people have a score of {', '.join(moved)}, the value nearest to the threshold on that side")
        if self.verdict == DISPARITY:
            notes.append(BURDEN)
        if len(self.pairs) > 1:
            notes.append(f"p adjusted for {len(self.pairs)} pairs by {self.adjustment}")
        notes += [f"{label_text(one.group)}: {one.reason}" for one in self.marginals if one.reason]
        return [*notes, *self.misleading, *([self.disagreement] if self.disagreement else []), *self._beyond_notes()]

    def _beyond_notes(self) -> list[str]:
        """Sentences about the other side; one for all when nobody has labels there."""
        if all(np.isnan(side.p_value) for side in self.other_side):
            return [
                "outcomes on the other side of the threshold are not known: whether they go beyond the marginal one is not checked"
            ]
        return self.beyond

    def __repr__(self) -> str:
        notes = [f"  {printable(note, 400)}" for note in self._notes()]
        tables = [text_table(self.group_rows()), "", text_table(self.rows())]
        return "\n".join([printable(self._title(), 400), "", *tables, *notes])

    def _repr_html_(self) -> str:
        return Table._repr_html_(self).replace("<table>", f"{html_table(self.group_rows())}<table>", 1)


def _fields(part: Any) -> dict[str, Any]:
    return {name: getattr(part, name) for name in part.__slots__}


def why(verdict: str, numbers: Mapping[str, float], tolerance: float | None, words: tuple[str, str]) -> str:
    """The reason for a pair's verdict; words: the label of the group with the higher standard, and of the other."""
    if verdict == DISPARITY:
        more = "" if tolerance is None else f", more than {tolerance:g}"
        low, high = sorted(math.copysign(1, numbers["gap"]) * numbers[name] for name in ("ci_low", "ci_high"))
        return (
            f"{words[0]} is held to a higher standard than {words[1]}: at the threshold their expected outcomes differ by "
            f"{abs(numbers['gap']):.3g} [{low:.3g}, {high:.3g}]{more}"
        )
    if verdict == PARITY:
        return f"at the threshold the gap of {words[0]} and {words[1]} is within {tolerance:g}"
    return unshown(numbers["minimum_detectable_gap"], tolerance)


def unshown(detectable: float, tolerance: float | None) -> str:
    """The reason when no gap is shown; at one score a gap is neither constant nor not."""
    return not_shown(detectable, tolerance).replace("a constant gap", "a gap")
