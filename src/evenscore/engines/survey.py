"""The first quick pass: what must be known of the data before it is counted. Aggregates only, and every engine can answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from evenscore.data.columns import LARGEST, Column, shortened
from evenscore.data.observations import EXACT, MAX_GROUPS, NULLS, SCALE_WEIGHTS, SMALLEST, Columns, groups_of
from evenscore.engines.memory import check_outside, given_lattice
from evenscore.engines.sql import TOLD_APART, Field, Fields, count_where, group_code
from evenscore.errors import DataError, OptionError, require_option
from evenscore.tallies.axis import Quantiles
from evenscore.tallies.lattice import MAX_CELLS, SCALES, Lattice
from evenscore.tallies.tally_state import Tally
from evenscore.types import Array, Floats, Ints

BINS = 1 << 16  # bins in which order statistics are looked for
FETCHED = 1 << 21  # scores fetched at most at a time


class Engine(Protocol):
    """What an engine must answer; results are small."""

    def aggregate(self, columns: dict[str, str], *, where: str | None = None, by: dict[str, str] | None = None) -> list[list[Any]]:
        """Values of the SQL expressions, column by column; with ``by`` one value a group, after the groups themselves."""
        ...

    def select(self, column: str, *, where: str | None) -> Floats:
        """All values of an expression."""
        ...

    def first_rows(self, condition: str, value: str | None) -> str:
        """For a message: where the first rows of a condition are, or nothing where rows have no order."""
        ...


@dataclass(frozen=True, slots=True)
class Survey:
    """Facts about rows that are to be counted.

    n_rows: kept rows. n_users: about how many. labels: the groups in order; texts: the same as the engine writes them.
    centre: what outcomes will be deviations from. n_scores: about how many distinct ones. dropped: rows left out, by column.
    """

    fields: Fields
    n_rows: int
    n_users: int
    low: float
    high: float
    n_scores: int
    labels: tuple[Any, ...]
    texts: tuple[tuple[str, ...], ...]
    binary: bool
    centre: float
    has_unlabelled: bool
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def columns(self) -> Columns:
        """What the columns are called."""
        f = self.fields
        others = (None if part is None else part.name for part in (f.user, f.weight, f.count))
        return Columns(f.score.name, f.outcome.name, tuple(part.name for part in f.groups), *others)

    @property
    def prepared(self) -> dict[str, str]:
        """SQL for the columns that counting needs, by short names; an unknown outcome is null."""
        f = self.fields
        columns = {
            "score": f.score.number,
            "outcome": f.outcome.number,
            "part": f"CAST({group_code(f, self.texts)} AS TINYINT)" if len(self.labels) < 128 else group_code(f, self.texts),
        }
        if self.has_unlabelled:
            columns["outcome"] = f"CASE WHEN {f.known} THEN {f.outcome.number} END"
        if self.binary:
            columns["outcome"] = f"CAST({columns['outcome']} AS TINYINT)"
        if f.weight is not None:
            columns["weight"] = f.weight.number
        if f.count is not None:
            columns["count"] = f"CAST({f.count.sql} AS BIGINT)"
        return columns


def survey(engine: Engine, fields: Fields) -> Survey:
    """Ask the engine; raises when the data is not as it must be."""
    require_option("nulls", fields.nulls, NULLS)
    facts = _facts(engine, fields)
    n_rows, dropped = _look_for_nulls(engine, fields, facts)
    n_kept = int(facts["n_rows"])
    if n_kept == 0:
        raise _nothing_left(n_rows, dropped)
    _check_facts(engine, fields, facts, n_kept)
    labels, texts = _labels(engine, fields, n_kept)
    binary = facts["n_other"] == 0
    return Survey(
        fields=fields,
        n_rows=n_kept,
        n_users=min(n_kept, max(1, int(facts.get("n_users", n_kept)))),
        low=float(facts["low"]),
        high=float(facts["high"]),
        n_scores=int(facts["n_scores"]),
        labels=labels,
        texts=texts,
        binary=binary,
        centre=0.0 if binary else float(facts["centre"]),
        has_unlabelled=facts["n_labelled"] < n_kept,
        dropped={name: n for name, n in dropped.items() if n},
    )


def _null_counts(fields: Fields) -> dict[str, str]:
    """SQL for the rows in all and for missing values by column."""
    return {"n_all": "count(*)", **{f"null_{i}": count_where(part.is_null) for i, part in enumerate(fields.every())}}


def _look_for_nulls(engine: Engine, fields: Fields, facts: dict[str, Any]) -> tuple[int, dict[str, int]]:
    """Rows in all, and missing values by column if they are to be left out; else they are errors."""
    every = fields.every()
    n_rows, missing = int(facts["n_all"]), [int(facts[f"null_{i}"]) for i in range(len(every))]
    if n_rows == 0:
        raise DataError(f"the data has no rows ({fields.score} is empty)")
    dropped: dict[str, int] = {}
    for part, n in zip(every, missing, strict=True):
        if n == 0:
            continue
        if fields.nulls == "drop":
            dropped[part.name] = n
        elif fields.nulls == "unlabelled" and part.role == "outcome":
            if n == n_rows:
                raise DataError(f"{part} is null in all {n_rows:,} rows: nothing is labelled")
        else:
            hint = "; nulls='drop' leaves such rows out and counts them"
            hint += "; nulls='unlabelled' keeps their scores" if part.role == "outcome" else ""
            raise _refusal(engine, part, part.is_null, "is null or NaN", n, n_rows, hint=hint, show=False)
    return n_rows, dropped


def _facts(engine: Engine, fields: Fields) -> dict[str, Any]:
    """Aggregates over the rows that are kept, and counts of missing values over all; one scan unless some are left out."""
    score, outcome = fields.score.number, fields.outcome.number
    known = fields.known or "true"
    asked = {
        "n_rows": "count(*)",
        "low": f"min({score})",
        "high": f"max({score})",
        "n_scores": f"approx_count_distinct({score})",
        "n_labelled": count_where(known),
        "n_other": count_where(f"{known} AND {outcome} NOT IN (0, 1)"),
        "lowest": f"min(CASE WHEN {known} THEN {outcome} END)",
        "highest": f"max(CASE WHEN {known} THEN {outcome} END)",
        "centre": f"avg(CASE WHEN {known} THEN {outcome} END)",
    }
    if fields.user is not None:
        asked["n_users"] = f"approx_count_distinct({fields.user.sql})"
        if fields.user.kind == "float":
            asked["n_fractions"] = count_where(_not_whole(fields.user))
    for size in (fields.weight, fields.count):
        if size is not None:
            asked |= {f"{size.role}_low": f"min({size.number})", f"{size.role}_high": f"max({size.number})"}
    if fields.weight is not None:
        asked["n_tiny"] = count_where(_tiny(fields.weight))
    if fields.count is not None and fields.count.kind in ("float", "decimal"):
        asked["n_fractional"] = count_where(f"{fields.count.number} <> floor({fields.count.number})")
    counted = _null_counts(fields)
    if fields.kept is None:
        return _first(engine, {**counted, **asked}, None)
    return _first(engine, counted, None) | _first(engine, asked, fields.kept)


def _first(engine: Engine, asked: dict[str, str], where: str | None) -> dict[str, Any]:
    return {name: column[0] for name, column in zip(asked, engine.aggregate(asked, where=where), strict=True)}


def _not_whole(user: Field) -> str:
    return f"({user.number} <> floor({user.number}) OR abs({user.number}) > {TOLD_APART})"


def _tiny(weight: Field) -> str:
    return f"({weight.number} > 0 AND {weight.number} < {SMALLEST!r})"


def _check_facts(engine: Engine, fields: Fields, facts: dict[str, Any], n_rows: int) -> None:
    """The same demands that arrays in memory have to meet."""
    for part, low, high in ((fields.score, "low", "high"), (fields.outcome, "lowest", "highest")):
        if not (facts[low] >= -LARGEST and facts[high] <= LARGEST):
            beyond = f"(abs({part.number}) > {LARGEST})"
            n = int(engine.aggregate({"n": count_where(beyond)}, where=fields.kept)[0][0])
            raise _refusal(engine, part, beyond, f"is not finite, or beyond {LARGEST:g},", n, n_rows)
    for size in (fields.weight, fields.count):
        if size is None:
            continue
        most = LARGEST if size.role == "weight" else EXACT - 1
        if not facts[f"{size.role}_high"] <= most:
            beyond = f"(NOT {size.number} <= {most!r})"
            n = int(engine.aggregate({"n": count_where(beyond)}, where=fields.kept)[0][0])
            raise _refusal(engine, size, beyond, f"is not finite, or beyond {most:g},", n, n_rows)
        if facts[f"{size.role}_low"] < 0:
            negative = f"({size.number} < 0)"
            n = int(engine.aggregate({"n": count_where(negative)}, where=fields.kept)[0][0])
            raise _refusal(engine, size, negative, "is negative", n, n_rows)
        if facts[f"{size.role}_high"] == 0:
            raise DataError(f"{size} is zero in all {n_rows:,} rows")
    if fields.weight is not None and facts["n_tiny"]:
        what = f"is below {SMALLEST:g} and not 0"
        raise _refusal(engine, fields.weight, _tiny(fields.weight), what, int(facts["n_tiny"]), n_rows, hint=f"; {SCALE_WEIGHTS}")
    if fields.count is not None and facts.get("n_fractional"):
        fractional = f"({fields.count.number} <> floor({fields.count.number}))"
        hint = "; for survey weights use weight="
        raise _refusal(engine, fields.count, fractional, "is not a whole number", int(facts["n_fractional"]), n_rows, hint=hint)
    if fields.user is not None and facts.get("n_fractions"):
        hint = "; ids are integers, text or UUIDs"
        n = int(facts["n_fractions"])
        what = "holds fractions, or floats too large to tell ids apart,"
        raise _refusal(engine, fields.user, _not_whole(fields.user), what, n, n_rows, hint=hint)


def _refusal(
    engine: Engine, part: Field, condition: str, what: str, n: int, n_rows: int, hint: str = "", show: bool = True
) -> DataError:
    where = engine.first_rows(condition, part.sql if show else None)
    return DataError(f"{part} {what} in {n:,} of {n_rows:,} rows{where}{hint}")


def _nothing_left(n_rows: int, dropped: dict[str, int]) -> DataError:
    found = ", ".join(f"{shortened(name)} is null in {n:,}" for name, n in dropped.items())
    return DataError(f"nulls='drop' leaves none of the {n_rows:,} rows: {found}")


def _labels(engine: Engine, fields: Fields, n_rows: int) -> tuple[tuple[Any, ...], tuple[tuple[str, ...], ...]]:
    """The groups in order, as Python values and as the engine's text."""
    n_parts = len(fields.groups)
    by = {f"label_{i}": part.label for i, part in enumerate(fields.groups)}
    by |= {f"text_{i}": fields.dialect.as_text(part.sql) for i, part in enumerate(fields.groups)}
    found = engine.aggregate({}, where=fields.kept, by=by)
    if len(found[0]) > MAX_GROUPS:
        names = " x ".join(shortened(part.name) for part in fields.groups)
        raise DataError(
            f"column {names} (group) has more than the {MAX_GROUPS} different values that are possible in {n_rows:,} rows: is it "
            "an id or a number? Cut numbers into bands first"
        )
    parts = [Column(part.name, "group", _objects(found[i])) for i, part in enumerate(fields.groups)]
    codes, labels = groups_of(parts)
    texts = [tuple(found[n_parts + i][row] for i in range(n_parts)) for row in np.argsort(codes)]
    return labels, tuple(texts)


