"""``es.tally``: finds the engine for the data; each engine brings whole users to counting."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from evenscore.data.spec import TallySpec
from evenscore.errors import OptionError, shortened
from evenscore.tallies.lattice import MAX_CELLS, Lattice
from evenscore.tallies.tally_state import Tally
from evenscore.threads import in_one_thread
from evenscore.types import Progress, Say

if TYPE_CHECKING:
    from evenscore.engines.memory import HeldRows
    from evenscore.engines.plans import TallyPlan

# Where each kind of data is counted (imported when such data comes along), and what its engine heeds beside the spec.
ENGINES = {
    "memory": ("memory", ("progress",)),
    "files": ("files", ("memory_limit", "progress", "say")),
    "duckdb": ("relations", ("memory_limit", "progress")),
    "ibis": ("ibis", ("memory_limit", "progress")),
    "dask": ("dask", ()),
    "spark": ("spark", ("way",)),
}
HOLDING = ("memory", "files", "duckdb")  # engines that hand over rows at once where they fit into memory


@in_one_thread
def tally(
    data: Any,
    *,
    score: Any,
    outcome: Any,
    group: Any,
    user: Any,
    item: Any = None,
    weight: Any = None,
    count: Any = None,
    lattice: Tally | Lattice | None = None,
    cuts: Iterable[float] = (),
    cells: int = MAX_CELLS,
    scale: str = "auto",
    nulls: str = "error",
    split: str | None = None,
    progress: Progress | None = None,
    memory_limit: str | int = "1GB",
    way: str | None = None,
) -> Tally:
    """Scan the data once into a tally.

    Parameters
    ----------
    data
        A pandas, polars or pyarrow frame, a dict of arrays, a path, folder, glob or list of paths to CSV or Parquet files, a DuckDB
        relation, an Ibis table, a Dask or Spark DataFrame, or None when all columns are given as arrays.
    score, outcome, group, user
        Column names in the data, or arrays. A list for ``group`` is the intersection of its columns. ``user=None`` says that rows
        are independent of each other; it must be written out.
    item
        A second key that makes rows dependent: a job, a creator, a day, the other player. Weights stay the user's; variances then
        allow for what rows of one item share (docs/two-way.md).
    weight
        A survey or importance weight: the row stays one observation. Units do not matter; a row of weight 0 is nobody's.
    count
        A frequency: the same as repeating the row.
    lattice
        A tally or lattice to reuse, so that tallies can be added. Scores in [0, 1] need none on the scale "auto".
    cuts
        Scores that must be cell edges, such as a decision threshold.
    cells
        Number of cells, at most 512.
    scale
        On which axis curves are smoothed: "score", "logit", "rank" (equally many people everywhere), or "auto": the score
        where the people of all groups together are spread evenly over it, else the rank. The tally says which and why.
    nulls
        "error", "drop" (counted in ``tally.dropped``), or "unlabelled" (a null outcome counts in the score distribution only).
    split
        Tally only a share of the users, chosen by a hash of their ids: "1/2" is the first half, "2/2" the other one, "1-7/10" seven
        tenths; ``"1/2@key"`` deals users anew. The lattice is that of all rows.
    progress
        Called with (rows done, rows in all) now and then.
    memory_limit
        What files, relations and Ibis tables may take, such as "4GB". Beyond it users are hash-partitioned to a temporary folder
        (``TMPDIR`` says where), which is removed at the end. The limit does not change the result.
    way
        On Spark: "expressions" (nothing needed on the workers) or "arrow" (cheaper when users fill many cells). Without it, what a
        sample of users shows decides.

    Returns
    -------
    Tally
        Small, without rows, and all that every other function needs; tallies of different users add up.
        ``es.tally.explain`` takes the same arguments and says what would be done.

    Examples
    --------
    >>> import evenscore as es
    >>> data = {"s": [0.2, 0.4, 0.6, 0.8], "y": [0, 1, 0, 1], "g": list("aabb"), "id": [1, 1, 2, 3]}
    >>> es.tally(data, score="s", outcome="y", group="g", user="id").n_users
    {'a': 1, 'b': 2}
    """
    spec = TallySpec(
        score=score,
        outcome=outcome,
        group=group,
        user=user,
        item=item,
        weight=weight,
        count=count,
        lattice=lattice,  # type: ignore[arg-type]  # the spec takes its lattice from a tally
        cuts=cuts,  # type: ignore[arg-type]  # and makes a tuple
        cells=cells,
        scale=scale,
        nulls=nulls,
        split=split,  # type: ignore[arg-type]  # and reads the text
    )
    return tally_by_spec(data, spec, memory_limit=memory_limit, progress=progress, way=way)


def tally_by_spec(
    data: Any,
    spec: TallySpec,
    *,
    memory_limit: str | int = "1GB",
    progress: Progress | None = None,
    way: str | None = None,
    say: Say | None = None,
) -> Tally:
    """The tally of the data by its engine; ``say`` is told what was assumed about files."""
    data = unwrap(data)
    count_data, settings = _find_engine("tally", data, memory_limit=memory_limit, progress=progress, way=way, say=say)
    counted: Tally = count_data(data, spec, **settings)
    return counted


def hold_rows(data: Any, spec: TallySpec, *, memory_limit: str | int = "1GB", say: Say | None = None) -> HeldRows | None:
    """Rows that are read once for the tallies of several shares of their users; None where each is a scan of its own."""
    data = unwrap(data)
    kind = engine_of(data)
    if kind not in HOLDING:
        return None
    hold_data, settings = _find_engine("hold", data, memory_limit=memory_limit, say=say, way=None)
    held: HeldRows | None = hold_data(data, spec, **settings)
    return held


def explain(
    data: Any, *, memory_limit: str | int = "1GB", progress: Progress | None = None, way: str | None = None, **columns: Any
) -> TallyPlan:
    """What ``es.tally`` would do with this data, and why; takes the same arguments, surveys, and counts nothing.

    >>> explain({"s": [0.2, 0.4], "y": [0, 1], "g": ["a", "b"]}, score="s", outcome="y", group="g", user=None).steps
    ('count in memory',)
    """
    from evenscore.engines.plans import UNSURVEYED, TallyPlan

    spec = TallySpec(**columns)
    data = unwrap(data)
    kind = engine_of(data)
    if kind in UNSURVEYED:
        return TallyPlan(kind, UNSURVEYED[kind])
    plan_data, settings = _find_engine("plan", data, memory_limit=memory_limit, way=way)
    plan: TallyPlan = plan_data(data, spec, **settings)
    return plan


tally.explain = explain  # type: ignore[attr-defined]


def _find_engine(verb: str, data: Any, **settings: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function of the data's engine that does what the verb says, and the settings that it heeds."""
    kind = engine_of(data)
    module, heeded = ENGINES[kind]
    if settings["way"] is not None and "way" not in heeded:
        raise OptionError(f"way={shortened(settings['way'])} is for Spark; other data are counted in one way")
    function = getattr(importlib.import_module(f"evenscore.engines.{module}"), f"{verb}_{kind}")
    return function, {name: value for name, value in settings.items() if name in heeded}


