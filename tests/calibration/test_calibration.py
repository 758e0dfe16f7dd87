"""Calibrators against brute force on rows, known truth, and scikit-learn."""

import numpy as np
import oracle
import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.calibration.binning import Binning
from evenscore.calibration.isotonic import Isotonic
from evenscore.calibration.kernel_map import KernelMap
from evenscore.calibration.maps import GroupMap, covariance_factor
from evenscore.calibration.platt import Platt
from evenscore.calibration.stacking import simplex_minimum, sure_share
from evenscore.data.coding import folds, hash_integers
from evenscore.estimation.smoothing import Smoothing
from evenscore.simulation import Curve
from evenscore.tallies.view import GroupView

LATTICE = 0.05  # standard errors: what 512 cells cost (docs/lattice.md)
EXACT = 1e-10  # on a lattice of values nothing is rounded
COLUMNS = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}


@pytest.fixture(scope="module")
def rows():
    return repeated_users(12_000, seed=3, whales=True)


@pytest.fixture(scope="module")
def tally(rows):
    return es.tally(as_dict(rows), **NAMES)


@pytest.fixture(scope="module")
def discrete():
    """Scores in whole percent, weights, users with many rows."""
    found = repeated_users(8000, seed=4, weights=True)
    found.score = np.round(found.score, 2)
    return found


def tallied(rows, **options):
    return es.tally(as_dict(rows), **NAMES, weight="v", **options)


# Each method against brute force


def on_score(rows):
    return es.tally(as_dict(rows), **NAMES, scale="score")  # in whose units bandwidths are given


def test_kernel_knots_are_the_curve_of_the_rows(rows):
    found = es.calibrate(on_score(rows), bandwidth=0.12).map_of(0)
    inner = (found.score > 0.1) & (found.score < 0.9)
    estimate, covariance, _ = oracle.curve(rows.only(0), found.score[inner], 0.12, 1, "gaussian", "user")
    se = np.sqrt(np.diag(covariance))
    assert inner.sum() > 8
    assert np.abs((found.value[inner] - estimate) / se).max() < LATTICE
    np.testing.assert_allclose(found.covariance[np.ix_(inner, inner)], covariance, atol=0.03 * covariance.max())


def test_nadaraya_watson_on_request(rows):
    found = es.calibrate(on_score(rows), degree=0, bandwidth=0.1).map_of(1)
    estimate, covariance, _ = oracle.curve(rows.only(1), found.score[5:9], 0.1, 0, "gaussian", "user")
    assert np.abs((found.value[5:9] - estimate) / np.sqrt(np.diag(covariance))).max() < LATTICE


@pytest.mark.parametrize("weighting", ["user", "row"])
def test_isotonic_is_that_of_scikit_learn(discrete, weighting):
    isotonic = pytest.importorskip("sklearn.isotonic")
    calibrator = es.calibrate(tallied(discrete), method="isotonic", weighting=weighting)
    points = np.linspace(-0.2, 1.2, 300)
    for group in (0, 1):
        mine = discrete.only(group)
        model = isotonic.IsotonicRegression(out_of_bounds="clip")
        model.fit(mine.score, mine.outcome, oracle.row_weights(mine, weighting))
        np.testing.assert_allclose(calibrator.map_of(group).at(points), model.predict(points), atol=EXACT)


def test_platt_is_a_weighted_logistic_regression_with_clustered_errors():
    statsmodels = pytest.importorskip("statsmodels.api")
    rows = repeated_users(8000, seed=5)
    rows.score = np.round(rows.score, 2).clip(0.01, 0.99)
    found = es.calibrate(es.tally(as_dict(rows), **NAMES), method="platt").map_of(0)
    mine = rows.only(0)
    design = np.column_stack([np.ones(len(mine.score)), np.log(mine.score / (1 - mine.score))])
    weight = oracle.row_weights(mine, "user")
    model = statsmodels.GLM(mine.outcome, design, family=statsmodels.families.Binomial(), var_weights=weight)
    coefficients = model.fit().params
    p = 1 / (1 + np.exp(-design @ coefficients))
    bread = np.linalg.inv(design.T @ (design * (weight * p * (1 - p))[:, None]))
    parts = [oracle.by_user(mine, weight * (mine.outcome - p) * column)[1] for column in design.T]
    sandwich = bread @ np.cov(parts, bias=True) @ bread * len(parts[0])
    at = np.column_stack([np.ones(len(found.score)), np.log(np.clip(found.score, 1e-6, 1) / np.clip(1 - found.score, 1e-6, 1))])
    inner = (found.score > 0.02) & (found.score < 0.98)
    expected = 1 / (1 + np.exp(-at @ coefficients))
    se = expected * (1 - expected) * np.sqrt(np.einsum("ij,jk,ik->i", at, sandwich, at))
    np.testing.assert_allclose(found.value[inner], expected[inner], atol=2e-4)  # a weak prior keeps separated data finite
    np.testing.assert_allclose(found.se(found.score)[inner], se[inner], rtol=5e-3)  # and n / (n - 2)
    middle = (found.score[1:] + found.score[:-1])[inner[1:]] / 2
    curve = 1 / (1 + np.exp(-(coefficients[0] + coefficients[1] * np.log(middle / (1 - middle)))))
    assert np.abs(found.at(middle) - curve).max() < 3e-4  # straight lines between knots do not show


