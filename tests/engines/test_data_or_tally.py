"""Every function that takes a tally takes data with its columns too, and gives the same."""

import inspect
import typing

import numpy as np
import pandas as pd
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.engines.data_or_tally import DataColumns

DATA = as_dict(repeated_users(2000, 1, gap=0.2, weights=True))
AT = {"threshold": 0.5}
CALLS = {
    "parity_test": ({}, lambda test: test.rows()),
    "ordering_test": ({}, lambda test: test.rows()),
    "curves": ({}, lambda curves: curves.rows()),
    "marginal_test": (AT, lambda test: test.rows()),
    "calibration_error": ({}, lambda error: error.rows()),
    "classification_impact": (AT, lambda impact: impact.rows()),
    "decision_metrics": (AT, lambda found: found.rows() + list(found.comparisons)),
    "rows_as_people": ({}, lambda found: found.rows()),
    "decision_curves": ({}, lambda found: found.rows() + list(found.areas)),
    "fair_thresholds": (AT, lambda thresholds: thresholds.rows()),
    "calibrate": ({}, lambda calibrator: calibrator.rows()),
    "plan": ({"users": 500}, lambda plan: plan.rows()),
    "ThresholdTrial": (AT | {"max_step": 0.05}, lambda trial: trial.propose().rows()),
    "audit": (AT | {"repair": False}, lambda audit: audit.rows()),
}
CUT = {"marginal_test", "classification_impact", "decision_metrics", "fair_thresholds", "ThresholdTrial", "audit"}


def test_every_function_with_a_tally_is_here():
    functions = [name for name in es.__all__ if name.islower()]
    takes = {name for name in functions if "tally" in inspect.signature(getattr(es, name)).parameters}
    assert len(takes) > 8 and takes <= set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_data_give_what_their_tally_gives(name, tmp_path):
    options, rows = CALLS[name]
    call = getattr(es, name)
    cuts = {"cuts": [0.5]} if name in CUT else {}
    tally = es.tally(DATA, **NAMES, weight="v", **cuts)
    wanted = rows(call(tally, **options))
    path = tmp_path / "data.parquet"
    pd.DataFrame(DATA).to_parquet(path)
    tally.save(tmp_path / "saved.tally")
    for data in (DATA, pd.DataFrame(DATA), path):
        np.testing.assert_equal(rows(call(data, **NAMES, weight="v", **options)), wanted)
    np.testing.assert_equal(rows(call(str(tmp_path / "saved.tally"), **options)), wanted)


@pytest.mark.parametrize("name", CALLS)
def test_what_is_missing_is_named(name):
    options, _ = CALLS[name]
    call = getattr(es, name)
    with pytest.raises(es.OptionError, match=r"missing: user=, which says whose row it is.*false alarms; user=None, written out"):
        call(DATA, score="s", outcome="y", group="g", **options)
    with pytest.raises(es.OptionError, match="missing: outcome=, group="):
        call(DATA, score="s", user="u", **options)
    tally = es.tally(DATA, **NAMES, cuts=[0.5])
    with pytest.raises(es.OptionError, match="a tally is made once and for all; leave out outcome="):
        call(tally, outcome="y", **options)
    if name != "audit":
        with pytest.raises(es.DataError, match=f"es.{name} takes a tally, or data with the names of its columns, not 7"):
            call(7, **options)
    with pytest.raises(TypeError, match="unexpected keyword argument 'outcomes'"):
        call(tally, outcomes="y", **options)
    if name == "rows_as_people":
        with pytest.raises(es.DataError, match="rows are people"):
            call(DATA, **NAMES | {"user": None}, **options)
    else:
        assert call(DATA, **NAMES | {"user": None}, **options) is not None


@pytest.mark.parametrize("user", ["unsaid", "UNSAID", "user", "None"])
def test_a_user_column_may_have_any_name(user):
    data = {user if name == "u" else name: column for name, column in DATA.items()}
    columns = NAMES | {"user": user}
    assert es.audit(data, **columns, repair=False).rows() == es.audit(DATA, **NAMES, repair=False).rows()
    assert es.parity_test(data, **columns).p_value == es.parity_test(DATA, **NAMES).p_value


def test_columns_are_those_of_tally():
    named = set(typing.get_type_hints(DataColumns))
    assert named == set(inspect.signature(es.tally).parameters) - {"data", "progress", "way"}


def test_what_is_missing_is_said_with_what_there_is():
    with pytest.raises(es.OptionError, match=r"missing: score=, outcome=, group=, user=; .*; the data has: s, y$"):
        es.audit({"s": [0.5], "y": [1]})
    with pytest.raises(es.OptionError, match=r"missing: group=; .*; the data has: s, y$"):
        es.parity_test(pd.DataFrame({"s": [0.5], "y": [1]}), score="s", outcome="y", user=None)


def test_a_file_and_a_name_that_were_probably_meant(tmp_path):
    (tmp_path / "holdout.csv").write_text("s,y\n0.5,1\n")
    with pytest.raises(es.FileError, match=r"no file .*holdout\.cvs; did you mean .*holdout\.csv\?"):
        es.parity_test(tmp_path / "holdout.cvs", score="s", outcome="y", group="g", user=None)
    with pytest.raises(AttributeError) as caught:
        es.parity_tests  # noqa: B018
    assert caught.value.name == "parity_tests" and "parity_test" in dir(caught.value.obj)  # what a traceback's hint needs
