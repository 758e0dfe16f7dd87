"""What is said beside the numbers: true of the test that was asked for, of the pairs that were judged, and said once."""

import html
import re

import numpy as np
import pytest

import evenscore as es
from evenscore.report.words import shown_changes

NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}


def frame(score, outcome, group, user=None):
    return {"s": score, "y": outcome, "g": group, "u": np.arange(len(score)) if user is None else user}


def verbose(audit):
    return " ".join(audit.text(verbose=True).split())


def page(audit):
    body = re.sub(r"<(svg|script|style)\b.*?</\1>", " ", audit.to_html(), flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


@pytest.fixture(scope="module")
def steps():
    """Ten scores: a gap of .3 in all of them, and a tolerance of .5 within which nothing is judged."""
    rng = np.random.default_rng(1)
    score, group = rng.integers(1, 11, 900).astype(float), np.arange(900) % 2
    outcome = rng.normal(0.5 * score + 0.35 * group, 1.5)
    return frame(score, outcome, np.array(["a", "b"])[group])


def test_with_a_tolerance_the_sentences_speak_of_it(steps):
    """A page said "No gap is shown" and below "A gap above 0.28 is shown": a gap was, but none beyond the tolerance."""
    assert es.audit(steps, repair=False, **NAMES).verdict == "disparity"
    audit = es.audit(steps, repair=False, tolerance=0.5, threshold=5.0, **NAMES)
    assert audit.verdict == "inconclusive"
    said, whole = page(audit), verbose(audit)
    assert "No gap beyond 0.5 is shown; the largest estimate is" in said and "Grey: no gap beyond the tolerance is shown" in said
    assert "No difference beyond 0.5 is shown at the threshold" in said
    assert "not shown to exceed 0.5" in whole and "a gap, not shown," not in whole
    assert "is shown to stand for an outcome higher by more than 0.5 than" in whole
    assert "No gap is shown" not in said and "Grey: no gap is shown" not in said


def test_whole_numbers_are_written_whole(steps):
    """Scores from 1 to 10 were compared "from 1.0000 to 10.0", and 46.0 users gained a decision."""
    said = verbose(es.audit(steps, repair=False, tolerance=0.5, threshold=5.0, **NAMES))
    assert "scores from 1 to 10 were compared" in said and not re.search(r"scores? \d+\.0+\b", said)


def test_a_group_that_cannot_be_compared_is_not_promised_to_be():
    """A gap "between any two groups would be found" of which one could not be judged, and every pair's reason in one sentence."""
    rng = np.random.default_rng(2)
    group = np.repeat(["a", "b", "c", "d", "e"], [500, 500, 500, 14, 13])
    score = rng.random(len(group))
    audit = es.audit(frame(score, rng.random(len(group)) < score, group), repair=False, **NAMES)
    reason = audit.subjects[0].reason
    assert "between any two groups that could be compared would be found" in " ".join(repr(audit).split())
    assert "in each pair that could be compared 4 times out of 5" in page(audit)
    assert reason.count("would have been found") == 1 and "7 of 10 pairs of groups could not be judged, such as a and d" in reason


def test_where_nothing_was_judged_the_gate_says_so():
    rng = np.random.default_rng(3)
    audit = es.audit(frame(rng.random(24), rng.integers(0, 2, 24), np.arange(24) % 2), repair=False, **NAMES)
    assert audit.check().reason == "no disparity is shown, but nothing could be judged: this is no evidence of parity"
    assert "the order across groups decides, as no score has enough people of both, but nothing could be judged" in verbose(audit)


@pytest.mark.parametrize(("positive", "falls", "standard"), [("above", 0, "higher"), ("below", 0, "lower"), ("above", 1, "lower")])
def test_who_is_held_to_the_higher_standard(positive, falls, standard):
    """Of loans granted below a risk the caption said the contrary of the sentence above it."""
    rng = np.random.default_rng(4)
    score = rng.random(1500)
    outcome = rng.random(1500) < (1 - score if falls else score)
    audit = es.audit(frame(score, outcome, np.arange(1500) % 2), repair=False, threshold=0.5, positive=positive, **NAMES)
    assert f"A group with a {standard} outcome there is held to a higher standard." in page(audit)


def test_captions_know_what_is_held_equal():
    """Decisions of points against defaults are compared at an equal rate; the caption said "at the same threshold"."""
    rng = np.random.default_rng(5)
    points = rng.integers(300, 850, 1500).astype(float)
    audit = es.audit(frame(points, rng.random(1500) < 0.3, np.arange(1500) % 2), repair=False, threshold=600.0, **NAMES)
    assert "gets the decision, at the same overall share of positive decisions." in page(audit)


def test_labels_are_no_probabilities():
    """Of a 0/1 flag it said that calibrated scores would give 0.0 % of a group the decision."""
    rng = np.random.default_rng(6)
    flag = (rng.random(900) < 0.3).astype(float)
    audit = es.audit(frame(flag, rng.random(900) < 0.1 + 0.5 * flag, np.arange(900) % 2), repair=False, threshold=1.0, **NAMES)
    subject = audit.subjects[0]
    assert subject.calibration is None and "decisions, 0 or 1, and no probabilities" in subject.unavailable["calibration"]
    assert subject.impact.keep == "rate"


def test_a_change_of_nothing_is_not_shown_to_be_one():
    """It said: 49.9 % of b would get the decision instead of 49.9 % (change +0.0 points, +0.0 to +0.1)."""
    tiny, small = ({"estimate": size, "ci_low": size / 2, "ci_high": 2 * size} for size in (0.0003, 0.003))
    assert shown_changes([tiny, small]) == [small]


def test_everybody_selected_is_said_once():
    rng = np.random.default_rng(8)
    audit = es.audit(frame(np.full(600, 0.3), rng.random(600) < 0.3, np.arange(600) % 2), repair=False, threshold=0.3, **NAMES)
    assert "Selected (score >= 0.3): 100.0 % of every group." in page(audit)


def test_users_of_several_groups_are_no_mean_over_persons():
    """Courses of two departments: users with more rows were said to have lower outcomes, where the means over persons agree."""
    rng = np.random.default_rng(9)
    n = 600
    first = rng.integers(1, 12, n)  # rows in the lower group; one row in the other
    user = np.concatenate([np.repeat(np.arange(n), first), np.arange(n)])
    low = np.concatenate([np.ones(first.sum(), int), np.zeros(n, int)])
    outcome = rng.random(len(user)) < 0.6 - 0.3 * low
    audit = es.audit(frame(rng.random(len(user)), outcome, np.array(["x", "z"])[low], user), repair=False, **NAMES)
    said = audit.subjects[0].row_counts.sentence
    assert " per user and group and " in said and "users with more rows in a group have lower outcomes there" in said


def test_yes_and_no_are_said_with_their_column():
    rng = np.random.default_rng(10)
    score, group = rng.random(800), np.array(["no", "yes"])[np.arange(800) % 2]
    data = frame(score, rng.random(800) < 0.2 + 0.3 * (group == "yes"), group)
    audit = es.audit(data, repair=False, score="s", outcome="y", group="g", user="u")
    assert "y is not equally common in g = no and g = yes" in " ".join(repr(audit).split())


def test_errors_of_large_outcomes_draw_no_warning():
    """A cell with one user has a variance of rounding; its covariance over that overflowed single precision."""
    rng = np.random.default_rng([1, 0])
    income = np.exp(rng.normal(14.5, 0.8, 300)).round(0)
    data = frame(income, (income * rng.gamma(4, 0.25, 300)).round(0), np.arange(300) % 3 == 0)
    with np.errstate(over="raise"):
        assert all(
            own.estimate >= 0 for own in es.calibration_error(es.tally(data, **NAMES, cuts=[2e6]), same_scale=True).estimates
        )


def test_rows_that_lack_several_columns_are_not_counted_twice():
    """Five lines said that 1,881 rows were left out, of 3,000 of which 1,388 were kept."""
    score, group = np.random.default_rng(11).random(400), np.array(["a", "b"], dtype=object)[np.arange(400) % 2]
    score[:90], group[:60] = np.nan, None
    outcome = np.random.default_rng(12).integers(0, 2, 400)
    audit = es.audit(frame(score, outcome, group), repair=False, nulls="drop", **NAMES)
    assert "rows left out: s is null in 90, g in 60; some may lack several" in verbose(audit)


def test_a_tolerance_is_named_of_several_attributes_too(steps):
    data = steps | {"h": np.arange(900) % 3}
    audit = es.audit(data, repair=False, tolerance=0.5, score="s", outcome="y", attributes=["g", "h"], user="u")
    assert audit.verdict == "inconclusive" and "No difference" not in repr(audit)
    assert "Neither a difference of more than 0.5 between groups nor its absence in all is shown" in " ".join(repr(audit).split())


def test_a_state_of_a_repair_has_its_reason():
    """It said "could not be judged" beside "a constant gap of 0.125 or more would have been found"; and groups were 0 and 1."""
    rng = np.random.default_rng(1)
    score, group = rng.random(1200), np.arange(1200) % 2
    data = frame(score, rng.random(1200) < 0.8 * score + 0.1 * group, group)
    found = es.verify(es.calibrate(es.tally(data, **NAMES, split="1/2")), data)
    said = " ".join(found.text().split())
    assert (
        found.state == "could not be judged" and "no disparity is shown before the repair either" in said and "g = 0 g = 1" in said
    )


def test_long_names_are_cut_and_numbers_are_not():
    """A line ended in "+20 points at 3 (1.1 to 3…"."""
    rng = np.random.default_rng(13)
    score, group = rng.random(1200), np.arange(1200) % 2
    names = np.array(["African-American × Female, 25 to 45 years", "African-American × Male, 25 to 45 years"])
    audit = es.audit(frame(score, rng.random(1200) < 0.2 + 0.3 * group, names[group]), repair=False, **NAMES)
    (line,) = [line for line in repr(audit).splitlines() if re.search(r"\+\d", line)]
    assert re.search(r"\+\d+ points at 0\.\d+ \(\d+ to \d+\)$", line) and line.count("…") == 2 and len(line) <= 80


def test_pairs_that_stay_within_a_tolerance_are_not_said_to_be_alike():
    """Beside a disparity beyond the tolerance it said "2 pairs are not shown to differ": they differ, by less."""
    rng = np.random.default_rng(14)
    score, group = rng.random(1800), np.arange(1800) % 3
    outcome = rng.random(1800) < 0.2 + 0.3 * score + np.array([0, 0.12, 0.35])[group]
    audit = es.audit(frame(score, outcome, np.array(["a", "b", "c"])[group]), repair=False, tolerance=0.12, **NAMES)
    assert audit.verdict == "disparity" and re.search(r"not shown to differ by more than 12 points", " ".join(repr(audit).split()))
    assert re.search(r"pairs of groups differs? by more than 12 points; for .* no gap beyond 12 points is shown", page(audit))
