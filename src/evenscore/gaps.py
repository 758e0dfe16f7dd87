"""The gap between two groups' curves as a process along the score: where to look, its estimate and its covariance."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenscore.curves import (
    MAX_POINTS,
    effective_users,
    quantiles,
    residual_covariance,
    small_sample,
    smooth_at,
    standard_errors,
    unsmoothed,
)
from evenscore.errors import OptionError
from evenscore.inference import welch_z
from evenscore.kernels import smoother
from evenscore.tables import label_text
from evenscore.tally import CellSums, Tally

Floats = NDArray[np.float64]

MIN_EFFECTIVE = 10  # a point with fewer effective users in a group is left out
MIN_POINTS = 20
OVERLAP = (0.05, 0.95)
ROUNDING = 1e-12  # a variance below this share of what the outcomes could give is rounding


@dataclass(frozen=True, slots=True)
class Gap:
    """The curve of group a minus that of group b at n_points points.

    position, gap, se, df, effective_a, effective_b: (n_points,); covariance: (n_points, n_points); matrix_a, matrix_b:
    (n_points, n_cells), the smoothers with their small-sample factors, for joint draws.
    """

    position: Floats
    gap: Floats
    covariance: Floats
    df: Floats
    effective_a: Floats
    effective_b: Floats
    matrix_a: Floats
    matrix_b: Floats

    @property
    def se(self) -> Floats:
        """Standard errors."""
        return standard_errors(self.covariance)

    @property
    def z(self) -> Floats:
        """The gap in standard errors, as a normal quantile that allows for few users."""
        return welch_z(self.gap / self.se, self.df)

    def at(self, keep: NDArray[np.bool_]) -> Gap:
        """Only these points."""
        return Gap(
            self.position[keep],
            self.gap[keep],
            self.covariance[np.ix_(keep, keep)],
            self.df[keep],
            self.effective_a[keep],
            self.effective_b[keep],
            self.matrix_a[keep],
            self.matrix_b[keep],
        )


def estimate_gap(
    tally: Tally,
    a: Any,
    b: Any,
    *,
    points: Floats,
    bandwidth: float,
    degree: int = 1,
    kernel: str = "gaussian",
    weighting: str = "user",
    impose_null: bool = True,
) -> Gap:
    """The gap at the points and its user-robust covariance, users that are in both groups included.

    With ``impose_null`` residuals are taken from the pair's pooled curve, which holds the size in small groups; without, from each
    group's own local fits, which intervals need.
    """
    sums_a, sums_b = tally.sums(a, weighting), tally.sums(b, weighting)
    smooth_a = smooth_at(tally.lattice, sums_a, points, bandwidth, degree, kernel)
    smooth_b = smooth_at(tally.lattice, sums_b, points, bandwidth, degree, kernel)
    pairs_a, pairs_b, pairs_ab = (tally.pair_matrices(x, y, weighting) for x, y in ((a, a), (b, b), (a, b)))
    assert pairs_a is not None and pairs_b is not None
    effective_a, effective_b = effective_users(smooth_a.matrix, pairs_a), effective_users(smooth_b.matrix, pairs_b)
    l_a, l_b = smooth_a.matrix * small_sample(effective_a)[:, None], smooth_b.matrix * small_sample(effective_b)[:, None]
    if impose_null:
        pooled = pooled_fit(tally, sums_a, sums_b, bandwidth, degree, kernel)
        fit_a, fit_b = l_a * pooled, l_b * pooled
    else:
        fit_a, fit_b = l_a * smooth_a.local_fit(sums_a.Y), l_b * smooth_b.local_fit(sums_b.Y)
    var_a = residual_covariance(pairs_a, l_a, fit_a, l_a, fit_a)
    var_b = residual_covariance(pairs_b, l_b, fit_b, l_b, fit_b)
    covariance = var_a + var_b
    if pairs_ab is not None:
        shared = residual_covariance(pairs_ab, l_a, fit_a, l_b, fit_b)
        covariance = covariance - shared - shared.T
    return Gap(
        position=points,
        gap=smooth_a.curve(sums_a.Y, sums_a.tilt) - smooth_b.curve(sums_b.Y, sums_b.tilt),
        covariance=covariance,
        df=_welch_df(np.diag(var_a), effective_a - 1, np.diag(var_b), effective_b - 1),
        effective_a=effective_a,
        effective_b=effective_b,
        matrix_a=l_a,
        matrix_b=l_b,
    )


def _welch_df(var_a: Floats, df_a: Floats, var_b: Floats, df_b: Floats) -> Floats:
    """Welch and Satterthwaite's degrees of freedom of a difference."""
    with np.errstate(divide="ignore", invalid="ignore"):
        df = (var_a + var_b) ** 2 / (var_a**2 / df_a + var_b**2 / df_b)
    return np.where(np.isfinite(df), df, np.minimum(df_a, df_b))


