"""From a process with a covariance to simultaneous statements: draws, suprema, sums of squares and their far tails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenscore.errors import require_count
from evenscore.types import Floats, Mask

Singles = NDArray[np.float32]  # enough for what is only ranked, in half the time and memory

DRAWS = 5000
BLOCK = 128  # rows of common random numbers that are kept together
SMALLEST = sys.float_info.min  # a p-value is never 0
EXCESS = 1e-6  # of a correlation over 1, which is no rounding of the correlation itself
LEAST_DF = 0.5  # one and a half effective users; with fewer near, nobody can tell how far people differ
STEPS = 100  # towards a saddlepoint: an eighth of the way is left each time, later the square of it
RESOLVED = 20  # fewer draws than this beyond the statistic, and a tail approximation takes over


@dataclass(frozen=True, slots=True)
class PValue:
    """A p-value and how it was found: "draws" or "tail"."""

    value: float
    source: str


def seeded(seed: int, *more: int) -> np.random.Generator:
    """Random numbers for a seed; the further numbers keep streams apart."""
    return np.random.default_rng([require_count("seed", seed, low=0), *more])


def small_sample(effective: Floats) -> Floats:
    """n / (n - 1) for the effective users of each point; nan where there is not more than one."""
    return np.where(effective > 1 + 1e-9, effective / np.where(effective > 1 + 1e-9, effective - 1, 1), np.nan)


def tells_spread(df: Floats) -> Mask:
    """Where there are degrees of freedom enough to say how far an estimate may be off.

    Student's quantile for a probability p grows as p^(-1 / df): with hardly more than one effective user a limit would be 1e73.
    """
    return np.asarray(df >= LEAST_DF - 1e-9)


def standard_errors(covariance: Floats) -> Floats:
    """Roots of the diagonal, which rounding may have left slightly below 0."""
    return np.sqrt(np.maximum(np.diag(covariance), 0.0))


def correlation(covariance: Floats) -> Floats:
    """The correlation matrix of a covariance matrix; what does not vary, or nobody knows how much, goes with nothing else."""
    variance = np.diag(covariance)
    varies = np.isfinite(variance) & (variance > 0)
    deviation = np.sqrt(np.where(varies, variance, 1.0))
    corr = covariance / deviation[:, None] / deviation
    corr[~varies], corr[:, ~varies] = 0.0, 0.0
    size = np.abs(corr)
    if not size.max(initial=0.0) <= 1 + EXCESS:
        # By Cauchy and Schwarz none is beyond 1: where one is, the smaller of the two variances is what rounding has left of 0.
        rounding = ((np.maximum(size, size.T) > 1 + EXCESS) & (variance[:, None] <= variance)).any(axis=1)
        corr[rounding], corr[:, rounding] = 0.0, 0.0
        varies &= ~rounding
    np.fill_diagonal(corr, np.where(varies, np.diag(corr), 1.0))
    return corr


class CommonNormals:
    """Random numbers for a seed like a generator's, of which all who ask get the same: many comparisons share one set of draws."""

    def __init__(self, seed: int) -> None:
        self.seed = require_count("seed", seed, low=0)

    def standard_normal(self, size: tuple[int, int], dtype: Any = np.float32) -> Singles:
        """The first rows and columns of all."""
        rows, columns = size
        blocks = [_normal_block(self.seed, number, -(-columns // DRAWS)) for number in range(max(1, -(-rows // BLOCK)))]
        return (blocks[0] if len(blocks) == 1 else np.concatenate(blocks))[:rows, :columns].astype(dtype, copy=False)


@lru_cache(maxsize=4)
def _normal_block(seed: int, number: int, sets: int) -> Singles:
    block = np.random.default_rng([seed, 1 << 22, number]).standard_normal((BLOCK, sets * DRAWS), dtype=np.float32)
    block.setflags(write=False)
    return block


def draw_normal(covariance: Floats, rng: np.random.Generator | CommonNormals, draws: int = DRAWS) -> Floats:
    """Draws from N(0, covariance), (draws, n), in single precision; rounding may have left it slightly indefinite."""
    root, size = symmetric_root(covariance)
    # Single precision holds no outcome of any size, so units are taken out; and the draws of one point lie side by side in memory,
    # so that the largest over points, or a sum, is found several times as fast.
    power = int(np.frexp(size)[1]) // 2
    normal = rng.standard_normal((len(root), draws), dtype=np.float32)
    drawn: Any = np.ldexp(root, -power).astype(np.float32) @ normal
    return np.asarray((drawn if power == 0 else np.ldexp(drawn.astype(np.float64), power)).T)


def draw_standard(corr: Floats, rng: np.random.Generator | CommonNormals, draws: int = DRAWS) -> Singles:
    """The same of a correlation matrix, which has no units: draws that stay small are not copied to a larger size."""
    normal = rng.standard_normal((len(corr), draws), dtype=np.float32)
    return (symmetric_root(corr)[0].astype(np.float32) @ normal).T


def symmetric_root(covariance: Floats) -> tuple[Floats, float]:
    """The root that changes no more than the covariance does, so that nearly the same one gives nearly the same draws; its size."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    size = max(float(values[-1]), 0.0) if len(values) else 0.0
    return (vectors * np.sqrt(np.where(values > 1e-12 * size, values, 0.0))) @ vectors.T, size


def welch_z(t: Floats, df: Floats) -> Floats:
    """The normal quantile with the tail probability of t under Student's t with df degrees of freedom; df = inf leaves t."""
    from scipy import special

    t, df = np.broadcast_arrays(np.asarray(t, dtype=np.float64), np.asarray(df, dtype=np.float64))
    size = np.abs(t)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        tail = special.stdtr(df, -size)
        exact = -special.ndtri(tail)
        # Beyond the smallest float: Wallace (1959), whose relative error falls with t.
        far = (8 * df + 1) / (8 * df + 3) * np.sqrt(df * np.log1p(size**2 / df))
        z = np.where(tail > 1e-290, exact, far)
    return np.copysign(np.where(np.isinf(df), size, z), t)


def welch_t(z: Floats, df: Floats) -> Floats:
    """The inverse of ``welch_z`` for positive z: the Student quantile with the tail probability of z."""
    from scipy import special

    z, df = np.broadcast_arrays(np.asarray(z, dtype=np.float64), np.asarray(df, dtype=np.float64))
    finite = np.where(np.isinf(df), 1e9, df)
    return np.where(np.isinf(df), z, -special.stdtrit(finite, special.ndtr(-z)))


def normal_quantile(alpha: float) -> float:
    """The normal quantile of a two-sided level."""
    from scipy import special

    return float(-special.ndtri(max(alpha / 2, 1e-300)))  # 1 - alpha / 2 is 1 for the smallest levels


def simultaneous_quantile(covariance: Floats, alpha: float, rng: np.random.Generator | CommonNormals) -> float:
    """How many normal quantiles all estimates at once stay within, with probability 1 - alpha; Bonferroni's where none varies."""
    from scipy import special

    variance = np.diag(covariance)
    known = np.isfinite(variance) & (variance > 0)
    if not known.any():
        return float(special.ndtri(1 - alpha / (2 * max(len(variance), 1))))
    maxima = np.abs(draw_standard(correlation(covariance[np.ix_(known, known)]), rng)).max(axis=1)
    return float(np.quantile(maxima.astype(np.float64), 1 - alpha))


def empirical_p(draws: Floats | Singles, statistic: float, tail: Callable[[float], float]) -> PValue:
    """The share of draws beyond the statistic, or the tail approximation when hardly any are."""
    return _p_of(int(np.count_nonzero(draws >= np.float64(statistic))), len(draws), statistic, tail)


def sorted_p(draws: Floats | Singles, statistic: float, tail: Callable[[float], float]) -> PValue:
    """The same for ascending draws, of which many statistics are asked."""
    return _p_of(len(draws) - int(np.searchsorted(draws, draws.dtype.type(statistic))), len(draws), statistic, tail)


def _p_of(beyond: int, n_draws: int, statistic: float, tail: Callable[[float], float]) -> PValue:
    share = (beyond + 1) / (n_draws + 1)
    if beyond >= RESOLVED:
        return PValue(share, "draws")
    return PValue(max(min(share, float(tail(statistic))), SMALLEST), "tail")


def empirical_p_values(draws: Floats, statistics: Floats, tail: Callable[[float], float]) -> Floats:
    """The values of ``empirical_p`` for many statistics of one distribution."""
    beyond = len(draws) - np.searchsorted(np.sort(draws), statistics)
    p_values = (beyond + 1) / (len(draws) + 1)
    for number in np.flatnonzero(beyond < RESOLVED):
        p_values[number] = max(min(p_values[number], float(tail(float(statistics[number])))), SMALLEST)
    return p_values


@dataclass(frozen=True, slots=True)
class SupTail:
    """P(max |Z_j| >= z) far out, by the smaller of Bonferroni's bound and the expected number of upcrossings.

    For a smooth process that number is 2 sf(z) + L / pi exp(-z^2 / 2) with L the length of the curve on the sphere (Sun and Loader
    1994); between grid points the length is arccos of their correlation.
    """

    n_points: int
    length: float

    @classmethod
    def of(cls, corr: Floats) -> SupTail:
        """Of values that go together like this."""
        steps = np.arccos(np.clip(np.diag(corr, 1), -1, 1)) if len(corr) > 1 else np.zeros(0)
        return cls(len(corr), float(steps.sum()))

    def __call__(self, z: float) -> float:
        """That probability."""
        from scipy import special

        single = 2 * float(special.ndtr(-z))
        crossings = single + self.length / np.pi * float(np.exp(-0.5 * z * z))
        return min(1.0, self.n_points * single, crossings)


def quadratic_tail(q: float, eigenvalues: Floats) -> float:
    """P(sum lambda_i chi2_1 >= q) by the Lugannani-Rice saddlepoint (Kuonen 1999), good far out in the tail."""
    from scipy import special

    values = eigenvalues[eigenvalues > 1e-10 * eigenvalues.max()]
    values = values / values.max()
    x = q / float(eigenvalues.max())
    if x <= values.sum():
        return 1.0
    limit = 0.5  # the cumulant generating function exists below 1 / (2 max lambda)

    def slope(s: float) -> float:
        return float((values / (1 - 2 * s * values)).sum()) - x

    upper = limit * (1 - 1e-15)
    s = limit * (1 - 0.5 * len(values) / max(x, len(values)))
    for _ in range(STEPS):
        if not (slope(s) < 0 and s < upper):
            break
        s = limit - (limit - s) / 8
    # The slope rises and is convex, so Newton's steps come down to its root from above and never pass it.
    for _ in range(STEPS):
        below = s - slope(s) / float((2 * (values / (1 - 2 * s * values)) ** 2).sum())
        if not below < s:
            break
        s = below
    cumulant = -0.5 * float(np.log1p(-2 * s * values).sum())
    curvature = float((2 * values**2 / (1 - 2 * s * values) ** 2).sum())
    w = np.sqrt(max(2 * (s * x - cumulant), 0.0))
    v = s * np.sqrt(curvature)
    if w < 1e-4 or v <= 0:
        return 0.5
    return float(special.ndtr(-(w + np.log(v / w) / w)))
