"""Joint calibrators in use: any data, unknown groups, scores never seen, files, and input that cannot be used."""

import json
import warnings

import numpy as np
import pytest

import evenscore as es
from evenscore.simulation.objectives import feed, simulate_objectives

SPEC = simulate_objectives(120, objectives=["click", "buy"], slopes=((1, 0.4), (0.2, 1)), rows_per_user=3)
DATA = SPEC.data(1)


@pytest.fixture(scope="module")
def joint():
    return es.calibrate_jointly(DATA, **SPEC.columns)


@pytest.fixture(scope="module")
def gridded():
    return es.calibrate_jointly(DATA, **SPEC.columns, method="kernel", bandwidth=0.5)


# One score


@pytest.mark.parametrize(("method", "single"), [("auto", "auto"), ("kernel", "kernel"), ("logistic", "platt")])
def test_one_score_is_calibrate(method, single, tmp_path):
    found = es.calibrate_jointly(DATA, scores=["score_click"], outcomes=["click"], group="group", user="user", method=method)
    tally = es.tally(DATA, score="score_click", outcome="click", group="group", user="user")
    expected = es.calibrate(tally, method=single).transform(DATA["score_click"], DATA["group"])
    assert np.array_equal(found.transform(DATA), expected[:, None])
    assert np.array_equal(found.composite([2]).transform(DATA), 2 * expected)
    found.save(tmp_path / "one.json")
    assert np.array_equal(es.JointCalibrator.load(tmp_path / "one.json").transform(DATA)[:, 0], expected)
    assert [row["users"] for row in found.rows()] == [120, 120] and "click" in repr(found)


def test_one_score_refuses_methods_for_several():
    with pytest.raises(es.OptionError, match="is for several scores"):
        es.calibrate_jointly(DATA, scores=["score_click"], outcomes=["click"], group="group", user="user", method="guided")


