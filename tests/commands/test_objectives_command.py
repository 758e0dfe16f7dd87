"""``evenscore audit --pair`` and ``evenscore calibrate --joint``."""

import json

import duckdb
import numpy as np
import polars as pl
import pytest
from processes import run

import evenscore as es
from evenscore.simulation.objectives import feed, simulate_objectives

PAIRS = ["--pair", "score_like", "like", "--pair", "score_comment", "comment", "--pair", "score_share", "share"]
WHO = ["--group", "group", "--user", "user"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("polars")
    folder = tmp_path_factory.mktemp("objectives")
    feed(1500).data(3, frame="polars").write_parquet(folder / "feed.parquet")
    simulate_objectives(150).data(1, frame="polars").write_csv(folder / "even.csv")
    return folder


def test_an_unfair_blend_is_repaired_jointly(folder):
    before = run("audit", folder / "feed.parquet", *PAIRS, *WHO, "--blend", "1,1,2", "-v", "--json", folder / "before.json")
    assert before.returncode == 1 and before.stderr == "" and "blend: 1 like + 1 comment + 2 share" in before.stdout
    found = json.loads((folder / "before.json").read_text())
    assert found["audit"]["weights"] == [1, 1, 2] and found["audit"]["verdict"] == "disparity"
    options = ["--joint", "--split", "1-2/3", "--out", folder / "joint.json", "--method", "logistic"]
    fitted = run("calibrate", folder / "feed.parquet", *PAIRS, *WHO, *options)
    assert fitted.returncode == 0 and fitted.stderr == "" and "Written: " in fitted.stdout
    data = feed(1500).data(3)
    expected = es.calibrate_jointly(data, **feed(1).columns, split="1-2/3", method="logistic")
    loaded = es.JointCalibrator.load(folder / "joint.json")
    scores = np.column_stack([data[name] for name in feed(1).score_columns])[:100]
    assert loaded.apply(scores, data["group"][:100]).scores == pytest.approx(expected.apply(scores, data["group"][:100]).scores)
    repair = ["--calibrator", folder / "joint.json", "--split", "3/3"]
    after = run("audit", folder / "feed.parquet", *PAIRS, *WHO, *repair, "--json", "-")
    assert after.returncode == 0, after.stderr
    document = json.loads(after.stdout)
    assert [version["version"] for version in document["audit"]["versions"]] == ["before", "joint"]
    assert document["audit"]["versions"][0]["verdict"] == "disparity"
    same = run("audit", folder / "feed.parquet", *PAIRS, *WHO, *repair[:2], "--split", "1/3")
    assert same.returncode == 2 and "fitted on these users" in same.stderr and "--split 1/2" in same.stderr


def test_a_sweep_is_printed_and_silence_is_kept(folder):
    done = run("audit", folder / "even.csv", *PAIRS[:6], *WHO, "--sweep", "-v")
    assert done.returncode == 0 and "Weight sweep (before)" in done.stdout and "of 11 weights" in done.stdout
    quiet = run("audit", folder / "even.csv", *PAIRS[:6], *WHO, "--quiet")
    assert quiet.returncode == 0 and quiet.stdout == quiet.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", *PAIRS, "--group", "group"], "missing: --user"),
        (["audit", *PAIRS, *WHO, "--score", "score_like"], "contradict each other"),
        (["audit", *PAIRS, *WHO, "--blend", "1,x,2"], "numbers with commas"),
        (["audit", *PAIRS, *WHO, "--blend", "1,2"], "3 weights"),
        (["audit", *PAIRS, *WHO, "--calibrator", "nowhere.json"], "cannot read nowhere.json"),
        (["audit", "--pair", "score_like", "nope", *WHO], "no column 'nope' for outcome"),
        (["calibrate", "--joint", *WHO, "--out", "x.json"], "belong together"),
        (["calibrate", *PAIRS, *WHO, "--out", "x.json"], "belong together"),
        (["calibrate", "--joint", *PAIRS, *WHO, "--out", "x.json", "--monotone"], "--monotone is not possible"),
        (["calibrate", "--joint", *PAIRS, *WHO, "--out", "x.json", "--method", "isotonic"], "'auto', 'kernel'"),
    ],
)
def test_bad_usage_ends_with_2(folder, arguments, message):
    done = run(arguments[0], folder / "even.csv", *arguments[1:])
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def joint(folder):
    data = feed(800).data(5)
    es.calibrate_jointly(data, **feed(1).columns, method="kernel").save(folder / "kernel.json")
    return folder / "kernel.json"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_apply_adds_every_score_and_their_blend_in_the_order_of_the_rows(folder, joint, tmp_path, kind):
    rows = feed(1200).data(4, frame="polars").with_row_index("place")
    third = len(rows) // 3
    shards = tmp_path / "shards"
    shards.mkdir()
    for number, part in enumerate((rows[:third], rows[third:])):
        getattr(part, f"write_{kind}")(shards / f"{number}.{kind}")
    out = tmp_path / f"repaired.{kind}"
    done = run("apply", joint, shards, "--out", out, "--blend", "1,2,0.5")
    assert done.returncode == 0 and f"{len(rows):,} rows with 3 jointly calibrated scores" in done.stdout, done.stderr
    found = duckdb.sql(f"SELECT * FROM '{out}'").pl()
    names = [f"calibrated_{score}" for score in feed(1).score_columns]
    assert found.columns == [*rows.columns, *names, "calibrated_blend"] and found["place"].to_list() == rows["place"].to_list()
    expected = es.JointCalibrator.load(joint).apply(rows).scores
    np.testing.assert_allclose(found.select(names).to_numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(found["calibrated_blend"].to_numpy(), expected @ [1, 2, 0.5], rtol=1e-12)


def test_apply_keeps_missing_scores_missing_and_counts_them(folder, joint, tmp_path):
    rows = feed(20).data(4, frame="polars")[:3].with_columns(score_like=pl.Series([None, 0.5, 0.5]), who=pl.Series(["a", "b", "c"]))
    rows.rename({"score_share": "s"}).write_csv(tmp_path / "new.csv")
    names = [word for name in ("score_like", "score_comment", "s") for word in ("--score", name)]
    command = ["apply", joint, tmp_path / "new.csv", "--out", tmp_path / "out.parquet", "--group", "who", "--name", "fair"]
    done = run(*command, *names)
    assert done.returncode == 2 and "null" in done.stderr and "--nulls keep" in done.stderr
    done = run(*command, *names, "--nulls", "keep", "--on-unknown", "keep", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert [row["null_scores"] for row in json.loads(done.stdout)["rows"]] == [1, 0, 0]
    found = pl.read_parquet(tmp_path / "out.parquet")
    assert found["fair_score_like"][0] is None and found["fair_s"][0] is None and found["fair_score_like"][1] is not None
    assert found["fair_s"][2] == found["s"][2]  # a group that nobody knows keeps its scores


def test_apply_says_what_does_not_fit_a_joint_calibrator(folder, joint, tmp_path):
    for arguments, words in (
        (["--score", "score_like"], "has 3 scores"),
        (["--group", "group", "--group", "user"], "has 1 columns of the group"),
        (["--blend", "1,2"], "must be 3 weights"),
        (["--blend", "a"], "give numbers"),
    ):
        done = run("apply", joint, folder / "feed.parquet", "--out", tmp_path / "o.csv", *arguments)
        assert done.returncode == 2 and words in done.stderr, (arguments, done.stderr)
    assert list(tmp_path.iterdir()) == []