def _objects(values: Sequence[Any]) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


# The lattice


def lattice_for(
    engine: Engine, facts: Survey, lattice: Tally | Lattice | None, cuts: tuple[float, ...], cells: int, scale: str
) -> Lattice:
    """The lattice given, checked against the scores, or the one that they would have in memory."""
    score, kept = facts.fields.score.number, facts.fields.kept
    if lattice is not None:
        given = given_lattice(lattice, cuts)
        check_outside(given, _count_outside(engine, given, score, kept), facts.n_rows, facts.columns.score)
        return given
    require_option("scale", scale, SCALES)
    if not isinstance(cells, int) or not 1 <= cells <= MAX_CELLS:
        raise OptionError(f"cells={shortened(cells)} must be a whole number from 1 to {MAX_CELLS}")
    if scale == "logit" and not (facts.low >= 0 and facts.high <= 1):
        raise DataError(f"scale='logit' needs scores between 0 and 1; these run from {facts.low:g} to {facts.high:g}")
    if facts.n_scores <= 1.5 * cells:  # the count is approximate
        distinct = np.array(engine.aggregate({}, where=kept, by={"score": score})[0], dtype=np.float64)
        if len(distinct) <= cells:
            return Lattice.from_values(distinct, scale=scale, max_cells=cells)

    def at_ranks(ranks: Ints) -> Floats:
        return order_statistics(engine, score, kept, ranks)

    quantiles = Quantiles(facts.n_rows, facts.low, facts.high, at_ranks)
    return Lattice.from_quantiles(quantiles, cells=cells, cuts=cuts, scale=scale)


