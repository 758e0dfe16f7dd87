"""The ordering test: is there a lower score in one group that stands for a higher outcome than a higher score in another?

This is the second half of the paper's Definition 2. It also judges groups whose scores do not overlap, which equality of curves
passes vacuously.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import require_alpha, require_gap
from evenscore.estimation.bandwidth import settle
from evenscore.estimation.fitted_curves import own_covariance
from evenscore.estimation.gaps import MIN_EFFECTIVE
from evenscore.estimation.inference import DRAWS, PValue, draw_normal, empirical_p, seeded, small_sample
from evenscore.estimation.multiplicity import holm
from evenscore.estimation.pairwise import GroupPair, PairwiseTest
from evenscore.estimation.smoothing import Smoothing, unsmoothed
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY, join_reasons, largest
from evenscore.tables import json_ready, label_text, number_text, values_of
from evenscore.tallies.tally_state import Tally, require_groups
from evenscore.tallies.view import GroupView, residual_covariance
from evenscore.threads import in_one_thread
from evenscore.types import Floats

LEVELS = np.linspace(0.05, 0.95, 24)
UNSHOWN = "no misordering is shown"


@dataclass(frozen=True, slots=True)
class OrderingPair(GroupPair):
    """Two groups: whether a lower score of one goes with a higher outcome than a higher score of the other.

    misordered_share: estimated share of pairs of people, one of each group, that the score orders wrongly; at_least: its lower
    limit, the share of pairs whose simultaneous lower limit is above the tolerance. worst: the largest misordering, f(low_score) in
    low_group minus f(high_score) in high_group.
    """

    group_a: Any
    group_b: Any
    p_value: float = np.nan
    p_adjusted: float = np.nan
    misordered_share: float = np.nan
    at_least: float = np.nan
    worst: float = np.nan
    low_group: Any = None
    low_score: float = np.nan
    high_group: Any = None
    high_score: float = np.nan
    verdict: str = INCONCLUSIVE
    reason: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class OrderingTest(PairwiseTest):
    """The result of ``es.ordering_test``. A row has the misordered_share of pairs of people, and its lower limit at_least."""

    COLUMNS = ("group_a", "group_b", "p_value", "p_adjusted", "misordered_share", "at_least", "worst", "verdict")

    pairs: tuple[OrderingPair, ...]
    alpha: float
    tolerance: float | None
    weighting: str
    frame_kind: str | None = None

    @property
    def null(self) -> str:
        """What is tested, in words."""
        slack = "" if self.tolerance is None else f" by more than {self.tolerance:g}"
        return f"a higher score never stands for a lower expected outcome{slack}, whichever groups the two people are from"

    @property
    def misordered_share(self) -> float:
        """The largest estimated share of misordered pairs of people."""
        return largest(pair.misordered_share for pair in self.pairs)

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        undecided = [pair for pair in self.pairs if pair.verdict == INCONCLUSIVE]
        if self.verdict == INCONCLUSIVE and len(undecided) > 1:
            return "; ".join(dict.fromkeys(UNSHOWN if pair.judged else pair.reason for pair in undecided))
        return join_reasons(self.pairs, self.verdict)

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        names = ("null", "alpha", "tolerance", "weighting", "p_value", "misordered_share", "verdict", "reason")
        return json_ready(values_of(self, names) | {"pairs": [values_of(pair) for pair in self.pairs]})

    def _heading(self) -> str:
        return "Ordering test"

    def _notes(self) -> list[str]:
        how = (
            "misordered share: of pairs of people, one of each group; near-ties inflate the estimate, at_least does not count them"
        )
        return [*PairwiseTest._notes(self), how]


@dataclass(frozen=True, slots=True)
class _Grid:
    """A group on a grid of its own: positions, estimates, what the group weighs there, covariance and smoother."""

    view: GroupView
    position: Floats
    estimate: Floats
    mass: Floats
    covariance: Floats
    matrix: Floats
    fitted: Floats


@in_one_thread
def ordering_test(
    tally: Any,
    *,
    alpha: float = 0.05,
    tolerance: float | None = None,
    weighting: str = "user",
    degree: int = 1,
    kernel: str = "gaussian",
    bandwidth: float | str = "band",
    reference: Any = None,
    seed: int = 0,
    **columns: Unpack[DataColumns],
) -> OrderingTest:
    """Test whether a higher score ever stands for a lower expected outcome across groups.

    For every pair of groups the largest of f_g(s) - f_g'(s') over s < s' is compared with what noise alone would give, each group
    on its own grid, so that the groups' scores need not overlap.

    Parameters
    ----------
    tally
        What ``es.tally`` made, also as the path of a saved one; or data.
    columns
        With data: ``score=``, ``outcome=``, ``group=``, ``user=`` and what else ``es.tally`` takes.
    tolerance
        How much misordering does not matter. With it the verdict is "parity" when the simultaneous limits rule out more.
    reference
        Compare every group with this one only; by default all pairs are compared.
    weighting, degree, kernel, bandwidth
        As for ``es.curves``.
    alpha, seed
        The level, and the seed of the draws behind p-values; the same seed gives the same result.

    Returns
    -------
    OrderingTest
        A verdict, and for each pair of groups the share of pairs of people that the score orders wrongly.

    Examples
    --------
    >>> import evenscore as es
    >>> data = es.simulate(1000, curve={"a": (0, 1), "b": (-0.5, 1)}).data(seed=1)
    >>> test = es.ordering_test(es.tally(data, score="score", outcome="outcome", group="group", user="user"))
    >>> test.verdict, test.pairs[0].low_group  # a lower score of this group stands for more than a higher one of the other
    ('disparity', 'a')
    """
    tally = as_tally(tally, columns, call="ordering_test")
    require_alpha(alpha)
    require_groups(tally)
    require_gap("tolerance", tolerance)
    smoothing = Smoothing(degree, kernel, bandwidth)
    grids = [_own_grid(view, smoothing) for view in GroupView.each(tally, weighting)]
    chosen = list(itertools.combinations(range(len(grids)), 2))
    if reference is not None:
        fixed = tally.index(reference)
        chosen = [(index, fixed) for index in range(len(grids)) if index != fixed]
    pairs = [_test_pair(tally, (i, j), grids, alpha, tolerance or 0.0, seeded(seed, i, j)) for i, j in chosen]
    adjusted = holm([pair.p_value for pair in pairs])
    judged = tuple(_judge(pair, float(p), alpha, tolerance) for pair, p in zip(pairs, adjusted, strict=True))
    return OrderingTest(judged, alpha, tolerance, weighting, tally.frame_kind)


def _own_grid(view: GroupView, smoothing: Smoothing) -> _Grid | None:
    """A group at quantiles of its scores; None when nowhere enough users are near."""
    sums = view.sums
    if view.n_rows == 0:
        return None
    if unsmoothed(view.lattice, sums):
        points, mass = sums.position[sums.W > 0], sums.W[sums.W > 0]
    else:
        points, counts = np.unique(view.quantiles(LEVELS), return_counts=True)
        mass = counts.astype(np.float64)
        smoothing = settle(smoothing, [view])
    smooth = smoothing.smoother(view, points)
    effective = view.effective_users(smooth.matrix)
    covariance = own_covariance(view, smooth, effective)
    with np.errstate(invalid="ignore"):
        keep = effective >= MIN_EFFECTIVE
    if not keep.any():
        return None
    scaled = smooth.matrix * small_sample(effective)[:, None]
    return _Grid(
        view=view,
        position=points[keep],
        estimate=smooth.curve(sums.Y, sums.tilt)[keep],
        mass=mass[keep] / mass[keep].sum(),
        covariance=covariance[np.ix_(keep, keep)],
        matrix=scaled[keep],
        fitted=(scaled * smooth.local_fit(sums.Y))[keep],
    )


def _test_pair(
    tally: Tally, pair: tuple[int, int], grids: list[_Grid | None], alpha: float, tolerance: float, rng: np.random.Generator
) -> OrderingPair:
    """One pair of groups, before adjustment."""
    a, b = (tally.groups[index] for index in pair)
    first, second = (grids[index] for index in pair)
    if first is None or second is None:
        few = label_text(a if first is None else b)
        return OrderingPair(a, b, reason=f"{few} has nowhere {MIN_EFFECTIVE} effective users")
    n = len(first.position)
    covariance = np.zeros((n + len(second.position),) * 2)
    covariance[:n, :n], covariance[n:, n:] = first.covariance, second.covariance
    shared = first.view.shared_pairs(second.view)
    if shared is not None:
        block = residual_covariance(shared, first.matrix, first.fitted, second.matrix, second.fitted)
        covariance[:n, n:], covariance[n:, :n] = block, block.T
    noise = draw_normal(covariance, rng, DRAWS)
    below = first.position[:, None] < second.position[None, :]
    above = first.position[:, None] > second.position[None, :]
    sign = below.astype(np.float64) - above  # f_a(s) - f_b(s') counts where s < s', its negative where s > s'
    differences = sign * (first.estimate[:, None] - second.estimate[None, :])
    var = np.diag(covariance)
    variance = var[:n, None] + var[None, n:] - 2 * covariance[:n, n:]
    comparable = (sign != 0) & (variance > 1e-12 * max(float(variance.max()), 1e-300))
    mass = first.mass[:, None] * second.mass[None, :]
    if not comparable.any():
        reason = "there are no two different scores to compare" if not (sign != 0).any() else "the outcomes do not vary"
        return OrderingPair(a, b, reason=reason)
    se = np.sqrt(np.where(comparable, variance, 1.0))
    weights = np.where(comparable, sign / se, 0.0)
    maxima = np.full(DRAWS, -np.inf)
    for row, of_first in enumerate(noise.T[:n]):
        mine = comparable[row]
        if mine.any():
            differs = (of_first - noise.T[n:][mine]) * weights[row, mine, None]
            np.maximum(maxima, differs.max(axis=0), out=maxima)
    excess = np.where(comparable, (differences - tolerance) / se, -np.inf)
    statistic = float(excess.max())
    p = empirical_p(maxima, statistic, lambda z: _bound(z, int(comparable.sum()))) if statistic > 0 else PValue(1.0, "draws")
    critical = float(np.quantile(maxima, 1 - alpha))
    lower, upper = differences - critical * se, differences + critical * se
    ordered = mass[sign != 0].sum()
    worst = np.unravel_index(int(np.argmax(excess)), excess.shape)
    low_is_a = bool(below[worst])
    scores = tally.lattice.to_score(np.array([first.position[worst[0]], second.position[worst[1]]]))
    inside = bool((upper[comparable] < tolerance).all()) if tolerance > 0 else False
    return OrderingPair(
        a,
        b,
        p_value=p.value,
        misordered_share=float(mass[(sign != 0) & (differences > 0)].sum() / ordered),
        at_least=float(mass[comparable & (lower > tolerance)].sum() / ordered),
        worst=float(differences[worst]),
        low_group=a if low_is_a else b,
        low_score=float(scores[0 if low_is_a else 1]),
        high_group=b if low_is_a else a,
        high_score=float(scores[1 if low_is_a else 0]),
        verdict=PARITY if inside else INCONCLUSIVE,
    )


def _bound(z: float, n: int) -> float:
    """Bonferroni over the comparisons, for the far tail."""
    from scipy import special

    return min(1.0, n * float(special.ndtr(-z)))


def _judge(pair: OrderingPair, p_adjusted: float, alpha: float, tolerance: float | None) -> OrderingPair:
    if np.isnan(pair.p_value):
        return pair
    low, high = label_text(pair.low_group), label_text(pair.high_group)
    if p_adjusted <= alpha:
        reason = (
            f"the expected outcome of {low} at score {number_text(pair.low_score)} is {number_text(pair.worst)} above that of "
            f"{high} at the higher score {number_text(pair.high_score)}; at least {pair.at_least:.1%} of pairs are misordered"
        )
        return replace(pair, p_adjusted=p_adjusted, verdict=DISPARITY, reason=reason)
    if pair.verdict == PARITY:
        reason = f"for {low} and {high} no misordering beyond {tolerance:g} is compatible with the data"
        return replace(pair, p_adjusted=p_adjusted, reason=reason)
    return replace(pair, p_adjusted=p_adjusted, reason=f"no misordering of {low} and {high} is shown")
