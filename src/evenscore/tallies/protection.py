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

from evenscore.tallies.lattice import Lattice
from evenscore.tallies.moments import Sums
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.tally_state import GroupTally, Tally
from evenscore.types import Floats, Ints

DOMINANT = 4.0  # squares of a cell before merging, over what a merged cell usually has: beyond it one person may stand out
WINDOW = 7  # merged cells from which what is usual is taken
SHARE = 0.25  # of the largest possible contribution of a person: sums are rounded to a power of two that is at least that
PHASE = (5**0.5 - 1) / 2  # multiples of it are spread evenly: where the steps of each sum begin


# Outcomes of a cell, multiplied and moved


def _transformed(tally: Tally, scale: Sequence[Floats], shift: Sequence[Floats]) -> Tally:
    """The tally of outcomes ``scale * y + shift``, by group and cell: (n_cells,) or (2 weightings, n_cells) each."""
    groups = tuple(
        replace(
            group,
            blocks={**group.blocks, "vectors": _moved(group.vectors, a, k), "pairs": _moved_pairs(group.pairs, (a, a), (k, k))},
        )
        for group, a, k in zip(tally.group_tallies, scale, shift, strict=True)
    )
    cross = {(g, h): _moved_pairs(sums, (scale[g], scale[h]), (shift[g], shift[h])) for (g, h), sums in tally.cross.items()}
    return replace(tally, group_tallies=groups, cross_blocks={**tally.cross_blocks, "pairs": cross})


def _moved(sums: Sums, a: Floats, k: Floats) -> Sums:
    v = {name: sums[name] for name in sums.moments.names}
    squares = {
        "Y2": a * a * v["Y2"] + 2 * a * k * v["Y"] + k * k * v["W"],
        "V2": a * a * v["V2"] + 2 * a * k * v["V1"] + k * k * v["V0"],
    }
    means = {"Y": a * v["Y"] + k * v["W"], "XY": a * v["XY"] + k * v["X"], "V1": a * v["V1"] + k * v["V0"]}
    return Sums.from_named(sums.moments, {**v, **means, **squares})


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
    found = np.zeros((2, pairs.n_cells))
    found[:, c[c == d]] = pairs[name][:, c == d]
    return found


def _ratio(top: Floats, bottom: Floats) -> Floats:
    return np.divide(top, bottom, out=np.zeros(np.broadcast_shapes(top.shape, bottom.shape)), where=bottom > 0)


# Clipping: what one person could dominate