@pytest.mark.parametrize("bin_by", ["mass", "width"])
def test_binning_averages_bins(discrete, bin_by):
    found = es.calibrate(tallied(discrete), method="binning", bins=6, bin_by=bin_by).map_of(0)
    mine = discrete.only(0)
    weight = oracle.row_weights(mine, "user")
    assert found.step and 2 <= len(found.score) <= 6
    number = np.searchsorted(found.score, mine.score, side="right") - 1
    means = np.bincount(number, weight * mine.outcome) / np.bincount(number, weight)
    np.testing.assert_allclose(found.value, means, rtol=EXACT)
    np.testing.assert_allclose(found.at(mine.score), means[number], rtol=EXACT)
    for j, mean in enumerate(means):
        share = weight * (number == j) / weight[number == j].sum()
        _, influence = oracle.by_user(mine, share * (mine.outcome - mean))
        _, own = oracle.by_user(mine, share)
        effective = 1 / (own**2).sum()
        assert found.covariance[j, j] == pytest.approx((influence**2).sum() * (effective / (effective - 1)) ** 2, rel=1e-8)
    if bin_by == "mass":
        shares = np.bincount(number, weight) / weight.sum()
        assert shares.max() < 1.4 / 6


def test_real_outcomes_keep_their_offset():
    rows = repeated_users(6000, seed=6, real=True)
    data = as_dict(rows) | {"y": rows.outcome + 1e6}
    tally = es.tally(data, **NAMES)
    for method in ("kernel", "isotonic", "binning", "auto"):
        found = es.calibrate(tally, method=method).map_of(0)
        mine = rows.only(0)
        weight = oracle.row_weights(mine, "user")
        mean = (weight * found.at(mine.score)).sum() / weight.sum() - 1e6
        assert mean == pytest.approx((weight * mine.outcome).sum() / weight.sum(), abs=0.05)
        assert "Platt" not in found.words
    with pytest.raises(es.OptionError, match="not all 0 or 1"):
        es.calibrate(tally, method="platt")


def test_platt_refuses_scores_that_are_no_probabilities():
    rows = repeated_users(3000, seed=6)
    with pytest.raises(es.OptionError, match="scores run from"):
        es.calibrate(es.tally(as_dict(rows) | {"s": 600 + 100 * rows.score}, **NAMES), method="platt")


def test_separated_outcomes_stay_finite():
    score = np.linspace(0.01, 0.99, 200)
    data = {"s": score, "y": score > 0.5, "g": np.zeros(200, int), "u": np.arange(200)}
    found = es.calibrate(es.tally(data, **NAMES), method="platt").map_of(0)
    assert np.isfinite(found.value).all() and found.at(0.05) < 0.05 and found.at(0.95) > 0.95


# Choosing


@pytest.mark.parametrize(
    "method",
    [KernelMap(Smoothing(bandwidth=0.1)), KernelMap(Smoothing(bandwidth="band")), Isotonic(), Platt(), Binning()],
    ids=["kernel", "guided", "isotonic", "platt", "binning"],
)
def test_fold_values_are_fits_without_the_fold(rows, method):
    """Against a tally of the other users, on an axis that does not depend on them."""
    tally = es.tally(as_dict(rows), **NAMES, scale="score")
    view = GroupView.of(tally, 0, "user")
    left = folds(hash_integers(rows.user)) != 3
    others = es.tally({name: column[left] for name, column in as_dict(rows).items()}, **NAMES, lattice=tally)
    expected = method.fit(GroupView.of(others, 0, "user")).at(view.score)
    weight = view.sums.W / view.sums.W.sum()
    error = np.sqrt(weight @ (method.fold_values(view)[3] - expected) ** 2)
    # Without the fold a cell has another mean score, and the kernel fits at points a third of a bandwidth apart.
    assert error < 2e-3


