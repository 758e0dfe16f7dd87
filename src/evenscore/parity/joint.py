"""Many comparisons at once: draws of every group's noise at the cells, so that pairs that share a group share its noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenscore.estimation.bandwidth import settle
from evenscore.estimation.comparison import Comparison, Sides
from evenscore.estimation.inference import DRAWS, RESOLVED, draw_normal, seeded
from evenscore.estimation.multiplicity import draw_ranks, holm, single_step
from evenscore.estimation.smoothing import Smoothing
from evenscore.parity.methods import Evidence
from evenscore.tallies.view import GroupView
from evenscore.types import Floats, Ints

Singles = NDArray[np.float32]  # enough for what is only ranked, in half the time and memory

NOISE_BYTES = 1 << 29
FEWEST_DRAWS = 1000
MOST_DRAWN = 20_000  # draws times pairs: with many pairs fewer draws of each will do
RIDGE = 1e-12
MAX_STACKED = 2048  # cells of all groups together, beyond which one covariance for groups that share users is too large


@dataclass(frozen=True, slots=True)
class Noise:
    """Draws of a group's outcome sums around their expectation, (n_cells, draws), in units of 2 ** power.

    Sums have the units of weights and outcomes, which float32 cannot hold at any size; powers of two change no bit.
    """

    values: Singles
    power: int

    def in_units(self, power: int) -> Singles:
        """The draws in other units."""
        return np.ldexp(self.values, self.power - power)

    @classmethod
    def total(cls, noises: Sequence[Noise]) -> Noise:
        """The sum of all groups' draws."""
        power = max(noise.power for noise in noises)
        return cls(np.sum([noise.in_units(power) for noise in noises], axis=0), power)

    def less(self, own: Noise) -> Noise:
        """The draws of all but one group, from those of all."""
        return Noise(self.values - own.in_units(self.power), self.power)


