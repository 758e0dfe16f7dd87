"""Rates of decisions as sums over cells: the one home of who is selected, and of what each metric counts.

A metric is the weight of some rows (its events) over the weight of the rows it is about: the tpr counts the selected among the
positives. Both are sums over cells, and their pair sums follow from the tally's. So a metric is one more kind of cell, which holds
the rows it is about and, as outcome, its events; whatever is known about rates at cells serves for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.errors import require_option
from evenscore.estimation.spreads import Around, rate_spread
from evenscore.marginal.cut import POSITIVE, require_inside, require_score, thresholds_of
from evenscore.ratios import ratio
from evenscore.tallies.everyone import all_pairs, has_unlabelled
from evenscore.tallies.group_sums import CellSums, HigherSums
from evenscore.tallies.pairs import PairMatrices
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.view import GroupView
from evenscore.types import Floats, Mask

SELECTION = "selection_rate"
METRICS = (SELECTION, "prevalence", "tpr", "fpr", "fnr", "tnr", "ppv", "npv", "accuracy")
OPPOSITE = {"fnr": "tpr", "tnr": "fpr"}  # the same hypothesis, with the other sign
ABOUT = {
    SELECTION: "rows",
    **dict.fromkeys(("prevalence", "accuracy"), "labelled rows"),
    **dict.fromkeys(("tpr", "fnr"), "positives"),
    **dict.fromkeys(("fpr", "tnr"), "negatives"),
    "ppv": "selected rows",
    "npv": "rows that are not selected",
}


def share_above(low: Floats, high: Floats, cut: float | Floats) -> Floats:
    """The share of each piece where a straight line from low to high is at or above the cut."""
    top, span = np.maximum(low, high), np.abs(high - low)
    flat = span <= 1e-300
    return np.where(flat, top >= cut, np.clip((top - cut) / np.where(flat, 1.0, span), 0, 1))


@dataclass(frozen=True, slots=True)
class Selection:
    """Who gets the positive decision: the share of each cell, (n_cells,).

    through: the cell that the threshold runs through, whose people are shared in proportion to its width; None where it is exact.
    """

    threshold: float
    share: Floats
    through: int | None = None

    @classmethod
    def at(cls, view: GroupView, threshold: float, positive: str) -> Selection:
        """By a threshold: score >= threshold, or with positive="below" score < threshold."""
        lattice, cells = view.lattice, view.cells
        first = lattice.first_cell(threshold)
        if first is not None:
            share, through = (cells >= first).astype(np.float64), None
        else:
            share = share_above(*lattice.limits(cells, view.score), threshold)
            through = int(lattice.cell(np.array([threshold]))[0])
        return cls(threshold, share if positive == "above" else 1 - share, through)

    def error(self, view: GroupView) -> float:
        """How far the selection rate may be off because people inside a cell are shared in proportion."""
        if self.through is None:
            return 0.0
        share = float(self.share[self.through])
        return max(share, 1 - share) * float(view.sums.A[self.through] / view.sums.A.sum())


def read_thresholds(tally: Tally, threshold: Any, positive: str) -> list[float]:
    """The threshold of each group, in their order: the same for all, or by group."""
    require_option("positive", positive, POSITIVE)
    values = [require_score(value) for value in thresholds_of(tally, threshold)]
    for value in dict.fromkeys(values):
        require_threshold(tally, value, positive)
    return values


def require_threshold(tally: Tally, value: float, positive: str) -> None:
    """A score that somebody has, or may have: of [0, 1] any may select nobody in a sample."""
    if not tally.lattice.low <= value <= tally.lattice.high:
        require_inside(tally, value, positive)


# Events and the rows they are among, as coefficients of weight and outcome


@dataclass(frozen=True, slots=True)
class Design:
    """What n metrics count in each cell, (n, n_cells) each: ``about`` the rows a metric is about and ``events`` those that count,
    each as a coefficient of the weight (_w) and of the weighted outcome (_y). everybody: metrics of rows with an outcome or not.
    """

    about_w: Floats
    about_y: Floats
    events_w: Floats
    events_y: Floats
    everybody: tuple[bool, ...]


def design(shares: Sequence[tuple[str, Floats]]) -> Design:
    """Of metrics by name, each with the share of every cell that is selected."""
    rows = []
    for name, s in shares:
        ones, zeros, others = np.ones_like(s), np.zeros_like(s), 1 - s
        rows.append(
            {
                SELECTION: (ones, zeros, s, zeros),
                "prevalence": (ones, zeros, zeros, ones),
                "tpr": (zeros, ones, zeros, s),
                "fnr": (zeros, ones, zeros, others),
                "fpr": (ones, -ones, s, -s),
                "tnr": (ones, -ones, others, -others),
                "ppv": (s, zeros, zeros, s),
                "npv": (others, zeros, others, -others),
                "accuracy": (ones, zeros, others, s - others),
            }[name]
        )
    about_w, about_y, events_w, events_y = (np.stack(part) for part in zip(*rows, strict=True))
    return Design(about_w, about_y, events_w, events_y, tuple(name == SELECTION for name, _ in shares))


@dataclass(frozen=True, slots=True)
class GroupRates:
    """n metrics of one group, or of several together, (n,) each.

    about, events: the weight of the rows a metric is about, and of those that count. around: the same as cells with their pair
    sums, whose ``w`` is about and ``y`` events. known: where there are pair sums, without which no limits can be given.
    """

    about: Floats
    events: Floats
    around: Around
    known: Mask

    @property
    def estimate(self) -> Floats:
        """The metrics; nan where there are no rows that they are about."""
        return ratio(self.events, self.about, np.nan)

    @property
    def matrix(self) -> Floats:
        """What makes rates of sums, (n, n)."""
        return np.diag(ratio(1.0, self.about))

    @property
    def pairs(self) -> PairMatrices:
        """The pair sums of metrics, (n, n) each."""
        return self.around.view.pairs

    @property
    def effective_users(self) -> Floats:
        """How many users each metric rests on; nan where that is not known."""
        squares = np.diag(self.pairs.ww)
        users = ratio(self.about**2, squares)
        return np.where(self.known, users, np.nan)


@dataclass(frozen=True, slots=True)
class RateTable:
    """The metrics of every group, the pair sums of users that two groups share by positions (a, b), a < b, and the whole."""

    groups: tuple[GroupRates, ...]
    shared: Mapping[tuple[int, int], PairMatrices]
    overall: GroupRates


def rate_table(views: Sequence[GroupView], designs: Sequence[Design]) -> RateTable:
    """The metrics of groups that each have a design of their own."""
    tally = views[0].tally
    counted = list(zip(views, designs, strict=True))
    squares = [_all_pairs(tally, view, view) for view in views]
    groups = tuple(_group_rates(view, own, every) for (view, own), every in zip(counted, squares, strict=True))
    shared: dict[tuple[int, int], PairMatrices] = {}
    for a, b in itertools.combinations(range(len(views)), 2) if tally.cross_blocks else ():
        pairs = views[a].shared_pairs(views[b])
        every = _all_pairs(tally, views[a], views[b])
        if pairs is not None or every is not None:
            shared[a, b] = _metric_pairs(pairs, every, designs[a], designs[b], unlabelled=has_unlabelled(tally))
    return RateTable(groups, shared, _joined(groups, shared))


def _all_pairs(tally: Tally, a: GroupView, b: GroupView) -> Floats | None:
    """The pair sums of all rows where some have no outcome, and what labelled rows say is not enough; not kept for items."""
    known = has_unlabelled(tally) and tally.item is None
    return all_pairs(tally, a.members[0], b.members[0], a.weighting) if known else None


def _group_rates(view: GroupView, counted: Design, every: Floats | None) -> GroupRates:
    """Metrics of one group; every: its pair sums of all rows."""
    tally, everybody = view.tally, np.array(counted.everybody)
    unlabelled = has_unlabelled(tally)
    about, events = _counted(counted, view.sums.W, view.sums.Y)
    squares = _counted(counted, view.sums.V0, view.sums.V1)
    cubes = None if view.higher is None else _counted(counted, view.higher.T0, view.higher.T1)[0]
    # Sums of all rows also where each has an outcome: they are the same, and rounding is not.
    flat = np.zeros_like(view.sums.A)
    all_about, all_events = _counted(counted, view.sums.A, flat)
    about, events = np.where(everybody, all_about, about), np.where(everybody, all_events, events)
    rows = tally.group_tallies[view.members[0]].blocks.get("all_rows")
    if unlabelled and rows is not None:
        powers = rows.under(view.weighting)
        of_all = _counted(counted, powers["R2"], flat)
        squares = np.where(everybody, of_all[0], squares[0]), np.where(everybody, of_all[1], squares[1])
        cubes = None if cubes is None else np.where(everybody, _counted(counted, powers["R3"], flat)[0], cubes)
    pairs = _metric_pairs(view.pairs, every, counted, counted, unlabelled=unlabelled)
    known = ~everybody | (not unlabelled or every is not None)
    return _as_cells(view, (about, events), squares, cubes, pairs, known & (not view.few))


def _counted(counted: Design, weight: Floats, outcome: Floats) -> tuple[Floats, Floats]:
    """The rows that metrics are about, and their events, added up; rounding leaves less than nothing of equal sums."""
    about = np.maximum(counted.about_w @ weight + counted.about_y @ outcome, 0)
    return about, np.clip(counted.events_w @ weight + counted.events_y @ outcome, 0, about)


def _metric_pairs(pairs: PairMatrices | None, every: Floats | None, a: Design, b: Design, *, unlabelled: bool) -> PairMatrices:
    """The pair sums of metrics: what a user put into the one times what the same user put into the other, (n, n) each.

    every: pair sums of all rows, for metrics of everybody where rows have no outcome. How these go with metrics of labelled rows is
    not kept and left at nothing, which makes adjusted p-values a little larger.
    """
    size = (len(a.everybody), len(b.everybody))

    def between(left: tuple[Floats, Floats], right: tuple[Floats, Floats]) -> Floats:
        sums = np.zeros(size)
        if pairs is not None:
            from_w, from_y = left[0] @ pairs.ww + left[1] @ pairs.yw, left[0] @ pairs.wy + left[1] @ pairs.yy
            sums = from_w @ right[0].T + from_y @ right[1].T
        if unlabelled:
            all_of_a, all_of_b = np.array(a.everybody)[:, None], np.array(b.everybody)[None, :]
            of_all = np.zeros(size) if every is None else left[0] @ every @ right[0].T
            sums = np.where(all_of_a & all_of_b, of_all, np.where(all_of_a | all_of_b, 0.0, sums))
        return sums

    about_a, events_a = (a.about_w, a.about_y), (a.events_w, a.events_y)
    about_b, events_b = (b.about_w, b.about_y), (b.events_w, b.events_y)
    return PairMatrices(
        ww=between(about_a, about_b), wy=between(about_a, events_b), yw=between(events_a, about_b), yy=between(events_a, events_b)
    )


def _as_cells(
    view: GroupView,
    sums: tuple[Floats, Floats],
    squares: tuple[Floats, Floats],
    cubes: Floats | None,
    pairs: PairMatrices,
    known: Mask,
) -> GroupRates:
    """Metrics as cells, with residuals around their own rates."""
    (about, events), (about2, events2) = sums, squares
    flat, cells = np.zeros_like(about), np.arange(len(about))
    held = dict.fromkeys(CellSums.__slots__, flat) | {"W": about, "Y": events, "V0": about2, "V1": events2, "V2": events2}
    higher = None if cubes is None else HigherSums(**dict.fromkeys(HigherSums.__slots__, flat) | {"T0": cubes})
    metrics = replace(view, cells=cells, sums=CellSums(**held), score=flat, higher=higher, pairs_at=lambda _: pairs)
    fit = ratio(events, about)
    if cubes is None:  # see ``Around.of``
        cubes = ratio(about2**2, about)
    around = Around(
        view=metrics,
        fit=fit,
        rows=np.maximum(events2 - 2 * fit * events2 + fit**2 * about2, 0),
        known=about2 * rate_spread(fit),
        cubes=cubes,
        residual=pairs.residual(fit, fit),
    )
    return GroupRates(about, events, around, known)


def _joined(groups: Sequence[GroupRates], shared: Mapping[tuple[int, int], PairMatrices]) -> GroupRates:
    """All groups together; a user of several keeps the weights of each."""

    def total(name: str) -> Floats:
        return np.asarray(sum(getattr(group.around.view.sums, name) for group in groups))

    pairs = groups[0].pairs
    for group in groups[1:]:
        pairs = pairs + group.pairs
    for between in shared.values():
        pairs = pairs + between + between.transposed()
    higher = [group.around.view.higher for group in groups]
    cubes = None if any(own is None for own in higher) else np.sum([group.around.cubes for group in groups], axis=0)
    sums, squares = (total("W"), total("Y")), (total("V0"), total("V1"))
    return _as_cells(groups[0].around.view, sums, squares, cubes, pairs, np.all([group.known for group in groups], axis=0))
