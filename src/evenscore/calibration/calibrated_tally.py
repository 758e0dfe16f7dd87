"""A tally as it would be with calibrated scores: every cell moves as a whole to where the map sends its mean score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.maps import GroupMap, mean_scores
from evenscore.errors import DataError, listing, require_option
from evenscore.tallies.lattice import MAX_CELLS, Lattice
from evenscore.tallies.pairs import WW, WY, YW, YY, PairSums
from evenscore.tallies.tally_state import VECTORS, GroupTally, Tally
from evenscore.types import Floats, Ints

W, Y, X, XY = (VECTORS.index(name) for name in ("W", "Y", "X", "XY"))


def calibrated_tally(tally: Tally, calibrator: Calibrator, on_unknown: str = "error") -> Tally:
    """The tally of the calibrated scores, from the tally of the old ones.

    Rows of one cell stay together, so that nothing but sums is needed; a group the calibrator does not know is an error, or
    has the pooled map, or keeps its scores.
    """
    maps = carried_maps(tally, calibrator, on_unknown)
    scores = {group: mean_scores(tally, tally.sums(group)) for group in tally.groups}
    moved = {group: scores[group] if maps[group] is None else maps[group].at(scores[group]) for group in tally.groups}  # type: ignore[union-attr]
    lattice = _lattice(tally, calibrator, moved)
    cells = {group: lattice.cell(values) for group, values in moved.items()}
    parts = tuple(
        _carried(part, maps[group], scores[group], cells[group], lattice.n_cells)
        for group, part in zip(tally.groups, tally.parts, strict=True)
    )
    cross = {
        (a, b): carried_pairs(sums, cells[tally.groups[a]], cells[tally.groups[b]], lattice.n_cells)
        for (a, b), sums in tally.cross.items()
    }
    return replace(tally, lattice=lattice, parts=parts, cross=cross)


def carried_maps(tally: Tally, calibrator: Calibrator, on_unknown: str) -> Mapping[Any, GroupMap | None]:
    """The map of each group; None keeps the scores."""
    require_option("on_unknown", on_unknown, ("error", "pooled", "keep"))
    known = {(type(group), group) for group in calibrator.groups}
    strangers = [group for group in tally.groups if (type(group), group) not in known]
    if strangers and on_unknown == "error":
        raise DataError(
            f"the calibrator does not know {listing(map(repr, strangers))}; it knows {listing(map(repr, calibrator.groups))}. "
            "on_unknown='pooled' gives them the map of everybody, on_unknown='keep' leaves their scores as they are"
        )
    kept = strangers if on_unknown == "keep" else []
    return {group: None if group in kept else calibrator.map_of(group, unknown="pooled") for group in tally.groups}


def _lattice(tally: Tally, calibrator: Calibrator, moved: Mapping[Any, Floats]) -> Lattice:
    """The old lattice on the scale of a reference, else one over the range of the calibrated scores."""
    if calibrator.reference is not None and not tally.lattice.discrete:
        return tally.lattice
    used = np.concatenate([moved[group][tally.sums(group).A > 0] for group in tally.groups])
    distinct = np.unique(used)
    if len(distinct) <= MAX_CELLS:
        return Lattice.from_values(distinct)
    return Lattice(float(distinct[0]), float(distinct[-1]))


def _carried(part: GroupTally, group_map: GroupMap | None, score: Floats, cells: Ints, n_cells: int) -> GroupTally:
    """One group's sums on the new cells."""
    slope = np.ones_like(score) if group_map is None else _slopes(group_map, score)

    def at(values: Floats) -> Floats:
        return values if group_map is None else group_map.at(values)

    def total(sums: Floats) -> Floats:
        found = np.zeros((*sums.shape[:-1], n_cells))
        np.add.at(np.moveaxis(found, -1, 0), cells, np.moveaxis(sums, -1, 0))
        return found

    vectors, folds = part.vectors.copy(), part.folds.copy()
    for sums in vectors:
        mean = np.divide(sums[X], sums[W], out=score.copy(), where=sums[W] > 0)
        sums[XY] = at(mean) * sums[Y] + slope * (sums[XY] - mean * sums[Y])
        sums[X] = at(mean) * sums[W]
    for sums in folds:
        mean = np.divide(sums[2], sums[0], out=np.broadcast_to(score, sums[2].shape).copy(), where=sums[0] > 0)
        sums[2] = at(mean) * sums[0]
    users = np.minimum(total(part.cell_users), part.n_users)  # a user of two cells that became one counts twice at most here
    return replace(
        part, vectors=total(vectors), folds=total(folds), cell_users=users, pairs=carried_pairs(part.pairs, cells, cells, n_cells)
    )


def _slopes(group_map: GroupMap, score: Floats) -> Floats:
    """The slope of a map at scores; 0 where it is held constant."""
    if group_map.identity:
        return np.ones_like(score)
    at = np.searchsorted(group_map.score, score, side="right") - 1
    return np.where(at >= 0, group_map.slope[np.maximum(at, 0)], 0.0)


def carried_pairs(sums: PairSums, left: Ints, right: Ints, n_cells: int) -> PairSums:
    """Pair sums where old cells c and d become left[c] and right[d]; several old cells may become one."""
    old = sums.pairs.astype(np.int64)
    c, d = left[old // sums.n_cells], right[old % sums.n_cells]
    terms = sums.values
    if sums.within:
        # Only c <= d is kept: a pair in the other order is turned, and one whose cells have become one stands for both orders.
        turned = c > d
        c, d = np.where(turned, d, c), np.where(turned, c, d)
        terms = np.where(turned, terms[:, [WW, YW, WY, YY]], terms)
        merged = (c == d) & (old // sums.n_cells != old % sums.n_cells)
        terms = np.where(merged, terms + terms[:, [WW, YW, WY, YY]], terms)
    return PairSums.from_terms(n_cells, sums.within, c * n_cells + d, terms)
