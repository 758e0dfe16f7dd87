"""``es.tally``: finds the engine for the data; each engine brings whole users to counting."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from evenscore.lattice import MAX_CELLS, Lattice
from evenscore.tally import Tally


def tally(
    data: Any,
    *,
    score: Any,
    outcome: Any,
    group: Any,
    user: Any,
    weight: Any = None,
    count: Any = None,
    lattice: Tally | Lattice | None = None,
    cuts: Iterable[float] = (),
    cells: int = MAX_CELLS,
    scale: str = "score",
    nulls: str = "error",
    split: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Tally:
    """Scan the data once into a tally.

    Parameters
    ----------
    data
        A pandas, polars or pyarrow frame, a dict of arrays, a path, glob or list of paths to CSV or Parquet files, or None when all
        columns are given as arrays.
    score, outcome, group, user
        Column names in the data, or arrays. A list for ``group`` is the intersection of its columns. ``user=None`` says that rows
        are independent of each other; it must be written out.
    weight
        A survey or importance weight: the row stays one observation.
    count
        A frequency: the same as repeating the row.
    lattice
        A tally or lattice to reuse, so that tallies can be added.
    cuts
        Scores that must be cell edges, such as a decision threshold.
    cells, scale
        Number of cells (at most 512), and "score", "logit" or "rank".
    nulls
        "error", "drop" (counted in ``tally.dropped``), or "unlabelled" (a null outcome counts in the score distribution only).
    split
        Tally only a share of the users, chosen by a hash of their ids: "1/2" is the first half, "2/2" the other one, "1-7/10" seven
        tenths; "1/2@key" deals users anew. The lattice is that of all rows.
    progress
        Called with (rows done, rows in all) now and then.

    Examples
    --------
    >>> import evenscore as es
    >>> data = {"s": [0.2, 0.4, 0.6, 0.8], "y": [0, 1, 0, 1], "g": list("aabb"), "id": [1, 1, 2, 3]}
    >>> es.tally(data, score="s", outcome="y", group="g", user="id").n_users
    {'a': 1, 'b': 2}
    """
    options = {
        "score": score,
        "outcome": outcome,
        "group": group,
        "user": user,
        "weight": weight,
        "count": count,
        "lattice": lattice,
        "cuts": tuple(cuts),
        "cells": cells,
        "scale": scale,
        "nulls": nulls,
        "split": split,
        "progress": progress,
    }
    if is_paths(data):
        from evenscore.engines.files import tally_files

        return tally_files(data, **options)
    from evenscore.engines.memory import tally_frame

    return tally_frame(data, **options)


def collect(data: Any, roles: dict[str, Any], say: Callable[[str], None] | None = None) -> Any:
    """Data of any kind as a frame or arrays in memory: the columns that roles (score, outcome, group, ...) name, one or several."""
    if is_paths(data):
        from evenscore.engines.files import read_files

        return read_files(data, roles, say)
    from evenscore.engines.memory import collected

    return collected(data, roles)


def is_paths(data: Any) -> bool:
    """Whether data are a path or a list of paths."""
    return isinstance(data, str | os.PathLike) or (
        isinstance(data, list | tuple) and bool(data) and all(isinstance(item, str | os.PathLike) for item in data)
    )
