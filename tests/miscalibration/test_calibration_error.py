"""Calibration errors against brute force on rows, other packages, and known truth."""

import json
import math

import error_oracle
import numpy as np
import pytest
from oracle import Rows

import evenscore as es
from data import NAMES as COLUMNS
from data import as_dict, repeated_users
from evenscore.estimation.bandwidth import settle
from evenscore.estimation.smoothing import Smoothing
from evenscore.miscalibration import METHODS
from evenscore.miscalibration.intervals import limits, size_of
from evenscore.miscalibration.kernel_error import kernel_error
from evenscore.miscalibration.measure import norm_of, slope_of
from evenscore.miscalibration.noise import Background
from evenscore.simulation import PoissonRows
from evenscore.tallies.view import GroupView

NAMES = COLUMNS | {"scale": "score"}  # rows are compared on the axis of the scores themselves
EXACT = 1e-9
SMOOTH = 2e-3  # relplot's own tolerance is 1e-3
PUBLIC = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


def discrete_rows(values=60, seed=0, **options):
    """Rows whose scores have few values, so that the tally holds them exactly."""
    rows = repeated_users(seed=seed, **{"n_rows": 3000} | options)
    return Rows((np.round(rows.score * values) + 0.5) / (values + 1), rows.outcome, rows.group, rows.user, rows.weight)


@pytest.fixture(scope="module", params=["users", "whales and weights"])
def both(request):
    rows = discrete_rows(whales="whales" in request.param, weights="weights" in request.param)
    return rows.only(0), es.tally(as_dict(rows), **NAMES, weight="v")


@pytest.mark.parametrize("weighting", ["user", "row"])
@pytest.mark.parametrize("spacing", ["mass", "width"])
@pytest.mark.parametrize("norm", [1, 2])
def test_binned_errors_are_those_of_rows(both, weighting, spacing, norm):
    rows, tally = both
    options = {"weighting": weighting, "spacing": spacing, "norm": norm, "interval": False}
    for bins in (1, 7, 15, 40):
        found = es.calibration_error(tally, method="ece", bins=bins, **options)[0].estimate
        assert found == pytest.approx(error_oracle.ece(rows, bins, spacing, norm, weighting), abs=EXACT)
        found = es.calibration_error(tally, method="label_binned", bins=bins, **options)[0].estimate
        assert found == pytest.approx(error_oracle.label_binned(rows, bins, spacing, norm, weighting), abs=EXACT)
    found = es.calibration_error(tally, method="msce", **options)[0]
    expected, n_bins = error_oracle.msce(rows, spacing, norm, weighting)
    assert found.estimate == pytest.approx(expected, abs=EXACT)
    if spacing == "mass":
        assert found.detail["bins"] == n_bins


@pytest.mark.parametrize("weighting", ["user", "row"])
def test_smoothed_errors_are_those_of_rows(both, weighting):
    rows, tally = both
    options = {"weighting": weighting, "interval": False, "bandwidth": 0.07}
    found = es.calibration_error(tally, **options)[0]
    plug_in, debiased = error_oracle.kernel(rows, 0.07, weighting)
    assert (found.plug_in, found.debiased) == pytest.approx((plug_in, debiased), abs=EXACT)
    assert found.estimate == found.debiased
    found = es.calibration_error(tally, method="ce_np", **options)[0]
    assert found.estimate == pytest.approx(error_oracle.quantile_error(rows, 0.07, weighting), abs=EXACT)
    assert es.calibration_error(tally, debias=False, **options)[0].estimate == pytest.approx(plug_in, abs=EXACT)


@pytest.mark.parametrize("weighting", ["user", "row"])
def test_cumulative_and_smooth_errors_are_those_of_rows(both, weighting):
    rows, tally = both
    for statistic in ("largest", "range"):
        found = es.calibration_error(tally, method="cumulative", statistic=statistic, weighting=weighting, interval=False)[0]
        assert found.estimate == pytest.approx(error_oracle.cumulative(rows, statistic, weighting), abs=EXACT)
    found = es.calibration_error(tally, method="smooth", weighting=weighting, interval=False)[0]
    assert found.estimate == pytest.approx(error_oracle.smooth(rows, weighting), abs=2e-6)


