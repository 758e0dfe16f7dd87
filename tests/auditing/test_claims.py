"""What an audit may say: units, groups of a few people, and rows that go with the outcome."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import evenscore as es
from evenscore.estimation.row_counts import row_counts
from evenscore.estimation.units import Moments, same_scale
from evenscore.tallies.reshaping import keep_groups

NAMES = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


def scored(seed=0, users=400, groups=("a", "b"), shift=0.0):
    rng = np.random.default_rng(seed)
    group = np.repeat(groups, users)
    score = rng.uniform(size=len(group))
    chance = np.clip(score - shift * (group == groups[-1]), 0, 1)
    outcome = (rng.uniform(size=len(group)) < chance).astype(int)
    return pd.DataFrame({"score": score, "outcome": outcome, "group": group, "user": np.arange(len(group))})


def tallied(frame, **options):
    return es.tally(frame, **NAMES, **options)


# Units


COST = np.random.default_rng(1).lognormal(7, 1, 800)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda frame: frame, True),
        (lambda frame: frame.assign(score=100 * frame.score), False),
        (lambda frame: frame.assign(score=300 + 550 * frame.score), False),
        (lambda frame: frame.assign(score=np.log(frame.score / (1 - frame.score))), False),
        (lambda frame: frame.assign(outcome=(frame.score > 0.97).astype(int)), True),  # may be a probability that is far too high
        (lambda frame: frame.assign(score=COST * 1.3, outcome=COST * frame.score * 2), True),
        (lambda frame: frame.assign(score=np.log(COST), outcome=COST), False),
        (lambda frame: frame.assign(score=100 * frame.score, outcome=np.floor(4 * frame.score) + frame.outcome), False),
        (lambda frame: frame.assign(score=COST / 1000, outcome=COST), False),
        (lambda frame: frame.assign(score=1e9 + COST, outcome=1e9 + COST[::-1]), True),  # useless, but in the same unit
        (lambda frame: frame.assign(score=COST.mean() + 0.05 * (COST - COST.mean()), outcome=COST), True),  # shrunk
    ],
)
def test_units_are_told_apart(change, same):
    tally = tallied(change(scored()))
    assert same_scale(tally) is same
    assert same_scale(tally, True) and not same_scale(tally, False)


def test_moments_are_those_of_the_rows():
    frame = scored().assign(score=COST, outcome=COST * 2 + 5)
    frame["score"] = frame.score.round(-1)  # few enough values for exact cells
    frame = frame[frame.score < 3000]
    found = Moments.of_tally(tallied(frame))
    assert np.isclose(found.squared_difference, ((frame.outcome - frame.score) ** 2).mean())
    assert np.isclose(found.sd_outcome, frame.outcome.std(ddof=0)) and np.isclose(found.sd_score, frame.score.std(ddof=0))


def test_what_needs_one_scale_is_withheld():
    frame = scored(shift=0.3).assign(score=lambda rows: (100 * rows.score).round(1))
    audit = es.audit(frame, **NAMES, threshold=60)
    (subject,) = json.loads(audit.to_json())["subjects"]
    assert subject["same_scale"] is False and subject["calibration_error"] is None
    assert subject["unavailable"]["calibration"].startswith("score and outcome are not on one scale")
    impact = audit.subjects[0].impact
    assert impact.keep == "rate" and "the same overall share of positive decisions" in " ".join(audit.summary)
    everybody = impact.of(None)
    assert abs(everybody["rate_after"] - everybody["rate_before"]) < 0.01 and 0 < everybody["threshold_after"] < 1
    assert impact.of("b")["estimate"] < 0 < impact.of("a")["estimate"]


def test_the_caller_overrules():
    frame = scored()
    asked = {**NAMES, "threshold": 0.5, "repair": False}
    withheld = es.audit(frame, **asked, same_scale=False).subjects[0]
    assert withheld.calibration is None and withheld.impact.keep == "rate"
    assert es.audit(frame, **asked).subjects[0].calibration is not None


def test_calibration_error_asks_for_one_scale():
    percent = tallied(scored().assign(score=lambda rows: 100 * rows.score))
    with pytest.raises(es.DataError, match="not on one scale"):
        es.calibration_error(percent)
    counts = tallied(scored().assign(score=np.log(COST), outcome=COST))
    with pytest.warns(es.EvenscoreWarning, match="not on one scale"):
        es.calibration_error(counts, interval=False)
    es.calibration_error(counts, interval=False, same_scale=True)


def test_no_squared_error_before_a_repair_of_other_units():
    frame = scored(shift=0.3).assign(score=lambda rows: 100 * rows.score)
    calibrator = es.calibrate(tallied(frame, split="1/2"))
    row = es.verify(calibrator, frame).rows()[-1]
    assert np.isnan(row["mse_before"]) and np.isnan(row["mse_change"]) and row["mse_after"] < 0.25


# A few people


def with_few(n=1):
    return pd.concat([scored(), scored(3, n, ("c",)).assign(user=lambda rows: rows.user + 10_000)])


def test_one_person_is_not_a_curve():
    audit = es.audit(with_few(), **NAMES, threshold=0.5)
    document = json.loads(audit.to_json())
    (subject,) = document["subjects"]
    few = subject["groups"][2]
    assert few["users"] == 1 and few["not_judged"] == "not judged: 1 user"
    assert few["mean_outcome"] is None and few["mean_score"] is None and few["mean_outcome_per_row"] is None
    assert subject["tally"]["rows"][2]["mean_outcome"] is None
    assert {row["group"] for row in subject["curves"]["rows"]} == {"a", "b"}
    assert len(subject["tests"]["parity"]["pairs"]) == 1
    assert subject["judged"]["sentence"] == "2 of 3 groups compared; 1 has fewer than 10 users"
    assert (
        "1 has fewer than 10 users" in repr(audit)
        and "not judged: 1 user" in audit.text(verbose=True)
        and "not judged: 1 user" in audit.to_html()
    )
    everyone = es.audit(with_few(), **NAMES, min_users=0)
    assert len(everyone.subjects[0].parity.pairs) == 3


def test_the_rest_is_as_if_the_few_were_not_there():
    with_them, without = (es.audit(frame, **NAMES) for frame in (with_few(), scored()))
    assert with_them.subjects[0].parity.p_value == without.subjects[0].parity.p_value
    whole = tallied(with_few())
    assert keep_groups(whole, ["b", "a"]).groups == ("a", "b") and keep_groups(whole, whole.groups) is whole


def test_nothing_to_compare_is_inconclusive():
    audit = es.audit(scored(users=5), **NAMES, threshold=0.5)
    assert audit.verdict == "inconclusive" and np.isnan(audit.tests["parity"].p_value)
    assert "fewer than two groups are judged" in audit.reason and audit.check().code == 0
    json.loads(audit.to_json())
    few_reference = es.audit(with_few(), **NAMES, reference="c")
    assert "the reference c is not judged: 1 user" in few_reference.reason


def test_parity_needs_every_group_or_a_justification():
    few = with_few(5)
    audit = es.audit(few, **NAMES, tolerance=0.6)
    assert audit.verdict == "inconclusive" and "c (not judged: 5 users)" in audit.reason
    justified = es.audit(few, **NAMES, tolerance=0.6, left_out={"c": "a test account"})
    assert justified.verdict == "parity"
    (subject,) = json.loads(justified.to_json())["subjects"]
    assert subject["left_out"] == {"c": "a test account"} and "a test account" in justified.to_html()


@pytest.mark.parametrize(
    ("left_out", "words"), [({"d": "x"}, "no group 'd'"), ({"c": ""}, "must be text"), ("c", "must be a dict")]
)
def test_left_out_is_checked(left_out, words):
    with pytest.raises(es.OptionError, match=words):
        es.audit(with_few(), **NAMES, left_out=left_out)


# Rows that go with the outcome


def busy(seed, tie):
    """Users whose number of rows goes with their outcomes, or not."""
    rng = np.random.default_rng(seed)
    score, ill = rng.uniform(size=1000), rng.uniform(size=1000)
    rows = 1 + rng.poisson(1 + 4 * (ill < score) * tie)
    user = np.repeat(np.arange(1000), rows)
    return pd.DataFrame(
        {"score": score[user], "outcome": (ill < score)[user].astype(int), "group": np.where(user % 2, "a", "b"), "user": user}
    )


def test_both_means_are_told_before_the_verdict():
    frame = busy(1, tie=1)
    found = row_counts(tallied(frame))
    assert np.isclose(found.per_row, frame.outcome.mean())
    assert np.isclose(found.per_user, frame.groupby("user").outcome.mean().mean())
    audit = es.audit(frame, **NAMES)
    text = " ".join(repr(audit).split())
    assert text.index(f"{found.per_user:.3f} per user") < text.index(audit.verdict.upper())
    assert audit.summary[1].startswith("the mean outcome is") or "per row" in " ".join(audit.summary)


def test_limits_of_the_difference_cover():
    alarms = sum(row_counts(tallied(busy(seed, tie=0), cells=32)).differ for seed in range(60))
    assert alarms <= 8  # 3 are to be expected, more than 8 in 1 of 250
    assert not row_counts(tallied(scored())).sentence  # one row a user: nothing to compare


def test_other_pairs_are_not_the_same_verdict():
    test = es.parity_test(tallied(busy(1, tie=1)))
    pair = test.pairs[0]
    first = replace(pair, verdict="disparity", group_a="a", group_b="b")
    own = replace(test, pairs=(first, replace(pair, verdict="inconclusive", group_a="a", group_b="c")))
    other = replace(test.other, verdict="disparity", shown=(("a", "c"),))
    words = replace(own, other=other).disagreement
    assert "not for the same groups" in words and "only per row a gap is shown between a and c" in words
    assert not replace(own, other=replace(other, shown=(("a", "b"),))).disagreement


# Probabilities, labels and names


@pytest.mark.parametrize("rate", [0.02, 0.97])
def test_probabilities_stay_between_0_and_1(rate):
    rng = np.random.default_rng(5)
    frame = scored(5, 300).assign(score=lambda rows: rows.score**3, outcome=(rng.uniform(size=600) < rate).astype(int))
    tally = tallied(frame, cuts=[0.3])
    curves = es.curves(tally, degree=2).rows()
    marginal = es.marginal_test(tally, threshold=0.3).group_rows()
    numbers = [row[name] for row in curves for name in ("estimate", "ci_low", "ci_high", "band_low", "band_high")]
    numbers += [row[name] for row in marginal for name in ("estimate", "ci_low", "ci_high")]
    numbers += list(es.fair_thresholds(tally, threshold=0.3).outcome_at.values())
    for method in ("kernel", "isotonic", "platt", "binning"):
        numbers += es.calibrate(tally, method=method).transform(frame.score, frame.group).tolist()
    known = np.array(numbers)[np.isfinite(numbers)]
    assert len(known) and known.min() >= 0 and known.max() <= 1
    assert all(-1 <= row["band_low"] <= row["band_high"] <= 1 for row in es.parity_test(tally).points)


def test_labels_on_both_sides_see_more():
    tally = tallied(scored(1, 1500, shift=0.08), cuts=[0.8])
    one, both = (es.marginal_test(tally, threshold=0.8, labels=labels) for labels in ("positive", "both"))
    assert both.p_value < one.p_value and one.other_labels.p_value == both.p_value
    assert both.other_labels.p_value == one.p_value and "both sides" in both.null
    assert "on both sides of the threshold" in repr(one) and one.to_dict()["other_labels"]["labels"] == "both"
    with pytest.raises(es.OptionError, match="labels='all' is not known"):
        es.marginal_test(tally, threshold=0.8, labels="all")


def test_a_jump_at_the_threshold_is_told_and_does_not_choose():
    """Outcomes that the decision changes: both sides are wrong then. That no jump is shown is no licence either."""
    data = scored(1, 2500)
    flat, jumping = (es.marginal_test(tallied(each, cuts=[0.5]), threshold=0.5) for each in (data, _jumping(data)))
    assert flat.labels == jumping.labels == "positive"
    assert all(jump.p_value <= 0.05 and jump.ci_low > 0 for jump in jumping.jumps)
    said, unsaid = (" ".join(repr(test).split()) for test in (jumping, flat))
    assert "would be wrong here" in said and "does not make labels" in unsaid
    assert jumping.to_dict()["jumps"][0]["size"] == jumping.jumps[0].size
    both = es.marginal_test(tallied(_jumping(data), cuts=[0.5]), threshold=0.5, labels="both")
    assert 'labels="both" is wrong here' in " ".join(repr(both).split())
    for one, two in zip(both.jumps, jumping.jumps, strict=True):
        assert one.size == pytest.approx(two.size, abs=0.15)


def _jumping(data):
    rng = np.random.default_rng(8)
    turned = (data["score"] >= 0.5) & (rng.random(len(data)) < 0.6)
    return data.assign(outcome=np.where(turned, 1, data["outcome"]))


def test_jumps_against_two_lines_on_rows():
    """Independent rows: the two local lines, and a score test of equal rates for their difference where rates are alike."""
    rng = np.random.default_rng(2)
    s = rng.random(3000)
    outcome = (rng.random(3000) < 0.5).astype(float)
    data = pd.DataFrame({"score": s, "outcome": outcome, "group": np.arange(3000) % 2, "user": np.arange(3000)})
    test = es.marginal_test(tallied(data, cuts=[0.5]), threshold=0.5)
    for jump in test.jumps:
        mine = np.arange(3000) % 2 == jump.group
        sizes, variances = [], []
        for side in (s >= 0.5, s < 0.5):
            x, y = s[mine & side] - 0.5, outcome[mine & side]
            # the bandwidth that the whole test has settled on
            k = np.exp(-0.5 * (x / test.bandwidth) ** 2)
            design = np.column_stack([np.ones_like(x), x])
            weights = np.linalg.solve(design.T @ (k[:, None] * design), (k[:, None] * design).T)[0]
            sizes.append(weights @ y)
            variances.append((weights**2).sum() / 4)
        assert jump.size == pytest.approx(sizes[0] - sizes[1], abs=0.1 * jump.se)  # cells and not rows
        assert jump.se == pytest.approx(np.sqrt(sum(variances)), rel=0.05)


def test_old_names_are_still_taken():
    words = []
    with pytest.warns(DeprecationWarning, match="say= is called progress= now"):
        es.audit(scored(), **NAMES, say=words.append)
    assert words
    with pytest.raises(TypeError, match="both progress= and say="):
        es.audit(scored(), **NAMES, say=words.append, progress=words.append)
