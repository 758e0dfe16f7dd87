"""The tally's curves and gaps against the row-level oracle, with no lattice in between."""

import dataclasses

import numpy as np
import pytest
from oracle import curve, gap

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.estimation.bands import shown_gaps
from evenscore.estimation.bandwidth import settle
from evenscore.estimation.comparison import compare_groups
from evenscore.estimation.gaps import estimate_gaps
from evenscore.estimation.inference import correlation
from evenscore.estimation.nulls import Null
from evenscore.estimation.smoothing import Smoothing
from evenscore.tallies.view import GroupView
from support.looks import of_one

# Inside a cell the curve is followed to first order, so the lattice costs far less than .05 standard errors from 12 cells on; the
# box kernel is not smooth (rows near its edge are in or out), hence .4. Standard errors: 2 %, for which kernels with an end need 24
# cells and the box 48; effective users go with the variance, so twice that.
CURVE_TOLERANCE, BOX_TOLERANCE, SE_TOLERANCE = 0.05, 0.4, 0.02
POINTS = np.linspace(0.12, 0.8, 12)
H = 12 / 512
CELLS = {"gaussian": 12, "gaussian4": 12, "gaussian6": 16, "epanechnikov": 24, "triangular": 24, "box": 48}
COMBINATIONS = [(kernel, degree) for kernel in CELLS for degree in (0, 1, 2) if degree == 0 or kernel[-1] not in "46"]

KINDS = {
    "repeated users": {},
    "whales": {"whales": True},
    "survey weights": {"weights": True},
    "spanning users": {"spanning": True},
    "real outcomes": {"real": True},
    "all at once": {"whales": True, "weights": True, "spanning": True, "real": True},
}


@pytest.fixture(scope="module", params=KINDS)
def both(request):
    rows = repeated_users(20_000, seed=7, **KINDS[request.param])
    weight = "v" if KINDS[request.param].get("weights") else None
    return rows, es.tally(as_dict(rows), **NAMES, weight=weight, scale="score")


@pytest.mark.parametrize("weighting", ["user", "row"])
@pytest.mark.parametrize(("kernel", "degree"), COMBINATIONS)
def test_curve(both, weighting, kernel, degree):
    rows, tally = both
    h = CELLS[kernel] / 512
    found = es.curves(tally, grid=POINTS, bandwidth=h, degree=degree, kernel=kernel, weighting=weighting)
    for group in tally.groups:
        estimate, covariance, effective = curve(rows.only(group), POINTS, h, degree, kernel, weighting)
        se = np.sqrt(np.diag(covariance))
        mine = found[group]
        tolerance = BOX_TOLERANCE if kernel == "box" else CURVE_TOLERANCE
        assert (np.abs(mine.estimate - estimate) / se).max() < tolerance
        np.testing.assert_allclose(mine.se, se, rtol=SE_TOLERANCE)
        np.testing.assert_allclose(mine.effective_users, effective, rtol=2 * SE_TOLERANCE)


@pytest.mark.parametrize("weighting", ["user", "row"])
@pytest.mark.parametrize("impose_null", [True, False])
def test_gap(both, weighting, impose_null):
    """Against what users' residuals show; the rate's variance and what is borrowed differ from it by chance only.

    tests/estimation/test_spreads.py has the exact variances.
    """
    rows, tally = both
    comparison = compare_groups(tally, 0, 1, weighting)
    smoothing = Smoothing(bandwidth=H)
    null = Null.of(comparison, smoothing)
    found = of_one(estimate_gaps if impose_null else shown_gaps, comparison, POINTS, smoothing, null)
    gaps, covariance = gap(rows.only(0), rows.only(1), POINTS, H, 1, "gaussian", weighting, impose_null)
    se = np.sqrt(np.diag(covariance))
    assert (np.abs(found.values - gaps) / se).max() < CURVE_TOLERANCE
    np.testing.assert_allclose(found.se, se, rtol=0.15)
    assert np.median(np.abs(found.se / se - 1)) < 0.05
    corr = correlation(found.covariance) if impose_null else found.corr
    np.testing.assert_allclose(corr, covariance / np.outer(se, se), atol=0.15)


