"""``evenscore init FILE && evenscore audit``: the columns are guessed, the guesses are shown, and the settings run."""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from processes import run

import evenscore as es
from evenscore.commands.guessing import guess_roles
from evenscore.engines.column_facts import find_facts

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK = ["--method", "bonferroni", "--no-repair"]

KNOWN = {
    "ncaa/ncaa_in_game.parquet": {"score": "score", "outcome": "outcome", "group": "bracket", "user": "game_id"},
    "nhanes/nhanes_diabetes.parquet": {
        "score": "score_blind",
        "outcome": "diabetes",
        "group": "race",
        "user": "seqn",
        "nulls": "drop",
    },
    "governors/governors.parquet": {
        "score": "probwin",
        "outcome": "probwin_outcome",
        "group": "party",
        "user": "race_id",
        "nulls": "drop",
    },
    "open_policing/county_race_counts.csv": {
        "score": "inferred_threshold",
        "outcome": "num_hits",
        "group": "driver_race",
        "user": "location",
    },
}


def rows(n=600):
    rng = np.random.default_rng(0)
    score = rng.random(n).round(4)
    return pd.DataFrame({"score": score, "y": (rng.random(n) < score).astype(int), "sex": rng.integers(1, 3, n)})


def started(data, folder, *options):
    """What init writes under [data], but for the path, and what it says."""
    done = run("init", data, *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    settings = tomllib.loads((folder / "evenscore.toml").read_text(encoding="utf-8"))
    columns = settings["data"]
    columns.pop("path")
    return columns, done


def audited(folder):
    done = run("audit", *QUICK, cwd=folder)
    assert done.returncode in (0, 1), done.stderr
    assert (folder / "audit.html").stat().st_size > 10_000
    return done


@pytest.mark.parametrize("name", KNOWN)
def test_the_examples_run_from_data_to_report(name, tmp_path):
    columns, done = started(EXAMPLES / name, tmp_path)
    assert columns == KNOWN[name]
    assert all(column in done.stdout for role, column in columns.items() if role != "nulls")
    audited(tmp_path)


def test_a_column_called_user_is_taken_in_a_file_of_a_few_rows(tmp_path):
    """Independence is not what a file says that has users."""
    (tmp_path / "few.csv").write_text("user,risk,ill,sex\n1,0.2,0,m\n1,0.4,1,m\n2,0.7,1,f\n3,0.1,0,f\n")
    found = {guess.role: guess.name for guess in guess_roles(find_facts(tmp_path / "few.csv"), {}).values()}
    assert found == {"score": "risk", "outcome": "ill", "group": "sex", "user": "user"}


def test_without_users_rows_are_independent_and_that_is_said(tmp_path):
    rows().to_csv(tmp_path / "a.csv", index=False)
    columns, done = started("a.csv", tmp_path)
    assert columns == {"score": "score", "outcome": "y", "group": "sex", "independent": True}
    assert "no column is known to say whose row it is, so the settings" in " ".join(done.stderr.split())
    assert "sex = 1" in audited(tmp_path).stdout


AWKWARD = {
    "several scores": (
        lambda data: data.assign(p_click=data["score"], p_like=data["score"] ** 2, member_id=range(len(data))).drop(
            columns="score"
        ),
        {"score": "p_click", "outcome": "y", "group": "sex", "user": "member_id"},
    ),
    "several pairs": (
        lambda data: pd.DataFrame(
            {
                "like": data["y"],
                "share": 1 - data["y"],
                "p_like": data["score"],
                "p_share": data["score"],
                "female": data["sex"] - 1,
            }
        ),
        {"score": "p_like", "outcome": "like", "group": "female", "independent": True},
    ),
    "a decision beside its score": (
        lambda data: data.assign(predicted=(data["score"] > 0.5).astype(int), customerId=[f"c{i // 3}" for i in range(len(data))]),
        {"score": "score", "outcome": "y", "group": "sex", "user": "customerId"},
    ),
    "truth values and a null": (
        lambda data: data.assign(
            repaid=data.pop("y").astype(bool), sex=data["sex"].map({1: "men", 2: None}).where(data.index < 99, "women")
        ),
        {"score": "score", "outcome": "repaid", "group": "sex", "independent": True, "nulls": "drop"},
    ),
    "a score in points": (
        lambda data: data.assign(risk_points=(100 * data.pop("score")).round().astype(int), age=np.arange(len(data)) % 70),
        {"score": "risk_points", "outcome": "y", "group": "sex", "independent": True},
    ),
    "a blank and a quote in names": (
        lambda data: data.rename(columns={"score": 'the "score"', "sex": "group of age"}).assign(
            **{"user id": np.arange(len(data)) // 2}
        ),
        {"score": 'the "score"', "outcome": "y", "group": "group of age", "user": "user id"},
    ),
}


@pytest.mark.parametrize("kind", AWKWARD)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_awkward_files(kind, ending, tmp_path):
    change, expected = AWKWARD[kind]
    data = change(rows())
    data.to_csv(tmp_path / "a.csv", index=False) if ending == "csv" else data.to_parquet(tmp_path / "a.parquet")
    columns, _ = started(f"a.{ending}", tmp_path)
    assert columns == expected
    user = None if columns.pop("independent", False) else columns.pop("user")
    assert len(es.tally(tmp_path / f"a.{ending}", **columns, user=user).groups) == 2  # what an audit begins with, and may refuse


def test_what_is_given_is_taken_and_the_rest_guessed(tmp_path):
    data = rows().assign(other=lambda data: data["score"], id=range(600))
    data.to_csv(tmp_path / "a.csv", index=False)
    columns, done = started("a.csv", tmp_path, "--score", "other")
    assert columns == {"score": "other", "outcome": "y", "group": "sex", "user": "id"}
    assert "(or" not in done.stdout


def test_a_column_that_users_share_is_named_as_one_that_may_be_an_item(tmp_path):
    """By what it holds: partners whom many meet, and no number that each person goes through."""
    rng = np.random.default_rng(0)
    data = rows(1200).assign(person=np.repeat(range(60), 20), turn=np.tile(range(20), 60), partner=rng.integers(0, 90, 1200))
    data["sex"] = data["person"] % 2
    data.to_parquet(tmp_path / "a.parquet")
    columns, done = started("a.parquet", tmp_path)
    assert columns["user"] == "person" and "item" not in columns  # that is for whoever reads it to say
    listed = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert listed["partner"].endswith("item ?") and "item" not in listed["turn"]
    assert '# item = "partner"' in (tmp_path / "evenscore.toml").read_text(encoding="utf-8")


def test_keys_of_panels_are_found_or_asked_for(tmp_path):
    """Of people over years: their id by its name, whatever it is joined to, else the numbers that come again and again."""
    rng = np.random.default_rng(0)
    panel = rows(1200).assign(school=np.repeat(range(4), 300), hispanic=rng.integers(0, 2, 1200), visits=rng.poisson(3, 1200) * 7)
    panel["childid"], panel["schoolid"] = 11 * np.repeat(range(300), 4), 7 * np.repeat(range(40), 30)
    panel["day"] = np.tile(pd.date_range("2024-01-01", periods=40).astype(str), 30)
    panel.drop(columns="sex").to_csv(tmp_path / "a.csv", index=False)
    columns, done = started("a.csv", tmp_path)
    assert columns == {"score": "score", "outcome": "y", "group": "hispanic", "user": "childid"}
    listed = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert listed["day"].endswith("item ?") and "item" not in listed["visits"]

    panel.drop(columns="schoolid").rename(columns={"childid": "nr"}).to_csv(tmp_path / "b.csv", index=False)
    columns, done = started("b.csv", tmp_path, "--force")
    assert columns["independent"] and "(is it one of these: nr, 300 values?)" in " ".join(done.stderr.split())


def test_a_decimal_comma_is_a_number(tmp_path):
    rows().to_csv(tmp_path / "a.csv", index=False, sep=";", decimal=",")
    assert started("a.csv", tmp_path)[0]["score"] == "score"
    audited(tmp_path)


def test_what_is_not_there_is_left_open(tmp_path):
    pd.DataFrame({"name": ["a", "b"] * 9, "amount": [1.5, 2.5, 3.5] * 6, "none": [None] * 18}).to_parquet(tmp_path / "a.parquet")
    columns, done = started("a.parquet", tmp_path)
    assert columns == {"group": "name", "independent": True}
    assert "nothing looks like: score, outcome; fill in what is missing before the audit" in done.stderr
    refused = run("audit", cwd=tmp_path)
    assert refused.returncode == 2 and "--outcome" in refused.stderr


def test_settings_elsewhere_find_the_data(tmp_path):
    (tmp_path / "settings").mkdir()
    rows().to_csv(tmp_path / "a.csv", index=False)
    done = run("init", "a.csv", "-o", "settings/b.toml", cwd=tmp_path)
    assert done.returncode == 0 and "evenscore audit --config settings/b.toml" in done.stderr
    assert run("audit", "--config", "settings/b.toml", *QUICK, cwd=tmp_path).returncode in (0, 1)
    assert (tmp_path / "settings" / "audit.json").exists()


def test_a_tally_needs_no_columns(tmp_path):
    rows().to_csv(tmp_path / "a.csv", index=False)
    words = ["--score", "score", "--outcome", "y", "--group", "sex", "--independent"]
    assert run("tally", "a.csv", *words, "-o", "a.tally", cwd=tmp_path).returncode == 0
    columns, done = started("a.tally", tmp_path)
    assert columns == {} and done.stdout == ""
    audited(tmp_path)


def test_a_tolerance_is_for_shares(tmp_path):
    data = rows().assign(outcome=lambda data: data.pop("y") * 12.5)
    data.to_csv(tmp_path / "a.csv", index=False)
    for options, expected in (((), None), (("--tolerance", "2", "--force"), 2)):
        started("a.csv", tmp_path, *options)
        settings = tomllib.loads((tmp_path / "evenscore.toml").read_text(encoding="utf-8"))
        assert settings["test"].get("tolerance") == expected


def test_no_rows_is_an_error(tmp_path):
    (tmp_path / "a.csv").write_text("score,y,sex\n")
    done = run("init", "a.csv", cwd=tmp_path)
    assert done.returncode == 2 and "no rows" in done.stderr and not (tmp_path / "evenscore.toml").exists()
