"""One harness for size, power, bias and coverage: the same method on many draws of a simulation."""

from __future__ import annotations

import io
import math
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from evenscore.errors import FileError, OptionError, is_finite, listing, require_alpha, require_count, shortened
from evenscore.saving import as_path
from evenscore.simulation.journal import Results, header, line, open_journal
from evenscore.simulation.package_methods import own_methods
from evenscore.simulation.study_result import MEASURES, MethodRuns, Simulated, Study
from evenscore.simulation.workers import Workers
from evenscore.types import Progress

Method = Callable[[Any, int], Any]
Methods = Mapping[str, Method]
Truths = float | Mapping[str, float] | Callable[[Any], float | Mapping[str, float]]


def study(
    simulation: Simulated,
    methods: Methods | Sequence[str] | str,
    *,
    runs: int = 1000,
    seed: int = 0,
    workers: int | Workers = 1,
    resume: str | Path | None = None,
    alpha: float = 0.05,
    truth: Truths | None = None,
    progress: Progress | None = None,
) -> Study:
    """Measure methods on many draws of a simulation, each figure with its Monte Carlo error.

    Parameters
    ----------
    simulation
        What ``es.simulate`` made, or anything with ``.name``, ``.data(seed)`` and ``.to_dict()``.
    methods
        Names of ours: the methods of ``es.parity_test``, "paper" (Nadaraya-Watson and Bonferroni), "naive" (rows taken for people)
        and "band" (does the simultaneous band of the gap hold the true gap). Or a dict of functions ``method(data, seed)``, each of
        which gets the dict of arrays that ``simulation.data`` returns and an integer for random
        numbers of its own. It returns a p-value; or a dict with some of "p_value", "estimate", "low", "high" and "covered" (1 or
        0); or a dict of such results by name, so that one pass over the data serves several methods.
    runs, seed
        Run i draws its data with the seeds (seed, i), whatever the number of workers.
    workers
        Processes, or ``Workers`` that several studies share. With more than one, methods are sent to new processes: functions of a
        module or script, or ``functools.partial`` of such, not lambdas; and a script calls ``es.study`` under
        ``if __name__ == "__main__":``.
    resume
        A file to which finished runs are written; when it exists the study goes on from it. Methods are recognised by name.
    truth
        What "estimate", "low" and "high" are judged by: a number, a dict by method, or a function of the simulation giving either.
    progress
        Called with the number of finished runs and of all runs.
    alpha
        A method rejects when its p-value is at most this.

    Returns
    -------
    Study
        One row a method: share of rejections, bias, root mean squared error and coverage, each with its Monte Carlo error.

    Examples
    --------
    >>> from evenscore.simulation import simulate
    >>> found = study(simulate(50), {"mean": lambda data, seed: {"estimate": data["outcome"].mean()}}, runs=20, truth=0.5)
    >>> [name for name in found.rows()[0]]
    ['method', 'runs', 'mean', 'truth', 'bias', 'bias_error', 'rmse', 'rmse_error']
    """
    if not isinstance(simulation, Simulated):
        raise OptionError(f"es.study takes a simulation made by es.simulate, not a {type(simulation).__name__}")
    methods = _functions(methods, simulation)
    require_alpha(alpha)
    runs, seed = require_count("runs", runs), require_count("seed", seed, low=0)
    if not isinstance(workers, Workers):
        require_count("workers", workers)
    truths = truth(simulation) if callable(truth) else truth
    for known in truths.values() if isinstance(truths, Mapping) else [] if truths is None else [truths]:
        if not (is_finite(known) or (isinstance(known, float) and math.isnan(known))):
            raise OptionError(f"truth={shortened(known)} must be a number")
    if workers != 1:
        _require_portable(methods)
    first = header(simulation.to_dict(), list(methods), seed)
    done = {} if resume is None else open_journal(as_path(resume), first)
    with _appending(resume) as journal:
        open_runs = [run for run in range(runs) if run not in done]
        finished = runs - len(open_runs)
        for run, results in _results(simulation, methods, seed, open_runs, workers):
            done[run] = results
            journal.write(line(run, results))
            journal.flush()
            finished += 1
            if progress is not None:
                progress(finished, runs)
    return Study(simulation, _collect([done[run] for run in range(runs)], truths), runs, seed, alpha)


# Running


def one_run(simulation: Simulated, methods: Methods, seed: int, run: int) -> Results:
    """All methods on one draw."""
    data = simulation.data((seed, run))
    own_seed = int(np.random.SeedSequence((seed, run, 1)).generate_state(1)[0])
    results: Results = {}
    for name, method in methods.items():
        try:
            named = _named(name, method(data, own_seed))
        except Exception as error:
            error.add_note(f"in method {name!r}, run {run} of {simulation.name!r}: data(seed=({seed}, {run}))")
            raise
        if twice := results.keys() & named.keys():
            raise OptionError(f"two methods give results called {listing(sorted(twice))}")
        results |= named
    return results


