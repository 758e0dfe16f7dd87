"""One side by itself: the law of its linear estimates, how they go together, and how alike the rows of its users are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenscore.estimation.inference import correlation as _correlation
from evenscore.estimation.scatters import Scatter, own_number_law
from evenscore.estimation.side_laws import SideLaw
from evenscore.estimation.spreads import (
    BORROWED_EVENTS,
    Around,
    Dependence,
    effective_users,
    nested_pairs,
    rate_law,
    rate_spread,
    shaped,
)
from evenscore.tallies.view import GroupView
from evenscore.types import Floats


def side_law(view: GroupView, matrix: Floats, fit: Floats, correlation: float) -> SideLaw:
    """The law of linear estimates of one side around its own fit at the cells.

    correlation: of a user's rows, which is what the side is moved towards where it has few events to tell; see
    ``user_correlation``.
    """
    around, effective = Around.of(view, fit), effective_users(view, matrix)
    if around.known is None:
        return own_number_law(Scatter.of(around, matrix, effective))
    depend = Dependence.of(around, matrix, effective)
    return rate_law(depend, np.full(len(matrix), correlation), BORROWED_EVENTS, own_fit=True)[0]


def side_spread(view: GroupView, matrix: Floats, fit: Floats, rate: Floats | None, correlation: float) -> tuple[SideLaw, Floats]:
    """The law of linear estimates of one side around a fit at the cells, and how they go together, (n, n).

    rate: (n,), the fit where each estimate is at one end of it, else None; correlation: of a user's rows, which is what the side is
    moved towards where it has few events to tell; see ``user_correlation``.
    """
    around, effective = Around.of(view, fit), effective_users(view, matrix)
    if around.known is None:
        return own_number_law(Scatter.of(around, matrix, effective)), _correlation(matrix @ around.residual @ matrix.T)
    depend = Dependence.of(around, matrix, effective)
    side, own = rate_law(depend, np.full(len(matrix), correlation), BORROWED_EVENTS, own_fit=True)
    corr = _correlation(depend.covariance(around, float(np.nanmedian(own)), correlation))
    return side if rate is None else shaped(side, around, matrix, rate), corr


def user_correlation(views: Sequence[GroupView], fits: Sequence[Floats]) -> float:
    """The correlation of the 0/1 outcomes of a user's rows at one score, from all groups together; 1 where nothing can be told.

    Rows at scores of different rates have less in common than that: no more than if a user with an event at the lower rate also had
    one at the higher.
    """
    if not views[0].tally.binary:
        return 0.0
    between, potential, possible = 0.0, 0.0, 0.0
    for view, fit in zip(views, fits, strict=True):
        pairs, sums = view.pairs, view.sums
        rows = np.maximum(sums.V2 - 2 * fit * sums.V1 + fit**2 * sums.V0, 0)
        between += pairs.residual_sum(fit, fit) - float(rows.sum())
        potential += float(nested_pairs(pairs, fit).sum() - sums.V0 @ rate_spread(fit))
        possible += float(pairs.ww.sum() - sums.V0.sum())
    if not possible > 1e-12 * sum(float(view.sums.V0.sum()) for view in views):
        return 0.0  # one row a user
    return float(np.clip(between / potential, 0, 1)) if potential > 0 else 1.0
