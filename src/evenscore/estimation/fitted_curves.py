"""Curves: the expected outcome along the score, by group, with what is known about each point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenscore.data.columns import number_array
from evenscore.errors import OptionError, require_alpha, shortened
from evenscore.estimation.bandwidth import choose_bandwidth
from evenscore.estimation.inference import correlation, draw_normal, seeded, welch_t
from evenscore.estimation.kernels import Smoother, indicator_smoother, smoother
from evenscore.tables import Table, json_ready
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.pairs import PairMatrices
from evenscore.tallies.tally_state import CellSums, Tally, require_tally
from evenscore.types import Floats

FEW_VALUES = 20  # up to this many distinct scores are not smoothed
GRID_POINTS = 50
MAX_POINTS = 200
MOST_POINTS = 1000  # of a grid that is given; the work grows with its cube


@dataclass(frozen=True, slots=True)
class Curve:
    """One group's curve at n_points points.

    position: on the axis; score, estimate, se, effective_users, ci_low, ci_high, band_low, band_high: (n_points,); covariance:
    (n_points, n_points). nan where nothing can be said.
    """

    group: Any
    bandwidth: float
    position: Floats
    score: Floats
    estimate: Floats
    covariance: Floats
    effective_users: Floats
    ci_low: Floats
    ci_high: Floats
    band_low: Floats
    band_high: Floats

    @property
    def se(self) -> Floats:
        """Standard errors."""
        return standard_errors(self.covariance)


@dataclass(frozen=True, slots=True, repr=False)
class Curves(Table):
    """The expected outcome given the score, for each group; made by ``es.curves``."""

    curves: tuple[Curve, ...]
    degree: int
    kernel: str
    weighting: str
    alpha: float
    lattice: Lattice
    binary: bool = False
    frame_kind: str | None = None

    @property
    def groups(self) -> tuple[Any, ...]:
        """The groups, in order."""
        return tuple(curve.group for curve in self.curves)

    @property
    def bandwidth(self) -> dict[Any, float]:
        """The bandwidth of each group, in units of the lattice's scale."""
        return {curve.group: curve.bandwidth for curve in self.curves}

    def __getitem__(self, group: Any) -> Curve:
        for curve in self.curves:
            if type(curve.group) is type(group) and curve.group == group:
                return curve
        raise OptionError(f"no group {shortened(group)}; there are: {', '.join(map(repr, self.groups))}")

    def rows(self) -> list[dict[str, Any]]:
        """One row for each group and score: estimate, se, ci (each score by itself), band (all scores at once), effective_users."""
        names = ("score", "estimate", "se", "ci_low", "ci_high", "band_low", "band_high", "effective_users")
        return [
            {"group": curve.group} | {name: float(value) for name, value in zip(names, values, strict=True)}
            for curve in self.curves
            for values in zip(*(getattr(curve, name) for name in names), strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        return {
            "degree": self.degree,
            "kernel": self.kernel,
            "weighting": self.weighting,
            "alpha": self.alpha,
            "bandwidth": json_ready(self.bandwidth),
            "rows": json_ready(self.rows()),
        }

    def _title(self) -> str:
        name = ("Nadaraya-Watson", "local linear", "local quadratic")[self.degree]
        return f"Expected outcome by score, {name}, weighted per {self.weighting}, {1 - self.alpha:.0%} intervals"

    def _notes(self) -> list[str]:
        return ["ci: for each point by itself; band: for all points of the curve at once"]


def curves(
    tally: Tally,
    *,
    degree: int = 1,
    kernel: str = "gaussian",
    bandwidth: float | str = "band",
    grid: ArrayLike | None = None,
    weighting: str = "user",
    alpha: float = 0.05,
    seed: int = 0,
) -> Curves:
    """Estimate each group's expected outcome along the score.

    Parameters
    ----------
    tally
        What ``es.tally`` made.
    degree
        0 Nadaraya-Watson (the paper's estimator), 1 local linear, 2 local quadratic.
    kernel
        "gaussian", "epanechnikov", "box", "triangular", "gaussian4" or "gaussian6".
    bandwidth
        A number in units of the scale, or a rule: "band" (users^-1/4), "test" (users^-1/5), "theorem" (users^-1/3 for ordinary
        kernels) or "risk" (by user folds). Each group has its own.
    grid
        Scores to estimate at; by default 50 quantiles of each group's scores, or all values when there are at most 20.
    weighting
        "user": every user counts the same, however many rows; "row": every row does. Standard errors respect users either way.
    alpha, seed
        The level, and the seed of the draws behind simultaneous bands; the same seed gives the same result.

    Returns
    -------
    Curves
        One row for each group and score: estimate, standard error, interval, simultaneous band and effective users.

    Examples
    --------
    >>> import evenscore as es
    >>> data = es.simulate(1000, curve={"a": (0, 1), "b": (-0.5, 1)}).data(seed=1)
    >>> tally = es.tally(data, score="score", outcome="outcome", group="group", user="user")
    >>> {row["group"]: round(row["estimate"], 2) for row in es.curves(tally, grid=[0.5]).rows()}  # the truth is .5 and .38
    {'a': 0.51, 'b': 0.39}
    """
    tally = require_tally(tally, "curves")
    require_alpha(alpha)
    rng = seeded(seed)
    found = [
        _curve(tally, group, degree, kernel, bandwidth, grid, weighting, alpha, rng)
        for group in tally.groups
        if tally.n_rows[group] > 0
    ]
    return Curves(tuple(found), degree, kernel, weighting, alpha, tally.lattice, tally.binary, tally.frame_kind)


def _curve(
    tally: Tally,
    group: Any,
    degree: int,
    kernel: str,
    bandwidth: float | str,
    grid: ArrayLike | None,
    weighting: str,
    alpha: float,
    rng: np.random.Generator,
) -> Curve:
    sums = tally.sums(group, weighting)
    h = choose_bandwidth(tally, [group], bandwidth=bandwidth, weighting=weighting, degree=degree, kernel=kernel)
    points = own_grid(tally.lattice, sums) if grid is None else grid_positions(tally.lattice, grid)
    smooth = smooth_at(tally.lattice, sums, points, h, degree, kernel)
    pairs = tally.pair_matrices(group, group, weighting)
    assert pairs is not None
    estimate = smooth.curve(sums.Y, sums.tilt)
    effective = effective_users(smooth.matrix, pairs)
    covariance = own_covariance(smooth, sums.Y, pairs, effective)
    points_only, simultaneous = margins(covariance, effective - 1, alpha, rng)
    level = estimate + tally.centre
    return Curve(
        group,
        h,
        points,
        tally.lattice.to_score(points),
        level,
        covariance,
        effective,
        level - points_only,
        level + points_only,
        level - simultaneous,
        level + simultaneous,
    )


def grid_positions(lattice: Lattice, grid: ArrayLike) -> Floats:
    """A grid of scores as positions on the axis."""
    scores = number_array("grid", grid)
    if scores.ndim != 1 or not 0 < len(scores) <= MOST_POINTS:
        raise OptionError(f"grid must be a list of finite scores, at most {MOST_POINTS:,}")
    return lattice.to_axis(np.unique(scores))


def own_grid(lattice: Lattice, sums: CellSums) -> Floats:
    """Quantiles of a group's scores; every value when there are few."""
    used = np.flatnonzero(sums.W > 0)
    if lattice.discrete and len(used) <= FEW_VALUES:
        return sums.position[used]
    levels = np.linspace(0.01, 0.99, GRID_POINTS)
    return np.unique(quantiles(lattice, sums.W, levels))


def quantiles(lattice: Lattice, weight: Floats, levels: Floats) -> Floats:
    """Quantiles of a distribution given by the weight of the cells, as positions; linear inside a cell."""
    cumulative = np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum()
    if lattice.discrete:
        cells = np.searchsorted(cumulative[1:], levels - 1e-12).clip(max=len(weight) - 1)
        return lattice.positions(np.zeros(len(weight)))[cells]
    edges = lattice.axis_edges
    used = np.concatenate([[True], np.diff(cumulative) > 0]) | np.concatenate([np.diff(cumulative) > 0, [True]])
    return np.interp(levels, cumulative[used], edges[used])


def smooth_at(lattice: Lattice, sums: CellSums, points: Floats, h: float, degree: int, kernel: str) -> Smoother:
    """The smoother at the points; few distinct scores are not smoothed at all."""
    if unsmoothed(lattice, sums):
        cells = np.abs(sums.position[None, :] - points[:, None]).argmin(axis=1)
        exact = np.isclose(sums.position[cells], points, rtol=1e-12, atol=1e-12)
        found = indicator_smoother(cells, sums.W)
        found.matrix[~exact] = np.nan
        return found
    return smoother(
        points=points,
        positions=sums.position,
        weight=sums.W,
        bandwidth=h,
        degree=degree,
        kernel=kernel,
        cell_width=sums.width,
    )


def unsmoothed(lattice: Lattice, *sums: CellSums) -> bool:
    """Whether the scores have so few values that each is its own point."""
    weight = sum(group.W for group in sums)
    return lattice.n_cells == 1 or (lattice.discrete and int((np.asarray(weight) > 0).sum()) <= FEW_VALUES)


def effective_users(matrix: Floats, pairs: PairMatrices) -> Floats:
    """How many users a point rests on: 1 / (l Pww l')[j, j], (n_points,)."""
    return 1 / np.einsum("jc,jc->j", matrix @ pairs.ww, matrix)


def small_sample(effective: Floats) -> Floats:
    """n / (n - 1) for the effective users of each point; nan where there is not more than one."""
    return np.where(effective > 1 + 1e-9, effective / np.where(effective > 1 + 1e-9, effective - 1, 1), np.nan)


def own_covariance(smooth: Smoother, outcome: Floats, pairs: PairMatrices, effective: Floats) -> Floats:
    """The user-robust covariance of a curve around its own local fits; for degree 0 the paper's delta method."""
    matrix = smooth.matrix * small_sample(effective)[:, None]
    fitted = matrix * smooth.local_fit(outcome)
    return residual_covariance(pairs, matrix, fitted, matrix, fitted)


def residual_covariance(pairs: PairMatrices, l_a: Floats, a: Floats, l_b: Floats, b: Floats) -> Floats:
    """The covariance of two curves from the residuals of users: sum_m (l_a y_m - a w_m)(l_b y_m - b w_m)', (n_points, n_points).

    l are smoother matrices and a, b the same times the fit that residuals are taken from, each (n_points, n_cells).
    """
    return l_a @ pairs.yy @ l_b.T - a @ pairs.wy @ l_b.T - l_a @ pairs.yw @ b.T + a @ pairs.ww @ b.T


def standard_errors(covariance: Floats) -> Floats:
    """Roots of the diagonal, which rounding may have left slightly below 0."""
    return np.sqrt(np.maximum(np.diag(covariance), 0.0))


def margins(covariance: Floats, df: Floats, alpha: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Half-widths of pointwise intervals and of a simultaneous band, (n_points,) each."""
    from scipy import special

    variance = np.diag(covariance)
    known = np.isfinite(variance) & (variance > 0) & (df > 0)
    pointwise, simultaneous = np.full(len(df), np.nan), np.full(len(df), np.nan)
    flat = np.isfinite(variance) & (variance <= 0) & (df > 0)
    pointwise[flat] = simultaneous[flat] = 0.0
    if known.any():
        se = np.sqrt(variance[known])
        maxima = np.abs(draw_normal(correlation(covariance[np.ix_(known, known)]), rng)).max(axis=1)
        for margin, z in ((pointwise, special.ndtri(1 - alpha / 2)), (simultaneous, np.quantile(maxima, 1 - alpha))):
            margin[known] = welch_t(np.full(len(se), z), df[known]) * se
    return pointwise, simultaneous
