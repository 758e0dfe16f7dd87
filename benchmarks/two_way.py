"""False alarms and power where rows share a user, an item, or both: variances by user, by item, by both in full, and by both.

Effects of users and of items {0, small, large} x groups of {items, users} x items {20, 60, 200, 1000} x rows {sparse, dense}, all
crossed, or a balanced part of them. "full" is the plain sum of Cameron, Gelbach and Miller; "both" is what the package does. The
same draws serve all. With --resume FOLDER finished runs are kept there; --first 1000 makes fresh draws (of a folder of their own).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

import evenscore as es
from evenscore.parity import parity_family
from evenscore.tallies.two_way import item_share, with_keys
from writing import page_option, show, table

EFFECTS = {"0": 0.0, "small": 0.25, "large": 0.75}  # standard deviations on the logit scale
ROWS = {"sparse": (1500, 2), "dense": (300, 20)}  # users, and rows of each
KEYS = ("user", "item", "full", "both")
NAMES = {"user": "by user", "item": "by item", "full": "both, in full", "both": "both"}
ALPHA = 0.05
GAPS = {"items": 0.2, "users": 0.3}  # of logits, where there is one


@dataclass(frozen=True)
class Cell:
    """One design."""

    groups: str
    users: str
    items: str
    n_items: int
    rows: str
    gap: float = 0.0

    @property
    def name(self) -> str:
        """For journals and tables."""
        effects = f"users_{self.users}-items_{self.items}"
        return f"groups_{self.groups}-{effects}-{self.n_items}-{self.rows}" + ("-gap" if self.gap else "")

    def draw(self, run: int) -> dict[str, Any]:
        """Rows of one run."""
        rng = np.random.default_rng([run, *self.name.encode()])
        n_users, each = ROWS[self.rows]
        user = np.repeat(np.arange(n_users), each)
        item = rng.integers(0, self.n_items, len(user))
        group = (item if self.groups == "items" else user) % 2
        score = rng.uniform(0.02, 0.98, len(user))
        logit = np.log(score / (1 - score)) + self.gap * group
        logit += EFFECTS[self.users] * rng.normal(size=n_users)[user] + EFFECTS[self.items] * rng.normal(size=self.n_items)[item]
        outcome = rng.uniform(size=len(user)) < 1 / (1 + np.exp(-logit))
        return {"score": score, "outcome": outcome, "group": np.array(["a", "b"])[group], "user": user, "item": item}


def grid(fraction: str) -> list[Cell]:
    """All cells without a gap, or every n-th of them in an order that balances the factors; then those with one."""
    part, parts = map(int, fraction.split("/"))
    every = itertools.product(("items", "users"), EFFECTS, EFFECTS, (20, 60, 200, 1000), ROWS)
    numbers = ([list(values).index(value) for values, value in zip(_levels(), cell, strict=True)] for cell in every)
    chosen = [_cell(number) for number in numbers if sum(number) % parts == part % parts]
    with_gap = itertools.product(("items", "users"), ("0", "large"), (60, 200), ROWS)
    return chosen + [Cell(groups, "large", items, n_items, rows, GAPS[groups]) for groups, items, n_items, rows in with_gap]


def _levels() -> tuple[tuple[Any, ...], ...]:
    return ("items", "users"), tuple(EFFECTS), tuple(EFFECTS), (20, 60, 200, 1000), tuple(ROWS)


def _cell(number: list[int]) -> Cell:
    return Cell(*(values[place] for values, place in zip(_levels(), number, strict=True)))


def one_run(cell: Cell, run: int) -> dict[str, float | None]:
    """The p-value by each choice of keys; None where it cannot be judged."""
    columns = {name: name for name in ("score", "outcome", "group", "user", "item")}
    tally = es.tally(cell.draw(run), **columns, cells=64)
    found: dict[str, float | None] = {"share": item_share(tally, "user")}
    for keys in KEYS:
        p = parity_family(with_keys(tally, keys), "a", "b", methods=("combined",))["combined"]
        found[keys] = None if np.isnan(p) else p
    return found


def run_cell(cell: Cell, runs: int, folder: Path, first: int = 0) -> list[dict[str, Any]]:
    """All runs of a cell, numbered from ``first`` on, of which those that the folder holds are not repeated."""
    path = folder / f"{cell.name}.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    with path.open("a") as journal:
        for run in range(len(known), runs):
            known.append(one_run(cell, first + run))
            journal.write(json.dumps(known[-1]) + "\n")
            journal.flush()
    return known[:runs]


def rejections(found: dict[Cell, list[dict[str, Any]]], *, gap: bool) -> str:
    """Rejections in per cent, with the share of runs without an answer and the mean measure in which items count."""
    header = ("groups of", "effect of users", "of items", "items", "rows", *NAMES.values(), "no answer", "measure", "runs")
    rows = []
    for cell, runs in found.items():
        if bool(cell.gap) == gap and runs:
            rates = [100 * np.mean([run[keys] is not None and run[keys] <= ALPHA for run in runs]) for keys in KEYS]
            missing = 100 * np.mean([run["both"] is None for run in runs])
            share = float(np.mean([run["share"] for run in runs]))
            place = (cell.groups, cell.users, cell.items, str(cell.n_items), cell.rows)
            rows.append((*place, *(f"{rate:.1f}" for rate in rates), f"{missing:.0f}", f"{share:.2f}", str(len(runs))))
    return table(header, rows)


def main() -> None:
    """Run what is open, then print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--fraction", default="1/1", help="part of the grid, such as 1/4")
    parser.add_argument("--first", type=int, default=0, help="number of the first run, which its draws follow from")
    parser.add_argument("--resume", type=Path, default=Path("build/two_way"), metavar="FOLDER")
    parser.add_argument("--only", default="", help="cells whose name has this text")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of CPU after which no further cell is begun")
    parser.add_argument("--show", action="store_true", help="run nothing: only show what the folder holds")
    page_option(parser)
    arguments = parser.parse_args()
    found = {}
    for cell in grid(arguments.fraction):
        if arguments.only not in cell.name:
            continue
        path = arguments.resume / f"{cell.name}.jsonl"
        idle = arguments.show or time.process_time() > arguments.seconds
        runs = len(path.read_text().splitlines()) if idle and path.exists() else 0 if idle else arguments.runs
        found[cell] = run_cell(cell, runs, arguments.resume, arguments.first) if runs else []
        print(f"{cell.name}: {len(found[cell])} runs, {time.process_time():.0f} s of CPU so far", file=sys.stderr, flush=True)
    held = sum(bool(runs) for runs in found.values())
    about = f"Parity tests at {100 * ALPHA:.0f} %, {held} of {len(found)} cells; rejections in %."
    gaps = " and ".join(f"{gap} logits between groups of {groups}" for groups, gap in GAPS.items())
    sections = (
        lambda: f"{about}\n\n### False alarms\n\n{rejections(found, gap=False)}",
        lambda: f"### Power, gaps of {gaps}\n\n{rejections(found, gap=True)}",
    )
    show(sections, "Users and items", arguments.page)


if __name__ == "__main__":
    main()
