"""A released tally: enough users behind every sum, by counting the rows; and the curves it still gives."""

import itertools

import numpy as np
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.tallies.reshaping import recentre

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


def compared(name):
    """A release and a tally of the same data on its cells: each group, weighting and pair of sums."""
    data, tally = make(name)
    released = tally.release(min_users=10)
    direct = recentre(es.tally(data, **NAMES, lattice=released.lattice), released.centre)
    assert 1 < released.lattice.n_cells < 512
    for weighting, (a, b) in itertools.product(("user", "row"), itertools.product(released.groups, repeat=2)):
        one, other = released.pair_matrices(a, b, weighting), direct.pair_matrices(a, b, weighting)
        assert (one is None) == (other is None)
        yield released.sums(a, weighting), direct.sums(a, weighting), one, other


@pytest.mark.parametrize("name", DESIGNS)
def test_the_sums_are_those_of_a_tally_on_the_coarse_lattice(name):
    """All of them when outcomes are 0/1; of others, those in which no outcome is."""
    exact = ("W", "X", "V0"), ("ww",)
    if name != "real outcomes":
        exact = ("W", "Y", "X", "Y2", "XY", "V0", "V1", "V2"), ("ww", "wy", "yw", "yy")
    for left, right, one, other in compared(name):
        for part in exact[1] if one is not None else ():
            np.testing.assert_allclose(getattr(one, part), getattr(other, part), rtol=1e-9, atol=1e-9)
        for vector in exact[0]:
            np.testing.assert_allclose(getattr(left, vector), getattr(right, vector), rtol=1e-9, atol=1e-9)


def test_real_outcomes_are_rounded_to_part_of_what_a_person_can_put_in():
    """At most by half a step, and steps are between a quarter and a half of the root of a cell's squares over users."""
    for left, right, one, other in compared("real outcomes"):
        mean = right.Y / right.W
        squares = np.diag(other.residual(mean, mean)) if other is not None else None
        if squares is None or one is None or not np.allclose(one.ww, one.ww.T):
            continue
        error = np.abs(left.Y - right.Y) / np.sqrt(squares)
        assert error.mean() > 0.01 and error.max() <= 0.25 + 1e-9
        shown = np.diag(one.residual(left.Y / left.W, left.Y / left.W))
        assert (np.abs(shown / squares - 1) <= 0.25 + 1e-9).all() and (shown > 0).all()


def user_outcomes(kind, seed, rows_per_user):
    rng = np.random.default_rng(seed)
    n = 4_000
    user = np.repeat(np.arange(n), rows_per_user)
    score, level = rng.random(len(user)), rng.normal(size=n)[user]
    noise = 0.7 * level + 0.7 * rng.normal(size=len(user))
    outcome = 5 + 2 * score + noise if kind == "normal" else 4e4 * np.exp(0.5 * score + 0.5 * noise)
    return {"s": score, "y": outcome + 0.05 * np.std(outcome) * (user % 2), "g": user % 2, "u": user}


@pytest.mark.parametrize("rows_per_user", [1, 4])
@pytest.mark.parametrize("kind", ["normal", "incomes"])
def test_rounding_costs_little(kind, rows_per_user, monkeypatch):
    """Curves move by a fraction of their standard errors, which stay, and p-values stay where they are."""
    tally = es.tally(user_outcomes(kind, 1, rows_per_user), **NAMES)
    found = tally.release(min_users=20)
    with monkeypatch.context() as patch:
        patch.setattr("evenscore.tallies.release.clipped", lambda tally, _cells: tally)
        patch.setattr("evenscore.tallies.release.rounded", lambda tally: tally)
        exact = tally.release(min_users=20)
    before, after = ([(row["estimate"], row["se"]) for row in es.curves(each).rows()] for each in (exact, found))
    (values, errors), (moved, shown) = np.array(before).T, np.array(after).T
    assert np.nanmean(np.abs(moved - values) / errors) < 0.2 and np.nanmax(np.abs(moved - values) / errors) < 0.6
    assert np.nanmean(shown / errors) == pytest.approx(1, abs=0.06)
    assert es.parity_test(found).p_value == pytest.approx(es.parity_test(exact).p_value, abs=0.12)


def test_outcomes_that_are_all_the_same_and_huge_ones_are_released():
    data = {"s": np.linspace(0, 1, 400), "g": np.arange(400) % 2, "u": np.arange(400)}
    same = es.tally(data | {"y": np.full(400, 7.5)}, **NAMES).release(min_users=20)
    assert [row["mean_outcome"] for row in same.rows()] == [7.5, 7.5]
    huge = es.tally(data | {"y": 1e74 * np.sin(np.arange(400.0))}, **NAMES).release(min_users=20)
    assert all(np.isfinite(group.pairs.values).all() and np.isfinite(group.vectors.values).all() for group in huge.group_tallies)


@pytest.mark.parametrize("scale", ["score", "rank"])
def test_the_highest_score_is_not_the_end_of_the_lattice(scale):
    """As a value among few, and as the last quantile."""
    rng = np.random.default_rng(0)
    score = np.rint(600 + 30 * rng.normal(size=2_000)) if scale == "score" else 600 + 30 * rng.normal(size=2_000)
    score[7] = 98_765.0
    data = {"s": score, "y": rng.integers(0, 2, 2_000), "g": np.arange(2_000) % 2, "u": np.arange(2_000)}
    released = es.tally(data, **NAMES, scale=scale).release(min_users=20)
    assert released.lattice.high < 800
    assert all((sums.X <= 800 * sums.W).all() for sums in map(released.sums, released.groups))


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


@pytest.mark.parametrize("weighted_first", [True, False])
def test_a_sum_that_holds_weighted_rows_is_not_released(weighted_first):
    """Whichever part is the larger: its names are kept, but not at the price of what the other part is."""
    columns = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
    small, large = (es.simulate(n).data(seed=n) for n in (100, 300))
    large["user"] = large["user"] + 10_000
    parts = [es.tally(small | {"v": np.ones(len(small["score"]))}, **columns, weight="v"), es.tally(large, **columns)]
    merged = parts[0] + parts[1] if weighted_first else parts[1] + parts[0]
    with pytest.raises(es.DataError, match="survey weights"):
        merged.release()


def test_a_threshold_that_is_kept_can_be_audited():
    """The message of a threshold inside a cell asks for such a release, which did not keep the edge."""
    data = es.simulate(900, curve={"a": (0.5, 1), "b": (0, 1)}, rows_per_user=3).data(seed=1)
    columns = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
    tally = es.tally(data, **columns, cuts=[0.5])
    with pytest.raises(es.DataError, match=r"release\(cuts="):
        es.marginal_test(tally.release(min_users=20), threshold=0.5)
    kept = tally.release(min_users=20, cuts=[0.5])
    assert 0.5 in kept.lattice.edges and kept.lattice.n_cells > 4
    assert es.marginal_test(kept, threshold=0.5).p_value > 0
    for group in kept.group_tallies:
        assert group.vectors.under("user")["W"].min() >= 20
    with pytest.raises(es.OptionError, match=r"cuts=0\.123: no edge"):
        tally.release(cuts=[0.123])
    few = es.tally(data, **columns, cuts=[0.97])
    with pytest.raises(es.DataError, match="at least 20 users"):
        few.release(min_users=20, cuts=[0.97])