def independent(values=40, n=800, seed=0, shift=0.1):
    rng = np.random.default_rng(seed)
    score = (rng.integers(0, values, n) + 0.5) / values
    outcome = (rng.random(n) < np.clip(score + shift * np.sin(5 * score), 0, 1)).astype(int)
    return score, outcome, es.tally(None, score=score, outcome=outcome, group=np.zeros(n, dtype=int), user=None)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_debiased_error_is_that_of_uncertainty_calibration(seed, shift):
    utils = pytest.importorskip("calibration.utils")
    score, outcome, tally = independent(seed=seed, shift=shift)
    found = es.calibration_error(tally, method="debiased_ece", bins="values")[0].estimate
    assert found == pytest.approx(utils.get_binning_ce(score, outcome, p=2, debias=True), abs=EXACT)
    upper = np.unique(utils.get_equal_bins(score.tolist(), num_bins=10))
    limits = np.concatenate([[0], np.nextafter(upper[:-1], 2), [1.0]])  # their bins are closed above, ours below
    found = es.calibration_error(tally, method="debiased_ece", bins=limits)[0].estimate
    assert found == pytest.approx(utils.lower_bound_scaling_ce(score, outcome, p=2, debias=True, num_bins=10), abs=EXACT)
    found = es.calibration_error(tally, method="ece", norm=2, bins=limits)[0].estimate
    assert found == pytest.approx(utils.lower_bound_scaling_ce(score, outcome, p=2, debias=False, num_bins=10), abs=EXACT)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("values", [7, 500])
def test_smooth_error_is_that_of_relplot(seed, values):
    relplot = pytest.importorskip("relplot")
    score, outcome, tally = independent(values, 1500, seed)
    found = es.calibration_error(tally, method="smooth")[0].estimate
    assert found == pytest.approx(relplot.smECE(f=score, y=outcome), abs=SMOOTH)


def test_sweep_is_that_of_its_authors():
    """Where numbers of rows divide evenly; else theirs has bins of unequal size, and ties go by the order of rows."""
    matched = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        score = rng.permutation(480) / 480 + 1 / 960
        outcome = (rng.random(480) < 0.2 + 0.5 * score).astype(int)
        expected, n_bins = error_oracle.authors_msce(score, outcome, 2)
        if n_bins <= 5:  # the sweep looked at no more than six bins
            tally = es.tally(None, score=score, outcome=outcome, group=np.zeros(480, dtype=int), user=None)
            found = es.calibration_error(tally, method="msce", interval=False)[0]
            assert found.estimate == pytest.approx(expected, abs=EXACT)
            assert found.detail["bins"] == n_bins
            matched += 1
    assert matched >= 5


def test_label_binned_underestimates_where_the_paper_says_otherwise():
    """E(Y | s) = 1 - s, uniform scores, one bin: 1/12 against a true mean square of 1/3."""
    score = (np.arange(400) + 0.5) / 400
    data = {"s": np.repeat(score, 400), "g": np.zeros(160_000, dtype=int), "u": np.arange(160_000)}
    data["y"] = (np.tile(np.arange(400), 400) < 400 * (1 - data["s"])).astype(int)
    tally = es.tally(data, **NAMES)
    assert es.calibration_error(tally, method="label_binned", bins=1, interval=False)[0].estimate ** 2 == pytest.approx(
        1 / 12, abs=1e-4
    )
    assert es.calibration_error(tally, interval=False)[0].estimate ** 2 == pytest.approx(1 / 3, abs=2e-3)


def test_the_lattice_changes_little():
    """Continuous scores on 512 cells against the same rows."""
    rows = repeated_users(4000, seed=3)
    tally = es.tally(as_dict(rows), **NAMES)
    mine = rows.only(0)
    assert not tally.lattice.discrete
    for spacing in ("mass", "width"):
        found = es.calibration_error(tally, method="ece", spacing=spacing, interval=False)[0]
        assert found.estimate == pytest.approx(error_oracle.ece(mine, 15, spacing, 1, "user"), abs=2.5e-3)
        assert any("cuts" in note for note in found.notes)
    found = es.calibration_error(tally, bandwidth=0.06, interval=False)[0]
    assert (found.plug_in, found.debiased) == pytest.approx(error_oracle.kernel(mine, 0.06, "user"), abs=2e-4)
    cut = es.tally(as_dict(rows), **NAMES, cuts=np.linspace(0, 1, 16))
    found = es.calibration_error(cut, method="ece", spacing="width", interval=False)[0]
    assert found.estimate == pytest.approx(error_oracle.ece(mine, 15, "width", 1, "user"), abs=EXACT)
    assert not found.notes


