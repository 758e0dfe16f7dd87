"""The first quick pass: what must be known of the data before it is counted. Aggregates only, and every engine can answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np

from evenscore.data.columns import LARGEST, Column, shortened
from evenscore.data.groups import MAX_GROUPS, groups_of, label_from_text
from evenscore.data.observations import EXACT, SCALE_WEIGHTS, SMALLEST, nobody_counts, nothing_left, null_hint
from evenscore.data.spec import TallySpec
from evenscore.engines.identity import TEXT_HINT, Identity
from evenscore.engines.memory import check_outside
from evenscore.engines.parts import Recipe
from evenscore.engines.sql import TOLD_APART, Field, Fields, group_code
from evenscore.errors import DataError, OptionError
from evenscore.tallies.axis import Quantiles
from evenscore.tallies.lattice import Lattice
from evenscore.types import Array, Floats, Ints

BINS = 1 << 16  # bins in which order statistics are looked for
FETCHED = 1 << 21  # scores fetched at most at a time
SKETCHED = 1024  # hashes that stand for the distinct values of a part of the data; fewer are all of them
ROUGHLY = 2  # how far engines may be off when they count distinct scores


class Aggregate(Enum):
    """What is asked about an expression, in SQL; it also says how answers about parts of the data become one about all of it."""

    SUM = "sum"
    LEAST = "min"
    MOST = "max"
    DISTINCT = "approx_count_distinct"


@dataclass(frozen=True, slots=True)
class Fact:
    """An aggregate of an SQL expression over rows."""

    aggregate: Aggregate
    expression: str

    @property
    def sql(self) -> str:
        """What an engine is asked that holds all rows."""
        asked = f"{self.aggregate.value}({self.expression})"
        return f"coalesce({asked}, 0)" if self.aggregate is Aggregate.SUM else asked

    def merge(self, answers: Sequence[Any]) -> Any:
        """One answer from those about parts of the rows; None when there is none.

        Counts of distinct values do not add up: of these each part hands over its smallest hashes, see ``SKETCHED``.
        """
        known = [answer for answer in answers if answer is not None]
        if self.aggregate is Aggregate.SUM:
            return sum(known)
        if self.aggregate is Aggregate.LEAST:
            return min(known, default=None)
        if self.aggregate is Aggregate.MOST:
            return max(known, default=None)
        smallest = np.unique(np.concatenate(known))[:SKETCHED]
        return len(smallest) if len(smallest) < SKETCHED else round((SKETCHED - 1) * 2.0**64 / float(smallest[-1]))


N_ROWS = Fact(Aggregate.SUM, "1")
Answers = dict[str, list[Any]]


def count_where(condition: str) -> Fact:
    """The number of rows that meet a condition."""
    return Fact(Aggregate.SUM, f"CASE WHEN {condition} THEN 1 ELSE 0 END")


class Engine(Protocol):
    """What an engine must answer; results are small."""

    def aggregate(self, facts: dict[str, Fact], *, where: str | None = None, by: dict[str, str] | None = None) -> Answers:
        """The facts by name, a list with one value; with ``by``, which is SQL, also its values, and a value for each of them."""
        ...

    def select(self, column: str, *, where: str | None) -> Floats:
        """All values of an expression."""
        ...

    def first_rows(self, condition: str, value: str | None) -> str:
        """For a message: where the first rows of a condition are, or nothing where rows have no order."""
        ...


@dataclass(frozen=True, slots=True)
class Survey:
    """Rows that are to be counted, and the recipe for it. texts: the labels of each group as the engine writes them."""

    fields: Fields
    recipe: Recipe
    texts: tuple[tuple[str, ...], ...]
    has_unlabelled: bool

    @property
    def nullable(self) -> tuple[str, ...]:
        """Which of the columns that counting needs hold nulls."""
        return ("outcome",) if self.has_unlabelled else ()

    @property
    def selected(self) -> dict[str, str]:
        """SQL for the columns that counting needs, by short names; an unknown outcome is null."""
        f = self.fields
        group = group_code(f, self.texts)
        columns = {
            "score": f.score.number,
            "outcome": f.outcome.number,
            "group": f"CAST({group} AS TINYINT)" if len(self.texts) < 128 else group,
        }
        if self.has_unlabelled:
            columns["outcome"] = f"CASE WHEN {f.known} THEN {f.outcome.number} END"
        if self.recipe.binary:
            columns["outcome"] = f"CAST({columns['outcome']} AS TINYINT)"
        if f.item is not None:
            columns["item"] = f.item_hash
        if f.weight is not None:
            columns["weight"] = f.weight.number
        if f.count is not None:
            columns["count"] = f"CAST({f.count.sql} AS BIGINT)"
        return columns


def take_survey(engine: Engine, fields: Fields, spec: TallySpec) -> Survey:
    """Ask the engine; raises when the data is not as it must be."""
    if spec.split is not None and spec.item is not None:
        raise OptionError(
            "split= with item= needs the rows in memory, as items that belong to a group are split as a whole; allow more memory "
            "(memory_limit=), or write two files"
        )
    demands = list_demands(fields)
    facts = _ask_facts(engine, fields, demands)
    dropped = _look_for_nulls(engine, fields, facts)
    n_rows = int(facts["n_rows"])
    if n_rows == 0:
        raise nothing_left(int(facts["n_all"]), dropped)
    for demand in demands:
        if facts[demand.condition]:
            raise demand.refusal(engine, fields, int(facts[demand.condition]), n_rows)
    for size in (fields.weight, fields.count):
        if size is not None and facts[f"most_{size.role}"] == 0:
            raise DataError(f"{size} is zero in all {n_rows:,} rows")
    n_counted = int(facts["n_counted"])
    if n_counted == 0:
        raise nobody_counts(n_rows)
    labels, texts = _find_labels(engine, fields, n_rows)
    binary = facts["n_other"] == 0
    recipe = Recipe(
        lattice=_choose_lattice(engine, fields, spec, facts),
        labels=labels,
        columns=fields.columns,
        binary=binary,
        centre=0.0 if binary else float(facts["outcomes"]) / int(facts["n_labelled"]),
        hashed=fields.hashed,
        n_rows=n_counted,
        n_users=min(n_counted, max(1, int(facts.get("n_users", n_counted)))),
        split=spec.split,
        dropped=dropped,
        item=None if fields.item is None else fields.item.name,
    )
    return Survey(fields, recipe, texts, has_unlabelled=facts["n_labelled"] < n_counted)


def _ask_facts(engine: Engine, fields: Fields, demands: list[Demand]) -> dict[str, Any]:
    """Aggregates over the rows that are kept, and counts of missing values over all; one scan unless some are left out.

    Rows that are nobody's must meet the demands like all others, and say nothing about scores, outcomes and users.
    """
    score, outcome = fields.score.number, fields.outcome.number
    weighty = fields.weighty or "true"
    known = weighty if fields.known is None else f"{weighty} AND {fields.known}"

    def of_somebody(expression: str) -> str:
        return expression if fields.weighty is None else f"CASE WHEN {weighty} THEN {expression} END"

    facts = {
        "n_rows": N_ROWS,
        "n_counted": count_where(weighty),
        "low": Fact(Aggregate.LEAST, of_somebody(score)),
        "high": Fact(Aggregate.MOST, of_somebody(score)),
        "n_scores": Fact(Aggregate.DISTINCT, of_somebody(score)),
        "n_labelled": count_where(known),
        "n_other": count_where(f"{known} AND {outcome} NOT IN (0, 1)"),
        "outcomes": Fact(Aggregate.SUM, f"CASE WHEN {known} THEN {outcome} END"),
    }
    if fields.user is not None:
        facts["n_users"] = Fact(Aggregate.DISTINCT, of_somebody(fields.user.sql))
    for size in (fields.weight, fields.count):
        if size is not None:
            facts[f"most_{size.role}"] = Fact(Aggregate.MOST, size.number)
    facts |= {demand.condition: count_where(demand.condition) for demand in demands}
    nulls = {"n_all": N_ROWS, **{column.is_null: count_where(column.is_null) for column in fields.every()}}
    if fields.kept is None:
        return _ask(engine, nulls | facts)
    return _ask(engine, nulls) | _ask(engine, facts, fields.kept)


def _ask(engine: Engine, facts: dict[str, Fact], where: str | None = None) -> dict[str, Any]:
    return {name: values[0] for name, values in engine.aggregate(facts, where=where).items()}


def _look_for_nulls(engine: Engine, fields: Fields, facts: dict[str, Any]) -> dict[str, int]:
    """Missing values by column if they are to be left out; else they are errors."""
    n_rows = int(facts["n_all"])
    if n_rows == 0:
        raise DataError(f"the data has no rows ({fields.score} is empty)")
    dropped: dict[str, int] = {}
    for column in fields.every():
        n = int(facts[column.is_null])
        if n == 0:
            continue
        if fields.nulls == "drop":
            dropped[column.name] = n
        elif fields.nulls == "unlabelled" and column.role == "outcome":
            if n == n_rows:
                raise DataError(f"{column} is null in all {n_rows:,} rows: nothing is labelled")
        else:
            where = engine.first_rows(column.is_null, None)
            raise DataError(f"{column} is null or NaN in {n:,} of {n_rows:,} rows{where}; {null_hint(column.role)}")
    return dropped


# Demands


@dataclass(frozen=True, slots=True)
class Demand:
    """What no row may be: SQL that is true for a bad one, and what is then wrong with the column."""

    column: Field
    condition: str
    complaint: str
    hint: str = ""

    def refusal(self, engine: Engine, fields: Fields, n: int, n_rows: int) -> DataError:
        """The error when n rows are bad; it shows the first."""
        bad = self.condition if fields.kept is None else f"({self.condition}) AND {fields.kept}"
        where = engine.first_rows(bad, self.column.sql)
        return DataError(f"{self.column} {self.complaint} in {n:,} of {n_rows:,} rows{where}{self.hint}")


def list_demands(fields: Fields) -> list[Demand]:
    """The same demands that arrays in memory have to meet."""
    demands = [_demand_finite(fields.score, LARGEST), _demand_finite(fields.outcome, LARGEST, fields.known or "true")]
    for size, most in ((fields.weight, LARGEST), (fields.count, EXACT - 1)):
        if size is not None:
            demands += [_demand_finite(size, most), Demand(size, f"{size.number} < 0", "is negative")]
    if fields.weight is not None:
        weight = fields.weight.number
        tiny = f"{weight} > 0 AND {weight} < {SMALLEST!r}"
        demands.append(Demand(fields.weight, tiny, f"is below {SMALLEST:g} and not 0", f"; {SCALE_WEIGHTS}"))
    if fields.count is not None and fields.count.kind in ("float", "decimal"):
        fractional = f"{fields.count.number} <> floor({fields.count.number})"
        demands.append(Demand(fields.count, fractional, "is not a whole number", "; for survey weights use weight="))
    for ids in (fields.user, fields.item):
        if ids is not None:
            demands += _demand_identities(ids, fields.dialect.ids[ids.kind])
    return demands


def _demand_identities(ids: Field, identity: Identity) -> list[Demand]:
    """What a column of ids may not hold."""
    demands = []
    if identity.refused is not None:
        demands.append(Demand(ids, identity.refused.format(x=ids.sql), identity.complaint, TEXT_HINT))
    if ids.kind == "float":
        limit = f"CASE WHEN lower(typeof({ids.sql})) = 'float' THEN {2**24} ELSE {TOLD_APART} END"
        not_whole = f"{ids.number} <> floor({ids.number}) OR abs({ids.number}) > {limit}"
        complaint = "holds fractions, or floats too large to tell ids apart,"
        demands.append(Demand(ids, not_whole, complaint, "; ids are integers, text or UUIDs"))
    return demands


def _demand_finite(column: Field, most: float, known: str = "true") -> Demand:
    return Demand(column, f"{known} AND NOT abs({column.number}) <= {most!r}", f"is not finite, or beyond {most:g},")


# Groups


def _find_labels(engine: Engine, fields: Fields, n_rows: int) -> tuple[tuple[Any, ...], tuple[tuple[str, ...], ...]]:
    """The groups in order, as Python values and as the engine's text."""
    by = {f"label_{i}": column.label for i, column in enumerate(fields.groups)}
    by |= {f"text_{i}": fields.dialect.as_text(column.sql) for i, column in enumerate(fields.groups)}
    answers = engine.aggregate({}, where=fields.kept, by=by)
    if len(answers["label_0"]) > MAX_GROUPS:
        names = " x ".join(shortened(column.name) for column in fields.groups)
        raise DataError(
            f"column {names} (group) has more than the {MAX_GROUPS} different values that are possible in {n_rows:,} rows: is it "
            "an id or a number? Cut numbers into bands first"
        )
    columns = []
    for i, column in enumerate(fields.groups):
        values = [label_from_text(column.kind, value) for value in answers[f"label_{i}"]]
        columns.append(Column(column.name, "group", _objects(values)))
    codes, labels = groups_of(columns)
    texts = list(zip(*(answers[f"text_{i}"] for i in range(len(columns))), strict=True))
    return labels, tuple(texts[row] for row in np.argsort(codes))


