import json

import numpy as np
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.simulation import Bump, Curve
from evenscore.thresholds.solver import Ladder, solve

SIMULATED = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
BIASED = {"a": (0, 1), "b": (-0.8, 1)}


def tally_of(data, t=0.5, **options):
    return es.tally(data, **SIMULATED, cuts=[t], **options)


def censored(data, t=0.5, positive="above"):
    """Outcomes known only for who got the positive decision."""
    known = data["score"] >= t if positive == "above" else data["score"] < t
    return data | {"outcome": np.where(known, data["outcome"], np.nan)}


@pytest.fixture(scope="module")
def large():
    spec = es.simulate(
        {"a": 60_000, "b": 40_000}, score={"a": (2, 3), "b": (3, 2)}, curve=BIASED, rows_per_user=2, outcome_correlation=0.5
    )
    return spec, spec.data(seed=1)


@pytest.fixture(scope="module")
def small():
    spec = es.simulate(3000, curve=BIASED, outcome_correlation=0.5)
    data = spec.data(seed=3)
    return spec, data, tally_of(data)


@pytest.mark.parametrize(("strategy", "target"), [("rate", None), ("raise", None), ("lower", None), ("target", 0.45)])
def test_true_marginal_outcomes_are_equal_on_large_data(large, strategy, target):
    spec, data = large
    found = es.fair_thresholds(tally_of(data), threshold=0.5, strategy=strategy, target=target)
    truth = {group: float(spec.truth.curve(t, group)) for group, t in found.by_group.items()}
    assert abs(truth["a"] - truth["b"]) < 0.01
    assert found.solved and not found.suggestive and found.reasons == {}
    rate = {group: spec_rate(spec, group, t) for group, t in found.by_group.items()}
    before = 0.6 * spec_rate(spec, "a", 0.5) + 0.4 * spec_rate(spec, "b", 0.5)
    after = 0.6 * rate["a"] + 0.4 * rate["b"]
    assert found.positive_rate.before == pytest.approx(before, abs=0.004)
    assert found.positive_rate.after == pytest.approx(after, abs=0.004)
    if strategy == "rate":
        assert abs(found.positive_rate.after - found.positive_rate.before) < 1e-6
        positives = found.decide(data["score"], data["group"])
        weight = 1 / np.bincount(data["user"])[data["user"]]
        assert abs(np.average(positives, weights=weight) - np.average(data["score"] >= 0.5, weights=weight)) < 0.002
    if strategy == "target":
        assert truth["a"] == pytest.approx(0.45, abs=0.01)
    moved = {group: t - 0.5 for group, t in found.by_group.items()}
    if strategy == "raise":
        assert moved["a"] == 0 < moved["b"]
    if strategy == "lower":
        assert moved["b"] == 0 > moved["a"]


def spec_rate(spec, group, t):
    density = spec.scores[spec.groups.index(group)]
    from scipy import stats

    return stats.beta(density.a, density.b).sf(t)


def test_equal_thresholds_that_are_fair_stay_within_error():
    inside = 0
    for run in range(12):
        data = es.simulate(1500, score={"a": (2, 3), "b": (3, 2)}, outcome_correlation=0.5).data(seed=(2, run))
        found = es.fair_thresholds(tally_of(data), threshold=0.5)
        assert all(abs(t - 0.5) < 0.06 for t in found.by_group.values())
        inside += all(one.ci_low <= 0.5 <= one.ci_high for one in found.groups)
    assert inside >= 8  # of 12, two intervals each, at 95 %


def test_the_same_decisions_as_a_calibrated_score_at_one_threshold(small):
    """The paper's remark."""
    _, _, tally = small
    rng = np.random.default_rng(0)
    scores, groups = rng.random(20_000), rng.choice(["a", "b"], 20_000)
    for target in (0.3, 0.5, 0.7):
        found = es.fair_thresholds(tally, threshold=0.5, strategy="target", target=target)
        calibrated = es.calibrate(tally, monotone=True).apply(scores, groups).scores
        assert (found.decide(scores, groups) != (calibrated >= target)).mean() < 2e-3
    found = es.fair_thresholds(tally, threshold=0.5, strategy="rate")
    assert (found.decide(scores, groups) != (calibrated >= found.outcome)).mean() < 2e-3
    assert (found.decide(scores, groups) != (scores >= 0.5)).mean() > 0.05


