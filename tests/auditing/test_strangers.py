"""Data of kinds that nobody had in mind: what an audit said of them was wrong or more than it saw."""

import re

import numpy as np
import pytest

import evenscore as es
from evenscore.ordering.ordering_result import FALLING, RISING
from evenscore.report.findings import state
from evenscore.report.wrapping import wrap
from evenscore.wording import amount_text, figures

NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}


def frame(score, outcome, group, user=None):
    return {"s": score, "y": outcome, "g": group, "u": np.arange(len(score)) if user is None else user}


def verbose(audit):
    return " ".join(audit.text(verbose=True).split())


def credit_points(seed, n=1000, misordered=False, disjoint=True):
    """Points from 300 to 850: the more, the fewer defaults; of misordered groups those with fewer points have fewer."""
    rng = np.random.default_rng([7, seed])
    group = np.arange(n) % 2
    share = (rng.random(n) + group) / 2 if disjoint else np.where(group == 0, rng.beta(2, 5, n), rng.beta(5, 2, n))
    rate = np.where(group == 0, 0.65 - 0.6 * share, 1.05 - 0.6 * share) if misordered else 0.8 - 0.6 * share
    return frame(300 + 550 * share, (rng.random(n) < rate).astype(int), np.array(["a", "b"])[group])


def test_points_that_fall_as_the_outcome_rises_are_in_order():
    """A credit score was "not monotone" and called misordered in 6 of 30 fair data sets with partly overlapping groups."""
    audit = es.audit(credit_points(10, disjoint=False), repair=False, **NAMES)
    found = audit.subjects[0]
    assert found.verdict == "inconclusive" and found.ordering.direction == FALLING and not found.ordering.not_monotone
    assert "no higher score of one group is shown to stand for a higher outcome than a lower score" in verbose(audit)


def test_misordered_points_are_found_and_said_to_be():
    audit = es.audit(credit_points(0, misordered=True), repair=False, **NAMES)
    (pair,) = audit.subjects[0].ordering.pairs
    assert audit.verdict == "disparity" and pair.low_score < pair.high_score and pair.worst < 0 and pair.low_group == "a"
    assert "A higher s in one group stands for y more often than a lower s in another" in " ".join(repr(audit).split())
    assert f"is {abs(pair.worst):.4f} below that of b at the higher score" in pair.reason


def test_the_direction_may_be_said():
    data = credit_points(0)
    assert es.ordering_test(data, direction="rising", **NAMES).direction == RISING
    assert es.ordering_test(data, direction="rising", **NAMES).not_monotone
    with pytest.raises(es.EvenscoreError, match="direction='down' is not known; choose one of 'auto', 'rising', 'falling'"):
        es.ordering_test(data, direction="down", **NAMES)


def test_large_scores_are_written_out():
    """It said "at 6.4e+02"."""
    assert [figures(637.2, 2), figures(2041.7), figures(0.0123), amount_text(1803.87)] == ["637", "2,042", "0.0123", "1,804"]
    data = credit_points(1, disjoint=False)
    data["y"] = (np.random.default_rng(1).random(1000) < np.where(data["g"] == "a", 0.2, 0.6)).astype(int)
    audit = es.audit(data, repair=False, **NAMES)
    assert audit.verdict == "disparity" and "e+" not in repr(audit) + audit.text(verbose=True)


def test_no_error_of_calibration_is_told_where_none_is_shown():
    rng = np.random.default_rng(3)
    score = rng.random(600)
    audit = es.audit(frame(score, rng.random(600) < score, np.arange(600) % 2), repair=False, **NAMES)
    widest = max(error.ci_high for error in audit.subjects[0].calibration.estimates[:-1])
    said = verbose(audit)
    assert "no group's scores are shown to be off" in said and "are off by" not in said and f"by at most {widest:.3f}" in said


def test_users_of_two_groups_are_counted_once():
    """It said "983 users" of 500."""
    rng = np.random.default_rng(4)
    user, score = rng.integers(0, 60, 600), rng.random(600)
    audit = es.audit(frame(score, rng.random(600) < score, rng.integers(0, 2, 600), user), repair=False, **NAMES)
    spanning = audit.subjects[0].tally.n_spanning
    assert spanning > 50 and repr(audit).startswith(f"600 rows in 2 groups, {spanning} users in more than one: ")


def test_outcomes_known_of_the_selected_alone_give_no_error_rates():
    """It gave a true positive rate of 1 and told of a difference in prevalence and accuracy."""
    rng = np.random.default_rng(5)
    score, group = rng.random(800), np.array(["a", "b"])[np.arange(800) % 2]
    outcome = np.where(score >= 0.5, rng.random(800) < 0.4 + 0.4 * (group == "a"), np.nan)
    found = es.decision_metrics(frame(score, outcome, group), threshold=0.5, nulls="unlabelled", **NAMES)
    assert found.metrics == ("selection_rate", "ppv") and set(found.unavailable.values()) == {
        "outcomes are known of those selected only, and nothing is known of those not selected"
    }
    assert "the two groups are shown to differ in ppv" in repr(found)
    outcome[:40] = 0
    notes = es.decision_metrics(frame(score, outcome, group), threshold=0.5, nulls="unlabelled", **NAMES).notes
    assert any(note.startswith("outcomes are known of 100 % of those selected and ") for note in notes)