# Limits


def limits_of(measure, view, seed):
    background = Background.each([view], [view])[0]
    rng = np.random.default_rng(seed)
    return size_of(measure, view, lambda: background, alpha=0.05, interval=True, debias=True, rng=rng)


def covers(spec, runs, users_seed=0):
    """How often the default limits hold the true error, and their mean width."""
    truth = spec.truth.tce("a")
    inside, width = [], []
    for run in range(runs):
        tally = es.tally(spec.data((users_seed, run)), **PUBLIC)
        view = GroupView.of(tally, "a", "user")
        smoothing, used = settle(Smoothing(bandwidth="band"), [view]), view.at(view.used)
        measure = kernel_error(used, smoothing, 2)
        size = limits_of(measure, used, run)
        inside.append(size.low <= truth <= size.high)
        width.append(size.high - size.low)
    return np.mean(inside), np.mean(width)


@pytest.mark.parametrize("curve", [(0, 1), (-0.08, 1), (-0.5, 1)])
def test_default_limits_cover_also_near_zero(curve):
    dependent = {"rows_per_user": PoissonRows(3), "outcome_correlation": 0.6, "score_correlation": 0.4}
    coverage, width = covers(es.simulate({"a": 200}, curve=curve, **dependent), 60)
    assert coverage > 0.87  # 0.92 less a Monte Carlo error and a half
    assert width < 0.12


def test_limits_are_those_of_influence_functions_far_from_zero():
    """Brute force: the delta method on users' influences, for an error that noise hardly adds to."""
    rows = discrete_rows(50, n_rows=12_000, seed=2)
    tally = es.tally(as_dict(rows), **NAMES)
    found = es.calibration_error(tally, method="ece", norm=2, bins=10)[0]
    mine = rows.only(0)
    users, inverse = np.unique(mine.user, return_inverse=True)
    weights = 1 / np.bincount(inverse)[inverse]
    bins = error_oracle.fill_bins(*error_oracle.distinct(mine, "user")[:2], 10)
    scores = error_oracle.distinct(mine, "user")[0]
    influence = np.zeros(len(users))
    for members in bins:
        mass = sum(part for _, part in members)
        total = {scores[i]: part / weights[mine.score == scores[i]].sum() for i, part in members}
        share = np.array([total.get(s, 0.0) for s in mine.score])
        gap = (share * weights) @ (mine.outcome - mine.score) / mass
        influence += np.bincount(inverse, share * weights * (2 * gap * (mine.outcome - mine.score - gap) + gap**2)) / len(users)
    influence -= found.plug_in**2 / len(users)
    se = np.sqrt((influence**2).sum()) / (2 * found.plug_in)
    assert (found.ci_high - found.ci_low) / (2 * 1.96) == pytest.approx(se, rel=0.08)


def test_every_method_has_limits_around_its_debiased_value(both):
    _, tally = both
    for method in METHODS:
        for norm in METHODS[method].norms:
            found = es.calibration_error(tally, method=method, norm=norm)
            for each in found.estimates:
                assert 0 <= each.ci_low <= each.debiased + 1e-6 <= each.ci_high + 2e-6
                assert each.ci_high < 0.5
            pair = found.pairs[0]
            assert pair.ci_low < pair.debiased < pair.ci_high
            json.dumps(found.to_dict(), allow_nan=False)
            assert len(found.frame()) == 3


def test_differences_know_users_that_are_in_both_groups():
    """Groups drawn at random from the rows of the same users: the errors move together, and their difference varies less."""
    spec = es.simulate(
        {"a": 300, "b": 300}, curve=(-0.8, 1), spanning=True, rows_per_user=12, outcome_correlation=0.8, score_correlation=0.3
    )
    found = [es.calibration_error(es.tally(spec.data(seed), **PUBLIC)) for seed in range(24)]
    differences = np.array([each.pairs[0].debiased for each in found])
    widths = np.array([each.pairs[0].ci_high - each.pairs[0].ci_low for each in found])
    alone = np.array([math.hypot(*(each[g].ci_high - each[g].ci_low for g in "ab")) for each in found])
    assert widths.mean() < 0.75 * alone.mean()
    assert widths.mean() / (2 * 1.96) == pytest.approx(differences.std(), rel=0.45)