def test_below_is_the_mirror_of_above(small):
    _, data, tally = small
    mirrored = tally_of(data | {"score": 1 - data["score"], "outcome": 1 - data["outcome"]})
    for strategy in ("rate", "raise", "lower"):
        above = es.fair_thresholds(tally, threshold=0.5, strategy=strategy)
        below = es.fair_thresholds(mirrored, threshold=0.5, strategy=strategy, positive="below")
        for one, two in zip(above.groups, below.groups, strict=True):
            assert two.threshold == pytest.approx(1 - one.threshold, abs=1e-3)
            assert two.outcome_after == pytest.approx(1 - one.outcome_after, abs=1e-3)
            assert two.rate_after == pytest.approx(one.rate_after, abs=1e-3)
            assert (two.ci_low, two.ci_high) == pytest.approx((1 - one.ci_high, 1 - one.ci_low), abs=0.01)


def test_lending_below_a_risk(large):
    """Loans are granted below a risk of default: the group whose risk is overstated gets a higher limit, the other a lower one."""
    spec, data = large
    tally = tally_of(data)
    test = es.marginal_test(tally, threshold=0.5, positive="below")
    assert test.verdict == "disparity" and test.pairs[0].higher == "b"  # b defaults less at the limit: it had to be safer
    lower = es.fair_thresholds(tally, threshold=0.5, positive="below", strategy="lower")
    assert lower.by_group["a"] == 0.5 < lower.by_group["b"]  # a lower bar is a higher limit
    raised = es.fair_thresholds(tally, threshold=0.5, positive="below", strategy="raise")
    assert raised.by_group["b"] == 0.5 > raised.by_group["a"]
    for found in (lower, raised):
        truth = [float(spec.truth.curve(t, group)) for group, t in found.by_group.items()]
        assert abs(truth[0] - truth[1]) < 0.01
    assert (lower.decide([0.4, 0.6, 0.6], ["a", "a", "b"]) == [True, False, True]).all()
    repaid = es.fair_thresholds(
        tally_of(data | {"outcome": 1 - data["outcome"]}), threshold=0.5, positive="below", strategy="raise"
    )
    assert repaid.by_group["b"] == 0.5 and repaid.by_group["a"] == pytest.approx(raised.by_group["a"], abs=1e-6)


def test_labels_beyond_the_threshold_are_used_where_there_are_any(small):
    spec, data, tally = small
    known = es.fair_thresholds(tally, threshold=0.5, strategy="lower")
    unknown = es.fair_thresholds(tally_of(censored(data), nulls="unlabelled"), threshold=0.5, strategy="lower")
    assert not known.suggestive and unknown.suggestive
    assert "suggestive only" in unknown.reasons["a"] and "b" not in unknown.reasons
    one, two = known.groups[0], unknown.groups[0]
    assert two.ci_low <= 0.31 <= two.ci_high and two.ci_high - two.ci_low > 2 * (one.ci_high - one.ci_low)
    raised = es.fair_thresholds(tally_of(censored(data), nulls="unlabelled"), threshold=0.5, strategy="raise")
    assert not raised.suggestive
    truth = [float(spec.truth.curve(t, group)) for group, t in raised.by_group.items()]
    assert abs(truth[0] - truth[1]) < 0.06


def test_no_slope_to_continue_by():
    """Outcomes fall just above the threshold: a line would say that they are better below it."""
    curve = {"a": Curve(0, 1, Bump(0.3, 0.5, 0.08)), "b": (-0.8, 1)}
    data = es.simulate(4000, curve=curve).data(seed=7)
    found = es.fair_thresholds(tally_of(censored(data), nulls="unlabelled"), threshold=0.5, strategy="lower")
    assert not found.suggestive and not found.solved and found.by_group == {"a": 0.5, "b": 0.5}
    assert "do not point to where they would be lower" in found.reasons["a"]


