"""Every metric against the threshold, by group, with simultaneous bands; ROC curves and the areas under them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from evenscore.data.columns import number_array
from evenscore.decisions.areas import area_rows
from evenscore.decisions.rate_laws import levels_of
from evenscore.decisions.rates import METRICS, SELECTION, Selection, design, rate_table, require_threshold
from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import DataError, OptionError, listing, require_alpha, require_option, shortened
from evenscore.estimation.inference import normal_quantile, seeded, simultaneous_quantile
from evenscore.marginal.cut import POSITIVE
from evenscore.tables import Table, json_ready
from evenscore.tallies.moments import WEIGHTINGS
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.two_way import in_full, require_enough
from evenscore.tallies.view import GroupView
from evenscore.threads import in_one_thread
from evenscore.types import Floats
from evenscore.wording import number_text

SHOWN = (SELECTION, "tpr", "fpr", "ppv")
NUMBERS = ("estimate", "ci_low", "ci_high", "band_low", "band_high")
N_THRESHOLDS = 33  # that are looked at unless some are given
MOST_THRESHOLDS = 512


@dataclass(frozen=True, slots=True, repr=False)
class DecisionCurves(Table):
    """Metrics over thresholds. areas: one row a group, the area under its ROC curve; area_differences: one row a pair.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(people, score="score", outcome="outcome", group="group", user="user")
    >>> found = es.decision_curves(tally, thresholds=[0.4, 0.6], metrics=["selection_rate"])
    >>> [(row["group"], row["threshold"], round(row["estimate"], 2)) for row in found.rows()]
    [('a', 0.4, 0.63), ('a', 0.6, 0.35), ('b', 0.4, 0.67), ('b', 0.6, 0.36)]
    """

    table: tuple[dict[str, Any], ...]
    areas: tuple[dict[str, Any], ...]
    area_differences: tuple[dict[str, Any], ...]
    positive: str
    weighting: str
    alpha: float
    notes: tuple[str, ...] = ()
    frame_kind: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One row for each group, metric and threshold."""
        return [dict(row) for row in self.table]

    @property
    def roc(self) -> list[dict[str, Any]]:
        """The ROC curve of each group: fpr and tpr with limits, one row for each group and threshold."""
        points: dict[tuple[Any, float], dict[str, Any]] = {}
        for row in self.table:
            if row["metric"] in ("fpr", "tpr"):
                empty = {"group": row["group"], "threshold": row["threshold"]}
                point = points.setdefault((row["group"], row["threshold"]), empty)
                point |= {row["metric"]: row["estimate"]}
                point |= {f"{row['metric']}_{end}": row[f"ci_{end}"] for end in ("low", "high")}
        return list(points.values())

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        more = {"areas": list(self.areas), "area_differences": list(self.area_differences)}
        plain = {name: getattr(self, name) for name in ("positive", "weighting", "alpha")}
        return json_ready({"title": self._title(), "rows": self.rows(), **more, **plain, "notes": self._notes()})

    def _shown_rows(self) -> list[dict[str, Any]]:
        return list(self.areas) if self.areas else self.rows()

    def _title(self) -> str:
        n = len({row["threshold"] for row in self.table})
        return f"Decisions over {n} thresholds, per {self.weighting}" + ("; areas under the ROC curves:" if self.areas else "")

    def _notes(self) -> list[str]:
        return list(self.notes)


@in_one_thread
def decision_curves(
    tally: Any,
    *,
    thresholds: Iterable[float] | None = None,
    metrics: Iterable[str] = SHOWN,
    positive: str = "above",
    weighting: str = "user",
    alpha: float = 0.05,
    seed: int = 0,
    **columns: Unpack[DataColumns],
) -> DecisionCurves:
    """Metrics against the threshold by group, with bands over all thresholds; ROC curves and the areas under them.

    Parameters
    ----------
    tally
        What ``es.tally`` made, also as the path of a saved one; or data.
    columns
        With data: ``score=``, ``outcome=``, ``group=``, ``user=`` and what else ``es.tally`` takes.
    thresholds
        Scores; by default 33 cell edges with about as many people between any two, where nothing is interpolated.
    metrics
        Names of metrics as in ``es.decision_metrics``.
    positive
        "above": score >= threshold is selected; "below": score < threshold is.
    weighting
        "user": every user counts the same; "row": every row does.
    alpha
        Limits, and bands over all thresholds of a group and metric, cover with probability 1 - alpha.
    seed
        Of the draws behind bands and adjusted p-values.

    Returns
    -------
    DecisionCurves
        One row for each group, metric and threshold; ``.roc``, ``.areas`` and ``.area_differences``.

    Examples
    --------
    >>> import evenscore as es
    >>> data = es.simulate(2000, rows_per_user=4).data(seed=1)
    >>> found = es.decision_curves(data, score="score", outcome="outcome", group="group", user="user")
    >>> [round(row["estimate"], 2) for row in found.areas]
    [0.77, 0.75]
    """
    given = None if thresholds is None else _given_thresholds(thresholds)
    if given is not None and "cuts" not in columns and columns.get("lattice") is None and columns:
        columns = {**columns, "cuts": given.tolist()}
    tally = require_enough(in_full(as_tally(tally, columns, call="decision_curves")))
    require_alpha(alpha)
    require_option("positive", positive, POSITIVE)
    require_option("weighting", weighting, WEIGHTINGS)
    names = _metrics(metrics, tally)
    views = GroupView.each(tally, weighting)
    if not views or not all(view.sums.A.sum() > 0 for view in views):
        raise DataError("every group needs rows with a weight")
    cuts = _edges(tally, views) if given is None else given
    for cut in cuts.tolist():
        require_threshold(tally, cut, positive)
    areas, apart = area_rows(views, positive, alpha, seed) if tally.binary else ([], [])
    return DecisionCurves(
        table=tuple(_rows(views, cuts, names, positive, alpha, seed)),
        areas=tuple(areas),
        area_differences=tuple(apart),
        positive=positive,
        weighting=weighting,
        alpha=alpha,
        notes=tuple(_notes(tally, cuts, areas)),
        frame_kind=tally.frame_kind,
    )


