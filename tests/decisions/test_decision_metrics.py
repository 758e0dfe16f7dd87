"""Decision metrics against plain NumPy on rows, their limits against the users' own variance, and bad input."""

import itertools

import numpy as np
import pytest

import evenscore as es

METRICS = ("selection_rate", "prevalence", "tpr", "fpr", "fnr", "tnr", "ppv", "npv", "accuracy")
NAMES = {"score": "s", "outcome": "y", "group": "g", "user": "u"}


def make(seed=0, n=1500, *, spanning=True, weights=False, counts=False, unlabelled=False, discrete=False):
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 300, n)
    group = rng.integers(0, 3, n) if spanning else user % 3
    score = rng.beta(2, 2 + group, n)
    outcome = (rng.random(n) < score).astype(float)
    if unlabelled:
        outcome[(rng.random(n) < 0.3) | (user < 20)] = np.nan
    if discrete:
        score = np.round(score, 1)
    data = {"s": score, "y": outcome, "g": group, "u": user}
    options = {"nulls": "unlabelled"} if unlabelled else {}
    if weights:
        data["v"], options["weight"] = rng.gamma(2, 1, n), "v"
    if counts:
        data["n"], options["count"] = rng.integers(0, 4, n), "n"
    return data, options


def weights_of(data, rows, weighting):
    """v k / n_m with n_m the rows of the user among these, repeats counted."""
    count = data.get("n", np.ones(len(data["s"])))[rows].astype(float)
    value = count * data.get("v", np.ones(len(data["s"])))[rows]
    if weighting == "row":
        return value
    total = np.bincount(data["u"][rows], count, minlength=data["u"].max() + 1)[data["u"][rows]]
    return np.divide(value, total, out=np.zeros_like(value), where=total > 0)


def pieces(data, group, threshold, positive, weighting):
    """For each metric the rows it is about, their weights, and which of them count."""
    labelled = ~np.isnan(data["y"])
    mine = data["g"] == group
    rows, every = np.flatnonzero(mine & labelled), np.flatnonzero(mine)
    w, w_all = weights_of(data, rows, weighting), weights_of(data, every, weighting)
    above = data["s"] >= threshold if positive == "above" else data["s"] < threshold
    selected, y = above[rows], data["y"][rows] == 1
    found = {
        "prevalence": (np.ones_like(y), y),
        "tpr": (y, selected),
        "fpr": (~y, selected),
        "fnr": (y, ~selected),
        "tnr": (~y, ~selected),
        "ppv": (selected, y),
        "npv": (~selected, ~y),
        "accuracy": (np.ones_like(y), selected == y),
    }
    held = {name: (rows[about], w[about], event[about]) for name, (about, event) in found.items()}
    return held | {"selection_rate": (every, w_all, above[every])}


def rate(rows, weight, event):
    return float((weight * event).sum() / weight.sum())


def check_equal(data, result, at, positive, weighting):
    """Every metric of every group, of everybody and between groups; gives the pieces of each group."""
    by_group = [pieces(data, g, at[g], positive, weighting) for g in range(3)]
    for g, found in enumerate(by_group):
        for name, piece in found.items():
            assert result.by_group[g][name] == pytest.approx(rate(*piece), rel=1e-12, abs=1e-12)
    for name in METRICS:
        together = (np.concatenate(parts) for parts in zip(*(found[name] for found in by_group), strict=True))
        assert result.overall[name]["estimate"] == pytest.approx(rate(*together), rel=1e-12, abs=1e-12)
    assert len(result.comparisons) == 3 * len(METRICS)
    for row in result.comparisons:
        a, b = (rate(*by_group[row[side]][row["metric"]]) for side in ("group_a", "group_b"))
        assert row["difference"] == pytest.approx(a - b, abs=1e-12)
        assert row["ratio"] == pytest.approx(a / b, rel=1e-12)
    return by_group


def check_covariance(data, rates, by_group, *, unlabelled):
    """Residuals of users, by a loop over metrics, within and between groups that share users, and of everybody."""
    together = {name: [np.concatenate(part) for part in zip(*(own[name] for own in by_group), strict=True)] for name in METRICS}
    whole = rates.table.overall
    for found, parts in ((rates.levels.cover, by_group), (whole.matrix @ whole.around.residual @ whole.matrix, [together])):
        users = np.array([influence(data, own[name], 300) for own in parts for name in METRICS])
        wanted = users @ users.T
        selection = np.arange(len(users)) % 9 == 0
        if unlabelled:
            wanted[selection[:, None] != selection[None, :]] = 0  # not kept where rows have no outcome
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def influence(data, piece, n_users):
    rows, weight, event = piece
    residual = weight * (event - rate(*piece)) / weight.sum()
    return np.bincount(data["u"][rows], residual, minlength=n_users)


