"""Many comparisons at once: draws of every group's noise at the cells, so that pairs that share a group share its noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenscore.bandwidth import choose_bandwidth
from evenscore.comparison import REST, Comparison
from evenscore.curves import smooth_at
from evenscore.inference import DRAWS, RESOLVED, draw_normal
from evenscore.methods import Evidence
from evenscore.multiplicity import draw_ranks, holm, single_step
from evenscore.tally import Tally

Floats = NDArray[np.float64]

NOISE_BYTES = 1 << 29
FEWEST_DRAWS = 1000
MOST_DRAWN = 60_000  # draws times pairs: with many pairs fewer draws of each will do
MAX_STACKED = 2048  # cells of all groups together, beyond which one covariance for groups that share users is too large


def adjust(
    tally: Tally,
    p_values: Floats,
    tested: Sequence[tuple[Comparison, Evidence] | None],
    *,
    weighting: str,
    degree: int,
    kernel: str,
    bandwidth: float | str,
    seed: int,
) -> tuple[Floats, str]:
    """Adjusted p-values by Westfall and Young's single-step method on joint draws, and how it was done in words.

    Holm's method serves where draws are too few for a p-value, or groups that share users are too many.
    """
    adjusted = holm(p_values)
    judged = [place for place, found in enumerate(tested) if found is not None]
    if len(judged) == 1:
        return adjusted, "nothing, there is one pair"
    draws = int(np.clip(MOST_DRAWN // len(judged), FEWEST_DRAWS, DRAWS))
    noise = _group_noise(tally, weighting, degree, kernel, bandwidth, draws, np.random.default_rng([seed, 1 << 20]))
    if noise is None:
        return adjusted, "Holm's method"
    with_rest = any(found is not None and found[0].b.label is REST for found in tested)
    total = np.sum(list(noise.values()), axis=0) if with_rest else None
    smallest = np.ones(len(next(iter(noise.values()))))
    for place in judged:
        comparison, evidence = tested[place]  # type: ignore[misc]
        of_a = noise[id(comparison.a.label)][:, comparison.cells]
        of_b = noise[id(comparison.b.label)][:, comparison.cells] if total is None else total[:, comparison.cells] - of_a
        own = of_a @ evidence.matrix_a.T - of_b @ evidence.matrix_b.T
        statistics = evidence.single(evidence.statistics(own / own.std(axis=0)))
        smallest = np.minimum(smallest, draw_ranks(statistics[:, None])[:, 0])
    adjusted[judged], complete = single_step(p_values[judged], smallest, RESOLVED)
    how = "joint draws of all pairs"
    return adjusted, how if complete else how + ", far tails by Holm's method"


def _group_noise(
    tally: Tally, weighting: str, degree: int, kernel: str, bandwidth: float | str, draws: int, rng: np.random.Generator
) -> dict[int, Floats] | None:
    """Draws of each group's outcome sums around their expectation, (draws, n_cells), by the identity of its label."""
    used = {id(group): np.flatnonzero(tally.sums(group, weighting).W > 0) for group in tally.groups}
    draws = max(FEWEST_DRAWS, min(draws, NOISE_BYTES // (8 * tally.lattice.n_cells * len(tally.groups))))
    fits = {id(group): _own_fit(tally, group, weighting, degree, kernel, bandwidth) for group in tally.groups}
    if tally.cross:
        return _stacked_noise(tally, weighting, used, fits, draws, rng)
    noise = {}
    for group in tally.groups:
        cells = used[id(group)]
        values = np.zeros((draws, tally.lattice.n_cells))
        if len(cells):
            pairs = tally.pair_matrices(group, group, weighting, cells)
            assert pairs is not None
            fit = fits[id(group)][cells]
            values[:, cells] = draw_normal(pairs.residual(fit, fit), rng, draws)
        noise[id(group)] = values
    return noise


def _own_fit(tally: Tally, group: Any, weighting: str, degree: int, kernel: str, bandwidth: float | str) -> Floats:
    sums = tally.sums(group, weighting)
    if not sums.W.any():
        return np.zeros_like(sums.W)
    h = choose_bandwidth(tally, [group], bandwidth=bandwidth, weighting=weighting, degree=degree, kernel=kernel)
    smooth = smooth_at(tally.lattice, sums, sums.position, h, degree, kernel)
    means = np.divide(sums.Y, sums.W, out=np.zeros_like(sums.Y), where=sums.W > 0)
    fit = smooth.matrix @ sums.Y
    return np.where(np.isfinite(fit), fit, means)


def _stacked_noise(
    tally: Tally,
    weighting: str,
    used: dict[int, NDArray[np.int64]],
    fits: dict[int, Floats],
    draws: int,
    rng: np.random.Generator,
) -> dict[int, Floats] | None:
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
    drawn = draw_normal(covariance, rng, draws)
    noise = {}
    for group, size, end in zip(tally.groups, sizes, ends, strict=True):
        values = np.zeros((draws, tally.lattice.n_cells))
        values[:, used[id(group)]] = drawn[:, end - size : end]
        noise[id(group)] = values
    return noise
