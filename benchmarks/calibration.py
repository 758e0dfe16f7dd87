"""How near calibrated scores come to the truth, and what a repair leaves: beside scikit-learn and MCGrad, on the same draws.

Errors are root mean squared distances to the true curve E(Y | S = s, G = g) over the users' scores of both groups. A repair is
judged by what fresh users without end would show: the root mean squared gap between the groups at the same score, before and after.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

import evenscore as es
from evenscore.calibration.calibrated_tally import calibrated_tally
from evenscore.simulation import Curve, PoissonRows, Simulation
from writing import page_option, show, table

Floats = NDArray[np.float64]
Data = dict[str, Any]

OWN = ("kernel", "isotonic", "platt", "binning", "auto")
SKLEARN, MCGRAD = "scikit-learn isotonic", "MCGrad"
USERS = (300, 1000, 4000)
COLUMNS = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
NODES = np.linspace(0.0005, 0.9995, 1000)
NODE_WEIGHTS = NODES * (1 - NODES) / (NODES * (1 - NODES)).sum()  # scores are Beta(2, 2)
FRESH = 4000
WIDTH = 0.02
TOLERANCE = 0.02


@dataclass(frozen=True, slots=True)
class Sigmoid(Curve):
    """.05 + .8 expit(14 (s - .55)): steep in the score itself, which Platt's curve in its logit is not."""

    def at(self, score: ArrayLike) -> Floats:
        return 0.05 + 0.8 * expit(14 * (np.asarray(score, dtype=np.float64) - 0.55))


@dataclass(frozen=True, slots=True)
class Wave(Curve):
    """.45 + .3 sin(7 s): rises, falls and rises again."""

    def at(self, score: ArrayLike) -> Floats:
        return 0.45 + 0.3 * np.sin(7 * np.asarray(score, dtype=np.float64))


CURVES = {"logit": Curve(-0.8, 0.8), "sigmoid": Sigmoid(), "non-monotone": Wave()}


def simulation(name: str, users: int) -> Simulation:
    """Group a calibrated, group b with the curve; four rows a user, alike within a user."""
    return es.simulate(
        users,
        curve={"a": Curve(), "b": CURVES[name]},
        rows_per_user=PoissonRows(3),
        outcome_correlation=0.5,
        score_correlation=0.3,
        name=f"{name}, {users} users a group",
    )


# Methods: data in, a function (scores, group) out


def sklearn_map(data: Data) -> Any:
    from sklearn.isotonic import IsotonicRegression

    maps = {}
    weight = user_weights(data)
    for group in ("a", "b"):
        mine = data["group"] == group
        maps[group] = IsotonicRegression(out_of_bounds="clip").fit(data["score"][mine], data["outcome"][mine], weight[mine])
    return lambda scores, group: maps[group].predict(scores)


def mcgrad_map(data: Data, seed: int) -> Any:
    import pandas
    from mcgrad.methods import MCGrad

    frame = pandas.DataFrame({name: data[name] for name in ("score", "outcome", "group")} | {"weight": user_weights(data)})
    model = MCGrad(random_state=seed % 2**31)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(frame, "score", "outcome", weight_column_name="weight", categorical_feature_column_names=["group"])

    def at(scores: Floats, group: str) -> Floats:
        rows = pandas.DataFrame({"score": scores, "group": group})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(model.predict(rows, "score", categorical_feature_column_names=["group"]))

    return at


def user_weights(data: Data) -> Floats:
    """Every user counts the same, as for evenscore."""
    _, place, counts = np.unique(data["user"], return_inverse=True, return_counts=True)
    return 1 / counts[place]


# What is measured


def true_error(name: str, transform: Any) -> float:
    """Root mean squared distance to the true curves over both groups' scores."""
    truth = {"a": Curve(), "b": CURVES[name]}
    return float(np.sqrt(np.mean([NODE_WEIGHTS @ (transform(NODES, g) - truth[g].at(NODES)) ** 2 for g in truth])))