def test_flags_say_when_limits_need_care():
    calibrated = es.tally(es.simulate(300).data(1), **PUBLIC)
    found = es.calibration_error(calibrated, method="msce").overall
    assert found.ci_low == 0
    assert "do not trust" in found.flag
    assert "only the upper limit" in es.calibration_error(calibrated).overall.flag
    few = es.tally(es.simulate(12).data(1), **PUBLIC)
    assert "only 12 users" in es.calibration_error(few)["a"].flag
    biased = es.tally(es.simulate(2000, curve=(-1, 1)).data(1), **PUBLIC)
    assert es.calibration_error(biased).overall.flag == ""


def test_the_result_shows_itself():
    tally = es.tally(es.simulate({"x": 200, "y": 200, "z": 100}).data(1), **PUBLIC)
    found = es.calibration_error(tally)
    assert [row["group"] for row in found.rows()] == ["x", "y", "z", None]
    assert set(found.rows()[0]) >= {"group", "estimate", "ci_low", "ci_high", "method"}
    assert len(found.differences()) == 3
    assert found["x"] is found.by_group["x"]
    assert "95% limits" in repr(found)
    assert "<table>" in found._repr_html_()
    with pytest.raises(es.OptionError, match="no group 'w'"):
        found["w"]


def test_edges_of_the_possible():
    one_score = {"s": [0.5] * 60, "y": [0, 1] * 30, "g": ["a"] * 60, "u": range(60)}
    for method in METHODS:
        found = es.calibration_error(es.tally(one_score, **NAMES), method=method).overall
        assert found.estimate == pytest.approx(0, abs=1e-9)
    constant = {"s": [0.2, 0.4] * 40, "y": [0] * 80, "g": ["a"] * 80, "u": range(80)}
    found = es.calibration_error(es.tally(constant, **NAMES)).overall
    assert found.estimate == pytest.approx(np.sqrt(0.1))
    single = es.tally({"s": [0.2, 0.7], "y": [0, 1], "g": ["a", "a"], "u": [1, 1]}, **NAMES)
    assert np.isfinite(es.calibration_error(single).overall.plug_in)


def test_real_outcomes_and_other_scales():
    rows = repeated_users(3000, seed=1, real=True)
    tally = es.tally(as_dict(rows) | {"s": rows.outcome.mean() + rows.score}, **NAMES)
    found = es.calibration_error(tally, interval=True)
    assert 0 < found.overall.estimate < 3
    with pytest.raises(es.DataError, match="between 0 and 1"):
        es.calibration_error(tally, method="smooth")
    points = es.tally({"s": [300, 850, 500, 610], "y": [0, 1, 0, 1], "g": list("aabb"), "u": range(4)}, **NAMES)
    with pytest.raises(es.DataError, match="300 to 850 while outcomes are 0 or 1"):
        es.calibration_error(points)


def test_other_scales_of_the_lattice_measure_the_same():
    """Skewed scores on equal steps of the score, of its logit, and of its rank."""
    spec = es.simulate({"a": 4000}, curve=(-0.5, 1), score=(1, 6))
    data = spec.data(3)
    for method, spacing in (("kernel", "mass"), ("ece", "mass"), ("ece", "width"), ("smooth", "mass"), ("cumulative", "mass")):
        found = []
        for scale in ("score", "logit", "rank"):
            tally = es.tally(data, **PUBLIC, scale=scale)
            found.append(es.calibration_error(tally, method=method, spacing=spacing, interval=False).overall.estimate)
        assert np.ptp(found) < 0.002
        if method == "kernel":
            assert found[0] == pytest.approx(spec.truth.tce("a"), abs=0.01)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"method": "mce"}, "method='mce'"),
        ({"method": "smooth", "norm": 2}, "defined with norm=1"),
        ({"norm": 3}, "defined with norm=1 or 2"),
        ({"method": "ece", "bins": 0}, "bins=0"),
        ({"method": "ece", "bins": [0, 0.5, 0.4, 1]}, "rising limits"),
        ({"method": "ece", "bins": [0.4, 1]}, "the bins run from 0.4"),
        ({"method": "ece", "bins": "many"}, "bins='many'"),
        ({"method": "ece", "spacing": "time"}, "spacing='time'"),
        ({"method": "cumulative", "statistic": "mean"}, "statistic='mean'"),
        ({"weighting": "group"}, "weighting='group'"),
        ({"alpha": 1.5}, "alpha=1.5"),
        ({"bandwidth": -1}, "bandwidth=-1"),
    ],
)
def test_bad_options(both, bad, message):
    with pytest.raises(es.OptionError, match=message):
        es.calibration_error(both[1], **bad)