def pooled_fit(tally: Tally, a: CellSums, b: CellSums, bandwidth: float, degree: int, kernel: str) -> Floats:
    """The curve of both groups together, at the cells (n_cells,): what outcomes are expected to be if there is no gap."""
    weight, outcome, score = a.W + b.W, a.Y + b.Y, a.X + b.X
    used = weight > 0
    means = np.divide(outcome, weight, out=np.zeros_like(outcome), where=used)
    if unsmoothed(tally.lattice, a, b):
        return means
    position = tally.lattice.positions(np.divide(score, weight, out=np.full_like(score, np.nan), where=used))
    fit = np.zeros_like(means)
    fit[used] = (
        smoother(
            points=position[used],
            positions=position[used],
            weight=weight[used],
            bandwidth=bandwidth,
            degree=degree,
            kernel=kernel,
            near=False,
        ).matrix
        @ outcome[used]
    )
    return np.where(np.isfinite(fit), fit, means)


# Where to look


def pair_grid(tally: Tally, a: Any, b: Any, bandwidth: float, weighting: str) -> tuple[Floats, str | None]:
    """Points at which both groups have users, and a reason when there are none.

    Quantiles inside [max_g q05, min_g q95], at least 20 and no further apart than the bandwidth. Few distinct scores: those that
    both groups have.
    """
    sums_a, sums_b = tally.sums(a, weighting), tally.sums(b, weighting)
    if unsmoothed(tally.lattice, sums_a, sums_b):
        shared = (sums_a.W > 0) & (sums_b.W > 0)
        return sums_a.position[shared], None if shared.any() else _no_overlap(tally, a, b, weighting)
    limits = np.array([quantiles(tally.lattice, sums.W, np.array(OVERLAP)) for sums in (sums_a, sums_b)])
    low, high = limits[:, 0].max(), limits[:, 1].min()
    if not low < high:
        return np.zeros(0), _no_overlap(tally, a, b, weighting)
    mixture = sums_a.W / sums_a.W.sum() + sums_b.W / sums_b.W.sum()
    levels = np.linspace(0, 1, 20 * MIN_POINTS + 1)
    spaced = quantiles(tally.lattice, mixture, levels)
    spaced = spaced[(spaced > low) & (spaced < high)]
    inner = np.interp(np.linspace(0, 1, MIN_POINTS), np.linspace(0, 1, len(spaced) + 2), [low, *spaced, high])
    points = _no_wider(np.unique(inner), bandwidth)
    return points, None


def _no_wider(points: Floats, bandwidth: float) -> Floats:
    """The points with more between them wherever they are further apart than the bandwidth."""
    span = points[-1] - points[0]
    step = max(bandwidth, span / MAX_POINTS)
    pieces = [points[:1]]
    for left, right in itertools.pairwise(points):
        n_steps = max(1, int(np.ceil((right - left) / step - 1e-9)))
        pieces.append(np.linspace(left, right, n_steps + 1)[1:])
    return np.concatenate(pieces)


def _no_overlap(tally: Tally, a: Any, b: Any, weighting: str) -> str:
    ranges = []
    for group in (a, b):
        low, high = tally.lattice.to_score(quantiles(tally.lattice, tally.sums(group, weighting).W, np.array(OVERLAP)))
        ranges.append(f"{label_text(group)} has 90 % of its scores in [{low:.3g}, {high:.3g}]")
    return f"the scores of the two groups do not overlap: {ranges[0]}, {ranges[1]}"


def require_inside(tally: Tally, positions: Floats) -> None:
    """A grid given by the caller must touch the scores that occur."""
    weight = sum(part.vectors[0, 0] for part in tally.parts)
    used = np.flatnonzero(np.asarray(weight) > 0)
    edges = tally.lattice.axis_edges
    low, high = edges[used[0]], edges[used[-1] + 1]
    if not ((positions >= low) & (positions <= high)).any():
        low, high = tally.lattice.to_score(np.array([low, high]))
        raise OptionError(f"the grid lies outside the data, whose scores run from {low:.4g} to {high:.4g}")


def enough_users(gap: Gap) -> NDArray[np.bool_]:
    """Points with enough effective users in both groups."""
    with np.errstate(invalid="ignore"):
        return np.asarray((gap.effective_a >= MIN_EFFECTIVE) & (gap.effective_b >= MIN_EFFECTIVE))


def judgeable(gap: Gap, outcome_square: float) -> NDArray[np.bool_]:
    """Points with enough users and with outcomes that vary, beyond rounding of outcomes of that mean square."""
    rounding = ROUNDING * outcome_square * (1 / gap.effective_a + 1 / gap.effective_b)
    with np.errstate(invalid="ignore"):
        return np.asarray(enough_users(gap) & np.isfinite(gap.gap) & (np.diag(gap.covariance) > rounding))


def outcome_square(tally: Tally, groups: tuple[Any, ...], weighting: str) -> float:
    """The mean square of the groups' outcomes around the tally's centre."""
    sums = [tally.sums(group, weighting) for group in groups]
    return float(sum(group.Y2.sum() for group in sums) / sum(group.W.sum() for group in sums))