@pytest.mark.parametrize("degree", [1, 2])
def test_the_rule_for_bands_is_that_of_curves(rows, degree):
    """The map that limits are drawn from is the curve that bands are drawn around, where many users are near."""
    tally = es.tally(as_dict(rows.only(0)), **NAMES)
    found = es.calibrate(tally, degree=degree, bandwidth="band").map_of(0)
    inside = (found.score > 0.1) & (found.score < 0.9)
    expected = es.curves(tally, degree=degree, grid=found.score[inside])[0]
    np.testing.assert_allclose(found.value[inside], expected.estimate, rtol=1e-9)
    np.testing.assert_allclose(found.se(found.score)[inside], expected.se, rtol=1e-6)


def test_fold_loss_counts_the_users_left_out(rows):
    view = GroupView.of(es.tally(as_dict(rows), **NAMES), 0, "user")
    mine = rows.only(0)
    weight, fold = oracle.row_weights(mine, "user"), folds(hash_integers(mine.user))
    expected = [(weight * (mine.outcome - 0.4) ** 2)[fold == k].sum() for k in range(10)]
    np.testing.assert_allclose(view.fold_losses(np.full((10, 512), 0.4)).sum(axis=1), expected, rtol=1e-9)


def test_simplex_minimum():
    from scipy.optimize import minimize

    rng = np.random.default_rng(0)
    for _ in range(20):
        root, linear = rng.normal(size=(6, 4)), rng.normal(size=4)
        quadratic = root.T @ root
        found = simplex_minimum(quadratic, linear)
        assert found.min() >= 0 and found.sum() == pytest.approx(1)
        sum_to_one = {"type": "eq", "fun": lambda w: w.sum() - 1}
        best = minimize(
            lambda w, q=quadratic, b=linear: w @ q @ w - 2 * b @ w, np.full(4, 0.25), bounds=[(0, 1)] * 4, constraints=sum_to_one
        )
        assert found @ quadratic @ found - 2 * linear @ found <= best.fun + 1e-6
    np.testing.assert_allclose(simplex_minimum(np.ones((2, 2)), np.ones(2)).sum(), 1)  # two methods that agree


def test_the_share_of_a_gain_that_is_sure():
    even = np.tile([1.0, 3.0], 5)  # a total of 20 with a standard error of 10/3
    assert sure_share(even) == 1 and sure_share(-even) == 0
    spread = np.array([10.0, -8.0] * 5)
    z = spread.sum() / (np.sqrt(10) * spread.std(ddof=1))
    assert 0.3 < z < 0.5 and sure_share(spread) == 0
    spread = np.array([10.0, -5.0] * 5)
    assert sure_share(spread) == pytest.approx(spread.sum() / (np.sqrt(10) * spread.std(ddof=1)) - 0.5)
    assert sure_share(np.zeros(10)) == 0 and sure_share(np.ones(10)) == 1
    assert sure_share(np.full(10, 1e-17), rounding=1e-12) == 0  # equal losses, computed in two ways
    assert sure_share(np.array([3e-13, 1e-13] * 5), rounding=1e-12) == pytest.approx(1)
    assert 0 < sure_share(np.full(10, 1.2e-13), rounding=1e-12) < 1  # no jump where rounding ends


@pytest.mark.parametrize(("curve", "wanted"), [((-0.5, 1.5), "1.00 Platt"), ("bumpy", "local")], ids=["logit", "bumpy"])
def test_auto_says_what_it_chose(curve, wanted):
    from evenscore.simulation import Bump

    shape = Curve(0, 0.3, Bump(0.5, 0.6, 0.1)) if curve == "bumpy" else Curve(*curve)
    data = es.simulate(2000, groups=["a"], curve=shape, outcome_correlation=0.3).data(seed=7)
    found = es.calibrate(es.tally(data, **COLUMNS), method="auto")
    assert wanted in found.maps[0].words and "users left out" in repr(found)
    grid = np.linspace(0.1, 0.9, 50)
    assert np.sqrt(np.mean((found.maps[0].at(grid) - shape.at(grid)) ** 2)) < 0.04


