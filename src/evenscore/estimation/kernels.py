"""Kernels, and smoothers as matrices: a curve is ``matrix @ Y`` for the outcome sums Y of the cells."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenscore.errors import OptionError, require_option, shortened
from evenscore.types import Floats, Ints

DEGREES = (0, 1, 2)  # Nadaraya-Watson, local linear, local quadratic
SIDES = ("both", "right", "left")
SINGULAR = 1e-9  # a local design is taken as singular below this share of its leading moment
TINY = 1e-100  # a point with less kernel weight than this has nobody near
PEAK = 1 / np.sqrt(2 * np.pi)  # of a normal density
TAIL = np.float64(-232.0)  # from exp(TAIL), 1e-101, on a normal density is 0: powers would be subnormal, which takes far longer
FARTHEST = 300.0  # an exponent whose exponential is a number, and its inverse too
FEW_CELLS = 3  # bandwidths narrower than this many cells see nothing of what happens inside a cell


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: its shape at u = (cell - point) / h, which integrates to one; how wide it is against a Gaussian of the same
    bandwidth; and its number of vanishing moments d, for the rate M^(-1 / (2d + 1)) of the paper's Theorem 1."""

    shape: Callable[[Floats], Floats]
    width: float
    moments: int


def _normal(u: Floats) -> Floats:
    with np.errstate(over="ignore"):
        k = np.asarray(u * u)
        k *= -0.5
        np.maximum(k, TAIL, out=k)
        np.exp(k, out=k)
        k -= np.exp(TAIL)  # so that the tail is 0
        k *= PEAK
    return k


# The widths are canonical bandwidths, (int K^2 / (int u^2 K)^2)^(1/5), relative to the Gaussian's: with them one rule of thumb
# gives every kernel the same amount of smoothing (Marron and Nolan 1988). Kernels of higher order have no second moment and keep 1.
KERNELS = {
    "gaussian": Kernel(_normal, 1.0, 1),
    "epanechnikov": Kernel(lambda u: np.asarray(0.75 * np.clip(1 - u * u, 0, None)), 2.2138, 1),
    "box": Kernel(lambda u: np.asarray(0.5 * (np.abs(u) <= 1)), 1.7400, 1),
    "triangular": Kernel(lambda u: np.clip(1 - np.abs(u), 0, None), 2.4320, 1),
    "gaussian4": Kernel(lambda u: (3 - u * u) / 2 * _normal(u), 1.0, 3),
    "gaussian6": Kernel(lambda u: (15 - 10 * u * u + u**4) / 8 * _normal(u), 1.0, 5),
}


def kernel_for(name: str, degree: int) -> Kernel:
    """The kernel of that name, if it can fit polynomials of that degree."""
    require_option("degree", degree, DEGREES)
    require_option("kernel", name, KERNELS)
    kernel = KERNELS[name]
    if kernel.moments > 1 and degree > 0:
        raise OptionError(f"kernel={shortened(name)} has no second moment, so it cannot fit slopes; use it with degree=0")
    return kernel


@dataclass(frozen=True, slots=True)
class Smoother:
    """A linear smoother at n_points points over n_cells cells; or several, one for each of n_sides, with a first axis more.

    matrix: (n_points, n_cells); a curve is ``matrix @ Y`` and ``matrix @ W`` is 1. A row is nan where nothing can be said.
    slopes: (n_points, degree, n_cells), the same for the higher coefficients of the local polynomial in u.
    u: (n_points, n_cells), distances in bandwidths.
    tilt: (n_points, n_cells), how fast the matrix changes across a cell, 0 for cells that are wide for the bandwidth; None when
    that is not needed.
    """

    matrix: Floats
    slopes: Floats
    u: Floats
    tilt: Floats | None = None

    def curve(self, outcome: Floats, tilt: Floats) -> Floats:
        """The curve, (n_points,), for the cells' outcome sums and their tilt: first order inside a cell.

        Without the second term a curve is off by the noise of where in their cells the outcomes fell.
        """
        level = self.matrix @ outcome
        return level if self.tilt is None else level + self.tilt @ tilt

    def of(self, side: int) -> Smoother:
        """One of several."""
        return Smoother(self.matrix[side], self.slopes[side], self.u[side], None if self.tilt is None else self.tilt[side])

    def local_fit(self, outcome: Floats) -> Floats:
        """The polynomial fitted at point j, evaluated at cell c: (n_points, n_cells)."""
        fit = np.repeat((self.matrix @ outcome)[:, None], self.u.shape[1], axis=1)
        for power in range(self.slopes.shape[1]):
            fit += (self.slopes[:, power] @ outcome)[:, None] * self.u ** (power + 1)
        return fit


