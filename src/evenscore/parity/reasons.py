"""The verdict on a pair and why: what is shown, or what stands in the way."""

from __future__ import annotations

from dataclasses import replace

from evenscore.estimation.bandwidth import narrow_words
from evenscore.estimation.comparison import Comparison
from evenscore.estimation.gaps import MIN_EFFECTIVE, Process, enough_users
from evenscore.estimation.pairwise import not_shown
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY
from evenscore.parity.parity_result import PairTest
from evenscore.tallies.tally_state import Tally


def judged(pair: PairTest, p_adjusted: float, alpha: float, tolerance: float | None) -> PairTest:
    """The pair with its verdict and why."""
    if not pair.judged:
        return pair
    if p_adjusted <= alpha:
        found = f"the gap is {pair.max_gap:+.3g} at score {pair.at_score:.3g}"
        if not pair.regions:
            found += ", though no single score shows one by itself"
        return replace(pair, p_adjusted=p_adjusted, verdict=DISPARITY, reason=joined(pair.reason, found))
    low, high = pair.interval
    inside = tolerance is not None and bool((pair.band_low > -tolerance).all() and (pair.band_high < tolerance).all())
    if inside:
        found = f"for scores from {low:.3g} to {high:.3g} the gap of {pair.name} is within {tolerance:g}"
        return replace(pair, p_adjusted=p_adjusted, verdict=PARITY, reason=joined(pair.reason, found))
    found = not_shown(pair.minimum_detectable_gap, tolerance)
    # The band is the pair's own; among many pairs some band excludes 0 by chance, and then no gap is shown there.
    return replace(pair, p_adjusted=p_adjusted, verdict=INCONCLUSIVE, reason=joined(pair.reason, found), regions=())


def joined(*reasons: str) -> str:
    """Reasons in one sentence."""
    return "; ".join(reason for reason in reasons if reason)


def few_users(comparison: Comparison) -> str | None:
    """That a side has too few users, if so."""
    for side in (comparison.a, comparison.b):
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


def too_coarse_words(tally: Tally, bandwidth: float, kernel: str) -> str:
    """Why every score is left out: cells, or a bend, could make the gap."""
    if not narrow_words(tally.lattice, bandwidth, kernel):
        return (
            f"the curve bends so much within the bandwidth {bandwidth:.3g} that it could make all of the gap; more users are needed"
        )
    remedy = "release with a smaller min_users" if tally.released else "tally with more cells"
    return f"the {tally.lattice.n_cells} cells are too coarse: how the two differ inside them could make all of the gap; {remedy}"


def means_only(tally: Tally) -> str:
    """That there is nothing to smooth, if so."""
    return "the score is constant, so the groups' mean outcomes are compared" if tally.lattice.n_cells == 1 else ""
