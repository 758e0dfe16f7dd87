"""The marginal test: is the bar equally high for everyone? Compares the expected outcomes of people who just get the decision."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.errors import DataError, require_alpha, require_flag, require_gap
from evenscore.estimation.pairwise import Formulation
from evenscore.marginal.boundary import edge_bandwidth, few_scores, fit_edge, mean_edge, side_sums
from evenscore.marginal.cut import ABOVE, Cut, cut_words, make_cuts, outcomes_rise
from evenscore.marginal.marginal_result import MIN_EFFECTIVE, GroupMarginal, MarginalPair, MarginalTest
from evenscore.marginal.other_side import check_other_side
from evenscore.marginal.pairs import Shared, Standing, compare, student
from evenscore.tallies.tally_state import Tally, require_groups, require_tally


@dataclass(frozen=True, slots=True)
class Options:
    """How to test; the same for every pair."""

    alpha: float
    tolerance: float | None
    weighting: str
    degree: int
    kernel: str
    bandwidth: float | str
    seed: int


def marginal_test(
    tally: Tally,
    *,
    threshold: float | Mapping[Any, float],
    positive: str = "above",
    alpha: float = 0.05,
    tolerance: float | None = None,
    reference: Any = None,
    weighting: str = "user",
    degree: int = 1,
    kernel: str = "gaussian",
    bandwidth: float | str = "test",
    seed: int = 0,
    both: bool = True,
) -> MarginalTest:
    """Test whether people at a decision threshold have the same expected outcome in every group.

    Only rows with the positive decision are used, so that outcomes need not be known for the others
    (``es.tally(..., nulls="unlabelled")``).

    Parameters
    ----------
    tally
        What ``es.tally`` made.
    threshold
        The score at which decisions change, or a dict of one for each group; it must be a cell edge of the tally
        (``es.tally(..., cuts=[threshold])``).
    positive
        "above": a score at or above the threshold gets the positive decision; "below": a score below it does.
    tolerance
        A gap that does not matter. The verdict is then "disparity" when a larger one is shown, "parity" when the interval lies
        within, and ``p_value`` tests \\|gap\\| <= tolerance; ``p_equal`` still tests equality.
    reference
        Compare every group with this one only; by default all pairs are compared.
    weighting
        "user": every user counts the same, however many rows; "row": every row does. Both respect users in the variance.
    degree, kernel, bandwidth
        A one-sided local linear fit with one bandwidth for all groups. "test" is twice the rule of thumb 1.06 sd users^-1/5 of the
        positive side; degree=0 is the paper's one-sided Nadaraya-Watson estimate, whose bias is of the order of the bandwidth.
    both
        Also test with the other weighting, and say so when the verdicts differ.
    alpha, seed
        The level, and the seed of the draws behind adjusted p-values; the same seed gives the same result.

    Returns
    -------
    MarginalTest
        A verdict, one row a pair, and ``.by_group`` with each group's outcome at the threshold.

    Examples
    --------
    >>> import evenscore as es
    >>> data = es.simulate(2000, curve={"a": (0, 1), "b": (-1, 1)}).data(seed=1)
    >>> tally = es.tally(data, score="score", outcome="outcome", group="group", user="user", cuts=[0.5])
    >>> test = es.marginal_test(tally, threshold=0.5)
    >>> test.verdict, test.pairs[0].higher
    ('disparity', 'a')
    """
    tally = require_tally(tally, "marginal_test")
    require_alpha(alpha)
    require_flag("both", both)
    require_gap("tolerance", tolerance)
    require_groups(tally)
    cuts = make_cuts(tally, threshold, positive)
    chosen = _pairs(tally, reference)
    options = Options(alpha, tolerance, weighting, degree, kernel, bandwidth, seed)
    rising = outcomes_rise(tally, weighting)
    higher = cuts[0].sign if rising else -cuts[0].sign
    h = _bandwidth(tally, cuts, options)
    standings = _standings(tally, cuts, h, options)
    pairs, adjustment = _compare(tally, standings, chosen, higher, options)
    smoothing: dict[str, Any] = {"degree": degree, "kernel": kernel, "weighting": weighting}
    result = MarginalTest(
        marginals=tuple(_marginal(standing, tally, alpha) for standing in standings),
        pairs=pairs,
        other_side=check_other_side(tally, cuts, higher, bandwidth=h, alpha=alpha, seed=seed, **smoothing),
        thresholds=tuple(cut.threshold for cut in cuts),
        at_scores=tuple(cut.score for cut in cuts),
        where=cut_words(cuts, tally.groups),
        positive=positive,
        rising=rising,
        alpha=alpha,
        tolerance=tolerance,
        bandwidth=np.nan if h is None else h,
        adjustment=adjustment,
        frame_kind=tally.frame_kind,
        **smoothing,
    )
    return replace(result, other=_other(tally, cuts, result, chosen, higher, options)) if both else result


def _pairs(tally: Tally, reference: Any) -> list[tuple[int, int]]:
    """The positions of the groups to compare."""
    if reference is None:
        return list(itertools.combinations(range(len(tally.groups)), 2))
    fixed = tally.index(reference)
    return [(place, fixed) for place in range(len(tally.groups)) if place != fixed]


def _bandwidth(tally: Tally, cuts: Sequence[Cut], options: Options) -> float | None:
    """One for all groups, or None when there are so few scores that the marginal one stands for itself."""
    sides = zip(tally.groups, cuts, strict=True)
    if not any(side_sums(tally, group, options.weighting, cut.inside).W.any() for group, cut in sides):
        other = "below" if cuts[0].positive == ABOVE else "above"
        raise DataError(
            f"no group has a row with a known outcome {cuts[0].words}, the positive side; if decisions are positive on the "
            f"other side, use positive={other!r}"
        )
    if few_scores(tally, options.weighting):
        return None
    return edge_bandwidth(
        tally,
        cuts,
        bandwidth=options.bandwidth,
        weighting=options.weighting,
        degree=options.degree,
        kernel=options.kernel,
    )


def _standings(tally: Tally, cuts: Sequence[Cut], bandwidth: float | None, options: Options) -> list[Standing]:
    return [_standing(tally, group, cut, bandwidth, options) for group, cut in zip(tally.groups, cuts, strict=True)]


def _standing(tally: Tally, group: Any, cut: Cut, bandwidth: float | None, options: Options) -> Standing:
    sums = side_sums(tally, group, options.weighting, cut.inside)
    if not sums.W.any():
        return Standing(group, None, None, 0.0, f"no row with a known outcome {cut.words}, the positive side")
    cells = np.flatnonzero(sums.W > 0)
    pairs = tally.pair_matrices(group, group, options.weighting, cells)
    assert pairs is not None
    edge = fit_edge(cut, sums, pairs, cells, bandwidth=bandwidth, degree=options.degree, kernel=options.kernel)
    average = mean_edge(sums, pairs, cells)
    scatter = float(sums.Y2.sum() / sums.W.sum())
    if edge is None:
        return Standing(group, None, average, scatter, "nobody near the threshold on the positive side")
    reason = ""
    if not edge.effective_users >= MIN_EFFECTIVE:
        few = f"only {edge.effective_users:.1f} effective users at the threshold"
        reason = f"{few}; at least {MIN_EFFECTIVE} are needed to judge it"
    return Standing(group, edge, average, scatter, reason)


def _marginal(standing: Standing, tally: Tally, alpha: float) -> GroupMarginal:
    found: dict[str, float] = {}
    for edge, prefix, name in ((standing.edge, "", "estimate"), (standing.average, "average_", "average")):
        if edge is None:
            continue
        level, se = tally.centre + edge.level, float(np.sqrt(edge.variance()))
        margin = float(student(alpha, np.array([edge.effective_users - 1]))[0]) * se
        low, high = level - margin, level + margin
        if tally.binary:
            low, high = max(low, 0.0), min(high, 1.0)
        found |= {name: level, f"{prefix}se": se, f"{prefix}ci_low": low, f"{prefix}ci_high": high}
    users = 0.0 if standing.edge is None else standing.edge.effective_users
    return GroupMarginal(standing.group, effective_users=users, reason=standing.reason, **found)


def _compare(
    tally: Tally, standings: Sequence[Standing], chosen: list[tuple[int, int]], higher: int, options: Options
) -> tuple[tuple[MarginalPair, ...], str]:
    """The pairs, knowing who is in two groups."""
    shared: Shared = {}
    for i, j in chosen if tally.cross else ():
        found = tally.pair_matrices(tally.groups[i], tally.groups[j], options.weighting)
        if found is not None:
            shared[i, j] = found
    return compare(standings, shared, chosen, higher, alpha=options.alpha, tolerance=options.tolerance, seed=options.seed)


def _other(
    tally: Tally, cuts: Sequence[Cut], result: MarginalTest, chosen: list[tuple[int, int]], higher: int, options: Options
) -> Formulation | None:
    """The same test with the other weighting, in brief; None when every user has one row."""
    if tally.n_rows == tally.n_users:
        return None
    again = replace(options, weighting="row" if options.weighting == "user" else "user")
    standings = _standings(tally, cuts, _bandwidth(tally, cuts, again), again)
    found = replace(result, pairs=_compare(tally, standings, chosen, higher, again)[0], weighting=again.weighting)
    return Formulation(again.weighting, found.p_value, found.max_gap, found.verdict)
