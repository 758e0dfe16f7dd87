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
from evenscore.estimation.bands import shown_gap
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
    CommonNormals,
    PValue,
    SupTail,
    correlation,
    draw_standard,
    empirical_p_values,
)
from evenscore.estimation.multiplicity import CriticalP, holm
from evenscore.estimation.nulls import Null
from evenscore.estimation.pairwise import Formulation
from evenscore.estimation.smoothing import Smoothing
from evenscore.parity.joint import JointDraws
from evenscore.parity.judgement import few_users, find_regions, judge, means_only, rare_words, too_coarse_words, why_not
from evenscore.parity.methods import (
    AUTO,
    CORRECTIONS,
    METHODS,
    Drawn,
    Evidence,
    components_of,
    correct_points,
    detectable_gap,
    draw,
    family,
    gather,
)
from evenscore.parity.parity_result import PairTest, ParityTest
from evenscore.parity.tolerances import ToleranceTest, exceeded_tolerances, largest_gap
from evenscore.tallies.tally_state import Tally, require_groups
from evenscore.threads import in_one_thread
from evenscore.types import Floats, Progress

COMPARISONS = ("pairs", "reference", "rest")
MANY_PAIRS = 20
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
        Called with (comparisons done, comparisons in all) after each pair; with ``both`` a pair is compared twice.
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
    chosen = chosen_pairs(tally, compare, reference)
    options = Options(
        method=AUTO if method == "auto" else method,
        alpha=alpha,
        tolerance=tolerance,
        smoothing=Smoothing(degree, kernel, bandwidth),
        grid=positions,
        seed=seed,
        n_pairs=len(chosen),
    )
    require_flag("both", both)
    again = both and tally.n_rows != tally.n_users
    told = None if progress is None else _in_parts(progress, 1 + again)
    pairs, adjustment = judge_pairs(Sides(tally, weighting), chosen, options, told)
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
    if not again:
        return result
    other = "row" if weighting == "user" else "user"
    pairs, _ = judge_pairs(Sides(tally, other), chosen, replace(options, brief=True), told)
    return replace(result, other=Formulation.of(replace(result, pairs=tuple(pairs), weighting=other)))


def _in_parts(progress: Progress, n_parts: int) -> Progress:
    """The same for work that is done in several parts of one size, each of which counts its own."""
    finished = itertools.count(1)

    def told(done: int, total: int) -> None:
        del done
        progress(next(finished), n_parts * total)

    return told


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
    smoothing = comparison.settle(Smoothing(degree, kernel, bandwidth))
    comparison = comparison.joined(smoothing.h)
    gap = gap_under_null(comparison, smoothing)
    if isinstance(gap, str):
        return dict.fromkeys(methods, np.nan)
    evidence = gather(components_of(*methods), gap.process, comparison, gap.null, gap.points, gap.smoothing)
    return family(methods, draw(evidence, CommonNormals(seed), DRAWS), gap.process.z)


def chosen_pairs(tally: Tally, compare: str, reference: Any) -> list[tuple[int, int | None]]:
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


def judge_pairs(
    sides: Sides, chosen: list[tuple[int, int | None]], options: Options, progress: Progress | None
) -> tuple[list[PairTest], str]:
    """Every pair, adjusted for their number, with verdicts."""
    joint = at_tolerances = None
    if options.method not in CORRECTIONS:
        joint = JointDraws(sides, options.smoothing, n_pairs=len(chosen), seed=options.seed)
        at_tolerances = joint if options.tolerance is not None else joint.for_other_tests()
    tested: dict[int, PairTest] = {}
    excesses: dict[int, ToleranceTest] = {}
    for number in sides.tile(chosen):
        a, b = chosen[number]
        found = _test_pair(sides.compare(a, b), CommonNormals(options.seed), options)
        tested[number] = found.pair
        if found.excess is not None:
            excesses[number] = found.excess
        if joint is not None and found.evidence is not None and options.tolerance is None:
            joint.take(found.evidence)
        if at_tolerances is not None and found.largest is not None:
            at_tolerances.take(found.largest)
        if progress is not None:
            progress(len(tested), len(chosen))
    critical = CriticalP(options.alpha) if at_tolerances is None else at_tolerances.critical(options.alpha, len(excesses))
    for number, exceeded in zip(excesses, exceeded_tolerances(list(excesses.values()), critical), strict=True):
        tested[number] = replace(tested[number], exceeds=float(exceeded))
    pairs = [tested[number] for number in range(len(chosen))]
    p_values = np.array([pair.p_value for pair in pairs])
    adjusted, how = (holm(p_values), "Holm's method") if joint is None else joint.adjust(p_values)
    return [judge(pair, float(p), options.alpha, options.tolerance) for pair, p in zip(pairs, adjusted, strict=True)], how


