"""Assertions for test suites: a score is held to parity as code is held to its tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenscore.auditing.gate import Gate, judge
from evenscore.decisions import decision_metrics
from evenscore.decisions.decision_result import DecisionMetrics
from evenscore.engines import tally as make_tally
from evenscore.errors import EvenscoreError, OptionError, listing, require_number
from evenscore.parity import parity_test
from evenscore.parity.parity_result import ParityTest
from evenscore.tallies.tally_state import Tally

TEST_OPTIONS = ("method", "alpha", "compare", "reference", "weighting", "degree", "kernel", "bandwidth", "grid", "seed")


def assert_parity(data: Any, *, tolerance: float, **options: Any) -> ParityTest:
    """Raise an AssertionError unless parity is *shown*: every gap lies within the tolerance, all scores and pairs at once.

    Few data cannot show parity, so they fail too; ``assert_no_disparity`` lets them pass.

    Parameters
    ----------
    data
        A tally, or what ``es.tally`` takes.
    tolerance
        The gap in expected outcomes that does not matter, chosen before looking at the data.
    options
        Options of ``es.parity_test``, and those of ``es.tally`` (score, outcome, group, user and so on) unless data are a tally.

    Returns
    -------
    ParityTest
        The test that was passed.

    Examples
    --------
    >>> import evenscore as es
    >>> from evenscore.testing import assert_parity
    >>> data = es.simulate(4000, rows_per_user=2).data(seed=1)
    >>> test = assert_parity(data, tolerance=0.2, score="score", outcome="outcome", group="group", user="user")
    >>> test.verdict
    'parity'
    """
    __tracebackhide__ = True
    return _require_passed(data, Gate("equivalence"), options | {"tolerance": tolerance})


def assert_no_disparity(data: Any, *, require_power: float | None = None, **options: Any) -> ParityTest:
    """Raise an AssertionError when a disparity is shown, which few data hardly ever do.

    Parameters
    ----------
    data, options
        As for ``assert_parity``; ``tolerance=`` is one of them here, and then only larger gaps count.
    require_power
        Also fail when a constant gap of this size would have been missed with a probability above .2 in any pair of groups.

    Returns
    -------
    ParityTest
        The test that was passed.
    """
    __tracebackhide__ = True
    return _require_passed(data, Gate("difference", require_power), options)


def assert_metric(
    data: Any,
    metric: str,
    *,
    threshold: Any,
    at_least: float | None = None,
    at_most: float | None = None,
    max_difference: float | None = None,
    min_ratio: float | None = None,
    **options: Any,
) -> DecisionMetrics:
    """Raise an AssertionError unless a decision metric is *shown* to be where it must be, in every group and between all.

    Limits decide, not estimates: few data cannot show anything and fail.

    Parameters
    ----------
    data
        A tally, or what ``es.tally`` takes.
    metric
        A metric of ``es.decision_metrics``, such as "tpr".
    threshold
        The score at which decisions change, or a dict of one for each group.
    at_least, at_most
        Limits of every group must lie above, or below.
    max_difference
        The largest difference between two groups must be shown to be smaller: the simultaneous limits of all pairs lie within.
    min_ratio
        The smallest ratio of two groups must be shown to be larger.
    options
        Options of ``es.decision_metrics``, and those of ``es.tally`` (score, outcome, group, user and so on) unless data are a
        tally.

    Returns
    -------
    DecisionMetrics
        The result that was looked at.

    Examples
    --------
    >>> import evenscore as es
    >>> from evenscore.testing import assert_metric
    >>> data = es.simulate(4000, rows_per_user=2).data(seed=1)
    >>> names = {"score": "score", "outcome": "outcome", "group": "group", "user": "user"}
    >>> found = assert_metric(data, "tpr", threshold=0.5, max_difference=0.1, at_least=0.5, **names)
    >>> round(found.by_group["a"]["tpr"], 1)
    0.7
    """
    __tracebackhide__ = True
    wanted = {"at_least": at_least, "at_most": at_most, "max_difference": max_difference, "min_ratio": min_ratio}
    asked = {name: require_number(name, value) for name, value in wanted.items() if value is not None}
    if not asked:
        raise OptionError(f"say what is asked of the metric: one of {listing(f'{name}=' for name in wanted)}")
    metrics = decision_metrics(data, threshold=threshold, **options)
    rows = [metrics.of(group, metric) for group in metrics.groups]
    # A group without limits has a nan, which NumPy's extremes keep: what is not known has not been shown.
    low, high = float(np.min([row["ci_low"] for row in rows])), float(np.max([row["ci_high"] for row in rows]))
    compared = [row["band_low"] for row in metrics.comparisons if row["metric"] == metric]
    known = bool(np.isfinite([low, high, *compared]).all() and compared)
    limits = {
        "at_least": (low, "the lowest limit", 1),
        "at_most": (high, "the highest limit", -1),
        "max_difference": (metrics.difference(metric)["ci_high"] if known else np.nan, "the limit over all pairs", -1),
        "min_ratio": (metrics.ratio(metric)["ci_low"] if known else np.nan, "the limit over all pairs", 1),
    }
    failed = [
        f"{metric}: {words} is {f'{value:.4g}' if np.isfinite(value) else 'not known'}, {name}={asked[name]:g}"
        for name, (value, words, sign) in limits.items()
        if name in asked and not sign * value >= sign * asked[name]
    ]
    if failed:
        raise AssertionError("\n".join([*failed, "", str(metrics)]))
    return metrics


def _require_passed(data: Any, gate: Gate, options: dict[str, Any]) -> ParityTest:
    """The test when the gate is passed; a pair that cannot be judged makes the detectable gap nan, which has no power."""
    __tracebackhide__ = True
    gate.check(options.get("tolerance"))
    test = _run_test(data, options)
    detectable = float(np.max([pair.minimum_detectable_gap for pair in test.pairs]))
    found = judge(gate, test.verdict, detectable, test.tolerance)
    if not found.passed:
        raise AssertionError(f"{found.reason}\n\n{test}")
    return test


def _run_test(data: Any, options: dict[str, Any]) -> ParityTest:
    """The parity test of a tally or of data, with each option going where it belongs."""
    testing = {name: options[name] for name in (*TEST_OPTIONS, "tolerance") if name in options}
    reading = {name: value for name, value in options.items() if name not in testing}
    if isinstance(data, Tally):
        if reading:
            raise OptionError(f"a tally is counted already: {listing(reading)} cannot be used with it")
        return parity_test(data, **testing)
    missing = [name for name in ("score", "outcome", "group", "user") if name not in reading]
    if missing:
        raise EvenscoreError(f"name the columns of the data: {listing(missing)} missing (user=None says that rows are independent)")
    return parity_test(make_tally(data, **reading), **testing)