def test_ranges_that_do_not_overlap_get_the_nearest_threshold_and_a_reason():
    data = es.simulate(3000, curve={"a": (2.5, 0.4), "b": (-2.5, 0.4)}).data(seed=1)
    tally = tally_of(data)
    raised = es.fair_thresholds(tally, threshold=0.5, strategy="raise")
    assert not raised.solved and raised.by_group["a"] == 0.5
    assert raised.by_group["b"] > 0.85 and "is out of reach, its outcomes run from" in raised.reasons["b"]
    target = es.fair_thresholds(tally, threshold=0.5, strategy="target", target=0.5)
    assert set(target.reasons) == {"a", "b"} and "no exact solution" in repr(target)
    assert target.groups[0].rate_after == pytest.approx(1, abs=0.01) and target.groups[1].rate_after < 0.1


def test_a_curve_that_is_not_monotone_is_said_to_be():
    curve = {"a": (0, 1), "b": Curve(0, 1, Bump(-0.4, 0.6, 0.08))}
    found = es.fair_thresholds(tally_of(es.simulate(8000, curve=curve).data(seed=1)), threshold=0.5, strategy="raise")
    assert "not monotone" in found.reasons["b"] and "a" not in found.reasons


def test_counts_and_rates_are_those_of_people(small):
    _, data, tally = small
    found = es.fair_thresholds(tally, threshold=0.5)
    weight = 1 / np.bincount(data["user"])[data["user"]]
    before, after = data["score"] >= 0.5, found.decide(data["score"], data["group"])
    for one in found.groups:
        mine = data["group"] == one.group
        assert one.people == pytest.approx(weight[mine].sum())
        assert one.rate_before == pytest.approx(np.average(before[mine], weights=weight[mine]), abs=1e-9)
        assert one.rate_after == pytest.approx(np.average(after[mine], weights=weight[mine]), abs=5e-4)
        assert one.to_positive == pytest.approx(weight[mine & after & ~before].sum(), abs=2)
        assert one.to_negative == pytest.approx(weight[mine & ~after & before].sum(), abs=2)
    rates = np.array([one.rate_after for one in found.groups])
    assert [one.ratio_after for one in found.groups] == pytest.approx(rates / rates.max())
    rows = es.fair_thresholds(tally, threshold=0.5, weighting="row")
    assert sum(one.people for one in rows.groups) == len(data["score"])


def test_discrete_scores_by_brute_force():
    rng = np.random.default_rng(1)
    score = rng.integers(1, 13, 30_000).astype(float)
    group = rng.integers(0, 2, 30_000)
    y = rng.random(30_000) < score / 16 + 0.12 * group
    tally = es.tally({"s": score, "y": y, "g": group, "u": np.arange(30_000)}, **NAMES)
    means = np.array([[y[(score == s) & (group == g)].mean() for s in range(1, 13)] for g in (0, 1)])
    counts = np.array([[((score == s) & (group == g)).sum() for s in range(1, 13)] for g in (0, 1)])
    raised = es.fair_thresholds(tally, threshold=6.5, strategy="raise")
    assert raised.by_group[1] == 6.5
    assert raised.by_group[0] == 1 + np.flatnonzero(means[0] >= means[1][6])[0]
    found = es.fair_thresholds(tally, threshold=6.5, strategy="rate")
    wanted = counts[:, 6:].sum()
    options = []
    for v in np.unique(means):
        first = [np.flatnonzero(means[g] >= v)[0] if (means[g] >= v).any() else 12 for g in (0, 1)]
        options.append((abs(sum(counts[g][first[g] :].sum() for g in (0, 1)) - wanted), first))
    best = min(options, key=lambda option: option[0])
    positives = found.decide(score, group).sum()
    assert abs(positives - wanted) == best[0]
    below = es.fair_thresholds(tally, threshold=6.5, strategy="raise", positive="below")
    assert below.by_group[0] == 6.5
    last = 1 + np.flatnonzero(means[1] <= means[0][5])[-1]
    assert below.by_group[1] == last + 1  # scores below it: up to the last value that is as safe


