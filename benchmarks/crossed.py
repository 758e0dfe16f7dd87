"""How tests, limits and promises do where outcomes are rare or skewed, a group is small and scores crowd at one end.

Every factor is crossed with every other, in a whole grid or a balanced part of it; one draw of a cell serves all that is asked.
With --resume FOLDER finished runs are kept there, and a study that was interrupted goes on; remove FOLDER/none/PART and
FOLDER/doubled/PART when a test has changed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

# One thread each: several processes share the cores.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

from crossed_cells import DOUBLED, FAMILIES, NONE, Cell, grid
from crossed_page import Found, sections
from crossed_placebo import placebo_section
from crossed_tests import PARTS, WITH_A_GAP, Draw, Results, warnings_in, without_numbers
from evenscore.simulation.workers import Workers
from writing import page_option, show

ALTERNATIVES = {"none": NONE, "doubled": DOUBLED}


# Running


@dataclass(frozen=True)
class Job:
    """What to run of each cell, and where it is kept."""

    parts: tuple[str, ...]
    runs: int
    peer_runs: int
    alternative: str
    cells: int
    folder: Path

    def path(self, cell: Cell, part: str) -> Path:
        """A folder for each part, so that those of a test that has changed can be emptied alone."""
        return self.folder / self.alternative / part / f"{cell.name}.jsonl"

    def wanted(self, run: int) -> list[str]:
        """The parts of a run: binspwc, which is slow, may have fewer."""
        return [part for part in self.parts if run < (self.peer_runs if part == "binspwc" else self.runs)]


def read_records(path: Path) -> list[dict[str, Any]]:
    """What a journal holds; a line that was cut short is left out."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        with contextlib.suppress(ValueError):
            records.append(json.loads(line))
    return records


