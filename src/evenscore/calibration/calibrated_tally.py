"""A tally as it would be with calibrated scores: every cell moves as a whole to where the map sends its mean score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.maps import GroupMap, mean_scores
from evenscore.errors import DataError, listing, require_option
from evenscore.tallies.blocks import BLOCKS, REQUIRED
from evenscore.tallies.group_sums import GroupTally
from evenscore.tallies.lattice import MAX_CELLS, Lattice
from evenscore.tallies.moments import Sums
from evenscore.tallies.reshaping import drop_blocks, remap
from evenscore.tallies.scale_choice import FEW_VALUES
from evenscore.tallies.tally_state import Tally
from evenscore.types import Floats


def calibrated_tally(tally: Tally, calibrator: Calibrator, on_unknown: str = "error") -> Tally:
    """The tally of the calibrated scores, from the tally of the old ones.

    Rows of one cell stay together, so that nothing but sums is needed; a group the calibrator does not know is an error, or
    has the pooled map, or keeps its scores.
    """
    maps = carried_maps(tally, calibrator, on_unknown)
    scores = {group: mean_scores(tally, tally.sums(group)) for group in tally.groups}
    moved = {group: scores[group] if maps[group] is None else maps[group].at(scores[group]) for group in tally.groups}  # type: ignore[union-attr]
    lattice = _lattice(tally, calibrator, moved)
    tally = drop_blocks(tally, _blocks_of_scores(tally), "its sums are about scores before they were calibrated")
    rescored = tuple(_rescored(group, maps[label], scores[label]) for label, group in tally.by_group)
    return remap(replace(tally, group_tallies=rescored), lattice, [lattice.cell(moved[label]) for label in tally.groups])


def on_other_scales(tally: Tally) -> list[Tally]:
    """The same tally on each other scale; none when every group has so few scores that they are not smoothed."""
    lattice = tally.lattice
    known = np.stack([tally.sums(group).W > 0 for group in tally.groups])
    if lattice.discrete and known.sum(axis=1).max() <= FEW_VALUES:
        return []
    weight = np.sum([tally.sums(group).A for group in tally.groups], axis=0)
    inner = lattice.values if lattice.values is not None else lattice.edges
    scales = ("score", "logit", "rank") if inner[0] > 0 and inner[-1] < 1 else ("score", "rank")
    return [replace(tally, lattice=lattice.only_on(scale, weight / weight.sum())) for scale in scales if scale != lattice.scale]


def carried_maps(tally: Tally, calibrator: Calibrator, on_unknown: str) -> Mapping[Any, GroupMap | None]:
    """The map of each group; None keeps the scores."""
    require_option("on_unknown", on_unknown, ("error", "pooled", "keep"))
    known = {(type(group), group) for group in calibrator.groups}
    strangers = [group for group in tally.groups if (type(group), group) not in known]
    if strangers and on_unknown == "error":
        raise DataError(
            f"the calibrator does not know {listing(map(repr, strangers))}; it knows {listing(map(repr, calibrator.groups))}. "
            "on_unknown='pooled' gives them the pooled map, on_unknown='keep' leaves their scores as they are"
        )
    kept = strangers if on_unknown == "keep" else []
    return {group: None if group in kept else calibrator.map_of(group, unknown="pooled") for group in tally.groups}


def _lattice(tally: Tally, calibrator: Calibrator, moved: Mapping[Any, Floats]) -> Lattice:
    """The old lattice on the scale of a reference, else one over the range of the calibrated scores."""
    if calibrator.reference is not None and not tally.lattice.discrete:
        return tally.lattice
    used = np.concatenate([moved[group][tally.sums(group).A > 0] for group in tally.groups])
    distinct, scale = np.unique(used), "auto" if tally.lattice.auto else "score"
    if len(distinct) <= MAX_CELLS:
        return Lattice.from_values(distinct, scale=scale)
    return Lattice(float(distinct[0]), float(distinct[-1]), scale=scale)


def _blocks_of_scores(tally: Tally) -> set[str]:
    """Optional blocks with sums of scores, which nothing here can change."""
    optional = set(tally.block_names) - set(REQUIRED)
    return {name for name in optional if any(f.x for factors in BLOCKS[name].moments.factors.values() for f in factors)}


def _rescored(group: GroupTally, group_map: GroupMap | None, score: Floats) -> GroupTally:
    """The sums of one group with calibrated scores, on the old cells; a map of None keeps the scores."""
    if group_map is None:
        return group
    slope = _slopes(group_map, score)

    def rescore(sums: Sums) -> Sums:
        weight, outcome = sums["W"], sums["Y"]
        mean = np.divide(sums["X"], weight, out=np.broadcast_to(score, weight.shape).copy(), where=weight > 0)
        changes = {"X": group_map.at(mean) * weight}
        if "XY" in sums.moments.names:
            changes["XY"] = group_map.at(mean) * outcome + slope * (sums["XY"] - mean * outcome)
        return sums.with_sums(**changes)

    return group.with_blocks(vectors=rescore(group.vectors), folds=rescore(group.folds))


def _slopes(group_map: GroupMap, score: Floats) -> Floats:
    """The slope of a map at scores; 0 where it is held constant."""
    if group_map.identity:
        return np.ones_like(score)
    at = np.searchsorted(group_map.score, score, side="right") - 1
    return np.where(at >= 0, group_map.slope[np.maximum(at, 0)], 0.0)
