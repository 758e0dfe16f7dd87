import numpy as np
import pytest
from compare import assert_same

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.data.coding import hash_integers
from evenscore.data.splits import Split


@pytest.mark.parametrize("text", ["1/2", "2/2", "1-7/10", "3/3@other deal"])
def test_text_and_back(text):
    assert str(Split.parse(text)) == text


@pytest.mark.parametrize("text", ["", "half", "0/2", "3/2", "5-2/10", "1/0", 0.5, None, "1/2/3"])
def test_what_is_no_split(text):
    with pytest.raises(es.OptionError, match="split="):
        Split.parse(text)


def test_the_rest_and_what_is_disjoint():
    assert str(Split.parse("1-7/10@k").rest()) == "8-10/10@k" and str(Split.parse("3-4/4").rest()) == "1-2/4"
    with pytest.raises(es.OptionError, match="not one range"):
        Split.parse("2/3").rest()
    half = Split.parse("1/2")
    assert half.disjoint(Split.parse("2/2")) and half.disjoint(Split.parse("6-10/10"))
    assert not half.disjoint(Split.parse("5-6/10")) and not half.disjoint(Split.parse("2/2@other"))


def test_users_are_dealt_evenly_and_apart_from_folds():
    hashes = hash_integers(np.arange(100_000))
    parts = np.array([Split(k, k, 4).holds(hashes) for k in range(1, 5)])
    assert (parts.sum(axis=0) == 1).all()
    assert np.abs(parts.mean(axis=1) - 0.25).max() < 0.006
    counts = np.array([np.bincount(hashes[part] % 10, minlength=10) for part in parts])
    assert counts.min() > 0.9 * 2500
    other = Split(1, 1, 4, "again").holds(hashes)
    assert abs((other & parts[0]).mean() - 1 / 16) < 0.004
    assert (Split.parse("1/2").holds(hashes) == Split.parse("1-5/10").holds(hashes)).all()


KINDS = {
    "integers": lambda user: user,
    "sparse integers": lambda user: user * 10**12,
    "text": lambda user: np.char.add("u", user.astype(str)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_parts_add_up_to_the_whole(kind):
    """For every kind of id; each user is in one part only, and both parts have the lattice of all rows."""
    data = as_dict(repeated_users(4000, seed=2, spanning=True, weights=True))
    data["u"] = KINDS[kind](data["u"])
    options = NAMES | {"weight": "v"}
    whole = es.tally(data, **options)
    first, second = (es.tally(data, **options, split=split) for split in ("1/2", "2/2"))
    assert (first.split, second.split, whole.split) == ("1/2", "2/2", None)
    assert 0.4 < sum(first.n_rows.values()) / sum(whole.n_rows.values()) < 0.6
    assert first.lattice == whole.lattice
    assert_same(first + second, whole, exact=False)
    assert (first + second).split is None
    assert "split 1/2" in repr(first)


def test_rows_by_hand():
    data = as_dict(repeated_users(3000, seed=3))
    mine = Split.parse("2/3").holds(hash_integers(data["u"]))
    by_hand = es.tally({name: column[mine] for name, column in data.items()}, **NAMES, lattice=es.tally(data, **NAMES))
    assert_same(es.tally(data, **NAMES, split="2/3"), by_hand)


def test_files_and_memory_split_alike(tmp_path):
    import pandas

    data = as_dict(repeated_users(3000, seed=4))
    pandas.DataFrame(data).to_parquet(tmp_path / "rows.parquet")
    pandas.DataFrame(data).to_csv(tmp_path / "rows.csv", index=False)
    expected = es.tally(data, **NAMES, split="1-3/10@deal")
    for name in ("rows.parquet", "rows.csv"):
        assert_same(es.tally(tmp_path / name, **NAMES, split="1-3/10@deal"), expected, exact=False)


def test_a_saved_tally_knows_its_split(tmp_path):
    tally = es.tally(as_dict(repeated_users(500, seed=5)), **NAMES, split="1/2")
    tally.save(tmp_path / "half")
    assert es.Tally.load(tmp_path / "half").split == "1/2"


def test_unlabelled_rows_and_counts_follow_their_user():
    rows = repeated_users(2000, seed=6)
    data = as_dict(rows) | {"n": np.random.default_rng(0).integers(1, 4, 2000)}
    data["y"] = np.where(rows.score < 0.3, np.nan, data["y"])
    options = NAMES | {"count": "n", "nulls": "unlabelled"}
    parts = [es.tally(data, **options, split=split) for split in ("1/2", "2/2")]
    assert_same(parts[0] + parts[1], es.tally(data, **options), exact=False)


def test_a_split_without_users():
    with pytest.raises(es.DataError, match="holds none of the users"):
        es.tally({"s": [0.5], "y": [1], "g": ["a"], "u": [1]}, **NAMES, split="1/1000")
