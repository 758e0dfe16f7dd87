"""The calibrator as an object: labels, counts, files, bad input."""

import json

import numpy as np
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users

COLUMNS = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


@pytest.fixture(scope="module")
def tally():
    return es.tally(as_dict(repeated_users(6000, seed=1)), **NAMES)


@pytest.fixture(scope="module")
def calibrator(tally):
    return es.calibrate(tally)


def labelled(labels, n_users=60):
    """Data whose groups are these labels."""
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(n_users * len(labels)), 4)
    group = np.empty(len(user), dtype=object)
    group[:] = [labels[u % len(labels)] for u in user.tolist()]
    score = rng.random(len(user))
    return {"s": score, "y": (rng.random(len(user)) < score).astype(int), "g": group, "u": user}


# Scores and groups


def test_scores_outside_the_range_are_held_constant_and_counted(calibrator):
    each = calibrator.map_of(0)
    with pytest.warns(es.EvenscoreWarning, match="3 scores lie outside"):
        found = calibrator.transform([-5.0, 0.5, 7.0, 1e70], [0, 0, 0, 0])
    assert found.tolist() == [each.value[0], each.at(0.5), each.value[-1], each.value[-1]]
    applied = calibrator.apply([-5.0, 0.5, 7.0, 9.0], [0, 0, 0, 1])
    assert (applied.n_outside, applied.n_unknown, applied.n_null) == (3, 0, 0)
    assert [(row["group"], row["rows"], row["below"], row["above"]) for row in applied.rows()] == [(0, 3, 1, 1), (1, 1, 0, 1)]
    assert "outside the range" in repr(applied)


def test_unknown_and_missing_groups(calibrator):
    scores, groups = [0.2, 0.4, 0.6, 0.8], np.array([0, 9, None, "1"], dtype=object)
    with pytest.raises(
        es.DataError, match=r"2 unknown and 1 missing of 4 labels.*9.*knows 0, 1; 1 is known as int.*'pooled'.*'keep'"
    ):
        calibrator.transform(scores, groups)
    with pytest.warns(es.EvenscoreWarning, match="3 rows of unknown or missing groups got the pooled map"):
        pooled = calibrator.transform(scores, groups, on_unknown="pooled")
    np.testing.assert_array_equal(pooled[1:], calibrator.pooled.at(scores[1:]))
    with pytest.warns(es.EvenscoreWarning, match="kept their scores"):
        kept = calibrator.transform(scores, groups, on_unknown="keep")
    assert kept[1:].tolist() == scores[1:] and kept[0] == pooled[0] == calibrator.map_of(0).at(0.2)
    assert calibrator.apply(scores, groups, on_unknown="keep").n_unknown == 3
    assert np.isnan(calibrator.standard_errors(scores, groups, on_unknown="keep")).tolist() == [False, True, True, True]


def test_missing_scores(calibrator):
    with pytest.raises(es.DataError, match=r"scores.*null or NaN in 1 of 3 rows.*nulls='keep'"):
        calibrator.transform([0.1, np.nan, 0.3], [0, 0, 1])
    with pytest.warns(es.EvenscoreWarning, match="1 score is missing"):
        found = calibrator.transform([0.1, np.nan, 0.3], [0, 0, 1], nulls="keep")
    assert np.isnan(found).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("scores", "groups", "words"),
    [
        ([0.1, 0.2], [0], "groups has 1 values, scores has 2"),
        ([0.1, np.inf], [0, 1], "not finite"),
        (["a", "b"], [0, 1], "number"),
        ([[0.1, 0.2]], [0], "."),
        (np.array([[0.1], [0.2]]), [0, 1], "one dimension"),
    ],
    ids=["lengths", "infinite", "text", "nested", "two dimensions"],
)
def test_bad_scores(calibrator, scores, groups, words):
    with pytest.raises(es.EvenscoreError, match=words):
        calibrator.transform(scores, groups)


def test_no_rows_at_all(calibrator):
    assert calibrator.transform([], []).shape == (0,)


