"""Kernels, and smoothers as matrices: a curve is ``matrix @ Y`` for the outcome sums Y of the cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenscore.errors import OptionError, require_option, shortened
from evenscore.types import Floats, Ints, Mask

DEGREES = (0, 1, 2)  # Nadaraya-Watson, local linear, local quadratic
SIDES = ("both", "right", "left")
SINGULAR = 1e-9  # a local design is taken as singular below this share of its leading moment
TINY = 1e-100  # a point with less kernel weight than this has nobody near
FEW_CELLS = 3  # bandwidths narrower than this many cells see nothing of what happens inside a cell


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: its shape at u = (cell - point) / h, which integrates to one; how wide it is against a Gaussian of the same
    bandwidth; and its number of vanishing moments d, for the rate M^(-1 / (2d + 1)) of the paper's Theorem 1."""

    shape: Callable[[Floats], Floats]
    width: float
    moments: int


def _normal(u: Floats) -> Floats:
    with np.errstate(over="ignore"):  # the tail of a narrow kernel is 0
        k = np.asarray(u * u)
        k *= -0.5
        np.exp(k, out=k)
        k /= np.sqrt(2 * np.pi)
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
    """A linear smoother at n_points points over n_cells cells.

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
        Where to estimate (n_points,), where the cells lie (n_cells,) and their weight (n_cells,).
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

    u = (positions[None, :] - points[:, None]) / bandwidth
    k = weigh(u)
    inverse = _inverse_moments(k * weight, u, degree)
    coefficients = _coefficients(inverse if sloped else inverse[:, :1], k, u, degree)
    matrix, slopes = coefficients[:, 0].copy(), coefficients[:, 1:]
    tilt = None
    followed = (half > 0) & (2 * FEW_CELLS * half <= (1 + 1e-9) / shape.width)
    if followed.any():
        first = inverse[:, :1]
        upper, lower = (_coefficients(first, weigh(v), v, degree)[:, 0] for v in (u + half, u - half))
        tilt = np.where(followed, upper - lower, 0.0) / np.where(followed, cell_width, 1.0)
    if near:
        mine = (weight > 0) & (np.abs(u) <= 1) & (k != 0)
        matrix[~mine.any(axis=1)] = np.nan
    return Smoother(matrix, slopes, u, tilt)


def _inverse_moments(kw: Floats, u: Floats, degree: int) -> Floats:
    """M_j^-1, (n_points, degree + 1, degree + 1); nan where too few different cells carry weight."""
    moments = [kw.sum(axis=1)]
    for _ in range(2 * degree):
        kw = kw * u
        moments.append(kw.sum(axis=1))
    stacked = np.stack(moments, axis=1)
    size = np.arange(degree + 1)
    empty = ~(np.abs(stacked[:, 0]) > TINY)
    total = np.where(empty, 1.0, stacked[:, 0])[:, None, None]
    inverse, bad = _inverse(stacked[:, size[:, None] + size] / total)
    with np.errstate(over="ignore"):  # neighbours so far away that the kernel hardly knows them
        inverse /= total
    inverse[bad | empty | ~np.isfinite(inverse).all(axis=(1, 2))] = np.nan
    return inverse


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
    empty = ~(np.abs(moments[0]) > TINY)
    total = np.where(empty, 1.0, moments[0])
    cofactors, determinant, size = _first_row([moment / total for moment in moments], degree)
    bad = empty | ~(np.abs(determinant) > SINGULAR * size)
    level = sum(cofactor * target for cofactor, target in zip(cofactors, targets, strict=True))
    return np.asarray(np.where(bad, np.nan, level / total / np.where(bad, 1.0, determinant)).T)


def local_matrix(k: Floats, u: Floats, weight: Floats, degree: int) -> Floats:
    """Local polynomial fits as a matrix on the outcome sums, (n_points, n_cells); a row is nan where the design is singular."""
    return _coefficients(_inverse_moments(k * weight, u, degree)[:, :1], k, u, degree)[:, 0]


def inverse_weight(weight: Floats) -> Floats:
    """1 / weight, and 0 for a cell without any."""
    return np.divide(1.0, weight, out=np.zeros_like(weight), where=weight > 0)


def _first_row(m: list[Floats], degree: int) -> tuple[list[Floats], Floats, Floats]:
    """Cofactors of the first row of the matrix of moments m[a + b], its determinant, and the product of its diagonal."""
    if degree == 0:
        return [np.ones_like(m[0])], m[0], np.abs(m[0])
    if degree == 1:
        return [m[2], -m[1]], m[0] * m[2] - m[1] ** 2, np.abs(m[0] * m[2])
    row = [m[2] * m[4] - m[3] ** 2, m[2] * m[3] - m[1] * m[4], m[1] * m[3] - m[2] ** 2]
    return row, m[0] * row[0] + m[1] * row[1] + m[2] * row[2], np.abs(m[0] * m[2] * m[4])


@np.errstate(over="ignore", invalid="ignore")  # slopes towards neighbours that the kernel hardly knows
def _coefficients(inverse: Floats, k: Floats, u: Floats, degree: int) -> Floats:
    """inverse_j @ B_jc K_jc, (n_points, rows of inverse, n_cells)."""
    coefficients = np.empty((len(u), inverse.shape[1], u.shape[1]))
    for row in range(inverse.shape[1]):
        polynomial = np.broadcast_to(inverse[:, row, degree][:, None], u.shape)
        for power in range(degree - 1, -1, -1):
            polynomial = polynomial * u + inverse[:, row, power][:, None]
        coefficients[:, row] = polynomial * k
    return coefficients


def _inverse(design: Floats) -> tuple[Floats, Mask]:
    """Inverses of scaled local designs and where there is none: too few different cells for the degree."""
    scale = np.sqrt(np.abs(np.einsum("jaa->ja", design)))
    scale = np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)
    even = np.where(np.isfinite(design), design, 0.0) / scale[:, :, None] / scale[:, None, :]
    determinant = np.linalg.det(even) if design.shape[1] != 2 else even[:, 0, 0] * even[:, 1, 1] - even[:, 0, 1] * even[:, 1, 0]
    bad = np.abs(determinant) < SINGULAR
    even[bad] = np.eye(design.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        inverse = _inverted(even, np.where(bad, 1.0, determinant)) / scale[:, :, None] / scale[:, None, :]
    return inverse, bad | ~np.isfinite(inverse).all(axis=(1, 2))


def _inverted(design: Floats, determinant: Floats) -> Floats:
    """Inverses; two by two written out, which is several times as fast for stacks of them."""
    if design.shape[1] != 2:
        return np.asarray(np.linalg.inv(design), dtype=np.float64)
    adjugate = np.stack([design[:, 1, 1], -design[:, 0, 1], -design[:, 1, 0], design[:, 0, 0]], axis=1)
    return np.asarray((adjugate / determinant[:, None]).reshape(-1, 2, 2))


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
