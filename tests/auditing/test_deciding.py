"""Which test decides is chosen from the scores alone, and the headline is about what it shows."""

import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import evenscore as es
from evenscore.auditing.deciding import make_decision
from evenscore.cli import main
from evenscore.estimation.comparison import compare_groups
from evenscore.estimation.overlap import find_overlap
from evenscore.estimation.point_pairs import LIKELY, _joint_covariance, own_curves, point_pairs
from evenscore.estimation.smoothing import Smoothing
from evenscore.tallies.view import GroupView

NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}
SCHEMAS = Path(es.__file__).parent / "report" / "schema"


def people(score, rate, group, seed=0):
    """One row a user."""
    draws = np.random.default_rng([1, seed]).random(len(score))
    return {"s": score, "y": draws < rate, "g": group, "u": np.arange(len(score))}


def lending(n=600, seed=0):
    """The paper's example: men are scored in [0, 1/2), women in [1/2, 1), and women default less all the same."""
    rng = np.random.default_rng(seed)
    women = np.arange(n) % 2 == 1
    score = rng.random(n) / 2 + 0.5 * women
    rate = np.where(women, 0.1 + 0.3 * (score - 0.5), 0.2 + 0.6 * score)
    return people(score, rate, np.where(women, "women", "men"), seed)


