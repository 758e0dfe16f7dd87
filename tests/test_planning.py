"""Plans are promises: simulate with the planned users and see whether the gap is found as often as promised."""

import numpy as np
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.parity import parity_family

COLUMNS = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


def data_with_gap(users, gap, rate, rows, correlation, seed):
    """Two groups of users with this many rows each, alike within a user; group b higher by the gap."""
    from scipy import stats

    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(2 * users), rows)
    group = np.where(user < users, "a", "b")
    latent = np.sqrt(correlation) * rng.normal(size=2 * users)[user] + np.sqrt(1 - correlation) * rng.normal(size=len(user))
    outcome = stats.norm.cdf(latent) < rate + gap * (group == "b")
    return {"score": rng.beta(2, 2, len(user)), "outcome": outcome, "group": group, "user": user}


@pytest.mark.parametrize(("rows", "correlation", "rate", "gap"), [(1, 0.0, 0.5, 0.12), (4, 0.6, 0.2, 0.1)])
def test_the_planned_users_find_the_gap(rows, correlation, rate, gap):
    plan = es.plan(gap=gap, rows_per_user=rows, correlation=correlation, outcome_rate=rate)
    users = max(plan.users.values())
    found = [
        parity_family(es.tally(data_with_gap(users, gap, rate, rows, correlation, seed), **COLUMNS), "a", "b")["combined"] < 0.05
        for seed in range(120)
    ]
    assert 0.68 < np.mean(found) < 0.92


def test_a_tally_plans_for_more_of_its_kind():
    """Four times the users of a tally see about what a tally of four times the users sees."""
    small = es.tally(as_dict(repeated_users(4000, seed=1)), **NAMES)
    large = es.tally(as_dict(repeated_users(16_000, seed=2)), **NAMES, lattice=small)
    planned = es.plan(small, users=4 * sum(small.n_users.values())).gap
    assert planned == pytest.approx(es.plan(large).gap, rel=0.15)
    assert planned < es.plan(small).gap


def test_users_needed_and_smallest_gap_are_inverse():
    tally = es.tally(as_dict(repeated_users(4000, seed=1)), **NAMES)
    needed = es.plan(tally, gap=0.05)
    again = es.plan(tally, users=sum(needed.users.values()))
    assert again.gap == pytest.approx(0.05, rel=0.05)
    assert needed.gap == pytest.approx(0.05, rel=0.05)


def test_the_smallest_gap_is_the_tests_own():
    tally = es.tally(as_dict(repeated_users(4000, seed=1)), **NAMES)
    assert es.plan(tally).gap == pytest.approx(es.parity_test(tally, both=False).minimum_detectable_gap, rel=0.08)


def test_alike_rows_need_more_users_and_more_rows_fewer():
    def users(**assumed):
        return sum(es.plan(gap=0.06, method="l2", **assumed).users.values())

    assert users(rows_per_user=4, correlation=0.0) < users(rows_per_user=4, correlation=0.8) < 1.2 * users(rows_per_user=1)
    assert users(rows_per_user=1, power=0.9) > users(rows_per_user=1, power=0.6)


def test_a_plan_reads_well():
    plan = es.plan(users=2000, rows_per_user=2)
    assert "is found with probability 0.8" in repr(plan)
    assert plan.rows()[0]["users_a"] == 1000
    assert plan.to_dict()["users"] == {"a": 1000, "b": 1000}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give a gap"),
        ({"gap": -1}, "gap=-1"),
        ({"gap": "x"}, "gap='x'"),
        ({"users": "x"}, "at least 2"),
        ({"gap": 0.1, "power": "x"}, "power='x'"),
        ({"gap": 0.1, "power": 1.5}, "power=1.5"),
        ({"gap": 0.1, "alpha": 0}, "alpha=0"),
        ({"gap": 0.1, "method": "luck"}, "'auto', 'sup'"),
        ({"users": 1}, "at least 2"),
        ({"gap": 0.1, "outcome_rate": 0}, "outcome_rate=0"),
        ({"gap": 0.1, "ratio": -1}, "ratio=-1"),
        ({"gap": 0.1, "correlation": 2}, "correlation"),
    ],
)
def test_impossible_plans(options, message):
    with pytest.raises(es.OptionError, match=message):
        es.plan(**options)


def test_what_cannot_be_planned_says_so():
    data = {"s": [0.1] * 50 + [0.9] * 50, "y": [0, 1] * 50, "g": ["a"] * 50 + ["b"] * 50, "u": range(100)}
    plan = es.plan(es.tally(data, **NAMES), gap=0.1)
    assert "cannot be planned" in repr(plan)


def test_plan_for_a_metric_is_what_decision_metrics_detects():
    """With the users at hand the plan gives the difference beside the comparison, and four times the users half of it."""
    data = es.simulate(800, rows_per_user=3).data(seed=2)
    tally = es.tally(data, score="score", outcome="outcome", group="group", user="user", cuts=[0.5])
    now = es.plan(tally, metric="prevalence", threshold=0.5)
    more = es.plan(tally, metric="prevalence", threshold=0.5, users=4 * 1600)
    assert more.gap == pytest.approx(now.gap / 2, rel=0.03)
    needed = es.plan(tally, metric="prevalence", threshold=0.5, gap=now.gap)
    assert sum(needed.users.values()) == pytest.approx(1600, rel=0.03)
    with pytest.raises(es.OptionError, match="metric= needs threshold="):
        es.plan(tally, metric="tpr")
    with pytest.raises(es.OptionError, match="'tpr'"):
        es.plan(tally, metric="recall", threshold=0.5)
