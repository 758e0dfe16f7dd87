"""Every export gives the numbers of ``transform``, by being run."""

import datetime

import duckdb
import numpy as np
import pandas
import pytest

import evenscore as es
from evenscore.calibration.export import lookup_rows

# Other engines add up value + slope * (s - origin) in the same order; the last bit may differ where one fuses the product.
TOLERANCE = 1e-12

N = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


def relabelled(labels, users=300, seed=5):
    """Simulated data of two groups with other labels."""
    data = es.simulate(users, curve={"a": (0, 1), "b": (-0.7, 0.8)}).data(seed=seed)
    groups = np.empty(len(data["group"]), dtype=object)
    groups[:] = [labels[0] if group == "a" else labels[1] for group in data["group"]]
    return data | {"group": groups}


@pytest.fixture(scope="module")
def tally():
    return es.tally(relabelled(("men", "it's women")), **N)


CASES = {
    "kernel": {},
    "isotonic": {"method": "isotonic"},
    "platt": {"method": "platt"},
    "binning": {"method": "binning"},
    "auto": {"method": "auto"},
    "reference": {"reference": "men"},
}


@pytest.fixture(scope="module", params=CASES, ids=str)
def calibrator(request, tally):
    return es.calibrate(tally, **CASES[request.param])


@pytest.fixture(scope="module")
def rows(tally):
    """Scores in and beyond the range, exactly on knots, and missing ones; known, unknown and missing groups."""
    rng = np.random.default_rng(0)
    knots = np.concatenate([each.score for each in es.calibrate(tally).maps])
    score = np.concatenate([rng.random(400), knots, [-3.0, 5.0, 0.0, 1.0]])
    group = rng.choice(np.array(["men", "it's women", "nobody", None], dtype=object), len(score), p=[0.4, 0.4, 0.1, 0.1])
    return score, group


def expected(calibrator, rows, on_unknown):
    score, group = rows
    if on_unknown != "null":
        with pytest.warns(es.EvenscoreWarning, match="unknown or missing"):
            return calibrator.transform(score, group, on_unknown=on_unknown)
    known = np.isin(group.astype(str), ["men", "it's women"])
    found = np.full(len(score), np.nan)
    found[known] = calibrator.apply(score[known], group[known]).scores
    return found


def in_duckdb(sql, score, group):
    connection = duckdb.connect()
    people = pandas.DataFrame({"id": range(len(score)), "score": np.array(score, dtype=float), "group": group})
    connection.register("frame", people)
    connection.execute('CREATE TABLE people AS SELECT id, CASE WHEN NOT isnan(score) THEN score END AS score, "group" FROM frame')
    found = connection.execute(f"SELECT id, calibrated FROM ({sql}) ORDER BY id").fetchnumpy()
    assert found["id"].tolist() == list(range(len(score)))
    return np.ma.filled(found["calibrated"].astype(float), np.nan)


