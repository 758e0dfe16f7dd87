"""What a study found: size or power, bias, error and coverage of each method, each with its Monte Carlo error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from evenscore.errors import OptionError, listing, shortened
from evenscore.simulation.specification import Simulation
from evenscore.tables import Table, json_ready
from evenscore.types import Floats

NO_GAP = 1e-9
SHOWN = np.linspace(0.05, 0.95, 19)

MEASURES = ("p_value", "estimate", "low", "high", "covered")


@runtime_checkable
class Simulated(Protocol):
    """What a study draws from; a simulation by this package has a ``truth``, too."""

    @property
    def name(self) -> str:
        """What it is called."""

    def data(self, seed: Any = 0) -> Any:
        """One draw."""

    def to_dict(self) -> dict[str, Any]:
        """All that it is made of, in JSON-ready values."""


@dataclass(frozen=True, slots=True)
class MethodRuns:
    """One method's results: arrays (runs,), nan where a run gave none, or None where no run did; truth: what they are judged by."""

    name: str
    truth: float = math.nan
    p_value: Floats | None = None
    estimate: Floats | None = None
    low: Floats | None = None
    high: Floats | None = None
    covered: Floats | None = None

    def coverage(self) -> Floats | None:
        """Whether each run's limits held the truth: 1, 0, or nan where there are none."""
        if self.covered is not None or self.low is None or self.high is None:
            return self.covered
        inside = (self.low <= self.truth) & (self.truth <= self.high)
        known = np.isfinite(self.truth) & ~np.isnan(self.low) & ~np.isnan(self.high)
        return np.where(known, inside, np.nan)


@dataclass(frozen=True, slots=True, repr=False)
class Study(Table):
    """The result of ``es.study``; ``methods`` holds every run, ``rows()`` the summary.

    Examples
    --------
    >>> import evenscore as es
    >>> study = es.study(es.simulate(100), ["cumulative"], runs=5)
    >>> len(study.rows())
    1
    """

    simulation: Simulated
    methods: tuple[MethodRuns, ...]
    runs: int
    seed: int
    alpha: float

    def method(self, name: str) -> MethodRuns:
        """The runs of one method."""
        for method in self.methods:
            if isinstance(name, str) and method.name == name:
                return method
        raise OptionError(f"no method {shortened(name)}; the study has: {listing(repr(method.name) for method in self.methods)}")

    def rows(self) -> list[dict[str, Any]]:
        """One row a method; a column with ``_error`` is the Monte Carlo error of the one before it.

        rejected: share of runs with p <= alpha, a run without a p-value counting as not rejected; judged: runs with a p-value.
        """
        table: list[dict[str, Any]] = [{"method": method.name, "runs": self.runs} for method in self.methods]
        for summary in (self._rejections, _errors, _coverages):
            summaries = [summary(method) for method in self.methods]
            names = list(dict.fromkeys(name for values in summaries for name in values))
            for row, values in zip(table, summaries, strict=True):
                row |= {name: values.get(name, math.nan) for name in names}
        return table

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values, with every run."""
        return {
            "simulation": json_ready(self.simulation.to_dict()),
            "runs": self.runs,
            "seed": self.seed,
            "alpha": self.alpha,
            "rows": json_ready(self.rows()),
            "methods": {
                method.name: {name: json_ready(getattr(method, name)) for name in MEASURES if getattr(method, name) is not None}
                for method in self.methods
            },
        }

    def _rejections(self, method: MethodRuns) -> dict[str, float]:
        if method.p_value is None:
            return {}
        rejected = float((method.p_value <= self.alpha).mean())
        judged = int((~np.isnan(method.p_value)).sum())
        return {"judged": judged, "rejected": rejected, "rejected_error": share_error(rejected, self.runs)}

    @property
    def largest_gap(self) -> float:
        """The largest true gap between two groups at scores from .05 to .95; nan when it is not known."""
        if not isinstance(self.simulation, Simulation):
            return math.nan
        truth = self.simulation.truth
        curves = np.stack([truth.curve(SHOWN, group) for group in truth.groups])
        return float(np.ptp(curves, axis=0).max())

    def _notes(self) -> list[str]:
        if all(method.p_value is None for method in self.methods) or math.isnan(self.largest_gap):
            return []
        if self.largest_gap < NO_GAP:
            return ["the groups have no true gap: rejected is the size"]
        return [f"the largest true gap is {self.largest_gap:.3f}: rejected is the power"]

    def _title(self) -> str:
        return f"Study of {self.simulation.name}: {self.runs:,} runs, seed {self.seed}, level {self.alpha:g}"


def share_error(share: float, runs: int) -> float:
    """The Monte Carlo error of a share; one run of either kind is added, so that a share of 0 or 1 is not taken for certain."""
    near = (share * runs + 1) / (runs + 2)
    return math.sqrt(near * (1 - near) / runs)


def _errors(method: MethodRuns) -> dict[str, float]:
    """Mean estimate, bias and root mean square error over the runs that gave an estimate."""
    if method.estimate is None:
        return {}
    known = method.estimate[~np.isnan(method.estimate)]
    if len(known) == 0:
        return {"mean": math.nan}
    if math.isnan(method.truth):
        return {"mean": float(known.mean()), "mean_error": _mean_error(known)}
    error = known - method.truth
    rmse = math.sqrt(float((error**2).mean()))
    figures = {"mean": float(known.mean()), "truth": method.truth, "bias": float(error.mean()), "bias_error": _mean_error(error)}
    return figures | {"rmse": rmse, "rmse_error": _mean_error(error**2) / (2 * rmse) if rmse > 0 else 0.0}


def _mean_error(values: Floats) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def _coverages(method: MethodRuns) -> dict[str, float]:
    """The share of limits that held the truth, and their mean width."""
    covered = method.coverage()
    if covered is None:
        return {}
    known = covered[~np.isnan(covered)]
    if len(known) == 0:
        return {"coverage": math.nan}
    share = float(known.mean())
    figures = {"limits": len(known), "coverage": share, "coverage_error": share_error(share, len(known))}
    if method.low is not None and method.high is not None:
        figures["width"] = float(np.nanmean(method.high - method.low))
    return figures
