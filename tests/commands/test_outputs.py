"""What commands refuse to write, beside what tests/hostile/test_overwriting.py tries for every option."""

import json
import os
import subprocess
import sys

import pytest
from black_box import COLUMNS, NAMES, csv_text, ended, people

import evenscore as es

TABLE = people(200, seed=1)
FAST = ["--method", "bonferroni", "--no-repair"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(csv_text(TABLE))
    es.tally(TABLE, **NAMES, cells=64).save("rows.tally")
    return tmp_path


@pytest.mark.skipif(os.name == "nt", reason="devices are those of Unix")
def test_devices_may_be_named_twice_and_stdout_once(folder, capfd):
    assert ended("audit", "rows.tally", *FAST, "--quiet", "--json", os.devnull, "--report", os.devnull) in (0, 1)
    assert ended("audit", "rows.tally", *FAST, "--quiet", "--json", "-", "--junit", "-") == 2
    assert "same file" in capfd.readouterr().err


def test_stdout_is_not_added_to_what_is_read(folder):
    """As in ``evenscore audit rows.csv --json - >> rows.csv``."""
    before = (folder / "rows.csv").read_bytes()
    with (folder / "rows.csv").open("ab") as file:
        command = [sys.executable, "-m", "evenscore", "audit", "rows.csv", *COLUMNS, *FAST, "--json", "-"]
        done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and "rows.csv" in done.stderr
    assert (folder / "rows.csv").read_bytes() == before


def test_a_tally_is_not_added_to_itself(folder, capfd):
    assert ended("merge", "rows.tally", "./rows.tally", "-o", "out.tally") == 2
    assert "count twice" in capfd.readouterr().err


def test_a_merge_by_user_tells_json_too(folder, capfd):
    by_user = ["--by-user", "--quiet", "--json", "out.json"]
    assert ended("tally", "rows.csv", *COLUMNS, "--lattice", "0:1", *by_user, "-o", "a.parquet") == 0
    first = json.loads((folder / "out.json").read_text())
    assert ended("merge", "a.parquet", *by_user, "-o", "b.parquet") == 0
    assert json.loads((folder / "out.json").read_text())["rows"] == first["rows"] == 200
    assert ended("merge", "a.parquet", *by_user, "-o", "b.parquet") == 2
    assert "--overwrite" in capfd.readouterr().err
    assert ended("merge", "a.parquet", *by_user, "-o", "b.parquet", "--overwrite") == 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--pair", "s", "y", "--group", "g", "--user", "u", "--report", "x.html"], "--report"),
        (["--pair", "s", "y", "--group", "g", "--user", "u", "--require-power", "0.1"], "--require-power"),
        ([*COLUMNS, "--blend", "1,2"], "--blend"),
        ([*COLUMNS, "--sweep"], "--sweep"),
    ],
)
def test_options_that_would_be_given_for_nothing_are_refused(words, named, folder, capfd):
    assert ended("audit", "rows.csv", *words) == 2
    assert f"{named} " in capfd.readouterr().err


def test_settings_name_no_scores_for_pairs(folder, capfd):
    (folder / "evenscore.toml").write_text('[data]\nscore = "s"\noutcome = "y"\ngroup = "g"\nuser = "u"\n')
    assert ended("audit", "rows.csv", "--pair", "s", "y") in (0, 1), capfd.readouterr().err


def test_python_keeps_data_too(folder):
    before = (folder / "rows.csv").read_bytes()
    tally = es.Tally.load("rows.tally")
    for save in (tally.save, es.calibrate(tally, method="platt").save, es.audit(tally, method="bonferroni", repair=False).to_json):
        with pytest.raises(es.FileError, match="holds data"):
            save("rows.csv")
    tally.save("rows.tally")
    assert (folder / "rows.csv").read_bytes() == before
