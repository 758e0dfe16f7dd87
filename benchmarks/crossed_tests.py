"""What is asked of one draw of a cell: p-values with verdicts, and whether limits hold the truth.

Every part takes a Draw and gives its results by name. A result has "p" (None: not judged), "verdict" and "why" not; or "wrong" (a
false verdict); or "covered" (None: no limits); or "promised", the p-value where power was promised ("nothing": it was not).
"""

from __future__ import annotations

import contextlib
import math
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy import special

import evenscore as es
from bin_tests import bin_tests
from crossed_cells import LARGE, NODE_WEIGHTS, NODES, NONE, SMALL, Alternative, Cell, Data, Event, Floats, quantile_at, score_at
from evenscore.parity import parity_family

POSITIVE = 0.3  # the share of scores at or above the threshold
BINS = 15  # of the binned calibration error, its default
LEVELS = (np.arange(100_000) + 0.5) / 100_000  # ranks at which population values are summed
SLACK = 0.9  # the tolerance over the true gap that it should not be called smaller than
FEW_EVENTS = 4  # expected in the small group by the gap alone where each user has one row
COMPONENTS = ("sup", "l2", "multiscale", "cumulative")

Result = dict[str, Any]
Results = dict[str, Result]


@dataclass
class Draw:
    """One draw of a cell, its tally (made once), and the truth about it."""

    cell: Cell
    run: int
    cells: int
    alternative: Alternative = NONE
    stream: int = 0

    @cached_property
    def data(self) -> Data:
        return self.cell.data(self.run, self.alternative, self.stream)

    @cached_property
    def tally(self) -> es.Tally:
        names = {name: name for name in ("score", "outcome", "group", "user")}
        return es.tally(self.data, **names, cells=self.cells, cuts=[self.threshold])

    @property
    def threshold(self) -> float:
        """The score that a share POSITIVE of people reach."""
        return float(score_at(self.cell.scores, np.array([-special.ndtri(POSITIVE)]))[0])

    def level(self, score: Floats, group: int) -> Floats:
        """The true expected outcome."""
        z = quantile_at(self.cell.scores, score)
        return self.cell.outcome.mean(z) if group == LARGE else self.cell.outcome.small_mean(z, self.alternative)


# Tests


def parity(draw: Draw) -> Results:
    """The parity test with its default method, and the simultaneous band of the gap."""
    test = es.parity_test(draw.tally, both=False, seed=draw.run)
    pair = test.pairs[0]
    true = draw.level(pair.score, pair.group_a) - draw.level(pair.score, pair.group_b)
    return {"parity": _tested(test), "band of the gap": _holds_all(pair.band_low, true, pair.band_high)}


def components(draw: Draw) -> Results:
    """The statistics that a default might be made of."""
    found = parity_family(draw.tally, LARGE, SMALL, seed=draw.run, methods=COMPONENTS)
    return {f"parity, {name}": {"p": _number(p)} for name, p in found.items()}


def ordering(draw: Draw) -> Results:
    return {"ordering": _tested(es.ordering_test(draw.tally, seed=draw.run))}


def marginal(draw: Draw) -> Results:
    """At the threshold: the test, the interval of the gap, and those of each group's level."""
    test = es.marginal_test(draw.tally, threshold=draw.threshold, both=False, seed=draw.run)
    at = np.array([draw.threshold])
    levels = {group: float(draw.level(at, group)[0]) for group in (LARGE, SMALL)}
    pair = test.pairs[0]
    found = {"marginal": _tested(test)}
    found["marginal gap"] = _holds(pair.ci_low, levels[pair.group_a] - levels[pair.group_b], pair.ci_high)
    for group, name in ((LARGE, "large"), (SMALL, "small")):
        own = test.by_group[group]
        found[f"marginal outcome, {name} group"] = _holds(own["ci_low"], levels[group], own["ci_high"])
    return found


def bins(draw: Draw) -> Results:
    return {name: {"p": _number(p)} for name, p in bin_tests(draw.data).items()}


def binspwc(draw: Draw) -> Results:
    from size_power import binspwc as compare

    return {name: {"p": _number(p)} for name, p in compare(draw.data, draw.run).items()}


# Limits


def curves(draw: Draw) -> Results:
    """The simultaneous band of each group's curve."""
    fitted = es.curves(draw.tally, seed=draw.run)
    return {
        f"band of the curve, {name} group": _holds_all(
            fitted[group].band_low, draw.level(fitted[group].score, group), fitted[group].band_high
        )
        for group, name in ((LARGE, "large"), (SMALL, "small"))
    }


def thresholds(draw: Draw) -> Results:
    """Without a gap the fair thresholds are the present one."""
    found = es.fair_thresholds(draw.tally, threshold=draw.threshold, seed=draw.run)
    names = {LARGE: "large", SMALL: "small"}
    return {f"threshold, {names[own.group]} group": _holds(own.ci_low, draw.threshold, own.ci_high) for own in found.groups}


def errors(draw: Draw) -> Results:
    """Calibration errors of the small group."""
    if not draw.cell.outcome.binary:
        return {}
    found = {}
    for method, true in true_errors(draw.cell).items():
        own = es.calibration_error(draw.tally, method=method, seed=draw.run)[SMALL]
        found[f"calibration error, {method}"] = _holds(own.ci_low, true, own.ci_high)
    return found


