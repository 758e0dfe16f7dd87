"""How often each test of parity rejects: where there is no gap (size), where there is one (power), and what its bands cover.

Every number is the share of runs with p at most 5 %, in %, on data drawn by es.simulate. Rivals get the same data. With --resume
FOLDER finished runs are kept there, and a study that was interrupted goes on; empty the folder when the tests have changed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

# One thread each: several processes share the cores.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from numpy.typing import NDArray

import evenscore as es
from bin_tests import BINS, bin_tests
from evenscore.parity import parity_family
from evenscore.parity.methods import AUTO, METHODS
from evenscore.simulation import Curve
from evenscore.simulation.designs import ALTERNATIVES, DESIGNS
from evenscore.simulation.study_result import share_error
from writing import page_option, show, table

ALPHA = 0.05
POWER_USERS = 1000  # a group
COVERAGE_DESIGNS = ("dependent-outcomes", "different-densities-dependent", "unequal-groups", "real-outcomes", "informative-rows")
COVERAGE_USERS = (1000, 5000)
NO_LOWER_LIMIT = ("rare-outcomes", "real-outcomes")
PAPER, NAIVE, BINSPWC = "paper: NW + Bonferroni", "naive iid, sup", "binspwc, 10 bins"

Floats = NDArray[np.float64]
Data = dict[str, Any]


# Tests of parity: data in, p-values out


def tally_of(data: Data, user: str | None = "user") -> es.Tally:
    """One pass over the data."""
    return es.tally(data, score="score", outcome="outcome", group="group", user=user)


def evenscore_tests(data: Data, seed: int, methods: tuple[str, ...]) -> dict[str, float]:
    """Several methods on one tally."""
    tally = tally_of(data)
    return parity_family(tally, *tally.groups, seed=seed, methods=methods)


def rival_tests(data: Data, seed: int) -> dict[str, float]:
    """The paper's own test, the same question asked as if rows were people, and dummies for bins."""
    tally = tally_of(data)
    paper = parity_family(tally, *tally.groups, seed=seed, degree=0, bandwidth="theorem", methods=["bonferroni"])["bonferroni"]
    naive = parity_family(tally_of(data, user=None), *tally.groups, seed=seed, methods=["sup"])["sup"]
    return {PAPER: paper, NAIVE: naive, **bin_tests(data)}


def binspwc(data: Data, seed: int) -> dict[str, float]:
    """The pairwise comparison of binsreg, clustered, with user weights and fixed bins; nan when it stops with an error."""
    import binsreg
    import pandas

    group = np.unique(data["group"], return_inverse=True)[1]
    _, user, n_rows = np.unique(data["user"], return_inverse=True, return_counts=True)
    frame = pandas.DataFrame({"y": data["outcome"], "x": data["score"], "g": group, "u": user, "w": 1 / n_rows[user]})
    options: dict[str, Any] = {"by": "g", "cluster": "u", "weights": "w", "bynbins": BINS, "simsseed": seed % 2**31}
    if len(np.unique(data["score"])) <= BINS:
        # With few scores linear pieces have too many coefficients, and bins by group would pool different scores.
        options |= {"pwc": (0, 0), "samebinsby": True}
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            found = binsreg.binspwc("y", "x", data=frame, **options)
        return {BINSPWC: float(np.clip(np.asarray(found.pval).ravel()[0], 0, 1))}
    except Exception:
        return {BINSPWC: math.nan}


# Running