def test_a_ratio_below_one_and_no_difference_are_both_explained():
    """Impact ratios are about selection alone; p-values about all metrics together."""
    rng = np.random.default_rng(8)
    group = np.repeat(["a", "b", "c"], [1200, 1200, 50])
    selected = rng.random(2450) < np.where(group == "c", 0.2, 0.36)
    found = es.decision_metrics(frame(selected.astype(float), rng.integers(0, 2, 2450), group), threshold=1.0, **NAMES)
    assert found.impact_ratios[2]["ci_high"] < 1
    assert "no difference between groups is shown" in repr(found)
    assert "by impact ratios alone c is selected less often than the group selected most; with all metrics" in " ".join(
        repr(found).split()
    )


def test_outcomes_that_are_all_equal_give_no_thresholds():
    """Thresholds of .0473 "with an outcome of 0.0000 at every threshold" were given where nobody had defaulted."""
    rng = np.random.default_rng(6)
    data = frame(rng.random(300), np.zeros(300), np.arange(300) % 3)
    with pytest.raises(es.EvenscoreError, match="all outcomes are equal, so that no threshold is better"):
        es.fair_thresholds(data, threshold=0.5, **NAMES)


def test_a_steep_straight_line_is_no_jump():
    """Temperatures against their forecast: ranks bend it, and it was called a jump with p = 2.5e-06."""
    rng = np.random.default_rng(17)
    station, forecast = rng.integers(0, 80, 4000), rng.normal(-5, 8, 4000).round(1)
    data = frame(forecast, forecast + rng.normal(0, 2, 4000), np.array(["inland", "coast"])[station % 2], station)
    found = es.marginal_test(data, threshold=0, positive="below", **NAMES)
    assert all(np.isnan(jump.p_value) and "bends so fast" in jump.reason for jump in found.jumps)
    assert "jump" not in " ".join(found.label_sentences)


def test_a_real_jump_is_still_seen():
    rng = np.random.default_rng(18)
    score = rng.random(3000)
    data = frame(score, rng.random(3000) < 0.2 + 0.4 * (score >= 0.5), np.arange(3000) % 2)
    assert all(jump.p_value < 0.001 for jump in es.marginal_test(data, threshold=0.5, **NAMES).jumps)


def test_deciles_and_days_are_in_different_units():
    """They were off "by 4.4", and nobody "would get the decision" with calibrated scores."""
    rng = np.random.default_rng(20)
    decile = rng.integers(1, 11, 3000)
    data = frame(decile, rng.negative_binomial(1, 1 / (1 + 0.35 * decile)), np.arange(3000) % 2)
    found = es.audit(data, repair=False, threshold=7, **NAMES).subjects[0]
    assert found.calibration is None and "not on one scale" in found.unavailable["calibration"]
    assert found.impact is not None and found.impact.keep == "rate"


def test_a_tolerance_is_named_where_nothing_is_shown():
    """It said "No difference is shown" with the p-value of a difference beyond the tolerance."""
    rng = np.random.default_rng(21)
    score = rng.random(400)
    audit = es.audit(frame(score, rng.random(400) < score, np.arange(400) % 2), tolerance=0.1, repair=False, **NAMES)
    assert audit.verdict == "inconclusive"
    assert "Neither a difference of more than 10 points nor its absence is shown between" in " ".join(repr(audit).split())


def test_a_group_whose_outcomes_are_all_equal_is_smoothed_most():
    """Every bandwidth is as good there; the narrowest was taken, and a note told of cells that are too coarse for it."""
    rng = np.random.default_rng(22)
    data = frame(rng.random(600), (rng.random(600) < 0.5).astype(int), np.repeat(["a", "b"], 300))
    data["y"][300:] = 1
    calibrator = es.calibrate(data, **NAMES)
    widths = {own.group: float(own.words.split("bandwidth ")[1]) for own in calibrator.maps}
    assert widths["b"] > 0.5 and len(calibrator.maps[1].score) < 30


