"""Curves: the expected outcome along the score, by group, with what is known about each point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from evenscore.data.columns import number_array
from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import OptionError, hush, require_alpha, shortened, warn
from evenscore.estimation.bandwidth import settle
from evenscore.estimation.guides import Guide, narrowed
from evenscore.estimation.inference import (
    CommonNormals,
    normal_quantile,
    simultaneous_quantile,
    small_sample,
    standard_errors,
    tells_spread,
)
from evenscore.estimation.one_side import side_spread, user_correlation
from evenscore.estimation.smoothing import FEW_VALUES, Smoothing, unsmoothed
from evenscore.tables import Table, json_ready
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.view import GroupView
from evenscore.threads import in_one_thread
from evenscore.types import Floats

PEOPLE_BINS, SHOWN_POINTS = 30, 5  # for pictures and for tables that are shown
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
    """The expected outcome given the score, for each group; made by ``es.curves``.

    people: for each curve where the group's people are, scores and shares of (2, PEOPLE_BINS); for pictures.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(people, score="score", outcome="outcome", group="group", user="user")
    >>> curves = es.curves(tally, grid=[0.3, 0.6])
    >>> [(row["group"], row["score"], round(row["estimate"], 2)) for row in curves.rows()]
    [('a', 0.3, 0.32), ('a', 0.6, 0.6), ('b', 0.3, 0.16), ('b', 0.6, 0.44)]
    """

    curves: tuple[Curve, ...]
    degree: int
    kernel: str
    weighting: str
    alpha: float
    lattice: Lattice
    binary: bool = False
    frame_kind: str | None = None
    people: tuple[Floats, ...] = ()

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

    def _shown_rows(self) -> list[dict[str, Any]]:
        """A few points of each curve."""
        rows, shown = self.rows(), []
        for group in self.groups:
            own = [row for row in rows if type(row["group"]) is type(group) and row["group"] == group]
            places = np.unique(np.linspace(0, len(own) - 1, min(len(own), SHOWN_POINTS)).round().astype(int))
            shown += [own[place] for place in places]
        return shown

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
        some = f"{SHOWN_POINTS} of the points of each curve; .rows() has all"
        notes = ["ci: for each point by itself; band: for all points of the curve at once", *self.lattice.notes]
        return [some, *notes] if any(len(curve.score) > SHOWN_POINTS for curve in self.curves) else notes


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

    With the default bandwidth a smooth curve of four parameters is fitted first, what it leaves is smoothed, and the bandwidth is
    narrower where a bend is still seen: bands allow for noise, and this takes away most of what smoothing would add to it. A curve
    that turns several times within a few bandwidths is still too much for them (docs/method.md).

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
        A number in units of the scale, which ``scale=`` of the tally should name then, or a rule: "band" (users^-1/4 at most,
        guided as said above unless ``degree=0``), "test" (users^-1/5), "theorem" (users^-1/3 for ordinary kernels) or "risk"
        (by user folds). Each group has its own.
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
    rng = CommonNormals(seed)
    smoothing = Smoothing(degree, kernel, bandwidth)
    positions = None if grid is None else grid_positions(tally.lattice, grid)
    views = [view for view in GroupView.each(tally, weighting) if view.n_rows > 0]
    used = [view.at(view.used) for view in views]
    correlation = within_users(used)
    return Curves(
        tuple(_curve(view, smoothing, positions, alpha, correlation, rng) for view in used),
        degree=degree,
        kernel=kernel,
        weighting=weighting,
        alpha=alpha,
        lattice=tally.lattice,
        binary=tally.binary,
        frame_kind=tally.frame_kind,
        people=tuple(people_shares(view) for view in views),
    )


def people_shares(view: GroupView) -> Floats:
    """Where a group's people are, each weighing the same: the middles of equal bins of the score, and shares, (2, PEOPLE_BINS)."""
    weight = view.sums.A if view.sums.A.sum() > 0 else view.sums.W
    edges = view.lattice.to_score(view.lattice.axis_edges)
    cumulative = np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum()
    bins = np.linspace(edges[0], edges[-1], PEOPLE_BINS + 1)
    return np.stack([(bins[1:] + bins[:-1]) / 2, np.diff(np.interp(bins, edges, cumulative))])


def _curve(
    view: GroupView, smoothing: Smoothing, points: Floats | None, alpha: float, correlation: float, rng: CommonNormals
) -> Curve:
    if points is None:
        points = own_grid(view)
    smoothing, guide = guided(view, smoothing, correlation)
    smooth = smoothing.smoother(view, points)
    effective = view.effective_users(smooth.matrix)
    level = guide.curve(view, smooth, points) + view.tally.centre
    if view.tally.binary:
        level = np.clip(level, 0, 1)
    fit = guide.fit_at(view, smoothing)
    matrix, fitted = guide.influence(view, smooth, points, fit)
    side, together = side_spread(view, matrix, fit, None, correlation)
    covariance = own_covariance(view, matrix, fitted, effective)
    ci_low, ci_high = side.limits(level, normal_quantile(alpha))
    is_known = tells_spread(effective - 1)
    band_low, band_high = side.limits(level, simultaneous_quantile(together[np.ix_(is_known, is_known)], alpha, rng))
    limits = (np.where(is_known, limit, np.nan) for limit in (ci_low, ci_high, band_low, band_high))
    return Curve(view.label, smoothing.h, points, view.lattice.to_score(points), level, covariance, effective, *limits)


def guided(view: GroupView, smoothing: Smoothing, correlation: float, say: Callable[[str], None] = warn) -> tuple[Smoothing, Guide]:
    """The rule for bands has a guide, and of a local line a bandwidth that gives way; all else is what was asked for.

    correlation: of a user's rows, see ``within_users``; say: what is done with words about narrow bandwidths.
    """
    settled = settle(smoothing, [view], say)
    if smoothing.bandwidth != "band" or smoothing.degree == 0:
        return settled, Guide.none(view)
    guide = Guide.of(view)
    if smoothing.degree > 1 or unsmoothed(view.lattice, view.sums):
        return settled, guide
    return narrowed(view, settled, guide, own_grid(view), correlation), guide


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


def own_covariance(view: GroupView, matrix: Floats, fitted: Floats, effective: Floats) -> Floats:
    """The user-robust covariance of a curve around its own local fits; for degree 0 the paper's delta method.

    matrix, fitted: see ``Guide.influence``. nan where fewer than one and a half effective users are near.
    """
    factor = np.where(tells_spread(effective - 1), small_sample(effective), np.nan)[:, None]
    return view.covariance(factor * matrix, factor * fitted)
