"""Sums of third and fourth powers against a loop over rows; merged, moved, saved, and what happens where there are none."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from compare import assert_same

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.engines.by_user import merge_by_user, unite_by_user
from evenscore.engines.lines import from_lines, to_lines
from evenscore.engines.parts import Recipe
from evenscore.tallies.blocks import HIGHER
from evenscore.tallies.lattice_settings import lattice_from_settings, lattice_settings
from evenscore.tallies.reshaping import drop_blocks, recentre, remap
from evenscore.tallies.tally_state import WEIGHTINGS
from evenscore.tallies.view import GroupView

ROUNDING = 1e-12  # of the sum of absolute terms; only the order of additions differs
LATTICE = es.Lattice(0, 1, cells=16, scale="score")
GOLDEN = Path(__file__).parents[1] / "golden"
KINDS = {
    "binary": {},
    "whales": {"whales": True},
    "real": {"real": True},
    "weights": {"weights": True},
    "spanning": {"spanning": True, "real": True, "weights": True, "n_groups": 3},
}


def summed(data, group, tally, weighting, weight=None, repeat=None):
    """Each power sum of a group by cell, and the sum of its absolute terms; nothing is shared with the package."""
    mine = data["g"] == group
    score, y, user = (np.asarray(data[name])[mine] for name in "syu")
    v = np.ones(len(y)) if weight is None else weight[mine]
    m = np.ones(len(y)) if repeat is None else repeat[mine]
    rows_of_user = np.array([m[user == one].sum() for one in user])
    w = v / np.where(rows_of_user > 0, rows_of_user, 1) if weighting == "user" else v
    d = y - tally.centre
    cell = tally.lattice.cell(score)
    sums = {}
    for letter, power, last in (("T", 3, 3), ("Q", 4, 4)):
        for k in range(last + 1):
            term = m * w**power * d**k
            sums[f"{letter}{k}"] = [
                np.array([values[cell == c].sum() for c in range(tally.lattice.n_cells)]) for values in (term, np.abs(term))
            ]
    return sums


def assert_summed(tally, data, rounding=ROUNDING, **options):
    for group in tally.groups:
        for weighting in WEIGHTINGS:
            higher = tally.higher(group, weighting)
            for name, (expected, size) in summed(data, group, tally, weighting, **options).items():
                error = np.abs(getattr(higher, name) - expected)
                assert (error <= rounding * size).all(), (name, weighting, group, (error / np.maximum(size, 1e-300)).max())


@pytest.mark.parametrize("counts", [False, True], ids=["", "counts"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_power(kind, counts):
    data = as_dict(repeated_users(1_200, seed=2, **KINDS[kind]))
    weight = "v" if KINDS[kind].get("weights") else None
    data["n"] = np.random.default_rng(0).integers(0, 4, len(data["s"]))
    tally = es.tally(data, **NAMES, weight=weight, count="n" if counts else None, cells=16)
    assert tally.block_names == ("vectors", "folds", "pairs", "higher") and not tally.left_out
    assert_summed(tally, data, weight=data["v"] if weight else None, repeat=data["n"] if counts else None)


@pytest.mark.parametrize("kind", ["binary", "real", "weights"])
def test_users_with_one_row_each(kind):
    data = as_dict(repeated_users(800, seed=3, **KINDS[kind])) | {"u": np.arange(800)}
    weight = "v" if kind == "weights" else None
    for user in ("u", None):
        tally = es.tally(data, **NAMES | {"user": user}, weight=weight, cells=16)
        assert_summed(tally, data, weight=data["v"] if weight else None)


def test_rows_without_outcome_are_not_in_them():
    data = as_dict(repeated_users(800, seed=3))
    known = data["s"] > 0.3
    outcome = np.where(known, data["y"], np.nan)
    tally = es.tally(data | {"y": outcome}, **NAMES, nulls="unlabelled", lattice=LATTICE)
    assert_summed(tally, {name: column[known] for name, column in data.items()})


def test_users_counted_in_parts(monkeypatch):
    from evenscore.tallies import counting, packing

    data = as_dict(repeated_users(1_500, seed=6, n_groups=3))
    monkeypatch.setattr(packing, "KEY_BITS", 22)
    for module in (counting, packing):
        monkeypatch.setattr(module, "CHUNK", 100)
    assert_summed(es.tally(data, **NAMES, cells=16), data)


# Added, moved, saved


def test_shards_add_up_to_the_whole():
    data = as_dict(repeated_users(1_500, seed=4, **KINDS["spanning"]))
    shards = [es.tally(rows_of(data, data["u"] % 3 == i), **NAMES, weight="v", lattice=LATTICE) for i in range(3)]
    assert len({shard.centre for shard in shards}) == 3
    assert_summed(sum(shards), data, weight=data["v"], rounding=1e-11)


def rows_of(data, chosen):
    return {name: column[chosen] for name, column in data.items()}


def test_recentred_and_remapped():
    data = as_dict(repeated_users(900, seed=5, real=True))
    tally = es.tally(data, **NAMES, lattice=LATTICE)
    assert_summed(recentre(tally, 2.5), data, rounding=1e-11)
    coarse = lattice_from_settings(LATTICE.edges[1::2], lattice_settings(LATTICE))
    assert_summed(remap(tally, coarse, [np.arange(16) // 2] * 2), data)


def test_saved_and_loaded(tmp_path):
    data = as_dict(repeated_users(900, seed=5, real=True))
    tally = es.tally(data, **NAMES, lattice=LATTICE)
    tally.save(tmp_path / "some.tally")
    loaded = es.Tally.load(tmp_path / "some.tally")
    assert_same(loaded, tally)
    assert_summed(loaded, data)


def test_lines_of_workers_add_up():
    data = as_dict(repeated_users(900, seed=7, **KINDS["spanning"]))
    tally = es.tally(data, **NAMES, weight="v", lattice=LATTICE)
    recipe = Recipe(LATTICE, tally.groups, tally.columns, tally.binary, tally.centre, hashed=False, n_rows=900, n_users=900)
    assert_same(from_lines(to_lines(tally), recipe), tally, exact=False)
    without = drop_blocks(tally, ["higher"], "an overflow in one worker")
    assert "higher" in from_lines(to_lines(without), recipe).left_out


# Where they are not


@pytest.mark.parametrize("name", ["binary", "real", "weighted-counted", "spanning-real", "released", "zero"])
def test_files_of_the_first_version_have_none(name, tmp_path):
    loaded = es.Tally.load(GOLDEN / f"{name}.tally")
    assert "higher" not in loaded.block_names and not loaded.left_out
    for group in loaded.groups:
        assert loaded.higher(group) is None and GroupView.of(loaded, group, "user").higher is None
    loaded.save(tmp_path / "again.tally")
    assert_same(es.Tally.load(tmp_path / "again.tally"), loaded)


def test_a_tally_without_them_takes_them_from_a_sum():
    data = as_dict(repeated_users(900, seed=5))
    even = data["u"] % 2 == 0
    new = es.tally(rows_of(data, even), **NAMES, lattice=LATTICE)
    old = drop_blocks(es.tally(rows_of(data, ~even), **NAMES, lattice=LATTICE), ["higher"], "of another time")
    for both in (new + old, old + new):
        assert both.higher(0) is None
        assert "block 'higher' is left out: of another time" in repr(both)
    assert (new + es.Tally.zero(LATTICE)).higher(0) is not None


def test_user_level_files_of_the_first_version(tmp_path):
    """0/1 outcomes of weight one have powers all the same: they are the squares; others have none, and this is said."""
    for name in ("days", "text-days"):
        paths = [GOLDEN / f"{name}-{day}.users.parquet" for day in (1, 2)]
        tally = merge_by_user(paths, 10**9)
        if tally.binary and tally.columns.weight is None:
            sums, higher = tally.sums(tally.groups[0], "row"), tally.higher(tally.groups[0], "row")
            for name in HIGHER.names:
                np.testing.assert_array_equal(getattr(higher, name), sums.W if name.endswith("0") else sums.Y)
        else:
            assert tally.left_out == {"higher": "user-level files of 0.1.0 do not have it"}
            assert "higher" not in tally.block_names
        unite_by_user(paths, 10**9, tmp_path / "both.users.parquet", overwrite=True)
        assert_same(merge_by_user([tmp_path / "both.users.parquet"], 10**9), tally, exact=False)


@pytest.mark.parametrize("weight", [1e60, 1e75])
def test_powers_too_large_for_a_number_are_left_out_and_nothing_else(weight, tmp_path):
    data = as_dict(repeated_users(400, seed=5, real=True))
    data["v"] = np.full(400, weight)
    data["y"] = data["y"] * 1e20
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tally = es.tally(data, **NAMES, weight="v", lattice=LATTICE)
        moved = recentre(tally, 0.0)
    assert tally.higher(0) is None and moved.higher(0) is None
    assert "block 'higher' is left out: its powers of outcomes and weights are too large" in repr(tally)
    tally.save(tmp_path / "large.tally")
    assert_same(es.Tally.load(tmp_path / "large.tally"), tally)


def test_recentring_that_overflows_leaves_them_out():
    data = as_dict(repeated_users(400, seed=5, real=True)) | {"v": np.full(400, 1e70)}
    tally = es.tally(data, **NAMES, weight="v", lattice=LATTICE)
    assert tally.higher(0) is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        moved = recentre(tally, 1e20)
    assert moved.higher(0) is None and "too large" in repr(moved)


# Views


def test_views_have_them_for_their_members_and_cells():
    data = as_dict(repeated_users(1_500, seed=4, **KINDS["spanning"]))
    tally = es.tally(data, **NAMES, weight="v", lattice=LATTICE)
    cells = np.array([2, 3, 7, 15])
    for weighting in WEIGHTINGS:
        own, whole = GroupView.of(tally, 1, weighting), GroupView.whole(tally, weighting)
        rest = whole.less(own)
        inside = np.isin(np.arange(16), cells)
        for name in HIGHER.names:
            by_group = [getattr(tally.higher(group, weighting), name) for group in tally.groups]
            np.testing.assert_array_equal(getattr(own.higher, name), by_group[1])
            np.testing.assert_allclose(getattr(whole.higher, name), sum(by_group), rtol=1e-14)
            np.testing.assert_allclose(getattr(rest.higher, name), by_group[0] + by_group[2], rtol=1e-14)
            np.testing.assert_array_equal(getattr(own.at(cells).higher, name), by_group[1][cells])
            np.testing.assert_array_equal(getattr(own.only(cells).higher, name), np.where(inside, by_group[1], 0))
            np.testing.assert_allclose(
                getattr(whole.only(cells).less(own.only(cells)).at(cells).higher, name),
                (by_group[0] + by_group[2])[cells],
                rtol=1e-14,
            )
            outside = whole.only(cells).less(own.only(cells)).higher
            assert not getattr(outside, name)[~inside].any()
        assert own.without_folds()[0].higher is None
    without = drop_blocks(tally, ["higher"], "a test")
    whole = GroupView.whole(without, "user")
    assert whole.higher is None and whole.at(cells).higher is None and whole.only(cells).higher is None
    assert whole.less(GroupView.of(without, 1, "user")).higher is None
