import numpy as np
import pytest
from scipy import integrate, stats

from evenscore.estimation.inference import (
    SupTail,
    correlation,
    draw_normal,
    empirical_p,
    empirical_p_values,
    quadratic_tail,
    simultaneous_quantile,
    welch_t,
    welch_z,
)
from evenscore.estimation.multiplicity import benjamini_hochberg, bonferroni, draw_ranks, holm, single_step

RNG = np.random.default_rng(0)


def smooth_correlation(n=25, length=0.2):
    x = np.linspace(0, 1, n)
    return np.exp(-(((x[:, None] - x[None, :]) / length) ** 2) / 2)


def test_draws_have_the_covariance():
    covariance = np.array([[2.0, 0.6], [0.6, 0.5]])
    draws = draw_normal(covariance, np.random.default_rng(1), 200_000)
    np.testing.assert_allclose(np.cov(draws.T), covariance, rtol=0.02)
    np.testing.assert_allclose(correlation(covariance)[0, 1], 0.6)


def test_slightly_indefinite_covariances_are_drawn_from():
    covariance = smooth_correlation(60, 0.5) - 1e-13 * np.eye(60)
    assert np.isfinite(draw_normal(covariance, np.random.default_rng(1), 100)).all()


@pytest.mark.parametrize("df", [3.0, 9.0, 200.0, np.inf])
def test_welch_z_keeps_the_tail_probability(df):
    t = np.array([-30.0, -2.0, 0.0, 0.5, 3.0, 8.0])
    z = welch_z(t, np.full(6, df))
    expected = stats.t.sf(np.abs(t), df) if np.isfinite(df) else stats.norm.sf(np.abs(t))
    np.testing.assert_allclose(stats.norm.sf(np.abs(z)), expected, rtol=1e-6)
    np.testing.assert_array_equal(np.sign(z), np.sign(t))
    np.testing.assert_allclose(welch_t(np.abs(z), np.full(6, df)), np.abs(t), rtol=1e-5, atol=1e-12)


def test_welch_z_far_out_is_finite_and_increasing():
    t = np.array([30.0, 100.0, 1e3, 1e6])
    z = welch_z(t, np.full(4, 300.0))
    assert np.isfinite(z).all()
    assert (np.diff(z) > 0).all()
    around = np.linspace(100, 250, 300)  # the exact tail leaves the range of floats in here
    steps = np.diff(welch_z(around, np.full(300, 300.0)))
    assert (steps > 0).all()
    np.testing.assert_allclose(steps[1:], steps[:-1], rtol=0.05, atol=0.02)


@pytest.mark.parametrize("length", [0.05, 0.2, 1.0])
def test_sup_tail_against_draws(length):
    """Where draws still resolve the tail: never below by more than their error, above by less than half."""
    corr = smooth_correlation(25, length)
    maxima = np.abs(draw_normal(corr, np.random.default_rng(2), 400_000)).max(axis=1)
    for z in (3.0, 3.5, 4.0):
        share = (maxima >= z).mean()
        error = np.sqrt(share / 400_000)
        assert share - 3 * error < SupTail.of(corr)(z) < 1.5 * share + 3 * error


def test_sup_tail_of_one_point_is_exact():
    assert SupTail.of(np.eye(1))(6.0) == pytest.approx(2 * stats.norm.sf(6), rel=1e-12)
    assert SupTail.of(np.eye(1))(30.0) == pytest.approx(2 * stats.norm.sf(30), rel=1e-9)


@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_quadratic_tail_of_equal_weights_is_chi_square(n):
    for p in (1e-3, 1e-8, 1e-40):
        assert quadratic_tail(stats.chi2.isf(p, n), np.ones(n)) == pytest.approx(p, rel=0.12)


def imhof(q, eigenvalues):
    """The exact tail by numerical inversion (Imhof 1961)."""

    def integrand(u):
        theta = 0.5 * np.arctan(eigenvalues * u).sum() - 0.5 * q * u
        return np.sin(theta) / (u * np.prod((1 + (eigenvalues * u) ** 2) ** 0.25))

    return 0.5 + integrate.quad(integrand, 0, np.inf, limit=2000)[0] / np.pi


def test_quadratic_tail_against_imhof():
    eigenvalues = np.array([6.0, 3.0, 1.5, 0.7, 0.2, 0.05])
    for q in (25.0, 40.0, 60.0):
        assert quadratic_tail(q, eigenvalues) == pytest.approx(imhof(q, eigenvalues), rel=0.06)


def test_p_values_go_below_one_over_the_draws():
    corr = smooth_correlation()
    maxima = np.abs(draw_normal(corr, np.random.default_rng(3))).max(axis=1)
    near = empirical_p(maxima, 2.0, SupTail.of(corr))
    far = empirical_p(maxima, 9.0, SupTail.of(corr))
    assert near.source == "draws"
    assert far.source == "tail"
    assert 0 < far.value < 1e-15
    values = [empirical_p(maxima, z, SupTail.of(corr)).value for z in np.linspace(0, 12, 200)]
    assert (np.diff(values) <= 1e-4).all()


