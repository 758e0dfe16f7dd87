"""What an audit does not say, and when: each row of the table in docs/verdicts.md, shown on data."""

import re
from pathlib import Path

import numpy as np
import pytest

import evenscore as es

PAGE = Path(__file__).parents[2] / "docs" / "verdicts.md"
NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}


def people(seed=0, *, n_users=400, gap=0.0, low=(0.0, 0.0), high=(1.0, 1.0), curve=lambda s: 0.2 + 0.5 * s, tiny=0, factor=1.0):
    """Two groups, one row a user, scores evenly between low and high; a third of ``tiny`` users."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n_users)
    score = np.array(low)[group] + (np.array(high) - np.array(low))[group] * rng.random(n_users)
    outcome = (rng.random(n_users) < np.clip(curve(score) + gap * group, 0, 1)).astype(float)
    label = np.array(["a", "b"], dtype=object)[group]
    label[:tiny] = "c"
    return {"s": factor * score, "y": outcome, "g": label.astype(str), "u": np.arange(n_users)}


def audited(data, **options):
    found = es.audit(data, **(NAMES | options))
    (subject,) = found.to_dict()["subjects"]
    return found, subject, " ".join([*found.summary, " ".join(found.text(verbose=True).split())])


REFUSALS = {}


def refusal(name):
    """Registers the test of a row of the table."""

    def register(test):
        REFUSALS[name] = test
        return test

    return register


@refusal("that groups are treated alike")
def no_parity_without_a_tolerance():
    found, _, text = audited(people())
    assert found.verdict == "inconclusive" and "not proof that there is none" in text
    found, _, _ = audited(people(), tolerance=0.01)
    assert found.verdict == "inconclusive"


@refusal("which group is higher")
def no_side_without_a_disparity():
    _, subject, text = audited(people(3))
    assert subject["tests"]["parity"]["pairs"][0]["verdict"] == "inconclusive" and subject["max_gap"] is not None
    assert not re.search(r"outcomes of [ab] (above|below|higher|lower)", text)


@refusal("a gap where groups have no scores in common")
def no_gap_without_overlap():
    found, subject, text = audited(people(low=(0.0, 0.6), high=(0.4, 1.0), curve=lambda s: 0.7 - 0.4 * (s > 0.5), n_users=600))
    assert subject["max_gap"] is None and subject["shown_gap"] is None and subject["unavailable"]["max_gap"]
    assert found.verdict == "disparity" and "misordered" in text and "largest gap" not in text


@refusal("that a score which is not monotone treats groups unequally")
def a_hump_is_no_disparity():
    _, subject, text = audited(people(curve=lambda s: 0.1 + 2.8 * s * (1 - s), n_users=3000))
    assert subject["verdict"] == "inconclusive" and subject["tests"]["ordering"]["verdict"] != "disparity"
    assert "not monotone" in text


@refusal("that points which fall as the outcome rises put people in the wrong order")
def a_falling_score_is_turned_round():
    _, subject, text = audited(people(low=(0.0, 0.6), high=(0.4, 1.0), curve=lambda s: 0.9 - 0.8 * s, n_users=600, factor=850))
    assert subject["verdict"] == "inconclusive" and subject["tests"]["ordering"]["direction"] == "falling"
    assert "misordered" not in text and "not monotone" not in text


@refusal("that scores are off")
def no_error_down_to_zero():
    _, subject, text = audited(people(1, curve=lambda s: s))
    assert all(row["ci_low"] == 0 for row in subject["calibration_error"]["rows"]) and "are off by" not in text


@refusal("curve, means, limits or any part in a test of a group")
def few_people_are_no_curve():
    _, subject, text = audited(people(tiny=4))
    assert "c" not in {row["group"] for row in subject["curves"]["rows"]}
    assert next(row for row in subject["groups"] if row["group"] == "c")["mean_outcome"] is None
    assert "not judged: 4 users" in text


@refusal("parity of everyone")
def parity_needs_every_group():
    data = people(tiny=4, n_users=3000)
    found, subject, _ = audited(data, tolerance=0.4)
    assert subject["tests"]["parity"]["verdict"] == "parity" and found.verdict == "inconclusive" and "c" in subject["reason"]


@refusal("how far scores are off; squared error and log loss before a repair")
def no_error_across_units():
    _, subject, text = audited(people(factor=100, gap=0.3), threshold=50)
    assert subject["calibration_error"] is None and "one scale" in subject["unavailable"]["calibration"]
    assert "off by" not in text


@refusal("who would get another decision at the same threshold")
def no_decisions_at_one_threshold_across_units():
    _, subject, text = audited(people(factor=100, gap=0.3), threshold=50)
    assert subject["unavailable"]["accuracy"] and "the same overall share of positive decisions" in text


@refusal("that a repair works")
def a_repair_is_verified_or_said_not_to_be():
    data = people(gap=0.35)
    _, subject, text = audited(data)
    assert subject["repair"]["verified"] is False and "any more" not in text
    _, subject, text = audited(es.tally(data, **NAMES), **dict.fromkeys(NAMES))
    assert subject["repair"]["verified"] is False and "unverified" in text


@refusal("that a repair is suggested")
def no_repair_that_makes_a_group_worse():
    data = people(11, gap=0.35, n_users=600)
    found = es.audit(data, **NAMES)
    repair = found.subjects[0].repair
    worse = {**found.to_dict()["subjects"][0]["repair"]}
    assert worse["suggested"] == repair.suggested and (repair.suggested or worse["why_not"])


@refusal("that users and rows tell the same story")
def users_and_rows_are_two_questions():
    rng = np.random.default_rng(5)
    level = rng.random(600)
    data = {"u": np.repeat(np.arange(600), np.where(level > 0.5, 12, 1))}
    data["g"] = np.array(["a", "b"])[data["u"] % 2]
    data["s"] = rng.random(len(data["u"]))
    data["y"] = (rng.random(len(data["u"])) < 0.2 + 0.6 * level[data["u"]]).astype(float)
    _, subject, text = audited(data)
    means = subject["mean_outcomes"]
    assert means["per_row"] - means["per_user"] > 0.05 and means["sentence"] in text
    assert text.index(means["sentence"]) < text.index("tested whether")


@refusal("what happens at a threshold that few people reach")
def nothing_at_a_threshold_of_few():
    _, subject, text = audited(people(), threshold=0.99)
    assert subject["tests"]["marginal"]["verdict"] == "inconclusive" and subject["tests"]["marginal"]["p_value"] is None
    assert "nothing can be judged" in text


@refusal("which thresholds would be fair")
def no_thresholds_without_outcomes_that_vary():
    _, subject, _ = audited(people(curve=lambda s: 0 * s), threshold=0.5)
    assert subject["thresholds"] is None and "all outcomes are equal" in subject["unavailable"]["thresholds"]


@refusal("that outcomes jump at a threshold")
def a_steep_line_is_no_jump():
    data = people(n_users=3000)
    data["s"] = np.random.default_rng(5).normal(0, 8, 3000)
    data["y"] = data["s"] + np.random.default_rng(6).normal(0, 1, 3000)
    found = es.marginal_test(data, **NAMES, threshold=-6)
    assert all("bends so fast" in jump.reason for jump in found.jumps)


@refusal("that outcomes on both sides of a threshold decide")
def one_side_of_the_threshold_decides():
    _, subject, text = audited(people(n_users=2000), threshold=0.5)
    assert subject["tests"]["marginal"]["labels"] == "positive" and "labels" in text


@refusal("that an impact ratio below .8 is a verdict")
def four_fifths_is_a_convention():
    data = people(1, high=(1.0, 0.7), n_users=2000)
    found, _, text = audited(data, threshold=0.5)
    ratio = min(row["ratio"] for row in es.decision_metrics(data, **NAMES, threshold=0.5).impact_ratios)
    assert ratio < 0.8 and found.verdict == "inconclusive" and "convention" in text


@refusal("error rates of decisions")
def no_error_rates_of_amounts():
    data = people()
    data["y"] = 100 * data["y"] + np.arange(len(data["y"]))
    metrics = es.decision_metrics(data, **NAMES, threshold=0.5)
    assert {row["metric"] for row in metrics.rows()} == {"selection_rate"} and "0/1" in repr(metrics)


@refusal("how small a gap could have been seen")
def no_power_without_a_test():
    found, subject, _ = audited(people(low=(0.0, 0.6), high=(0.4, 1.0)))
    assert subject["minimum_detectable_gap"] is None and subject["unavailable"]["minimum_detectable_gap"]
    assert found.check(require_power=0.1).outcome == "unshown"


@refusal("a p-value of the change between two audits")
def no_p_value_of_a_change():
    found = es.compare_audits(audited(people(gap=0.3), repair=False)[0], audited(people(), repair=False)[0])
    assert "no p-value of the change" in repr(found)


@pytest.mark.parametrize("name", REFUSALS)
def test_an_audit_does_not_say(name):
    REFUSALS[name]()


def test_the_table_has_a_test_for_each_row():
    table = PAGE.read_text("utf-8").split("## What the audit refuses to say, and when")[1].split("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
    assert rows[1:] == list(REFUSALS)  # after the header
