"""The three verdicts, and how those of many pairs make one. "Not rejected" is never called fair."""

from __future__ import annotations

from collections.abc import Iterable

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
