"""What ``evenscore audit`` costs from files to the report, as a process: CPU time, and the size of the page.

python benchmarks/audit.py [ROWS]
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = ["--score", "s", "--outcome", "y", "--group", "g", "--user", "u"]


def write_data(path: Path, n_rows: int, gap: float, n_groups: int = 2) -> None:
    """Five rows a user on average; the last group has lower outcomes."""
    rng = np.random.default_rng(0)
    user = rng.integers(0, n_rows // 5, n_rows)
    score = rng.beta(2, 3, n_rows)
    outcome = rng.random(n_rows) < np.clip(score - gap * (user % n_groups == n_groups - 1), 0, 1)
    labels = np.array([f"group {place}" for place in range(n_groups)])
    pq.write_table(pa.table({"s": score, "y": outcome.astype(np.int8), "g": labels[user % n_groups], "u": user}), path)


def cpu(command: list[str]) -> tuple[float, int]:
    """CPU seconds of a process and its exit code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = subprocess.run(command, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}, capture_output=True).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, code


def main(n_rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data, page = Path(folder) / "data.parquet", Path(folder) / "report.html"
        evenscore = [sys.executable, "-m", "evenscore"]
        print(f"evenscore audit --help: {cpu([*evenscore, 'audit', '--help'])[0]:.2f} s of CPU\n")
        print("| data | options | exit code | CPU, s | report, kB |\n|---|---|---|---|---|")
        for words, gap, n_groups in (("no gap", 0.0, 2), ("gap", 0.05, 2), ("gap, 10 groups", 0.05, 10)):
            write_data(data, n_rows, gap, n_groups)
            for options in ([], ["--threshold", "0.5"]):
                seconds, code = cpu([*evenscore, "audit", str(data), *COLUMNS, *options, "--report", str(page), "--quiet"])
                shown = " ".join(options) or "–"
                print(f"| {n_rows:,} rows, {words} | {shown} | {code} | {seconds:.1f} | {page.stat().st_size / 1000:.0f} |")


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000)
