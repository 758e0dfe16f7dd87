"""False alarms on real data: groups dealt out anew among users, each test at 5 %; and what 200 runs on 1e5 rows cost.

python benchmarks/placebo.py [--runs 200] [--resume FOLDER] [--case ncaa ...] [--workers 1]

With --resume FOLDER finished cases are kept there, a file each; empty it when the tests have changed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

import evenscore as es
from writing import page_option, show, table

EXAMPLES = Path(__file__).parent.parent / "examples"
LEVEL = 0.05  # of each test
SPEED_ROWS = 100_000
SPEED_RUNS = 200
NHANES = {"outcome": "diabetes", "group": "race", "user": "seqn", "weight": "weight", "nulls": "drop"}


@dataclass(frozen=True)
class Case:
    """Data of an example, and what is asked of them."""

    name: str
    data: Callable[[], Any]
    columns: dict[str, Any]
    tests: tuple[str, ...] = ("parity", "ordering")
    options: dict[str, Any] = field(default_factory=dict)

    def run(self, runs: int, workers: int) -> dict[str, Any]:
        started = time.process_time()
        found = es.placebo(
            self.data(),
            **self.columns,
            **self.options,
            tests=self.tests,
            alpha=LEVEL * len(self.tests),
            runs=runs,
            workers=workers,
        )
        return {"rows": found.rows(), "users": found.n_users, "cpu": time.process_time() - started}


def example(path: str, function: str) -> Callable[[], Any]:
    """A function of an example, which makes its data."""

    def load() -> Any:
        spec = importlib.util.spec_from_file_location(Path(path).stem, EXAMPLES / path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, function)()

    return load


def file(path: str) -> Callable[[], str]:
    """A file of an example."""
    return lambda: str(EXAMPLES / path)


NHANES_FILE = file("nhanes/nhanes_diabetes.parquet")
AT_FIVE: dict[str, Any] = {"threshold": 0.05}
SEARCHES = {"score": "searched", "outcome": "hit", "group": "race", "user": "place", "count": "searches"}
EVERY = ("parity", "ordering", "marginal")

CASES = (
    Case(
        "ncaa, by game",
        file("ncaa/ncaa_in_game.parquet"),
        {"score": "score", "outcome": "outcome", "group": "bracket", "user": "game_id"},
        EVERY,
        {"threshold": 0.5},
    ),
    Case("nhanes, race-blind", NHANES_FILE, NHANES | {"score": "score_blind"}, EVERY, AT_FIVE),
    Case("nhanes, race-blind, within score", NHANES_FILE, NHANES | {"score": "score_blind"}, EVERY, AT_FIVE | {"within": "score"}),
    Case("nhanes, race-blind, logit", NHANES_FILE, NHANES | {"score": "score_blind", "scale": "logit"}, EVERY, AT_FIVE),
    Case("nhanes, race-aware, within score", NHANES_FILE, NHANES | {"score": "score_aware"}, EVERY, AT_FIVE | {"within": "score"}),
    Case(
        "governors, by race",
        example("governors/spanning.py", "forecasts"),
        {"score": "probwin", "outcome": "probwin_outcome", "group": "party", "user": "race"},
    ),
    Case("searches, per place", example("open_policing/searches.py", "searches"), SEARCHES, ("parity",), {"reference": "White"}),
    Case(
        "searches, per search",
        example("open_policing/searches.py", "searches"),
        SEARCHES,
        ("parity",),
        {"reference": "White", "weighting": "row"},
    ),
)


def finished(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """What a case gave, from the folder if it is there already."""
    path = None
    if options.resume is not None:
        path = options.resume / f"{case.name.replace(',', '').replace(' ', '-')}-{options.runs}.json"
        if path.is_file():
            return dict(json.loads(path.read_text(encoding="utf-8")))
    found = case.run(options.runs, options.workers)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found), encoding="utf-8")
    print(f"{case.name}: {found['cpu']:.0f} s", file=sys.stderr, flush=True)
    return found


def alarms(options: argparse.Namespace) -> str:
    """False alarms of every test on every example."""
    lines = []
    for case in CASES:
        if options.case and not any(part in case.name for part in options.case):
            continue
        found = finished(case, options)
        for row in found["rows"]:
            share = f"{100 * row['rejection_rate']:.1f}"
            limits = f"{100 * row['ci_low']:.1f} to {100 * row['ci_high']:.1f}"
            counts = [str(row[name]) for name in ("runs", "rejected")]
            lines.append([case.name, row["test"], f"{found['users']:,}", *counts, share, limits, str(row["not_judged"])])
    header = ("data", "test", "users", "runs", "false alarms", "%", "95 % limits", "not judged")
    return f"### False alarms at a level of 5 %\n\n{table(header, lines)}"


def speed(_options: argparse.Namespace) -> str:
    """CPU seconds of 200 runs on 1e5 rows, parity test."""
    columns = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
    lines = []
    for rows, words in ((1, "1 row a user"), (4, "4 rows a user"), (30, "30 rows a user")):
        data = es.simulate(SPEED_ROWS // rows // 2, rows_per_user=rows, outcome_correlation=0.3).data(seed=1)
        costs = data | {"outcome": data["outcome"] * np.exp(np.random.default_rng(0).normal(size=len(data["outcome"])))}
        for kind, given in (("0/1 outcomes", data), ("costs", costs)):
            started = time.process_time()
            es.placebo(given, **columns, runs=SPEED_RUNS)
            lines.append([f"{words}, {kind}", f"{len(given['score']):,}", f"{time.process_time() - started:.1f}"])
    return f"### Cost of {SPEED_RUNS} runs, parity test, one process\n\n{table(('data', 'rows', 'CPU seconds'), lines)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--resume", type=Path, help="a folder for finished cases")
    parser.add_argument("--case", nargs="*", help="only cases whose names hold one of these words")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--skip-speed", action="store_true")
    page_option(parser)
    options = parser.parse_args()
    sections = [lambda: alarms(options)]
    if not options.skip_speed:
        sections.append(lambda: speed(options))
    show(sections, "Placebo runs on the example data", options.page)


if __name__ == "__main__":
    main()
