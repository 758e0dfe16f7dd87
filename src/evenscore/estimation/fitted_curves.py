"""Curves: the expected outcome along the score, by group, with what is known about each point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from evenscore.data.columns import number_array
from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import OptionError, hush, require_alpha, shortened
from evenscore.estimation.bandwidth import settle
from evenscore.estimation.inference import seeded, simultaneous_quantile, small_sample, standard_errors, tells_spread
from evenscore.estimation.kernels import Smoother
from evenscore.estimation.smoothing import FEW_VALUES, Smoothing
from evenscore.estimation.spreads import side_law, user_correlation
from evenscore.tables import Table, json_ready
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.view import GroupView
from evenscore.threads import in_one_thread
from evenscore.types import Floats

GRID_POINTS = 50
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
        return ["ci: for each point by itself; band: for all points of the curve at once", *self.lattice.notes]


@in_one_thread
def curves(
    tally: Any,
    *,
    degree: int = 1,
    kernel: str = "gaussian",
    bandwidth: float | str = "band",
    grid: ArrayLike | None = None,
    weighting: str = "user",
    alpha: float = 0.05,
    seed: int = 0,
    **columns: Unpack[DataColumns],
) -> Curves:
    """Estimate each group's expected outcome along the score.

    Bands allow for noise and not for what smoothing does to a curve that bends within a bandwidth: where users have many rows and
    the curve turns steeply upwards they can be too narrow (docs/benchmarks.md has how often). The bias of two groups with one curve
    cancels in their gap, whose band holds.

    Parameters
    ----------
    tally
        What ``es.tally`` made, also as the path of a saved one; or data.
    columns
        With data: ``score=``, ``outcome=``, ``group=``, ``user=`` and what else ``es.tally`` takes.
    degree
        0 Nadaraya-Watson (the paper's estimator), 1 local linear, 2 local quadratic.
    kernel
        "gaussian", "epanechnikov", "box", "triangular", "gaussian4" or "gaussian6".
    bandwidth
        A number in units of the scale, which ``scale=`` of the tally should name then, or a rule: "band" (users^-1/4), "test"
        (users^-1/5), "theorem" (users^-1/3 for ordinary kernels) or "risk" (by user folds). Each group has its own.
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
    {'a': 0.52, 'b': 0.39}
    """
    tally = as_tally(tally, columns, call="curves")
    require_alpha(alpha)
    rng = seeded(seed)
    smoothing = Smoothing(degree, kernel, bandwidth)
    positions = None if grid is None else grid_positions(tally.lattice, grid)
    views = [view for view in GroupView.each(tally, weighting) if view.n_rows > 0]
    correlation = within_users(views)
    return Curves(
        tuple(_curve(view, smoothing, positions, alpha, correlation, rng) for view in views),
        degree=degree,
        kernel=kernel,
        weighting=weighting,
        alpha=alpha,
        lattice=tally.lattice,
        binary=tally.binary,
        frame_kind=tally.frame_kind,
    )


def _curve(
    view: GroupView, smoothing: Smoothing, points: Floats | None, alpha: float, correlation: float, rng: np.random.Generator
) -> Curve:
    from scipy import special

    smoothing = settle(smoothing, [view])
    if points is None:
        points = own_grid(view)
    smooth = smoothing.smoother(view, points)
    effective = view.effective_users(smooth.matrix)
    level = smooth.curve(view.sums.Y, view.sums.tilt) + view.tally.centre
    if view.tally.binary:
        level = np.clip(level, 0, 1)
    side = side_law(view, smooth.matrix, smoothing.fit_at(view), correlation)
    covariance = own_covariance(view, smooth, effective)
    ci_low, ci_high = side.limits(level, float(special.ndtri(1 - alpha / 2)))
    band_low, band_high = side.limits(level, simultaneous_quantile(covariance, alpha, rng))
    told = tells_spread(effective - 1)
    limits = (np.where(told, limit, np.nan) for limit in (ci_low, ci_high, band_low, band_high))
    return Curve(view.label, smoothing.h, points, view.lattice.to_score(points), level, covariance, effective, *limits)


def within_users(views: Sequence[GroupView]) -> float:
    """How alike the 0/1 outcomes of a user's rows are, from all groups together."""
    if not views or not views[0].tally.binary:
        return 0.0
    # A bandwidth of few cells matters to the curve, not to what its residuals have in common.
    return user_correlation(views, [settle(Smoothing(bandwidth="test"), [view], hush).fit_at(view) for view in views])


def grid_positions(lattice: Lattice, grid: ArrayLike) -> Floats:
    """A grid of scores as positions on the axis."""
    scores = number_array("grid", grid)
    if scores.ndim != 1 or not 0 < len(scores) <= MOST_POINTS:
        raise OptionError(f"grid must be a list of finite scores, at most {MOST_POINTS:,}")
    return lattice.to_axis(np.unique(scores))


def own_grid(view: GroupView) -> Floats:
    """Quantiles of a group's scores; every value when there are few."""
    used = view.sums.W > 0
    if view.lattice.discrete and used.sum() <= FEW_VALUES:
        return view.sums.position[used]
    return np.unique(view.quantiles(np.linspace(0.01, 0.99, GRID_POINTS)))


def own_covariance(view: GroupView, smooth: Smoother, effective: Floats) -> Floats:
    """The user-robust covariance of a curve around its own local fits; for degree 0 the paper's delta method.

    nan where fewer than one and a half effective users are near.
    """
    matrix = smooth.matrix * np.where(tells_spread(effective - 1), small_sample(effective), np.nan)[:, None]
    return view.covariance(matrix, matrix * smooth.local_fit(view.sums.Y))
