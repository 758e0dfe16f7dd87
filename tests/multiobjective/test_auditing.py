"""Audits of several objectives: the lemma's test, blends, squared errors and better weights against rows, and Appendix B."""

import json
from dataclasses import replace

import numpy as np
import pytest

import evenscore as es
from evenscore.multiobjective.blends import Blend, _adjusted_verdict
from evenscore.multiobjective.sweep import simplex
from evenscore.simulation import PoissonRows
from evenscore.simulation.objectives import feed, simulate_objectives, toy

SUMS = 1e-9  # the same sums in another order
SIGMAS = 4.5  # of Monte Carlo error


def calibrated(users, **changes):
    """Scores that are the expected outcomes given all scores; rows of a user are alike."""
    options = {"rows_per_user": PoissonRows(2), "label_correlation": 0.5, "score_likeness": 0.3, "outcome_likeness": 0.4}
    return simulate_objectives(users, objectives=["x", "y"], **(options | {"score_correlation": 0.3} | changes))


# Appendix B


@pytest.fixture(scope="module")
def appendix_b():
    spec = toy(6000)
    data = spec.data(1)
    return spec, data, es.calibrate_jointly(data, **spec.columns, split="1/2")


def test_the_toys_sum_is_not_calibrated_and_the_joint_transform_halves_its_error(appendix_b):
    spec, data, joint = appendix_b
    audit = es.audit_objectives(data, **spec.columns, calibrator=joint, split="2/2")
    mse = {(row["target"], row["version"]): row for row in audit.mse if row["group"] is None}
    n_rows = audit.n_rows
    for version, expected in (("before", 2.0), ("joint", 1.0)):
        # (Y - S)^2 has variance 2 sigma^4 for normal errors
        assert mse["composite", version]["mse"] == pytest.approx(expected, abs=SIGMAS * expected * np.sqrt(2 / n_rows))
    assert mse["first", "joint"]["mse"] < 1e-3  # the outermost scores are held constant
    assert mse["first", "before"]["mse"] == pytest.approx(1, abs=0.1)
    assert audit.versions[0].lemma.verdict == "disparity"
    gaps = [max(abs(part.gap).max() for part in each.lemma.parts) for each in audit.versions]
    assert gaps[0] > 1 and gaps[1] < 0.35
    better = es.better_weights(data, **spec.columns, weights=[1, 1])
    assert better.better == pytest.approx([1, 2], abs=0.04)
    assert better.mse == pytest.approx(2, abs=0.1) and better.mse_better == pytest.approx(1, abs=0.05)
    assert better.gain == pytest.approx(1, abs=SIGMAS * better.gain_se)


@pytest.mark.parametrize("weights", [(1, 1), (1, 0), (0, 1), (1, 3), (3, 1), (1, -2), (-1, 5)])
def test_after_the_joint_transform_every_blend_is_calibrated_on_fresh_data(appendix_b, weights):
    spec, _, joint = appendix_b
    fresh = spec.data(2)
    outcome = np.column_stack([fresh[name] for name in spec.objectives]) @ weights
    score = joint.composite(weights).transform(fresh)
    slope, level = np.polyfit(score, outcome, 1)
    noise = SIGMAS * abs(weights[1]) * np.sqrt(1 / 6000 + 1 / 12000)  # of the means of Y2, where fitted and here
    assert slope == pytest.approx(1, abs=0.06) and level == pytest.approx(0, abs=noise + 1e-3)
    if weights == (1, 1):
        plain = fresh["score_first"] + fresh["score_second"]
        assert np.polyfit(plain, outcome, 1)[0] == pytest.approx(1.5, abs=0.05)


# The lemma's condition


