"""The marginal test: is the bar equally high for everyone? Compares the expected outcomes of people who just get the decision."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import DataError, require_alpha, require_flag, require_gap
from evenscore.estimation.pairwise import Formulation
from evenscore.estimation.smoothing import Smoothing
from evenscore.marginal.boundary import edge_smoothing, few_scores, fit_edge, mean_edge
from evenscore.marginal.cut import ABOVE, Cut, cut_words, make_cuts, outcomes_rise
from evenscore.marginal.marginal_result import MIN_EFFECTIVE, GroupMarginal, MarginalPair, MarginalTest
from evenscore.marginal.other_side import check_other_side
from evenscore.marginal.pairs import Pairing, Shared, Standing, compare, student
from evenscore.tallies.tally_state import Tally, require_groups
from evenscore.tallies.view import GroupView
from evenscore.threads import in_one_thread


@in_one_thread
def marginal_test(
    tally: Any,
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
    **columns: Unpack[DataColumns],
) -> MarginalTest:
    """Test whether people at a decision threshold have the same expected outcome in every group.

    Only rows with the positive decision are used, so that outcomes need not be known for the others
    (``es.tally(..., nulls="unlabelled")``).

    Parameters
    ----------
    tally
        What ``es.tally`` made, also as the path of a saved one; or data.
    columns
        With data: ``score=``, ``outcome=``, ``group=``, ``user=`` and what else ``es.tally`` takes.
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
    tally = as_tally(tally, columns, call="marginal_test", threshold=threshold)
    require_alpha(alpha)
    require_flag("both", both)
    require_gap("tolerance", tolerance)
    require_groups(tally)
    cuts = make_cuts(tally, threshold, positive)
    pairing = Pairing(_pairs(tally, reference), alpha, tolerance, seed)
    smoothing = Smoothing(degree, kernel, bandwidth)
    rising = outcomes_rise(tally, weighting)
    higher = cuts[0].sign if rising else -cuts[0].sign
    views = GroupView.each(tally, weighting)
    settled = _settle(smoothing, views, cuts)
    standings = [_standing(view, cut, settled) for view, cut in zip(views, cuts, strict=True)]
    pairs, adjustment = _compare(views, standings, higher, pairing)
    result = MarginalTest(
        marginals=tuple(_marginal(standing, tally, alpha) for standing in standings),
        pairs=pairs,
        other_side=check_other_side(views, cuts, higher, settled, alpha=alpha, seed=seed),
        thresholds=tuple(cut.threshold for cut in cuts),
        at_scores=tuple(cut.score for cut in cuts),
        where=cut_words(cuts, tally.groups),
        positive=positive,
        rising=rising,
        alpha=alpha,
        tolerance=tolerance,
        weighting=weighting,
        degree=degree,
        kernel=kernel,
        bandwidth=np.nan if settled is None else settled.h,
        adjustment=adjustment,
        frame_kind=tally.frame_kind,
    )
    if not both or tally.n_rows == tally.n_users:
        return result
    other = "row" if weighting == "user" else "user"
    views = GroupView.each(tally, other)
    settled = _settle(smoothing, views, cuts)
    standings = [_standing(view, cut, settled) for view, cut in zip(views, cuts, strict=True)]
    again = replace(result, pairs=_compare(views, standings, higher, pairing)[0], weighting=other)
    return replace(result, other=Formulation(other, again.p_value, again.max_gap, again.verdict))


def _pairs(tally: Tally, reference: Any) -> list[tuple[int, int]]:
    """The positions of the groups to compare."""
    if reference is None:
        return list(itertools.combinations(range(len(tally.groups)), 2))
    fixed = tally.index(reference)
    return [(index, fixed) for index in range(len(tally.groups)) if index != fixed]


def _settle(smoothing: Smoothing, views: Sequence[GroupView], cuts: Sequence[Cut]) -> Smoothing | None:
    """One bandwidth for all groups, or None when there are so few scores that the marginal one stands for itself."""
    if not any(view.sums.W[cut.inside].any() for view, cut in zip(views, cuts, strict=True)):
        other = "below" if cuts[0].positive == ABOVE else "above"
        raise DataError(
            f"no group has a row with a known outcome {cuts[0].words}, the positive side; if decisions are positive on the "
            f"other side, use positive={other!r}"
        )
    return None if few_scores(views) else edge_smoothing(smoothing, views, cuts)


def _standing(view: GroupView, cut: Cut, smoothing: Smoothing | None) -> Standing:
    side = view.only(cut.inside)
    if not side.sums.W.any():
        return Standing(view.label, None, None, 0.0, f"no row with a known outcome {cut.words}, the positive side")
    edge, average = fit_edge(cut, side, smoothing), mean_edge(side)
    scatter = float(side.sums.Y2.sum() / side.sums.W.sum())
    if edge is None:
        return Standing(view.label, None, average, scatter, "nobody near the threshold on the positive side")
    reason = ""
    if not edge.effective_users >= MIN_EFFECTIVE:
        few = f"only {edge.effective_users:.1f} effective users at the threshold"
        reason = f"{few}; at least {MIN_EFFECTIVE} are needed to judge it"
    return Standing(view.label, edge, average, scatter, reason)


def _marginal(standing: Standing, tally: Tally, alpha: float) -> GroupMarginal:
    levels: dict[str, float] = {}
    for edge, prefix, name in ((standing.edge, "", "estimate"), (standing.average, "average_", "average")):
        if edge is None:
            continue
        level, se = tally.centre + edge.level, float(np.sqrt(edge.variance()))
        margin = float(student(alpha, np.array([edge.effective_users - 1]))[0]) * se
        low, high = level - margin, level + margin
        if tally.binary:
            low, high = max(low, 0.0), min(high, 1.0)
        levels |= {name: level, f"{prefix}se": se, f"{prefix}ci_low": low, f"{prefix}ci_high": high}
    users = 0.0 if standing.edge is None else standing.edge.effective_users
    return GroupMarginal(standing.group, effective_users=users, reason=standing.reason, **levels)


def _compare(
    views: Sequence[GroupView], standings: Sequence[Standing], higher: int, pairing: Pairing
) -> tuple[tuple[MarginalPair, ...], str]:
    """The pairs, knowing who is in two groups."""
    shared: Shared = {}
    for i, j in pairing.chosen:
        pairs = views[i].shared_pairs(views[j])
        if pairs is not None:
            shared[i, j] = pairs
    return compare(standings, shared, higher, pairing)