@pytest.mark.parametrize(
    "options", list(itertools.product([False, True], repeat=4)), ids=lambda flags: "".join("01"[f] for f in flags)
)
def test_equals_numpy_on_rows(options):
    """Weights, counts, unlabelled rows and users of several groups, all crossed with weighting and positive side."""
    from evenscore.decisions import Rates

    weights, counts, unlabelled, spanning = options
    data, more = make(weights=weights, counts=counts, unlabelled=unlabelled, spanning=spanning)
    tally = es.tally(data, **NAMES, **more, cuts=[0.4], cells=64)
    assert bool(tally.n_spanning) is spanning and bool(sum(tally.n_unlabelled.values())) is unlabelled
    for weighting, positive in itertools.product(("user", "row"), ("above", "below")):
        result = es.decision_metrics(tally, threshold=0.4, positive=positive, weighting=weighting)
        by_group = check_equal(data, result, [0.4] * 3, positive, weighting)
        check_covariance(data, Rates.of(tally, 0.4, positive, weighting), by_group, unlabelled=unlabelled)
        assert all(np.isfinite([row["ci_low"], row["ci_high"]]).all() for row in [*result.rows(), *result.overall.values()])


@pytest.mark.parametrize("unlabelled", [False, True])
def test_counts_are_rows_repeated(unlabelled):
    """Not the estimates alone: limits, p-values and impact ratios too."""
    data, more = make(weights=True, counts=True, unlabelled=unlabelled)
    repeated = {name: np.repeat(column, data["n"]) for name, column in data.items() if name != "n"}
    counted = es.tally(data, **NAMES, **more, cuts=[0.4], cells=64)
    again = es.tally(repeated, **NAMES, **{**more, "count": None}, lattice=counted)
    for weighting in ("user", "row"):
        one, other = (es.decision_metrics(tally, threshold=0.4, weighting=weighting) for tally in (counted, again))
        for table in ("table", "comparisons", "impact_ratios"):
            for row, same in zip(getattr(one, table), getattr(other, table), strict=True):
                for name, value in row.items():
                    alike = pytest.approx(same[name], rel=1e-6, abs=1e-9, nan_ok=True) if isinstance(value, float) else same[name]
                    assert value == alike or name == "reason"  # which may tell a number that is rounded otherwise


@pytest.mark.parametrize("weighting", ["user", "row"])
def test_selection_rates_are_those_of_all_rows_whatever_is_known_of_them(weighting):
    """Rates, limits and impact ratios do not change when outcomes are made up for the rows that have none."""
    data, more = make(weights=True, unlabelled=True)
    every = {**data, "y": np.nan_to_num(data["y"])}
    lattice = es.tally(data, **NAMES, **more, cuts=[0.4], cells=64)
    one = es.decision_metrics(lattice, threshold=0.4, weighting=weighting)
    other = es.decision_metrics(es.tally(every, **NAMES, weight="v", lattice=lattice), threshold=0.4, weighting=weighting)
    names = ("estimate", "ci_low", "ci_high", "effective_users")
    for row, same in [(one.of(g, "selection_rate"), other.of(g, "selection_rate")) for g in range(3)] + [
        (one.overall["selection_rate"], other.overall["selection_rate"])
    ]:
        assert [row[name] for name in names] == pytest.approx([same[name] for name in names], rel=1e-9)
    for row, same in zip(one.impact_ratios, other.impact_ratios, strict=True):
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((same["ci_low"], same["ci_high"]), rel=0.01)  # of joint draws


@pytest.mark.parametrize("weighting", ["user", "row"])
@pytest.mark.parametrize("positive", ["above", "below"])
def test_by_group_thresholds_and_discrete_scores(weighting, positive):
    from evenscore.decisions import Rates

    data, options = make(unlabelled=True)
    at = {0: 0.5, 1: 0.4, 2: 0.31}
    asked = {"threshold": at, "positive": positive, "weighting": weighting}
    tally = es.tally(data, **NAMES, **options, cuts=sorted(at.values()), cells=64)
    by_group = check_equal(data, es.decision_metrics(tally, **asked), at, positive, weighting)
    check_covariance(data, Rates.of(tally, **asked), by_group, unlabelled=True)
    data, options = make(discrete=True, weights=True)
    result = es.decision_metrics(data, threshold=0.45, positive=positive, weighting=weighting, **NAMES, **options)
    check_equal(data, result, [0.45] * 3, positive, weighting)
    assert not result.errors


