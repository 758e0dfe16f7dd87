"""What a parity test found: pair by pair, and as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenscore.estimation.gaps import MIN_EFFECTIVE
from evenscore.estimation.inference import DRAWS, RESOLVED
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY, combine, largest, smallest
from evenscore.parity.methods import POWER
from evenscore.tables import Table, json_ready, label_text, p_text
from evenscore.types import Floats

WHAT_IT_ANSWERS = {
    "user": "each user counts once: does the score mean the same for a person of either group",
    "row": "each row counts once, so users with many rows count more: does it mean the same for a decision",
}


def _none() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True, slots=True)
class Region:
    """A score interval in which a gap of one sign is shown.

    gap: the largest in it, at at_score, with simultaneous limits low and high; share_a, share_b: the share of each side's scores,
    every user weighing the same, that lie in the interval.
    """

    score_low: float
    score_high: float
    gap: float
    low: float
    high: float
    at_score: float
    share_a: float
    share_b: float


@dataclass(frozen=True, slots=True)
class PairTest:
    """The comparison of two groups, gap = group_a minus group_b.

    score, gap, se, band_low, band_high, p_points, effective_a, effective_b: (n_points,). p_equal: the p-value of equality, also
    when a tolerance is tested. left_out: grid points with too few users; too_coarse: those where smoothing could make the gap.
    narrow: what a bandwidth of few cells means, in words. regions: where a gap is shown.
    """

    group_a: Any
    group_b: Any
    p_value: float = np.nan
    p_adjusted: float = np.nan
    p_equal: float = np.nan
    p_source: str = "none"
    verdict: str = INCONCLUSIVE
    reason: str = ""
    bandwidth: float = np.nan
    minimum_detectable_gap: float = np.nan
    left_out: int = 0
    too_coarse: int = 0
    narrow: str = ""
    regions: tuple[Region, ...] = ()
    score: Floats = field(default_factory=_none)
    gap: Floats = field(default_factory=_none)
    se: Floats = field(default_factory=_none)
    band_low: Floats = field(default_factory=_none)
    band_high: Floats = field(default_factory=_none)
    p_points: Floats = field(default_factory=_none)
    effective_a: Floats = field(default_factory=_none)
    effective_b: Floats = field(default_factory=_none)

    @property
    def name(self) -> str:
        """Both groups, for people."""
        return f"{label_text(self.group_a)} and {label_text(self.group_b)}"

    @property
    def judged(self) -> bool:
        """Whether there is a p-value."""
        return bool(np.isfinite(self.p_value))

    @property
    def interval(self) -> tuple[float, float]:
        """The scores that were looked at."""
        return (float(self.score[0]), float(self.score[-1])) if len(self.score) else (np.nan, np.nan)

    @property
    def _largest(self) -> int | None:
        return int(np.argmax(np.abs(self.gap))) if len(self.gap) else None

    @property
    def max_gap(self) -> float:
        """The largest gap along the score, with its sign."""
        return float(self.gap[self._largest]) if self._largest is not None else np.nan

    @property
    def at_score(self) -> float:
        """The score at which the gap is largest."""
        return float(self.score[self._largest]) if self._largest is not None else np.nan


@dataclass(frozen=True, slots=True)
class Formulation:
    """The same test with the other weighting."""

    weighting: str
    p_value: float
    max_gap: float
    verdict: str


@dataclass(frozen=True, slots=True, repr=False)
class ParityTest(Table):
    """The result of ``es.parity_test``."""

    pairs: tuple[PairTest, ...]
    method: str
    alpha: float
    tolerance: float | None
    weighting: str
    degree: int
    kernel: str
    adjustment: str
    independent: bool
    other: Formulation | None = None
    frame_kind: str | None = None

    @property
    def null(self) -> str:
        """What is tested, in words."""
        same = (
            "the same expected outcome" if self.tolerance is None else f"expected outcomes within {self.tolerance:g} of each other"
        )
        unit = "row" if self.independent else self.weighting
        return f"people with the same score have {same} in every group (each {unit} weighs the same)"

    @property
    def p_value(self) -> float:
        """The smallest adjusted p-value; nan when no pair could be judged."""
        return smallest(pair.p_adjusted for pair in self.pairs)

    @property
    def p_equal(self) -> float:
        """The smallest p-value of exact equality, not adjusted; with a tolerance it differs from ``p_value``."""
        return smallest(pair.p_equal for pair in self.pairs)

    @property
    def verdict(self) -> str:
        """ "disparity", "parity" (with a tolerance only) or "inconclusive"."""
        return combine(pair.verdict for pair in self.pairs)

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        if self.verdict == DISPARITY:
            beyond = "" if self.tolerance is None else f" larger than {self.tolerance:g}"
            shown = [pair.name for pair in self.pairs if pair.verdict == DISPARITY]
            unmarked = [pair for pair in self.pairs if pair.verdict == DISPARITY and not pair.regions]
            spread = "; no single score shows it by itself, the evidence is spread along the score" if unmarked else ""
            return f"a gap{beyond} is shown between " + "; ".join(shown) + spread
        if self.verdict == PARITY:
            return "every gap lies within the tolerance: " + "; ".join(pair.reason for pair in self.pairs)
        unjudged = dict.fromkeys(pair.reason for pair in self.pairs if not pair.judged)
        judged = [] if np.isnan(self.minimum_detectable_gap) else [not_shown(self.minimum_detectable_gap, self.tolerance)]
        return "; ".join([*judged, *unjudged])

    @property
    def minimum_detectable_gap(self) -> float:
        """The constant gap that the test finds with probability .8 in each pair it could judge."""
        return largest(pair.minimum_detectable_gap for pair in self.pairs)

    @property
    def max_gap(self) -> float:
        """The largest gap of all pairs, with its sign (group_a minus group_b)."""
        return largest((pair.max_gap for pair in self.pairs), key=abs)

    @property
    def disagreement(self) -> str:
        """One sentence when per user and per row come to different verdicts, else empty."""
        return differing(self.weighting, self.verdict, self.p_value, self.other)

    @property
    def points(self) -> list[dict[str, Any]]:
        """One row for each pair and score: gap, se, simultaneous band, p-value (of all scores at once), effective users of both."""
        names = ("score", "gap", "se", "band_low", "band_high", "p_points", "effective_a", "effective_b")
        columns = ("score", "gap", "se", "band_low", "band_high", "p_value", "effective_users_a", "effective_users_b")
        return [
            {"group_a": pair.group_a, "group_b": pair.group_b}
            | {column: float(value) for column, value in zip(columns, values, strict=True)}
            for pair in self.pairs
            for values in zip(*(getattr(pair, name) for name in names), strict=True)
        ]

    @property
    def regions(self) -> list[dict[str, Any]]:
        """One row for each interval of scores in which a gap is shown: its ends, the largest gap with limits, and the share of each
        group that lives there."""
        return [
            {"group_a": pair.group_a, "group_b": pair.group_b} | {name: getattr(region, name) for name in Region.__slots__}
            for pair in self.pairs
            for region in pair.regions
        ]

    def rows(self) -> list[dict[str, Any]]:
        """One row a pair: group_a, group_b, p_value, p_adjusted, max_gap (group_a minus group_b), at_score, verdict."""
        names = ("group_a", "group_b", "p_value", "p_adjusted", "max_gap", "at_score", "verdict")
        return [{name: getattr(pair, name) for name in names} for pair in self.pairs]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        names = (
            *(
                "method",
                "alpha",
                "tolerance",
                "weighting",
                "degree",
                "kernel",
                "adjustment",
                "null",
                "p_value",
                "p_equal",
                "verdict",
            ),
            *("reason", "minimum_detectable_gap", "max_gap", "disagreement"),
        )
        details = ("reason", "p_source", "p_equal", "bandwidth", "minimum_detectable_gap", "left_out", "too_coarse", "interval")
        return {name: json_ready(getattr(self, name)) for name in names} | {
            "other": None
            if self.other is None
            else json_ready({name: getattr(self.other, name) for name in Formulation.__slots__}),
            "pairs": [
                json_ready(row | {name: getattr(pair, name) for name in details})
                for row, pair in zip(self.rows(), self.pairs, strict=True)
            ],
            "regions": json_ready(self.regions),
            "points": json_ready(self.points),
        }

    def _title(self) -> str:
        return f"Parity test ({self.method}): {self.verdict}, p = {p_text(self.p_value)}"

    def _notes(self) -> list[str]:
        return [f"null: {self.null}", f"verdict: {self.verdict}, because {self.reason}", *self.remarks]

    @property
    def remarks(self) -> list[str]:
        """What else should be known."""
        notes = [self.disagreement] if self.disagreement else []
        if len(self.pairs) > 1:
            notes.append(f"p adjusted for {len(self.pairs)} pairs by {self.adjustment}")
        if self.method == "bh":
            notes.append("bh controls the false discovery rate among scores, not the chance of any false alarm")
        if any(pair.p_source == "tail" for pair in self.pairs):
            notes.append(f"p below {RESOLVED / DRAWS:g} is from a tail approximation, not from draws")
        for pair in self.pairs:
            if pair.left_out:
                few = f"fewer than {MIN_EFFECTIVE} effective users in a group"
                notes.append(f"{pair.name}: {pair.left_out} grid points left out, {few}")
            if pair.too_coarse:
                bent = "one curve for both bends so much there that bandwidth or cells could make a gap of it"
                notes.append(f"{pair.name}: {pair.too_coarse} grid points left out, {bent}")
        notes += dict.fromkeys(pair.narrow for pair in self.pairs if pair.narrow)
        return notes


def differing(weighting: str, verdict: str, p_value: float, other: Formulation | None) -> str:
    """One sentence when the two weightings come to different verdicts, else empty."""
    if other is None or other.verdict == verdict:
        return ""
    return (
        f"per {weighting} the verdict is {verdict} (p = {p_text(p_value)}), per {other.weighting} it is "
        f"{other.verdict} (p = {p_text(other.p_value)}); per user, {WHAT_IT_ANSWERS['user']}; per row, "
        f"{WHAT_IT_ANSWERS['row']}"
    )


def not_shown(detectable: float, tolerance: float | None = None) -> str:
    """The reason when no gap is shown: what would have been."""
    if tolerance is not None:
        return (
            f"neither a gap beyond {tolerance:g} nor its absence is shown; a constant gap of {detectable:.3g} or more, whether or "
            f"not it matters, would have been found with probability {POWER:g}"
        )
    return f"no gap is shown; a constant gap of {detectable:.3g} or more would have been found with probability {POWER:g}"
