"""CPU time from Python with the default threads of linear algebra and with one thread, on an idle and on a busy machine.

python benchmarks/threads.py [--repeats 3]
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from writing import page_option, show, table

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
PROGRAM = """
import sys, time
import evenscore as es

def tally(n_groups):
    sizes = {f"group {i}": 3000 for i in range(n_groups)}
    curves = {name: (-0.1 * i, 1.0) for i, name in enumerate(sizes)}
    data = es.simulate(sizes, curve=curves, rows_per_user=4).data(seed=1)
    return es.tally(data, score="score", outcome="outcome", group="group", user="user")

two, ten = tally(2), tally(10)
calls = {"parity_test, 2 groups": lambda: es.parity_test(two), "audit, 10 groups": lambda: es.audit(ten)}
for name, call in calls.items():
    call()
    start = time.process_time()
    for _ in range(int(sys.argv[1])):
        call()
    print(name, (time.process_time() - start) / int(sys.argv[1]), sep=": ")
"""


def _spin() -> None:
    while True:
        pass


@contextlib.contextmanager
def busy(n_processes: int) -> Iterator[None]:
    """So many processes that do nothing but take time."""
    processes = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(n_processes)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def cpu_seconds(threads: int | None, repeats: int) -> dict[str, float]:
    """CPU seconds of each call in a new process with so many threads, None for what the library chooses itself."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    if threads is not None:
        environment |= dict.fromkeys(VARIABLES, str(threads))
    command = [sys.executable, "-c", PROGRAM, str(repeats)]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return {name: float(seconds) for name, seconds in (line.split(": ") for line in output.splitlines())}


def compare(repeats: int) -> str:
    """A row for each call and load."""
    lines = []
    for words, n_busy in (("idle", 0), ("every core busy", os.cpu_count() or 1)):
        with busy(n_busy):
            one, default = cpu_seconds(1, repeats), cpu_seconds(None, repeats)
        for name in one:
            lines.append([name, words, f"{one[name]:.2f}", f"{default[name]:.2f}", f"{default[name] / one[name]:.2f}"])
            print(*lines[-1], file=sys.stderr, flush=True)
    return f"{os.cpu_count()} cores.\n\n" + table(
        ["call", "machine", "one thread, CPU s", "default threads, CPU s", "ratio"], lines
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=3)
    page_option(parser)
    arguments = parser.parse_args()
    show([partial(compare, arguments.repeats)], "Threads of linear algebra", arguments.page, ("numpy", "threadpoolctl"))


if __name__ == "__main__":
    main()
