"""The paper's Section 8 run again: its three figures, their numbers, and whether its findings hold."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenscore._version import __version__
from evenscore.errors import FileError, require_count
from evenscore.reproduction.bias import METHODS, Bias, biases, calibration_errors, truths
from evenscore.reproduction.document import to_html, to_markdown
from evenscore.reproduction.findings import Finding, findings
from evenscore.reproduction.flip import Reading, both_tests, count_below, read_all, sensitivity
from evenscore.reproduction.page import page
from evenscore.reproduction.settings import BIAS_USERS, DEPENDENT, FAST, FULL, INDEPENDENT, Effort, bias_simulation, flip_simulation
from evenscore.saving import named, write_whole
from evenscore.simulation import Simulation, Workers
from evenscore.simulation.studies import study
from evenscore.simulation.study_result import Study
from evenscore.tables import Table, json_ready
from evenscore.types import Progress

DIGITS = 8  # of the numbers that are written: what other linear algebra libraries agree on


@dataclass(frozen=True, slots=True, repr=False)
class Reproduction(Table):
    """What ``reproduce`` found."""

    seed: int
    fast: bool
    readings: list[Reading]
    sensitivity: list[dict[str, Any]]
    flip: Study
    null: Study
    biases: list[Bias]
    bias_runs: int
    truths: dict[str, float]
    findings: list[Finding]

    @property
    def failed(self) -> list[Finding]:
        """Findings that do not hold."""
        return [finding for finding in self.findings if not finding.holds]

    def rows(self) -> list[dict[str, Any]]:
        """One row a finding."""
        return [{"finding": f.key, "says": f.says, "holds": f.holds, "figures": f.figures} for f in self.findings]

    def to_dict(self) -> dict[str, Any]:
        """All numbers behind the page, in JSON-ready values."""
        return {
            "seed": self.seed,
            "fast": self.fast,
            "findings": self.rows(),
            "true_calibration_error": _round(self.truths),
            "bias": [
                {"kind": b.kind, "users": b.users, "method": b.method, "bias": _round(b.bias), "error": _round(b.error)}
                for b in self.biases
            ],
            "readings": [
                {"reading": reading.name, "points": _round(reading.test.points), "p_value": _round(reading.test.p_value)}
                for reading in self.readings
            ],
            "repeated": _round(self.flip.rows()),
            "without_gap": _round(self.null.rows()),
            "sensitivity": self.sensitivity,
        }

    def _title(self) -> str:
        return f"Section 8 of the paper: {len(self.findings) - len(self.failed)} of {len(self.findings)} findings hold"


def reproduce(
    output: str | Path,
    *,
    fast: bool = False,
    effort: Effort | None = None,
    seed: int = 0,
    workers: int = 2,
    progress: Progress | None = None,
) -> Reproduction:
    """Run the experiments and write figures (PNG and SVG), a page (Markdown and HTML) and numbers (JSON) to a folder.

    ``effort`` says how many draws each study makes; by default the full number, or few when ``fast``.

    Finished draws are kept in a folder inside it until everything is written, so that an interrupted run goes on. The same seed
    gives the same files, byte for byte, with any number of workers.
    """
    from evenscore.report.reproduction_figures import draw_bias, draw_flip, draw_tests, steady

    with steady():
        pass  # without matplotlib say so before anything is computed
    require_count("seed", seed, low=0)
    folder = _writable(Path(output))
    effort = effort or (FAST if fast else FULL)
    runs = _kept_runs(folder, seed)
    with Workers(workers) as processes:
        tasks = Tasks(runs, seed, processes, progress, effort.total)
        reproduction = _run(tasks, effort, fast)
    figures = {
        "figure-1": draw_flip(reproduction.readings),
        "figure-2": draw_tests(reproduction.readings),
        "figure-3": draw_bias(reproduction.biases, reproduction.truths),
    }
    blocks = page(reproduction, figures)
    files = {f"{name}.{kind}": content for name, kinds in figures.items() for kind, content in kinds.items()}
    files |= {"index.md": to_markdown(blocks).encode(), "index.html": to_html(blocks).encode()}
    files["numbers.json"] = (json.dumps(reproduction.to_dict(), indent=1, allow_nan=False) + "\n").encode()
    for name, content in files.items():
        write_whole(folder / name, content)
    shutil.rmtree(runs, ignore_errors=True)
    return reproduction


@dataclass(slots=True)
class Tasks:
    """Studies that share processes, a folder for finished runs, and one count of progress."""

    folder: Path
    seed: int
    workers: Workers
    progress: Progress | None
    total: int
    done: int = 0

    def study(self, key: str, simulation: Simulation, name: str, method: Callable[..., Any], runs: int, **options: Any) -> Study:
        """One study; its runs count on from those of the studies before."""
        before = self.done

        def tell(finished: int, _: int) -> None:
            if self.progress is not None:
                self.progress(before + finished, self.total)

        path = self.folder / f"{key}.jsonl"
        result = study(
            simulation, {name: method}, runs=runs, seed=self.seed + 1, workers=self.workers, resume=path, progress=tell, **options
        )
        self.done += runs
        return result


def _run(tasks: Tasks, effort: Effort, fast: bool) -> Reproduction:
    """The studies, then the one draw that the figures show."""
    studies: dict[tuple[str, int], Study] = {}
    for kind in (DEPENDENT, INDEPENDENT):
        for users in BIAS_USERS:
            spec = bias_simulation(users, kind)
            truth = spec.truth.tce(spec.groups[0])
            studies[kind, users] = tasks.study(
                f"bias-{kind}-{users}",
                spec,
                "calibration errors",
                calibration_errors,
                effort.bias_runs,
                truth=dict.fromkeys(METHODS, truth),
            )
    flip = tasks.study("flip", flip_simulation(), "readings", count_below, effort.flip_runs)
    null = tasks.study("null", flip_simulation(0.0), "tests", both_tests, effort.null_runs)
    readings = read_all(tasks.seed)
    all_biases = biases(studies)
    return Reproduction(
        seed=tasks.seed,
        fast=fast,
        readings=readings,
        sensitivity=sensitivity(tasks.seed),
        flip=flip,
        null=null,
        biases=all_biases,
        bias_runs=effort.bias_runs,
        truths=truths(),
        findings=findings(readings, flip, null, all_biases),
    )


def _writable(folder: Path) -> Path:
    """The folder, made if need be; an error before anything is computed when nothing can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no folder can have such a name"
        raise FileError(f"cannot write to the folder {named(folder)}: {reason}") from error
    return folder


def _kept_runs(folder: Path, seed: int) -> Path:
    """Where finished runs are kept: by version, since methods are recognised by name only."""
    runs = folder / f".runs-{__version__}-{seed}"
    with contextlib.suppress(FileExistsError):
        runs.mkdir()
    return runs


def _round(value: Any) -> Any:
    """JSON-ready values with as many digits as can be relied on."""
    ready = json_ready(value)
    if isinstance(ready, dict):
        return {key: _round(item) for key, item in ready.items()}
    if isinstance(ready, list):
        return [_round(item) for item in ready]
    return float(f"{ready:.{DIGITS}g}") if isinstance(ready, float) else ready
