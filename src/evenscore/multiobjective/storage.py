"""A joint calibrator as JSON: the columns, the axes and the maps; grids are packed as base64."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from evenscore._version import __version__
from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.calibrator_file import CalibratorFile, format_of
from evenscore.calibration.storage import FILE as SINGLE_FILE
from evenscore.codec import BASE64, BITS, NUMBER_OR_NAN, Codec, dict_codec, dict_of, finite_array, optional, record_codec, tuple_of
from evenscore.data.groups import MAX_GROUPS
from evenscore.multiobjective.axes import Axis
from evenscore.multiobjective.calibrator import JointCalibrator
from evenscore.multiobjective.maps import GroupMaps, ObjectiveMap
from evenscore.multiobjective.regression import Regression
from evenscore.multiobjective.rows import JointColumns
from evenscore.saving import read_whole

ORDER = "method weighting columns binary dropped fingerprint split reasons frame_kind axes maps pooled single"


def load_any(path: Path) -> Calibrator | JointCalibrator:
    """The calibrator in a file, of one score or of several."""
    content = read_whole(path)
    if format_of(content) == FILE.format:
        return FILE.decode(content, str(path))
    return SINGLE_FILE.decode(content, str(path))


# What must hold of the values that were read


def _check_axis(axis: Axis) -> Axis:
    if len(axis.nodes) == 0 or (np.diff(axis.nodes) <= 0).any():
        raise ValueError("the nodes of an axis are none or out of order")
    return axis


def _check_regression(regression: Regression) -> Regression:
    k = len(regression.mean)
    n_terms = 1 + k + (k * (k + 1) // 2 if regression.squares else 0)
    if len(regression.scale) != k or len(regression.coefficients) != n_terms or (regression.scale <= 0).any():
        raise ValueError("a regression has too few or too many numbers, or a scale that is not positive")
    return regression


def _check_objective(objective: ObjectiveMap) -> ObjectiveMap:
    finite_array(objective.centre)
    grid, known = objective.grid, objective.known
    if (grid is None) == (objective.regression is None) or (grid is None) != (known is None):
        raise ValueError("a map needs either a grid or a regression")
    if grid is None or known is None:
        return objective
    if not len(grid) <= len(known) < len(grid) + 8:
        raise ValueError("it is not said of each node whether it is known")
    return replace(objective, known=known[: len(grid)])


def _check_joint(joint: JointCalibrator) -> JointCalibrator:
    k = len(joint.scores)
    n_axes = k if joint.single is None else 0
    if {len(joint.outcomes), len(joint.binary)} != {k} or len(joint.axes) != n_axes or bool(joint.maps) != bool(n_axes):
        raise ValueError("scores, outcomes and axes do not belong together")
    labels = [maps.group for maps in joint.maps]
    if len(labels) > MAX_GROUPS or len(set(labels)) < len(labels) or (labels and joint.pooled is None):
        raise ValueError("the groups are too many, not different, or lack the pooled maps")
    n_nodes = math.prod(len(axis.nodes) for axis in joint.axes)
    for maps in (*joint.maps, joint.pooled):
        if maps is not None:
            _check_group(maps, k, n_nodes)
    return joint


def _check_group(maps: GroupMaps, k: int, n_nodes: int) -> None:
    if {len(maps.objectives), len(maps.low), len(maps.high)} != {k} or (maps.low > maps.high).any():
        raise ValueError("a group lacks an objective, or its range is not a range")
    for objective in maps.objectives:
        if objective.grid is not None and len(objective.grid) != n_nodes:
            raise ValueError("a grid has the wrong size")
        if objective.regression is not None and len(objective.regression.mean) != k:
            raise ValueError("a regression has the wrong size")


# How they are stored

_OBJECTIVE = record_codec(
    ObjectiveMap,
    check=_check_objective,
    grid=optional(BASE64),
    known=optional(BITS),
    regression=optional(record_codec(Regression, check=_check_regression)),
    risk=dict_of(NUMBER_OR_NAN),
)
_MAPS = record_codec(GroupMaps, keys={"group": "label"}, order="group low high source objectives", objectives=tuple_of(_OBJECTIVE))
_SINGLE: Codec[Calibrator] = Codec(
    dict[str, Any],
    SINGLE_FILE.document,
    lambda stored: SINGLE_FILE.decode(msgspec.json.encode(stored), "the calibrator of one score"),
)

FILE = CalibratorFile(
    "joint calibrator",
    record_codec(
        JointCalibrator,
        order=ORDER,
        constants={"made_with": __version__},
        check=_check_joint,
        columns=dict_codec(JointColumns),
        axes=tuple_of(record_codec(Axis, check=_check_axis)),
        maps=tuple_of(_MAPS),
        pooled=optional(_MAPS),
        single=optional(_SINGLE),
    ),
)
