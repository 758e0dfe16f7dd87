"""A block that is described is saved, added, recentred and remapped without code of its own; files of 0.1.0 are read."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compare import assert_same
from forgery import forge, in_list, put, refuse, repack

import evenscore as es
from data import NAMES
from evenscore.tallies.blocks import BLOCKS, COUNTED, USER_PAIRS, Block
from evenscore.tallies.lattice_settings import lattice_from_settings, lattice_settings
from evenscore.tallies.moments import WEIGHTINGS, Factor, Moments, Sums
from evenscore.tallies.pairs import PairSums, every_pair
from evenscore.tallies.reshaping import drop_blocks, recentre, remap

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
CUBES = Moments.single(T0=Factor(w=3), T1=Factor(w=3, y=1), T2=Factor(w=3, y=2), T3=Factor(w=3, y=3))
INVENTED = (Block("cubes", "vectors", CUBES), Block("item pairs", "pairs", USER_PAIRS))
LATTICE = es.Lattice(0, 1, cells=8)


@pytest.fixture(autouse=True)
def invented(monkeypatch):
    for block in INVENTED:
        monkeypatch.setitem(BLOCKS, block.name, block)


def make(n_rows=300, seed=0, discrete=False):
    """Rows of users who span groups; an item is seen by four users."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 60, n_rows)
    score = rng.choice([0.1, 0.2, 0.45, 0.7, 0.9], n_rows) if discrete else rng.random(n_rows)
    return {
        "s": score,
        "y": rng.normal(3, 1, n_rows),
        "g": np.where(rng.random(n_rows) < 0.2, 1 - user % 2, user % 2),
        "u": user,
        "v": rng.gamma(2, 1, n_rows),
        "item": user // 4,
    }


def rows_of(data, chosen):
    return {name: column[chosen] for name, column in data.items()}


def counted(data, **options):
    """A tally with both blocks, by a loop over rows."""
    return filled(es.tally(data, **NAMES, weight="v", **options), data)


def filled(tally, data):
    cells, n_cells = tally.lattice.cell(data["s"]), tally.lattice.n_cells
    cubes = np.zeros((2, 2, 4, n_cells))  # group, weighting, power of y, cell
    by_item = np.zeros((int(data["item"].max()) + 1, 2, 2, 2, n_cells))  # item, group, weighting, w or w y, cell
    for row in range(len(cells)):
        group, cell, y = data["g"][row], cells[row], data["y"][row] - tally.centre
        same = (data["u"] == data["u"][row]) & (data["g"] == group)
        for weighting, w in enumerate((data["v"][row] / same.sum(), data["v"][row])):
            cubes[group, weighting, :, cell] += w**3 * y ** np.arange(4)
            by_item[data["item"][row], group, weighting, :, cell] += w, w * y

    def pairs(a, b):
        every = every_pair(n_cells, within=a == b)
        squares = np.einsum("ipkc,ipld->pklcd", by_item[:, a], by_item[:, b]).reshape(2, 4, -1)
        return PairSums.from_kept(squares[:, :, every], n_cells, a == b, every)

    groups = []
    for group, counts in tally.by_group:
        added = {"cubes": Sums(CUBES, cubes[group]), "item pairs": pairs(group, group)}
        groups.append(replace(counts, blocks={**counts.blocks, **added}))
    cross = {**tally.cross_blocks, "item pairs": {(0, 1): pairs(0, 1)}}
    return replace(tally, group_tallies=tuple(groups), cross_blocks=cross)


def assert_counted(tally, data):
    """The tally's sums are those of a loop over the rows, on its lattice and from its centre."""
    expected = filled(tally, data)
    assert tally.block_names == (*COUNTED, "cubes", "item pairs") and not tally.left_out
    for own, other in zip(tally.group_tallies, expected.group_tallies, strict=True):
        np.testing.assert_allclose(own.blocks["cubes"].values, other.blocks["cubes"].values, **CLOSE)
        assert_same_squares(own.blocks["item pairs"], other.blocks["item pairs"])
    assert_same_squares(tally.cross_blocks["item pairs"][0, 1], expected.cross_blocks["item pairs"][0, 1])


