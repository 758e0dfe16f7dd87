"""Delta-PCC: what calibrated scores would change about decisions, by group.

A person is decided upon by the score now, S >= t; calibrated, by S* = E(Y | S, G) >= t. The change in the positive rate is not a
smooth function of the data, so its limits are percentiles of what it would be with other draws of the map and of the scores.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from evenscore.calibration import calibrate
from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.maps import GroupMap
from evenscore.data.columns import number_array
from evenscore.decisions.rates import share_above
from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import DataError, OptionError, require_alpha, require_flag, require_option, shortened
from evenscore.estimation.inference import draw_normal, seeded
from evenscore.impact.impact_result import CLASSIFICATION, Impact
from evenscore.miscalibration.measure import require_outcome_scale
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.view import GroupView
from evenscore.threads import in_one_thread
from evenscore.types import Floats, Ints

DRAWS = 1000
SIDES = ("above", "below")
ALL = "all"
UNKNOWN = (np.nan, np.nan)
MOST_SHIFT = 1.5  # normal quantiles that a limit moves for bias; an estimate beyond all draws tells no more
GRID = 33  # thresholds that a curve over all of them is drawn at


@dataclass(frozen=True, slots=True)
class Scores:
    """A group's score distribution cut into n_pieces pieces, on each of which the map is a straight line.

    low, high: limits of the pieces, equal for a single value; share: how much of its cell a piece is; cell: which one.
    chance: the share of people in each cell (n_cells,), noise: draws of what else it might have been (DRAWS, n_cells).
    """

    low: Floats
    high: Floats
    share: Floats
    cell: Ints
    chance: Floats
    noise: Floats


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates by threshold; the estimates (n_thresholds,), and their draws (DRAWS, n_thresholds)."""

    before: Floats
    after: Floats
    gained: Floats
    lost: Floats

    @property
    def change(self) -> Floats:
        """The change in the positive rate."""
        return self.after - self.before


@in_one_thread
def classification_impact(
    tally: Any,
    *,
    threshold: float | str | Iterable[float],
    positive: str = "above",
    calibrator: Calibrator | None = None,
    reference: Any = None,
    weighting: str = "user",
    alpha: float = 0.05,
    interval: bool = True,
    seed: int = 0,
    **columns: Unpack[DataColumns],
) -> Impact:
    """The change in each group's positive rate if scores were calibrated: S* minus S.

    Parameters
    ----------
    tally
        What ``es.tally`` made, also as the path of a saved one; or data.
    columns
        With data: ``score=``, ``outcome=``, ``group=``, ``user=`` and what else ``es.tally`` takes.
    threshold
        A score, several, or "all" for a curve over all of them. A decision is positive when score >= threshold.
    positive
        "below" mirrors it: positive when score < threshold, as a loan is granted below a risk.
    calibrator
        What calibrated scores are; by default a kernel map fitted to this tally, smoothed little so that limits hold.
    reference
        The group whose positive rate the others' are divided by; by default the group with the highest.
    weighting
        "user": every user counts the same; "row": every row does.
    interval
        False leaves out the limits, for speed.
    alpha, seed
        The level, and the seed of the draws behind limits; the same seed gives the same result.

    Returns
    -------
    Impact
        One row for each group and threshold, and one for everybody (group None).

    Examples
    --------
    >>> import evenscore as es
    >>> data = es.simulate(2000, curve={"a": (0, 1), "b": (-0.5, 1)}).data(seed=1)
    >>> tally = es.tally(data, score="score", outcome="outcome", group="group", user="user", cuts=[0.5])
    >>> found = es.classification_impact(tally, threshold=0.5)
    >>> round(found.of("b")["estimate"], 2)  # without end of users it is -0.18
    -0.17
    """
    tally = as_tally(tally, columns, call="classification_impact", threshold=threshold)
    require_alpha(alpha)
    require_flag("interval", interval)
    require_option("positive", positive, SIDES)
    if calibrator is None:
        require_outcome_scale(tally)
        calibrator = calibrate(tally, bandwidth="band", weighting=weighting)
    calibrator = require_calibrator(calibrator)
    cuts = _thresholds(tally, threshold)
    views = [view for view in GroupView.each(tally, weighting) if view.sums.A.any()]
    groups = [view.label for view in views]
    fixed = None if reference is None else _find_reference(tally, views, reference)
    points, drawn = [], []
    for view in views:
        rng = seeded(seed, *view.members)
        group_map = calibrator.map_of(view.label, unknown="pooled")
        scores = _scores(view, group_map, cuts, rng if interval else None)
        values, shares = group_map.value[None, :], scores.chance[None, :]
        points.append(_rates(scores, group_map, values, shares, cuts, positive))
        if interval:
            drawn.append(_rates(scores, group_map, group_map.draw(rng, DRAWS), shares + scores.noise, cuts, positive))
    estimates = _Estimates(
        groups=groups,
        points=points,
        drawn=drawn,
        users=np.array([view.n_users for view in views], dtype=np.float64),
        weights=np.array([view.sums.A.sum() for view in views]),
        reference=fixed,
        alpha=alpha,
    )
    table, pairs = [], []
    for number, cut in enumerate(cuts.tolist()):
        table += [estimates.row(group, number, cut) for group in (*range(len(groups)), None)]
        pairs += [estimates.pair(a, b, number, cut) for a, b in itertools.combinations(range(len(groups)), 2)]
    notes = _notes(tally, cuts, positive, calibrator, fixed)
    what = "Change in the positive rate if scores were calibrated" + ("" if len(cuts) > 1 else f", threshold {cuts[0]:g}")
    return Impact(CLASSIFICATION, what, tuple(table), tuple(pairs), alpha, notes, frame_kind=tally.frame_kind)


