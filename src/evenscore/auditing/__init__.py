"""``es.audit``: strings the steps together on one tally for each score and attribute."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenscore.auditing.audit_result import Audit
from evenscore.auditing.deciding import hold_to, make_decision, named_tests, repeat_decision
from evenscore.auditing.gate import Gate
from evenscore.auditing.judged_groups import MIN_USERS, Selection, check_left_out, require_known, withhold
from evenscore.auditing.provenance import record
from evenscore.auditing.repair import Repair, find_repair
from evenscore.auditing.requests import ReadShare, Request, data_sources, open_request, plain_option, requested_subjects
from evenscore.auditing.subject import Subject
from evenscore.data.splits import Split
from evenscore.decisions import decision_metrics
from evenscore.engines.data_or_tally import UNSAID
from evenscore.engines.row_reading import require_rows
from evenscore.errors import (
    DataError,
    EvenscoreError,
    EvenscoreWarning,
    OptionError,
    renamed,
    require_alpha,
    require_count,
    require_flag,
    require_gap,
    require_option,
    require_text,
    shortened,
)
from evenscore.estimation.fitted_curves import curves
from evenscore.estimation.units import scale_mismatch
from evenscore.estimation.verdict import DISPARITY, combine
from evenscore.false_alarms import TESTS, Deciding, Design, repeat_tests
from evenscore.false_alarms.placebo_result import Placebo
from evenscore.impact import classification_impact
from evenscore.marginal import marginal_test
from evenscore.miscalibration import CalibrationError, calibration_error
from evenscore.naming import find_label, read_labels, require_meant, use_columns, use_texts
from evenscore.ordering import ordering_test
from evenscore.parity import parity_test
from evenscore.parity.row_people import retake_rows
from evenscore.parity.two_keys import compare_keys
from evenscore.tables import values_of
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
    same_scale: bool | None
    min_users: int
    left_out: Mapping[Any, str]


@renamed(say="progress")
@in_one_thread
def audit(
    data: Any,
    *,
    score: Any = None,
    outcome: Any = None,
    group: Any = None,
    attributes: Sequence[Any] | None = None,
    user: Any = UNSAID,
    item: Any = None,
    threshold: float | None = None,
    positive: str = "above",
    tolerance: float | None = None,
    gate: str | Gate = "difference",
    require_power: float | None = None,
    decide: str | Iterable[str] = "auto",
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
    same_scale: bool | None = None,
    min_users: int = MIN_USERS,
    left_out: Mapping[Any, str] | None = None,
    labels: Mapping[str, Mapping[Any, str]] | None = None,
    placebo: int | None = None,
    workers: int = 1,
    title: str = "Audit of predictive parity",
    seed: int = 0,
    progress: Say | None = None,
) -> Audit:
    """Audit a score: is there a disparity, how large, where, and what would repair it.

    Parameters
    ----------
    data
        What ``es.tally`` takes, or a tally (also the path of a saved one, or a list of tallies).
    score, outcome, user, item, weight, count, nulls, split, lattice, cells, scale
        As in ``es.tally``; ``user`` must be said, if only as None, unless ``data`` is a tally. A list for ``score`` audits each.
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
        The tests that make the verdict. "auto" chooses for each pair of groups, by their scores alone: parity where they overlap,
        ordering where they do not, both where they do in part. Or some of "parity" (as in 0.1.0), "ordering", "marginal" (with a
        threshold). The others are shown beside it.
    alpha
        The chance of any false alarm in the whole audit: it is divided by the number of scores, attributes and deciding tests.
    repair
        Whether to look for a repair when a disparity is shown.
    same_scale
        Whether score and outcome are on one scale, as a predicted and a true probability are; by default the data tell. What needs
        one scale is withheld without: calibration error, squared error before a repair, decisions by repaired scores at the same
        threshold, which are compared at the same overall share of positive decisions instead.
    min_users
        Groups of fewer users are counted but not judged: no curve, no means, no part in any test.
    left_out
        Groups that are not to be judged, each with the reason, which the report shows. Parity is shown only when every group is
        judged or left out with a reason, also groups of fewer users than ``min_users``.
    labels
        What groups are called in text, report and plots, by column and value: ``{"sex": {1: "men", 2: "women"}}``. Without, numbers
        and truth values are written with their column, ``sex = 1``. JSON and rows keep the values.
    placebo, workers
        So many times groups are dealt out anew, to count the false alarms of the deciding tests on this data, as ``es.placebo``
        does; in so many processes. It needs rows, sets a tolerance aside, and does not change the verdict.
    progress
        Progress callback: called with what is being done, in words.
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
    given = {name: value for name, value in locals().items() if name not in ("data", "progress")}
    require_alpha(alpha)
    require_gap("tolerance", tolerance)
    require_option("positive", positive, ("above", "below"))
    require_flag("repair", repair)
    require_text("title", title)
    rule = gate if isinstance(gate, Gate) else Gate(gate, require_power)
    rule.check(tolerance)
    require_option("same_scale", same_scale, (None, True, False))
    justified = check_left_out(left_out)
    texts = read_labels(labels)
    use_texts(texts)
    design = Design.of_audit(placebo, seed, workers)
    if design is not None:
        require_rows(data, "placebo=")
    deciding = named_tests(decide, threshold)
    columns = {"outcome": outcome, "item": item, "weight": weight, "count": count} | ({} if user is UNSAID else {"user": user})
    cuts = () if threshold is None else (threshold,)
    settings = {"lattice": lattice, "cuts": cuts, "cells": cells, "scale": scale, "nulls": nulls, "split": split}
    subjects = requested_subjects(data, score, group, attributes, columns, settings)
    if not subjects:
        raise OptionError("nothing to audit: name at least one score and one group or attribute")
    n_looks = len(subjects) * max(1, len(deciding))
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
        same_scale=same_scale,
        min_users=require_count("min_users", min_users, low=0),
        left_out=justified,
    )
    found = [_audit_one(subject, options, progress) for subject in subjects]
    require_known(justified, [subject.tally for subject in found])
    require_meant(texts, {subject.attribute: list(subject.tally.groups) for subject in found})
    configuration = {name: plain_option(value) for name, value in given.items()}
    return Audit(tuple(found), alpha, tolerance, rule, record(data_sources(data, progress), seed, configuration), title)


