"""One group, or several together, on cells of the lattice: what every estimate starts from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from evenscore.ratios import ratio
from evenscore.tables import label_text
from evenscore.tallies.group_sums import CellSums, FoldSums, HigherSums
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.moments import sum_cells
from evenscore.tallies.pairs import PairMatrices
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.two_way import few_words
from evenscore.types import Floats, Ints

REST = "the rest"
FEWEST_JOINED = 192  # cells that joined ones are made of at least, and that they divide the axis into
WORTHWHILE = 0.8  # of the cells: joined only when so many are left at most
BULK = np.array([0.05, 0.95])
ROUNDING = 1e-12  # what a difference of equal sums leaves, as a share of them
SUMMED = tuple(name for name in CellSums.__slots__ if name not in ("position", "width", "tilt"))


@dataclass(frozen=True, eq=False)
class GroupView:
    """A group, or several together, on n_cells cells of the lattice under one weighting.

    label: None for everybody. members: positions of its groups in the tally. cells: (n_cells,), numbers on the lattice, of the
    first where several are joined. places: for every cell of the lattice which of these it is in, -1 for none; shares: and its
    share of the weight there. sums: on these cells; score: their mean scores, the middle of a cell without rows. higher: sums of
    third and fourth powers on these cells, None where they were not kept, by fold among others. pairs_at: makes the pair matrices
    of its users for some places, when they are first needed, or None without some users, as pairs are not kept by fold.
    """

    tally: Tally
    lattice: Lattice
    weighting: str
    label: Any
    members: tuple[int, ...]
    n_users: int
    n_rows: int
    cells: Ints
    places: Ints
    shares: Floats
    sums: CellSums
    score: Floats
    higher: HigherSums | None
    pairs_at: Callable[[Ints], PairMatrices | None]

    @classmethod
    def of(cls, tally: Tally, group: Any, weighting: str) -> GroupView:
        """One group, on all cells."""
        index = tally.index(group)
        return _view(tally, weighting, tally.groups[index], (index,), tally.sums(group, weighting))

    @classmethod
    def each(cls, tally: Tally, weighting: str) -> list[GroupView]:
        """Every group, in the tally's order."""
        return [cls.of(tally, group, weighting) for group in tally.groups]

    @classmethod
    def whole(cls, tally: Tally, weighting: str) -> GroupView:
        """All groups together; a user of several keeps the weights of each, so that no further scan is needed."""
        sums = [tally.sums(group, weighting) for group in tally.groups]
        total = {name: np.sum([getattr(own, name) for own in sums], axis=0) for name in SUMMED}
        return _view(tally, weighting, None, tuple(range(len(sums))), CellSums.placed(tally.lattice, total))

    @property
    def name(self) -> str:
        """The label, for people."""
        return label_text(self.label)

    @property
    def few(self) -> str:
        """That it has too few users or items to be judged where variances heed both, with its name; else empty."""
        words = [few_words(self.tally, index) for index in self.members] if self.tally.item is not None else []
        return f"{self.name} has {words[0]}" if words and all(words) else ""

    @cached_property
    def total(self) -> float:
        """The weight of all."""
        return float(self.sums.W.sum())

    @cached_property
    def outcome(self) -> float:
        """The weighted sum of all outcomes, as deviations from the centre."""
        return float(self.sums.Y.sum())

    @cached_property
    def scatter(self) -> float:
        """The weighted sum of squared distances from the mean position."""
        weight, position = self.sums.W, self.sums.position
        mean = weight @ position / self.total if self.total > 0 else 0.0
        return float(weight @ (position - mean) ** 2)

    @cached_property
    def bulk(self) -> Floats:
        """The 5 % and the 95 % quantile of the scores, as positions on the axis."""
        return self.quantiles(BULK)

    @cached_property
    def lattice_weight(self) -> Floats:
        """The weight of every cell of the lattice."""
        return self.on_lattice(self.sums.W)

    @property
    def used(self) -> Ints:
        """The cells that have labelled rows, by their numbers on the lattice."""
        return self.cells[self.occupied]

    @property
    def occupied(self) -> Ints:
        """The same by their places among these cells."""
        return np.flatnonzero(self.sums.W > 0)

    @property
    def residual(self) -> Floats:
        """The sum of w (y - s), (n_cells,): outcomes less scores."""
        return self.sums.Y + self.tally.centre * self.sums.W - self.sums.X

    @property
    def varies(self) -> bool:
        """Whether outcomes differ at all, beyond rounding."""
        squares = float(self.sums.Y2.sum())
        return self.total > 0 and squares - self.mean**2 * self.total > 1e-9 * squares

    @property
    def mean(self) -> float:
        """The mean outcome, as a deviation from the centre."""
        return float(self.sums.Y.sum() / self.sums.W.sum())

    @cached_property
    def seen(self) -> tuple[float, float]:
        """The scores between which rows were seen, up to their cells; an end cell without a limit ends at its mean."""
        ends = np.flatnonzero(self.sums.W > 0)[[0, -1]]
        means = self.score[ends]
        low, high = self.lattice.limits(self.cells[ends], means)
        return float(min(low[0], means[0])), float(max(high[1], means[1]))

    @cached_property
    def pairs(self) -> PairMatrices:
        """The pair matrices of its users, (n_cells, n_cells) each."""
        pairs = self.pairs_at(self.places)
        assert pairs is not None
        return pairs

    @cached_property
    def folds(self) -> FoldSums:
        """The sums by user fold, (n_folds, n_cells) each."""
        folds = [self.tally.folds(self.tally.groups[index], self.weighting) for index in self.members]
        total = {name: np.sum([getattr(own, name) for own in folds], axis=0) for name in FoldSums.__slots__}
        kept = np.flatnonzero(self.places >= 0)
        return FoldSums(**{name: sum_cells(sums[:, kept], self.places[kept], len(self.cells)) for name, sums in total.items()})

    # Fewer cells, or fewer people

    def at(self, cells: Ints) -> GroupView:
        """On some of its cells only."""
        index = np.searchsorted(self.cells, cells)
        sums = CellSums(**{name: getattr(self.sums, name)[index] for name in CellSums.__slots__})
        place = np.full(len(self.cells) + 1, -1)  # the last for places of -1
        place[index] = np.arange(len(index))
        higher = _each(self.higher, lambda own: own[index])
        return replace(self, cells=cells, places=place[self.places], sums=sums, score=self.score[index], higher=higher)

    def joined(self, step: float, fewest: int = FEWEST_JOINED) -> GroupView:
        """On wider cells: those whose middles lie in one step of the axis become one, in which people stay at their mean place.

        Sums stay what they are, and what outcomes do inside the wider cell is known to first order, as in the others. Scores of
        which each is a cell are not joined, nor are so few cells that nothing is gained; ``fewest`` divide the axis.
        """
        if self.lattice.discrete or len(self.cells) <= fewest:
            return self
        edges = self.lattice.axis_edges
        step = min(step, float(edges[-1] - edges[0]) / fewest)
        if step not in self._joined:
            number = np.floor((edges[1:] + edges[:-1])[self.cells] / (2 * step))
            starts = np.flatnonzero(np.diff(number, prepend=-np.inf))
            self._joined[step] = self if len(starts) > WORTHWHILE * len(self.cells) else self._joined_at(starts)
        return self._joined[step]

    @cached_property
    def _joined(self) -> dict[float, GroupView]:
        """Made once for all comparisons with like bandwidths."""
        return {}

    def _joined_at(self, starts: Ints) -> GroupView:
        """The same where cells from one of these positions up to the next are one."""
        sums, ends = self.sums, np.append(starts[1:], len(self.cells)) - 1
        place = np.append(np.repeat(np.arange(len(starts)), ends - starts + 1), -1)  # the last for places of -1

        def total(values: Floats) -> Floats:
            return np.add.reduceat(values, starts)

        def mean(values: Floats) -> Floats:
            weight = np.where(total(sums.W)[place[:-1]] > 0, sums.W, 1.0)
            return total(weight * values) / total(weight)

        counted = {name: total(getattr(sums, name)) for name in SUMMED}
        position, edges = mean(sums.position), self.lattice.axis_edges
        joined = CellSums(
            **counted | {"N": np.minimum(counted["N"], self.n_users)},
            position=position,
            width=edges[self.cells[ends] + 1] - edges[self.cells[starts]],
            tilt=total(sums.tilt + sums.Y * (sums.position - position[place[:-1]])),
        )
        places = place[self.places]
        weight, whole = self.on_lattice(sums.W), np.append(joined.W, 0.0)[places]
        return replace(
            self,
            cells=self.cells[starts],
            places=places,
            shares=ratio(weight, whole),
            sums=joined,
            score=mean(self.score),
            higher=_each(self.higher, total),
        )

    def only(self, cells: Ints) -> GroupView:
        """The people of some cells only; the others stay where they are, with nobody in them."""
        inside = np.isin(self.cells, cells)
        counted = {name: np.where(inside, getattr(self.sums, name), 0.0) for name in (*SUMMED, "tilt")}
        higher = _each(self.higher, lambda own: np.where(inside, own, 0.0))
        return replace(self, sums=replace(self.sums, **counted), higher=higher)

    def less(self, own: GroupView) -> GroupView:
        """The rest: its people without those of one of its groups, on the same cells."""
        left = {name: getattr(self.sums, name) - getattr(own.sums, name) for name in SUMMED}
        gone = left["W"] <= ROUNDING * self.sums.W
        sums = CellSums.placed(self.lattice, {name: np.where(gone, 0.0, value) for name, value in left.items()})
        members = tuple(index for index in self.members if index not in own.members)

        def pairs_at(places: Ints) -> PairMatrices:
            pairs, ours = self.pairs_at(places), own.pairs_at(places)
            assert pairs is not None and ours is not None
            shared = _pairs_between(self.tally, own.members, members, self.weighting, places)
            return pairs - ours if shared is None else pairs - ours - shared - shared.transposed()

        remaining = _view(self.tally, self.weighting, REST, members, sums, pairs_at)
        higher = None if self.higher is None else _each(remaining.higher, lambda own: np.where(gone, 0.0, own))
        return replace(remaining, higher=higher)

    def without_folds(self) -> list[GroupView]:
        """Without each user fold; inside a cell, and about pairs of cells, nothing is known then."""
        flat = np.zeros_like(self.sums.W)
        left = zip(*self.fold_rests(), strict=True)
        return [replace(self, sums=replace(self.sums, W=w, Y=y, tilt=flat), higher=None, pairs_at=no_pairs) for w, y in left]

    def fold_rests(self) -> tuple[Floats, Floats]:
        """Weight and outcome without each user fold, (n_folds, n_cells)."""
        weight = self.sums.W - self.folds.W
        gone = weight <= ROUNDING * self.sums.W
        return np.where(gone, 0.0, weight), np.where(gone, 0.0, self.sums.Y - self.folds.Y)

    def fold_losses(self, fits: Floats) -> Floats:
        """Squared errors on the users left out, (n_folds, n_cells), for fits at the cells without each fold."""
        folds = self.folds
        return np.where(folds.W > 0, folds.Y2 - 2 * fits * folds.Y + fits**2 * folds.W, 0.0)

    # Where people are, and what estimates of them rest on

    def on_lattice(self, values: Floats) -> Floats:
        """Values of its cells as values of every cell of the lattice, 0 elsewhere; of joined cells, by the weight of each."""
        return np.append(values, 0.0)[self.places] * self.shares

    def everywhere(self, values: Floats) -> Floats:
        """What holds at each of its cells, for every cell of the lattice; 0 elsewhere."""
        return np.append(values, 0.0)[self.places]

    def quantiles(self, levels: Floats) -> Floats:
        """Quantiles of the scores, as positions on the axis."""
        return quantiles(self.lattice, self.lattice_weight, levels)

    def shared_pairs(self, other: GroupView) -> PairMatrices | None:
        """The pair matrices between two views on the same cells; None when nobody is in both."""
        return _pairs_between(self.tally, self.members, other.members, self.weighting, self.places)

    def effective_users(self, matrix: Floats) -> Floats:
        """How many users linear estimates rest on: 1 / (l Pww l')[j, j] for l = matrix (n_points, n_cells), (n_points,)."""
        squares = np.einsum("jc,jc->j", matrix @ self.pairs.ww, matrix)
        return np.divide(1, squares, out=np.zeros_like(squares), where=squares != 0)  # 0 only if sums contradict each other

    def covariance(self, matrix: Floats, fitted: Floats) -> Floats:
        """The user-robust covariance of linear estimates, (n_points, n_points); see ``residual_covariance``."""
        return residual_covariance(self.pairs, matrix, fitted, matrix, fitted)


