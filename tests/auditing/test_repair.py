"""A repair that could not be verified is not a success, and says so everywhere."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import evenscore as es
from evenscore.auditing.repair import Repair
from evenscore.calibration.kernel_map import KernelMap
from evenscore.calibration.repair_state import describe_change, gap_limit, rms_gap
from evenscore.calibration.shrinkage import mix_maps, own_share
from evenscore.data.coding import hash_integers
from evenscore.data.splits import Split
from evenscore.estimation.smoothing import Smoothing
from evenscore.tallies.view import GroupView

COLUMNS = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


def few_valued(n_users, seed=1, gap=0.15):
    """Ten scores; b's outcomes lie below a's."""
    rng = np.random.default_rng(seed)
    value, group = rng.integers(1, 11, n_users), rng.integers(0, 2, n_users)
    rate = 0.1 + 0.06 * value - gap * group * np.sin(0.3 * value)
    return {
        "score": value / 10,
        "outcome": (rng.random(n_users) < rate).astype(float),
        "group": np.array(["a", "b"])[group],
        "user": np.arange(n_users),
    }


@pytest.fixture(scope="module")
def many():
    data = few_valued(200_000)
    return data, es.calibrate(es.tally(data, **COLUMNS, split="1/2"))


def test_ten_scores_can_be_verified(many):
    data, calibrator = many
    found = es.verify(calibrator, data, tolerance=0.05)
    assert found.state == "verified" and found.verified and found.gap_limit < 0.05
    assert "falls from" in found.words and "within 0.05" in found.words and found.to_dict()["verified"] is True
    assert all(pair.judged for pair in found.after.pairs) and len(found.after.pairs[0].score) > 10


def test_without_a_tolerance_nothing_is_verified(many):
    data, calibrator = many
    found = es.verify(calibrator, data)
    assert not found.verified and found.state in ("no longer shown", "still shown")


def test_the_repaired_file_is_judged_as_the_repair_was(many):
    """Audited again, calibrated scores that never coincide are not called scores that do not overlap."""
    data, calibrator = many
    again = data | {"score": calibrator.transform(data["score"], data["group"])}
    test = es.parity_test(es.tally(again, **COLUMNS, split="2/2"), tolerance=0.05)
    other = es.verify(calibrator, data, tolerance=0.05).after
    assert test.verdict == other.verdict == "parity"
    np.testing.assert_allclose(test.pairs[0].gap, other.pairs[0].gap, atol=1e-9)


def test_straight_lines_between_few_scores_are_those_of_the_rows():
    """The gap at a's scores: its mean there less b's, interpolated between b's neighbouring scores."""
    rng = np.random.default_rng(3)
    own = {"a": np.array([0.1, 0.3, 0.5, 0.7]), "b": np.array([0.15, 0.42, 0.65])}
    group = rng.choice(["a", "b"], 6000)
    score = np.where(group == "a", rng.choice(own["a"], 6000), rng.choice(own["b"], 6000))
    outcome = (rng.random(6000) < score).astype(float)
    data = {"score": score, "outcome": outcome, "group": group, "user": np.arange(6000)}
    pair = es.parity_test(es.tally(data, **COLUMNS)).pairs[0]
    means = {g: [outcome[(group == g) & (score == v)].mean() for v in own[g]] for g in own}
    expected = [np.interp(x, own["a"], means["a"]) - np.interp(x, own["b"], means["b"]) for x in pair.score]
    np.testing.assert_allclose(pair.score, [0.15, 0.3, 0.42, 0.5, 0.65])
    np.testing.assert_allclose(pair.gap, expected, atol=1e-12)


def test_groups_that_do_not_overlap_after_are_not_a_success():
    """No overlap is left to judge: neither verified nor gone."""
    rng = np.random.default_rng(5)
    n = 4000
    group = rng.choice(["a", "b"], n)
    score = rng.random(n)
    outcome = (rng.random(n) < np.where(group == "a", 0.1 + 0.1 * score, 0.6 + 0.1 * score)).astype(float)
    audit = es.audit({"score": score, "outcome": outcome, "group": group, "user": np.arange(n)}, **COLUMNS, tolerance=0.05)
    repair = audit.subjects[0].repair
    assert not repair.verification.after.pairs[0].judged and repair.state == "could not be judged"
    document = audit.to_dict()["subjects"][0]["repair"]
    assert document["verified"] is False and document["state"] == "could not be judged" and "do not overlap" in repair.words
    assert "nan" not in repair.words and "any more" not in repair.words


def test_a_gap_that_rises_does_not_fall(many):
    data, calibrator = many
    found = es.verify(calibrator, data, tolerance=0.05)
    turned = replace(found, before=found.after, after=found.before)
    moves, words = describe_change(turned.before, turned.after)
    assert moves == "rises" and "rises from" in words and turned.rises
    assert describe_change(found.after, found.after)[0] == "stays"
    repair = Repair(calibrator, turned)
    assert not repair.suggested and repair.sentence.startswith("no repair is suggested") and "falls" not in repair.sentence


