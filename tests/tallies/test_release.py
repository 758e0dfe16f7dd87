"""A released tally: enough users behind every sum, by counting the rows; and the curves it still gives."""

import itertools

import numpy as np
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users

DESIGNS = {
    "four rows a user": {"rows_per_user": 4},
    "one row a user": {"rows_per_user": 1},
    "forty rows a user": {"rows_per_user": 40},
    "whales": {"whales": True},
    "users in several groups": {"spanning": True, "n_groups": 3},
    "real outcomes": {"real": True},
}


def make(name, n_rows=12_000):
    data = as_dict(repeated_users(n_rows, seed=5, **DESIGNS[name]))
    return data, es.tally(data, **NAMES)


def users_behind(data, lattice):
    """By brute force: how many users are behind each (group, cell) and each pair of them."""
    cells = lattice.cell(data["s"])
    places = {}
    for user, group, cell in zip(data["u"].tolist(), data["g"].tolist(), cells.tolist(), strict=True):
        places.setdefault(user, set()).add((group, cell))
    behind = {}
    for held in places.values():
        for pair in itertools.combinations_with_replacement(sorted(held), 2):
            behind[pair] = behind.get(pair, 0) + 1
    return behind


@pytest.mark.parametrize("min_users", [5, 30])
@pytest.mark.parametrize("name", DESIGNS)
def test_every_sum_that_is_kept_stands_for_enough_users(name, min_users):
    data, tally = make(name)
    released = tally.release(min_users=min_users)
    behind = users_behind(data, released.lattice)
    n = released.lattice.n_cells
    for (i, a), (j, b) in itertools.product(enumerate(released.groups), repeat=2):
        sums = released.pair_matrices(a, b, "row")
        if sums is None:
            continue
        for c, d in zip(*np.nonzero(sums.ww), strict=True):
            pair = tuple(sorted([(a, int(c)), (b, int(d))]))
            assert behind[pair] >= min_users, (i, j, c, d, n)
    for group in released.groups:
        assert (released.sums(group).N[released.sums(group).W > 0] >= min_users).all()


@pytest.mark.parametrize("name", DESIGNS)
def test_the_sums_are_those_of_a_tally_on_the_coarse_lattice(name):
    data, tally = make(name)
    released = tally.release(min_users=10)
    direct = es.tally(data, **NAMES, lattice=released.lattice)
    assert 1 < released.lattice.n_cells < 512
    for weighting, (a, b) in itertools.product(("user", "row"), itertools.product(released.groups, repeat=2)):
        one, other = released.pair_matrices(a, b, weighting), direct.pair_matrices(a, b, weighting)
        assert (one is None) == (other is None)
        for part in ("ww", "wy", "yw", "yy") if one is not None else ():
            np.testing.assert_allclose(getattr(one, part), getattr(other, part), rtol=1e-9, atol=1e-9)
        left, right = released.sums(a, weighting), direct.sums(a, weighting)
        for vector in ("W", "Y", "X", "Y2", "XY", "V0", "V1", "V2"):
            np.testing.assert_allclose(getattr(left, vector), getattr(right, vector), rtol=1e-9, atol=1e-9)


def test_nothing_of_single_users_is_left_and_the_audit_says_so(tmp_path):
    _, tally = make("four rows a user")
    released = tally.release(min_users=20)
    assert released.sketch is None and not any(group.folds.values.any() for group in released.group_tallies)
    assert released.released == (20, 512) and "released: cells were merged until each, and each pair" in repr(released)
    with pytest.raises(es.MergeError, match="released tally cannot be added"):
        released + tally.release(min_users=30)
    released.save(tmp_path / "out.tally")
    again = es.Tally.load(tmp_path / "out.tally")
    assert again.released == (20, 512) and again.lattice == released.lattice


def test_a_released_tally_keeps_the_level_and_finds_gaps():
    """Coarse cells must not show through: at the usual bandwidth, below one cell, 87 % of true nulls were rejected."""
    p_values = {gap: [] for gap in (0.0, 0.15)}
    for gap, found in p_values.items():
        for seed in range(20):
            data = as_dict(repeated_users(8_000, seed=seed, rows_per_user=4, gap=gap))
            found.append(es.parity_test(es.tally(data, **NAMES, cells=128).release(min_users=20), bandwidth="test").p_value)
    assert np.mean(np.array(p_values[0.0]) < 0.05) <= 0.2  # 4 of 20 or fewer: probability .997 at a level of 5 %
    assert np.mean(np.array(p_values[0.15]) < 0.05) >= 0.8


def test_more_users_leave_more_cells():
    tallies = [es.tally(as_dict(repeated_users(n, seed=1)), **NAMES) for n in (2_000, 20_000, 80_000)]
    cells = [tally.release(min_users=10).lattice.n_cells for tally in tallies]
    assert cells[0] < cells[1] < cells[2]


def test_groups_that_share_too_few_users_are_told_apart():
    data = as_dict(repeated_users(8_000, seed=2))
    data["g"][data["u"] < 3] = np.arange((data["u"] < 3).sum()) % 2
    tally = es.tally(data, **NAMES)
    assert tally.n_spanning == 3 and tally.cross
    released = tally.release(min_users=10)
    assert not released.cross and released.n_spanning == 0


def test_rows_without_outcome_are_gone():
    data = as_dict(repeated_users(8_000, seed=2))
    data["y"] = np.where(data["s"] < 0.3, np.nan, data["y"])
    released = es.tally(data, **NAMES, nulls="unlabelled").release(min_users=10)
    assert released.n_unlabelled == {0: 0, 1: 0} and not released.sums(0).U.any()


def test_what_cannot_be_released_says_so():
    data, tally = make("four rows a user")
    for bad in (1, 2.5, True, "20"):
        with pytest.raises(es.OptionError, match="min_users"):
            tally.release(min_users=bad)
    with pytest.raises(es.DataError, match=r"groups with fewer than 4000 users cannot be released: 0 \(1,"):
        tally.release(min_users=4_000)
    with pytest.raises(es.DataError, match="survey weights"):
        es.tally(data, **NAMES, weight="v").release()
    with pytest.raises(es.DataError, match="empty"):
        es.Tally.zero(tally.lattice).release()
