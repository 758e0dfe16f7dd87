"""The nearest values that never fall, by pooling neighbours (Ayer and others 1955).

A few hundred values at most, for which importing SciPy's optimizers would take longer than all of the work.
"""

from __future__ import annotations

import numpy as np

from evenscore.types import Floats, Ints


def nearest_rising(value: Floats, weight: Floats) -> Floats:
    """The values that never fall and are nearest in weighted squares, (n,); weight: (n,), positive."""
    means, bounds = _pool(value, weight)
    return np.repeat(means, np.diff(bounds))


def rising_blocks(value: Floats, weight: Floats) -> Ints:
    """Where the stretches of equal values among them begin, and the end of the last."""
    return np.array(_pool(value, weight)[1], dtype=np.int64)


def _pool(value: Floats, weight: Floats) -> tuple[list[float], list[int]]:
    means: list[float] = []
    masses: list[float] = []
    bounds = [0]
    for end, (mean, mass) in enumerate(zip(value.tolist(), weight.tolist(), strict=True), 1):
        while means and means[-1] >= mean:
            before = masses.pop()
            mean = (before * means.pop() + mass * mean) / (before + mass)
            mass += before
            bounds.pop()
        means.append(mean)
        masses.append(mass)
        bounds.append(end)
    return means, bounds
