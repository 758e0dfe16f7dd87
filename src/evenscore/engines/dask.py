"""Dask DataFrames: partitions answer the survey in SQL, rows are shuffled by user, and partitions are counted where they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.data.columns import find_column, nulls_in
from evenscore.data.observations import users_of
from evenscore.data.spec import TallySpec
from evenscore.engines.duck import Duck
from evenscore.engines.duck import partition_relation as partition_relation
from evenscore.engines.parts import Recipe
from evenscore.engines.relations import select_rows
from evenscore.engines.sql import DUCKDB, ID_ROLES, Fields, find_fields
from evenscore.engines.survey import Aggregate, Answers, Fact, Survey, take_survey
from evenscore.errors import DataError, EvenscoreError, first_line
from evenscore.tallies.tally_state import Tally
from evenscore.types import Floats

HASHES = {role: f"evenscore: the hash of {role}s" for role in ID_ROLES}
AT_ONCE = 8  # tallies that a task adds up
KINDS = {"i": "integer", "u": "unsigned", "f": "float", "b": "boolean", "O": "text", "U": "text"}


@dataclass(frozen=True, slots=True)
class DaskEngine:
    """Partitions (delayed pandas frames) as an engine that answers the survey's questions."""

    partitions: list[Any]

    def _ask(self, question: Callable[[Duck], Any]) -> list[Any]:
        """What each partition that has rows answers."""
        import dask

        def answer(partition: Any) -> Any:
            return None if len(partition) == 0 else question(Duck(partition_relation(partition)))

        answers = _compute(*(dask.delayed(answer)(partition) for partition in self.partitions))
        return [answer for answer in answers if answer is not None]

    def aggregate(self, facts: dict[str, Fact], *, where: str | None = None, by: dict[str, str] | None = None) -> Answers:
        """See ``survey.Engine``."""
        sketched = {name: fact for name, fact in facts.items() if fact.aggregate is Aggregate.DISTINCT}
        plain = {name: fact for name, fact in facts.items() if name not in sketched}

        def question(duck: Duck) -> Answers:
            answers = duck.aggregate(plain, where=where, by=by)
            for name, fact in sketched.items():
                answers[name] = [duck.smallest_hashes(fact.expression, where=where)]
            return answers

        answers = self._ask(question)
        if not answers:
            raise DataError("the data has no rows: every partition is empty")
        return merge_answers([*(by or {})], plain | sketched, answers)

    def select(self, column: str, *, where: str | None) -> Floats:
        """See ``survey.Engine``."""
        return np.concatenate(self._ask(lambda duck: duck.select(column, where=where)))

    def first_rows(self, condition: str, value: str | None) -> str:
        """Partitions have no common row numbers."""
        return ""


def merge_answers(keys: list[str], facts: dict[str, Fact], answers: list[Answers]) -> Answers:
    """Answers about partitions as answers about the whole, with each fact merged by its own rule for equal keys."""
    by_key: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for answer in answers:
        for row in zip(*(answer[name] for name in (*keys, *facts)), strict=True):
            by_key.setdefault(row[: len(keys)], []).append(row[len(keys) :])
    merged: Answers = {name: [key[i] for key in by_key] for i, name in enumerate(keys)}
    for i, (name, fact) in enumerate(facts.items()):
        merged[name] = [fact.merge([row[i] for row in rows]) for rows in by_key.values()]
    return merged


def _compute(*delayed: Any) -> Any:
    """What Dask computes, or in one line what kept it from that."""
    import dask

    try:
        return dask.compute(*delayed)
    except EvenscoreError:
        raise
    except Exception as error:
        raise DataError(f"Dask could not finish: {type(error).__name__}: {first_line(error)}") from error


def tally_dask(data: Any, spec: TallySpec) -> Tally:
    """The tally of a Dask DataFrame."""
    import dask

    fields = find_dask_fields(data, spec)
    frame = data[list(dict.fromkeys(column.name for column in fields.every()))]
    for ids in (fields.user, fields.item):
        if ids is not None and ids.kind == "hashed":
            meta = frame._meta.assign(**{HASHES[ids.role]: frame._meta.iloc[:, 0].isna().astype("Int64")})
            frame = frame.map_partitions(_with_hashes, ids.name, ids.role, meta=meta)
    facts = take_survey(DaskEngine(frame.to_delayed()), fields, spec)
    recipe = facts.recipe
    rows = frame.map_partitions(_select_rows, facts, meta=_empty_rows(data, facts))
    if fields.user is not None:
        rows = rows.shuffle("key")
    tallies = [dask.delayed(_count)(partition, recipe) for partition in rows.to_delayed()]
    while len(tallies) > 1:
        tallies = [dask.delayed(recipe.add_up)(tallies[i : i + AT_ONCE]) for i in range(0, len(tallies), AT_ONCE)]
    return recipe.finish(_compute(tallies[0])[0])


