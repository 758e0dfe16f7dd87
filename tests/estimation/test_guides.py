"""Guided curves against rows, and where the bandwidth gives way."""

import numpy as np
import pytest
from oracle import by_user, guided, row_weights

import evenscore as es
from data import NAMES, as_dict, repeated_users
from evenscore.errors import hush
from evenscore.estimation.bandwidth import settle
from evenscore.estimation.guides import Guide
from evenscore.estimation.smoothing import Smoothing
from evenscore.tallies.view import GroupView

SMOOTHING = Smoothing(bandwidth=0.05)
POINTS = np.array([0.1, 0.3, 0.5])
STEP = 1e-4  # of outcomes, for slopes by differences: their error is of the order of its square


@pytest.fixture(scope="module", params=["0/1", "real", "weights"])
def rounded(request):
    """Scores that are their own cells, so that there is no lattice in between."""
    rows = repeated_users(1500, seed=3, real=request.param == "real", weights=request.param == "weights").only(0)
    rows.score = np.round(rows.score, 2)
    weight = "v" if request.param == "weights" else None
    return rows, es.tally(as_dict(rows), **NAMES, weight=weight, scale="score"), request.param != "real"


@pytest.mark.parametrize("weighting", ["user", "row"])
def test_guided_curve_and_its_slopes(rounded, weighting):
    rows, tally, binary = rounded
    view = GroupView.of(tally, 0, weighting)
    guide, smooth = Guide.of(view), SMOOTHING.smoother(view, POINTS)
    level = guide.curve(view, smooth, POINTS) + tally.centre
    shifted = rows.outcome - (0 if binary else tally.centre)
    expected = guided(rows, shifted, POINTS, SMOOTHING.h, weighting, binary) + (0 if binary else tally.centre)
    np.testing.assert_allclose(level, expected, rtol=1e-8)
    matrix, w = guide.matrix(view, smooth, POINTS), row_weights(rows, weighting)
    scale = tally.sums(0, weighting).W.sum() / w.sum()  # survey weights have a unit of their own
    for score in (0.05, 0.3, 0.6):
        mine = rows.score == score
        up, down = (guided(rows, shifted + step * mine, POINTS, SMOOTHING.h, weighting, binary) for step in (STEP, -STEP))
        slopes = (up - down) / (2 * STEP) / (scale * w[mine].sum())
        cell = int(np.argmin(np.abs(view.sums.position - score)))
        np.testing.assert_allclose(matrix[:, cell], slopes, rtol=1e-4, atol=1e-6 * np.abs(matrix).max())


def test_standard_errors_are_those_of_users(rounded):
    """Each user's influence, summed over rows: what the pair sums must give."""
    rows, tally, _ = rounded
    view = GroupView.of(tally, 0, "user")
    guide, smooth = Guide.of(view), SMOOTHING.smoother(view, POINTS)
    fit = guide.fit_at(view, SMOOTHING)
    matrix, fitted = guide.influence(view, smooth, POINTS, fit)
    cells = np.array([int(np.argmin(np.abs(view.sums.position - score))) for score in rows.score])
    w = row_weights(rows, "user")
    w = w * (view.total / w.sum())
    outcome = rows.outcome - tally.centre
    users = np.array([by_user(rows, w * (matrix[j, cells] * outcome - fitted[j, cells]))[1] for j in range(len(POINTS))])
    np.testing.assert_allclose(view.covariance(matrix, fitted), users @ users.T, rtol=1e-8)


def test_no_guide_where_nothing_varies():
    rows = repeated_users(300, seed=1)
    rows.outcome = np.zeros_like(rows.outcome)
    tally = es.tally(as_dict(rows), **NAMES)
    assert len(Guide.of(GroupView.of(tally, 0, "user")).coefficients) == 0
    assert (es.curves(tally)[0].estimate == 0).all()


def test_one_event_is_no_separation():
    rows = repeated_users(2000, seed=1).only(0)
    rows.outcome = (rows.score == rows.score.max()).astype(float)
    found = es.curves(es.tally(as_dict(rows), **NAMES))[0]
    assert (found.band_low <= found.estimate).all() and (found.estimate <= found.band_high).all()
    assert found.band_low.min() >= 0 and found.band_high.max() < 1


def test_units_of_weights_do_not_matter():
    data = as_dict(repeated_users(2000, seed=5, weights=True))
    one = es.curves(es.tally(data, **NAMES, weight="v"))[0]
    other = es.curves(es.tally({**data, "v": data["v"] * 1e9}, **NAMES, weight="v"))[0]
    np.testing.assert_allclose(other.estimate, one.estimate, rtol=1e-7)
    np.testing.assert_allclose(other.band_low, one.band_low, rtol=1e-6, atol=1e-9)


def many_rows(curve, *, seed, n_users=1500, rows=20):
    rng = np.random.default_rng(seed)
    score = rng.random(n_users * rows)
    outcome = rng.random(len(score)) < curve(score)
    return {"s": score, "y": outcome, "g": [0] * len(score), "u": np.repeat(np.arange(n_users), rows)}


def bump(score):
    return 0.2 + 0.2 * np.exp(-0.5 * ((score - 0.6) / 0.06) ** 2)


@pytest.mark.parametrize(("curve", "share"), [(bump, (0.1, 0.6)), (lambda score: 0.1 + 0.3 * score, (0.99, 1.01))])
def test_the_bandwidth_gives_way_to_a_bend(curve, share):
    tally = es.tally(many_rows(curve, seed=1), **NAMES, scale="score")
    found = es.curves(tally)[0]
    rule = settle(Smoothing(bandwidth="band"), [GroupView.of(tally, 0, "user")], hush).h
    assert share[0] < found.bandwidth / rule < share[1]
    one = es.curves(tally, grid=[0.5])[0]
    assert one.bandwidth == found.bandwidth  # which does not depend on where the curve is asked for


def test_a_number_is_taken_as_it_is():
    tally = es.tally(many_rows(bump, seed=1), **NAMES, scale="score")
    assert es.curves(tally, bandwidth=0.07)[0].bandwidth == 0.07


@pytest.mark.slow
def test_bands_of_steep_curves_hold():
    """Many rows a user and a curve that turns up at the end: 0 of 40 bands held before there was a guide."""

    def steep(score):
        from scipy import special

        return special.expit(-3.6 + 1.2 * special.ndtri(score))

    held = []
    for seed in range(40):
        tally = es.tally(many_rows(steep, seed=seed), **NAMES, scale="score", cells=128)
        found = es.curves(tally)[0]
        truth = steep(found.score)
        held.append(bool(((found.band_low <= truth) & (truth <= found.band_high)).all()))
    assert np.mean(held) > 0.85
