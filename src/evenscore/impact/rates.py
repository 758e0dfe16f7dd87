"""Shares of people above a threshold, by their scores and by calibrated ones: what changes in decisions rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenscore.calibration.maps import GroupMap
from evenscore.decisions.rates import share_above
from evenscore.estimation.inference import draw_normal
from evenscore.tallies.everyone import all_pairs, has_unlabelled
from evenscore.tallies.view import GroupView
from evenscore.types import Floats, Ints

DRAWS = 1000
BISECTIONS = 40


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


def cut_scores(view: GroupView, group_map: GroupMap, cuts: Floats, rng: np.random.Generator | None) -> Scores:
    """A group's scores in pieces that neither a knot of the map nor a threshold runs through; with draws if there is an rng."""
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
    """Draws of the cells' shares around their estimates, (DRAWS, n_cells), from how users are spread over cells.

    By all of their rows; where that was not kept, by those with a known outcome.
    """
    noise = np.zeros((DRAWS, len(view.cells)))
    every = all_pairs(view.tally, view.members[0], view.members[0], view.weighting) if has_unlabelled(view.tally) else None
    weight = view.sums.W if every is None else view.sums.A
    cells = np.flatnonzero(weight > 0)
    if len(cells) > 1:
        pairs = view.at(cells).pairs.ww if every is None else every[np.ix_(cells, cells)]
        share = weight[cells] / weight.sum()
        centred = np.eye(len(share)) - share[:, None]  # w_m - share * (all that the user weighs)
        noise[:, cells] = draw_normal(centred @ pairs @ centred.T / weight.sum() ** 2, rng, DRAWS)
    return noise


@dataclass(frozen=True, slots=True)
class Pieces:
    """The people of a group in pieces, for each of n draws: their share, and the calibrated scores that a piece runs between, each
    (n, n_pieces); start: the score at which a piece begins, (n_pieces,)."""

    mass: Floats
    low: Floats
    high: Floats
    start: Floats

    @classmethod
    def of(cls, scores: Scores, group_map: GroupMap, values: Floats, shares: Floats) -> Pieces:
        """For each draw of the map's knots (n, n_knots) and of the cells' shares (n, n_cells)."""
        return cls(shares[:, scores.cell] * scores.share, *map_ends(group_map, scores, values), scores.low)

    def turned(self, way: int) -> Pieces:
        """With way -1, calibrated scores count from above: what is at or above a cut is at or below it."""
        return replace(self, low=way * self.low, high=way * self.high)

    def above(self, cut: Floats) -> Floats:
        """The share of people whose calibrated score is at or above the draw's cut, (n,)."""
        return np.asarray((self.mass * share_above(self.low, self.high, cut[:, None])).sum(axis=1))

    def above_now(self, cut: float) -> Floats:
        """The share whose score is, (n,); no piece reaches across a threshold."""
        return self.mass @ (self.start >= cut).astype(np.float64)

    def rates(self, cuts: Floats, cuts_after: Floats, positive: str) -> Rates:
        """With thresholds for the scores (n_thresholds,), and for calibrated ones (n, n_thresholds)."""
        rates = np.empty((4, len(self.mass), len(cuts)))
        for number, cut in enumerate(cuts):
            now = (self.start >= cut).astype(np.float64)
            then = share_above(self.low, self.high, cuts_after[:, number, None])
            for rate, share in zip(rates, (now, then, then * (1 - now), (1 - then) * now), strict=True):
                rate[:, number] = np.einsum("dp,dp->d", self.mass, np.broadcast_to(share, self.mass.shape))
        before, after, gained, lost = np.clip(rates, 0, 1)  # draws of shares, and rounding, may pass either end
        return Rates(before, after, gained, lost) if positive == "above" else Rates(1 - before, 1 - after, lost, gained)


def same_thresholds(groups: Sequence[Pieces], cuts: Floats) -> Floats:
    """Calibrated scores are cut where scores are, (n, n_thresholds)."""
    return np.broadcast_to(cuts, (len(groups[0].mass), len(cuts)))


def thresholds_at_same_rate(groups: Sequence[Pieces], weights: Floats, cuts: Floats) -> Floats:
    """Where to cut calibrated scores for the overall share of positive decisions to stay, or to come nearest, (n, n_thresholds)."""
    return np.stack([_cut_at_same_rate(groups, weights / weights.sum(), float(cut)) for cut in cuts], axis=1)


def _cut_at_same_rate(groups: Sequence[Pieces], weights: Floats, cut: float) -> Floats:
    """By bisection; of the two ends that are left, the one with the nearer rate, as values that many people share make steps."""

    def rate(cuts: Floats) -> Floats:
        return np.asarray(sum(w * group.above(cuts) for w, group in zip(weights, groups, strict=True)))

    wanted = np.asarray(sum(w * group.above_now(cut) for w, group in zip(weights, groups, strict=True)))
    low = np.min([np.minimum(group.low, group.high).min(axis=1) for group in groups], axis=0)
    high = np.max([np.maximum(group.low, group.high).max(axis=1) for group in groups], axis=0)
    high = np.nextafter(high, np.inf)  # nobody is at or above it
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        enough = rate(middle) >= wanted
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return np.where(np.abs(rate(low) - wanted) <= np.abs(rate(high) - wanted), low, high)


def map_ends(group_map: GroupMap, scores: Scores, values: Floats) -> tuple[Floats, Floats]:
    """The map at both ends of each piece, (n, n_pieces)."""
    if group_map.identity:
        return tuple(np.broadcast_to(ends, (len(values), len(ends))) for ends in (scores.low, scores.high))  # type: ignore[return-value]
    if group_map.step:
        level = values @ group_map.design(scores.low).T
        return level, level
    return values @ group_map.design(scores.low).T, values @ group_map.design(scores.high).T