@dataclass(frozen=True)
class Plan:
    """What to run."""

    runs: int
    peer_runs: int
    workers: int
    folder: Path | None
    binsreg: bool

    def study(
        self, name: str, spec: es.Simulation, methods: dict[str, Callable[..., Any]] | str, runs: int
    ) -> list[dict[str, Any]]:
        """One cell of a table, with a line about it to stderr."""
        path = None if self.folder is None else self.folder / f"{name}.jsonl"
        began = time.perf_counter()
        fresh: list[int] = []
        found = es.study(
            spec, methods, runs=runs, workers=self.workers, resume=path, alpha=ALPHA, progress=lambda done, _: fresh.append(done)
        )
        each = (time.perf_counter() - began) / max(1, len(fresh))
        print(f"{name}: {runs} runs, {len(fresh)} of them now, {each:.3f} s each", file=sys.stderr, flush=True)
        return found.rows()

    def tests(self, name: str, spec: es.Simulation, peer_runs: int) -> list[dict[str, Any]]:
        """All tests on one simulation; rivals with their own number of runs of the same data."""
        default, others = ("sup", "l2", AUTO), tuple(method for method in METHODS if method not in ("sup", "l2", AUTO))
        rows = self.study(name, spec, {"default": partial(evenscore_tests, methods=default)}, self.runs)
        if peer_runs:
            rows += self.study(f"{name}-others", spec, {"others": partial(evenscore_tests, methods=others)}, peer_runs)
            rows += self.study(f"{name}-rivals", spec, {"rivals": rival_tests}, peer_runs)
        if peer_runs and self.binsreg:
            rows += self.study(f"{name}-binspwc", spec, {BINSPWC: binspwc}, peer_runs)
        return rows


def size_table(plan: Plan, designs: Iterable[str], users: int) -> str:
    """Rejections where there is no gap."""
    lines = [(name, plan.tests(f"size-{name}-{users}", DESIGNS[name](users), plan.peer_runs)) for name in designs]
    note = f"No gap: the nominal size is 5 %. {caption(plan.runs, 0.05)}{peer_note(plan.peer_runs)}"
    title = f"### Size, {users:,} users a group\n\n{note}"
    return "\n\n".join([title, rejection_table("design", lines), size_verdict(lines, users)])


def power_table(plan: Plan) -> str:
    """Rejections where there is a gap, and on the same kind of data without one."""
    peer_runs = plan.runs if plan.peer_runs else 0
    specs = {name: design(POWER_USERS) for name, design in ALTERNATIVES.items()}
    even = replace(specs["shift"], curves=(Curve(), Curve()), name="no gap")
    lines = [(spec.name, plan.tests(f"power-{name}", spec, peer_runs)) for name, spec in {**specs, "none": even}.items()]
    note = f"Within-user correlation .5. {caption(plan.runs, 0.5)}{peer_note(peer_runs)}"
    title = f"### Power, {2 * POWER_USERS:,} users in all\n\n{note}"
    return "\n\n".join([title, rejection_table("gap", lines)])


def coverage_table(plan: Plan, users: Iterable[int]) -> str:
    """How often the simultaneous band of the gap holds all of the true gap."""
    sizes = list(users)
    makers = {name: DESIGNS[name] for name in COVERAGE_DESIGNS} | ALTERNATIVES
    lines = []
    for name, design in makers.items():
        cells = []
        for size in sizes:
            spec = design(size)
            row = plan.study(f"band-{name}-{size}", spec, "band", plan.runs)[0]
            missed = "" if abs(row["coverage"] - 0.95) <= 0.02 + 2 * row["coverage_error"] else " (!)"
            cells.append(f"{100 * row['coverage']:.1f}{missed}")
        lines.append((spec.name, *cells))
    target = "Nominal 95 %, target 93 to 97 %; (!) is off by more than two Monte Carlo errors."
    title = f"### Coverage of the simultaneous band of the gap\n\n{target} {caption(plan.runs, 0.95)}"
    return "\n\n".join([title, table(("simulation", *(f"{size:,} users a group" for size in sizes)), lines)])


# Showing


def caption(runs: int, share: float) -> str:
    """What the numbers are worth."""
    error = f"Monte Carlo error {100 * share_error(share, runs):.1f} points at {100 * share:g} %"
    return f"{runs:,} runs, {error}."


def peer_note(peer_runs: int) -> str:
    """How many runs the others had."""
    return f" All but sup, l2 and {AUTO}: {peer_runs:,} runs of the same data." if peer_runs else ""


