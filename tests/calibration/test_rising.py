"""The nearest values that never fall: those of SciPy."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from evenscore.calibration.rising import nearest_rising, rising_blocks

ROUNDING = 1e-12


@pytest.mark.parametrize("n", [1, 2, 3, 10, 300])
@pytest.mark.parametrize("kind", ["wild", "few values", "falling", "rising", "nearly rising"])
def test_they_are_scipys(n, kind):
    rng = np.random.default_rng(n)
    for _ in range(20):
        value = {
            "wild": rng.normal(size=n),
            "few values": rng.integers(0, 3, n) / 2,
            "falling": -np.arange(n) * rng.random(),
            "rising": np.cumsum(rng.random(n)),
            "nearly rising": np.arange(n) + 3 * rng.normal(size=n),
        }[kind]
        weight = rng.gamma(0.3, size=n) + 1e-9
        expected = isotonic_regression(value, weights=weight)
        np.testing.assert_allclose(nearest_rising(value, weight), expected.x, rtol=0, atol=ROUNDING * (1 + np.abs(value).max()))
        np.testing.assert_array_equal(rising_blocks(value, weight), expected.blocks)