def test_the_lemmas_statistics_are_those_of_rows():
    data = calibrated(150, slopes=((1, 0.5), (0, 1))).data(3)
    test = es.joint_calibration_test(data, **calibrated(1).columns)
    part = next(part for part in test.parts if part.group == "b" and part.outcome == "x")
    mine = data["group"] == "b"
    logit = lambda p: np.log(p / (1 - p))  # noqa: E731
    x = np.column_stack([logit(data["score_x"][mine]), logit(data["score_y"][mine])])
    user, residual = data["user"][mine], data["x"][mine] - data["score_x"][mine]
    people, inverse, counts = np.unique(user, return_inverse=True, return_counts=True)
    w = 1 / counts[inverse]
    sd = np.sqrt(w @ (x - w @ x / w.sum()) ** 2 / w.sum())
    h = 1.06 * sd * len(people) ** (-1 / 6)
    assert len(part.places) > 10
    for place, gap, se, effective in zip(part.places, part.gap, part.se, part.effective, strict=True):
        kernel = w * np.exp(-0.5 * (((x - logit(place)) / h) ** 2).sum(axis=1))
        masses = np.array([kernel[user == person].sum() for person in people])
        sums = np.array([(kernel * residual)[user == person].sum() for person in people])
        n = masses.sum() ** 2 / (masses**2).sum()
        assert effective == pytest.approx(n, rel=1e-6)
        assert gap == pytest.approx(sums.sum() / masses.sum(), rel=1e-6)
        assert se == pytest.approx(np.sqrt((sums**2).sum()) / masses.sum() * n / (n - 1), rel=1e-6)


def test_the_lemmas_test_rejects_about_as_often_as_its_level_and_finds_what_each_score_alone_hides():
    spec = calibrated(100)
    runs = 60
    p_values = np.array(
        [[p.p_value for p in es.joint_calibration_test(spec.data((7, r)), **spec.columns).parts] for r in range(runs)]
    )
    level = (p_values < 0.05).mean()
    assert level < 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs / 2)  # parts of a run are alike: count at least two of them as one
    hidden = toy(400)  # each score is calibrated by itself
    test = es.joint_calibration_test(hidden.data(1), **hidden.columns)
    assert test.verdict == "disparity" and test.p_value < 1e-6 and "first in a" in test.reason
    assert test.rows()[0]["max_gap"] == pytest.approx(test.rows()[0]["at_score_second"], abs=0.4)  # Y1 - S1 is S2


def test_the_lemmas_largest_gap_is_a_gap_of_outcomes_and_no_z():
    spec = toy(400)
    test = es.joint_calibration_test(spec.data(1), **spec.columns)
    gaps = [case.gap[case.worst] for case in test.parts]
    z = [np.abs(case.z).max() for case in test.parts]
    assert test.max_gap == max(gaps, key=abs) and test.to_dict()["max_gap"] == test.max_gap
    assert abs(test.max_gap) < max(z) / 2 and [row["max_gap"] for row in test.rows()] == gaps


@pytest.mark.parametrize(
    ("own", "adjusted", "verdict", "words"),
    [
        ("disparity", 0.2, "inconclusive", "is not shown among all that were tested (p = 0.20)"),
        ("disparity", 0.01, "disparity", "a gap is shown"),
        ("inconclusive", 0.9, "inconclusive", "no gap is shown"),
    ],
)
def test_a_blend_is_never_inconclusive_because_a_gap_is_shown(own, adjusted, verdict, words):
    spec = calibrated(150, slopes=((1, 0.3), (0, 1))) if own == "disparity" else calibrated(150)
    tally = es.tally(spec.data(1), score="score_x", outcome="x", group="group", user="user")
    test = es.parity_test(tally)
    test = replace(test, pairs=tuple(replace(pair, verdict=own, reason=words) for pair in test.pairs))
    blend = Blend("as given", "x", (1.0, 0.0), test, adjusted, _adjusted_verdict(test, adjusted, 0.05))
    assert blend.verdict == verdict and words in blend.reason
    assert blend.verdict != "inconclusive" or "gap is shown between" not in blend.reason


def test_the_lemmas_test_with_hardly_anybody():
    data = calibrated(4).data(1)
    test = es.joint_calibration_test(data, **calibrated(1).columns)
    assert np.isnan(test.p_value) and test.verdict == "inconclusive" and "only 4 users" in test.reason
    exact = {"s": np.linspace(0, 5, 200), "t": np.linspace(3, 9, 200) ** 2, "g": ["a", "b"] * 100, "u": np.arange(200)}
    same = es.joint_calibration_test(exact, scores=["s", "t"], outcomes=["s", "t"], group="g", user="u")
    assert same.p_value == 1 and same.verdict == "inconclusive"


# Squared errors and better weights