def test_limits_of_single_rows_are_score_limits():
    """One row a user: the limits hold Wilson's, and are hardly wider where events are many."""
    data = {"s": np.repeat([1.0, 0.0], [300, 700]), "y": np.tile([0, 1], 500), "g": np.zeros(1000, int)}
    row = es.decision_metrics(data, threshold=1.0, score="s", outcome="y", group="g", user=None).of(0, "selection_rate")
    z, n, p = 1.959964, 1000, 0.3
    middle, half = p + z * z / 2 / n, z * np.sqrt(p * (1 - p) / n + z * z / 4 / n**2)
    low, high = (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)
    assert low - 0.002 < row["ci_low"] <= low + 1e-9 and high - 1e-9 <= row["ci_high"] < high + 0.002


def test_zero_and_all_have_one_sided_limits():
    rng = np.random.default_rng(1)
    data = {"s": np.linspace(0, 1, 201), "y": rng.integers(0, 2, 201), "g": np.arange(201) % 2}
    result = es.decision_metrics(data, threshold={0: 0.5, 1: 1.0}, score="s", outcome="y", group="g", user=None)
    none = result.of(1, "selection_rate")
    assert none["estimate"] == 0 and none["ci_low"] == 0 and 0.01 < none["ci_high"] < 0.08
    assert np.isnan(result.of(1, "ppv")["estimate"]) and result.of(1, "ppv")["reason"] == "there are no selected rows"
    ratio = next(row for row in result.comparisons if row["metric"] == "selection_rate")
    assert np.isnan(ratio["ratio"]) and ratio["ratio_high"] == np.inf and ratio["ratio_low"] > 1
    assert result.impact_ratios[1]["ratio"] == 0 and result.impact_ratios[1]["ci_high"] < 0.3


def test_no_positives_and_equal_zero_rates():
    data = {"s": np.tile(np.linspace(0, 1, 50), 2), "y": np.repeat([0, 1], 50), "g": np.repeat(["a", "b"], 50)}
    result = es.decision_metrics(data, threshold=0.5, score="s", outcome="y", group="g", user=None)
    assert result.of("a", "tpr")["reason"] == "there are no positives" and np.isnan(result.of("a", "tpr")["ci_low"])
    row = next(row for row in result.comparisons if row["metric"] == "tpr")
    assert row["verdict"] == "inconclusive" and "no positives" in row["reason"] and np.isnan(row["p_value"])
    equal = next(row for row in result.comparisons if row["metric"] == "selection_rate")
    assert equal["p_value"] == pytest.approx(1) and equal["verdict"] == "inconclusive"


def test_same_users_in_both_groups_do_not_differ():
    data, _ = make(spanning=False)
    twice = {name: np.concatenate([values, values]) for name, values in data.items()}
    twice["g"] = np.repeat([0, 1], len(data["s"]))
    result = es.decision_metrics(twice, threshold=0.4, **NAMES)
    for row in result.comparisons:
        assert row["difference"] == 0 and row["verdict"] == "inconclusive"
        assert abs(row["difference_high"]) < 5e-3 and abs(row["ratio_high"] - 1) < 5e-2


def test_opposite_metrics_are_one_hypothesis():
    result = es.decision_metrics(make()[0], threshold=0.4, **NAMES)
    rows = {(row["group_a"], row["group_b"], row["metric"]): row for row in result.comparisons}
    for (a, b, metric), row in rows.items():
        if metric in ("fnr", "tnr"):
            twin = rows[a, b, {"fnr": "tpr", "tnr": "fpr"}[metric]]
            assert row["p_adjusted"] == twin["p_adjusted"] and row["difference"] == pytest.approx(-twin["difference"])
            assert row["difference_low"] == pytest.approx(-twin["difference_high"], abs=1e-9)
    assert result.adjustment.startswith("joint draws of all comparisons")