def require_calibrator(value: object) -> Calibrator:
    """A Calibrator, or an error that shows how to make one."""
    if isinstance(value, Calibrator):
        return value
    raise OptionError(
        f"calibrator={shortened(value)} must be a calibrator, such as es.calibrate(tally) or es.Calibrator.load(path) gives"
    )


def _find_reference(tally: Tally, views: list[GroupView], reference: Any) -> int:
    wanted = (tally.index(reference),)
    for number, view in enumerate(views):
        if view.members == wanted:
            return number
    raise DataError(f"the reference {shortened(reference)} has no rows")


def _thresholds(tally: Tally, threshold: Any) -> Floats:
    """The thresholds, ascending; inside the scores."""
    lattice = tally.lattice
    if isinstance(threshold, str):
        require_option("threshold", threshold, (ALL,))
        return np.linspace(lattice.low, lattice.high, GRID + 2)[1:-1]
    cuts = np.unique(number_array("threshold", threshold))
    if len(cuts) == 0:
        raise OptionError("threshold=[] names no score; give a score, a list of scores, or 'all'")
    outside = cuts[(cuts < lattice.low) | (cuts > lattice.high)]
    if len(outside):
        raise OptionError(f"threshold={outside[0]:g} lies outside the scores, which run from {lattice.low:g} to {lattice.high:g}")
    return cuts


# The score distribution in pieces


def _scores(view: GroupView, group_map: GroupMap, cuts: Floats, rng: np.random.Generator | None) -> Scores:
    cells = np.flatnonzero(view.sums.A > 0)
    low, high = view.lattice.limits(cells, view.score[cells])
    knots = np.concatenate([group_map.score, cuts])
    limits = np.concatenate([_cut(number, low[number], high[number], knots) for number in range(len(cells))])
    width = np.where(high > low, high - low, 1.0)
    cell = limits[:, 2].astype(np.int64)
    return Scores(
        low=limits[:, 0],
        high=limits[:, 1],
        share=np.where(high[cell] > low[cell], (limits[:, 1] - limits[:, 0]) / width[cell], 1.0),
        cell=cell,
        chance=view.sums.A[cells] / view.sums.A.sum(),
        noise=np.zeros((0, len(cells))) if rng is None else np.take(_share_noise(view, rng), cells, axis=1),
    )


