"""How often a whole audit raises an alarm: on fair data in nine designs, and on data with a disparity, as 0.1.0 decided and now.

python benchmarks/audit_level.py [--runs 200] [--resume FOLDER] [--design NAME ...]

Each run is one es.audit with default options but without repair; "before" is the parity test alone on the same data. With --resume
FOLDER finished runs are kept there, a file a design.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import evenscore as es
from evenscore.simulation.designs import ALTERNATIVES

NAMES = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
Curve = Callable[[np.ndarray, np.ndarray], np.ndarray]


def one_row(
    scores: Callable[[np.random.Generator, np.ndarray], np.ndarray], rate: Curve, sizes: tuple[int, ...] = (500, 500)
) -> Any:
    """Users with a row each, of groups with these sizes."""

    def draw(seed: int) -> dict[str, Any]:
        rng = np.random.default_rng([19, seed])
        group = np.repeat(np.arange(len(sizes)), sizes)
        score = scores(rng, group)
        return {
            "score": score,
            "outcome": rng.random(len(score)) < rate(score, group),
            "group": group,
            "user": np.arange(len(score)),
        }

    return draw


def alike(rng: np.random.Generator, group: np.ndarray) -> np.ndarray:
    return rng.random(len(group))


def halves(rng: np.random.Generator, group: np.ndarray) -> np.ndarray:
    return (rng.random(len(group)) + group) / 2


def apart(rng: np.random.Generator, group: np.ndarray) -> np.ndarray:
    return np.where(group == 0, rng.beta(2, 5, len(group)), rng.beta(5, 2, len(group)))


def rising(score: np.ndarray, group: np.ndarray) -> np.ndarray:
    return 0.2 + 0.6 * score


def falling(score: np.ndarray, group: np.ndarray) -> np.ndarray:
    return 0.8 - 0.6 * score


def hump(score: np.ndarray, group: np.ndarray) -> np.ndarray:
    return 0.2 + 0.5 * np.exp(-(((score - 0.5) / 0.2) ** 2))


def level_in_each(score: np.ndarray, group: np.ndarray) -> np.ndarray:
    return np.where(group == 0, 0.5, 0.4)


def misordered_falling(score: np.ndarray, group: np.ndarray) -> np.ndarray:
    return np.where(group == 0, 0.5, 0.6) - 0.3 * (score - group / 2)


def repeated(seed: int) -> Any:
    options = {"rows_per_user": 3, "outcome_correlation": 0.5, "score_correlation": 0.3}
    return es.simulate({"a": 400, "b": 400}, **options).data(seed=seed)


FAIR = {
    "disjoint": one_row(halves, rising),
    "partial overlap": one_row(apart, rising),
    "falling, disjoint": one_row(halves, falling),
    "falling, partial overlap": one_row(apart, falling),
    "not monotone": one_row(alike, hump),
    "not monotone, partial overlap": one_row(apart, hump),
    "rare outcomes, small group": one_row(alike, lambda score, group: 0.1 * score, (100, 2000)),
    "repeated users": repeated,
    "three groups": one_row(alike, rising, (400, 400, 200)),
}
UNFAIR = {
    "misordered, disjoint": one_row(halves, level_in_each),
    "misordered, partial overlap": one_row(apart, level_in_each),
    "misordered, falling, disjoint": one_row(halves, misordered_falling),
} | {name: (lambda seed, make=make: make(1000).data(seed=seed)) for name, make in ALTERNATIVES.items()}


def alarms(draw: Callable[[int], Any], seed: int) -> list[bool]:
    """Before and now."""
    tally = es.tally(draw(seed), **NAMES)
    return [found.verdict == "disparity" for found in (es.parity_test(tally), es.audit(tally, repair=False))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--design", action="append")
    asked = parser.parse_args()
    for name, draw in (FAIR | UNFAIR).items():
        if asked.design and name not in asked.design:
            continue
        path = None if asked.resume is None else asked.resume / f"{name.replace(', ', '-').replace(' ', '-')}.json"
        found = json.loads(path.read_text()) if path is not None and path.exists() else []
        for seed in range(len(found), asked.runs):
            found.append(alarms(draw, seed))
            if path is not None and seed % 10 == 9:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(found))
        before, now = np.mean(found[: asked.runs], axis=0)
        kind = "fair" if name in FAIR else "disparity"
        print(f"{kind:10} {name:32} runs {len(found[: asked.runs])}  before {before:.3f}  now {now:.3f}", flush=True)


if __name__ == "__main__":
    main()
