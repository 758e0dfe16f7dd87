"""Assertions for test suites: they pass, fail and refuse when they should, and say why."""

import numpy as np
import pytest

import evenscore as es
from evenscore.testing import assert_no_disparity, assert_parity

COLUMNS = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


@pytest.fixture(scope="module")
def fair():
    return es.simulate(4000, rows_per_user=2).data(seed=1)


@pytest.fixture(scope="module")
def unfair():
    return es.simulate(1500, curve={"a": (0, 1), "b": (-0.8, 1)}, rows_per_user=2).data(seed=1)


def few(data, n_users=60):
    kept = np.isin(data["user"], np.unique(data["user"])[:n_users])
    return {name: values[kept] for name, values in data.items()}


def test_parity_that_is_shown_passes_and_returns_the_test(fair):
    test = assert_parity(fair, tolerance=0.2, **COLUMNS)
    assert isinstance(test, es.ParityTest) and test.verdict == "parity" and test.tolerance == 0.2
    assert assert_parity(es.tally(fair, **COLUMNS), tolerance=0.2).p_value == test.p_value


def test_parity_is_not_passed_for_want_of_data(fair):
    with pytest.raises(AssertionError, match=r"asks for parity within 0\.001, which is not shown") as raised:
        assert_parity(fair, tolerance=0.001, **COLUMNS)
    assert "inconclusive" in str(raised.value)


def test_a_disparity_fails_both_with_the_gap_in_the_message(unfair):
    for check in (lambda: assert_parity(unfair, tolerance=0.05, **COLUMNS), lambda: assert_no_disparity(unfair, **COLUMNS)):
        with pytest.raises(AssertionError, match="a gap") as raised:
            check()
        assert "max gap" in str(raised.value) and not isinstance(raised.value, es.EvenscoreError)


def test_no_disparity_passes_where_nothing_is_shown(fair):
    test = assert_no_disparity(fair, **COLUMNS)
    assert test.verdict == "inconclusive"
    assert assert_no_disparity(fair, require_power=1.5 * test.minimum_detectable_gap, **COLUMNS).p_value == test.p_value


def test_power_can_be_required(fair):
    with pytest.raises(AssertionError, match=r"asks that a gap of 0\.01 be found"):
        assert_no_disparity(fair, require_power=0.01, **COLUMNS)


def test_a_pair_that_cannot_be_judged_has_no_power(fair):
    lone = {name: np.concatenate([values, values[:1]]) for name, values in fair.items()}
    lone["group"][-1], lone["user"][-1] = "c", lone["user"].max() + 1
    assert assert_no_disparity(lone, **COLUMNS).verdict == "inconclusive"
    with pytest.raises(AssertionError, match="some groups cannot be judged"):
        assert_no_disparity(lone, require_power=0.5, **COLUMNS)


def test_options_reach_the_tally_and_the_test(fair):
    test = assert_no_disparity(fair, **COLUMNS, cells=256, method="sup", weighting="row", tolerance=0.3)
    assert (test.method, test.weighting, test.tolerance) == ("sup", "row", 0.3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tolerance": None, **COLUMNS}, "needs tolerance="),
        ({"tolerance": -1, **COLUMNS}, "positive gap"),
        ({"tolerance": 0.1, "score": "score"}, "outcome, group, user missing"),
    ],
)
def test_bad_use_is_no_assertion(fair, options, words):
    with pytest.raises(es.EvenscoreError, match=words):
        assert_parity(fair, **options)


def test_a_tally_takes_no_columns(fair):
    with pytest.raises(es.EvenscoreError, match="counted already: score"):
        assert_no_disparity(es.tally(few(fair), **COLUMNS), score="score")


@pytest.mark.parametrize("asked", [{"at_least": 0.1}, {"at_most": 0.99}, {"max_difference": 0.9}, {"min_ratio": 0.01}])
def test_assert_metric_fails_where_a_group_cannot_be_seen(asked):
    """The last group has no positives, so that nothing is known of its tpr; the others are all right."""
    from evenscore.testing import assert_metric

    rng = np.random.default_rng(0)
    data = {"s": rng.random(2000), "g": np.array(["a", "b", "c"])[np.arange(2000) % 3]}
    data["y"] = ((rng.random(2000) < data["s"]) & (data["g"] != "c")).astype(int)
    columns = {"score": "s", "outcome": "y", "group": "g", "user": None}
    with pytest.raises(AssertionError, match="not known"):
        assert_metric(data, "tpr", threshold=0.5, **asked, **columns)
    seen = {name: column[data["g"] != "c"] for name, column in data.items()}
    assert_metric(seen, "tpr", threshold=0.5, **asked, **columns)


def test_assert_metric_holds_limits_not_estimates():
    from evenscore.testing import assert_metric

    data = es.simulate(800, rows_per_user=3).data(seed=2)
    tally = es.tally(data, score="score", outcome="outcome", group="group", user="user", cuts=[0.5])
    found = assert_metric(tally, "tpr", threshold=0.5, at_least=0.5, at_most=0.9, max_difference=0.2, min_ratio=0.7)
    low = min(found.of(group, "tpr")["ci_low"] for group in found.groups)
    for asked in ({"at_least": low + 0.001}, {"at_most": 0.6}, {"max_difference": found.difference("tpr")["ci_high"] - 1e-6}):
        with pytest.raises(AssertionError, match="tpr: "):
            assert_metric(tally, "tpr", threshold=0.5, **asked)
    with pytest.raises(es.OptionError, match="at_least="):
        assert_metric(tally, "tpr", threshold=0.5)
