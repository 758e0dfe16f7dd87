"""``es.audit``: strings the steps together on one tally for each score and attribute."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenscore.auditing.audit_result import Audit, Subject
from evenscore.auditing.gate import Gate
from evenscore.auditing.provenance import Source, file_sources, record
from evenscore.auditing.repair import Repair, find_repair
from evenscore.data.spec import TallySpec
from evenscore.data.splits import Split
from evenscore.decisions import decision_metrics
from evenscore.engines import tally_by_spec
from evenscore.engines.data_or_tally import UNSAID, given_tally, is_saved_tally, require_columns
from evenscore.engines.row_reading import require_rows
from evenscore.errors import (
    DataError,
    EvenscoreError,
    EvenscoreWarning,
    OptionError,
    listing,
    require_alpha,
    require_flag,
    require_gap,
    require_option,
    require_text,
    shortened,
)
from evenscore.estimation.fitted_curves import curves
from evenscore.estimation.verdict import DISPARITY, combine
from evenscore.false_alarms import TESTS, Deciding, Design, choose_tests, repeat_tests
from evenscore.false_alarms.placebo_result import Placebo
from evenscore.impact import classification_impact
from evenscore.marginal import marginal_test
from evenscore.miscalibration import calibration_error
from evenscore.ordering import ordering_test
from evenscore.parity import parity_test
from evenscore.tables import label_text, values_of
from evenscore.tallies.lattice import MAX_CELLS, Lattice
from evenscore.tallies.tally_state import Tally
from evenscore.threads import in_one_thread
from evenscore.thresholds import fair_thresholds
from evenscore.types import Say


@dataclass(frozen=True, slots=True)
class _Options:
    """How to test; the same for every subject. alpha: the level of each deciding test. placebo: None when not asked for."""

    alpha: float
    tolerance: float | None
    threshold: float | None
    positive: str
    method: str
    compare: str
    reference: Any
    weighting: str
    decide: tuple[str, ...]
    repair: bool
    seed: int
    placebo: Design | None


@in_one_thread
def audit(
    data: Any,
    *,
    score: Any = None,
    outcome: Any = None,
    group: Any = None,
    attributes: Sequence[Any] | None = None,
    user: Any = UNSAID,
    threshold: float | None = None,
    positive: str = "above",
    tolerance: float | None = None,
    gate: str | Gate = "difference",
    require_power: float | None = None,
    decide: str | Iterable[str] = ("parity",),
    weight: Any = None,
    count: Any = None,
    nulls: str = "error",
    split: str | None = None,
    lattice: Tally | Lattice | None = None,
    cells: int = MAX_CELLS,
    scale: str = "auto",
    method: str = "auto",
    compare: str = "pairs",
    reference: Any = None,
    weighting: str = "user",
    alpha: float = 0.05,
    repair: bool = True,
    placebo: int | None = None,
    workers: int = 1,
    title: str = "Audit of predictive parity",
    seed: int = 0,
    say: Say | None = None,
) -> Audit:
    """Audit a score: is there a disparity, how large, where, and what would repair it.

    Parameters
    ----------
    data
        What ``es.tally`` takes, or a tally (also the path of a saved one, or a list of tallies).
    score, outcome, user, weight, count, nulls, split, lattice, cells, scale
        As in ``es.tally``; ``user`` must be said, if only as None, unless ``data`` is a tally. A list of names for ``score`` audits
        each.
    group, attributes
        ``group`` is one attribute, or a list for an intersection. ``attributes`` audits several in one run; a list inside it is an
        intersection.
    threshold, positive
        A decision is made at this score: adds the outcomes at the threshold, thresholds that would even them out, and the impact on
        decisions. ``positive="below"`` when the decision goes to scores below it.
    tolerance
        A gap that does not matter; "parity" can be shown only with one.
    gate, require_power
        What ``assert_ok`` asks for: "difference", that no disparity is shown; "equivalence", that parity is shown; and that a gap
        of ``require_power`` would have been found with probability .8.
    decide
        The tests that make the verdict: "parity", "ordering", and "marginal" when there is a threshold. The others are shown beside
        it.
    alpha
        The chance of any false alarm in the whole audit: it is divided by the number of scores, attributes and deciding tests.
    repair
        Whether to look for a repair when a disparity is shown.
    placebo, workers
        So many times groups are dealt out anew, to count the false alarms of the deciding tests on this data, as ``es.placebo``
        does; in so many processes. It needs rows, sets a tolerance aside, and does not change the verdict.
    say
        Called with words of progress now and then.
    method, compare, reference, weighting, seed
        As for ``es.parity_test``.
    title
        Of the report.

    Returns
    -------
    Audit
        With ``.verdict``, ``.summary``, ``.tests``, ``.assert_ok()``, ``.to_html(path)`` and ``.to_json(path)``.

    Examples
    --------
    >>> import evenscore as es
    >>> data = es.simulate({"a": 400, "b": 400}, curve={"a": (0, 1), "b": (-0.8, 1)}, rows_per_user=3).data(seed=1)
    >>> es.audit(data, score="score", outcome="outcome", group="group", user="user").verdict
    'disparity'
    """
    given = {name: value for name, value in locals().items() if name not in ("data", "say")}
    require_alpha(alpha)
    require_gap("tolerance", tolerance)
    require_option("positive", positive, ("above", "below"))
    require_flag("repair", repair)
    require_text("title", title)
    rule = gate if isinstance(gate, Gate) else Gate(gate, require_power)
    rule.check(tolerance)
    design = Design.of_audit(placebo, seed, workers)
    if design is not None:
        require_rows(data, "placebo=")
    deciding = choose_tests("decide", decide, threshold)
    columns = {"outcome": outcome, "weight": weight, "count": count} | ({} if user is UNSAID else {"user": user})
    cuts = () if threshold is None else (threshold,)
    settings = {"lattice": lattice, "cuts": cuts, "cells": cells, "scale": scale, "nulls": nulls, "split": split}
    subjects = _subjects(data, score, group, attributes, columns, settings)
    if not subjects:
        raise OptionError("nothing to audit: name at least one score and one group or attribute")
    n_looks = len(subjects) * len(deciding)
    options = _Options(
        alpha=alpha / n_looks,
        tolerance=tolerance,
        threshold=threshold,
        positive=positive,
        method=method,
        compare=compare,
        reference=reference,
        weighting=weighting,
        decide=deciding,
        repair=repair,
        seed=seed,
        placebo=design,
    )
    found = [_audit_one(subject, options, say) for subject in subjects]
    configuration = {name: _plain(value) for name, value in given.items()}
    return Audit(tuple(found), alpha, tolerance, rule, record(_sources(data, say), seed, configuration), title)


# What is audited


@dataclass(frozen=True, slots=True)
class _Request:
    """One subject before it is read: a tally, or data and what is asked of them."""

    data: Any
    spec: TallySpec | None = None


def _subjects(
    data: Any,
    score: Any,
    group: Any,
    attributes: Sequence[Any] | None,
    columns: dict[str, Any],
    settings: dict[str, Any],
) -> list[_Request]:
    tallies = _tallies(data)
    if tallies is not None:
        named = {"score": score, "group": group, "attributes": attributes} | columns
        needless = [name for name, value in named.items() if value is not None]
        if needless:
            raise OptionError(f"a tally is made once and for all; leave out {needless[0]}=")
        return [_Request(tally) for tally in tallies]
    if group is not None and attributes is not None:
        raise OptionError("give group= (one attribute, or an intersection) or attributes= (several), not both")
    wanted = [group] if attributes is None else _listed(attributes)
    require_columns(columns | {"score": score, "group": wanted[0]}, "name the columns, or give a tally")
    scores = score if isinstance(score, list | tuple) and all(isinstance(name, str) for name in score) else [score]
    pairs = itertools.product(scores, wanted)
    return [_Request(data, TallySpec(score=name, group=attribute, **columns, **settings)) for name, attribute in pairs]


def _tallies(data: Any) -> list[Tally] | None:
    """The tallies that the data are, or None."""
    items = data if isinstance(data, list | tuple) else [data]
    tallies = [tally for tally in map(given_tally, items) if tally is not None]
    if tallies and len(tallies) < len(items):
        raise DataError("some of the data are tallies and some are not; audit them apart")
    return tallies or None


def _listed(attributes: Sequence[Any]) -> list[Any]:
    if isinstance(attributes, str) or not len(attributes):
        raise OptionError(f"attributes={shortened(attributes)} must be a list of columns, such as ['gender', 'age_band']")
    return [list(each) if isinstance(each, list | tuple) else each for each in attributes]


def _sources(data: Any, say: Say | None) -> list[Source]:
    items = data if isinstance(data, list | tuple) else [data]
    if not all(isinstance(item, str | os.PathLike) for item in items):
        return [Source(f"{type(item).__module__.split('.')[0]} {type(item).__name__} in memory") for item in items]
    from evenscore.engines.paths import find_files

    if say is not None:
        say("hashing")
    return file_sources([path for item in items for path in ([str(item)] if is_saved_tally(item) else find_files(item))])


def _plain(value: Any) -> Any:
    """An option for the record: arrays and tallies by what they are, not by their content."""
    if value is UNSAID or value is None or isinstance(value, bool | int | float | str):
        return None if value is UNSAID else value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return repr(value) if isinstance(value, Gate | Lattice) else f"({type(value).__name__})"


# One subject


def _audit_one(request: _Request, options: _Options, say: Say | None) -> Subject:
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tally = _read(request.data, request.spec, notes, say)
        if say is not None:
            say("testing")
        found = _tested(tally, options) | _explained(tally, options)
        if options.repair and combine(found[name].verdict for name in options.decide) == DISPARITY:
            found |= _repaired(request, tally, options, say, found["unavailable"])
        if options.placebo is not None:
            found["placebo"] = _false_alarms(request, tally, options, options.placebo, notes, say)
    for warning in caught:
        if issubclass(warning.category, EvenscoreWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    columns = tally.columns
    return Subject(
        score=columns.score if columns else "score",
        attribute=columns.group if columns else ("group",),
        tally=tally,
        decides=options.decide,
        alpha=options.alpha,
        threshold=options.threshold,
        positive=options.positive,
        notes=(*tally._notes(), *dict.fromkeys(notes)),
        **found,
    )


def _read(data: Any, spec: TallySpec | None, notes: list[str], say: Say | None) -> Tally:
    if spec is None:
        return data  # a tally

    def progress(done: int, total: int) -> None:
        if say is not None:
            say(f"counting {done:,} of {total:,} rows")

    if say is not None:
        say("reading")
    return tally_by_spec(data, spec, progress=progress, say=notes.append)


def _reference(tally: Tally, reference: Any) -> Any:
    """The group that is meant: labels need not be text, but may be named by it."""
    if reference is None or not isinstance(reference, str) or reference in tally.groups:
        return reference
    found = [label for label in tally.groups if label_text(label) == reference]
    if len(found) != 1:
        known = listing(map(label_text, tally.groups))
        raise OptionError(
            f"reference={shortened(reference)}: {'several groups are' if found else 'no group is'} called so; there are: {known}"
        )
    return found[0]


def _tested(tally: Tally, options: _Options) -> dict[str, Any]:
    """Every test of one tally."""
    reference = _reference(tally, options.reference)
    shared: dict[str, Any] = {
        "alpha": options.alpha,
        "tolerance": options.tolerance,
        "weighting": options.weighting,
        "seed": options.seed,
    }
    found = {
        "parity": parity_test(tally, method=options.method, compare=options.compare, reference=reference, **shared),
        "ordering": ordering_test(tally, reference=reference, **shared),
        "curves": curves(tally, weighting=options.weighting, alpha=options.alpha, seed=options.seed),
    }
    if options.threshold is not None:
        at: dict[str, Any] = {"threshold": options.threshold, "positive": options.positive}
        found["marginal"] = marginal_test(tally, reference=reference, **at, **shared)
    return found


def _explained(tally: Tally, options: _Options) -> dict[str, Any]:
    """How far scores are off, what thresholds would even out, and what calibration would change; or why that cannot be said."""
    shared: dict[str, Any] = {"alpha": options.alpha, "weighting": options.weighting, "seed": options.seed}
    steps: dict[str, Callable[[], Any]] = {"calibration": lambda: calibration_error(tally, **shared)}
    if options.threshold is not None:
        at: dict[str, Any] = {"threshold": options.threshold, "positive": options.positive}
        steps["thresholds"] = lambda: fair_thresholds(tally, **at, **shared)
        steps["impact"] = lambda: classification_impact(tally, **at, **shared)
        steps["decisions"] = lambda: decision_metrics(tally, reference=_reference(tally, options.reference), **at, **shared)
    found: dict[str, Any] = {"unavailable": {}}
    for name, step in steps.items():
        try:
            found[name] = step()
        except EvenscoreError as error:
            found["unavailable"][name] = str(error)
    return found


def _repaired(
    request: _Request, tally: Tally, options: _Options, say: Say | None, unavailable: dict[str, str]
) -> dict[str, Repair]:
    """A repair, tested on other users where there are data to take them from."""

    spec = request.spec

    def read_split(split: str) -> Tally:
        assert spec is not None
        return _read(request.data, replace(spec, split=Split.parse(split)), [], say)

    settings: dict[str, Any] = {
        "alpha": options.alpha,
        "tolerance": options.tolerance,
        "reference": options.reference,
        "weighting": options.weighting,
        "seed": options.seed,
    }
    whole = spec is not None and spec.split is None
    try:
        return {"repair": find_repair(tally, read_split if whole else None, **settings)}
    except EvenscoreError as error:
        unavailable["repair"] = str(error)
        return {}


def _false_alarms(request: _Request, tally: Tally, options: _Options, design: Design, notes: list[str], say: Say | None) -> Placebo:
    """The deciding tests on groups dealt out anew, on the same cells."""

    def progress(done: int, total: int) -> None:
        if say is not None:
            say(f"placebo run {done:,} of {total:,}")

    assert request.spec is not None
    names = ("alpha", "threshold", "positive", "method", "compare", "weighting")
    deciding = Deciding(options.decide, reference=_reference(tally, options.reference), **values_of(options, names))
    spec = replace(request.spec, lattice=tally.lattice, cuts=())
    return repeat_tests(request.data, spec, deciding, design, call="placebo=", progress=progress, say=notes.append)


__all__ = ["TESTS", "Audit", "audit"]
