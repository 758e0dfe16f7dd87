"""What a test looks at: linear processes along the score, each with its user-robust covariance.

The gap of two curves; the same at several scales, smoothed from residuals of the pooled curve; and cumulative sums of such
residuals. All are matrices on the outcome sums of the two sides, so one covariance formula and one set of draws serves them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache

import numpy as np

from evenscore.errors import OptionError
from evenscore.estimation.comparison import Comparison, no_overlap, overlap
from evenscore.estimation.inference import small_sample, standard_errors, tells_spread, welch_z
from evenscore.estimation.kernels import FEW_CELLS, Smoother
from evenscore.estimation.smoothing import Smoothing
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.view import GroupView, quantiles, residual_covariance
from evenscore.types import Floats, Mask

MIN_EFFECTIVE = 10  # a point with fewer effective users on a side is left out
MIN_POINTS, MAX_POINTS = 20, 200
SCALES = (1, 2, 4)
BORROWED = 5  # users' worth of variance that each side takes from both together in a test
BAND_BORROWED = 20  # and in a band, whose own fits leave smaller residuals than the pooled curve does
MAX_HIDDEN = 0.3  # standard errors of a gap that the bend of a common curve may make; where it may make more a point is left out
FEWEST_CELLS = 6  # fewer coarse ones do not show how a curve bends
ROUNDING = 1e-12  # a variance below this share of what the outcomes could give is rounding


@dataclass(frozen=True, slots=True)
class Process:
    """n values that are linear in the outcome sums of the two sides.

    values, df, effective_a, effective_b: (n,); covariance: (n, n); matrix_a, matrix_b: (n, n_cells), with values = matrix_a @ Y_a -
    matrix_b @ Y_b up to what happens inside a cell, and with the small-sample factors that the covariance has too; shift: (n,) what
    a constant gap of 1 adds to the values.
    """

    values: Floats
    covariance: Floats
    df: Floats
    effective_a: Floats
    effective_b: Floats
    matrix_a: Floats
    matrix_b: Floats
    shift: Floats

    @property
    def se(self) -> Floats:
        """Standard errors."""
        return standard_errors(self.covariance)

    @property
    def z(self) -> Floats:
        """Values in standard errors, as normal quantiles that allow for few users."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return welch_z(self.values / self.se, self.df)

    @property
    def is_known(self) -> Mask:
        """Where there is a value with a variance, (n,)."""
        return np.isfinite(self.values) & np.isfinite(np.diag(self.covariance)) & tells_spread(self.df)

    def at(self, keep: Mask) -> Process:
        """Only these."""
        kept = {field.name: getattr(self, field.name)[keep] for field in fields(self) if field.name != "covariance"}
        return Process(**kept, covariance=self.covariance[np.ix_(keep, keep)])


@dataclass(frozen=True, slots=True)
class Null:
    """The pair's pooled curve, as if there were no gap.

    fit: (n_cells,); residual_a, residual_b, residual_ab: residual pair matrices, (n_cells, n_cells); matrix: makes the fit as a
    matrix on the summed outcomes, (n_cells, n_cells), which only residual processes need.
    """

    fit: Floats
    residual_a: Floats
    residual_b: Floats
    residual_ab: Floats | None
    matrix: Callable[[], Floats]

    @classmethod
    def of(cls, comparison: Comparison, smoothing: Smoothing) -> Null:
        """Fit it."""
        fit = comparison.pooled_fit(smoothing)
        matrix = cache(lambda: comparison.pooled_matrix(smoothing))
        residuals = comparison.residual_pairs(fit)
        if comparison.a.tally.binary and comparison.unsmoothed:
            residuals = _by_design_effect(comparison, fit, *residuals)
        return cls(fit, *residuals, matrix)


