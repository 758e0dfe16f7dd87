"""Spark DataFrames, classic and Connect: the cluster adds up, and only sums come back. No RDDs, no Python call per user.

Two ways. *Arrow*, wherever the workers have evenscore: the rows of a user are brought into one partition and counted there by the
same NumPy code that counts in memory; the cost per row hardly depends on the users. *Expressions*: each user's cells are collected
and paired inside Spark; nothing needs to be installed on the workers, and the cost grows with the square of a user's cells.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from evenscore._version import __version__
from evenscore.data.spec import TallySpec
from evenscore.engines.lines import WIDTH, Lines, from_lines, hash_limit, to_lines
from evenscore.engines.parts import Recipe
from evenscore.engines.plans import TallyPlan
from evenscore.engines.spark_native import native_lines, native_users
from evenscore.engines.sql import SPARK, find_fields
from evenscore.engines.survey import Answers, Fact, Survey, take_survey
from evenscore.errors import DataError, OptionError, require_option, warn
from evenscore.tallies.everyone import complete
from evenscore.tallies.tally_state import Tally
from evenscore.types import Array, Floats

KINDS = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integer"),
    **dict.fromkeys(("float", "double"), "float"),
    "boolean": "boolean",
    "string": "text",
    "binary": "binary",
    "date": "date",
    "timestamp": "instant",
    "timestamp_ntz": "moment",
}
FAMILIES = {
    r"string collate \w+|(var)?char\(\d+\)": "text",
    r"time\([0-6]\)": "time",
    r"interval (day|hour|minute|second)( to \w+)?": "duration",
    r"decimal\(\d+,([0-9]|[12][0-9]|3[0-6])\)": "decimal",  # with more places there is no room for the 1 that keeps it plain
}
LABELS = ("string", "boolean", "date", "timestamp_ntz", "float", "double", "tinyint", "smallint", "int", "bigint")
BATCH = 1 << 20  # rows that a worker counts at a time
UNSORTED = 1 << 22  # rows of a partition up to which a worker takes them all at once, in any order
PROBES = 8  # tiny tasks that look for evenscore on the workers
SCHEMA = "kind bigint, place bigint, " + ", ".join(f"v{i} double" for i in range(WIDTH))
WAYS = ("expressions", "arrow")


@dataclass(frozen=True, slots=True)
class Spark:
    """A DataFrame as an engine that answers the survey's questions."""

    frame: Any

    def _where(self, condition: str | None) -> Any:
        return self.frame if condition is None else self.frame.where(condition)

    def aggregate(self, facts: dict[str, Fact], *, where: str | None = None, by: dict[str, str] | None = None) -> Answers:
        """See ``survey.Engine``."""
        from pyspark.sql.functions import expr

        keys = [expr(sql).alias(f"k{i}") for i, sql in enumerate((by or {}).values())]
        values = [expr(fact.sql).alias(f"v{i}") for i, fact in enumerate(facts.values())]
        frame = self._where(where)
        rows = (frame.groupBy(*keys).agg(*values) if values else frame.select(*keys).distinct()).collect()
        return {name: [row[i] for row in rows] for i, name in enumerate([*(by or {}), *facts])}

    def select(self, column: str, *, where: str | None) -> Floats:
        """See ``survey.Engine``."""
        rows = self._where(where).selectExpr(f"{column} AS value").collect()
        return np.array([row[0] for row in rows], dtype=np.float64)

    def first_rows(self, condition: str, value: str | None) -> str:
        """Rows have no order here, but some values can be shown."""
        if value is None:
            return ""
        rows = self.frame.where(condition).selectExpr(f"{value} AS value").limit(3).collect()
        return f" (such as {', '.join(repr(row[0]) for row in rows)})"


@dataclass(frozen=True, slots=True)
class SparkPlan:
    """What will be done with a DataFrame, and why. workers: what was found on them, in words."""

    frame: Any
    facts: Survey
    way: str
    workers: str

    def describe(self) -> TallyPlan:
        """The plan in words."""
        step = "mapInArrow: bring the rows of each user into one partition and count them there"
        if self.way == "expressions":
            step = "native expressions: collect each user's cells and pair them inside Spark"
        return TallyPlan.from_survey("spark", self.facts, "survey (one aggregate, the groups)", f"{step} ({self.workers})")


def tally_spark(data: Any, spec: TallySpec, *, way: str | None = None) -> Tally:
    """The tally of a Spark DataFrame; the session is the caller's."""
    with _spark_errors():
        plan = choose_way(data, spec, way)
        with contextlib.ExitStack() as stack:
            lines = fetch_lines(add_up_lines(plan, stack))
        return plan.facts.recipe.finish(from_lines(lines, plan.facts.recipe))


def plan_spark(data: Any, spec: TallySpec, *, way: str | None = None) -> TallyPlan:
    """What would be done with a Spark DataFrame."""
    with _spark_errors():
        return choose_way(data, spec, way).describe()


