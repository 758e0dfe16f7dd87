"""The hot loop against a loop over users: every sum, to rounding error."""

import numpy as np
import oracle
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.data.coding import folds, hash_integers
from evenscore.tallies import pairing
from evenscore.tallies.reshaping import recentre
from evenscore.tallies.spanning import spanning_users
from evenscore.tallies.tally_state import WEIGHTINGS

EXACT = {"rtol": 1e-9, "atol": 1e-12}  # the order of additions differs, nothing else

KINDS = {
    "binary": {},
    "whales": {"whales": True},
    "real": {"real": True},
    "weights": {"weights": True},
    "spanning": {"spanning": True, "real": True, "weights": True, "n_groups": 3},
}


def assert_same_sums(tally, rows, repeat=None):
    cells = tally.lattice.cell(rows.score)
    for group in tally.groups:
        mine = rows.only(group)
        own = rows.group == group
        for weighting in WEIGHTINGS:
            sums, pairs = oracle.tally(
                mine, cells[own], tally.lattice.n_cells, weighting, tally.centre, None if repeat is None else repeat[own]
            )
            found = tally.sums(group, weighting)
            for name, value in sums.items():
                np.testing.assert_allclose(getattr(found, name), value, **EXACT, err_msg=f"{name} {weighting}")
            matrices = tally.pair_matrices(group, group, weighting)
            for name, value in pairs.items():
                np.testing.assert_allclose(getattr(matrices, name), value, **EXACT, err_msg=f"{name} {weighting}")
            np.testing.assert_allclose(matrices.yw, matrices.wy.T)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cells", [16, 512])
def test_every_sum(kind, cells):
    rows = repeated_users(1500, seed=2, **KINDS[kind])
    weight = "v" if KINDS[kind].get("weights") else None
    assert_same_sums(es.tally(as_dict(rows), **NAMES, weight=weight, cells=cells), rows)


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize(("few", "long"), [(0.0, 1e9), (1e9, 1e9), (0.0, 0.0)], ids=["one by one", "collected", "products"])
def test_the_three_ways_to_add_pairs_agree(monkeypatch, few, long, real):
    monkeypatch.setattr(pairing, "FEW", few)
    monkeypatch.setattr(pairing, "LONG_BINARY", long)
    monkeypatch.setattr(pairing, "LONG_REAL", long)
    rows = repeated_users(3000, seed=5, whales=True, real=real, rows_per_user=4)
    assert_same_sums(es.tally(as_dict(rows), **NAMES, cells=24), rows)


def test_users_counted_in_parts(monkeypatch):
    """When user, cell and row do not fit into one integer, users are taken in turns."""
    from evenscore.tallies import packing

    rows = repeated_users(2000, seed=6, n_groups=3)
    whole = es.tally(as_dict(rows), **NAMES, cells=64)
    monkeypatch.setattr(packing, "KEY_BITS", 24)
    parts = es.tally(as_dict(rows), **NAMES, cells=64)
    for a, b in zip(whole.group_tallies, parts.group_tallies, strict=True):
        np.testing.assert_allclose(a.vectors.values, b.vectors.values, **EXACT)
        np.testing.assert_allclose(a.folds.values, b.folds.values, **EXACT)
        np.testing.assert_allclose(a.pairs.matrices("user").yy, b.pairs.matrices("user").yy, **EXACT)
    np.testing.assert_array_equal(whole.sketch, parts.sketch)


def test_folds_add_up_and_follow_the_hash():
    rows = repeated_users(3000, seed=3)
    tally = es.tally(as_dict(rows), **NAMES, cells=32)
    cells = tally.lattice.cell(rows.score)
    mine = rows.group == 0
    fold = folds(hash_integers(rows.user))
    found = tally.folds(0, "row")
    for number in range(10):
        chosen = mine & (fold == number)
        np.testing.assert_allclose(found.W[number], np.bincount(cells[chosen], minlength=32))
        np.testing.assert_allclose(found.Y[number], np.bincount(cells[chosen], rows.outcome[chosen], minlength=32))
        np.testing.assert_allclose(found.X[number], np.bincount(cells[chosen], rows.score[chosen], minlength=32))
    sums = tally.sums(0, "user")
    for name in ("W", "Y", "X", "Y2"):
        np.testing.assert_allclose(getattr(tally.folds(0, "user"), name).sum(axis=0), getattr(sums, name), **EXACT)


def test_cross_group_pairs():
    """Users in two groups: what they put into cell c of one and cell d of the other."""
    rows = repeated_users(1200, seed=4, spanning=True, weights=True, real=True)
    tally = es.tally(as_dict(rows), **NAMES, weight="v", cells=16)
    cells = tally.lattice.cell(rows.score)
    for weighting in WEIGHTINGS:
        expected = np.zeros((16, 16))
        for user in np.unique(rows.user):
            parts = []
            for group in (0, 1):
                chosen = (rows.user == user) & (rows.group == group)
                n = chosen.sum() if weighting == "user" else 1
                parts.append(
                    np.bincount(cells[chosen], rows.weight[chosen] * (rows.outcome[chosen] - tally.centre), minlength=16)
                    / max(n, 1)
                )
            expected += np.outer(*parts)
        np.testing.assert_allclose(tally.pair_matrices(0, 1, weighting).yy, expected, **EXACT)
        np.testing.assert_allclose(tally.pair_matrices(1, 0, weighting).yy, expected.T, **EXACT)
        np.testing.assert_allclose(tally.pair_matrices(1, 0, weighting).wy, tally.pair_matrices(0, 1, weighting).yw.T, **EXACT)


