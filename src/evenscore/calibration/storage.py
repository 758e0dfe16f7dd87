"""A calibrator of one score as JSON: the columns, the lattice, knots with their covariance."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from evenscore._version import __version__
from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.calibrator_file import CalibratorFile
from evenscore.calibration.maps import GroupMap
from evenscore.codec import MATRIX, Codec, dict_codec, optional, record_codec, tuple_of
from evenscore.data.groups import MAX_GROUPS
from evenscore.data.observations import Columns
from evenscore.tallies.lattice_settings import lattice_from_settings, lattice_settings

ORDER = (
    "method weighting monotone binary columns lattice fingerprint reference split sketch reasons frame_kind maps pooled "
    "item by_item"
)


class _Lattice(msgspec.Struct, forbid_unknown_fields=True):
    settings: dict[str, Any]
    edges: list[float]


def _check_map(group_map: GroupMap) -> GroupMap:
    score, value = group_map.score, group_map.value
    if len(score) == 0 or len(value) != len(score) or (np.diff(score) <= 0).any():
        raise ValueError("the knots are none, out of order or without values")
    if not (math.isfinite(group_map.low) and group_map.low <= group_map.high < math.inf):
        raise ValueError("the range seen in training is not a range")
    if group_map.trials is not None and not (len(group_map.trials) == len(score) and (group_map.trials > 0).all()):
        raise ValueError("the knots do not say how many outcomes they are worth")
    return replace(group_map, factor=group_map.factor.reshape(len(score), -1))


def _check_groups(calibrator: Calibrator) -> Calibrator:
    if not 0 < len(calibrator.groups) <= MAX_GROUPS or len(set(calibrator.groups)) < len(calibrator.groups):
        raise ValueError("the groups are none, too many or not different")
    return calibrator


_MAP = record_codec(
    GroupMap, keys={"group": "label", "factor": "covariance_factor"}, factor=MATRIX, check=_check_map, later="trials"
)

_FLAG: Codec[bool] = Codec(bool | None, lambda flag: flag or None, bool)  # files of 0.1.0 lack it

FILE = CalibratorFile(
    "calibrator",
    record_codec(
        Calibrator,
        order=ORDER,
        constants={"made_with": __version__},
        check=_check_groups,
        later="item by_item",
        by_item=_FLAG,
        columns=optional(dict_codec(Columns)),
        lattice=Codec(
            _Lattice,
            lambda lattice: _Lattice(lattice_settings(lattice), lattice.edges.tolist()),
            lambda stored: lattice_from_settings(np.array(stored.edges, dtype=np.float64), stored.settings),
        ),
        maps=tuple_of(_MAP),
        pooled=_MAP,
    ),
)