def choose_way(data: Any, spec: TallySpec, way: str | None) -> SparkPlan:
    """Survey the frame, and choose the way by what users fill."""
    require_option("way", way, (None, *WAYS))
    types = dict(data.dtypes)
    if len(types) < len(data.columns):
        raise DataError("the frame has several columns of the same name; rename or drop the others")
    kinds = {name: type_kind(kind) for name, kind in types.items()}
    places = {name: f"c{i}" for i, name in enumerate(types)}
    labels = {name: SPARK.as_label(places[name], kinds[name]) for name, kind in types.items() if kind not in LABELS}
    fields = find_fields(spec, kinds, SPARK, "frame", expressions=places, labels=labels)
    engine = Spark(rename_columns(data, {column.name: places[column.name] for column in fields.every()}))
    facts = take_survey(engine, fields, spec)
    repeats = spec.user is None and spec.count is not None  # a person each, which expressions do not know
    needs_arrow = repeats or spec.split is not None or spec.item is not None
    if way == "expressions" and needs_arrow:
        what = "repeat independent rows" if repeats else "split users" if spec.split is not None else "bring items together"
        raise OptionError(f"way='expressions' cannot {what}; leave it out, or use way='arrow'")
    if way is not None or needs_arrow:
        return SparkPlan(engine.frame, facts, way or "arrow", "as way= says" if way else "as only it can do this")
    missing = missing_on_workers(data)
    if missing is None:
        return SparkPlan(engine.frame, facts, "arrow", "the workers have evenscore")
    warn(f"{missing}, so Spark's own expressions do the work, at more than twice the cost; install evenscore {__version__} there")
    return SparkPlan(engine.frame, facts, "expressions", missing)


_MISSING: WeakKeyDictionary[Any, str | None] = WeakKeyDictionary()  # by session, so that each is asked once


def missing_on_workers(data: Any) -> str | None:
    """Why the workers cannot count with evenscore, in words; None if they can."""
    session = data.sparkSession
    if session not in _MISSING:
        _MISSING[session] = _probe_workers(session)
    return _MISSING[session]


def _probe_workers(session: Any) -> str | None:
    def find_versions(batches: Iterator[Any]) -> Iterator[Any]:  # sent as it is: needs nothing of evenscore on the other side
        import pyarrow

        try:
            import evenscore

            version = evenscore.__version__
        except ImportError:
            version = ""
        n_rows = sum(batch.num_rows for batch in batches)
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array([version] * n_rows, pyarrow.string())], ["version"])

    try:
        rows = session.range(0, PROBES, 1, PROBES).mapInArrow(find_versions, "version string").collect()
    except Exception as error:  # no Python there, or no PyArrow, or a cluster that allows neither
        if not type(error).__module__.startswith("pyspark"):
            raise
        return "Spark's workers cannot run Python with PyArrow"
    others = {row[0] for row in rows} - {__version__}
    if not others:
        return None
    return "Spark's workers have no evenscore" if "" in others else f"Spark's workers have evenscore {', '.join(sorted(others))}"


def type_kind(name: str) -> str:
    """The kind of a type, see ``sql.Field``."""
    return KINDS.get(name) or next((kind for family, kind in FAMILIES.items() if re.fullmatch(family, name)), "other")


def rename_columns(data: Any, places: Mapping[str, str]) -> Any:
    """The frame with only these columns, under names that need no quotes.

    In SQL text Spark replaces ${...}, in quotes too, and settings say what a backslash means; here nothing is parsed.
    """
    from pyspark.sql.functions import col

    return data.select(*(col(SPARK.name(name)).alias(place) for name, place in places.items()))


def with_column(data: Any, name: str, used: list[str], make: Callable[[list[str]], str]) -> Any:
    """The frame with one more column, or another one of that name: SQL made of the columns used, under plain names."""
    from pyspark.sql.functions import col, expr

    places = [f"evenscore_{i}_of_{len(data.columns)}" for i in range(len(used))]
    held = {column: col(SPARK.name(column)) for column in data.columns}
    placed = data.select(*held.values(), *(held[column].alias(place) for column, place in zip(used, places, strict=True)))
    return placed.select(*(column for other, column in held.items() if other != name), expr(make(places)).alias(name))


def add_up_lines(plan: SparkPlan, stack: contextlib.ExitStack) -> Any:
    """A DataFrame of the tally's lines; what Spark holds for it is let go when the stack closes."""
    from pyspark.sql.functions import expr

    facts, recipe = plan.facts, plan.facts.recipe
    rows = plan.frame if facts.fields.counted is None else plan.frame.where(facts.fields.counted)
    key = "monotonically_increasing_id()" if facts.fields.user is None else facts.fields.key
    base = rows.selectExpr(f"{key} AS key", *(f"{sql} AS {SPARK.name(name)}" for name, sql in facts.selected.items()))
    if plan.way == "expressions":
        users = native_users(base, facts).persist()  # four kinds of lines are made from them
        stack.callback(users.unpersist)
        lines = native_lines(users, recipe, facts.has_unlabelled)
    else:
        whole, in_order = base, True
        if facts.fields.user is not None:
            whole, in_order = bring_together(base, recipe.n_rows)
        lines = whole.mapInArrow(worker(recipe, facts.has_unlabelled, in_order=in_order), SCHEMA)
    return lines.groupBy("kind", "place").agg(*(expr(f"sum(v{i})").alias(f"v{i}") for i in range(WIDTH)))