def _cut(number: int, low: float, high: float, knots: Floats) -> Floats:
    """A cell as pieces between knots: low, high and the cell's number, (n, 3)."""
    inside = np.unique(knots[(knots > low) & (knots < high)])
    ends = np.concatenate([[low], inside, [high]])
    return np.column_stack([ends[:-1], ends[1:], np.full(len(ends) - 1, float(number))])


def _share_noise(view: GroupView, rng: np.random.Generator) -> Floats:
    """Draws of the cells' shares around their estimates, (DRAWS, n_cells), from how users are spread over cells."""
    noise = np.zeros((DRAWS, len(view.cells)))
    used = view.at(view.used)
    if len(used.cells) > 1:
        share = used.sums.W / view.total
        centred = np.eye(len(share)) - share[:, None]  # w_m - share * (all that the user weighs)
        noise[:, used.cells] = draw_normal(centred @ used.pairs.ww @ centred.T / view.total**2, rng, DRAWS)
    return noise


# Rates


def _rates(scores: Scores, group_map: GroupMap, values: Floats, shares: Floats, cuts: Floats, positive: str) -> Rates:
    """Rates for each draw of the map's knots (n, n_knots) and of the cells' shares (n, n_cells): (n, n_thresholds) each."""
    low, high = _at_ends(group_map, scores, values)
    rates = np.empty((4, len(values), len(cuts)))
    mass = shares[:, scores.cell] * scores.share
    for number, cut in enumerate(cuts):
        now, then = share_above(scores.low, scores.high, cut), share_above(low, high, cut)
        for rate, share in zip(rates, (now, then, then * (1 - now), (1 - then) * now), strict=True):
            rate[:, number] = np.einsum("dp,dp->d", mass, np.broadcast_to(share, mass.shape))
    before, after, gained, lost = rates
    return Rates(before, after, gained, lost) if positive == "above" else Rates(1 - before, 1 - after, lost, gained)


def _at_ends(group_map: GroupMap, scores: Scores, values: Floats) -> tuple[Floats, Floats]:
    """The map at both ends of each piece, (n, n_pieces)."""
    if group_map.identity:
        return tuple(np.broadcast_to(ends, (len(values), len(ends))) for ends in (scores.low, scores.high))  # type: ignore[return-value]
    if group_map.step:
        level = values @ group_map.design(scores.low).T
        return level, level
    return values @ group_map.design(scores.low).T, values @ group_map.design(scores.high).T


# Rows


