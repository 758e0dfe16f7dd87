"""Joint calibration: error to the true means, parity of blends on fresh users, Appendix B's toy, speed and memory.

python benchmarks/multiobjective.py errors [--runs 12]
python benchmarks/multiobjective.py parity [--runs 100]
python benchmarks/multiobjective.py causes [--runs 24]
python benchmarks/multiobjective.py lemma [--runs 300]
python benchmarks/multiobjective.py toy [--runs 20]
python benchmarks/multiobjective.py speed [--rows 10000000]
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

import evenscore as es
from evenscore.data.coding import hash_integers
from evenscore.data.splits import Split
from evenscore.multiobjective import Setting, as_map, candidates_of
from evenscore.multiobjective.axes import NODES, make_axes, node_positions
from evenscore.multiobjective.choosing import choose
from evenscore.multiobjective.maps import GroupMaps, ReadyMaps
from evenscore.multiobjective.points import points_of_groups
from evenscore.multiobjective.rows import ObjectivesSpec, observe_jointly
from evenscore.simulation import PoissonRows, simulate_objectives
from evenscore.simulation.objectives import feed, toy

FRESH = 2000  # users a group on whose scores errors are measured
FITTED, JUDGED = "1-8/13", [f"{part}/13" for part in range(9, 14)]  # shares of the users


# Error to the true means


def one_by_one(data, spec):
    """A calibrator for each score alone."""
    return [
        es.calibrate(es.tally(data, score=score, outcome=outcome, group="group", user="user"))
        for score, outcome in zip(spec.score_columns, spec.objectives, strict=True)
    ]


def errors_of(spec, seed):
    """Squared errors of every candidate, of auto and of one-by-one calibration, averaged over groups and objectives."""
    data, fresh = spec.data((seed, 0)), feed(FRESH, spec.bends[0]).data((seed, 1))
    rows = observe_jointly(data, ObjectivesSpec(**spec.columns))
    axes = make_axes(rows.scores, rows.columns.scores, "auto", NODES[3])
    setting = Setting("auto", "risk", 1, False, rows.binary, np.zeros(3))
    singles = one_by_one(data, spec)
    squared = {}
    for group, points in zip(rows.groups, points_of_groups(rows, axes, "user", np.zeros(3)), strict=True):
        mine = fresh["group"] == group
        scores = [fresh[name][mine] for name in spec.score_columns]
        truth = spec.truth.means(np.stack(scores, axis=1), group)
        found = candidates_of(points, axes, setting)
        for k, competing in enumerate(found):
            chosen = choose(competing, points, k, node_positions(axes), True)
            for name, candidate in [*((c.name, c) for c in competing), ("auto", chosen)]:
                maps = GroupMaps(group, points.low, points.high, (as_map(candidate, competing, points, k, setting),))
                fitted = ReadyMaps.of(maps, axes).at(scores)[0][:, 0]
                squared.setdefault(name, []).append(np.mean((fitted - truth[:, k]) ** 2))
            alone = singles[k].map_of(group).at(scores[k])
            squared.setdefault("one by one", []).append(np.mean((alone - truth[:, k]) ** 2))
    return {name: float(np.mean(values)) for name, values in squared.items()}


def errors(runs):
    print("root mean squared error to E(Y_k | all scores), Monte Carlo error in brackets; auto against the best in the last column")
    for users in (500, 2000, 8000, 32000):
        for bend in (0.0, 0.3):
            spec = feed(users // 2, bend)
            found = [errors_of(spec, run + 1000 * int(10 * bend)) for run in range(runs)]
            line, means = [], {}
            for name in found[0]:
                values = np.array([run[name] for run in found])
                means[name] = np.sqrt(values.mean())
                line.append(f"{name} {means[name]:.4f} ({values.std(ddof=1) / np.sqrt(runs) / 2 / means[name]:.4f})")
            best = min(value for name, value in means.items() if name != "auto")
            print(f"bend {bend:g}, {users:,} users: {', '.join(line)} | {means['auto'] / best:.3f}", flush=True)


# Parity of blends on fresh users


def sweep_p_values(data, seed):
    """P-values of every blend on users that the calibrators have not seen: before, one by one and jointly.

    One fit is judged by five sets of 2,000 fresh users.
    """
    columns = feed(1).columns
    joint = es.calibrate_jointly(data, **columns, split=FITTED)
    singles = [
        es.calibrate(es.tally(data, score=score, outcome=outcome, group="group", user="user", split=FITTED))
        for score, outcome in zip(columns["scores"], columns["outcomes"], strict=True)
    ]
    calibrators = {"one by one": singles, "joint": joint}
    found = {}
    for judges in JUDGED:
        sweep = es.sweep_weights(data, **columns, steps=3, split=judges, calibrator=calibrators, seed=seed)
        for version in sweep.versions:
            for blend in sweep.of(version):
                found[f"{version}|{' '.join(f'{weight:.2g}' for weight in blend.weights)}|{judges}"] = blend.test.p_value
            found[f"{version}|any blend, Holm|{judges}"] = min(blend.p_adjusted for blend in sweep.of(version))
    return found


def parity(runs, workers, resume):
    """Rejections at 5 % in each blend: most runs one by one, about 5 % jointly."""
    spec = feed(13_000, 0.3)
    found = es.study(spec, {"sweep": sweep_p_values}, runs=runs, workers=workers, resume=resume)
    rates = {}
    for row in found.rows():
        version, blend, _ = row["method"].split("|")
        rates.setdefault((version, blend), []).append(row["rejected"])
    print(f"{runs} fits on 16,000 users, each judged by {len(JUDGED)} sets of 2,000 others; share rejected at 5 %")
    for version in ("before", "one by one", "joint"):
        single = {blend: np.mean(rate) for (name, blend), rate in rates.items() if name == version and "any" not in blend}
        most = max(single, key=single.get)
        print(
            f"{version}: {np.mean(list(single.values())):.3f} on average over {len(single)} blends, at most {single[most]:.3f} "
            f"(weights {most}); any blend after Holm {np.mean(rates[version, 'any blend, Holm']):.3f}"
        )


# Why a single blend is rejected more often than 5 %: the test, or the calibrator's own error

BLENDS = ((1, 0, 0), (0, 0, 1), (2 / 3, 1 / 3, 0), (1 / 3, 1 / 3, 1 / 3))
SETS = 5  # of fresh users that judge one fit


def true_means(spec, data):
    """E(Y_k | all scores, group) of each row, (n_rows, K): the map that a calibrator estimates."""
    found = np.empty((len(data["group"]), len(spec.objectives)))
    for group in spec.groups:
        mine = data["group"] == group
        found[mine] = spec.truth.means({name: data[name][mine] for name in spec.score_columns}, group)
    return found


def rejected_blends(spec, data, means, seed):
    """Whether each blend of the means is rejected at 5 %, (n_blends,)."""
    outcomes = np.column_stack([data[name] for name in spec.objectives])
    found = []
    for weights in BLENDS:
        rows = {"s": means @ weights, "y": outcomes @ weights, "g": data["group"], "u": data["user"]}
        tally = es.tally(rows, score="s", outcome="y", group="g", user="u")
        found.append(es.parity_test(tally, both=False, seed=seed).p_value <= 0.05)
    return np.array(found)


def causes(runs, fitted_on=(4_000, 16_000, 64_000)):
    """Rejections with the true map (0 users) and with calibrators of more and more users, on the same sets of 2,000 fresh users."""
    print("users fitted on: share of blends rejected at 5 % on 2,000 fresh users, standard error over fits, then by blend")
    for users in (0, *fitted_on):
        rates = []
        for run in range(runs):
            spec = feed(max(users, 2) // 2, 0.3)
            joint = es.calibrate_jointly(spec.data((run, 0)), **spec.columns) if users else None
            for part in range(SETS):
                fresh = feed(FRESH // 2, 0.3).data((run, 1 + part))
                means = true_means(spec, fresh) if joint is None else joint.transform(fresh, fresh["group"])
                rates.append(rejected_blends(spec, fresh, means, run))
        by_fit = np.array(rates).reshape(runs, SETS, -1).mean(axis=1)
        each = by_fit.mean(axis=1)
        blends = ", ".join(f"{rate:.3f}" for rate in by_fit.mean(axis=0))
        print(f"{users:,}: {each.mean():.3f} ({each.std(ddof=1) / np.sqrt(runs):.3f}); {blends}", flush=True)


# The lemma's test where its condition holds


def lemma_p_values(data, seed):
    spec = calibrated(1)
    test = es.joint_calibration_test(data, **spec.columns, seed=seed)
    single = {f"{case.outcome} in {case.group}": case.p_value for case in test.cases}
    return single | {"all, Holm": test.p_value}


def calibrated(users):
    """Like, comment and share whose scores are the expected outcomes given all scores, with everything else dependent."""
    return simulate_objectives(
        users,
        location=(0.0, -0.8, -1.2),
        rows_per_user=PoissonRows(3),
        score_correlation=0.3,
        label_correlation=0.4,
        score_likeness=0.3,
        outcome_likeness=0.4,
        name="calibrated given all scores",
    )


def lemma(runs, workers, resume):
    for users in (200, 1000, 5000):
        found = es.study(calibrated(users), {"lemma": lemma_p_values}, runs=runs, workers=workers)
        rates = {row["method"]: row["rejected"] for row in found.rows()}
        print(f"{users:,} users a group, {runs} runs:", ", ".join(f"{name} {rate:.3f}" for name, rate in rates.items()), flush=True)


# Appendix B's toy


def toy_figures(data, seed):
    """Slopes and squared errors on users that the calibrator has not seen."""
    spec = toy(1)
    joint = es.calibrate_jointly(data, **spec.columns, split="1/2")
    fresh = es.tally(data, score="score_first", outcome="first", group="group", user="user", split="2/2")
    keep = Split.parse("2/2").holds(hash_integers(data["user"]))
    assert keep.sum() == sum(fresh.n_rows.values())
    held = {name: values[keep] for name, values in data.items()}
    scores = np.column_stack([held[name] for name in spec.score_columns])
    outcomes = np.column_stack([held[name] for name in spec.objectives])
    moved = joint.transform(held)
    found = {
        "slope before": {"estimate": slope(scores.sum(axis=1), outcomes.sum(axis=1))},
        "mse before": {"estimate": np.mean((outcomes.sum(axis=1) - scores.sum(axis=1)) ** 2)},
        "mse after": {"estimate": np.mean((outcomes.sum(axis=1) - moved.sum(axis=1)) ** 2)},
    }
    for weights in TOY_WEIGHTS:
        found[f"slope after {weights}"] = {"estimate": slope(moved @ weights, outcomes @ weights)}
    return found


TOY_WEIGHTS = ((1, 1), (1, 0), (0, 1), (1, 3), (3, 1), (1, -2), (-1, 5))


def slope(x, y):
    x = x - x.mean()
    return float(x @ y / (x @ x))


def toys(runs, workers, resume):
    truth = {"slope before": 1.5, "mse before": 2.0, "mse after": 1.0}
    truth |= {f"slope after {weights}": 1.0 for weights in TOY_WEIGHTS}
    found = es.study(toy(10_000), {"toy": toy_figures}, runs=runs, workers=workers, truth=truth)
    print(found)


# Speed


def speed(rows):
    """CPU seconds and peak memory of a fit and a transform; the peak includes the data themselves."""
    rng = np.random.default_rng(0)
    user = rng.integers(0, rows // 10, rows)
    first = rng.standard_normal(rows)
    second = 0.5 * first + 0.8 * rng.standard_normal(rows)
    data = {"s1": 1 / (1 + np.exp(-first)), "s2": 1 / (1 + np.exp(1 - second)), "g": (user % 2).astype(np.int8), "u": user}
    del first, second
    data["y1"] = (rng.random(rows) < data["s1"] * (1 - 0.3 * data["s2"] * data["g"])).astype(np.int8)
    data["y2"] = (rng.random(rows) < 0.5 * data["s1"] * data["s2"] + 0.3 * data["s2"]).astype(np.int8)
    held = peak()
    start = time.process_time()
    joint = es.calibrate_jointly(data, scores=["s1", "s2"], outcomes=["y1", "y2"], group="g", user="u")
    fitted = time.process_time() - start
    fit_peak = peak()
    start = time.process_time()
    joint.transform(data)
    moved = time.process_time() - start
    print(
        f"{rows:,} rows, 2 scores, 2 groups, {rows // 10:,} users: fit {fitted:.1f} s of CPU, peak {fit_peak:.2f} GB with the data"
    )
    print(f"making the data had taken it to {held:.2f} GB")
    print(f"transform {rows / moved / 1e6:.1f} million rows a second, peak {peak():.2f} GB")


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("errors", "parity", "causes", "lemma", "toy", "speed"))
    parser.add_argument("--runs", type=int)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--resume")
    parser.add_argument("--rows", type=int, default=10_000_000)
    options = parser.parse_args()
    if options.what == "errors":
        errors(options.runs or 12)
    elif options.what == "causes":
        causes(options.runs or 24)
    elif options.what == "speed":
        speed(options.rows)
    else:
        study, runs = {"parity": (parity, 100), "lemma": (lemma, 300), "toy": (toys, 20)}[options.what]
        study(options.runs or runs, options.workers, options.resume)


if __name__ == "__main__":
    main()
