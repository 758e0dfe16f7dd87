"""Lines through points: the monotone cubics of SciPy."""

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator

from evenscore.report.smooth_lines import smooth

ROUNDING = 1e-13  # of the largest value


@pytest.mark.parametrize("n", [2, 3, 4, 9])
@pytest.mark.parametrize("kind", ["wild", "level", "rising", "turning"])
def test_it_is_scipys_line(n, kind):
    rng = np.random.default_rng(n)
    for scale in (1e-6, 1.0, 1e5):
        x = scale * np.cumsum(0.1 + rng.random(n))
        y = {"wild": rng.normal(size=n), "level": np.round(rng.normal(size=n)), "rising": np.cumsum(rng.random(n))}.get(kind)
        y = scale * (np.array([0.0, 5.0, -5.0] * 3)[:n] if y is None else y)
        grid = np.linspace(x[0] - scale, x[-1] + scale, 40)
        expected = PchipInterpolator(x, y, extrapolate=False)(grid)
        np.testing.assert_allclose(smooth(x, y, grid), expected, rtol=0, atol=ROUNDING * np.abs(y).max())


def test_points_that_are_not_known_and_places_beyond_are_left_out():
    x, y = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, np.nan, 4.0, 6.0])
    found = smooth(x, y, np.array([-1.0, 0.0, 2.0, 3.0, 3.5]))
    np.testing.assert_array_equal(found, [np.nan, 0.0, 4.0, 6.0, np.nan])
    assert np.isnan(smooth(x[:2], y[:2], x)).all()