def engine_of(data: Any) -> str:
    """Which engine holds the data; nothing is imported to find out."""
    if is_paths(data):
        return "files"
    for kind in map(_library, type(data).__mro__):
        if kind is not None:
            return kind
    return "memory"


def _library(kind: type) -> str | None:
    root = kind.__module__.split(".")[0]
    if root in ("pyspark", "dask", "ibis") and kind.__name__ in ("DataFrame", "Table"):
        return "spark" if root == "pyspark" and "pandas" not in kind.__module__ else root
    return "duckdb" if kind.__name__ == "DuckDBPyRelation" else None


def unwrap(data: Any) -> Any:
    """What narwhals wraps, if it wraps something."""
    return data.to_native() if type(data).__module__.startswith("narwhals") else data


def collect(data: Any, roles: Mapping[str, Any], say: Say | None = None) -> Any:
    """Data of any kind as a frame or arrays in memory: the columns that roles (score, outcome, group, ...) name, one or several."""
    if is_paths(data):
        from evenscore.engines.files import read_files

        return read_files(data, roles, say)
    from evenscore.engines.memory import collect_frame

    return collect_frame(data, roles)


def is_paths(data: Any) -> bool:
    """Whether data are a path or a list of paths."""
    return isinstance(data, str | os.PathLike) or (
        isinstance(data, list | tuple) and bool(data) and all(isinstance(item, str | os.PathLike) for item in data)
    )
