"""The findings of the paper's Section 8, each checked against what the experiments gave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenscore.reproduction.bias import CE_NP, ECE, ECE_USER, MSCE, MSCE_USER, Bias, pick, signed
from evenscore.reproduction.flip import BEFORE, PER_USER, POOLED, Reading
from evenscore.reproduction.settings import BIAS_USERS, DEPENDENT, FLIP_ENOUGH, FLIP_POINTS, INDEPENDENT
from evenscore.simulation.study_result import Study

ALPHA = 0.05
ERRORS = 3.0  # Monte Carlo errors that a comparison may be off
SMALL = 0.01  # a bias that counts as low
FLIPS = 0.9  # of the draws


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: what it says, whether it holds, and the figures that say so."""

    key: str
    says: str
    holds: bool
    figures: str


def findings(readings: list[Reading], flip: Study, null: Study, all_biases: list[Bias]) -> list[Finding]:
    """All findings, in the order of the paper."""
    by_name = {reading.name: reading for reading in readings}
    return [
        _flips(by_name),
        _keeps(by_name),
        _always(flip),
        _directions(by_name),
        _sizes(null),
        _dependent(all_biases),
        _independent(all_biases),
        _falls(all_biases),
        _weights(all_biases),
    ]


def _below(*readings: Reading) -> str:
    return "; ".join(f"{reading.name}: below at {reading.below} of {reading.points}" for reading in readings)


def _flips(by_name: dict[str, Reading]) -> Finding:
    before, pooled = by_name[BEFORE], by_name[POOLED]
    holds = before.below >= FLIP_ENOUGH and pooled.points - pooled.below >= FLIP_ENOUGH
    says = "ten injected users turn the iid reading around: group 1, which lay below group 2, now lies above"
    return Finding("a1", says, holds, _below(before, pooled))


def _keeps(by_name: dict[str, Reading]) -> Finding:
    before, kept = by_name[BEFORE], by_name[PER_USER]
    holds = before.below >= FLIP_ENOUGH and kept.below >= FLIP_ENOUGH
    return Finding("a2", "they do not turn the per-user reading around", holds, _below(before, kept))


def _always(flip: Study) -> Finding:
    """In repeated draws: most points change sides, or do not."""
    half = FLIP_POINTS / 2
    pooled = float((np.asarray(flip.method(POOLED).estimate) < half).mean())
    kept = float((np.asarray(flip.method(PER_USER).estimate) > half).mean())
    figures = f"of {flip.runs} draws, most points are turned around in {pooled:.0%} by rows and in {1 - kept:.0%} per user"
    return Finding("a3", "both hold draw after draw", pooled >= FLIPS and kept >= FLIPS, figures)


def _directions(by_name: dict[str, Reading]) -> Finding:
    pooled, users = by_name[POOLED], by_name[PER_USER]
    holds = pooled.test.p_value <= ALPHA and users.test.p_value <= ALPHA and pooled.strongest > 0 > users.strongest
    figures = "; ".join(
        f"{reading.name}: p = {reading.test.p_value:.1e}, gap {reading.strongest:+.3f} where it is clearest"
        for reading in (pooled, users)
    )
    says = "on the same data the pooled iid test and the dependent test see gaps in opposite directions; the dependent one is right"
    return Finding("b1", says, holds, figures)


def _sizes(null: Study) -> Finding:
    rows = {row["method"]: row for row in null.rows()}
    pooled, users = rows[POOLED], rows[PER_USER]
    holds = pooled["rejected"] >= FLIPS and users["rejected"] <= ALPHA + ERRORS * users["rejected_error"]
    figures = (
        f"of {null.runs} draws the pooled iid test rejects {pooled['rejected']:.1%} and the dependent test {users['rejected']:.1%} "
        f"(Monte Carlo error {users['rejected_error']:.1%})"
    )
    says = "without any true gap the same ten users make the pooled iid test reject, and not the dependent one"
    return Finding("b2", says, holds, figures)


