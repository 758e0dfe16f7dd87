"""False alarms of parity and order on fair data with the shapes that real data have, crossed with each other.

python benchmarks/real_shapes.py [--runs 200] [--design REGEX]

Every test at 5 %. The deciding test of an audit is one of the two, or both together at that level, so that "either" is the most
that a whole audit can give.
"""

from __future__ import annotations

import argparse
import os
import re
import warnings
from collections.abc import Callable
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from scipy import special

import evenscore as es
from writing import page_option, show, table

Data = dict[str, Any]
Rng = np.random.Generator
NAMES = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
LEVEL = 0.05
PARETO, MOST_ROWS = 1.3, 200  # rows of users


def rows(score: Any, outcome: Any, group: Any, user: Any = None, **more: Any) -> Data:
    """Columns; a user a row unless said."""
    user = np.arange(len(score)) if user is None else user
    return {"score": np.asarray(score, float), "outcome": np.asarray(outcome, float), "group": group, "user": user} | more


def pareto(rng: Rng, n_users: int, most: int = MOST_ROWS) -> np.ndarray:
    """Numbers of rows."""
    return np.minimum(np.ceil((1 - rng.random(n_users)) ** (-1 / PARETO)), most).astype(int)


def ten_values(rng: Rng) -> Data:
    group = np.repeat([0, 1], [5000, 150])
    score = rng.integers(1, 11, len(group)) / 10
    return rows(score, rng.random(len(group)) < 0.01 * (score / 0.55) ** 2, group)


def crowded_at_zero(rng: Rng) -> Data:
    group = np.repeat([0, 1], [3000, 300])
    score = np.where(rng.random(len(group)) < 0.8, 0, rng.beta(0.5, 5, len(group)))
    return rows(score, rng.random(len(group)) < 0.02 + 0.6 * score, group)


def informative_counts(rng: Rng) -> Data:
    """Users with many rows have lower outcomes at the same score, in both groups."""
    count = pareto(rng, 1200)
    user, own = np.repeat(np.arange(1200), count), rng.normal(size=1200) - 0.3 * np.log(count)
    score = np.clip(rng.beta(2, 5, len(user)), 0.001, 0.999)
    chance = special.expit(special.logit(score) + own[user])
    return rows(score, rng.random(len(user)) < chance, (user >= 1000).astype(int), user)


def counts_of_three(rng: Rng) -> Data:
    group = np.repeat([0, 1, 2], [2000, 500, 100])
    score = rng.gamma(2, 1, len(group))
    return rows(score, rng.poisson(score * rng.gamma(1, 1, len(group))), group)


def in_both_groups(rng: Rng) -> Data:
    user = np.repeat(np.arange(400), 6)
    own = rng.normal(0, 1.2, 400)[user]
    score = special.expit(0.6 * own + rng.normal(size=len(user)) - 1.5)
    outcome = rng.random(len(user)) < special.expit(special.logit(score) + 0.5 * own)
    return rows(score, outcome, rng.integers(0, 2, len(user)), user)


def heavy_weights(rng: Rng) -> Data:
    group = np.repeat([0, 1], [2000, 400])
    score = rng.beta(1.5, 6, len(group))
    outcome = rng.random(len(group)) < score
    return rows(score, outcome, group, weight=np.exp(1.2 * rng.normal(size=len(group))))


def credit_points(rng: Rng) -> Data:
    group = np.repeat([0, 1], [4000, 300])
    score = np.clip(np.round(680 + 80 * rng.normal(-0.4 * group, 1)), 300, 850)
    return rows(score, rng.random(len(group)) < special.expit(-3.9 - 1.1 * (score - 680) / 80), group)


