"""A sweep over weights: for which blends does the same score mean the same in every group?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.errors import OptionError, require_alpha, require_count, require_gap, shortened
from evenscore.estimation.multiplicity import holm
from evenscore.estimation.verdict import DISPARITY, INCONCLUSIVE, PARITY, combine, smallest
from evenscore.multiobjective.calibrator import check_weights
from evenscore.multiobjective.rows import JointRows, observe_jointly
from evenscore.multiobjective.versions import composite_target, tally_of, versions_of
from evenscore.parity import parity_test
from evenscore.parity.parity_result import ParityTest
from evenscore.tables import Table, json_ready, p_text
from evenscore.types import Floats, Progress, Say

MOST_WEIGHTS = 1000


@dataclass(frozen=True, slots=True)
class Blend:
    """One version of the scores with one set of weights. p_adjusted: for the number of weights, within the version."""

    version: str
    weights: tuple[float, ...]
    test: ParityTest
    p_adjusted: float
    verdict: str


@dataclass(frozen=True, slots=True, repr=False)
class WeightSweep(Table):
    """The result of ``es.sweep_weights``: a parity test for every version of the scores and every set of weights."""

    blends: tuple[Blend, ...]
    outcomes: tuple[str, ...]
    alpha: float
    tolerance: float | None
    frame_kind: str | None = None

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions of the scores: "before", then the calibrators."""
        return tuple(dict.fromkeys(blend.version for blend in self.blends))

    def of(self, version: str) -> tuple[Blend, ...]:
        """The blends of one version, in the order of the weights."""
        found = tuple(blend for blend in self.blends if isinstance(version, str) and blend.version == version)
        if not found:
            raise OptionError(f"no version {shortened(version)}; there are {', '.join(map(repr, self.versions))}")
        return found

    @property
    def null(self) -> str:
        """What is tested, in words."""
        return f"for each of {len(self.of(self.versions[-1]))} sets of weights, {self.blends[-1].test.null}"

    @property
    def p_value(self) -> float:
        """Of the last version: the smallest p-value, adjusted for the number of weights."""
        return smallest(blend.p_adjusted for blend in self.of(self.versions[-1]))

    @property
    def verdict(self) -> str:
        """Of the last version: "disparity" when any blend shows one, "parity" when all lie within the tolerance."""
        return self.verdict_of(self.versions[-1])

    def verdict_of(self, version: str) -> str:
        """The verdict of one version over all weights."""
        return combine(blend.verdict for blend in self.of(version))

    @property
    def reason(self) -> str:
        """Which versions fail, and for how many weights."""
        parts = []
        for version in self.versions:
            mine = self.of(version)
            failing = [blend for blend in mine if blend.verdict == DISPARITY]
            worst = max(mine, key=lambda blend: np.nan_to_num(abs(blend.test.max_gap)))
            where = f", gap up to {worst.test.max_gap:+.3g} at weights {_weights_text(worst.weights)}"
            parts.append(f"{version}: a gap is shown for {len(failing)} of {len(mine)} weights{where}")
        return "; ".join(parts)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each version and set of weights."""
        return [
            {"version": blend.version}
            | {f"w_{name}": weight for name, weight in zip(self.outcomes, blend.weights, strict=True)}
            | {
                "p_value": blend.test.p_value,
                "p_adjusted": blend.p_adjusted,
                "max_gap": blend.test.max_gap,
                "verdict": blend.verdict,
            }
            for blend in self.blends
        ]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        names = ("null", "alpha", "tolerance", "p_value", "verdict", "reason")
        return {name: json_ready(getattr(self, name)) for name in names} | {"rows": json_ready(self.rows())}

    def _title(self) -> str:
        last = self.versions[-1]
        return f"Weight sweep ({last}): {self.verdict}, p = {p_text(self.p_value)} over {len(self.of(last))} sets of weights"

    def _notes(self) -> list[str]:
        notes = [f"null: {self.null}", *self.reason.split("; "), "p adjusted for the number of weights by Holm's method"]
        if len(self.versions) > 1:
            notes.append("calibrators are judged on the users given here: they should not be the ones they were fitted on")
        return notes


def sweep_weights(
    data: Any,
    *,
    scores: Sequence[Any],
    outcomes: Sequence[Any],
    group: Any,
    user: Any,
    weights: Any = None,
    steps: int | None = None,
    calibrators: Any = None,
    weight: Any = None,
    nulls: str = "unlabelled",
    split: str | None = None,
    alpha: float = 0.05,
    tolerance: float | None = None,
    method: str = "auto",
    seed: int = 0,
    progress: Progress | None = None,
    say: Say | None = None,
) -> WeightSweep:
    """Test predictive parity of the blended score for many weights, before and after calibration.

    Parameters
    ----------
    data, scores, outcomes, group, user, weight, nulls, split
        As for ``es.calibrate_jointly``; users on whom the calibrators were not fitted.
    weights, steps
        A list of weights to try. By default all that are at least 0 and add up to 1 in this many steps (10 for two scores, 5 for
        three, fewer for more).
    calibrators
        What ``es.calibrate_jointly`` made, or a dict of names and calibrators; a list with one ``es.calibrate`` made for each score
        stands for calibrating one by one.
    alpha, tolerance, method, seed
        As for ``es.parity_test``.
    progress
        Called with (tests done, tests in all).
    say
        Called with words of progress now and then.

    Returns
    -------
    WeightSweep
        A parity test for every version of the scores and every set of weights.
    """
    require_alpha(alpha)
    require_gap("tolerance", tolerance)
    rows = observe_jointly(
        data, scores=scores, outcomes=outcomes, group=group, user=user, weight=weight, nulls=nulls, split=split, say=say
    )
    chosen = _chosen(rows, weights, steps)
    versions = versions_of(rows, calibrators)
    options: dict[str, Any] = {"alpha": alpha, "tolerance": tolerance, "method": method, "seed": seed}
    blends: list[Blend] = []
    total = len(chosen) * len(versions)
    for version, values in versions.items():
        tests = []
        for each in chosen:
            tests.append(parity_test(tally_of(rows, values, composite_target(rows, each)), both=False, **options))
            if progress is not None:
                progress(len(blends) + len(tests), total)
        adjusted = holm(np.array([test.p_value for test in tests]))
        for each, test, p in zip(chosen, tests, adjusted, strict=True):
            blends.append(Blend(version, tuple(each.tolist()), test, float(p), adjusted_verdict(test, float(p), alpha)))
    return WeightSweep(tuple(blends), rows.columns.outcomes, alpha, tolerance, rows.frame)


def adjusted_verdict(test: ParityTest, p_adjusted: float, alpha: float) -> str:
    """The verdict of one test among several: a disparity must survive the adjustment."""
    if test.verdict == PARITY:
        return PARITY
    return DISPARITY if p_adjusted <= alpha else INCONCLUSIVE


def simplex(k: int, steps: int) -> list[Floats]:
    """All k weights that are multiples of 1 / steps, at least 0, and add up to 1.

    >>> [weights.tolist() for weights in simplex(2, 2)]
    [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]
    """
    found = []
    for bars in itertools.combinations(range(steps + k - 1), k - 1):
        counts = np.diff([-1, *bars, steps + k - 1]) - 1
        found.append(counts / steps)
    return found


def _chosen(rows: JointRows, weights: Any, steps: int | None) -> list[Floats]:
    k = rows.n_objectives
    if weights is not None:
        if steps is not None:
            raise OptionError("give either weights or steps, not both")
        if not (isinstance(weights, Sequence) or np.ndim(weights)) or len(weights) == 0:
            raise OptionError(f"weights={shortened(weights)} must be a list of weights to try, each with {k} numbers")
        return [check_weights(each, rows.columns.scores, rows.columns.outcomes) for each in weights]
    fewest = {1: 1, 2: 10, 3: 5, 4: 3}.get(k, 2)
    cut = require_count("steps", fewest if steps is None else steps, high=10**6)
    n_sets = math.comb(cut + k - 1, k - 1)
    if n_sets > MOST_WEIGHTS:
        raise OptionError(f"steps={steps} makes {n_sets:,} sets of weights, more than {MOST_WEIGHTS:,}; take fewer steps")
    return simplex(k, cut)


def _weights_text(weights: Sequence[float]) -> str:
    return ", ".join(f"{weight:.3g}" for weight in weights)