def test_solver_against_a_fine_grid():
    rng = np.random.default_rng(5)
    for _ in range(30):
        ladders, values = [], []
        for share in (0.3, 0.7):
            edge = np.linspace(0, 1, 41)
            mass = rng.random(40)
            beyond = np.concatenate([np.cumsum(mass[::-1])[::-1], [0]]) / mass.sum()
            ladders.append(Ladder(np.linspace(0, 1, 12), edge, beyond, share, 0.5))
            steps = rng.random(12) * (rng.random(12) < 0.7)
            values.append(np.cumsum(steps) / 12 + 0.1 * rng.random())
        cuts, v = solve(ladders, values, "rate", None)
        rate = sum(ladder.share * ladder.rate(np.array([cut]))[0] for ladder, cut in zip(ladders, cuts, strict=True))
        wanted = sum(ladder.share * ladder.rate(np.array([0.5]))[0] for ladder in ladders)
        assert rate == pytest.approx(wanted, abs=1e-5)
        for ladder, value, cut in zip(ladders, values, cuts, strict=True):
            reached = np.interp(cut, ladder.knot, value)
            inside = value[0] <= v <= value[-1]
            assert abs(reached - v) < 1e-4 if inside else abs(reached - np.clip(v, value[0], value[-1])) < 1e-9
        grid = np.linspace(0, 1, 4001)
        for strategy in ("raise", "lower"):
            cuts, v = solve(ladders, values, strategy, None)
            at_now = [np.interp(0.5, ladder.knot, value) for ladder, value in zip(ladders, values, strict=True)]
            assert v == pytest.approx(max(at_now) if strategy == "raise" else min(at_now))
            for ladder, value, cut, now in zip(ladders, values, cuts, at_now, strict=True):
                curve = np.interp(grid, ladder.knot, value)
                good = grid[curve >= v - 1e-12] if (curve >= v - 1e-12).any() else grid[curve >= curve[-1] - 1e-12]
                expected = 0.5 if now == v else max(0.5, good[0]) if strategy == "raise" else min(0.5, good[0])
                assert cut == pytest.approx(expected, abs=5e-4)


def test_intervals_cover_the_true_threshold():
    covered, runs = np.zeros(2), 24
    for run in range(runs):
        spec = es.simulate(800, curve={"a": (0, 1), "b": (-0.6, 1)}, outcome_correlation=0.5)
        found = es.fair_thresholds(tally_of(spec.data(seed=(3, run))), threshold=0.5, strategy="rate")
        truth = 1 / (1 + np.exp(np.array([0.3, -0.3])))
        covered += [one.ci_low <= t <= one.ci_high for one, t in zip(found.groups, truth, strict=True)]
    assert (covered >= 0.75 * runs).all()  # at 95 %, less what smoothing costs and chance


def test_users_in_both_groups_are_drawn_together():
    rows = repeated_users(6000, seed=3, spanning=True, gap=0.15)
    found = es.fair_thresholds(es.tally(as_dict(rows), **NAMES, cuts=[0.4]), threshold=0.4, strategy="raise")
    assert found.by_group[1] == 0.4 < found.by_group[0] and found.groups[0].ci_low < found.by_group[0] < found.groups[0].ci_high


def test_nothing_is_left_to_chance_or_order(small):
    _, data, tally = small
    order = np.random.default_rng(0).permutation(len(data["score"]))
    again = tally_of({name: column[order] for name, column in data.items()})
    one, two = es.fair_thresholds(tally, threshold=0.5), es.fair_thresholds(again, threshold=0.5)
    assert one.to_dict() == es.fair_thresholds(tally, threshold=0.5).to_dict()
    assert list(one.by_group.values()) == pytest.approx(list(two.by_group.values()), abs=1e-9)


def test_a_group_with_few_outcomes_is_left_alone():
    rows = repeated_users(3000, seed=2, n_groups=3)
    few = (rows.group < 2) | (rows.user < 12)
    data = {name: column[few] for name, column in as_dict(rows).items()}
    found = es.fair_thresholds(es.tally(data, **NAMES, cuts=[0.4]), threshold=0.4)
    assert found.by_group[2] == 0.4 and "its threshold is left alone" in found.reasons[2]
    assert found.positive_rate.after == pytest.approx(found.positive_rate.before, abs=1e-6)


