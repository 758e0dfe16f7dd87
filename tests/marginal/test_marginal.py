import json

import numpy as np
import oracle
import pytest

import evenscore as es
from data import NAMES as COLUMNS
from data import as_dict, repeated_users
from evenscore.estimation.direction import outcomes_rise
from evenscore.marginal.cut import make_cut
from evenscore.simulation import Curve, PoissonRows

NAMES = COLUMNS | {"scale": "score"}  # rows are compared on the axis of the scores themselves
# The cells' mean scores stand for the rows in them: within .05 standard errors at 8 cells a bandwidth, standard errors within 1 %.
LATTICE = {"rtol": 0.02, "atol": 0.1}  # in standard errors
SIMULATED = {"score": "score", "outcome": "outcome", "group": "group", "user": "user", "scale": "score"}


def tally_of(rows, t, **options):
    return es.tally(as_dict(rows), **NAMES, cuts=[t], **options)


def one_side(rows, t, weighting, positive="above"):
    """Rows on the positive side, with the weights that all labelled rows of a user give them."""
    weight = oracle.row_weights(rows, weighting)
    mine = rows.score >= t if positive == "above" else rows.score < t
    return oracle.Rows(*(column[mine] for column in (rows.score, rows.outcome, rows.group, rows.user, weight)))


@pytest.mark.parametrize("shape", [{}, {"whales": True}, {"weights": True}, {"real": True}], ids=str)
@pytest.mark.parametrize("degree", [0, 1])
@pytest.mark.parametrize("positive", ["above", "below"])
@pytest.mark.parametrize("weighting", ["user", "row"])
def test_outcome_at_the_threshold_is_that_of_rows(shape, degree, positive, weighting):
    t, h = 0.4, 0.12
    rows = repeated_users(6000, seed=3, **shape)
    tally = tally_of(rows, t, weight="v")
    test = es.marginal_test(tally, threshold=t, positive=positive, bandwidth=h, degree=degree, weighting=weighting, both=False)
    for group in (0, 1):
        side = one_side(rows.only(group), t, weighting, positive)
        estimate, covariance, effective = oracle.curve(side, [t], h, degree, "gaussian", "row")
        se = np.sqrt(covariance[0, 0])
        found = test.by_group[group]
        assert abs(found["estimate"] - estimate[0]) < LATTICE["atol"] * se
        # A rate has its own variance, and only what users add to it is taken from residuals.
        assert found["se"] == pytest.approx(se, rel=LATTICE["rtol"] if "real" in shape else 0.15)
        assert found["effective_users"] == pytest.approx(effective[0], rel=LATTICE["rtol"])
        mean = np.average(side.outcome, weights=side.weight)
        assert test.averages[group]["estimate"] == pytest.approx(mean, abs=1e-9)
        share = side.weight / side.weight.sum()
        per_user = oracle.by_user(side, share * (side.outcome - mean))[1]
        n_eff = 1 / (oracle.by_user(side, share)[1] ** 2).sum()
        assert test.averages[group]["se"] == pytest.approx(
            np.sqrt((per_user**2).sum()) * n_eff / (n_eff - 1), rel=1e-6 if "real" in shape else 0.05
        )


def null_influence(rows, t, h, level):
    """Each user's influence on a local linear fit at t when residuals are taken from the best line through (t, level)."""
    u = (rows.score - t) / h
    k = np.exp(-(u**2) / 2) * rows.weight
    weights, _ = oracle.local_weights(rows, t, h, 1, "gaussian", "row")
    slope = (k * u) @ (rows.outcome - level) / ((k * u) @ u)
    effective = 1 / (oracle.by_user(rows, weights)[1] ** 2).sum()
    users, influence = oracle.by_user(rows, weights * (rows.outcome - level - slope * u))
    return users, influence * effective / (effective - 1), effective