def find_dask_fields(data: Any, spec: TallySpec) -> Fields:
    """The columns in their roles."""
    types = {str(name): dtype for name, dtype in data.dtypes.items()}
    kinds = {name: _kind(dtype) for name, dtype in types.items()}
    as_text = ("other", "moment", "instant")
    labels = {name: DUCKDB.as_label(DUCKDB.name(name), kind) for name, kind in kinds.items() if kind in as_text}
    ids = {role: getattr(spec, role) for role in ID_ROLES}
    inexact = {role: name for role, name in ids.items() if isinstance(name, str) and name in types and not _is_exact(types[name])}
    fields = find_fields(spec, kinds | dict.fromkeys(inexact.values(), "hashed"), DUCKDB, "frame", labels=labels)
    hashed = {role: replace(getattr(fields, role), sql=DUCKDB.name(HASHES[role])) for role in inexact}
    return replace(fields, **hashed)


def _is_exact(dtype: Any) -> bool:
    """Whether DuckDB reads users of this type as Python does: numbers and text; of objects it guesses in each partition anew."""
    return str(dtype) == "str" or str(dtype).startswith(("string", "large_string")) or getattr(dtype, "kind", "O") in "iufb"


def _with_hashes(partition: Any, name: str, role: str) -> Any:
    """The frame with the hash of its users or items, by the code that hashes in memory; null where the id is."""
    column = find_column({name: partition[name]}, name, role)
    missing = nulls_in(column)
    known = np.arange(len(column)) if missing is None else np.flatnonzero(~missing)
    hashes = np.zeros(len(column), dtype=np.int64)
    if len(known):
        users = users_of(column.take(known)).compact()
        hashes[known] = users.hashes(np.arange(users.span))[users.codes]
    held = type(partition)({"hash": hashes})["hash"].astype("Int64")
    return partition.assign(**{HASHES[role]: (held if missing is None else held.mask(missing)).array})


def _kind(dtype: Any) -> str:
    if "string" in str(dtype) or str(dtype) in ("str", "category"):
        return "text"
    if getattr(dtype, "kind", "O") == "M":
        zone = getattr(getattr(dtype, "pyarrow_dtype", dtype), "tz", None)
        return "moment" if zone is None else "instant"
    return KINDS.get(getattr(dtype, "kind", "O"), "other")


def _select_rows(partition: Any, facts: Survey) -> Any:
    """The columns that counting needs, as a pandas frame."""
    if len(partition) == 0:
        return _empty_rows(partition, facts)
    arrays = select_rows(partition_relation(partition), facts).fetchnumpy()
    columns = {name: np.ma.getdata(values) for name, values in arrays.items()}
    columns["outcome"] = np.ma.filled(arrays["outcome"].astype(np.float64), np.nan)
    return type(partition)({name: columns[name].astype(kind) for name, kind in _types(facts).items()})


def _types(facts: Survey) -> dict[str, str]:
    user = facts.fields.user
    key = "uint64" if user is not None and user.kind == "unsigned" else "int64"
    types = {"score": "float64", "outcome": "float64", "group": "uint8", "weight": "float64", "count": "int64", "item": "int64"}
    return {"key": key, **{name: types[name] for name in facts.selected}}


def _empty_rows(data: Any, facts: Survey) -> Any:
    kind = type(data._meta) if hasattr(data, "_meta") else type(data)
    return kind({name: np.zeros(0, dtype=dtype) for name, dtype in _types(facts).items()})


def _count(partition: Any, recipe: Recipe) -> Tally:
    arrays = {name: partition[name].to_numpy() for name in partition.columns}
    missing = np.isnan(arrays["outcome"])
    if missing.any():
        arrays["outcome"] = np.ma.MaskedArray(np.where(missing, 0.0, arrays["outcome"]), missing)
    if recipe.columns.user is None:
        del arrays["key"]
    return recipe.tally(arrays)