@dataclass(frozen=True, slots=True)
class Tested:
    """One pair, before adjustment. evidence: for equality, largest: for a tolerance, what the joint adjustment needs; excess: the
    test of any tolerance; None when the pair cannot be judged."""

    pair: PairTest
    evidence: Evidence | None = None
    excess: ToleranceTest | None = None
    largest: Evidence | None = None


def _test_pair(comparison: Comparison, rng: CommonNormals, options: Options) -> Tested:
    """One comparison, before adjustment."""
    tally, pair = comparison.a.tally, PairTest(comparison.a.label, comparison.b.label)
    for side in comparison.sides:
        if side.n_rows == 0:
            weightless = " that weigh anything" if tally.columns is not None and tally.columns.weight is not None else ""
            return Tested(replace(pair, reason=f"{side.name} has no labelled rows{weightless}"))
    smoothing = comparison.settle(options.smoothing)
    # What is shown is smoothed less than what is tested: a band needs less bias than a test that imposes the null.
    band = comparison.settle(options.smoothing.at("band")) if options.smoothing.bandwidth == "test" else smoothing
    comparison = comparison.joined(smoothing.h)
    gap = gap_under_null(comparison, smoothing, options.grid)
    if isinstance(gap, str):
        return Tested(replace(pair, reason=gap))
    points, process = gap.points, gap.process
    evidence = gather(components_of(options.method), process, comparison, gap.null, points, smoothing)
    drawn = draw(evidence, rng, options.draws)
    p_equal = _p_value(options.method, process, drawn)
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
    if options.brief and options.tolerance is None:
        return Tested(replace(pair, gap=gap_values(comparison, points, band)), evidence)
    p_points = _p_points(options.method, process, drawn, rng)
    shown = shown_gap(comparison, points, band, gap.null)
    maxima = shown.maxima(rng)
    low, high = shown.band(options.alpha, maxima)
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
        least = detectable_gap(options.method, drawn, options.alpha / options.n_pairs)
        regions = find_regions(pair, comparison, points, options.tolerance or 0.0)
        pair = replace(pair, minimum_detectable_gap=least, regions=regions)
    known = shown.is_known
    if not known.any():
        withheld = replace(pair, p_value=np.nan, reason=why_not(comparison, gap.process))
        return Tested(pair, evidence) if options.tolerance is None else Tested(withheld)
    shown = shown.at(known)
    excess = ToleranceTest.of(shown, maxima[: options.draws], p_equal.value)
    if options.tolerance is not None:
        beyond = excess.p_value(options.tolerance)
        pair = replace(pair, p_value=beyond.value, p_source=beyond.source)
    return Tested(pair, evidence, excess, largest_gap(comparison, shown))


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


def gap_under_null(comparison: Comparison, smoothing: Smoothing, grid: Floats | None = None) -> GapUnderNull | str:
    """The gap at the points that can be judged, or the reason why there are none; smoothing: with a bandwidth that is a number."""
    points, reason = (grid, None) if grid is not None else comparison_grid(comparison, smoothing.h)
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


def _p_value(method: str, process: Process, drawn: Drawn) -> PValue:
    """The p-value of the pair."""
    if method in CORRECTIONS:
        return PValue(float(correct_points(method, process.z).min()), "normal")
    return drawn.p_value


def _p_points(method: str, process: Process, drawn: Drawn, rng: CommonNormals) -> Floats:
    """The p-values of the points, adjusted for looking at all of them."""
    if method in CORRECTIONS:
        return correct_points(method, process.z)
    corr, components = correlation(process.covariance), drawn.evidence.components
    noise = [drawn.noise[:, component.columns] for component in components if component.name in ("sup", "l2")]
    maxima = np.abs(noise[0] if noise else draw_standard(corr, rng, len(drawn.noise))).max(axis=1)
    return empirical_p_values(maxima, np.abs(process.z), SupTail.of(corr))