def true_violation(name: str, transform: Any) -> float:
    """The root mean squared gap at the same score that fresh users without end would show, where both groups have scores.

    E(Y | new score) of a group is local linear regression of the true curve on the new score, .02 wide.
    """
    truth = {"a": Curve(), "b": CURVES[name]}
    scores = {g: np.asarray(transform(NODES, g)) for g in truth}
    ends = np.array([_quantiles(scores[g], np.array([0.01, 0.99])) for g in truth])
    low, high = ends[:, 0].max(), ends[:, 1].min()
    points = np.linspace(low, high, 200)
    curves = {g: _regression(points, scores[g], truth[g].at(NODES)) for g in truth}
    density = sum(_normal((points[:, None] - scores[g]) / WIDTH) @ NODE_WEIGHTS for g in truth)
    return float(np.sqrt(density @ (curves["a"] - curves["b"]) ** 2 / density.sum()))


def _quantiles(score: Floats, levels: Floats) -> Floats:
    order = np.argsort(score)
    return np.interp(levels, np.cumsum(NODE_WEIGHTS[order]), score[order])


def _regression(points: Floats, score: Floats, outcome: Floats) -> Floats:
    u = (score[None, :] - points[:, None]) / WIDTH
    weight = _normal(u) * NODE_WEIGHTS + 1e-30
    s0, s1, s2 = weight.sum(1), (weight * u).sum(1), (weight * u * u).sum(1)
    t0, t1 = weight @ outcome, (weight * u) @ outcome
    flat = s0 * s2 - s1**2 <= 1e-6 * s0**2
    return np.where(flat, t0 / s0, (s2 * t0 - s1 * t1) / np.where(flat, 1.0, s0 * s2 - s1**2))


def _normal(u: Floats) -> Floats:
    return np.exp(-(u**2) / 2)


