"""Rows that every engine is given, and the tally that memory makes of them."""

import numpy as np
import pandas as pd
from compare import assert_same

import evenscore as es
from data import NAMES, as_dict, repeated_users

N_ROWS = 6_000


def make(kind):
    """Users scattered over the files: some with text ids, real outcomes and weights in three groups, some plain."""
    full = kind == "full"
    data = as_dict(
        repeated_users(N_ROWS, seed=3, whales=not full, weights=full, spanning=full, real=full, n_groups=3 if full else 2)
    )
    data["s"][::7] = np.round(data["s"][::7], 2)  # some scores on edges
    if full:
        data["u"] = np.array([f"user {user} é" for user in data["u"]])
        data["g"] = np.array(["a", "b", "é🦔"])[data["g"]]
        data["n"] = np.random.default_rng(1).integers(0, 4, N_ROWS)
    return data


OPTIONS = {"full": {"weight": "v", "count": "n"}, "plain": {}}
DATA = {kind: make(kind) for kind in OPTIONS}
FRAMES = {kind: pd.DataFrame(data) for kind, data in DATA.items()}
WANTED = {kind: es.tally(DATA[kind], **NAMES, **options) for kind, options in OPTIONS.items()}


def check(tally, kind):
    wanted = WANTED[kind]
    assert tally.lattice.n_cells == 512
    assert_same(tally, wanted, exact=False)
    assert np.array_equal(tally.sketch, wanted.sketch) and tally.columns == wanted.columns and tally.dropped == wanted.dropped
