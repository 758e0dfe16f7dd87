"""What a parity test found: pair by pair, and as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenscore.gaps import MIN_EFFECTIVE
from evenscore.inference import DRAWS, RESOLVED
from evenscore.tables import Table, json_ready, label_text, p_text
from evenscore.verdict import DISPARITY, INCONCLUSIVE, combine

Floats = NDArray[np.float64]

POWER = 0.8


@dataclass(frozen=True, slots=True)
class PairTest:
    """The comparison of two groups.

    score, gap, se, band_low, band_high, p_points, effective_a, effective_b: (n_points,), gap = group_a minus group_b.
    left_out: grid points with too few users.
    """

    group_a: Any
    group_b: Any
    p_value: float = np.nan
    p_adjusted: float = np.nan
    p_source: str = "none"
    statistic: float = np.nan
    verdict: str = INCONCLUSIVE
    reason: str = ""
    bandwidth: float = np.nan
    minimum_detectable_gap: float = np.nan
    left_out: int = 0
    score: Floats = field(default_factory=lambda: np.zeros(0))
    gap: Floats = field(default_factory=lambda: np.zeros(0))
    se: Floats = field(default_factory=lambda: np.zeros(0))
    band_low: Floats = field(default_factory=lambda: np.zeros(0))
    band_high: Floats = field(default_factory=lambda: np.zeros(0))
    p_points: Floats = field(default_factory=lambda: np.zeros(0))
    effective_a: Floats = field(default_factory=lambda: np.zeros(0))
    effective_b: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def name(self) -> str:
        """Both groups, for people."""
        return f"{label_text(self.group_a)} and {label_text(self.group_b)}"

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

    def regions(self, alpha: float) -> list[dict[str, float]]:
        """Runs of grid points at which a gap of one sign is shown, for all points at once: limits, largest gap and where."""
        sign = np.where(self.p_points <= alpha, np.sign(self.gap), 0)
        ends = np.flatnonzero(np.diff(sign)) + 1
        found = []
        for start, end in zip([0, *ends], [*ends, len(sign)], strict=True):
            if start < end and sign[start] != 0:
                peak = start + int(np.argmax(np.abs(self.gap[start:end])))
                found.append(
                    {
                        "score_low": float(self.score[start]),
                        "score_high": float(self.score[end - 1]),
                        "gap": float(self.gap[peak]),
                        "at_score": float(self.score[peak]),
                    }
                )
        return found


def not_shown(detectable: float) -> str:
    """The reason when no gap is shown: what would have been."""
    return f"no gap is shown; a constant gap of {detectable:.3g} or more would have been found with probability {POWER:g}"


@dataclass(frozen=True, slots=True, repr=False)
class ParityTest(Table):
    """The result of ``es.parity_test``."""

    pairs: tuple[PairTest, ...]
    method: str
    alpha: float
    weighting: str
    degree: int
    kernel: str
    adjustment: str
    independent: bool
    frame_kind: str | None = None

    @property
    def null(self) -> str:
        """What is tested, in words."""
        unit = "user" if self.weighting == "user" else "row"
        return f"people with the same score have the same expected outcome in every group (each {unit} weighs the same)"

    @property
    def p_value(self) -> float:
        """The smallest adjusted p-value; nan when no pair could be judged."""
        known = [pair.p_adjusted for pair in self.pairs if np.isfinite(pair.p_adjusted)]
        return min(known) if known else np.nan

    @property
    def verdict(self) -> str:
        """"disparity" or "inconclusive"."""
        return combine(pair.verdict for pair in self.pairs)

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        if self.verdict == DISPARITY:
            shown = [pair.name for pair in self.pairs if pair.verdict == DISPARITY]
            return "a gap is shown between " + "; ".join(shown)
        unjudged = dict.fromkeys(pair.reason for pair in self.pairs if not np.isfinite(pair.p_value))
        judged = [not_shown(self.minimum_detectable_gap)] if np.isfinite(self.minimum_detectable_gap) else []
        return "; ".join([*judged, *unjudged])

    @property
    def minimum_detectable_gap(self) -> float:
        """The constant gap that the test finds with probability .8 in each pair it could judge."""
        known = [pair.minimum_detectable_gap for pair in self.pairs if np.isfinite(pair.minimum_detectable_gap)]
        return max(known) if known else np.nan

    @property
    def max_gap(self) -> float:
        """The largest gap of all pairs, with its sign (group_a minus group_b)."""
        gaps = [pair.max_gap for pair in self.pairs if np.isfinite(pair.max_gap)]
        return max(gaps, key=abs) if gaps else np.nan

    @property
    def points(self) -> list[dict[str, Any]]:
        """One row for each pair and grid point."""
        names = ("score", "gap", "se", "band_low", "band_high", "p_points", "effective_a", "effective_b")
        columns = ("score", "gap", "se", "band_low", "band_high", "p_value", "effective_users_a", "effective_users_b")
        return [
            {"group_a": pair.group_a, "group_b": pair.group_b}
            | {column: float(value) for column, value in zip(columns, values, strict=True)}
            for pair in self.pairs
            for values in zip(*(getattr(pair, name) for name in names), strict=True)
        ]

    def rows(self) -> list[dict[str, Any]]:
        """One row a pair."""
        names = ("group_a", "group_b", "p_value", "p_adjusted", "max_gap", "at_score", "verdict")
        return [{name: getattr(pair, name) for name in names} for pair in self.pairs]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        names = ("method", "alpha", "weighting", "degree", "kernel", "adjustment", "null", "p_value", "verdict", "reason")
        details = ("reason", "p_source", "bandwidth", "minimum_detectable_gap")
        return {name: json_ready(getattr(self, name)) for name in names} | {
            "minimum_detectable_gap": json_ready(self.minimum_detectable_gap),
            "max_gap": json_ready(self.max_gap),
            "pairs": [
                json_ready(row | {name: getattr(pair, name) for name in details})
                for row, pair in zip(self.rows(), self.pairs, strict=True)
            ],
            "points": json_ready(self.points),
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the gap of each pair along the score with its simultaneous band (needs matplotlib)."""
        from evenscore.report.figures import draw_gaps

        return draw_gaps(self, ax)

    def _title(self) -> str:
        return f"Parity test ({self.method}): {self.verdict}, p = {p_text(self.p_value)}"

    def _notes(self) -> list[str]:
        notes = [f"null: {self.null}", f"verdict: {self.verdict}, because {self.reason}"]
        if len(self.pairs) > 1:
            notes.append(f"p adjusted for {len(self.pairs)} pairs by {self.adjustment}")
        if any(pair.p_source == "tail" for pair in self.pairs):
            notes.append(f"p below {RESOLVED / DRAWS:g} is from a tail approximation, not from draws")
        for pair in self.pairs:
            if pair.left_out:
                few = f"fewer than {MIN_EFFECTIVE} effective users in a group"
                notes.append(f"{pair.name}: {pair.left_out} grid points left out, {few}")
        return notes

    def _frame_kind(self) -> str | None:
        return self.frame_kind
