"""What a pair shows: where along the score, its verdict and why, or what stands in the way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenscore.estimation.bandwidth import finer_words, narrow_words
from evenscore.estimation.comparison import Comparison
from evenscore.estimation.gaps import MIN_EFFECTIVE, Look, Process, enough_users, skewed_words
from evenscore.estimation.pairwise import not_shown
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY
from evenscore.parity.parity_result import PairTest, Region
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.view import GroupView
from evenscore.types import Floats, Mask
from evenscore.wording import figures


def judge(pair: PairTest, p_adjusted: float, alpha: float, tolerance: float | None) -> PairTest:
    """The pair with its verdict and why."""
    if not pair.judged:
        return pair
    if p_adjusted <= alpha:
        shown = f"the gap is {figures(pair.max_gap, sign='+')} at score {figures(pair.at_score)}"
        if not pair.regions:
            shown += ", though no single score shows one by itself"
        return replace(pair, p_adjusted=p_adjusted, verdict=DISPARITY, reason=join(pair.reason, shown))
    low, high = pair.interval
    inside = tolerance is not None and bool((pair.band_low > -tolerance).all() and (pair.band_high < tolerance).all())
    if inside:
        where = f"at score {figures(low)}" if low == high else f"for scores from {figures(low)} to {figures(high)}"
        shown = f"{where} the gap of {pair.name} is within {tolerance:g}"
        return replace(pair, p_adjusted=p_adjusted, verdict=PARITY, reason=join(pair.reason, shown))
    shown = not_shown(pair.minimum_detectable_gap, tolerance)
    # The band is the pair's own; among many pairs some band excludes 0 by chance, and then no gap is shown there.
    return replace(pair, p_adjusted=p_adjusted, verdict=INCONCLUSIVE, reason=join(pair.reason, shown), regions=())


def join(*reasons: str) -> str:
    """Reasons in one sentence."""
    return "; ".join(filter(None, reasons))


def few_users(comparison: Comparison) -> str | None:
    """That a side has too few users, if so."""
    for side in comparison.sides:
        if side.few:
            return side.few
        if side.n_users < MIN_EFFECTIVE:
            counted = "1 user" if side.n_users == 1 else f"{side.n_users} users"
            return f"{side.name} has only {counted}; at least {MIN_EFFECTIVE} are needed at a score to judge it"
    return None


def why_not(comparison: Comparison, process: Process) -> str:
    """Why no score can be judged."""
    few = few_users(comparison)
    if few is not None:
        return few
    if enough_users(process).any():
        return "the outcomes do not vary: all are equal, so there is nothing to compare"
    a, b = comparison.a, comparison.b
    return (
        f"at no score do both {a.name} and {b.name} have {MIN_EFFECTIVE} effective users "
        f"({a.n_users:,} and {b.n_users:,} users in all)"
    )


def rare_words(comparison: Comparison, process: Process, points: Floats, skewed: Mask) -> str:
    """Where an estimate is too skewed to be judged, and whose; empty when it is nowhere."""
    if not skewed.any():
        return ""
    thirds = [np.abs(law.law.third[skewed]).sum() for law in (process.side_a, process.side_b)]
    side = comparison.sides[int(np.argmax(thirds))]
    return skewed_words(side, points[skewed], float(comparison.outcome.sum() / comparison.weight.sum()), len(points))


def too_coarse_words(tally: Tally, smoothing: Smoothing) -> str:
    """Why every score is left out: cells, or a bend, could make the gap."""
    if not narrow_words(tally.lattice, smoothing):
        bent = f"the curve bends so much within the bandwidth {smoothing.h:.3g} that it could make all of the gap"
        return f"{bent}; more users are needed"
    remedy = "release with a smaller min_users" if tally.released else finer_words(tally.lattice)
    return f"the {tally.lattice.n_cells} cells are too coarse: how the two differ inside them could make all of the gap; {remedy}"


def means_only(tally: Tally) -> str:
    """That there is nothing to smooth, if so."""
    return "the score is constant, so the groups' mean outcomes are compared" if tally.lattice.n_cells == 1 else ""


def find_regions(pair: PairTest, look: Look, tolerance: float) -> tuple[Region, ...]:
    """Runs of points whose simultaneous band excludes 0 (or the tolerance), with the share of each side's users in them."""
    sign = np.where(pair.band_low > tolerance, 1, np.where(pair.band_high < -tolerance, -1, 0))
    ends = np.flatnonzero(np.diff(sign)) + 1
    (a, b), points = look.comparison.sides, look.points
    regions = []
    for start, end in zip([0, *ends], [*ends, len(sign)], strict=True):
        if start == end or sign[start] == 0:
            continue
        peak = start + int(np.argmax(np.abs(pair.gap[start:end])))
        low, high = float(points[start]), float(points[end - 1])
        regions.append(
            Region(
                score_low=float(pair.score[start]),
                score_high=float(pair.score[end - 1]),
                gap=float(pair.gap[peak]),
                low=float(pair.band_low[peak]),
                high=float(pair.band_high[peak]),
                at_score=float(pair.score[peak]),
                share_a=_share(a, low, high),
                share_b=_share(b, low, high),
            )
        )
    return tuple(regions)


def _share(side: GroupView, low: float, high: float) -> float:
    """The share of a side's weight between two positions; mass inside a cell is spread evenly."""
    weight, lattice = side.lattice_weight, side.lattice
    if lattice.discrete:
        position = lattice.positions(np.zeros(len(weight)))
        inside = (position >= low - 1e-12) & (position <= high + 1e-12)
        return float(weight[inside].sum() / weight.sum())
    cumulative, edges = np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum(), lattice.axis_edges
    if lattice.ties is not None:  # from the lower end of a cell in which all have one score to its upper end
        low, high = (_tie_limits(lattice, place)[end] for end, place in enumerate((low, high)))
    return float(np.interp(high, edges, cumulative) - np.interp(low, edges, cumulative))


def _tie_limits(lattice: Lattice, place: float) -> tuple[float, float]:
    """The ends of the tied cell that a place is in on the axis; the place itself twice in any other cell."""
    assert lattice.ties is not None
    for cell in np.flatnonzero(np.isfinite(lattice.ties)):
        low, high = lattice.axis_edges[cell : cell + 2]
        if low <= place <= high and place == lattice.snap(np.array([place]))[0]:
            return float(low), float(high)
    return place, place