def bring_together(rows: Any, n_rows: int) -> tuple[Any, bool]:
    """The rows of each user in one partition, and whether they are in order there.

    Each partition gives up to a hundred thousand sums, and workers sort what they count anyway. So there are as few partitions as
    make sense, and Spark need not sort those that a worker can take at once.
    """
    most = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    n_partitions = min(most, -(-n_rows // BATCH))
    if n_rows <= UNSORTED * n_partitions:
        return rows.repartition(n_partitions, "key"), False
    return rows.repartition("key").sortWithinPartitions("key"), True


def worker(recipe: Recipe, has_unlabelled: bool = False, *, in_order: bool = True) -> Any:
    """What counts a partition that holds whole users, in order or not; a function that can be sent to the workers.

    has_unlabelled: whether rows of any partition have no outcome, so that each gives its sums of all rows.
    """
    limit = hash_limit(recipe)

    def count_partition(batches: Iterator[Any]) -> Iterator[Any]:
        total: Tally | None = None
        for arrays in whole_users(batches) if in_order else all_at_once(batches):
            part = recipe.tally(arrays)
            total = part if total is None else total + part
        if total is not None:
            yield from arrow_batches(to_lines(complete(total) if has_unlabelled else total, limit))

    return count_partition


def whole_users(batches: Iterator[Any]) -> Iterator[dict[str, Array]]:
    """Arrow batches, sorted by key, as arrays that end where a user ends."""
    waiting: list[dict[str, Array]] = []
    n_rows = 0
    for arrays in _filled(batches):
        waiting.append(arrays)
        n_rows += len(arrays["key"])
        if n_rows < BATCH:
            continue
        joined = _join_arrays(waiting)
        key = joined["key"]
        end = int(np.searchsorted(key, key[-1], side="left"))  # the last user may go on
        if end:
            yield {name: array[:end] for name, array in joined.items()}
        waiting = [{name: array[end:] for name, array in joined.items()}]
        n_rows = len(key) - end
    if waiting:
        yield _join_arrays(waiting)


def all_at_once(batches: Iterator[Any]) -> Iterator[dict[str, Array]]:
    """Arrow batches as one dict of arrays, if there are any rows."""
    waiting = list(_filled(batches))
    if waiting:
        yield _join_arrays(waiting)


def _filled(batches: Iterator[Any]) -> Iterator[dict[str, Array]]:
    for batch in batches:
        if batch.num_rows:
            yield {name: _from_arrow(batch.column(i)) for i, name in enumerate(batch.schema.names)}


def _join_arrays(batches: list[dict[str, Array]]) -> dict[str, Array]:
    join = {"outcome": np.ma.concatenate}  # which may be masked
    return {name: join.get(name, np.concatenate)([batch[name] for batch in batches]) for name in batches[0]}


def _from_arrow(column: Any) -> Array:
    if column.null_count == 0:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False))
    return np.ma.MaskedArray(column.fill_null(0).to_numpy(zero_copy_only=False), missing)


def arrow_batches(lines: Lines, size: int = 1 << 16) -> Iterator[Any]:
    """Lines as Arrow record batches."""
    import pyarrow as pa

    names = ["kind", "place", *(f"v{i}" for i in range(WIDTH))]
    columns = [lines.kind, lines.place, *(np.ascontiguousarray(column) for column in lines.values.T)]
    for start in range(0, len(lines.kind), size):
        yield pa.RecordBatch.from_arrays([pa.array(column[start : start + size]) for column in columns], names)


def fetch_lines(frame: Any) -> Lines:
    """Bring lines to the driver, by Arrow where the version can."""
    if hasattr(frame, "toArrow"):
        table = frame.toArrow()
        columns = [table.column(i).to_numpy() for i in range(2 + WIDTH)]
    else:
        pandas = frame.toPandas()
        columns = [pandas.iloc[:, i].to_numpy() for i in range(2 + WIDTH)]
    return Lines(columns[0].astype(np.int64), columns[1].astype(np.int64), np.stack(columns[2:], axis=1).astype(np.float64))


@contextlib.contextmanager
def _spark_errors() -> Iterator[None]:
    """What Spark says about the data, without its stack of Java."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("pyspark"):
            raise
        text = str(error)
        if missing := re.search(r"No module named '([\w.]+)'", text):
            raise DataError(
                f"the Python of this cluster's workers has no {missing[1]}; install evenscore there, or let Spark do all the work "
                "by native expressions, which need nothing on the workers: es.tally(..., way='expressions')"
            ) from error
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        shown = next((line for line in lines if re.match(r"\w+(Error|Exception): ", line)), lines[0] if lines else repr(error))
        raise DataError(f"Spark could not finish: {shown[:400]}") from error
