"""Wrote the files of this folder with evenscore 0.1.0; kept for the record, and not to be run again with later versions.

The files stand for everything that 0.1.0 could write and read again, and ``expected.json`` for the numbers that it gave from them.
Later versions must read the same files and give the same numbers: files made anew would only show that a version agrees with
itself. The data are simulated or made by arithmetic. To see how it was done, in the folder above: ``python -m golden.make FOLDER``.
"""

from __future__ import annotations

import datetime
import decimal
import json
import os
import sys
import tempfile
import uuid
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import evenscore as es
from evenscore.simulation import Bump, Curve, Discrete, ParetoRows, PoissonRows
from golden import computed
from golden.computed import ARITHMETIC, COLUMNS, OBJECTIVES, SECRET, STUDY_METHODS, STUDY_RUNS, arithmetic, run

VERSION = "0.1.0"
WRITTEN_AT = "1767225600"  # the time that audits are dated, so that the same files come out again

GAP = {"a": (0.0, 1.0), "b": (-0.5, 1.0)}
VALUES = Discrete.spaced(15)


def people(users: Any = 80, seed: int = 1, **options: Any) -> dict[str, Any]:
    """Rows of repeated users in two groups with a gap."""
    settings = {"curve": GAP, "rows_per_user": PoissonRows(2), "outcome_correlation": 0.3, "score_correlation": 0.2}
    return es.simulate(users, **settings | options).data(seed)


def three_groups(seed: int, **options: Any) -> dict[str, Any]:
    """The same with three groups, of which two are alike."""
    curve = {"a": (0.0, 1.0), "b": (-1.3, 1.0), "c": (0.0, 1.0)}
    return people({"a": 150, "b": 140, "c": 130}, seed, curve=curve, **options)


def credit(data: dict[str, Any]) -> dict[str, Any]:
    """Scores from 300 to 850 and large amounts as outcomes: a lattice with end cells, and a centre far from 0."""
    return data | {"score": 300 + 550 * data["score"], "outcome": 1_000_000 + 40 * data["outcome"]}


def counted(data: Any, **options: Any) -> es.Tally:
    """A tally of few cells."""
    return es.tally(data, **{**COLUMNS, "cells": 8, **options})


# Tallies


def save_tallies(folder: Path) -> None:
    """One file for each variant of the format."""
    for kind in (plain_tallies, tallies_of_lattices, tallies_of_rows, tallies_of_labels, tallies_to_add):
        for name, tally in kind().items():
            tally.save(folder / f"{name}.tally")


def plain_tallies() -> dict[str, es.Tally]:
    """0/1 and real outcomes, users in one group or in several, and what is derived from such tallies."""
    spanning = counted(three_groups(2, spanning=True), cells=16)
    return {
        "binary": counted(three_groups(1, rows_per_user=PoissonRows(1)), cells=48),
        "real": counted(credit(people(250, outcome="heavy-tailed", seed=3)), cells=10, cuts=[575]),
        "spanning": spanning,
        "spanning-real": counted(credit(people(75, outcome="heavy-tailed", seed=4, rows_per_user=2, spanning=True)), cells=24),
        "released": counted(people(150, seed=9, rows_per_user=1), cells=24).release(min_users=5),
        "released-spanning": spanning.release(min_users=10),
        "released-values": counted(people(rows_per_user=1, seed=8, score=VALUES), cells=512).release(min_users=4),
        "one-group": counted(people({"a": 150}, seed=5, curve=(-0.3, 1.0))),
        "few-users": counted(people({"a": 75, "b": 75, "few": 6}, seed=6, curve=(0.0, 1.0)), cells=10),
        "many-users": counted(people(700, seed=7, rows_per_user=1)),
        "zero": es.Tally.zero(es.Lattice(0, 1, cells=8)),
    }


