"""How often the parity test rejects a true null when cells are coarse, scores are few values, or both: nominal 5 %.

python benchmarks/coarse.py [--runs 400] [--users 300,3000]
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from numpy.typing import NDArray
from scipy import special

import evenscore as es
from evenscore.simulation import Curve, PoissonRows
from writing import page_option, show, table

Data = dict[str, Any]

STEEP = Curve(0.0, 2.5)  # most of its rise within a fifth of the scores: hard on coarse cells
DENSITIES = {"shifted": {"a": (2, 4), "b": (4, 2)}, "other shape": {"a": (2, 2), "b": (0.7, 0.7)}}
COLUMNS = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
ATOM, AT_ATOM = 0.4, 0.3  # of a mixture: a score that many have, and how many


def scores_of(kind: str, scores: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """The scores as they are ("all"), rounded to so many values ("11"), or with a value that many have ("mixture")."""
    if kind == "all":
        return scores
    if kind == "mixture":
        return np.where(rng.random(len(scores)) < AT_ATOM, ATOM, scores)
    steps = int(kind) - 1
    return np.round(scores * steps) / steps


def draw(users: int, densities: dict[str, tuple[float, float]], kind: str, seed: int) -> Data:
    """Users of two groups with one curve; outcomes are drawn at the scores that are seen."""
    rng = np.random.default_rng((seed, users))
    data = es.simulate(users, score=densities, rows_per_user=PoissonRows(3)).data(seed=seed)
    scores = scores_of(kind, data["score"], rng)
    inside = np.clip(scores, 0.02, 0.98)
    rate = STEEP.at(inside)
    level = rng.normal(size=int(data["user"].max()) + 1)[data["user"]]
    latent = special.ndtr(np.sqrt(0.4) * level + np.sqrt(0.6) * rng.normal(size=len(scores)))
    return data | {"score": scores, "outcome": (latent < rate).astype(float)}


def cells(n: int, data: Data) -> es.Tally:
    return es.tally(data, **COLUMNS, cells=n)


def released(min_users: int, data: Data) -> es.Tally:
    return es.tally(data, **COLUMNS, cells=128).release(min_users=min_users)


CASES: tuple[tuple[str, str, Callable[[Data], es.Tally]], ...] = (
    *(("all", f"{n} cells", partial(cells, n)) for n in (4, 8, 16, 32, 64, 512)),
    ("all", "released, 20 users a cell", partial(released, 20)),
    *((str(n), f"{n} values", partial(cells, 512)) for n in (5, 11, 21, 101)),
    *((str(n), f"{n} values in 16 cells", partial(cells, 16)) for n in (21, 101)),
    ("mixture", "30 % at one score, 16 cells", partial(cells, 16)),
    ("mixture", "30 % at one score, 512 cells", partial(cells, 512)),
)


def size_table(name: str, options: argparse.Namespace) -> str:
    """Rejections of a true null, case by case."""
    lines = []
    for kind, words, tally in CASES:
        if options.case and not any(part in words for part in options.case):
            continue
        for users in map(int, options.users.split(",")):
            runs = (draw(users, DENSITIES[name], kind, run) for run in range(options.runs))
            lines.append([words, f"{users:,}", *figures([es.parity_test(tally(data), both=False).pairs[0] for data in runs])])
            print(*lines[-1], file=sys.stderr, flush=True)
    header = ["scores", "users a group", "rejected % (error)", "not judged %", "points too coarse %"]
    return f"### Densities {name}, {options.runs} runs\n\n" + table(header, lines)


def figures(pairs: list[Any]) -> list[str]:
    share = np.mean([pair.p_value <= 0.05 for pair in pairs])
    error = np.sqrt(max(share * (1 - share), 0.05 * 0.95) / len(pairs))
    coarse = np.mean([pair.too_coarse / max(1, len(pair.score) + pair.too_coarse) for pair in pairs if pair.judged] or [1])
    left = np.mean([not pair.judged for pair in pairs])
    return [f"{100 * share:.1f} ({100 * error:.1f})", f"{100 * left:.0f}", f"{100 * coarse:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--users", default="300,3000")
    parser.add_argument("--case", action="append", help="only cases whose name has this in it")
    page_option(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore", es.EvenscoreWarning)
    show([partial(size_table, name, options) for name in DENSITIES], "Coarse cells and few values", options.page)


if __name__ == "__main__":
    main()
