"""What groups are called: by their column, or in the caller's words; rows and JSON keep the values."""

import copy
import pickle

import numpy as np
import pytest

import evenscore as es
from evenscore.errors import OptionError
from evenscore.naming import GroupNames, current_names, find_label

HOSTILE = '<b onclick="x">\x1b[31m=cmd|A1'


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    sex = rng.integers(0, 2, 2000)
    score = rng.random(2000)
    outcome = (rng.random(2000) < 0.2 + 0.4 * score + 0.2 * sex).astype(float)
    return {"s": score, "y": outcome, "sex": sex, "old": score > 0.5, "race": np.array(["w", "b"])[rng.integers(0, 2, 2000)]}


COLUMNS = {"score": "s", "outcome": "y", "user": None}


@pytest.mark.parametrize(
    ("label", "name"),
    [(1, "g = 1"), (1.0, "g = 1"), (True, "g = True"), (2.5, "g = 2.5"), ("1", "1"), ("men", "Männer"), (None, "None")],
)
def test_a_label_is_named_by_its_kind(label, name):
    assert GroupNames(("g",), {("g", "men"): "Männer"}).of(label) == name


def test_parts_of_an_intersection_have_their_own_columns():
    names = GroupNames(("sex", "race"), {("race", "w"): "White"})
    assert names.of((1, "w")) == "sex = 1 × White" and names.of((True, 0)) == "sex = True × race = 0"
    assert GroupNames().of((1, "w")) == "1 × w"


def test_results_call_numeric_groups_by_their_column_and_keep_the_values(data):
    before = current_names()
    test = es.parity_test(data, group="sex", **COLUMNS)
    assert test.rows()[0]["group_a"] == 0 and test.to_dict()["pairs"][0]["group_a"] == 0
    for text in (repr(test), test.reason, test._repr_html_(), copy.copy(test).reason, pickle.loads(pickle.dumps(test)).reason):
        assert "sex = 0" in text and "sex = 1" in text
    assert current_names() == before


def test_truth_values_and_intersections(data):
    tally = es.tally(data, group=["old", "sex"], **COLUMNS)
    assert "old = True × sex = 1" in repr(tally) and tally.groups[0] == (False, 0)


def test_labels_name_groups_wherever_an_audit_shows_them(data):
    audit = es.audit(data, group="sex", labels={"sex": {0: HOSTILE, 1: "men"}}, repair=False, **COLUMNS)
    document = audit.to_dict()
    assert [row["group"] for row in document["subjects"][0]["groups"]] == [0, 1]
    for text in (audit.text(), audit.text(verbose=True), audit.to_html(), audit._repr_html_()):
        assert "men" in text and "\x1b" not in text and "sex = 1" not in text
    assert '<b onclick="x">' not in audit.to_html() and '<b onclick="x">' not in audit._repr_html_()
    assert document["provenance"]["configuration"]["labels"] == {"sex": {"0": HOSTILE, "1": "men"}}


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"sx": {1: "men"}}, "no group column 'sx'; did you mean 'sex'"),
        ({"sex": {3: "men"}}, "sex has no value '3' .there are: 0, 1"),
        ({"sex": {0: "same", 1: "same"}}, "0 and 1 would both be called 'same'"),
        ({"sex": {1: ""}}, "which is no text"),
        ({"sex": "men"}, "must be a dict by column"),
    ],
)
def test_labels_for_nothing_are_refused(data, labels, words):
    with pytest.raises(es.OptionError, match=words):
        es.audit(data, group="sex", labels=labels, repair=False, **COLUMNS)


def test_a_reference_may_be_named_as_it_is_shown(data):
    for name in ("1", "sex = 1", "men", 1):
        audit = es.audit(
            data, group="sex", reference=name, labels={"sex": {1: "men"}} if name == "men" else None, repair=False, **COLUMNS
        )
        assert audit.tests["parity"].pairs[0].group_b == 1
    with pytest.raises(es.OptionError, match="no group 'mem'; did you mean 'men'"):
        es.audit(dict(data, sex=np.array(["women", "men"])[data["sex"]]), group="sex", reference="mem", **COLUMNS)


def test_whole_numbers_that_became_fractions_are_found_as_they_are_shown():
    """A column of 0 and 1 holds 0.0 and 1.0 as soon as one value is missing; text that is the same comes first."""
    assert find_label([0.0, 1.0], "--reference", "1") == 1.0
    assert find_label([1.0, "1"], "--reference", "1") == "1"
    with pytest.raises(OptionError, match="no group '2'"):
        find_label([0.0, 1.0], "--reference", "2")
