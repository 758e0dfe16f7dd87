"""Many comparisons at once: draws of every group's noise at the cells, so that pairs that share a group share its noise."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from evenscore.errors import require_count
from evenscore.estimation.bandwidth import settle
from evenscore.estimation.comparison import Sides
from evenscore.estimation.inference import DRAWS, RESOLVED, Singles, seeded, symmetric_root
from evenscore.estimation.multiplicity import CriticalP, draw_ranks, holm, single_step
from evenscore.estimation.smoothing import Smoothing
from evenscore.parity.methods import Evidence
from evenscore.tallies.view import GroupView
from evenscore.types import Floats, Ints

NOISE_BYTES = 1 << 29
KEPT_BYTES = 1 << 24  # of random numbers, from one test to the next
FEWEST_DRAWS = 1000
MOST_DRAWN = 20_000  # draws times pairs: with many pairs fewer draws of each will do
RIDGE = 1e-12
NOTHING = 1e-20  # of a row's largest number: the tails of a kernel would be subnormal floats, which take many times as long
CELLS_A_BANDWIDTH, FEWEST_CELLS = 2, 48  # of joined cells for noise, which only says how pairs go together (docs/parity-tests.md)
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
        self._noise: list[Noise] | None = None
        if n_pairs > 1:
            draws = int(np.clip(MOST_DRAWN // n_pairs, FEWEST_DRAWS, DRAWS))
            self._views = _joined_sides(sides, smoothing)
            self._noise = noise = _group_noise(self._views, smoothing, draws, require_count("seed", seed, low=0))
            if noise is not None:
                places = self._views[0].places
                # Not a method, for the same reason as in ``Sides``.
                self._shares = lru_cache(maxsize=sides.kept)(lambda view: _shares(view, places))
        self._total: Noise | None = None
        self._smallest: Floats | None = None

    def for_other_tests(self) -> JointDraws:
        """The same draws of noise, for other tests of the same comparisons."""
        other = copy(self)
        other._smallest = None
        return other

    def take(self, evidence: Evidence) -> None:
        """Draw what this comparison's statistic would be without any gap."""
        if self._noise is None or evidence.comparison is None:
            return
        a, b = evidence.comparison.sides
        noise_a = self._noise[a.members[0]]
        if len(b.members) > 1:  # the rest, which is the whole less the group
            if self._total is None:
                self._total = Noise.total(self._noise)
            noise_b, shares_b = self._total.less(noise_a), _shares(b, self._views[0].places)
        else:
            noise_b, shares_b = self._noise[b.members[0]], self._shares(b)
        larger = np.maximum(evidence.se_a, evidence.se_b)  # only what one side is to the other matters, and has no units
        parts = (np.divide(se, larger, out=np.zeros_like(se), where=larger > 0) for se in (evidence.se_a, evidence.se_b))
        own = _side(evidence.matrix_a @ self._shares(a), next(parts), noise_a.values)
        own -= _side(evidence.matrix_b @ shares_b, next(parts), noise_b.values)
        own *= _ratio(np.ones(len(own)), _deviations(own))[:, None]
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

    def critical(self, alpha: float, n_judged: int) -> CriticalP:
        """The p-values that ``adjust`` leaves at or below a level."""
        if n_judged < 2 or self._smallest is None:
            return CriticalP(alpha)
        return CriticalP.of_single_step(alpha, self._smallest, RESOLVED)


def _side(matrix: Floats, se: Floats, noise: Singles) -> Singles:
    """What noise at the cells makes of one side's part of a process, (n, draws), with the standard errors of the test."""
    scaled = np.ldexp(matrix, -_row_powers(matrix)[:, None])
    scaled[np.abs(scaled) < NOTHING] = 0.0
    drawn = scaled.astype(np.float32) @ noise
    drawn *= _ratio(se, _deviations(drawn))[:, None]
    return drawn


def _deviations(drawn: Singles) -> Floats:
    """The standard deviation of each row, whose mean is 0, (n,)."""
    squares = np.matmul(drawn[:, None, :], drawn[:, :, None])[:, 0, 0]  # half the time of a sum of products
    return np.asarray(np.sqrt(squares / drawn.shape[1]), dtype=np.float64)


def _ratio(top: Floats, bottom: Floats) -> Singles:
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0).astype(np.float32)


def _row_powers(matrix: Floats) -> Ints:
    """The power of two next above the largest number of each row, (n,)."""
    return np.frexp(np.abs(matrix).max(axis=1, initial=0.0))[1]