def _view(
    tally: Tally,
    weighting: str,
    label: Any,
    members: tuple[int, ...],
    sums: CellSums,
    pairs_at: Callable[[Ints], PairMatrices | None] | None = None,
) -> GroupView:
    """A view on all cells."""
    groups = [group for group in map(tally.group_tallies.__getitem__, members) if group.has_weight]
    return GroupView(
        tally=tally,
        lattice=tally.lattice,
        weighting=weighting,
        label=label,
        members=members,
        n_users=sum(group.n_users for group in groups),
        n_rows=sum(group.n_rows for group in groups),
        cells=np.arange(tally.lattice.n_cells),
        places=np.arange(tally.lattice.n_cells),
        shares=np.ones(tally.lattice.n_cells),
        sums=sums,
        score=_mean_scores(tally.lattice, sums),
        higher=_higher_sums(tally, members, weighting),
        pairs_at=pairs_at or partial(_pairs_between, tally, members, members, weighting),
    )


def _higher_sums(tally: Tally, members: Sequence[int], weighting: str) -> HigherSums | None:
    every = [tally.higher(tally.groups[index], weighting) for index in members]
    known = [sums for sums in every if sums is not None]
    if not known or len(known) < len(every):
        return None
    return HigherSums(**{name: np.sum([getattr(own, name) for own in known], axis=0) for name in HigherSums.__slots__})


