"""The parity test: do people with the same score have the same expected outcome, whatever their group?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import OptionError, require_alpha, require_flag, require_gap, require_option
from evenscore.estimation.bands import ShownGap, shown_gap
from evenscore.estimation.bandwidth import narrow_words
from evenscore.estimation.comparison import Comparison, Sides, compare_groups
from evenscore.estimation.fitted_curves import grid_positions
from evenscore.estimation.gaps import (
    Process,
    comparison_grid,
    estimate_gap,
    fine_enough,
    gap_values,
    judgeable,
    require_inside,
    tame,
)
from evenscore.estimation.inference import (
    DRAWS,
    PValue,
    correlation,
    draw_normal,
    empirical_p,
    empirical_p_values,
    seeded,
    sup_tail,
)
from evenscore.estimation.multiplicity import holm
from evenscore.estimation.nulls import Null
from evenscore.estimation.pairwise import Formulation
from evenscore.estimation.smoothing import Smoothing
from evenscore.parity.joint import JointDraws
from evenscore.parity.judgement import few_users, find_regions, judge, means_only, rare_words, too_coarse_words, why_not
from evenscore.parity.methods import (
    AUTO,
    CORRECTIONS,
    METHODS,
    Component,
    Evidence,
    components_of,
    correct_points,
    detectable_gap,
    draw_statistics,
    family,
    gather,
    p_value,
)
from evenscore.parity.parity_result import PairTest, ParityTest
from evenscore.tallies.tally_state import Tally, require_groups
from evenscore.threads import in_one_thread
from evenscore.types import Floats, Progress

COMPARISONS = ("pairs", "reference", "rest")
MANY_PAIRS = 100
FEWER_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Options:
    """How to test; the same for every pair."""

    smoothing: Smoothing
    method: str = AUTO
    alpha: float = 0.05
    tolerance: float | None = None
    grid: Floats | None = None
    seed: int = 0
    n_pairs: int = 1
    brief: bool = False

    @property
    def draws(self) -> int:
        """Fewer when there are many pairs: their joint adjustment needs fewer of each."""
        return DRAWS if self.n_pairs <= MANY_PAIRS else FEWER_DRAWS


@in_one_thread
def parity_test(
    tally: Any,
    *,
    method: str = "auto",
    alpha: float = 0.05,
    tolerance: float | None = None,
    compare: str = "pairs",
    reference: Any = None,
    weighting: str = "user",
    degree: int = 1,
    kernel: str = "gaussian",
    bandwidth: float | str = "test",
    grid: ArrayLike | None = None,
    seed: int = 0,
    both: bool = True,
    progress: Progress | None = None,
    **columns: Unpack[DataColumns],
) -> ParityTest:
    """Test whether people with the same score have the same expected outcome in every group.

    Parameters
    ----------
    tally
        What ``es.tally`` made, also as the path of a saved one; or data.
    columns
        With data: ``score=``, ``outcome=``, ``group=``, ``user=`` and what else ``es.tally`` takes.
    method
        "sup": the largest gap in standard errors along the score. "multiscale": the same on residuals smoothed at h, 2h and 4h.
        "l2": the sum of squared gaps in standard errors. "cumulative": the largest sum of residuals up to a score.
        "combined": the smallest p-value of sup, l2 and cumulative, with its own null distribution. "bonferroni", "holm", "bh": the
        paper's, point by point ("bh" controls the false discovery rate only). "auto" is "combined".
    tolerance
        A gap that does not matter. The verdict is then "disparity" when a larger one is shown, "parity" when the whole
        simultaneous band lies within, and ``p_value`` tests \\|gap\\| <= tolerance; ``p_equal`` still tests equality.
    compare, reference
        "pairs" compares all groups with each other, "reference" each with one group (naming a ``reference`` implies it), "rest"
        each with all others together.
    weighting
        "user": every user counts the same, however many rows; "row": every row does. Both respect users in the variance.
    bandwidth
        "test" (0.85 sd users^-1/5, shared by the two groups), another rule, or a number in units of the scale.
    grid
        Scores to look at; by default where both groups have people.
    both
        Also test with the other weighting, and say so when the verdicts differ.
    progress
        Called with (pairs done, pairs in all) now and then.
    degree, kernel
        Of the smoother, as for ``es.curves``.
    alpha, seed
        The level, and the seed of the draws behind p-values and bands; the same seed gives the same result.

    Returns
    -------
    ParityTest
        A verdict with its reason, one row a pair of groups, ``.points`` along the score and ``.regions`` where a gap is
        shown.

    Examples
    --------
    >>> import evenscore as es
    >>> data = es.simulate(1000, curve={"a": (0, 1), "b": (-0.5, 1)}).data(seed=1)
    >>> test = es.parity_test(es.tally(data, score="score", outcome="outcome", group="group", user="user"))
    >>> test.verdict, round(test.max_gap, 2)
    ('disparity', 0.15)
    """
    tally = as_tally(tally, columns, call="parity_test")
    require_option("method", method, ("auto", *METHODS))
    require_option("compare", compare, COMPARISONS)
    require_alpha(alpha)
    require_gap("tolerance", tolerance)
    require_groups(tally)
    positions = None if grid is None else grid_positions(tally.lattice, grid)
    if positions is not None:
        require_inside(tally, positions)
    chosen = _pairs(tally, compare, reference)
    options = Options(
        method=AUTO if method == "auto" else method,
        alpha=alpha,
        tolerance=tolerance,
        smoothing=Smoothing(degree, kernel, bandwidth),
        grid=positions,
        seed=seed,
        n_pairs=len(chosen),
    )
    pairs, adjustment = _test_all(Sides(tally, weighting), chosen, options, progress)
    result = ParityTest(
        pairs=tuple(pairs),
        method=options.method,
        alpha=alpha,
        tolerance=tolerance,
        weighting=weighting,
        degree=degree,
        kernel=kernel,
        adjustment=adjustment,
        independent=tally.independent,
        frame_kind=tally.frame_kind,
    )
    require_flag("both", both)
    if not both or tally.n_rows == tally.n_users:
        return result
    other = "row" if weighting == "user" else "user"
    pairs, _ = _test_all(Sides(tally, other), chosen, replace(options, brief=True), None)
    again = replace(result, pairs=tuple(pairs), weighting=other)
    return replace(result, other=Formulation(other, again.p_value, again.max_gap, again.verdict))


@in_one_thread
def parity_family(
    tally: Tally,
    group_a: Any,
    group_b: Any,
    *,
    weighting: str = "user",
    degree: int = 1,
    kernel: str = "gaussian",
    bandwidth: float | str = "test",
    seed: int = 0,
    methods: Sequence[str] = METHODS,
) -> dict[str, float]:
    """The p-value of each method for one pair, from one set of draws; nan when the pair cannot be judged.

    For studies that compare methods. To judge a pair, choose a method beforehand: the smallest of several p-values is not one.
    """
    comparison = compare_groups(tally, group_a, group_b, weighting)
    gap = _gap_under_null(comparison, Options(smoothing=Smoothing(degree, kernel, bandwidth)))
    if isinstance(gap, str):
        return dict.fromkeys(methods, np.nan)
    evidence = gather(components_of(*methods), gap.process, comparison, gap.null, gap.points, gap.smoothing)
    _, statistics = draw_statistics(evidence, seeded(seed), DRAWS)
    return family(methods, evidence, statistics, gap.process.z)


def _pairs(tally: Tally, compare: str, reference: Any) -> list[tuple[int, int | None]]:
    """The positions of the groups to compare; None stands for all others."""
    every = range(len(tally.groups))
    if reference is not None:
        fixed = tally.index(reference)
        return [(index, fixed) for index in every if index != fixed]
    if compare == "reference":
        raise OptionError("compare='reference' needs reference=, the group to compare with")
    if compare == "rest" and len(every) > 2:
        return [(index, None) for index in every]
    return list(itertools.combinations(every, 2))


def _test_all(
    sides: Sides, chosen: list[tuple[int, int | None]], options: Options, progress: Progress | None
) -> tuple[list[PairTest], str]:
    """Every pair, adjusted for their number, with verdicts."""
    joint = None
    if options.method not in CORRECTIONS:
        joint = JointDraws(sides, options.smoothing, n_pairs=len(chosen), seed=options.seed)
    tested: dict[int, PairTest] = {}
    for number in sides.tile(chosen):
        a, b = chosen[number]
        comparison = sides.compare(a, b)
        rng = seeded(options.seed, a, len(sides.views) if b is None else b)
        tested[number], evidence = _test_pair(comparison, rng, options)
        if joint is not None and evidence is not None:
            joint.take(comparison, evidence)
        if progress is not None:
            progress(len(tested), len(chosen))
    pairs = [tested[number] for number in range(len(chosen))]
    p_values = np.array([pair.p_value for pair in pairs])
    adjusted, how = (holm(p_values), "Holm's method") if joint is None else joint.adjust(p_values)
    return [judge(pair, float(p), options.alpha, options.tolerance) for pair, p in zip(pairs, adjusted, strict=True)], how


def _test_pair(comparison: Comparison, rng: np.random.Generator, options: Options) -> tuple[PairTest, Evidence | None]:
    """One comparison, before adjustment; no evidence when it cannot be judged."""
    tally, pair = comparison.a.tally, PairTest(comparison.a.label, comparison.b.label)
    for side in comparison.sides:
        if side.n_rows == 0:
            weightless = " that weigh anything" if tally.columns is not None and tally.columns.weight is not None else ""
            return replace(pair, reason=f"{side.name} has no labelled rows{weightless}"), None
    gap = _gap_under_null(comparison, options)
    if isinstance(gap, str):
        return replace(pair, reason=gap), None
    points, process, smoothing = gap.points, gap.process, gap.smoothing
    evidence = gather(components_of(options.method), process, comparison, gap.null, points, smoothing)
    noise, statistics = draw_statistics(evidence, rng, options.draws)
    p_equal = _p_value(options.method, process, evidence, statistics)
    pair = replace(
        pair,
        reason=means_only(tally),
        p_value=p_equal.value,
        p_equal=p_equal.value,
        p_source=p_equal.source,
        bandwidth=smoothing.h,
        left_out=gap.left_out,
        too_coarse=gap.too_coarse,
        too_rare=gap.too_rare,
        narrow=narrow_words(tally.lattice, smoothing),
        score=tally.lattice.to_score(points),
    )
    # What is shown is smoothed less than what is tested: a band needs less bias than a test that imposes the null.
    band = comparison.settle(options.smoothing.at("band")) if options.smoothing.bandwidth == "test" else smoothing
    if options.brief and options.tolerance is None:
        return replace(pair, gap=gap_values(comparison, points, band)), evidence
    p_points = _p_points(options.method, process, evidence, noise, rng)
    shown = shown_gap(comparison, points, band, gap.null)
    low, high = shown.band(options.alpha, rng)
    pair = replace(
        pair,
        gap=shown.values,
        se=shown.se,
        band_low=low,
        band_high=high,
        p_points=p_points,
        effective_a=shown.effective_a,
        effective_b=shown.effective_b,
    )
    if not options.brief:
        least = detectable_gap(options.method, evidence, noise, statistics, options.alpha / options.n_pairs)
        regions = find_regions(pair, comparison, points, options.tolerance or 0.0)
        pair = replace(pair, minimum_detectable_gap=least, regions=regions)
    if options.tolerance is None:
        return pair, evidence
    known = shown.is_known
    if not known.any():
        return replace(pair, p_value=np.nan, reason=why_not(comparison, gap.process)), None
    beyond, evidence = _beyond_tolerance(shown.at(known), p_equal.value, options, rng)
    return replace(pair, p_value=beyond.value, p_source=beyond.source), evidence


@dataclass(frozen=True, slots=True)
class GapUnderNull:
    """Where a pair can be judged, and the gap there with the null imposed."""

    smoothing: Smoothing
    points: Floats
    null: Null
    process: Process
    left_out: int
    too_coarse: int
    too_rare: str


def _gap_under_null(comparison: Comparison, options: Options) -> GapUnderNull | str:
    """The gap at the points that can be judged, or the reason why there are none."""
    smoothing = comparison.settle(options.smoothing)
    points, reason = (options.grid, None) if options.grid is not None else comparison_grid(comparison, smoothing.h)
    assert points is not None
    if reason is not None:
        return few_users(comparison) or reason
    null = Null.of(comparison, smoothing)
    process = estimate_gap(comparison, points, smoothing, null)
    able = judgeable(process, comparison)
    if not able.any():
        return why_not(comparison, process)
    told = tame(process, able)
    rare = rare_words(comparison, process, points, able & ~told)
    if not told.any():
        return rare
    keep = told & fine_enough(comparison, process, points, smoothing)
    if not keep.any():
        return too_coarse_words(comparison.a.tally, smoothing)
    left_out, too_coarse = int((~able).sum()), int((told & ~keep).sum())
    return GapUnderNull(smoothing, points[keep], null, process.at(keep), left_out, too_coarse, rare)


def _p_value(method: str, process: Process, evidence: Evidence, statistics: Floats) -> PValue:
    """The p-value of the pair."""
    if method in CORRECTIONS:
        return PValue(float(correct_points(method, process.z).min()), "normal")
    return p_value(evidence, statistics)


def _p_points(method: str, process: Process, evidence: Evidence, noise: Floats, rng: np.random.Generator) -> Floats:
    """The p-values of the points, adjusted for looking at all of them."""
    if method in CORRECTIONS:
        return correct_points(method, process.z)
    corr = correlation(process.covariance)
    drawn = [noise[:, component.columns] for component in evidence.components if component.name in ("sup", "l2")]
    maxima = np.abs(drawn[0] if drawn else draw_normal(corr, rng, len(noise))).max(axis=1)
    return empirical_p_values(maxima, np.abs(process.z), lambda x: sup_tail(x, corr))


def _beyond_tolerance(shown: ShownGap, p_equal: float, options: Options, rng: np.random.Generator) -> tuple[PValue, Evidence]:
    """P-value of |gap| <= tolerance: the largest excess in normal quantiles, by the same draws a simultaneous band rests on.

    It is not below that of no gap at all, which knows the variance of both sides together.
    """
    assert options.tolerance is not None
    corr = shown.corr
    excess = float(shown.excess(options.tolerance).max())
    maxima = np.abs(draw_normal(corr, rng, options.draws)).max(axis=1)
    p = empirical_p(maxima, excess, lambda x: sup_tail(x, corr)) if excess > 0 else PValue(1.0, "draws")
    largest = Component("sup", slice(0, len(shown.values)), lambda z: np.abs(z).max(axis=-1), lambda x: sup_tail(x, corr))
    evidence = Evidence(
        components=(largest,),
        z=shown.values / shown.se,
        corr=corr,
        matrix_a=shown.matrix_a,
        matrix_b=shown.matrix_b,
        se_a=shown.side_a.law.se,
        se_b=shown.side_b.law.se,
    )
    return PValue(max(p.value, p_equal), p.source), evidence