def _count_outside(engine: Engine, lattice: Lattice, score: str, kept: str | None) -> int:
    if lattice.values is not None:
        inside = ", ".join(repr(float(value)) for value in lattice.values)
        condition = f"{score} NOT IN ({inside})"
    else:
        condition = f"({score} < {lattice.low!r} OR {score} > {lattice.high!r})"
    return int(engine.aggregate({"n": count_where(condition)}, where=kept)[0][0])


def order_statistics(engine: Engine, score: str, kept: str | None, ranks: Ints) -> Floats:
    """The scores of the given ranks (from 0), exactly: count in bins, then fetch only the bins that hold a rank."""
    found = np.empty(len(ranks))
    _order_statistics(engine, score, kept, ranks, found, np.arange(len(ranks)))
    return found


def _order_statistics(engine: Engine, score: str, kept: str | None, ranks: Ints, found: Floats, places: Ints) -> None:
    low, high = (float(column[0]) for column in engine.aggregate({"low": f"min({score})", "high": f"max({score})"}, where=kept))
    if low == high:
        found[places] = low
        return
    width = (high - low) / BINS
    bin_of = f"CAST(least(floor(({score} - ({low!r})) / {width!r}), {BINS - 1}) AS BIGINT)"
    bins, counts, lows, highs = (
        np.array(column)
        for column in engine.aggregate(
            {"n": "count(*)", "low": f"min({score})", "high": f"max({score})"}, where=kept, by={"bin": bin_of}
        )
    )
    order = np.argsort(bins)
    bins, counts, lows, highs = bins[order], counts[order].astype(np.int64), lows[order], highs[order]
    ends = np.cumsum(counts)
    of_rank = np.searchsorted(ends, ranks, side="right")
    wanted = np.unique(of_rank)
    single = wanted[lows[wanted] == highs[wanted]]
    small = np.setdiff1d(wanted, single)
    if counts[small].sum() <= FETCHED and len(small):
        limits = " OR ".join(f"({score} BETWEEN {lows[b].item()!r} AND {highs[b].item()!r})" for b in small)
        condition = f"({limits})" if kept is None else f"({limits}) AND {kept}"
        values = np.sort(engine.select(score, where=condition))
        starts = dict(zip(small.tolist(), np.concatenate([[0], np.cumsum(counts[small])[:-1]]).tolist(), strict=True))
    for b in wanted.tolist():
        mine = of_rank == b
        within = ranks[mine] - (ends[b] - counts[b])
        if lows[b] == highs[b]:
            found[places[mine]] = lows[b]
        elif counts[small].sum() <= FETCHED:
            found[places[mine]] = values[starts[b] + within]
        else:
            here = f"{score} BETWEEN {lows[b].item()!r} AND {highs[b].item()!r}"
            _order_statistics(engine, score, here if kept is None else f"{here} AND {kept}", within, found, places[mine])
