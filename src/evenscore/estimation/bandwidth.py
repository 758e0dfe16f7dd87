"""How wide to smooth: rules that count users, not rows, and risks that fold by users. All from the tally alone."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from evenscore.errors import EvenscoreWarning, OptionError, is_finite, require_option, shortened
from evenscore.estimation.kernels import FEW_CELLS, kernel_named, local_fits, smoother
from evenscore.tallies.lattice import MAX_CELLS, Lattice
from evenscore.tallies.tally_state import CellSums, FoldSums, Tally
from evenscore.types import Floats

RULES = ("test", "band", "theorem", "risk")
NARROWEST = 0.5  # of a cell: a rule goes no further, as a cell's neighbours would lose all weight
CANDIDATES = 24


def spread(sums: Sequence[CellSums]) -> float:
    """The standard deviation of the score within groups, on the axis."""
    squares, weight = 0.0, 0.0
    for group in sums:
        total = group.W.sum()
        if total > 0:
            mean = group.W @ group.position / total
            squares += float(group.W @ (group.position - mean) ** 2)
            weight += float(total)
    return float(np.sqrt(squares / weight)) if weight > 0 else 0.0


def harmonic_users(n_users: Sequence[int]) -> float:
    """The harmonic mean of the numbers of users."""
    return len(n_users) / sum(1 / max(n, 1) for n in n_users)


def rule_of_thumb(*, deviation: float, users: float, rule: str, kernel: str = "gaussian") -> float:
    """1.06 * sd * M^-r, M users: r = 1/5 to test, 1/4 for bands that need less bias, 1 / (2d + 1) for the paper's Theorem 1.

    With a second-order kernel d = 1, so the theorem asks for M^-1/3; kernels of order 4 and 6 have d = 3 and 5.
    """
    shape = kernel_named(kernel)
    exponent = {"test": 1 / 5, "band": 1 / 4, "theorem": 1 / (2 * shape.moments + 1)}[rule]
    return 1.06 * deviation * users**-exponent * shape.width


def choose_bandwidth(
    tally: Tally,
    groups: Sequence[Any],
    *,
    bandwidth: float | str,
    weighting: str = "user",
    degree: int = 1,
    kernel: str = "gaussian",
) -> float:
    """The bandwidth that these groups share, on the axis of the lattice."""
    sides = [((group,), tally.sums(group, weighting), tally.n_users[group]) for group in groups]
    return bandwidth_for(tally, sides, bandwidth=bandwidth, weighting=weighting, degree=degree, kernel=kernel)


def require_bandwidth(bandwidth: object) -> None:
    """A positive number, or a rule."""
    if isinstance(bandwidth, str):
        require_option("bandwidth", bandwidth, RULES)
    elif not (is_finite(bandwidth) and bandwidth > 0):
        raise OptionError(f"bandwidth={shortened(bandwidth)} must be a positive number or one of {', '.join(map(repr, RULES))}")


def bandwidth_for(
    tally: Tally,
    sides: Sequence[tuple[tuple[Any, ...], CellSums, int]],
    *,
    bandwidth: float | str,
    weighting: str,
    degree: int,
    kernel: str,
) -> float:
    """The bandwidth that several sides share; a side is its groups, its sums and its number of users."""
    require_bandwidth(bandwidth)
    if isinstance(bandwidth, str):
        if bandwidth == "risk":
            groups = [group for members, _, _ in sides for group in members]
            logs = [np.log(risk_bandwidth(tally, group, weighting, degree, kernel)) for group in groups]
            chosen = float(np.exp(np.mean(logs)))
        else:
            users = harmonic_users([n_users for _, _, n_users in sides])
            chosen = rule_of_thumb(deviation=spread([sums for _, sums, _ in sides]), users=users, rule=bandwidth, kernel=kernel)
        if chosen == 0:  # all scores in one place: any width will do
            return FEW_CELLS * tally.lattice.cell_width or 1.0
        chosen = max(chosen, NARROWEST * tally.lattice.cell_width * kernel_named(kernel).width)
    else:
        chosen = float(bandwidth)
    narrow = narrow_words(tally.lattice, chosen, kernel)
    if narrow and not tally.released:  # whose cells nobody can make finer
        warnings.warn(narrow, EvenscoreWarning, stacklevel=3)
    return chosen


def narrow_words(lattice: Lattice, chosen: float, kernel: str) -> str:
    """What a bandwidth of fewer than three cells means, and what would help; empty when it is wide enough."""
    width = lattice.cell_width
    if not 0 < chosen < FEW_CELLS * width * kernel_named(kernel).width:
        return ""
    remedy = "for skewed scores tally with scale='logit' or scale='rank'"
    if lattice.n_cells < MAX_CELLS:
        remedy = f"more cells show more (there are {lattice.n_cells}, {MAX_CELLS} are possible)"
    return f"the bandwidth {chosen:.3g} is only {chosen / width:.1f} cells wide, so nothing inside a cell can be seen; {remedy}"


def risk_bandwidth(tally: Tally, group: Any, weighting: str, degree: int, kernel: str) -> float:
    """The bandwidth with the smallest risk on users left out; from pair sums when a tally keeps no folds."""
    sums = tally.sums(group, weighting)
    candidates = risk_candidates(sums, tally.lattice.cell_width)
    if len(candidates) == 1:
        return float(candidates[0])
    folds = tally.folds(group, weighting)
    if folds.W.any():
        risks = fold_risks(sums, folds, candidates, degree, kernel)
    else:
        risks = residual_risks(tally, group, candidates, weighting, degree, kernel)
    return float(candidates[int(np.argmin(risks))])


def risk_candidates(sums: CellSums, cell_width: float) -> Floats:
    """Bandwidths to choose from."""
    deviation = spread([sums])
    if deviation == 0:
        return np.array([1.0])
    return np.geomspace(max(FEW_CELLS * cell_width, 0.02 * deviation), 3 * deviation, CANDIDATES)


def fold_risks(sums: CellSums, folds: FoldSums, candidates: Floats, degree: int, kernel: str) -> Floats:
    """10-fold risk by users: sum over folds of sum_c Y2 - 2 F Y + F^2 W, F fitted without the fold; (n_candidates,)."""
    held = folds.W > 0
    risks = []
    for bandwidth in candidates:
        fit = fold_fits(sums, folds, float(bandwidth), degree, kernel)
        loss = np.where(held, folds.Y2 - 2 * fit * folds.Y + fit**2 * folds.W, 0.0)
        risks.append(np.inf if np.isnan(loss).any() else loss.sum())
    return np.array(risks)


def fold_fits(sums: CellSums, folds: FoldSums, bandwidth: float, degree: int, kernel: str) -> Floats:
    """The curve at the cells fitted without each user fold, (10, n_cells); nan where nothing can be said.

    It is fitted at points a third of a bandwidth apart and interpolated, all folds at once.
    """
    left = folds_left(sums, folds)
    used = np.flatnonzero(sums.W > 0)
    points = sums.position[used]
    shape = kernel_named(kernel)
    step = bandwidth / shape.width / 3
    n_points = int(min((points[-1] - points[0]) / step + 2, len(used)))
    if n_points < len(used):
        points = np.linspace(points[0], points[-1], n_points)
    u = (sums.position[None, :] - points[:, None]) / bandwidth
    fits = local_fits(shape.shape(u), u, left[0], left[1], degree)
    if n_points < len(used):
        return np.array([np.interp(sums.position, points, fit) for fit in fits])
    found = np.full(folds.W.shape, np.nan)
    found[:, used] = fits
    return found


def folds_left(sums: CellSums, folds: FoldSums) -> tuple[Floats, Floats]:
    """Weight and outcome without each fold, (10, n_cells); what a difference of equal sums leaves is rounding."""
    weight = sums.W - folds.W
    gone = weight <= 1e-12 * sums.W
    return np.where(gone, 0.0, weight), np.where(gone, 0.0, sums.Y - folds.Y)


def residual_risks(
    tally: Tally, group: Any, candidates: Floats, weighting: str = "user", degree: int = 1, kernel: str = "gaussian"
) -> Floats:
    """RSS_h + 2 trace(l_h R0), R0 the residual pair matrix of one pilot fit for all h; (n_candidates,).

    With R at the same h both terms vanish as h does, and the smallest h would always win.
    """
    sums = tally.sums(group, weighting)
    pairs = tally.pair_matrices(group, group, weighting)
    assert pairs is not None
    cells = np.flatnonzero(sums.W > 0)

    def fitted(bandwidth: float) -> tuple[Floats, Floats]:
        at_cells = smoother(
            points=sums.position,
            positions=sums.position,
            weight=sums.W,
            bandwidth=bandwidth,
            degree=degree,
            kernel=kernel,
            near=False,
        ).matrix
        return at_cells, at_cells @ sums.Y

    users = float(tally.n_users[group])
    _, pilot = fitted(rule_of_thumb(deviation=spread([sums]), users=users, rule="test", kernel=kernel))
    residual = pairs.residual(np.nan_to_num(pilot), np.nan_to_num(pilot))
    risks = []
    for bandwidth in candidates:
        at_cells, fit = fitted(float(bandwidth))
        rss = (sums.Y2 - 2 * fit * sums.Y + fit**2 * sums.W)[cells].sum()
        trace = np.einsum("cd,dc->", at_cells[np.ix_(cells, cells)], residual[np.ix_(cells, cells)])
        risks.append(rss + 2 * trace if np.isfinite(rss) else np.inf)
    return np.array(risks)
