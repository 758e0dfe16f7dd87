"""A joint calibrator as JSON: the columns, the axes and the maps; grids are packed as base64."""

from __future__ import annotations

import base64
import math
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from evenscore._version import __version__
from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.calibrator_file import Document, decode_document, kind_of, save_document, sealed
from evenscore.calibration.storage import as_document as single_document
from evenscore.calibration.storage import decode_calibrator
from evenscore.data.columns import LARGEST
from evenscore.data.observations import MAX_GROUPS
from evenscore.multiobjective.axes import Axis
from evenscore.multiobjective.calibrator import JointCalibrator
from evenscore.multiobjective.maps import GroupMaps, ObjectiveMap
from evenscore.multiobjective.regression import Regression
from evenscore.multiobjective.rows import JointColumns
from evenscore.saving import pack_label, read_whole, unpack_label
from evenscore.types import Floats

KIND = "joint calibrator"


class _Axis(msgspec.Struct, forbid_unknown_fields=True):
    scale: str
    nodes: list[float]


class _Regression(msgspec.Struct, forbid_unknown_fields=True):
    logistic: bool
    squares: bool
    mean: list[float]
    scale: list[float]
    coefficients: list[float]


class _Objective(msgspec.Struct, forbid_unknown_fields=True):
    method: str
    grid: str | None
    known: str | None
    regression: _Regression | None
    bandwidth: list[float]
    centre: float
    users: int
    rows: int
    risk: dict[str, float | None]
    reason: str


class _Group(msgspec.Struct, forbid_unknown_fields=True):
    label: Any
    low: list[float]
    high: list[float]
    source: str
    objectives: list[_Objective]


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    made_with: str
    method: str
    weighting: str
    columns: dict[str, Any]
    binary: list[bool]
    dropped: dict[str, int]
    fingerprint: str
    split: str | None
    reasons: list[tuple[Any, str]]
    frame_kind: str | None
    axes: list[_Axis]
    maps: list[_Group]
    pooled: _Group | None
    single: dict[str, Any] | None


# Saving


def save_joint(calibrator: JointCalibrator, path: Path) -> None:
    """Write a joint calibrator, whole or not at all."""
    save_document(_document(calibrator), path)


def as_document(calibrator: JointCalibrator) -> dict[str, Any]:
    """What a file holds, as plain values."""
    return dict(msgspec.to_builtins(_document(calibrator)))


def _document(calibrator: JointCalibrator) -> Document[_Body]:
    body = _Body(
        made_with=__version__,
        method=calibrator.method,
        weighting=calibrator.weighting,
        columns=msgspec.to_builtins(calibrator.columns),
        binary=list(calibrator.binary),
        dropped=dict(calibrator.dropped),
        fingerprint=calibrator.fingerprint,
        split=calibrator.split,
        reasons=[(pack_label(group), reason) for group, reason in calibrator.reasons.items()],
        frame_kind=calibrator.frame_kind,
        axes=[_Axis(axis.scale, axis.nodes.tolist()) for axis in calibrator.axes],
        maps=[_pack_group(each) for each in calibrator.maps],
        pooled=None if calibrator.pooled is None else _pack_group(calibrator.pooled),
        single=None if calibrator.single is None else single_document(calibrator.single),
    )
    return sealed(KIND, body)


def _pack_group(each: GroupMaps) -> _Group:
    label = None if each.group is None else pack_label(each.group)
    return _Group(label, each.low.tolist(), each.high.tolist(), each.source, [_pack_objective(mine) for mine in each.objectives])


def _pack_objective(each: ObjectiveMap) -> _Objective:
    found = each.regression
    return _Objective(
        method=each.method,
        grid=None if each.grid is None else base64.b64encode(each.grid.astype("<f8").tobytes()).decode(),
        known=None if each.known is None else base64.b64encode(np.packbits(each.known).tobytes()).decode(),
        regression=None
        if found is None
        else _Regression(found.logistic, found.squares, found.mean.tolist(), found.scale.tolist(), found.coefficients.tolist()),
        bandwidth=list(each.bandwidth),
        centre=each.centre,
        users=each.users,
        rows=each.rows,
        risk={name: risk if math.isfinite(risk) else None for name, risk in each.risk.items()},
        reason=each.reason,
    )


# Loading


def load_joint(path: Path) -> JointCalibrator:
    """Read a joint calibrator, or say what is wrong with the file."""
    return _decode_joint(read_whole(path), path)


