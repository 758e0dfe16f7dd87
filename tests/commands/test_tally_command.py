"""evenscore tally and merge: shards, days, and what is released."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from compare import assert_same

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.cli import main

COLUMNS = ["--score", "s", "--outcome", "y", "--group", "g", "--user", "u"]
DATA = as_dict(repeated_users(6_000, seed=9))


@pytest.fixture
def run(capsys):
    def call(*arguments, code=0):
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, arguments)))
        said = capsys.readouterr()
        assert ended.value.code == code, said.err
        return said.out if code == 0 else said.err

    return call


@pytest.fixture
def days(tmp_path):
    frame = pd.DataFrame(DATA)
    paths = [tmp_path / f"day-{day}.parquet" for day in range(2)]
    for day, path in enumerate(paths):
        pq.write_table(pa.Table.from_pandas(frame.iloc[day::2], preserve_index=False), path)
    return paths


def test_shards_by_user_hash_merge_to_the_whole(run, days, tmp_path):
    shards = []
    for part in (1, 2, 3):
        shards.append(tmp_path / f"{part}.tally")
        lattice = shards[0] if part > 1 else "0:1"
        run("tally", *days, *COLUMNS, "--lattice", lattice, "--split", f"{part}/3", "-o", shards[-1], "--quiet")
    said = run("merge", *shards, "--output", tmp_path / "all.tally")
    assert "Tally of 6,000 rows" in said
    assert_same(es.Tally.load(tmp_path / "all.tally"), es.tally(DATA, **NAMES, lattice=es.Lattice(0, 1)), exact=False)
    assert "INCONCLUSIVE" in run("audit", tmp_path / "all.tally")


def test_days_are_refused_and_user_level_files_are_the_way(run, days, tmp_path):
    for day, path in enumerate(days):
        run("tally", path, *COLUMNS, "--lattice", "0:1", "-o", tmp_path / f"{day}.tally", "--quiet")
    said = run("merge", tmp_path / "0.tally", tmp_path / "1.tally", "-o", tmp_path / "bad.tally", code=2)
    assert "1.tally: the same users are in both tallies" in said and "--by-user" in said
    assert not (tmp_path / "bad.tally").exists()
    users = [tmp_path / f"{day}.users.parquet" for day in range(2)]
    said = " ".join(run("tally", days[0], *COLUMNS, "--by-user", "--lattice", "0:1", "-o", users[0]).split())
    assert "holds user-level rows" in said and "Treat it like the data itself" in said
    run("tally", days[1], *COLUMNS, "--by-user", "--lattice", users[0], "-o", users[1], "--json", tmp_path / "said.json")
    assert json.loads((tmp_path / "said.json").read_text())["user_level"] is True
    run("merge", *users, "-o", tmp_path / "both.tally", "--quiet")
    whole = es.tally(DATA, **NAMES, lattice=es.Lattice(0, 1))
    assert_same(es.Tally.load(tmp_path / "both.tally"), whole, exact=False)
    assert "user-level rows" in run("merge", *users, "--by-user", "-o", tmp_path / "both.parquet")
    run("merge", tmp_path / "both.parquet", "-o", tmp_path / "again.tally", "--release", "10")
    released = es.Tally.load(tmp_path / "again.tally")
    assert released.released == (10, 512)
    assert "released: cells were merged" in run("audit", tmp_path / "again.tally", "-v")


def test_the_plan_is_told_and_nothing_is_done(run, days, tmp_path):
    assert "fetch the needed columns and count in memory" in run("tally", *days, *COLUMNS, "--explain")
    said = json.loads(run("tally", *days, *COLUMNS, "--explain", "--json", "-"))
    assert said["plan"]["engine"] == "files"
    assert not list(tmp_path.glob("*.tally"))


def test_cuts_are_edges(run, days, tmp_path):
    run("tally", *days, *COLUMNS, "--cut", "0.37", "-o", tmp_path / "cut.tally", "--quiet")
    assert es.Tally.load(tmp_path / "cut.tally").lattice.first_cell(0.37) is not None
    said = run("tally", *days, *COLUMNS, "--lattice", "0:1", "--cut", "0.3", "-o", tmp_path / "a.tally", "--json", "-")
    assert np.isclose(sum(row["rows"] for row in json.loads(said)["tally"]["rows"]), 6_000)


WRONG = {
    "no output": (["tally", "{day}", *COLUMNS], "missing: --output"),
    "no lattice": (["tally", "{day}", *COLUMNS, "-o", "{out}", "--lattice", "wide"], "no such file, and it is not LOW:HIGH"),
    "a lattice of rows": (["tally", "{day}", *COLUMNS, "-o", "{out}", "--lattice", "{day}"], "the file is no saved tally"),
    "memory": (["tally", "{day}", *COLUMNS, "-o", "{out}", "--memory-limit", "1MB"], "at least 200 MB"),
    "a name": (["tally", "{day}", *COLUMNS, "-o", "{out}", "--by-user"], "let its name end in .parquet"),
    "by user, released": (["tally", "{day}", *COLUMNS, "-o", "{out}", "--by-user", "--release", "9"], "--by-user keeps all users"),
    "merging rows": (["merge", "{day}", "-o", "{out}"], "is not a saved tally"),
    "merging nothing": (["merge", "nothing.tally", "-o", "{out}"], "no file nothing.tally"),
    "too few users": (["tally", "{day}", *COLUMNS, "-o", "{out}", "--release", "5000"], "fewer than 5000 users cannot be released"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_usage_ends_with_2_and_says_what_is_right(name, run, days, tmp_path):
    arguments, message = WRONG[name]
    places = {"day": str(days[0]), "out": str(tmp_path / "out.tally")}
    assert message in run(*(argument.format(**places) for argument in arguments), code=2)
    assert not (tmp_path / "out.tally").exists()