def _by_design_effect(
    comparison: Comparison, fit: Floats, own_a: Floats, own_b: Floats, across: Floats | None
) -> tuple[Floats, Floats, Floats | None]:
    """Residual pair matrices of 0/1 outcomes with the variance that the pooled rate gives, times each side's design effect.

    Where few people have a score, all of them may have the same outcome, and show next to no variance just where their mean is off.
    Under the null the variance of independent rows is known, V0 f (1 - f); their residuals show V2 - 2 f V1 + f^2 V0. Taking the
    second to the first keeps what users add to it (Rao and Scott 1981).
    """
    a, b = (_scale_to_rate(side, fit) for side in comparison.sides)
    return own_a * np.outer(a, a), own_b * np.outer(b, b), None if across is None else across * np.outer(a, b)


def _scale_to_rate(side: GroupView, fit: Floats) -> Floats:
    """What takes residuals at each cell to the size that the rate gives, (n_cells,)."""
    sums = side.sums
    shown = sums.V2 - 2 * fit * sums.V1 + fit**2 * sums.V0
    known = sums.V0 * np.clip(fit * (1 - fit), 0, None)
    return np.sqrt(np.divide(known, shown, out=np.ones_like(fit), where=shown > ROUNDING * sums.V0))


def estimate_gap(comparison: Comparison, points: Floats, smoothing: Smoothing, null: Null | None = None) -> Process:
    """The curve of side a minus that of side b at the points.

    With a ``null`` residuals are taken from the pooled curve, which holds the size in small groups; without, from each side's own
    local fits, which intervals need.
    """
    a, b = comparison.sides
    smooth_a, smooth_b = smoothing.smoother(a, points), smoothing.smoother(b, points)
    effective_a, effective_b = a.effective_users(smooth_a.matrix), b.effective_users(smooth_b.matrix)
    if null is not None:
        l_a, var_a, l_b, var_b = _moderate(null, smooth_a.matrix, effective_a, smooth_b.matrix, effective_b)
        shared = None if null.residual_ab is None else l_a @ null.residual_ab @ l_b.T
    else:
        l_a, l_b = smooth_a.matrix * small_sample(effective_a)[:, None], smooth_b.matrix * small_sample(effective_b)[:, None]
        fit_a, fit_b = l_a * smooth_a.local_fit(a.sums.Y), l_b * smooth_b.local_fit(b.sums.Y)
        var_a, var_b = a.covariance(l_a, fit_a), b.covariance(l_b, fit_b)
        own_a, own_b = np.diag(var_a) * effective_a, np.diag(var_b) * effective_b
        new_a, new_b = _borrow(own_a, effective_a, own_b, effective_b, BAND_BORROWED)
        var_a, up_a = _widen(var_a, own_a, new_a, effective_a)
        var_b, up_b = _widen(var_b, own_b, new_b, effective_b)
        shared = None
        if comparison.cross is not None:
            shared = residual_covariance(comparison.cross, l_a, fit_a, l_b, fit_b) * np.outer(up_a, up_b)
    return Process(
        values=_difference(comparison, smooth_a, smooth_b),
        covariance=var_a + var_b if shared is None else var_a + var_b - shared - shared.T,
        df=welch_df(np.diag(var_a), effective_a - 1, np.diag(var_b), effective_b - 1),
        effective_a=effective_a,
        effective_b=effective_b,
        matrix_a=l_a,
        matrix_b=l_b,
        shift=np.ones(len(points)),
    )


def gap_values(comparison: Comparison, points: Floats, smoothing: Smoothing) -> Floats:
    """The values of ``estimate_gap`` alone."""
    return _difference(comparison, smoothing.smoother(comparison.a, points), smoothing.smoother(comparison.b, points))


def _difference(comparison: Comparison, smooth_a: Smoother, smooth_b: Smoother) -> Floats:
    a, b = comparison.a.sums, comparison.b.sums
    return smooth_a.curve(a.Y, a.tilt) - smooth_b.curve(b.Y, b.tilt)