def _each(higher: HigherSums | None, change: Callable[[Floats], Floats]) -> HigherSums | None:
    return None if higher is None else HigherSums(**{name: change(getattr(higher, name)) for name in HigherSums.__slots__})


def no_pairs(_cells: Ints) -> None:
    """Users left out by fold: what the others put into pairs of cells is not known."""


def _mean_scores(lattice: Lattice, sums: CellSums) -> Floats:
    if lattice.values is not None:
        return lattice.values
    middle = lattice.to_score(sums.position).copy()
    return np.divide(sums.X, sums.W, out=middle, where=sums.W > 0)


def _pairs_between(tally: Tally, left: Sequence[int], right: Sequence[int], weighting: str, places: Ints) -> PairMatrices | None:
    """The pair matrices of all groups on the left with all on the right; of several the last ones are kept for who asks again."""
    if len(left) * len(right) == 1:
        return _pairs_of_two(tally, left[0], right[0], weighting, places)
    key, wanted = ("pairs", weighting), (tuple(left), tuple(right), places.tobytes())
    kept = tally.made.get(key)
    if kept is None or kept[0] != wanted:
        total: PairMatrices | None = None
        for a in left:
            for b in right:
                pairs = _pairs_of_two(tally, a, b, weighting, places)
                total = pairs if total is None else total if pairs is None else total + pairs
        kept = tally.made[key] = (wanted, total)
    return kept[1]


