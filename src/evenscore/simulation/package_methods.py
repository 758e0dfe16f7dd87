"""The tests and bands of this package as methods of a study, all from one tally of a draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from evenscore.engines import tally as tally_of
from evenscore.errors import OptionError, listing
from evenscore.parity import parity_family, parity_test
from evenscore.parity.methods import AUTO, METHODS
from evenscore.simulation.specification import Simulation
from evenscore.simulation.truth import Truth
from evenscore.tallies.tally_state import Tally

PAPER, NAIVE, BAND = "paper", "naive", "band"
OWN = ("auto", *METHODS, PAPER, NAIVE, BAND)


def own_methods(names: Iterable[str], simulation: Any) -> dict[str, Callable[..., Any]]:
    """One method that gives the results of all that are named.

    The methods of ``es.parity_test``; "paper": Nadaraya-Watson and Bonferroni, with the bandwidth of the paper's theorem; "naive":
    the supremum test with rows taken for people; "band": whether the simultaneous band of the gap holds the true gap everywhere.
    """
    chosen = tuple(dict.fromkeys(names))
    if not chosen or any(name not in OWN for name in chosen):
        raise OptionError(f"methods {listing(map(repr, chosen)) or '(none)'}: names of ours are {listing(map(repr, OWN))}")
    if not isinstance(simulation, Simulation) or len(simulation.groups) < 2:
        raise OptionError("our methods by name compare the groups of an es.simulate with two or more; give functions for others")
    return {"evenscore " + " ".join(chosen): partial(own_results, names=chosen, truth=simulation.truth)}


def own_results(data: Any, seed: int, names: tuple[str, ...], truth: Truth) -> dict[str, Any]:
    """The named results on one draw."""
    nulls = "error" if truth.simulation.threshold is None else "unlabelled"
    columns: dict[str, Any] = {"score": "score", "outcome": "outcome", "group": "group", "nulls": nulls}
    tally = tally_of(data, user="user", **columns)
    tests = {AUTO if name == "auto" else name for name in names} & set(METHODS)
    p_values = _p_values(tally, tests, seed) if tests else {}
    results: dict[str, Any] = {}
    for name in names:
        if name == PAPER:
            results[name] = _p_values(tally, {"bonferroni"}, seed, degree=0, bandwidth="theorem")["bonferroni"]
        elif name == NAIVE:
            results[name] = _p_values(tally_of(data, user=None, **columns), {"sup"}, seed)["sup"]
        else:
            results[name] = band_coverage(tally, seed, truth) if name == BAND else p_values[AUTO if name == "auto" else name]
    return results


def _p_values(tally: Tally, methods: set[str], seed: int, **options: Any) -> dict[str, float]:
    """For two groups all from one set of draws; for more, the p-value of the whole."""
    groups = [group for group in tally.groups if tally.n_rows[group] > 0]
    if len(groups) == 2:
        return parity_family(tally, groups[0], groups[1], seed=seed, methods=sorted(methods), **options)
    return {method: parity_test(tally, method=method, both=False, seed=seed, **options).p_value for method in methods}


def band_coverage(tally: Tally, seed: int, truth: Truth) -> dict[str, float]:
    """Whether the simultaneous bands of all gaps hold the true gaps at every point, and their mean limits."""
    points = parity_test(tally, method="sup", both=False, seed=seed).points
    if not points:
        return {"covered": math.nan}
    gap = np.array([truth.gap(min(max(point["score"], 0.0), 1.0), point["group_a"], point["group_b"]) for point in points])
    low, high = (np.array([point[name] for point in points]) for name in ("band_low", "band_high"))
    return {"covered": float(((low <= gap) & (gap <= high)).all()), "low": float(low.mean()), "high": float(high.mean())}
