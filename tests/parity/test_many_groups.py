"""Parity of many groups: what they share, each against the rest, intersections, and users who are in several."""

from pathlib import Path

import numpy as np
import pytest
from simple_users import simple, tally_of

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.estimation import comparison as comparing
from evenscore.estimation.comparison import Sides, compare_groups
from evenscore.estimation.gaps import cumulative, estimate_gaps, multiscale
from evenscore.estimation.grids import comparison_grid
from evenscore.estimation.nulls import Null
from evenscore.estimation.smoothing import Smoothing
from evenscore.parity import pair_tests
from evenscore.parity.joint import KEPT_BYTES, _kept_normals, _normals, _root
from support.looks import of_one


@pytest.fixture(scope="module")
def five():
    """Five groups with users in several of them; the scores of the last two fill fewer cells."""
    rows = repeated_users(6000, seed=5, spanning=True, n_groups=5)
    data = as_dict(rows)
    score = np.where(data["g"] >= 3, 0.3 + 0.2 * data["s"], data["s"])
    return es.tally(data | {"s": score}, **NAMES)


@pytest.mark.parametrize("pair", [(0, 1), (1, 2), (3, 4), (2, 4)])
def test_groups_that_share_their_cells_compare_as_two_alone(five, pair):
    sides, alone = Sides(five, "user").compare(*pair), compare_groups(five, *pair, "user")
    assert len(sides.a.cells) > len(alone.a.cells) or pair == (3, 4)  # the last two are compared on cells of their own
    points, _ = comparison_grid(alone, 0.1)
    np.testing.assert_allclose(comparison_grid(sides, 0.1)[0], points, rtol=1e-12)
    found = []
    for each in (sides, alone):
        smoothing = Smoothing(bandwidth=0.1)
        null = Null.of(each, smoothing)
        gap = of_one(estimate_gaps, each, points, smoothing, null)
        found.append((gap, of_one(multiscale, each, points, smoothing, null), of_one(cumulative, each, points, smoothing, null)))
    for one, other in zip(*found, strict=True):
        close = {"rtol": 1e-9, "atol": 1e-11 * np.abs(other.covariance).max()}
        np.testing.assert_allclose(one.values, other.values, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(one.covariance, other.covariance, **close)
        np.testing.assert_allclose(one.law.df, other.law.df, rtol=1e-7)


def test_keeping_fewer_groups_at_a_time_changes_nothing(five, monkeypatch):
    plain = es.parity_test(five)
    monkeypatch.setattr(comparing, "SIDE_BYTES", 1)
    assert Sides(five, "user").kept == 2
    again = es.parity_test(five)
    assert [(pair.group_a, pair.group_b) for pair in again.pairs] == [(pair.group_a, pair.group_b) for pair in plain.pairs]
    assert again.to_dict() == plain.to_dict()


def test_pairs_are_tiled_so_that_kept_groups_come_again(five, monkeypatch):
    size = len(Sides(five, "user").cells)
    monkeypatch.setattr(comparing, "SIDE_BYTES", 4 * (32 * size**2 + 1))
    sides = Sides(five, "user")
    assert sides.kept == 4
    pairs = [(a, b) for a in five.groups for b in five.groups if a < b]
    order = [pairs[place] for place in sides.tile(pairs)]
    assert order == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (0, 4), (1, 4), (2, 3), (2, 4), (3, 4)]


@pytest.mark.parametrize("tolerance", [None, 0.05])
def test_the_other_weighting_is_the_test_with_that_weighting(five, tolerance):
    other = es.parity_test(five, tolerance=tolerance).other
    whole = es.parity_test(five, weighting="row", tolerance=tolerance, both=False)
    assert (other.p_value, other.max_gap, other.verdict) == (whole.p_value, whole.max_gap, whole.verdict)


@pytest.mark.parametrize("rank", [40, 10, 0])
def test_joint_noise_has_the_covariance_also_of_fewer_users_than_cells(rank):
    users = np.random.default_rng(0).normal(size=(40, rank))
    covariance = users @ users.T
    root = _root(covariance)
    np.testing.assert_allclose(root @ root.T, covariance, atol=1e-5 * max(np.trace(covariance), 1))
    assert rank or not root.any()


