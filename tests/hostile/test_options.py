"""Every option of every public function, given what it is not: a result or an EvenscoreError."""

import inspect

import numpy as np
import pytest
from hostile_calls import AUDIT, CALIBRATOR, PAIRS, ROWS, TALLY

import evenscore as es
from data import NAMES
from hostile import THOROUGH, VALUES, survives

RANKING = {"query": "u", "score": "s", "group": "g", "calibrator": CALIBRATOR}

# What each function is given beside the hostile option.
CALLS = {
    es.parity_test: ((TALLY,), {"method": "bonferroni", "both": False}),
    es.ordering_test: ((TALLY,), {}),
    es.curves: ((TALLY,), {}),
    es.calibrate: ((TALLY,), {}),
    es.calibration_error: ((TALLY,), {}),
    es.classification_impact: ((TALLY,), {"threshold": 0.5}),
    es.marginal_test: ((TALLY,), {"threshold": 0.5, "both": False}),
    es.fair_thresholds: ((TALLY,), {"threshold": 0.5}),
    es.decision_metrics: ((TALLY,), {"threshold": 0.5}),
    es.decision_curves: ((TALLY,), {}),
    es.rows_as_people: ((TALLY,), {}),
    es.plan: ((TALLY,), {"users": 500, "method": "bonferroni"}),
    es.ThresholdTrial: ((TALLY,), {"threshold": 0.5, "max_step": 0.05}),
    es.verify: ((CALIBRATOR, TALLY), {"unseen": True, "method": "bonferroni"}),
    es.tally: ((ROWS,), dict(NAMES)),
    es.audit: ((ROWS,), dict(NAMES) | {"method": "bonferroni", "repair": False}),
    es.placebo: ((ROWS,), dict(NAMES) | {"method": "bonferroni", "runs": 1}),
    es.compare_audits: ((AUDIT, AUDIT), {}),
    es.Lattice: ((0.0, 1.0), {}),
    es.simulate: ((20,), {}),
    es.simulate_objectives: ((20,), {}),
    es.simulate_ranking: ((20,), {}),
    es.rank_impact: ((ROWS,), dict(RANKING)),
    es.calibrate_jointly: ((ROWS,), PAIRS | {"method": "linear"}),
    es.audit_objectives: ((ROWS,), PAIRS | {"method": "bonferroni"}),
    es.better_weights: ((ROWS,), PAIRS | {"weights": [1.0, 2.0]}),
    es.joint_calibration_test: ((ROWS,), dict(PAIRS)),
    es.sweep_weights: ((ROWS,), PAIRS | {"method": "bonferroni"}),
}
CALLBACKS = {"progress", "say"}  # functions of the caller, whose errors are theirs


def options_of(function):
    named = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    return [p.name for p in named if p.name not in CALLBACKS]


def cases():
    for function in CALLS:
        for name in options_of(function):
            yield pytest.param(function, name, id=f"{function.__name__}-{name}")


def sampled(function, name):
    """All values, or a sample that differs from option to option."""
    if THOROUGH:
        return VALUES
    rng = np.random.default_rng(sum(map(ord, function.__name__ + name)))
    return [VALUES[i] for i in rng.choice(len(VALUES), 9, replace=False)]


@pytest.mark.parametrize(("function", "name"), list(cases()))
def test_a_hostile_option_is_used_or_refused(function, name):
    positional, options = CALLS[function]
    order = list(inspect.signature(function).parameters)
    given = dict(zip(order, positional, strict=False)) | options
    if function is es.simulate and name == "users":
        pytest.skip("a simulation is only written here: see the sizes below")
    for value in sampled(function, name):
        survives(function, **given | {name: value})


def test_every_public_function_is_among_them():
    results = {name for name in es.__all__ if inspect.isclass(getattr(es, name)) and getattr(es, name) not in CALLS}
    assert set(es.__all__) - results - {"study", "apply_calibrator"} == {function.__name__ for function in CALLS}


@pytest.mark.parametrize("value", [True, np.array([1, 2]), np.array(["sup"]), [], "Sup", 1.5, None])
def test_a_choice_of_the_wrong_type_is_named(value):
    with pytest.raises(es.OptionError, match=r"method=.* is not known; choose one of"):
        es.parity_test(TALLY, method=value)


@pytest.mark.parametrize("seed", [-1, 0.5, "x", None, [1], True])
@pytest.mark.parametrize("function", [es.curves, es.parity_test, es.ordering_test, es.calibration_error])
def test_a_seed_is_a_whole_number(function, seed):
    with pytest.raises(es.OptionError, match=r"seed=.* must be a whole number"):
        function(TALLY, seed=seed)


@pytest.mark.parametrize("bandwidth", [None, [], "wide", 0, -1, np.inf, 10**400, True, np.array([0.1, 0.2]), 1j])
@pytest.mark.parametrize("function", [es.curves, es.parity_test, es.calibrate])
def test_a_bandwidth_is_a_positive_number_or_a_rule(function, bandwidth):
    with pytest.raises(es.OptionError, match="bandwidth="):
        function(TALLY, bandwidth=bandwidth)


@pytest.mark.parametrize("grid", ["x", {}, 1j, [10**400], np.linspace(0, 1, 3000), [[0.1]], 0.5])
def test_a_grid_is_a_short_list_of_scores(grid):
    with pytest.raises(es.OptionError, match="grid"):
        es.curves(TALLY, grid=grid)


def test_numbers_of_numpy_are_numbers():
    assert es.parity_test(TALLY, alpha=np.float32(0.1), seed=np.int64(3), degree=np.int64(1), method=np.str_("sup")).alpha < 0.11
