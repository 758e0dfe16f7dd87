"""evenscore asks whether a score means the same thing for everyone.

import evenscore as es

tally = es.tally(data, score="score", outcome="outcome", group="group", user="user")
es.parity_test(tally)
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from evenscore.audit import audit
    from evenscore.audit.comparison import AuditComparison, compare_audits
    from evenscore.audit.gate import Gate
    from evenscore.audit.result import Audit, GateError
    from evenscore.calibration.calibrator import Calibrator
    from evenscore.calibration.fitting import calibrate
    from evenscore.calibration.inside import apply_calibrator
    from evenscore.calibration.verify import Verification, verify
    from evenscore.calibration_error import CalibrationError, calibration_error
    from evenscore.curves import Curves, curves
    from evenscore.engines import tally
    from evenscore.errors import DataError, EvenscoreError, EvenscoreWarning, FileError, MergeError, OptionError
    from evenscore.impact import classification_impact
    from evenscore.impact.ranking import rank_impact
    from evenscore.impact.result import Impact
    from evenscore.lattice import Lattice
    from evenscore.marginal import marginal_test
    from evenscore.marginal.result import MarginalTest
    from evenscore.multiobjective.accuracy import BetterWeights, better_weights
    from evenscore.multiobjective.auditing import ObjectivesAudit, audit_objectives
    from evenscore.multiobjective.calibrator import JointCalibrator
    from evenscore.multiobjective.fitting import calibrate_jointly
    from evenscore.multiobjective.lemma import LemmaTest, joint_calibration_test
    from evenscore.multiobjective.sweep import WeightSweep, sweep_weights
    from evenscore.ordering import OrderingTest, ordering_test
    from evenscore.parity import parity_test
    from evenscore.parity.result import ParityTest
    from evenscore.planning import Plan, plan
    from evenscore.simulation import Simulation, simulate, simulate_objectives, simulate_ranking
    from evenscore.simulation.study import study
    from evenscore.simulation.study_result import Study
    from evenscore.tally import Tally
    from evenscore.thresholds import fair_thresholds
    from evenscore.thresholds.result import Thresholds
    from evenscore.thresholds.trial import ThresholdTrial

# The public names and where they live; loaded when first used, so that `evenscore --help` need not wait for NumPy.
_HOMES = {
    "Audit": "evenscore.audit.result",
    "AuditComparison": "evenscore.audit.comparison",
    "BetterWeights": "evenscore.multiobjective.accuracy",
    "CalibrationError": "evenscore.calibration_error",
    "Calibrator": "evenscore.calibration.calibrator",
    "Curves": "evenscore.curves",
    "DataError": "evenscore.errors",
    "EvenscoreError": "evenscore.errors",
    "EvenscoreWarning": "evenscore.errors",
    "FileError": "evenscore.errors",
    "Gate": "evenscore.audit.gate",
    "GateError": "evenscore.audit.result",
    "Impact": "evenscore.impact.result",
    "JointCalibrator": "evenscore.multiobjective.calibrator",
    "Lattice": "evenscore.lattice",
    "LemmaTest": "evenscore.multiobjective.lemma",
    "MarginalTest": "evenscore.marginal.result",
    "MergeError": "evenscore.errors",
    "ObjectivesAudit": "evenscore.multiobjective.auditing",
    "OptionError": "evenscore.errors",
    "OrderingTest": "evenscore.ordering",
    "ParityTest": "evenscore.parity.result",
    "Plan": "evenscore.planning",
    "Simulation": "evenscore.simulation",
    "Study": "evenscore.simulation.study_result",
    "Tally": "evenscore.tally",
    "ThresholdTrial": "evenscore.thresholds.trial",
    "Thresholds": "evenscore.thresholds.result",
    "Verification": "evenscore.calibration.verify",
    "WeightSweep": "evenscore.multiobjective.sweep",
    "audit": "evenscore.audit",
    "audit_objectives": "evenscore.multiobjective.auditing",
    "better_weights": "evenscore.multiobjective.accuracy",
    "apply_calibrator": "evenscore.calibration.inside",
    "calibrate": "evenscore.calibration.fitting",
    "calibrate_jointly": "evenscore.multiobjective.fitting",
    "calibration_error": "evenscore.calibration_error",
    "classification_impact": "evenscore.impact",
    "compare_audits": "evenscore.audit.comparison",
    "curves": "evenscore.curves",
    "fair_thresholds": "evenscore.thresholds",
    "joint_calibration_test": "evenscore.multiobjective.lemma",
    "marginal_test": "evenscore.marginal",
    "ordering_test": "evenscore.ordering",
    "parity_test": "evenscore.parity",
    "plan": "evenscore.planning",
    "rank_impact": "evenscore.impact.ranking",
    "simulate": "evenscore.simulation",
    "simulate_objectives": "evenscore.simulation",
    "simulate_ranking": "evenscore.simulation",
    "study": "evenscore.simulation.study",
    "sweep_weights": "evenscore.multiobjective.sweep",
    "tally": "evenscore.engines",
    "verify": "evenscore.calibration.verify",
}

__all__ = [
    "Audit",
    "AuditComparison",
    "BetterWeights",
    "CalibrationError",
    "Calibrator",
    "Curves",
    "DataError",
    "EvenscoreError",
    "EvenscoreWarning",
    "FileError",
    "Gate",
    "GateError",
    "Impact",
    "JointCalibrator",
    "Lattice",
    "LemmaTest",
    "MarginalTest",
    "MergeError",
    "ObjectivesAudit",
    "OptionError",
    "OrderingTest",
    "ParityTest",
    "Plan",
    "Simulation",
    "Study",
    "Tally",
    "ThresholdTrial",
    "Thresholds",
    "Verification",
    "WeightSweep",
    "apply_calibrator",
    "audit",
    "audit_objectives",
    "better_weights",
    "calibrate",
    "calibrate_jointly",
    "calibration_error",
    "classification_impact",
    "compare_audits",
    "curves",
    "fair_thresholds",
    "joint_calibration_test",
    "marginal_test",
    "ordering_test",
    "parity_test",
    "plan",
    "rank_impact",
    "simulate",
    "simulate_objectives",
    "simulate_ranking",
    "study",
    "sweep_weights",
    "tally",
    "verify",
]


class _Package(ModuleType):
    """Keeps ``es.tally`` and ``es.curves`` functions: importing the submodules of those names must not replace them."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evenscore' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
