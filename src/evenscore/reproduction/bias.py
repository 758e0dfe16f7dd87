"""Figure 3: how far calibration errors are off, over sample sizes, when users have one row or many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenscore.engines import tally as tally_of
from evenscore.miscalibration import calibration_error
from evenscore.reproduction.settings import BIAS_BINS, BIAS_USERS, DEPENDENT, INDEPENDENT, bias_simulation
from evenscore.simulation.study_result import Study

CE_NP, ECE, MSCE = "CE_NP", "ECE, by rows", "MSCE, by rows"
ECE_USER, MSCE_USER, OURS = "ECE, by users", "MSCE, by users", "debiased local linear"

METHODS: dict[str, dict[str, Any]] = {
    CE_NP: {"method": "ce_np", "degree": 0, "bandwidth": "test"},
    ECE: {"method": "ece", "norm": 2, "bins": BIAS_BINS, "weighting": "row"},
    MSCE: {"method": "msce", "norm": 2, "weighting": "row"},
    ECE_USER: {"method": "ece", "norm": 2, "bins": BIAS_BINS, "weighting": "user"},
    MSCE_USER: {"method": "msce", "norm": 2, "weighting": "user"},
    OURS: {"method": "kernel"},
}


def calibration_errors(data: Any, seed: int) -> dict[str, dict[str, float]]:
    """A method of a study: all calibration errors of one draw."""
    tally = tally_of(data, score="score", outcome="outcome", group="group", user="user", scale="score")
    return {
        name: {"estimate": calibration_error(tally, interval=False, seed=seed, **options).estimates[0].estimate}
        for name, options in METHODS.items()
    }


@dataclass(frozen=True, slots=True)
class Bias:
    """The bias of one method at one sample size, with its Monte Carlo error."""

    kind: str
    users: int
    method: str
    bias: float
    error: float


def biases(studies: dict[tuple[str, int], Study]) -> list[Bias]:
    """All biases, by kind, sample size and method."""
    return [
        Bias(kind, users, row["method"], row["bias"], row["bias_error"])
        for (kind, users), study in studies.items()
        for row in study.rows()
    ]


def pick(all_biases: list[Bias], kind: str, users: int, method: str) -> Bias:
    """One of them."""
    return next(bias for bias in all_biases if (bias.kind, bias.users, bias.method) == (kind, users, method))


def signed(value: float, digits: int = 3) -> str:
    """A number with its sign; what rounds to zero has none."""
    rounded = round(value, digits)
    return f"{rounded:+.{digits}f}" if rounded else f"{0:.{digits}f}"


def bias_rows(all_biases: list[Bias], kind: str) -> list[dict[str, Any]]:
    """A table: methods down, sample sizes across, each bias with its Monte Carlo error."""
    rows = []
    for method in METHODS:
        if kind == INDEPENDENT and method in (ECE_USER, MSCE_USER):  # with one row a user the same as by rows
            continue
        own = [pick(all_biases, kind, users, method) for users in BIAS_USERS]
        rows.append({"method": method} | {f"{bias.users:,} users": f"{signed(bias.bias, 4)} ± {bias.error:.4f}" for bias in own})
    return rows


def truths() -> dict[str, float]:
    """The true calibration errors by integration: per user and per row when users have many, and when each has one."""
    many, one = bias_simulation(2, DEPENDENT), bias_simulation(2, INDEPENDENT)
    group = many.groups[0]
    return {
        "dependent, per user": many.truth.tce(group),
        "dependent, per row": many.truth.tce(group, "row"),
        "independent": one.truth.tce(group),
    }
