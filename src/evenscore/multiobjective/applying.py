"""A joint calibrator applied to files: their scores and groups are read into memory, all other columns only pass through DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenscore.engines.files import read_files
from evenscore.engines.writing import copy_with_arrays, refuse_overwriting
from evenscore.errors import OptionError, listing
from evenscore.multiobjective.calibrator import JointApplied, JointCalibrator, check_weights
from evenscore.naming import in_names
from evenscore.types import Say


@in_names
def apply_files_jointly(
    calibrator: JointCalibrator,
    data: Any,
    out: Path,
    *,
    scores: Sequence[str] = (),
    group: Sequence[str] = (),
    name: str = "calibrated",
    weights: Any = None,
    on_unknown: str = "error",
    nulls: str = "error",
    progress: Callable[[float], None] | None = None,
    say: Say | None = None,
    overwrite: bool = False,
) -> JointApplied:
    """Write the files' rows to one file, with a column ``name_SCORE`` for each score and, with weights, ``name_blend``."""
    names, groups = list(scores) or list(calibrator.scores), list(group) or list(calibrator.columns.group)
    for given, known, role in ((names, calibrator.scores, "scores"), (groups, calibrator.columns.group, "columns of the group")):
        if len(given) != len(known):
            raise OptionError(f"the calibrator has {len(known)} {role}, {listing(known)}; {len(given)} are named")
    blend = None if weights is None else check_weights(weights, calibrator.scores, calibrator.outcomes)
    refuse_overwriting(data, out, overwrite)
    frame = read_files(data, {"score": names, "group": groups}, say)
    labels = [frame[column] for column in groups]
    held = {own: frame[given] for own, given in zip(calibrator.scores, names, strict=True)}
    applied = calibrator.apply(held, labels[0] if len(labels) == 1 else labels, on_unknown=on_unknown, nulls=nulls)
    columns = {f"{name}_{score}": np.ascontiguousarray(applied.scores[:, k]) for k, score in enumerate(names)}
    if blend is not None:
        if f"{name}_blend" in columns:
            raise OptionError("a score is called 'blend', as the blended score would be; give one of them another name")
        columns[f"{name}_blend"] = applied.scores @ blend
    copy_with_arrays(data, columns, out, progress, overwrite=overwrite)
    return applied