def test_p_value_is_the_score_test_of_two_proportions():
    rng = np.random.default_rng(3)
    data = {"s": (rng.random(4000) < 0.4).astype(float), "y": rng.integers(0, 2, 4000), "g": np.arange(4000) % 2}
    result = es.decision_metrics(data, threshold=1.0, score="s", outcome="y", group="g", user=None)
    row = next(row for row in result.comparisons if row["metric"] == "selection_rate")
    p = data["s"].mean()
    z = row["difference"] / np.sqrt(p * (1 - p) * 2 / 2000)
    from scipy import stats

    assert row["p_value"] == pytest.approx(2 * stats.norm.sf(abs(z)), rel=0.02)
    assert row["p_adjusted"] >= row["p_value"]


def test_reference_tolerance_and_small_groups():
    data, _ = make(n=6000)
    result = es.decision_metrics(data, threshold=0.4, reference=2, tolerance=0.5, **NAMES)
    assert {(row["group_a"], row["group_b"]) for row in result.comparisons} == {(0, 2), (1, 2)}
    assert all(row["verdict"] == "parity" for row in result.comparisons)
    assert [row["reference"] for row in result.impact_ratios] == [2, 2, 2]
    data["g"][:100], data["g"][100:] = 2, data["g"][100:] % 2
    small = es.decision_metrics(data, threshold=0.4, min_share=0.02, weighting="row", **NAMES)
    assert small.left_out == {2: "less than 2 % of the sample"} and np.isnan(small.impact_ratios[2]["ratio"])
    assert all(2 not in (row["group_a"], row["group_b"]) for row in small.comparisons)
    assert np.isfinite(small.of(2, "tpr")["ci_low"])


def test_nobody_selected_in_many_rows_of_few_users():
    """The upper limit is that of 60 users, whose rows may be all alike, and not of 480 rows: exactly 6.0 % of users."""
    data = {"s": np.r_[np.zeros(480), np.ones(480)], "y": np.tile([0, 1], 480), "g": np.repeat([0, 1], 480)}
    data["u"] = np.repeat(np.arange(120), 8)
    assert 0.04 < es.decision_metrics(data, threshold=1.0, **NAMES).of(0, "selection_rate")["ci_high"] < 0.08


def test_adjusted_p_values_allow_for_all_comparisons():
    data, _ = make(seed=5)
    data["g"] = data["u"] % 3  # groups that do not differ but by chance
    data["y"] = (np.random.default_rng(6).random(len(data["s"])) < 0.5).astype(int)
    rows = [row for row in es.decision_metrics(data, threshold=0.4, **NAMES).comparisons if row["metric"] not in ("fnr", "tnr")]
    smallest = min(rows, key=lambda row: row["p_value"])
    assert 3 * smallest["p_value"] < smallest["p_adjusted"] <= 21 * smallest["p_value"] * 1.2  # 21 comparisons; draws vary
    assert all(row["p_adjusted"] >= row["p_value"] for row in rows)


@pytest.mark.parametrize("tolerance", [0.1, 0.2])
def test_with_a_tolerance_the_order_of_groups_does_not_matter(tolerance):
    data, _ = make(n=4000, spanning=False)
    other = data | {"g": 2 - data["g"]}
    plain, one, two = (
        {frozenset((row["group_a"], row["group_b"])): row for row in found.comparisons if row["metric"] == "selection_rate"}
        for found in (
            es.decision_metrics(data, threshold=0.4, **NAMES),
            *(es.decision_metrics(each, threshold=0.4, tolerance=tolerance, **NAMES) for each in (data, other)),
        )
    )
    verdicts = set()
    for pair, row in one.items():
        same = two[frozenset(2 - group for group in pair)]
        assert row["verdict"] == same["verdict"] and row["difference"] == pytest.approx(-same["difference"])
        assert row["p_value"] == pytest.approx(same["p_value"], abs=1e-9) and row["p_value"] >= row["p_equal"]
        assert row["detectable_difference"] > tolerance + 0.5 * plain[pair]["detectable_difference"]
        assert row["verdict"] != "parity" or -tolerance < row["band_low"] <= row["band_high"] < tolerance
        verdicts.add(row["verdict"])
    assert len(verdicts) > 1