# One subject


def _audit_one(request: Request, options: _Options, say: Say | None) -> Subject:
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read = open_request(request, notes, say, again=options.repair)
        tally = read(None if request.spec is None else request.spec.split)
        use_columns(tally.columns)
        if say is not None:
            say("testing")
        selection = Selection.of(tally, options.min_users, options.left_out)
        nothing = selection.incomparable(_reference(tally, options.reference))
        found = _tested(tally if nothing else selection.tally, options)
        if nothing:
            found = withhold(found, selection, nothing)
        mismatch = scale_mismatch(selection.tally, options.same_scale)
        found |= _explained(selection, mismatch, options)
        found["decides"] = options.decide or found["decision"].tests
        before_repair = len(caught)
        if options.repair and combine(found[name].verdict for name in options.decide or ("decision",)) == DISPARITY:
            found |= _repaired(request, read, selection, mismatch, options, found["unavailable"])
        of_repair = caught[before_repair:]
        if options.placebo is not None and nothing:
            found["unavailable"]["placebo"] = nothing
        elif options.placebo is not None:
            repeated: dict[str, Any] = {"tests": options.decide}
            if not options.decide:
                repeated = repeat_decision(selection.tally, found["parity"], options.weighting)
            found["placebo"] = _false_alarms(request, selection, options, repeated, notes, say)
    for warning in caught:
        if issubclass(warning.category, EvenscoreWarning):
            notes.append(f"{'repair: ' if warning in of_repair else ''}{warning.message}")
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    columns = tally.columns
    return Subject(
        score=columns.score if columns else "score",
        attribute=columns.group if columns else ("group",),
        tally=tally,
        selection=selection,
        same_scale=not mismatch,
        alpha=options.alpha,
        threshold=options.threshold,
        positive=options.positive,
        notes=(*selection.tally._notes(), *dict.fromkeys(notes)),
        **found,
    )


def _reference(tally: Tally, reference: Any) -> Any:
    """The group that is meant: labels need not be text, but may be named by it."""
    if reference is None or not isinstance(reference, str) or reference in tally.groups:
        return reference
    return find_label(tally.groups, f"reference={shortened(reference)}", reference)