def overlapping(curve, n=1200, seed=0):
    """Two groups, one mostly at low and one mostly at high scores."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) % 2
    score = np.where(group == 0, rng.beta(2, 5, n), rng.beta(5, 2, n))
    return people(score, curve(score, group), group, seed)


def hump(score, group=0):
    return 0.2 + 0.5 * np.exp(-(((score - 0.5) / 0.2) ** 2))


@pytest.fixture(scope="module")
def misordered():
    return es.audit(lending(), repair=False, **NAMES)


def test_the_papers_own_example_fails_the_gate(misordered, tmp_path):
    """0.1.0: inconclusive, exit code 0, beside "at least 100.0 % of pairs are misordered"."""
    assert (misordered.verdict, misordered.check().code) == ("disparity", 1)
    (pair,) = misordered.subjects[0].decision.pairs
    assert (pair.decided_by, pair.shown_by, misordered.subjects[0].decides) == ("ordering", ("ordering",), ("ordering",))
    assert misordered.subjects[0].parity.alpha == misordered.subjects[0].ordering.alpha == 0.05  # each at the full level
    text = " ".join(misordered.summary)
    assert "A lower " in text and "in one group stands for" in text and "the order across groups decides" in text
    rows = zip(*lending().values(), strict=True)
    (tmp_path / "d.csv").write_text("s,y,g,u\n" + "\n".join(f"{s},{int(y)},{g},{u}" for s, y, g, u in rows))
    asked = ["audit", str(tmp_path / "d.csv"), "--score", "s", "--outcome", "y", "--group", "g", "--user", "u", "--no-repair"]
    for more, code in (([], 1), (["--decide", "parity"], 0)):  # the second as in 0.1.0
        with pytest.raises(SystemExit) as ended:
            main([*asked, *more])
        assert ended.value.code == code


def test_no_overlap_has_no_gap_and_the_headline_is_the_misordered_share(misordered):
    document = misordered.to_dict()
    assert document["max_gap"] is document["shown_gap"] is document["headline"]["max_gap"] is None
    assert 0 < document["headline"]["misordered_at_least"] <= document["headline"]["misordered_share"]
    assert re.search(r"<h1[^>]*>[^<]*at least [\d.]+\s% of pairs", misordered.to_html())


def test_outcomes_do_not_choose_the_test():
    """Whatever the outcomes, the same scores are decided about by the same test."""
    rng = np.random.default_rng(3)
    for data in (lending(), overlapping(lambda score, group: score), people(rng.random(400), 0.5, np.arange(400) % 2)):
        chosen = set()
        for seed in range(4):
            outcome = np.random.default_rng(seed).random(len(data["y"])) < (0.01, 0.5, 0.99, data["s"])[seed]
            tally = es.tally(data | {"y": outcome}, **NAMES)
            overlap = find_overlap(compare_groups(tally, *tally.groups, "user"))
            chosen.add((overlap.decides_by, overlap.outside_a, overlap.outside_b))
        assert len(chosen) == 1


def test_full_overlap_is_the_parity_test_itself():
    rng = np.random.default_rng(0)
    score = rng.random(600)
    tally = es.tally(people(score, 0.3 + 0.3 * score, np.arange(600) % 3), **NAMES)
    audit, parity = es.audit(tally, repair=False), es.parity_test(tally)
    decision = audit.subjects[0].decision
    assert [pair.p_adjusted for pair in decision.pairs] == [pair.p_adjusted for pair in parity.pairs]
    assert (decision.reason, decision.verdict, decision.tests) == (parity.reason, parity.verdict, ("parity",))
    assert audit.verdict == es.audit(tally, decide="parity", repair=False).verdict


def test_parity_decides_about_few_scores_that_lie_between_each_other():
    """Calibrated deciles of two groups: the order was asked, which shows no gap, beside a gap that "would be found"."""
    rng = np.random.default_rng(0)
    group, value = np.arange(2000) % 2, rng.integers(0, 10, 2000)
    score = value / 10 + 0.05 + 0.013 * group
    audit = es.audit(people(score, score + 0.1 * group, group), repair=False, **NAMES)
    (pair,) = audit.subjects[0].decision.pairs
    assert (pair.decided_by, pair.verdict, pair.p_value) == ("parity", "disparity", audit.tests["parity"].p_value)


def test_the_shares_outside_against_the_rows():
    data = overlapping(lambda score, group: score)
    tally = es.tally(data, **NAMES)
    overlap = find_overlap(compare_groups(tally, 0, 1, "user"))
    a, b = (data["s"][data["g"] == group] for group in (0, 1))
    low, high = np.quantile(b, 0.05), np.quantile(a, 0.95)
    assert overlap.decides_by == "parity and ordering"
    assert overlap.outside_a == pytest.approx((a < low).mean() - 0.05 + max(0, (a > high).mean() - 0.05), abs=0.02)
    assert overlap.outside_b == pytest.approx((b > high).mean() - 0.05, abs=0.02)


def test_order_beyond_the_overlap_joins_parity():
    """Each group by itself is level: people beyond the common scores show it too."""
    tally = es.tally(overlapping(lambda score, group: np.where(group == 0, 0.8, 0.2)), **NAMES)
    audit = es.audit(tally, repair=False)
    (pair,) = audit.subjects[0].decision.pairs
    assert (pair.decided_by, pair.verdict) == ("parity and ordering", "disparity") and "ordering" in pair.shown_by
    parity = audit.tests["parity"].p_value
    assert pair.p_value <= min(1, parity / 0.9, pair.p_order / 0.1) + 1e-12  # never worse than Bonferroni's bound
    fair = es.audit(overlapping(lambda score, group: 0.2 + 0.6 * score), repair=False, **NAMES)
    assert fair.verdict == "inconclusive" and fair.subjects[0].decides == ("parity", "ordering")


def test_pairs_with_and_without_overlap_are_adjusted_together():
    rng = np.random.default_rng(5)
    group = np.arange(900) % 3
    score = np.where(group == 2, 0.5 + rng.random(900) / 2, rng.random(900) / 2)
    tally = es.tally(people(score, np.where(group == 2, 0.1, 0.6), group), **NAMES)
    decision = es.audit(tally, repair=False).subjects[0].decision
    by = {(pair.group_a, pair.group_b): pair for pair in decision.pairs}
    assert {pair: own.decided_by for pair, own in by.items()} == {(0, 1): "parity", (0, 2): "ordering", (1, 2): "ordering"}
    assert by[0, 2].verdict == by[1, 2].verdict == "disparity" != by[0, 1].verdict
    p = sorted(pair.p_value for pair in decision.pairs)
    assert min(pair.p_adjusted for pair in decision.pairs) == pytest.approx(3 * p[0])  # Holm's method over all three


# A score that is not monotone


@pytest.mark.parametrize("seed", range(3))
def test_one_curve_that_is_not_monotone_is_no_disparity(seed):
    """0.1.0 called it one 10 of 10 times."""
    rng = np.random.default_rng(seed)
    score = rng.random(2000)
    test = es.ordering_test(es.tally(people(score, hump(score), np.arange(2000) % 2, seed), **NAMES))
    assert test.verdict == "inconclusive" and "a decline within a group explains" in test.reason
    assert [own.group for own in test.not_monotone] == [0, 1]
    own = test.not_monotone[0]
    assert own.words.startswith("the score is not monotone in 0: the expected outcome falls by")
    assert 0.3 < own.low_score < 0.7 < own.high_score and own.fall == pytest.approx(0.45, abs=0.2)
    assert test.to_dict()["not_monotone"][1]["group"] == 1


def test_the_audit_says_so_in_words():
    audit = es.audit(overlapping(hump, 2000), repair=False, **NAMES)
    assert audit.verdict == "inconclusive"
    assert "the score is not monotone in" in " ".join(audit.summary)


def test_a_monotone_score_is_not_called_otherwise():
    called = 0
    for seed in range(20):
        score = np.random.default_rng(seed).random(400)
        called += len(es.ordering_test(es.tally(people(score, 0.3 + 0.4 * score, np.arange(400) % 2, seed), **NAMES)).not_monotone)
    assert called <= 3


def test_what_no_decline_explains_against_brute_force():
    data = overlapping(hump, 400)
    tally = es.tally(data, **NAMES)
    a, b = own_curves(GroupView.each(tally, "user"), Smoothing(bandwidth="band"))
    pairs = point_pairs(a, b)
    points, level = np.concatenate([a.points, b.points]), np.concatenate([a.level, b.level])
    of_b = np.arange(len(points)) >= len(a.points)
    covariance = _joint_covariance(a, b)

    def falls(first, second):
        """By how much the curve falls from one point to a later one of its group, if that is likely."""
        variance = covariance[first, first] + covariance[second, second] - 2 * covariance[first, second]
        fall = level[first] - level[second]
        return fall if fall > LIKELY * np.sqrt(max(variance, 0)) else 0.0

    explained = 0
    for low, high, across in zip(pairs.low, pairs.high, pairs.across, strict=True):
        between = np.flatnonzero((points >= points[low]) & (points <= points[high]))
        own, other = between[of_b[between] == of_b[low]], between[of_b[between] == of_b[high]]
        least = level[low] - max(falls(low, later) for later in own)
        most = level[high] + max(falls(earlier, high) for earlier in other)
        assert across == pytest.approx(least - most)
        explained += across < level[low] - level[high]
    assert 0 < explained < len(pairs.low)


# The headline


def test_the_headline_is_a_pair_that_is_shown():
    """0.1.0 took the largest estimate, of a pair of which nothing is shown."""
    rng = np.random.default_rng(2)
    group = np.repeat([0, 1, 2], [3000, 3000, 60])
    score = rng.random(len(group))
    rate = 0.3 + 0.2 * score + 0.1 * (group == 1)
    test = es.parity_test(es.tally(people(score, rate, group), **NAMES))
    gaps = {(pair.group_a, pair.group_b): pair for pair in test.pairs}
    widest = max(test.pairs, key=lambda pair: abs(pair.max_gap))
    assert 2 in (widest.group_a, widest.group_b) and widest.verdict == "inconclusive"
    assert test.max_gap == gaps[0, 1].max_gap
    shown = test.shown_gap
    assert (shown["group_a"], shown["group_b"]) == (0, 1) and shown["low"] <= shown["gap"] <= shown["high"] < 0
    audit = es.audit(es.tally(people(score, rate, group), **NAMES), repair=False)
    assert f"the largest gap that is shown is {abs(shown['gap']):.3f}" in " ".join(audit.summary)
    assert audit.shown_gap == shown


def test_when_nothing_is_shown_the_largest_estimate_is_called_so():
    score = np.random.default_rng(0).random(300)
    audit = es.audit(people(score, score, np.arange(300) % 2), repair=False, **NAMES)
    assert audit.verdict == "inconclusive" and audit.shown_gap is None
    assert "the largest estimate of a gap, not shown," in " ".join(audit.summary)
    assert audit.max_gap == audit.tests["parity"].max_gap


def test_all_cards_are_of_one_score_and_attribute():
    rng = np.random.default_rng(1)
    score, sex, age = rng.random(1500), rng.integers(0, 2, 1500), rng.integers(0, 12, 1500)
    data = people(score, np.clip(score + 0.2 * sex - 0.1, 0, 1), sex) | {"sex": sex, "age": age}
    audit = es.audit(data, score="s", outcome="y", user="u", attributes=["age", "sex"], repair=False)
    assert audit.headline.attribute == ("sex",)
    head = audit.to_dict()["headline"]
    assert head["minimum_detectable_gap"] == audit["sex"].minimum_detectable_gap < audit.minimum_detectable_gap
    points = f"{100 * audit['sex'].minimum_detectable_gap:.1f} points"
    assert points in audit.to_html().split('<details class="section"')[0]


# The document


def open_to_more(schema):
    """A schema that lets keys be added, as version 1 promises."""
    if isinstance(schema, dict):
        return {key: open_to_more(value) for key, value in schema.items() if key != "additionalProperties" or value is not False}
    return [open_to_more(value) for value in schema] if isinstance(schema, list) else schema


def test_documents_are_valid_in_both_versions(misordered):
    old, new = (json.loads((SCHEMAS / name).read_text()) for name in ("audit-1.json", "audit-1.1.json"))
    partial = es.audit(overlapping(hump, 600), threshold=0.5, **NAMES)
    named = es.audit(overlapping(hump, 600), decide=["parity", "ordering"], repair=False, **NAMES)
    for audit in (misordered, partial, named):
        document = json.loads(audit.to_json())
        assert document["schema_version"] == "1.1"
        jsonschema.Draft202012Validator(new).validate(document)
        jsonschema.Draft202012Validator(open_to_more(old)).validate(document)
    assert named.subjects[0].decision is None and named.subjects[0].alpha == 0.025


def test_two_audits_are_compared_by_the_p_value_of_the_verdict(misordered):
    """It was parity's, 0.016 beside "inconclusive" twice."""
    (change,) = es.compare_audits(misordered, misordered).changes
    assert change.p_after == misordered.subjects[0].p_value < 0.05 and change.verdict_after == "disparity"