@pytest.mark.parametrize("spanning", [False, True])
def test_p_value_is_that_of_users_with_a_common_level_and_own_slopes(spanning):
    from scipy import stats

    t, h = 0.4, 0.15
    rows = repeated_users(3000, seed=5, spanning=spanning, gap=0.06)
    test = es.marginal_test(tally_of(rows, t), threshold=t, bandwidth=h)
    sides = [one_side(rows.only(group), t, "user") for group in (0, 1)]
    levels = [oracle.curve(side, [t], h, 1, "gaussian", "row") for side in sides]
    effective = np.array([found[2][0] for found in levels])
    level = effective @ [found[0][0] for found in levels] / effective.sum()
    everyone, total, variances = np.union1d(sides[0].user, sides[1].user), 0.0, []
    for side, sign in zip(sides, (1, -1), strict=True):
        users, influence, _ = null_influence(side, t, h, level)
        variances.append((influence**2).sum())
        placed = np.zeros(len(everyone))
        placed[np.searchsorted(everyone, users)] = sign * influence
        total = total + placed
    df = sum(variances) ** 2 / (np.array(variances) ** 2 / (effective - 1)).sum()
    statistic = (levels[0][0][0] - levels[1][0][0]) / np.sqrt((total**2).sum())
    expected = 2 * stats.t.sf(abs(statistic), df)
    assert test.pairs[0].p_value == pytest.approx(expected, rel=0.2)  # the rate's variance, not that of residuals
    assert test.p_value == test.pairs[0].p_value == test.p_equal


def test_labels_on_the_other_side_need_not_exist():
    rows = repeated_users(4000, seed=7)
    known = rows.score >= 0.5
    columns = as_dict(rows)
    censored = columns | {"y": np.where(known, rows.outcome, np.nan)}
    kept = {name: column[known] for name, column in columns.items()}
    lattice = es.Lattice(0, 1, cuts=[0.5], scale="score")
    with_nulls = es.marginal_test(es.tally(censored, **NAMES, lattice=lattice, nulls="unlabelled"), threshold=0.5)
    without = es.marginal_test(es.tally(kept, **NAMES, lattice=lattice), threshold=0.5)
    assert with_nulls.to_dict() == without.to_dict()
    assert all(np.isnan(side.p_value) for side in without.other_side)
    assert "not checked" in repr(without)


def test_below_is_the_mirror_of_above():
    rows = repeated_users(5000, seed=8, gap=0.1)
    mirrored = oracle.Rows(1 - rows.score, 1 - rows.outcome, rows.group, rows.user, rows.weight)
    above = es.marginal_test(tally_of(rows, 0.4), threshold=0.4)
    below = es.marginal_test(tally_of(mirrored, 0.6), threshold=0.6, positive="below")
    for group in (0, 1):
        assert below.by_group[group]["estimate"] == pytest.approx(1 - above.by_group[group]["estimate"], abs=1e-6)
        assert below.by_group[group]["se"] == pytest.approx(above.by_group[group]["se"], rel=1e-6)
    assert below.p_value == pytest.approx(above.p_value, rel=1e-5)
    assert below.pairs[0].higher == above.pairs[0].higher == 1


def test_the_higher_standard_is_named_whichever_way_outcomes_run():
    """A loan below a risk: the group that defaults less had to be safer, as had the one that repays more."""
    rows = repeated_users(12_000, seed=9, gap=0.2)
    names = np.array(["one", "two"])[rows.group]
    tally = es.tally(as_dict(rows) | {"g": names}, **NAMES, cuts=[0.5])
    assert outcomes_rise(tally, "user")
    for positive, higher in (("above", "two"), ("below", "one")):
        test = es.marginal_test(tally, threshold=0.5, positive=positive)
        assert test.verdict == "disparity" and test.pairs[0].higher == higher
        assert test.higher_standard[0].startswith(f"the standard is higher for {higher} than for ")
    repaid = es.tally(as_dict(rows) | {"g": names, "y": 1 - rows.outcome}, **NAMES, cuts=[0.5])
    assert not outcomes_rise(repaid, "user")
    assert es.marginal_test(repaid, threshold=0.5, positive="below").pairs[0].higher == "one"


def test_police_search_average_hit_rates_mislead_and_the_threshold_does_not():
    """Officers search from a 30 % chance of a hit on, whoever it is; one group's chances vary more (infra-marginality)."""
    same = es.simulate(4000, groups=["wide", "narrow"], score={"wide": (1, 2), "narrow": (5, 9)}, rows_per_user=1)
    tally = es.tally(same.data(seed=1), **SIMULATED, cuts=[0.3])
    test = es.marginal_test(tally, threshold=0.3)
    pair = test.pairs[0]
    assert pair.p_average < 1e-6 and pair.average_gap < -0.03  # "narrow" minus "wide": looks as if narrow were searched on less
    assert test.verdict == "inconclusive" and pair.p_value > 0.05
    assert "averages also reflect how far beyond the threshold" in test.misleading[0]
    # And the other way round: a lower bar for one group that averages hide.
    biased = es.simulate(
        6000,
        groups=["wide", "narrow"],
        score={"wide": (1, 2), "narrow": (5, 9)},
        curve={"wide": (-0.52, 1), "narrow": (0, 1)},
        rows_per_user=1,
    )
    test = es.marginal_test(es.tally(biased.data(seed=2), **SIMULATED, cuts=[0.3]), threshold=0.3)
    assert test.pairs[0].p_average > 0.05
    assert test.verdict == "disparity" and test.pairs[0].higher == "narrow"
    assert "show no difference" in test.misleading[0]


