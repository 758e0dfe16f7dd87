"""Simulations by name, and ``evenscore simulate``."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import evenscore as es
from evenscore.simulation.catalogue import CATALOGUE, make_simulation, summary, true_means, truth_document


def run(*arguments):
    command = [sys.executable, "-m", "evenscore", "simulate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_simulation_has_words_data_and_truth(name):
    spec = make_simulation(name, 40)
    assert summary(name).endswith(".") and "`" not in summary(name)
    data = spec.data(1)
    assert len({len(column) for column in data.values()}) == 1 and set(data["group"]) == set(spec.groups)
    assert json.loads(json.dumps(truth_document(spec), allow_nan=False))
    for column, mean in true_means(spec, data).items():
        assert np.isfinite(mean).all() and (column == "mean") == ("score" in data)


@pytest.mark.parametrize("name", ["shift", "busy-users", "withheld-labels", "ranking", "objectives", "objectives-toy"])
def test_means_are_those_of_the_outcomes(name):
    """Over many users outcomes minus means average to zero, each user weighing the same."""
    spec = make_simulation(name, 4000)
    data = spec.data(2)
    for column, mean in true_means(spec, data).items():
        outcome = data[column.removeprefix("mean_")] if column != "mean" else data["outcome"]
        known = ~np.isnan(outcome)
        member = np.unique(np.char.add(data["group"][known].astype(str), data["user"][known].astype(str)), return_inverse=True)[1]
        by_user = np.bincount(member, (outcome - mean)[known]) / np.bincount(member)
        assert abs(by_user.mean()) <= 4.5 * by_user.std() / np.sqrt(len(by_user)) + 1e-12


def test_a_name_that_is_none():
    with pytest.raises(es.OptionError, match="no simulation is called 'shfit'; there are: shift"):
        make_simulation("shfit", 10)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_data_and_truth_are_written(tmp_path, kind):
    path = tmp_path / f"data.{kind}"
    done = run("withheld-labels", "--users", 50, "--seed", 3, "--output", path)
    assert done.returncode == 0 and done.stderr == ""
    assert f"evenscore audit {path}" in done.stdout and "--nulls unlabelled" in done.stdout
    spec = make_simulation("withheld-labels", 50)
    frame, data = getattr(pd, f"read_{kind}")(path), spec.data(3)
    assert list(frame) == ["score", "outcome", "group", "user"]
    for name in ("score", "outcome", "user"):
        assert np.array_equal(frame[name].to_numpy(dtype=float), data[name].astype(float), equal_nan=True)
    assert list(frame["group"]) == list(data["group"])
    document = json.loads((tmp_path / "data.truth.json").read_text())
    assert es.Simulation.from_dict(document["simulation"]) == spec and document["seed"] == 3
    assert document["truth"]["calibration_error"][1]["per_user"] == spec.truth.tce("b")
    before = path.read_bytes()
    assert run("--spec", tmp_path / "data.truth.json", "--seed", 3, "--output", path, "--quiet").stdout == ""
    assert path.read_bytes() == before


def test_expected_outcomes_on_request(tmp_path):
    assert run("shift", "--users", 20, "--means", "--output", tmp_path / "a.csv").returncode == 0
    frame = pd.read_csv(tmp_path / "a.csv")
    mine = frame[frame["group"] == "b"]
    np.testing.assert_allclose(mine["mean"], make_simulation("shift", 20).truth.curve(mine["score"].to_numpy(), "b"))


def test_names_are_listed():
    done = run("--list")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and [line.strip() for line in lines if not line.startswith("   ")] == list(CATALOGUE)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nope", "--output", "a.csv"], "no simulation is called 'nope'"),
        (["shift"], "missing: --output"),
        (["--output", "a.csv"], "one of the two"),
        (["shift", "--spec", "b.json", "--output", "a.csv"], "one of the two"),
        (["shift", "--users", "0", "--output", "a.csv"], "Invalid value for '--users'"),
        (["shift", "--output", "a.xls"], "must end in .csv or .parquet"),
        (["shift", "--output", "no/a.csv"], "cannot write"),
        (["--spec", "no.json", "--output", "a.csv"], "no.json: No such file"),
        (["--spec", "list.json", "--output", "a.csv"], "not a written simulation"),
        (["--spec", "other.json", "--output", "a.csv"], "holds a RankingSimulation"),
        (["--spec", "empty.json", "--output", "a.csv"], "users of group 'a'=0 must be a whole number, at least 1"),
    ],
)
def test_bad_usage(tmp_path, arguments, words):
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "other.json").write_text(json.dumps({"kind": "RankingSimulation", "simulation": {}}))
    (tmp_path / "empty.json").write_text(json.dumps(es.simulate().to_dict() | {"users": [0, 5]}))
    before = sorted(tmp_path.iterdir())
    done = run(*(tmp_path / argument if "." in argument else argument for argument in arguments))
    assert done.returncode == 2 and words in done.stderr and done.stdout == ""
    assert sorted(tmp_path.iterdir()) == before