def _tested(tally: Tally, options: _Options) -> dict[str, Any]:
    """Every test of one tally."""
    reference = _reference(tally, options.reference)
    shared: dict[str, Any] = {
        "alpha": options.alpha,
        "tolerance": options.tolerance,
        "weighting": options.weighting,
        "seed": options.seed,
    }
    found: dict[str, Any] = {
        "parity": parity_test(tally, method=options.method, compare=options.compare, reference=reference, **shared),
        "ordering": ordering_test(tally, reference=reference, **shared),
        "curves": curves(tally, weighting=options.weighting, alpha=options.alpha, seed=options.seed),
    }
    again: dict[str, Any] = {"compare": options.compare, "reference": reference, "seed": options.seed}
    retold = {
        "rows_as_people": retake_rows(tally, found["parity"], found["curves"], **again),
        "keys": compare_keys(tally, found["parity"], **again),
    }
    if not options.decide:
        found["decision"] = make_decision(tally, found["parity"], found["ordering"], **shared)
        found["parity"] = hold_to(found["parity"], found["decision"])
    alone = tuple(options.decide or found["decision"].tests) == ("parity",)
    found |= {name: told and replace(told, alone=alone) for name, told in retold.items()}
    if options.threshold is not None:
        at: dict[str, Any] = {"threshold": options.threshold, "positive": options.positive}
        found["marginal"] = marginal_test(tally, reference=reference, **at, **shared)
    return found


def _explained(selection: Selection, mismatch: str, options: _Options) -> dict[str, Any]:
    """How far scores are off, what thresholds would even out, and what calibration would change; or why that cannot be said.

    mismatch: why scores and outcomes are not on one scale; empty when they are.
    """
    tally = selection.tally
    shared: dict[str, Any] = {"alpha": options.alpha, "weighting": options.weighting, "seed": options.seed}
    steps: dict[str, Callable[[], Any]] = {"calibration": lambda: _calibration_error(tally, mismatch, shared)}
    if options.threshold is not None:
        at: dict[str, Any] = {"threshold": options.threshold, "positive": options.positive}
        steps["thresholds"] = lambda: fair_thresholds(tally, **at, **shared)
        keep = "rate" if mismatch else "threshold"
        steps["impact"] = lambda: classification_impact(tally, keep=keep, **at, **shared)
        steps["decisions"] = lambda: decision_metrics(tally, reference=_reference(tally, options.reference), **at, **shared)
    found: dict[str, Any] = {"unavailable": {}}
    for name, step in steps.items():
        try:
            if not tally.groups:
                raise DataError(selection.sentence)
            found[name] = step()
        except EvenscoreError as error:
            found["unavailable"][name] = str(error)
    return found


def _calibration_error(tally: Tally, mismatch: str, shared: dict[str, Any]) -> CalibrationError:
    if mismatch:
        raise DataError(mismatch)
    return calibration_error(tally, same_scale=True, **shared)


def _repaired(
    request: Request,
    read: ReadShare,
    selection: Selection,
    mismatch: str,
    options: _Options,
    unavailable: dict[str, str],
) -> dict[str, Repair]:
    """A repair, tested on other users where there are data to take them from."""

    def read_split(split: str) -> Tally:
        return selection.keep_judged(read(Split.parse(split)))

    settings: dict[str, Any] = {
        "alpha": options.alpha,
        "tolerance": options.tolerance,
        "reference": options.reference,
        "weighting": options.weighting,
        "seed": options.seed,
        "same_scale": not mismatch,
    }
    if mismatch:
        unavailable["accuracy"] = mismatch
    whole = request.spec is not None and request.spec.split is None
    try:
        return {"repair": find_repair(selection.tally, read_split if whole else None, **settings)}
    except EvenscoreError as error:
        unavailable["repair"] = str(error)
        return {}


def _false_alarms(
    request: Request, selection: Selection, options: _Options, repeated: dict[str, Any], notes: list[str], say: Say | None
) -> Placebo:
    """The tests that decide about the real groups, on groups dealt out anew, on the same cells."""

    def progress(done: int, total: int) -> None:
        if say is not None:
            say(f"placebo run {done:,} of {total:,}")

    assert request.spec is not None and options.placebo is not None
    names = ("alpha", "threshold", "positive", "method", "compare", "weighting")
    tally = selection.tally
    reference = _reference(tally, options.reference)
    deciding = Deciding(**repeated, reference=reference, groups=tally.groups, **values_of(options, names))
    spec = replace(request.spec, lattice=tally.lattice, cuts=())
    return repeat_tests(request.data, spec, deciding, options.placebo, call="placebo=", progress=progress, say=notes.append)


__all__ = ["TESTS", "Audit", "audit"]