def test_auto_stands_alone():
    with pytest.raises(es.OptionError, match="give it alone"):
        es.audit(lending(100), decide=["auto", "parity"], **NAMES)


def test_a_group_and_the_rest():
    rng = np.random.default_rng(5)
    group = np.arange(900) % 3
    score = np.where(group == 2, 0.5 + rng.random(900) / 2, rng.random(900) / 2)
    tally = es.tally(people(score, np.where(group == 2, 0.1, 0.6), group), **NAMES)
    parity, ordering = es.parity_test(tally, compare="rest"), es.ordering_test(tally)
    decision = make_decision(tally, parity, ordering, alpha=0.05, tolerance=None, weighting="user", seed=0)
    assert decision.pairs[2].decided_by == "ordering" and decision.pairs[2].verdict == "disparity"


def test_pairs_that_no_test_can_judge_do_not_cost_the_others_their_adjustment():
    """Of six groups one had two people at each score: "the order decides" about its pairs, and p went from 0.53 to 1.00."""
    rng = np.random.default_rng(3)
    group = np.repeat(["a", "b", "c", "few"], [400, 300, 300, 12])
    score = rng.integers(1, 6, len(group))
    audit = es.audit(people(score, score / 8, group), repair=False, **NAMES)
    parity, decision = audit.tests["parity"], audit.subjects[0].decision
    assert not all(pair.judged for pair in decision.pairs) and decision.tests == ("parity",)
    assert decision.p_value == parity.p_value and "pairs parity decides" not in audit.text(verbose=True)
    assert [pair.p_adjusted for pair in decision.pairs if pair.judged] == [pair.p_adjusted for pair in parity.pairs if pair.judged]