# Any data


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "csv", "parquet", "duckdb", "arrays"])
def test_any_data_gives_the_same_maps(kind, tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(DATA)
    columns = SPEC.columns
    if kind == "arrays":
        data, columns = None, {"scores": [DATA[n] for n in SPEC.score_columns], "outcomes": [DATA["click"], DATA["buy"]]}
        columns |= {"group": DATA["group"], "user": DATA["user"]}
    elif kind == "csv":
        frame.write_csv(tmp_path / "d.csv")
        data = tmp_path / "d.csv"
    elif kind == "parquet":
        frame.write_parquet(tmp_path / "d.parquet")
        data = str(tmp_path / "*.parquet")
    elif kind == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        connection = duckdb.connect()
        connection.register("frame", frame.to_arrow())
        data = connection.sql("SELECT * FROM frame")
    else:
        data = SPEC.data(1, frame=kind)
    found = es.calibrate_jointly(data, **columns, method="logistic")
    expected = es.calibrate_jointly(DATA, **SPEC.columns, method="logistic")
    scores = np.column_stack([DATA[name] for name in SPEC.score_columns])
    assert found.transform(scores, DATA["group"]) == pytest.approx(expected.transform(scores, DATA["group"]), abs=1e-9)
    if kind in ("pandas", "polars", "pyarrow"):
        assert np.array_equal(found.transform(data), found.transform(DATA))
        assert np.array_equal(found.transform(data, "group"), found.transform(data, data["group"]))
        assert type(found.frame()).__module__.startswith(kind)


def test_intersections_and_labels_of_any_type(tmp_path):
    data = DATA | {"age": np.where(DATA["user"] % 3 == 0, 1, 2)}
    joint = es.calibrate_jointly(data, **(SPEC.columns | {"group": ["group", "age"]}), method="logistic")
    assert joint.groups == (("a", 1), ("a", 2), ("b", 1), ("b", 2))
    found = joint.transform(data)
    assert np.array_equal(found, joint.transform(data, [data["group"], data["age"]]))
    joint.save(tmp_path / "joint.json")
    again = es.JointCalibrator.load(tmp_path / "joint.json")
    assert again.groups == joint.groups and np.array_equal(again.transform(data), found)


# Blends


def test_composites_blend_without_refitting(joint):
    found = joint.transform(DATA)
    assert joint.composite([1, 3]).transform(DATA) == pytest.approx(found @ [1, 3])
    assert joint.composite({"buy": 3, "click": 1}).weights == joint.composite({"score_buy": 3, "score_click": 1}).weights == (1, 3)
    assert joint.composite({"buy": 1}).transform(DATA) == pytest.approx(found[:, 1])


@pytest.mark.parametrize(
    ("weights", "message"),
    [([1], "2 weights"), ([0, 0], "not all 0"), ([1, np.nan], "finite"), ({"like": 1}, "'click', 'buy'"), ("ab", "numbers")],
)
def test_weights_that_cannot_be_used(joint, weights, message):
    with pytest.raises(es.OptionError, match=message):
        joint.composite(weights)


# Unknown groups, scores never seen, missing scores


def test_unknown_groups(joint):
    scores = np.array([[0.3, 0.4], [0.3, 0.4], [0.3, 0.4]])
    labels = np.array(["a", "z", None], dtype=object)
    with pytest.raises(es.DataError, match=r"1 unknown and 1 missing of 3 labels, such as 'z'"):
        joint.transform(scores, labels)
    with pytest.warns(es.EvenscoreWarning, match="2 rows of unknown or missing groups kept their scores"):
        kept = joint.transform(scores, labels, on_unknown="keep")
    assert kept[1].tolist() == kept[2].tolist() == [0.3, 0.4]
    pooled = joint.apply(scores, labels, on_unknown="pooled")
    assert pooled.n_unknown == 2 and pooled.rows()[-1]["rows"] == 2
    assert np.array_equal(pooled.scores[0], joint.transform(scores[:1], ["a"])[0])
    low, high = joint.apply(scores[:1].repeat(2, axis=0), ["a", "b"]).scores
    assert np.array_equal(pooled.scores[1], pooled.scores[2])
    assert ((pooled.scores[1] > np.minimum(low, high) - 0.1) & (pooled.scores[1] < np.maximum(low, high) + 0.1)).all()


def test_scores_never_seen_are_held_constant_and_counted(joint, gridded):
    for calibrator in (joint, gridded):
        top = np.array([DATA[name][DATA["group"] == "a"].max() for name in SPEC.score_columns])
        beyond = np.array([[0.999999, 0.999999], top])
        applied = calibrator.apply(beyond, ["a", "a"])
        assert applied.scores[0] == pytest.approx(applied.scores[1], abs=1e-9)
        assert applied.n_outside == 1
        with pytest.warns(es.EvenscoreWarning, match="outside the range seen in training"):
            calibrator.transform(beyond, ["a", "a"])


def test_scores_that_nobody_came_near_together_are_counted(gridded):
    mine = DATA["group"] == "a"
    low = [np.quantile(DATA[name][mine], 0.02) for name in SPEC.score_columns]
    high = [np.quantile(DATA[name][mine], 0.98) for name in SPEC.score_columns]
    odd = gridded.apply(np.array([[low[0], high[1]], [high[0], low[1]], [0.5, 0.5]]), ["a"] * 3)
    assert odd.n_outside == 0 and odd.n_far == 2
    assert "nobody in training came near" in repr(odd)


def test_missing_scores(joint):
    data = {"score_click": [0.2, None, 0.4], "score_buy": [0.1, 0.2, np.nan]}
    with pytest.raises(es.DataError, match=r"'score_click' \(score\) is null or NaN in 1 of 3 rows"):
        joint.transform(data, ["a", "a", "b"])
    applied = joint.apply(data, ["a", "a", "b"], nulls="keep")
    assert applied.n_null == 2 and np.isnan(applied.scores).all(axis=1).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("data", "groups", "message"),
    [
        (np.zeros((3, 3)), ["a"] * 3, r"shape \(n_rows, 2\)"),
        (np.zeros((3, 2)), None, "groups=None"),
        (np.full((3, 2), 0.5), ["a"], "must have the same length"),
        ({"score_click": [0.1]}, ["a"], "no column 'score_buy'"),
        ({"score_click": [0.1, 0.2], "score_buy": [0.1]}, ["a"], "same number of rows"),
        ({"score_click": ["x"], "score_buy": [0.1]}, ["a"], "does not hold a number"),
        (DATA, "sex", "no column 'sex'"),
    ],
)
def test_data_that_cannot_be_transformed(joint, data, groups, message):
    with pytest.raises(es.EvenscoreError, match=message):
        joint.transform(data, groups)