def _pairs_of_two(tally: Tally, a: int, b: int, weighting: str, places: Ints) -> PairMatrices | None:
    return tally.pair_matrices(tally.groups[a], tally.groups[b], weighting, places) if a == b or tally.tied else None


def quantiles(lattice: Lattice, weight: Floats, levels: Floats) -> Floats:
    """Quantiles of a distribution given by the weight of all cells, as positions on the axis.

    Linear inside a cell; where people share one score, that score.
    """
    cumulative = np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum()
    if lattice.discrete:
        cells = np.searchsorted(cumulative[1:], levels - 1e-12).clip(max=len(weight) - 1)
        return lattice.positions(np.zeros(len(weight)))[cells]
    rises = np.diff(cumulative) > 0
    used = np.concatenate([[True], rises]) | np.concatenate([rises, [True]])
    return lattice.snap(np.interp(levels, cumulative[used], lattice.axis_edges[used]))


def residual_covariance(pairs: PairMatrices, l_a: Floats, a: Floats, l_b: Floats, b: Floats) -> Floats:
    """The covariance of two curves from the residuals of users: sum_m (l_a y_m - a w_m)(l_b y_m - b w_m)', (n_points, n_points).

    l are smoother matrices and a, b the same times the fit that residuals are taken from, each (n_points, n_cells).
    """
    return l_a @ pairs.yy @ l_b.T - a @ pairs.wy @ l_b.T - l_a @ pairs.yw @ b.T + a @ pairs.ww @ b.T
