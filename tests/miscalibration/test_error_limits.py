"""Limits of calibration errors where outcomes are rare and groups are small."""

import warnings

import numpy as np
import pytest
from scipy import special, stats

import evenscore as es
from data import NAMES
from evenscore.estimation.bandwidth import by_rule
from evenscore.estimation.inference import seeded
from evenscore.estimation.smoothing import Smoothing
from evenscore.miscalibration import METHODS
from evenscore.miscalibration.binned import binned_error
from evenscore.miscalibration.intervals import size_of
from evenscore.miscalibration.kernel_error import kernel_error, rougher_error
from evenscore.miscalibration.noise import Background, Observed, noise_of
from evenscore.tallies.view import GroupView

EXACT = 1e-12


def tally_of(score, outcome, user=None):
    user = np.arange(len(score)) if user is None else user
    return es.tally({"s": score, "y": outcome, "g": np.zeros(len(score), dtype=int), "u": user}, **NAMES)


def noise_of_bins(tally, bins=5):
    view = GroupView.of(tally, 0, "user")
    view = view.at(view.used)
    measure = binned_error(view, bins=bins, spacing="width", power=1)
    background = Background.each([view], [view])[0]
    shape = np.ones(len(measure.weight))
    return noise_of(Observed.of(measure, view, lambda: background), shape, np.random.default_rng(0))


def test_noise_of_a_calibrated_score_is_that_of_its_rate():
    """Brute force on rows: binomial outcomes with the score as their rate, whatever the outcomes were."""
    rng = np.random.default_rng(0)
    score = (rng.integers(0, 25, 600) + 0.5) / 50
    for outcome in (rng.random(600) < score, np.zeros(600, dtype=bool)):
        law = noise_of_bins(tally_of(score, outcome.astype(int))).law_at(0.0)
        place = np.minimum((score * 5).astype(int), 4)
        size = np.bincount(place)
        spread = score * (1 - score)
        np.testing.assert_allclose(law.variance, np.bincount(place, spread) / size**2, rtol=EXACT)
        np.testing.assert_allclose(law.third, np.bincount(place, spread * (1 - 2 * score)) / size**3, rtol=EXACT)


def test_noise_has_the_moments_of_its_law():
    rng = np.random.default_rng(1)
    score = (rng.integers(0, 25, 900) + 0.5) / 500
    noise = noise_of_bins(tally_of(score, (rng.random(900) < score).astype(int)), bins=[0, 0.02, 0.05])
    for share in (0.0, 1.0):
        law, drawn = noise.law_at(share), noise.at(share, 1.0)
        assert (law.skewness > 0.2).all()
        np.testing.assert_allclose(drawn.std(axis=0), law.se, rtol=0.08)
        np.testing.assert_allclose(stats.skew(drawn), law.skewness, atol=0.15)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("event", [0, 1])
def test_no_events_among_thirty_allow_ten_percent(method, event):
    """The exact limit is 1 - .025^(1/30) = .116: a score of .01 may be off by .1, one of .99 by as much."""
    score = np.full(30, 0.01 if event == 0 else 0.99)
    found = es.calibration_error(tally_of(score, np.full(30, event)), method=method).overall
    assert found.ci_low == 0
    if method == "smooth":  # spread over a kernel's width
        assert found.ci_high > 0.05
    else:
        assert 0.09 < found.ci_high < 0.14


@pytest.mark.parametrize("method", METHODS)
def test_edges(method):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        rng = np.random.default_rng(0)
        spread = rng.random(200)
        cases = {
            "no events": (spread * 0.05, np.zeros(200, dtype=int), None),
            "all events": (1 - spread * 0.05, np.ones(200, dtype=int), None),
            "one user": (spread, (rng.random(200) < spread).astype(int), np.zeros(200, dtype=int)),
            "one row": (spread[:1], np.ones(1, dtype=int), None),
            "costs": (spread, np.zeros(200), None),
        }
        for score, outcome, user in cases.values():
            found = es.calibration_error(tally_of(score, outcome, user), method=method).overall
            assert np.isnan(found.ci_high) or found.ci_low <= found.ci_high
        score = np.repeat([0.0, 1.0], 100)
        found = es.calibration_error(tally_of(score, score.astype(int)), method=method, same_scale=True).overall
        if method != "label_binned":  # one of its bins has both scores, and it compares each with the mean of the bin
            assert (found.ci_low, found.ci_high) == (0, 0)
            assert "scores are outcomes" in found.flag


# Coverage