def rejection_table(corner: str, lines: list[tuple[str, list[dict[str, Any]]]]) -> str:
    """Rejections in %, a line for each simulation and a column for each test; runs without a p-value are counted behind it."""
    names = list(dict.fromkeys(row["method"] for _, rows in lines for row in rows))
    body = []
    for name, rows in lines:
        cells = {row["method"]: rejection(row) for row in rows}
        body.append((name, *(cells.get(method, "–") for method in names)))
    shown = table((corner, *(f"**{name}**" if name == AUTO else name for name in names)), body)
    return shown + ("\n\nA run without p counts as one that does not reject." if "without p" in shown else "")


def rejection(row: dict[str, Any]) -> str:
    """The share of rejections in %; without a p-value a run rejects nothing."""
    none = row["runs"] - row["judged"]
    return f"{100 * row['rejected']:.1f}" + (f" ({none} without p)" if none else "")


def size_verdict(lines: list[tuple[str, list[dict[str, Any]]]], users: int) -> str:
    """Whether the default keeps its size: 2 to 8 % from 1000 users on, at most 8 % below, with two Monte Carlo errors of slack."""
    off = []
    for name, rows in lines:
        row = next((row for row in rows if row["method"] == AUTO), None)
        if row is None:
            return f"The default, {AUTO}, was not run."
        lowest = 0.02 if users >= 1000 and name not in NO_LOWER_LIMIT else 0.0
        slack = 2 * row["rejected_error"]
        if not lowest - slack <= row["rejected"] <= 0.08 + slack:
            off.append(f"{name} {100 * row['rejected']:.1f} %")
    wanted = "2 to 8 %" if users >= 1000 else "at most 8 %"
    found = f"missed for {', '.join(off)}" if off else "met"
    return f"The default is {AUTO}. Target: {wanted}, with two Monte Carlo errors of slack: {found}."


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=1000, help="runs of each cell (default 1000)")
    parser.add_argument("--peer-runs", type=int, help="runs of each size cell for other methods and rivals (default: at most 300)")
    parser.add_argument("--users", type=int, nargs="+", default=[200, 1000, 5000], help="users a group (default 200 1000 5000)")
    parser.add_argument(
        "--designs", nargs="+", choices=list(DESIGNS), default=list(DESIGNS), metavar="NAME", help=", ".join(DESIGNS)
    )
    parser.add_argument("--tables", nargs="+", choices=("size", "power", "coverage"), default=["size", "power", "coverage"])
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True, help="also run other methods and rivals")
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="keep finished runs here, and go on from them")
    page_option(parser)
    parser.add_argument("--fast", action="store_true", help="40 runs, 200 users a group")
    return parser.parse_args()


def make_plan(arguments: argparse.Namespace) -> Plan:
    """What the command line asks for."""
    runs = 40 if arguments.fast else arguments.runs
    binsreg = importlib.util.find_spec("binsreg") is not None
    if arguments.peers and not binsreg:
        print("binsreg is not installed and left out", file=sys.stderr)
    if arguments.resume is not None:
        arguments.resume.mkdir(parents=True, exist_ok=True)
    peer_runs = min(runs, arguments.peer_runs or 300) if arguments.peers else 0
    return Plan(runs, peer_runs, arguments.workers, arguments.resume, binsreg)


def main() -> None:
    """Print the tables, each as soon as it is there."""
    arguments = parse_arguments()
    plan = make_plan(arguments)
    sections: list[Callable[[], str]] = []
    if "size" in arguments.tables:
        sections += [
            partial(size_table, plan, arguments.designs, users) for users in ([200] if arguments.fast else arguments.users)
        ]
    if "power" in arguments.tables:
        sections.append(partial(power_table, plan))
    if "coverage" in arguments.tables:
        sections.append(partial(coverage_table, plan, COVERAGE_USERS[:1] if arguments.fast else COVERAGE_USERS))
    show(sections, "Size, power and coverage of the tests", arguments.page, ("binsreg",))


if __name__ == "__main__":
    main()
