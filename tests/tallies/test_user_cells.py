"""User-level rows add up over days, and give the tally that all rows give."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from compare import assert_same

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.data.spec import TallySpec
from evenscore.engines.by_user import is_by_user, merge_by_user, open_by_user, unite_by_user
from evenscore.engines.files import write_by_user
from evenscore.tallies.reshaping import drop_blocks, recentre
from evenscore.tallies.user_cells import HIGHER_OF

LATTICE = es.Lattice(0, 1, cells=64)


def days(folder, n_days=3, text=False, **design):
    """Days of data in which the same users come again."""
    data = as_dict(repeated_users(6_000, seed=4, **design))
    data["n"] = np.random.default_rng(0).integers(0, 3, 6_000)
    if text:
        data["u"] = np.array([f"user {user}" for user in data["u"]])
    frame = pd.DataFrame(data)
    paths = []
    for day in range(n_days):
        paths.append(folder / f"day-{day}.parquet")
        pq.write_table(pa.Table.from_pandas(frame.iloc[day::n_days], preserve_index=False), paths[-1])
    return frame, paths


def write(paths, folder, **options):
    outputs = [folder / f"{path.stem}.users.parquet" for path in paths]
    for path, output in zip(paths, outputs, strict=True):
        write_by_user(path, output, TallySpec(**NAMES | {"lattice": LATTICE} | options))
    return outputs


CASES = {
    "plain": ({}, {}),
    "text ids, real outcomes, weights, several groups": (
        {"real": True, "weights": True, "spanning": True, "n_groups": 3, "text": True},
        {"weight": "v", "count": "n"},
    ),
    "whales": ({"whales": True}, {"count": "n"}),
}


@pytest.mark.parametrize("name", CASES)
def test_days_add_up_to_the_whole(name, tmp_path):
    design, options = CASES[name]
    frame, paths = days(tmp_path, **design)
    outputs = write(paths, tmp_path, **options)
    whole = es.tally(frame, **NAMES, **options, lattice=LATTICE)
    tally = merge_by_user(outputs, 10**9)
    assert_same(recentre(tally, whole.centre), whole, exact=False)
    assert np.array_equal(tally.sketch, whole.sketch)
    unite_by_user(outputs[:2], 10**9, tmp_path / "two.parquet")
    again = merge_by_user([tmp_path / "two.parquet", outputs[2]], 10**9)
    assert_same(recentre(again, whole.centre), whole, exact=False)


def test_rows_without_outcome(tmp_path):
    frame, paths = days(tmp_path)
    frame.loc[frame["s"] < 0.3, "y"] = None
    for day, path in enumerate(paths):
        pq.write_table(pa.Table.from_pandas(frame.iloc[day::3], preserve_index=False), path)
    tally = merge_by_user(write(paths, tmp_path, nulls="unlabelled"), 10**9)
    assert_same(tally, es.tally(frame, **NAMES, nulls="unlabelled", lattice=LATTICE), exact=False)


def test_tallies_of_days_are_refused_with_the_reason(tmp_path):
    _, paths = days(tmp_path)
    one, other = (es.tally(path, **NAMES, lattice=LATTICE) for path in paths[:2])
    with pytest.raises(es.MergeError, match=r"same users are in both tallies.*--by-user"):
        one + other


def test_files_that_do_not_fit_say_so(tmp_path):
    _, paths = days(tmp_path)
    first, second = write(paths[:1], tmp_path)[0], write(paths[1:2], tmp_path, lattice=es.Lattice(0, 1, cells=32))[0]
    assert is_by_user(first) and not is_by_user(paths[0]) and open_by_user(first).recipe.n_rows == 2_000
    with pytest.raises(es.MergeError, match=r"have different lattices: .*--lattice"):
        merge_by_user([first, second], 10**9)
    with pytest.raises(es.FileError, match="holds no user-level rows"):
        merge_by_user([paths[0]], 10**9)
    with pytest.raises(es.OptionError, match="user-level rows need users"):
        write_by_user(paths[0], tmp_path / "out.parquet", TallySpec(**NAMES | {"user": None}))
    assert not (tmp_path / "out.parquet").exists() and not list(tmp_path.glob(".*"))


def test_a_group_without_any_outcome_is_counted_and_empty(tmp_path):
    frame, paths = days(tmp_path)
    frame.loc[frame["g"] == frame["g"].iloc[0], "y"] = None
    for day, path in enumerate(paths):
        pq.write_table(pa.Table.from_pandas(frame.iloc[day::3], preserve_index=False), path)
    tally = merge_by_user(write(paths, tmp_path, nulls="unlabelled"), 10**9)
    assert_same(tally, es.tally(frame, **NAMES, nulls="unlabelled", lattice=LATTICE), exact=False)
    assert tally.n_users[frame["g"].iloc[0]] == 0


def test_weighted_days_after_plain_ones_keep_their_powers(tmp_path):
    """Files leave out powers that equal others; a merged file of days with and without weights may not."""
    frame, paths = days(tmp_path, n_days=2, weights=True)
    plain = write(paths[:1], tmp_path)
    weighted = write(paths[1:], tmp_path, weight="v")
    merged = tmp_path / "both.users.parquet"
    unite_by_user([*plain, *weighted], 10**9, merged)
    assert open_by_user(merged).recipe.columns.weight == "v"
    frame.loc[frame.index % 2 == 0, "v"] = 1.0
    whole = es.tally(frame, **NAMES, weight="v", lattice=LATTICE)
    for tally in (merge_by_user([*plain, *weighted], 10**9), merge_by_user([merged], 10**9)):
        assert_same(recentre(tally, whole.centre), whole, exact=False)
        assert tally.columns.weight == "v" and "higher" in tally.block_names


@pytest.mark.parametrize(
    ("design", "options", "written"),
    [({}, {}, set()), ({"real": True}, {}, {"c3", "f4"}), ({"weights": True}, {"weight": "v"}, set(HIGHER_OF))],
    ids=["0/1", "real", "weights"],
)
def test_powers_that_equal_others_are_not_written(design, options, written, tmp_path):
    _, paths = days(tmp_path, n_days=1, **design)
    (output,) = write(paths, tmp_path, **options)
    assert set(pq.read_schema(output).names) & set(HIGHER_OF) == written


def test_old_files_of_real_outcomes_take_the_powers_from_the_others(tmp_path):
    frame, paths = days(tmp_path, n_days=2, real=True)
    old, new = write(paths, tmp_path)
    table = pq.read_table(old)
    pq.write_table(table.drop_columns(["c3", "f4"]), old)  # as 0.1.0 wrote it
    whole = es.tally(frame, **NAMES, lattice=LATTICE)
    for order in ([old, new], [new, old]):
        tally = merge_by_user(order, 10**9)
        assert tally.left_out == {"higher": "user-level files of 0.1.0 do not have it"}
        assert_same(recentre(tally, whole.centre), drop_blocks(whole, ["higher"], "as the files"), exact=False)
    unite_by_user([old, new], 10**9, tmp_path / "both.users.parquet")
    assert "higher" in merge_by_user([tmp_path / "both.users.parquet"], 10**9).left_out
