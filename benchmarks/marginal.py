"""Outcomes at a threshold and the thresholds that make them equal: bias, coverage, size and power, on data with a known truth.

Labels exist only at or above the threshold. rdrobust, which knows one-sided limits from regression discontinuities, gets the same
question: one group on the right of the cutoff, the other mirrored to its left, clusters and weights as its documentation says.
With --resume FOLDER finished runs are kept there; empty it when the tests have changed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from scipy import optimize, stats

import evenscore as es
from evenscore.simulation import Curve, ParetoRows, PoissonRows, Simulation
from writing import page_option, show, table

Data = dict[str, Any]

SIZES = (500, 2000, 8000)
ROWS = PoissonRows(3)
BENT = Curve(-0.3, 1.4)


@dataclass(frozen=True)
class Design:
    """A simulation for so many users a group, and the threshold."""

    name: str
    make: Callable[[int], Simulation]
    threshold: float = 0.5


EQUAL = (
    Design(
        "one bent curve", lambda n: es.simulate(n, curve=BENT, rows_per_user=ROWS, outcome_correlation=0.8, score_correlation=0.5)
    ),
    Design(
        "slopes and densities differ",
        lambda n: es.simulate(
            n,
            score={"a": (2, 5), "b": (5, 2)},
            curve={"a": (0, 1), "b": (0, 2)},
            rows_per_user=ROWS,
            outcome_correlation=0.8,
        ),
    ),
    Design(
        "heavy-tailed users, slopes differ",
        lambda n: es.simulate(
            n,
            curve={"a": (0, 1), "b": (0, 2)},
            rows_per_user=ParetoRows(1.1, 5000),
            outcome_correlation=0.8,
            score_correlation=0.8,
        ),
    ),
    Design(
        "groups 5:1, densities differ",
        lambda n: es.simulate(
            {"a": n, "b": n // 5}, score={"a": (5, 2), "b": (2, 5)}, curve=BENT, rows_per_user=ROWS, outcome_correlation=0.8
        ),
    ),
    Design("threshold in the tail", lambda n: es.simulate(n, curve=(0, 1.5), rows_per_user=ROWS, outcome_correlation=0.5), 0.8),
    Design(
        "rare outcomes, 2 %",
        lambda n: es.simulate(n, score={"a": (2, 5), "b": (2, 3)}, curve=(-3.7, 0.5), rows_per_user=ROWS, outcome_correlation=0.5),
        0.4,
    ),
)
DIFFERENT = (
    Design(
        "gap of .1",
        lambda n: es.simulate(n, curve={"a": (0, 1), "b": (-0.405, 1)}, rows_per_user=ROWS, outcome_correlation=0.8),
    ),
)


# The outcome at the threshold


def one_sided(data: Data, seed: int, threshold: float, peers: bool) -> dict[str, dict[str, float]]:
    """Every method on the rows at or above the threshold."""
    known = data["score"] >= threshold
    seen = {name: column[known] for name, column in data.items()}
    lattice = es.Lattice(0, 1, cuts=[threshold])
    known_only = data | {"outcome": np.where(known, data["outcome"], np.nan)}
    columns = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
    tally = es.tally(known_only, **columns, lattice=lattice, nulls="unlabelled")
    found = {}
    for name, degree in (("local linear", 1), ("Nadaraya-Watson", 0)):
        test = es.marginal_test(tally, threshold=threshold, degree=degree, both=False, seed=seed)
        level, pair = test.by_group["b"], test.pairs[0]
        found[f"level, {name}"] = {"estimate": level["estimate"], "low": level["ci_low"], "high": level["ci_high"]}
        gap = {"estimate": pair.gap, "low": pair.ci_low, "high": pair.ci_high, "p_value": pair.p_value}
        found[f"gap, {name}"] = gap
    found["gap, averages"] = {"estimate": pair.average_gap, "p_value": pair.p_average}
    if peers:
        found["gap, rdrobust"] = discontinuity(seen, threshold, weighted=True)
    return found


def discontinuity(data: Data, threshold: float, *, weighted: bool) -> dict[str, float]:
    """f_a(t) - f_b(t) as a jump; the robust bias-corrected interval, which its authors recommend."""
    from rdrobust import rdrobust

    first = data["group"] == "a"
    distance = data["score"] - threshold
    running = np.where(first, distance, -np.maximum(distance, 1e-12))
    weights = 1 / np.bincount(data["user"])[data["user"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fit = rdrobust(data["outcome"].astype(float), running, c=0, cluster=data["user"], weights=weights if weighted else None)
        except Exception:  # a failure is no answer, and counts as not rejected
            return {"p_value": np.nan}
    low, high = fit.ci.to_numpy()[2]
    return {"estimate": float(fit.coef.to_numpy()[1, 0]), "low": low, "high": high, "p_value": float(fit.pv.to_numpy()[2, 0])}


def truths(design: Design, spec: Simulation) -> dict[str, float]:
    levels = spec.truth.marginal(design.threshold)
    names = ("local linear", "Nadaraya-Watson")
    gap = levels["a"] - levels["b"]
    return {f"level, {name}": levels["b"] for name in names} | {f"gap, {name}": gap for name in (*names, "averages")}


# Thresholds


def true_thresholds(spec: Simulation, t: float, strategy: str) -> dict[str, float]:
    """From the true curves and densities."""
    groups = spec.groups
    total = sum(spec.users)

    def inverse(group: str, v: float) -> float:
        return optimize.brentq(lambda s: float(spec.truth.curve(s, group)) - v, 1e-9, 1 - 1e-9)

    def rate(cuts: dict[str, float]) -> float:
        densities = dict(zip(groups, spec.scores, strict=True))
        sizes = dict(zip(groups, spec.users, strict=True))
        return sum(sizes[g] / total * stats.beta(densities[g].a, densities[g].b).sf(cuts[g]) for g in groups)

    now = spec.truth.marginal(t)
    if strategy == "rate":
        wanted = rate(dict.fromkeys(groups, t))
        v = optimize.brentq(lambda v: rate({g: inverse(g, v) for g in groups}) - wanted, 0.02, 0.98)
    else:
        v = max(now.values()) if strategy == "raise" else min(now.values())
    return {group: inverse(group, v) for group in groups}


def solved(data: Data, seed: int, spec: Simulation, cases: tuple[tuple[str, bool], ...]) -> dict[str, dict[str, float]]:
    """Each strategy: the threshold of the group that moves, the true gap that is left, and the change of the overall rate."""
    found = {}
    for strategy, censored in cases:
        outcome = np.where(data["score"] >= 0.5, data["outcome"], np.nan) if censored else data["outcome"]
        tally = es.tally(
            data | {"outcome": outcome},
            score="score",
            outcome="outcome",
            group="group",
            user="user",
            cuts=[0.5],
            nulls="unlabelled",
        )
        result = es.fair_thresholds(tally, threshold=0.5, strategy=strategy, seed=seed)
        name = case_name(strategy, censored)
        moved = result.groups[1 if strategy == "raise" else 0]
        found[f"{name}: threshold"] = {"estimate": moved.threshold, "low": moved.ci_low, "high": moved.ci_high}
        left = [float(spec.truth.curve(np.clip(t, 0, 1), group)) for group, t in result.by_group.items()]
        found[f"{name}: true gap left"] = {"estimate": left[0] - left[1]}
        found[f"{name}: change of rate"] = {"estimate": result.positive_rate.after - result.positive_rate.before}
    return found


def case_name(strategy: str, censored: bool) -> str:
    return f"{strategy}, labels above only" if censored else strategy


CASES = (("rate", False), ("raise", False), ("raise", True), ("lower", False), ("lower", True))


# Running and showing


def run(
    name: str, spec: Simulation, methods: dict[str, Any], options: argparse.Namespace, truth: dict[str, float]
) -> list[dict[str, Any]]:
    start = time.process_time()
    resume = None if options.resume is None else Path(options.resume) / f"{name.replace(' ', '-').replace(',', '')}.jsonl"
    study = es.study(spec, methods, runs=options.runs, seed=11, resume=resume, truth=truth)
    print(f"{name}: {options.runs} runs, {time.process_time() - start:.0f} s", file=sys.stderr, flush=True)
    return study.rows()


def percent(row: dict[str, Any], name: str) -> str:
    return f"{100 * row[name]:.1f}" if np.isfinite(row.get(name, np.nan)) else ""


def marginal_tables(options: argparse.Namespace, peers: bool) -> str:
    body = []
    chosen = [
        design for design in (*EQUAL, *DIFFERENT) if not options.design or any(word in design.name for word in options.design)
    ]
    for design in chosen:
        for users in options.sizes:
            spec = design.make(users)
            method = {"one-sided": partial(one_sided, threshold=design.threshold, peers=peers)}
            truth = truths(design, spec)
            if peers:
                truth["gap, rdrobust"] = truth["gap, local linear"]
            rows = {row["method"]: row for row in run(f"{design.name} {users}", spec, method, options, truth)}
            line, level = rows["level, local linear"], rows["level, Nadaraya-Watson"]
            cells = [design.name, f"{users:,}"]
            for row in (line, level):
                cells += [f"{row['bias']:+.4f}", percent(row, "coverage")]
            gap, rd, average = (rows.get(f"gap, {name}", {}) for name in ("local linear", "rdrobust", "averages"))
            cells += [percent(gap, "rejected"), percent(rows["gap, Nadaraya-Watson"], "rejected"), percent(rd, "rejected")]
            cells += [percent(average, "rejected"), f"{gap['rmse']:.4f}", f"{rd['rmse']:.4f}" if rd else "", str(gap["judged"])]
            body.append(cells)
            print(*cells, file=sys.stderr, flush=True)
    header = ["design", "users", "bias", "cover %", "NW bias", "NW cover %", "rejects %", "NW", "rdrobust", "averages"]
    title = f"### The outcome at the threshold, {options.runs} runs"
    return f"{title}\n\n" + table([*header, "rmse of gap", "rdrobust", "judged"], body)


def threshold_tables(options: argparse.Namespace) -> str:
    body = []
    for users in options.sizes:
        spec = es.simulate(
            users,
            score={"a": (2, 3), "b": (3, 2)},
            curve={"a": (0, 1.2), "b": (-0.6, 1.2)},
            rows_per_user=ROWS,
            outcome_correlation=0.5,
        )
        truth = {}
        for strategy, censored in CASES:
            true = true_thresholds(spec, 0.5, strategy)
            name = case_name(strategy, censored)
            truth |= {f"{name}: threshold": true["b" if strategy == "raise" else "a"], f"{name}: true gap left": 0.0}
            truth[f"{name}: change of rate"] = 0.0
        method = {"thresholds": partial(solved, spec=spec, cases=CASES)}
        rows = {row["method"]: row for row in run(f"thresholds {users}", spec, method, options, truth)}
        for strategy, censored in CASES:
            name = case_name(strategy, censored)
            at, gap, rate = (rows[f"{name}: {what}"] for what in ("threshold", "true gap left", "change of rate"))
            change = f"{100 * rate['mean']:+.3f}" if strategy == "rate" else ""
            where = [f"{at['truth']:.4f}", f"{at['bias']:+.4f}", f"{at['rmse']:.4f}", percent(at, "coverage")]
            body.append([name, f"{users:,}", *where, f"{gap['rmse']:.4f}", change])
    header = ["strategy", "users", "true threshold", "bias", "rmse", "cover %", "rms true gap left", "rate, points"]
    return f"### Thresholds, {options.runs} runs\n\n" + table(header, body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--sizes", type=lambda text: tuple(int(size) for size in text.split(",")), default=SIZES)
    parser.add_argument("--resume", help="a folder for finished runs")
    parser.add_argument("--design", action="append", help="only designs whose name has this in it")
    parser.add_argument("--skip-peers", action="store_true")
    parser.add_argument("--only", choices=("marginal", "thresholds"))
    page_option(parser)
    options = parser.parse_args()
    if options.resume:
        Path(options.resume).mkdir(parents=True, exist_ok=True)
    peers = not options.skip_peers and importlib.util.find_spec("rdrobust") is not None
    sections = {"marginal": partial(marginal_tables, options, peers), "thresholds": partial(threshold_tables, options)}
    chosen = [sections[options.only]] if options.only else sections.values()
    show(chosen, "Outcomes at thresholds", options.page, ("rdrobust",))


if __name__ == "__main__":
    main()
