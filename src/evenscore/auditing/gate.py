"""The gate: what a pipeline makes of a verdict. Passes, fails on a disparity, or says that not enough is shown."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenscore.errors import OptionError, require_gap, require_option
from evenscore.estimation.verdict import DISPARITY, PARITY
from evenscore.wording import figures

GATES = ("difference", "equivalence")
PASSED, FAILED, UNSHOWN = "passed", "failed", "unshown"
CODES = {PASSED: 0, FAILED: 1, UNSHOWN: 3}


@dataclass(frozen=True, slots=True)
class Gate:
    """What must hold for an audit to pass.

    Parameters
    ----------
    rule
        "difference": that no disparity is shown; "equivalence": that parity is shown within the tolerance.
    require_power
        The smallest gap that matters; a test that would have missed it with more than 20 % does not pass.

    Examples
    --------
    >>> import evenscore as es
    >>> es.Gate("equivalence", require_power=0.05)
    Gate(rule='equivalence', require_power=0.05)
    """

    rule: str = "difference"
    require_power: float | None = None

    def check(self, tolerance: float | None) -> None:
        """Refuse rules that cannot be met."""
        require_option("gate", self.rule, GATES)
        require_gap("require_power", self.require_power)
        if self.rule == "equivalence" and tolerance is None:
            raise OptionError("gate='equivalence' needs tolerance=, the gap that does not matter, such as tolerance=0.02")


@dataclass(frozen=True, slots=True)
class GateResult:
    """Whether a gate was passed, with the exit code of the command line and the reason."""

    outcome: str
    rule: str
    reason: str

    @property
    def passed(self) -> bool:
        """Whether a pipeline may go on."""
        return self.outcome == PASSED

    @property
    def code(self) -> int:
        """0 passed, 1 a disparity, 3 not shown either way where it must be."""
        return CODES[self.outcome]


def judge(
    gate: Gate, verdict: str, detectable: float, tolerance: float | None, order: bool = False, nothing: bool = False
) -> GateResult:
    """What the gate makes of a verdict and the smallest gap that could have been seen (nan: nothing could be judged).

    order: whether groups have no common scores, so that only their order was judged; nothing: whether no test gave a p-value.
    """
    if verdict == DISPARITY:
        return GateResult(FAILED, gate.rule, "a disparity is shown")
    if gate.rule == "equivalence" and verdict != PARITY:
        return GateResult(UNSHOWN, gate.rule, f"the gate asks for parity within {tolerance:g}, which is not shown")
    if gate.require_power is not None and not detectable <= gate.require_power:
        seen = f"only gaps of {figures(detectable)} or more would be"
        if math.isnan(detectable):
            seen = "some groups cannot be judged, so there no gap would be"
        elif math.isinf(detectable):
            seen = "between some groups even the largest possible gap would not be"
        return GateResult(
            UNSHOWN, gate.rule, f"the gate asks that a gap of {gate.require_power:g} be found with probability 0.8; {seen} found"
        )
    held = "groups without common scores are shown to be in order" if order else "parity is shown"
    shown = f"{held} within {tolerance:g}" if verdict == PARITY else "no disparity is shown, which is not proof of parity"
    if verdict != PARITY and math.isnan(detectable):
        compared = "nothing could be judged" if nothing else "not every pair of groups could be compared at the same score"
        shown = f"no disparity is shown, but {compared}: this is no evidence of parity"
    return GateResult(PASSED, gate.rule, shown)
