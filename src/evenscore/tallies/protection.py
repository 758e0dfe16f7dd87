"""Outcomes and scores of a tally that is handed out: clipped where one person could stand out, and rounded everywhere.

Counts say how many people are behind a sum, not whether one of them is nearly all of it. No rows are at hand, but sums are enough:
multiplying the outcomes of a cell and moving them changes every sum as it would change with the rows, so that what is clipped is a
tally of clipped rows. And nobody is further from a cell's mean than the root of its sum of squares over users, which is also about
the standard error of the cell's total: rounding to a quarter of it hides a person and hardly touches an estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evenscore.ratios import ratio
from evenscore.tallies.group_sums import GroupTally
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.moments import Sums
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.reshaping import pair_block, recentre, with_pair_block
from evenscore.tallies.tally_state import Tally
from evenscore.types import Floats, Ints

DOMINANT = 8.0  # squares of a cell before merging, over what a merged cell usually has: beyond it one person may stand out
WINDOW = 7  # merged cells from which what is usual is taken,
TRIMMED = 0.1  # without this share of their cells before merging
FEW = 5  # means of fewer cells are no median to rely on
SHARE = 0.25  # of the largest possible contribution of a person: sums are rounded to a power of two that is at least that
PHASE = (5**0.5 - 1) / 2  # multiples of it are spread evenly: where the steps of each sum begin


# Outcomes of a cell, multiplied and moved


def _transformed(tally: Tally, scale: Sequence[Floats] | Floats, shift: Sequence[Floats] | Floats) -> Tally:
    """The tally of outcomes ``scale * y + shift``, by group and cell: (n_cells,) or (2 weightings, n_cells) each."""
    groups = tuple(
        group.with_blocks(vectors=_moved(group.vectors, a, k))
        for group, a, k in zip(tally.group_tallies, scale, shift, strict=True)
    )
    pairs = {
        (g, h): _moved_pairs(sums, (scale[g], scale[h]), (shift[g], shift[h]))
        for (g, h), sums in pair_block(tally, "pairs").items()
    }
    return with_pair_block(replace(tally, group_tallies=groups), "pairs", pairs)


def _moved(sums: Sums, a: Floats, k: Floats) -> Sums:
    v = sums.named
    return sums.with_sums(
        Y=a * v["Y"] + k * v["W"],
        XY=a * v["XY"] + k * v["X"],
        V1=a * v["V1"] + k * v["V0"],
        Y2=a * a * v["Y2"] + 2 * a * k * v["Y"] + k * k * v["W"],
        V2=a * a * v["V2"] + 2 * a * k * v["V1"] + k * k * v["V0"],
    )


def _moved_pairs(sums: PairSums, scales: tuple[Floats, Floats], shifts: tuple[Floats, Floats]) -> PairSums:
    c, d = np.divmod(sums.pairs, sums.n_cells)
    (a, b), (k, m) = ((left[..., c], right[..., d]) for left, right in (scales, shifts))
    ww, wy, yw, yy = (sums[name] for name in ("ww", "wy", "yw", "yy"))
    moved = (ww, b * wy + m * ww, a * yw + k * ww, a * b * yy + a * m * yw + k * b * wy + k * m * ww)
    return replace(sums, values=np.stack(moved, axis=1))


def _diagonal(group: GroupTally, name: str) -> Floats:
    """A pair sum of each cell with itself, (2, n_cells)."""
    pairs = group.pairs
    c, d = np.divmod(pairs.pairs, pairs.n_cells)
    sums = np.zeros((2, pairs.n_cells))
    sums[:, c[c == d]] = pairs[name][:, c == d]
    return sums


# Clipping: what one person could dominate


def clipped(tally: Tally, cells: Ints) -> Tally:
    """Outcomes drawn towards what is usual around them, where the squares of a cell are far beyond what a merged cell usually has.

    ``cells``: the merged cell of each cell. What is usual is taken from WINDOW merged cells around, in ways that a few people
    do not move: the median of the means of their cells, and the squares per user without the largest.
    """
    weight, outcome = (np.stack([group.vectors[name][0] for group in tally.group_tallies]) for name in ("W", "Y"))
    ww, wy, yy = (np.stack([_diagonal(group, name)[0] for group in tally.group_tallies]) for name in ("ww", "wy", "yy"))
    n = int(cells[-1]) + 1
    heavy = np.stack([_diagonal(group.remapped(cells, n), "ww")[0] for group in tally.group_tallies])
    scale, shift = np.ones_like(ww), np.zeros_like(ww)
    for cell in range(n):
        first = max(0, min(cell - WINDOW // 2, n - WINDOW))
        near = slice(*np.searchsorted(cells, [first, first + WINDOW]))
        centre = _typical_means(outcome[:, near], weight[:, near])[:, None]
        squares = np.maximum(yy[:, near] - 2 * centre * wy[:, near] + centre**2 * ww[:, near], 0)
        most = DOMINANT * _typical_square(squares, ww[:, near]) * heavy[:, [cell]]
        own = cells[near] == cell
        inside = cells == cell
        scale[:, inside] = np.sqrt(np.where(squares > most, ratio(np.broadcast_to(most, squares.shape), squares), 1.0))[:, own]
        shift[:, inside] = (1 - scale[:, inside]) * centre
    return _transformed(tally, scale, shift)


def _typical_means(outcome: Floats, weight: Floats) -> Floats:
    """The median of the cells' means, by group; of all groups for one with few cells."""
    means = ratio(outcome, weight)
    every = means[weight > 0]
    of_groups = [mean[used] for mean, used in zip(means, weight > 0, strict=True)]
    return np.array([np.median(own if len(own) >= FEW else every) for own in of_groups])


