"""What is written down of a lattice beside its edges, and a lattice made of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evenscore.errors import OptionError, require_option
from evenscore.tallies.edges import MAX_CELLS
from evenscore.tallies.lattice import SCALES, Lattice
from evenscore.types import Floats


def lattice_settings(lattice: Lattice) -> dict[str, object]:
    """Everything needed to make it again, together with the edges."""
    settings: dict[str, object] = {
        "low": lattice.low,
        "high": lattice.high,
        "scale": lattice.scale,
        "open_ended": lattice.open_ended,
        "max_cells": lattice.max_cells,
        "discrete": lattice.discrete,
    }
    if lattice.auto and lattice.scale != "auto":
        settings |= {"auto": True, "reason": lattice.reason}
        if lattice.scale == "rank" and lattice.weight is not None:
            settings["weight"] = lattice.weight.tolist()
    return settings


def lattice_from_settings(edges: Floats, settings: Mapping[str, Any]) -> Lattice:
    """The inverse, together with the edges; raises an error when they cannot be right."""
    low, high = float(settings["low"]), float(settings["high"])
    scale, max_cells = str(settings["scale"]), int(settings["max_cells"])
    require_option("scale", scale, SCALES)
    if len(edges) > 4 * MAX_CELLS or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise OptionError("the lattice's edges are not ascending")
    if settings["discrete"]:
        lattice = Lattice.from_values(np.concatenate([[low], edges]), scale=scale, max_cells=max(max_cells, len(edges) + 1))
    else:
        open_ended = bool(settings["open_ended"])
        lattice = Lattice._of(edges=edges.copy(), scale=scale, low=low, high=high, open_ended=open_ended, max_cells=max_cells)
    if not settings.get("auto"):
        return lattice
    weight = None if settings.get("weight") is None else np.asarray(settings["weight"], dtype=np.float64)
    if weight is not None and not (weight.shape == (lattice.n_cells,) and weight.min() >= 0 < weight.sum() < np.inf):
        raise OptionError("the lattice's weights do not fit its cells")
    return lattice._with(auto=True, weight=weight, reason=str(settings.get("reason", "")))