def over_time(rng: Rng) -> Data:
    """Outcomes follow an autoregression of .9 along a user's 20 rows."""
    n_users, n_rows = 360, 20
    state = rng.normal(size=(n_users, n_rows))
    for time in range(1, n_rows):
        state[:, time] = 0.9 * state[:, time - 1] + np.sqrt(1 - 0.81) * state[:, time]
    score = special.ndtr(0.8 * rng.normal(size=(n_users, 1)) + 0.6 * rng.normal(size=(n_users, n_rows)))
    user = np.repeat(np.arange(n_users), n_rows)
    return rows(score.ravel(), (special.ndtr(state) < 0.3 * score).ravel(), (user >= 300).astype(int), user)


def races(rng: Rng) -> Data:
    """A candidate in either group, ten forecasts each: one wins what the other loses."""
    chance = rng.beta(0.6, 0.6, 100)
    won, first, user = rng.random(100) < chance, rng.random(100) < 0.5, np.repeat(np.arange(100), 10)
    score = np.clip(chance[user] + rng.normal(0, 0.03, len(user)), 0.001, 0.999)
    group = np.concatenate([first[user], ~first[user]]).astype(int)
    return rows(np.concatenate([score, 1 - score]), np.concatenate([won[user], ~won[user]]), group, np.tile(user, 2))


def costs(rng: Rng) -> Data:
    user = np.repeat(np.arange(1650), pareto(rng, 1650, most=30))
    score = rng.gamma(1, 1, len(user))
    paid = np.exp(rng.normal(size=len(user)) - 0.5) / 0.4
    return rows(score, (rng.random(len(user)) < 0.4) * score * paid, (user >= 1500).astype(int), user)


DESIGNS: dict[str, Callable[[Rng], Data]] = {
    "ten values of the score, outcomes of 1 %, 5,000:150 users": ten_values,
    "80 % of scores exactly 0, 3,000:300": crowded_at_zero,
    "Pareto rows (1.3), fewer outcomes where more rows, 1,000:200": informative_counts,
    "counts (negative binomial), 2,000:500:100": counts_of_three,
    "400 users with rows in both groups": in_both_groups,
    "log-normal weights (1.2), 2,000:400": heavy_weights,
    "points from 300 to 850 that fall with outcomes of 3 %, 4,000:300": credit_points,
    "outcomes that follow each other in time, 300:60 users of 20 rows": over_time,
    "100 races with a candidate in either group": races,
    "costs, Pareto rows, 1,500:150": costs,
}


def alarms(draw: Callable[[Rng], Data], runs: int) -> list[str]:
    """False alarms of parity, of order and of either in %, and how often neither could be judged."""
    shown, judged = np.zeros((runs, 2), dtype=bool), np.zeros((runs, 2), dtype=bool)
    for run in range(runs):
        data = draw(np.random.default_rng([18, run]))
        tally = es.tally(data, **NAMES, weight="weight" if "weight" in data else None)
        for place, test in enumerate((es.parity_test(tally, both=False, seed=run), es.ordering_test(tally, seed=run))):
            shown[run, place], judged[run, place] = test.verdict == "disparity", np.isfinite(test.p_value)
    shares = 100 * np.array([*shown.mean(axis=0), shown.any(axis=1).mean(), *(1 - judged.mean(axis=0))])
    return [*(f"{share:.1f}" for share in shares[:3]), f"{shares[3]:.0f} / {shares[4]:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--design", type=re.compile, default=re.compile(""), metavar="REGEX")
    page_option(parser)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", es.EvenscoreWarning)

    def page() -> str:
        error = 100 * np.sqrt(LEVEL * (1 - LEVEL) / asked.runs)
        lines = [[name, *alarms(draw, asked.runs)] for name, draw in DESIGNS.items() if asked.design.search(name)]
        title = f"### Shapes of real data, fair, {asked.runs} runs: false alarms in % at 5 % (Monte Carlo error {error:.1f})"
        return f"{title}\n\n{table(['data', 'parity', 'order', 'either', 'not judged %, parity / order'], lines)}"

    show([page], "Shapes of real data", asked.page)


if __name__ == "__main__":
    main()