def _typical_square(squares: Floats, weight: Floats) -> float:
    """Squares per user, without the tenth of the cells where they are largest."""
    used = weight > 0
    ratio, kept = squares[used] / weight[used], weight[used]
    order = np.argsort(ratio)[: max(1, int(len(ratio) * (1 - TRIMMED)))]
    return float((ratio * kept)[order].sum() / kept[order].sum())


# Rounding: what remains


def rounded(tally: Tally) -> Tally:
    """Every sum in which outcomes are, rounded to a power of two that is at least a quarter of what one person can put into it.

    Means of cells, tilts inside cells and products of residuals from the mean are rounded each by itself, and all sums made of them
    again. Sums of weight times residual, which hardly matter, are taken as 0, so that they tell nothing.
    The steps begin elsewhere in each cell and pair of cells, so that many small sums do not all become 0.
    """
    tally = _recentred(tally)
    weights = [group.vectors["W"] for group in tally.group_tallies]
    means = [ratio(group.vectors["Y"], weight) for group, weight in zip(tally.group_tallies, weights, strict=True)]
    ones = [np.ones_like(mean) for mean in means]
    residual = _transformed(tally, ones, [-mean for mean in means])
    sizes = _sizes(residual)
    widths = _score_widths(tally.lattice)
    phase = _phases(np.arange(tally.lattice.n_cells))
    shifts = []
    for group, weight, size in zip(tally.group_tallies, weights, sizes, strict=True):
        shifts.append(ratio(_binned(group.vectors["Y"], _step(size), phase) * (weight > 0), weight))
    own = residual.group_tallies
    groups = tuple(
        group.with_blocks(vectors=_rounded_vectors(group.vectors, size, widths, phase))
        for group, size in zip(own, sizes, strict=True)
    )
    pairs = {
        (g, h): _rounded_pairs(sums, (own[g], own[h]), (sizes[g], sizes[h]))
        for (g, h), sums in pair_block(residual, "pairs").items()
    }
    residual = with_pair_block(replace(residual, group_tallies=groups), "pairs", pairs)
    return replace(_transformed(residual, ones, shifts), rounded=True)


def _recentred(tally: Tally) -> Tally:
    """Around a round number: the mean of everybody, to every digit, would show what the last person has."""
    weight, outcome, square = (
        sum(float(group.vectors[name][0].sum()) for group in tally.group_tallies) for name in ("W", "Y", "Y2")
    )
    mean = outcome / weight
    deviation = np.sqrt(max(square / weight - mean**2, 0.0))
    if deviation == 0:
        return tally
    step = float(_step(np.array(deviation)))
    return recentre(tally, float(step * np.rint((tally.centre + mean) / step)))


def _sizes(residual: Tally) -> list[Floats]:
    """At most how far one person moves a cell's total, (2, n_cells) a group; no less than half of what is usual of all cells."""
    squares = [np.maximum(_diagonal(group, "yy"), 0) for group in residual.group_tallies]
    weights = [_diagonal(group, "ww") for group in residual.group_tallies]
    usual = ratio(sum(square.sum(axis=1) for square in squares), sum(weight.sum(axis=1) for weight in weights))[:, None]
    return [np.sqrt(np.maximum(square, 0.5 * usual * weight)) for square, weight in zip(squares, weights, strict=True)]


def _rounded_vectors(sums: Sums, size: Floats, widths: Floats, phase: Floats) -> Sums:
    weight = sums["W"]
    used, nothing = weight > 0, np.zeros_like(weight)
    squares = _binned(sums["Y2"], _step(sums["Y2"]), phase) * used
    tilt = _binned(sums["XY"], _step(size) * widths, phase) * used
    return sums.with_sums(Y=nothing, XY=tilt, Y2=squares, V1=nothing, V2=squares * ratio(sums["V0"], weight))