@pytest.mark.parametrize(("few", "long"), [(0.0, 1e9), (1e9, 1e9), (0.0, 0.0)], ids=["one by one", "collected", "products"])
def test_the_three_ways_to_add_cross_pairs_agree(monkeypatch, few, long):
    rows = repeated_users(3000, seed=8, spanning=True, whales=True, real=True)
    plain = es.tally(as_dict(rows), **NAMES, cells=32).pair_matrices(0, 1)
    monkeypatch.setattr(pairing, "FEW", few)
    monkeypatch.setattr(pairing, "LONG_REAL", long)
    monkeypatch.setattr(pairing, "BLOCK", 1000)
    other = es.tally(as_dict(rows), **NAMES, cells=32).pair_matrices(0, 1)
    for name in ("ww", "wy", "yw", "yy"):
        np.testing.assert_allclose(getattr(plain, name), getattr(other, name), **EXACT)


def test_counts_are_repeated_rows():
    rows = repeated_users(800, seed=9, real=True)
    repeat = np.random.default_rng(0).integers(0, 4, 800)
    tally = es.tally(as_dict(rows) | {"n": repeat}, **NAMES, count="n", cells=16, lattice=es.Lattice(0, 1, cells=16))
    again = {name: np.repeat(column, repeat) for name, column in as_dict(rows).items()}
    longer = es.tally(again, **NAMES, lattice=tally)
    assert tally.n_rows == longer.n_rows
    assert tally.n_users == longer.n_users
    centred = recentre(longer, tally.centre)
    for a, b in zip(tally.group_tallies, centred.group_tallies, strict=True):
        np.testing.assert_allclose(a.vectors.values, b.vectors.values, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(a.pairs.matrices("user").yy, b.pairs.matrices("user").yy, rtol=1e-7, atol=1e-9)


def test_counts_of_independent_rows_are_so_many_people():
    rows = repeated_users(600, seed=9, real=True)
    repeat = np.random.default_rng(1).integers(0, 4, len(rows.score))
    columns = NAMES | {"user": None}
    lattice = es.Lattice(0, 1, cells=16)
    tally = es.tally(as_dict(rows) | {"n": repeat}, **columns, count="n", lattice=lattice)
    longer = es.tally({name: np.repeat(column, repeat) for name, column in as_dict(rows).items()}, **columns, lattice=lattice)
    assert tally.n_users == longer.n_users == tally.n_rows
    for group in tally.groups:
        for weighting in ("user", "row"):
            np.testing.assert_allclose(tally.sums(group, weighting).W, longer.sums(group, weighting).W)
            a, b = (one.pair_matrices(group, group, weighting) for one in (tally, longer))
            np.testing.assert_allclose(a.ww, b.ww)
            np.testing.assert_allclose(a.yy, b.yy)
    with pytest.raises(es.DataError, match="a person of its own"):
        es.tally(as_dict(rows) | {"n": np.full(600, 10**6)}, **columns, count="n", lattice=lattice)


def test_unlabelled_rows_count_in_the_score_distribution_only():
    rows = repeated_users(2000, seed=10)
    outcome = np.where(np.random.default_rng(1).random(2000) < 0.3, np.nan, rows.outcome)
    data = as_dict(rows) | {"y": outcome}
    tally = es.tally(data, **NAMES, nulls="unlabelled", cells=16)
    known = np.isfinite(outcome)
    only = es.tally({name: column[known] for name, column in data.items()}, **NAMES, lattice=tally)
    for group in (0, 1):
        for weighting in WEIGHTINGS:
            a, b = tally.sums(group, weighting), only.sums(group, weighting)
            for name in ("W", "Y", "X", "Y2", "V0"):
                np.testing.assert_allclose(getattr(a, name), getattr(b, name), **EXACT)
        mine = rows.group == group
        _, inverse, counts = np.unique(rows.user[mine], return_inverse=True, return_counts=True)
        cells = tally.lattice.cell(rows.score[mine])
        per_user = 1 / counts[inverse]
        found = tally.sums(group, "user")
        np.testing.assert_allclose(found.A, np.bincount(cells, per_user, minlength=16), **EXACT)
        np.testing.assert_allclose(found.U, np.bincount(cells, per_user * ~known[mine], minlength=16), **EXACT)
        assert tally.n_unlabelled[group] == (~known[mine]).sum()


def test_two_hundred_groups_stay_small():
    rng = np.random.default_rng(0)
    n = 1_000_000
    user = rng.integers(0, n // 4, n)
    data = {"s": rng.beta(2, 3, n), "y": rng.random(n) < 0.3, "g": user % 200, "u": user}
    tally = es.tally(data, **NAMES)
    assert len(tally.groups) == 200
    assert tally.nbytes < 500e6


def test_too_many_cross_sums_is_an_error(monkeypatch):
    from evenscore.tallies import spanning

    monkeypatch.setattr(spanning, "MAX_CROSS_BYTES", 1000)
    rows = repeated_users(2000, seed=1, spanning=True)
    with pytest.raises(es.DataError, match="coarser lattice"):
        es.tally(as_dict(rows), **NAMES)


def test_progress_reaches_the_end():
    seen = []
    rows = repeated_users(1000, n_groups=4)
    es.tally(as_dict(rows), **NAMES, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (1000, 1000)
    assert seen == sorted(seen)


def test_users_of_several_groups_are_found_among_few_codes_and_far_apart_ones():
    few = [np.array([0, 2, 5]), np.array([1, 2, 3]), np.array([5, 4])]
    assert spanning_users(few, 6).tolist() == [2, 5]
    far = [codes * 10**12 for codes in few]
    assert spanning_users(far, 6 * 10**12).tolist() == [2 * 10**12, 5 * 10**12]