def finished_runs(path: Path) -> set[int]:
    """Runs that a journal holds; the next line of it will be one of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as journal:
        if journal.tell() and not path.read_bytes().endswith(b"\n"):
            journal.write(b"\n")
    return {record["run"] for record in read_records(path)}


def run_cell(job: Job, cell: Cell) -> str:
    """All open runs of a cell; says how long they took."""
    done = {part: finished_runs(job.path(cell, part)) for part in job.parts}
    began, fresh = time.process_time(), 0
    for run in range(max(job.runs, job.peer_runs)):
        parts = [part for part in job.wanted(run) if run not in done[part]]
        for part, record in one_run(cell, run, parts, job) if parts else ():
            with job.path(cell, part).open("a", encoding="utf-8", newline="\n") as journal:
                journal.write(json.dumps(record) + "\n")
        fresh += bool(parts)
    each = (time.process_time() - began) / max(1, fresh)
    return f"{cell.name}, {job.alternative}: {fresh} runs now, {each:.3f} CPU s each"


def one_run(cell: Cell, run: int, parts: Iterable[str], job: Job) -> Iterator[tuple[str, dict[str, Any]]]:
    """The record of each part, all on one draw, with the CPU seconds that it took beside those of the draw and its tally."""
    draw = Draw(cell, run, job.cells, ALTERNATIVES[job.alternative])
    seconds = {}
    for name in ("data", "tally", *parts):
        began = time.process_time()
        caught: list[str] = []
        results = {}
        if name in ("data", "tally"):
            getattr(draw, name)
        else:
            with warnings_in(caught):
                results = answer(name, draw)
        seconds[name] = round(time.process_time() - began, 4)
        if name in parts:
            spent = {key: seconds[key] for key in ("data", "tally", name)}
            yield name, {"run": run, "results": results, "seconds": spent, "warnings": caught}


def answer(part: str, draw: Draw) -> Results:
    """The results of a part, or its error: the study goes on, and the page says so."""
    try:
        return PARTS[part](draw)
    except Exception as error:
        return {part: {"error": f"{type(error).__name__}: {without_numbers(str(error))}"}}


def run_all(job: Job, cells: list[Cell], workers: int) -> None:
    """Each worker takes cell after cell."""
    if workers == 1:
        for cell in cells:
            print(run_cell(job, cell), file=sys.stderr, flush=True)
        return
    with Workers(workers) as processes:
        for line in processes.map(run_cell, job, cells):
            print(line, file=sys.stderr, flush=True)


def gather(job: Job, cells: list[Cell]) -> list[Found]:
    """What the folder holds of these cells, one for each."""
    return [gather_cell(job, cell) for cell in cells]


def gather_cell(job: Job, cell: Cell) -> Found:
    """Results by name, warnings, and mean seconds by part."""
    answers: dict[str, list[Any]] = {}
    warned: dict[str, None] = {}
    seconds: dict[str, list[float]] = {}
    for part in job.parts:
        for record in read_records(job.path(cell, part)):
            if part in job.wanted(record["run"]):
                for name, result in record["results"].items():
                    answers.setdefault(name, []).append(result)
                for name, spent in record["seconds"].items():
                    seconds.setdefault(name, []).append(spent)
                warned |= dict.fromkeys(record["warnings"])
    return Found(cell, answers, tuple(warned), {part: sum(spent) / len(spent) for part, spent in seconds.items()})


# The command line


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300, help="runs of each cell (default 300)")
    parser.add_argument("--peer-runs", type=int, help="runs of binspwc, which is slow (default: at most 100)")
    parser.add_argument(
        "--families", nargs="+", choices=list(FAMILIES), default=["rates"], help="kinds of outcomes (default rates)"
    )
    parser.add_argument("--fraction", default="3/6", help="part of the grid: k/1, k/2, k/3 or k/6 (default 3/6, 72 cells a family)")
    parser.add_argument("--cells", metavar="REGEX", default="", help="only cells whose name has this, such as 'rate_1%%.*rows_30'")
    parser.add_argument(
        "--only", nargs="+", choices=list(PARTS), metavar="PART", help=f"some of {', '.join(PARTS)} (default parity)"
    )
    parser.add_argument(
        "--alternative", nargs="+", choices=list(ALTERNATIVES), default=["none"], help="no gap, or the small group's rate doubled"
    )
    parser.add_argument("--lattice", type=int, default=128, metavar="CELLS", help="cells of each tally (default 128, to save time)")
    parser.add_argument("--workers", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="keep finished runs here, and go on from them")
    parser.add_argument("--placebo", type=int, default=0, metavar="RUNS", help="also deal out the examples' groups anew")
    parser.add_argument("--show", action="store_true", help="run nothing: only show what the folder holds")
    parser.add_argument("--list", action="store_true", help="only list the cells")
    page_option(parser)
    return parser.parse_args()


def chosen_parts(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The parts in their own order; binspwc only where it is installed."""
    parts = [part for part in PARTS if part in (arguments.only or ["parity"])]
    if "binspwc" in parts and importlib.util.find_spec("binsreg") is None:
        print("binsreg is not installed and left out", file=sys.stderr)
        parts.remove("binspwc")
    return tuple(parts)


def main() -> None:
    """Run what is open, then print the page."""
    arguments = parse_arguments()
    pattern = re.compile(arguments.cells)
    cells = [cell for family in arguments.families for cell in grid(family, arguments.fraction) if pattern.search(cell.name)]
    if arguments.list:
        print("\n".join(cell.name for cell in cells))
        return
    parts = chosen_parts(arguments)
    peer_runs = min(arguments.runs, arguments.peer_runs or 100)
    folder = arguments.resume or Path(tempfile.mkdtemp())
    found: dict[str, list[Found]] = {}
    for alternative in arguments.alternative:
        own = parts if alternative == "none" else tuple(part for part in parts if part in WITH_A_GAP)
        job = Job(own, arguments.runs, peer_runs, alternative, arguments.lattice, folder)
        if not arguments.show:
            run_all(job, cells, arguments.workers)
        found[alternative] = gather(job, cells)
    title = "Where outcomes are rare, groups small and scores skewed"
    page = sections(found, arguments.fraction, arguments.lattice)
    if arguments.placebo:
        page.append(partial(placebo_section, arguments.placebo, arguments.workers))
    show(page, title, arguments.page, ("binsreg",))


if __name__ == "__main__":
    main()
