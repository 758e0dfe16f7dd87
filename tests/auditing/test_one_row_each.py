"""Data with one row a person, read sentence by sentence: what was said of scores in steps, repairs, tolerances and thresholds."""

import numpy as np

import evenscore as es
from evenscore.calibration.repair_state import describe_change
from evenscore.report.first_screen import first_screen
from evenscore.report.headline import score_text
from evenscore.report.threshold_text import thresholds_text

NAMES = {"score": "s", "outcome": "y", "group": "g", "user": None}


def people(n=1200, gap=0.0, seed=0, groups=("a", "b")):
    rng = np.random.default_rng([11, seed])
    group = np.arange(n) % 2
    score = rng.random(n) * 0.8 + 0.1
    return {"s": score, "y": (rng.random(n) < score + gap * (group - 0.5)).astype(int), "g": np.array(groups)[group]}


def lines(text):
    return " ".join(text.split())


def test_a_score_in_steps_of_a_half_is_not_rounded_to_another():
    """A gap at 29.5 points of the LSAT was said to be at 30."""
    assert [score_text(score) for score in (29.5, 3.25, 0.1187, 637.2)] == ["29.5", "3.25", "0.12", "637.2"]


def test_a_gap_that_only_the_whole_curve_shows_is_not_said_to_be_shown():
    """ "the largest estimate of a gap that is shown is 0.199", and below "no single score shows a gap by itself"."""
    for seed in range(20):
        audit = es.audit(people(500, 0.11, seed), repair=False, **NAMES)
        if audit.verdict == "disparity" and not audit.subjects[0].parity.regions:
            break
    said = lines(audit.text(verbose=True))
    assert "the largest estimate of a gap, not shown by itself, is" in said and "gap that is shown" not in said


def test_a_tolerance_is_written_as_it_was_given():
    """ "the share with denied differs by more than 5.0 points between groups"."""
    said = lines(es.audit(people(3000, 0.3), tolerance=0.05, repair=False, **NAMES).text())
    assert "At the same s, y is more common in one group than in the other, by more than 5 points" in said
    said = lines(es.audit(people(20_000), tolerance=0.2, repair=False, **NAMES).text())
    assert "At the same s, y is equally common in a and b to within 20 points, wherever there are enough people" in said


def test_what_noise_explains_is_not_said_to_be_a_gap_of_nothing():
    """ "the typical gap falls from 0.175 to 0", where only 0.19 would have been found."""
    before, after = (es.parity_test(people(2000, gap), **NAMES) for gap in (0.3, 0.0))
    moved, words = describe_change(before, after)
    assert moved == "falls" and words.endswith("to no more than noise")
    assert describe_change(after, before)[1].startswith("the typical gap rises from no more than noise to 0.")


def test_a_repair_that_leaves_more_than_the_tolerance_is_not_suggested():
    """A "suggested repair" left a typical gap of 0.222 at a tolerance of 0.05, too few people having been left to show it."""
    rng = np.random.default_rng([13, 10])
    group, score = (np.arange(1200) % 6 == 0).astype(int), rng.integers(1, 9, 1200).astype(float)
    outcome = (rng.random(1200) < score / 12 + 0.33 * group * rng.random()).astype(int)
    found = es.audit({"s": score, "y": outcome, "g": group}, tolerance=0.02, **NAMES).subjects[0].repair
    assert found.state == "no longer shown" and found.verification.rms_gap_after > 0.1
    assert found.sentence.startswith("a repair to try, not shown to work: ")


def test_the_next_step_fits_the_repair_that_was_tested():
    """The audit lets small groups lean on the pooled map; the command that it gave did not, and found another repair."""
    audit = es.audit(people(2000, 0.3), **NAMES)
    assert "--shrink" in first_screen(audit).step[1]


def test_people_are_counted_in_whole_people():
    """ "to_positive 0.0000", "286.0", and a column of False about outcomes that were all seen."""
    tally = es.tally(people(2000, 0.3), cuts=[0.5], **NAMES)
    test, thresholds = es.marginal_test(tally, threshold=0.5), es.fair_thresholds(tally, threshold=0.5)
    said = thresholds_text(tally, test, thresholds, [], verbose=True)
    moved = max(round(own.to_positive) for own in thresholds.groups)
    assert "suggestive" not in said and any(line.split()[-2:] == [str(moved), "0"] for line in said.splitlines())


def test_what_is_counted_once_is_singular_and_groups_are_named_as_elsewhere(tmp_path):
    """ "1 scores lie outside", of groups no and yes that other commands call approved = no."""
    data = people(800, groups=("no", "yes"))
    path = tmp_path / "map.json"
    es.calibrate(data, **NAMES).save(path)
    said = str(es.Calibrator.load(path).apply([-3.0, 0.5], ["no", "yes"]))
    assert "1 score lies outside the range" in said and "g = no" in said
    assert "3 scores lie outside" in str(es.Calibrator.load(path).apply([-3.0, -2.0, 7.0], ["no", "yes", "no"]))