def test_nothing_is_transformed_to_nothing(joint):
    assert joint.transform(np.zeros((0, 2)), np.array([], dtype="U1")).shape == (0, 2)


def test_a_group_with_few_users_gets_the_maps_of_everybody():
    few = DATA | {"group": np.where(DATA["user"] < 4, "few", DATA["group"])}
    with pytest.warns(es.EvenscoreWarning, match="few has only 4 users with an outcome"):
        joint = es.calibrate_jointly(few, **SPEC.columns, method="logistic")
    scores = np.array([[0.4, 0.6]])
    assert joint.maps[joint.groups.index("few")].source == "pooled"
    assert np.array_equal(joint.transform(scores, ["few"]), joint.apply(scores, ["?"], on_unknown="pooled").scores)


# Input that cannot be fitted


@pytest.mark.parametrize(
    ("changed", "options", "message"),
    [
        ({}, {"outcomes": ["click"]}, "2 scores and 1 outcomes"),
        ({}, {"scores": [], "outcomes": []}, "at least one score"),
        ({}, {"scores": "score_click"}, "must be a list"),
        ({}, {"scores": ["score_click"] * 2}, "named more than once"),
        ({}, {"scores": ["score_click", "nope"]}, "no column 'nope' for score"),
        ({"score_buy": np.full(len(DATA["user"]), 0.3)}, {}, r"'score_buy' \(score\) is 0.3 in all .* constant score"),
        ({"buy": np.full(len(DATA["user"]), np.nan)}, {}, r"'buy' \(outcome\) is null in all .* nothing is labelled"),
        ({"buy": np.where(DATA["group"] == "a", np.nan, DATA["buy"])}, {}, "labelled in no row of group 'a'"),
        ({"buy": np.where(DATA["user"] == 0, np.nan, DATA["buy"])}, {"nulls": "error"}, "nulls='unlabelled'"),
        ({"score_buy": np.where(DATA["user"] == 0, np.nan, DATA["score_buy"])}, {}, "nulls='drop'"),
        ({"buy": DATA["buy"] + 0.5}, {"method": "logistic"}, "'buy' has others"),
        ({}, {"method": "forest"}, "'auto', 'kernel'"),
        ({}, {"bandwidth": (0.1,)}, "one for each of 2 scores"),
        ({}, {"bandwidth": -1}, "positive number"),
        ({}, {"bandwidth": "wide"}, "'risk', 'rule'"),
        ({}, {"degree": 2}, "degree=2"),
        ({}, {"scale": "rank"}, "'auto', 'score', 'logit'"),
        ({}, {"weighting": "group"}, "'user', 'row'"),
        ({}, {"split": "3/2"}, "numbered from 1"),
    ],
)
def test_bad_input(changed, options, message):
    with pytest.raises(es.EvenscoreError, match=message):
        es.calibrate_jointly(DATA | changed, **(SPEC.columns | options))


def test_five_scores_are_too_many_for_a_kernel_but_not_for_a_regression():
    names = list("vwxyz")
    spec = simulate_objectives(60, objectives=names)
    for method in ("kernel", "guided"):
        with pytest.raises(es.OptionError, match=r"at most 4 scores, not 5.*method='logistic'"):
            es.calibrate_jointly(spec.data(1), **spec.columns, method=method)
    joint = es.calibrate_jointly(spec.data(1), **spec.columns)
    assert joint.transform(spec.data(1)).shape == (480, 5)
    assert {row["method"] for row in joint.rows()} <= {"logistic", "logistic with squares"}


def test_four_scores_get_a_kernel():
    spec = simulate_objectives(60, objectives=list("wxyz"))
    joint = es.calibrate_jointly(spec.data(1), **spec.columns, method="kernel", bandwidth="rule")
    assert ((joint.apply(spec.data(2)).scores >= 0) & (joint.apply(spec.data(2)).scores <= 1)).all()


