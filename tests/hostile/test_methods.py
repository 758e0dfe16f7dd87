"""Methods of every public class, the estimators, the assertions and written audits, given what they are not."""

import copy
import inspect
import json
import os
import random

import duckdb
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hostile_calls import AUDIT, CALIBRATOR, PAIRS, ROWS, TALLY

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.sklearn import GroupCalibrator
from evenscore.testing import assert_no_disparity, assert_parity
from hostile import FORGED, THOROUGH, VALUES, places, survives

OTHERS = es.tally(as_dict(repeated_users(240, 9, gap=0.2)), **NAMES, lattice=TALLY)
RESULTS = (
    TALLY,
    CALIBRATOR,
    AUDIT,
    es.calibrate_jointly(ROWS, **PAIRS, method="linear"),
    es.ThresholdTrial(TALLY, threshold=0.5, max_step=0.05),
    es.parity_test(TALLY, method="bonferroni"),
    es.curves(TALLY),
    es.marginal_test(TALLY, threshold=0.5),
    es.fair_thresholds(TALLY, threshold=0.5),
    es.classification_impact(TALLY, threshold=0.5),
    es.calibration_error(TALLY),
    es.decision_metrics(TALLY, threshold=0.5),
    es.decision_curves(TALLY),
    es.rows_as_people(TALLY),
    es.ordering_test(TALLY),
    es.plan(TALLY, users=500, method="bonferroni"),
    es.verify(CALIBRATOR, OTHERS, unseen=True, method="bonferroni"),
    es.compare_audits(AUDIT, AUDIT),
    es.better_weights(ROWS, **PAIRS, weights=[1.0, 2.0]),
    es.joint_calibration_test(ROWS, **PAIRS),
    es.audit_objectives(ROWS, **PAIRS, method="bonferroni"),
    es.sweep_weights(ROWS, **PAIRS, method="bonferroni"),
    es.simulate(20),
    es.placebo(ROWS, **NAMES, method="bonferroni", runs=3),
    es.study(es.simulate(20), ["bonferroni"], runs=2),
    es.Gate(),
    es.CurvesDisplay(es.curves(TALLY)),
)
# What a method is given beside the hostile argument.
GIVEN = {"scores": [0.1, 0.5], "groups": [TALLY.groups[0]] * 2, "data": ROWS, "group": TALLY.groups[0], "path": "out.x"}
GIVEN |= {"tally": TALLY, "other": TALLY, "users": [1, 2], "y_true": [0, 1, 1], "y_score": [0.2, 0.4, 0.7]}
INNER = {"map_rows", "check_subject"}  # for the package itself
ELSEWHERE = {"load", "log_mlflow"}  # files have tests of their own, and MLflow a database


def methods():
    for result in RESULTS:
        for name in dir(type(result)):
            shown = not name.startswith("_") or name in ("__add__", "__getitem__")
            if shown and name not in INNER | ELSEWHERE and callable(getattr(result, name, None)):
                yield pytest.param(getattr(result, name), id=f"{type(result).__name__}.{name}")


def sampled(name):
    rng = random.Random(name)
    return VALUES if THOROUGH else rng.sample(VALUES, 9)


