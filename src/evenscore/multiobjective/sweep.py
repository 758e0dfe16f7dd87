"""A sweep over weights: for which blends does the same score mean the same in every group?"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.errors import OptionError, P, T, renamed, require_count, shortened
from evenscore.estimation.verdict import DISPARITY, VerdictTable, combine
from evenscore.multiobjective.blends import Blend, ParityOptions, judge_blends
from evenscore.multiobjective.calibrator import check_weights
from evenscore.multiobjective.rows import JointRows, ObjectivesSpec
from evenscore.multiobjective.versions import composite_target, read_objectives
from evenscore.tables import json_ready, values_of
from evenscore.threads import in_one_thread
from evenscore.types import Floats, Progress

MOST_WEIGHTS = 1000


@dataclass(frozen=True, slots=True, repr=False)
class WeightSweep(VerdictTable):
    """The result of ``es.sweep_weights``: a parity test for every version of the scores and every set of weights.

    Examples
    --------
    >>> import evenscore as es
    >>> from evenscore.simulation.objectives import feed
    >>> posts = feed(150).data(seed=1)
    >>> columns = dict(scores=["score_like", "score_share"], outcomes=["like", "share"], group="group", user="user")
    >>> sweep = es.sweep_weights(posts, **columns, weights=[[1, 0], [1, 1]])
    >>> sweep.verdict_of("before"), len(sweep.rows())
    ('disparity', 2)
    """

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
        blends = tuple(blend for blend in self.blends if isinstance(version, str) and blend.version == version)
        if not blends:
            raise OptionError(f"no version {shortened(version)}; there are {', '.join(map(repr, self.versions))}")
        return blends

    def _judgements(self) -> tuple[Blend, ...]:
        return self.of(self.versions[-1])

    @property
    def null(self) -> str:
        """What is tested, in words."""
        return f"for each of {len(self._judgements())} sets of weights, {self.blends[-1].test.null}"

    def verdict_of(self, version: str) -> str:
        """The verdict of one version over all weights."""
        return combine(blend.verdict for blend in self.of(version))

    @property
    def reason(self) -> str:
        """Which versions fail, and for how many weights."""
        clauses = []
        for version in self.versions:
            mine = self.of(version)
            failing = [blend for blend in mine if blend.verdict == DISPARITY]
            worst = max(mine, key=lambda blend: np.nan_to_num(abs(blend.test.max_gap)))
            where = f", gap up to {worst.test.max_gap:+.3g} at weights {_weights_text(worst.weights)}"
            clauses.append(f"{version}: a gap is shown for {len(failing)} of {len(mine)} weights{where}")
        return "; ".join(clauses)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each version and set of weights."""
        return [
            {"version": blend.version}
            | {f"w_{name}": weight for name, weight in zip(self.outcomes, blend.weights, strict=True)}
            | {"p_value": blend.test.p_value, "p_adjusted": blend.p_adjusted}
            | {"max_gap": blend.test.max_gap, "verdict": blend.verdict}
            for blend in self.blends
        ]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        names = ("null", "alpha", "tolerance", "p_value", "verdict", "reason")
        return json_ready(values_of(self, names) | {"rows": self.rows()})

    def _heading(self) -> str:
        return f"Weight sweep ({self.versions[-1]})"

    def _title(self) -> str:
        return f"{VerdictTable._title(self)} over {len(self._judgements())} sets of weights"

    def _notes(self) -> list[str]:
        notes = [f"null hypothesis: {self.null}", *self.reason.split("; "), "p adjusted for the number of weights by Holm's method"]
        if len(self.versions) > 1:
            notes.append("calibrators are judged on the users given here: they should not be the ones they were fitted on")
        return notes


def _with_say(function: Callable[P, T]) -> Callable[P, T]:
    """A function that still takes say=, called with words, beside progress=, called with counts."""

    @functools.wraps(function)
    def taking(*args: P.args, **kwargs: P.kwargs) -> T:
        say: Any = kwargs.pop("say", None)
        if say is not None:
            warnings.warn("say= is called progress= now, which gets (tests done, tests in all)", DeprecationWarning, stacklevel=2)
            count: Any = kwargs.get("progress")

            def both(done: int, total: int) -> None:
                say(f"tested {done:,} of {total:,}")
                if count is not None:
                    count(done, total)

            kwargs["progress"] = both
        return function(*args, **kwargs)

    return taking


