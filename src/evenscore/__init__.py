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

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from evenscore.calibration.calibrator import Calibrator
    from evenscore.calibration.fitting import calibrate
    from evenscore.calibration_error import CalibrationError, calibration_error
    from evenscore.curves import Curves, curves
    from evenscore.engines import tally
    from evenscore.errors import DataError, EvenscoreError, EvenscoreWarning, FileError, MergeError, OptionError
    from evenscore.impact import classification_impact
    from evenscore.impact_result import Impact
    from evenscore.lattice import Lattice
    from evenscore.ordering import OrderingTest, ordering_test
    from evenscore.parity import parity_test
    from evenscore.parity_result import ParityTest
    from evenscore.planning import Plan, plan
    from evenscore.rank_impact import rank_impact
    from evenscore.simulation import Simulation, simulate
    from evenscore.simulation.study import study
    from evenscore.simulation.study_result import Study
    from evenscore.tally import Tally

# The public names and where they live; loaded when first used, so that `evenscore --help` need not wait for NumPy.
_HOMES = {
    "Calibrator": "evenscore.calibration.calibrator",
    "CalibrationError": "evenscore.calibration_error",
    "Curves": "evenscore.curves",
    "DataError": "evenscore.errors",
    "EvenscoreError": "evenscore.errors",
    "EvenscoreWarning": "evenscore.errors",
    "FileError": "evenscore.errors",
    "Impact": "evenscore.impact_result",
    "Lattice": "evenscore.lattice",
    "MergeError": "evenscore.errors",
    "OptionError": "evenscore.errors",
    "OrderingTest": "evenscore.ordering",
    "ParityTest": "evenscore.parity_result",
    "Plan": "evenscore.planning",
    "Simulation": "evenscore.simulation",
    "Study": "evenscore.simulation.study_result",
    "Tally": "evenscore.tally",
    "calibrate": "evenscore.calibration.fitting",
    "calibration_error": "evenscore.calibration_error",
    "classification_impact": "evenscore.impact",
    "curves": "evenscore.curves",
    "ordering_test": "evenscore.ordering",
    "parity_test": "evenscore.parity",
    "plan": "evenscore.planning",
    "rank_impact": "evenscore.rank_impact",
    "simulate": "evenscore.simulation",
    "study": "evenscore.simulation.study",
    "tally": "evenscore.engines",
}

__all__ = [
    "CalibrationError",
    "Calibrator",
    "Curves",
    "DataError",
    "EvenscoreError",
    "EvenscoreWarning",
    "FileError",
    "Impact",
    "Lattice",
    "MergeError",
    "OptionError",
    "OrderingTest",
    "ParityTest",
    "Plan",
    "Simulation",
    "Study",
    "Tally",
    "calibrate",
    "calibration_error",
    "classification_impact",
    "curves",
    "ordering_test",
    "parity_test",
    "plan",
    "rank_impact",
    "simulate",
    "study",
    "tally",
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
