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
from evenscore.data.columns import number_array
from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import DataError, OptionError, require_alpha, require_flag, require_option, shortened
from evenscore.estimation.direction import outcomes_rise
from evenscore.estimation.inference import seeded
from evenscore.estimation.units import same_scale
from evenscore.impact.impact_result import CLASSIFICATION, Impact
from evenscore.impact.rates import DRAWS, Pieces, Rates, cut_scores, same_thresholds, thresholds_at_same_rate
from evenscore.tallies.everyone import has_unlabelled
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.two_way import groups_share_items, in_full, require_enough
from evenscore.tallies.view import GroupView
from evenscore.threads import in_one_thread
from evenscore.types import Floats

THRESHOLD, RATE = "threshold", "rate"
FALLS = "outcomes fall along the score, so that calibrated scores, which are outcomes, decide the other way round"
SAME_RATE = (
    "calibrated scores are not on the scale of the threshold: theirs, threshold_after, keeps the overall share of positive "
    "decisions or comes as near as the scores allow"
)
SIDES = ("above", "below")
ALL = "all"
UNKNOWN = (np.nan, np.nan)
MOST_SHIFT = 1.5  # normal quantiles that a limit moves for bias; an estimate beyond all draws tells no more
GRID = 33  # thresholds that a curve over all of them is drawn at


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
    keep: str | None = None,
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
        What calibrated scores are; by default the guided curve of ``es.curves``, smoothed little so that limits hold.
    reference
        The group whose positive rate the others' are divided by; by default the group with the highest.
    weighting
        "user": every user counts the same; "row": every row does.
    keep
        What stays when calibrated scores decide: "threshold", the same number for both, or "rate", the overall share of positive
        decisions, with another threshold for calibrated scores. By default the threshold when score and outcome are on one scale or
        the calibrator keeps the scale of the score, and the rate when they are not. Where outcomes fall along the score, as
        defaults do along credit points, the rate stays, and low calibrated scores get what high scores got.
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
    tally = require_enough(in_full(as_tally(tally, columns, call="classification_impact", threshold=threshold)))
    require_alpha(alpha)
    require_flag("interval", interval)
    require_option("positive", positive, SIDES)
    require_option("keep", keep, (None, THRESHOLD, RATE))
    if calibrator is None:
        calibrator = calibrate(tally, bandwidth="band", weighting=weighting)
    calibrator = require_calibrator(calibrator)
    falling = calibrator.reference is None and not outcomes_rise(tally, weighting)
    if keep is None:
        kept = calibrator.reference is not None or (same_scale(tally) and not falling)
        keep = THRESHOLD if kept else RATE
    way = -1 if falling and keep == RATE else 1
    cuts = _thresholds(tally, threshold)
    views = [view for view in GroupView.each(tally, weighting) if view.sums.A.any()]
    groups = [view.label for view in views]
    fixed = None if reference is None else _find_reference(tally, views, reference)
    estimated, drawn = [], []
    for view in views:
        rng = seeded(seed, *view.members)
        group_map = calibrator.map_of(view.label, unknown="pooled")
        scores = cut_scores(view, group_map, cuts, rng if interval else None)
        shares = scores.chance[None, :]
        estimated.append(Pieces.of(scores, group_map, group_map.value[None, :], shares).turned(way))
        if interval:
            drawn.append(Pieces.of(scores, group_map, group_map.draw(rng, DRAWS), shares + scores.noise).turned(way))
    weights = np.array([view.sums.A.sum() for view in views])

    def cuts_after(pieces: list[Pieces]) -> Floats:
        return thresholds_at_same_rate(pieces, weights, cuts) if keep == RATE else same_thresholds(pieces, cuts)

    def rates(pieces: list[Pieces]) -> list[Rates]:
        after = cuts_after(pieces) if pieces else cuts
        return [own.rates(cuts, after, positive) for own in pieces]

    estimates = _Estimates(
        groups=groups,
        points=rates(estimated),
        drawn=rates(drawn),
        users=np.array([view.n_users for view in views], dtype=np.float64),
        weights=weights,
        reference=fixed,
        alpha=alpha,
    )
    table, pairs = [], []
    for number, cut in enumerate(cuts.tolist()):
        table += [estimates.row(group, number, cut) for group in (*range(len(groups)), None)]
        pairs += [estimates.pair(a, b, number, cut) for a, b in itertools.combinations(range(len(groups)), 2)]
    notes = _notes(tally, cuts, positive, calibrator, fixed)
    what = "Change in the positive rate if scores were calibrated" + ("" if len(cuts) > 1 else f", threshold {cuts[0]:g}")
    if keep == RATE:
        what += ", at the same overall rate"
        after = dict(zip(cuts.tolist(), (way * cuts_after(estimated)[0]).tolist(), strict=True))
        table = [row | {"threshold_after": after[row["threshold"]]} for row in table]
        notes = (*notes, SAME_RATE, *([FALLS] if way < 0 else []))
    return Impact(CLASSIFICATION, what, tuple(table), tuple(pairs), alpha, notes, keep=keep, frame_kind=tally.frame_kind)


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
        return min(float(low), estimate), max(float(high), estimate)

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
    if has_unlabelled(tally) and any("all_pairs" not in group.blocks for group in tally.group_tallies):
        notes.append("people without a known outcome count in the rates; the limits take their scores to vary like the others'")
    if groups_share_items(tally):
        notes.append("items that are in several groups make the limits of ratios and differences too wide or too narrow")
    if tally.cross:
        notes.append("users that are in several groups make the limits of ratios and differences too wide or too narrow")
    return tuple(notes)
