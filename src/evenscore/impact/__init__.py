"""Delta-PCC: what calibrated scores would change about decisions, by group.

A person is decided upon by the score now, S >= t; calibrated, by S* = E(Y | S, G) >= t. The change in the positive rate is not a
smooth function of the data, so its limits are percentiles of what it would be with other draws of the map and of the scores.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.calibration import calibrate
from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.maps import GroupMap
from evenscore.data.columns import number_array
from evenscore.errors import DataError, OptionError, require_alpha, require_flag, require_option, shortened
from evenscore.estimation.inference import draw_normal, seeded
from evenscore.impact.impact_result import CLASSIFICATION, Impact
from evenscore.miscalibration.measure import require_outcome_scale
from evenscore.tallies.tally_state import Tally, require_tally
from evenscore.types import Floats, Ints

DRAWS = 1000
SIDES = ("above", "below")
ALL = "all"
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


def classification_impact(
    tally: Tally,
    *,
    threshold: float | str | Iterable[float],
    positive: str = "above",
    calibrator: Calibrator | None = None,
    reference: Any = None,
    weighting: str = "user",
    alpha: float = 0.05,
    interval: bool = True,
    seed: int = 0,
) -> Impact:
    """The change in each group's positive rate if scores were calibrated: S* minus S.

    Parameters
    ----------
    tally
        What ``es.tally`` made.
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
    tally = require_tally(tally, "classification_impact")
    require_alpha(alpha)
    require_flag("interval", interval)
    require_option("positive", positive, SIDES)
    if calibrator is None:
        require_outcome_scale(tally)
        calibrator = calibrate(tally, bandwidth="band", weighting=weighting)
    calibrator = require_calibrator(calibrator)
    cuts = _thresholds(tally, threshold)
    groups = [group for group in tally.groups if tally.sums(group, weighting).A.any()]
    fixed = None if reference is None else _place(tally, groups, reference)
    points, drawn = [], []
    for group in groups:
        rng = seeded(seed, tally.index(group))
        group_map = calibrator.map_of(group, unknown="pooled")
        scores = _scores(tally, group, weighting, group_map, cuts, rng if interval else None)
        values, shares = group_map.value[None, :], scores.chance[None, :]
        points.append(_rates(scores, group_map, values, shares, cuts, positive))
        if interval:
            drawn.append(_rates(scores, group_map, group_map.draw(rng, DRAWS), shares + scores.noise, cuts, positive))
    sizes = np.array([tally.n_users[group] for group in groups], dtype=np.float64)
    weights = np.array([tally.sums(group, weighting).A.sum() for group in groups])
    table = [
        row
        for place, cut in enumerate(cuts)
        for row in _rows(groups, points, drawn, sizes, weights, fixed, alpha, place, float(cut))
    ]
    pairs = [row for place, cut in enumerate(cuts) for row in _pairs(groups, points, drawn, alpha, place, float(cut))]
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


def _place(tally: Tally, groups: list[Any], reference: Any) -> int:
    label = tally.groups[tally.index(reference)]
    if not any(label is group for group in groups):
        raise DataError(f"the reference {shortened(reference)} has no rows")
    return [label is group for group in groups].index(True)


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


def _scores(tally: Tally, group: Any, weighting: str, group_map: GroupMap, cuts: Floats, rng: np.random.Generator | None) -> Scores:
    sums, lattice = tally.sums(group, weighting), tally.lattice
    cells = np.flatnonzero(sums.A > 0)
    middle = lattice.to_score(sums.position)[cells]
    mean = np.divide(sums.X[cells], sums.W[cells], out=middle, where=sums.W[cells] > 0)
    low, high = lattice.limits(cells, mean)
    chance = sums.A[cells] / sums.A.sum()
    noise = np.zeros((0, len(cells))) if rng is None else _share_noise(tally, group, weighting, cells, rng)
    knots = np.concatenate([group_map.score, cuts])
    pieces = [_cut(place, low[place], high[place], knots) for place in range(len(cells))]
    limits = np.concatenate(pieces)
    width = np.where(high > low, high - low, 1.0)
    cell = limits[:, 2].astype(np.int64)
    share = np.where(high[cell] > low[cell], (limits[:, 1] - limits[:, 0]) / width[cell], 1.0)
    return Scores(limits[:, 0], limits[:, 1], share, cell, chance, noise)


def _cut(place: int, low: float, high: float, knots: Floats) -> Floats:
    """A cell as pieces between knots: low, high and the cell's place, (n, 3)."""
    inside = np.unique(knots[(knots > low) & (knots < high)])
    ends = np.concatenate([[low], inside, [high]])
    return np.column_stack([ends[:-1], ends[1:], np.full(len(ends) - 1, float(place))])


def _share_noise(tally: Tally, group: Any, weighting: str, cells: Ints, rng: np.random.Generator) -> Floats:
    """Draws of the cells' shares around their estimates, (DRAWS, n_cells), from how users are spread over cells."""
    sums = tally.sums(group, weighting)
    used = np.flatnonzero(sums.W[cells] > 0)
    noise = np.zeros((DRAWS, len(cells)))
    if len(used) < 2:
        return noise
    pairs = tally.pair_matrices(group, group, weighting, cells[used])
    assert pairs is not None
    share = sums.W[cells[used]] / sums.W.sum()
    centred = np.eye(len(used)) - share[:, None]  # w_m - share * (all that the user weighs)
    noise[:, used] = draw_normal(centred @ pairs.ww @ centred.T / sums.W.sum() ** 2, rng, DRAWS)
    return noise


