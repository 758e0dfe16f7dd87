"""Delta-PCC against brute force on rows and against known truth."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from oracle import Rows, row_weights
from scipy import special, stats

import evenscore as es
from data import NAMES, as_dict, repeated_users

EXACT = 1e-9
PUBLIC = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


def brute_force(rows, calibrator, threshold, weighting, positive="above"):
    """Rates before and after, gains and losses, from the rows of one group."""
    weights = row_weights(rows, weighting)
    weights = weights / weights.sum()
    calibrated = calibrator.transform(rows.score, rows.group)
    now, then = rows.score >= threshold, calibrated >= threshold
    if positive == "below":
        now, then = ~now, ~then
    return weights @ now, weights @ then, weights @ (then & ~now), weights @ (now & ~then)


@pytest.fixture(scope="module")
def discrete():
    rows = repeated_users(5000, seed=2, n_groups=3, weights=True, gap=0.2)
    rows = Rows((np.round(rows.score * 80) + 0.5) / 81, rows.outcome, rows.group, rows.user, rows.weight)
    return rows, es.tally(as_dict(rows), **NAMES, weight="v")


@pytest.mark.parametrize("weighting", ["user", "row"])
@pytest.mark.parametrize("positive", ["above", "below"])
@pytest.mark.parametrize("method", ["kernel", "isotonic", "binning", "platt"])
def test_rates_are_those_of_rows(discrete, weighting, positive, method):
    rows, tally = discrete
    calibrator = es.calibrate(tally, method=method, weighting=weighting)
    thresholds = [0.2, 0.41, 0.5, (40 + 0.5) / 81]
    found = es.classification_impact(
        tally, threshold=thresholds, positive=positive, calibrator=calibrator, weighting=weighting, interval=False
    )
    for group in range(3):
        for threshold in thresholds:
            row = found.of(group, threshold)
            expected = brute_force(rows.only(group), calibrator, threshold, weighting, positive)
            assert [row[name] for name in ("rate_before", "rate_after", "gain", "lose")] == pytest.approx(expected, abs=EXACT)
            assert row["estimate"] == pytest.approx(expected[1] - expected[0], abs=EXACT)
            assert row["users_gain"] == pytest.approx(expected[2] * tally.n_users[group])


def test_continuous_scores_are_cut_inside_cells():
    """The tally knows a score up to its cell; the crossing of the map inside a cell is found all the same."""
    rows = repeated_users(40_000, seed=5)
    tally = es.tally(as_dict(rows), **NAMES, cuts=[0.45])
    calibrator = es.calibrate(tally)
    found = es.classification_impact(tally, threshold=0.45, calibrator=calibrator, interval=False)
    for group in (0, 1):
        before, after, gain, lose = brute_force(rows.only(group), calibrator, 0.45, "user")
        row = found.of(group)
        assert row["rate_before"] == pytest.approx(before, abs=EXACT)
        assert (row["rate_after"], row["gain"], row["lose"]) == pytest.approx((after, gain, lose), abs=1e-3)
    assert not any("cell" in note for note in found.notes)
    through = es.classification_impact(tally, threshold=0.4501, calibrator=calibrator, interval=False)
    assert any("runs through a cell" in note for note in through.notes)
    assert through.of(0)["rate_before"] == pytest.approx(brute_force(rows.only(0), calibrator, 0.4501, "user")[0], abs=1e-3)


def true_change(curve, threshold, a=2, b=2):
    """Of scores with a Beta density and a rising logit curve."""
    crossing = special.expit((special.logit(threshold) - curve[0]) / curve[1])
    return stats.beta.sf(crossing, a, b) - stats.beta.sf(threshold, a, b)


def test_limits_cover_the_truth():
    """1000 users, where the curve is flat at one threshold and steep at others; the benchmark has more runs."""
    curve, thresholds = (0.3, 0.6), [0.4, 0.5, 0.7]
    spec = es.simulate({"a": 1000}, curve=curve, rows_per_user=3, outcome_correlation=0.5, score_correlation=0.3)
    inside = []
    for run in range(35):
        found = es.classification_impact(es.tally(spec.data(run), **PUBLIC, cuts=thresholds), threshold=thresholds, seed=run)
        for threshold in thresholds:
            row = found.of("a", threshold)
            inside.append(row["ci_low"] <= true_change(curve, threshold) <= row["ci_high"])
            assert row["after_low"] - row["rate_before"] == pytest.approx(row["ci_low"], abs=0.05)
    assert np.mean(inside) > 0.87


def test_differences_and_ratios_between_groups():
    spec = es.simulate(4000, curve={"a": (0, 1), "b": (-0.6, 1)})
    tally = es.tally(spec.data(3), **PUBLIC, cuts=[0.5])
    found = es.classification_impact(tally, threshold=0.5)
    a, b, everybody = found.of("a"), found.of("b"), found.of(None)
    pair = found.differences()[0]
    assert pair["estimate"] == pytest.approx(a["estimate"] - b["estimate"])
    assert pair["ci_low"] < -true_change((-0.6, 1), 0.5) < pair["ci_high"]
    assert everybody["estimate"] == pytest.approx((a["estimate"] + b["estimate"]) / 2)
    assert everybody["ci_high"] - everybody["ci_low"] < b["ci_high"] - b["ci_low"]
    assert a["ratio_after"] == 1
    assert b["ratio_after"] == pytest.approx(b["rate_after"] / a["rate_after"])
    assert b["ratio_low"] < b["ratio_after"] < b["ratio_high"] < 1
    swapped = es.classification_impact(tally, threshold=0.5, reference="b")
    assert swapped.of("a")["ratio_after"] == pytest.approx(a["rate_after"] / b["rate_after"])
    assert everybody["users_lose"] == pytest.approx(a["users_lose"] + b["users_lose"])


def test_all_thresholds_at_once():
    tally = es.tally(es.simulate(500, curve={"a": (0, 1), "b": (-0.6, 1)}).data(3), **PUBLIC)
    found = es.classification_impact(tally, threshold="all")
    assert len(found.thresholds) == 33
    assert len(found.rows()) == 3 * 33
    for row in found.rows():
        assert row["ci_low"] <= row["ci_high"]
    with pytest.raises(es.OptionError, match="name one of the thresholds"):
        found.of("a")
    json.dumps(found.to_dict(), allow_nan=False)


def test_people_without_an_outcome_count_in_the_rates():
    rng = np.random.default_rng(0)
    score = rng.integers(1, 20, 4000) / 20
    outcome = np.where((rng.random(4000) < 0.5) & (score > 0.5), np.nan, rng.random(4000) < score)
    data = {"s": score, "y": outcome, "g": np.arange(4000) % 2, "u": np.arange(4000)}
    found = es.classification_impact(es.tally(data, **NAMES, nulls="unlabelled"), threshold=0.6)
    assert found.of(0)["rate_before"] == pytest.approx((score[::2] >= 0.6).mean(), abs=EXACT)
    assert not any("without a known outcome" in note for note in found.notes)  # sums of all rows are kept


def test_a_calibrator_that_does_not_know_a_group_uses_the_map_of_everybody():
    known = es.tally(es.simulate({"a": 500, "b": 500}, curve=(-0.5, 1)).data(1), **PUBLIC)
    other = es.tally(es.simulate({"c": 500}, curve=(-0.5, 1)).data(2), **PUBLIC, lattice=known)
    calibrator = es.calibrate(known)
    found = es.classification_impact(other, threshold=0.5, calibrator=calibrator).of("c")
    assert found["estimate"] == pytest.approx(true_change((-0.5, 1), 0.5), abs=0.06)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"threshold": 1.5}, "threshold=1.5 lies outside the scores"),
        ({"threshold": [0.5, -0.1]}, "threshold=-0.1 lies outside"),
        ({"threshold": float("nan")}, "finite"),
        ({"threshold": []}, "names no score"),
        ({"threshold": "half"}, "threshold='half'"),
        ({"threshold": [0.5, "x"]}, "must be numbers"),
        ({"threshold": 0.5, "positive": "left"}, "positive='left'"),
        ({"threshold": 0.5, "alpha": 0}, "alpha=0"),
        ({"threshold": 0.5, "reference": "z"}, "no group 'z'"),
        ({"threshold": 0.5, "weighting": "z"}, "weighting='z'"),
        ({"threshold": 0.5, "calibrator": "platt"}, "calibrator"),
    ],
)
def test_bad_options(discrete, bad, message):
    with pytest.raises(es.OptionError, match=message):
        es.classification_impact(discrete[1], **bad)


def test_scores_that_are_no_outcomes_keep_the_overall_rate():
    rng = np.random.default_rng(0)
    score = rng.integers(300, 850, 3000).astype(float)
    data = {"s": score, "y": rng.random(3000) < (score - 300) / 550, "g": np.arange(3000) % 2, "u": np.arange(3000)}
    tally = es.tally(data, **NAMES)
    kept = es.classification_impact(tally, threshold=600)
    assert kept.keep == "rate" and kept.of(None)["estimate"] == pytest.approx(0, abs=1e-3)
    found = es.classification_impact(tally, threshold=600, calibrator=es.calibrate(tally, reference=0))
    assert found.of(0)["estimate"] == pytest.approx(0, abs=1e-3)
    assert abs(found.of(1)["estimate"]) < 0.1


def test_the_result_shows_itself(discrete):
    found = es.classification_impact(discrete[1], threshold=0.5)
    assert found.groups == (0, 1, 2)
    assert "Change in the positive rate" in repr(found)
    assert "<table>" in found._repr_html_()
    assert len(found.frame()) == 4
    with pytest.raises(es.OptionError, match="no group 9"):
        found.of(9)


def test_the_page_runs():
    """The code of docs/impact.md, in order: men are scored too high, so calibration takes from them."""
    text = (Path(__file__).parents[2] / "docs" / "impact.md").read_text(encoding="utf-8")
    decisions, ranks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names = {}
    exec(decisions, names)
    assert names["impact"].of("men")["ci_high"] < 0
    exec(ranks, names)
    assert names["impact"].of("men")["ci_high"] < 0 < names["impact"].of("women")["ci_low"]


def test_limits_know_that_people_without_an_outcome_could_have_been_others():
    """Outcomes of the selected only: their share was taken for certain, and a change of 9.7 points for exact."""
    rng = np.random.default_rng(0)
    score = rng.random(300)
    outcome = np.where(score >= 0.3, (rng.random(300) < 0.9).astype(float), np.nan)
    data = {"s": score, "y": outcome, "g": np.arange(300) % 2, "u": np.arange(300)}
    tally = es.tally(data, **NAMES, nulls="unlabelled", cuts=[0.3])
    for row in es.classification_impact(tally, threshold=0.3).rows()[:2]:
        assert row["rate_after"] == pytest.approx(1)  # whoever is selected has the outcome nine times in ten
        error = np.sqrt(row["rate_before"] * (1 - row["rate_before"]) / 150)
        assert row["ci_high"] - row["ci_low"] == pytest.approx(3.92 * error, rel=0.15)


@pytest.mark.parametrize("threshold", [0.6, 0.7])
def test_many_rows_a_user_leave_no_bias(threshold):
    """2,000 users of 20 rows: without a guide the map is off by .007 on average, a standard error and more."""
    wrong = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        score = rng.random(40_000)
        outcome = rng.random(len(score)) < special.expit(-1.2 + 1.2 * special.ndtri(score))
        data = {"s": score, "y": outcome, "g": np.zeros(len(score), dtype=int), "u": np.repeat(np.arange(2000), 20)}
        tally = es.tally(data, **NAMES, scale="score", cells=128, cuts=[threshold])
        truth = threshold - special.ndtr((special.logit(threshold) + 1.2) / 1.2)
        wrong.append(es.classification_impact(tally, threshold=threshold, interval=False).of(0)["estimate"] - truth)
    assert abs(np.mean(wrong)) < 0.004  # three and a half Monte Carlo errors
