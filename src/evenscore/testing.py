"""Assertions for test suites: a score is held to parity as code is held to its tests."""

from __future__ import annotations

from typing import Any

from evenscore.engines import tally as make_tally
from evenscore.errors import EvenscoreError, OptionError, listing, require_gap
from evenscore.parity import parity_test
from evenscore.parity_result import ParityTest
from evenscore.tally import Tally
from evenscore.verdict import DISPARITY, PARITY

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
    require_gap("tolerance", tolerance)
    if tolerance is None:
        raise OptionError("assert_parity needs tolerance=, the gap that does not matter, such as tolerance=0.02")
    test = _tested(data, options | {"tolerance": tolerance})
    if test.verdict != PARITY:
        raise AssertionError(f"parity within {tolerance:g} is not shown\n\n{test}")
    return test


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
    require_gap("require_power", require_power)
    test = _tested(data, options)
    if test.verdict == DISPARITY:
        raise AssertionError(f"a disparity is shown\n\n{test}")
    if require_power is not None:
        unsure = [pair for pair in test.pairs if not pair.minimum_detectable_gap <= require_power]
        if unsure:
            names = listing(pair.name for pair in unsure)
            raise AssertionError(f"a gap of {require_power:g} could have been missed between {names}\n\n{test}")
    return test


def _tested(data: Any, options: dict[str, Any]) -> ParityTest:
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