def clipped(tally: Tally, cells: Ints) -> Tally:
    """Outcomes drawn towards what is usual around them where the squares of a cell are beyond what is usual for a merged cell.

    ``cells``: the merged cell of each cell. What is usual, mean and variance, is the median of WINDOW neighbouring merged cells,
    which a few people do not move.
    """
    n = int(cells[-1]) + 1
    merged = [group.remapped(cells, n) for group in tally.group_tallies]
    weights = np.stack([_diagonal(group, "ww")[0] for group in merged])
    means = np.stack([_ratio(group.vectors["Y"][0], group.vectors["W"][0]) for group in merged])
    wy, yy = (np.stack([_diagonal(group, name)[0] for group in merged]) for name in ("wy", "yy"))
    variances = _ratio(np.maximum(yy - 2 * means * wy + means**2 * weights, 0), weights)
    near = np.clip(np.arange(n) - WINDOW // 2, 0, max(n - WINDOW, 0))[:, None] + np.arange(min(WINDOW, n))
    there = weights > 0
    usual = np.nanquantile(np.where(there, variances, np.nan)[:, near], 0.5, axis=(0, 2), method="lower")
    scales, shifts = [], []
    for group, own, heavy, some in zip(tally.group_tallies, means, weights, there, strict=True):
        around = np.where(some, own, np.nan)[near] if some.sum() > 2 else np.where(there, means, np.nan).T.ravel()[None]
        centre = np.broadcast_to(np.nan_to_num(_median(around)), n)[cells]
        ww, wy, yy = (_diagonal(group, name)[0] for name in ("ww", "wy", "yy"))
        squares = np.maximum(yy - 2 * centre * wy + centre**2 * ww, 0)
        scale = np.sqrt(np.minimum(1, _ratio(DOMINANT * (heavy * usual)[cells], squares)))
        scale[squares <= DOMINANT * (heavy * usual)[cells]] = 1
        scales.append(scale)
        shifts.append((1 - scale) * centre)
    return _transformed(tally, scales, shifts)


def _median(values: Floats) -> Floats:
    """Of each row; nan in a row without numbers."""
    ordered = np.sort(values, axis=-1)
    middle = np.maximum(np.isfinite(values).sum(axis=-1) - 1, 0) // 2
    return np.take_along_axis(ordered, middle[..., None], axis=-1)[..., 0]


# Rounding: what remains


def rounded(tally: Tally) -> Tally:
    """Every sum in which outcomes are, rounded to a power of two that is at least a quarter of what one person can put into it.

    Means of cells, tilts inside cells and residuals from the mean are rounded each by itself, and all sums made of them again.
    The steps begin elsewhere in each cell and pair of cells, so that many small sums do not all become 0.
    """
    tally = _recentred(tally)
    weights = [group.vectors["W"] for group in tally.group_tallies]
    means = [_ratio(group.vectors["Y"], weight) for group, weight in zip(tally.group_tallies, weights, strict=True)]
    ones = [np.ones_like(mean) for mean in means]
    residual = _transformed(tally, ones, [-mean for mean in means])
    sizes = _sizes(residual)
    widths = _score_widths(tally.lattice)
    phase = _phases(np.arange(tally.lattice.n_cells))
    shifts = []
    for group, weight, size in zip(tally.group_tallies, weights, sizes, strict=True):
        shifts.append(_ratio(_binned(group.vectors["Y"], _step(size), phase) * (weight > 0), weight))
    groups = tuple(
        replace(
            group,
            blocks={
                **group.blocks,
                "vectors": _rounded_vectors(group.vectors, size, widths, phase),
                "pairs": _rounded_pairs(group.pairs, size, size),
            },
        )
        for group, size in zip(residual.group_tallies, sizes, strict=True)
    )
    cross = {(g, h): _rounded_pairs(sums, sizes[g], sizes[h]) for (g, h), sums in residual.cross.items()}
    residual = replace(residual, group_tallies=groups, cross_blocks={**residual.cross_blocks, "pairs": cross})
    return _transformed(residual, ones, shifts)


def _recentred(tally: Tally) -> Tally:
    """Around a round number: the mean of everybody, to every digit, would show what the last person has."""
    weight, outcome, square = (sum(float(group.vectors[name][0].sum()) for group in tally.group_tallies) for name in ("W", "Y", "Y2"))
    mean = outcome / weight
    deviation = np.sqrt(max(square / weight - mean**2, 0.0))
    if deviation == 0:
        return tally
    step = float(_step(np.array(deviation)))
    return tally.recentred(float(step * np.rint((tally.centre + mean) / step)))


def _sizes(residual: Tally) -> list[Floats]:
    """At most how far one person moves a cell's total, (2, n_cells) a group; no less than half of what is usual of all cells."""
    squares = [np.maximum(_diagonal(group, "yy"), 0) for group in residual.group_tallies]
    weights = [_diagonal(group, "ww") for group in residual.group_tallies]
    usual = _ratio(sum(each.sum(axis=1) for each in squares), sum(each.sum(axis=1) for each in weights))[:, None]  # type: ignore[arg-type]
    return [np.sqrt(np.maximum(square, 0.5 * usual * weight)) for square, weight in zip(squares, weights, strict=True)]


def _rounded_vectors(sums: Sums, size: Floats, widths: Floats, phase: Floats) -> Sums:
    v = {name: sums[name] for name in sums.moments.names}
    there = v["W"] > 0
    squares = {name: _binned(v[name], _step(v[name]), phase) * there for name in ("Y2", "V2")}
    tilt = _binned(v["XY"], _step(size) * widths, phase) * there
    first = {"Y": np.zeros_like(tilt), "XY": tilt, "V1": _binned(v["V1"], _step(np.sqrt(np.maximum(v["V2"], 0))))}
    return Sums.from_named(sums.moments, {**v, **first, **squares})


def _rounded_pairs(sums: PairSums, left: Floats, right: Floats) -> PairSums:
    c, d = np.divmod(sums.pairs, sums.n_cells)
    ww, wy, yw, yy = (sums[name] for name in ("ww", "wy", "yw", "yy"))
    most = np.sqrt(np.abs(ww))
    own = np.asarray((c == d) & sums.within)
    product = np.where(own, yy, left[:, c] * right[:, d])
    phase = np.where(own, _phases(c), _phases(c * sums.n_cells + d + 1))
    values = (
        ww,
        _binned(wy, _step(most * right[:, d])),
        _binned(yw, _step(most * left[:, c])),
        _binned(yy, _step(product), phase) * (ww != 0),
    )
    return replace(sums, values=np.stack(values, axis=1))


def _step(largest: Floats) -> Floats:
    """The power of two that is at least SHARE of it; 0 where that is 0."""
    positive = largest > 0
    return np.where(positive, np.exp2(np.ceil(np.log2(np.where(positive, SHARE * largest, 1.0)))), 0.0)


def _binned(values: Floats, step: Floats, phase: Floats | None = None) -> Floats:
    """The middle of the interval of that length in which each value lies; without a phase 0 is the middle of one."""
    offset = 0.5 if phase is None else phase
    steps = np.where(step > 0, step, 1.0)
    return np.where(step > 0, (np.floor(values / steps + offset) - offset + 0.5) * step, 0.0)


def _phases(numbers: Ints) -> Floats:
    return np.asarray((numbers + 1) * PHASE % 1)


# Scores


def _score_widths(lattice: Lattice) -> Floats:
    """How wide cells are in units of the score, (n_cells,); 0 for a cell that is one value."""
    if lattice.discrete:
        return np.zeros(lattice.n_cells)
    edges = lattice.edges if lattice.scale == "rank" else lattice.to_score(lattice.axis_edges)
    ends = [[lattice.low], edges, [lattice.high]] if lattice.scale == "rank" else [edges]
    return np.asarray(np.diff(np.concatenate(ends)))


def score_limits(tally: Tally, min_users: int) -> tuple[float, float]:
    """Beyond which scores a release shows nothing: one person's score is behind the end of the data, but not behind these."""
    lattice = tally.lattice
    if lattice.values is not None:  # the outermost values that so many users have or are beyond
        weight = np.sum([group.vectors["W"][0] for group in tally.group_tallies], axis=0)
        first = int(np.searchsorted(np.cumsum(weight), min_users))
        last = len(weight) - 1 - int(np.searchsorted(np.cumsum(weight[::-1]), min_users))
        return float(lattice.values[min(first, last)]), float(lattice.values[max(first, last)])
    if lattice.scale == "rank" and len(lattice.edges) > 2:
        (low, second), (before, high) = lattice.edges[:2], lattice.edges[-2:]
        return max(lattice.low, float(2 * low - second)), min(lattice.high, float(2 * high - before))
    low, high = lattice.to_score(lattice.axis_edges[[0, -1]]) if lattice.scale != "rank" else (lattice.low, lattice.high)
    return float(low), float(high)


def within_limits(tally: Tally, low: float, high: float) -> Tally:
    """The same with cells' mean scores between the limits; where one is moved, nothing is known about outcomes along the cell."""
    return replace(tally, group_tallies=tuple(_limited(group, low, high) for group in tally.group_tallies))


def _limited(group: GroupTally, low: float, high: float) -> GroupTally:
    v = {name: group.vectors[name] for name in group.vectors.moments.names}
    scores = np.clip(v["X"], v["W"] * low, v["W"] * high)
    along = np.where(scores == v["X"], v["XY"], _ratio(scores, v["W"]) * v["Y"])
    return replace(group, blocks={**group.blocks, "vectors": Sums.from_named(group.vectors.moments, {**v, "X": scores, "XY": along})})