def _moderate(
    null: Null, l_a: Floats, effective_a: Floats, l_b: Floats, effective_b: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Both matrices with their covariances, with small-sample factors and scaled so that each side's variance per user moves
    towards a common one."""
    var_a, var_b = l_a @ null.residual_a @ l_a.T, l_b @ null.residual_b @ l_b.T
    own_a, own_b = np.diag(var_a) * effective_a, np.diag(var_b) * effective_b
    new_a, new_b = _borrow(own_a, effective_a, own_b, effective_b, BORROWED)
    # The matrices carry the scale too, because joint draws of many pairs are made by them and must spread as the covariance says.
    scale_a = _root_ratio(new_a, own_a) * small_sample(effective_a)
    scale_b = _root_ratio(new_b, own_b) * small_sample(effective_b)
    return l_a * scale_a[:, None], var_a * np.outer(scale_a, scale_a), l_b * scale_b[:, None], var_b * np.outer(scale_b, scale_b)


def _widen(var: Floats, own: Floats, new: Floats, effective: Floats) -> tuple[Floats, Floats]:
    """A side's covariance around its own fits with what it borrows, and by how much its standard errors grew, (n_points,).

    Only upwards: a band must not become narrower because the other side varies less.
    """
    up = np.maximum(_root_ratio(new, own), 1)
    # Where all outcomes of a side agree there is no variance to scale; what is borrowed is added, to each point by itself.
    return var * np.outer(up, up) + np.diag(np.where(own > 0, 0.0, new / effective)), up


def _borrow(own_a: Floats, effective_a: Floats, own_b: Floats, effective_b: Floats, users: int) -> tuple[Floats, Floats]:
    """Each side's variance per user, (n_points,), drawn towards that of both together.

    It is as if ``users`` more users had shown the common variance. A small side whose few users happen to agree has too small a
    variance just where its curve is off (outcome rates near 0 or 1, at the ends of the score). The weight of what is borrowed,
    users / (n + users), vanishes with n effective users, so nothing rests on equal variances in the end.
    """
    common = (effective_a * own_a + effective_b * own_b) / (effective_a + effective_b)
    a = (effective_a * own_a + users * common) / (effective_a + users)
    return a, (effective_b * own_b + users * common) / (effective_b + users)


def _root_ratio(new: Floats, own: Floats) -> Floats:
    """What takes a standard error to its new size; 1 where there is none."""
    return np.sqrt(np.divide(np.maximum(new, 0), own, out=np.ones_like(own), where=own > 0))


def welch_df(var_a: Floats, df_a: Floats, var_b: Floats, df_b: Floats) -> Floats:
    """Welch and Satterthwaite's degrees of freedom of a difference."""
    with np.errstate(divide="ignore", invalid="ignore"):
        df = (var_a + var_b) ** 2 / (var_a**2 / df_a + var_b**2 / df_b)
    return np.where(np.isfinite(df), df, np.minimum(df_a, df_b))


def multiscale(comparison: Comparison, null: Null, points: Floats, smoothing: Smoothing) -> Process:
    """Smoothed residuals of the pooled fit at h, 2h and 4h, one scale after the other.

    Smoothing residuals instead of outcomes, wider scales bring no bias: the pooled fit has taken the curve away.
    """
    weights: list[Floats] = []
    tilts: list[Floats] = []
    for side in comparison.sides:
        smooths = [smoothing.at(scale * smoothing.h).smoother(side, points) for scale in SCALES]
        flat = np.zeros(len(points))
        weights.append(np.concatenate([smooth.matrix for smooth in smooths]))
        tilts.append(np.concatenate([flat if smooth.tilt is None else smooth.tilt @ side.sums.tilt for smooth in smooths]))
    return _residual_process(comparison, null, weights[0], weights[1], tilts[0] - tilts[1], few=True)


def cumulative(comparison: Comparison, null: Null, bandwidth: float) -> Process:
    """Sums up to a score of (G - p(S)) (Y - f(S)), p the share of side a among users at that score, f the pooled curve."""
    a, b = comparison.a.sums, comparison.b.sums
    weight = a.W + b.W
    share = np.divide(a.W, weight, out=np.zeros_like(weight), where=weight > 0)
    if not comparison.unsmoothed:
        at_cells = Smoothing(0, bandwidth=bandwidth).matrix(comparison.position, comparison.position, weight)
        share = np.clip(at_cells @ a.W, 0, 1)
    total = np.cumsum(weight) / weight.sum()
    ends = np.unique(np.searchsorted(total, np.linspace(0.02, 1, 50) - 1e-9).clip(max=len(total) - 1))
    upto = (np.arange(len(weight))[None, :] <= ends[:, None]).astype(np.float64)
    return _residual_process(comparison, null, upto * (1 - share), upto * share, np.zeros(len(ends)), few=False)


def _residual_process(comparison: Comparison, null: Null, raw_a: Floats, raw_b: Floats, inside: Floats, *, few: bool) -> Process:
    """raw_a (Y_a - F W_a) - raw_b (Y_b - F W_b) for the pooled fit F = L (Y_a + Y_b), as a matrix on Y_a and Y_b.

    With A = raw_a W_a - raw_b W_b these are (raw_a - A L) Y_a - (raw_b + A L) Y_b.
    """
    a, b = comparison.a, comparison.b
    pooled = (raw_a * a.sums.W - raw_b * b.sums.W) @ null.matrix()
    m_a, m_b = raw_a - pooled, raw_b + pooled
    n = len(m_a)
    effective_a = a.effective_users(raw_a) if few else np.full(n, np.inf)
    effective_b = b.effective_users(raw_b) if few else np.full(n, np.inf)
    if few:
        f_a, var_a, f_b, var_b = _moderate(null, m_a, effective_a, m_b, effective_b)
    else:
        f_a, var_a, f_b, var_b = m_a, m_a @ null.residual_a @ m_a.T, m_b, m_b @ null.residual_b @ m_b.T
    covariance = var_a + var_b
    if null.residual_ab is not None:
        shared = f_a @ null.residual_ab @ f_b.T
        covariance = covariance - shared - shared.T
    df = welch_df(np.diag(var_a), effective_a - 1, np.diag(var_b), effective_b - 1) if few else np.full(n, np.inf)
    return Process(
        values=m_a @ a.sums.Y - m_b @ b.sums.Y + inside,
        covariance=covariance,
        df=df,
        effective_a=effective_a,
        effective_b=effective_b,
        matrix_a=f_a,
        matrix_b=f_b,
        shift=m_a @ a.sums.W,
    )


# Where to look


def comparison_grid(comparison: Comparison, bandwidth: float) -> tuple[Floats, str | None]:
    """Points at which both sides have users, and a reason when there are none.

    Quantiles inside [max q05, min q95], at least 20 and no further apart than the bandwidth. Few distinct scores: those that both
    sides have.
    """
    a, b = comparison.a.sums, comparison.b.sums
    if comparison.unsmoothed:
        shared = (a.W > 0) & (b.W > 0)
        return a.position[shared], None if shared.any() else no_overlap(comparison)
    low, high = overlap(comparison)
    if not low < high:
        return np.zeros(0), no_overlap(comparison)
    mixture = comparison.a.on_lattice(a.W) / a.W.sum() + comparison.b.on_lattice(b.W) / b.W.sum()
    spaced = quantiles(comparison.a.lattice, mixture, np.linspace(0, 1, 20 * MIN_POINTS + 1))
    spaced = spaced[(spaced > low) & (spaced < high)]
    inner = np.interp(np.linspace(0, 1, MIN_POINTS), np.linspace(0, 1, len(spaced) + 2), [low, *spaced, high])
    return _no_wider(np.unique(inner), bandwidth), None


def _no_wider(points: Floats, bandwidth: float) -> Floats:
    """The points with more between them wherever they are further apart than the bandwidth."""
    step = max(bandwidth, (points[-1] - points[0]) / MAX_POINTS)
    n_steps = np.maximum(1, np.ceil(np.diff(points) / step - 1e-9)).astype(np.int64)
    return np.interp(np.arange(n_steps.sum() + 1), np.concatenate([[0], np.cumsum(n_steps)]), points)


def fine_enough(comparison: Comparison, process: Process, points: Floats, smoothing: Smoothing) -> Mask:
    """Where the bend of one common curve, within a bandwidth or a cell, cannot make much of a gap."""
    if comparison.unsmoothed:
        return np.ones(len(points), dtype=bool)
    width = comparison.a.sums.width[comparison.weight > 0]
    coarse = smoothing.h < FEW_CELLS * max(width) * smoothing.shape.width
    if coarse and len(width) < FEWEST_CELLS:
        return np.zeros(len(points), dtype=bool)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(hidden_gap(comparison, process, points, smoothing.h)) <= MAX_HIDDEN * process.se)