@_with_say
@renamed(calibrators="calibrator")
@in_one_thread
def sweep_weights(
    data: Any,
    *,
    scores: Sequence[Any],
    outcomes: Sequence[Any],
    group: Any,
    user: Any,
    weights: Any = None,
    steps: int | None = None,
    calibrator: Any = None,
    weight: Any = None,
    nulls: str = "unlabelled",
    split: str | None = None,
    alpha: float = 0.05,
    tolerance: float | None = None,
    method: str = "auto",
    seed: int = 0,
    progress: Progress | None = None,
) -> WeightSweep:
    """Test predictive parity of the blended score for many weights, before and after calibration.

    Parameters
    ----------
    data, scores, outcomes, group, user, weight, nulls, split
        As for ``es.calibrate_jointly``; users on whom the calibrators were not fitted.
    weights, steps
        A list of weights to try. By default all that are at least 0 and add up to 1 in this many steps (10 for two scores, 5 for
        three, fewer for more).
    calibrator
        What ``es.calibrate_jointly`` made, or a dict of names and calibrators; a list with one ``es.calibrate`` made for each score
        stands for calibrating one by one.
    alpha, tolerance, method, seed
        As for ``es.parity_test``.
    progress
        Called with (tests done, tests in all).

    Returns
    -------
    WeightSweep
        A parity test for every version of the scores and every set of weights.

    Examples
    --------
    >>> import evenscore as es
    >>> from evenscore.simulation.objectives import feed
    >>> posts = feed(150).data(seed=1)
    >>> columns = dict(scores=["score_like", "score_share"], outcomes=["like", "share"], group="group", user="user")
    >>> es.sweep_weights(posts, **columns, weights=[[1, 0], [1, 1]]).verdict_of("before")
    'disparity'
    """
    options = ParityOptions(alpha, tolerance, method, seed)
    spec = ObjectivesSpec(scores=scores, outcomes=outcomes, group=group, user=user, weight=weight, nulls=nulls, split=split)
    objectives = read_objectives(data, spec, calibrator)
    rows = objectives.rows
    tried = _weights_to_try(rows, weights, steps)
    total = len(tried) * len(objectives.versions)
    done = itertools.count(1)
    tested = None if progress is None else lambda: progress(next(done), total)
    blends: list[Blend] = []
    for version in objectives.versions:
        targets = (composite_target(rows, values) for values in tried)
        blends += judge_blends(objectives, version, targets, options, tested)
    return WeightSweep(tuple(blends), rows.columns.outcomes, alpha, tolerance, rows.frame)


def simplex(k: int, steps: int) -> list[Floats]:
    """All k weights that are multiples of 1 / steps, at least 0, and add up to 1.

    >>> [weights.tolist() for weights in simplex(2, 2)]
    [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]
    """
    sets = []
    for bars in itertools.combinations(range(steps + k - 1), k - 1):
        counts = np.diff([-1, *bars, steps + k - 1]) - 1
        sets.append(counts / steps)
    return sets


def _weights_to_try(rows: JointRows, weights: Any, steps: int | None) -> list[Floats]:
    k = rows.n_objectives
    if weights is not None:
        if steps is not None:
            raise OptionError("give either weights or steps, not both")
        if not (isinstance(weights, Sequence) or np.ndim(weights)) or len(weights) == 0:
            raise OptionError(f"weights={shortened(weights)} must be a list of weights to try, each with {k} numbers")
        return [check_weights(values, rows.columns.scores, rows.columns.outcomes) for values in weights]
    fewest = {1: 1, 2: 10, 3: 5, 4: 3}.get(k, 2)
    cut = require_count("steps", fewest if steps is None else steps, high=10**6)
    n_sets = math.comb(cut + k - 1, k - 1)
    if n_sets > MOST_WEIGHTS:
        raise OptionError(f"steps={steps} makes {n_sets:,} sets of weights, more than {MOST_WEIGHTS:,}; take fewer steps")
    return simplex(k, cut)


def _weights_text(weights: Sequence[float]) -> str:
    return ", ".join(f"{weight:.3g}" for weight in weights)