def smoother(
    *,
    points: Floats,
    positions: Floats,
    weight: Floats,
    bandwidth: float,
    degree: int = 1,
    kernel: str = "gaussian",
    side: str = "both",
    near: bool = True,
    cell_width: Floats | float = 0.0,
    sloped: bool = True,
) -> Smoother:
    """Local polynomial regression as a matrix.

    For degree 0 this is the paper's Nadaraya-Watson estimator (Section 3), l[j, c] = K_jc / sum_c K_jc W_c. In general, with
    B_jc = (1, u, ..., u^p) and M_j = sum_c K_jc W_c B_jc B_jc', it is l[j, c] = e_1' M_j^-1 B_jc K_jc.

    Parameters
    ----------
    points, positions, weight
        Where to estimate (n_points,), where the cells lie (n_cells,) and their weight (n_cells,); or these of several sides,
        (n_sides, n_cells), for several smoothers at once.
    side
        "right" uses cells at or above the point only, "left" cells below it.
    near
        Give no value (nan) at a point that has no cell with weight within one bandwidth.
    cell_width
        Of each cell (n_cells,), or of all. With positive widths the result has a ``tilt``, taken across those cells of which the
        bandwidth spans three or more. In a wider one the kernel bends, and to follow outcomes there would need the spread of
        the scores inside the cell, which is not known: without it a slope that both groups share becomes a gap.
    sloped
        Whether ``slopes`` are made as well.
    """
    require_option("side", side, SIDES)
    if not (np.isfinite(bandwidth) and bandwidth > 0):
        raise OptionError(f"bandwidth={shortened(bandwidth)} must be a positive number")
    shape = kernel_for(kernel, degree)
    half = 0.5 * np.asarray(cell_width) / bandwidth

    def weigh(u: Floats) -> Floats:
        # A box has an edge: a cell that lies across it counts with the share inside.
        sharp = kernel == "box" and np.all(half > 0)
        k = 0.5 * np.clip((1 - np.abs(u)) / (2 * half) + 0.5, 0, 1) if sharp else shape.shape(u)
        if side == "both":
            return k
        return np.where(u >= 0 if side == "right" else u < 0, k, 0.0)

    u = positions[..., None, :] - points[:, None]
    u /= bandwidth
    k = weigh(u)
    powers = kernel_powers(k, u, 2 * degree)
    inverse = _inverse([(own @ weight[..., None])[..., 0] for own in powers], degree, whole=sloped)
    matrix, *slopes = (_combined(row, powers[: degree + 1]) for row in inverse)
    tilt = None
    followed = (half > 0) & (2 * FEW_CELLS * half <= (1 + 1e-9) / shape.width)
    if followed.any():
        smooth = shape.shape is _normal and side == "both"
        upper, lower = _normal_beside(k, u, half) if smooth else (weigh(u + half), weigh(u - half))
        tilt = _rise(inverse[0], u, half, upper, lower)
        tilt *= np.divide(1.0, cell_width, out=np.zeros_like(half), where=followed)
    if near:
        mine = np.abs(u) <= 1
        mine &= weight[..., None, :] > 0
        if shape.shape is not _normal or side != "both":  # a normal kernel ends nowhere
            mine &= k != 0
        matrix[~mine.any(axis=-1)] = np.nan
    return Smoother(matrix, np.stack(slopes, axis=-2) if slopes else np.zeros((*u.shape[:-1], 0, u.shape[-1])), u, tilt)


def local_fits(k: Floats, u: Floats, weight: Floats, outcome: Floats, degree: int) -> Floats:
    """Local polynomial fits for several sets of sums at once, (n_sets, n_points); nan where the design is singular.

    k, u: kernel weights and distances, (n_points, n_cells); weight, outcome: (n_sets, n_cells).
    """
    n_sets = len(weight)
    both = np.concatenate([weight, outcome]).T
    moments, targets = [], []
    for power in range(2 * degree + 1):
        k = k * u if power else k
        sums = k @ (both if power <= degree else weight.T)
        moments.append(sums[:, :n_sets])
        if power <= degree:
            targets.append(sums[:, n_sets:])
    first = _inverse(moments, degree, whole=False)[0]
    return np.sum([entry * target for entry, target in zip(first, targets, strict=True)], axis=0).T


def kernel_powers(k: Floats, u: Floats, highest: int) -> list[Floats]:
    """k u^p up to the highest power, of kernel weights and distances."""
    return list(itertools.accumulate(range(highest), lambda own, _: own * u, initial=k))


def first_row(moments: list[Floats], degree: int) -> list[Floats]:
    """The first row of M_j^-1: entries (n_points,), nan where too few different cells carry weight."""
    return _inverse(moments, degree, whole=False)[0]


def inverse_weight(weight: Floats) -> Floats:
    """1 / weight, and 0 for a cell without any."""
    return np.divide(1.0, weight, out=np.zeros_like(weight), where=weight > 0)