def test_random_numbers_are_the_same_kept_or_not():
    many = (3, KEPT_BYTES // 4_000, 2)  # of which the first three rows are those of few
    few, some = _normals(7, (3, 5), 1000), _normals(7, many, 1000)
    assert _normals(7, (3, 5), 1000)[0] is few[0]
    assert [len(own) for own in some] == list(many)
    np.testing.assert_array_equal(few[0], some[0])
    np.testing.assert_array_equal(few[1], _kept_normals.__wrapped__(7, (3, 5), 1000)[1])


def test_rest_is_all_others_together():
    data = simple(n_users=900, n_groups=3, gap=0.25)
    tally = tally_of(data)
    test = es.parity_test(tally, compare="rest")
    assert [(pair.group_a, pair.group_b) for pair in test.pairs] == [(0, "the rest"), (1, "the rest"), (2, "the rest")]
    united = tally_of(data | {"g": np.where(data["g"] == 0, 0, 1)}, lattice=tally)
    by_hand = compare_groups(united, 0, 1, "user")
    found = Sides(tally, "user").compare(0, None)
    np.testing.assert_allclose(found.b.sums.W, by_hand.b.sums.W)
    np.testing.assert_allclose(found.b.sums.Y, by_hand.b.sums.Y)
    np.testing.assert_allclose(found.b.pairs.yy, by_hand.b.pairs.yy, atol=1e-12)
    assert test.pairs[0].p_value == pytest.approx(es.parity_test(united).pairs[0].p_value, rel=0.2)
    assert test.verdict == "disparity"


def test_rest_with_spanning_users_counts_them_in_each_group():
    rows = repeated_users(6000, seed=1, spanning=True, n_groups=3)
    found = Sides(tally_of(as_dict(rows)), "user").compare(0, None)
    ones = found.b.pairs.ww.sum()
    expected = 0
    for user in np.unique(rows.user):
        groups = np.unique(rows.group[(rows.user == user) & (rows.group != 0)])
        expected += len(groups) ** 2
    assert ones == pytest.approx(expected)
    assert found.cross is not None


def test_two_groups_and_their_rest_are_the_pair():
    tally = tally_of(simple())
    assert es.parity_test(tally, compare="rest").p_value == es.parity_test(tally).p_value


def test_two_hundred_groups():
    """Small ones among them, reported and not dropped; each against the rest."""
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(20_000), 3)
    group = user % 200
    data = {"s": rng.random(len(user)), "y": rng.random(len(user)) < 0.4, "g": group, "u": user}
    data["g"] = np.where((group == 7) & (user > 1000), 8, group)
    test = es.parity_test(tally_of(data, cells=64), compare="rest", both=False)
    assert len(test.pairs) == 200
    assert "7 has only" in test.pairs[7].reason
    assert test.verdict == "inconclusive"


def test_spanning_groups_are_adjusted_jointly():
    rows = repeated_users(3000, seed=1, spanning=True, n_groups=3, rows_per_user=6)
    test = es.parity_test(es.tally(as_dict(rows), **NAMES, cells=128), method="sup", both=False)
    assert "joint draws" in test.adjustment
    for pair in test.pairs:
        assert pair.p_value <= pair.p_adjusted + 1e-12


def test_too_many_spanning_groups_fall_back_on_holm():
    rows = repeated_users(10_000, seed=1, spanning=True, n_groups=60)
    tally = es.tally(as_dict(rows), **NAMES, scale="score")  # which fills most cells
    test = es.parity_test(tally, method="sup", reference=0, both=False)
    assert test.adjustment == "Holm's method"


def test_intersections():
    data = simple(n_users=1200, gap=0.0)
    data["h"] = np.array(["x", "y"])[data["u"] // 2 % 2]
    tally = es.tally(data, score="s", outcome="y", group=["g", "h"], user="u")
    assert tally.groups == ((0, "x"), (0, "y"), (1, "x"), (1, "y"))
    assert "0 × x" in repr(es.parity_test(tally, method="sup"))


def test_two_candidates_of_a_race_are_one_user():
    """What one wins the other loses: taken for different people, they make the gap look surer than it is."""
    import duckdb

    path = Path(__file__).parents[2] / "examples" / "governors" / "governors.parquet"
    columns = f"probwin, probwin_outcome, party, race_id, race_id || party AS candidate FROM '{path}'"
    data = duckdb.sql(f"SELECT {columns} WHERE party IN ('D', 'R') AND race_id IS NOT NULL").fetchnumpy()
    data = {name: np.asarray(column) for name, column in data.items()}
    found = {}
    for user in ("race_id", "candidate", None):
        tally = es.tally(
            data, score="probwin", outcome="probwin_outcome", group="party", user=data[user] if user else None, scale="score"
        )
        found[user] = es.parity_test(tally, method="sup", both=False)
    se = {user: np.array([point["se"] for point in test.points]) for user, test in found.items()}
    score = np.array([point["score"] for point in found["race_id"].points])
    assert (se["race_id"] / se["candidate"])[(score > 0.2) & (score < 0.4)].min() > 1.15
    assert found["race_id"].p_value > 0.3 > 1e-20 > found[None].p_value


@pytest.mark.parametrize("outcome", ["0/1", "others"])
def test_a_batch_of_pairs_finds_what_each_finds_alone(monkeypatch, outcome):
    """Four groups of different sizes, one of which is too small to be judged, so that batches have pairs of several kinds."""
    rng = np.random.default_rng(5)
    group = np.repeat([0, 1, 2, 3], [800, 300, 500, 6])
    user = np.repeat(np.arange(len(group)), 3)
    score = rng.beta(2, 2, len(user))
    values = (rng.random(len(user)) < score) * (1.0 if outcome == "0/1" else rng.exponential(size=len(user)))
    tally = es.tally({"s": score, "y": values, "g": group[user], "u": user}, **NAMES)
    together = es.parity_test(tally)
    monkeypatch.setattr(pair_tests, "AT_ONCE", 1)
    alone = es.parity_test(tally)
    assert [np.isfinite(pair.p_value) for pair in together.pairs] == [True, True, False, True, False, False]
    for one, other in zip(together.pairs, alone.pairs, strict=True):
        assert (one.reason, one.verdict, one.p_source) == (other.reason, other.verdict, other.p_source)
        for name in (
            "p_value",
            "p_adjusted",
            "minimum_detectable_gap",
            "exceeds",
            "gap",
            "se",
            "band_low",
            "band_high",
            "p_points",
        ):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9)
