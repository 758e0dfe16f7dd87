"""Decisions by a threshold: selection rates, error rates and impact ratios by group, with limits that respect users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from evenscore.decisions.best_group import equal_groups_below, impact_ratios
from evenscore.decisions.comparing import Comparing, compare
from evenscore.decisions.decision_result import DecisionMetrics
from evenscore.decisions.rate_laws import Levels, levels_of
from evenscore.decisions.rates import (
    ABOUT,
    METRICS,
    SELECTION,
    GroupRates,
    RateTable,
    Selection,
    design,
    rate_table,
    read_thresholds,
)
from evenscore.decisions.scoring import at_median, density_ratios, is_median, with_median_error
from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import DataError, require_alpha, require_gap, require_number, require_option
from evenscore.estimation.inference import normal_quantile, seeded
from evenscore.estimation.pairwise import index_pairs
from evenscore.marginal.cut import POSITIVE, require_score
from evenscore.tallies.everyone import has_unlabelled
from evenscore.tallies.moments import WEIGHTINGS
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.two_way import few_words, in_full
from evenscore.tallies.view import GroupView
from evenscore.threads import in_one_thread
from evenscore.types import Floats, Mask
from evenscore.wording import number_text

NOT_KEPT = "rows have no outcome, and this tally does not keep what all rows of a user have in common: tally the data anew"
ITEMS_NOT_KEPT = (
    "rows have no outcome, and what all rows of one {item} have in common is not kept: with an outcome that every row has, such as "
    "the score itself, selection rates have limits"
)
NOT_BINARY = "outcomes are not 0/1, so there are no positives and negatives"
ONE_SIDE = "outcomes are known of {} only, and nothing is known of {}"
NO_DECISION = "without a threshold there are no decisions, only the scoring rate: the share above the median of the sample"
APART = 0.05  # shares with a known outcome, from which on metrics are about people chosen by the decision
SMALL = "less than {:g} % of the sample"


@in_one_thread
def decision_metrics(
    tally: Any,
    *,
    threshold: Any,
    positive: str = "above",
    reference: Any = None,
    weighting: str = "user",
    alpha: float = 0.05,
    tolerance: float | None = None,
    min_share: float = 0.0,
    seed: int = 0,
    **columns: Unpack[DataColumns],
) -> DecisionMetrics:
    """Selection rates, error rates and impact ratios of decisions by a threshold, for each group and between groups.

    Parameters
    ----------
    tally
        What ``es.tally`` made, also as the path of a saved one; or data. A threshold that is no cell edge
        (``es.tally(..., cuts=[threshold])``) is interpolated, and the result says how far that may be off.
    columns
        With data: ``score=``, ``outcome=``, ``group=``, ``user=`` and what else ``es.tally`` takes. Rows without an outcome
        (``nulls="unlabelled"``) count in selection rates only.
    threshold
        A score, a dict of one for each group, or "median": then only selection rates are given, as the share above the median score
        of the sample, with the median's own error.
    positive
        "above": score >= threshold is selected; "below": score < threshold is.
    reference
        Compare every group with this one only; by default all pairs are compared, and impact ratios are to the group that is
        selected most, whichever that is.
    weighting
        "user": every user counts the same, however many rows; "row": every row does. Both respect users in the limits.
    alpha
        Limits cover with probability 1 - alpha; adjusted p-values are held against it.
    tolerance
        A difference that does not matter. A comparison is then a "disparity" when a larger one is shown, and "parity" when the
        simultaneous limits lie within.
    min_share
        Groups with a smaller share of the sample are reported but not compared, and the reason is recorded.
    seed
        Of the draws behind adjusted p-values; the same seed gives the same result.

    Returns
    -------
    DecisionMetrics
        One row for each group and metric; ``.overall``, ``.comparisons`` and ``.impact_ratios``.

    Examples
    --------
    >>> import evenscore as es
    >>> data = es.simulate(2000, score={"a": (2, 2), "b": (2, 3)}, rows_per_user=4).data(seed=1)
    >>> found = es.decision_metrics(data, threshold=0.5, score="score", outcome="outcome", group="group", user="user")
    >>> round(found.by_group["a"]["selection_rate"], 2), round(found.by_group["b"]["selection_rate"], 2)
    (0.5, 0.31)
    """
    median = is_median(threshold)
    if not median:
        for value in threshold.values() if isinstance(threshold, Mapping) else (threshold,):
            require_score(value)
    tally = in_full(as_tally(tally, columns, call="decision_metrics", threshold=None if median else threshold))
    require_alpha(alpha)
    require_gap("tolerance", tolerance)
    require_option("positive", positive, POSITIVE)
    require_option("weighting", weighting, WEIGHTINGS)
    min_share = require_number("min_share", min_share, 0, 1, open_high=True)
    seeded(seed)
    base = None if reference is None else tally.index(reference)
    rates = Rates.of(tally, threshold, positive, weighting)
    left_out = _left_out(rates, min_share, base)
    compared = [g for g in range(len(tally.groups)) if tally.groups[g] not in left_out]
    comparisons, adjustment = compare(
        Comparing(
            labels=tally.groups,
            metrics=rates.metrics,
            chosen=index_pairs(compared, base),
            levels=rates.levels,
            present=np.concatenate([group.about > 0 for group in rates.table.groups]),
            usable=rates.usable,
            alpha=alpha,
            tolerance=tolerance,
            seed=seed,
        )
    )
    ratios, below = _impact(rates, compared, base, alpha, seed, left_out)
    z = normal_quantile(alpha)
    return DecisionMetrics(
        table=tuple(row for g in range(len(tally.groups)) for row in rates.rows(g, z)),
        overall=rates.overall(z),
        comparisons=tuple(comparisons),
        impact_ratios=tuple(ratios),
        thresholds=dict(zip(tally.groups, (choice.threshold for choice in rates.selections), strict=True)),
        positive=positive,
        reference=reference,
        weighting=weighting,
        alpha=alpha,
        tolerance=tolerance,
        adjustment=adjustment,
        equal_below=below,
        unavailable=rates.unavailable,
        left_out=left_out,
        errors=rates.cell_errors(),
        notes=_notes(tally, median, positive, rates),
        frame_kind=tally.frame_kind,
    )


@dataclass(frozen=True, slots=True)
class Rates:
    """The metrics of a tally's groups: their sums, how they are distributed, and why some are not given.

    usable: (n_groups n_metrics,), which have limits.
    """

    views: Sequence[GroupView]
    selections: Sequence[Selection]
    metrics: tuple[str, ...]
    table: RateTable
    levels: Levels
    unavailable: dict[str, str]

    @classmethod
    def of(cls, tally: Tally, threshold: Any, positive: str, weighting: str) -> Rates:
        """Of decisions by this threshold."""
        views = [view for view in GroupView.each(tally, weighting) if view.sums.A.sum() > 0]
        if len(views) < len(tally.groups) or not views:
            empty = [view.name for view in GroupView.each(tally, weighting) if not view.sums.A.sum() > 0]
            raise DataError(
                f"there are no rows with a weight{f' in {empty[0]}' if empty else ''}, so there is nothing to decide about"
            )
        median = is_median(threshold)
        if median:
            selections = at_median(views, threshold, positive)
        else:
            values = read_thresholds(tally, threshold, positive)
            selections = [Selection.at(view, value, positive) for view, value in zip(views, values, strict=True)]
        metrics, reason = _given(tally, median, views, selections)
        table = rate_table(views, [design([(metric, choice.share) for metric in metrics]) for choice in selections])
        levels = levels_of(table)
        if median:
            levels = with_median_error(levels, table, density_ratios(views))
        return cls(views, selections, metrics, table, levels, {metric: reason for metric in METRICS if metric not in metrics})

    @property
    def usable(self) -> Mask:
        """Which metrics of which groups have limits."""
        return np.concatenate([group.known & (group.about > 0) for group in self.table.groups])

    def cell_errors(self) -> dict[Any, float]:
        """How far selection rates may be off because a threshold runs through a cell, by group; without those that are exact."""
        errors = {view.label: choice.error(view) for view, choice in zip(self.views, self.selections, strict=True)}
        return {label: error for label, error in errors.items() if error > 0}

    def rows(self, g: int, z: float) -> list[dict[str, Any]]:
        """The rows of one group."""
        own = slice(g * len(self.metrics), (g + 1) * len(self.metrics))
        low, high = self.levels.limits(z)
        return self._rows(self.views[g].label, self.table.groups[g], low[own], high[own], self._users(self.views[g : g + 1]))

    def overall(self, z: float) -> dict[str, dict[str, Any]]:
        """The same for everybody, by metric."""
        limits = levels_of(RateTable((self.table.overall,), {}, self.table.overall)).limits(z)
        rows = self._rows(None, self.table.overall, *limits, self._users(self.views))
        return {row["metric"]: {name: value for name, value in row.items() if name not in ("group", "metric")} for row in rows}

    def _users(self, views: Sequence[GroupView]) -> dict[str, int]:
        """Users that a metric is about: with an outcome, or at all; of survey weights only the former can be told."""
        labelled = sum(view.n_users for view in views)
        tally = views[0].tally
        weighted = tally.columns is not None and tally.columns.weight is not None
        if weighted or not has_unlabelled(tally):
            return dict.fromkeys(self.metrics, labelled)
        everyone = sum(float(tally.group_tallies[view.members[0]].vectors.under("user")["A"].sum()) for view in views)
        return dict.fromkeys(self.metrics, labelled) | {SELECTION: round(everyone)}

    def _rows(self, label: Any, rates: GroupRates, low: Floats, high: Floats, users: dict[str, int]) -> list[dict[str, Any]]:
        usable = rates.known & (rates.about > 0)
        columns: dict[str, Floats] = {
            "estimate": rates.estimate,
            "ci_low": np.where(usable, low, np.nan),
            "ci_high": np.where(usable, high, np.nan),
            "effective_users": rates.effective_users,
        }
        rows = []
        for number, metric in enumerate(self.metrics):
            values = {name: float(column[number]) for name, column in columns.items()}
            effective = values.pop("effective_users")
            reason = ""
            if not rates.about[number] > 0:
                reason = f"there are no {ABOUT[metric]}"
            elif not rates.known[number]:
                reason = rates.around.view.few or _not_kept(rates.around.view.tally)
            row = {"group": label, "metric": metric, **values, "users": users[metric], "effective_users": effective}
            rows.append(row | {"reason": reason})
        return rows


def _given(tally: Tally, median: bool, views: Sequence[GroupView], selections: Sequence[Selection]) -> tuple[tuple[str, ...], str]:
    """The metrics that can be given, and why the others cannot."""
    if median or not tally.binary:
        return (SELECTION,), NO_DECISION if median else NOT_BINARY
    selected, others = _known_shares(views, selections)
    if selected == 0 or others == 0:
        known, unknown = ("those not selected", "those selected") if selected == 0 else ("those selected", "those not selected")
        return (SELECTION, "npv" if selected == 0 else "ppv"), ONE_SIDE.format(known, unknown)
    return METRICS, ""


def _known_shares(views: Sequence[GroupView], selections: Sequence[Selection]) -> tuple[float, float]:
    """The share with a known outcome of those selected and of the others; nan of nobody."""

    def known_share(shares: Sequence[Floats]) -> float:
        known, everybody = (
            sum(float(share @ getattr(view.sums, name)) for view, share in zip(views, shares, strict=True)) for name in ("W", "A")
        )
        return known / everybody if everybody > 0 else np.nan

    selected = [choice.share for choice in selections]
    return known_share(selected), known_share([1 - share for share in selected])


def _left_out(rates: Rates, min_share: float, base: int | None) -> dict[Any, str]:
    """Groups that are not compared, with the reason; the reference stays."""
    weight = np.array([view.sums.A.sum() for view in rates.views])
    small = weight / weight.sum() < min_share
    reasons = [SMALL.format(100 * min_share) if small[g] else few_words(view.tally, g) for g, view in enumerate(rates.views)]
    return {view.label: reasons[g] for g, view in enumerate(rates.views) if reasons[g] and g != base}


def _not_kept(tally: Tally) -> str:
    """Why selection rates have no limits where rows have no outcome."""
    return NOT_KEPT if tally.item is None else ITEMS_NOT_KEPT.format(item=tally.item)


def _impact(
    rates: Rates, compared: Sequence[int], base: int | None, alpha: float, seed: int, left_out: dict[Any, str]
) -> tuple[list[dict[str, Any]], float]:
    """Impact ratios in the order of the groups, and how often equal groups would have a worse one than four fifths."""
    if len(compared) > 1:
        by_group, below = _compared_ratios(rates, compared, base, alpha, seed)
    else:
        by_group, below = {}, np.nan
    rows = []
    for g, view in enumerate(rates.views):
        if g not in by_group:
            rate = float(rates.table.groups[g].estimate[0])
            empty = dict.fromkeys(("ratio", "ci_low", "ci_high"), np.nan)
            reason = left_out.get(view.label, "there is no other group to compare it with")
            by_group[g] = {"group": view.label, "selection_rate": rate, **empty, "reference": None, "reason": reason}
        rows.append(by_group[g])
    return rows, below


def _compared_ratios(
    rates: Rates, compared: Sequence[int], base: int | None, alpha: float, seed: int
) -> tuple[dict[int, dict[str, Any]], float]:
    """Impact ratios of groups that are compared, by position; without limits where the rates of one of them have none."""
    n = len(rates.metrics)
    places, labels = np.array(compared) * n, [rates.views[g].label for g in compared]
    fixed = None if base is None else list(compared).index(base)
    rows = impact_ratios(labels, rates.levels, places, fixed, alpha, seed)
    without = next((rates.views[g] for g in compared if not rates.usable[g * n]), None)
    if without is None:
        below = equal_groups_below(rates.levels, places, fixed, seed)
        return {g: row | {"reason": ""} for g, row in zip(compared, rows, strict=True)}, below
    unknown = {"ci_low": np.nan, "ci_high": np.nan, "reason": without.few or _not_kept(without.tally)}
    return {g: row | unknown for g, row in zip(compared, rows, strict=True)}, np.nan


def _notes(tally: Tally, median: bool, positive: str, rates: Rates) -> tuple[str, ...]:
    notes = []
    if median:
        notes.append("scoring rate: the share above the median score of the sample; limits allow for the error of the median")
    if positive == "below" and len(rates.metrics) > 2:
        notes.append(
            "selected are scores below the threshold, positive is an outcome of 1: the tpr is the share of positives that are "
            "selected, and accuracy takes a selected row for right where its outcome is 1"
        )
    unlabelled = sum(tally.n_unlabelled.values())
    if unlabelled:
        notes.append(f"{number_text(unlabelled)} rows without a known outcome count in selection rates only")
        selected, others = _known_shares(rates.views, rates.selections)
        if len(rates.metrics) > 2 and abs(selected - others) > APART:
            known = f"{100 * selected:.0f} % of those selected and {100 * others:.0f} % of the others"
            notes.append(f"outcomes are known of {known}: prevalence, error rates and accuracy are those of rows with an outcome")
    if tally.n_spanning:
        notes.append("some users are in more than one group; comparisons allow for that")
    return tuple(notes)