def tallies_of_lattices() -> dict[str, es.Tally]:
    """Every kind of cells."""
    skewed = people(seed=11, score=(0.8, 6.0))
    rare = people(seed=12, score=Discrete((0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)))
    return {
        "fine": es.tally(pd.DataFrame(people(140, seed=13, rows_per_user=2)), **COLUMNS),
        "cuts": counted(people(seed=14), cells=12, cuts=[0.37, 0.613]),
        "logit": counted(skewed, scale="logit", cells=24),
        "rank-cuts": counted(skewed, scale="rank", cells=16, cuts=[0.05]),
        "discrete": counted(people(200, seed=15, score=VALUES), cells=512),
        "discrete-many": counted(people(seed=16, score=Discrete.spaced(22)), cells=512),
        "discrete-logit": counted(rare, scale="logit", cells=512),
        "discrete-rank": counted(rare, scale="rank", cells=512),
    }


def tallies_of_rows() -> dict[str, es.Tally]:
    """Weights, counts, rows that are left out or not labelled, rows without users, and shares of the users."""
    rng = np.random.default_rng(21)
    data = people(seed=22)
    n_rows = len(data["score"])
    weighted = people({"a": 100, "b": 90, "weightless": 20}, seed=23, curve=(0.0, 1.0))
    weight = np.where(weighted["group"] == "weightless", 0.0, rng.gamma(2.0, 1.0, len(weighted["score"])))
    data |= {"weight": rng.gamma(2.0, 1.0, n_rows), "count": rng.integers(0, 4, n_rows)}
    halves = people(400, seed=24, rows_per_user=2, curve={"a": (0.2, 1.0), "b": (-0.8, 1.0)})
    return {
        "weighted": counted(weighted | {"weight": weight}, weight="weight"),
        "counted": counted(pa.table(data), count="count"),
        "weighted-counted": counted(data, weight="weight", count="count"),
        "unlabelled": counted(people(140, seed=25, threshold=0.5), nulls="unlabelled", cells=12),
        "dropped": counted(with_gaps(people(seed=27)), nulls="drop"),
        "independent": es.tally(None, **{name: data[name] for name in COLUMNS} | {"user": None}, cells=8),
        "independent-counted": counted(data, user=None, count="count"),
        "first-half": counted(halves, split="1/2", cells=24),
        "second-half": counted(halves, split="2/2", cells=24),
        "dealt-anew": counted(halves | {"user": text_ids(halves["user"])}, split="1-2/5@another deal"),
    }


def with_gaps(data: dict[str, Any]) -> pd.DataFrame:
    """Rows with nulls in every column, some of them in two."""
    frame = pd.DataFrame(data).astype({"outcome": "Float64", "user": "Int64"})
    for place, name in enumerate(COLUMNS):
        frame.loc[place :: 29 + 2 * place, name] = None
    frame.loc[[40, 41], ["score", "group"]] = None
    return frame


def text_ids(users: Any) -> list[str]:
    """Ids that are text."""
    return [f"user {number:04d}" for number in users.tolist()]