def test_calibrated_points_do_not_favour_those_who_default():
    """Of a group with more defaults "76.9 % would get the decision instead of 65.1 %": calibrated scores were read upside down."""
    rng = np.random.default_rng(5)
    points, group = np.clip(rng.normal(690, 80, 4000), 300, 850), np.array(["a", "b"])[np.arange(4000) % 2]
    risk = 1 / (1 + np.exp((points - 600) / 45 - 0.8 * (group == "b")))
    data = frame(points, (rng.random(4000) < risk).astype(int), group)
    found = es.classification_impact(data, threshold=660, **NAMES)
    change, last = found.of("b"), found.of(None)
    assert found.keep == "rate" and change["ci_high"] < 0 < found.of("a")["ci_low"] and abs(last["estimate"]) < 0.001
    assert 0.1 < change["threshold_after"] < 0.5 and any("the other way round" in note for note in found.notes)
    mirrored = es.classification_impact(data | {"s": -points}, threshold=-660, positive="below", **NAMES)
    assert mirrored.of("b")["estimate"] == pytest.approx(change["estimate"], abs=0.01)


def apart(n=1500):
    """Two groups in order without a score in common."""
    rng = np.random.default_rng(26)
    group = np.arange(n) % 2
    score = np.where(group == 0, 0.05 + 0.35 * rng.random(n), 0.6 + 0.35 * rng.random(n))
    return frame(score, (rng.random(n) < score).astype(int), np.array(["a", "b"])[group])


@pytest.mark.parametrize(("tolerance", "verdict"), [(0.05, "parity"), (None, "inconclusive")])
def test_nothing_is_said_of_the_same_score_where_groups_have_none_in_common(tolerance, verdict):
    """It said "PARITY: At the same s, the share with y differs by less than 5.0 points" of groups without a common score."""
    audit = es.audit(apart(), tolerance=tolerance, repair=False, **NAMES)
    assert audit.verdict == verdict
    for said in (" ".join(repr(audit).split()), verbose(audit), audit.to_dict()["summary"][0]):
        assert "At the same s" not in said and "No difference is shown" not in said
        assert "stand for y more often" in said or "stands for y more often, by more than 5 points, than a higher one" in said


def crowded(n=3000):
    """Four of five scores are exactly 0."""
    rng = np.random.default_rng(27)
    score, group = np.where(rng.random(n) < 0.8, 0, rng.beta(2, 4, n)), np.arange(n) % 2
    outcome = (rng.random(n) < 0.05 + 0.6 * score + 0.05 * group).astype(int)
    return frame(score, outcome, np.array(["men", "women"])[group], rng.integers(0, 1500, n))


@pytest.mark.parametrize("scale", ["auto", "rank"])
def test_people_with_one_score_are_one_point(scale):
    """It gave gaps "at 7.7e-07", where nobody is, and called people who all score 0 misordered."""
    audit = es.audit(crowded(), scale=scale, repair=False, **NAMES)
    found = audit.subjects[0]
    (pair,) = found.parity.pairs
    assert audit.verdict == "disparity" and np.count_nonzero(pair.score < 0.001) == 1 and pair.score[0] == 0
    assert all(own.low_score == 0 or own.low_score > 0.001 for own in found.ordering.pairs)
    assert found.ordering.verdict == "inconclusive"
    said = repr(audit) + verbose(audit)
    assert not re.search(r"(at|score|scores|from|to) \d\.\de-", said) and "the bandwidth is" not in said


def test_scores_without_a_tie_have_none():
    rng = np.random.default_rng(28)
    score = rng.random(2000)
    for scale in ("auto", "score", "rank"):
        assert es.tally(frame(score, score > 0.5, np.arange(2000) % 2), scale=scale, **NAMES).lattice.ties is None


def test_groups_without_common_scores_are_told_of_their_order_only():
    """The null hypothesis, the badge of the page and the gate spoke of people with the same score, of whom there are none."""
    audit = es.audit(credit_points(3, n=6000), repair=False, tolerance=0.2, **NAMES)
    assert audit.verdict == "parity"
    assert "null hypothesis: people with the same score" not in verbose(audit)
    assert f"null hypothesis: {audit.subjects[0].ordering.null}" in verbose(audit)
    assert state(audit.subjects[0], 0.2) == "In order within 20 points"
    assert audit.check().reason == "groups without common scores are shown to be in order within 0.2"


def test_with_weights_nobody_is_said_to_weigh_the_same():
    rng = np.random.default_rng(4)
    score = rng.random(600)
    data = frame(score, (rng.random(600) < score).astype(int), np.repeat(["a", "b"], 300)) | {"w": rng.uniform(0.5, 3, 600)}
    told = verbose(es.audit(data, weight="w", repair=False, **NAMES))
    assert "(each user counts by its weight)" in told and "each user counts by its weight, level" in told
    assert "weighs the same" not in told and "counts once" not in told


def test_a_number_stays_beside_what_it_is():
    """Lines ended in "p =" and in "14.8"."""
    for width in range(20, 40):
        lines = wrap("The share is 14.8 % of all people, and so it is shown (p = 0.0022), or p < 0.001 at best", width)
        assert not any(re.search(r"(\bp|\bp [=<]|14\.8)$", line) for line in lines)
        assert "\u00a0" not in "".join(lines)