@pytest.mark.parametrize("method", list(methods()))
def test_a_method_given_what_it_is_not(method, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parameters = [p for p in inspect.signature(method).parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    usual = {p.name: GIVEN.get(p.name) for p in parameters if p.default is p.empty}
    by_name = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    survives(
        method, *(usual[name] for name in usual if name not in by_name), **{name: usual[name] for name in usual if name in by_name}
    )
    for parameter in parameters:
        for value in sampled(str(method) + parameter.name):
            given = {p.name: usual.get(p.name, p.default) for p in parameters} | {parameter.name: value}
            by_place = [given.pop(p.name) for p in parameters if p.kind is not p.KEYWORD_ONLY]
            survives(method, *by_place, **given)
    plt.close("all")


def test_every_public_class_is_among_them():
    """Errors hold no more than words, es.Lattice stands among the functions with options."""
    classes = {getattr(es, name) for name in es.__all__ if inspect.isclass(getattr(es, name))}
    results = {one for one in classes if not issubclass(one, Exception)} - {es.Lattice}
    assert results == {type(result) for result in RESULTS}


def tried(function, name, **given):
    return sum(survives(function, **given | {name: value}) for value in sampled(function.__name__ + name))


@pytest.mark.parametrize("name", ["data", "calibrator", "score", "group", "name", "on_unknown"])
def test_applying_inside_an_engine(name):
    frame = pd.DataFrame(ROWS)
    tried(es.apply_calibrator, name, data=duckdb.from_df(frame), calibrator=CALIBRATOR)


@pytest.mark.parametrize("name", ['a"b', "x; DROP TABLE t; --", "line\nbreak", "😀", "a" * 10_000, "‮abc"])
def test_the_name_of_a_new_column_is_a_name(name):
    connection = duckdb.connect()
    connection.register("rows", pd.DataFrame(ROWS))
    relation = connection.sql("SELECT * FROM rows")
    assert es.apply_calibrator(relation, CALIBRATOR, name=name).columns[-1] == name
    written = CALIBRATOR.to_sql(table="rows", name=name)
    assert connection.sql(written).columns[-1] == name


@pytest.mark.parametrize("table", ["a; DROP TABLE kept; --", 'it"s', "(SELECT 1)", "‮x", "read_csv('/etc/passwd')", "a.b; SELECT"])
@pytest.mark.parametrize("style", ["case", "join"])
def test_the_name_of_a_table_is_a_name(table, style):
    connection = duckdb.connect()
    connection.register("rows", pd.DataFrame(ROWS))
    quoted = '"' + table.replace('"', '""') + '"'
    connection.execute(f"CREATE TABLE {quoted} AS SELECT * FROM rows")
    found = connection.execute(CALIBRATOR.to_sql(table=table, style=style)).fetchnumpy()["calibrated"]
    assert sorted(found) == pytest.approx(sorted(CALIBRATOR.transform(ROWS["s"], ROWS["g"])), rel=1e-12)


def test_names_of_tables_that_are_plain_stay_so():
    for table in ("people", "main.people", '"odd name".people', "`a`.`b`"):
        assert f"FROM {table}" in CALIBRATOR.to_sql(table=table)


@pytest.mark.parametrize("name", ["simulation", "methods", "runs", "seed", "workers", "resume", "alpha", "truth"])
def test_options_of_a_study(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"simulation": es.simulate(20), "methods": ["bonferroni"], "runs": 1}
    for value in sampled(name):
        large = name in ("runs", "workers") and isinstance(value, int | np.integer) and value > 2
        if not large and not (name == "truth" and callable(value)):  # a function of the caller fails as it likes
            survives(es.study, **given | {name: value})


@pytest.mark.parametrize("assertion", [assert_parity, assert_no_disparity])
@pytest.mark.parametrize("name", ["data", "tolerance", "method", "alpha", "bandwidth", "score", "user"])
def test_assertions(assertion, name):
    def held(**given):
        try:
            assertion(given.pop("data"), **given)
        except AssertionError as error:
            assert len(str(error)) < 5000

    for value in sampled(name):
        survives(held, **{"data": ROWS, "tolerance": 0.5, "method": "bonferroni"} | NAMES | {name: value})


X = np.column_stack([ROWS["s"], ROWS["s2"]])
ESTIMATOR = GroupCalibrator().fit(X, ROWS["y"], sensitive_features=ROWS["g"])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize("name", [*GroupCalibrator().get_params(), "X", "y", "sensitive_features", "groups"])
def test_the_estimator(name):
    def fitted(**given):
        data = {key: given.pop(key) for key in ("X", "y", "sensitive_features", "groups")}
        return GroupCalibrator(**given).fit(**data).transform(X, sensitive_features=ROWS["g"])

    usual = {"X": X, "y": ROWS["y"], "sensitive_features": ROWS["g"], "groups": None}
    for value in sampled(name):
        survives(fitted, **usual | {name: value})
        for call in (ESTIMATOR.transform, ESTIMATOR.predict, lambda X, **more: ESTIMATOR.score(X, ROWS["y"], **more)):
            if name in ("X", "sensitive_features"):
                survives(call, **{"X": X, "sensitive_features": ROWS["g"]} | {name: value})
        if name == "y":
            survives(ESTIMATOR.score, X, value, ROWS["g"])


def test_written_audits_with_one_value_replaced():
    document = json.loads(AUDIT.to_json())
    rng = random.Random(0)
    reached = survives(es.compare_audits, document, AUDIT) + survives(es.compare_audits, AUDIT, document)
    for place in places(document):
        for value in (*FORGED, "gone") if THOROUGH else rng.sample((*FORGED, "gone"), 3):
            changed = copy.deepcopy(document)
            inner = changed
            for key in place[:-1]:
                inner = inner[key]
            if value == "gone" and isinstance(inner, dict):
                inner.pop(place[-1])
            else:
                inner[place[-1]] = value
            reached += survives(es.compare_audits, changed, document) + survives(es.compare_audits, document, changed)
    assert reached > 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" * 200_000, "is not JSON"),
        ('{"a":' * 100_000, "is not JSON"),
        ("9" * 10_000, "is not JSON"),
        ("\ufeff{}", "is not JSON|is not an audit"),
        ('"' + "x" * 1_000_000, "is not JSON"),
        ("{}", "is not an audit"),
    ],
    ids=range(6),
)
def test_written_audits_that_are_none(content, message, tmp_path):
    (tmp_path / "audit.json").write_text(content)
    with pytest.raises(es.FileError, match=message):
        es.compare_audits(tmp_path / "audit.json", AUDIT)


def test_a_record_of_a_study_that_nests_without_end(tmp_path):
    path = tmp_path / "study.jsonl"
    study = {"simulation": es.simulate(20), "methods": ["bonferroni"], "runs": 1, "resume": path}
    es.study(**study)
    first = path.read_text().splitlines()[0]
    for line in ("[" * 200_000, '{"run": 1e400, "results": {}}', '{"run": [], "results": 3}', "9" * 10_000):
        path.write_text(f"{first}\n{line}\n")
        with pytest.raises(es.FileError, match="line 2 is not a run of a study"):
            es.study(**study)
    path.write_text("[" * 200_000 + "\n")
    with pytest.raises(es.FileError, match="is not the record of a study"):
        es.study(**study)
    assert os.listdir(tmp_path) == ["study.jsonl"]  # noqa: PTH208