@cache
def true_errors(cell: Cell) -> dict[str, float]:
    """Of a group on the common curve: root mean square, mean of 15 bins of equal mass, and the largest sum up to a score."""
    z = special.ndtri(LEVELS)
    residual = cell.outcome.mean(z) - score_at(cell.scores, z)
    by_bin = [abs(part.sum()) for part in np.array_split(residual, BINS)]
    return {
        "kernel": math.sqrt(float((residual**2).mean())),
        "ece": float(sum(by_bin)) / len(residual),
        "cumulative": float(np.abs(np.cumsum(residual)).max()) / len(residual),
    }


def impact(draw: Draw) -> Results:
    """The change in the positive rate of the small group if scores were calibrated."""
    if not draw.cell.outcome.binary:
        return {}
    z = special.ndtri(LEVELS)
    true = float((draw.cell.outcome.mean(z) >= draw.threshold).mean()) - POSITIVE
    own = es.classification_impact(draw.tally, threshold=draw.threshold, seed=draw.run).of(SMALL)
    return {"impact": _holds(own["ci_low"], true, own["ci_high"])}


# Promises: each draws data of its own


def tolerance(draw: Draw) -> Results:
    """A constant gap of a few events: a tolerance just below it should not be met, and one equal to it not be exceeded."""
    gap = FEW_EVENTS / draw.cell.users
    apart = replace(draw, alternative=Alternative("gap", gap), stream=1)
    below = es.parity_test(apart.tally, both=False, tolerance=SLACK * gap, seed=draw.run)
    equal = es.parity_test(apart.tally, both=False, tolerance=gap, seed=draw.run)
    return {
        "false parity": {"wrong": int(below.verdict == "parity"), "why": _why(below)},
        "beyond a tolerance": _tested(equal),
    }


def promise(draw: Draw) -> Results:
    """The power at the minimum detectable gap of the draw, on fresh data that have it."""
    gap = es.parity_test(draw.tally, both=False, seed=draw.run).minimum_detectable_gap
    return {"promised power": _kept(draw, draw.cell, gap)}


def plan(draw: Draw) -> Results:
    """The power at the gap that es.plan gives for twice the users, on fresh data with so many."""
    total = sum(draw.tally.n_users.values())
    gap = es.plan(draw.tally, users=2 * total, seed=draw.run).gap
    return {"planned power, from the tally": _kept(draw, replace(draw.cell, users=2 * draw.cell.users), gap)}


def assumed(draw: Draw) -> Results:
    """The power at the gap that es.plan gives from assumptions that are true: the rate is the same at every score."""
    cell = draw.cell
    if not isinstance(cell.outcome, Event):
        return {}
    flat = replace(cell, outcome=replace(cell.outcome, steepness=0.0))
    gap = assumed_gap(flat)
    return {"planned power, from assumptions": _kept(draw, flat, gap)}


@cache
def assumed_gap(cell: Cell) -> float:
    return es.plan(
        users=cell.users * (cell.ratio + 1),
        rows_per_user=cell.rows,
        correlation=cell.icc,
        outcome_rate=cell.outcome.rate,
        score=cell.scores,
        ratio=cell.ratio,
    ).gap


def _kept(draw: Draw, cell: Cell, gap: float) -> Result:
    """The p-value on fresh data that have the gap. A gap that no probability can have, or none that is finite, promises nothing."""
    most = 1 - float(NODE_WEIGHTS @ cell.outcome.mean(NODES) / NODE_WEIGHTS.sum()) if cell.outcome.binary else math.inf
    if not gap < most:
        return {"promised": "nothing", "gap": _number(gap)}
    fresh = Draw(cell, draw.run, draw.cells, Alternative("gap", gap), stream=2)
    return {"promised": _number(es.parity_test(fresh.tally, both=False, seed=draw.run).p_value), "gap": gap}


Part = Callable[[Draw], Results]
TESTS: dict[str, Part] = {"parity": parity, "components": components, "ordering": ordering, "marginal": marginal}
PEERS: dict[str, Part] = {"bins": bins, "binspwc": binspwc}
LIMITS: dict[str, Part] = {"curves": curves, "thresholds": thresholds, "errors": errors, "impact": impact}
PROMISES: dict[str, Part] = {"tolerance": tolerance, "promise": promise, "plan": plan, "assumed": assumed}
PARTS = TESTS | PEERS | LIMITS | PROMISES
WITH_A_GAP = (*TESTS, *PEERS)  # what the doubled outcome rate is given to


# Results


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _why(test: Any) -> str | None:
    """Why nothing could be judged."""
    return None if math.isfinite(test.p_value) else without_numbers(test.reason)


def without_numbers(text: str) -> str:
    """Texts that differ in numbers only can be counted."""
    return re.sub(r"\d[\d.,e-]*", "#", text)[:200]


def _tested(test: Any) -> Result:
    return {"p": _number(test.p_value), "verdict": test.verdict, "why": _why(test)}


def _holds(low: float, true: float, high: float) -> Result:
    if math.isnan(low) or math.isnan(high):
        return {"covered": None}
    return {"covered": int(low <= true <= high)}


def _holds_all(low: Floats, true: Floats, high: Floats) -> Result:
    """Everywhere where there are limits."""
    known = np.isfinite(low) & np.isfinite(high)
    if not known.any():
        return {"covered": None}
    return {"covered": int(((low <= true) & (true <= high))[known].all())}


@contextlib.contextmanager
def warnings_in(found: list[str]) -> Iterator[None]:
    """Keeps what NumPy warns of, which no user should see."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    found += [str(warning.message)[:200] for warning in caught if issubclass(warning.category, RuntimeWarning)]