# Multiplicity: against the textbook definitions


def test_p_values_of_many_statistics_are_those_of_each():
    corr = smooth_correlation()
    maxima = np.abs(draw_normal(corr, np.random.default_rng(0), 2000)).max(axis=1)
    statistics = np.array([0.0, 1.0, float(maxima[7]), 3.2, 9.0, 60.0])
    one_by_one = [empirical_p(maxima, float(value), SupTail.of(corr)).value for value in statistics]
    np.testing.assert_array_equal(empirical_p_values(maxima, statistics, SupTail.of(corr)), one_by_one)


def test_corrections_against_statsmodels():
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    p = RNG.random(30) ** 3
    for ours, theirs in ((bonferroni, "bonferroni"), (holm, "holm"), (benjamini_hochberg, "fdr_bh")):
        np.testing.assert_allclose(ours(p), multitest.multipletests(p, method=theirs)[1])


def test_nan_is_not_counted():
    np.testing.assert_allclose(holm([0.01, np.nan, 0.04]), [0.02, np.nan, 0.04])
    np.testing.assert_allclose(benjamini_hochberg([0.01, np.nan, 0.04]), [0.02, np.nan, 0.04])
    np.testing.assert_allclose(bonferroni([0.01, np.nan]), [0.01, np.nan])


def test_single_step_is_bonferroni_for_independent_and_nothing_for_identical_statistics():
    draws = np.random.default_rng(4).standard_normal((20_000, 4))
    adjusted, resolved = single_step([0.02] * 4, draw_ranks(draws).min(axis=1), 20)
    assert resolved
    np.testing.assert_allclose(adjusted, 1 - 0.98**4, rtol=0.06)
    adjusted, _ = single_step([0.02] * 4, draw_ranks(np.repeat(draws[:, :1], 4, axis=1)).min(axis=1), 20)
    np.testing.assert_allclose(adjusted, 0.02, rtol=0.06)


def test_single_step_leaves_the_far_tail_to_holm():
    draws = np.random.default_rng(4).standard_normal((5000, 3))
    adjusted, resolved = single_step([1e-9, 0.3, 0.8], draw_ranks(draws).min(axis=1), 20)
    assert not resolved
    assert adjusted[0] == pytest.approx(3e-9)


def test_draw_ranks():
    np.testing.assert_allclose(draw_ranks(np.array([[1.0], [3.0], [2.0]]))[:, 0], [1, 1 / 3, 2 / 3])


def test_what_does_not_vary_goes_with_nothing():
    covariance = np.array([[4.0, 1.0, 0.0, np.nan], [1.0, 1.0, 0.0, np.nan], [0.0, 0.0, 0.0, np.nan], [np.nan] * 4])
    wanted = np.eye(4)
    wanted[0, 1] = wanted[1, 0] = 0.5
    assert correlation(covariance).tolist() == wanted.tolist()
    assert np.isfinite(draw_normal(correlation(covariance), np.random.default_rng(0), 10)).all()


def test_a_variance_that_rounding_left_goes_with_nothing():
    """A covariance beyond the roots of its variances says that the smaller of them is 0."""
    covariance = np.array([[1e-40, 1e-16, 0.0], [0.0, 1.0, 0.5], [0.0, 0.5, 1.0]])
    np.testing.assert_allclose(correlation(covariance), [[1, 0, 0], [0, 1, 0.5], [0, 0.5, 1]])


def test_how_far_all_estimates_go_at_once():
    """Five independent ones: Sidak's quantile; five that are one: the normal's; none that varies: Bonferroni's."""
    rng = np.random.default_rng(0)
    sidak = stats.norm.isf((1 - 0.95 ** (1 / 5)) / 2)
    assert simultaneous_quantile(np.eye(5), 0.05, rng) == pytest.approx(sidak, abs=0.08)
    assert simultaneous_quantile(np.ones((5, 5)), 0.05, rng) == pytest.approx(1.96, abs=0.08)
    assert simultaneous_quantile(np.zeros((5, 5)), 0.05, rng) == pytest.approx(stats.norm.isf(0.005))


@pytest.mark.parametrize("eigenvalues", [[1.0], [1.0] * 200, [1.0, 1e-9], np.geomspace(1e-8, 1, 50)])
@pytest.mark.parametrize("x", [1.0, 10.0, 1e3, 1e9, 1e300])
def test_the_saddlepoint_is_found_in_few_steps(eigenvalues, x):
    with np.errstate(all="ignore"):
        assert 0 <= quadratic_tail(x, np.array(eigenvalues)) <= 1
