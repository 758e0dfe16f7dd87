"""Coverage of the limits of decision metrics, beside a bootstrap of rows and one of users on the same draws, with the CPU of each.

python benchmarks/decision_limits.py [--runs 400] [--peer-runs 200] [--resume FOLDER] [--cells REGEX] [--fairlearn]

A user's rows are selected with a probability that is the user's own (beta-binomial, correlation .3); half of the rows are
positives, at random, so that selection rate, tpr and fpr have one truth. Both groups have the same rate: the difference is 0 and
the ratio 1.

The bootstrap of rows is Fairlearn's (resample all rows, percentiles by group); for 0/1 decisions it depends on counts alone and
is drawn from their multinomial distribution, the same distribution at a small part of the cost. Both bootstraps are taken on the
first --peer-runs draws of a cell. --fairlearn times Fairlearn itself, once a cell.

With --resume FOLDER the counts of each cell are kept there, a file each, and a call with more --runs goes on from them: all cells
get the same number of draws before any gets more. Empty it when the limits have changed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import time
import zlib
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

import evenscore as es
from writing import page_option, show, table

CORRELATION = 0.3
RESAMPLES = 200
QUANTILES = (0.025, 0.975)
USERS, ROWS, RATES, RATIOS = (100, 500, 2000), (1, 8), (0.01, 0.05, 0.2, 0.5), (1, 10)
NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}
TWO_VALUES = es.Lattice.from_values([0.0, 1.0])
SHOWN = ("selection_rate", "tpr", "difference", "ratio")


def cell_name(users, rows, rate, ratio):
    return f"users{users}-rows{rows}-rate{rate:g}-{ratio}to1"


def draw(rng, users, rows, rate, ratio):
    """The smaller group has ``users`` users, the other ``ratio`` times as many."""
    n_users = np.array([users, users * ratio])
    group = np.repeat(np.repeat([0, 1], n_users), rows)
    user = np.repeat(np.arange(n_users.sum()), rows)
    shape = 1 / CORRELATION - 1
    chance = np.full(n_users.sum(), rate) if rows == 1 else rng.beta(rate * shape, (1 - rate) * shape, n_users.sum())
    selected = rng.random(len(user)) < chance[user]
    return {"s": selected.astype(float), "y": rng.integers(0, 2, len(user)), "g": group, "u": user}


def ours(data):
    found = es.decision_metrics(es.tally(data, **NAMES, lattice=TWO_VALUES), threshold=1.0)
    pair = {row["metric"]: row for row in found.comparisons}["selection_rate"]
    limits = {name: tuple(found.of(0, name)[end] for end in ("ci_low", "ci_high")) for name in ("selection_rate", "tpr")}
    return limits | {name: (pair[f"{name}_low"], pair[f"{name}_high"]) for name in ("difference", "ratio")}


def row_bootstrap(data, rng):
    """Counts of (group, outcome, decision) when all rows are drawn anew, with replacement."""
    code = (data["g"] * 2 + data["y"]) * 2 + data["s"].astype(int)
    counts = np.bincount(code, minlength=8)
    drawn = rng.multinomial(counts.sum(), counts / counts.sum(), RESAMPLES).reshape(RESAMPLES, 2, 2, 2)
    return _percentiles(drawn)


def cluster_bootstrap(data, rng):
    """The same when all users are drawn anew; users of one pattern are drawn together."""
    code = (data["g"] * 2 + data["y"]) * 2 + data["s"].astype(int)
    n_users = int(data["u"].max()) + 1
    patterns, times = np.unique(
        np.bincount(data["u"] * 8 + code, minlength=8 * n_users).reshape(n_users, 8), axis=0, return_counts=True
    )
    drawn = rng.multinomial(n_users, times / n_users, RESAMPLES) @ patterns
    return _percentiles(drawn.reshape(RESAMPLES, 2, 2, 2))


def _percentiles(counts):
    """Percentiles of rates from counts (resamples, group, outcome, decision)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        selection = counts[..., 1].sum(axis=2) / counts.sum(axis=(2, 3))
        values = {
            "selection_rate": selection[:, 0],
            "tpr": counts[:, 0, 1, 1] / counts[:, 0, 1].sum(axis=1),
            "difference": selection[:, 0] - selection[:, 1],
            "ratio": selection[:, 0] / selection[:, 1],
        }
    return {
        name: tuple(np.nanquantile(drawn, QUANTILES, method="nearest")) if np.isfinite(drawn).any() else (np.nan,) * 2
        for name, drawn in values.items()
    }


