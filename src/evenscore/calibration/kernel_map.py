"""The paper's t(s, g): the kernel estimate of E(Y | S = s, G = g) at knots, with straight lines between them.

What limits are drawn from must not be off by more than its noise: with the rule for bands the estimate is the guided one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenscore.calibration.fit import Fit, average_cells, bound, refit
from evenscore.errors import hush
from evenscore.estimation.bandwidth import fold_fits, fold_risks, least_risk, risk_candidates, rule_of_thumb, spread
from evenscore.estimation.fitted_curves import guided, within_users
from evenscore.estimation.guides import Guide
from evenscore.estimation.inference import small_sample
from evenscore.estimation.kernels import FEW_CELLS, Smoother
from evenscore.estimation.smoothing import Smoothing, unsmoothed
from evenscore.tallies.view import GroupView
from evenscore.types import Floats, Ints

KNOTS_A_BANDWIDTH = 2  # between which a map is a straight line
FEWEST_KNOTS, MOST_KNOTS = 17, 257  # also of a wide bandwidth, and of a narrow one
ENOUGH_USERS = 20  # effective users that a knot should rest on
WIDENINGS = 6  # of the bandwidth, at most, where a knot rests on too few users


@dataclass(frozen=True, slots=True)
class KernelMap:
    """A curve by local polynomials; a rule for the bandwidth chooses one for each group."""

    smoothing: Smoothing

    def fit(self, view: GroupView) -> Fit:
        """The curve at knots half a bandwidth apart, over the range that was seen."""
        if unsmoothed(view.lattice, view.sums) or len(view.used) == 1:
            return _means(view)
        smoothing, guide = self._choose(view)
        position = _knots(view, smoothing)
        smooth, effective = _smooth(view, position, smoothing)
        value = guide.curve(view, smooth, position)
        known = np.isfinite(value) & np.isfinite(small_sample(effective))
        if not known.any():
            return _level(view)
        at_cells = guide.fit_at(view, smoothing) if guide.bends else guide.at_cells
        matrix, fitted = guide.influence(view, smooth, position, at_cells)
        factor = small_sample(effective[known])[:, None]
        return Fit(
            score=view.lattice.to_score(position[known]),
            value=bound(view, value[known]),
            matrix=factor * matrix[known],
            fitted=factor * fitted[known],
            words=f"{'guided ' if guide.bends else ''}{smoothing.words}, bandwidth {smoothing.h:.3g}",
        )

    def fold_values(self, view: GroupView) -> Floats:
        """The curve at the cells without each user fold, (n_folds, n_cells)."""
        if unsmoothed(view.lattice, view.sums) or len(view.used) == 1:
            return refit(view, _means)
        smoothing, guide = self._choose(view)
        if not guide.bends:
            return bound(view, np.nan_to_num(fold_fits(view, smoothing)))
        return bound(view, np.array([Guide.of(left).fit_at(left, smoothing) for left in view.without_folds()]))

    def _choose(self, view: GroupView) -> tuple[Smoothing, Guide]:
        """The bandwidth, and with the rule for bands the guide that takes the bias away, as of ``es.curves``."""
        if self._is_guided:
            return guided(view, self.smoothing, within_users([view]), hush)
        return self.settle(view).smoothing, Guide.none(view)

    @property
    def _is_guided(self) -> bool:
        return self.smoothing.bandwidth == "band" and self.smoothing.degree > 0

    def settle(self, view: GroupView) -> KernelMap:
        """The same with its bandwidth chosen, on the axis of the lattice; a guide goes with its rule."""
        smoothing = self.smoothing
        if not isinstance(smoothing.bandwidth, str) or self._is_guided:
            return self
        deviation = spread([view])
        if smoothing.bandwidth == "risk":
            if deviation > 0 and view.folds.W.any():
                candidates = risk_candidates(view)
                risks = fold_risks(view, candidates, smoothing)
                return KernelMap(smoothing.at(least_risk(view, candidates, risks)))
            smoothing = smoothing.at("test")
        width = rule_of_thumb(smoothing, deviation=deviation, users=view.n_users)
        return KernelMap(smoothing.at(width or FEW_CELLS * view.lattice.cell_width or 1.0))


def _smooth(view: GroupView, position: Floats, smoothing: Smoothing) -> tuple[Smoother, Floats]:
    """The smoother at the knots, wider where few users are, and the effective users of each knot."""
    smooth = smoothing.smoother(view, position)
    effective = view.effective_users(smooth.matrix)
    for power in range(1, WIDENINGS + 1):
        few = np.flatnonzero(~(effective >= min(ENOUGH_USERS, view.n_users / 2)))
        if len(few) == 0:
            break
        wider = smoothing.at(smoothing.h * 2**power).smoother(view, position[few])
        smooth = _with_rows(smooth, wider, few)
        effective[few] = view.effective_users(wider.matrix)
    return smooth, effective


def _with_rows(smooth: Smoother, fresh: Smoother, rows: Ints) -> Smoother:
    """A smoother with some of its points taken from another one."""
    merged = []
    for name in ("matrix", "slopes", "u", "tilt"):
        old, new = getattr(smooth, name), getattr(fresh, name)
        if old is not None:
            old = old.copy()
            old[rows] = new
        merged.append(old)
    return Smoother(*merged)


def _knots(view: GroupView, smoothing: Smoothing) -> Floats:
    """Equal steps of about half a bandwidth along the axis, from the first to the last cell that was seen."""
    used = view.sums.position[view.occupied]
    low, high = np.clip(view.lattice.to_axis(np.array(view.seen)), *_axis_ends(view))
    low, high = min(low, used[0]), max(high, used[-1])
    wanted = KNOTS_A_BANDWIDTH * (high - low) / (smoothing.h / smoothing.shape.width)
    return np.linspace(low, high, int(np.clip(np.ceil(wanted) + 1, FEWEST_KNOTS, MOST_KNOTS)))


def _axis_ends(view: GroupView) -> tuple[float, float]:
    """The ends of the axis, which are finite even where a logit is not."""
    edges = view.lattice.axis_edges
    return float(edges[0]), float(edges[-1])


def _means(view: GroupView) -> Fit:
    """Few distinct scores: each has its own mean."""
    used = view.occupied
    value, matrix = average_cells(view, [used[i : i + 1] for i in range(len(used))])
    return Fit(view.score[used], value, matrix, matrix * value[:, None], words="means of each score")


def _level(view: GroupView) -> Fit:
    """One value for all scores: too little is known for a curve."""
    matrix = np.ones((1, len(view.sums.W))) / view.sums.W.sum()
    value = np.array([view.mean])
    return Fit(np.array([view.seen[0]]), value, matrix, matrix * value[0], words="the mean outcome, for lack of users")