def test_outcomes_on_the_other_side_are_checked():
    from evenscore.simulation import Bump

    rising = es.simulate(1500, curve=(0, 1.5), outcome_correlation=0.5).data(seed=3)
    test = es.marginal_test(es.tally(rising, **SIMULATED, cuts=[0.5]), threshold=0.5)
    assert all(side.p_value > 0.05 for side in test.other_side)
    bump = es.simulate(1500, curve={"a": (0, 1.5), "b": Curve(0, 1.5, Bump(0.5, 0.25, 0.06))}, outcome_correlation=0.5).data(seed=3)
    test = es.marginal_test(es.tally(bump, **SIMULATED, cuts=[0.5]), threshold=0.5)
    fine, wrong = test.other_side
    assert fine.p_value > 0.05 and wrong.p_value < 0.01
    assert wrong.at_score == pytest.approx(0.25, abs=0.05) and "passes over people who do better" in repr(test)
    mirrored = {**bump, "score": 1 - bump["score"], "outcome": 1 - bump["outcome"]}
    below = es.marginal_test(es.tally(mirrored, **SIMULATED, cuts=[0.5]), threshold=0.5, positive="below")
    assert below.other_side[1].p_value < 0.01 and below.other_side[1].excess == pytest.approx(wrong.excess, abs=1e-6)


def test_no_false_alarm_on_the_other_side():
    alarms = 0
    for run in range(60):
        data = es.simulate(300, curve=(0, 0.5), outcome_correlation=0.5, rows_per_user=2).data(seed=(4, run))
        test = es.marginal_test(es.tally(data, **SIMULATED, cuts=[0.6]), threshold=0.6, both=False)
        alarms += any(side.p_value <= 0.05 for side in test.other_side)
    assert alarms <= 9  # 60 times 5 % plus 3.5 standard deviations


def test_tolerance_and_the_three_verdicts():
    data = es.simulate(6000, curve={"a": (0, 1), "b": (-0.6, 1)}).data(seed=1)
    tally = es.tally(data, **SIMULATED, cuts=[0.5])
    plain = es.marginal_test(tally, threshold=0.5)
    small, large = (es.marginal_test(tally, threshold=0.5, tolerance=size) for size in (0.02, 0.3))
    assert (plain.verdict, small.verdict, large.verdict) == ("disparity", "disparity", "parity")
    assert plain.p_value < small.p_value < large.p_value == 1
    assert small.p_equal == plain.p_value
    close = es.marginal_test(tally, threshold=0.5, tolerance=abs(plain.max_gap))
    assert close.verdict == "inconclusive" and "neither a gap beyond" in close.reason
    assert "more than 0.02" in small.reason and "within 0.3" in large.reason
    even = es.marginal_test(es.tally(es.simulate(400).data(seed=2), **SIMULATED, cuts=[0.5]), threshold=0.5)
    assert even.verdict == "inconclusive" and "would have been found" in even.reason
    assert even.minimum_detectable_gap > 2.5 * even.pairs[0].se


def test_many_groups_are_adjusted_jointly():
    groups = [f"g{i}" for i in range(6)]
    data = es.simulate(400, groups=groups, outcome_correlation=0.5).data(seed=6)
    tally = es.tally(data, **SIMULATED, cuts=[0.5])
    test = es.marginal_test(tally, threshold=0.5)
    p, adjusted = (np.array([getattr(pair, name) for pair in test.pairs]) for name in ("p_value", "p_adjusted"))
    assert len(p) == 15 and (adjusted >= p).all()
    assert adjusted.min() < min(1, 15 * p.min())  # pairs that share a group count for less than separate ones
    assert "joint draws" in test.adjustment
    against = es.marginal_test(tally, threshold=0.5, reference="g2")
    assert [(pair.group_a, pair.group_b) for pair in against.pairs] == [(g, "g2") for g in groups if g != "g2"]
    with pytest.raises(es.OptionError, match="no group 'g9'"):
        es.marginal_test(tally, threshold=0.5, reference="g9")


def test_family_wise_error_of_four_groups():
    false = 0
    for run in range(120):
        data = es.simulate(150, groups=list("abcd"), rows_per_user=2, outcome_correlation=0.5).data(seed=(8, run))
        test = es.marginal_test(es.tally(data, **SIMULATED, cuts=[0.5], cells=64), threshold=0.5, both=False)
        false += test.verdict == "disparity"
    assert false <= 15  # 120 times 5 % plus 3.5 standard deviations


