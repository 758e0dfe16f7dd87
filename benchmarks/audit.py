"""What ``evenscore audit`` costs from files to the report, as a process: CPU time, and the size of the page.

python benchmarks/audit.py [--rows 1e6]

Commands find their byte code, as they do once a package is installed: a run that is not measured writes it.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from writing import page_option, show, table

COLUMNS = ["--score", "s", "--outcome", "y", "--group", "g", "--user", "u"]


def write_data(path: Path, n_rows: int, gap: float, n_groups: int = 2) -> None:
    """Five rows a user on average; the last group has lower outcomes."""
    rng = np.random.default_rng(0)
    user = rng.integers(0, n_rows // 5, n_rows)
    score = rng.beta(2, 3, n_rows)
    outcome = rng.random(n_rows) < np.clip(score - gap * (user % n_groups == n_groups - 1), 0, 1)
    labels = np.array([f"group {place}" for place in range(n_groups)])
    pq.write_table(pa.table({"s": score, "y": outcome.astype(np.int8), "g": labels[user % n_groups], "u": user}), path)


def compiled(folder: Path, command: list[str]) -> dict[str, str]:
    """The environment of commands whose byte code is kept in a folder, written by a run on little data."""
    environment = os.environ | {
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(folder / "code"),
    }
    write_data(folder / "little.parquet", 2000, 0.2)
    options = ["--threshold", "0.5", "--report", str(folder / "little.html")]
    subprocess.run([*command, "audit", str(folder / "little.parquet"), *COLUMNS, *options], env=environment, capture_output=True)
    return environment


def cpu(command: list[str], environment: dict[str, str]) -> tuple[float, int]:
    """CPU seconds of a process and its exit code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = subprocess.run(command, env=environment, capture_output=True).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, code


def measured(n_rows: int) -> str:
    """CPU seconds of whole commands."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        data, page = Path(folder) / "data.parquet", Path(folder) / "report.html"
        evenscore = [sys.executable, "-m", "evenscore"]
        environment = compiled(Path(folder), evenscore)
        help_seconds = cpu([*evenscore, "audit", "--help"], environment)[0]
        for words, gap, n_groups in (("no gap", 0.0, 2), ("gap", 0.05, 2), ("gap, 10 groups", 0.05, 10)):
            write_data(data, n_rows, gap, n_groups)
            for options in ([], ["--threshold", "0.5"]):
                command = [*evenscore, "audit", str(data), *COLUMNS, *options, "--report", str(page), "--quiet"]
                seconds, code = cpu(command, environment)
                shown = " ".join(options) or "–"
                lines.append([words, shown, f"{code}", f"{seconds:.1f}", f"{page.stat().st_size / 1000:.0f}"])
                print(*lines[-1], file=sys.stderr, flush=True)
    words = f"Parquet files of {n_rows:,} rows, to the report. `evenscore audit --help` takes {help_seconds:.2f} s of CPU."
    return f"{words}\n\n" + table(["data", "options", "exit code", "CPU, s", "report, kB"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=float, default=1e6)
    page_option(parser)
    arguments = parser.parse_args()
    show([partial(measured, int(arguments.rows))], "The audit as a command", arguments.page, ("duckdb",))


if __name__ == "__main__":
    main()
