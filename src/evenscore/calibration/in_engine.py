"""A calibrator applied where the data is: Spark, DuckDB, Ibis and Dask compute the calibrated score, and no row leaves them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.export import ON_UNKNOWN
from evenscore.calibration.map_sql import calibrated_score, column_names, group_condition, label_values
from evenscore.calibration.maps import Segment
from evenscore.data.columns import shortened
from evenscore.engines import engine_of
from evenscore.engines.sql import DUCKDB, SPARK, Dialect
from evenscore.errors import DataError, OptionError, listing, require_option, require_text


def apply_calibrator(
    data: Any,
    calibrator: Calibrator,
    *,
    score: str | None = None,
    group: str | Sequence[str] | None = None,
    name: str = "calibrated",
    on_unknown: str = "null",
) -> Any:
    """The same frame with one more column, the calibrated score: lazily, inside the engine that holds the data.

    Parameters
    ----------
    data
        A Spark or Dask DataFrame, a DuckDB relation or an Ibis table; the result is one, too. For arrays and frames in
        memory use ``calibrator.transform``, which gives the same numbers.
    score, group
        The columns; those of the training data by default.
    on_unknown
        What a group without a map gets: "null", "pooled" (the map of all groups together), or "keep" (the score itself). A missing
        score stays missing.
    calibrator, name
        What ``es.calibrate`` made, and what to call the new column.

    Returns
    -------
    Same kind of frame as ``data``
        Nothing is computed before the engine is asked to.

    Examples
    --------
    >>> import evenscore as es
    >>> import duckdb
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(people, score="score", outcome="outcome", group="group", user="user")
    >>> calibrator = es.calibrate(tally, method="platt")
    >>> rows = duckdb.sql("SELECT 0.5 AS score, unnest(['a', 'b']) AS group_")
    >>> mapped = es.apply_calibrator(rows, calibrator, score="score", group="group_")
    >>> [(group, round(value, 2)) for _, group, value in mapped.fetchall()]
    [('a', 0.49), ('b', 0.33)]
    """
    require_option("on_unknown", on_unknown, ON_UNKNOWN)
    require_text("name", name)
    if not name.strip() or "\x00" in name:
        raise OptionError(f"name={shortened(name)} cannot be the name of a column")
    if not isinstance(calibrator, Calibrator):
        raise OptionError(f"calibrator={shortened(calibrator)} must be an es.Calibrator")
    engine = engine_of(data)
    if engine not in (*_APPLY, "ibis", "spark"):
        raise DataError(f"data is of type {type(data).__name__}; for data in memory use calibrator.transform(scores, groups)")
    names = _columns(calibrator, score, group, list(data.columns))
    if engine == "ibis":
        return data.mutate(**{name: _ibis_expression(calibrator, data, *names, on_unknown)})
    if engine == "spark":
        return _in_spark(data, calibrator, *names, name, on_unknown)
    return _APPLY[engine](data, f"{expression(calibrator, DUCKDB, *names, on_unknown)} AS {DUCKDB.name(name)}", name)


def _columns(
    calibrator: Calibrator, score: str | None, group: str | Sequence[str] | None, held: list[str]
) -> tuple[str, list[str]]:
    score, groups = column_names(calibrator, score, group)
    for column in (score, *groups):
        if not isinstance(column, str) or column not in held:
            raise DataError(f"no column {shortened(column)}; the data has: {listing(held)}")
    return score, groups


# Expressions


def expression(calibrator: Calibrator, dialect: Dialect, score: str, groups: list[str], on_unknown: str) -> str:
    """SQL for the calibrated score of a row."""
    number = f"CAST({dialect.name(score)} AS DOUBLE)"
    columns = [dialect.name(column) for column in groups]
    conditions = {place: group_condition(dialect, columns, label) for place, label in enumerate(calibrator.groups)}
    missing = f"{number} IS NULL OR isnan({number})"
    return calibrated_score(calibrator, dialect, number, conditions, on_unknown, missing=missing)


# Engines


def _in_spark(data: Any, calibrator: Calibrator, score: str, groups: list[str], name: str, on_unknown: str) -> Any:
    from evenscore.engines.spark import with_column

    def make(places: list[str]) -> str:
        return expression(calibrator, SPARK, places[0], places[1:], on_unknown)

    return with_column(data, name, [score, *groups], make)


def _in_duckdb(data: Any, column: str, name: str) -> Any:
    return data.project(", ".join([*(DUCKDB.name(held) for held in data.columns if held != name), column]))


def _ibis_expression(calibrator: Calibrator, data: Any, score: str, groups: list[str], on_unknown: str) -> Any:
    """The same as Ibis says it, for any of its backends."""
    number = data[score].cast("float64")
    calibrated = {"null": None, "keep": number, "pooled": _ibis_searched(calibrator.pooled.segments(), number)}[on_unknown]
    for group_map in reversed(calibrator.maps):
        labels = label_values(group_map.group)
        is_group = data[groups[0]] == labels[0]
        for column, label in zip(groups[1:], labels[1:], strict=True):
            is_group = is_group & (data[column] == label)
        calibrated = is_group.ifelse(_ibis_searched(group_map.segments(), number), calibrated)
    return (number.isnull() | number.isnan()).ifelse(None, calibrated)


def _ibis_searched(pieces: list[Segment], number: Any) -> Any:
    if len(pieces) == 1:
        piece = pieces[0]
        return piece.value if piece.slope == 0 else piece.value + piece.slope * (number - piece.origin)
    half = len(pieces) // 2
    return (number < pieces[half].start).ifelse(_ibis_searched(pieces[:half], number), _ibis_searched(pieces[half:], number))


def _in_dask(data: Any, column: str, name: str) -> Any:
    meta = data._meta.assign(**{name: 0.0})
    return data.map_partitions(_in_partition, column, name, meta=meta)


def _in_partition(frame: Any, column: str, name: str) -> Any:
    """One pandas partition; its index stays."""
    from evenscore.engines.dask import partition_relation

    if len(frame) == 0:
        return frame.assign(**{name: 0.0})
    scores = partition_relation(frame.reset_index(drop=True)).project(column).fetchnumpy()[name]
    return frame.assign(**{name: scores.filled(float("nan")) if hasattr(scores, "filled") else scores})


_APPLY: dict[str, Callable[[Any, str, str], Any]] = {
    "duckdb": _in_duckdb,
    "dask": _in_dask,
}
