"""Random data with the shapes that real data has: repeated users, whales, weights, users in several groups."""

from __future__ import annotations

import numpy as np
from oracle import Rows


def repeated_users(
    n_rows=20_000,
    seed=0,
    *,
    whales=False,
    weights=False,
    spanning=False,
    real=False,
    n_groups=2,
    rows_per_user=5,
    gap=0.0,
    beta=(2, 3),
):
    """Rows of users with correlated scores and outcomes; ``gap`` is added to the outcome rate of group 1."""
    rng = np.random.default_rng(seed)
    n_users = max(2, n_rows // rows_per_user)
    user = rng.integers(0, n_users, n_rows)
    if whales:
        share = n_rows // 60
        user[: 3 * share] = np.repeat(np.arange(3), share)
    group = rng.integers(0, n_groups, n_rows) if spanning else user % n_groups
    level = rng.normal(size=n_users)
    score = rng.beta(*beta, n_rows)
    rate = np.clip(0.1 + 0.6 * score + 0.1 * np.sin(6 * score) + 0.08 * level[user] + gap * (group == 1), 0.01, 0.99)
    outcome = (rng.random(n_rows) < rate).astype(float)
    if real:
        outcome = 3 * rate + level[user] + rng.standard_t(5, n_rows) + 7
    weight = rng.gamma(2, 1, n_rows) if weights else np.ones(n_rows)
    order = rng.permutation(n_rows)
    return Rows(*(column[order] for column in (score, outcome, group, user, weight)))


def as_dict(rows):
    return {"s": rows.score, "y": rows.outcome, "g": rows.group, "u": rows.user, "v": rows.weight}


NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}
