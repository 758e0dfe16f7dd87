"""Coverage of the limits of Delta-PCC and Delta-RC on data with a known truth, and the speed of ranking.

python benchmarks/impact.py
python benchmarks/impact.py --fast
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from scipy import special, stats

import evenscore as es
from evenscore.simulation import PoissonRows, simulate_ranking
from writing import page_option, show, table

Data = dict[str, Any]

THRESHOLDS = (0.3, 0.5, 0.7)
CURVES = {"calibrated": (0.0, 1.0), "shifted": (-0.5, 1.0), "flat": (0.3, 0.6), "steep": (0.0, 2.0)}
KINDS = {
    "independent": {"rows_per_user": 1},
    "dependent": {"rows_per_user": PoissonRows(3), "outcome_correlation": 0.6, "score_correlation": 0.4},
}
GAP = {"a": (0, 1), "b": (-0.5, 1.3)}
RANKINGS = {
    "10 items a query": simulate_ranking(1000, items=10, curve=GAP, users=100_000),
    "1 + Poisson(5) items, queries alike": simulate_ranking(
        2000, items=PoissonRows(5), curve=GAP, query_correlation=0.4, users=100_000
    ),
    "100 creators a group, alike": simulate_ranking(2000, items=6, curve=GAP, users=100, user_correlation=0.5),
}
RANK_TRUTHS: dict[str, Callable[[Any], dict[Any, float]]] = {
    "rank": lambda truth: truth.rank_change(),
    "exposure": lambda truth: truth.exposure_change(),
    "top 3": lambda truth: truth.top_change(3),
}
NAMES = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


def true_change(curve: tuple[float, float], threshold: float) -> float:
    """Of Beta(2, 2) scores with a rising logit curve."""
    crossing = special.expit((special.logit(threshold) - curve[0]) / curve[1])
    return float(stats.beta.sf(crossing, 2, 2) - stats.beta.sf(threshold, 2, 2))


def decisions(data: Data, seed: int) -> dict[str, dict[str, float]]:
    """Delta-PCC at each threshold."""
    found = es.classification_impact(es.tally(data, **NAMES, cuts=THRESHOLDS), threshold=THRESHOLDS, seed=seed)
    found_at = {}
    for threshold in THRESHOLDS:
        row = found.of("a", threshold)
        found_at[f"{threshold:g}"] = {"estimate": row["estimate"], "low": row["ci_low"], "high": row["ci_high"]}
    return found_at


def ranks(data: Data, seed: int, users: int, clustered: bool) -> dict[str, dict[str, float]]:
    """Delta-RC and its kin, with a calibrator of other users."""
    training = es.simulate(users, curve=GAP, rows_per_user=1).data((seed, 7))
    calibrator = es.calibrate(es.tally(training, **NAMES))
    user = "user" if clustered else None
    names = {"query": "query", "score": "score", "group": "group", "user": user}
    row = es.rank_impact(data, **names, calibrator=calibrator, top_k=3, seed=seed).of("b")
    keys = {"rank": ("estimate", "ci_low", "ci_high"), "exposure": ("exposure", "exposure_low", "exposure_high")}
    keys["top 3"] = ("top", "top_low", "top_high")
    return {name: dict(zip(("estimate", "low", "high"), (row[key] for key in found), strict=True)) for name, found in keys.items()}


def cell(row: dict[str, Any]) -> str:
    return f"{100 * row['coverage']:.0f} ({row['width']:.3f}; {3.92 * math.sqrt(max(row['rmse'] ** 2 - row['bias'] ** 2, 0)):.3f})"


def decision_table(users: int, runs: int) -> str:
    """Coverage of Delta-PCC."""
    body = []
    for kind, options in KINDS.items():
        for name, curve in CURVES.items():
            spec = es.simulate({"a": users}, curve=curve, name=f"{kind}, {name}", **options)
            truth = {f"{threshold:g}": true_change(curve, threshold) for threshold in THRESHOLDS}
            study = es.study(spec, {"decisions": decisions}, runs=runs, truth=truth)
            print(f"{spec.name}: {runs} runs", file=sys.stderr, flush=True)
            body.append((kind, name, *(cell(row) for row in study.rows())))
    head = ("rows", "curve", *(f"threshold {threshold:g}" for threshold in THRESHOLDS))
    return "\n\n".join([f"### Delta-PCC, {users:,} users, {note(runs)}", table(head, body)])


def rank_table(users: int, runs: int) -> str:
    """Coverage of Delta-RC."""
    body = []
    for name, spec in RANKINGS.items():
        truth = {key: find(spec.truth)["b"] for key, find in RANK_TRUTHS.items()}
        method = partial(ranks, users=users, clustered="creators" in name)
        study = es.study(spec, {"ranks": method}, runs=runs, truth=truth)
        print(f"{name}: {runs} runs", file=sys.stderr, flush=True)
        body.append((name, *(cell(row) for row in study.rows())))
    title = f"### Delta-RC, calibrators of {users:,} users a group, {note(runs)}"
    return "\n\n".join([title, table(("queries", *RANK_TRUTHS), body)])


def note(runs: int) -> str:
    error = 100 * math.sqrt(0.95 * 0.05 / runs)
    return f"{runs} runs, Monte Carlo error {error:.1f} points: coverage in % (mean width; 3.92 deviations of the estimate)"


def speed_table(sizes: Iterable[int]) -> str:
    """CPU seconds of rank_impact, ten items a query on average."""
    tally = es.tally(es.simulate(5000, curve=GAP).data(1), **NAMES)
    calibrator, rng, body = es.calibrate(tally), np.random.default_rng(0), []
    for n_items in sizes:
        query = rng.integers(0, n_items // 10, n_items)
        data = {"score": rng.beta(2, 2, n_items), "group": np.array(["a", "b"])[rng.integers(0, 2, n_items)]}
        cells = []
        for given in (np.sort(query), query):
            began = time.process_time()
            es.rank_impact(data | {"query": given}, query="query", score="score", group="group", calibrator=calibrator, top_k=3)
            cells.append(f"{time.process_time() - began:.1f}")
        body.append((f"{n_items:,}", *cells))
    return "\n\n".join(["### CPU seconds of rank_impact", table(("items", "sorted by query", "not sorted"), body)])


def metric_table() -> str:
    """CPU milliseconds of each metric from a tally of two groups."""
    from evenscore.miscalibration import METHODS

    tally = es.tally(es.simulate(20_000, curve=GAP).data(1), **NAMES, cuts=[0.5])
    calls: dict[str, Callable[..., Any]] = {f"`{name}`": partial(es.calibration_error, tally, method=name) for name in METHODS}
    calls["`classification_impact`"] = partial(es.classification_impact, tally, threshold=0.5)
    body = []
    for name, call in calls.items():
        cells = []
        for interval in (False, True):
            call(interval=interval)
            began = time.process_time()
            call(interval=interval)
            cells.append(f"{1000 * (time.process_time() - began):.0f}")
        body.append((name, *cells))
    title = "### CPU milliseconds from a tally, two groups and overall"
    return "\n\n".join([title, table(("metric", "estimates", "with limits"), body)])


def main() -> None:
    """Print the tables, each as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--items", type=float, nargs="+", default=[1e6, 1e7], help="for the speed of ranking")
    tables = ("decisions", "ranks", "metrics", "speed")
    parser.add_argument("--tables", nargs="+", choices=tables, default=list(tables))
    page_option(parser)
    parser.add_argument("--fast", action="store_true", help="5 runs, 1e5 items")
    arguments = parser.parse_args()
    runs, sizes = (5, [100_000]) if arguments.fast else (arguments.runs, [int(size) for size in arguments.items])
    makers = {
        "decisions": partial(decision_table, arguments.users, runs),
        "ranks": partial(rank_table, arguments.users, runs),
        "speed": partial(speed_table, sizes),
        "metrics": metric_table,
    }
    show([makers[name] for name in arguments.tables], "Decisions and ranks", arguments.page)


if __name__ == "__main__":
    main()
