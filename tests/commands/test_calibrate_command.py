"""``evenscore calibrate`` and ``evenscore apply`` on files."""

import json
import os
import pty
import subprocess
import sys

import duckdb
import numpy as np
import pandas as pd
import pytest
from processes import run

import evenscore as es

COLUMNS = ["--score", "score", "--outcome", "outcome", "--group", "group", "--user", "user"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """People whose ids begin with zeros, in CSV and Parquet, and a calibrator fitted on half of them."""
    folder = tmp_path_factory.mktemp("calibrate")
    frame = pd.DataFrame(es.simulate(800, curve={"a": (0, 1), "b": (-0.8, 0.9)}, outcome_correlation=0.5).data(seed=5))
    frame["code"] = frame["user"].map("{:08d}".format)
    frame.to_csv(folder / "people.csv", index=False)
    frame.to_parquet(folder / "people.parquet")
    done = run("calibrate", folder / "people.csv", *COLUMNS, "--split", "1/2", "--out", folder / "map.json")
    assert done.returncode == 0, done.stderr
    (folder / "printed").write_text(done.stdout)
    return folder


def test_calibrate_fits_half_and_verifies_on_the_rest(folder):
    printed = (folder / "printed").read_text()
    assert "Repair tested on unseen users" in printed and "Written: " in printed and "map.json" in printed
    calibrator = es.Calibrator.load(folder / "map.json")
    again = es.calibrate(es.tally(folder / "people.csv", score="score", outcome="outcome", group="group", user="user", split="1/2"))
    assert calibrator.split == "1/2" and calibrator.to_dict() == again.to_dict()


def test_calibrate_from_a_tally_and_as_json(folder, tmp_path):
    es.tally(folder / "people.parquet", score="score", outcome="outcome", group="group", user="user").save(tmp_path / "saved.tally")
    done = run("calibrate", tmp_path / "saved.tally", "--method", "platt", "--out", tmp_path / "map.json", "--json", "-")
    assert done.returncode == 0 and done.stderr == ""
    document = json.loads(done.stdout)
    assert [each["group"] for each in document["maps"]] == ["a", "b"] and "not verified" in document["notes"][-1]
    assert es.Calibrator.load(tmp_path / "map.json").method == "platt"
    done = run("calibrate", tmp_path / "saved.tally", "--split", "1/2", "--out", tmp_path / "other.json")
    assert done.returncode == 2 and "leave out --split" in done.stderr
    done = run("calibrate", tmp_path / "saved.tally", "--verify", "--out", tmp_path / "other.json")
    assert done.returncode == 2 and "--split 1/2" in done.stderr


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("out", ["csv", "parquet"])
def test_apply_adds_what_transform_gives(folder, tmp_path, kind, out):
    path = tmp_path / f"repaired.{out}"
    done = run("apply", folder / "map.json", folder / f"people.{kind}", "--out", path)
    assert done.returncode == 0, done.stderr
    assert "6,400 rows" in done.stdout and list(tmp_path.iterdir()) == [path]
    found = duckdb.sql(f"SELECT * FROM '{path}'").df()
    before = pd.read_parquet(folder / "people.parquet")
    expected = es.Calibrator.load(folder / "map.json").apply(before["score"], before["group"]).scores
    np.testing.assert_allclose(found["calibrated"], expected, rtol=1e-12)
    assert list(found.columns) == [*before.columns, "calibrated"]
    text = path.read_text().splitlines() if out == "csv" else []
    assert not text or text[1].split(",")[4] == before["code"][0]  # ids with zeros in front stay as they are


def test_apply_counts_what_is_unusual(folder, tmp_path):
    people = pd.DataFrame({"risk": [0.5, 9.0, None, 0.5, 0.4], "who": ["a", "b", "a", "c", None], "n": range(5)})
    people.to_csv(tmp_path / "new.csv", index=False)
    names = ["--score", "risk", "--group", "who", "--name", "fair"]
    arguments = ("apply", folder / "map.json", tmp_path / "new.csv", *names, "-o", tmp_path / "out.parquet")
    done = run(*arguments)
    assert done.returncode == 2 and "missing in 1 of 5 rows" in done.stderr and "--nulls keep" in done.stderr
    done = run(*arguments, "--nulls", "keep")
    assert done.returncode == 2 and "1 unknown and 1 missing of 5" in done.stderr and "--on-unknown pooled" in done.stderr
    assert "first rows" not in done.stderr  # labels are counted in the file, so where they stand is not known
    assert not (tmp_path / "out.parquet").exists()
    done = run(*arguments, "--nulls", "keep", "--on-unknown", "pooled", "--json", "-")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [(row["group"], row["rows"], row["above"], row["null_scores"]) for row in report["rows"]] == [
        ("a", 2, 0, 1),
        ("b", 1, 1, 0),
        (None, 2, 0, 0),
    ]
    found = pd.read_parquet(tmp_path / "out.parquet")
    calibrator = es.Calibrator.load(folder / "map.json")
    wanted = [*calibrator.apply([0.5, 9.0], ["a", "b"]).scores, np.nan, *calibrator.pooled.at([0.5, 0.4])]
    np.testing.assert_allclose(found["fair"], wanted, rtol=1e-12)


def test_apply_refuses_what_cannot_work(folder, tmp_path):
    people = folder / "people.parquet"
    for arguments, words in (
        ((people, "--out", tmp_path / "out.xlsx"), ".parquet"),
        ((people, "--out", people), "would be written over"),
        ((people, "--score", "nothing", "--out", tmp_path / "o.csv"), "no column 'nothing'"),
        ((people, "--name", "user", "--out", tmp_path / "o.csv"), "has a column 'user' already"),
        ((tmp_path / "none.csv", "--out", tmp_path / "o.csv"), "no file"),
        ((people, "--group", "user", "--out", tmp_path / "o.csv"), "labels"),
    ):
        done = run("apply", folder / "map.json", *arguments)
        assert done.returncode == 2 and words in done.stderr, (arguments, done.stderr)
    done = run("apply", people, people, "--out", tmp_path / "o.csv")
    assert done.returncode == 2 and "not a saved calibrator" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_apply_reads_integer_groups_and_dates(tmp_path):
    """Labels are matched in the types that the tally saw, from CSV and Parquet alike."""
    data = es.simulate(100, curve={"a": (0, 1), "b": (-0.8, 0.9)}).data(seed=5)
    for labels in ([1, 2], ["2020-01-01", "2021-01-01"]):
        frame = pd.DataFrame(data | {"group": np.array(labels)[(data["group"] == "b").astype(int)]})
        frame.to_csv(tmp_path / "people.csv", index=False)
        tally = es.tally(tmp_path / "people.csv", score="score", outcome="outcome", group="group", user="user")
        calibrator = es.calibrate(tally)
        calibrator.save(tmp_path / "map.json")
        done = run("apply", tmp_path / "map.json", tmp_path / "people.csv", "--overwrite", "--out", tmp_path / "out.csv")
        assert done.returncode == 0, done.stderr
        found = pd.read_csv(tmp_path / "out.csv")["calibrated"]
        by_label = {str(each.group): each for each in calibrator.maps}
        expected = [by_label[str(group)].at(score) for group, score in zip(frame["group"], frame["score"], strict=True)]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_terminal_sees_progress(folder, tmp_path):
    master, slave = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "evenscore",
        "apply",
        folder / "map.json",
        folder / "people.parquet",
        "--out",
        tmp_path / "o.csv",
    ]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=slave) as process:
        assert process.wait(120) == 0
    os.close(slave)
    assert b"writing [" in os.read(master, 65536)
    os.close(master)