def hidden_gap(comparison: Comparison, process: Process, points: Floats, bandwidth: float) -> Floats:
    """The gap (n_points,) that one bent curve would show because two sides lie differently along the score and in its cells.

    A side's curve at x is off by f''(x) / 2 times sum_c l[c] W[c] ((x_c - x)^2 + v_c) where x_c and v_c are the mean and the
    variance of its scores in cell c. The mean is known; v_c is taken as that of a density which is a straight line inside the cell
    with this mean, width^2 / 12 - (x_c - middle)^2. f'' is that of both sides together.
    """
    # Smoothing alone biases both curves; only where two sides lie differently around a point does the bias not cancel in their
    # difference, and then a bend that they share looks like a gap that more users would make significant.
    edges = comparison.a.lattice.axis_edges
    middle = (edges[comparison.a.cells] + edges[comparison.a.cells + 1]) / 2
    moments = []
    for side, matrix in ((comparison.a, process.matrix_a), (comparison.b, process.matrix_b)):
        sums = side.sums
        inside = np.maximum(sums.width**2 / 12 - (sums.position - middle) ** 2, 0.0)
        weight = matrix * sums.W  # times small-sample factors, which the ratio takes away
        squares = (sums.position - points[:, None]) ** 2 + inside
        moments.append((weight * squares).sum(axis=1) / weight.sum(axis=1))
    return (moments[0] - moments[1]) * _bend(comparison, points, 2 * bandwidth)


