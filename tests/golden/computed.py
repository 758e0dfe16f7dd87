"""What is computed from the golden files: one way for ``make.py``, which wrote down what 0.1.0 gives, and for the test.

Only documented names are used, so that the same lines run on every later version. A computation takes nothing and gives plain
values: numbers, verdicts and labels, no prose. It reads files of this folder and writes none into it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import evenscore as es
from evenscore.cli import main

FOLDER = Path(__file__).parent
ARITHMETIC = "arithmetic"  # where expected.json says on what machine it was made
SECRET = "a secret"  # that calibrators remember their users under

COLUMNS = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
WEIGHTINGS = ("user", "row")
VECTORS = ("W", "Y", "X", "Y2", "XY", "U", "A", "V0", "V1", "V2", "N")
GRID = (0.0, 0.04, 0.2, 0.35, 0.5, 0.65, 0.8, 0.97, 1.0)  # scores that calibrators are asked for
LARGEST = 1e9  # a larger number, such as the end of a range, would hide all others in their mean
MOST = 10  # a longer list is kept by its length, its mean and the item in its middle

# Words may be put better in a later version.
PROSE = {
    *("adjustment", "disagreement", "flag", "higher_standard", "map", "misleading", "notes", "null", "reason", "summary", "title"),
    *("unavailable", "unseen", "what", "where", "words"),
}
# What depends on when, where and with what an audit was made.
CIRCUMSTANCES = {"created", "evenscore", "made_with", "provenance", "versions"}

Computation = Callable[[], Any]


# The machine


def arithmetic() -> str:
    """A digest of what this machine's linear algebra and functions give, to the last bit.

    Draws go through the eigenvectors of a covariance. Where the last bits differ, as they do between processors, an eigenvector may
    have the other sign, and then the draws are others, as good as the first; what rests on them agrees up to Monte Carlo error.
    """
    line = np.linspace(-1.0, 1.0, 24)
    matrix = np.exp(-8 * (line[:, None] - line) ** 2) + np.diag(np.cos(3 * line) ** 2)
    values, vectors = np.linalg.eigh(matrix @ matrix)
    found = (values, vectors, np.linalg.cholesky(matrix), matrix.astype(np.float32) @ matrix.astype(np.float32), np.log1p(matrix))
    return hashlib.sha256(b"".join(array.tobytes() for array in found)).hexdigest()[:16]


# Plain values


def plain(value: Any) -> Any:
    """A result as JSON can hold it: null for nan, text for infinity and for labels that JSON has no type for."""
    if isinstance(value, Mapping):
        return {_key(name): plain(item) for name, item in value.items() if name not in PROSE | CIRCUMSTANCES}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return _thinned([plain(item) for item in value])
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else typed(value)


def _key(name: Any) -> str:
    return name if isinstance(name, str) else typed(name)


def _thinned(items: list[Any]) -> Any:
    """A short list as it is, or by columns when it is a table."""
    if len(items) <= MOST:
        table = len(items) > 1 and all(isinstance(item, dict) and item.keys() == items[0].keys() for item in items)
        return {name: [item[name] for item in items] for name in items[0]} if table else items
    return {"length": len(items), "mean": _mean(items), "middle": items[len(items) // 2]}


def _mean(items: list[Any]) -> Any:
    """The mean of the numbers that are known, column by column, so that none of them changes unseen."""
    if all(isinstance(item, dict) for item in items):
        columns = {name: _mean([item[name] for item in items]) for name in items[0]}
        return {name: mean for name, mean in columns.items() if mean is not None}
    if all(isinstance(item, list) for item in items):
        return [_mean(list(column)) for column in zip(*items, strict=True)]
    known = [item for item in items if isinstance(item, int | float) and not isinstance(item, bool) and abs(item) < LARGEST]
    return math.fsum(known) / len(known) if known else None


def typed(label: Any) -> str:
    """A label with its type: 1, "1" and 1.0 are three labels."""
    if isinstance(label, tuple):
        return f"tuple({', '.join(map(typed, label))})"
    return f"{type(label).__name__} {label}"


def fields(result: Any, *names: str) -> dict[str, Any]:
    """Some attributes by name."""
    return {name: getattr(result, name) for name in names}


def saved_again(found: Any) -> Any:
    """What was loaded from a golden file, written by this version and read again: nothing may be lost."""
    with tempfile.TemporaryDirectory() as folder:
        found.save(Path(folder) / "again")
        return type(found).load(Path(folder) / "again")


# Tallies


@functools.cache
def tally(name: str) -> es.Tally:
    """A golden tally."""
    return es.Tally.load(FOLDER / f"{name}.tally")


def content(found: es.Tally) -> dict[str, Any]:
    """What a tally says about itself."""
    lattice = found.lattice
    names = ("n_spanning", "centre", "binary", "independent", "split", "released", "frame_kind", "dropped")
    return fields(found, *names) | {
        "groups": [typed(label) for label in found.groups],
        "n_users": list(found.n_users.values()),
        "n_rows": list(found.n_rows.values()),
        "n_unlabelled": list(found.n_unlabelled.values()),
        "columns": None if found.columns is None else fields(found.columns, *COLUMNS, "weight", "count"),
        "lattice": fields(lattice, "n_cells", "low", "high", "scale", "discrete", "open_ended") | {"edges": lattice.edges},
        "rows": [{name: value for name, value in row.items() if name != "group"} for row in found.rows()],
    }


def sums(found: es.Tally) -> dict[str, Any]:
    """Each vector's total, and its total with the cells numbered from 1: a sum in the wrong cell shows in the second."""
    return {
        f"{typed(label)}, per {weighting}": {
            name: [vector.sum(), vector @ np.arange(1.0, len(vector) + 1)]
            for name, vector in fields(found.sums(label, weighting), *VECTORS).items()
        }
        for label in found.groups
        for weighting in WEIGHTINGS
    }