def test_words_with_a_tolerance_are_about_differences_that_matter():
    data, _ = make(n=6000, spanning=False)
    words = {
        size: " ".join(es.decision_metrics(data, threshold=0.4, tolerance=size, **NAMES)._notes()) for size in (0.01, 0.4, 0.9)
    }
    assert "groups are shown to differ by more than 0.01 in selection_rate" in words[0.01]
    assert "no difference of more than 0.4 between groups is shown; all differences in" in words[0.4]
    every = "selection_rate, prevalence, tpr, fpr, ppv, npv, accuracy are shown to be within 0.9"
    assert every in words[0.9] and "no difference between" not in words[0.9]


@pytest.mark.parametrize("label", [np.int64(2), np.str_("two")])
def test_a_label_taken_from_an_array_names_its_group(label):
    data, _ = make()
    data["g"] = np.where(data["g"] == 2, label, np.full(1, 7, dtype=type(label)))
    found = es.decision_metrics(data, threshold=0.4, reference=label, **NAMES)
    assert {row["group_b"] for row in found.comparisons} == {label.item()} and len(found.groups) == 2
    assert found.of(label, "tpr")["group"] == label.item()


def test_interpolated_threshold_says_how_far_it_may_be_off():
    data, _ = make(n=6000, spanning=False)
    exact = es.decision_metrics(data, threshold=0.4003, **NAMES)
    rough = es.decision_metrics(es.tally(data, **NAMES, cells=64), threshold=0.4003)
    assert not exact.errors and set(rough.errors) == {0, 1, 2}
    for g in range(3):
        off = abs(exact.by_group[g]["selection_rate"] - rough.by_group[g]["selection_rate"])
        assert off <= rough.errors[g] + 1e-12
    assert "off by at most" in repr(rough)


def test_outcomes_that_are_not_0_1_give_selection_rates_only():
    data, _ = make()
    data["y"] = data["y"] * 3.5
    result = es.decision_metrics(data, threshold=0.4, **NAMES)
    assert result.metrics == ("selection_rate",) and set(result.unavailable) == set(METRICS[1:])
    for g in range(3):
        assert result.by_group[g]["selection_rate"] == pytest.approx(rate(*pieces(data, g, 0.4, "above", "user")["selection_rate"]))
    with pytest.raises(es.OptionError, match="not 0/1"):
        result.of(0, "tpr")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": 7.0}, "outside the scores, which run from"),
        ({"threshold": float("nan")}, "must be a score"),
        ({"threshold": "mean"}, "must be a score"),
        ({"threshold": {0: 0.5, 1: 0.5}}, "has none for 2"),
        ({"threshold": {0: 0.5, 1: 0.5, 2: 0.5, 3: 0.5}}, "names 3"),
        ({"threshold": 0.5, "reference": "x"}, "no group 'x'"),
        ({"threshold": 0.5, "positive": "up"}, "'above', 'below'"),
        ({"threshold": 0.5, "weighting": "people"}, "'user', 'row'"),
        ({"threshold": 0.5, "tolerance": -1}, "positive gap"),
        ({"threshold": 0.5, "min_share": 2}, "min_share=2"),
        ({"threshold": 0.5, "alpha": 5}, "alpha=5"),
    ],
)
def test_bad_input(options, words):
    with pytest.raises(es.EvenscoreError, match=words):
        es.decision_metrics(make()[0], **options, **NAMES)


def test_unlabelled_without_pair_sums_gives_no_limits():
    from evenscore.tallies.reshaping import drop_blocks

    data, options = make(unlabelled=True)
    tally = es.tally(data, **NAMES, **options, cuts=[0.4])
    old = es.decision_metrics(drop_blocks(tally, ["all_rows", "all_pairs"], "as in 0.1.0"), threshold=0.4)
    new = es.decision_metrics(tally, threshold=0.4)
    assert old.by_group == new.by_group
    row = old.of(0, "selection_rate")
    assert np.isnan(row["ci_low"]) and "tally the data anew" in row["reason"]
    assert np.isfinite(old.of(0, "tpr")["ci_low"]) and np.isfinite(new.of(0, "selection_rate")["ci_low"])
    assert np.isnan(old.impact_ratios[0]["ci_low"]) and np.isnan(old.equal_below)


def test_one_group_and_json():
    import json

    data, _ = make()
    data["g"][:] = 0
    result = es.decision_metrics(data, threshold=0.4, **NAMES)
    assert not result.comparisons and result.impact_ratios[0]["reason"] == "there is no other group to compare it with"
    json.dumps(result.to_dict(), allow_nan=False)
    assert np.isnan(result.difference("tpr")["estimate"])
