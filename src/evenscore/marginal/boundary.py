"""The expected outcome at the edge of what is seen: weighted means of one side's outcomes, and the fits that they vary around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenscore.estimation.bandwidth import settle
from evenscore.estimation.kernels import Smoother, indicator_smoother
from evenscore.estimation.smoothing import Smoothing, unsmoothed
from evenscore.estimation.spreads import BORROWED_EVENTS, STEEPEST, effective_users, rate_spread
from evenscore.marginal.cut import Cut
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

ONE_SIDED = 2.0  # a one-sided fit sees half of the people, and further out: rules of thumb are doubled


@dataclass(frozen=True, slots=True)
class Edge:
    """A linear estimate of one group: level = weights @ Y, up to what happens inside a cell; within [0, 1] for 0/1 outcomes.

    side: the group's people that are used, on the cells that have any, (n_cells,); weights, fit: (n_cells,), fit is what residuals
    are taken from; rate: the fit's own level, which for 0/1 outcomes is not the estimate where events are few; least,
    most: what a rate at the cut may be, given the fit near it.
    """

    side: GroupView
    level: float
    weights: Floats
    fit: Floats
    rate: float
    effective_users: float
    least: float = -np.inf
    most: float = np.inf

    @property
    def matrix(self) -> Floats:
        """The weights as a smoother's matrix, (1, n_cells)."""
        return self.weights[None, :]


def edge_smoothing(smoothing: Smoothing, views: Sequence[GroupView], cuts: Sequence[Cut]) -> Smoothing:
    """With the bandwidth that all groups share at their cuts: a rule of thumb for the people on the positive side, doubled."""
    positive = []
    for view, cut in zip(views, cuts, strict=True):
        side = view.only(cut.seen)
        if side.sums.W.any():
            share = side.sums.W.sum() / view.sums.W.sum()
            positive.append(replace(side, n_users=max(1, round(share * view.n_users))))
    settled = settle(smoothing, positive, rare=True)
    if cuts[0].both or not isinstance(smoothing.bandwidth, str):
        return settled
    return settled.at(ONE_SIDED * settled.h)


def fit_edge(cut: Cut, side: GroupView, smoothing: Smoothing | None, everybody: GroupView) -> Edge | None:
    """The outcome at the cut of the people on one side: a local polynomial, or without smoothing the marginal value alone.

    everybody: all groups on that side, on the cells that have any.
    """
    side = side.at(side.used)
    smooth = smoother_at(cut, side, smoothing)
    weights = smooth.matrix[0]
    if not np.isfinite(weights).all() or not weights**2 @ side.sums.V0 > 0:  # nobody near, or sums that contradict each other
        return None
    fit, level = smooth.local_fit(side.sums.Y)[0], float(smooth.curve(side.sums.Y, side.sums.tilt)[0])
    if not side.tally.binary:
        return Edge(side, level, weights, fit, level, _users(side, weights))
    common = smoother_at(cut, everybody, smoothing)
    base, slopes = float(common.matrix[0] @ everybody.sums.Y), common.slopes[0] @ everybody.sums.Y
    powers = smooth.u[0] ** (np.arange(len(slopes)) + 1)[:, None]
    return _of_rate(side, level, weights, fit, base, base + slopes @ powers)


def _of_rate(side: GroupView, level: float, weights: Floats, fit: Floats, common: float, pooled: Floats) -> Edge:
    """0/1 outcomes: a fit that few events tell little about is moved towards that of all groups."""
    level, common = float(np.clip(level, 0, 1)), float(np.clip(common, 0, 1))
    fit, pooled = np.clip(fit, 0, 1), np.clip(np.where(np.isfinite(pooled), pooled, common), 0, 1)
    users, squares = _users(side, weights), weights**2 * side.sums.V0
    events = 4 * users * float(squares @ rate_spread((fit + pooled) / 2) / squares.sum())
    own = events / (events + BORROWED_EVENTS)
    mixed, rate = own * fit + (1 - own) * pooled, own * level + (1 - own) * common
    # A line through rare events may come down to 0 at the cut, where that says no more than that they are rare there.
    near = float(squares @ mixed / squares.sum())
    least, most = near / STEEPEST, 1 - (1 - near) / STEEPEST
    return Edge(
        side=side,
        level=level,
        weights=weights,
        fit=mixed,
        rate=float(np.clip(rate, least, most)),
        effective_users=users,
        least=least,
        most=most,
    )


def _users(side: GroupView, weights: Floats) -> float:
    return float(effective_users(side, weights[None, :])[0])


def smoother_at(cut: Cut, side: GroupView, smoothing: Smoothing | None) -> Smoother:
    """What makes the level at the cut of the outcomes on one side."""
    if smoothing is None:
        distance = np.abs(side.sums.position - cut.position)
        value = indicator_smoother(np.array([distance.argmin()]), side.sums.W)
        value.matrix[:, distance.min() > 1e-12] = np.nan
        return value
    return smoothing.local_polynomial(side, np.array([cut.position]))


def mean_edge(side: GroupView) -> Edge:
    """The plain average of all on one side."""
    side = side.at(side.used)
    weights = np.full(len(side.cells), 1 / side.total)
    least, most = (0.0, 1.0) if side.tally.binary else (-np.inf, np.inf)
    level = float(np.clip(weights @ side.sums.Y, least, most))
    return Edge(
        side=side,
        level=level,
        weights=weights,
        fit=np.full(len(weights), level),
        rate=level,
        effective_users=_users(side, weights),
        least=least,
        most=most,
    )


def few_scores(views: Sequence[GroupView]) -> bool:
    """Whether scores have so few values that the marginal one is looked at by itself."""
    return unsmoothed(views[0].lattice, *(view.sums for view in views))
