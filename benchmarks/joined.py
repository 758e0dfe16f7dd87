"""What joining cells changes: the parity test on joined cells against the same test on the tally's own, on the same draws.

python benchmarks/joined.py [--tallies 200] [--cells-a-bandwidth 7]
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

import evenscore as es
from evenscore.estimation import comparison
from evenscore.simulation import PoissonRows
from evenscore.tallies import view
from writing import page_option, show, table

COLUMNS = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
SCORES = ((2, 2), (1, 1), (0.5, 5), (2, 8), (0.7, 0.7))
METHODS = ("sup", "l2", "cumulative", "combined")


def tallies(n_tallies: int) -> Iterator[es.Tally]:
    """Generated tallies: five score distributions, 0/1 and log-normal outcomes, 300 to 40,000 users, groups of 1:1 to 19:1."""
    for seed in range(n_tallies):
        rng = np.random.default_rng(seed)
        users, share = int(np.exp(rng.uniform(np.log(300), np.log(40_000)))), rng.choice([0.5, 0.8, 0.95])
        counts = {"a": round(users * share), "b": users - round(users * share)}
        curve = {"a": (rng.uniform(-2, 0), 1.0), "b": (rng.uniform(-2, 0), 1.0)} if seed % 2 else (rng.uniform(-2, 0), 1.0)
        data: dict[str, Any] = es.simulate(
            counts, curve=curve, score=SCORES[seed % 5], rows_per_user=PoissonRows(2), outcome_correlation=0.3
        ).data(seed=seed)
        if seed % 4 == 3:
            data["outcome"] = np.exp(rng.normal(size=len(data["outcome"])) + data["outcome"])
        yield es.tally(data, **COLUMNS)


def tested(tally: es.Tally, method: str, cells: float) -> es.ParityTest:
    """The test with cells joined until a bandwidth spans so many; infinitely many: not at all."""
    comparison.CELLS_A_BANDWIDTH = min(cells, 1e6)  # type: ignore[assignment]
    joined, view.WORTHWHILE = view.WORTHWHILE, 0.0 if np.isinf(cells) else view.WORTHWHILE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", es.EvenscoreWarning)
        test = es.parity_test(tally, method=method, both=False)
    view.WORTHWHILE = joined
    return test


def changes(n_tallies: int, cells: float) -> list[list[object]]:
    """For each method the changes of p-values; of gaps and standard errors with the first."""
    p_values: dict[str, list[float]] = {method: [] for method in METHODS}
    errors, gaps, n_joined = [], [], 0
    for tally in tallies(n_tallies):
        for method in METHODS:
            ours, theirs = (tested(tally, method, each).pairs[0] for each in (cells, np.inf))
            if np.isnan(ours.p_value) or len(ours.gap) != len(theirs.gap):
                continue
            p_values[method].append(abs(ours.p_value - theirs.p_value))
            if method == METHODS[0]:
                n_joined += bool(np.any(ours.gap != theirs.gap))
                errors.extend(np.abs(ours.se / theirs.se - 1))
                gaps.append(float(np.abs((ours.gap - theirs.gap) / theirs.se).max()))
    lines: list[list[object]] = [
        ["tallies judged, and with joined cells", f"{len(gaps)}, {n_joined}"],
        ["gap, in standard errors: largest change", f"{max(gaps):.4f}"],
        ["standard error: largest, 99th percentile and median change, %", _percents(errors)],
    ]
    for method, found in p_values.items():
        lines.append([f"p of {method}: largest, mean change", f"{max(found):.4f}, {np.mean(found):.5f}"])
    return lines


def _percents(errors: list[float]) -> str:
    return ", ".join(f"{100 * value:.3f}" for value in (max(errors), np.quantile(errors, 0.99), np.median(errors)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tallies", type=int, default=200)
    parser.add_argument("--cells-a-bandwidth", type=float, default=7)
    page_option(parser)
    arguments = parser.parse_args()
    made = lambda: table(["joined against not joined", "change"], changes(arguments.tallies, arguments.cells_a_bandwidth))  # noqa: E731
    show([made], "Joined cells", arguments.page)


if __name__ == "__main__":
    main()