def test_not_a_tally():
    with pytest.raises(es.OptionError, match="missing: score="):
        es.calibration_error({"s": [1]})


def test_the_name_stays_a_function():
    import evenscore.miscalibration.binned  # noqa: F401

    assert callable(es.calibration_error)


@pytest.mark.parametrize("norm", ["l1", "l2", "largest", "range"])
def test_the_slope_of_a_norm_is_its_derivative(norm):
    rng = np.random.default_rng(1)
    weight, values = rng.dirichlet(np.ones(9)), rng.normal(size=9)
    size, step = norm_of(norm, weight), 1e-6
    numeric = [(size(values + step * unit) - size(values - step * unit)) / (2 * step) for unit in np.eye(9)]
    np.testing.assert_allclose(slope_of(norm, weight, values), numeric, atol=1e-6)
    assert not slope_of(norm, weight, np.zeros(9)).any()


def test_the_search_for_an_upper_limit_has_an_end():
    """Without any noise nothing but 0 fits; a norm that never grows has no upper limit."""
    assert limits(lambda theta: np.full(100, theta), 0.0, 0.05) == (0.0, 0.0)
    low, high = limits(lambda theta: np.full(100, 1.0), 1.0, 0.05)
    assert low == 0 and np.isnan(high)


@pytest.mark.parametrize("power", [200, -200])
def test_the_units_of_outcomes_change_nothing(power):
    """2^200 is more than float32 can hold, and 2^-200 was rounding beside the sway of the weights."""
    rng = np.random.default_rng(0)
    score = rng.random(300)
    outcome = score + rng.normal(size=300)
    data = {"s": score, "y": outcome, "g": np.arange(300) % 2, "u": np.arange(300)}
    roles = {"score": "s", "outcome": "y", "group": "g", "user": "u"}
    tallies = [
        es.tally({**data, "s": score * unit, "y": outcome * unit}, **roles, lattice=es.Lattice(0, unit, cells=64))
        for unit in (2.0**20, 2.0**power)
    ]
    for norm in (1, 2):
        one, other = (es.calibration_error(tally, norm=norm) for tally in tallies)
        for row, scaled in zip(one.rows(), other.rows(), strict=True):
            for name in ("estimate", "ci_low", "ci_high", "plug_in"):
                assert scaled[name] == pytest.approx(row[name] * 2.0 ** (power - 20), rel=1e-6, abs=0)


@pytest.mark.parametrize("values", [None, 10])
@pytest.mark.parametrize("n_users", [12, 20])
def test_a_few_users_with_counts_are_not_shown_to_be_off(n_users, values):
    """Each of twelve people has a score alone, or nearly: as if there were no noise, every calibrated group was off for sure."""
    low, high = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        score = 5 * rng.beta(2, 2, 300) if values is None else rng.integers(1, values + 1, 300) / 2
        group = np.where(np.arange(300) < n_users, "few", "many")
        data = {"s": score, "y": rng.poisson(score), "g": group, "u": np.arange(300)}
        found = es.calibration_error(data, score="s", outcome="y", group="g", user="u")
        row = found.rows()[0]
        assert row["group"] == "few" and row["debiased"] < row["plug_in"] and "nan" not in repr(found)
        low.append(row["ci_low"])
        high.append(row["ci_high"])
        assert not np.isnan(row["ci_high"]) or "no upper limit" in row["flag"]
        most = 5 * np.sqrt(np.mean((data["y"] - score)[:n_users] ** 2))  # an error is at most that of the outcomes themselves
        assert np.isnan(row["ci_high"]) or row["ci_high"] <= most * (1 + 1e-9)
    assert low == [0.0] * 4
