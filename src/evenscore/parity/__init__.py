"""The parity test: do people with the same score have the same expected outcome, whatever their group?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenscore.errors import OptionError, require_alpha, require_flag, require_gap, require_option
from evenscore.estimation.bandwidth import narrow_words
from evenscore.estimation.comparison import Comparison, Sides, Whole, compare_groups, compare_rest
from evenscore.estimation.fitted_curves import grid_positions, margins
from evenscore.estimation.gaps import (
    Null,
    Process,
    comparison_grid,
    estimate_gap,
    fine_enough,
    gap_values,
    judgeable,
    require_inside,
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
    welch_z,
)
from evenscore.estimation.multiplicity import holm
from evenscore.estimation.pairwise import Formulation
from evenscore.parity.joint import JointDraws
from evenscore.parity.methods import (
    AUTO,
    CORRECTIONS,
    METHODS,
    Evidence,
    corrected,
    detectable_gap,
    draw_statistics,
    family,
    gather,
    p_value,
    parts_of,
)
from evenscore.parity.parity_result import PairTest, ParityTest
from evenscore.parity.reasons import few_users, judged, means_only, too_coarse_words, why_not
from evenscore.parity.regions import find_regions
from evenscore.tallies.tally_state import Tally, require_groups, require_tally
from evenscore.types import Floats, Progress

COMPARISONS = ("pairs", "reference", "rest")
MANY_PAIRS = 100
FEWER_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Options:
    """How to test; the same for every pair."""

    method: str
    alpha: float
    tolerance: float | None
    weighting: str
    degree: int
    kernel: str
    bandwidth: float | str
    grid: Floats | None
    seed: int
    n_pairs: int
    brief: bool = False

    @property
    def draws(self) -> int:
        """Fewer when there are many pairs: their joint adjustment needs fewer of each."""
        return DRAWS if self.n_pairs <= MANY_PAIRS else FEWER_DRAWS

    @property
    def smoothing(self) -> dict[str, Any]:
        """What smoothers take."""
        return {"degree": self.degree, "kernel": self.kernel}


def parity_test(
    tally: Tally,
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
) -> ParityTest:
    """Test whether people with the same score have the same expected outcome in every group.

    Parameters
    ----------
    tally
        What ``es.tally`` made.
    method
        "sup": the largest gap in standard errors along the score. "multiscale": the same on residuals smoothed at h, 2h and 4h.
        "l2": the sum of squared gaps in standard errors. "combined": the smaller p-value of sup and l2, with its own null
        distribution. "cumulative": the largest sum of residuals up to a score. "bonferroni", "holm", "bh": the paper's, point by
        point ("bh" controls the false discovery rate only). "auto" is "combined".
    tolerance
        A gap that does not matter. The verdict is then "disparity" when a larger one is shown, "parity" when the whole
        simultaneous band lies within, and ``p_value`` tests \\|gap\\| <= tolerance; ``p_equal`` still tests equality.
    compare, reference
        "pairs" compares all groups with each other, "reference" each with one group (naming a ``reference`` implies it), "rest"
        each with all others together.
    weighting
        "user": every user counts the same, however many rows; "row": every row does. Both respect users in the variance.
    bandwidth
        "test" (1.06 sd users^-1/5, shared by the two groups), another rule, or a number in units of the scale.
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
    tally = require_tally(tally, "parity_test")
    require_option("method", method, ("auto", *METHODS))
    require_option("compare", compare, COMPARISONS)
    require_alpha(alpha)
    require_gap("tolerance", tolerance)
    require_groups(tally)
    positions = None if grid is None else grid_positions(tally.lattice, grid)
    if positions is not None:
        require_inside(tally, positions)
    chosen = _pairs(tally, compare, reference)
    name = AUTO if method == "auto" else method
    options = Options(name, alpha, tolerance, weighting, degree, kernel, bandwidth, positions, seed, len(chosen))
    pairs, adjustment = _test_all(tally, chosen, options, progress)
    result = ParityTest(
        tuple(pairs), name, alpha, tolerance, weighting, degree, kernel, adjustment, tally.independent, None, tally.frame_kind
    )
    require_flag("both", both)
    if not both or tally.n_rows == tally.n_users:
        return result
    other = replace(options, weighting="row" if weighting == "user" else "user", brief=True)
    again = replace(result, pairs=tuple(_test_all(tally, chosen, other, None)[0]), weighting=other.weighting)
    return replace(result, other=Formulation(other.weighting, again.p_value, again.max_gap, again.verdict))


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
    options = Options(AUTO, 0.05, None, weighting, degree, kernel, bandwidth, None, seed, 1)
    looked = _look(tally, comparison, options)
    if isinstance(looked, str):
        return dict.fromkeys(methods, np.nan)
    parts = parts_of(*methods)
    settings = {"points": looked.points, "bandwidth": looked.bandwidth, **options.smoothing}
    evidence = gather(parts, looked.process, comparison, looked.null, **settings)
    _, statistics = draw_statistics(evidence, seeded(seed), DRAWS)
    return family(methods, evidence, statistics, looked.process.z)


