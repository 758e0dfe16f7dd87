"""How wide to smooth: rules that count users, not rows, and risks that fold by users. All from the tally alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from evenscore.errors import warn
from evenscore.estimation.kernels import FEW_CELLS, local_fits
from evenscore.estimation.smoothing import Smoothing
from evenscore.tallies.lattice import MAX_CELLS, Lattice
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

NARROWEST = 0.5  # of a cell: a rule goes no further, as a cell's neighbours would lose all weight
CANDIDATES = 24
FEWEST_TOLD = 1e-3  # of a user: however rare an outcome is, nothing is smoothed more than four times as wide


def spread(views: Sequence[GroupView]) -> float:
    """The standard deviation of the score within groups, on the axis."""
    weight = sum(view.total for view in views)
    return float(np.sqrt(sum(view.scatter for view in views) / weight)) if weight > 0 else 0.0


def harmonic_users(n_users: Sequence[int]) -> float:
    """The harmonic mean of the numbers of users."""
    return len(n_users) / sum(1 / max(n, 1) for n in n_users)


def rule_of_thumb(smoothing: Smoothing, *, deviation: float, users: float) -> float:
    """1.06 * sd * M^-r, M users: r = 1/5 to test, 1/4 for bands that need less bias, 1 / (2d + 1) for the paper's Theorem 1.

    With a second-order kernel d = 1, so the theorem asks for M^-1/3; kernels of order 4 and 6 have d = 3 and 5.
    """
    shape = smoothing.shape
    exponent = {"test": 1 / 5, "band": 1 / 4, "theorem": 1 / (2 * shape.moments + 1)}[str(smoothing.bandwidth)]
    return 1.06 * deviation * users**-exponent * shape.width


def settle(smoothing: Smoothing, views: Sequence[GroupView], say: Callable[[str], None] = warn, *, rare: bool = False) -> Smoothing:
    """The smoothing with the bandwidth that these views share, as a number on the axis of the lattice.

    rare: for a difference of curves, in which the bias of a wide bandwidth cancels: wider where 0/1 outcomes are rare.
    """
    tally = views[0].tally
    if spread(views) == 0 and isinstance(smoothing.bandwidth, str):
        return by_rule(smoothing, views)
    smoothing = by_rule(smoothing, views, rare=rare)
    narrow = narrow_words(tally.lattice, smoothing)
    if narrow and not tally.released:  # whose cells nobody can make finer
        say(narrow)
    return smoothing


def by_rule(smoothing: Smoothing, views: Sequence[GroupView], *, rare: bool = False) -> Smoothing:
    """The same for who does not mind a bandwidth that is hardly wider than a cell."""
    if not isinstance(smoothing.bandwidth, str):
        return smoothing
    width, chosen = views[0].lattice.cell_width, _rule_width(smoothing, views, rare)
    if chosen == 0:  # all scores in one place: any width will do
        return smoothing.at(FEW_CELLS * width or 1.0)
    return smoothing.at(max(chosen, NARROWEST * width * smoothing.shape.width))


def _rule_width(smoothing: Smoothing, views: Sequence[GroupView], rare: bool) -> float:
    if smoothing.bandwidth == "risk":
        tally, weighting = views[0].tally, views[0].weighting
        groups = [GroupView.of(tally, tally.groups[index], weighting) for view in views for index in view.members]
        return float(np.exp(np.mean([np.log(risk_bandwidth(group, smoothing)) for group in groups])))
    deviation = spread(views)
    users = harmonic_users([view.n_users for view in views]) * (_informative(views) if rare else 1.0)
    return rule_of_thumb(smoothing, deviation=deviation, users=users)


def _informative(views: Sequence[GroupView]) -> float:
    """How much a user tells about a rate, in units of what one tells about a rate of one half: 4 f (1 - f) for 0/1 outcomes.

    A curve of rare outcomes is flatter than its noise; the error of its shape is that of so many fewer users.
    """
    if not views[0].tally.binary:
        return 1.0
    rate = sum(view.outcome for view in views) / sum(view.total for view in views)
    return max(float(4 * rate * (1 - rate)), FEWEST_TOLD)


def narrow_words(lattice: Lattice, smoothing: Smoothing) -> str:
    """What a bandwidth of few cells means, and what would help; empty when it is wide enough.

    Below three cells outcomes inside a cell are not followed. Cells of scale "auto" serve any scores and are wider where people are
    than cells cut to them; down to one of them a curve is off by .2 standard errors (docs/lattice.md), which is no cause to warn.
    """
    width, h = lattice.cell_width, smoothing.h
    few = 1 if lattice.auto and lattice.is_unit else FEW_CELLS
    if not 0 < h < few * width * smoothing.shape.width:
        return ""
    wide = math.ceil(h / width - 0.05)  # in whole cells, so that bandwidths of several tests are told of once
    cells = "no wider than a cell" if wide <= 1 else f"at most {wide} cells wide"
    return f"the bandwidth is {cells}, and nothing inside a cell can be seen; {finer_words(lattice)}"


def finer_words(lattice: Lattice) -> str:
    """How to get finer cells where people are."""
    if lattice.n_cells < MAX_CELLS:
        return f"there are {lattice.n_cells} cells, {MAX_CELLS} are possible: tally with more cells"
    if lattice.auto:
        return "scale 'auto' cuts cells that serve any scores; scale='rank', named, cuts finer ones where people are"
    return "for skewed scores tally with scale='logit' or scale='rank'"


def risk_bandwidth(view: GroupView, smoothing: Smoothing) -> float:
    """The bandwidth with the smallest risk on users left out; from pair sums when a tally keeps no folds."""
    candidates = risk_candidates(view)
    if len(candidates) == 1:
        return float(candidates[0])
    risks = (fold_risks if view.folds.W.any() else residual_risks)(view, candidates, smoothing)
    return least_risk(view, candidates, risks)


def least_risk(view: GroupView, candidates: Floats, risks: Floats) -> float:
    """The bandwidth with the smallest risk, and the widest of those that are as good: all are, of outcomes that are all equal."""
    as_good = risks <= risks.min() + 1e-12 * float(view.sums.Y2.sum())
    return float(candidates[np.flatnonzero(as_good)[-1]])


def risk_candidates(view: GroupView) -> Floats:
    """Bandwidths to choose from."""
    deviation = spread([view])
    if deviation == 0:
        return np.array([1.0])
    return np.geomspace(max(FEW_CELLS * view.lattice.cell_width, 0.02 * deviation), 3 * deviation, CANDIDATES)


def fold_risks(view: GroupView, candidates: Floats, smoothing: Smoothing) -> Floats:
    """10-fold risk by users: sum over folds of sum_c Y2 - 2 F Y + F^2 W, F fitted without the fold; (n_candidates,)."""
    risks = []
    for h in candidates:
        loss = view.fold_losses(fold_fits(view, smoothing.at(float(h))))
        risks.append(np.inf if np.isnan(loss).any() else loss.sum())
    return np.array(risks)


def fold_fits(view: GroupView, smoothing: Smoothing) -> Floats:
    """The curve at the cells fitted without each user fold, (10, n_cells); nan where nothing can be said.

    It is fitted at points a third of a bandwidth apart and interpolated, all folds at once.
    """
    weight, outcome = view.fold_rests()
    position = view.sums.position
    used = np.flatnonzero(view.sums.W > 0)
    points = position[used]
    step = smoothing.h / smoothing.shape.width / 3
    n_points = int(min((points[-1] - points[0]) / step + 2, len(used)))
    if n_points < len(used):
        points = np.linspace(points[0], points[-1], n_points)
    u = (position[None, :] - points[:, None]) / smoothing.h
    fits = local_fits(smoothing.shape.shape(u), u, weight, outcome, smoothing.degree)
    if n_points < len(used):
        return _interpolated(position, points, fits)
    at_cells = np.full(weight.shape, np.nan)
    at_cells[:, used] = fits
    return at_cells


def _interpolated(position: Floats, points: Floats, values: Floats) -> Floats:
    """``np.interp`` of several values at equally spaced points, (n_sets, n_points), at once; (n_sets, n_cells)."""
    place = np.clip((position - points[0]) * ((len(points) - 1) / (points[-1] - points[0])), 0, len(points) - 1)
    left = np.minimum(place.astype(np.int64), len(points) - 2)
    share = place - left
    low = values[:, left]
    return np.asarray(low + share * (values[:, left + 1] - low))


def residual_risks(view: GroupView, candidates: Floats, smoothing: Smoothing) -> Floats:
    """RSS_h + 2 trace(l_h R0), R0 the residual pair matrix of one pilot fit for all h; (n_candidates,).

    With R at the same h both terms vanish as h does, and the smallest h would always win.
    """
    sums = view.sums
    cells = np.flatnonzero(sums.W > 0)
    pilot_width = rule_of_thumb(smoothing.at("test"), deviation=spread([view]), users=float(view.n_users))
    pilot = np.nan_to_num(smoothing.at(pilot_width).matrix(sums.position, sums.position, sums.W) @ sums.Y)
    residual = view.pairs.residual(pilot, pilot)
    risks = []
    for h in candidates:
        at_cells = smoothing.at(float(h)).matrix(sums.position, sums.position, sums.W)
        fit = at_cells @ sums.Y
        rss = (sums.Y2 - 2 * fit * sums.Y + fit**2 * sums.W)[cells].sum()
        trace = np.einsum("cd,dc->", at_cells[np.ix_(cells, cells)], residual[np.ix_(cells, cells)])
        risks.append(rss + 2 * trace if np.isfinite(rss) else np.inf)
    return np.array(risks)
