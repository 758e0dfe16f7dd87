"""``es.calibrate``: fits a map for each group from the tally alone."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from evenscore.archive import pack_label
from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.cells import Cells, Fitter, as_map, group_cells, pooled_cells
from evenscore.calibration.kernel import Kernel
from evenscore.calibration.maps import GroupMap, knot_weights
from evenscore.errors import DataError, EvenscoreWarning, require_option
from evenscore.tables import label_text
from evenscore.tally import WEIGHTINGS, Tally, require_tally

METHODS = ("kernel",)
FEWEST_USERS = 10  # a group with fewer gets the map of everybody


def calibrate(
    tally: Tally,
    *,
    method: str = "kernel",
    degree: int = 1,
    kernel: str = "gaussian",
    bandwidth: float | str = "risk",
    monotone: bool = False,
    weighting: str = "user",
) -> Calibrator:
    """Fit a map for each group from its scores to the outcome that they stand for."""
    tally = require_tally(tally, "calibrate")
    require_option("method", method, METHODS)
    require_option("weighting", weighting, WEIGHTINGS)
    smoother = Kernel(degree, kernel, bandwidth)
    smoother.check()
    if not tally.groups or not any(tally.n_rows.values()):
        raise DataError("the tally has no labelled rows: there is nothing to calibrate on")
    maps, pooled, reasons = _fit_all(tally, smoother.fit, weighting, monotone)
    return Calibrator(
        maps=maps,
        pooled=pooled,
        method=method,
        weighting=weighting,
        monotone=monotone,
        lattice=tally.lattice,
        binary=tally.binary,
        columns=tally.columns,
        fingerprint=fingerprint(tally),
        reasons=reasons,
        frame_kind=tally.frame_kind,
    )


def _fit_all(tally: Tally, fitter: Fitter, weighting: str, monotone: bool) -> tuple[tuple[GroupMap, ...], GroupMap, dict[Any, str]]:
    """A map for each group and one for everybody; groups with too few users have the latter, and a reason."""
    pooled = _fit(pooled_cells(tally, weighting), fitter, monotone)
    maps, reasons = [], {}
    for group in tally.groups:
        if tally.n_users[group] < FEWEST_USERS:
            users = tally.n_users[group]
            maps.append(replace(pooled, group=group, users=users, rows=tally.n_rows[group], source="pooled"))
            reasons[group] = f"has only {users} users with an outcome, fewer than {FEWEST_USERS}: it gets the map of everybody"
        else:
            maps.append(_fit(group_cells(tally, group, weighting), fitter, monotone))
    if reasons:
        few = "; ".join(f"{label_text(group)} {reason}" for group, reason in reasons.items())
        warnings.warn(few, EvenscoreWarning, stacklevel=4)
    return tuple(maps), pooled, reasons


def _fit(cells: Cells, fitter: Fitter, monotone: bool) -> GroupMap:
    found = as_map(cells, fitter(cells))
    if not monotone:
        return found
    return found.monotone(knot_weights(found.score, cells.score, cells.sums.W))


def fingerprint(tally: Tally) -> str:
    """A digest of the sums that a tally holds: equal data give equal fingerprints."""
    digest = hashlib.sha256(repr([pack_label(group) for group in tally.groups]).encode())
    for array in (tally.lattice.edges, *(part.vectors for part in tally.parts)):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