def errors(data: Data, seed: int, name: str, methods: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """The error of every method on one draw, and the violation left by evenscore's, under names of their own."""
    found = {}
    tally = es.tally(data, **COLUMNS)
    for method in methods:
        if method in OWN:
            calibrator = es.calibrate(tally, method=method)
            transform = partial(_at, calibrator)
        else:
            transform = sklearn_map(data) if method == SKLEARN else mcgrad_map(data, seed)
        found[method] = {"estimate": true_error(name, transform)}
        found[f"gap left: {method}"] = {"estimate": true_violation(name, transform)}
    return found


def _at(calibrator: es.Calibrator, scores: Floats, group: str) -> Floats:
    return calibrator.map_of(group).at(scores)


def orderings(data: Data, seed: int, name: str) -> dict[str, dict[str, float]]:
    """Fit with auto; the ordering test with a tolerance on fresh users, before and after: 1 where it passes."""
    calibrator = es.calibrate(es.tally(data, **COLUMNS), method="auto")
    fresh = es.tally(simulation(name, FRESH).data((seed, 77)), **COLUMNS)
    found = {}
    for words, tally in (("before", fresh), ("after", calibrated_tally(fresh, calibrator))):
        test = es.ordering_test(tally, tolerance=TOLERANCE)
        found[f"ordering passes, {words}"] = {"covered": float(test.verdict != "disparity")}
    return found


# Speed


def speed() -> str:
    """CPU seconds to fit and to transform 1e7 scores."""
    tally = es.tally(simulation("logit", 4000).data(1), **COLUMNS)
    lines = []
    for method in OWN:
        es.calibrate(tally, method=method)
        taken = _cpu(lambda m=method: es.calibrate(tally, method=m))
        lines.append([f"fit {method}, two groups of 4,000 users", f"{taken:.3f}"])
    calibrator = es.calibrate(tally)
    rng = np.random.default_rng(0)
    scores, coded = rng.random(10_000_000), rng.integers(0, 2, 10_000_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = np.array(["a", "b"])[coded]
        for words, labels in (("fixed-width text", text), ("Python strings", text.astype(object))):
            taken = _cpu(lambda labels=labels: calibrator.transform(scores, labels))
            lines.append([f"transform 1e7 scores, groups as {words}", f"{taken:.2f}"])
        data = simulation("logit", 4000).data(1)
        data["group"] = (data["group"] == "b").astype(int)
        calibrator = es.calibrate(es.tally(data, **COLUMNS))
        taken = _cpu(lambda: calibrator.transform(scores, coded))
        lines.append(["transform 1e7 scores, groups coded 0 and 1", f"{taken:.2f}"])
    return "### Speed\n\n" + table(["step", "CPU seconds"], lines)


def _cpu(step: Any, repeats: int = 3) -> float:
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        step()
        taken.append(time.process_time() - start)
    return min(taken)


# Tables


def error_tables(runs: int, rival_runs: int, users: tuple[int, ...], resume: Path | None, workers: int) -> str:
    """Errors to the true curve, and what is left of the gap; rivals are slow and have the first of the runs only."""
    rivals = (SKLEARN, *([MCGRAD] if importlib.util.find_spec("mcgrad") else []))
    methods = (*OWN, *rivals)
    lines, left = [], []
    for name in CURVES:
        for n_users in users:
            rows: dict[str, Any] = {}
            for words, chosen, n_runs in (("own", OWN, runs), ("rivals", rivals, rival_runs)):
                path = None if resume is None else resume / f"{words}-{name}-{n_users}.jsonl"
                study = {words: partial(errors, name=name, methods=chosen)}
                found = es.study(simulation(name, n_users), study, runs=n_runs, resume=path, workers=workers, truth=0.0)
                rows |= {row["method"]: row for row in found.rows()}
            best = min(rows[method]["rmse"] for method in methods if method != "auto")
            shown = [f"{rows[method]['rmse']:.4f}" for method in methods]
            lines.append([name, f"{n_users:,}", *shown, f"{rows['auto']['rmse'] / best:.2f}"])
            relative = [max(rows[m]["rmse_error"] / rows[m]["rmse"] for m in some) for some in (OWN, rivals)]
            print(*lines[-1], "(Monte Carlo error up to {:.0%} and, for rivals, {:.0%})".format(*relative), file=sys.stderr)
            before = true_violation(name, lambda scores, group: scores)
            gaps = [_gap_left(rows[f"gap left: {m}"]["rmse"], before) if m != "binning" else "–" for m in methods]
            left.append([name, f"{n_users:,}", f"{before:.4f}", *gaps])
    return "\n\n".join(
        [
            f"### Error to the true curve\n\n{runs} runs, {rival_runs} of them for rivals.",
            table(["curve", "users", *methods, "auto / best"], lines),
            "What is left of the gap on fresh users, and by how much it fell (steps of different groups share no score):",
            table(["curve", "users", "gap before", *methods], left),
        ]
    )


def _gap_left(after: float, before: float) -> str:
    return f"{after:.4f} ({1 - after / before:.0%})"


def ordering_table(runs: int, resume: Path | None, workers: int) -> str:
    lines = []
    for name in CURVES:
        path = None if resume is None else resume / f"ordering-{name}.jsonl"
        method = {"ordering": partial(orderings, name=name)}
        rows = es.study(simulation(name, FRESH), method, runs=runs, resume=path, workers=workers).rows()
        lines.append([name, *(f"{row['coverage']:.0%}" for row in rows[:2])])
    after = f"after (auto, {FRESH} users, tolerance {TOLERANCE})"
    return f"### Ordering, {runs} runs\n\n" + table(["curve", "ordering passes before", after], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--rival-runs", type=int, default=24)
    parser.add_argument("--users", type=int, nargs="+", default=list(USERS))
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--fast", action="store_true", help="a few runs of the smallest size, to see that it works")
    page_option(parser)
    options = parser.parse_args()
    runs, rival_runs, users = (3, 3, (300,)) if options.fast else (options.runs, options.rival_runs, tuple(options.users))
    if options.resume is not None:
        options.resume.mkdir(parents=True, exist_ok=True)
    sections = [partial(error_tables, runs, rival_runs, users, options.resume, options.workers)]
    if not options.fast:
        sections.append(partial(ordering_table, runs, options.resume, options.workers))
    show([*sections, speed], "Calibrated scores", options.page, ("scikit-learn", "mcgrad", "onnxruntime"))


if __name__ == "__main__":
    main()