def assert_same_squares(own, other):
    for weighting in WEIGHTINGS:
        left, right = own.squares(weighting), other.squares(weighting)
        for name in left:
            np.testing.assert_allclose(left[name], right[name], **CLOSE, err_msg=f"{name} {weighting}")


def test_a_described_block_is_saved_and_loaded(tmp_path):
    data = make()
    tally = counted(data, lattice=LATTICE)
    tally.save(tmp_path / "some.tally")
    loaded = es.Tally.load(tmp_path / "some.tally")
    assert_same(loaded, tally)
    assert_counted(loaded, data)
    assert repr(loaded) == repr(tally)


@pytest.mark.parametrize("discrete", [False, True], ids=["one lattice", "lattices that unite"])
def test_a_described_block_is_added(discrete):
    """Shards have centres of their own, and lattices of the values that occur."""
    data = make(discrete=discrete)
    first = (data["item"] % 2 == 0) & (data["s"] != 0.45)
    second = data["item"] % 2 == 1
    options = {} if discrete else {"lattice": LATTICE}
    a, b = (counted(rows_of(data, chosen), **options) for chosen in (first, second))
    assert a.centre != b.centre and (a.lattice != b.lattice) == discrete
    assert_counted(a + b, rows_of(data, first | second))
    assert_counted(b + a, rows_of(data, first | second))