def test_the_scale_of_a_reference_group_is_named_on_the_command_line(folder, tmp_path):
    command = ["calibrate", folder / "people.parquet", *COLUMNS, "--out", tmp_path / "map.json"]
    assert run(*command, "--reference", "b").returncode == 0
    assert es.Calibrator.load(tmp_path / "map.json").reference == "b"
    done = run(*command, "--reference", "z")
    assert done.returncode == 2 and "--reference z: no group 'z'; there are: a, b" in done.stderr


def test_columns_of_a_csv_file_have_their_types_in_a_parquet_file_unless_that_alters_them(folder, tmp_path):
    n = 30_000
    columns = {
        "score": np.full(n, "0.50"),
        "group": np.full(n, "a"),
        "age": np.arange(n).astype(str),
        "code": np.array([f"{i % 1000:03}" for i in range(n)]),
        "day": np.full(n, "2026-01-31"),
        "late": np.array(["1"] * (n - 1) + ["one"]),
        "gap": np.array([""] + ["2.5"] * (n - 1)),
    }
    pd.DataFrame(columns).to_csv(tmp_path / "rows.csv", index=False)
    done = run("apply", folder / "map.json", tmp_path / "rows.csv", "--out", tmp_path / "out.parquet")
    assert done.returncode == 0, done.stderr
    found = duckdb.sql(f"SELECT * FROM '{tmp_path}/out.parquet'")
    kinds = dict(zip(found.columns, map(str, found.types), strict=True))
    assert kinds == {
        "score": "DOUBLE",
        "group": "VARCHAR",
        "age": "BIGINT",
        "code": "VARCHAR",
        "day": "DATE",
        "late": "VARCHAR",
        "gap": "DOUBLE",
        "calibrated": "DOUBLE",
    }
    assert found.order("age").limit(8).fetchall()[7][2:4] == (7, "007")
    run("apply", folder / "map.json", tmp_path / "rows.csv", "--out", tmp_path / "out.csv")
    lines = [(tmp_path / name).read_text().splitlines() for name in ("rows.csv", "out.csv")]
    assert [line.rsplit(",", 1)[0] for line in lines[1]] == lines[0]
