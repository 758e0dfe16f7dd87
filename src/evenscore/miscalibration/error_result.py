"""The result of ``es.calibration_error``: how far scores are from expected outcomes, by group, overall, and between groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenscore.errors import OptionError, listing, shortened
from evenscore.tables import Table, json_ready, label_text, values_of

UNITS = {"user": "every user counts the same", "row": "every row counts the same"}


@dataclass(frozen=True, slots=True)
class ErrorEstimate:
    """The calibration error of one group, or of all (group None).

    estimate: as the method defines it; plug_in: before noise is taken off, debiased: after; ci_low, ci_high: limits for the
    population value. flag: why the limits need care, or "". detail: bandwidth, bins or width that were used.
    """

    group: Any
    estimate: float
    ci_low: float
    ci_high: float
    plug_in: float
    debiased: float
    n_users: int
    flag: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ErrorDifference:
    """The calibration error of group_a minus that of group_b; the limits are around the debiased difference."""

    group_a: Any
    group_b: Any
    estimate: float
    debiased: float
    ci_low: float
    ci_high: float


@dataclass(frozen=True, slots=True, repr=False)
class CalibrationError(Table):
    """Calibration errors by group and overall; ``differences()`` compares the groups.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(people, score="score", outcome="outcome", group="group", user="user")
    >>> error = es.calibration_error(tally)
    >>> [(row["group"], round(row["estimate"], 2)) for row in error.rows()]
    [('a', 0.0), ('b', 0.14), (None, 0.07)]
    """

    method: str
    estimates: tuple[ErrorEstimate, ...]
    pairs: tuple[ErrorDifference, ...]
    norm: int
    weighting: str
    alpha: float
    what: str
    frame_kind: str | None = None

    @property
    def overall(self) -> ErrorEstimate:
        """Everybody together."""
        return self.estimates[-1]

    @property
    def by_group(self) -> dict[Any, ErrorEstimate]:
        """Each group's error."""
        return {estimate.group: estimate for estimate in self.estimates[:-1]}

    def __getitem__(self, group: Any) -> ErrorEstimate:
        for estimate in self.estimates:
            if type(estimate.group) is type(group) and estimate.group == group:
                return estimate
        raise OptionError(f"no group {shortened(group)}; there are: {listing(repr(known.group) for known in self.estimates)}")

    def rows(self) -> list[dict[str, Any]]:
        """One row a group, and one for everybody (group None): estimate with limits, plug_in, debiased, users, flag."""
        estimated, noise = ("group", "estimate", "ci_low", "ci_high"), ("plug_in", "debiased")
        return [
            values_of(estimate, estimated)
            | {"method": self.method}
            | values_of(estimate, noise)
            | {"users": estimate.n_users, "flag": estimate.flag}
            for estimate in self.estimates
        ]

    def differences(self) -> list[dict[str, Any]]:
        """One row for each pair of groups: the error of group_a minus that of group_b, with limits."""
        return [values_of(pair) for pair in self.pairs]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        rows = [row | {"detail": dict(error.detail)} for row, error in zip(self.rows(), self.estimates, strict=True)]
        lists = {"rows": rows, "differences": self.differences(), "notes": self._notes()}
        return json_ready(values_of(self, ("method", "norm", "weighting", "alpha", "what")) | lists)

    def _shown_rows(self) -> list[dict[str, Any]]:
        """Without the method, which the title has, and the flags, which are notes."""
        return [{name: value for name, value in row.items() if name not in ("method", "flag")} for row in self.rows()]

    def _title(self) -> str:
        return f"Calibration error, method {self.method!r}: {self.what}; {UNITS[self.weighting]}"

    def _notes(self) -> list[str]:
        notes = [f"ci: {1 - self.alpha:.0%} limits for the true error"]
        for estimate in self.estimates:
            name = "all groups" if estimate.group is None else label_text(estimate.group)
            notes += [f"{name}: {text}" for text in (estimate.flag, *estimate.notes) if text]
        for pair in self.pairs[:10]:
            names = f"{label_text(pair.group_a)} − {label_text(pair.group_b)}"
            notes.append(f"{names}: {_signed(pair.debiased)} ({_limits_text(pair.ci_low, pair.ci_high)})")
        return notes


def _limits_text(low: float, high: float) -> str:
    """Limits of a difference, of which each may be missing."""
    if np.isnan(low) and np.isnan(high):
        return "no limits"
    if np.isnan(low):
        return f"at most {_signed(high)}"
    return f"at least {_signed(low)}" if np.isnan(high) else f"{_signed(low)} to {_signed(high)}"


def _signed(value: float) -> str:
    return (f"{value:+.4f}" if abs(value) < 10 else f"{value:+,.0f}").replace("-", "−")