def curves(found: es.Tally, **options: Any) -> dict[str, Any]:
    """Curves with their standard errors and bands."""
    return es.curves(found, **options).to_dict()


def parity(found: es.Tally, **options: Any) -> dict[str, Any]:
    """A parity test: p-values, gaps, verdicts, regions and points."""
    return es.parity_test(found, **options).to_dict()


def ordering(found: es.Tally, **options: Any) -> dict[str, Any]:
    """An ordering test."""
    return es.ordering_test(found, **options).to_dict()


def marginal(found: es.Tally, **options: Any) -> dict[str, Any]:
    """A marginal test, with outcomes and averages by group."""
    return es.marginal_test(found, **options).to_dict()


def thresholds(found: es.Tally, **options: Any) -> dict[str, Any]:
    """Fair thresholds, with limits and rates."""
    return es.fair_thresholds(found, **options).to_dict()


def calibration_error(found: es.Tally, **options: Any) -> dict[str, Any]:
    """A calibration error by group, overall and between groups."""
    return es.calibration_error(found, **options).to_dict()


def impact(found: es.Tally, **options: Any) -> dict[str, Any]:
    """What calibrated scores would change about decisions."""
    return es.classification_impact(found, **options).to_dict()


def calibrated(found: es.Tally, **options: Any) -> dict[str, Any]:
    """A calibrator fitted on a golden tally."""
    return maps(es.calibrate(found, **options))


def audited(found: Any, **options: Any) -> dict[str, Any]:
    """The headline numbers of an audit."""
    return headline(es.audit(found, **options).to_dict())


def headline(document: dict[str, Any]) -> dict[str, Any]:
    """What an audit says in the end, and what its parts say; their details are computed one by one above."""
    names = ("schema", "schema_version", "verdict", "alpha", "tolerance", "max_gap", "minimum_detectable_gap", "gate")
    return {name: document[name] for name in names} | {"subjects": [_subject(each) for each in document["subjects"]]}


def _subject(document: dict[str, Any]) -> dict[str, Any]:
    names = ("score", "attribute", "verdict", "alpha", "decides", "minimum_detectable_gap", "max_gap", "groups")
    found = {name: document[name] for name in (*names, "threshold", "positive")}
    found["tests"] = {
        name: {part: test[part] for part in ("verdict", "p_value", "max_gap", "minimum_detectable_gap") if part in test}
        for name, test in document["tests"].items()
    }
    if document["repair"] is not None:
        verification = document["repair"]["verification"]
        numbers = ("p_value", "verdict", "rms_gap_before", "rms_gap_after")
        found["repair"] = None if verification is None else {name: verification[name] for name in numbers}
    return found


def released(found: es.Tally, min_users: int) -> dict[str, Any]:
    """A coarser tally, with its sums and a test on them."""
    coarse = found.release(min_users=min_users)
    return {"content": content(coarse), "sums": sums(coarse), "parity": parity(coarse, both=False)}


def added(*tallies: es.Tally) -> dict[str, Any]:
    """Tallies added up: their sums, and what rests on pair sums, folds and the centre."""
    total = sum(tallies[1:], start=tallies[0])
    fitted = calibrated(total)
    del fitted["fingerprint"]  # of every bit: three tallies added in another order differ in the last
    return {"content": content(total), "sums": sums(total), "curves": curves(total), "maps": fitted}


# New rows, by arithmetic alone: random numbers could change from version to version