def test_a_group_without_outcomes_on_the_positive_side_is_left_alone():
    rows = repeated_users(3000, seed=2, n_groups=3)
    hidden = (rows.score >= 0.4) & (rows.group == 2)
    data = as_dict(rows) | {"y": np.where(hidden, np.nan, rows.outcome)}
    found = es.fair_thresholds(es.tally(data, **NAMES, cuts=[0.4], nulls="unlabelled"), threshold=0.4)
    assert found.by_group[2] == 0.4 and "no row with a known outcome at or above 0.4" in found.reasons[2]
    assert np.isnan(found.outcome_at[2]) and not found.solved


def test_bad_input_is_named(small):
    _, data, tally = small
    for options, words in (
        ({"strategy": "up"}, "'rate', 'raise', 'lower', 'target'"),
        ({"strategy": "target"}, "needs target="),
        ({"strategy": "rate", "target": 0.3}, "takes no target="),
        ({"strategy": "target", "target": 3}, "not a probability"),
        ({"strategy": "target", "target": "x"}, "must be an outcome"),
        ({"threshold": 2.0}, "outside the scores"),
        ({"threshold": 0.333}, r"cuts=\[0.333\]"),
        ({"weighting": "people"}, "weighting"),
        ({"bandwidth": -1}, "bandwidth"),
    ):
        with pytest.raises(es.EvenscoreError, match=words):
            es.fair_thresholds(tally, **({"threshold": 0.5} | options))
    with pytest.raises(es.DataError, match="at least 2 groups"):
        es.fair_thresholds(tally_of({name: column[data["group"] == "a"] for name, column in data.items()}), threshold=0.5)
    nobody = data | {"outcome": np.where(data["user"] < 3, data["outcome"], np.nan)}
    with pytest.raises(es.DataError, match="a: only 3 users with a known outcome"):
        es.fair_thresholds(tally_of(nobody, nulls="unlabelled"), threshold=0.5)
    with pytest.raises(es.EvenscoreError, match="unknown"):
        es.fair_thresholds(tally, threshold=0.5).decide([0.5], ["c"])


def test_result_is_json_ready_and_shown(small):
    found = es.fair_thresholds(small[2], threshold=0.5, strategy="raise")
    document = json.loads(json.dumps(found.to_dict()))
    assert document["groups"][1]["threshold"] == found.by_group["b"]
    assert found.frame().shape[0] == 2 and "overall positive rate" in found._repr_html_()
    before, after = found.positive_rate
    assert before > after


def rare(seed, n_small, n_large, rate):
    """Outcomes of one curve, 2 rate s, in two groups; one row a user."""
    rng = np.random.default_rng(seed)
    n = n_small + n_large
    score, group = rng.beta(2, 2, n), np.repeat(["small", "large"], [n_small, n_large])
    return {"score": score, "outcome": (rng.random(n) < 2 * rate * score) * 1.0, "group": group, "user": np.arange(n)}


def test_limits_do_not_collapse_without_events():
    """The curve of a group without an event is 0 and shows no variance, but 150 people do not show that there are none."""
    data = rare(1, 150, 3000, 0.01)
    data["outcome"][data["group"] == "small"] = 0
    found = es.fair_thresholds(tally_of(data, cells=64), threshold=0.5, strategy="target", target=0.01)
    small, curve = found.groups[1], found.curves[1]
    assert small.group == curve.group == "small" and small.ci_high - small.ci_low > 0.2
    assert (curve.ci_high > 0.01).all() and (curve.ci_low == 0).all() and (curve.ci_high <= 1).all()


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "n_small", "n_large"), [(0.01, 200, 2000), (0.05, 200, 2000), (0.05, 500, 500)])
def test_limits_cover_with_rare_outcomes(rate, n_small, n_large):
    covered = np.zeros(2)
    for run in range(100):
        found = es.fair_thresholds(tally_of(rare((7, run), n_small, n_large, rate), cells=128), threshold=0.5)
        covered += [one.ci_low <= 0.5 <= one.ci_high for one in found.groups]
    assert (covered >= 92 - 2 * np.sqrt(100 * 0.92 * 0.08)).all()