def test_squared_errors_weigh_users_alike_and_know_their_error():
    spec = calibrated(200, labelled=(0.7, 1.0))
    data, fresh = spec.data(1), spec.data(2)
    joint = es.calibrate_jointly(data, **spec.columns, method="logistic")
    audit = es.audit_objectives(fresh, **spec.columns, calibrator=joint, weights={"x": 1, "y": 2})
    scores = joint.apply(fresh).scores
    for row in audit.mse:
        k = {"x": [1, 0], "y": [0, 1], "composite": [1, 2]}[row["target"]]
        values = np.column_stack([fresh["score_x"], fresh["score_y"]]) if row["version"] == "before" else scores
        outcome = (np.where(k, np.column_stack([fresh["x"], fresh["y"]]), 0) @ k).astype(float)
        mine = ~np.isnan(outcome) & ((fresh["group"] == row["group"]) | (row["group"] is None))
        loss, before = ((outcome - v @ k) ** 2 for v in (values, np.column_stack([fresh["score_x"], fresh["score_y"]])))
        people = np.unique(fresh["user"][mine])
        mean = np.array([loss[mine & (fresh["user"] == person)].mean() for person in people])
        assert row["mse"] == pytest.approx(mean.mean(), abs=SUMS)
        change = np.array([(loss - before)[mine & (fresh["user"] == person)].mean() for person in people])
        assert row["change"] == pytest.approx(change.mean(), abs=SUMS)
        assert row["se"] == pytest.approx(change.std(ddof=1) / np.sqrt(len(people)), abs=SUMS)
    assert audit.labelled == {"x": int((~np.isnan(fresh["x"])).sum()), "y": len(fresh["y"])} and "labelled rows: x" in repr(audit)


def test_better_weights_are_least_squares_with_user_robust_errors():
    spec = calibrated(150, slopes=((1, 0.8), (0.5, 1)))
    data = spec.data(4)
    found = es.better_weights(data, **spec.columns, weights={"y": 2, "x": 1})
    scores = np.column_stack([data["score_x"], data["score_y"]])
    outcome = data["x"] + 2 * data["y"]
    _, inverse, counts = np.unique(data["user"], return_inverse=True, return_counts=True)
    root = np.sqrt(1 / counts[inverse])
    expected = np.linalg.lstsq(scores * root[:, None], outcome * root, rcond=None)[0]
    assert found.better == pytest.approx(expected, rel=1e-9)
    bread = np.linalg.inv((scores * root[:, None] ** 2).T @ scores)
    own = np.array(
        [((root**2 * (outcome - scores @ expected))[:, None] * scores)[inverse == m].sum(axis=0) for m in range(len(counts))]
    )
    assert found.se == pytest.approx(np.sqrt(np.diag(bread @ own.T @ own @ bread)), rel=1e-9)
    assert found.gain == pytest.approx(found.mse - found.mse_better) and found.rows()[1]["weight"] == 2
    json.dumps(found.to_dict())


def test_after_joint_calibration_no_other_weights_are_better():
    spec = simulate_objectives(4000, objectives=["x", "y"], slopes=((1, 0.8), (0.5, 1)))
    data = spec.data(4)
    joint = es.calibrate_jointly(data, **spec.columns, split="1/2", method="logistic")
    before, after = (es.better_weights(data, **spec.columns, weights=[1, 1], split="2/2", calibrator=c) for c in (None, joint))
    assert before.gain > 3 * before.gain_se
    assert after.better == pytest.approx([1, 1], abs=SIGMAS * after.se.max()) and after.gain < 3 * after.gain_se


# Blends


@pytest.fixture(scope="module")
def swept():
    spec = feed(3200)
    data = spec.data(5)
    joint = es.calibrate_jointly(data, **spec.columns, split="1-3/4", method="logistic")
    pairs = zip(spec.score_columns, spec.objectives, strict=True)
    single = [es.calibrate(es.tally(data, score=s, outcome=o, group="group", user="user", split="1-3/4")) for s, o in pairs]
    return (
        es.sweep_weights(data, **spec.columns, steps=2, split="4/4", calibrator={"one by one": single, "joint": joint}),
        data,
        joint,
    )


def test_one_by_one_leaves_blends_unfair_and_joint_calibration_does_not(swept):
    sweep, _, _ = swept
    assert sweep.versions == ("before", "one by one", "joint") and len(sweep.blends) == 18
    assert sweep.verdict_of("one by one") == "disparity" and sweep.verdict == "inconclusive" and sweep.p_value > 0.05
    mixed = [blend for blend in sweep.of("one by one") if max(blend.weights) < 1]
    assert all(blend.verdict == "disparity" for blend in mixed)
    alone = [blend for blend in sweep.of("one by one") if max(blend.weights) == 1]
    assert all(blend.p_adjusted > 0.001 for blend in alone)
    assert "one by one: a gap is shown for" in sweep.reason
    json.dumps(sweep.to_dict())


