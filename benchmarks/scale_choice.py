"""On which scale of the score the parity test has most power, and whether the automatic scale finds it.

Shares of runs with p at most 5 %, on the same draws for every scale. One row a user, 0/1 outcomes with the curve
expit(a + 1.2 z), z the normal quantile of the score's rank. The fixed scales have 128 cells each, cut to their own range, to
save time; docs/lattice.md says how little that changes. The automatic one has its 512, which no data moves. What is finished is
kept in the file named by --resume.

python benchmarks/scale_choice.py [--runs 300] [--resume scale_choice.jsonl]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

import evenscore as es
from writing import page_option, show, table

Floats = NDArray[np.float64]

CELLS = {"score": 128, "logit": 128, "rank": 128, "auto": 512}
COLUMNS = {"score": "score", "outcome": "outcome", "group": "group", "user": None}
SCALES = ("score", "logit", "rank", "auto")
SIZES = {"1,000 : 1,000": (1000, 1000), "4,000 : 400": (4000, 400)}

# A score by its rank.
SCORES: dict[str, Callable[[Floats], Floats]] = {
    "Beta(2, 2)": stats.beta(2, 2).ppf,
    "Beta(.5, 50)": stats.beta(0.5, 50).ppf,
    "Beta(1, 30)": stats.beta(1, 30).ppf,
    "expit of N(-3, 1.5)": lambda u: special.expit(-3 + 1.5 * special.ndtri(u)),
    "N(600, 80)": lambda u: 600 + 80 * special.ndtri(u),
    "uniform": lambda u: u,
    "Beta(.3, .3)": stats.beta(0.3, 0.3).ppf,
    "log-normal(3, 1)": lambda u: np.exp(3 + special.ndtri(u)),
    "uniform on [0, .001]": lambda u: u / 1000,
}
OUTSIDE = ("N(600, 80)", "log-normal(3, 1)")  # no logit there

# What group b has in place of expit(a + 1.2 z): (a, its logit).
GAPS: dict[str, tuple[float, Callable[[Floats], Floats]]] = {
    "none": (-1.0, lambda z: -1.0 + 1.2 * z),
    "shift": (-1.0, lambda z: -0.72 + 1.2 * z),
    "slope": (-1.0, lambda z: -1.0 + 1.55 * z),
    "bump": (-1.0, lambda z: -1.0 + 1.2 * z + 0.5 * np.exp(-0.5 * (z / 0.5) ** 2)),
    "rate doubled": (-4.2, lambda z: special.logit(np.minimum(2 * special.expit(-4.2 + 1.2 * z), 0.99))),
}


def draw(scores: str, gap: str, sizes: tuple[int, int], run: int) -> dict[str, Any]:
    """Two groups with the same distribution of scores; group b has the gap."""
    rng = np.random.default_rng((run, *sizes, list(SCORES).index(scores), list(GAPS).index(gap)))
    rank = rng.random(sum(sizes))
    z = special.ndtri(rank)
    second = np.arange(sum(sizes)) >= sizes[0]
    intercept, other = GAPS[gap]
    rate = special.expit(np.where(second, other(z), intercept + 1.2 * z))
    return {
        "score": SCORES[scores](rank),
        "outcome": (rng.random(sum(sizes)) < rate).astype(float),
        "group": np.where(second, "b", "a"),
    }


def rejected(scores: str, gap: str, sizes: tuple[int, int], scale: str, runs: int) -> dict[str, Any]:
    """Shares of runs that reject and that are not judged, in %, and the scales that "auto" took."""
    p_values, taken = [], set()
    for run in range(runs):
        tally = es.tally(draw(scores, gap, sizes, run), **COLUMNS, cells=CELLS[scale], scale=scale)
        p_values.append(es.parity_test(tally, both=False).p_value)
        taken.add(tally.lattice.scale)
    p = np.array(p_values)
    return {"rejected": 100 * float((p <= 0.05).mean()), "not judged": 100 * float(np.isnan(p).mean()), "taken": sorted(taken)}


def results(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """All cells of the table, those in the file of --resume as they are."""
    kept: dict[str, dict[str, Any]] = {}
    if options.resume and options.resume.exists():
        kept = {line["key"]: line for line in map(json.loads, options.resume.read_text().splitlines())}
    for sizes in options.sizes:
        for gap in options.gaps or GAPS:
            for scores in options.scores or SCORES:
                for scale in options.scales.split(","):
                    key = "|".join([scores, gap, sizes, scale, str(options.runs)])
                    if key in kept or (scale == "logit" and scores in OUTSIDE):
                        continue
                    kept[key] = {"key": key, **rejected(scores, gap, SIZES[sizes], scale, options.runs)}
                    print(json.dumps(kept[key]), file=sys.stderr, flush=True)
                    if options.resume:
                        with options.resume.open("a") as file:
                            file.write(json.dumps(kept[key]) + "\n")
    return kept


def size_table(sizes: str, options: argparse.Namespace, kept: dict[str, dict[str, Any]]) -> str:
    """One line for each distribution of scores: the null first, then power."""
    lines = []
    gaps = options.gaps or list(GAPS)
    for scores in options.scores or SCORES:
        cells = []
        for gap in gaps:
            shares = [kept.get("|".join([scores, gap, sizes, scale, str(options.runs)])) for scale in options.scales.split(",")]
            cells.append(" / ".join("–" if one is None else f"{one['rejected']:.0f}" for one in shares))
        chosen = kept.get("|".join([scores, "none", sizes, "auto", str(options.runs)]), {"taken": []})["taken"]
        lines.append([scores, *cells, ", ".join(chosen)])
    header = ["scores", *gaps, "auto takes"]
    return f"### {sizes} users, {options.runs} runs, {options.scales.replace(',', ' / ')}\n\n" + table(header, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--sizes", action="append", choices=list(SIZES), help="only these sizes")
    parser.add_argument("--gaps", action="append", choices=list(GAPS), help="only these gaps")
    parser.add_argument("--scores", action="append", choices=list(SCORES), help="only these scores")
    parser.add_argument("--scales", default=",".join(SCALES))
    parser.add_argument("--resume", type=Path, help="file that keeps what is finished")
    page_option(parser)
    options = parser.parse_args()
    options.sizes = options.sizes or list(SIZES)
    warnings.simplefilter("ignore", es.EvenscoreWarning)
    kept = results(options)
    show([partial(size_table, sizes, options, kept) for sizes in options.sizes], "The scale of the score", options.page)


if __name__ == "__main__":
    main()
