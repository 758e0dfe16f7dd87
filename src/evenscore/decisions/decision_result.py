"""What ``es.decision_metrics`` gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.decisions.rates import OPPOSITE
from evenscore.errors import OptionError, listing, shortened
from evenscore.estimation.verdict import DISPARITY, PARITY
from evenscore.tables import Table, json_ready, label_text, values_of
from evenscore.wording import number_text

FOUR_FIFTHS = 0.8


def _once(metrics: Sequence[str]) -> list[str]:
    """Without those that say the same with the other sign."""
    return [metric for metric in metrics if OPPOSITE.get(metric) not in metrics]


@dataclass(frozen=True, slots=True, repr=False)
class DecisionMetrics(Table):
    """Rates of decisions by group, with limits that respect users.

    table: one row for each group and metric. overall: the same for everybody, by metric. comparisons: one row for each pair of
    groups and metric. impact_ratios: one row a group. thresholds: by group. unavailable: why a metric is not given, by metric.
    left_out: why a group is not compared, by group. equal_below: how often the worst impact ratio of equal groups of these
    sizes would be below four fifths; nan when it cannot be told. errors: how far the selection rate of a group may be off because
    its threshold runs through a cell.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(people, score="score", outcome="outcome", group="group", user="user", cuts=[0.5])
    >>> found = es.decision_metrics(tally, threshold=0.5)
    >>> [(row["group"], round(row["estimate"], 2)) for row in found.rows() if row["metric"] == "tpr"]
    [('a', 0.66), ('b', 0.74)]
    """

    table: tuple[dict[str, Any], ...]
    overall: dict[str, dict[str, Any]]
    comparisons: tuple[dict[str, Any], ...]
    impact_ratios: tuple[dict[str, Any], ...]
    thresholds: Mapping[Any, float]
    positive: str
    reference: Any
    weighting: str
    alpha: float
    tolerance: float | None
    adjustment: str
    equal_below: float
    unavailable: Mapping[str, str]
    left_out: Mapping[Any, str]
    errors: Mapping[Any, float]
    notes: tuple[str, ...] = ()
    frame_kind: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One row for each group and metric."""
        return [dict(row) for row in self.table]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that are given."""
        return tuple(dict.fromkeys(row["metric"] for row in self.table))

    @property
    def groups(self) -> tuple[Any, ...]:
        """The groups."""
        return tuple(self.thresholds)

    @property
    def by_group(self) -> dict[Any, dict[str, float]]:
        """Each group's metrics, as Fairlearn's ``by_group``."""
        metrics: dict[Any, dict[str, float]] = {group: {} for group in self.groups}
        for row in self.table:
            metrics[row["group"]][row["metric"]] = row["estimate"]
        return metrics

    def of(self, group: Any, metric: str) -> dict[str, Any]:
        """The row of one group and metric."""
        self._require_metric(metric)
        group = group.item() if isinstance(group, np.generic) else group
        for row in self.table:
            if row["metric"] == metric and type(row["group"]) is type(group) and row["group"] == group:
                return dict(row)
        raise OptionError(f"no group {shortened(group)}; there are: {listing(map(repr, self.groups))}")

    def difference(self, metric: str) -> dict[str, float]:
        """The largest difference between two groups, as Fairlearn's ``difference()``, with limits that hold for the largest of all
        pairs that have limits."""
        rows = self._compared(metric)
        low = max(0.0, *(max(row["band_low"], -row["band_high"]) for row in rows)) if rows else np.nan
        high = max((max(-row["band_low"], row["band_high"]) for row in rows), default=np.nan)
        estimate = max((abs(row["difference"]) for row in rows), default=np.nan)
        return {"estimate": estimate, "ci_low": min(low, estimate), "ci_high": max(high, estimate)}

    def ratio(self, metric: str) -> dict[str, float]:
        """The smallest ratio of two groups, as Fairlearn's ``ratio()``, with limits that hold for the smallest of all pairs that
        have limits."""
        rows = self._compared(metric)
        estimates, lows, highs = [1.0], [1.0], [1.0]
        for row in rows:
            estimates += [value for value in (row["ratio"], 1 / row["ratio"] if row["ratio"] else np.nan) if np.isfinite(value)]
            lows += [row["ratio_band_low"], 1 / row["ratio_band_high"]]
            highs += [row["ratio_band_high"], 1 / row["ratio_band_low"] if row["ratio_band_low"] else np.inf]
        if not rows:
            return dict.fromkeys(("estimate", "ci_low", "ci_high"), np.nan)
        zero = any(row["ratio"] == 0 for row in rows)
        return {"estimate": 0.0 if zero else min(estimates), "ci_low": min(lows), "ci_high": min(highs)}

    def _compared(self, metric: str) -> list[dict[str, Any]]:
        self._require_metric(metric)
        return [row for row in self.comparisons if row["metric"] == metric and np.isfinite(row["band_low"])]

    def _require_metric(self, metric: str) -> None:
        if not isinstance(metric, str) or metric not in self.metrics:
            why = self.unavailable.get(metric) if isinstance(metric, str) else None
            raise OptionError(f"metric={shortened(metric)}: {why or f'there are {listing(self.metrics)}'}")

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        document = {
            "title": self._title(),
            "rows": self.rows(),
            "overall": self.overall,
            "comparisons": list(self.comparisons),
            "impact_ratios": {"rows": list(self.impact_ratios), "equal_groups_below_four_fifths": self.equal_below},
            "thresholds": dict(self.thresholds),
            "left_out": dict(self.left_out),
            "errors": dict(self.errors),
            **values_of(self, ("positive", "reference", "weighting", "alpha", "tolerance", "adjustment", "unavailable")),
            "notes": self._notes(),
        }
        return json_ready(document)

    @property
    def equal_below_text(self) -> str:
        """``equal_below`` for people."""
        if self.equal_below > 0.99:
            return "more than 99 %"
        return "less than 1 %" if self.equal_below < 0.01 else f"{100 * self.equal_below:.0f} %"

    @property
    def where(self) -> str:
        """The threshold or thresholds, for people."""
        sign = ">=" if self.positive == "above" else "<"
        values = set(self.thresholds.values())
        if len(values) == 1:
            return f"score {sign} {next(iter(values)):g}"
        return f"score {sign} " + ", ".join(f"{value:g} ({label_text(group)})" for group, value in self.thresholds.items())

    @property
    def adjustment_words(self) -> str:
        """How p-values allow for the number of comparisons."""
        needless = self.adjustment.removeprefix("nothing")
        return f"p needs no adjustment{needless}" if needless != self.adjustment else f"p adjusted by {self.adjustment}"

    def _differences(self, metrics: Sequence[str]) -> str:
        """In which metrics groups are shown to differ, and how many pairs of them; with a tolerance, in which they are alike."""
        verdicts: dict[str, list[str]] = {}
        for row in self.comparisons:
            if np.isfinite(row["p_adjusted"]):
                verdicts.setdefault(row["metric"], []).append(row["verdict"])
        if not verdicts:
            return "no two groups could be compared"
        more = "" if self.tolerance is None else f"by more than {self.tolerance:g} "
        shown = _once([metric for metric in metrics if DISPARITY in verdicts.get(metric, ())])
        pairs = [f"{metric} ({verdicts[metric].count(DISPARITY)} of {len(verdicts[metric])} pairs)" for metric in shown]
        if not shown:
            words = f"no difference {more.replace('by', 'of', 1)}between groups is shown"
        elif all(len(verdicts[metric]) == 1 for metric in shown):
            words = f"the two groups are shown to differ {more}in {', '.join(shown)}"
        else:
            words = f"groups are shown to differ {more}in {', '.join(pairs)}"
        alike = _once([metric for metric in metrics if set(verdicts.get(metric, ())) == {PARITY}])
        return words + (f"; all differences in {', '.join(alike)} are shown to be within {self.tolerance:g}" if alike else "")

    def _by_ratios_alone(self) -> list[str]:
        """Groups whose impact ratio is shown to be below 1 though among all metrics no difference in selection is."""
        if any(row["metric"] == "selection_rate" and row["verdict"] == DISPARITY for row in self.comparisons):
            return []
        lower = [label_text(row["group"]) for row in self.impact_ratios if row["ci_high"] < 1]
        if not lower or self.tolerance is not None:
            return []
        return [
            f"by impact ratios alone {listing(lower)} {'is' if len(lower) == 1 else 'are'} selected less often than the group "
            "selected most; with all metrics tested together that is not shown"
        ]

    def _blanks(self, metrics: Sequence[str]) -> list[str]:
        """Why groups have no limits in a metric, each reason once."""
        blank = [row for row in self.table if row["reason"] and row["metric"] in metrics and row["group"] not in self.left_out]
        whose: dict[tuple[str, str], list[str]] = {}
        for row in blank:
            whose.setdefault((row["metric"], row["reason"]), []).append(label_text(row["group"]))
        return [f"{metric} of {listing(groups)}: {reason}" for (metric, reason), groups in whose.items()]

    def _shown_rows(self) -> list[dict[str, Any]]:
        return [{name: value for name, value in row.items() if name != "reason"} for row in self.rows()]

    def _title(self) -> str:
        return f"Decisions at {self.where}, per {self.weighting}"

    def _notes(self) -> list[str]:
        return self._remarks()

    def _remarks(self, metrics: Sequence[str] = ()) -> list[str]:
        """What the tables do not say; differences are told of these metrics only, if some are named."""
        notes = list(self.notes)
        for reason in dict.fromkeys(self.unavailable.values()):
            names = [metric for metric, why in self.unavailable.items() if why == reason]
            notes.append(f"not given: {', '.join(names)}, because {reason}")
        notes += [f"{label_text(group)} is not compared: {reason}" for group, reason in self.left_out.items()]
        notes += self._blanks(metrics or self.metrics)
        if self.comparisons:
            notes.append(f"{self._differences(metrics or self.metrics)}; {self.adjustment_words}")
            notes += self._by_ratios_alone()
        if np.isfinite(self.equal_below):
            notes.append(
                f"four fifths is a convention, not a verdict: the worst impact ratio of equal groups of these sizes would be below "
                f"{FOUR_FIFTHS:g} in {self.equal_below_text} of data sets"
            )
        off = max(self.errors.values(), default=0.0)
        if off > 0:
            notes.append(
                f"the threshold runs through a cell, whose people are shared in proportion: selection rates are off by at most "
                f"{number_text(off)}; cuts= in es.tally makes them exact"
            )
        return notes