def test_a_described_block_is_recentred_and_remapped():
    data = make()
    tally = counted(data, lattice=LATTICE)
    assert_counted(recentre(tally, -2.5), data)
    coarse = lattice_from_settings(LATTICE.edges[1::2], lattice_settings(LATTICE))
    assert_counted(remap(tally, coarse, [np.arange(8) // 2] * 2), data)


def test_a_block_of_one_tally_only_is_dropped_and_this_is_said():
    data = make()
    chosen = data["item"] % 2 == 0
    a = counted(rows_of(data, chosen), lattice=LATTICE)
    b = es.tally(rows_of(data, ~chosen), **NAMES, weight="v", lattice=LATTICE)
    plain = es.tally(data, **NAMES, weight="v", lattice=LATTICE)
    for both in (a + b, b + a):
        assert both.block_names == plain.block_names and set(both.cross_blocks) == {"pairs"}
        assert_same(recentre(both, plain.centre), plain, exact=False)
        assert "block 'cubes' is left out: only one of the tallies that were added has it" in repr(both)
    assert not (a + es.Tally.zero(LATTICE)).left_out


def test_a_release_leaves_out_what_it_does_not_know(tmp_path):
    data = make(3_000)
    tally = filled(es.tally(data, **NAMES, lattice=LATTICE), data | {"v": np.ones(3_000)})
    released = tally.release(min_users=5)
    assert released.block_names == ("vectors", "folds", "pairs") and set(released.cross_blocks) == {"pairs"}
    assert "block 'cubes' is left out: it is not known how many users are behind its sums" in repr(released)
    assert "block 'higher' is left out: third and fourth powers show single persons" in repr(released)
    released.save(tmp_path / "out.tally")
    assert es.Tally.load(tmp_path / "out.tally").left_out == released.left_out


def test_an_unknown_block_is_left_out_if_it_may(tmp_path, monkeypatch):
    data = make()
    path = tmp_path / "some.tally"
    counted(data, lattice=LATTICE).save(path)
    content = path.read_bytes()
    path.write_bytes(forge(content, in_list("blocks", 4, shape="later versions say more")))
    monkeypatch.delitem(BLOCKS, "cubes")
    monkeypatch.setitem(BLOCKS, "item pairs", replace(INVENTED[1], moments=Moments({"ww": (Factor(), Factor())})))
    loaded = es.Tally.load(path)
    assert_same(loaded, es.tally(data, **NAMES, weight="v", lattice=LATTICE))
    assert set(loaded.left_out) == {"cubes", "item pairs"}
    assert "block 'cubes' is left out: this evenscore does not know it" in repr(loaded)
    needed = forge(content, in_list("blocks", 4, required=True))
    refuse(path, needed, "needs a newer evenscore: this one does not know block 'cubes', which may not be left out; update")


FORGERIES = {
    "a block twice": (in_list("blocks", 4, name="item pairs"), "a block is missing or listed twice"),
    "a required block that is called optional": (
        in_list("blocks", 0, sums=["W"], required=False),
        "a block is missing or listed twice",
    ),
    "an array of no block": (in_list("arrays", 1, name="vectors 7"), "array 'vectors 0' is missing"),
    "one array more": (
        lambda header, arrays: header["arrays"].append({"name": "more", "dtype": "<f8", "shape": [0], "nbytes": 0}),
        "array 'more' belongs to no block",
    ),
    "negative cubes": (repack("cubes 1", put(-1.0, 0, 0, 0)), "negative counts or weights"),
    "cubes of the wrong shape": (repack("cubes 0", lambda array: array[:, :3]), "array 'cubes 0' is <f8 of shape"),
    "cubes that are not finite": (repack("cubes 0", put(np.nan, 0, 1, 0)), "array 'cubes 0' is not finite"),
    "cubes of a group that are missing": (
        lambda header, arrays: (
            header["arrays"].remove(next(entry for entry in header["arrays"] if entry["name"] == "cubes 1")),
            arrays.pop("cubes 1"),
        ),
        "array 'cubes 1' is missing",
    ),
    "cubes between groups": (in_list("blocks", 4, cross=[[0, 1]]), "cross sums of unknown groups"),
    "pairs of unknown groups": (in_list("blocks", 5, cross=[[0, 2]]), "cross sums of unknown groups"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_block_is_refused(name, tmp_path):
    change, message = FORGERIES[name]
    path = tmp_path / "some.tally"
    counted(make(), lattice=LATTICE).save(path)
    refuse(path, forge(path.read_bytes(), change), message)


def test_sums_that_cannot_be_recentred_are_not_described():
    with pytest.raises(ValueError, match="T2 cannot be recentred"):
        Moments.single(T0=Factor(w=3), T2=Factor(w=3, y=2))
    with pytest.raises(ValueError, match="wy cannot be turned"):
        Moments({"ww": (Factor(), Factor()), "wy": (Factor(), Factor(y=1))})


# Files of 0.1.0

FORMAT_1 = Path(__file__).with_name("format-1.tally")  # saved by 0.1.0: the rows below whose user is even


def arithmetic_rows():
    row = np.arange(240)
    user = row * 7 % 40
    return {"s": row * 37 % 101 / 101, "y": row * 5 % 11 - 4.5, "g": (user + (row % 9 == 0)) % 2, "u": user, "v": 1 + row % 3}


def as_first_version(tally):
    return drop_blocks(tally, ["higher"], "0.1.0 did not know it")


def test_a_file_of_format_1_is_read_and_added_to_a_new_scan(tmp_path):
    data = arithmetic_rows()
    even = data["u"] % 2 == 0
    loaded = es.Tally.load(FORMAT_1)
    lattice = es.Lattice(0, 1, cells=16, scale="score")
    assert_same(loaded, as_first_version(es.tally(rows_of(data, even), **NAMES, weight="v", lattice=lattice)), exact=False)
    assert loaded.cross and loaded.columns.weight == "v"
    rest = es.tally(rows_of(data, ~even), **NAMES, weight="v", lattice=loaded)
    whole = es.tally(data, **NAMES, weight="v", lattice=loaded)
    both = loaded + rest
    assert_same(recentre(both, whole.centre), as_first_version(whole), exact=False)
    assert "block 'higher' is left out: only one of the tallies that were added has it" in repr(both)
    loaded.save(tmp_path / "again.tally")
    assert_same(es.Tally.load(tmp_path / "again.tally"), loaded)


def test_a_file_of_another_lattice_says_how_to_tally_again():
    data = arithmetic_rows()
    other = es.tally(rows_of(data, data["u"] % 2 == 1), **NAMES, weight="v", lattice=LATTICE)
    with pytest.raises(es.MergeError, match=r"es\.tally\(data, \.\.\., lattice=first\), or evenscore tally \.\.\. --lattice"):
        es.Tally.load(FORMAT_1) + other