def test_a_group_that_gets_worse_is_an_objection(many):
    data, calibrator = many
    found = es.verify(calibrator, data, tolerance=0.05)
    swapped = [replace(own, mse=own.mse[::-1], mse_low=-own.mse_high, mse_high=-own.mse_low) for own in found.accuracy]
    repair = Repair(calibrator, replace(found, accuracy=tuple(swapped)))
    assert [own.group for own in repair.verification.worse] == ["a", "b"] and not repair.suggested
    assert "squared error rises for a from" in repair.sentence


def test_small_groups_shrink_to_the_pooled_map():
    """Three groups of one curve, one of them small: the small one's own map is worse than everybody's."""
    rng = np.random.default_rng(2)
    n = 4000
    group = np.where(np.arange(n) < 60, "small", np.where(np.arange(n) % 2, "a", "b"))
    score = rng.integers(1, 11, n) / 10
    data = {"score": score, "outcome": (rng.random(n) < 0.8 * score).astype(float), "group": group, "user": np.arange(n)}
    tally = es.tally(data, **COLUMNS)
    grid = np.arange(1, 11) / 10
    errors = {}
    for shrink in (False, True):
        fitted = es.calibrate(tally, shrink=shrink).transform(grid, ["small"] * 10)
        errors[shrink] = float(np.mean((fitted - 0.8 * grid) ** 2))
    assert errors[True] < 0.5 * errors[False]


def test_a_large_group_keeps_its_own_map(many):
    data, calibrator = many
    shrunk = es.calibrate(es.tally(data, **COLUMNS, split="1/2"), shrink=True)
    grid = np.arange(1, 11) / 10
    for group in ("a", "b"):
        np.testing.assert_allclose(shrunk.transform(grid, [group] * 10), calibrator.transform(grid, [group] * 10), atol=0.01)


