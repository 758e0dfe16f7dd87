"""The marginal test: is the bar equally high for everyone? Compares the expected outcomes of people who just get the decision."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenscore.beyond import check_other_side
from evenscore.boundary import Edge, edge_bandwidth, few_scores, fit_edge, mean_edge, shared_covariance, side_sums
from evenscore.cut import ABOVE, Cut, cut_words, make_cuts, outcomes_rise
from evenscore.errors import DataError, require_alpha, require_gap
from evenscore.gaps import ROUNDING, welch_df
from evenscore.inference import DRAWS, RESOLVED, draw_normal, welch_t, welch_z
from evenscore.joint import FEWEST_DRAWS, MOST_DRAWN
from evenscore.marginal_result import MIN_EFFECTIVE, GroupMarginal, MarginalPair, MarginalTest, why
from evenscore.methods import POWER
from evenscore.multiplicity import holm, single_step
from evenscore.pairs import PairMatrices
from evenscore.parity_result import Formulation
from evenscore.tables import label_text
from evenscore.tally import Tally, require_groups, require_tally
from evenscore.verdict import DISPARITY, INCONCLUSIVE, PARITY

Floats = NDArray[np.float64]


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


@dataclass(frozen=True, slots=True)
class Standing:
    """One group at the cut: the outcome there and the average beyond it, or why there is none; scatter: mean squared outcome."""

    group: Any
    edge: Edge | None
    average: Edge | None
    scatter: float
    reason: str = ""

    @property
    def judged(self) -> Edge | None:
        """The outcome at the cut when enough users are there."""
        return None if self.reason else self.edge


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
    pairs = tally.pair_matrices(group, group, options.weighting)
    assert pairs is not None
    edge = fit_edge(cut, sums, pairs, bandwidth=bandwidth, degree=options.degree, kernel=options.kernel)
    average = mean_edge(sums, pairs)
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
        margin = _quantile(alpha, edge.effective_users - 1) * se
        low, high = level - margin, level + margin
        if tally.binary:
            low, high = max(low, 0.0), min(high, 1.0)
        found |= {name: level, f"{prefix}se": se, f"{prefix}ci_low": low, f"{prefix}ci_high": high}
    users = 0.0 if standing.edge is None else standing.edge.effective_users
    return GroupMarginal(standing.group, effective_users=users, reason=standing.reason, **found)


def _quantile(alpha: float, df: float) -> float:
    """The two-sided Student quantile; nan without degrees of freedom."""
    from scipy import special

    return float(welch_t(np.array([special.ndtri(1 - alpha / 2)]), np.array([df]))[0]) if df > 0 else np.nan


# Pairs


@dataclass(frozen=True, slots=True)
class _Gap:
    """A difference of two levels: its size, its variance around own fits and with a common level imposed, and df of each."""

    size: float
    variance: float
    df: float
    null_variance: float
    null_df: float


def _gap(a: Edge, b: Edge, shared: PairMatrices | None) -> _Gap:
    """The difference a - b. Under the null both have the level of their mean, weighted by effective users, and own slopes."""
    total = a.effective_users + b.effective_users
    level = (a.effective_users * float(a.coefficients[0]) + b.effective_users * float(b.coefficients[0])) / total
    found = []
    for imposed in (None, level):
        var_a, var_b = a.variance(imposed), b.variance(imposed)
        cross = 0.0 if shared is None else shared_covariance(shared, a, b, imposed)
        df = welch_df(*(np.array([value]) for value in (var_a, a.effective_users - 1, var_b, b.effective_users - 1)))
        found += [max(var_a + var_b - 2 * cross, 0.0), float(df[0])]
    return _Gap(a.level - b.level, *found)


def _p_equal(gap: _Gap) -> float:
    from scipy import special

    z = welch_z(np.array([gap.size / np.sqrt(gap.null_variance)]), np.array([gap.null_df]))
    return float(2 * special.ndtr(-np.abs(z))[0])


def _compare(
    tally: Tally, standings: Sequence[Standing], chosen: list[tuple[int, int]], higher: int, options: Options
) -> tuple[tuple[MarginalPair, ...], str]:
    """Every pair, adjusted for their number, with verdicts."""
    shared = {}
    if tally.cross:
        for i, j in chosen:
            found = tally.pair_matrices(tally.groups[i], tally.groups[j], options.weighting)
            if found is not None:
                shared[i, j] = found
    tested = [_test_pair(standings[i], standings[j], shared.get((i, j)), higher, len(chosen), options) for i, j in chosen]
    p_values = np.array([pair.p_value for pair in tested])
    adjusted, how = _adjusted(standings, chosen, shared, p_values, options.seed)
    judged = [_judged(pair, float(p), options) for pair, p in zip(tested, adjusted, strict=True)]
    return tuple(judged), how


def _test_pair(
    one: Standing, two: Standing, shared: PairMatrices | None, higher: int, n_pairs: int, options: Options
) -> MarginalPair:
    """One pair before adjustment; no p-value when it cannot be judged."""
    from scipy import special

    pair = MarginalPair(one.group, two.group)
    if one.average is not None and two.average is not None:
        averages = _gap(one.average, two.average, shared)
        p_average = _p_equal(averages) if averages.null_variance > 0 else np.nan
        pair = replace(pair, average_gap=averages.size, p_average=p_average)
    a, b = one.judged, two.judged
    if a is None or b is None:
        reasons = [f"{label_text(side.group)}: {side.reason}" for side in (one, two) if side.reason]
        return replace(pair, reason="; ".join(reasons))
    gap = _gap(a, b, shared)
    pair = replace(pair, gap=gap.size, higher=one.group if gap.size * higher > 0 else two.group)
    rounding = ROUNDING * (one.scatter / a.effective_users + two.scatter / b.effective_users)
    if not min(gap.null_variance, gap.variance) > rounding:
        return replace(pair, reason="the outcomes at the threshold do not vary, so there is nothing to compare")
    se = float(np.sqrt(gap.variance))
    margin = _quantile(options.alpha, gap.df) * se
    p_equal = _p_equal(gap)
    p_value = p_equal
    if options.tolerance is not None:
        excess = welch_z(np.array([(abs(gap.size) - options.tolerance) / se]), np.array([gap.df]))[0]
        p_value = float(2 * special.ndtr(-excess)) if excess > 0 else 1.0
    detectable = _quantile(options.alpha / n_pairs, gap.null_df) + float(special.ndtri(POWER))
    return replace(
        pair,
        se=se,
        ci_low=gap.size - margin,
        ci_high=gap.size + margin,
        p_value=p_value,
        p_equal=p_equal,
        minimum_detectable_gap=detectable * float(np.sqrt(gap.null_variance)) + (options.tolerance or 0.0),
    )


def _adjusted(
    standings: Sequence[Standing],
    chosen: list[tuple[int, int]],
    shared: dict[tuple[int, int], PairMatrices],
    p_values: Floats,
    seed: int,
) -> tuple[Floats, str]:
    """Single-step adjusted p-values from joint draws of all groups' levels, as pairs share groups; nan stays."""
    from scipy import special

    judged = np.isfinite(p_values)
    if judged.sum() < 2:
        return p_values, "nothing, there is one pair"
    covariance = np.zeros((len(standings), len(standings)))
    for place, standing in enumerate(standings):
        if standing.judged is not None:
            covariance[place, place] = standing.judged.variance()
    for (i, j), pairs in shared.items():
        a, b = standings[i].judged, standings[j].judged
        if a is not None and b is not None:
            covariance[i, j] = covariance[j, i] = shared_covariance(pairs, a, b)
    n_draws = int(np.clip(MOST_DRAWN // len(chosen), FEWEST_DRAWS, DRAWS))
    noise = draw_normal(covariance, np.random.default_rng([seed, 11]), n_draws)
    largest = np.zeros(n_draws)
    for (i, j), known in zip(chosen, judged, strict=True):
        if known:
            se = np.sqrt(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])
            np.maximum(largest, np.abs(noise[:, i] - noise[:, j]) / se, out=largest)
    adjusted = holm(p_values)
    adjusted[judged], complete = single_step(p_values[judged], 2 * special.ndtr(-largest), RESOLVED)
    how = "joint draws of all groups"
    return adjusted, how if complete else how + ", far tails by Holm's method"


def _judged(pair: MarginalPair, p_adjusted: float, options: Options) -> MarginalPair:
    """The pair with its verdict and why."""
    if np.isnan(pair.p_value):
        return pair
    verdict = INCONCLUSIVE
    if p_adjusted <= options.alpha:
        verdict = DISPARITY
    elif options.tolerance is not None and -options.tolerance < pair.ci_low and pair.ci_high < options.tolerance:
        verdict = PARITY
    pair = replace(pair, p_adjusted=p_adjusted, verdict=verdict)
    names = [label_text(group) for group in (pair.group_a, pair.group_b)]
    words = (names[0], names[1]) if pair.higher is pair.group_a else (names[1], names[0])
    return replace(pair, reason=why(pair, options.tolerance, words))


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