def _objects(values: Sequence[Any]) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


# The lattice


def _choose_lattice(engine: Engine, fields: Fields, spec: TallySpec, facts: dict[str, Any]) -> Lattice:
    """The lattice given, checked against the scores, or the one that they would have in memory."""
    score, kept, n_rows = fields.score.number, fields.counted, int(facts["n_counted"])
    low, high = float(facts["low"]), float(facts["high"])
    if spec.lattice is not None:
        outside = _ask(engine, {"n": count_where(_is_outside(spec.lattice, score))}, kept)
        check_outside(spec.lattice, int(outside["n"]), n_rows, fields.score.name)
        return spec.lattice
    if spec.scale == "logit" and not (low >= 0 and high <= 1):
        raise DataError(f"scale='logit' needs scores between 0 and 1; these run from {low:g} to {high:g}")
    if facts["n_scores"] <= ROUGHLY * spec.cells:
        distinct = np.array(engine.aggregate({}, where=kept, by={"score": score})["score"], dtype=np.float64)
        if len(distinct) <= spec.cells:
            return Lattice.from_values(distinct, scale=spec.scale, max_cells=spec.cells)

    def at_ranks(ranks: Ints) -> Floats:
        return order_statistics(engine, score, kept, ranks)

    return Lattice.from_quantiles(Quantiles(n_rows, low, high, at_ranks), cells=spec.cells, cuts=spec.cuts, scale=spec.scale)


