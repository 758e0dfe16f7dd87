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
    return found, subject, " ".join([*found.summary, repr(found)])


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
    assert found.verdict == "inconclusive" and "not the same as parity" in text
    found, _, _ = audited(people(), tolerance=0.01)
    assert found.verdict == "inconclusive"


@refusal("which group is higher")
def no_side_without_a_disparity():
    _, subject, text = audited(people(3))
    assert subject["tests"]["parity"]["pairs"][0]["verdict"] == "inconclusive" and subject["max_gap"] is not None
    assert not re.search(r"outcomes of [ab] (above|below|higher|lower)", text)


@refusal("a gap where groups have no scores in common")
def no_gap_without_overlap():
    found, subject, text = audited(people(low=(0.0, 0.6), high=(0.4, 1.0), curve=lambda s: 0.9 - 0.8 * s, n_users=600))
    assert subject["max_gap"] is None and subject["shown_gap"] is None and subject["unavailable"]["max_gap"]
    assert found.verdict == "disparity" and "misordered" in text and "largest gap" not in text


@refusal("that a score which is not monotone treats groups unequally")
def a_hump_is_no_disparity():
    _, subject, text = audited(people(curve=lambda s: 0.1 + 2.8 * s * (1 - s), n_users=3000))
    assert subject["verdict"] == "inconclusive" and subject["tests"]["ordering"]["verdict"] != "disparity"
    assert "not monotone" in text


@refusal("anything about a group of fewer than 10 users")
def few_people_are_no_curve():
    _, subject, text = audited(people(tiny=4))
    assert "c" not in {row["group"] for row in subject["curves"]["rows"]}
    assert next(row for row in subject["groups"] if row["group"] == "c")["mean_outcome"] is None
    assert "not judged: 4 users" in text


@refusal("parity of everyone when a group was not judged")
def parity_needs_every_group():
    data = people(tiny=4, n_users=3000)
    found, subject, _ = audited(data, tolerance=0.4)
    assert subject["tests"]["parity"]["verdict"] == "parity" and found.verdict == "inconclusive" and "c" in subject["reason"]


@refusal("how far scores are off when they are not on the outcome's scale")
def no_error_across_units():
    _, subject, text = audited(people(factor=100, gap=0.3), threshold=50)
    assert subject["calibration_error"] is None and "one scale" in subject["unavailable"]["calibration"]
    assert "off by" not in text


@refusal("that a repair works")
def a_repair_is_verified_or_said_not_to_be():
    data = people(gap=0.35)
    _, subject, text = audited(data)
    assert subject["repair"]["verified"] is False and "any more" not in text
    _, subject, text = audited(es.tally(data, **NAMES), **dict.fromkeys(NAMES))
    assert subject["repair"]["verified"] is False and "unverified" in text


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


@refusal("how small a gap could have been seen when nothing was judged")
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
    table = PAGE.read_text("utf-8").split("## What an audit does not say")[1].split("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
    assert rows[1:] == list(REFUSALS)  # after the header
