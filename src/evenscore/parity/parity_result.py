"""What a parity test found: pair by pair, and as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenscore.estimation.gaps import MIN_EFFECTIVE
from evenscore.estimation.inference import DRAWS, RESOLVED
from evenscore.estimation.pairwise import Formulation, GapPair, GapTest
from evenscore.estimation.verdict import INCONCLUSIVE, PARITY
from evenscore.tables import json_ready, values_of
from evenscore.types import Floats

NAMED_PAIRS = 6  # of groups, each with a note of its own


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
class PairTest(GapPair):
    """The comparison of two groups, gap = group_a minus group_b.

    score, gap, se, band_low, band_high, p_points, effective_a, effective_b: (n_points,). p_equal: the p-value of equality, also
    when a tolerance is tested. left_out: grid points with too few users; too_rare: where there are too few events, in words;
    too_coarse: grid points where smoothing could make the gap. narrow: what a bandwidth of few cells means, in words. regions:
    where a gap is shown. exceeds: the tolerance below which a larger gap is shown; -inf where there is none.
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
    too_rare: str = ""
    narrow: str = ""
    regions: tuple[Region, ...] = ()
    exceeds: float = -np.inf
    score: Floats = field(default_factory=_none)
    gap: Floats = field(default_factory=_none)
    se: Floats = field(default_factory=_none)
    band_low: Floats = field(default_factory=_none)
    band_high: Floats = field(default_factory=_none)
    p_points: Floats = field(default_factory=_none)
    effective_a: Floats = field(default_factory=_none)
    effective_b: Floats = field(default_factory=_none)

    @property
    def interval(self) -> tuple[float, float]:
        """The scores that were looked at."""
        return (float(self.score[0]), float(self.score[-1])) if len(self.score) else (np.nan, np.nan)

    @property
    def within(self) -> float:
        """The tolerance above which the whole band lies within it, which is "parity"; inf where there is none."""
        reach = np.maximum(-self.band_low, self.band_high)
        return float(reach.max()) if len(reach) and np.isfinite(reach).all() else np.inf

    @property
    def largest(self) -> int | None:
        """The place of the largest gap; a side may have no curve at some of the points, or at none."""
        known = np.flatnonzero(np.isfinite(self.gap))
        return int(known[np.argmax(np.abs(self.gap[known]))]) if len(known) else None

    @property
    def max_gap(self) -> float:
        """The largest gap along the score, with its sign."""
        return float(self.gap[self.largest]) if self.largest is not None else np.nan

    @property
    def at_score(self) -> float:
        """The score at which the gap is largest."""
        return float(self.score[self.largest]) if self.largest is not None else np.nan


def _first(texts: list[str]) -> str:
    """What is said of pairs, of the first few where they are many; the table has all."""
    more = len(texts) - NAMED_PAIRS
    return "; ".join([*texts[:NAMED_PAIRS], *([f"and {more} more {'pair' if more == 1 else 'pairs'}"] if more > 0 else [])])


@dataclass(frozen=True, slots=True, repr=False)
class ParityTest(GapTest[PairTest]):
    """The result of ``es.parity_test``.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(people, score="score", outcome="outcome", group="group", user="user")
    >>> test = es.parity_test(tally)
    >>> test.verdict, test.null
    ('disparity', 'people with the same score have the same expected outcome in every group (each user weighs the same)')
    >>> [(row["group_a"], row["group_b"], round(row["max_gap"], 2)) for row in test.rows()]
    [('a', 'b', 0.2)]
    """

    COLUMNS = ("group_a", "group_b", "p_value", "p_adjusted", "max_gap", "at_score", "verdict")

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

    def _why_shown(self) -> str:
        if self.verdict == PARITY:
            return "every gap lies within the tolerance: " + _first([pair.reason for pair in self.pairs])
        beyond = "" if self.tolerance is None else f" larger than {self.tolerance:g}"
        shown = [pair for pair in self.pairs if pair.verdict == self.verdict]
        spread = ""
        if not all(pair.regions for pair in shown):
            spread = "; no single score shows it by itself, the evidence is spread along the score"
        return f"a gap{beyond} is shown between " + _first([pair.name for pair in shown]) + spread

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
        group that scores there."""
        return [
            {"group_a": pair.group_a, "group_b": pair.group_b} | values_of(region) for pair in self.pairs for region in pair.regions
        ]

    @property
    def shown_gap(self) -> dict[str, Any] | None:
        """The largest gap inside a range of scores in which one is shown, a row of ``regions``; None when none is."""
        return max(self.regions, key=lambda region: abs(region["gap"]), default=None)

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        settings = ("method", "alpha", "tolerance", "weighting", "degree", "kernel", "adjustment")
        shown = (
            "null",
            "p_value",
            "p_equal",
            "verdict",
            "reason",
            "minimum_detectable_gap",
            "max_gap",
            "shown_gap",
            "disagreement",
        )
        details = (
            "reason",
            "p_source",
            "p_equal",
            "bandwidth",
            "minimum_detectable_gap",
            "within",
            "left_out",
            "too_coarse",
            "too_rare",
        )
        pairs = [values_of(pair, (*self.COLUMNS, *details, "interval")) for pair in self.pairs]
        other = None if self.other is None else values_of(self.other)
        lists = {"pairs": pairs, "regions": self.regions, "points": self.points}
        return json_ready(values_of(self, settings + shown) | {"other": other} | lists)

    def _heading(self) -> str:
        return f"Parity test ({self.method})"

    def _notes(self) -> list[str]:
        return [*GapTest._notes(self), *self.remarks]

    @property
    def remarks(self) -> list[str]:
        """What else should be known."""
        notes = self._disagreement_notes() + self._adjustment_notes()
        if self.method == "bh":
            notes.append("bh controls the false discovery rate among scores, not the chance of any false alarm")
        if any(pair.p_source == "tail" for pair in self.pairs):
            notes.append(f"p below {RESOLVED / DRAWS:g} is from a tail approximation, not from draws")
        few = f"fewer than {MIN_EFFECTIVE} effective users in a group"
        bent = "one curve for both bends so much there that bandwidth or cells could make a gap of it"
        notes += _by_pair([(pair.name, _points(pair.left_out, few)) for pair in self.pairs if pair.left_out], few)
        rare = [(pair.name, f"not judged where there are {pair.too_rare}") for pair in self.pairs if pair.too_rare]
        notes += _by_pair(rare, "too few outcomes to tell what chance may have done")
        notes += _by_pair([(pair.name, _points(pair.too_coarse, bent)) for pair in self.pairs if pair.too_coarse], bent)
        notes += dict.fromkeys(pair.narrow for pair in self.pairs if pair.narrow)
        return notes


def _points(n_points: int, why: str) -> str:
    return f"{n_points} {'point' if n_points == 1 else 'points'} of the grid left out, {why}"


def _by_pair(named: list[tuple[str, str]], why: str) -> list[str]:
    """What is said of each pair of groups; of many pairs in one sentence. why: what they have in common."""
    if len(named) <= NAMED_PAIRS:
        return [f"{name}: {words}" for name, words in named]
    return [f"in {len(named)} pairs of groups some scores are left out, {why}; the first is {named[0][0]}"]
