"""The parity test: do people with the same score have the same expected outcome, whatever their group?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import OptionError, require_alpha, require_flag, require_gap, require_option
from evenscore.estimation.comparison import Sides, compare_groups
from evenscore.estimation.fitted_curves import grid_positions
from evenscore.estimation.grids import require_inside
from evenscore.estimation.inference import DRAWS, CommonNormals
from evenscore.estimation.pairwise import Formulation, index_pairs
from evenscore.estimation.smoothing import Smoothing
from evenscore.parity.methods import AUTO, METHODS, components_of, draw, family, gather
from evenscore.parity.pair_tests import Options, gaps_under_null, judge_pairs, look_at
from evenscore.parity.parity_result import ParityTest
from evenscore.tallies.tally_state import Tally, require_groups
from evenscore.threads import in_one_thread
from evenscore.types import Progress

COMPARISONS = ("pairs", "reference", "rest")


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
    in_parts = None if progress is None else _in_parts(progress, 1 + again)
    pairs, adjustment = judge_pairs(Sides(tally, weighting), chosen, options, in_parts)
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
    pairs, _ = judge_pairs(Sides(tally, other), chosen, replace(options, brief=True), in_parts)
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
    shares = components_of(*methods)
    (gap,) = gaps_under_null([look_at(comparison.joined(smoothing.h), smoothing)], shares)
    if isinstance(gap, str):
        return dict.fromkeys(methods, np.nan)
    (evidence,) = gather(shares, [gap.judged])
    return family(methods, draw(evidence, CommonNormals(seed), DRAWS), gap.process.z)


def chosen_pairs(tally: Tally, compare: str, reference: Any) -> list[tuple[int, int | None]]:
    """The positions of the groups to compare; None stands for all others."""
    every = range(len(tally.groups))
    if reference is not None:
        return list(index_pairs(every, tally.index(reference)))
    if compare == "reference":
        raise OptionError("compare='reference' needs reference=, the group to compare with")
    if compare == "rest" and len(every) > 2:
        return [(index, None) for index in every]
    return list(index_pairs(every, None))
