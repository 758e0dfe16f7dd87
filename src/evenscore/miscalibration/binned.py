"""Calibration errors of bins: the expected calibration error (ECE), its debiased and its label-binned form.

A score whose people straddle the limit of a bin is shared between the bins in proportion, so that bins of equal mass are just
that whatever the ties, and any bins can be laid over the cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from evenscore.errors import OptionError, require_option, shortened
from evenscore.estimation.spreads import effective_users
from evenscore.miscalibration.measure import Measure, norm_name, small_sample_factor, variances
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

Bins = int | str | Sequence[float] | ArrayLike

SPACINGS = ("mass", "width")
EVERY_VALUE = "values"


def binned_error(view: GroupView, *, bins: Bins, spacing: str, power: int) -> Measure:
    """ECE: the mean over bins of |mean outcome - mean score|^p, to the power 1/p."""
    return _share_error(view, bin_shares(view, bins, spacing), norm_name(power))


def debiased_error(view: GroupView, *, bins: Bins, spacing: str, power: int) -> Measure:
    """ECE less the sampling variance of each bin's mean outcome (Kumar, Liang and Ma 2019), here that of users.

    With one row a user it is theirs, mean (1 - mean) / (n - 1). As with them, a bin of a single user counts as no error.
    """
    plain = binned_error(view, bins=bins, spacing=spacing, power=power)
    matrix = plain.matrix
    level = matrix @ view.sums.Y
    effective = view.effective_users(matrix)
    square = variances(view, matrix, matrix * level[:, None])
    single = effective < 2 - 1e-9
    variance = square * effective / np.where(single, 1, effective - 1)
    variance = np.where(single, plain.values(view) ** 2, variance)
    notes = (f"{int(single.sum())} bins with fewer than two users count as no error",) if single.any() else ()
    return replace(plain, variance=variance, notes=notes + plain.notes)


def label_binned_error(view: GroupView, *, bins: Bins, spacing: str, power: int) -> Measure:
    """The mean over people of |mean outcome of the bin - own score|^p, to the power 1/p (the paper's Appendix A, with its 1/n).

    It neither over- nor underestimates the true error in general, and is not 0 for a calibrated score.
    """
    shares = bin_shares(view, bins, spacing)
    plain = _share_error(view, shares, norm_name(power))
    own, cell = np.nonzero(shares.T > 0)[::-1]  # a point for each bin and cell that share people
    matrix = plain.matrix[own]
    mean_score = plain.matrix @ (view.score * view.sums.W)
    level = plain.values(view) + mean_score - view.tally.centre
    fitted = plain.matrix * level[:, None]
    variance = variances(view, plain.matrix, fitted) * small_sample_factor(effective_users(view, plain.matrix)) ** 2
    share = np.zeros((len(own), len(view.sums.W)))
    share[np.arange(len(own)), cell] = shares[own, cell]
    weight = share @ view.sums.W / view.total
    return Measure(
        matrix,
        weight,
        plain.norm,
        fitted[own],
        offset=mean_score[own] - view.score[cell],
        share=share,
        variance=variance[own],
        detail=plain.detail,
        notes=plain.notes,
    )


def _share_error(view: GroupView, shares: Floats, norm: str) -> Measure:
    mass = shares @ view.sums.W
    matrix = shares / mass[:, None]
    fitted = matrix * (view.score - view.tally.centre + (matrix @ view.residual)[:, None])
    notes = _split_note(view, shares)
    return Measure(matrix, mass / view.total, norm, fitted, share=shares, detail={"bins": len(mass)}, notes=notes)


def _split_note(view: GroupView, shares: Floats) -> tuple[str, ...]:
    """How much could be wrong because a bin's limit runs through a cell."""
    cut = (shares > 0).sum(axis=0) > 1
    if view.lattice.discrete or not cut.any():
        return ()
    share = float(view.sums.W[cut].sum() / view.total)
    return (
        f"{share:.2%} of the weight lies in cells that a bin's limit cuts and is shared in proportion; cuts= in es.tally avoids it",
    )


# Which share of each cell falls into each bin


def bin_shares(view: GroupView, bins: Bins, spacing: str) -> Floats:
    """The share of each cell in each bin that has people, (n_bins, n_cells)."""
    require_option("spacing", spacing, SPACINGS)
    if isinstance(bins, str):
        require_option("bins", bins, (EVERY_VALUE,))
        return np.eye(len(view.sums.W))
    if isinstance(bins, int | np.integer) and not isinstance(bins, bool):
        if bins < 1:
            raise OptionError(f"bins={shortened(bins)} must be at least 1")
        if spacing == "mass":
            return _drop_empty(equal_mass_shares(view.sums.W, int(bins)))
        return _drop_empty(width_shares(view, np.linspace(*score_range(view), int(bins) + 1)))
    edges = np.asarray(bins, dtype=np.float64)
    if edges.ndim != 1 or len(edges) < 2 or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise OptionError(
            f"bins={shortened(bins)} must be a number of bins, 'values', or rising limits of bins such as [0, 0.2, 0.5, 1]"
        )
    if edges[0] > view.score.min() or edges[-1] < view.score.max():
        raise OptionError(
            f"the bins run from {edges[0]:g} to {edges[-1]:g}, the scores from {view.score.min():g} to {view.score.max():g}"
        )
    return _drop_empty(width_shares(view, edges))


def _drop_empty(shares: Floats) -> Floats:
    return shares[shares.any(axis=1)]


def score_range(view: GroupView) -> tuple[float, float]:
    """What equal widths divide: [0, 1] when all scores are in it."""
    low, high = view.lattice.low, view.lattice.high
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return min(low, float(view.score.min())), max(high, float(view.score.max()))


def equal_mass_shares(weight: Floats, n_bins: int) -> Floats:
    """The share of each cell in each of n_bins bins of equal weight, (n_bins, n_cells)."""
    upper = np.cumsum(weight)
    lower = upper - weight
    limits = np.linspace(0, upper[-1], n_bins + 1)
    inside = np.minimum(upper, limits[1:, None]) - np.maximum(lower, limits[:-1, None])
    return np.where(inside > 1e-12 * upper[-1], inside, 0.0) / weight


def width_shares(view: GroupView, edges: Floats) -> Floats:
    """The share of each cell in bins [low, high) with these limits, the last closed, (n_bins, n_cells); linear in a cell."""
    low, high = view.lattice.limits(view.cells, view.score)
    width = high - low
    inside = np.minimum(high, edges[1:, None]) - np.maximum(low, edges[:-1, None])
    shares = np.clip(inside, 0, None) / np.where(width > 0, width, 1)
    own = np.clip(np.searchsorted(edges, view.score, side="right") - 1, 0, len(edges) - 2)
    points = np.flatnonzero(width <= 0)
    shares[own[points], points] = 1.0
    return shares / shares.sum(axis=0)
