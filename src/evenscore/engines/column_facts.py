"""What each column of files holds, found in one scan: enough to guess which is the score, and which says whose row it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenscore.engines.duck import query, type_kind
from evenscore.engines.files import use_files
from evenscore.engines.paths import Paths
from evenscore.engines.sources import Source
from evenscore.engines.sql import DUCKDB
from evenscore.engines.text_types import DAY, DECIMAL_COMMA, MISSING, MOMENT
from evenscore.errors import DataError, hush, listing

EXACT = 2_000_000  # rows; of more, distinct values are counted by a sketch, whose error is some 2 %
NUMBERS = ("integer", "unsigned", "float", "decimal", "huge")
DATES = ("date", "moment", "instant", "time", "fine moment", "fine instant", "fine time", "duration")


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column. kind: "number", "truth value", "date", "text" or "nothing"; low, high, whole: of numbers, else nan and False."""

    name: str
    kind: str
    n_rows: int
    n_nulls: int
    n_distinct: int
    low: float
    high: float
    whole: bool

    @property
    def is_binary(self) -> bool:
        """Whether it holds 0 and 1, both."""
        return self.kind == "truth value" or (self.whole and (self.low, self.high) == (0, 1))

    @property
    def is_numeric(self) -> bool:
        """Whether it can be a score or an outcome."""
        return self.kind in ("number", "truth value")


def find_facts(data: Paths) -> list[ColumnFacts]:
    """The facts about every column, in the order of the files."""
    return use_files(data, {}, _ask_source, hush, every=True)


def _ask_source(source: Source) -> list[ColumnFacts]:
    columns = {name: sql for name, sql in source.held.items() if name not in source.twice}
    kinds = {name: "text" if source.is_text else type_kind(source.types[name]) for name in columns}
    n_rows = query(f"SELECT count(*) FROM {source.sql}").fetchone()[0]
    if n_rows == 0:
        raise DataError(f"{', '.join(source.paths)}: the data has no rows, only the columns {listing(source.types)}")
    counting = "count(DISTINCT {})" if n_rows <= EXACT else "approx_count_distinct({})"
    questions = {name: _questions(sql, kinds[name], counting) for name, sql in columns.items()}
    asked = [expression for of_column in questions.values() for expression in of_column.values()]
    answers = iter(query(f"SELECT {', '.join(asked)} FROM {source.sql}").fetchone() if asked else ())
    return [
        _facts(name, kinds[name], n_rows, {question: next(answers) for question in of_column})
        for name, of_column in questions.items()
    ]


def find_median(data: Paths, score: str) -> float | None:
    """The median of one column's numbers, over all rows that have one; None where there is none."""

    def ask(source: Source) -> float | None:
        kind = "text" if source.is_text else type_kind(source.types[score])
        number = _number(source.held[score], f"CAST({source.held[score]} AS VARCHAR)", kind)
        median = query(f"SELECT median({number}) FROM {source.sql}").fetchone()[0]
        return None if median is None else float(median)

    return use_files(data, {"score": score}, ask, hush, every=True)


def count_pairs(data: Paths, first: str, others: Sequence[str]) -> dict[str, int]:
    """How many different pairs of values one column makes with each of some others, where both are known."""

    def ask(source: Source) -> dict[str, int]:
        n_rows = query(f"SELECT count(*) FROM {source.sql}").fetchone()[0]
        counting = "count(DISTINCT {})" if n_rows <= EXACT else "approx_count_distinct({})"
        own = source.held[first]
        hashes = (
            f"CASE WHEN {own} IS NOT NULL AND {source.held[name]} IS NOT NULL THEN hash({own}, {source.held[name]}) END"
            for name in others
        )
        answers = query(f"SELECT {', '.join(map(counting.format, hashes))} FROM {source.sql}").fetchone()
        return dict(zip(others, answers, strict=True))

    return use_files(data, {}, ask, hush, every=True) if others else {}


def _questions(column: str, kind: str, counting: str) -> dict[str, str]:
    """SQL for what is asked of one column: how many values are held, are numbers, are missing in words, and so on."""
    text = f"CAST({column} AS VARCHAR)"
    number = _number(column, text, kind)
    missing = f"trim({text}) IN ({', '.join(map(DUCKDB.literal, MISSING))})"
    dates = f"regexp_full_match({text}, {DUCKDB.literal(f'{DAY}|{MOMENT}')})"
    return {
        "held": f"count({column})",
        "distinct": counting.format(column if kind in NUMBERS else text),
        "numbers": f"count({number})",
        "missing": f"count(*) FILTER ({missing} AND {number} IS NULL)",
        "truths": f"count(*) FILTER (lower({text}) IN ('true', 'false'))",
        "dates": f"count(*) FILTER ({dates})",
        "low": f"min({number})",
        "high": f"max({number})",
        "fractions": f"count(*) FILTER ({number} <> floor({number}))",
    }


def _number(column: str, text: str, kind: str) -> str:
    """SQL for a finite number, else null; text may be a number, also with a decimal comma, as where it is read in earnest."""
    if kind in ("text", *NUMBERS):
        plain = f"TRY_CAST({column} AS DOUBLE)"
        finite = f"CASE WHEN isfinite({plain}) THEN {plain} END"
        if kind != "text":
            return finite
        comma = f"TRY_CAST(replace(replace(trim({text}), '.', ''), ',', '.') AS DOUBLE)"
        return f"coalesce({finite}, CASE WHEN regexp_full_match({text}, {DUCKDB.literal(DECIMAL_COMMA)}) THEN {comma} END)"
    return "CAST(NULL AS DOUBLE)"


def _facts(name: str, kind: str, n_rows: int, answers: dict[str, Any]) -> ColumnFacts:
    n_held, n_numbers = answers["held"], answers["numbers"]
    numeric = n_numbers > 0 and (kind in NUMBERS or n_numbers + answers["missing"] == n_held)
    if n_held == 0:
        holds = "nothing"
    elif kind == "boolean" or answers["truths"] == n_held:
        holds = "truth value"
    elif numeric:
        holds = "number"
    else:
        holds = "date" if kind in DATES or answers["dates"] == n_held else "text"
    return ColumnFacts(
        name=name,
        kind=holds,
        n_rows=n_rows,
        n_nulls=n_rows - (n_numbers if numeric else n_held),
        n_distinct=answers["distinct"],
        low=float(answers["low"]) if numeric else math.nan,
        high=float(answers["high"]) if numeric else math.nan,
        whole=numeric and answers["fractions"] == 0,
    )
