"""The three verdicts, and how what many pairs show makes one result. "Not rejected" is never called fair."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

DISPARITY = "disparity"
PARITY = "parity"
INCONCLUSIVE = "inconclusive"


def combine(verdicts: Iterable[str]) -> str:
    """Any disparity makes the whole a disparity; parity needs every part.

    >>> combine(["parity", "inconclusive", "disparity"]), combine(["parity", "inconclusive"]), combine(["parity", "parity"])
    ('disparity', 'inconclusive', 'parity')
    """
    found = list(verdicts)
    if DISPARITY in found:
        return DISPARITY
    return PARITY if found and all(verdict == PARITY for verdict in found) else INCONCLUSIVE


def smallest(values: Iterable[float]) -> float:
    """The smallest value that is known, such as the p-value of the whole; nan when none is."""
    return min(filter(math.isfinite, values), default=math.nan)


def largest(values: Iterable[float], key: Callable[[float], float] | None = None) -> float:
    """The largest value that is known, such as the largest gap; nan when none is."""
    return max(filter(math.isfinite, values), key=key, default=math.nan)