def _bend(comparison: Comparison, points: Floats, least_width: float) -> Floats:
    """f'' / 2 of both sides together, (n_points,), from a parabola near each point, over three cells or more."""
    used = comparison.weight > 0
    weight, outcome = comparison.weight[used], comparison.outcome[used]
    distance = comparison.position[used] - points[:, None]
    if len(weight) < 3:
        return np.zeros(len(points))
    third = np.partition(np.abs(distance), 2, axis=1)[:, 2]
    width = np.maximum(least_width, third)[:, None]
    u = distance / width
    near = np.exp(-0.5 * u * u)
    moments = [(near * u**power) @ weight for power in range(5)]
    gram = np.stack([np.stack(moments[row : row + 3], axis=1) for row in range(3)], axis=1)
    target = np.stack([(near * u**power) @ outcome for power in range(3)], axis=1)
    return np.asarray((np.linalg.pinv(gram) @ target[:, :, None])[:, 2, 0] / width[:, 0] ** 2)


def require_inside(tally: Tally, positions: Floats) -> None:
    """A grid given by the caller must touch the scores that occur."""
    weight = sum(group.vectors.under("user")["W"] for group in tally.group_tallies)
    used = np.flatnonzero(np.asarray(weight) > 0)
    edges = tally.lattice.axis_edges
    low, high = edges[used[0]], edges[used[-1] + 1]
    if not ((positions >= low) & (positions <= high)).any():
        low, high = tally.lattice.to_score(np.array([low, high]))
        raise OptionError(f"the grid lies outside the data, whose scores run from {low:.4g} to {high:.4g}")


def enough_users(process: Process) -> Mask:
    """Where both sides have enough effective users."""
    with np.errstate(invalid="ignore"):
        return np.asarray((process.effective_a >= MIN_EFFECTIVE) & (process.effective_b >= MIN_EFFECTIVE))


def judgeable(process: Process, comparison: Comparison) -> Mask:
    """Where there are enough users, and outcomes vary beyond rounding."""
    a, b = comparison.a.sums, comparison.b.sums
    square = (a.Y2.sum() + b.Y2.sum()) / (a.W.sum() + b.W.sum())
    rounding = ROUNDING * square * (1 / process.effective_a + 1 / process.effective_b)
    with np.errstate(invalid="ignore"):
        return np.asarray(enough_users(process) & np.isfinite(process.values) & (np.diag(process.covariance) > rounding))
