"""Fair thresholds at many present thresholds: curves are fitted once, and only what changes with the threshold is solved anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenscore.errors import DataError
from evenscore.estimation.direction import outcomes_rise
from evenscore.estimation.smoothing import Smoothing
from evenscore.marginal.cut import make_cuts
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.view import GroupView
from evenscore.thresholds import FEWEST_USERS, Solution, group_threshold, make_rungs
from evenscore.thresholds.solver import solve
from evenscore.thresholds.thresholds_result import GroupThreshold
from evenscore.types import Floats


@dataclass(frozen=True, slots=True)
class Tried:
    """What ``es.fair_thresholds`` gives at one threshold, without limits and remarks."""

    threshold: float
    groups: tuple[GroupThreshold, ...]


def edges_of(tally: Tally) -> Floats:
    """The thresholds that a tally knows exactly: edges between cells, or values."""
    lattice = tally.lattice
    return lattice.values[1:] if lattice.values is not None else lattice.edges


def try_thresholds(tally: Tally, thresholds: Sequence[float], *, positive: str, weighting: str) -> list[Tried]:
    """Fair thresholds with the same overall rate, at each threshold at which outcomes of every group are known on both sides."""
    views = GroupView.each(tally, weighting)
    if any(view.n_users < FEWEST_USERS for view in views):
        raise DataError(f"a group has fewer than {FEWEST_USERS} users with a known outcome")
    usable = [value for value in thresholds if _known_on_both_sides(views, value)]
    if not usable:
        raise DataError("at no threshold are outcomes of every group known on both sides")
    cuts = [make_cuts(tally, value, positive) for value in usable]
    higher = cuts[0][0].sign if outcomes_rise(tally, weighting) else -cuts[0][0].sign
    rungs = make_rungs(views, cuts[0], higher, Smoothing(1, "gaussian", "risk"))
    tried = []
    for value, own in zip(usable, cuts, strict=True):
        moved = [replace(rung, ladder=rung.ladder.at(own[index])) for index, rung in rungs.items()]
        solved, wanted = solve([rung.ladder for rung in moved], [rung.level for rung in moved], "rate", None)
        solutions = [Solution(float(cut), float(cut), float(cut), wanted) for cut in solved]
        solved_groups = zip(moved, own, solutions, strict=True)
        groups = (group_threshold(rung, cut, higher, solution, remarked=False) for rung, cut, solution in solved_groups)
        tried.append(Tried(value, tuple(groups)))
    return tried


def _known_on_both_sides(views: Sequence[GroupView], threshold: float) -> bool:
    first = views[0].lattice.first_cell(threshold)
    assert first is not None
    return all(view.sums.W[:first].any() and view.sums.W[first:].any() for view in views)


def thinned(tally: Tally, weighting: str, most: int, keep: float | None) -> list[float]:
    """At most so many thresholds, spread as people are, ``keep`` among them."""
    edges = edges_of(tally)
    first = np.array([tally.lattice.first_cell(float(edge)) for edge in edges], dtype=np.int64)
    people = np.sum([view.sums.A / view.sums.A.sum() for view in GroupView.each(tally, weighting)], axis=0)
    below = np.concatenate([[0.0], np.cumsum(people)])[first] / people.sum()
    inside = (below > 0) & (below < 1)
    edges, below = edges[inside], below[inside]
    if len(edges) > most:
        # Halfway between as many people and as much of the scores on either side, so that thin tails can be tried too.
        along = (below - below[0]) / (below[-1] - below[0] or 1.0) + np.arange(len(edges)) / (len(edges) - 1)
        wanted = np.searchsorted(along, np.linspace(0, along[-1], most))
        edges = edges[np.unique(wanted.clip(max=len(edges) - 1))]
    chosen = {float(edge) for edge in edges}
    if keep is not None and tally.lattice.first_cell(keep) is not None:
        chosen.add(float(keep))
    return sorted(chosen)
