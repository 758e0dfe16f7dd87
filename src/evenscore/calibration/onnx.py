"""A calibrator as an ONNX model (an extra): inputs ``score`` and ``group``, output ``calibrated``, all in double precision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenscore.calibration.export import ON_UNKNOWN, is_int64, refuse_equal_texts, require_utf8
from evenscore.calibration.maps import LARGEST, Segment
from evenscore.errors import EvenscoreError, require_option
from evenscore.naming import plain_label
from evenscore.saving import write_whole
from evenscore.types import Array

if TYPE_CHECKING:
    from evenscore.calibration.calibrator import Calibrator

OPSET, ML_OPSET = 17, 3


def save_onnx(calibrator: Calibrator, path: Path, on_unknown: str) -> None:
    """Write the model to a file, whole or not at all."""
    write_whole(path, onnx_model(calibrator, on_unknown).SerializeToString())


def onnx_model(calibrator: Calibrator, on_unknown: str = "null") -> Any:
    """The model. ``group`` is an integer when all labels are (of 64 bits), else text; parts of an intersection are joined by " × ".

    Unknown groups have NaN ("null"), the pooled map or their score.
    """
    require_option("on_unknown", on_unknown, ON_UNKNOWN)
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError:
        raise EvenscoreError("ONNX export needs onnx: install evenscore[onnx]") from None
    integers = all(type(group) is int and is_int64(group) for group in calibrator.groups)
    labels = list(calibrator.groups) if integers else _texts(calibrator)
    places: dict[str, Any] = {"values_int64s": list(range(len(labels))), "default_int64": len(labels)}
    places["keys_int64s" if integers else "keys_strings"] = labels
    group_type = TensorProto.INT64 if integers else TensorProto.STRING
    graph = helper.make_graph(
        [helper.make_node("LabelEncoder", ["group"], ["place"], domain="ai.onnx.ml", **places), *_steps()],
        "evenscore_calibrator",
        [
            helper.make_tensor_value_info("score", TensorProto.DOUBLE, ["rows"]),
            helper.make_tensor_value_info("group", group_type, ["rows"]),
        ],
        [helper.make_tensor_value_info("calibrated", TensorProto.DOUBLE, ["rows"])],
        [numpy_helper.from_array(array, name) for name, array in _tables(calibrator, on_unknown).items()],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, producer_name="evenscore", ir_version=8)
    checker.check_model(model)
    return model


def _steps() -> list[Any]:
    """From the place of a row's group to its calibrated score: the last piece that begins at or below the score, and its line."""
    from onnx import TensorProto, helper

    steps = [
        helper.make_node("Unsqueeze", ["score", "one"], ["column"]),
        helper.make_node("Gather", ["starts", "place"], ["own_starts"]),
        helper.make_node("GreaterOrEqual", ["column", "own_starts"], ["reached"]),
        helper.make_node("Cast", ["reached"], ["counted"], to=TensorProto.INT64),
        helper.make_node("ReduceSum", ["counted", "one"], ["number"], keepdims=1),
        helper.make_node("Sub", ["number", "one"], ["before"]),
        helper.make_node("Max", ["before", "zero"], ["piece"]),
    ]
    for name in ("origin", "value", "slope"):
        steps.append(helper.make_node("Gather", [f"{name}s", "place"], [f"own_{name}s"]))
        steps.append(helper.make_node("GatherElements", [f"own_{name}s", "piece"], [name], axis=1))
    return [
        *steps,
        helper.make_node("Sub", ["column", "origin"], ["distance"]),
        helper.make_node("Mul", ["slope", "distance"], ["rise"]),
        helper.make_node("Add", ["value", "rise"], ["found"]),
        helper.make_node("IsNaN", ["column"], ["missing"]),
        helper.make_node("Where", ["missing", "column", "found"], ["kept"]),
        helper.make_node("Squeeze", ["kept", "one"], ["calibrated"]),
    ]


def _texts(calibrator: Calibrator) -> list[str]:
    require_utf8(calibrator.groups)
    refuse_equal_texts(calibrator.groups)
    return [plain_label(group) for group in calibrator.groups]


def _tables(calibrator: Calibrator, on_unknown: str) -> dict[str, Array]:
    """The pieces of every map as arrays (n_groups + 1, most pieces), the last row for unknown groups."""
    stranger = {
        "null": [Segment(-LARGEST, LARGEST, 0.0, float("nan"), 0.0)],
        "keep": [Segment(-LARGEST, LARGEST, 0.0, 0.0, 1.0)],
        "pooled": calibrator.pooled.segments(),
    }[on_unknown]
    pieces = [*(group_map.segments() for group_map in calibrator.maps), stranger]
    shape = (len(pieces), max(map(len, pieces)))
    tables = {}
    for field in ("start", "origin", "value", "slope"):
        table = np.full(shape, np.inf if field == "start" else 0.0)
        for row, own in enumerate(pieces):
            table[row, : len(own)] = [getattr(piece, field) for piece in own]
        tables[f"{field}s"] = table
    return {**tables, "one": np.array([1], dtype=np.int64), "zero": np.array([0], dtype=np.int64)}
