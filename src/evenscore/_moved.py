"""Import paths of 0.1.0 that have moved: they keep working, with a DeprecationWarning that gives the new one."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "audit.comparison": "auditing.audit_comparison",
    "audit.gate": "auditing.gate",
    "audit.provenance": "auditing.provenance",
    "audit.repair": "auditing.repair",
    "audit.result": "auditing.audit_result",
    "axis": "tallies.axis",
    "bandwidth": "estimation.bandwidth",
    "calibration.carrying": "calibration.calibrated_tally",
    "calibration.fitting": "calibration",
    "calibration.inside": "calibration.in_engine",
    "calibration.verify": "calibration.verification",
    "calibration_error.result": "miscalibration.error_result",
    "coding": "data.coding",
    "columns": "data.columns",
    "comparison": "estimation.comparison",
    "configuration": "commands.configuration",
    "counting": "tallies.counting",
    "counting.user_cells": "tallies.user_cells",
    "gaps": "estimation.gaps",
    "impact.result": "impact.impact_result",
    "inference": "estimation.inference",
    "kernels": "estimation.kernels",
    "lattice": "tallies.lattice",
    "marginal.result": "marginal.marginal_result",
    "multiobjective.fitting": "multiobjective",
    "multiplicity": "estimation.multiplicity",
    "observations": "data.observations",
    "parity.result": "parity.parity_result",
    "simulation.study": "simulation.studies",
    "splits": "data.splits",
    "tally.archive": "tallies.archive",
    "tally.merging": "tallies.merging",
    "tally.pairs": "tallies.pairs",
    "tally.release": "tallies.release",
    "thresholds.result": "thresholds.thresholds_result",
    "verdict": "estimation.verdict",
}

# A function has the name of these today, and importing a module sets its name in the package. They are therefore in place before
# anybody imports them.
HIDDEN = {
    "audit": "auditing",
    "calibration_error": "miscalibration",
    "curves": "estimation.fitted_curves",
    "tally": "tallies.tally_state",
}


def keep_old_paths() -> None:
    """Answer imports of the old paths."""
    sys.meta_path.append(_OldPaths())
    for old, new in HIDDEN.items():
        sys.modules[f"evenscore.{old}"] = _OldModule(f"evenscore.{old}", f"evenscore.{new}")


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} has moved; import from {new}", DeprecationWarning, stacklevel=3)


class _OldPaths(MetaPathFinder, Loader):
    """Puts the module that has moved in the place of the old one."""

    def find_spec(self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None) -> ModuleSpec | None:
        package, _, inner = name.partition(".")
        return importlib.util.spec_from_loader(name, self) if package == "evenscore" and inner in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        new = f"evenscore.{MOVED[name.removeprefix('evenscore.')]}"
        _warn(name, new)
        sys.modules[name] = importlib.import_module(new)


class _OldModule(ModuleType):
    """Looks a name up where it is now."""

    def __init__(self, name: str, new: str) -> None:
        super().__init__(name, doc=f"Moved to {new}.")
        self.__path__: list[str] = []
        self._new = new

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _warn(self.__name__, self._new)
        return getattr(importlib.import_module(self._new), name)