def _given_thresholds(thresholds: Iterable[float]) -> Floats:
    if not isinstance(thresholds, Iterable):
        raise OptionError(f"thresholds={shortened(thresholds)} must be a list of scores, such as [0.2, 0.5]")
    cuts = np.unique(number_array("thresholds", thresholds if isinstance(thresholds, np.ndarray) else list(thresholds)))
    if not 0 < len(cuts) <= MOST_THRESHOLDS or not np.isfinite(cuts).all():
        raise OptionError(f"thresholds= takes 1 to {MOST_THRESHOLDS} finite scores, not {len(cuts)}")
    return cuts


def _metrics(metrics: Iterable[str], tally: Tally) -> list[str]:
    names = [metrics] if isinstance(metrics, str) else list(metrics) if isinstance(metrics, Iterable) else []
    if not names:
        raise OptionError(f"metrics={shortened(metrics)} must name some of {listing(METRICS)}")
    for name in names:
        require_option("metrics", name, METRICS)
    names = list(dict.fromkeys(names))
    return names if tally.binary else [SELECTION]


def _edges(tally: Tally, views: Sequence[GroupView]) -> Floats:
    """Cell edges with about as many people between any two."""
    weight = np.sum([view.sums.A for view in views], axis=0)
    edges = tally.lattice.edges
    if tally.lattice.values is not None:
        edges = tally.lattice.values[1:]
    reached = np.cumsum(weight)[:-1] / weight.sum()  # the share below each edge
    inside = np.flatnonzero((reached > 0) & (reached < 1))
    if len(inside) == 0:
        return np.array([float(views[0].score[np.flatnonzero(weight > 0)[0]])])
    wanted = np.arange(1, N_THRESHOLDS + 1) / (N_THRESHOLDS + 1)
    nearest = np.abs(reached[inside][None, :] - wanted[:, None]).argmin(axis=1)
    return np.unique(edges[inside[nearest]])


def _rows(
    views: Sequence[GroupView], cuts: Floats, names: Sequence[str], positive: str, alpha: float, seed: int
) -> list[dict[str, Any]]:
    designs = []
    for view in views:
        shares = [Selection.at(view, cut, positive).share for cut in cuts.tolist()]
        designs.append(design([(name, share) for name in names for share in shares]))
    table = rate_table(views, designs)
    levels = levels_of(table)
    z, rows = normal_quantile(alpha), []
    for g, (view, rates) in enumerate(zip(views, table.groups, strict=True)):
        for m, name in enumerate(names):
            own = np.arange(m * len(cuts), (m + 1) * len(cuts))  # among the group's metrics
            law, level = levels.side.at(g * len(cuts) * len(names) + own), rates.around.fit[own]
            usable = rates.known[own] & (rates.about[own] > 0)
            far = simultaneous_quantile(rates.around.residual[np.ix_(own, own)], alpha, seeded(seed, g, m))
            limits = np.where(usable, np.stack([*law.limits(level, z), *law.limits(level, max(far, z))]), np.nan)
            numbers = np.stack([rates.estimate[own], *limits], axis=1).tolist()
            for cut, line in zip(cuts.tolist(), numbers, strict=True):
                rows.append({"group": view.label, "metric": name, "threshold": cut} | dict(zip(NUMBERS, line, strict=True)))
    return rows


def _notes(tally: Tally, cuts: Floats, areas: list[dict[str, Any]]) -> list[str]:
    notes = ["bands hold for all thresholds of a group and metric at once"]
    off = max((row["cell_error"] for row in areas if np.isfinite(row["cell_error"])), default=0.0)
    if off > 0:
        notes.append(f"areas take people of one cell as ties, and may be off by {number_text(off)} at most")
    if not tally.lattice.discrete and any(tally.lattice.first_cell(cut) is None for cut in cuts.tolist()):
        notes.append(
            "some thresholds run through a cell, whose people are shared in proportion; cuts= in es.tally makes them exact"
        )
    if not tally.binary:
        notes.append("outcomes are not 0/1: only selection rates are given, and no areas")
    return notes