def test_spanning_users_matter():
    """Without the cross-group sums the standard error of the gap would be off by far more than the tolerance."""
    rows = repeated_users(20_000, seed=1, spanning=True, real=True)
    tally = es.tally(as_dict(rows), **NAMES)
    assert tally.n_spanning > 0
    comparison = compare_groups(tally, 0, 1, "user")
    smoothing, alone = Smoothing(bandwidth=H), dataclasses.replace(comparison)
    vars(alone)["cross"] = None
    with_cross = of_one(shown_gaps, comparison, POINTS, smoothing).se
    without = of_one(shown_gaps, alone, POINTS, smoothing).se
    assert (without / with_cross).mean() > 1 + 2 * SE_TOLERANCE


def test_lattice_error_falls_with_more_cells():
    """Twice the cells, about a quarter of the error: first order inside a cell leaves the second."""
    rows = repeated_users(20_000, seed=3)
    h = 0.1
    estimate, covariance, _ = curve(rows.only(0), POINTS, h, 1, "gaussian", "user")
    se = np.sqrt(np.diag(covariance))
    errors = {}
    for cells in (32, 64, 128, 256, 512):
        found = es.curves(es.tally(as_dict(rows), **NAMES, cells=cells, scale="score"), grid=POINTS, bandwidth=h)[0]
        errors[cells] = np.sqrt((((found.estimate - estimate) / se) ** 2).mean())
    print("\ncells, root mean square error in standard errors:", {cells: f"{error:.1e}" for cells, error in errors.items()})
    assert errors[32] < CURVE_TOLERANCE
    for fewer, more in ((32, 128), (64, 256), (128, 512)):
        assert errors[more] < errors[fewer] / 6


def test_discrete_scores_are_exact():
    """Up to 512 distinct scores are their own cells: no lattice error at all."""
    rows = repeated_users(20_000, seed=4)
    rows.score = np.round(rows.score, 2)
    tally = es.tally(as_dict(rows), **NAMES, scale="score")
    assert tally.lattice.discrete
    found = es.curves(tally, grid=[0.25, 0.5], bandwidth=0.04)
    estimate, covariance, effective = curve(rows.only(1), [0.25, 0.5], 0.04, 1, "gaussian", "user")
    np.testing.assert_allclose(found[1].estimate, estimate, rtol=1e-10)
    np.testing.assert_allclose(found[1].covariance, covariance, rtol=1e-8)
    np.testing.assert_allclose(found[1].effective_users, effective, rtol=1e-10)


@pytest.mark.parametrize("scale", ["auto", "logit", "rank"])
def test_skewed_scores_on_another_scale(scale):
    """Beta(.5, 20) puts half of all scores into 6 of 512 equal cells; on the logit or rank scale they spread out again."""
    rows = repeated_users(40_000, seed=5, beta=(0.5, 20))
    tally = es.tally(as_dict(rows), **NAMES, scale=scale)
    levels = np.quantile(rows.score, [0.2, 0.4, 0.6, 0.8, 0.95])
    h = settle(Smoothing(bandwidth="band"), [GroupView.of(tally, 0, "user")]).h
    found = es.curves(tally, grid=levels, bandwidth=h)[0]
    mine = rows.only(0)
    axis = tally.lattice.to_axis
    moved = type(mine)(axis(mine.score), mine.outcome, mine.group, mine.user, mine.weight)
    estimate, covariance, _ = curve(moved, axis(levels), found.bandwidth, 1, "gaussian", "user")
    se = np.sqrt(np.diag(covariance))
    assert (np.abs(found.estimate - estimate) / se).max() < 2 * CURVE_TOLERANCE
    np.testing.assert_allclose(found.se, se, rtol=SE_TOLERANCE)


def test_skewed_scores_on_the_score_scale_warn():
    rows = repeated_users(200_000, seed=5, beta=(0.5, 100))
    tally = es.tally(as_dict(rows), **NAMES, scale="score")
    with pytest.warns(es.EvenscoreWarning, match="scale='logit' or scale='rank'"):
        es.curves(tally, bandwidth="test")