@np.errstate(over="ignore", invalid="ignore")  # neighbours so far away that the kernel hardly knows them
def _inverse(moments: list[Floats], degree: int, *, whole: bool) -> list[list[Floats]]:
    """The rows of the inverse of the matrix of moments m[a + b], or the first alone; nan where it is singular.

    moments: (...) each, as are the entries. Written out by cofactors, which is many times as fast as a stack of small matrices.
    """
    empty = ~(np.abs(moments[0]) > TINY)
    total = np.where(empty, 1.0, moments[0])
    m = [moment / total for moment in moments]
    rows = [[np.ones_like(m[0])]]
    size = np.abs(m[0])
    if degree == 1:
        rows, size = [[m[2], -m[1]], [-m[1], m[0]]], np.abs(m[0] * m[2])
    elif degree == 2:
        first = [m[2] * m[4] - m[3] ** 2, m[2] * m[3] - m[1] * m[4], m[1] * m[3] - m[2] ** 2]
        last = [first[2], m[1] * m[2] - m[0] * m[3], m[0] * m[2] - m[1] ** 2]
        rows, size = [first, [first[1], m[0] * m[4] - m[2] ** 2, last[1]], last], np.abs(m[0] * m[2] * m[4])
    determinant = sum(moment * cofactor for moment, cofactor in zip(m, rows[0], strict=False))
    known = ~empty & (np.abs(determinant) > SINGULAR * size)
    scale = np.where(known, determinant, np.nan) * total
    return [[cofactor / scale for cofactor in row] for row in (rows if whole else rows[:1])]


def _normal_beside(k: Floats, u: Floats, half: Floats) -> tuple[Floats, Floats]:
    """A normal kernel half a cell above and below, K(u + half) and K(u - half), from K(u) with one exponential for both."""
    turn = u * half
    np.clip(turn, -FARTHEST, FARTHEST, out=turn)  # only where the kernel is 0
    np.exp(turn, out=turn)
    lower = k * np.exp(-0.5 * half * half)
    upper = lower / turn
    lower *= turn
    return upper, lower


def _rise(row: list[Floats], u: Floats, half: Floats, upper: Floats, lower: Floats) -> Floats:
    """A row of inverse_j times B_jc K_jc half a cell above less the same half a cell below, (..., n_points, n_cells).

    upper, lower: the kernel there, which are overwritten.
    """
    if len(row) > 2:
        return _coefficients(row, upper, u + half) - _coefficients(row, lower, u - half)
    rise = upper - lower
    if len(row) == 1:
        return row[0][..., None] * rise
    # e_0 (K+ - K-) + e_1 ((u + half) K+ - (u - half) K-), without moving u itself
    upper += lower
    upper *= half
    upper += u * rise
    upper *= row[1][..., None]
    rise *= row[0][..., None]
    rise += upper
    return rise


@np.errstate(over="ignore", invalid="ignore")  # slopes towards neighbours that the kernel hardly knows
def _coefficients(row: list[Floats], k: Floats, u: Floats) -> Floats:
    """A row of inverse_j times B_jc K_jc, (..., n_points, n_cells)."""
    polynomial = row[-1][..., None]
    for entry in row[-2::-1]:
        polynomial = polynomial * u
        polynomial += entry[..., None]
    return np.asarray(polynomial * k)


@np.errstate(over="ignore", invalid="ignore")
def _combined(row: list[Floats], powers: list[Floats]) -> Floats:
    """The same from K_jc u^p."""
    total = row[0][..., None] * powers[0]
    for entry, power in zip(row[1:], powers[1:], strict=True):
        total += entry[..., None] * power
    return np.asarray(total)


def line_smoother(points: Floats, positions: Floats, weight: Floats) -> Smoother:
    """Few values, ascending: a point at one is its mean, a point between two lies on the straight line between their means."""
    used = np.flatnonzero(weight > 0)
    place = np.interp(points, positions[used], np.arange(len(used)), left=np.nan, right=np.nan)
    known = np.flatnonzero(np.isfinite(place))
    left = np.floor(place[known]).astype(np.int64)
    share = place[known] - left
    low, high = used[left], used[np.minimum(left + 1, len(used) - 1)]
    rows, distance = np.arange(len(points)), np.where(high > low, positions[high] - positions[low], 1.0)
    matrix = np.full((len(points), len(weight)), np.nan)
    slopes = np.zeros((len(points), 1, len(weight)))
    matrix[known] = 0.0
    matrix[known, low] += (1 - share) / weight[low]
    matrix[known, high] += share / weight[high]
    between = share > 0
    for cells, sign in ((low, -1), (high, 1)):
        slopes[rows[known][between], 0, cells[between]] = sign / (distance * weight[cells])[between]
    return Smoother(matrix, slopes, positions[None, :] - points[:, None])


def indicator_smoother(cells: Ints, weight: Floats) -> Smoother:
    """No smoothing: point j is cell ``cells[j]`` alone (for scores with few distinct values)."""
    matrix = np.zeros((len(cells), len(weight)))
    own = weight[cells]
    matrix[np.arange(len(cells)), cells] = np.where(own > 0, 1 / np.where(own > 0, own, 1), np.nan)
    return Smoother(matrix, np.zeros((len(cells), 0, len(weight))), np.zeros_like(matrix))
