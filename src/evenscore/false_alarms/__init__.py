"""``es.placebo``: how often the tests would give a false alarm on this very data."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Unpack, cast

import numpy as np

from evenscore.data.observations import Observations, keep_split, one_row_each, take_rows, who_is_split
from evenscore.data.spec import TallySpec
from evenscore.engines.data_or_tally import DataColumns, refuse_unknown, require_columns
from evenscore.engines.memory import choose_lattice
from evenscore.engines.row_reading import read_rows, require_rows
from evenscore.engines.spill import MEMORY_LIMIT, parse_memory_limit
from evenscore.errors import (
    DataError,
    EvenscoreWarning,
    OptionError,
    require_alpha,
    require_count,
    require_option,
    require_sequence,
)
from evenscore.estimation.overlap import BOTH
from evenscore.estimation.pairwise import PairwiseTest
from evenscore.estimation.verdict import DISPARITY
from evenscore.false_alarms.dealing import Patterns, find_patterns, keep_most
from evenscore.false_alarms.placebo_result import Placebo, PlaceboTest
from evenscore.marginal import marginal_test
from evenscore.ordering import ordering_test
from evenscore.parity import parity_test
from evenscore.simulation.workers import Workers
from evenscore.tallies.counting import count
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.reshaping import keep_groups
from evenscore.tallies.tally_state import Tally
from evenscore.threads import in_one_thread
from evenscore.types import Progress, Say

TESTS = ("parity", "ordering", "marginal")
MOST_RUNS = 100_000
SHARES = 8  # of the runs that each worker gets one after the other: rows are sent anew with every share


@dataclass(frozen=True, slots=True)
class Deciding:
    """The tests to repeat, and how they test. alpha: the level of each. groups: those that are compared; None: all.

    joint: makes one decision of the parity and ordering tests of a tally, for the test that is called BOTH.
    """

    tests: tuple[str, ...]
    alpha: float
    threshold: float | None = None
    positive: str = "above"
    method: str = "auto"
    compare: str = "pairs"
    reference: Any = None
    weighting: str = "user"
    groups: tuple[Any, ...] | None = None
    joint: Callable[..., PairwiseTest] | None = None

    def run(self, name: str, tally: Tally, seed: int) -> tuple[float, bool]:
        """The p-value of one test, and whether it shows a disparity."""
        shared: dict[str, Any] = {"alpha": self.alpha, "reference": self.reference, "weighting": self.weighting, "seed": seed}
        at: dict[str, Any] = {"threshold": self.threshold, "positive": self.positive}
        test: PairwiseTest
        if name == "marginal":
            test = marginal_test(tally, both=False, **at, **shared)
        elif name == "ordering":
            test = ordering_test(tally, **shared)
        else:
            test = parity_test(tally, method=self.method, compare=self.compare, both=False, **shared)
        if name == BOTH:
            assert self.joint is not None
            test = self.joint(tally, test, ordering_test(tally, **shared), weighting=self.weighting, seed=seed)
        return test.p_value, test.verdict == DISPARITY


@dataclass(frozen=True, slots=True)
class Design:
    """How often to deal, among whom and with which seed."""

    runs: int = 200
    seed: int = 0
    within: str | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        require_count("runs", self.runs, high=MOST_RUNS)
        require_count("seed", self.seed, low=0)
        require_count("workers", self.workers)
        require_option("within", self.within, (None, "score"))

    @classmethod
    def of_audit(cls, placebo: int | None, seed: int, workers: int) -> Design | None:
        """What an audit was asked for; None: nothing."""
        if placebo is not None:
            return cls(require_count("placebo", placebo, high=MOST_RUNS), seed, workers=workers)
        if require_count("workers", workers) > 1:
            raise OptionError(f"workers={workers} are processes for placebo=, the number of placebo runs; give both or neither")
        return None


@in_one_thread
def placebo(
    data: Any,
    *,
    runs: int = 200,
    within: str | None = None,
    tests: str | Iterable[str] | None = None,
    threshold: float | None = None,
    positive: str = "above",
    method: str = "auto",
    compare: str = "pairs",
    reference: Any = None,
    weighting: str = "user",
    alpha: float = 0.05,
    seed: int = 0,
    workers: int = 1,
    progress: Progress | None = None,
    **columns: Unpack[DataColumns],
) -> Placebo:
    """Deal the groups out anew among the users, many times, and count how often the tests give a false alarm.

    Groups that are dealt out at random have nothing to do with outcomes, so every disparity that is found then is a false alarm.
    This checks on your own data what the tests promise; it is not a test of parity, and says nothing about the real groups. A user
    in several groups keeps which rows belong together, and gets the groups of another user in as many groups, in random order;
    users in other numbers of groups than most are left out.

    Parameters
    ----------
    data
        What ``es.tally`` takes, if it fits into memory: a tally holds no rows, and Spark and Dask frames lie elsewhere.
    columns
        ``score=``, ``outcome=``, ``group=``, ``user=`` and what else ``es.tally`` takes.
    runs
        How often the groups are dealt out; 200 runs tell 5 % from 10 %.
    within
        None deals among all users, which makes the scores of all groups alike. "score" deals among users with nearby scores (up to
        50 strata, each with about the same share of every group on average), so that each group keeps its scores; it needs one row
        a user.
    tests
        Some of "parity", "ordering" and "marginal"; by default "parity", and "marginal" if there is a threshold.
    threshold, positive
        For "marginal", as for ``es.marginal_test``.
    method, compare, reference, weighting
        As for ``es.parity_test``.
    alpha
        The promised chance of any false alarm; it is divided by the number of tests, as ``es.audit`` does.
    seed, workers
        Run i is drawn with the seeds (seed, i), whatever the number of workers, which are processes. With more than one, a script
        calls ``es.placebo`` under ``if __name__ == "__main__":``.
    progress
        Called with (runs done, runs in all) now and then.

    Returns
    -------
    Placebo
        With ``.rejection_rate``, ``.ci_low`` and ``.ci_high`` (Clopper and Pearson's 95 % limits), ``.level_holds``, and one row a
        test.

    Examples
    --------
    >>> import evenscore as es
    >>> data = es.simulate({"a": 300, "b": 300}, rows_per_user=3).data(seed=1)
    >>> check = es.placebo(data, score="score", outcome="outcome", group="group", user="user", runs=20)
    >>> check.rows()[0]["runs"], check.level_holds
    (20, True)
    """
    refuse_unknown(columns, "placebo")
    design = Design(runs, seed, within, workers)
    require_alpha(alpha)
    require_option("positive", positive, ("above", "below"))
    usual = ("parity",) if threshold is None else ("parity", "marginal")
    names = choose_tests("tests", usual if tests is None else tests, threshold)
    require_rows(data, "es.placebo")
    require_columns(columns, "name the columns")
    memory_limit = columns.pop("memory_limit", MEMORY_LIMIT)
    if threshold is not None and "cuts" not in columns and columns.get("lattice") is None:
        columns["cuts"] = (threshold,)
    deciding = Deciding(
        tests=names,
        alpha=alpha / len(names),
        threshold=threshold,
        positive=positive,
        method=method,
        compare=compare,
        reference=reference,
        weighting=weighting,
    )
    spec = TallySpec(**cast(dict[str, Any], columns))
    return repeat_tests(data, spec, deciding, design, memory_limit=memory_limit, progress=progress)


def choose_tests(option: str, tests: str | Iterable[str], threshold: float | None) -> tuple[str, ...]:
    """The names of tests that an option gives, each once; an error when there is none, or one that is not known."""
    names = (tests,) if isinstance(tests, str) else tuple(dict.fromkeys(require_sequence(option, tests)))
    if not names:
        raise OptionError(f"{option}=() leaves no test to decide; choose among {', '.join(map(repr, TESTS))}")
    for name in names:
        require_option(option, name, TESTS)
    if "marginal" in names and threshold is None:
        raise OptionError(f"{option}='marginal' needs threshold=, the score at which decisions are made")
    return names


def repeat_tests(
    data: Any,
    spec: TallySpec,
    deciding: Deciding,
    design: Design,
    *,
    call: str = "es.placebo",
    memory_limit: str | int = MEMORY_LIMIT,
    progress: Progress | None = None,
    say: Say | None = None,
) -> Placebo:
    """The deciding tests on groups dealt out anew, for data that are read once."""
    observations = read_rows(data, spec, call=call, memory_limit=parse_memory_limit(memory_limit), say=say)
    if who_is_split(observations) is not observations.users:
        raise OptionError(f"{call} deals groups out among users, and here each {observations.item} has a group; leave out item=")
    lattice = choose_lattice(observations, spec)
    observations, n_left_out = keep_most(_with_outcomes(keep_split(observations, spec.split)))
    patterns = find_patterns(observations, design.within)
    repetition = _Repetition(observations, lattice, patterns, deciding, design.seed)
    results = np.array(list(_run_all(repetition, design, progress)))
    tests = tuple(
        PlaceboTest(name, deciding.alpha, results[:, i, 0], results[:, i, 1] == 1.0) for i, name in enumerate(deciding.tests)
    )
    return Placebo(
        tests=tests,
        alpha=deciding.alpha * len(tests),
        runs=design.runs,
        seed=design.seed,
        within=design.within,
        n_users=patterns.n_users,
        n_spanning=patterns.n_spanning,
        n_left_out=n_left_out,
        n_fixed=int(patterns.fixed.sum()),
        n_strata=patterns.n_strata,
        independent=observations.users.independent,
        frame_kind=observations.frame if observations.frame in ("pandas", "polars", "pyarrow") else None,
    )


def _with_outcomes(observations: Observations) -> Observations:
    """The rows that tests look at: those without an outcome are nobody's evidence."""
    observations = one_row_each(observations)
    if observations.labelled is not None:
        observations = replace(take_rows(observations, observations.labelled), labelled=None)
    if observations.n_rows == 0:
        raise DataError("no row has both a weight and an outcome; there is nothing to test")
    return observations


@dataclass(frozen=True, slots=True)
class _Repetition:
    """All that a run needs beside its number."""

    observations: Observations
    lattice: Lattice
    patterns: Patterns
    deciding: Deciding
    seed: int

    def run(self, number: int) -> list[tuple[float, float]]:
        """P-value and alarm (1 or 0) of each test; the number and the seed alone decide what is drawn."""
        rng = np.random.default_rng(np.random.SeedSequence((self.seed, number)))
        own_seed = int(np.random.SeedSequence((self.seed, number, 1)).generate_state(1)[0])
        gc.collect(1)  # what the run before has left: a few large arrays, which by their number alone would stay for long
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvenscoreWarning)  # about data that nobody has
            tally = count(replace(self.observations, group=self.patterns.deal(rng)), self.lattice)
            tally = tally if self.deciding.groups is None else keep_groups(tally, self.deciding.groups)
            results = [self.deciding.run(name, tally, own_seed) for name in self.deciding.tests]
        return [(p_value, float(alarm)) for p_value, alarm in results]


def _run_all(repetition: _Repetition, design: Design, progress: Progress | None) -> Iterator[list[tuple[float, float]]]:
    """Every run in order, in this process or in several."""
    done = 0
    for results in _shares(repetition, design):
        yield from results
        done += len(results)
        if progress is not None:
            progress(done, design.runs)


def _shares(repetition: _Repetition, design: Design) -> Iterator[list[list[tuple[float, float]]]]:
    if design.workers == 1 or design.runs == 1:
        yield from ([repetition.run(number)] for number in range(design.runs))
        return
    n_workers = min(design.workers, design.runs)
    numbers = np.array_split(np.arange(design.runs), min(design.runs, SHARES * n_workers))
    with Workers(n_workers) as workers:
        yield from workers.map(_run_share, repetition, [share.tolist() for share in numbers])


def _run_share(repetition: _Repetition, numbers: list[int]) -> list[list[tuple[float, float]]]:
    return [repetition.run(number) for number in numbers]