def _shares(view: GroupView, places: Ints) -> Floats:
    """Which share of the people at some places of the lattice is in each cell of a view, where noise goes; (n_cells, n_places)."""
    own, other = len(view.cells), int(places.max()) + 1
    both = np.flatnonzero((view.places >= 0) & (places >= 0))
    weight = view.lattice_weight[both]
    met = np.bincount(view.places[both] * other + places[both], weight, own * other).reshape(own, other)
    total = met.sum(axis=0)
    return np.divide(met, total, out=met, where=total > 0)


def _joined_sides(sides: Sides, smoothing: Smoothing) -> list[GroupView]:
    """Every group on the same cells, which are fine enough for the narrowest bandwidth."""
    views = [sides.side(index) for index in range(len(sides.views))]
    narrowest = min((settle(smoothing, [view]).h for view in views if view.sums.W.any()), default=1.0)
    return [view.joined(narrowest / CELLS_A_BANDWIDTH, FEWEST_CELLS) for view in views]


def _group_noise(views: list[GroupView], smoothing: Smoothing, draws: int, seed: int) -> list[Noise] | None:
    """Draws for each group, in the order of the groups."""
    draws = max(FEWEST_DRAWS, min(draws, NOISE_BYTES // (4 * len(views[0].cells) * len(views))))
    fits = [_own_fit(view, smoothing) for view in views]
    if views[0].tally.tied:
        return _stacked_noise(views, fits, draws, seed)
    noise = []
    normals = _normals(seed, tuple(len(view.occupied) for view in views), draws)
    for view, fit, normal in zip(views, fits, normals, strict=True):
        covariance = view.pairs.residual(fit, fit)[np.ix_(view.occupied, view.occupied)]
        power = _power(covariance)
        noise.append(Noise(_at_cells(view, _root(np.ldexp(covariance, -2 * power)) @ normal), power))
    return noise


def _normals(seed: int, sizes: tuple[int, ...], draws: int) -> list[Singles]:
    """Random numbers for the cells of each group; few are kept for the next test of the same groups, with the other weighting."""
    make = _kept_normals if 4 * sum(sizes) * draws <= KEPT_BYTES else _kept_normals.__wrapped__
    return make(seed, sizes, draws)


@lru_cache(maxsize=1)
def _kept_normals(seed: int, sizes: tuple[int, ...], draws: int) -> list[Singles]:
    rng = seeded(seed, 1 << 20)
    return [rng.standard_normal((size, draws), dtype=np.float32) for size in sizes]


def _power(covariance: Floats) -> int:
    """The power of two nearest to the standard deviations together; 0 when there are none."""
    total = float(np.trace(covariance))
    return int(np.frexp(total)[1]) // 2 if 0 < total < np.inf else 0


def _at_cells(view: GroupView, drawn: Singles) -> Singles:
    """Draws at the cells where a group has people, (n_used, draws), with 0 at all others."""
    values = np.zeros((len(view.cells), drawn.shape[1]), dtype=np.float32)
    values[view.sums.W > 0] = drawn
    return values


def _root(covariance: Floats) -> Singles:
    """What makes draws from N(0, covariance) of independent ones: eigenvalues of hundreds of cells would take ten times as long.

    The ridge, far below what ranks can tell, makes it positive when there are fewer users than cells.
    """
    try:
        root = np.linalg.cholesky(covariance + RIDGE * np.trace(covariance) * np.eye(len(covariance)))
    except np.linalg.LinAlgError:  # hardly more than rounding is left to draw
        root, _ = symmetric_root(covariance)
    return root.astype(np.float32)


def _own_fit(view: GroupView, smoothing: Smoothing) -> Floats:
    return settle(smoothing, [view]).fit_at(view) if view.sums.W.any() else np.zeros_like(view.sums.W)


def _stacked_noise(views: list[GroupView], fits: list[Floats], draws: int, seed: int) -> list[Noise] | None:
    """Groups that share users: one covariance over the cells of all."""
    used = [view.sums.W > 0 for view in views]
    sizes = [int(mask.sum()) for mask in used]
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
    (normal,) = _normals(seed, (len(covariance),), draws)
    drawn = _root(np.ldexp(covariance, -(units[:, None] + units[None, :]))) @ normal
    return [Noise(_at_cells(view, drawn[block]), power) for view, block, power in zip(views, blocks, powers, strict=True)]