def _rounded_squares(group: GroupTally) -> Floats:
    """Squares of residuals over users, (2, n_cells)."""
    squares = _diagonal(group, "yy")
    return _binned(squares, _step(squares), _phases(np.arange(squares.shape[1]))) * (_diagonal(group, "ww") > 0)


def _rounded_pairs(sums: PairSums, groups: tuple[GroupTally, GroupTally], sizes: tuple[Floats, Floats]) -> PairSums:
    """Products of residuals: squares by cell, and for pairs of cells one correlation for those about as far apart.

    A person with rows in many cells is in many pairs, and would be found where all their intervals meet.
    """
    c, d = np.divmod(sums.pairs, sums.n_cells)
    own = np.asarray((c == d) & sums.within)
    ww, yy = sums["ww"], np.where(own, 0.0, sums["yy"])
    left, right = (np.sqrt(ratio(_rounded_squares(group), _diagonal(group, "ww"))) for group in groups)
    expected = np.where(own, 0.0, ww * left[:, c] * right[:, d])
    apart = np.frexp(np.abs(c - d))[1]
    largest = np.prod([np.sqrt((size**2).sum(axis=1)) for size in sizes], axis=0)
    products = np.empty_like(yy)
    for weighting in range(2):
        of_all, usual = (np.bincount(apart, values[weighting]).astype(np.float64) for values in (yy, expected))
        step = np.broadcast_to(_step(largest[weighting]), of_all.shape)
        correlation = np.clip(ratio(_binned(of_all, step, _phases(np.arange(len(of_all)))), usual), -1, 1)
        products[weighting] = correlation[apart] * expected[weighting]
    products[:, own] = _rounded_squares(groups[0])[:, c[own]]
    nothing = np.zeros_like(ww)
    return replace(sums, values=np.stack([ww, nothing, nothing, products], axis=1))


def _step(largest: Floats) -> Floats:
    """The power of two that is at least SHARE of it; 0 where that is 0."""
    positive = largest > 0
    return np.where(positive, np.exp2(np.ceil(np.log2(np.where(positive, SHARE * largest, 1.0)))), 0.0)


def _binned(values: Floats, step: Floats, phase: Floats) -> Floats:
    """The middle of the interval of that length in which each value lies; intervals begin at ``-phase`` times their length."""
    steps = np.where(step > 0, step, 1.0)
    return np.where(step > 0, (np.floor(values / steps + phase) - phase + 0.5) * step, 0.0)


def _phases(numbers: Ints) -> Floats:
    return np.asarray((numbers + 1) * PHASE % 1)


# Scores


def _score_widths(lattice: Lattice) -> Floats:
    """How wide cells are in units of the score, (n_cells,); 0 for a cell that is one value."""
    if lattice.discrete:
        return np.zeros(lattice.n_cells)
    return np.diff(lattice.to_score(lattice.axis_edges))


def score_limits(tally: Tally, min_users: int) -> tuple[float, float]:
    """Beyond which scores a release shows nothing: one person's score is behind the end of the data, but not behind these."""
    lattice = tally.lattice
    if lattice.values is not None:  # the outermost values that so many users have or are beyond
        weight = np.sum([group.vectors["W"][0] for group in tally.group_tallies], axis=0)
        first = int(np.searchsorted(np.cumsum(weight), min_users))
        last = len(weight) - 1 - int(np.searchsorted(np.cumsum(weight[::-1]), min_users))
        return float(lattice.values[min(first, last)]), float(lattice.values[max(first, last)])
    if lattice.ends_at_data and len(lattice.edges) > 2:
        (low, second), (before, high) = lattice.edges[:2], lattice.edges[-2:]
        return max(lattice.low, float(2 * low - second)), min(lattice.high, float(2 * high - before))
    low, high = lattice.to_score(lattice.axis_edges[[0, -1]]) if lattice.scale != "rank" else (lattice.low, lattice.high)
    return float(low), float(high)


def within_limits(tally: Tally, low: float, high: float) -> Tally:
    """The same with cells' mean scores between the limits; where one is moved, nothing is known about outcomes along the cell."""
    return replace(tally, group_tallies=tuple(_limited(group, low, high) for group in tally.group_tallies))


def _limited(group: GroupTally, low: float, high: float) -> GroupTally:
    v = group.vectors.named
    scores = np.clip(v["X"], v["W"] * low, v["W"] * high)
    along = np.where(scores == v["X"], v["XY"], ratio(scores, v["W"]) * v["Y"])
    return group.with_blocks(vectors=group.vectors.with_sums(X=scores, XY=along))