def test_a_blend_is_tested_as_its_own_score_would_be(swept):
    sweep, data, joint = swept
    composite = joint.composite([0.5, 0, 0.5]).transform(data)
    tally = es.tally(
        None, score=composite, outcome=0.5 * data["like"] + 0.5 * data["share"], group=data["group"], user=data["user"], split="4/4"
    )
    blend = next(blend for blend in sweep.of("joint") if blend.weights == (0.5, 0, 0.5))
    expected = es.parity_test(tally)
    assert blend.test.max_gap == pytest.approx(expected.max_gap, rel=0.05)  # the range of the lattice is that of all rows there
    assert abs(blend.test.p_value - expected.p_value) < 0.1


def test_sweeps_are_drawn(swept):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = swept[0].plot()
    assert len(ax.get_legend().get_texts()) == 3
    ax.figure.canvas.draw()
    matplotlib.pyplot.close(ax.figure)
    spec = toy(200)
    two = es.sweep_weights(spec.data(1), **spec.columns, steps=2)
    ax = two.plot()
    assert "weight of" in ax.get_xlabel()
    matplotlib.pyplot.close(ax.figure)


def test_progress_is_counted_and_still_told_in_words_by_its_old_name():
    spec = toy(200)
    steps, words = [], []
    with pytest.warns(DeprecationWarning, match="say= is called progress= now"):
        es.sweep_weights(spec.data(1), **spec.columns, steps=1, progress=lambda *step: steps.append(step), say=words.append)
    assert steps == [(1, 2), (2, 2)] and words == ["tested 1 of 2", "tested 2 of 2"]


def test_simplex_weights_are_all_there():
    for k, steps, n in ((1, 4, 1), (2, 10, 11), (3, 5, 21), (4, 3, 20)):
        found = np.array(simplex(k, steps))
        assert found.shape == (n, k) and np.allclose(found.sum(axis=1), 1) and (found >= 0).all()
        assert len(np.unique(found, axis=0)) == n


def test_with_a_tolerance_parity_can_be_shown():
    spec = calibrated(3000, rows_per_user=2)
    audit = es.audit_objectives(spec.data(1), **spec.columns, tolerance=0.3)
    assert audit.verdict == "parity" and set(audit.tests) == {"x", "y", "composite"}
    assert [row["verdict"] for row in audit.rows()] == ["parity"] * 3
    json.dumps(audit.to_dict())


# What is refused


def test_users_that_a_calibrator_was_fitted_on_are_refused():
    spec = calibrated(60)
    data = spec.data(1)
    whole = es.calibrate_jointly(data, **spec.columns, method="logistic")
    half = es.calibrate_jointly(data, **spec.columns, method="logistic", split="1/2")
    for calibrator, split in ((whole, None), (half, "1/2"), (half, "1-2/3")):
        with pytest.raises(es.DataError, match="was fitted on these users"):
            es.audit_objectives(data, **spec.columns, calibrator=calibrator, split=split)
    assert es.audit_objectives(data, **spec.columns, calibrator=half, split="2/2").versions[1].version == "joint"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [[1, 2, 3]]}, "2 weights"),
        ({"weights": []}, "list of weights"),
        ({"weights": [[1, 1]], "steps": 3}, "not both"),
        ({"steps": 0}, "from 1 to"),
        ({"steps": 5000}, "take fewer steps"),
        ({"calibrator": {"before": []}}, "cannot be called 'before'"),
        ({"calibrator": []}, "0 calibrators for 2 scores"),
        ({"calibrator": {"mine": "joint.json"}}, "es.calibrate_jointly makes"),
        ({"alpha": 2}, "alpha"),
        ({"tolerance": -1}, "tolerance"),
    ],
)
def test_bad_sweeps(options, message):
    spec = calibrated(30)
    with pytest.raises(es.EvenscoreError, match=message):
        es.sweep_weights(spec.data(1), **(spec.columns | options))


def test_outcomes_that_are_never_known_together_have_no_blend():
    spec = calibrated(60)
    data = spec.data(1)
    odd = np.arange(len(data["user"])) % 2 == 0
    apart = data | {"x": np.where(odd, data["x"], np.nan), "y": np.where(odd, np.nan, data["y"])}
    with pytest.raises(es.DataError, match="never known"):
        es.audit_objectives(apart, **spec.columns)
    ends = es.sweep_weights(apart, **spec.columns, weights=[[1, 0], [0, 1]])
    assert len(ends.rows()) == 2
