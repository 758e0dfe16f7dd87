"""The paper's t(s, g): the kernel estimate of E(Y | S = s, G = g) at knots, with straight lines between them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenscore.calibration.cells import Cells, Fit, average_matrix, bounded, refitted
from evenscore.errors import OptionError, require_option, shortened
from evenscore.estimation.bandwidth import fold_fits, fold_risks, require_bandwidth, risk_candidates, rule_of_thumb, spread
from evenscore.estimation.fitted_curves import effective_users, small_sample, smooth_at, unsmoothed
from evenscore.estimation.kernels import DEGREES, FEW_CELLS, Smoother, kernel_named
from evenscore.types import Floats, Ints

KNOTS_A_BANDWIDTH = 2
FEWEST_KNOTS, MOST_KNOTS = 17, 257
ENOUGH_USERS = 20  # effective users that a knot should rest on
WIDENINGS = 6


@dataclass(frozen=True, slots=True)
class Kernel:
    """How to smooth: 0 Nadaraya-Watson, 1 local linear, 2 local quadratic; a bandwidth on the lattice's axis, or a rule."""

    degree: int = 1
    kernel: str = "gaussian"
    bandwidth: float | str = "risk"

    def check(self) -> None:
        """Refuse what cannot be used."""
        require_option("degree", self.degree, DEGREES)
        if kernel_named(self.kernel).moments > 1 and self.degree > 0:
            raise OptionError(
                f"kernel={shortened(self.kernel)} has no second moment, so it cannot fit slopes; use it with degree=0"
            )
        require_bandwidth(self.bandwidth)

    def fit(self, cells: Cells) -> Fit:
        """The curve at knots half a bandwidth apart, over the range that was seen."""
        if unsmoothed(cells.lattice, cells.sums) or len(cells.used) == 1:
            return _means(cells)
        h = self.width(cells)
        position = _knots(cells, h, self.kernel)
        smooth, effective = self._smooth(cells, position, h)
        value = smooth.curve(cells.sums.Y, cells.sums.tilt)
        known = np.isfinite(value) & np.isfinite(small_sample(effective))
        if not known.any():
            return _level(cells)
        local = smooth.local_fit(cells.sums.Y)[known]
        matrix = smooth.matrix[known] * small_sample(effective[known])[:, None]
        return Fit(
            score=cells.lattice.to_score(position[known]),
            value=bounded(cells, value[known]),
            matrix=matrix,
            fitted=matrix * local,
            words=f"{('Nadaraya-Watson', 'local linear', 'local quadratic')[self.degree]}, bandwidth {h:.3g}",
        )

    def settled(self, cells: Cells) -> Kernel:
        """The same with its bandwidth chosen."""
        return replace(self, bandwidth=self.width(cells))

    def fold_values(self, cells: Cells) -> Floats:
        """The curve at the cells without each user fold, (n_folds, n_cells)."""
        if unsmoothed(cells.lattice, cells.sums) or len(cells.used) == 1:
            return refitted(cells, _means)
        return bounded(cells, np.nan_to_num(fold_fits(cells.sums, cells.folds, self.width(cells), self.degree, self.kernel)))

    def width(self, cells: Cells) -> float:
        """The bandwidth, on the axis of the lattice."""
        if not isinstance(self.bandwidth, str):
            return float(self.bandwidth)
        deviation = spread([cells.sums])
        if self.bandwidth == "risk" and deviation > 0 and cells.folds.W.any():
            candidates = risk_candidates(cells.sums, cells.lattice.cell_width)
            risks = fold_risks(cells.sums, cells.folds, candidates, self.degree, self.kernel)
            return float(candidates[int(np.argmin(risks))])
        rule = "test" if self.bandwidth == "risk" else self.bandwidth
        found = rule_of_thumb(deviation=deviation, users=cells.n_users, rule=rule, kernel=self.kernel)
        return found or FEW_CELLS * cells.lattice.cell_width or 1.0

    def _smooth(self, cells: Cells, position: Floats, h: float) -> tuple[Smoother, Floats]:
        """The smoother at the knots, wider where few users are, and the effective users of each knot."""
        assert cells.pairs is not None
        smooth = smooth_at(cells.lattice, cells.sums, position, h, self.degree, self.kernel)
        effective = effective_users(smooth.matrix, cells.pairs)
        for power in range(1, WIDENINGS + 1):
            few = np.flatnonzero(~(effective >= min(ENOUGH_USERS, cells.n_users / 2)))
            if len(few) == 0:
                break
            wider = smooth_at(cells.lattice, cells.sums, position[few], h * 2**power, self.degree, self.kernel)
            smooth = _with_rows(smooth, wider, few)
            effective[few] = effective_users(wider.matrix, cells.pairs)
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


def _knots(cells: Cells, h: float, kernel: str) -> Floats:
    """Equal steps of about half a bandwidth along the axis, from the first to the last cell that was seen."""
    used = cells.sums.position[cells.used]
    low, high = np.clip(cells.lattice.to_axis(np.array(cells.limits)), *_axis_ends(cells))
    low, high = min(low, used[0]), max(high, used[-1])
    wanted = KNOTS_A_BANDWIDTH * (high - low) / (h / kernel_named(kernel).width)
    return np.linspace(low, high, int(np.clip(np.ceil(wanted) + 1, FEWEST_KNOTS, MOST_KNOTS)))


def _axis_ends(cells: Cells) -> tuple[float, float]:
    """The ends of the axis, which are finite even where a logit is not."""
    edges = cells.lattice.axis_edges
    return float(edges[0]), float(edges[-1])


def _means(cells: Cells) -> Fit:
    """Few distinct scores: each has its own mean."""
    value, matrix = average_matrix(cells, [cells.used[i : i + 1] for i in range(len(cells.used))])
    return Fit(cells.score[cells.used], value, matrix, matrix * value[:, None], words="means of each score")


def _level(cells: Cells) -> Fit:
    """One value for all scores: too little is known for a curve."""
    matrix = np.ones((1, len(cells.sums.W))) / cells.sums.W.sum()
    value = np.array([cells.mean])
    return Fit(np.array([cells.limits[0]]), value, matrix, matrix * value[0], words="the mean outcome, for lack of users")
