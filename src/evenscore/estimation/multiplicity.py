"""Many p-values at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenscore.types import Floats


def bonferroni(p_values: ArrayLike) -> Floats:
    """Bonferroni: p times their number; controls the chance of any false rejection.

    >>> bonferroni([0.01, 0.04, 0.5])
    array([0.03, 0.12, 1.  ])
    """
    p = np.asarray(p_values, dtype=np.float64)
    return np.minimum(1, p * np.isfinite(p).sum())


def holm(p_values: ArrayLike) -> Floats:
    """Holm (1979): as Bonferroni, never less powerful. nan stays nan and is not counted.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    count = int(np.isfinite(p).sum())
    adjusted = np.full(len(p), np.nan)
    factors = count - np.arange(count)
    adjusted[order[:count]] = np.minimum(1, np.maximum.accumulate(factors * p[order[:count]]))
    return adjusted


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """Benjamini and Hochberg (1995): controls the false discovery rate, not the chance of any false rejection.

    >>> benjamini_hochberg([0.01, 0.04, 0.03])
    array([0.03, 0.04, 0.04])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    count = int(np.isfinite(p).sum())
    adjusted = np.full(len(p), np.nan)
    scaled = p[order[:count]] * count / np.arange(1, count + 1)
    adjusted[order[:count]] = np.minimum(1, np.minimum.accumulate(scaled[::-1])[::-1])
    return adjusted


def draw_ranks(statistics: Floats) -> Floats:
    """The p-value of each draw among its own column, (draws, n)."""
    n_draws = len(statistics)
    ranks, steps = np.empty((statistics.shape[1], n_draws)), np.arange(1, n_draws + 1) / n_draws
    for own, order in zip(ranks, np.argsort(np.ascontiguousarray(-statistics.T), axis=1), strict=True):
        own[order] = steps
    return ranks.T


def single_step(p_values: ArrayLike, minima: Floats, resolved: int) -> tuple[Floats, bool]:
    """Westfall and Young's single-step adjustment: how often the smallest p-value of joint draws, (draws,), is as small.

    Where fewer than ``resolved`` draws are, Holm's method serves, but gives no more than so many draws would. Returns the adjusted
    p-values and whether all rest on draws.
    """
    p = np.asarray(p_values, dtype=np.float64)
    beyond = np.searchsorted(np.sort(minima), p, side="right")
    enough = beyond >= resolved
    by_draws = np.maximum((np.maximum(beyond, resolved) + 1) / (len(minima) + 1), p)
    return np.where(enough, by_draws, np.minimum(by_draws, holm(p))), bool(enough.all())


@dataclass(frozen=True, slots=True)
class CriticalP:
    """The p-values rejected at a level: those up to ``own``; where that is None those below a ceiling, by Holm's method."""

    alpha: float
    own: float | None = None
    ceiling: float = 1.0

    @classmethod
    def of_single_step(cls, alpha: float, minima: Floats, resolved: int) -> CriticalP:
        """Of ``single_step``, which is monotone in each p-value."""
        ordered, n_draws = np.sort(minima), len(minima)
        most = int(np.floor(alpha * (n_draws + 1) * (1 + 1e-12))) - 1  # draws that may have as small a p-value
        if most < resolved:
            return cls(alpha, None, float(np.nextafter(ordered[resolved - 1], 0)))
        return cls(alpha, min(alpha, float(np.nextafter(ordered[most], 0)) if most < n_draws else 1.0))