def _pairs(tally: Tally, compare: str, reference: Any) -> list[tuple[Any, Any]]:
    """The groups to compare; None stands for all others."""
    if reference is None:
        if compare == "reference":
            raise OptionError("compare='reference' needs reference=, the group to compare with")
        if compare == "rest":
            return [(group, None) for group in tally.groups] if len(tally.groups) > 2 else [tuple(tally.groups)]
        return list(itertools.combinations(tally.groups, 2))
    position = tally.index(reference)
    return [(group, tally.groups[position]) for i, group in enumerate(tally.groups) if i != position]


def _test_all(
    tally: Tally, chosen: list[tuple[Any, Any]], options: Options, progress: Progress | None
) -> tuple[list[PairTest], str]:
    """Every pair, adjusted for their number, with verdicts."""
    whole = Whole.of(tally, options.weighting) if any(b is None for _, b in chosen) else None
    sides = Sides(tally, tally.groups, options.weighting)
    joint = None
    if options.method not in CORRECTIONS:
        joint = JointDraws(sides, n_pairs=len(chosen), bandwidth=options.bandwidth, seed=options.seed, **options.smoothing)
    tested: dict[int, PairTest] = {}
    for place in sides.tiled(chosen):
        a, b = chosen[place]
        comparison = compare_rest(tally, a, options.weighting, whole) if b is None else sides.compare(a, b)
        tested[place], evidence = _test_pair(tally, comparison, _generator(tally, a, b, options), options)
        if joint is not None and evidence is not None:
            joint.take(comparison, evidence)
        if progress is not None:
            progress(len(tested), len(chosen))
    pairs = [tested[place] for place in range(len(chosen))]
    p_values = np.array([pair.p_value for pair in pairs])
    adjusted, how = (holm(p_values), "Holm's method") if joint is None else joint.adjust(p_values)
    return [judged(pair, float(p), options.alpha, options.tolerance) for pair, p in zip(pairs, adjusted, strict=True)], how


def _generator(tally: Tally, a: Any, b: Any, options: Options) -> np.random.Generator:
    return seeded(options.seed, tally.index(a), tally.index(b) if b is not None else len(tally.groups))