# Rates


def _rates(scores: Scores, group_map: GroupMap, values: Floats, shares: Floats, cuts: Floats, positive: str) -> Rates:
    """Rates for each draw of the map's knots (n, n_knots) and of the cells' shares (n, n_cells): (n, n_thresholds) each."""
    low, high = _at_ends(group_map, scores, values)
    found = np.empty((4, len(values), len(cuts)))
    mass = shares[:, scores.cell] * scores.share
    for place, cut in enumerate(cuts):
        now = (scores.low >= cut).astype(np.float64)  # no piece reaches across a threshold
        then = _part_above(low, high, cut)
        for kept, part in zip(found, (now, then, then * (1 - now), (1 - then) * now), strict=True):
            kept[:, place] = np.einsum("dp,dp->d", mass, np.broadcast_to(part, mass.shape))
    before, after, gained, lost = found
    return Rates(before, after, gained, lost) if positive == "above" else Rates(1 - before, 1 - after, lost, gained)


def _at_ends(group_map: GroupMap, scores: Scores, values: Floats) -> tuple[Floats, Floats]:
    """The map at both ends of each piece, (n, n_pieces)."""
    if group_map.identity:
        return tuple(np.broadcast_to(ends, (len(values), len(ends))) for ends in (scores.low, scores.high))  # type: ignore[return-value]
    if group_map.step:
        level = values @ group_map.design(scores.low).T
        return level, level
    return values @ group_map.design(scores.low).T, values @ group_map.design(scores.high).T


def _part_above(low: Floats, high: Floats, cut: float) -> Floats:
    """The part of each piece where a straight line from low to high is at or above the cut."""
    top, span = np.maximum(low, high), np.abs(high - low)
    flat = span <= 1e-300
    return np.where(flat, top >= cut, np.clip((top - cut) / np.where(flat, 1.0, span), 0, 1))


# Rows


def _limits(draws: Floats, alpha: float) -> tuple[float, float]:
    low, high = np.quantile(draws, [alpha / 2, 1 - alpha / 2])
    return float(low), float(high)


def _rows(
    groups: list[Any],
    points: list[Rates],
    drawn: list[Rates],
    sizes: Floats,
    weights: Floats,
    fixed: int | None,
    alpha: float,
    place: int,
    cut: float,
) -> list[dict[str, Any]]:
    """One row a group and one for all, at one threshold."""
    mixed = weights / weights.sum()
    table = []
    for number in (*range(len(groups)), None):
        share = mixed if number is None else np.eye(len(groups))[number]
        point = {name: float(sum(w * getattr(r, name)[0, place] for w, r in zip(share, points, strict=True))) for name in NAMES}
        ends = dict.fromkeys(LIMITED, (np.nan, np.nan))
        if drawn:
            draws = {name: sum(w * getattr(r, name)[:, place] for w, r in zip(share, drawn, strict=True)) for name in LIMITED}
            ends = {name: _limits(np.asarray(draws[name]), alpha) for name in LIMITED}
        users = float(sizes.sum() if number is None else sizes[number])
        row = {
            "group": None if number is None else groups[number],
            "threshold": cut,
            "estimate": point["change"],
            "ci_low": ends["change"][0],
            "ci_high": ends["change"][1],
            "rate_before": point["before"],
            "rate_after": point["after"],
            "gain": point["gained"],
            "lose": point["lost"],
            "users_gain": point["gained"] * users,
            "users_lose": point["lost"] * users,
            "after_low": ends["after"][0],
            "after_high": ends["after"][1],
        }
        table.append(row | _ratios(points, drawn, number, fixed, alpha, place))
    return table


NAMES = ("change", "before", "after", "gained", "lost")
LIMITED = ("change", "after")


def _ratios(
    points: list[Rates], drawn: list[Rates], number: int | None, fixed: int | None, alpha: float, place: int
) -> dict[str, float]:
    """A group's positive rate over that of the reference, before and after, with limits for the latter."""
    names = ("ratio_before", "ratio_after", "ratio_low", "ratio_high")
    if number is None:
        return dict.fromkeys(names, np.nan)
    found = []
    for name in ("before", "after"):
        rates = [float(getattr(rate, name)[0, place]) for rate in points]
        base = max(rates) if fixed is None else rates[fixed]
        found.append(rates[number] / base if base > 0 else np.nan)
    low = high = np.nan
    if drawn:
        rates_after = [rate.after[0, place] for rate in points]
        best = int(np.argmax(rates_after)) if fixed is None else fixed
        below = drawn[best].after[:, place]
        if (below > 0).all():
            low, high = _limits(drawn[number].after[:, place] / below, alpha)
    return dict(zip(names, (*found, low, high), strict=True))


def _pairs(
    groups: list[Any], points: list[Rates], drawn: list[Rates], alpha: float, place: int, cut: float
) -> list[dict[str, Any]]:
    table = []
    for a, b in itertools.combinations(range(len(groups)), 2):
        low, high = _limits(drawn[a].change[:, place] - drawn[b].change[:, place], alpha) if drawn else (np.nan, np.nan)
        estimate = float(points[a].change[0, place] - points[b].change[0, place])
        row = {"group_a": groups[a], "group_b": groups[b], "threshold": cut}
        table.append(row | {"estimate": estimate, "ci_low": low, "ci_high": high})
    return table


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
