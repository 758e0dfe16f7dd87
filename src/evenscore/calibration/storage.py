"""A calibrator of one score as JSON: the columns, the lattice, knots with their covariance."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from evenscore._version import __version__
from evenscore.calibration.calibrator import Calibrator, UserSketch
from evenscore.calibration.calibrator_file import Document, decode_document, save_document, sealed
from evenscore.calibration.maps import GroupMap
from evenscore.data.columns import LARGEST
from evenscore.data.observations import MAX_GROUPS, Columns
from evenscore.saving import pack_label, read_whole, unpack_label
from evenscore.tallies.lattice import Lattice
from evenscore.types import Floats

KIND = "calibrator"


class _Map(msgspec.Struct, forbid_unknown_fields=True):
    label: Any
    score: list[float]
    value: list[float]
    covariance_factor: list[list[float]]
    low: float
    high: float
    users: int
    rows: int
    step: bool
    identity: bool
    source: str
    words: str


class _Sketch(msgspec.Struct, forbid_unknown_fields=True):
    hashes: list[int]
    below: int


class _Lattice(msgspec.Struct, forbid_unknown_fields=True):
    settings: dict[str, Any]
    edges: list[float]


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    made_with: str
    method: str
    weighting: str
    monotone: bool
    binary: bool
    columns: dict[str, Any] | None
    lattice: _Lattice
    fingerprint: str
    reference: Any
    split: str | None
    sketch: _Sketch | None
    reasons: list[tuple[Any, str]]
    frame_kind: str | None
    maps: list[_Map]
    pooled: _Map


# Saving


def save_calibrator(calibrator: Calibrator, path: Path) -> None:
    """Write a calibrator to one file, whole or not at all."""
    save_document(_document(calibrator), path)


def as_document(calibrator: Calibrator) -> dict[str, Any]:
    """What a file holds, as plain values."""
    return dict(msgspec.to_builtins(_document(calibrator)))


def _document(calibrator: Calibrator) -> Document[_Body]:
    sketch = calibrator.sketch
    body = _Body(
        made_with=__version__,
        method=calibrator.method,
        weighting=calibrator.weighting,
        monotone=calibrator.monotone,
        binary=calibrator.binary,
        columns=None if calibrator.columns is None else msgspec.to_builtins(calibrator.columns),
        lattice=_Lattice(calibrator.lattice.to_dict(), calibrator.lattice.edges.tolist()),
        fingerprint=calibrator.fingerprint,
        reference=None if calibrator.reference is None else pack_label(calibrator.reference),
        split=calibrator.split,
        sketch=None if sketch is None else _Sketch(list(sketch.hashes), sketch.below),
        reasons=[(pack_label(group), reason) for group, reason in calibrator.reasons.items()],
        frame_kind=calibrator.frame_kind,
        maps=[_pack_map(each) for each in calibrator.maps],
        pooled=_pack_map(calibrator.pooled),
    )
    return sealed(KIND, body)


def _pack_map(each: GroupMap) -> _Map:
    return _Map(
        label=None if each.group is None else pack_label(each.group),
        score=each.score.tolist(),
        value=each.value.tolist(),
        covariance_factor=each.factor.tolist(),
        low=each.low,
        high=each.high,
        users=each.users,
        rows=each.rows,
        step=each.step,
        identity=each.identity,
        source=each.source,
        words=each.words,
    )


# Loading


def load_calibrator(path: Path) -> Calibrator:
    """Read a calibrator, or say what is wrong with the file."""
    return decode_calibrator(read_whole(path), path)


def decode_calibrator(content: bytes, path: Path) -> Calibrator:
    """The calibrator that a file, or a part of one, holds."""
    return decode_document(content, path, KIND, Document[_Body], _rebuild)


def _rebuild(body: _Body) -> Calibrator:
    maps = tuple(_unpack_map(each) for each in body.maps)
    labels = [each.group for each in maps]
    if not maps or len(maps) > MAX_GROUPS or len(set(labels)) < len(labels):
        raise ValueError("the groups are none, too many or not different")
    return Calibrator(
        maps=maps,
        pooled=_unpack_map(body.pooled),
        method=body.method,
        weighting=body.weighting,
        monotone=body.monotone,
        lattice=Lattice.from_parts(np.array(body.lattice.edges, dtype=np.float64), body.lattice.settings),
        binary=body.binary,
        columns=None if body.columns is None else msgspec.convert(body.columns, Columns),
        fingerprint=body.fingerprint,
        reference=None if body.reference is None else unpack_label(body.reference),
        split=body.split,
        sketch=None if body.sketch is None else UserSketch(tuple(body.sketch.hashes), body.sketch.below),
        reasons={unpack_label(group): reason for group, reason in body.reasons},
        frame_kind=body.frame_kind,
    )


def _unpack_map(packed: _Map) -> GroupMap:
    score, value = _finite(packed.score), _finite(packed.value)
    factor = _finite(packed.covariance_factor).reshape(len(score), -1)
    if len(score) == 0 or len(value) != len(score) or (np.diff(score) <= 0).any():
        raise ValueError("the knots are none, out of order or without values")
    if not (math.isfinite(packed.low) and packed.low <= packed.high < math.inf):
        raise ValueError("the range seen in training is not a range")
    return GroupMap(
        group=None if packed.label is None else unpack_label(packed.label),
        score=score,
        value=value,
        factor=factor,
        low=packed.low,
        high=packed.high,
        users=packed.users,
        rows=packed.rows,
        step=packed.step,
        identity=packed.identity,
        source=packed.source,
        words=packed.words,
    )


def _finite(values: list[Any]) -> Floats:
    array = np.array(values, dtype=np.float64)
    if not (np.abs(array) <= LARGEST).all():
        raise ValueError("a number is not finite")
    return array
