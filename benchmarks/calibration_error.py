"""Bias, error and interval coverage of every calibration error, on data with a known one; other packages beside.

    python benchmarks/calibration_error.py --resume runs
    python benchmarks/calibration_error.py --fast

Other packages (uncertainty-calibration, relplot, netcal) are left out when they are not installed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import evenscore as es
from evenscore.miscalibration import METHODS
from evenscore.simulation import PoissonRows
from writing import page_option, show, table

Data = dict[str, Any]

DEFAULT = "kernel"
CURVES = {0.0: (0.0, 1.0), 0.016: (-0.0774, 1.0), 0.1: (-0.489, 1.0)}  # with Beta(2, 2) scores
KINDS = {
    "independent": {"rows_per_user": 1},
    "dependent": {"rows_per_user": PoissonRows(3), "outcome_correlation": 0.6, "score_correlation": 0.4, "informative": 0.3},
}
PEERS = {"uncertainty-calibration": "calibration", "relplot": "relplot", "netcal": "netcal"}
MSCE_SCRIPT = "MSCE by rows, as its authors' scripts"


def design(kind: str, error: float, users: int) -> es.Simulation:
    """One group with a true calibration error near ``error``."""
    name = f"{kind}, error {error:g}, {users} users"
    return es.simulate({"a": users}, curve=CURVES[error], name=name, **KINDS[kind])


def population(spec: es.Simulation, method: str) -> float:
    """What a method would give without end of users: its value on a fine grid of scores with expected outcomes."""
    if method == DEFAULT:
        return spec.truth.tce("a")
    levels = (np.arange(40_000) + 0.5) / 40_000
    from scipy import special

    score = spec.scores[0].scores(special.ndtri(levels))
    outcome = spec.truth.curve(score, "a")
    tally = es.tally(None, score=score, outcome=outcome, group=np.zeros(len(score), dtype=int), user=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", es.EvenscoreWarning)
        return es.calibration_error(tally, method=method, bandwidth=0.006, interval=False, debias=False).overall.plug_in


# Methods for es.study


def ours(data: Data, seed: int, methods: tuple[str, ...], cells: int = 512) -> dict[str, dict[str, float]]:
    """All methods from one tally."""
    tally = es.tally(data, score="score", outcome="outcome", group="group", user="user", cells=cells)
    found = {}
    for method in methods:
        each = es.calibration_error(tally, method=method, seed=seed).overall
        found[method] = {"estimate": each.estimate, "low": each.ci_low, "high": each.ci_high}
    return found


def authors_sweep(data: Data, seed: int) -> dict[str, float]:
    """MSCE as its authors' scripts define it: rows in order, bins by floor(rank / n * bins), root of the mean square."""
    order = np.argsort(data["score"], kind="stable")
    score, outcome = (np.concatenate([[0.0], np.cumsum(data[name][order])]) for name in ("score", "outcome"))
    n_rows = len(order)
    chosen = np.array([0, n_rows])
    for n_bins in range(2, n_rows):
        limits = np.ceil(np.arange(n_bins + 1) * n_rows / n_bins).astype(int)
        if (np.diff(np.diff(outcome[limits]) / np.diff(limits)) < 0).any():
            break
        chosen = limits
    size = np.diff(chosen)
    gaps = (np.diff(outcome[chosen]) - np.diff(score[chosen])) / size
    return {"estimate": math.sqrt(float(size @ gaps**2) / n_rows)}


def uncertainty_calibration(data: Data, seed: int) -> dict[str, float]:
    """Kumar's debiased error of 15 bins, by rows."""
    from calibration.utils import lower_bound_scaling_ce

    return {"estimate": float(lower_bound_scaling_ce(data["score"], data["outcome"], p=2, debias=True, num_bins=15))}


def relplot_error(data: Data, seed: int) -> dict[str, float]:
    """smECE, by rows."""
    import relplot

    return {"estimate": float(relplot.smECE(f=data["score"], y=data["outcome"]))}


def netcal_error(data: Data, seed: int) -> dict[str, float]:
    """netcal's ECE of 15 bins of equal width, by rows."""
    with contextlib.redirect_stdout(io.StringIO()):
        from netcal.metrics import ECE

        return {"estimate": float(ECE(15).measure(data["score"], data["outcome"]))}


PEER_METHODS: dict[str, tuple[str, Callable[..., Any], str]] = {
    "uncertainty-calibration": ("uncertainty-calibration, debiased ECE", uncertainty_calibration, "debiased_ece"),
    "relplot": ("relplot, smECE", relplot_error, "smooth"),
    "netcal": ("netcal, ECE", netcal_error, "ece"),
}


# Tables


def run(spec: es.Simulation, methods: dict[str, Callable[..., Any]], runs: int, folder: Path | None, name: str) -> es.Study:
    """One cell, with a line about it to stderr."""
    path = None if folder is None else folder / f"{name}.jsonl"
    began = time.process_time()
    found = es.study(spec, methods, runs=runs, resume=path)
    print(f"{spec.name}: {runs} runs, {time.process_time() - began:.0f} s of CPU", file=sys.stderr, flush=True)
    return found


def installed() -> list[str]:
    return [name for name, module in PEERS.items() if importlib.util.find_spec(module) is not None]