def rare(seed, users, rows, rate, icc, ratio):
    """Scores 2 * rate * Beta(2, 2), outcomes of users beta-binomial with ratio times the score as their rate."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(users * rows)
    if rows > 1:
        normal = np.sqrt(0.5) * (np.repeat(rng.standard_normal(users), rows) + normal)
    score = 2 * rate * special.betaincinv(2, 2, special.ndtr(normal))
    mean, level = ratio * score, np.repeat(rng.random(users), rows)
    chance = mean if rows == 1 else special.betaincinv(mean * (1 / icc - 1), (1 - mean) * (1 / icc - 1), level)
    outcome = (rng.random(users * rows) < chance).astype(int)
    return {"s": score, "y": outcome, "g": np.zeros(users * rows, dtype=int), "u": np.repeat(np.arange(users), rows)}


def coverage(runs, methods, users, rows, rate, icc, ratio):
    """How often the limits hold the truth, by method."""
    score = 2 * rate * special.betaincinv(2, 2, (np.arange(4000) + 0.5) / 4000)
    off = (ratio - 1) * score
    truth = {"kernel": np.sqrt((off**2).mean()), "ece": off.mean(), "cumulative": off.mean()}
    inside = {method: [] for method in methods}
    for run in range(runs):
        tally = es.tally(rare(run, users, rows, rate, icc, ratio), **NAMES, cells=96, scale="rank")
        for method in methods:
            found = es.calibration_error(tally, method=method, seed=run).overall
            inside[method].append(found.ci_low <= truth[method] + 1e-6 and truth[method] - 1e-6 <= found.ci_high)
    return {method: np.mean(held) for method, held in inside.items()}


@pytest.mark.parametrize("ratio", [1, 2])
def test_limits_cover_where_events_are_few(ratio):
    """100 users with 30 rows and six or twelve events, where .38 to .81 of the limits held the truth."""
    found = coverage(24, ("kernel", "ece", "cumulative"), users=100, rows=30, rate=0.002, icc=0.4, ratio=ratio)
    assert min(found.values()) > 0.82  # .92 less two Monte Carlo errors


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1, 2])
@pytest.mark.parametrize(
    "design",
    [
        {"users": 2000, "rows": 1, "rate": 0.01, "icc": 0.0},
        {"users": 100, "rows": 1, "rate": 0.05, "icc": 0.0},
        {"users": 400, "rows": 4, "rate": 0.01, "icc": 0.4},
        {"users": 400, "rows": 30, "rate": 0.05, "icc": 0.1},
    ],
)
def test_limits_cover_in_the_grid(design, ratio):
    found = coverage(150, ("kernel", "ece", "cumulative"), ratio=ratio, **design)
    assert min(found.values()) > 0.89  # .92 less a Monte Carlo error and a half


@pytest.mark.parametrize("method", ["kernel", "ce_np"])
def test_an_upper_limit_allows_for_what_smoothing_hides(method):
    """An error of the highest scores alone, half a percent of people, far from all others in scores but not in ranks."""
    rng = np.random.default_rng(0)
    score = rng.beta(0.5, 50, 30_000)
    wrong = score >= np.quantile(score, 0.995)
    outcome = rng.random(30_000) < score + 0.15 * wrong
    tally = tally_of(score, outcome.astype(int))
    found = es.calibration_error(tally, method=method).overall
    assert tally.lattice.scale == "rank"
    assert found.ci_low < 0.15 * 0.005**0.5 < found.ci_high < 0.03


def test_calibrated_scores_get_hardly_wider_limits_by_what_smoothing_might_hide():
    rng = np.random.default_rng(1)
    score = rng.beta(2, 2, 8000)
    view = GroupView.of(tally_of(score, (rng.random(8000) < score).astype(int)), 0, "user")
    view = view.at(view.used)
    background = Background.each([view], [view])[0]
    smoothing = by_rule(Smoothing(bandwidth="band"), [view])
    asked = {"alpha": 0.05, "interval": True, "debias": True}
    sizes = [
        size_of(kernel_error(view, smoothing, 2), view, lambda: background, **asked, rng=seeded(0), rougher=rougher)
        for rougher in (None, rougher_error(view, smoothing, 2))
    ]
    assert sizes[0].low == sizes[1].low == 0
    assert sizes[0].high <= sizes[1].high < 1.5 * sizes[0].high


@pytest.mark.parametrize("method", ["kernel", "cumulative"])
def test_a_lonely_score_does_not_make_every_error_possible(method):
    """At the lowest and the highest score there is one user: what chance does there is next to nothing of the whole."""
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(400), 8)
    score = np.clip(np.round(rng.normal(6, 1, len(user)), 1), 0, 10)
    score[:3] = [0, 0.4, 10]
    outcome = score - 1 + rng.normal(size=400)[user] + rng.normal(size=len(user))
    error = es.calibration_error(tally_of(score, outcome, user), method=method, same_scale=True)
    own = error.rows()[0]
    means = np.bincount(user, outcome - score) / 8
    half = 1.96 * means.std() / 20
    assert own["ci_low"] == pytest.approx(-means.mean() - half, abs=0.04)
    assert own["ci_high"] == pytest.approx(-means.mean() + half, abs=0.04)
