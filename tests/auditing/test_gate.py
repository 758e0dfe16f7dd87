import math

import pytest

import evenscore as es
from evenscore.auditing.gate import Gate, judge


@pytest.mark.parametrize(
    ("gate", "verdict", "seen", "tolerance", "outcome", "code"),
    [
        (Gate(), "inconclusive", 0.05, None, "passed", 0),
        (Gate(), "parity", 0.05, 0.1, "passed", 0),
        (Gate(), "disparity", 0.05, None, "failed", 1),
        (Gate(), "inconclusive", math.nan, None, "passed", 0),
        (Gate("equivalence"), "parity", 0.05, 0.1, "passed", 0),
        (Gate("equivalence"), "inconclusive", 0.05, 0.1, "unshown", 3),
        (Gate("equivalence"), "disparity", 0.05, 0.1, "failed", 1),
        (Gate(require_power=0.06), "inconclusive", 0.05, None, "passed", 0),
        (Gate(require_power=0.05), "inconclusive", 0.05, None, "passed", 0),
        (Gate(require_power=0.04), "inconclusive", 0.05, None, "unshown", 3),
        (Gate(require_power=0.04), "inconclusive", math.nan, None, "unshown", 3),
        (Gate(require_power=0.04), "disparity", 0.05, None, "failed", 1),
        (Gate("equivalence", 0.04), "parity", 0.05, 0.1, "unshown", 3),
    ],
)
def test_what_a_gate_makes_of_a_verdict(gate, verdict, seen, tolerance, outcome, code):
    found = judge(gate, verdict, seen, tolerance)
    assert (found.outcome, found.code, found.passed) == (outcome, code, code == 0)
    assert found.reason and "fair" not in found.reason


@pytest.mark.parametrize(
    ("gate", "tolerance", "message"),
    [
        (Gate("equality"), None, "gate='equality' is not known; choose one of 'difference', 'equivalence'"),
        (Gate("equivalence"), None, "needs tolerance="),
        (Gate(require_power=-1), None, "require_power=-1 must be a positive gap"),
    ],
)
def test_a_gate_that_cannot_be_met(gate, tolerance, message):
    with pytest.raises(es.EvenscoreError, match=message):
        gate.check(tolerance)