def test_every_kind_of_column(calibrator):
    import pandas
    import polars
    import pyarrow

    scores, groups = np.linspace(0.1, 0.9, 9), np.tile([0, 1, 0], 3)
    expected = calibrator.transform(scores, groups)
    for kind in (list, pandas.Series, polars.Series, lambda x: pyarrow.chunked_array([x])):
        np.testing.assert_array_equal(calibrator.transform(kind(scores), kind(groups)), expected)
    np.testing.assert_array_equal(
        calibrator.transform(scores.astype(np.float32), groups.astype(np.uint8)),
        calibrator.transform(scores.astype(np.float32), groups),
    )
    categories = pandas.Series(pandas.Categorical(["x", "y", "x"]))
    text = es.calibrate(es.tally(labelled(["x", "y"]), **NAMES))
    np.testing.assert_array_equal(text.transform(scores[:3], categories), text.transform(scores[:3], ["x", "y", "x"]))


def test_labels_of_another_type_are_other_labels():
    calibrator = es.calibrate(es.tally(labelled([1, "1"]), **NAMES))
    ones = np.array([1, "1"], dtype=object)
    found = calibrator.transform([0.3, 0.3], ones)
    assert found[0] == calibrator.map_of(1).at(0.3) != found[1] == calibrator.map_of("1").at(0.3)
    for stranger in (True, 1.0):
        assert calibrator.apply([0.3], np.array([stranger], dtype=object), on_unknown="keep").n_unknown == 1


def test_intersections():
    data = labelled([("f", 1), ("f", 2), ("m", 1)])
    data |= {"sex": np.array([g[0] for g in data["g"]]), "age": np.array([g[1] for g in data["g"]])}
    calibrator = es.calibrate(es.tally(data, score="s", outcome="y", group=["sex", "age"], user="u"))
    sex, age = np.array(["m", "f", "m", "x"], dtype=object), np.array([1, 2, 2, 1])
    with pytest.raises(es.DataError, match=r"2 unknown of 4"):
        calibrator.transform([0.5] * 4, [sex, age])
    applied = calibrator.apply([0.5] * 4, [sex, age], on_unknown="pooled")
    assert applied.n_unknown == 2
    wanted = [calibrator.map_of(("m", 1)).at(0.5), calibrator.map_of(("f", 2)).at(0.5), *[calibrator.pooled.at(0.5)] * 2]
    np.testing.assert_array_equal(applied.scores, wanted)
    np.testing.assert_array_equal(calibrator.transform([0.5], [("m", 1)]), wanted[:1])
    sex[0] = None
    assert calibrator.apply([0.5] * 4, [sex, age], on_unknown="keep").n_unknown == 3
    with pytest.raises(es.OptionError, match="2 columns"):
        calibrator.transform([0.5], ["m"])


# Groups with little to go on


def test_small_empty_and_constant_groups():
    data = labelled(["large", "constant", "single score"])
    data["y"][data["g"] == "constant"] = 0
    data["s"][data["g"] == "single score"] = 0.7
    few = {name: np.concatenate([column, column[:3]]) for name, column in data.items()}
    few["g"][-3:], few["u"][-3:] = "few", [1001, 1002, 1003]
    tally = es.tally(few, **NAMES)
    with pytest.warns(es.EvenscoreWarning, match="group few has only 3 users"):
        calibrator = es.calibrate(tally)
    assert calibrator.map_of("few").source == "pooled" and "few" in calibrator.reasons
    np.testing.assert_array_equal(calibrator.map_of("few").value, calibrator.pooled.value)
    assert (calibrator.map_of("constant").value == 0).all() and (calibrator.map_of("constant").covariance == 0).all()
    single = calibrator.map_of("single score")
    assert len(single.score) == 1 and single.value[0] == pytest.approx(data["y"][data["g"] == "single score"].mean())
    for method in ("isotonic", "platt", "binning", "auto"):
        with pytest.warns(es.EvenscoreWarning, match="few"):
            found = es.calibrate(tally, method=method)
        assert all(np.isfinite(each.value).all() and np.isfinite(each.factor).all() for each in found.maps)


def test_a_group_without_outcomes_gets_the_pooled_map():
    data = labelled(["a", "b"])
    data["y"] = data["y"].astype(float)
    data["y"][data["g"] == "b"] = np.nan
    with pytest.warns(es.EvenscoreWarning, match="group b has only 0 users"):
        calibrator = es.calibrate(es.tally(data, **NAMES, nulls="unlabelled"))
    assert calibrator.map_of("b").source == "pooled"


