"""Skewness, standard errors that follow their estimate, and back: against exact distributions and simulation."""

import numpy as np
import pytest
from scipy import stats

from evenscore.estimation.laws import Law, follow, skew, unskew


def law(variance=1.0, gamma=0.0, c=0.0, df=np.inf):
    variance = np.atleast_1d(float(variance))
    size = variance**1.5
    noise = np.zeros(1) if np.isinf(df) else 2 * variance**2 / df
    return Law(variance, gamma * size, c * size, noise)


@pytest.mark.parametrize("gamma", [-1.0, -0.3, 0.1, 0.6, 1.0])
def test_a_gamma_variable_becomes_normal(gamma):
    """Wilson and Hilferty's cube root, within .06 of the exact quantile where tests look, in the short tail within .2."""
    z = np.linspace(-2.5, 3.5, 25) * np.sign(gamma)
    exact = stats.pearson3(gamma).ppf(stats.norm.cdf(z))
    off = np.abs(unskew(exact, np.full(25, gamma)) - z)
    assert off.max() < 0.2 and off[np.abs(z * np.sign(gamma) - 0.75) < 2.3].max() < 0.06


@pytest.mark.parametrize("gamma", [-1.0, 0.0, 1e-9, 0.4, 1.0])
@pytest.mark.parametrize("c", [-0.2, 0.0, 0.2])
@pytest.mark.parametrize("df", [5.0, np.inf])
def test_deviations_undo_z(gamma, c, df):
    one = law(4.0, gamma, c, df)
    z = np.array([-1.6, -1.0, 0.0, 0.7, 1.6])
    np.testing.assert_allclose(one.z(one.deviations(z)), z, atol=1e-9)


def test_without_skewness_it_is_students_t():
    t = np.array([0.5, 2.0, 5.0])
    np.testing.assert_allclose(stats.norm.cdf(law(df=7).z(t)), stats.t(7).cdf(t), rtol=1e-9)
    np.testing.assert_array_equal(law().z(t), t)


def test_a_standard_error_that_follows_is_undone():
    """t = u / sqrt(1 + C u), both signs, and 0 stays 0."""
    u, c = np.array([-1.5, 0.0, 2.0]), np.array([0.3, 0.3, 0.3])
    np.testing.assert_allclose(follow(u / np.sqrt(1 + c * u), c), u, atol=1e-12)


def test_its_expansion_is_halls():
    """P(t <= x) to first order in gamma and C."""
    x, size = np.linspace(-2, 2, 9), 1e-3
    for gamma, c in ((size, 0.0), (0.0, size), (size, size), (size, -size)):
        exact = stats.norm.cdf(law(1.0, gamma, c).z(x))
        hall = stats.norm.cdf(x) - stats.norm.pdf(x) * (-c / 2 + (gamma - 3 * c) * (x**2 - 1) / 6)
        np.testing.assert_allclose(exact, hall, atol=2e-6)


@pytest.mark.parametrize("n", [150, 300])
def test_the_mean_of_skewed_outcomes_keeps_its_level(n):
    """Log-normal outcomes: the t test rejects too often on the low side and hardly ever on the high one."""
    rng = np.random.default_rng(n)
    values = np.exp(rng.standard_normal((20_000, n)))
    mean, truth = values.mean(axis=1), np.exp(0.5)
    variance = values.var(axis=1, ddof=1) / n
    gamma = stats.lognorm(1).stats("s") / np.sqrt(n)
    plain = (mean - truth) / np.sqrt(variance)
    third = np.full(len(mean), float(gamma)) * variance**1.5
    corrected = Law(variance, third, third, np.zeros_like(variance)).z(mean - truth)
    for side in (-1, 1):
        before, after = ((side * values > 1.96).mean() for values in (plain, corrected))
        assert abs(after - 0.025) < 0.7 * abs(before - 0.025), side


def test_a_difference_has_the_cumulants_of_both():
    a, b = law(2.0, 0.5, 0.1, 10), law(1.0, 0.2, 0.0, 20)
    both = a.minus(b, 0.25)
    assert both.variance[0] == pytest.approx(2.5)
    assert both.third[0] == pytest.approx(0.5 * 2**1.5 - 0.2)
    assert both.pull[0] == pytest.approx(0.1 * 2**1.5)
    assert both.noise[0] == pytest.approx(2 * 4 / 10 + 2 / 20)
    assert skew(np.array([1.0]), np.zeros(1))[0] == 1.0