def apart_but_two(seed, n=1500):
    """Five groups, of which two have scores in common, where one has more outcomes than the other."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) % 5
    score = np.where(group < 2, rng.random(n) * 0.2, 0.2 * group + rng.random(n) * 0.18)
    outcome = rng.random(n) < score + 0.1 * (group == 0) + 0.05
    return {"s": score, "y": outcome, "g": np.array(list("abcde"))[group], "u": np.arange(n)}


def test_parity_shows_no_gap_that_the_verdict_does_not_show():
    """Nine pairs are judged by their order: "No difference is shown (p = 0.12)", and below it "the largest gap that is shown"."""
    data = apart_but_two(4)
    audit, alone = es.audit(data, repair=False, **NAMES), es.parity_test(es.tally(data, **NAMES))
    parity, decision = audit.tests["parity"], audit.subjects[0].decision
    assert alone.verdict == "disparity" and audit.verdict == parity.verdict == "inconclusive"
    assert parity.p_value == decision.p_value > 0.05 and not parity.regions and parity.adjustment == decision.adjustment
    assert "gap that is shown" not in audit.text(verbose=True) and "no gap is shown" in parity.reason
    assert next(pair.p_value for pair in parity.pairs if pair.judged) == next(pair.p_value for pair in alone.pairs if pair.judged)


def test_an_order_that_does_not_decide_makes_no_headline():
    """Of costs too skewed to be judged it said that no score had enough people of two groups, where all groups had them."""
    rng = np.random.default_rng(0)
    group, score = np.repeat(["a", "b", "c"], [900, 900, 40]), rng.gamma(2, 50, 1840)
    cost = np.where(group == "a", 0.4, 1.8) * score * np.exp(rng.normal(0, 2.2, 1840))
    audit = es.audit(people(score, 1, group) | {"y": cost}, repair=False, **NAMES)
    (subject,) = audit.subjects
    shown = [pair for pair in subject.ordering.pairs if pair.verdict == "disparity"]
    said = " ".join(audit.text(verbose=True).split())
    assert shown and subject.verdict != "disparity" and not subject.nothing_in_common
    assert "has enough people of two groups" not in said and "this test was not to decide here" in said
