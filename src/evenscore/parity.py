"""The parity test: do people with the same score have the same expected outcome, whatever their group?"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenscore.bandwidth import choose_bandwidth
from evenscore.curves import grid_positions, margins, residual_covariance, smooth_at
from evenscore.errors import OptionError, require_alpha, require_option
from evenscore.gaps import (
    MIN_EFFECTIVE,
    Gap,
    enough_users,
    estimate_gap,
    judgeable,
    outcome_square,
    pair_grid,
    require_inside,
)
from evenscore.inference import DRAWS, RESOLVED, correlation, draw_normal, empirical_p, quadratic_tail, sup_tail
from evenscore.multiplicity import holm, min_p
from evenscore.parity_result import POWER, PairTest, ParityTest, not_shown
from evenscore.tables import label_text
from evenscore.tally import Tally, require_groups, require_tally
from evenscore.verdict import DISPARITY, INCONCLUSIVE

Floats = NDArray[np.float64]

METHODS = ("sup", "l2")
AUTO = "sup"
COMPARISONS = ("pairs", "reference")
JOINT_BYTES = 1 << 28

STATISTICS: dict[str, Callable[[Floats], Floats]] = {
    "sup": lambda z: np.abs(z).max(axis=-1),
    "l2": lambda z: (z * z).sum(axis=-1),
}


@dataclass(frozen=True, slots=True)
class Options:
    """How to test; the same for every pair."""

    method: str
    alpha: float
    weighting: str
    degree: int
    kernel: str
    bandwidth: float | str
    grid: Floats | None
    seed: int


def parity_test(
    tally: Tally,
    *,
    method: str = "auto",
    alpha: float = 0.05,
    compare: str = "pairs",
    reference: Any = None,
    weighting: str = "user",
    degree: int = 1,
    kernel: str = "gaussian",
    bandwidth: float | str = "test",
    grid: ArrayLike | None = None,
    seed: int = 0,
) -> ParityTest:
    """Test whether people with the same score have the same expected outcome in every group.

    Parameters
    ----------
    method
        "sup" (the largest gap in standard errors along the score), "l2" (the sum of its squares), or "auto", which is "sup".
    compare, reference
        "pairs" compares all groups with each other, "reference" each with one group; naming a ``reference`` implies the latter.
    weighting
        "user": every user counts the same, however many rows; "row": every row does. Both respect users in the variance.
    bandwidth
        "test" (1.06 sd users^-1/5, shared by the two groups), another rule, or a number in units of the scale.
    grid
        Scores to look at; by default where both groups have people.
    """
    tally = require_tally(tally, "parity_test")
    require_option("method", method, ("auto", *METHODS))
    require_option("compare", compare, COMPARISONS)
    require_alpha(alpha)
    require_groups(tally)
    positions = None if grid is None else grid_positions(tally.lattice, grid)
    if positions is not None:
        require_inside(tally, positions)
    options = Options(AUTO if method == "auto" else method, alpha, weighting, degree, kernel, bandwidth, positions, seed)
    chosen = _pairs(tally, compare, reference)
    tested = [_test_pair(tally, a, b, options, len(chosen)) for a, b in chosen]
    pairs, adjustment = _adjusted(tally, [pair for pair, _ in tested], [gap for _, gap in tested], options)
    return ParityTest(
        tuple(pairs),
        options.method,
        alpha,
        weighting,
        degree,
        kernel,
        adjustment,
        tally.independent,
        tally.frame_kind,
    )


def _pairs(tally: Tally, compare: str, reference: Any) -> list[tuple[Any, Any]]:
    if reference is None:
        if compare == "reference":
            raise OptionError("compare='reference' needs reference=, the group to compare with")
        return list(itertools.combinations(tally.groups, 2))
    position = tally.index(reference)
    return [(group, reference) for i, group in enumerate(tally.groups) if i != position]


def _test_pair(tally: Tally, a: Any, b: Any, options: Options, n_pairs: int) -> tuple[PairTest, Gap | None]:
    """One comparison, before adjustment; the gap process is None when it cannot be judged."""
    empty = [label_text(group) for group in (a, b) if tally.n_rows[group] == 0]
    if empty:
        return PairTest(a, b, reason=f"{empty[0]} has no labelled rows"), None
    settings = {"degree": options.degree, "kernel": options.kernel, "weighting": options.weighting}
    h = choose_bandwidth(tally, (a, b), bandwidth=options.bandwidth, **settings)  # type: ignore[arg-type]
    points, reason = (options.grid, None) if options.grid is not None else pair_grid(tally, a, b, h, options.weighting)
    assert points is not None
    if reason is not None:
        return PairTest(a, b, reason=_few_users(tally, a, b) or reason, bandwidth=h), None
    process = estimate_gap(tally, a, b, points=points, bandwidth=h, impose_null=True, **settings)  # type: ignore[arg-type]
    keep = judgeable(process, outcome_square(tally, (a, b), options.weighting))
    if not keep.any():
        return PairTest(a, b, reason=_why_not(tally, a, b, process), bandwidth=h, left_out=len(points)), None
    process = process.at(keep)
    band_h = h
    if options.bandwidth == "test":
        band_h = choose_bandwidth(tally, (a, b), bandwidth="band", **settings)  # type: ignore[arg-type]
    shown = estimate_gap(tally, a, b, points=points[keep], bandwidth=band_h, impose_null=False, **settings)  # type: ignore[arg-type]
    rng = np.random.default_rng([options.seed, tally.index(a), tally.index(b)])
    _, margin = margins(shown.covariance, shown.df, options.alpha, rng)
    corr = correlation(process.covariance)
    draws = draw_normal(corr, rng)
    statistic = float(STATISTICS[options.method](process.z))
    found = empirical_p(STATISTICS[options.method](draws), statistic, _tail(options.method, corr))
    maxima = STATISTICS["sup"](draws)
    p_points = np.array([empirical_p(maxima, abs(z), _tail("sup", corr)).value for z in process.z])
    return (
        PairTest(
            a,
            b,
            p_value=found.value,
            p_source=found.source,
            statistic=statistic,
            bandwidth=h,
            minimum_detectable_gap=_detectable(draws, process.se, options.method, options.alpha / n_pairs),
            left_out=int((~keep).sum()),
            reason=_means_only(tally, process),
            score=tally.lattice.to_score(process.position),
            gap=shown.gap,
            se=shown.se,
            band_low=shown.gap - margin,
            band_high=shown.gap + margin,
            p_points=p_points,
            effective_a=shown.effective_a,
            effective_b=shown.effective_b,
        ),
        process,
    )


def _tail(method: str, corr: Floats) -> Callable[[float], float]:
    if method == "sup":
        return lambda statistic: sup_tail(statistic, corr)
    return lambda statistic: quadratic_tail(statistic, np.asarray(np.linalg.eigvalsh(corr), dtype=np.float64))


def _detectable(draws: Floats, se: Floats, method: str, alpha: float) -> float:
    """The constant gap found with probability .8, by bisection on the draws."""
    statistic = STATISTICS[method]
    critical = np.quantile(statistic(draws), 1 - alpha)
    few = draws[:2000]
    low, high = 0.0, float(se.min())
    while (statistic(few + high / se) > critical).mean() < POWER:
        high *= 2
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if (statistic(few + middle / se) > critical).mean() < POWER else (low, middle)
    return high


# Reasons


def _few_users(tally: Tally, a: Any, b: Any) -> str | None:
    for group in (a, b):
        users = tally.n_users[group]
        if users < MIN_EFFECTIVE:
            counted = "1 user" if users == 1 else f"{users} users"
            return f"{label_text(group)} has only {counted}; at least {MIN_EFFECTIVE} are needed at a score to judge it"
    return None


def _why_not(tally: Tally, a: Any, b: Any, process: Gap) -> str:
    few = _few_users(tally, a, b)
    if few is not None:
        return few
    if enough_users(process).any():
        return "the outcomes do not vary: all are equal, so there is nothing to compare"
    return (
        f"at no score do both {label_text(a)} and {label_text(b)} have {MIN_EFFECTIVE} effective users "
        f"({tally.n_users[a]:,} and {tally.n_users[b]:,} users in all)"
    )


def _means_only(tally: Tally, process: Gap) -> str:
    if tally.lattice.n_cells == 1:
        return "the score is constant, so the groups' mean outcomes are compared"
    return ""


# Adjustment across pairs


def _adjusted(
    tally: Tally, pairs: list[PairTest], gaps: list[Gap | None], options: Options
) -> tuple[list[PairTest], str]:
    """Adjusted p-values and verdicts, and how they were adjusted."""
    p_values = np.array([pair.p_value for pair in pairs])
    judged = [place for place, gap in enumerate(gaps) if gap is not None]
    adjusted, how = holm(p_values), "Holm's method"
    if len(judged) > 1:
        draws = _joint_draws(tally, [(pairs[place], gaps[place]) for place in judged], options)  # type: ignore[misc]
        if draws is not None:
            adjusted[judged], complete = min_p(p_values[judged], draws, RESOLVED)
            how = "joint draws of all pairs" if complete else "joint draws of all pairs, far tails by Holm's method"
    elif len(judged) == 1:
        how = "nothing: one pair"
    finished = []
    for pair, p_adjusted in zip(pairs, adjusted, strict=True):
        shown = bool(p_adjusted <= options.alpha)
        reason = pair.reason
        if not shown and np.isfinite(p_adjusted):
            reason = _joined(reason, not_shown(pair.minimum_detectable_gap))
        elif shown:
            reason = _joined(reason, f"the gap is {pair.max_gap:+.3g} at score {pair.at_score:.3g}")
        finished.append(replace(pair, p_adjusted=float(p_adjusted), verdict=DISPARITY if shown else INCONCLUSIVE, reason=reason))
    return finished, how


def _joined(*reasons: str) -> str:
    return "; ".join(reason for reason in reasons if reason)


def _joint_draws(tally: Tally, tested: list[tuple[PairTest, Gap]], options: Options) -> Floats | None:
    """Draws of all pairs' statistics together, (draws, n_pairs): a group's noise is the same in each of its pairs.

    None when the covariance would be too large, then Holm's method serves.
    """
    owners: list[Any] = []
    blocks: list[Floats] = []
    for pair, gap in tested:
        owners += [pair.group_a, pair.group_b]
        blocks += [gap.matrix_a, gap.matrix_b]
    sizes = [len(block) for block in blocks]
    total = sum(sizes)
    if 8 * total * DRAWS > JOINT_BYTES:
        return None
    covariance = _stacked_covariance(tally, owners, blocks, options)
    noise = draw_normal(covariance, np.random.default_rng([options.seed, 1 << 20]))
    ends = np.cumsum(sizes)
    pieces = np.split(noise, ends[:-1], axis=1)
    statistics = []
    for place in range(len(tested)):
        difference = pieces[2 * place] - pieces[2 * place + 1]
        statistics.append(STATISTICS[options.method](difference / difference.std(axis=0)))
    return np.stack(statistics, axis=1)


def _stacked_covariance(tally: Tally, owners: list[Any], blocks: list[Floats], options: Options) -> Floats:
    """The covariance of all groups' smoothed noise, block by block; groups without common users are independent."""
    fits = {}
    for group in dict.fromkeys(owners):
        sums = tally.sums(group, options.weighting)
        h = choose_bandwidth(
            tally, [group], bandwidth=options.bandwidth, weighting=options.weighting, degree=options.degree, kernel=options.kernel
        )
        smooth = smooth_at(tally.lattice, sums, sums.position, h, options.degree, options.kernel)
        fits[group] = np.nan_to_num(smooth.matrix @ sums.Y)
    ends = np.cumsum([len(block) for block in blocks])
    covariance = np.zeros((ends[-1], ends[-1]))
    for i, j in itertools.combinations_with_replacement(range(len(blocks)), 2):
        pairs = tally.pair_matrices(owners[i], owners[j], options.weighting)
        if pairs is None:
            continue
        rows, columns = slice(ends[i] - len(blocks[i]), ends[i]), slice(ends[j] - len(blocks[j]), ends[j])
        piece = residual_covariance(pairs, blocks[i], blocks[i] * fits[owners[i]], blocks[j], blocks[j] * fits[owners[j]])
        covariance[rows, columns] = piece
        covariance[columns, rows] = piece.T
    return covariance
