"""Columns that are text in a file: which type they have is decided by all their rows, never by the first ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evenscore.data.columns import Column, shortened
from evenscore.data.groups import MAX_GROUPS
from evenscore.engines.duck import query
from evenscore.engines.sql import DUCKDB, NUMERIC_ROLES
from evenscore.errors import DataError

MISSING = ("NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", "-", ".", "?")
DECIMAL_COMMA = r"\s*[-+]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)(,[0-9]+)?([eE][-+]?[0-9]+)?\s*"
NUMBER = r"\s*[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?\s*"  # 007 is none
WHOLE = r"'\s*[-+]?[0-9]+\s*'"
DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
MOMENT = DAY + r"[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
ZONED = MOMENT + r"([zZ]|[-+][0-9]{2}(:?[0-9]{2})?)"
LONG_INTEGERS = ("UBIGINT", "HUGEINT")  # for those that 63 bits cannot hold
IDS = ("user", "item", "query")  # roles of columns that only tell apart


@dataclass(frozen=True, slots=True)
class Typed:
    """A column in its type: SQL for its values, and what had to be assumed."""

    sql: str
    kind: str
    notes: tuple[str, ...] = ()


def type_columns(source: str, columns: dict[str, str], names: dict[str, list[str]]) -> dict[str, Typed]:
    """The columns that roles name in their types; ``columns`` is SQL for the text of each.

    Numbers are what is written. Groups and ids are integers, dates or truth values if each row holds one, in the form in which
    it is usually written, and else text.
    """
    roles: dict[str, list[str]] = {}
    for role, wanted in names.items():
        for name in wanted:
            if name in columns:
                roles.setdefault(name, []).append(role)
    guesses = {name: _guess(source, name, columns[name], roles[name]) for name in roles}
    tests = [guess.test for guess in guesses.values() if guess.test]
    counts = query(f"SELECT count(*), {', '.join(tests)} FROM {source}").fetchone()[1:] if tests else ()
    met = dict(zip((name for name, guess in guesses.items() if guess.test), counts, strict=True))
    return {name: guess.confirmed if met.get(name, 0) == 0 else guess.otherwise() for name, guess in guesses.items()}


@dataclass(frozen=True, slots=True)
class _Guess:
    """What one value suggests. test: SQL for how many rows speak against it. otherwise: what to do if some do."""

    confirmed: Typed
    test: str | None
    otherwise: Callable[[], Typed]


def _guess(source: str, name: str, text: str, roles: list[str]) -> _Guess:
    as_text = Typed(text, "VARCHAR")
    numeric = next((role for role in roles if role in NUMERIC_ROLES), None)
    if numeric is not None and len(roles) == 1:
        number = f"TRY_CAST({text} AS DOUBLE)"
        bad = f"count({text}) - count({number}) + CASE WHEN isnan(max({number})) THEN 1 ELSE 0 END"  # nan is the largest to DuckDB
        return _Guess(Typed(f"CAST({text} AS DOUBLE)", "DOUBLE"), bad, lambda: _read_numbers(source, text, name, numeric))

    def fall_back(guess: Typed) -> Typed:
        return guess if numeric is None or guess.kind != "VARCHAR" else _read_numbers(source, text, name, numeric)

    row = query(f"SELECT {text} FROM {source} WHERE {text} IS NOT NULL LIMIT 1").fetchone()
    first = "" if row is None else str(row[0])
    is_id = all(role in IDS for role in roles)
    if re.fullmatch(NUMBER, first):
        integer = f"TRY_CAST({text} AS BIGINT)"
        return _Guess(
            Typed(integer, "BIGINT"), _count_unusual(text, integer), lambda: fall_back(_type_numbers(source, text, is_id=is_id))
        )
    if first.strip().lower() in ("true", "false"):
        bad = f"{text} IS NOT NULL AND lower(trim({text})) NOT IN ('true', 'false')"
        return _Guess(Typed(f"(lower(trim({text})) = 'true')", "BOOLEAN"), _count(bad), lambda: fall_back(as_text))
    for kind, pattern in (("DATE", DAY), ("TIMESTAMP", MOMENT), ("TIMESTAMP WITH TIME ZONE", ZONED)):
        if re.fullmatch(pattern, first) and (is_id or pattern != ZONED):  # a group in a time zone is called as it is written
            value = f"TRY_CAST({text} AS {kind})"
            bad = f"{text} IS NOT NULL AND ({value} IS NULL OR NOT regexp_full_match({text}, {DUCKDB.literal(pattern)}))"
            return _Guess(Typed(value, kind), _count(bad), lambda: fall_back(as_text))
    return _Guess(fall_back(as_text), None, lambda: as_text)


def _count(condition: str) -> str:
    return f"count(*) FILTER ({condition})"


def _count_unusual(text: str, integer: str) -> str:
    """SQL for how many texts are not the usual form of an integer."""
    return f"count({text}) - {_count(f'CAST({integer} AS VARCHAR) = {text}')}"


def _first_value(source: str, value: str, condition: str) -> Any:
    return query(f"SELECT {value} FROM {source} WHERE {condition} LIMIT 1").fetchone()[0]


def _type_numbers(source: str, text: str, *, is_id: bool) -> Typed:
    """The type of groups or ids that are not all written as integers usually are.

    They are numbers if doubles hold them as they are written, and different fractions differ; 1 may also be written as 1.0.
    """
    for kind in LONG_INTEGERS if is_id else LONG_INTEGERS[:1]:
        integer = f"TRY_CAST({text} AS {kind})"
        if query(f"SELECT {_count_unusual(text, integer)} FROM {source}").fetchone() == (0,):
            return Typed(integer, kind)
    number = f"TRY_CAST({text} AS DOUBLE)"
    is_number = f"(regexp_full_match({text}, {DUCKDB.literal(NUMBER)}) AND isfinite({number}))"
    is_exact = f"(abs({number}) < 2^53 AND (length({text}) <= 15 OR CAST({number} AS VARCHAR) = {text}))"
    n_other, n_fractions, n_points = query(
        f"SELECT {_count(f'NOT ({is_number} AND {is_exact})')}, {_count(f'{number} <> floor({number})')}, "
        f"{_count(f'NOT regexp_full_match({text}, {WHOLE})')} FROM {source} WHERE {text} IS NOT NULL"
    ).fetchone()
    if n_other or (n_fractions and (is_id or not _tells_apart(source, text, number))):
        return Typed(text, "VARCHAR")
    if n_fractions == 0 and (is_id or n_points == 0):
        return Typed(f"CAST({number} AS BIGINT)", "BIGINT")
    return Typed(number, "DOUBLE")


def _tells_apart(source: str, text: str, value: str) -> bool:
    """Whether a value is another one wherever the text is; of more texts than there can be groups only some are looked at."""
    texts = f"SELECT DISTINCT {text} AS text, {value} AS value FROM {source} WHERE {text} IS NOT NULL LIMIT {MAX_GROUPS + 1}"
    n_texts, n_values = query(f"SELECT count(*), count(DISTINCT value) FROM ({texts})").fetchone()
    return bool(n_texts == n_values)


def _read_numbers(source: str, text: str, name: str, role: str) -> Typed:
    """Text that is not all plain numbers, as numbers if all of it can be; or an error that shows where it cannot."""
    missing = f"trim({text}) IN ({', '.join(map(DUCKDB.literal, MISSING))})"
    n_rows, n_texts, n_missing, n_plain, n_truths, n_commas = query(
        f"SELECT count(*), count({text}), {_count(missing)}, count(TRY_CAST({text} AS DOUBLE)) FILTER (NOT {missing}), "
        f"count(TRY_CAST({text} AS BOOLEAN)), {_count(f'regexp_full_match({text}, {DUCKDB.literal(DECIMAL_COMMA)})')} FROM {source}"
    ).fetchone()
    notes = []
    if n_missing:
        written = shortened(_first_value(source, text, missing))
        notes.append(
            f"assumed: column {shortened(name)} is missing where it says {written} or the like, in {n_missing:,} of {n_rows:,} rows"
        )
    if n_plain == n_texts - n_missing:
        return Typed(f"CASE WHEN NOT {missing} THEN CAST({text} AS DOUBLE) END", "DOUBLE", tuple(notes))
    if n_truths == n_texts:
        return Typed(f"CAST({text} AS BOOLEAN)", "BOOLEAN")
    if n_commas == n_texts - n_missing:
        number = f"CAST(replace(replace(trim({text}), '.', ''), ',', '.') AS DOUBLE)"
        not_plain = f"NOT {missing} AND TRY_CAST({text} AS DOUBLE) IS NULL"
        written, read = shortened(_first_value(source, text, not_plain)), _first_value(source, number, not_plain)
        notes.insert(0, f"assumed: column {shortened(name)} has a decimal comma: {written} is read as {read!r}")
        return Typed(f"CASE WHEN NOT {missing} THEN {number} END", "DOUBLE", tuple(notes))
    if n_plain < n_texts / 2:
        return Typed(text, "VARCHAR")
    rows = query(
        f"SELECT row, text FROM (SELECT row_number() OVER () - 1 AS row, {text} AS text FROM {source}) "
        f"WHERE NOT {missing.replace(text, 'text')} AND TRY_CAST(text AS DOUBLE) IS NULL LIMIT 3"
    ).fetchall()
    shown = ", ".join(f"{row} ({shortened(held)})" for row, held in rows)
    n_bad = n_texts - n_missing - n_plain
    column = Column(name, role, ())
    raise DataError(f"{column} does not hold a number in {n_bad:,} of {n_rows:,} rows (first rows, from 0: {shown})")
