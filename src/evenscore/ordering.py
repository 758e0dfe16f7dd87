"""The ordering test: is there a lower score in one group that stands for a higher outcome than a higher score in another?

This is the second half of the paper's Definition 2. It also judges groups whose scores do not overlap, which equality of curves
passes vacuously.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.errors import require_alpha, require_gap
from evenscore.estimation.bandwidth import choose_bandwidth
from evenscore.estimation.fitted_curves import (
    effective_users,
    own_covariance,
    quantiles,
    residual_covariance,
    smooth_at,
    unsmoothed,
)
from evenscore.estimation.gaps import MIN_EFFECTIVE
from evenscore.estimation.inference import DRAWS, PValue, draw_normal, empirical_p, seeded
from evenscore.estimation.multiplicity import holm
from evenscore.estimation.pairwise import GroupPair, PairwiseTest
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY, join_reasons, largest
from evenscore.tables import json_ready, label_text, number_text, values_of
from evenscore.tallies.tally_state import Tally, require_groups, require_tally
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

    def plot(self, ax: Any = None) -> Any:
        """Draw the share of misordered pairs of people, by pair of groups (needs matplotlib)."""
        from evenscore.report.audit_figures import draw_ordering

        return draw_ordering(self, ax)

    def _heading(self) -> str:
        return "Ordering test"

    def _notes(self) -> list[str]:
        how = (
            "misordered share: of pairs of people, one of each group; near-ties inflate the estimate, at_least does not count them"
        )
        return [*PairwiseTest._notes(self), how]


@dataclass(frozen=True, slots=True)
class _Ends:
    """One group on its own grid: positions, estimates, what the group weighs there, covariance and smoother."""

    position: Floats
    estimate: Floats
    mass: Floats
    covariance: Floats
    matrix: Floats
    fitted: Floats


def ordering_test(
    tally: Tally,
    *,
    alpha: float = 0.05,
    tolerance: float | None = None,
    weighting: str = "user",
    degree: int = 1,
    kernel: str = "gaussian",
    bandwidth: float | str = "band",
    reference: Any = None,
    seed: int = 0,
) -> OrderingTest:
    """Test whether a higher score ever stands for a lower expected outcome across groups.

    For every pair of groups the largest of f_g(s) - f_g'(s') over s < s' is compared with what noise alone would give, each group
    on its own grid, so that the groups' scores need not overlap.

    Parameters
    ----------
    tally
        What ``es.tally`` made.
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
    tally = require_tally(tally, "ordering_test")
    require_alpha(alpha)
    require_groups(tally)
    require_gap("tolerance", tolerance)
    groups = list(tally.groups)
    chosen = list(itertools.combinations(groups, 2))
    if reference is not None:
        fixed = groups[tally.index(reference)]
        chosen = [(group, fixed) for group in groups if group is not fixed]
    ends = {id(group): _ends(tally, group, weighting, degree, kernel, bandwidth) for group in groups}
    pairs = []
    for a, b in chosen:
        one, other = ends[id(a)], ends[id(b)]
        missing = [group for group, found in ((a, one), (b, other)) if found is None]
        if missing or one is None or other is None:
            few = f"{label_text(missing[0])} has nowhere {MIN_EFFECTIVE} effective users"
            pairs.append(OrderingPair(a, b, reason=few))
            continue
        rng = seeded(seed, tally.index(a), tally.index(b))
        pairs.append(_test_pair(tally, a, b, one, other, weighting, alpha, tolerance or 0.0, rng))
    adjusted = holm([pair.p_value for pair in pairs])
    judged = tuple(_judged(pair, float(p), alpha, tolerance) for pair, p in zip(pairs, adjusted, strict=True))
    return OrderingTest(judged, alpha, tolerance, weighting, tally.frame_kind)


def _ends(tally: Tally, group: Any, weighting: str, degree: int, kernel: str, bandwidth: float | str) -> _Ends | None:
    """A group on its own grid of quantiles; None when nowhere enough users are near."""
    sums = tally.sums(group, weighting)
    if tally.n_rows[group] == 0:
        return None
    if unsmoothed(tally.lattice, sums):
        points = sums.position[sums.W > 0]
        mass = sums.W[sums.W > 0]
        h = 1.0
    else:
        points, counts = np.unique(quantiles(tally.lattice, sums.W, LEVELS), return_counts=True)
        mass = counts.astype(np.float64)
        h = choose_bandwidth(tally, [group], bandwidth=bandwidth, weighting=weighting, degree=degree, kernel=kernel)
    smooth = smooth_at(tally.lattice, sums, points, h, degree, kernel)
    pairs = tally.pair_matrices(group, group, weighting)
    assert pairs is not None
    effective = effective_users(smooth.matrix, pairs)
    covariance = own_covariance(smooth, sums.Y, pairs, effective)
    with np.errstate(invalid="ignore"):
        keep = effective >= MIN_EFFECTIVE
    if not keep.any():
        return None
    scaled = smooth.matrix * (effective / (effective - 1))[:, None]
    return _Ends(
        points[keep],
        smooth.curve(sums.Y, sums.tilt)[keep],
        mass[keep] / mass[keep].sum(),
        covariance[np.ix_(keep, keep)],
        scaled[keep],
        (scaled * smooth.local_fit(sums.Y))[keep],
    )


