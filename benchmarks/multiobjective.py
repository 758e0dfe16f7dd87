"""Joint calibration: error to the true means, parity of blends on fresh users, Appendix B's toy, speed and memory.

python benchmarks/multiobjective.py errors [--runs 12]
python benchmarks/multiobjective.py parity [--runs 100]
python benchmarks/multiobjective.py lemma [--runs 300]
python benchmarks/multiobjective.py toy [--runs 20]
python benchmarks/multiobjective.py speed [--rows 10000000]
"""

from __future__ import annotations

import argparse

import numpy as np

import evenscore as es
from evenscore.multiobjective.axes import NODES, make_axes
from evenscore.multiobjective.fitting import Setting, as_map, candidates_of
from evenscore.multiobjective.maps import GroupMaps, ReadyMaps
from evenscore.multiobjective.points import points_of_groups
from evenscore.multiobjective.rows import observe_jointly
from evenscore.simulation.objectives import feed

FRESH = 2000  # users a group on whose scores errors are measured
AT_A_TIME = 3  # objectives


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
    rows = observe_jointly(data, **spec.columns)
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
            chosen = min(competing, key=lambda candidate: candidate.risk)
            for name, candidate in [*((c.name, c) for c in competing), ("auto", chosen)]:
                maps = GroupMaps(group, points.low, points.high, (as_map(candidate, competing, points, k, setting),))
                fitted = ReadyMaps.of(maps, axes).at(scores)[0][:, 0]
                squared.setdefault(name, []).append(np.mean((fitted - truth[:, k]) ** 2))
            alone = singles[k].map_of(group).at(scores[k])
            squared.setdefault("one by one", []).append(np.mean((alone - truth[:, k]) ** 2))
    return {name: float(np.mean(values)) for name, values in squared.items()}


def errors(runs):
    print("root mean squared error to E(Y_k | all scores), Monte Carlo error in brackets; auto against the best in the last column")
    for bend in (0.0, 0.3, 0.8):
        for users in (500, 2000, 8000, 32000):
            spec = feed(users // 2, bend)
            found = [errors_of(spec, (users, run)[1] + 1000 * int(10 * bend)) for run in range(runs)]
            line, means = [], {}
            for name in found[0]:
                values = np.array([run[name] for run in found])
                means[name] = np.sqrt(values.mean())
                line.append(f"{name} {means[name]:.4f} ({values.std(ddof=1) / np.sqrt(runs) / 2 / means[name]:.4f})")
            best = min(value for name, value in means.items() if name != "auto")
            print(f"bend {bend:g}, {users:,} users: {', '.join(line)} | {means['auto'] / best:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("errors", "parity", "lemma", "toy", "speed"))
    parser.add_argument("--runs", type=int)
    parser.add_argument("--rows", type=int, default=10_000_000)
    options = parser.parse_args()
    if options.what == "errors":
        errors(options.runs or 12)


if __name__ == "__main__":
    main()