def test_few_distinct_scores_are_not_smoothed():
    data = labelled(["a"]) | {}
    data["s"] = np.round(data["s"] * 4) / 4
    calibrator = es.calibrate(es.tally(data, **NAMES))
    weight = 1 / 4
    for value in (0, 0.25, 0.5, 0.75, 1):
        mine = data["s"] == value
        assert calibrator.map_of("a").at(value) == pytest.approx((weight * data["y"][mine]).sum() / (weight * mine.sum()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "spline"}, "'kernel', 'isotonic', 'platt', 'binning', 'auto'"),
        ({"degree": 3}, "degree=3"),
        ({"kernel": "cosine"}, "gaussian"),
        ({"kernel": "gaussian4"}, "degree=0"),
        ({"bandwidth": -1}, "positive number"),
        ({"bandwidth": "silverman"}, "'risk'"),
        ({"method": "binning", "bins": 0}, "bins=0"),
        ({"method": "binning", "bin_by": "count"}, "'mass', 'width'"),
        ({"weighting": "person"}, "'user', 'row'"),
        ({"remember_users": "short"}, "at least 8"),
    ],
    ids=str,
)
def test_bad_options(tally, options, words):
    with pytest.raises(es.OptionError, match=words):
        es.calibrate(tally, **options)


def test_what_cannot_be_calibrated(tally):
    with pytest.raises(es.OptionError, match="missing: score="):
        es.calibrate({"s": [1]})
    with pytest.raises(es.DataError, match="nothing to calibrate"):
        es.calibrate(type(tally).zero(tally.lattice))


# Files


OPTIONS = [{}, {"method": "auto"}, {"method": "binning"}, {"reference": 0}, {"remember_users": "a long secret"}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_file_holds_everything(tally, options, tmp_path):
    calibrator = es.calibrate(tally, **options)
    calibrator.save(tmp_path / "map.json")
    again = es.Calibrator.load(tmp_path / "map.json")
    assert again.to_dict() == calibrator.to_dict() and again.lattice == calibrator.lattice and again.columns == tally.columns
    scores, groups = np.linspace(0, 1, 500), np.tile([0, 1], 250)
    np.testing.assert_array_equal(again.apply(scores, groups).scores, calibrator.apply(scores, groups).scores)
    np.testing.assert_array_equal(again.map_of(1).covariance, calibrator.map_of(1).covariance)
    assert json.loads((tmp_path / "map.json").read_text())["version"] == 1


def test_labels_keep_their_type_in_a_file(tmp_path):
    for labels in ([1, "1"], [True, "True"], [1.5, 2]):
        calibrator = es.calibrate(es.tally(labelled(labels), **NAMES))
        calibrator.save(tmp_path / "map.json")
        again = es.Calibrator.load(tmp_path / "map.json")
        assert [(type(g), g) for g in again.groups] == [(type(g), g) for g in calibrator.groups]


def test_damaged_newer_and_other_files_are_refused(calibrator, tmp_path):
    path = tmp_path / "map.json"
    calibrator.save(path)
    text = path.read_text()
    document = json.loads(text)

    def refused(content, words):
        path.write_text(content)
        with pytest.raises(es.FileError, match=words):
            es.Calibrator.load(path)

    refused(text[: len(text) // 2], "cut off")
    refused("", "is empty")
    refused("[1, 2]", "not a saved calibrator")
    refused('{"format": "something else"}', "not a saved calibrator")
    refused(json.dumps(document | {"version": 2}), "version 2.*update evenscore")
    changed = json.loads(text)
    changed["calibrator"]["maps"][0]["value"][3] += 0.25
    refused(json.dumps(changed), "damaged or was edited")
    changed = json.loads(text)
    changed["calibrator"]["maps"][0]["surprise"] = 1
    refused(json.dumps(changed), "not hold a valid calibrator")
    path.write_text(json.dumps(document, indent=4))  # another layout of the same content
    assert es.Calibrator.load(path).fingerprint == calibrator.fingerprint
    with pytest.raises(es.FileError, match="cannot read"):
        es.Calibrator.load(tmp_path / "none.json")


def test_a_calibrator_does_not_change(calibrator):
    with pytest.raises(AttributeError):
        calibrator.method = "other"
    assert calibrator.rows()[0].keys() == {"group", "score", "value", "se"}
    assert "local linear" in repr(calibrator) and "<table>" in calibrator._repr_html_()
    with pytest.raises(es.OptionError, match="no group 5"):
        calibrator.map_of(5)
