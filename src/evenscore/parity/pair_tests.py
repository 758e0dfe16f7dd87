"""Pairs of groups, tested several at once: what is small for one pair is an array for a batch of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenscore.estimation.bands import ShownGap, bands, shown_gaps
from evenscore.estimation.bandwidth import narrow_words
from evenscore.estimation.comparison import Comparison, Sides
from evenscore.estimation.gaps import Estimates, Judged, Look, Process, estimate, fine_enough, gap_values, judgeable, tame
from evenscore.estimation.grids import comparison_grid
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
from evenscore.estimation.smoothing import Smoothing
from evenscore.parity.joint import JointDraws
from evenscore.parity.judgement import few_users, find_regions, judge, means_only, rare_words, too_coarse_words, why_not
from evenscore.parity.methods import (
    AUTO,
    CORRECTIONS,
    Drawn,
    Evidence,
    components_of,
    correct_points,
    detectable_gaps,
    draw,
    gather,
    kinds_of,
)
from evenscore.parity.parity_result import PairTest
from evenscore.parity.tolerances import ToleranceTest, exceeded_tolerances, largest_gap
from evenscore.types import Floats, Progress

MANY_PAIRS = 20
FEWER_DRAWS = 2000
AT_ONCE = 16  # pairs in a batch: more save little, and keep more draws in memory


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
    order = sides.tile(chosen)
    for start in range(0, len(order), AT_ONCE):
        numbers = order[start : start + AT_ONCE]
        batch = _test_pairs([sides.compare(*chosen[number]) for number in numbers], options)
        for number, tested_pair in zip(numbers, batch, strict=True):
            tested[number] = tested_pair.pair
            if tested_pair.excess is not None:
                excesses[number] = tested_pair.excess
            if joint is not None and tested_pair.evidence is not None and options.tolerance is None:
                joint.take(tested_pair.evidence)
            if at_tolerances is not None and tested_pair.largest is not None:
                at_tolerances.take(tested_pair.largest)
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


def _test_pairs(comparisons: Sequence[Comparison], options: Options) -> list[Tested]:
    """Comparisons before adjustment."""
    looks, bands = zip(*(_look(comparison, options) for comparison in comparisons), strict=True)
    gaps = gaps_under_null(looks, components_of(options.method))
    judged = [(gap, band) for gap, band in zip(gaps, bands, strict=True) if not isinstance(gap, str)]
    tested = iter(_test_gaps([gap for gap, _ in judged], [band for _, band in judged], options) if judged else [])
    return [
        Tested(PairTest(comparison.a.label, comparison.b.label, reason=gap)) if isinstance(gap, str) else next(tested)
        for comparison, gap in zip(comparisons, gaps, strict=True)
    ]


def _look(comparison: Comparison, options: Options) -> tuple[Look | str, Smoothing]:
    """Where a pair is looked at, or why it is not, and how what is shown is smoothed.

    That is less than what is tested: a band needs less bias than a test that imposes the null.
    """
    tally = comparison.a.tally
    for side in comparison.sides:
        if side.n_rows == 0:
            weightless = " that weigh anything" if tally.columns is not None and tally.columns.weight is not None else ""
            return f"{side.name} has no labelled rows{weightless}", options.smoothing
    smoothing = comparison.settle(options.smoothing)
    band = comparison.settle(options.smoothing.at("band")) if options.smoothing.bandwidth == "test" else smoothing
    return look_at(comparison.joined(smoothing.h), smoothing, options.grid), band


def look_at(comparison: Comparison, smoothing: Smoothing, grid: Floats | None = None) -> Look | str:
    """Where both sides have people, or the reason why nowhere; smoothing: with a bandwidth that is a number."""
    points, reason = (grid, None) if grid is not None else comparison_grid(comparison, smoothing.h)
    if reason is not None:
        return few_users(comparison) or reason
    return Look(comparison, points, smoothing, Null.of(comparison, smoothing))


@dataclass(frozen=True, slots=True)
class GapUnderNull:
    """Where a pair can be judged, and the gap there with the null imposed."""

    judged: Judged
    process: Process
    left_out: int
    too_coarse: int
    too_rare: str

    @property
    def look(self) -> Look:
        """How it is looked at there."""
        return self.judged.look


def gaps_under_null(looks: Sequence[Look | str], shares: Mapping[str, float]) -> list[GapUnderNull | str]:
    """For each comparison the gap at the points that can be judged, or the reason why there are none; shares: the components for
    which evidence is to be gathered there."""
    known = [look for look in looks if isinstance(look, Look)]
    estimates = iter(estimate(known, *kinds_of(shares)) if known else [])
    return [look if isinstance(look, str) else _where_judged(look, next(estimates)) for look in looks]


def _where_judged(look: Look, estimates: Estimates) -> GapUnderNull | str:
    process = estimates["gap"]
    able = judgeable(process, look.comparison)
    if not able.any():
        return why_not(look.comparison, process)
    is_tame = tame(process, able)
    rare = rare_words(look.comparison, process, look.points, able & ~is_tame)
    if not is_tame.any():
        return rare
    keep = is_tame & fine_enough(look, process)
    if not keep.any():
        return too_coarse_words(look.comparison.a.tally, look.smoothing)
    judged = Judged(look.at(keep), estimates, keep)
    return GapUnderNull(judged, process.at(keep), int((~able).sum()), int((is_tame & ~keep).sum()), rare)


def _test_gaps(gaps: Sequence[GapUnderNull], widths: Sequence[Smoothing], options: Options) -> list[Tested]:
    """Comparisons that can be judged; widths: how what is shown of each is smoothed."""
    rng, looks = CommonNormals(options.seed), [gap.look for gap in gaps]
    evidence = gather(components_of(options.method), [gap.judged for gap in gaps])
    drawn = [draw(own, rng, options.draws) for own in evidence]
    tested = [Tested(_test_equality(gap, own, options), own.evidence) for gap, own in zip(gaps, drawn, strict=True)]
    looks = [replace(look, smoothing=width) for look, width in zip(looks, widths, strict=True)]
    if options.brief and options.tolerance is None:
        return [replace(own, pair=replace(own.pair, gap=gap_values(look))) for own, look in zip(tested, looks, strict=True)]
    shown = shown_gaps(looks)
    maxima = [own.maxima(rng) for own in shown]
    limits = bands(shown, options.alpha, maxima)
    least = [np.nan] * len(gaps)
    if not options.brief:
        least = list(detectable_gaps(options.method, drawn, options.alpha / options.n_pairs))
    results = []
    for number, (own, gap, part) in enumerate(zip(tested, gaps, shown, strict=True)):
        low, high = limits[number]
        pair = replace(
            own.pair,
            gap=part.values,
            se=part.se,
            band_low=low,
            band_high=high,
            p_points=_p_points(options.method, gap.process, drawn[number], rng),
            effective_a=part.effective_a,
            effective_b=part.effective_b,
            minimum_detectable_gap=float(least[number]),
        )
        if not options.brief:
            pair = replace(pair, regions=find_regions(pair, gap.look, options.tolerance or 0.0))
        chance = maxima[number][: options.draws]
        results.append(_test_tolerance(replace(own, pair=pair), gap, part, chance, options.tolerance))
    return results


def _test_equality(gap: GapUnderNull, drawn: Drawn, options: Options) -> PairTest:
    """What the test of no gap at all says."""
    a, b = gap.look.comparison.sides
    p_equal = _p_value(options.method, gap.process, drawn)
    return PairTest(
        a.label,
        b.label,
        reason=means_only(a.tally),
        p_value=p_equal.value,
        p_equal=p_equal.value,
        p_source=p_equal.source,
        bandwidth=gap.look.smoothing.h,
        left_out=gap.left_out,
        too_coarse=gap.too_coarse,
        too_rare=gap.too_rare,
        narrow=narrow_words(a.lattice, gap.look.smoothing),
        score=a.lattice.to_score(gap.look.points),
    )


def _test_tolerance(tested: Tested, gap: GapUnderNull, shown: ShownGap, maxima: Floats, tolerance: float | None) -> Tested:
    """With what any tolerance needs; with one the p-value is that of a gap beyond it."""
    pair, known = tested.pair, shown.is_known
    if not known.any():
        if tolerance is None:
            return tested
        return Tested(replace(pair, p_value=np.nan, reason=why_not(gap.look.comparison, gap.process)))
    shown = shown.at(known)
    excess = ToleranceTest.of(shown, maxima, pair.p_equal)
    if tolerance is not None:
        beyond = excess.p_value(tolerance)
        pair = replace(pair, p_value=beyond.value, p_source=beyond.source)
    return Tested(pair, tested.evidence, excess, largest_gap(gap.look.comparison, shown))


def _p_value(method: str, process: Process, drawn: Drawn) -> PValue:
    """The p-value of the pair."""
    if method in CORRECTIONS:
        return PValue(float(correct_points(method, process.z).min()), "normal")
    return drawn.p_value


def _p_points(method: str, process: Process, drawn: Drawn, rng: CommonNormals) -> Floats:
    """The p-values of the points, adjusted for looking at all of them."""
    if method in CORRECTIONS:
        return correct_points(method, process.z)
    components = drawn.evidence.components
    for number, component in enumerate(components):
        if component.name == "sup":
            corr = drawn.evidence.corr[component.columns, component.columns]
            return empirical_p_values(drawn.statistics[:, number], np.abs(process.z), SupTail.of(corr))
    corr = correlation(process.covariance)
    noise = [drawn.noise[:, component.columns] for component in components if component.name == "l2"]
    maxima = np.abs(noise[0] if noise else draw_standard(corr, rng, len(drawn.noise))).max(axis=1)
    return empirical_p_values(maxima, np.abs(process.z), SupTail.of(corr))