def methods_table(kind: str, error: float, sizes: Iterable[int], runs: int, peer_runs: int, cells: int, folder: Path | None) -> str:
    """Bias and error of each method's estimate against the true calibration error, and coverage of its own population value."""
    peers = [PEER_METHODS[name] for name in installed()]
    methods = {"evenscore": partial(ours, methods=tuple(METHODS), cells=cells), MSCE_SCRIPT: authors_sweep}
    others = {label: method for label, method, _ in peers}
    own = {method: method for method in METHODS} | {MSCE_SCRIPT: "msce"} | {label: method for label, _, method in peers}
    lines: dict[str, list[str]] = {name: [] for name in own}
    truth, target = math.nan, {}
    for users in sizes:
        spec = design(kind, error, users)
        truth = spec.truth.tce("a")
        target = target or {method: population(spec, method) for method in METHODS}
        place = f"{kind}-{error:g}-{users}"
        found = list(run(spec, methods, runs, folder, f"methods-{place}").methods)
        found += run(spec, others, peer_runs, folder, f"peers-{place}").methods if others and peer_runs else ()
        for each in found:
            lines[each.name].append(cell(each, truth, target[own[each.name]]))
    body = [(f"`{name}`" if name in METHODS else name, f"{target[own[name]]:.4f}", *cells) for name, cells in lines.items()]
    body = [line for line in body if len(line) > 2]
    title = f"### {kind.capitalize()} rows, true calibration error {truth:.4f}"
    note = f"{runs} runs ({peer_runs} of other packages), {cells} cells."
    return "\n\n".join([title, note, table(("method", "its value", *(f"{users:,} users" for users in sizes)), body)])


def cell(found: Any, truth: float, target: float) -> str:
    """bias / rmse / coverage in % (width)."""
    error = found.estimate - truth
    text = f"{error.mean():+.4f} / {math.sqrt((error**2).mean()):.4f}"
    if found.low is None:
        return text
    # Sizes are found by bisection and by grids, so a value of exactly 0 needs a little room.
    inside = (found.low <= target + 1e-6) & (target - 1e-6 <= found.high)
    return f"{text} / {100 * inside.mean():.0f} ({(found.high - found.low).mean():.3f})"


def default_table(sizes: Iterable[int], runs: int, folder: Path | None) -> str:
    """Coverage and width of the default interval."""
    sizes = list(sizes)
    body = []
    for kind in KINDS:
        for error in CURVES:
            cells = []
            for users in sizes:
                spec = design(kind, error, users)
                truth = spec.truth.tce("a")
                study = run(spec, {DEFAULT: partial(ours, methods=(DEFAULT,))}, runs, folder, f"default-{kind}-{error:g}-{users}")
                found = study.method(DEFAULT)
                inside = (found.low <= truth) & (truth <= found.high)
                ideal = 2 * 1.96 * found.estimate.std()
                cells.append(f"{100 * inside.mean():.1f} ({(found.high - found.low).mean():.3f}; {ideal:.3f})")
            body.append((kind, f"{truth:.4f}", *cells))
    error = 100 * math.sqrt(0.95 * 0.05 / runs)
    note = (
        f"{runs:,} runs, Monte Carlo error {error:.1f} points at 95 %. Coverage in % (mean width; 2 x 1.96 standard deviations of "
        "the estimate, which is what an interval that knew its sampling distribution would need away from zero)."
    )
    head = ("rows", "true error", *(f"{users:,} users" for users in sizes))
    return "\n\n".join(["### The default interval", note, table(head, body)])


def main() -> None:
    """Print the tables, each as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=300, help="runs of the default (default 300)")
    parser.add_argument("--method-runs", type=int, default=60, help="runs of all methods (default 60)")
    parser.add_argument("--peer-runs", type=int, default=20, help="runs of other packages, which take long (default 20)")
    parser.add_argument("--cells", type=int, default=512, help="cells of the tallies that all methods see (default 512)")
    parser.add_argument("--users", type=int, nargs="+", default=[50, 200, 1000, 5000])
    parser.add_argument("--tables", nargs="+", choices=("default", "methods"), default=["default", "methods"])
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="keep finished runs here, and go on from them")
    page_option(parser)
    parser.add_argument("--fast", action="store_true", help="10 runs, 200 users")
    arguments = parser.parse_args()
    runs, method_runs, sizes = (10, 10, [200]) if arguments.fast else (arguments.runs, arguments.method_runs, arguments.users)
    peer_runs = min(method_runs, arguments.peer_runs)
    if arguments.resume is not None:
        arguments.resume.mkdir(parents=True, exist_ok=True)
    missing = set(PEERS) - set(installed())
    if missing:
        print(f"not installed and left out: {', '.join(sorted(missing))}", file=sys.stderr)
    sections: list[Callable[[], str]] = []
    if "default" in arguments.tables:
        sections.append(partial(default_table, sizes, runs, arguments.resume))
    if "methods" in arguments.tables:
        for kind in KINDS:
            sections += [
                partial(methods_table, kind, error, sizes, method_runs, peer_runs, arguments.cells, arguments.resume)
                for error in CURVES
            ]
    show(sections, "Calibration errors and their limits", arguments.page, PEERS)


if __name__ == "__main__":
    main()