def _named(name: str, returned: Any) -> Results:
    """Results by method name from a number, a result, or results by name."""
    if not isinstance(returned, Mapping):
        return {name: _result(name, {"p_value": returned})}
    if not returned:
        raise OptionError(f"method {name!r} returned an empty dict")
    if returned.keys() & set(MEASURES):
        return {name: _result(name, returned)}
    return {str(key): _result(key, value if isinstance(value, Mapping) else {"p_value": value}) for key, value in returned.items()}


def _result(name: Any, returned: Mapping[str, Any]) -> dict[str, float]:
    if unknown := returned.keys() - set(MEASURES):
        raise OptionError(f"method {name!r} returned {listing(sorted(unknown))}; known are {listing(MEASURES)}")
    try:
        result = {key: float(value) for key, value in returned.items()}
    except (TypeError, ValueError) as error:
        raise OptionError(f"method {name!r} must return a number or a dict of numbers, not {shortened(returned)}") from error
    if not (math.isnan(p := result.get("p_value", math.nan)) or 0 <= p <= 1):
        raise OptionError(f"method {name!r} returned {p!r}, which is not a p-value")
    return result


def _results(
    simulation: Simulated, methods: Methods, seed: int, open_runs: list[int], workers: int | Workers
) -> Iterator[tuple[int, Results]]:
    """Every open run with its results, in order."""
    if isinstance(workers, Workers):
        yield from zip(open_runs, workers.map(_worker_run, (simulation, dict(methods), seed), open_runs), strict=True)
    elif workers == 1 or len(open_runs) < 2:
        yield from ((run, one_run(simulation, methods, seed, run)) for run in open_runs)
    else:
        with Workers(min(workers, len(open_runs))) as own:
            yield from _results(simulation, methods, seed, open_runs, own)


def _worker_run(common: tuple[Simulated, Methods, int], run: int) -> Results:
    return one_run(*common, run)


# Checks


def _functions(methods: Any, simulation: Simulated) -> Methods:
    """The methods as functions by name; ours may be given by name alone."""
    if isinstance(methods, str) or (isinstance(methods, Sequence) and all(isinstance(name, str) for name in methods)):
        return own_methods([methods] if isinstance(methods, str) else methods, simulation)
    if not isinstance(methods, Mapping) or not methods:
        raise OptionError("methods must be names of ours, or a dict of at least one name and function(data, seed)")
    for name, method in methods.items():
        if not isinstance(name, str) or not callable(method):
            raise OptionError(f"methods must be functions by name; {shortened(name)} is {shortened(method)}")
    return methods


def _require_portable(methods: Methods) -> None:
    """Methods that a new process can be sent: no lambdas, no inner functions, nothing defined at a prompt."""
    for name, method in methods.items():
        try:
            pickle.dumps(method)
        except Exception as error:
            raise OptionError(
                f"method {name!r} cannot be sent to another process ({error}); make it a function of a module, or use workers=1"
            ) from error
        inner = getattr(method, "func", method)
        if getattr(inner, "__module__", None) == "__main__" and not hasattr(sys.modules["__main__"], "__file__"):
            raise OptionError(f"method {name!r} is defined at a prompt or in a notebook; put it into a module, or use workers=1")


def _appending(resume: str | Path | None) -> TextIO:
    """Where finished runs are written."""
    if resume is None:
        return io.StringIO()
    try:
        return as_path(resume).open("a", encoding="utf-8", newline="\n")
    except OSError as error:
        raise FileError(f"{resume} cannot be written: {error}") from error


# Collecting


def _collect(results: list[Results], truths: float | Mapping[str, float] | None) -> tuple[MethodRuns, ...]:
    names = list(dict.fromkeys(name for run in results for name in run))
    if isinstance(truths, Mapping) and (unknown := truths.keys() - set(names)):
        raise OptionError(f"truth names {listing(sorted(unknown))}; the methods are {listing(names)}")
    return tuple(_one_method(name, [run.get(name, {}) for run in results], truths) for name in names)


def _one_method(name: str, results: list[dict[str, float]], truths: float | Mapping[str, float] | None) -> MethodRuns:
    truth = truths.get(name, math.nan) if isinstance(truths, Mapping) else math.nan if truths is None else float(truths)
    measures = {
        measure: np.array([result.get(measure, math.nan) for result in results])
        for measure in MEASURES
        if any(measure in result for result in results)
    }
    return MethodRuns(name, truth, **measures)
