"""A few rows for each of some hundred users, with a gap of a known size."""

import numpy as np

import evenscore as es
from data import NAMES


def simple(n_users=400, n_groups=2, gap=0.0, seed=0, rows=3, score=None, outcome=None, alike=0.5):
    """Users with a few rows each; group 0 has ``gap`` more outcomes at every score."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(n_users), rows)
    group = user % n_groups
    score = rng.random(len(user)) if score is None else np.broadcast_to(score, len(user))
    shared = rng.random(n_users)[user]
    draw = np.where(rng.random(len(user)) < alike, shared, rng.random(len(user)))
    outcome = (draw < 0.2 + 0.5 * score + gap * (group == 0)).astype(int) if outcome is None else outcome
    return {"s": score, "y": outcome, "g": group, "u": user}


def tally_of(data, **options):
    return es.tally(data, **NAMES, **options)
