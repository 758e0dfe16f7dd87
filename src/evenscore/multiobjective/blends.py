"""Blends of scores under test: a score by itself is the blend with weight 1 for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from evenscore.errors import require_alpha, require_gap
from evenscore.estimation.multiplicity import holm
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY, Judgement
from evenscore.multiobjective.versions import Objectives, Target, tally_of
from evenscore.parity import parity_test
from evenscore.parity.parity_result import ParityTest
from evenscore.tables import values_of
from evenscore.wording import p_text


@dataclass(frozen=True, slots=True)
class ParityOptions:
    """How blends are tested, as for ``es.parity_test``; checked when it is made."""

    alpha: float
    tolerance: float | None
    method: str
    seed: int

    def __post_init__(self) -> None:
        require_alpha(self.alpha)
        require_gap("tolerance", self.tolerance)


@dataclass(frozen=True, slots=True)
class Blend(Judgement):
    """One version of the scores with one set of weights. p_adjusted: for the number of blends tested, within the version.

    target: the outcome that it is judged by, or "composite".
    """

    version: str
    target: str
    weights: tuple[float, ...]
    test: ParityTest
    p_adjusted: float = np.nan
    verdict: str = INCONCLUSIVE

    @property
    def reason(self) -> str:
        """Why the verdict is what it is: a gap that is shown by itself need not be among all that were looked at."""
        if self.verdict == INCONCLUSIVE and self.test.verdict == DISPARITY:
            return (
                f"a gap that a test by itself would show (p = {p_text(self.test.p_value)}) is not shown among all that were tested "
                f"(p = {p_text(self.p_adjusted)})"
            )
        return self.test.reason


def judge_blends(
    objectives: Objectives,
    version: str,
    targets: Iterable[Target],
    options: ParityOptions,
    tested: Callable[[], object] | None = None,
) -> tuple[Blend, ...]:
    """A parity test of each target for one version of the scores; a disparity must survive the adjustment for their number.

    tested: called after each test.
    """
    blends = []
    for target in targets:
        counted = tally_of(objectives.rows, objectives.versions[version], target)
        test = parity_test(counted, both=False, **values_of(options))
        blends.append(Blend(version, target.name, tuple(target.weights.tolist()), test))
        if tested is not None:
            tested()
    adjusted = holm(np.array([blend.test.p_value for blend in blends])).tolist()
    return tuple(
        replace(blend, p_adjusted=p, verdict=_adjusted_verdict(blend.test, p, options.alpha))
        for blend, p in zip(blends, adjusted, strict=True)
    )


def _adjusted_verdict(test: ParityTest, p_adjusted: float, alpha: float) -> str:
    if test.verdict == PARITY:
        return PARITY
    return DISPARITY if p_adjusted <= alpha else INCONCLUSIVE