def new_rows(n_users: int, labels: tuple[Any, ...], first_user: int = 10_000_000) -> dict[str, Any]:
    """Three rows for each of so many users whom no golden tally knows."""
    row = np.arange(3 * n_users)
    score = np.round(row * 0.6180339887498949 % 1, 6)
    outcome = (row * 0.7548776662466927 % 1 < score).astype(np.int64)
    groups = [labels[number % len(labels)] for number in (row // 3).tolist()]
    return {"score": score, "outcome": outcome, "group": groups, "user": first_user + row // 3}


def new_scan(golden: es.Tally, **changes: Any) -> es.Tally:
    """New rows counted on the lattice of a golden tally."""
    rows = new_rows(90, golden.groups) | changes
    return es.tally(rows, **COLUMNS, lattice=golden)


def real_scan(golden: es.Tally) -> es.Tally:
    """The same with real outcomes far from those of the golden tally, so that the centre moves."""
    rows = new_rows(90, golden.groups)
    return new_scan(golden, score=300 + 550 * rows["score"], outcome=5000.0 + 3 * rows["outcome"] + rows["score"])


def discrete_scan(golden: es.Tally) -> es.Tally:
    """The same with values of which the golden tally knows some."""
    rows = new_rows(90, golden.groups)
    return es.tally(rows | {"score": np.round(rows["score"] * 20) / 20}, **COLUMNS)


def tuple_scan(golden: es.Tally) -> es.Tally:
    """New rows of an intersection of three columns, with one part that the golden tally does not know."""
    rows = new_rows(60, ("f", "m", "x"))
    row = np.arange(len(rows["score"]))
    rows |= {"score": np.round(rows["score"] * 4) / 4, "sex": rows["group"], "band": 10 * (row // 9 % 3), "new": row // 9 % 3 < 2}
    return es.tally(rows, **COLUMNS | {"group": ["sex", "band", "new"]}, lattice=golden)


def objective_rows(n_users: int = 120) -> dict[str, Any]:
    """Two scores and two outcomes a row; the labels of groups are those of the golden joint calibrators."""
    rows = new_rows(n_users, ("a", "b"))
    row = np.arange(3 * n_users)
    second = np.round(row * 0.3247179572447461 % 1, 6)
    return {
        "score_like": np.clip(rows["score"], 0.02, 0.98),
        "score_buy": np.clip(np.round(second * 8) / 8, 0.05, 0.95),
        "like": rows["outcome"],
        "buy": (row * 0.5698402909980532 % 1 < 0.3 * rows["score"] + 0.5 * second).astype(np.int64),
        "group": rows["group"],
        "user": rows["user"],
    }


OBJECTIVES = {"scores": ["score_like", "score_buy"], "outcomes": ["like", "buy"], "group": "group", "user": "user"}


# Calibrators


@functools.cache
def calibrator(name: str) -> es.Calibrator:
    """A golden calibrator of one score."""
    return es.Calibrator.load(FOLDER / f"{name}.calibrator.json")


def maps(found: es.Calibrator) -> dict[str, Any]:
    """The knots of all maps, with standard errors, and what a calibrator says about itself."""
    names = ("method", "weighting", "monotone", "binary", "split", "fingerprint")
    return fields(found, *names) | {
        "groups": [typed(label) for label in found.groups],
        "reference": None if found.reference is None else typed(found.reference),
        "summary_rows": [{name: value for name, value in row.items() if name != "group"} for row in found.summary()],
        "knots": [[row["score"], row["value"], row["se"]] for row in found.rows()],
    }


def transformed(found: es.Calibrator) -> dict[str, Any]:
    """Calibrated scores of each group on a grid over its range and beyond, with standard errors and counts."""
    low, high = found.lattice.low, found.lattice.high
    scores = low + (high - low) * np.array([*GRID, 1.1])
    return {typed(label): _applied(found, scores, label) for label in found.groups}


def _applied(found: es.Calibrator, scores: Any, label: Any) -> dict[str, Any]:
    applied = found.apply(scores, _labels(label, len(scores)))
    errors = found.standard_errors(scores, _labels(label, len(scores)))
    return {"scores": applied.scores, "se": errors, "counts": fields(applied, "n_rows", "n_outside", "n_unknown", "n_null")}


def _labels(label: Any, n_rows: int) -> Any:
    """A column of one label; an intersection has several columns."""
    if isinstance(label, tuple):
        return [_labels(part, n_rows) for part in label]
    column = np.empty(n_rows, dtype=object)
    column[:] = label
    return column


def unknown_groups(found: es.Calibrator) -> dict[str, Any]:
    """Rows of unknown and missing groups, and missing scores, in every way that they can be treated."""
    low, high = found.lattice.low, found.lattice.high
    scores = low + (high - low) * np.array([0.1, 0.4, np.nan, 0.6, 0.9])
    groups = np.array([found.groups[0], "nobody", found.groups[-1], None, found.groups[-1]], dtype=object)
    ways = {way: found.transform(scores, groups, on_unknown=way, nulls="keep") for way in ("pooled", "keep")}
    return ways | {"error": refusal(lambda: found.transform(scores, groups, nulls="keep"))}


def refusal(call: Computation) -> str:
    """The error that a call ends with, by its name."""
    try:
        call()
    except es.EvenscoreError as error:
        return type(error).__name__
    return "no error"


def sql(found: es.Calibrator) -> dict[str, str]:
    """The maps as SQL, word for word: it is deployed elsewhere, and compared with what runs there."""
    joined = found.to_sql(style="join", table="people", on_unknown="keep")
    return {"case": found.to_sql(), "case, pooled": found.to_sql(on_unknown="pooled"), "join, keep": joined}


def lookup(found: es.Calibrator) -> dict[str, Any]:
    """The maps as a table of pieces, and the same as the CSV that is written."""
    with tempfile.TemporaryDirectory() as folder:
        found.save_lookup(Path(folder) / "lookup.csv")
        lines = (Path(folder) / "lookup.csv").read_text().splitlines()
    rows = [list(row.values()) for row in found.lookup()]
    return {"rows": rows, "lines": lines}


def verified(found: es.Calibrator, data: es.Tally, **options: Any) -> dict[str, Any]:
    """Parity and accuracy before and after, on users that were not fitted on."""
    result = es.verify(found, data, **options)
    return fields(result, "p_value", "verdict", "rms_gap_before", "rms_gap_after") | {"gaps": result.gaps(), "rows": result.rows()}


def ranked(found: es.Calibrator) -> dict[str, Any]:
    """Ranks of new rows, five a query."""
    rows = new_rows(100, found.groups)
    rows["query"] = np.arange(len(rows["score"])) // 5
    result = es.rank_impact(rows, query="query", score="score", group="group", user="user", calibrator=found, top_k=2)
    return {"rows": result.rows(), "differences": result.differences()}


# Joint calibrators


@functools.cache
def joint(name: str) -> es.JointCalibrator:
    """A golden calibrator of several scores."""
    return es.JointCalibrator.load(FOLDER / f"{name}.joint.json")


def joint_maps(found: es.JointCalibrator) -> dict[str, Any]:
    """What a joint calibrator says about itself."""
    names = ("method", "weighting", "binary", "split", "fingerprint", "dropped", "scores", "outcomes")
    rows = [{name: value for name, value in row.items() if name != "group"} for row in found.rows()]
    return fields(found, *names) | {"groups": [typed(label) for label in found.groups], "rows": rows}


def joint_transformed(found: es.JointCalibrator) -> dict[str, Any]:
    """Calibrated scores of fixed rows, some of them outside of what was seen, by group and in every way for unknown ones."""
    n_scores = len(found.scores)
    scores = np.array([[(0.07 + 0.13 * row + 0.31 * k * row) % 1.02 for k in range(n_scores)] for row in range(10)])
    results: dict[str, Any] = {}
    for label in found.groups:
        applied = found.apply(scores, _labels(label, len(scores)))
        results[typed(label)] = {"scores": applied.scores, "counts": fields(applied, "n_rows", "n_outside", "n_far")}
    unknown = np.array([found.groups[0], "nobody", None, *[found.groups[-1]] * 7], dtype=object)
    for way in ("pooled", "keep"):
        results[way] = found.transform(scores, unknown, on_unknown=way)
    results["blend"] = found.composite(list(range(1, n_scores + 1))).transform(scores, _labels(found.groups[0], len(scores)))
    return results


def joint_audit(found: es.JointCalibrator) -> dict[str, Any]:
    """An audit of new rows before and after a joint calibrator."""
    result = es.audit_objectives(objective_rows(), **OBJECTIVES, calibrator=found, weights=[1, 2])
    lemma = es.joint_calibration_test(objective_rows(), **OBJECTIVES, calibrator=found)
    swept = es.sweep_weights(objective_rows(), **OBJECTIVES, calibrator=found, steps=2)
    return {"audit": result.rows(), "lemma": lemma.rows(), "sweep": swept.rows()}


# Threshold trials


def trial(name: str) -> es.ThresholdTrial:
    """A golden record of a trial; it changes with every look, so each computation has its own."""
    return es.ThresholdTrial.load(FOLDER / f"{name}.trial.json")


def record(found: es.ThresholdTrial) -> dict[str, Any]:
    """The thresholds, the next ones, what was found in each round, and decisions by the next thresholds."""
    labels = list(found.thresholds)
    scores = np.repeat(np.linspace(0.3, 0.7, 9), len(labels))
    groups = _labels_in_turn(labels, len(scores))
    decided = found.decide(scores, groups, users=np.arange(len(scores)))
    return {
        "record": found.to_dict(),
        "groups": [typed(label) for label in labels],
        "cuts": found.cuts,
        "decided": "".join("01"[int(yes)] for yes in decided),
        "exposed": "".join("01"[int(yes)] for yes in found.exposed(np.arange(60))),
    }


def _labels_in_turn(labels: list[Any], n_rows: int) -> Any:
    column = np.empty(n_rows, dtype=object)
    column[:] = [labels[row % len(labels)] for row in range(n_rows)]
    return column


def next_look(found: es.ThresholdTrial, data: es.Tally) -> dict[str, Any]:
    """A golden trial that goes on, with a golden tally of the next round."""
    return record(found.update(data))


# The command line: user-level files, settings, and files of rows


def run(*words: Any) -> int:
    """The exit code of a command."""
    try:
        main([str(word) for word in words])
    except SystemExit as end:
        return int(end.code or 0)


@contextlib.contextmanager
def scratch(*names: str) -> Iterator[Path]:
    """A folder with copies of golden files, for what writes beside them."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            shutil.copy(FOLDER / name, folder)
        yield Path(folder)


def merged(*names: str) -> dict[str, Any]:
    """User-level files merged to a tally, straight and by way of a user-level file of both."""
    with scratch(*names) as folder:
        paths = [folder / name for name in names]
        codes = [
            run("merge", *paths, "-o", folder / "both.tally", "--quiet"),
            run("merge", *paths, "-o", folder / "both.parquet", "--by-user", "--quiet"),
            run("merge", folder / "both.parquet", "-o", folder / "again.tally", "--quiet"),
        ]
        total, other = (es.Tally.load(folder / name) for name in ("both.tally", "again.tally"))
    return {"codes": codes, "content": content(total), "sums": sums(total), "parity": parity(total), "again": sums(other)}


def next_day(name: str) -> dict[str, Any]:
    """New rows of users of whom some are known, on the lattice of a golden user-level file, merged with it."""
    rows = new_rows(60, ("a", "b"), first_user=100)
    with scratch(name) as folder:
        _write_csv(folder / "day.csv", rows)
        options = [word for role in COLUMNS for word in (f"--{role}", role)]
        day = ["tally", folder / "day.csv", *options, "--by-user", "--lattice", folder / name, "-o", folder / "day.parquet"]
        codes = [run(*day, "--quiet"), run("merge", folder / name, folder / "day.parquet", "-o", folder / "all.tally", "--quiet")]
        total = es.Tally.load(folder / "all.tally")
    return {"codes": codes, "content": content(total), "sums": sums(total), "parity": parity(total)}


def _write_csv(path: Path, rows: dict[str, Any]) -> None:
    lines = [",".join(rows), *(",".join(map(str, row)) for row in zip(*rows.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")


def by_settings(name: str, *more: str) -> dict[str, Any]:
    """The audit that a golden evenscore.toml asks for."""
    with scratch(name, "people.csv") as folder:
        code = run("audit", "--config", folder / name, "--json", folder / "found.json", "--quiet", *more)
        document = json.loads((folder / "found.json").read_text())
        written = sorted(path.name for path in folder.iterdir() if path.name not in (name, "people.csv"))
    return {"code": code, "written": written} | headline(document)


def applied_to_rows(name: str, column: str, *more: str) -> dict[str, Any]:
    """A golden calibrator applied to the golden rows by the command line."""
    with scratch(name, "people.csv") as folder:
        code = run("apply", folder / name, folder / "people.csv", "-o", folder / "new.csv", "--quiet", *more)
        header, *lines = (line.split(",") for line in (folder / "new.csv").read_text().splitlines())
    return {"code": code, "header": header, "values": [float(line[header.index(column)]) for line in lines]}


# Audits, studies, simulations


def compared(before: str, after: str) -> dict[str, Any]:
    """Two golden audits side by side."""
    return es.compare_audits(FOLDER / f"{before}.audit.json", FOLDER / f"{after}.audit.json").to_dict()


def simulation() -> es.Simulation:
    """The golden simulation."""
    return es.Simulation.from_dict(json.loads((FOLDER / "simulation.json").read_text()))


def truth() -> dict[str, Any]:
    """What the golden simulation says is true."""
    found = simulation().truth
    grid = np.array(GRID[1:-1])
    a, b = found.groups
    errors = {typed(group): found.tce(group) for group in found.groups}
    return {"curves": [found.curve(grid, a), found.curve(grid, b)], "gap": found.gap(grid, a, b), "tce": errors}


def drawn_rows() -> dict[str, Any]:
    """Rows of the golden simulation: the same seed gives the same rows."""
    rows = simulation().data(seed=5)
    return {"score": rows["score"], "outcome": rows["outcome"], "user": rows["user"], "group": rows["group"]}


def resumed(cut: bool) -> dict[str, Any]:
    """A golden study that is complete, or whose last line was cut off: it goes on as if nothing had happened."""
    with scratch("study.jsonl") as folder:
        path = folder / "study.jsonl"
        if cut:
            path.write_text(path.read_text()[:-40])
        told: list[tuple[int, int]] = []
        options = {"runs": STUDY_RUNS, "seed": 3, "progress": lambda done, total: told.append((done, total))}
        found = es.study(simulation(), list(STUDY_METHODS), resume=path, **options)
        n_lines = len(path.read_text().splitlines())
    return {"new_runs": len(told), "n_lines": n_lines, "rows": found.rows(), "p_values": found.methods[0].p_value}


STUDY_METHODS = ("bonferroni", "paper", "naive")
STUDY_RUNS = 5


# Which computation belongs to which file

Table = dict[str, Callable[..., Any]]

BASIC: Table = {"content": content, "sums": sums}
CURVES: Table = {
    "curves": curves,
    "curves, per row": functools.partial(curves, weighting="row", degree=0, kernel="epanechnikov", bandwidth="theorem"),
    "maps": calibrated,
}
TESTS: Table = {"parity": parity, "ordering": ordering}
SIZES: Table = {"calibration error": calibration_error}
EVERY_TEST: Table = {
    "curves, grid": functools.partial(curves, grid=GRID[2:-2], degree=2, bandwidth="risk"),
    "parity, tolerance": functools.partial(parity, tolerance=0.03),
    "parity, wide tolerance": functools.partial(parity, tolerance=0.6, alpha=0.1, seed=4),
    "parity, reference": functools.partial(parity, compare="reference", reference="b"),
    "parity, rest": functools.partial(parity, compare="rest", alpha=0.01),
    "parity, per row": functools.partial(parity, weighting="row"),
    "parity, degree 0": functools.partial(parity, degree=0, kernel="gaussian4"),
    "parity, grid": functools.partial(parity, grid=[0.3, 0.5, 0.7], bandwidth=0.1, kernel="triangular"),
    **{
        f"parity, {method}": functools.partial(parity, method=method, both=False)
        for method in ("sup", "multiscale", "l2", "cumulative", "bonferroni", "holm", "bh")
    },
    "ordering, tolerance": functools.partial(ordering, tolerance=0.1, weighting="row"),
    "ordering, reference": functools.partial(ordering, reference="a", degree=0),
    "marginal": functools.partial(marginal, threshold=0.5),
    "marginal, tolerance": functools.partial(marginal, threshold=0.5, tolerance=0.1, positive="below", weighting="row"),
    "marginal, by group": functools.partial(marginal, threshold={"a": 0.5, "b": 0.625, "c": 0.5}, degree=0, reference="c"),
    **{
        f"thresholds, {strategy}": functools.partial(thresholds, threshold=0.5, strategy=strategy)
        for strategy in ("rate", "raise", "lower")
    },
    "thresholds, target": functools.partial(thresholds, threshold=0.5, strategy="target", target=0.45, weighting="row"),
    **{
        f"calibration error, {method}": functools.partial(calibration_error, method=method)
        for method in ("ce_np", "ece", "debiased_ece", "label_binned", "msce", "smooth", "cumulative")
    },
    "calibration error, per row": functools.partial(calibration_error, weighting="row", norm=1, bandwidth="risk"),
    "calibration error, width": functools.partial(calibration_error, method="ece", bins=7, spacing="width", norm=2),
    "calibration error, range": functools.partial(calibration_error, method="cumulative", statistic="range"),
    "impact": functools.partial(impact, threshold=0.5),
    "impact, several": functools.partial(impact, threshold=[0.3, 0.6], positive="below", reference="b", weighting="row"),
    **{f"maps, {method}": functools.partial(calibrated, method=method) for method in ("isotonic", "platt", "binning", "auto")},
    "maps, per row": functools.partial(calibrated, method="isotonic", weighting="row"),
    "maps, reference": functools.partial(calibrated, reference="a"),
    "audit": functools.partial(audited, threshold=0.5, decide=["parity", "ordering", "marginal"]),
    "audit, tolerance": functools.partial(audited, tolerance=0.05, gate="equivalence", require_power=0.3, compare="rest"),
    "released": functools.partial(released, min_users=30),
}
REAL: Table = {  # outcomes around a million, at scores from 300 to 850
    "parity, tolerance": functools.partial(parity, tolerance=20.0),
    "marginal": functools.partial(marginal, threshold=575),
    "thresholds": functools.partial(thresholds, threshold=575, strategy="raise"),
    "audit": functools.partial(audited, threshold=575),
}
SPANNING: Table = {
    "parity, rest": functools.partial(parity, compare="rest"),
    "parity, per row": functools.partial(parity, weighting="row", tolerance=0.1),
    "parity, bonferroni": functools.partial(parity, method="bonferroni", both=False),
    "marginal": functools.partial(marginal, threshold=0.5, alpha=0.1),
    "thresholds": functools.partial(thresholds, threshold=0.5),
    "impact": functools.partial(impact, threshold=0.5),
    "audit": functools.partial(audited, threshold=0.5, alpha=0.1),
    "released": functools.partial(released, min_users=10),
}
WITHHELD: Table = {
    "marginal": functools.partial(marginal, threshold=0.5),
    "thresholds, lower": functools.partial(thresholds, threshold=0.5, strategy="lower"),
    "impact": functools.partial(impact, threshold=0.6),
}
AT_VALUES: Table = {
    "parity, multiscale": functools.partial(parity, method="multiscale"),
    "marginal": functools.partial(marginal, threshold=0.5),
    "thresholds": functools.partial(thresholds, threshold=0.5),
    "impact, all": functools.partial(impact, threshold="all"),
    "calibration error, values": functools.partial(calibration_error, method="ece", bins="values"),
    "audit": functools.partial(audited, threshold=0.5),
}
AT_CUTS: Table = {
    "marginal": functools.partial(marginal, threshold=0.37),
    "thresholds": functools.partial(thresholds, threshold=0.613),
}
PROPOSED: Table = {  # at the thresholds that a golden trial asked for
    "marginal": lambda found: marginal(found, threshold=trial("rate").propose().by_group),
    "marginal, per row": lambda found: marginal(found, threshold=trial("rate").propose().by_group, weighting="row", degree=0),
    "thresholds": lambda found: thresholds(found, threshold=trial("rate").propose().by_group, strategy="lower"),
}
AT_LOW_CUT: Table = {"marginal": functools.partial(marginal, threshold=0.05)}
REAL_OUTCOMES = BASIC | CURVES | TESTS  # scores that are no expected outcomes have no calibration error
USUAL = REAL_OUTCOMES | SIZES
RELEASED = BASIC | TESTS | {"curves": curves}  # user folds, which maps are chosen by, are gone

TALLIES: dict[str, Table] = {
    "binary": USUAL | EVERY_TEST,
    "real": REAL_OUTCOMES | REAL,
    "spanning": USUAL | SPANNING,
    "spanning-real": REAL_OUTCOMES,
    "released": RELEASED | {"audit": audited},
    "released-spanning": RELEASED,
    "released-values": RELEASED,
    "one-group": BASIC | CURVES | SIZES,
    "few-users": USUAL,
    "many-users": USUAL,
    "zero": BASIC,
    "fine": USUAL,
    "cuts": USUAL | AT_CUTS,
    "logit": USUAL,
    "rank-cuts": USUAL | AT_LOW_CUT,
    "discrete": USUAL | AT_VALUES,
    "discrete-many": USUAL | AT_VALUES,
    "discrete-logit": USUAL,
    "discrete-rank": USUAL,
    "weighted": USUAL,
    "counted": USUAL,
    "weighted-counted": USUAL,
    "unlabelled": USUAL | WITHHELD,
    "dropped": USUAL,
    "independent": USUAL,
    "independent-counted": USUAL,
    "first-half": BASIC | CURVES,
    "second-half": BASIC | CURVES,
    "dealt-anew": BASIC | CURVES,
    "next-look": BASIC | TESTS | PROPOSED,
    **{f"labels-{kind}": BASIC for kind in ("int", "bool", "float", "str", "date", "rare", "mixed", "tuple")},
    **{f"{name}-{number}": BASIC for name in ("shard", "shard-real", "values") for number in (1, 2)},
}
ADDED: dict[str, tuple[Computation, ...]] = {
    "shard-1 + shard-2": (lambda: tally("shard-1"), lambda: tally("shard-2")),
    "shard-real-1 + shard-real-2": (lambda: tally("shard-real-1"), lambda: tally("shard-real-2")),
    "values-1 + values-2": (lambda: tally("values-1"), lambda: tally("values-2")),
    "first-half + second-half": (lambda: tally("first-half"), lambda: tally("second-half")),
    "zero + shard-1": (lambda: tally("zero"), lambda: tally("shard-1")),
    "shard-1 + shard-2 + a new scan": (lambda: tally("shard-1"), lambda: tally("shard-2"), lambda: new_scan(tally("shard-1"))),
    "shard-real-1 + a new scan": (lambda: tally("shard-real-1"), lambda: real_scan(tally("shard-real-1"))),
    "values-1 + a new scan": (lambda: tally("values-1"), lambda: discrete_scan(tally("values-1"))),
    "labels-tuple + a new scan": (lambda: tally("labels-tuple"), lambda: tuple_scan(tally("labels-tuple"))),
}
REFUSED: dict[str, Computation] = {
    "a tally + itself": lambda: tally("shard-1") + es.Tally.load(FOLDER / "shard-1.tally"),
    "released + a new scan": lambda: tally("released") + new_scan(tally("released")),
    "users + independent rows": lambda: tally("shard-1") + tally("independent"),
    "verified on the users fitted on": lambda: verified(calibrator("kernel"), tally("first-half"), unseen=True),
    "verified on remembered users": lambda: verified(calibrator("remembering"), tally("values-1"), key=SECRET, unseen=True),
    "verified on some remembered users": lambda: verified(calibrator("remembering"), tally("discrete"), key=SECRET, unseen=True),
}
OF_MAPS: Table = {"maps": maps, "transformed": transformed}
TEXT_LABELS: Table = {"unknown groups": unknown_groups, "lookup": lookup}
CALIBRATORS: dict[str, Table] = {
    "kernel": OF_MAPS
    | TEXT_LABELS
    | {
        "verified": lambda found: verified(found, tally("second-half"), tolerance=0.1),
        "impact": lambda found: impact(tally("second-half"), threshold=0.5, calibrator=found),
        "ranks": ranked,
    },
    "isotonic": OF_MAPS | TEXT_LABELS | {"verified": lambda found: verified(found, tally("second-half"))},
    "platt": OF_MAPS | TEXT_LABELS,
    "binning": OF_MAPS | TEXT_LABELS,
    "binning-width": OF_MAPS | TEXT_LABELS | {"sql": sql},
    "auto": OF_MAPS | TEXT_LABELS,
    "monotone-per-row": OF_MAPS | TEXT_LABELS,
    "reference": OF_MAPS | TEXT_LABELS,
    "remembering": OF_MAPS | {"verified": lambda found: verified(found, tally("values-2"), key=SECRET)},
    "real": OF_MAPS | TEXT_LABELS,
    "few-users": OF_MAPS | TEXT_LABELS,
    "labels-tuple": OF_MAPS | {"lookup": lookup, "sql": lambda found: found.to_sql()},
    "labels-mixed": OF_MAPS,
}
OF_JOINT_MAPS: Table = {"maps": joint_maps, "transformed": joint_transformed}
JOINT: dict[str, Table] = {
    "auto": OF_JOINT_MAPS | {"audit": joint_audit},
    **dict.fromkeys(("kernel", "kernel-even", "guided", "logistic", "linear", "one-score"), OF_JOINT_MAPS),
}
TRIALS: dict[str, Table] = {
    "rate": {"record": record, "next look": lambda found: next_look(found, tally("next-look"))},
    **{name: {"record": record} for name in ("second-look", "explore", "target")},
}
OTHERS: dict[str, Computation] = {
    "days-*.users.parquet: merged": lambda: merged("days-1.users.parquet", "days-2.users.parquet"),
    "text-days-*.users.parquet: merged": lambda: merged("text-days-1.users.parquet", "text-days-2.users.parquet"),
    "days-1.users.parquet: next day": lambda: next_day("days-1.users.parquet"),
    "evenscore.toml: audit": lambda: by_settings("evenscore.toml"),
    "every-key.toml: audit": lambda: by_settings("every-key.toml"),
    "people.csv: applied": lambda: applied_to_rows("binning-width.calibrator.json", "calibrated", "--on-unknown", "pooled"),
    "*.audit.json: before, after": lambda: compared("before", "after"),
    "*.audit.json: after, before": lambda: compared("after", "before"),
    "simulation.json: truth": truth,
    "simulation.json: rows": drawn_rows,
    "study.jsonl: resumed": lambda: resumed(cut=False),
    "study.jsonl: resumed, cut off": lambda: resumed(cut=True),
}


# All of them by name


def quietly(compute: Callable[..., Any], *loads: Computation) -> Any:
    """A computation in plain values, on arguments that are loaded now; evenscore's warnings are no part of the numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", es.EvenscoreWarning)
        # The ordering test of 0.1.0 divides by zero at a score with exactly one effective user, which it leaves out afterwards.
        warnings.filterwarnings("ignore", "divide by zero|invalid value", RuntimeWarning)
        return plain(compute(*(load() for load in loads)))


def _of_files(kind: str, load: Callable[[str], Any], files: dict[str, Table], how: str = "") -> dict[str, Computation]:
    return {
        f"{name}.{kind}{how}: {what}": functools.partial(quietly, compute, functools.partial(load, name))
        for name, table in files.items()
        for what, compute in table.items()
    }


def _some(files: dict[str, Table], *names: str) -> dict[str, Table]:
    return {file: {name: compute for name, compute in table.items() if name in names} for file, table in files.items()}


AGAIN = ", saved again"
REVERSED = ", the other way round"

COMPUTATIONS: dict[str, Computation] = {
    **_of_files("tally", tally, TALLIES),
    **{name: functools.partial(quietly, added, *tallies) for name, tallies in ADDED.items()},
    **{name: functools.partial(refusal, compute) for name, compute in REFUSED.items()},
    **_of_files("calibrator.json", calibrator, CALIBRATORS),
    **_of_files("joint.json", joint, JOINT),
    **_of_files("trial.json", trial, TRIALS),
    **{name: functools.partial(quietly, compute) for name, compute in OTHERS.items()},
}
# What must give the numbers of the computation of the same name without these words.
AS_BEFORE: dict[str, Computation] = {
    **_of_files("tally", lambda name: saved_again(tally(name)), _some(TALLIES, "content", "sums", "curves", "maps"), AGAIN),
    **_of_files("calibrator.json", lambda name: saved_again(calibrator(name)), _some(CALIBRATORS, "maps", "transformed"), AGAIN),
    **_of_files("joint.json", lambda name: saved_again(joint(name)), _some(JOINT, "maps", "transformed"), AGAIN),
    **_of_files("trial.json", lambda name: saved_again(trial(name)), TRIALS, AGAIN),
    **{name + REVERSED: functools.partial(quietly, added, *tallies[::-1]) for name, tallies in ADDED.items()},
}


def original(name: str) -> str:
    """The computation whose numbers another one must give."""
    return name.replace(AGAIN, "").removesuffix(REVERSED)
