"""Many comparisons at once: draws of every group's noise at the cells, so that pairs that share a group share its noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenscore.estimation.bandwidth import choose_bandwidth
from evenscore.estimation.comparison import REST, Comparison, Sides
from evenscore.estimation.fitted_curves import unsmoothed
from evenscore.estimation.inference import DRAWS, RESOLVED, draw_normal, seeded
from evenscore.estimation.kernels import fit_at_cells, inverse_weight
from evenscore.estimation.multiplicity import draw_ranks, holm, single_step
from evenscore.parity.methods import Evidence
from evenscore.tallies.tally_state import Tally
from evenscore.types import Floats, Ints

Singles = NDArray[np.float32]  # enough for what is only ranked, in half the time and memory

NOISE_BYTES = 1 << 29
FEWEST_DRAWS = 1000
MOST_DRAWN = 20_000  # draws times pairs: with many pairs fewer draws of each will do
RIDGE = 1e-12
MAX_STACKED = 2048  # cells of all groups together, beyond which one covariance for groups that share users is too large


class JointDraws:
    """Draws of all comparisons together, taken in one comparison after the other so that none need be kept.

    Adjusted p-values are Westfall and Young's single-step ones; Holm's method serves where draws are too few for a p-value, or
    groups that share users are too many.
    """

    def __init__(self, sides: Sides, *, n_pairs: int, degree: int, kernel: str, bandwidth: float | str, seed: int) -> None:
        self._noise = None
        if n_pairs > 1:
            draws = int(np.clip(MOST_DRAWN // n_pairs, FEWEST_DRAWS, DRAWS))
            self._noise = _group_noise(sides, degree, kernel, bandwidth, draws, seeded(seed, 1 << 20))
        self._total: Singles | None = None
        self._smallest: Floats | None = None

    def take(self, comparison: Comparison, evidence: Evidence) -> None:
        """Draw what this comparison's statistic would be without any gap."""
        if self._noise is None:
            return
        of_a = self._noise[id(comparison.a.label)]
        if comparison.b.label is REST:
            if self._total is None:
                self._total = np.sum(list(self._noise.values()), axis=0)
            of_b = self._total - of_a
        else:
            of_b = self._noise[id(comparison.b.label)]
        own = _at_all(evidence.matrix_a, comparison.cells, of_a) - _at_all(evidence.matrix_b, comparison.cells, of_b)
        own /= own.std(axis=1)[:, None]
        statistics = evidence.single(evidence.statistics(own.T))
        ranks = draw_ranks(statistics[:, None])[:, 0]
        self._smallest = ranks if self._smallest is None else np.minimum(self._smallest, ranks)

    def adjust(self, p_values: Floats) -> tuple[Floats, str]:
        """Adjusted p-values, and how it was done in words; nan, of a pair that could not be judged, stays."""
        adjusted = holm(p_values)
        judged = np.isfinite(p_values)
        if judged.sum() < 2:
            return adjusted, "nothing, there is one pair"
        if self._smallest is None:
            return adjusted, "Holm's method"
        adjusted[judged], complete = single_step(p_values[judged], self._smallest, RESOLVED)
        how = "joint draws of all pairs"
        return adjusted, how if complete else how + ", far tails by Holm's method"


def _at_all(matrix: Floats, cells: Ints, noise: Singles) -> Floats:
    """A matrix on some cells times noise at all of them, (n, draws)."""
    wide = np.zeros((len(matrix), len(noise)), dtype=noise.dtype)
    wide[:, cells] = matrix
    return (wide @ noise).astype(np.float64)


def _group_noise(
    sides: Sides, degree: int, kernel: str, bandwidth: float | str, draws: int, rng: np.random.Generator
) -> dict[int, Singles] | None:
    """Draws of each group's outcome sums around their expectation, (n_cells, draws), by the identity of its label."""
    tally, weighting = sides.tally, sides.weighting
    draws = max(FEWEST_DRAWS, min(draws, NOISE_BYTES // (4 * tally.lattice.n_cells * len(tally.groups))))
    fits = {id(group): _own_fit(tally, group, weighting, degree, kernel, bandwidth) for group in tally.groups}
    if tally.cross:
        used = {id(group): np.flatnonzero(tally.sums(group, weighting).W > 0) for group in tally.groups}
        return _stacked_noise(tally, weighting, used, fits, draws, rng)
    noise = {}
    for group in tally.groups:
        side = sides.side(group)
        fit = fits[id(group)][sides.cells]
        mine = side.sums.W > 0
        values = np.zeros((tally.lattice.n_cells, draws), dtype=np.float32)
        values[sides.cells[mine]] = _draw(side.pairs.residual(fit, fit)[np.ix_(mine, mine)], rng, draws)
        noise[id(group)] = values
    return noise


def _draw(covariance: Floats, rng: np.random.Generator, draws: int) -> Singles:
    """Draws from N(0, covariance), (n, draws), by its Cholesky root: eigenvalues of hundreds of cells take ten times as long.

    The ridge, far below what ranks can tell, makes it positive when there are fewer users than cells.
    """
    try:
        root = np.linalg.cholesky(covariance + RIDGE * np.trace(covariance) * np.eye(len(covariance)))
    except np.linalg.LinAlgError:  # hardly more than rounding is left to draw
        return draw_normal(covariance, rng, draws).T.astype(np.float32)
    return root.astype(np.float32) @ rng.standard_normal((len(root), draws), dtype=np.float32)


def _own_fit(tally: Tally, group: Any, weighting: str, degree: int, kernel: str, bandwidth: float | str) -> Floats:
    sums = tally.sums(group, weighting)
    if not sums.W.any() or unsmoothed(tally.lattice, sums):
        return sums.Y * inverse_weight(sums.W)
    h = choose_bandwidth(tally, [group], bandwidth=bandwidth, weighting=weighting, degree=degree, kernel=kernel)
    return fit_at_cells(position=sums.position, weight=sums.W, outcome=sums.Y, bandwidth=h, degree=degree, kernel=kernel)


def _stacked_noise(
    tally: Tally,
    weighting: str,
    used: dict[int, Ints],
    fits: dict[int, Floats],
    draws: int,
    rng: np.random.Generator,
) -> dict[int, Singles] | None:
    """Groups that share users: one covariance over the cells of all."""
    sizes = [len(used[id(group)]) for group in tally.groups]
    if sum(sizes) > MAX_STACKED:
        return None
    ends = np.cumsum(sizes)
    covariance = np.zeros((ends[-1], ends[-1]))
    for i, a in enumerate(tally.groups):
        for j, b in enumerate(tally.groups):
            pairs = tally.pair_matrices(a, b, weighting)
            if pairs is not None and sizes[i] and sizes[j]:
                rows, columns = used[id(a)], used[id(b)]
                block = pairs.residual(fits[id(a)], fits[id(b)])[np.ix_(rows, columns)]
                covariance[ends[i] - sizes[i] : ends[i], ends[j] - sizes[j] : ends[j]] = block
    drawn = _draw(covariance, rng, draws)
    noise = {}
    for group, size, end in zip(tally.groups, sizes, ends, strict=True):
        values = np.zeros((tally.lattice.n_cells, draws), dtype=np.float32)
        values[used[id(group)]] = drawn[end - size : end]
        noise[id(group)] = values
    return noise