def test_a_repair_per_user_says_what_it_does_to_rows():
    """Users with many rows have more events: per user the calibrated scores are right on average, per row they are not."""
    rng = np.random.default_rng(7)
    n = 3000
    often = rng.random(n) < 0.3
    rows = np.where(often, 6, 1)
    user = np.repeat(np.arange(n), rows)
    score = rng.random(len(user))
    rate = np.clip(0.2 + 0.3 * score + 0.3 * often[user] - 0.1 * (user % 2), 0, 1)
    data = {"score": score, "outcome": (rng.random(len(user)) < rate) * 1.0, "group": user % 2, "user": user}
    calibrator = es.calibrate(es.tally(data, **COLUMNS, split="1/2"))
    found = es.verify(calibrator, data)
    whole = found.means[-1]
    tested = Split.parse("2/2").holds(hash_integers(user))
    repaired = calibrator.transform(score[tested], data["group"][tested])
    assert whole["group"] is None and whole["outcome_per_row"] == pytest.approx(data["outcome"][tested].mean())
    assert whole["calibrated_per_row"] == pytest.approx(repaired.mean(), abs=1e-4)
    residual = np.bincount(user[tested], data["outcome"][tested] - repaired - whole["difference_per_row"], n)
    error = np.sqrt((residual**2).sum()) / tested.sum()
    assert (whole["ci_high"] - whole["ci_low"]) / 2 == pytest.approx(stats.norm.isf(0.05 / 6) * error, rel=1e-3)
    assert whole["ci_low"] > 0 and abs(whole["outcome_per_user"] - whole["calibrated_per_user"]) < 0.05
    assert "fitted per user: over rows the mean outcome is" in found.words
    by_row = es.verify(es.calibrate(es.tally(data, **COLUMNS, split="1/2"), weighting="row"), data)
    assert "fitted per user" not in by_row.words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_users", "left", "least", "most"), [(20_000, 0.08, 0, 1), (200_000, 0.0, 14, 20), (200_000, 0.08, 0, 1)]
)
def test_how_often_a_repair_of_ten_scores_is_verified(n_users, left, least, most):
    """Known maps, tolerance .05: with many users a true repair mostly is, one that leaves a gap of .08 at one score hardly ever."""
    value = np.repeat(np.arange(1, 11), 4)
    group, outcome = np.tile([0, 0, 1, 1], 10), np.tile([0.0, 1.0], 20)
    rate = 0.1 + 0.06 * value - 0.15 * group * np.sin(0.3 * value) - left * group * (value == 5)
    known = {"score": value / 10, "outcome": outcome, "group": np.array(["a", "b"])[group]}
    counts = np.round(1e6 * np.where(outcome == 1, rate, 1 - rate)).astype(int)
    calibrator = es.calibrate(known | {"count": counts}, **COLUMNS | {"user": None, "count": "count"})
    found = [es.verify(calibrator, few_valued(n_users // 2, seed), **COLUMNS, unseen=True, tolerance=0.05) for seed in range(20)]
    assert least <= sum(own.verified for own in found) <= most


def test_points_without_an_estimate_do_not_hide_the_typical_gap():
    """Pairs of groups of which one has too few people at some scores had a typical gap of nan."""
    data = es.simulate(400, curve={"a": (0, 1), "b": (-1, 1)}).data(seed=3)
    test = es.parity_test(data, score="score", outcome="outcome", group="group", user="user", both=False)
    pair = test.pairs[0]
    gap, low, high = pair.gap.copy(), pair.band_low.copy(), pair.band_high.copy()
    for values in (gap, low, high):
        values[:3] = np.nan
    partly = replace(pair, gap=gap, band_low=low, band_high=high)
    assert rms_gap(partly) == pytest.approx(np.sqrt(np.mean(pair.gap[3:] ** 2 - pair.se[3:] ** 2)))
    limit = gap_limit(replace(test, pairs=(partly,)))
    assert limit == pytest.approx(np.abs([pair.band_low[3:], pair.band_high[3:]]).max())
    assert "nan" not in describe_change(test, replace(test, pairs=(replace(partly, gap=np.full_like(gap, np.nan)),)))[1]


@pytest.mark.slow
def test_another_scale_on_which_a_repair_would_be_verified():
    """Most people have low scores: on the scale of the score the few high ones leave the band wide."""
    rng = np.random.default_rng(3)
    n = 20_000
    group, score = np.arange(n) % 2, np.clip(rng.beta(0.7, 9, n), 0.001, 0.999)
    outcome = (rng.random(n) < np.clip(score + 0.05 * group, 0, 1)).astype(float)
    data = {"score": score, "outcome": outcome, "group": group, "user": np.arange(n)}
    calibrator = es.calibrate(es.tally(data, **COLUMNS, split="1/2", scale="score"))
    tested = es.tally(data, **COLUMNS, split="2/2", scale="score")
    found = es.verify(calibrator, tested, tolerance=0.12)
    assert not found.verified and found.other_scales
    assert f"on scale {' and '.join(map(repr, found.other_scales))} what is left would lie within" in found.words
    assert found.to_dict()["other_scales"] == list(found.other_scales)
    again = data | {"score": calibrator.transform(score, group)}
    for scale in found.other_scales:  # the verdict of whoever audits the repaired scores on that scale
        assert es.parity_test(es.tally(again, **COLUMNS, split="2/2", scale=scale), tolerance=0.12, both=False).verdict == "parity"
    assert es.verify(calibrator, tested).other_scales == ()  # nothing can be verified without a tolerance


# Small groups lean on everybody


def small_and_large(n_small=80, seed=4):
    rng = np.random.default_rng(seed)
    group = np.where(np.arange(1500) < n_small, "small", "large")
    score = rng.integers(1, 11, 1500) / 10
    outcome = (rng.random(1500) < 0.1 + 0.6 * score + 0.15 * (group == "small")).astype(float)
    return es.tally({"score": score, "outcome": outcome, "group": group, "user": np.arange(1500)}, **COLUMNS)


def test_the_share_of_a_groups_own_map_against_brute_force():
    """The mixture with the smallest error on users left out, taken as far as its gain is sure."""
    tally = small_and_large(300)
    view, whole = next(own for own in GroupView.each(tally, "user") if own.label == "small"), GroupView.whole(tally, "user")
    method = KernelMap(Smoothing(bandwidth="risk"))
    own, pooled = method.fold_values(view), method.fold_values(whole)
    shares = np.linspace(0, 1, 2001)
    losses = []
    for share in shares:
        fitted = share * own + (1 - share) * pooled
        losses.append((view.folds.Y2 - 2 * fitted * view.folds.Y + fitted**2 * view.folds.W).sum(axis=1))
    best = int(np.argmin([loss.sum() for loss in losses]))
    gain = losses[0] - losses[best]
    sure = np.clip(gain.sum() / (np.sqrt(len(gain)) * gain.std(ddof=1)) - 0.5, 0, 1)
    found = own_share(view, own, pooled)
    assert shares[best] > 0 and found == pytest.approx(shares[best] * sure if shares[best] * sure >= 0.01 else 0, abs=2e-3)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_mixture_of_maps(share):
    tally = small_and_large()
    calibrator = es.calibrate(tally)
    own, pooled = calibrator.map_of("small", unknown="pooled"), calibrator.pooled
    mixed = mix_maps(own, pooled, share)
    grid = np.linspace(0.1, 1, 19)
    np.testing.assert_allclose(mixed.at(grid), share * own.at(grid) + (1 - share) * pooled.at(grid), atol=1e-12)
    assert mixed.group == "small" and mixed.users == own.users
    error = [np.sqrt(((each.design(grid) @ each.factor) ** 2).sum(axis=1)) for each in (mixed, own, pooled)]
    at_least = np.sqrt((share * error[1]) ** 2 + ((1 - share) * error[2]) ** 2)
    assert (error[0] >= at_least - 1e-12).all()  # as uncertain as two estimates that know nothing of each other, or more
