"""The marginal test: is the bar equally high for everyone? Compares the expected outcomes of people who just get the decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import DataError, require_alpha, require_flag, require_gap, require_option
from evenscore.estimation.direction import outcomes_rise
from evenscore.estimation.inference import normal_quantile, tells_spread
from evenscore.estimation.kernels import FEW_CELLS
from evenscore.estimation.pairwise import Formulation, index_pairs
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.spreads import score_error
from evenscore.marginal.bends import Bends
from evenscore.marginal.boundary import ONE_SIDED, Edge, edge_smoothing, few_scores, fit_edge, mean_edge
from evenscore.marginal.cut import ABOVE, Cut, cut_words, make_cuts
from evenscore.marginal.jumps import find_jumps
from evenscore.marginal.levels import Levels
from evenscore.marginal.marginal_result import (
    BOTH_SIDES,
    LABELS,
    MIN_EFFECTIVE,
    POSITIVE_SIDE,
    GroupMarginal,
    MarginalPair,
    MarginalTest,
    OtherLabels,
)
from evenscore.marginal.other_side import check_other_side
from evenscore.marginal.pairs import Pairing, Standing, compare, differences
from evenscore.tallies.tally_state import Tally, require_groups
from evenscore.tallies.view import GroupView
from evenscore.threads import in_one_thread
from evenscore.types import Mask


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
    labels: str = POSITIVE_SIDE,
    both: bool = True,
    **columns: Unpack[DataColumns],
) -> MarginalTest:
    """Test whether people at a decision threshold have the same expected outcome in every group.

    By default only rows with the positive decision are used, so that outcomes need not be known for the others
    (``es.tally(..., nulls="unlabelled")``). Where they are known, the test with both sides is told beside it.

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
        positive side, halved while the bend of one common curve could make a gap; degree=0 is the paper's one-sided
        Nadaraya-Watson estimate, whose bias is of the order of the bandwidth.
    labels
        "positive": outcomes of people with the positive decision alone, which is right also where the decision changes outcomes.
        "both": those on the other side of the threshold as well, for when all are known and the decision cannot change them; it
        finds smaller gaps. Choose before looking: ``.other_labels`` has the result of the other choice, which makes no verdict.
        ``.jumps`` tests whether outcomes jump at the threshold within groups; where one does, "both" is wrong. That none is shown
        does not make "both" right, so that this test does not choose: all but large jumps are mostly missed.
    both
        Also test with the other weighting and the other labels, and say so when the verdicts differ.
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
    require_option("labels", labels, LABELS)
    cuts = [replace(cut, both=labels == BOTH_SIDES) for cut in make_cuts(tally, threshold, positive)]
    base = None if reference is None else tally.index(reference)
    pairing = Pairing(index_pairs(range(len(tally.groups)), base), alpha, tolerance, seed)
    smoothing = Smoothing(degree, kernel, bandwidth)
    rising = outcomes_rise(tally, weighting)
    higher = cuts[0].sign if rising else -cuts[0].sign
    sides = _Sides.at(tally, weighting, cuts)
    settled, standings, bent = _stand(sides, smoothing, pairing)
    pairs, adjustment = _compare(sides, settled, standings, bent, higher, pairing)
    result = MarginalTest(
        marginals=tuple(_marginals(standings, sides, settled, alpha)),
        pairs=pairs,
        other_side=check_other_side(
            sides.views, cuts, higher, None if settled is None else _one_sided(settled, cuts), alpha=alpha, seed=seed
        ),
        labels=labels,
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
    if both and settled is not None and any(view.sums.W[cuts[0].outside].any() for view in sides.views):
        elsewhere = [replace(cut, both=labels != BOTH_SIDES) for cut in cuts]
        one_sided = _one_sided(settled, cuts)
        assert one_sided is not None
        jumps = find_jumps(sides.views, cuts, GroupView.whole(tally, weighting), one_sided, alpha)
        sides = _Sides.at(tally, weighting, elsewhere)
        again = replace(result, pairs=_compare(sides, *_stand(sides, smoothing, pairing), higher, pairing)[0])
        others = OtherLabels.of(again, POSITIVE_SIDE if labels == BOTH_SIDES else BOTH_SIDES)
        result = replace(result, other_labels=others, jumps=jumps)
    if not both or tally.n_rows == tally.n_users:
        return result
    other = "row" if weighting == "user" else "user"
    sides = _Sides.at(tally, other, cuts)
    again = replace(result, pairs=_compare(sides, *_stand(sides, smoothing, pairing), higher, pairing)[0], weighting=other)
    return replace(result, other=Formulation.of(again))


def _one_sided(smoothing: Smoothing, cuts: Sequence[Cut]) -> Smoothing:
    """The bandwidth that a fit of one side has."""
    return smoothing.at(ONE_SIDED * smoothing.h) if cuts[0].both else smoothing


@dataclass(frozen=True, slots=True)
class _Sides:
    """All groups under one weighting with their cuts; everybody: all together on the positive side, on cells that have any."""

    views: list[GroupView]
    cuts: list[Cut]
    everybody: GroupView

    @classmethod
    def at(cls, tally: Tally, weighting: str, cuts: list[Cut]) -> _Sides:
        inside = np.unique(np.concatenate([cut.seen for cut in cuts]))
        whole = GroupView.whole(tally, weighting).only(inside)
        return cls(GroupView.each(tally, weighting), cuts, whole.at(whole.used))


def _settle(smoothing: Smoothing, views: Sequence[GroupView], cuts: Sequence[Cut]) -> Smoothing | None:
    """One bandwidth for all groups, or None when there are so few scores that the marginal one stands for itself."""
    if not any(view.sums.W[cut.seen].any() for view, cut in zip(views, cuts, strict=True)):
        other = "below" if cuts[0].positive == ABOVE else "above"
        raise DataError(
            f"no group has a row with a known outcome {cuts[0].words}, the positive side; if decisions are positive on the "
            f"other side, use positive={other!r}"
        )
    return None if few_scores(views) else edge_smoothing(smoothing, views, cuts)


def _stand(sides: _Sides, smoothing: Smoothing, pairing: Pairing) -> tuple[Smoothing | None, list[Standing], Mask]:
    """Where every group stands, with a bandwidth that is halved while the bend of one common curve could make a gap.

    That is done as long as a pair that it could make still has enough users then. Also gives the pairs in which it still could.
    """
    settled = _settle(smoothing, sides.views, sides.cuts)
    standings, bent = _standings(sides, settled), np.zeros(len(pairing.chosen), dtype=bool)
    if settled is None or settled.degree == 0:  # whose bias is of the order of the bandwidth whatever the curve
        return settled, standings, bent
    while True:
        bent = _bent(sides, standings, settled, pairing)
        narrow = settled.h / 2 < FEW_CELLS * sides.everybody.lattice.cell_width * settled.shape.width
        if not bent.any() or narrow or not isinstance(smoothing.bandwidth, str):
            return settled, standings, bent
        finer = settled.at(settled.h / 2)
        again = _standings(sides, finer)
        if not any(bent[n] and again[i].judged and again[j].judged for n, (i, j) in enumerate(pairing.chosen)):
            return settled, standings, bent
        settled, standings = finer, again


def _bent(sides: _Sides, standings: Sequence[Standing], smoothing: Smoothing, pairing: Pairing) -> Mask:
    """In which pairs the bend of one common curve could make a gap."""
    edges = [standing.judged for standing in standings]
    gaps, judged = differences(edges, pairing.chosen, {})
    if gaps is not None:
        cuts = [cut for cut, edge in zip(sides.cuts, edges, strict=True) if edge is not None]
        bends = Bends.of(gaps.levels.edges, cuts, sides.everybody, smoothing)
        judged[judged] = bends.too_large(gaps)
    return judged


def _standings(sides: _Sides, smoothing: Smoothing | None) -> list[Standing]:
    return [_standing(view, cut, smoothing, sides.everybody) for view, cut in zip(sides.views, sides.cuts, strict=True)]


def _standing(view: GroupView, cut: Cut, smoothing: Smoothing | None, everybody: GroupView) -> Standing:
    side, positive = view.only(cut.seen), view.only(cut.inside)
    if not positive.sums.W.any():
        return Standing(view.label, None, None, 0.0, f"no row with a known outcome {cut.words}, the positive side")
    edge, average = fit_edge(cut, side, smoothing, everybody.only(cut.seen)), mean_edge(positive)
    scatter = float(side.sums.Y2.sum() / side.sums.W.sum())
    if edge is None:
        return Standing(view.label, None, average, scatter, "nobody near the threshold on the positive side")
    reason = view.few
    if not reason and not edge.effective_users >= MIN_EFFECTIVE:
        few = f"only {edge.effective_users:.1f} effective users at the threshold"
        reason = f"{few}; at least {MIN_EFFECTIVE} are needed to judge it"
    return Standing(view.label, edge, average, scatter, reason)


def _marginals(standings: Sequence[Standing], sides: _Sides, smoothing: Smoothing | None, alpha: float) -> Iterator[GroupMarginal]:
    """Every group's outcome at the threshold and average beyond it, each with limits of its own."""
    at_cut = [(standing.edge, cut) for standing, cut in zip(standings, sides.cuts, strict=True)]
    levels = iter(_limits([(edge, cut) for edge, cut in at_cut if edge is not None], sides.everybody, smoothing, alpha))
    beyond = [(standing.average, cut) for standing, cut in zip(standings, sides.cuts, strict=True)]
    averages = iter(_limits([(edge, cut) for edge, cut in beyond if edge is not None], sides.everybody, None, alpha))
    for standing in standings:
        numbers: dict[str, float] = {}
        if standing.edge is not None:
            names = ("estimate", "se", "ci_low", "ci_high")
            numbers |= zip(names, next(levels), strict=True)
            numbers["effective_users"] = standing.edge.effective_users
        if standing.average is not None:
            names = ("average", "average_se", "average_ci_low", "average_ci_high")
            numbers |= zip(names, next(averages), strict=True)
        yield GroupMarginal(standing.group, reason=standing.reason, **numbers)


def _limits(
    edges: Sequence[tuple[Edge, Cut]], everybody: GroupView, smoothing: Smoothing | None, alpha: float
) -> list[list[float]]:
    """Level, standard error and limits of each; nan where nobody can tell how far people differ.

    A bias that is shown, because the curve bends within the bandwidth, is added to the limit on its side.
    """
    if not edges:
        return []
    tally, levels = everybody.tally, Levels.of([edge for edge, _ in edges])
    low, high = levels.side.limits(levels.level, normal_quantile(alpha))
    se = score_error(levels.side, levels.level) if tally.binary else levels.side.law.se
    if smoothing is not None and smoothing.degree > 0:
        bias = Bends.of(levels.edges, [cut for _, cut in edges], everybody, smoothing).biases(levels)
        low, high = low - np.maximum(bias, 0), high + np.maximum(-bias, 0)
        if tally.binary:
            low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
    is_known = tells_spread(levels.effective - 1)
    se, low, high = (np.where(is_known, values, np.nan) for values in (se, low, high))
    return np.array([levels.level + tally.centre, se, low + tally.centre, high + tally.centre]).T.tolist()


def _compare(
    sides: _Sides, smoothing: Smoothing | None, standings: Sequence[Standing], bent: Mask, higher: int, pairing: Pairing
) -> tuple[tuple[MarginalPair, ...], str]:
    """The pairs, knowing who is in two groups."""
    shared = {(i, j): sides.views[i].shared_pairs(sides.views[j]) for i, j in pairing.chosen}
    known = {pair: matrices for pair, matrices in shared.items() if matrices is not None}
    return compare(standings, known, bent, np.nan if smoothing is None else smoothing.h, higher, pairing)
