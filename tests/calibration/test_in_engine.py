"""A calibrator inside an engine gives what ``transform`` gives."""

import datetime

import duckdb
import numpy as np
import pandas as pd
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users

DATA = as_dict(repeated_users(6_000, seed=2))
LABELS = np.array(['it\'s \\ "a"', "b"])
TEXT = DATA | {"g": LABELS[DATA["g"]]}
SCORES = np.concatenate([np.random.default_rng(0).random(400), [0.0, 1.0, -2.0, 3.0, 0.5, np.nan]])
pytestmark = pytest.mark.filterwarnings("ignore:.*outside the range seen in training:evenscore.errors.EvenscoreWarning")
METHODS = ["kernel", "isotonic", "platt", "binning"]


def scored(labels):
    groups = np.array([*labels, "someone else" if isinstance(labels[0], str) else 99])
    return pd.DataFrame({"s": SCORES, "g": groups[np.arange(len(SCORES)) % 3], "id": np.arange(len(SCORES))})


def expected(calibrator, frame, on_unknown):
    known = frame["g"].isin(calibrator.groups).to_numpy() & frame["s"].notna().to_numpy()
    wanted = np.full(len(frame), np.nan)
    wanted[known] = calibrator.transform(frame["s"].to_numpy()[known], frame["g"].to_numpy()[known])
    others = ~known & frame["s"].notna().to_numpy()
    if on_unknown != "null":
        scores = frame["s"].to_numpy()[others]
        wanted[others] = scores if on_unknown == "keep" else calibrator.pooled.at(scores)
    return wanted


def check(found, frame, wanted):
    found = found.sort_values("id")
    assert list(found.columns) == ["s", "g", "id", "calibrated"]
    np.testing.assert_allclose(found["calibrated"].to_numpy(dtype=float), wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("on_unknown", ["null", "pooled", "keep"])
@pytest.mark.parametrize("method", METHODS)
def test_duckdb(method, on_unknown):
    calibrator = es.calibrate(es.tally(TEXT, **NAMES), method=method)
    frame = scored(LABELS.tolist())
    relation = es.apply_calibrator(duckdb.connect().from_df(frame), calibrator, on_unknown=on_unknown)
    check(relation.df(), frame, expected(calibrator, frame, on_unknown))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("engine", ["dask", "ibis"])
def test_dask_and_ibis(engine):
    calibrator = es.calibrate(es.tally(DATA, **NAMES))
    frame = scored([0, 1])
    if engine == "dask":
        dd = pytest.importorskip("dask.dataframe")
        found = es.apply_calibrator(dd.from_pandas(frame, npartitions=3), calibrator, on_unknown="keep").compute()
    else:
        ibis = pytest.importorskip("ibis")
        connection = ibis.duckdb.connect()
        connection.con.register("scored", frame)
        found = es.apply_calibrator(connection.table("scored"), calibrator, on_unknown="keep").to_pandas()
    check(found, frame, expected(calibrator, frame, "keep"))


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_spark(spark):
    calibrator = es.calibrate(es.tally(TEXT, **NAMES))
    frame = scored(LABELS.tolist())
    found = es.apply_calibrator(spark.createDataFrame(frame), calibrator, on_unknown="pooled").toPandas()
    check(found, frame, expected(calibrator, frame, "pooled"))


def test_intersections_and_dates():
    days = np.array([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)], dtype=object)
    data = DATA | {"day": days[DATA["u"] % 2], "ok": DATA["u"] % 3 > 0}
    calibrator = es.calibrate(es.tally(data, **NAMES | {"group": ["day", "ok"]}))
    frame = pd.DataFrame({name: data[name][:200] for name in ("s", "day", "ok")})
    found = es.apply_calibrator(duckdb.connect().from_df(frame), calibrator).df()["calibrated"]
    wanted = calibrator.transform(data["s"][:200], list(zip(data["day"][:200], data["ok"][:200].tolist(), strict=True)))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_what_cannot_be_applied_says_so():
    calibrator = es.calibrate(es.tally(DATA, **NAMES))
    relation = duckdb.connect().from_df(scored([0, 1]))
    with pytest.raises(es.DataError, match=r"use calibrator\.transform"):
        es.apply_calibrator({"s": [1]}, calibrator)
    with pytest.raises(es.DataError, match="no column 'x'; the data has: s, g, id"):
        es.apply_calibrator(relation, calibrator, score="x")
    with pytest.raises(es.OptionError, match="made of 1 columns; group= names 2"):
        es.apply_calibrator(relation, calibrator, group=["g", "id"])
    with pytest.raises(es.OptionError, match="on_unknown='error' is not known"):
        es.apply_calibrator(relation, calibrator, on_unknown="error")