def load_any(path: Path) -> Calibrator | JointCalibrator:
    """The calibrator in a file, of one score or of several."""
    content = read_whole(path)
    try:
        joint = kind_of(content) == KIND
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        joint = False  # the reader below says what is wrong
    return _decode_joint(content, path) if joint else decode_calibrator(content, path)


def _decode_joint(content: bytes, path: Path) -> JointCalibrator:
    return decode_document(content, path, KIND, Document[_Body], partial(_rebuild, path=path))


def _rebuild(body: _Body, path: Path) -> JointCalibrator:
    columns = msgspec.convert(body.columns, JointColumns)
    axes = tuple(Axis(axis.scale, _rising(axis.nodes)) for axis in body.axes)
    k = len(columns.scores)
    single = None if body.single is None else decode_calibrator(msgspec.json.encode(body.single), path)
    if len(columns.outcomes) != k or len(body.binary) != k or len(axes) != (0 if single else k) or bool(single) == bool(body.maps):
        raise ValueError("scores, outcomes and axes do not belong together")
    n_nodes = math.prod(len(axis.nodes) for axis in axes)
    maps = tuple(_unpack_group(each, k, n_nodes) for each in body.maps)
    labels = [each.group for each in maps]
    if len(maps) > MAX_GROUPS or len(set(labels)) < len(labels) or (maps and body.pooled is None):
        raise ValueError("the groups are too many, not different, or lack the maps of everybody")
    return JointCalibrator(
        axes=axes,
        maps=maps,
        pooled=None if body.pooled is None else _unpack_group(body.pooled, k, n_nodes),
        method=body.method,
        weighting=body.weighting,
        columns=columns,
        binary=tuple(body.binary),
        fingerprint=body.fingerprint,
        split=body.split,
        dropped=body.dropped,
        reasons={unpack_label(group): reason for group, reason in body.reasons},
        frame_kind=body.frame_kind,
        single=single,
    )


def _unpack_group(packed: _Group, k: int, n_nodes: int) -> GroupMaps:
    low, high = _finite(packed.low, k), _finite(packed.high, k)
    if len(packed.objectives) != k or (low > high).any():
        raise ValueError("a group lacks an objective, or its range is not a range")
    label = None if packed.label is None else unpack_label(packed.label)
    return GroupMaps(label, low, high, tuple(_unpack_objective(each, k, n_nodes) for each in packed.objectives), packed.source)


def _unpack_objective(packed: _Objective, k: int, n_nodes: int) -> ObjectiveMap:
    if (packed.grid is None) == (packed.regression is None) or (packed.grid is None) != (packed.known is None):
        raise ValueError("a map needs either a grid or a regression")
    grid = (
        None if packed.grid is None else np.frombuffer(base64.b64decode(packed.grid, validate=True), dtype="<f8").astype(np.float64)
    )
    known = None
    if grid is not None and packed.known is not None:
        bits = np.frombuffer(base64.b64decode(packed.known, validate=True), dtype=np.uint8)
        known = np.unpackbits(bits, count=n_nodes).astype(bool)
        if len(grid) != n_nodes or len(known) != n_nodes or not np.isfinite(grid).all():
            raise ValueError("a grid has the wrong size, or a number that is not finite")
    return ObjectiveMap(
        method=packed.method,
        grid=grid,
        known=known,
        regression=None if packed.regression is None else _unpack_regression(packed.regression, k),
        bandwidth=tuple(packed.bandwidth),
        centre=float(_finite([packed.centre], 1)[0]),
        users=packed.users,
        rows=packed.rows,
        risk={name: math.nan if risk is None else risk for name, risk in packed.risk.items()},
        reason=packed.reason,
    )


def _unpack_regression(packed: _Regression, k: int) -> Regression:
    n_terms = 1 + k + (k * (k + 1) // 2 if packed.squares else 0)
    scale = _finite(packed.scale, k)
    if (scale <= 0).any():
        raise ValueError("a scale is not positive")
    return Regression(packed.logistic, packed.squares, _finite(packed.mean, k), scale, _finite(packed.coefficients, n_terms))


def _finite(values: list[float], size: int) -> Floats:
    array = np.array(values, dtype=np.float64)
    if array.shape != (size,) or not (np.abs(array) <= LARGEST).all():
        raise ValueError("numbers are too few, too many, too large or not finite")
    return array


def _rising(values: list[float]) -> Floats:
    nodes = _finite(values, len(values))
    if len(nodes) == 0 or (np.diff(nodes) <= 0).any():
        raise ValueError("the nodes of an axis are none or out of order")
    return nodes