def fairlearn_cpu(data):
    """CPU seconds of Fairlearn's own intervals."""
    import warnings

    from fairlearn.metrics import MetricFrame, selection_rate, true_positive_rate

    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = MetricFrame(
            metrics={"selection_rate": selection_rate, "tpr": true_positive_rate},
            y_true=data["y"],
            y_pred=data["s"].astype(int),
            sensitive_features=data["g"],
            n_boot=RESAMPLES,
            ci_quantiles=list(QUANTILES),
            random_state=0,
        )
        frame.by_group_ci  # noqa: B018
    return time.process_time() - started


def run_cell(design, runs, peer_runs, found):
    """Draws that ``found`` does not yet hold, counted into it."""
    users, rows, rate, ratio = design
    truth = {"selection_rate": rate, "tpr": rate, "difference": 0.0, "ratio": 1.0}
    methods = {"ours": lambda data, rng: ours(data), "rows": row_bootstrap, "users": cluster_bootstrap}
    asked = {name: runs if name == "ours" else min(runs, peer_runs) for name in methods}
    seed = zlib.crc32(cell_name(*design).encode())
    for run in range(found["runs"]["ours"], runs):
        rng = np.random.default_rng([seed, run])
        data = draw(rng, users, rows, rate, ratio)
        for name, method in methods.items():
            if run >= asked[name]:
                continue
            started = time.process_time()
            limits = method(data, rng)
            found["cpu"][name] += time.process_time() - started
            found["runs"][name] += 1
            for what, (low, high) in limits.items():
                found["covered"][name][what] += bool(low <= truth[what] <= high)


def no_draws():
    methods = ("ours", "rows", "users")
    covered = {name: dict.fromkeys(SHOWN, 0) for name in methods}
    return {"runs": dict.fromkeys(methods, 0), "covered": covered, "cpu": dict.fromkeys(methods, 0.0)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--peer-runs", type=int, default=200)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--cells", default="")
    parser.add_argument("--fairlearn", action="store_true")
    page_option(parser)
    options = parser.parse_args()
    lines = []
    for design in itertools.product(USERS, ROWS, RATES, RATIOS):
        name = cell_name(*design)
        if not re.search(options.cells, name):
            continue
        kept = None if options.resume is None else options.resume / f"{name}.json"
        found = json.loads(kept.read_text()) if kept is not None and kept.exists() else no_draws()
        run_cell(design, options.runs, options.peer_runs, found)
        if options.fairlearn and "fairlearn" not in found:
            found["fairlearn"] = fairlearn_cpu(draw(np.random.default_rng(0), *design))
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(found))
        lines.append(_line(name, found))
        print(lines[-1], flush=True)
    header = [
        "cell",
        "draws, ours / bootstraps",
        *(f"{what}, ours / rows / users" for what in SHOWN),
        "CPU ms, ours / rows / users",
    ]
    show([lambda: table(header, lines)], "Coverage of 95 % limits of decision metrics, in %", options.page, ("fairlearn",))


def _line(name, found):
    covered = [
        " / ".join(f"{100 * found['covered'][method][what] / found['runs'][method]:.1f}" for method in ("ours", "rows", "users"))
        for what in SHOWN
    ]
    spent = " / ".join(f"{1000 * found['cpu'][method] / found['runs'][method]:.1f}" for method in ("ours", "rows", "users"))
    if "fairlearn" in found:
        spent += f"; Fairlearn {1000 * found['fairlearn']:.0f}"
    return [name, f"{found['runs']['ours']} / {found['runs']['users']}", *covered, spent]


if __name__ == "__main__":
    main()