def _list_biases(all_biases: list[Bias], kind: str, methods: tuple[str, ...]) -> str:
    lines = [
        f"{method} " + "/".join(signed(pick(all_biases, kind, users, method).bias) for users in BIAS_USERS) for method in methods
    ]
    return f"bias at {'/'.join(map(str, BIAS_USERS))} users: " + "; ".join(lines)


def _smaller(all_biases: list[Bias], kind: str, users: int, method: str, other: str) -> bool:
    """Whether one bias is smaller than another in size, or not shown to be larger."""
    a, b = pick(all_biases, kind, users, method), pick(all_biases, kind, users, other)
    return abs(a.bias) <= abs(b.bias) + ERRORS * (a.error**2 + b.error**2) ** 0.5


def _low(all_biases: list[Bias], kind: str, users: int, method: str) -> bool:
    """Whether a bias is small, or not shown to be large."""
    picked = pick(all_biases, kind, users, method)
    return abs(picked.bias) <= SMALL + ERRORS * picked.error


def _dependent(all_biases: list[Bias]) -> Finding:
    large = BIAS_USERS[1:]
    ordered = all(_smaller(all_biases, DEPENDENT, users, CE_NP, other) for users in BIAS_USERS for other in (ECE, MSCE))
    clearly = all(
        abs(pick(all_biases, DEPENDENT, BIAS_USERS[-1], CE_NP).bias)
        < abs(pick(all_biases, DEPENDENT, BIAS_USERS[-1], other).bias) / 2
        for other in (ECE, MSCE)
    )
    low = all(_low(all_biases, DEPENDENT, users, CE_NP) for users in large)
    says = "with dependent rows CE_NP has much less bias than ECE and MSCE, which take rows for people"
    return Finding("c1", says, ordered and clearly and low, _list_biases(all_biases, DEPENDENT, (CE_NP, ECE, MSCE)))


def _independent(all_biases: list[Bias]) -> Finding:
    ordered = all(_smaller(all_biases, INDEPENDENT, users, CE_NP, ECE) for users in BIAS_USERS[:-1])
    low = all(_low(all_biases, INDEPENDENT, users, CE_NP) for users in BIAS_USERS[2:])
    says = "with independent rows CE_NP is as good: less bias than ECE in small samples, near zero from 500 on"
    return Finding("c2", says, ordered and low, _list_biases(all_biases, INDEPENDENT, (CE_NP, ECE, MSCE)))


def _falls(all_biases: list[Bias]) -> Finding:
    holds = True
    for method in (CE_NP, ECE):
        first, last = (pick(all_biases, INDEPENDENT, users, method) for users in (BIAS_USERS[0], BIAS_USERS[-1]))
        holds &= abs(last.bias) < abs(first.bias) + ERRORS * (first.error**2 + last.error**2) ** 0.5
    holds &= all(_low(all_biases, INDEPENDENT, BIAS_USERS[-1], method) for method in (CE_NP, ECE, MSCE))
    says = "with independent rows the bias of all three goes to zero as the sample grows"
    return Finding("c3", says, bool(holds), _list_biases(all_biases, INDEPENDENT, (CE_NP, ECE, MSCE)))


def _weights(all_biases: list[Bias]) -> Finding:
    last = BIAS_USERS[-1]
    holds = all(
        abs(pick(all_biases, DEPENDENT, last, by_user).bias) < abs(pick(all_biases, DEPENDENT, last, by_row).bias) / 2
        for by_user, by_row in ((ECE_USER, ECE), (MSCE_USER, MSCE))
    )
    says = "not in the paper: in large samples user weights alone repair ECE and MSCE, so the gain is that of the weights"
    return Finding("c4", says, holds, _list_biases(all_biases, DEPENDENT, (ECE, ECE_USER, MSCE, MSCE_USER)))
