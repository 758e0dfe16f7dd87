"""Audits as people bring them: a seed makes data and options with the traits on which an audit may say too much."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from processes import run

import evenscore as es

TREES = ("ash", "birch", "cedar", "fir", "oak", "pine")  # words that occur in no sentence of a report
SCORES = {"even": 0.3, "values": 0.2, "two values": 0.05, "skewed": 0.1, "disjoint": 0.15, "partly": 0.15, "constant": 0.05}
OUTCOMES = {"binary": 0.45, "rare": 0.15, "count": 0.15, "cost": 0.15, "constant": 0.03, "constant in a group": 0.07}
NAMES = {"score": "s", "outcome": "y", "user": "u"}


@dataclass(frozen=True)
class Case:
    """Data, the options of es.audit, how the data are handed over, and what was drawn."""

    seed: int
    data: dict[str, np.ndarray]
    options: dict[str, Any]
    way: str
    traits: dict[str, Any] = field(default_factory=dict)

    @property
    def binary(self) -> bool:
        """Whether outcomes are 0 or 1."""
        known = self.data["y"][np.isfinite(self.data["y"])]
        return bool(np.isin(known, (0, 1)).all())

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.traits}, {self.options}, given as {self.way}"


def draw_case(seed: int) -> Case:
    """The audit of a seed."""
    rng = np.random.default_rng([19, seed])

    def pick(*values: Any, p: tuple[float, ...] | None = None) -> Any:
        return values[int(rng.choice(len(values), p=p))]

    traits = {
        "groups": int(rng.integers(2, 7)),
        "users": pick(60, 150, 400, 900),
        "tiny": pick(0, 1, 3, 9, 12, p=(0.5, 0.15, 0.15, 0.1, 0.1)),
        "rows": pick("one", "some", "informative", "many"),
        "scores": pick(
            "even", "values", "two values", "skewed", "disjoint", "partly", "constant", p=(0.3, 0.2, 0.05, 0.1, 0.15, 0.15, 0.05)
        ),
        "curve": pick("rising", "falling", "hump", "flat"),
        "gap": pick(0.0, 0.0, 0.1, 0.3, -0.3, "one group"),
        "outcome": pick(
            "binary", "rare", "count", "cost", "constant", "constant in a group", p=(0.45, 0.15, 0.15, 0.15, 0.03, 0.07)
        ),
        "units": pick("same", "percentile", "large", p=(0.6, 0.25, 0.15)),
        "spanning": pick(False, True, p=(0.85, 0.15)),
        "labels": pick("text", "number", p=(0.85, 0.15)),
        "known": pick("all", "positive side", p=(0.9, 0.1)),
    }
    data = _draw_data(traits, rng)
    options = _draw_options(traits, data, pick)
    way = pick("frame", "command", "tally", "released", p=(0.35, 0.45, 0.1, 0.1))
    if "attributes" in options and way in ("tally", "released"):
        way = "frame"
    return Case(seed, data, options, way, traits)


def _draw_data(traits: dict[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
    n_groups, n_users = traits["groups"], traits["users"]
    shares = rng.dirichlet(np.full(n_groups, 3.0))
    group_of = rng.choice(n_groups, n_users, p=shares)
    group_of[:n_groups] = np.arange(n_groups)
    if traits["tiny"]:
        last = np.flatnonzero(group_of == n_groups - 1)
        group_of[last] = 0
        group_of[: traits["tiny"]] = n_groups - 1
    level = rng.normal(size=n_users)
    n_rows = {
        "one": np.ones(n_users, dtype=int),
        "some": rng.integers(1, 5, n_users),
        "informative": np.clip(np.round(np.exp(0.8 + 0.9 * level)), 1, 20).astype(int),
        "many": np.clip(rng.zipf(1.8, n_users), 1, 60),
    }[traits["rows"]]
    user = np.repeat(np.arange(n_users), n_rows)
    group = group_of[user]
    if traits["spanning"]:
        moved = rng.random(len(user)) < 0.3
        group = np.where(moved, rng.integers(0, n_groups, len(user)), group)
    score = _draw_scores(traits["scores"], group, n_groups, rng)
    mean = _mean_outcome(traits, score, group, level[user])
    outcome = _draw_outcomes(traits["outcome"], mean, group, rng)
    scale = {"same": 1.0, "percentile": 100.0, "large": 1e5}[traits["units"]]
    labels = np.array(TREES) if traits["labels"] == "text" else np.arange(len(TREES))
    data = {
        "s": np.round(score * scale, 6),
        "y": outcome,
        "g": labels[group],
        "u": user,
        "w": np.round(rng.gamma(2, 1, len(user)) + 0.05, 3),
        "h": np.array(["north", "south", "west"])[user % 3],
    }
    order = rng.permutation(len(user))
    return {name: column[order] for name, column in data.items()}


def _draw_scores(kind: str, group: np.ndarray, n_groups: int, rng: np.random.Generator) -> np.ndarray:
    n = len(group)
    if kind == "values":
        return rng.integers(1, 11, n) / 10
    if kind == "two values":
        return rng.integers(0, 2, n) / 2 + 0.25
    if kind == "constant":
        return np.full(n, 0.4)
    if kind == "skewed":
        return rng.beta(0.6, 12, n)
    if kind == "disjoint":
        return (group + 0.05 + 0.9 * rng.random(n)) / n_groups
    if kind == "partly":
        return (group + 2.2 * rng.random(n)) / (n_groups + 1.2)
    return rng.beta(2, 2, n)


def _mean_outcome(traits: dict[str, Any], score: np.ndarray, group: np.ndarray, level: np.ndarray) -> np.ndarray:
    curve = {
        "rising": 0.15 + 0.6 * score,
        "falling": 0.75 - 0.6 * score,
        "hump": 0.15 + 2.4 * score * (1 - score),
        "flat": np.full(len(score), 0.4),
    }[traits["curve"]]
    gap = traits["gap"]
    shift = 0.35 * (group == 1) if gap == "one group" else gap * (group / max(traits["groups"] - 1, 1))
    spread = 0.15 if traits["rows"] == "informative" else 0.05
    return np.clip(curve + shift + spread * level, 0.01, 0.99)


def _draw_outcomes(kind: str, mean: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if kind == "count":
        return rng.poisson(5 * mean).astype(float)
    if kind == "cost":
        return np.round(1000 * mean * rng.lognormal(0, 1, len(mean)), 2)
    if kind == "constant":
        return np.ones(len(mean))
    rate = 0.05 * mean if kind == "rare" else mean
    outcome = (rng.random(len(mean)) < rate).astype(float)
    return np.where(group == 0, 0.0, outcome) if kind == "constant in a group" else outcome


def _draw_options(traits: dict[str, Any], data: dict[str, np.ndarray], pick: Any) -> dict[str, Any]:
    options: dict[str, Any] = dict(NAMES)
    which = pick("one", "several", "crossed", p=(0.8, 0.1, 0.1))
    if which == "several":
        options["attributes"] = ["g", "h"]
    else:
        options["group"] = "g" if which == "one" else ["g", "h"]
    spread = float(np.std(data["y"])) or 1.0
    if pick(True, False, p=(0.4, 0.6)) or traits["known"] != "all":
        options["threshold"] = float(np.round(np.quantile(data["s"], pick(0.3, 0.5, 0.8)), 4))
        options["positive"] = pick("above", "below", p=(0.7, 0.3))
    if pick(True, False, p=(0.3, 0.7)):
        options["tolerance"] = float(f"{pick(0.02, 0.3, 1.5) * spread:.2g}")
        options["gate"] = pick("difference", "equivalence")
    if pick(True, False, p=(0.15, 0.85)):
        options["require_power"] = float(f"{pick(0.1, 1) * spread:.2g}")
    if pick(True, False, p=(0.15, 0.85)):
        options["weight"] = "w"
    if pick(True, False, p=(0.15, 0.85)):
        options["weighting"] = "row"
    if pick(True, False, p=(0.15, 0.85)) and which == "one":
        options["reference"] = str(data["g"][0])
    if pick(True, False, p=(0.15, 0.85)):
        options["decide"] = pick(
            ["ordering"], ["parity", "ordering"], ["parity", "marginal"] if "threshold" in options else ["parity"]
        )
    if traits["known"] == "positive side":
        seen = data["s"] >= options["threshold"]
        data["y"] = np.where(seen if options["positive"] == "above" else ~seen, data["y"], np.nan)
        options["nulls"] = "unlabelled"
    if traits["rows"] == "one" and pick(True, False):
        options["user"] = None
    return options


# What an audit says


@dataclass(frozen=True)
class Told:
    """All that one audit says, wherever it says it; refused: the message when it says nothing else."""

    document: dict[str, Any] = field(default_factory=dict)
    exit_code: int = 2
    texts: dict[str, str] = field(default_factory=dict)
    refused: str = ""


def run_case(case: Case, folder: Path) -> Told:
    """Audit as the case says."""
    if case.way == "command":
        return _run_command(case, folder)
    try:
        audit = _run_audit(case)
    except es.EvenscoreError as error:
        return Told(refused=str(error))
    texts = {
        "terminal": repr(audit),
        "verbose": audit.text(verbose=True),
        "page": audit.to_html(),
        "markdown": audit.to_markdown(),
        "junit": audit.to_junit(),
    }
    return Told(json.loads(audit.to_json()), _exit_code(audit), texts)


def _exit_code(audit: es.Audit) -> int:
    """What assert_ok makes of it, which must be what the JSON says."""
    try:
        audit.assert_ok()
    except AssertionError as error:
        return error.result.code
    return 0


def _run_audit(case: Case) -> es.Audit:
    options = dict(case.options)
    if case.way == "frame":
        return es.audit(pd.DataFrame(case.data), **options)
    columns = {name: options.pop(name) for name in ("score", "outcome", "group", "user", "weight", "nulls") if name in options}
    cuts = [options["threshold"]] if "threshold" in options else []
    tally = es.tally(pd.DataFrame(case.data), cuts=cuts, **columns)
    return es.audit(tally.release(min_users=10) if case.way == "released" else tally, **options)


def _run_command(case: Case, folder: Path) -> Told:
    (folder / "summary.md").unlink(missing_ok=True)  # a command adds to it
    pd.DataFrame(case.data).to_csv(folder / "data.csv", index=False)
    words = ["audit", "data.csv", "--no-config"]
    for name, value in case.options.items():
        words += _as_words(name, value)
    paths = {"page": "report.html", "markdown": "summary.md", "junit": "junit.xml"}
    written = ["--json", "audit.json", "--report", "report.html", "--summary", "summary.md", "--junit", "junit.xml"]
    done = run(*words, *written, cwd=folder)
    if done.returncode not in (0, 1, 3):
        return Told(refused=done.stderr, exit_code=done.returncode)
    again = run(*words, "--verbose", cwd=folder)
    texts = {"terminal": done.stdout.split("\nWritten: ")[0], "verbose": again.stdout}
    texts |= {name: (folder / path).read_text("utf-8") for name, path in paths.items()}
    return Told(json.loads((folder / "audit.json").read_text("utf-8")), done.returncode, texts)


def _as_words(name: str, value: Any) -> list[str]:
    """An option of es.audit in the words of the command line."""
    if name == "user" and value is None:
        return ["--independent"]
    option = {"attributes": "--attribute"}.get(name, "--" + name.replace("_", "-"))
    return [word for each in (value if isinstance(value, list) else [value]) for word in (option, str(each))]