def test_null_scores_can_be_left_out_and_are_counted():
    gone = np.arange(len(DATA["user"])) % 10 == 0
    holes = DATA | {"score_buy": np.where(gone, np.nan, DATA["score_buy"])}
    joint = es.calibrate_jointly(holes, **SPEC.columns, nulls="drop", method="logistic")
    kept = {name: values[~gone] for name, values in DATA.items()}
    assert joint.dropped == {"score_buy": gone.sum()} and "72 rows left out" in repr(joint)
    assert np.array_equal(joint.transform(kept), es.calibrate_jointly(kept, **SPEC.columns, method="logistic").transform(kept))


def test_outcomes_that_never_vary_or_separate_have_finite_maps():
    rare = DATA | {"buy": np.zeros(len(DATA["user"]), dtype=int), "click": (DATA["score_click"] > 0.5).astype(int)}
    for method in ("auto", "logistic", "kernel"):
        found = es.calibrate_jointly(rare, **SPEC.columns, method=method).apply(rare).scores
        assert np.isfinite(found).all() and found[:, 1].max() < 0.05 and found.min() >= 0 and found.max() <= 1


def test_independent_rows_and_text_ids():
    text = DATA | {"user": np.array([f"person {user}" for user in DATA["user"]])}
    joint = es.calibrate_jointly(text, **SPEC.columns, method="logistic")
    assert joint.transform(DATA) == pytest.approx(es.calibrate_jointly(DATA, **SPEC.columns, method="logistic").transform(DATA))
    alone = es.calibrate_jointly(DATA, **(SPEC.columns | {"user": None}), method="logistic")
    assert alone.rows()[0]["users"] == alone.rows()[0]["rows"] == 360


# Files


def test_files_keep_everything(tmp_path):
    spec = simulate_objectives(100, objectives=["x", "y"], kinds=("real", "binary"), groups=[1, 2])
    data = spec.data(1)
    for method in ("auto", "kernel", "linear", "guided"):
        joint = es.calibrate_jointly(data, **spec.columns, method=method, split="1/2")
        joint.save(tmp_path / "joint.json")
        again = es.JointCalibrator.load(tmp_path / "joint.json")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", es.EvenscoreWarning)
            assert np.array_equal(again.transform(data), joint.transform(data))
        assert again.groups == (1, 2) and again.split == "1/2" and repr(again) == repr(joint)
        assert again.to_dict() == joint.to_dict()
    json.dumps(joint.to_dict())


def test_files_that_cannot_be_read(joint, tmp_path):
    path = tmp_path / "joint.json"
    joint.save(path)
    whole = path.read_text()
    document = json.loads(whole)
    changed = document | {"calibrator": document["calibrator"] | {"method": "kernel"}}
    other = tmp_path / "single.json"
    es.calibrate(es.tally(DATA, score="score_buy", outcome="buy", group="group", user="user")).save(other)
    for content, message in (
        ("", "is empty"),
        (whole[:500], "cut off"),
        ("[1, 2]", "not a saved joint calibrator"),
        (other.read_text(), "es.Calibrator.load"),
        (json.dumps(document | {"version": 99}), "version 99.*update evenscore"),
        (json.dumps(changed), "checksum does not match"),
        (json.dumps(document | {"calibrator": {}}), "valid joint calibrator"),
    ):
        path.write_text(content)
        with pytest.raises(es.FileError, match=message):
            es.JointCalibrator.load(path)
    with pytest.raises(es.FileError, match="cannot read"):
        es.JointCalibrator.load(tmp_path / "nowhere.json")


def test_results_show_themselves(joint):
    rows = joint.rows()
    assert [(row["group"], row["outcome"]) for row in rows] == [("a", "click"), ("a", "buy"), ("b", "click"), ("b", "buy")]
    assert "score_click for click" in repr(joint) and "<table>" in joint._repr_html_()
    assert feed(10).columns["scores"] == ["score_like", "score_comment", "score_share"]
