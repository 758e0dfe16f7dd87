"""False alarms on the example data, whose groups are dealt out anew: real scores, outcomes and users, and a null that is true."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import evenscore as es
from writing import table

EXAMPLES = Path(__file__).parents[1] / "examples"
SCREENED = 0.05  # risk from which on people are screened for diabetes


@dataclass(frozen=True)
class Example:
    """A data set, what its columns are called, and what to ask of it."""

    name: str
    data: Any
    columns: dict[str, Any]
    tests: tuple[str, ...] = ("parity", "ordering")
    options: dict[str, Any] = field(default_factory=dict)


def examples() -> list[Example]:
    """Forecasts of games and of elections, risks of diabetes, and police searches."""
    games = {"score": "score", "outcome": "outcome", "group": "bracket", "user": "game_id"}
    people = {"score": "score_blind", "outcome": "diabetes", "group": "race", "user": "seqn", "nulls": "drop"}
    risks = str(EXAMPLES / "nhanes" / "nhanes_diabetes.parquet")
    spanning, searches = _script("governors/spanning.py"), _script("open_policing/searches.py")
    bar = {"threshold": SCREENED}
    every = ("parity", "ordering", "marginal")
    return [
        Example("ncaa, by game", str(EXAMPLES / "ncaa" / "ncaa_in_game.parquet"), games),
        Example("governors, by race", spanning.forecasts(), spanning.COLUMNS | {"user": "race"}),
        Example("nhanes, race-blind risk", risks, people, every, bar),
        Example("nhanes, dealt within scores", risks, people, every, bar | {"within": "score"}),
        Example("open_policing, by place", searches.searches(), searches.COLUMNS),
    ]


def _script(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(path).stem, EXAMPLES / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def placebo_lines(runs: int, workers: int) -> Iterator[tuple[str, ...]]:
    """One line for each data set and test, each at 5 %."""
    for example in examples():
        for test in example.tests:
            began = time.process_time()
            options = {name: value for name, value in example.options.items() if name != "threshold" or test == "marginal"}
            found = es.placebo(example.data, runs=runs, tests=test, workers=workers, **options, **example.columns).tests[0]
            low, high = found.limits
            share = f"{100 * found.rejection_rate:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
            cost = f"{time.process_time() - began:.0f}" if workers == 1 else "–"
            yield example.name, test, share, f"{100 * found.not_judged / runs:.0f}", cost


def placebo_section(runs: int, workers: int) -> str:
    """The table; none where this version has no es.placebo."""
    title = "### Placebo runs"
    if not hasattr(es, "placebo"):
        return f"{title}\n\nThis version has no `es.placebo`."
    note = (
        f"Groups of the example data, dealt out anew among users {runs:,} times: false alarms at a nominal 5 %, with 95 % limits."
    )
    header = ("data", "test", "rejections %", "not judged %", "CPU seconds")
    return "\n\n".join([title, note, table(header, placebo_lines(runs, workers))])
