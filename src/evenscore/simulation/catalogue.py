"""Simulations by name, for teaching and for testing other tools: each draws a data set and knows the truth behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from evenscore.errors import OptionError, listing
from evenscore.simulation.designs import ALTERNATIVES, DESIGNS
from evenscore.simulation.distributions import BusyBeta, PoissonRows
from evenscore.simulation.objectives import Objectives, feed, toy
from evenscore.simulation.outcomes import BusyCurve
from evenscore.simulation.power_users import PowerUsers
from evenscore.simulation.ranking import RankingSimulation, simulate_ranking
from evenscore.simulation.specification import Simulation, simulate
from evenscore.tables import json_ready
from evenscore.types import Array, Floats

Known = Simulation | RankingSimulation | Objectives
Data = Mapping[str, Array]

GRID = np.linspace(0, 1, 101)


def power_users(users: int = 50_000) -> Simulation:
    """Ten users with a thousand rows each in group a, who hide that its outcomes are lower (the paper's Figure 1)."""
    return simulate(
        users, curve={"a": (-0.1, 1), "b": (0, 1)}, rows_per_user=1, power_users=PowerUsers("a"), name="ten power users"
    )


def busy_users(users: int = 1000) -> Simulation:
    """Users with many rows score higher and are better calibrated; in group b everybody has one row (the paper's Figure 3)."""
    return simulate(
        users, score=BusyBeta(8), curve=BusyCurve(-1, 0.6, 8), rows_per_user={"a": PoissonRows(4), "b": 1}, name="busy users"
    )


def withheld_labels(users: int = 1000) -> Simulation:
    """Outcomes are known from a score of .5 on; group b is held to a higher standard."""
    return simulate(
        users,
        curve={"a": (0, 1), "b": (0.4, 1)},
        rows_per_user=PoissonRows(3),
        outcome_correlation=0.4,
        threshold=0.5,
        name="withheld labels",
    )


def ranking(users: int = 1000) -> RankingSimulation:
    """Queries of ten items; items of group b are scored too high. As many queries as users are asked for."""
    return simulate_ranking(
        users, users=max(1, users // 2), curve={"a": (0, 1), "b": (-0.5, 1)}, query_correlation=0.3, user_correlation=0.2
    )


CATALOGUE: dict[str, Callable[[int], Known]] = {
    **ALTERNATIVES,
    **DESIGNS,
    "power-users": power_users,
    "busy-users": busy_users,
    "withheld-labels": withheld_labels,
    "ranking": ranking,
    "objectives": feed,
    "objectives-toy": toy,
}


def make_simulation(name: str, users: int) -> Known:
    """A simulation of the catalogue with so many users a group."""
    if name not in CATALOGUE:
        raise OptionError(f"no simulation is called {name!r}; there are: {listing(CATALOGUE)}")
    return CATALOGUE[name](users)


def summary(name: str) -> str:
    """What a simulation of the catalogue is about: the first line of its function's docstring."""
    return (CATALOGUE[name].__doc__ or "").split("\n")[0].replace("``", "")


def truth_document(spec: Known) -> dict[str, Any]:
    """What is true of a simulation, in JSON-ready values."""
    if isinstance(spec, Simulation):
        return spec.truth.to_dict()
    if isinstance(spec, RankingSimulation):
        ranks, exposure = spec.truth.rank_change(), spec.truth.exposure_change()
        changes = [{"group": group, "rank": ranks[group], "exposure": exposure[group]} for group in spec.groups]
        curve = [
            {"group": group, "score": float(s), "outcome": float(y)}
            for group in spec.groups
            for s, y in zip(GRID, spec.truth.curve(GRID, group), strict=True)
        ]
        return {"change_when_ranked_by_expected_outcome": json_ready(changes), "curve": json_ready(curve)}
    return {"notes": ["the means of all outcomes given all scores are in the data, columns mean_<objective>"]}


def true_means(spec: Known, data: Data) -> dict[str, Floats]:
    """The expected outcome of each row given its scores and group; one column for each outcome."""
    names = [f"mean_{name}" for name in spec.objectives] if isinstance(spec, Objectives) else ["mean"]
    means = np.full((len(data["group"]), len(names)), np.nan)
    for group in spec.groups:
        own = np.array([label == group for label in data["group"].tolist()])
        if isinstance(spec, Objectives):
            means[own] = spec.truth.means({name: data[name][own] for name in spec.score_columns}, group)
        else:
            means[own, 0] = spec.truth.curve(data["score"][own], group)
    return {name: means[:, place] for place, name in enumerate(names)}