def tallies_of_labels() -> dict[str, es.Tally]:
    """Labels of every type that can be saved."""
    day = datetime.date(2024, 2, 29)
    moment = datetime.datetime(2024, 2, 29, 12, 30, 15, 250)
    aware = moment.replace(tzinfo=datetime.UTC)
    labels: dict[str, tuple[Any, ...]] = {
        "int": (-1, 0, 10, 9),
        "bool": (False, True),
        "float": (0.1, 1e300, -2.5),
        "str": ("", "None", "nan", "ünï × 'quoted'"),
        "date": (day, day + datetime.timedelta(1)),
        "rare": (b"\x00\xff", decimal.Decimal("1.10"), moment, aware, moment.time(), uuid.UUID(int=7)),
        "mixed": (1, "1", 2.5, day),
    }
    found = {f"labels-{kind}": labelled(values) for kind, values in labels.items()}
    row = np.arange(120)
    several = small(row) | {"band": 10 * (row // 2 % 2), "sex": [("f", "m")[one] for one in (row // 4 % 2).tolist()]}
    found["labels-tuple"] = es.tally(several | {"new": row // 2 % 2 < 1}, **COLUMNS | {"group": ["sex", "band", "new"]})
    return found


def labelled(labels: tuple[Any, ...]) -> es.Tally:
    """A tiny tally with these labels."""
    rows = small(np.arange(120))
    groups = np.empty(120, dtype=object)
    groups[:] = [labels[user % len(labels)] for user in rows["user"].tolist()]
    return es.tally(rows | {"group": groups}, **COLUMNS)


def small(row: Any) -> dict[str, Any]:
    """Two rows a user and five values of the score, by arithmetic."""
    return {"score": row * 7 % 5 / 4, "outcome": (row * 5 % 11 < row * 7 % 5 * 2).astype(np.int64), "user": row // 2}


def tallies_to_add() -> dict[str, es.Tally]:
    """Shards on one lattice, with 0/1 and with real outcomes, and lattices of values that unite."""
    first = counted(people(seed=31))
    second = counted(apart(people({"b": 80, "d": 70}, seed=32, curve=(0.0, 1.0))), lattice=first)
    real = counted(credit(people(outcome="heavy-tailed", seed=33, spanning=True)))
    larger = credit(apart(people(outcome="heavy-tailed", seed=34, spanning=True)))
    low, high = Discrete((0.1, 0.2, 0.3, 0.5, 0.8)), Discrete((0.2, 0.25, 0.5, 0.75, 0.8, 0.9))
    return {
        "shard-1": first,
        "shard-2": second,
        "shard-real-1": real,
        "shard-real-2": counted(larger | {"outcome": larger["outcome"] + 250}, lattice=real),
        "values-1": counted(people(seed=35, score=low), cells=512),
        "values-2": counted(apart(people(seed=36, score=high)), cells=512),
    }


def apart(data: dict[str, Any]) -> dict[str, Any]:
    """Users whom other data do not have."""
    return data | {"user": data["user"] + 100_000}


# Calibrators


def save_calibrators(folder: Path) -> None:
    """Every method, and every way of fitting that leaves its own traces in a file."""
    half, real, few = (computed.tally(name) for name in ("first-half", "real", "few-users"))
    values, low, high = (computed.tally(name) for name in ("discrete", "values-1", "values-2"))
    rough = {"monotone": True, "weighting": "row", "degree": 0, "kernel": "epanechnikov", "bandwidth": 0.2}
    found = {
        "kernel": es.calibrate(half),
        "isotonic": es.calibrate(half, method="isotonic"),
        "platt": es.calibrate(computed.tally("one-group"), method="platt"),
        "binning": es.calibrate(half, method="binning", bins=5),
        "binning-width": es.calibrate(values, method="binning", bins=4, bin_by="width"),
        "auto": es.calibrate(real, method="auto"),
        "monotone-per-row": es.calibrate(high, **rough),
        "reference": es.calibrate(low, reference="a"),
        "remembering": es.calibrate(low, method="isotonic", remember_users=SECRET),
        "real": es.calibrate(real, method="isotonic"),
        "few-users": es.calibrate(few, method="binning", bins=6),
        "labels-tuple": es.calibrate(computed.tally("labels-tuple"), method="isotonic"),
        "labels-mixed": es.calibrate(computed.tally("labels-mixed"), method="isotonic"),
    }
    for name, calibrator in found.items():
        calibrator.save(folder / f"{name}.calibrator.json")


def save_joint_calibrators(folder: Path) -> None:
    """Every method, with scores of few values so that grids stay small, and one score of many on an even axis."""
    slopes = {"a": [[0.9, 0.5], [0.4, 0.9]], "b": [[1.1, -0.3], [-0.3, 1.1]]}
    settings: dict[str, Any] = {"slopes": slopes, "rows_per_user": PoissonRows(2), "score_correlation": 0.3}
    spec = es.simulate_objectives(90, objectives=["like", "buy"], intercept={"a": 0.3, "b": -0.3}, **settings)
    data = spec.data(seed=41)
    coarse = data | {name: np.clip(np.round(data[name] * 8) / 8, 0.05, 0.95) for name in ("score_like", "score_buy")}
    even = coarse | {"score_like": data["score_like"], "score_buy": np.where(data["score_buy"] < 0.5, 0.25, 0.75)}
    known = coarse | {"buy": np.where(np.arange(len(data["user"])) % 5 == 0, np.nan, coarse["buy"])}
    real = spec.data(seed=42) | {"buy": 900 + 30 * spec.data(seed=42)["score_buy"] + spec.data(seed=42)["like"]}
    one = {"scores": ["score_like"], "outcomes": ["like"], "group": "group", "user": "user"}
    found = {
        "auto": es.calibrate_jointly(coarse, **OBJECTIVES),
        "kernel": es.calibrate_jointly(coarse, **OBJECTIVES, method="kernel", bandwidth="rule", degree=0),
        "kernel-even": es.calibrate_jointly(even, **OBJECTIVES, method="kernel"),
        "guided": es.calibrate_jointly(known, **OBJECTIVES, method="guided", split="1/2"),
        "logistic": es.calibrate_jointly(data, **OBJECTIVES, method="logistic", weighting="row"),
        "linear": es.calibrate_jointly(real, **OBJECTIVES, method="linear", squares=True, scale="score"),
        "one-score": es.calibrate_jointly(coarse, **one, method="kernel"),
    }
    for name, calibrator in found.items():
        calibrator.save(folder / f"{name}.joint.json")


# Threshold trials


def save_trials(folder: Path) -> None:
    """Trials after one look and after two, with labels on both sides or on one, and a tally for the next look."""
    gap = {"a": (0.4, 1.0), "b": (-0.8, 1.0)}
    first = counted(people(1500, seed=51, curve=gap, rows_per_user=1), cells=32)
    trial = es.ThresholdTrial(first, threshold=0.5, strategy="rate", max_step=0.05, tolerance=0.02)
    trial.save(folder / "rate.trial.json")
    later = counted(people(600, seed=54, curve=gap, rows_per_user=1), cells=20, cuts=trial.cuts)
    later.save(folder / "next-look.tally")
    trial.update(later).save(folder / "second-look.trial.json")
    withheld = people(250, seed=52, curve={"a": (0.0, 1.0), "b": (0.8, 1.0)}, threshold=0.5)
    settings: dict[str, Any] = {"threshold": 0.5, "strategy": "lower", "max_step": 0.1, "explore": 0.25}
    es.ThresholdTrial(counted(withheld, nulls="unlabelled", cells=32), **settings).save(folder / "explore.trial.json")
    numbered = people(seed=53)
    numbered["group"] = (numbered["group"] == "b").astype(np.int64)
    settings = {"threshold": {0: 0.5, 1: 0.75}, "strategy": "target", "target": 0.4, "positive": "below", "max_step": 1}
    es.ThresholdTrial(counted(numbered), **settings, weighting="row").save(folder / "target.trial.json")


# Files of the command line


def save_user_level(folder: Path) -> None:
    """Two days of the same users, with number ids and 0/1 outcomes, and with text ids, real outcomes, weights and gaps."""
    data = people(75, seed=61, rows_per_user=5)
    real = credit(people(40, seed=62, rows_per_user=5, outcome="heavy-tailed"))
    real |= {"user": np.array(text_ids(real["user"])), "weight": 1 + np.arange(len(real["user"])) % 3}
    real["outcome"] = np.where(np.arange(len(real["user"])) % 23 == 0, np.nan, real["outcome"])
    options = [word for role in COLUMNS for word in (f"--{role}", role)]
    for name, rows, more in (("days", data, []), ("text-days", real, ["--weight", "weight", "--nulls", "drop"])):
        number = np.arange(len(rows["score"])) % 5
        first = folder / f"{name}-1.users.parquet"
        for day, kept in ((1, number < 3), (2, number >= 3)):
            with tempfile.TemporaryDirectory() as place:
                path = Path(place) / "day.csv"
                pd.DataFrame(rows)[kept].to_csv(path, index=False)
                lattice = ["--cells", "16"] if day == 1 else ["--lattice", first]
                output = folder / f"{name}-{day}.users.parquet"
                assert run("tally", path, *options, *more, *lattice, "--by-user", "-o", output, "--quiet") == 0


def save_settings(folder: Path) -> None:
    """Rows, settings as ``evenscore init`` writes them, and settings with every key."""
    data = people(75, seed=71, score=VALUES)
    sex = np.where(data["user"] % 3 == 0, "f", "m")
    weight = 1 + data["user"] % 2
    rows = data | {"user": text_ids(data["user"]), "sex": sex, "weight": weight, "count": 1 + np.arange(len(sex)) % 2}
    pd.DataFrame(rows).to_csv(folder / "people.csv", index=False)
    here = Path.cwd()
    os.chdir(folder)  # the file names its data as they are named here
    options = [word for role in COLUMNS for word in (f"--{role}", role)]
    assert run("init", "people.csv", *options, "--tolerance", "0.05", "-o", "evenscore.toml") == 0
    os.chdir(here)
    (folder / "every-key.toml").write_text(EVERY_KEY)


EVERY_KEY = """\
[data]
path = ["people.csv"]
score = ["score"]
outcome = "outcome"
attributes = ["group", ["group", "sex"]]
user = "user"
weight = "weight"
count = "count"
nulls = "drop"
scale = "rank"
cells = 64

[test]
tolerance = 0.4
threshold = 0.5
alpha = 0.1
positive = "above"
method = "holm"
weighting = "row"
decide = ["parity", "marginal"]
repair = false
seed = 5

[gate]
rule = "equivalence"
require_power = 0.6

[output]
title = "Every key"
report = "every.html"
json = "every.json"
junit = "every.xml"
summary = "every.md"
"""


# Audits, studies, simulations


def save_audits(folder: Path) -> None:
    """An audit of two attributes with a threshold, and a later one of another score, with a tolerance and another attribute."""
    os.environ["SOURCE_DATE_EPOCH"] = WRITTEN_AT
    few = Discrete.spaced(4)
    data = people(75, seed=81, score=few, curve={"a": (0.5, 1.0), "b": (-0.7, 1.0)})
    data["sex"] = np.where(data["user"] % 3 == 0, "f", "m")
    later = people(75, seed=82, score=few, curve=(0.0, 1.0))
    later |= {"repaired": later["score"], "old": later["user"] % 4 < 2}
    columns = {"score": "score", "outcome": "outcome", "user": "user"}
    before = es.audit(data, **columns, attributes=["group", "sex"], threshold=0.5, repair=False)
    before.to_json(folder / "before.audit.json")
    after = es.audit(later, **columns | {"score": "repaired"}, attributes=["group", "old"], tolerance=0.3, repair=False)
    after.to_json(folder / "after.audit.json")


def save_studies(folder: Path) -> None:
    """A simulation, and the finished runs of a study of it."""
    spec = es.simulate(
        {"a": 50, "b": 60},
        score={"a": (2, 3), "b": Discrete((0.1, 0.25, 0.5, 0.7, 0.9))},
        curve={"a": Curve(0.1, 0.9, bump=Bump(0.2, 0.5, 0.1)), "b": (-0.3, 1.0)},
        rows_per_user={"a": PoissonRows(2), "b": ParetoRows(1.5, 20)},
        outcome_correlation=0.2,
        informative=0.1,
        name="golden",
    )
    (folder / "simulation.json").write_text(json.dumps(spec.to_dict(), indent=1) + "\n")
    es.study(spec, list(STUDY_METHODS), runs=STUDY_RUNS, seed=3, resume=folder / "study.jsonl")


# All of it


def save_expected(folder: Path) -> None:
    """What 0.1.0 computes from the files: a line for each computation."""
    found = {name: json.dumps(compute(), separators=(",", ":")) for name, compute in computed.COMPUTATIONS.items()}
    found = {ARITHMETIC: json.dumps(arithmetic())} | found
    lines = [f"{json.dumps(name)}: {numbers}" for name, numbers in found.items()]
    (folder / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def make(folder: Path) -> None:
    """Write every file."""
    if es.__version__ != VERSION:
        raise SystemExit(f"the golden files are those of evenscore {VERSION}; this is {es.__version__}")
    computed.FOLDER = folder.absolute()
    warnings.simplefilter("ignore", es.EvenscoreWarning)
    kinds = (save_tallies, save_calibrators, save_joint_calibrators, save_trials, save_user_level, save_settings, save_audits)
    for save in (*kinds, save_studies, save_expected):
        save(computed.FOLDER)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
