import sys

import numpy as np
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users


@pytest.fixture(scope="module")
def tally():
    return es.tally(as_dict(repeated_users(20_000, seed=1)), **NAMES)


def test_rows_are_tidy(tally):
    rows = es.curves(tally).rows()
    names = ["group", "score", "estimate", "se", "ci_low", "ci_high", "band_low", "band_high", "effective_users"]
    assert list(rows[0]) == names
    assert rows == sorted(rows, key=lambda row: (row["group"], row["score"]))
    for row in rows:
        assert row["band_low"] < row["ci_low"] < row["estimate"] < row["ci_high"] < row["band_high"]


def test_frames_of_every_kind(tally):
    curves = es.curves(tally, grid=[0.3, 0.5])
    for kind in ("pandas", "polars", "pyarrow"):
        frame = curves.frame(kind)
        assert type(frame).__module__.split(".")[0] == kind
        assert list(frame["group"].to_numpy() if kind != "pyarrow" else frame["group"].to_pylist()) == [0, 0, 1, 1]


def test_a_frame_of_a_library_that_is_not_there(tally, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)  # as if it were not installed
    with pytest.raises(es.EvenscoreError, match=r"polars is not installed; .* or use \.rows\(\)"):
        es.curves(tally, grid=[0.4]).frame("polars")


def test_a_result_remembers_the_kind_of_frame():
    pl = pytest.importorskip("polars")
    curves = es.curves(es.tally(pl.DataFrame(as_dict(repeated_users(500))), **NAMES), grid=[0.4])
    assert isinstance(curves.frame(), pl.DataFrame)


def test_no_value_is_invented(tally):
    rng = np.random.default_rng(0)
    score = np.concatenate([rng.uniform(0.1, 0.3, 2000), rng.uniform(0.7, 0.9, 2000)])
    data = {"s": score, "y": rng.random(4000) < score, "g": [0] * 4000, "u": np.arange(4000)}
    found = es.curves(es.tally(data, **NAMES, scale="score"), grid=[0.2, 0.5, 0.8], bandwidth=0.03)[0]
    np.testing.assert_array_equal(np.isnan(found.estimate), [False, True, False])
    np.testing.assert_array_equal(np.isnan(found.se), [False, True, False])
    np.testing.assert_array_equal(np.isnan(found.band_low), [False, True, False])


def test_few_values_are_not_smoothed():
    rng = np.random.default_rng(0)
    score = rng.integers(1, 6, 5000)
    data = {"s": score, "y": rng.random(5000) < score / 10, "g": ["x"] * 5000, "u": np.arange(5000)}
    found = es.curves(es.tally(data, **NAMES))["x"]
    np.testing.assert_array_equal(found.score, [1, 2, 3, 4, 5])
    for value, estimate, se in zip(found.score, found.estimate, found.se, strict=True):
        mine = data["y"][score == value]
        assert estimate == pytest.approx(mine.mean())
        n = len(mine)
        assert se == pytest.approx(np.sqrt(mine.var() / n) * n / (n - 1))


def test_covariance_is_whole(tally):
    found = es.curves(tally)[0]
    np.testing.assert_allclose(found.covariance, found.covariance.T)
    assert np.linalg.eigvalsh(found.covariance).min() > -1e-12
    np.testing.assert_allclose(found.se, np.sqrt(np.diag(found.covariance)))


def test_repeating_every_row_changes_nothing(tally):
    data = {name: np.repeat(column, 3) for name, column in as_dict(repeated_users(20_000, seed=1)).items()}
    again = es.curves(es.tally(data, **NAMES, lattice=tally), grid=[0.3, 0.6], bandwidth=0.05)
    once = es.curves(tally, grid=[0.3, 0.6], bandwidth=0.05)
    for group in (0, 1):
        np.testing.assert_allclose(again[group].estimate, once[group].estimate)
        np.testing.assert_allclose(again[group].se, once[group].se)


def test_coverage():
    """Pointwise intervals and simultaneous bands of a known curve, with dependent rows: within Monte Carlo error of 95 %."""
    grid = np.linspace(0.15, 0.85, 8)
    truth = 0.2 + 0.5 * grid
    inside_points, inside_band = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        user = np.repeat(np.arange(300), rng.poisson(3, 300) + 1)
        score = rng.random(len(user))
        shared = rng.random(300)[user]
        draw = np.where(rng.random(len(user)) < 0.5, shared, rng.random(len(user)))
        data = {"s": score, "y": draw < 0.2 + 0.5 * score, "g": [0] * len(user), "u": user}
        found = es.curves(es.tally(data, **NAMES), grid=grid)[0]
        inside_points.append(((found.ci_low < truth) & (truth < found.ci_high)).mean())
        inside_band.append(bool(((found.band_low < truth) & (truth < found.band_high)).all()))
    assert 0.93 < np.mean(inside_points) < 0.975
    assert 0.91 < np.mean(inside_band) < 0.985


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0}, "alpha=0"),
        ({"alpha": 1.5}, "alpha=1.5"),
        ({"degree": 5}, "degree=5"),
        ({"kernel": "x"}, "gaussian"),
        ({"weighting": "people"}, "'user', 'row'"),
        ({"grid": []}, "finite scores"),
        ({"grid": [np.nan]}, "finite numbers"),
        ({"bandwidth": "wide"}, "'test', 'band'"),
    ],
)
def test_impossible_options(tally, options, message):
    with pytest.raises(es.OptionError, match=message):
        es.curves(tally, **options)


def test_json_and_html(tally):
    import json

    curves = es.curves(tally, grid=[0.4])
    assert json.loads(json.dumps(curves.to_dict()))["rows"][0]["group"] == 0
    assert "<table>" in curves._repr_html_()
    assert "local linear" in repr(curves)
