"""Dask DataFrames: partitions answer the survey in SQL, rows are shuffled by user, and partitions are counted where they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenscore.engines.duck import Duck, prepared
from evenscore.engines.parts import Recipe, finished
from evenscore.engines.sql import DUCKDB, ROLES, Fields, find_fields
from evenscore.engines.survey import Survey, lattice_for, survey
from evenscore.errors import DataError, EvenscoreError, first_line
from evenscore.tallies.tally_state import Tally
from evenscore.types import Floats

AT_ONCE = 8  # tallies that a task adds up


@dataclass(frozen=True, slots=True)
class DaskEngine:
    """Partitions (delayed pandas frames) as an engine that answers the survey's questions."""

    partitions: list[Any]

    def _ask(self, question: Callable[[Duck], Any]) -> list[Any]:
        import dask

        answers = [dask.delayed(_answer)(part, question) for part in self.partitions]
        return [answer for answer in _computed(*answers) if answer is not None]

    def aggregate(self, columns: dict[str, str], *, where: str | None = None, by: dict[str, str] | None = None) -> list[list[Any]]:
        """See ``survey.Engine``."""
        names = [*(by or {}), *columns]
        found = self._ask(lambda engine: engine.aggregate(columns, where=where, by=by))
        if not found:
            raise DataError("the data has no rows: every partition is empty")
        return merged(names, len(by or {}), found)

    def select(self, column: str, *, where: str | None) -> Floats:
        """See ``survey.Engine``."""
        return np.concatenate(self._ask(lambda engine: engine.select(column, where=where)))

    def first_rows(self, condition: str, value: str | None) -> str:
        """Partitions have no common row numbers."""
        return ""


def merged(names: list[str], n_keys: int, answers: list[list[list[Any]]]) -> list[list[Any]]:
    """Aggregates of parts as aggregates of the whole: what is called n... or null... adds up, low... and high... are limits."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for answer in answers:
        for row in zip(*answer, strict=True):
            values = dict(zip(names, row, strict=True))
            key = row[:n_keys]
            rows[key] = _united(rows[key], values, names[n_keys:]) if key in rows else values
    return [[values[name] for values in rows.values()] for name in names]


def _united(a: dict[str, Any], b: dict[str, Any], names: list[str]) -> dict[str, Any]:
    both = dict(a)
    for name in names:
        known = [value[name] for value in (a, b) if value[name] is not None]
        if name == "centre":
            parts = [(value["n_labelled"], value["centre"]) for value in (a, b) if value["centre"] is not None]
            total = sum(n for n, _ in parts)
            both[name] = sum(n * mean for n, mean in parts) / total if total else None
        elif not known:
            both[name] = None
        elif name.startswith("low") or name.endswith("_low"):
            both[name] = min(known)
        elif name.startswith("high") or name.endswith("_high"):
            both[name] = max(known)
        else:
            both[name] = sum(known)
    return both


def _computed(*delayed: Any) -> Any:
    """What Dask computes, or in one line what kept it from that."""
    import dask

    try:
        return dask.compute(*delayed)
    except EvenscoreError:
        raise
    except Exception as error:
        raise DataError(f"Dask could not finish: {type(error).__name__}: {first_line(error)}") from error


def _answer(part: Any, question: Callable[[Duck], Any]) -> Any:
    """The answer of one partition; None when it has no rows."""
    return None if len(part) == 0 else question(Duck(partition_relation(part)))


def partition_relation(part: Any) -> Any:
    """A pandas partition as a DuckDB relation."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")  # Dask runs partitions side by side already
    return connection.from_df(part)


def tally_dask(data: Any, *, memory_limit: Any = None, **options: Any) -> Tally:
    """The tally of a Dask DataFrame."""
    import dask

    fields = _fields(data, options)
    frame = data[list(dict.fromkeys(part.name for part in fields.every()))]
    engine = DaskEngine(frame.to_delayed())
    facts = survey(engine, fields)
    lattice = lattice_for(engine, facts, options["lattice"], options["cuts"], options["cells"], options["scale"])
    recipe = Recipe.of(facts, lattice, options["split"])
    rows = frame.map_partitions(_prepare, facts, meta=_empty(data, facts))
    if fields.user is not None:
        rows = rows.shuffle("key")
    parts = [dask.delayed(_count)(part, recipe) for part in rows.to_delayed()]
    while len(parts) > 1:
        parts = [dask.delayed(recipe.added)(parts[i : i + AT_ONCE]) for i in range(0, len(parts), AT_ONCE)]
    return finished(_computed(parts[0])[0], facts, options["split"])


def _fields(data: Any, options: dict[str, Any]) -> Fields:
    kinds = {str(name): _kind(dtype) for name, dtype in data.dtypes.items()}
    text = {name: DUCKDB.as_text(DUCKDB.name(name)) for name, kind in kinds.items() if kind == "other"}
    roles = {role: options[role] for role in ROLES}
    return find_fields(roles, kinds, DUCKDB, options["nulls"], "frame", None, text)


def _kind(dtype: Any) -> str:
    kind = getattr(dtype, "kind", "O")
    names = {"i": "integer", "u": "unsigned", "f": "float", "b": "boolean", "O": "text", "U": "text"}
    found = names.get(kind, "other")
    return "text" if "string" in str(dtype) or str(dtype) in ("str", "category") else found


def _prepare(part: Any, facts: Survey) -> Any:
    """The columns that counting needs, as a pandas frame."""
    if len(part) == 0:
        return _empty(part, facts)
    arrays = prepared(partition_relation(part), facts).fetchnumpy()
    columns = {name: np.ma.getdata(values) for name, values in arrays.items()}
    columns["outcome"] = np.ma.filled(arrays["outcome"].astype(np.float64), np.nan)
    return type(part)({name: columns[name].astype(kind) for name, kind in _types(facts).items()})


def _types(facts: Survey) -> dict[str, str]:
    user = facts.fields.user
    key = "uint64" if user is not None and user.kind == "unsigned" else "int64"
    sizes = {"score": "float64", "outcome": "float64", "part": "uint8", "weight": "float64", "count": "int64"}
    return {"key": key, **{name: sizes[name] for name in facts.prepared}}


def _empty(data: Any, facts: Survey) -> Any:
    kind = type(data._meta) if hasattr(data, "_meta") else type(data)
    return kind({name: np.zeros(0, dtype=dtype) for name, dtype in _types(facts).items()})


def _count(part: Any, recipe: Recipe) -> Tally:
    arrays = {name: part[name].to_numpy() for name in part.columns}
    missing = np.isnan(arrays["outcome"])
    if missing.any():
        arrays["outcome"] = np.ma.MaskedArray(np.where(missing, 0.0, arrays["outcome"]), missing)
    if recipe.columns.user is None:
        del arrays["key"]
    return recipe.tally(arrays)