@pytest.mark.slow
def test_size_when_only_the_level_at_the_threshold_is_common():
    """Slopes and densities differ; the null is true at the threshold and nowhere else."""
    spec = es.simulate(
        400,
        score={"a": (2, 5), "b": (5, 2)},
        curve={"a": (0, 1), "b": (0, 2)},
        rows_per_user=PoissonRows(3),
        outcome_correlation=0.8,
    )

    def methods(data, seed):
        tally = es.tally(data, **SIMULATED, cuts=[0.5])
        line, level = (es.marginal_test(tally, threshold=0.5, degree=degree, both=False) for degree in (1, 0))
        found = line.by_group["b"]
        return {
            "local linear": {
                "p_value": line.p_value,
                "estimate": found["estimate"],
                "low": found["ci_low"],
                "high": found["ci_high"],
            },
            "Nadaraya-Watson": {"p_value": level.p_value},
        }

    rows = {row["method"]: row for row in es.study(spec, {"both": methods}, runs=200, truth={"local linear": 0.5}).rows()}
    assert rows["local linear"]["rejected"] <= 0.05 + 3.5 * rows["local linear"]["rejected_error"]
    assert rows["local linear"]["coverage"] > 0.89
    assert rows["Nadaraya-Watson"]["rejected"] > 0.2  # biased by the slope: the reason for local lines


def test_discrete_scores_look_at_the_marginal_value():
    rng = np.random.default_rng(0)
    score = rng.integers(1, 11, 4000).astype(float)
    data = {"s": score, "y": rng.random(4000) < score / 12, "g": rng.integers(0, 2, 4000), "u": np.arange(4000)}
    tally = es.tally(data, **NAMES)
    for positive, value in (("above", 6), ("below", 5)):
        test = es.marginal_test(tally, threshold=5.5, positive=positive)
        mine = (score == value) & (data["g"] == 0)
        assert set(test.at_scores) == {value}
        assert test.by_group[0]["estimate"] == pytest.approx(data["y"][mine].mean())
        assert test.by_group[0]["effective_users"] == pytest.approx(mine.sum())
        assert f"a score of {value}" in repr(test)
    assert es.marginal_test(tally, threshold=6).by_group == es.marginal_test(tally, threshold=5.5).by_group


def test_bad_input_is_named():
    rows = repeated_users(2000, seed=1)
    tally = tally_of(rows, 0.4)
    with pytest.raises(es.DataError, match=r"cuts=\[0.37\]"):
        es.marginal_test(tally, threshold=0.37)
    with pytest.raises(es.OptionError, match="outside the scores, which run from 0"):
        es.marginal_test(tally, threshold=1.5)
    with pytest.raises(es.OptionError, match="must be a score"):
        es.marginal_test(tally, threshold="high")
    with pytest.raises(es.OptionError, match="'above', 'below'"):
        es.marginal_test(tally, threshold=0.4, positive="up")
    with pytest.raises(es.DataError, match="at least 2 groups"):
        es.marginal_test(tally_of(rows.only(0), 0.4), threshold=0.4)
    with pytest.raises(es.OptionError, match="missing: score="):
        es.marginal_test(as_dict(rows), threshold=0.4)
    with pytest.raises(es.OptionError, match="tolerance"):
        es.marginal_test(tally, threshold=0.4, tolerance=-1)


def test_no_known_outcome_on_the_positive_side():
    rows = repeated_users(3000, seed=2, n_groups=3)
    hidden = (rows.score >= 0.4) & (rows.group == 2)
    data = as_dict(rows) | {"y": np.where(hidden, np.nan, rows.outcome)}
    test = es.marginal_test(es.tally(data, **NAMES, cuts=[0.4], nulls="unlabelled"), threshold=0.4)
    assert [np.isfinite(pair.p_value) for pair in test.pairs] == [True, False, False]
    assert "2: no row with a known outcome at or above 0.4, the positive side" in test.pairs[1].reason
    assert np.isnan(test.by_group[2]["estimate"]) and test.by_group[2]["effective_users"] == 0
    nobody = as_dict(rows) | {"y": np.where(rows.score >= 0.4, np.nan, rows.outcome)}
    with pytest.raises(es.DataError, match="use positive='below'"):
        es.marginal_test(es.tally(nobody, **NAMES, cuts=[0.4], nulls="unlabelled"), threshold=0.4)


