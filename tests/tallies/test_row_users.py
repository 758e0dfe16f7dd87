"""Rows as users, from the sums of a tally, beside a tally of the same rows that was told so."""

import numpy as np
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.tallies.row_users import rows_as_users


@pytest.mark.parametrize("more", ["nothing", "weights", "unlabelled", "numbers", "spanning"])
def test_it_is_the_tally_without_users(more):
    rows = repeated_users(300, seed=3, n_groups=2, rows_per_user=4)
    data, settings = as_dict(rows), dict(NAMES)
    n, rng = len(rows.score), np.random.default_rng(1)
    if more == "weights":
        data["v"], settings["weight"] = rng.uniform(0.5, 2, n), "v"
    if more == "unlabelled":
        data["y"], settings["nulls"] = np.where(rng.random(n) < 0.3, np.nan, data["y"]), "unlabelled"
    if more == "numbers":
        data["y"] = 1e6 + rng.normal(size=n)
    if more == "spanning":
        data["g"] = rng.permutation(data["g"])
    tally = es.tally(data, cells=64, **settings)
    wanted = es.tally(data, lattice=tally, **settings | {"user": None})
    found = rows_as_users(tally)
    assert found.independent and found.n_users == wanted.n_users and found.n_spanning == 0 and not found.cross
    for group in tally.groups:
        for weighting in ("user", "row"):
            own, theirs = found.sums(group, weighting), wanted.sums(group, weighting)
            for name in own.__slots__:
                if name != "N" or more != "weights":  # how many rows of a weight a cell has is not kept
                    np.testing.assert_allclose(getattr(own, name), getattr(theirs, name), err_msg=name, rtol=1e-6, atol=1e-6)
            pairs, like = found.pair_matrices(group, group, weighting), wanted.pair_matrices(group, group, weighting)
            for name in pairs.__slots__:
                np.testing.assert_allclose(getattr(pairs, name), getattr(like, name), err_msg=name, rtol=1e-6, atol=1e-6)
    kwargs = {"both": False, "seed": 2}
    assert es.parity_test(found, **kwargs).p_value == pytest.approx(es.parity_test(wanted, **kwargs).p_value, rel=1e-4)