def _is_outside(lattice: Lattice, score: str) -> str:
    if lattice.values is None:
        return f"({score} < {lattice.low!r} OR {score} > {lattice.high!r})"
    return f"{score} NOT IN ({', '.join(repr(float(value)) for value in lattice.values)})"


def order_statistics(engine: Engine, score: str, kept: str | None, ranks: Ints) -> Floats:
    """The scores of the given ranks (from 0), exactly: count in bins, then fetch only the bins that hold a rank."""
    extent = {"low": Fact(Aggregate.LEAST, score), "high": Fact(Aggregate.MOST, score)}
    limits = _ask(engine, extent, kept)
    low, high = float(limits["low"]), float(limits["high"])
    if low == high:
        return np.full(len(ranks), low)
    bin_of = f"CAST(least(floor(({score} - ({low!r})) / {(high - low) / BINS!r}), {BINS - 1}) AS BIGINT)"
    answers = engine.aggregate({"n": N_ROWS} | extent, where=kept, by={"bin": bin_of})
    order = np.argsort(answers["bin"])
    counts = np.array(answers["n"], dtype=np.int64)[order]
    lows, highs = np.array(answers["low"])[order], np.array(answers["high"])[order]
    ends = np.cumsum(counts)
    bin_of_rank = np.searchsorted(ends, ranks, side="right")
    wanted = np.unique(bin_of_rank)
    ranges = {b: f"({score} BETWEEN {lows[b].item()!r} AND {highs[b].item()!r})" for b in wanted.tolist()}
    several = [b for b in wanted.tolist() if lows[b] < highs[b]]
    fetched = bool(several) and counts[several].sum() <= FETCHED
    if fetched:
        values = np.sort(engine.select(score, where=_and_kept(f"({' OR '.join(ranges[b] for b in several)})", kept)))
    scores = np.empty(len(ranks))
    start = 0
    for b in wanted.tolist():
        here = bin_of_rank == b
        within = ranks[here] - (ends[b] - counts[b])
        if lows[b] == highs[b]:
            scores[here] = lows[b]
        elif fetched:
            scores[here] = values[start + within]
            start += counts[b]
        else:
            scores[here] = order_statistics(engine, score, _and_kept(ranges[b], kept), within)
    return scores


def _and_kept(condition: str, kept: str | None) -> str:
    return condition if kept is None else f"{condition} AND {kept}"