@pytest.mark.parametrize("style", ["case", "join"])
@pytest.mark.parametrize("on_unknown", ["null", "pooled", "keep"])
def test_sql(calibrator, rows, style, on_unknown):
    sql = calibrator.to_sql(style=style, table="people", on_unknown=on_unknown)
    np.testing.assert_allclose(in_duckdb(sql, *rows), expected(calibrator, rows, on_unknown), rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("style", ["case", "join"])
def test_a_missing_score_stays_missing_in_sql(calibrator, style):
    for on_unknown in ("null", "pooled", "keep"):
        sql = calibrator.to_sql(style=style, table="people", on_unknown=on_unknown)
        assert np.isnan(in_duckdb(sql, [None, None], ["men", "nobody"])).all()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_lookup_table(calibrator, rows, kind, tmp_path):
    """As a user would: an inequality join with the file."""
    path = tmp_path / f"table.{kind}"
    calibrator.save_lookup(path)
    score, group = rows
    sql = f"""SELECT people.*, t.value + t.slope * (score - t.origin) AS calibrated FROM people
        LEFT JOIN '{path}' AS t ON people."group" = t."group" AND score >= t.score_from AND score < t.score_to"""
    found = in_duckdb(sql, score, group)
    np.testing.assert_allclose(found, expected(calibrator, rows, "null"), rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("on_unknown", ["null", "pooled", "keep"])
def test_onnx(calibrator, rows, on_unknown, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    path = tmp_path / "model.onnx"
    calibrator.save_onnx(path, on_unknown)
    score, group = rows
    session = onnxruntime.InferenceSession(str(path))
    text = np.array(["missing" if label is None else label for label in group], dtype=object)
    found = session.run(None, {"score": score, "group": text})[0]
    np.testing.assert_allclose(found, expected(calibrator, rows, on_unknown), rtol=TOLERANCE, atol=TOLERANCE)
    assert np.isnan(session.run(None, {"score": np.array([np.nan]), "group": np.array(["men"], dtype=object)})[0]).all()


def test_onnx_with_integer_labels(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    calibrator = es.calibrate(es.tally(relabelled((3, 7)), **N))
    calibrator.save_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    score, group = np.linspace(0.1, 0.9, 50), np.tile([3, 7], 25)
    found = session.run(None, {"score": score, "group": group})[0]
    np.testing.assert_allclose(found, calibrator.transform(score, group), rtol=TOLERANCE)


@pytest.mark.parametrize("labels", [(1, "1"), (True, "True")], ids=str)
def test_labels_that_become_one_text_are_refused(labels, tmp_path):
    calibrator = es.calibrate(es.tally(relabelled(labels), **N))
    assert calibrator.apply([0.5, 0.5], np.array(labels, dtype=object)).n_unknown == 0
    for export in (
        calibrator.to_sql,
        lambda: calibrator.save_lookup(tmp_path / "t.csv"),
        lambda: calibrator.save_lookup(tmp_path / "t.parquet"),
        lambda: calibrator.save_onnx(tmp_path / "m.onnx"),
    ):
        with pytest.raises(es.EvenscoreError, match="same text"):
            export()
    assert list(tmp_path.iterdir()) == []


TYPED = {"int": (1, 2), "bool": (True, False), "float": (1.5, 2.5), "date": (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1))}


@pytest.mark.parametrize("labels", TYPED.values(), ids=TYPED)
def test_sql_literals_of_other_types(labels):
    calibrator = es.calibrate(es.tally(relabelled(labels), **N))
    kind = {int: "BIGINT", bool: "BOOLEAN", float: "DOUBLE", datetime.date: "DATE"}[type(labels[0])]
    connection = duckdb.connect()
    connection.execute(f'CREATE TABLE people (score DOUBLE, "group" {kind})')
    connection.executemany("INSERT INTO people VALUES (?, ?)", [[0.4, label] for label in labels])
    found = [row[-1] for row in connection.execute(calibrator.to_sql(table="people")).fetchall()]
    objects = np.empty(2, dtype=object)
    objects[:] = labels
    np.testing.assert_allclose(found, calibrator.transform([0.4, 0.4], objects), rtol=TOLERANCE)


def test_intersections_in_sql_and_tables(tmp_path):
    curves = {"a": (0, 1), "b": (-0.5, 1), "c": (0.5, 1), "d": (0, 0.5)}
    data = es.simulate(dict.fromkeys(curves, 200), curve=curves).data(seed=2)
    data["sex"] = np.where(np.isin(data["group"], ["a", "b"]), "f", "m")
    data["old"] = np.isin(data["group"], ["b", "d"]).astype(int)
    calibrator = es.calibrate(es.tally(data, score="score", outcome="outcome", group=["sex", "old"], user="user"))
    assert calibrator.groups == (("f", 0), ("f", 1), ("m", 0), ("m", 1))
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (score DOUBLE, sex VARCHAR, old BIGINT)")
    people = [[0.3, "f", 0], [0.3, "f", 1], [0.3, "m", 0], [0.3, "m", 1], [0.3, "x", 1]]
    connection.executemany("INSERT INTO people VALUES (?, ?, ?)", people)
    sex, old = np.array([p[1] for p in people]), np.array([p[2] for p in people])
    own = calibrator.transform([0.3] * 4, [sex[:4], old[:4]])
    for style in ("case", "join"):
        found = {row[1:3]: row[3] for row in connection.execute(calibrator.to_sql(style=style, table="people")).fetchall()}
        np.testing.assert_allclose([found["f", 0], found["f", 1], found["m", 0], found["m", 1]], own, rtol=TOLERANCE)
        assert found["x", 1] is None
    calibrator.save_lookup(tmp_path / "t.parquet")
    kept = duckdb.sql(f"SELECT DISTINCT sex, old FROM '{tmp_path / 't.parquet'}' WHERE sex IS NOT NULL").fetchall()
    assert sorted(kept) == [("f", 0), ("f", 1), ("m", 0), ("m", 1)]


def test_what_an_export_needs(calibrator, tmp_path):
    with pytest.raises(es.OptionError, match="table="):
        calibrator.to_sql(style="join")
    with pytest.raises(es.OptionError, match="made of 1 columns"):
        calibrator.to_sql(group=["a", "b"])
    with pytest.raises(es.OptionError, match="'null', 'pooled', 'keep'"):
        calibrator.to_sql(on_unknown="error")
    with pytest.raises(es.OptionError, match=r"\.csv or \.parquet"):
        calibrator.save_lookup(tmp_path / "table.xlsx")
    assert {row["group"] for row in lookup_rows(calibrator)} == {"men", "it's women", None}