def test_intervals_of_a_map_cover():
    """Platt on a logit truth has no bias: 95 % intervals at one score cover about as often."""
    simulation = es.simulate(150, groups=["a"], curve=(-0.5, 0.8), rows_per_user=4, outcome_correlation=0.6, score_correlation=0.5)

    def interval(data, seed):
        found = es.calibrate(es.tally(data, **COLUMNS), method="platt").maps[0]
        estimate, half = found.at([0.3])[0], 1.96 * found.se([0.3])[0]
        return {"estimate": estimate, "low": estimate - half, "high": estimate + half}

    found = es.study(simulation, {"platt": interval}, runs=150, truth=float(simulation.truth.curve(0.3, "a")))
    assert 0.89 <= found.rows()[0]["coverage"] <= 0.99  # Monte Carlo error 1.8 points


# Maps


def step_and_line():
    score = np.array([0.1, 0.3, 0.35, 0.9])
    value = np.array([0.2, 0.5, 0.1, 0.8])
    factor = covariance_factor(np.diag([0.01, 0.02, 0.03, 0.04]))
    return [GroupMap("g", score, value, factor, 0.1, 0.95, 5, 9, step=step) for step in (False, True)]


def test_maps_in_all_their_forms_agree():
    points = np.concatenate([np.linspace(-1, 2, 401), [0.1, 0.3, 0.35, 0.9]])
    for each in step_and_line():
        np.testing.assert_allclose(each.design(points) @ each.value, each.at(points), atol=1e-14)
        found = np.empty(len(points))
        for piece in each.segments():
            inside = (points >= piece.start) & (points < piece.end)
            found[inside] = piece.value + piece.slope * (points[inside] - piece.origin)
        np.testing.assert_allclose(found, each.at(points), atol=1e-14)
        assert each.outside(points) == (int((points < 0.1).sum()), int((points > 0.95).sum()))
    line, step = step_and_line()
    assert line.at(0.2) == pytest.approx(0.35) and step.at(0.2) == 0.2 and step.at(0.35) == 0.1
    assert line.se([0.1, 0.3]) == pytest.approx([0.1, np.sqrt(0.02)])
    assert line.se([0.2])[0] == pytest.approx(np.sqrt(0.25 * 0.03))
    draws = line.draw(np.random.default_rng(0), 20_000)
    np.testing.assert_allclose(np.cov(draws.T), line.covariance, atol=1e-3)


def test_monotone_maps(tally):
    plain, monotone = es.calibrate(tally, bandwidth=0.03), es.calibrate(tally, bandwidth=0.03, monotone=True)
    for group in (0, 1):
        assert (np.diff(plain.map_of(group).value) < 0).any()
        assert (np.diff(monotone.map_of(group).value) >= -1e-12).all()


@pytest.mark.parametrize("method", ["kernel", "isotonic", "platt", "auto"])
def test_the_scale_of_a_reference(tally, method):
    """f_ref(s~) = f_g(s) wherever the reference reaches; the reference itself keeps its scores, also beyond what was seen."""
    plain = es.calibrate(tally, method=method, monotone=True)
    kept = es.calibrate(tally, method=method, reference=0)
    points = np.linspace(0.02, 0.95, 200)
    wanted, back = plain.map_of(1).at(points), plain.map_of(0).at(kept.map_of(1).at(points))
    reach = plain.map_of(0).value
    inside = (wanted > reach.min()) & (wanted < reach.max())
    assert inside.mean() > 0.5
    np.testing.assert_allclose(back[inside], wanted[inside], atol=1e-9)
    np.testing.assert_array_equal(kept.map_of(0).at([-1.0, 0.3, 7.0]), [-1.0, 0.3, 7.0])
    assert np.isfinite(kept.standard_errors(points, np.ones(200, int))).all()
    assert "= 0" in repr(kept)


def test_a_reference_needs_a_curve(tally):
    with pytest.raises(es.OptionError, match="steps"):
        es.calibrate(tally, method="binning", reference=0)
    with pytest.raises(es.OptionError, match="no group 'x'"):
        es.calibrate(tally, reference="x")


def test_the_repair_brings_groups_together():
    """On known truth: calibrated scores are near the true curves of both groups."""
    simulation = es.simulate(4000, curve={"a": (0, 1), "b": (-1, 0.7)}, outcome_correlation=0.5, score_correlation=0.3)
    tally = es.tally(simulation.data(seed=1), **COLUMNS)
    grid = np.linspace(0.05, 0.95, 100)
    for method, limit in (("kernel", 0.02), ("isotonic", 0.035), ("platt", 0.012), ("auto", 0.02)):
        calibrator = es.calibrate(tally, method=method)
        for group in "ab":
            error = calibrator.map_of(group).at(grid) - simulation.truth.curve(grid, group)
            assert np.sqrt(np.mean(error**2)) < limit, (method, group)