class JointDraws:
    """Draws of all comparisons together, taken in one comparison after the other so that none need be kept.

    Adjusted p-values are Westfall and Young's single-step ones; Holm's method serves where draws are too few for a p-value, or
    groups that share users are too many.
    """

    def __init__(self, sides: Sides, smoothing: Smoothing, *, n_pairs: int, seed: int) -> None:
        self._noise = None
        if n_pairs > 1:
            draws = int(np.clip(MOST_DRAWN // n_pairs, FEWEST_DRAWS, DRAWS))
            self._noise = _group_noise(sides, smoothing, draws, seeded(seed, 1 << 20))
        self._total: Noise | None = None
        self._smallest: Floats | None = None

    def take(self, comparison: Comparison, evidence: Evidence) -> None:
        """Draw what this comparison's statistic would be without any gap."""
        if self._noise is None:
            return
        of_a = self._noise[comparison.a.members[0]]
        if len(comparison.b.members) > 1:  # the rest, which is the whole less the group
            if self._total is None:
                self._total = Noise.total(self._noise)
            of_b = self._total.less(of_a)
        else:
            of_b = self._noise[comparison.b.members[0]]
        own = _difference(evidence, comparison.a.cells, of_a, of_b)
        deviation = own.std(axis=1)
        own /= np.where(deviation > 0, deviation, 1.0)[:, None]
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


def _difference(evidence: Evidence, cells: Ints, of_a: Noise, of_b: Noise) -> Floats:
    """What noise at all cells makes of the process of two sides, (n, draws); each row in units of its own."""
    return _side(evidence.matrix_a, evidence.se_a, cells, of_a) - _side(evidence.matrix_b, evidence.se_b, cells, of_b)


def _side(matrix: Floats, se: Floats, cells: Ints, noise: Noise) -> Floats:
    """One side's part, with the standard errors that the test gives it."""
    drawn = _at_all(np.ldexp(matrix, -_row_powers(matrix)[:, None]), cells, noise.values)
    deviation = drawn.std(axis=1)
    return np.asarray(drawn * np.divide(se, deviation, out=np.zeros_like(se), where=deviation > 0)[:, None])


def _row_powers(matrix: Floats) -> Ints:
    """The power of two next above the largest number of each row, (n,)."""
    return np.frexp(np.abs(matrix).max(axis=1, initial=0.0))[1]


def _at_all(matrix: Floats, cells: Ints, noise: Singles) -> Floats:
    """A matrix on some cells times noise at all of them, (n, draws)."""
    wide = np.zeros((len(matrix), len(noise)), dtype=noise.dtype)
    wide[:, cells] = matrix
    return (wide @ noise).astype(np.float64)


def _group_noise(sides: Sides, smoothing: Smoothing, draws: int, rng: np.random.Generator) -> list[Noise] | None:
    """Draws for each group, in the order of the groups."""
    tally = sides.tally
    draws = max(FEWEST_DRAWS, min(draws, NOISE_BYTES // (4 * tally.lattice.n_cells * len(tally.groups))))
    fits = [_own_fit(view, smoothing) for view in sides.views]
    if tally.cross:
        return _stacked_noise(sides.views, fits, draws, rng)
    noise = []
    for index, fit in enumerate(fits):
        side = sides.side(index)
        used = side.sums.W > 0
        covariance = side.pairs.residual(fit[side.cells], fit[side.cells])[np.ix_(used, used)]
        power = _power(covariance)
        noise.append(Noise(_on_lattice(side, _draw(np.ldexp(covariance, -2 * power), rng, draws)), power))
    return noise


def _power(covariance: Floats) -> int:
    """The power of two nearest to the standard deviations together; 0 when there are none."""
    total = float(np.trace(covariance))
    return int(np.frexp(total)[1]) // 2 if 0 < total < np.inf else 0


def _on_lattice(view: GroupView, drawn: Singles) -> Singles:
    """Draws at the cells where a group has people, (n_used, draws), with 0 at all others."""
    values = np.zeros((view.lattice.n_cells, drawn.shape[1]), dtype=np.float32)
    values[view.used] = drawn
    return values


def _draw(covariance: Floats, rng: np.random.Generator, draws: int) -> Singles:
    """Draws from N(0, covariance), (n, draws), by its Cholesky root: eigenvalues of hundreds of cells take ten times as long.

    The ridge, far below what ranks can tell, makes it positive when there are fewer users than cells.
    """
    try:
        root = np.linalg.cholesky(covariance + RIDGE * np.trace(covariance) * np.eye(len(covariance)))
    except np.linalg.LinAlgError:  # hardly more than rounding is left to draw
        return draw_normal(covariance, rng, draws).T.astype(np.float32)
    return root.astype(np.float32) @ rng.standard_normal((len(root), draws), dtype=np.float32)


def _own_fit(view: GroupView, smoothing: Smoothing) -> Floats:
    return settle(smoothing, [view]).fit_at(view) if view.sums.W.any() else np.zeros_like(view.sums.W)


def _stacked_noise(views: list[GroupView], fits: list[Floats], draws: int, rng: np.random.Generator) -> list[Noise] | None:
    """Groups that share users: one covariance over the cells of all."""
    used = [view.used for view in views]
    sizes = [len(cells) for cells in used]
    if sum(sizes) > MAX_STACKED:
        return None
    ends = np.cumsum(sizes)
    blocks = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    covariance = np.zeros((ends[-1], ends[-1]))
    for i, a in enumerate(views):
        for j, b in enumerate(views):
            pairs = a.shared_pairs(b)
            if pairs is not None and sizes[i] and sizes[j]:
                covariance[blocks[i], blocks[j]] = pairs.residual(fits[i], fits[j])[np.ix_(used[i], used[j])]
    powers = [_power(covariance[block, block]) for block in blocks]
    units = np.repeat(powers, sizes)
    drawn = _draw(np.ldexp(covariance, -(units[:, None] + units[None, :])), rng, draws)
    return [Noise(_on_lattice(view, drawn[block]), power) for view, block, power in zip(views, blocks, powers, strict=True)]
