"""Division where there may be nothing to divide by."""

from __future__ import annotations

import numpy as np

from evenscore.types import Array, Floats


def ratio(top: Array | float, bottom: Array, otherwise: float = 0.0) -> Floats:
    """top / bottom where bottom is above 0, and ``otherwise`` elsewhere.

    >>> ratio(np.array([1.0, 2.0]), np.array([4.0, 0.0])).tolist()
    [0.25, 0.0]
    """
    shape = np.broadcast_shapes(np.shape(top), np.shape(bottom))
    return np.divide(top, bottom, out=np.full(shape, otherwise), where=np.greater(bottom, 0))