def _test_pair(
    tally: Tally, comparison: Comparison, rng: np.random.Generator, options: Options
) -> tuple[PairTest, Evidence | None]:
    """One comparison, before adjustment; no evidence when it cannot be judged."""
    pair = PairTest(comparison.a.label, comparison.b.label)
    for side in (comparison.a, comparison.b):
        if side.n_rows == 0:
            weightless = " that weigh anything" if tally.columns is not None and tally.columns.weight is not None else ""
            return replace(pair, reason=f"{side.name} has no labelled rows{weightless}"), None
    pair = replace(pair, reason=means_only(tally))
    looked = _look(tally, comparison, options)
    if isinstance(looked, str):
        return replace(pair, reason=looked), None
    h, points, process = looked.bandwidth, looked.points, looked.process
    evidence = gather(parts_of(options.method), process, comparison, looked.null, points=points, bandwidth=h, **options.smoothing)
    noise, statistics = draw_statistics(evidence, rng, options.draws)
    found = _p_value(options.method, process, evidence, statistics)
    band_h = h
    if options.bandwidth == "test":
        band_h = comparison.bandwidth("band", options.degree, options.kernel, tally)
    pair = replace(
        pair,
        p_value=found.value,
        p_equal=found.value,
        p_source=found.source,
        bandwidth=h,
        left_out=looked.left_out,
        too_coarse=looked.too_coarse,
        narrow=narrow_words(tally.lattice, h, options.kernel),
        score=tally.lattice.to_score(points),
    )
    if options.brief and options.tolerance is None:
        return replace(pair, gap=gap_values(comparison, points=points, bandwidth=band_h, **options.smoothing)), evidence
    p_points = _p_points(options.method, process, evidence, noise, rng)
    shown = estimate_gap(comparison, points=points, bandwidth=band_h, **options.smoothing)
    _, margin = margins(shown.covariance, shown.df, options.alpha, rng)
    pair = replace(
        pair,
        gap=shown.values,
        se=shown.se,
        band_low=shown.values - margin,
        band_high=shown.values + margin,
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
    beyond = _beyond_tolerance(shown, options, rng)
    wide = Evidence(_sup_only(evidence, shown), shown.z, correlation(shown.covariance), shown.shift, shown.matrix_a, shown.matrix_b)
    return replace(pair, p_value=beyond.value, p_source=beyond.source), wide


@dataclass(frozen=True, slots=True)
class _Look:
    """Where a pair can be judged, and the gap there with the null imposed."""

    bandwidth: float
    points: Floats
    null: Null
    process: Process
    left_out: int
    too_coarse: int


def _look(tally: Tally, comparison: Comparison, options: Options) -> _Look | str:
    """The gap at the points that can be judged, or the reason why there are none."""
    h = comparison.bandwidth(options.bandwidth, options.degree, options.kernel, tally)
    points, reason = (options.grid, None) if options.grid is not None else comparison_grid(comparison, h)
    assert points is not None
    if reason is not None:
        return few_users(comparison) or reason
    null = Null.of(comparison, h, options.degree, options.kernel)
    process = estimate_gap(comparison, points=points, bandwidth=h, null=null, **options.smoothing)
    able = judgeable(process, comparison)
    if not able.any():
        return why_not(comparison, process)
    keep = able & fine_enough(comparison, process, points=points, bandwidth=h, kernel=options.kernel)
    if not keep.any():
        return too_coarse_words(tally, h, options.kernel)
    return _Look(h, points[keep], null, process.at(keep), int((~able).sum()), int((able & ~keep).sum()))


def _p_value(method: str, process: Process, evidence: Evidence, statistics: Floats) -> PValue:
    """The p-value of the pair."""
    if method in CORRECTIONS:
        return PValue(float(corrected(method, process.z).min()), "normal")
    return p_value(evidence, statistics)


def _p_points(method: str, process: Process, evidence: Evidence, noise: Floats, rng: np.random.Generator) -> Floats:
    """The p-values of the points, adjusted for looking at all of them."""
    if method in CORRECTIONS:
        return corrected(method, process.z)
    corr = correlation(process.covariance)
    drawn = [noise[:, part.columns] for part in evidence.parts if part.name in ("sup", "l2")]
    maxima = np.abs(drawn[0] if drawn else draw_normal(corr, rng, len(noise))).max(axis=1)
    return empirical_p_values(maxima, np.abs(process.z), lambda x: sup_tail(x, corr))


def _beyond_tolerance(shown: Process, options: Options, rng: np.random.Generator) -> PValue:
    """P-value of |gap| <= tolerance: the largest excess in standard errors, by the same draws a simultaneous band rests on."""
    assert options.tolerance is not None
    corr = correlation(shown.covariance)
    excess = welch_z((np.abs(shown.values) - options.tolerance) / shown.se, shown.df).max()
    maxima = np.abs(draw_normal(corr, rng, options.draws)).max(axis=1)
    if excess <= 0:
        return PValue(1.0, "draws")
    return empirical_p(maxima, float(excess), lambda x: sup_tail(x, corr))


def _sup_only(evidence: Evidence, shown: Process) -> tuple[Any, ...]:
    corr = correlation(shown.covariance)
    return (
        replace(
            evidence.parts[0],
            name="sup",
            columns=slice(0, len(shown.values)),
            value=lambda z: np.abs(z).max(axis=-1),
            tail=lambda x: sup_tail(x, corr),
        ),
    )