@dataclass(frozen=True, slots=True)
class _Estimates:
    """Rates of the groups: as estimated, and as drawn (none without limits). A threshold is meant by its number.

    users, weights: of each group, (n_groups,). reference: the group that rates are divided by; None: that with the highest.
    """

    groups: list[Any]
    points: list[Rates]
    drawn: list[Rates]
    users: Floats
    weights: Floats
    reference: int | None
    alpha: float

    def limits(self, draws: Floats, estimate: float) -> tuple[float, float]:
        """Percentiles of the draws, or those that allow for their bias (Efron 1981), whichever is further out.

        A map that is uncertain carries more people across a far threshold than a certain one, and draws of it still more.
        """
        from scipy import special

        below = float((draws < estimate).mean() + (draws == estimate).mean() / 2)
        shift = float(np.clip(2 * special.ndtri(np.clip(below, 1e-9, 1 - 1e-9)), -MOST_SHIFT, MOST_SHIFT))
        z = float(special.ndtri(1 - self.alpha / 2))
        low, high = np.quantile(draws, special.ndtr([min(shift, 0.0) - z, max(shift, 0.0) + z]))
        return float(low), float(high)

    def row(self, group: int | None, threshold: int, cut: float) -> dict[str, Any]:
        """One group, or everybody (None), at one threshold."""
        share = self.weights / self.weights.sum() if group is None else np.eye(len(self.groups))[group]

        def mix(rates: list[Rates], name: str) -> Floats:
            return np.asarray(sum(w * getattr(rate, name)[:, threshold] for w, rate in zip(share, rates, strict=True)))

        point = {name: float(mix(self.points, name)[0]) for name in ("change", "before", "after", "gained", "lost")}
        change, after = (self.limits(mix(self.drawn, name), point[name]) if self.drawn else UNKNOWN for name in ("change", "after"))
        users = float(self.users.sum() if group is None else self.users[group])
        return {
            "group": None if group is None else self.groups[group],
            "threshold": cut,
            "estimate": point["change"],
            "ci_low": change[0],
            "ci_high": change[1],
            "rate_before": point["before"],
            "rate_after": point["after"],
            "gain": point["gained"],
            "lose": point["lost"],
            "users_gain": point["gained"] * users,
            "users_lose": point["lost"] * users,
            "after_low": after[0],
            "after_high": after[1],
        } | self._ratios(group, threshold)

    def _ratios(self, group: int | None, threshold: int) -> dict[str, float]:
        """A group's positive rate over that of the reference, before and after, with limits for the latter."""
        if group is None:
            return dict.fromkeys(("ratio_before", "ratio_after", "ratio_low", "ratio_high"), np.nan)
        ratios = {}
        for name in ("before", "after"):
            rates = [float(getattr(rate, name)[0, threshold]) for rate in self.points]
            base = rates[self._base(rates)]
            ratios[f"ratio_{name}"] = rates[group] / base if base > 0 else np.nan
        low, high = UNKNOWN
        if self.drawn:
            below = self.drawn[self._base([rate.after[0, threshold] for rate in self.points])].after[:, threshold]
            if (below > 0).all():
                low, high = self.limits(self.drawn[group].after[:, threshold] / below, ratios["ratio_after"])
        return ratios | {"ratio_low": low, "ratio_high": high}

    def _base(self, rates: list[float]) -> int:
        return int(np.argmax(rates)) if self.reference is None else self.reference

    def pair(self, a: int, b: int, threshold: int, cut: float) -> dict[str, Any]:
        """The change of one group minus that of another."""
        low, high = UNKNOWN
        estimate = float(self.points[a].change[0, threshold] - self.points[b].change[0, threshold])
        if self.drawn:
            low, high = self.limits(self.drawn[a].change[:, threshold] - self.drawn[b].change[:, threshold], estimate)
        groups = {"group_a": self.groups[a], "group_b": self.groups[b]}
        return groups | {"threshold": cut, "estimate": estimate, "ci_low": low, "ci_high": high}


def _notes(tally: Tally, cuts: Floats, positive: str, calibrator: Calibrator, fixed: int | None) -> tuple[str, ...]:
    notes = [
        f"positive: score {'>=' if positive == 'above' else '<'} threshold; gain and lose: the share that would turn positive, and "
        f"negative; ratio: to {'the highest rate' if fixed is None else 'the reference'}",
        f"calibrated by: {calibrator.method}" + (f", {calibrator.maps[0].words}" if calibrator.maps else ""),
    ]
    if not tally.lattice.discrete and any(tally.lattice.first_cell(float(cut)) is None for cut in cuts):
        notes.append("a threshold runs through a cell, whose people are shared in proportion; cuts= in es.tally makes it exact")
    if any(tally.n_unlabelled.values()):
        notes.append("people without a known outcome count in the rates; the limits take their scores to vary like the others'")
    if tally.cross:
        notes.append("users that are in several groups make the limits of ratios and differences too wide or too narrow")
    return tuple(notes)
