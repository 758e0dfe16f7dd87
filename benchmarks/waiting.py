"""What people wait for, in units of ``np.argsort`` of 1e6 random scores: small tests, all pairs, audits; beside other versions.

python benchmarks/waiting.py [NAME ...] [--beside CHECKOUT ...]

The unit is an argsort by plain comparisons, .08 s on the machines of earlier figures: with the vector instructions of some
processors NumPy takes a fifth of that, and the unit would not be one.

Every measurement is a process of its own, and the versions take turns. Under other work both the unit and the figures rise, not
always alike, so that only figures of one run should be compared.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from audit import COLUMNS, compiled, cpu, write_data
from core import NAMES, ONE_THREAD, Task, make_columns
from writing import page_option, show, table

ROWS = 1_000_000
GAP = 0.05


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """The least CPU time of several calls."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return float(best)


def unit() -> float:
    """CPU seconds of an argsort."""
    score = np.random.default_rng(0).random(ROWS)
    return seconds(lambda: np.argsort(score), 5)


def many() -> float:
    """all pairs of 200 groups, both weightings, in seconds of CPU"""
    import resource

    import evenscore as es

    tally = tallied(Task(ROWS, groups=200))
    start = time.process_time()
    es.parity_test(tally)
    spent = time.process_time() - start
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB at most", file=sys.stderr)
    return spent


def tallied(task: Task, gap: float = 0.0) -> Any:
    """A tally; with a gap the last group has lower outcomes."""
    import evenscore as es

    columns = make_columns(task, task.rows)
    lower = (columns["group"] == task.groups - 1) & (np.random.default_rng(1).random(task.rows) < gap)
    return es.tally(columns | {"outcome": np.where(lower, 0, columns["outcome"])}, **NAMES)


def small() -> float:
    """tally and test of 10,000 rows"""
    import evenscore as es

    columns = make_columns(Task(10_000), 10_000)
    return seconds(lambda: es.parity_test(es.tally(columns, **NAMES)), 30)


def test() -> float:
    """test of a tally of 1,000,000 rows"""
    import evenscore as es

    tally = tallied(Task(ROWS))
    return seconds(lambda: es.parity_test(tally), 20)


def pair() -> float:
    """a pair of ten groups, both weightings"""
    import evenscore as es

    tally = tallied(Task(ROWS, groups=10))
    return seconds(lambda: es.parity_test(tally), 2) / 45


def shared() -> float:
    """test of three groups that share 2,500 users"""
    import evenscore as es

    tally = tallied(Task(100_000, per_user=40, groups=3, kind="spanning"))
    return seconds(lambda: es.parity_test(tally), 2)


def audit_two() -> float:
    """audit of a tally, two groups"""
    return _audit_tally(2)


def audit_ten() -> float:
    """audit of a tally, ten groups"""
    return _audit_tally(10)


def file_two() -> float:
    """`evenscore audit` of a Parquet file with 1,000,000 rows, two groups, to the report"""
    return _audit_file(2)


def file_ten() -> float:
    """the same, ten groups"""
    return _audit_file(10)


def _audit_tally(groups: int) -> float:
    import evenscore as es

    es.audit(tallied(Task(2000), GAP))
    tally = tallied(Task(ROWS, per_user=5, groups=groups), GAP)
    return seconds(lambda: es.audit(tally), 1)


def _audit_file(groups: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.parquet"
        write_data(data, ROWS, GAP, groups)
        evenscore, report = [sys.executable, "-m", "evenscore"], str(Path(folder) / "report.html")
        command = [*evenscore, "audit", str(data), *COLUMNS, "--report", report, "--quiet"]
        return cpu(command, compiled(Path(folder), evenscore))[0]


MEASURES = {measure.__name__: measure for measure in (small, test, pair, shared, audit_two, audit_ten, file_two, file_ten)}
SLOW = {"many": many}  # only when asked for
PLAIN = {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"}


def units(name: str, checkout: Path | None) -> float:
    """One measurement with the version of a checkout, or the installed one."""
    paths = {} if checkout is None else {"PYTHONPATH": str(checkout / "src")}
    return _seconds_of(name, paths) / (1.0 if name in SLOW else _seconds_of("unit", PLAIN))


def _seconds_of(name: str, variables: dict[str, str]) -> float:
    command = [sys.executable, __file__, "--measure", name]
    done = subprocess.run(command, env=os.environ | ONE_THREAD | variables, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


def measured(names: list[str], beside: list[Path]) -> str:
    """The figures of all versions."""
    lines = []
    for name in names:
        figures = [units(name, checkout) for checkout in (None, *beside)]
        lines.append([((MEASURES | SLOW)[name].__doc__ or name), *(f"{figure:.3g}" for figure in figures)])
        print(*lines[-1], sep=" | ", file=sys.stderr, flush=True)
    return table(["CPU, argsorts of 1e6 scores", "this version", *(checkout.name for checkout in beside)], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(MEASURES | SLOW)}")
    parser.add_argument("--beside", type=Path, nargs="*", default=[], help="checkouts of other versions")
    parser.add_argument("--measure", choices=("unit", *MEASURES, *SLOW))
    page_option(parser)
    arguments = parser.parse_args()
    if arguments.measure:
        print((MEASURES | SLOW | {"unit": unit})[arguments.measure]())
        return
    names = arguments.names or list(MEASURES)
    show([lambda: measured(names, arguments.beside)], "What people wait for", arguments.page, ("duckdb",))


if __name__ == "__main__":
    main()