def test_few_effective_users_are_inconclusive():
    rows = repeated_users(300, seed=4)
    test = es.marginal_test(tally_of(rows, 0.8), threshold=0.8)
    assert test.verdict == "inconclusive" and np.isnan(test.p_value)
    assert "effective users at the threshold; at least 20 are needed" in test.reason
    equal = as_dict(repeated_users(3000, seed=4)) | {"y": np.ones(3000)}
    flat = es.marginal_test(es.tally(equal, **NAMES, cuts=[0.4]), threshold=0.4)
    assert flat.verdict == "inconclusive" and "do not vary" in flat.reason


def test_both_weightings_are_compared():
    spec = es.simulate(2000, rows_per_user=PoissonRows(4), informative=0.6)
    test = es.marginal_test(es.tally(spec.data(seed=1), **SIMULATED, cuts=[0.5]), threshold=0.5)
    assert test.other.weighting == "row" and test.other.verdict == "disparity" and test.verdict == "inconclusive"
    assert test.disagreement in " ".join(repr(test).split())


def test_result_is_json_ready_and_shown():
    rows = repeated_users(3000, seed=2, n_groups=3, gap=0.2)
    test = es.marginal_test(tally_of(rows, 0.4), threshold=0.4, tolerance=0.05)
    document = json.loads(json.dumps(test.to_dict()))
    assert document["verdict"] == test.verdict and len(document["pairs"]) == 3 and len(document["groups"]) == 3
    assert test.frame().shape[0] == 3
    assert "the standard is higher for" in test._repr_html_() and test._repr_html_().count("<table>") == 2
    assert {"estimate", "se", "ci_low", "ci_high"} <= set(test.by_group[0])


def test_answer_does_not_hang_on_the_threshold_lattice():
    """A cut that is also a uniform edge changes nothing."""
    rows = repeated_users(3000, seed=2)
    with_cut, without = tally_of(rows, 0.5), es.tally(as_dict(rows), **NAMES)
    assert es.marginal_test(with_cut, threshold=0.5).to_dict() == es.marginal_test(without, threshold=0.5).to_dict()
    assert make_cut(without, 0.5, "above").first == 256


def test_pairs_that_share_all_their_users_are_adjusted_as_one():
    # Group c holds the rows and users of b once more, so that a-b and a-c are the same comparison: two tests, but one question.
    rng = np.random.default_rng(4)
    score, outcome = rng.random(6000), rng.random(6000)
    first = np.arange(6000) < 3000
    rows = {"s": score, "y": (outcome < score - 0.15 * first).astype(int), "g": np.where(first, "a", "b"), "u": np.arange(6000)}
    again = {name: np.concatenate([column, column[~first]]) for name, column in rows.items()}
    again["g"][6000:] = "c"
    by_pair = {(pair.group_a, pair.group_b): pair for pair in es.marginal_test(tally_of_columns(again), threshold=0.5).pairs}
    assert by_pair["a", "b"].p_value == by_pair["a", "c"].p_value < 0.2
    for other in "bc":
        assert by_pair["a", other].p_adjusted == pytest.approx(by_pair["a", other].p_value, rel=0.1)
    assert by_pair["b", "c"].gap == 0 and by_pair["b", "c"].verdict == "inconclusive"
    # The same rows by other users are two questions.
    again["u"] = np.arange(9000)
    apart = es.marginal_test(tally_of_columns(again), threshold=0.5).pairs[0]
    assert apart.p_adjusted > 1.5 * apart.p_value


def tally_of_columns(columns):
    return es.tally(columns, **NAMES, cuts=[0.5])


@pytest.mark.parametrize("positive", ["above", "below"])
def test_rows_that_begin_a_little_beyond_the_threshold_are_judged_at_it(positive):
    rng = np.random.default_rng(2)
    score = 0.51 + 0.49 * rng.random(4000)
    data = {"s": score, "y": (rng.random(4000) < score).astype(int), "g": rng.integers(0, 2, 4000), "u": np.arange(4000)}
    t = 0.5
    if positive == "below":
        data["s"], t = 1 - score, 1 - t
    tally = es.tally(data, **NAMES, cuts=[t])
    test = es.marginal_test(tally, threshold=t, positive=positive, both=False)
    for row in test.by_group.values():
        assert row["ci_low"] < 0.5 < row["ci_high"] and row["effective_users"] > 50
    far = 0.1 if positive == "above" else 0.9
    with pytest.raises(es.EvenscoreError, match="lies outside the scores"):
        es.marginal_test(es.tally(data, **NAMES, cuts=[far]), threshold=far, positive=positive)
