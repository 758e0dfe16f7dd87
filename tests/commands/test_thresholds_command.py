"""``evenscore thresholds`` and the pictures, as people meet them."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from processes import run as run_command

import evenscore as es

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

ROOT = Path(__file__).parents[2]
NHANES = ROOT / "examples" / "nhanes" / "nhanes_diabetes.parquet"
COLUMNS = ["--score", "score_blind", "--outcome", "diabetes", "--group", "race", "--user", "seqn"]
SIMULATED = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


def run(*arguments):
    return run_command("thresholds", *arguments)


@pytest.fixture(scope="module")
def censored(tmp_path_factory):
    data = es.simulate(1500, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1, frame="pandas")
    data["outcome"] = data["outcome"].where(data["score"] >= 0.5)
    path = tmp_path_factory.mktemp("loans") / "loans.csv"
    data.to_csv(path, index=False)
    return path


def test_nhanes_at_five_percent(tmp_path):
    done = run(
        NHANES, *COLUMNS, "--nulls", "drop", "--threshold", "0.05", "--plot", tmp_path / "cuts.png", "--json", tmp_path / "r.json"
    )
    assert done.returncode == 1 and done.stderr == ""
    assert "DISPARITY at the threshold 0.05: the bar is not equally high for everyone" in done.stdout
    assert "the standard is higher for Asian than for White" in " ".join(done.stdout.split())
    assert "717 rows left out: race is null" in done.stdout and "…" not in done.stdout
    assert (tmp_path / "cuts.png").read_bytes()[:4] == b"\x89PNG"
    document = json.loads((tmp_path / "r.json").read_text())
    outcomes = {one["group"]: one["estimate"] for one in document["marginal_test"]["groups"]}
    assert outcomes["Asian"] > outcomes["Black"] > outcomes["Hispanic"] > outcomes["White"]
    cuts = {one["group"]: one["threshold"] for one in document["thresholds"]["groups"]}
    assert cuts["Asian"] < 0.04 < cuts["White"] and cuts["Asian"] < cuts["Black"] < cuts["White"]
    rate = document["thresholds"]["positive_rate"]
    assert rate["after"] == pytest.approx(rate["before"], abs=1e-6)
    frame = pd.read_parquet(NHANES).dropna(subset=["race"])
    positive = frame["score_blind"] >= frame["race"].map(cuts).to_numpy()
    assert positive.mean() == pytest.approx((frame["score_blind"] >= 0.05).mean(), abs=0.002)


def test_the_race_aware_model_shows_no_disparity_there():
    frame = pd.read_parquet(NHANES)
    tally = es.tally(frame, score="score_aware", outcome="diabetes", group="race", user="seqn", nulls="drop", cuts=[0.05])
    assert es.marginal_test(tally, threshold=0.05).verdict == "inconclusive"


def test_strategies_and_exit_codes(censored, tmp_path):
    columns = [word for name in SIMULATED for word in (f"--{name}", name)]
    done = run(censored, *columns, "--nulls", "unlabelled", "--threshold", 0.5, "--strategy", "lower", "--json", "-")
    document = json.loads(done.stdout)
    assert done.returncode == 1 and document["thresholds"]["suggestive"]
    quiet = run(censored, *columns, "--nulls", "unlabelled", "--threshold", 0.5, "--quiet", "--tolerance", 0.9)
    assert quiet.returncode == 0 and quiet.stdout == quiet.stderr == ""
    for extra, words in (
        (["--threshold", 2], "outside the scores"),
        (["--threshold", 0.5, "--strategy", "target"], "belong together"),
        (["--threshold", 0.5, "--plot", tmp_path / "x.gif"], "gif"),
        ([], "--threshold"),
    ):
        failed = run(censored, *columns, "--nulls", "unlabelled", *extra)
        assert failed.returncode == 2 and words in failed.stderr and failed.stdout == ""
    es.tally(censored, **SIMULATED, nulls="unlabelled").save(tmp_path / "t.tally")
    saved = run(tmp_path / "t.tally", "--threshold", 0.3)
    assert saved.returncode == 2 and "evenscore tally ... --cut 0.3" in saved.stderr


def test_pictures_draw_what_the_results_hold(censored):
    tally = es.tally(censored, **SIMULATED, nulls="unlabelled", cuts=[0.5])
    found = es.fair_thresholds(tally, threshold=0.5, strategy="lower")
    ax = found.plot()
    cuts = {float(line.get_xdata()[0]) for line in ax.lines if len(set(line.get_xdata())) == 1 and len(line.get_xdata()) == 2}
    assert {0.5, *found.by_group.values()} <= cuts
    labels = " ".join(text.get_text() for text in ax.get_legend().get_texts())
    assert "before" in labels and "a: " in labels and "dotted" in ax.get_legend().get_title().get_text()
    assert len(ax.collections) == 2
    low, high = ax.get_xlim()
    assert low < found.by_group["a"] < high
    figure, given = matplotlib.pyplot.subplots()
    test = es.marginal_test(tally, threshold=0.5)
    assert test.plot(given).ax_ is given
    points = {round(float(line.get_xdata()[0]), 9) for line in given.lines if len(line.get_xdata()) == 1}
    assert points == {round(float(value), 9) for one in test.marginals for value in (one.estimate, one.average)}
    for drawn in (figure, ax.figure):
        drawn.canvas.draw()
        matplotlib.pyplot.close(drawn)


def test_the_code_of_the_guide_runs():
    text = (ROOT / "docs" / "thresholds.md").read_text(encoding="utf-8")
    block = text.split("```python\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "Marginal test at the threshold 0.05: disparity" in done.stdout and "Thresholds (rate)" in done.stdout


def test_the_example_runs():
    done = subprocess.run([sys.executable, ROOT / "examples" / "thresholds.py"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    titles = ("Screening for diabetes", "Police searches, one standard", "Police searches, two standards", "Loans below")
    parts = [done.stdout.index(title) for title in titles]
    assert parts == sorted(parts)
    assert done.stdout.count("disparity, p =") == 3 and done.stdout.count("inconclusive, p =") == 1
    assert np.all([title in done.stdout for title in titles])
