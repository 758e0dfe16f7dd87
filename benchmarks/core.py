"""What the tally and the parity test cost, next to a sort of the scores and next to other ways to ask the same question.

Every measurement is a process of its own: it makes the data, calls everything once on a little of it so that imports do not count,
and then measures CPU time (user and system, all threads) and peak memory of one call. Linear algebra is kept to one thread, since a
second one that waits by spinning would count as work. Linux only.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from peers import PEERS
from writing import page_option, show, table

NAMES = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
REPEATS = 3
WARM_ROWS = 2000
GROWTH_ROWS = 2_000_000
PAIRS_ROWS = 1_000_000
PEER_SECONDS = 60
PEER_BYTES = 12 << 30
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")

Result = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One measurement: evenscore itself or the name of a peer, and the data it gets."""

    rows: int
    per_user: int = 4
    groups: int = 2
    kind: str = "binary"
    peer: str | None = None
    test: bool = True
    argsort: bool = True


# Data


def make_columns(task: Task, rows: int) -> dict[str, Any]:
    """Unsorted rows of users drawn at random, each user in one group unless the kind is "spanning"."""
    rng = np.random.default_rng(rows)
    user = rng.integers(0, max(1, rows // task.per_user), rows)
    score = rng.beta(2, 3, rows)
    columns = {"score": score, "outcome": (rng.random(rows) < score).astype(np.int64), "group": user % task.groups, "user": user}
    if task.kind == "real":
        columns["outcome"] = score + rng.normal(0, 0.3, rows)
    elif task.kind == "spanning":
        columns["group"] = rng.integers(0, task.groups, rows)
    elif task.kind == "wide":
        columns["user"] = rng.integers(-(2**62), 2**62, user.max() + 1)[user]
    elif task.kind == "float32":
        columns["score"] = score.astype(np.float32)
    elif task.kind == "weights":
        columns["weight"] = rng.uniform(0.5, 2, rows)
    elif task.kind.startswith("text"):
        # A string for each row, as a reader makes them: shared ones would come with their hash.
        columns["user"] = np.array([f"user-{number}" for number in user.tolist()], dtype=object)
    return columns


def make_data(task: Task, rows: int) -> Any:
    """The columns in the container that the task asks for."""
    columns = make_columns(task, rows)
    if task.kind in ("pandas", "text pandas"):
        import pandas

        return pandas.DataFrame(columns)
    if task.kind == "text polars":
        import polars

        return polars.DataFrame({name: values.tolist() if values.dtype == object else values for name, values in columns.items()})
    if task.kind == "text pyarrow":
        import pyarrow

        return pyarrow.table(columns)
    return columns


# Inside the measuring process


def peak_bytes(reset: bool = False) -> int:
    """The peak of resident memory, since the last reset where the system allows one."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def cpu_seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """CPU time of a call, and what it returns."""
    start = time.process_time()
    value = call()
    return time.process_time() - start, value


def run_evenscore(task: Task) -> Result:
    """CPU seconds of tally, test and argsort, and peak bytes above the input."""
    import evenscore as es

    weight = {"weight": "weight"} if task.kind == "weights" else {}

    def tally(data: Any) -> Any:
        return es.tally(data, **NAMES, **weight)

    warm = tally(make_data(task, WARM_ROWS))
    if task.test:
        es.parity_test(warm)
    data = make_data(task, task.rows)
    gc.collect()
    before = peak_bytes(reset=True)
    tally_cpu, made = cpu_seconds(lambda: tally(data))
    test_cpu = cpu_seconds(lambda: es.parity_test(made))[0] if task.test else 0.0
    result = {"tally": tally_cpu, "test": test_cpu, "both": tally_cpu + test_cpu, "memory": peak_bytes() - before}
    if task.argsort:
        score = np.asarray(data["score"], dtype=np.float64)
        result["argsort"] = median(cpu_seconds(lambda: np.argsort(score))[0] for _ in range(3))
        result["ratio"] = result["both"] / result["argsort"]
    return result


def run_peer(task: Task) -> Result:
    """CPU seconds of a peer, ended when it takes too long or too much."""
    assert task.peer is not None
    peer = PEERS[task.peer]
    peer(make_data(task, WARM_ROWS))
    data = make_data(task, task.rows)
    gc.collect()
    limit = int(time.process_time()) + PEER_SECONDS
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    resource.setrlimit(resource.RLIMIT_AS, (PEER_BYTES, PEER_BYTES))
    try:
        return {"both": cpu_seconds(lambda: peer(data))[0]}
    except MemoryError:
        return {"failed": f"over {PEER_BYTES >> 30} GB"}
    except Exception as error:
        return {"failed": type(error).__name__}


# Outside it


def measure(task: Task) -> Result:
    """One measurement in a process of its own."""
    print(f"measuring {task}", file=sys.stderr, flush=True)
    command = [sys.executable, __file__, "--task", json.dumps(asdict(task))]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | ONE_THREAD, check=False)
    if task.peer is not None and done.returncode < 0:
        ended = signal.Signals(-done.returncode)
        return {"failed": f"over {PEER_SECONDS} s" if ended is signal.SIGXCPU else ended.name}
    if done.returncode != 0:
        raise SystemExit(f"{task} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def measure_median(task: Task) -> Result:
    """The median of each number over a few processes, so that ratios are taken within one."""
    first = measure(task)
    if "failed" in first:
        return first
    results = [first, *(measure(task) for _ in range(REPEATS - 1))]
    for result in results:
        if "failed" in result:
            return result
    return {name: median(result[name] for result in results) for name in first}


def judged(value: float, limit: float, unit: str = "") -> str:
    """Whether a number is within its target."""
    return f"{value:.3g}{unit} of {limit:g}{unit} ({'met' if value <= limit else 'missed'})"


def sizes(largest: int, limit: int = 10**7) -> list[int]:
    """Powers of ten from 1e4 on, up to the largest size."""
    top = min(largest, limit)
    return [*(size for size in (10**4, 10**5, 10**6, 10**7) if size < top), top]


def show_rows(largest: int) -> str:
    """Section 1: CPU and memory by number of rows."""
    lines = []
    for rows in sizes(largest):
        result = measure_median(Task(rows))
        seconds = (f"{result[name]:.3g}" for name in ("tally", "test", "argsort"))
        lines.append([f"{rows:,}", *seconds, f"{result['ratio']:.2f}", f"{result['memory'] / 1e6:.0f}"])
    header = ("rows", "tally, s", "parity_test, s", "argsort, s", "(tally + parity_test) / argsort", "peak MB above the input")
    text = (
        "### Rows\n\nBinary outcomes, integer ids, two groups, about four rows a user, not sorted. CPU seconds, and their ratio to "
        "`np.argsort` of the scores.\n\n" + table(header, lines)
    )
    if largest >= 10**7:
        text += f"\n\nTargets at 1e7 rows: ratio {judged(result['ratio'], 1.5)}, peak {judged(result['memory'] / 1e6, 250, ' MB')}."
    return text


KINDS: tuple[tuple[str, str, float | None], ...] = (
    ("binary outcomes, integer ids", "binary", 1.5),
    ("real-valued outcomes", "real", 3),
    ("text ids: dict of NumPy arrays", "text", 6),
    ("text ids: polars frame", "text polars", 6),
    ("text ids: pandas frame", "text pandas", 6),
    ("text ids: pyarrow table", "text pyarrow", 6),
    ("sparse 64-bit integer ids", "wide", None),
    ("float32 scores", "float32", None),
    ("survey weights", "weights", None),
)


def show_kinds(rows: int) -> str:
    """Section 2: the same for other kinds of data."""
    lines = []
    for name, kind, limit in KINDS:
        result = measure_median(Task(rows, kind=kind))
        target = "" if limit is None else f"{limit:g}"
        if limit is not None and rows >= 10**7:
            target += " (met)" if result["ratio"] <= limit else " (missed)"
        cells = (f"{result['both']:.3g}", f"{result['ratio']:.2f}", target, f"{result['memory'] / 1e6:.0f}")
        lines.append([name, *cells])
    header = ("data", "tally + parity_test, s", "over argsort", "target", "peak MB above the input")
    return (
        f"### Kinds of data\n\n{rows:,} rows, two groups, about four rows a user. The argsort is that of 64-bit scores.\n\n"
        + table(header, lines)
    )


def growth_line(name: str, tasks: list[Task]) -> list[str]:
    """Nanoseconds a row of some tasks, and how far apart they are."""
    nanoseconds = [measure_median(task)["tally"] / task.rows * 1e9 for task in tasks]
    return [name, *(f"{value:.0f}" for value in nanoseconds), f"{max(nanoseconds) / min(nanoseconds):.1f}"]


def show_growth(rows: int) -> str:
    """Section 3: the cost of a row by rows per user and by number of groups."""

    def task(per_user: int, groups: int) -> Task:
        return Task(rows, per_user, groups, test=False, argsort=False)

    lengths, counts = (1, 4, 16, 32, 64, 128, 256, 1000), (1, 2, 8, 32, 200)
    by_length = [growth_line(f"{groups} groups", [task(length, groups) for length in lengths]) for groups in (2, 32)]
    by_group = [growth_line(f"{length} rows a user", [task(length, groups) for groups in counts]) for length in (4, 64)]
    return (
        f"### Growth\n\nCPU nanoseconds of the tally for each of {rows:,} rows, binary outcomes; the last column is the dearest "
        "over the cheapest. By mean rows a user:\n\n"
        + table(("", *map(str, lengths), "spread"), by_length)
        + "\n\nBy number of groups:\n\n"
        + table(("", *map(str, counts), "spread"), by_group)
    )


def show_spanning(rows: int) -> str:
    """Section 4: users in several groups, whose sums between groups are kept too."""
    lines = []
    for groups, per_user in ((2, 4), (2, 16), (2, 64), (8, 4), (8, 64)):
        one, several = (measure_median(Task(rows, per_user, groups, kind, argsort=False)) for kind in ("binary", "spanning"))
        tallies = (f"{result['tally'] / rows * 1e9:.0f}" for result in (one, several))
        tests = (f"{result['test']:.3g}" for result in (one, several))
        ratios = [f"{several[name] / one[name]:.1f}" for name in ("tally", "test")]
        lines.append([f"{groups} groups, {per_user} rows a user", *tallies, ratios[0], *tests, ratios[1]])
    header = ("", "tally, one group each, ns a row", "several", "ratio", "parity_test, one group each, s", "several", "ratio")
    return (
        f"### Users in several groups\n\n{rows:,} rows, binary outcomes; a user is in one group, or the group of every row is "
        "drawn at random.\n\n" + table(header, lines)
    )


def show_pairs(rows: int) -> str:
    """Section 5: all pairs of many groups."""
    lines = []
    for groups in (2, 5, 10, 25):
        result = measure_median(Task(rows, groups=groups, argsort=False))
        pairs = groups * (groups - 1) // 2
        lines.append([f"{groups}", f"{pairs}", f"{result['test']:.3g}", f"{result['test'] / pairs * 1e3:.1f}"])
    return f"### All pairs\n\n`parity_test` of all pairs of groups, both weightings, {rows:,} rows.\n\n" + table(
        ("groups", "pairs", "CPU seconds", "ms a pair"), lines
    )


def peer_line(peer: str, own: dict[int, float]) -> tuple[list[str], dict[int, float]]:
    """CPU of a peer over that of evenscore at each size; what fails at a size is not tried at the next."""
    cells, ratios = [], {}
    failed = ""
    for rows, seconds in own.items():
        if failed:
            cells.append(f"skipped ({failed} at fewer rows)")
            continue
        result = measure_median(Task(rows, kind="pandas", peer=peer))
        failed = result.get("failed", "")
        if failed:
            cells.append(f"skipped ({failed})" if failed.startswith("over") else f"failed ({failed})")
            continue
        ratios[rows] = result["both"] / seconds
        cells.append(f"{ratios[rows]:.3g} ({result['both']:.3g} s)")
    return [peer, *cells], ratios


def show_peers(largest: int) -> str:
    """Section 6: other ways to ask whether two groups differ at the same score, users respected."""
    own = {rows: measure_median(Task(rows, kind="pandas", argsort=False))["both"] for rows in sizes(largest, 10**6)}
    lines = [["evenscore tally and parity_test", *(f"1 ({seconds:.3g} s)" for seconds in own.values())]]
    ratios = {}
    for peer in PEERS:
        line, ratios[peer] = peer_line(peer, own)
        lines.append(line)
    text = (
        "### Instead\n\nThe same pandas frame (two groups, about four rows a user) given to other tools that respect users. CPU "
        "time over that of evenscore, seconds in brackets, all warm. The bootstrap and lprobust give curves, which are left to be "
        "compared. By default binspwc chooses its bins and lprobust its bandwidth; with clusters both stopped with an error here, "
        "so these are given.\n\n" + table(("", *(f"{rows:,} rows" for rows in own)), lines)
    )
    binspwc = ratios[next(iter(PEERS))]
    for rows, least in ((10**6, 10), (10**4, 0.5)):
        if rows in binspwc:
            found = f"{binspwc[rows]:.3g} ({'met' if binspwc[rows] >= least else 'missed'})"
            text += f"\n\nTarget at {rows:,} rows: binspwc takes at least {least} times the CPU of evenscore; found {found}."
    return text


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=10**7, help="the largest size (default 1e7)")
    parser.add_argument("--skip-peers", action="store_true", help="leave out the comparison with other packages")
    page_option(parser)
    parser.add_argument("--task", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Print the tables, or carry out one measurement for them."""
    arguments = parse_arguments()
    if arguments.task:
        warnings.simplefilter("ignore")
        task = Task(**json.loads(arguments.task))
        print(json.dumps(run_evenscore(task) if task.peer is None else run_peer(task)))
        return
    largest = arguments.rows
    sections: list[Callable[[], str]] = [
        lambda: show_rows(largest),
        lambda: show_kinds(largest),
        lambda: show_growth(min(largest, GROWTH_ROWS)),
        lambda: show_spanning(min(largest, GROWTH_ROWS)),
        lambda: show_pairs(min(largest, PAIRS_ROWS)),
    ]
    if not arguments.skip_peers:
        sections.append(lambda: show_peers(largest))
    packages = ("pandas", "polars", "pyarrow", "binsreg", "pyfixest", "scikit-learn", "nprobust")
    show(sections, "The tally and the test", arguments.page, packages)


if __name__ == "__main__":
    main()