def _test_pair(
    tally: Tally,
    a: Any,
    b: Any,
    one: _Ends,
    other: _Ends,
    weighting: str,
    alpha: float,
    tolerance: float,
    rng: np.random.Generator,
) -> OrderingPair:
    n = len(one.position)
    covariance = np.zeros((n + len(other.position),) * 2)
    covariance[:n, :n], covariance[n:, n:] = one.covariance, other.covariance
    shared = tally.pair_matrices(a, b, weighting)
    if shared is not None:
        block = residual_covariance(shared, one.matrix, one.fitted, other.matrix, other.fitted)
        covariance[:n, n:], covariance[n:, :n] = block, block.T
    noise = draw_normal(covariance, rng, DRAWS)
    below = one.position[:, None] < other.position[None, :]
    above = one.position[:, None] > other.position[None, :]
    sign = below.astype(np.float64) - above  # f_a(s) - f_b(s') counts where s < s', its negative where s > s'
    differences = sign * (one.estimate[:, None] - other.estimate[None, :])
    var = np.diag(covariance)
    variance = var[:n, None] + var[None, n:] - 2 * covariance[:n, n:]
    comparable = (sign != 0) & (variance > 1e-12 * max(float(variance.max()), 1e-300))
    mass = one.mass[:, None] * other.mass[None, :]
    if not comparable.any():
        reason = "there are no two different scores to compare" if not (sign != 0).any() else "the outcomes do not vary"
        return OrderingPair(a, b, reason=reason)
    se = np.sqrt(np.where(comparable, variance, 1.0))
    weights = np.where(comparable, sign / se, 0.0)
    maxima = np.full(DRAWS, -np.inf)
    for i, of_one in enumerate(noise.T[:n]):
        mine = comparable[i]
        if mine.any():
            differs = (of_one - noise.T[n:][mine]) * weights[i, mine, None]
            np.maximum(maxima, differs.max(axis=0), out=maxima)
    excess = np.where(comparable, (differences - tolerance) / se, -np.inf)
    statistic = float(excess.max())
    found = empirical_p(maxima, statistic, lambda z: _bound(z, int(comparable.sum()))) if statistic > 0 else PValue(1.0, "draws")
    critical = float(np.quantile(maxima, 1 - alpha))
    lower, upper = differences - critical * se, differences + critical * se
    ordered = mass[sign != 0].sum()
    place = np.unravel_index(int(np.argmax(excess)), excess.shape)
    low_is_a = bool(below[place])
    scores = tally.lattice.to_score(np.array([one.position[place[0]], other.position[place[1]]]))
    inside = bool((upper[comparable] < tolerance).all()) if tolerance > 0 else False
    return OrderingPair(
        a,
        b,
        p_value=found.value,
        misordered_share=float(mass[(sign != 0) & (differences > 0)].sum() / ordered),
        at_least=float(mass[comparable & (lower > tolerance)].sum() / ordered),
        worst=float(differences[place]),
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


def _judged(pair: OrderingPair, p_adjusted: float, alpha: float, tolerance: float | None) -> OrderingPair:
    if np.isnan(pair.p_value):
        return pair
    names = {id(group): label_text(group) for group in (pair.group_a, pair.group_b)}
    low, high = names[id(pair.low_group)], names[id(pair.high_group)]
    if p_adjusted <= alpha:
        found = (
            f"the expected outcome of {low} at score {number_text(pair.low_score)} is {number_text(pair.worst)} above that of "
            f"{high} at the higher score {number_text(pair.high_score)}; at least {pair.at_least:.1%} of pairs are misordered"
        )
        return replace(pair, p_adjusted=p_adjusted, verdict=DISPARITY, reason=found)
    if pair.verdict == PARITY:
        found = f"for {low} and {high} no misordering beyond {tolerance:g} is compatible with the data"
        return replace(pair, p_adjusted=p_adjusted, reason=found)
    return replace(pair, p_adjusted=p_adjusted, reason=f"no misordering of {low} and {high} is shown")
