"""What a marginal test found: the outcome at the threshold by group, pair by pair, and as a whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from evenscore.estimation.pairwise import Formulation, GapPair, GapTest, not_shown
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY
from evenscore.tables import json_ready, label_text, values_of
from evenscore.wording import amount_text, figures, p_text

LABELS = POSITIVE_SIDE, BOTH_SIDES = "positive", "both"
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
class MarginalPair(GapPair):
    """Two groups at the threshold, gap = group_a minus group_b; average_gap and p_average compare the infra-marginal averages.

    higher: the group that is held to the higher standard, whether or not that is shown.
    """

    NUMBERS: ClassVar[tuple[str, ...]] = (
        *("gap", "se", "ci_low", "ci_high", "p_value", "p_adjusted", "p_equal", "average_gap", "p_average"),
        "minimum_detectable_gap",
    )

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
    def max_gap(self) -> float:
        """The gap at the threshold; there is no other."""
        return self.gap


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


@dataclass(frozen=True, slots=True)
class Jump:
    """One group: by how much outcomes just inside the threshold exceed those just outside; p_value: of none, adjusted."""

    group: Any
    size: float = np.nan
    se: float = np.nan
    ci_low: float = np.nan
    ci_high: float = np.nan
    p_value: float = np.nan
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OtherLabels:
    """The same test with outcomes of the positive side alone, or of both sides: what was not chosen."""

    labels: str
    p_value: float
    max_gap: float
    verdict: str

    @classmethod
    def of(cls, test: MarginalTest, labels: str) -> OtherLabels:
        """Of the test with these labels."""
        return cls(labels, test.p_value, test.max_gap, test.verdict)

    @property
    def sentence(self) -> str:
        """What it says; it makes no verdict."""
        if np.isnan(self.p_value):
            return ""
        sides = "outcomes on both sides of the threshold" if self.labels == BOTH_SIDES else "outcomes on the positive side alone"
        when = ", which is right only where the decision cannot change an outcome" if self.labels == BOTH_SIDES else ""
        return (
            f"with {sides}{when}: {self.verdict}, largest gap {amount_text(abs(self.max_gap))}, p = {p_text(self.p_value)}; "
            f'labels="{self.labels}", chosen beforehand, makes that the verdict'
        )


@dataclass(frozen=True, slots=True, repr=False)
class MarginalTest(GapTest[MarginalPair]):
    """The result of ``es.marginal_test``. A row has a pair's gap at the threshold, and the average_gap of all beyond it.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(people, score="score", outcome="outcome", group="group", user="user", cuts=[0.5])
    >>> test = es.marginal_test(tally, threshold=0.5)
    >>> {group: round(level["estimate"], 2) for group, level in test.by_group.items()}
    {'a': 0.49, 'b': 0.24}
    """

    COLUMNS = (
        *("group_a", "group_b", "p_value", "p_adjusted", "gap", "se", "ci_low", "ci_high", "average_gap", "p_average", "verdict"),
    )
    UNSEEN = "a gap"  # at one score it is neither constant nor not

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
    labels: str = POSITIVE_SIDE
    other_labels: OtherLabels | None = None
    jumps: tuple[Jump, ...] = ()
    frame_kind: str | None = None

    @property
    def threshold(self) -> float | dict[Any, float]:
        """The threshold; by group when they differ."""
        if len(set(self.thresholds)) == 1:
            return self.thresholds[0]
        return {marginal.group: value for marginal, value in zip(self.marginals, self.thresholds, strict=True)}

    @property
    def by_group(self) -> dict[Any, dict[str, float]]:
        """The expected outcome at the threshold: group -> estimate, se, ci_low, ci_high, effective_users."""
        names = ("estimate", "se", "ci_low", "ci_high", "effective_users")
        return {marginal.group: values_of(marginal, names) for marginal in self.marginals}

    @property
    def averages(self) -> dict[Any, dict[str, float]]:
        """The average outcome of all with the positive decision: group -> estimate, se, ci_low, ci_high.

        This is what outcome tests usually compare. It also depends on how far beyond the threshold people's scores lie, so that it
        differs between groups under one and the same standard, or hides that standards differ.
        """
        names = {"estimate": "average", "se": "average_se", "ci_low": "average_ci_low", "ci_high": "average_ci_high"}
        return {marginal.group: {name: getattr(marginal, field) for name, field in names.items()} for marginal in self.marginals}

    @property
    def null(self) -> str:
        """What is tested, in words."""
        same = "equal" if self.tolerance is None else f"within {self.tolerance:g} of each other"
        sides = f"scores {self._side} only" if self.labels == POSITIVE_SIDE else "scores on both sides"
        return (
            f"at {self.where} the expected outcomes of all groups are {same} "
            f"(each {self.weighting} weighs the same, seen from {sides})"
        )

    @property
    def _side(self) -> str:
        return f"{'at or above' if self.positive == 'above' else 'below'} {self.where}"

    @property
    def higher_standard(self) -> list[str]:
        """One sentence for each pair with a disparity: which group is held to the higher standard."""
        return [pair.reason for pair in self.pairs if pair.verdict == DISPARITY]

    @property
    def misleading(self) -> list[str]:
        """One sentence for each pair in which the infra-marginal averages tell another story than the threshold does.

        Both are tests of equality for the pair by itself.
        """
        found = []
        for pair in self.pairs:
            if not (pair.judged and np.isfinite(pair.p_average)):
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

    def group_rows(self) -> list[dict[str, Any]]:
        """One row a group: the outcome at the threshold, and the average on the positive side."""
        names = ("group", "estimate", "se", "ci_low", "ci_high", "effective_users", "average", "average_ci_low", "average_ci_high")
        return [values_of(marginal, names) for marginal in self.marginals]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        settings = ("threshold", "at_scores", "positive", "rising", "alpha", "tolerance", "weighting", "degree", "kernel")
        shown = ("bandwidth", "adjustment", "null", "p_value", "p_equal", "verdict", "reason", "max_gap", "minimum_detectable_gap")
        remarks = ("higher_standard", "misleading", "disagreement")
        document = values_of(self, settings + shown + remarks)
        document["groups"] = [values_of(marginal) for marginal in self.marginals]
        document["pairs"] = [values_of(pair) for pair in self.pairs]
        document["other"] = None if self.other is None else values_of(self.other)
        document["labels"] = self.labels
        document["other_labels"] = None if self.other_labels is None else values_of(self.other_labels)
        document["jumps"] = [values_of(jump) for jump in self.jumps]
        document["other_side"] = [values_of(side) for side in self.other_side]
        return json_ready(document)

    def _heading(self) -> str:
        return f"Marginal test at {self.where}"

    def _notes(self) -> list[str]:
        notes = GapTest._notes(self)
        moved = dict.fromkeys(f"{score:g}" for score, t in zip(self.at_scores, self.thresholds, strict=True) if score != t)
        if moved:
            notes.append(f"the marginal people have a score of {', '.join(moved)}, the value nearest to the threshold on that side")
        if self.verdict == DISPARITY:
            notes.append(BURDEN)
        notes += self._adjustment_notes()
        notes += [f"{label_text(marginal.group)}: {marginal.reason}" for marginal in self.marginals if marginal.reason]
        return [*notes, *self.misleading, *self._disagreement_notes(), *self.label_sentences, *self._beyond_notes()]

    @property
    def label_sentences(self) -> list[str]:
        """What the labels that were not chosen say, and whether outcomes jump at the threshold."""
        if self.other_labels is None:
            return []
        return list(filter(None, [self.other_labels.sentence, self._jump_sentence]))

    @property
    def _jump_sentence(self) -> str:
        if self.other_labels is None or np.isnan(self.other_labels.p_value):
            return ""
        judged = [jump for jump in self.jumps if np.isfinite(jump.p_value)]
        shown = [jump for jump in judged if jump.p_value <= self.alpha]
        if shown:
            sizes = ", ".join(
                f"{label_text(jump.group)} {figures(jump.size, sign='+')}, p = {p_text(jump.p_value)}" for jump in shown
            )
            words = f"outcomes jump at the threshold ({sizes}), as where the decision itself changes them"
            return f'{words}: labels="both" {"is" if self.labels == BOTH_SIDES else "would be"} wrong here'
        if not judged:
            return ""
        return 'no jump of outcomes at the threshold is shown; that alone does not make labels="both" right'

    def _beyond_notes(self) -> list[str]:
        """Sentences about the other side; one for all when nobody has labels there."""
        if all(np.isnan(side.p_value) for side in self.other_side):
            return [
                "outcomes on the other side of the threshold are not known: whether they go beyond the marginal one is not checked"
            ]
        groups: dict[str, list[str]] = {}
        for side in self.other_side:
            groups.setdefault(side.reason, []).append(label_text(side.group))
        return [f"{', '.join(names)}: {reason}" for reason, names in groups.items()]

    def _tables(self) -> list[list[dict[str, Any]]]:
        return [self.group_rows(), self.rows()]


def why(verdict: str, numbers: Mapping[str, float], tolerance: float | None, words: tuple[str, str]) -> str:
    """The reason for a pair's verdict; words: the label of the group with the higher standard, and of the other."""
    if verdict == DISPARITY:
        more = "" if tolerance is None else f", more than {tolerance:g}"
        low, high = sorted(math.copysign(1, numbers["gap"]) * numbers[name] for name in ("ci_low", "ci_high"))
        return (
            f"the standard is higher for {words[0]} than for {words[1]}: at the threshold their expected outcomes differ by "
            f"{amount_text(abs(numbers['gap']))} ({amount_text(low)} to {amount_text(high)}){more}"
        )
    if verdict == PARITY:
        return f"at the threshold the gap of {words[0]} and {words[1]} is within {tolerance:g}"
    return not_shown(numbers["minimum_detectable_gap"], tolerance, MarginalTest.UNSEEN)
