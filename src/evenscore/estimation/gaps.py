"""What a test looks at: linear processes along the score, each with its user-robust covariance.

The gap of two curves; the same at several scales, smoothed from residuals of the pooled curve; and cumulative sums of such
residuals. All are matrices on the outcome sums of the two sides, so one covariance formula and one set of draws serves them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from evenscore.estimation.comparison import Comparison
from evenscore.estimation.kernels import FEW_CELLS, SINGULAR, Smoother
from evenscore.estimation.laws import Law, blocks, stack, within
from evenscore.estimation.nulls import Contrast, Dispersion, Null, disperse
from evenscore.estimation.scatters import Scatter, unbalanced_skewness
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.spreads import Dependence
from evenscore.tables import values_of
from evenscore.tallies.view import GroupView
from evenscore.types import Floats, Ints, Mask
from evenscore.wording import figures

# What these rest on: docs/parity-tests.md (where a test looks, and its scales) and docs/lattice.md (coarse cells).
MIN_EFFECTIVE = 10  # a point with fewer effective users on a side is left out
SKEWNESS = (0.6, 1.0)  # of a value: best, and at most
LEAST_SKEWNESS = 0.5  # of a rate, in units of that of a count of as many events: less is none of its own
UNBALANCED = 0.2  # the same of a value that one side makes, whose variance is known from its own outcomes only
SCALES = (1, 2, 4)
ENDS = 25  # of cumulative sums
SHARE_KERNEL = "gaussian"  # that smooths the share of one side along the score
MAX_HIDDEN = 0.3  # standard errors of a gap that the bend of a common curve may make; where it may make more a point is left out
FEWEST_CELLS = 6  # fewer coarse ones do not show how a curve bends
ROUNDING = 1e-12  # a variance below this share of what the outcomes could give is rounding


@dataclass(frozen=True, eq=False)
class Process(Dispersion):
    """n values that are linear in the outcome sums of the two sides, and how they spread without a gap.

    values: (n,), matrix_a @ Y_a - matrix_b @ Y_b up to what happens inside a cell; z: (n,), these in standard errors, as normal
    quantiles that allow for few users; shift: (n,), what a constant gap of 1 adds.
    """

    values: Floats
    z: Floats
    shift: Floats

    @property
    def matrix_a(self) -> Floats:
        """What makes the values of the outcome sums of side a, (n, n_cells)."""
        return self.scatter_a.matrix

    @property
    def matrix_b(self) -> Floats:
        """The same of side b."""
        return self.scatter_b.matrix

    @property
    def se(self) -> Floats:
        """Standard errors."""
        return self.law.se

    def at(self, keep: Mask | Ints | slice) -> Process:
        """Only these."""
        if len(self.values[keep]) == len(self.values):
            return self
        return Process(
            law=self.law.at(keep),
            null=self.null,
            together=self.together[keep],
            side_a=self.side_a.at(keep),
            side_b=self.side_b.at(keep),
            effective_a=self.effective_a[keep],
            effective_b=self.effective_b[keep],
            scatter_a=self.scatter_a.at(keep),
            scatter_b=self.scatter_b.at(keep),
            values=self.values[keep],
            z=self.z[keep],
            shift=self.shift[keep],
        )


@dataclass(frozen=True, slots=True)
class Estimates:
    """Processes of one comparison, one after the other, and where each kind is."""

    whole: Process
    places: Mapping[str, slice]

    def __getitem__(self, kind: str) -> Process:
        """Those of one kind."""
        return self.whole.at(self.places[kind])


@dataclass(frozen=True, eq=False)
class Look:
    """How a comparison is looked at: at points on the axis, (n,), with a smoothing, around a null."""

    comparison: Comparison
    points: Floats
    smoothing: Smoothing
    null: Null

    def at(self, keep: Mask) -> Look:
        """At some of the points."""
        return replace(self, points=self.points[keep])


@dataclass(frozen=True, slots=True)
class Judged:
    """A comparison that can be judged at some points: how it is looked at there, what was estimated at all of them, and which they
    are, (n_points,)."""

    look: Look
    estimates: Estimates
    keep: Mask

    @property
    def gap(self) -> Process:
        """The gap at these points."""
        return self.estimates["gap"].at(self.keep)


@dataclass(frozen=True, eq=False)
class Linear(Contrast):
    """n values that are linear in the outcome sums of the two sides; see ``Process``. everyone: whether they rest on all users,
    wherever these are, so that there are always enough."""

    values: Floats
    shift: Floats
    everyone: bool = False


def estimate_gaps(looks: Sequence[Look]) -> list[Process]:
    """For each comparison the curve of side a minus that of side b at the points, around a null."""
    return [processes["gap"] for processes in estimate(looks, "gap")]


def multiscale(looks: Sequence[Look]) -> list[Process]:
    """For each comparison smoothed residuals of the pooled fit at h, 2h and 4h, one scale after the other.

    Smoothing residuals instead of outcomes, wider scales bring no bias: the pooled fit has taken the curve away.
    """
    return [processes["multiscale"] for processes in estimate(looks, "multiscale")]


def cumulative(looks: Sequence[Look]) -> list[Process]:
    """For each comparison sums up to a score of (G - p(S)) (Y - f(S)), p the share of side a among users at that score, f the
    pooled curve."""
    return [processes["cumulative"] for processes in estimate(looks, "cumulative")]


def estimate(looks: Sequence[Look], *kinds: str) -> list[Estimates]:
    """For each comparison processes of these kinds, with what chance would do to all of them under its null."""
    linears = [[LINEAR[kind](look) for kind in kinds] for look in looks]
    spreads = disperse([look.null for look in looks], [_end_to_end(parts) for parts in linears])
    values = [np.concatenate([part.values for part in parts]) for parts in linears]
    with np.errstate(all="ignore"):  # where nothing can be judged
        z = stack([spread.law for spread in spreads]).z(np.concatenate(values))
    return [
        _estimates(kinds, spread, parts, own, z[place])
        for spread, parts, own, place in zip(spreads, linears, values, blocks(map(len, values)), strict=True)
    ]


def _end_to_end(parts: Sequence[Linear]) -> Contrast:
    if len(parts) == 1:
        return parts[0]
    matrix_a, matrix_b, users_a, users_b = (
        np.concatenate(own) for own in zip(*((part.matrix_a, part.matrix_b, *part.users) for part in parts), strict=True)
    )
    return Contrast(matrix_a, matrix_b, (users_a, users_b))


def _estimates(kinds: Sequence[str], spread: Dispersion, parts: Sequence[Linear], values: Floats, z: Floats) -> Estimates:
    places = blocks(len(part.values) for part in parts)
    effective = {name: getattr(spread, name).copy() for name in ("effective_a", "effective_b")}
    for part, place in zip(parts, places, strict=True):
        if part.everyone:
            effective["effective_a"][place] = effective["effective_b"][place] = np.inf
    known = values_of(spread, [field.name for field in fields(Dispersion)]) | effective
    shift = np.concatenate([part.shift for part in parts])
    return Estimates(Process(**known, values=values, z=z, shift=shift), dict(zip(kinds, places, strict=True)))


def gap_values(look: Look) -> Floats:
    """The values of ``estimate_gaps`` alone."""
    return _difference(look.comparison, *look.comparison.smoothers(look.points, look.smoothing))


def _difference(comparison: Comparison, smooth_a: Smoother, smooth_b: Smoother) -> Floats:
    a, b = comparison.a.sums, comparison.b.sums
    return smooth_a.curve(a.Y, a.tilt) - smooth_b.curve(b.Y, b.tilt)


def _gap(look: Look) -> Linear:
    smooth_a, smooth_b = look.comparison.smoothers(look.points, look.smoothing)
    values, both = _difference(look.comparison, smooth_a, smooth_b), (smooth_a.matrix, smooth_b.matrix)
    return Linear(*both, both, values, np.ones(len(look.points)))


def _multiscale(look: Look) -> Linear:
    weights: list[Floats] = []
    tilts: list[Floats] = []
    for side in look.comparison.sides:
        widths = [look.smoothing.at(scale * look.smoothing.h) for scale in SCALES]
        smooths = [width.local_polynomial(side, look.points) for width in widths]
        flat = np.zeros(len(look.points))
        weights.append(np.concatenate([smooth.matrix for smooth in smooths]))
        tilts.append(np.concatenate([flat if smooth.tilt is None else smooth.tilt @ side.sums.tilt for smooth in smooths]))
    return _of_residuals(look, weights[0], weights[1], tilts[0] - tilts[1])


def _cumulative(look: Look) -> Linear:
    comparison = look.comparison
    a, b = comparison.a.sums, comparison.b.sums
    weight = a.W + b.W
    share = np.divide(a.W, weight, out=np.zeros_like(weight), where=weight > 0)
    if not comparison.unsmoothed:
        share = np.clip(comparison.fits(replace(look.smoothing, kernel=SHARE_KERNEL)).means(a.W), 0, 1)
    upto = _upto(weight, whole=comparison.a.lattice.discrete)
    return _of_residuals(look, upto * (1 - share), upto * share, np.zeros(len(upto)), everyone=True)


def _upto(weight: Floats, *, whole: bool) -> Floats:
    """How much of each cell is among the first 4, 8, ... 100 % of people by score, (n_ends, n_cells).

    whole: cells are scores, which are taken whole. Else a part of a cell is taken, so that ends lie where they lie however wide
    cells are.
    """
    total, ends = np.cumsum(weight) / weight.sum(), np.linspace(1 / ENDS, 1, ENDS)
    if whole:
        last = np.unique(np.searchsorted(total, ends - 1e-9).clip(max=len(total) - 1))
        return (np.arange(len(weight))[None, :] <= last[:, None]).astype(np.float64)
    share = weight / weight.sum()
    inside = np.divide(ends[:, None] - (total - share), share, out=(total <= ends[:, None]).astype(np.float64), where=share > 0)
    upto = within(inside)
    upto[-1] = 1.0
    return upto


def _of_residuals(look: Look, raw_a: Floats, raw_b: Floats, inside: Floats, *, everyone: bool = False) -> Linear:
    """raw_a (Y_a - F W_a) - raw_b (Y_b - F W_b) for the pooled fit F = L (Y_a + Y_b), as a matrix on Y_a and Y_b.

    With A = raw_a W_a - raw_b W_b these are (raw_a - A L) Y_a - (raw_b + A L) Y_b. So what the pooled fit took from the data is in
    the covariance too: its noise is that of the same users. A constant gap g adds g m_a W_a, which is not g raw_a W_a: part of
    a gap goes into the pooled curve.
    """
    a, b = look.comparison.a.sums, look.comparison.b.sums
    pooled = look.null.combine(raw_a * a.W - raw_b * b.W)
    m_a, m_b = raw_a - pooled, raw_b + pooled
    return Linear(m_a, m_b, (raw_a, raw_b), m_a @ a.Y - m_b @ b.Y + inside, m_a @ a.W, everyone)


LINEAR: dict[str, Callable[[Look], Linear]] = {"gap": _gap, "multiscale": _multiscale, "cumulative": _cumulative}


# Which of the points can be judged


def fine_enough(look: Look, process: Process) -> Mask:
    """Where the bend of one common curve, within a bandwidth or a cell, cannot make much of a gap."""
    comparison, smoothing = look.comparison, look.smoothing
    if comparison.unsmoothed:
        return np.ones(len(look.points), dtype=bool)
    width = comparison.a.sums.width[comparison.weight > 0]
    coarse = smoothing.h < FEW_CELLS * width.max() * smoothing.shape.width
    if coarse and len(width) < FEWEST_CELLS:
        return np.zeros(len(look.points), dtype=bool)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(hidden_gap(look, process)) <= MAX_HIDDEN * process.se)


def hidden_gap(look: Look, process: Process) -> Floats:
    """The gap (n_points,) that one bent curve would show because two sides lie differently along the score and in its cells.

    A side's curve at x is off by f''(x) / 2 times sum_c l[c] W[c] ((x_c - x)^2 + v_c) where x_c and v_c are the mean and the
    variance of its scores in cell c. The mean is known; v_c is taken as that of a density which is a straight line inside the cell
    with this mean, width^2 / 12 - (x_c - middle)^2. f'' is that of both sides together.
    """
    # Smoothing alone biases both curves; only where two sides lie differently around a point does the bias not cancel in their
    # difference, and then a bend that they share looks like a gap that more users would make significant.
    comparison, points = look.comparison, look.points
    start, width = comparison.a.lattice.axis_edges[comparison.a.cells], comparison.a.sums.width
    middle = comparison.position[len(start) // 2]  # so that squares are of distances, wherever the axis begins
    moments = []
    for side, matrix in ((comparison.a, process.matrix_a), (comparison.b, process.matrix_b)):
        sums, place = side.sums, side.sums.position - middle
        inside = np.maximum(width**2 / 12 - (sums.position - start - width / 2) ** 2, 0.0)
        # Matrices have small-sample factors, which the ratio takes away.
        squares, sides, weight = (matrix @ (sums.W * np.stack([place**2 + inside, place, np.ones_like(place)])).T).T
        moments.append((squares - 2 * (points - middle) * sides) / weight + (points - middle) ** 2)
    return (moments[0] - moments[1]) * _bend(comparison, points, 2 * look.smoothing.h)


def _bend(comparison: Comparison, points: Floats, least_width: float) -> Floats:
    """f'' / 2 of both sides together, (n_points,), from a parabola near each point, over three cells or more."""
    used = comparison.weight > 0
    weight, outcome = comparison.weight[used], comparison.outcome[used]
    distance = comparison.position[used] - points[:, None]
    if len(weight) < 3:
        return np.zeros(len(points))
    width = np.maximum(least_width, _third_nearest(comparison.position[used], points))[:, None]
    u = distance / width
    near = np.exp(-0.5 * u * u)
    both, sums = np.stack([weight, outcome], axis=1), []
    for _ in range(5):
        sums.append(near @ both)
        near = near * u
    m, target = [own[:, 0] for own in sums], [own[:, 1] for own in sums[:3]]
    cofactors = [m[1] * m[3] - m[2] ** 2, m[1] * m[2] - m[0] * m[3], m[0] * m[2] - m[1] ** 2]
    determinant = sum(moment * cofactor for moment, cofactor in zip(m[2:], cofactors, strict=True))
    bend = sum(own * cofactor for own, cofactor in zip(target, cofactors, strict=True))
    known = determinant > SINGULAR * m[0] * m[2] * m[4]  # of two cells, or of a third that weighs nothing, rounding is left
    return np.divide(bend, determinant, out=np.zeros(len(points)), where=known) / width[:, 0] ** 2


def _third_nearest(places: Floats, points: Floats) -> Floats:
    """How far the third nearest of three or more ascending places is from each point, (n_points,)."""
    around = min(6, len(places))
    first = np.clip(np.searchsorted(places, points) - 3, 0, len(places) - around)
    return np.asarray(np.partition(np.abs(places[first[:, None] + np.arange(around)] - points[:, None]), 2, axis=1)[:, 2])


def enough_users(process: Process) -> Mask:
    """Where both sides have enough effective users."""
    with np.errstate(invalid="ignore"):
        return np.asarray((process.effective_a >= MIN_EFFECTIVE) & (process.effective_b >= MIN_EFFECTIVE))


def judgeable(process: Process, comparison: Comparison) -> Mask:
    """Where there are enough users, and outcomes vary beyond rounding."""
    a, b = comparison.a.sums, comparison.b.sums
    square = (a.Y2.sum() + b.Y2.sum()) / (a.W.sum() + b.W.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        rounding = ROUNDING * square * (1 / process.effective_a + 1 / process.effective_b)
        return np.asarray(enough_users(process) & np.isfinite(process.values) & (process.law.variance > rounding))


def tame(process: Process, able: Mask) -> Mask:
    """Which of the points that are able have values whose distribution is known well enough: not too skewed.

    Where points with a skewness up to .6 exist (three expected events of a rare outcome), others only dilute what they show; up to
    1 (one expected event) the expansion holds well enough to judge by, and beyond nothing can be said.
    """
    a, b = process.scatter_a, process.scatter_b
    if isinstance(a, Scatter) and isinstance(b, Scatter):
        able = able & (unbalanced_skewness(a, b) <= UNBALANCED)
    if isinstance(a, Dependence) and isinstance(b, Dependence):
        third = least_third(process.side_a.law, a) - least_third(process.side_b.law, b)
        return tame_law(replace(process.law, third=third), able)
    return tame_law(process.law, able)


def least_third(law: Law, side: Dependence) -> Floats:
    """The third cumulant of one side's rates, which have at least about half the skewness of a count of so many events, (n,).

    With positive weights they have more. Where a fit has left [0, 1] next to where it has not, what is left of variance and
    skewness rests on weights of either sign far away, and may be anything.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        least = LEAST_SKEWNESS * (1 - 2 * side.rate) / np.sqrt(side.events / 4) * law.variance**1.5
        return np.where(np.sign(least) * law.third < np.abs(least), least, law.third)


def tame_law(law: Law, able: Mask) -> Mask:
    """The same for any values, by their law."""
    size = np.abs(law.skewness)
    for limit in SKEWNESS:
        is_tame = able & (size <= limit)
        if is_tame.any():
            return is_tame
    return np.zeros_like(able)


def skewed_words(view: GroupView, points: Floats, rate: float, n_points: int) -> str:
    """That a side's estimates at these points are too skewed to be judged.

    rate: of 0/1 outcomes, of all that are compared; n_points: how many points there are in all, between which others may be judged.
    """
    low, high = view.lattice.to_score(points[[0, -1]])
    some = "" if len(points) == n_points else f"{len(points)} of {n_points} "
    where = f"at {some}scores from {figures(low)} to {figures(high)}" if low < high else f"at score {figures(low)}"
    if not view.tally.binary:
        return f"outcomes too skewed for so few users of {view.name} {where}"
    rare = "events" if rate < 0.5 else "outcomes of 0"
    return f"fewer than {round(SKEWNESS[0] ** -2)} expected {rare} in {view.name} {where}"
