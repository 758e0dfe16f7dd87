"""What DuckDB and Spark are asked, in the SQL that both understand; a dialect names the few places where they differ."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evenscore.data.coding import PRIME
from evenscore.data.columns import shortened
from evenscore.data.observations import Columns
from evenscore.data.spec import TallySpec
from evenscore.engines.identity import DUCKDB_IDS, NUMBERS, SPARK_IDS, TEXT_HINT, Identity
from evenscore.errors import DataError, EvenscoreError, OptionError, no_column

NUMERIC_ROLES = ("score", "outcome", "weight", "count")
ID_ROLES = ("user", "item")
TOLD_APART = 2**53  # from here on floats skip integers
PLAIN_TEXT = re.compile(r"[\w .,:;/()+*=<>&|#@!?~^-]*", re.ASCII)  # no quotes, backslashes and $, which settings may change


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine writes what others write differently; templates with {x}, {y} and {n}."""

    quote: str
    text: str
    md5_key: str
    xor: str
    shifted: str
    remainder: str
    quotient: str
    ids: Mapping[str, Identity]
    instant: str
    hexadecimal: str | None = None  # for text that means something else in some settings; None where none does

    def name(self, column: str) -> str:
        """A column name."""
        return self.quote + column.replace(self.quote, 2 * self.quote) + self.quote

    def literal(self, value: Any) -> str:
        """A label or a number; floats have an exponent, so that they are doubles and not decimals."""
        if isinstance(value, str):
            if self.hexadecimal is not None and not PLAIN_TEXT.fullmatch(value):
                return self.hexadecimal.format(x=value.encode("utf-8", "surrogatepass").hex())
            return "'" + value.replace("'", "''") + "'"
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int):
            return str(value)
        if isinstance(value, float):
            text = repr(float(value))
            return text if "e" in text else f"{text}e0"
        if isinstance(value, datetime.datetime):
            return f"{'TIMESTAMP' if value.tzinfo is None else self.instant} '{value.isoformat(sep=' ')}'"
        if isinstance(value, datetime.date):
            return f"DATE '{value.isoformat()}'"
        if isinstance(value, datetime.time) and value.tzinfo is None:
            return f"TIME '{value.isoformat()}'"
        if isinstance(value, decimal.Decimal) and value.is_finite():
            return f"{value:f}"
        kind = type(value).__name__
        raise EvenscoreError(
            f"group label {shortened(value)} is of type {kind} and cannot be written in SQL; turn the column into text"
        )

    def as_text(self, expression: str) -> str:
        """An expression as text."""
        return f"CAST({expression} AS {self.text})"

    def as_label(self, expression: str, kind: str) -> str:
        """A label as text that ``groups.label_from_text`` reads; what clocks show must not depend on the session's zone."""
        if kind == "instant":
            return str(self.ids[kind].text).format(x=expression)
        return self.as_text(f"make_timestamp_ns(epoch_ns({expression}))" if kind == "fine instant" else expression)


DUCKDB = Dialect(
    quote='"',
    text="VARCHAR",
    md5_key="CAST('0x' || substr(md5({x}), 1, 15) AS BIGINT)",
    xor="xor({x}, {y})",
    shifted="({x} >> {n})",
    remainder="((({x}) % {n} + {n}) % {n})",
    quotient="(({x}) // {n})",
    ids=DUCKDB_IDS,
    instant="TIMESTAMP WITH TIME ZONE",
)
SPARK = Dialect(
    quote="`",
    text="STRING",
    md5_key="CAST(conv(substr(md5({x}), 1, 15), 16, 10) AS BIGINT)",
    xor="(({x}) ^ ({y}))",
    shifted="shiftright({x}, {n})",
    remainder="pmod({x}, CAST({n} AS BIGINT))",
    quotient="(({x}) div {n})",
    ids=SPARK_IDS,
    instant="TIMESTAMP",
    hexadecimal="decode(unhex('{x}'), 'UTF-8')",
)


@dataclass(frozen=True, slots=True)
class Field:
    """A column in a role. kind: one that ``identity`` lists, or other. sql: how to reach it."""

    name: str
    role: str
    kind: str
    sql: str
    label: str  # SQL for the value as a group label

    def __str__(self) -> str:
        return f"column {shortened(self.name)} ({self.role})"

    @property
    def is_null(self) -> str:
        """SQL for whether the value is missing."""
        return f"({self.sql} IS NULL OR isnan({self.sql}))" if self.kind == "float" else f"({self.sql} IS NULL)"

    @property
    def number(self) -> str:
        """SQL for the value as a number."""
        return f"CAST({self.sql} AS DOUBLE)"


@dataclass(frozen=True, slots=True)
class Fields:
    """The columns of a tally and what each is for."""

    dialect: Dialect
    score: Field
    outcome: Field
    groups: tuple[Field, ...]
    user: Field | None
    weight: Field | None
    count: Field | None
    nulls: str
    item: Field | None = None

    def every(self) -> list[Field]:
        """All columns, in the order in which they are checked."""
        others = [field for field in (self.user, self.item, self.weight, self.count) if field is not None]
        return [self.score, self.outcome, *self.groups, *others]

    @property
    def kept(self) -> str | None:
        """SQL for the rows without missing values, if others are left out; None when they are not."""
        return " AND ".join(f"NOT {field.is_null}" for field in self.every()) if self.nulls == "drop" else None

    @property
    def weighty(self) -> str | None:
        """SQL for whether weight and count are above 0: other rows are nobody's; None when there is neither."""
        sizes = [f"{size.number} > 0" for size in (self.weight, self.count) if size is not None]
        return " AND ".join(sizes) or None

    @property
    def counted(self) -> str | None:
        """SQL for the rows that are kept and somebody's; None when all are."""
        return " AND ".join(condition for condition in (self.kept, self.weighty) if condition) or None

    @property
    def known(self) -> str | None:
        """SQL for whether the outcome is known; None when all are."""
        return f"(NOT {self.outcome.is_null})" if self.nulls == "unlabelled" else None

    @property
    def columns(self) -> Columns:
        """What the columns are called."""
        user, weight, count = (None if field is None else field.name for field in (self.user, self.weight, self.count))
        return Columns(self.score.name, self.outcome.name, tuple(field.name for field in self.groups), user, weight, count)

    @property
    def identity(self) -> Identity:
        """How users are known."""
        assert self.user is not None
        return self.dialect.ids[self.user.kind]

    @property
    def hashed(self) -> bool:
        """Whether users are known by a hash instead of their id."""
        return self.user is not None and self.identity.hashed

    @property
    def key(self) -> str:
        """SQL for who a row belongs to, as an integer: the id, or the hash that ``coding`` computes."""
        assert self.user is not None
        return self.key_of(self.user)

    def key_of(self, field: Field) -> str:
        """The same of ids in any column."""
        known, sql = self.dialect.ids[field.kind], field.sql
        if known.text is None:
            return str(known.hash or known.integer).format(x=sql)
        by_text = self.dialect.md5_key.format(x=known.text.format(x=sql))
        if known.integer is None:
            return by_text
        integer = known.integer.format(x=sql)
        return f"CASE WHEN {integer} IS NULL THEN {by_text} ELSE {integer_hash(self.dialect, integer)} END"

    @property
    def item_hash(self) -> str:
        """SQL for the hash of a row's item, which is what items are known by."""
        assert self.item is not None
        key = self.key_of(self.item)
        return key if self.dialect.ids[self.item.kind].hashed else integer_hash(self.dialect, key)


def find_fields(
    spec: TallySpec,
    kinds: Mapping[str, str],
    dialect: Dialect,
    where: str,
    *,
    expressions: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Fields:
    """The columns that the spec names; ``expressions`` and ``labels`` say what stands for some of them in SQL."""

    def find(role: str, name: Any) -> Field:
        if not isinstance(name, str):
            raise OptionError(f"{role}: with a {where}, name a column instead of giving an array")
        if name not in kinds:
            raise no_column(name, role, where, kinds)
        sql = (expressions or {}).get(name, dialect.name(name))
        kind = kinds[name]
        if role in NUMERIC_ROLES and kind not in NUMBERS:
            raise DataError(f"column {shortened(name)} ({role}) holds {'text' if kind == 'text' else 'other things'}, not numbers")
        if role in ID_ROLES:
            require_identity(dialect, kind, f"column {shortened(name)} ({role})")
        return Field(name, role, kind, sql, (labels or {}).get(name, sql))

    groups = spec.group if isinstance(spec.group, list | tuple) else [spec.group]
    return Fields(
        dialect,
        find("score", spec.score),
        find("outcome", spec.outcome),
        tuple(find("group", name) for name in groups),
        user=None if spec.user is None else find("user", spec.user),
        weight=None if spec.weight is None else find("weight", spec.weight),
        count=None if spec.count is None else find("count", spec.count),
        nulls=spec.nulls,
        item=None if spec.item is None else find("item", spec.item),
    )


def require_identity(dialect: Dialect, kind: str, column: str) -> None:
    """Refuse users of a type that engines do not write alike."""
    if kind not in dialect.ids:
        raise DataError(f"{column} is of a type that not all engines write alike{TEXT_HINT}, or to integers")


# Expressions


def integer_hash(dialect: Dialect, key: str) -> str:
    """The hash of integer ids, as ``coding.hash_integers`` computes it."""
    prime = str(PRIME)

    def mixed(expression: str, shift: int) -> str:
        value = f"(({expression}) % {prime})"
        return dialect.xor.format(x=value, y=dialect.shifted.format(x=value, n=shift))

    low = f"CAST({dialect.remainder.format(x=key, n=prime)} AS BIGINT)"  # the id itself may be wider
    # Both engines give a remainder the sign of the id; taking it away cannot overflow, and rounding down is one less below 0.
    towards_zero = dialect.quotient.format(x=f"{key} - ({key}) % {prime}", n=prime)
    above = dialect.remainder.format(x=f"{towards_zero} - CASE WHEN ({key}) % {prime} < 0 THEN 1 ELSE 0 END", n=prime)
    high = f"CAST({above} AS BIGINT)"
    first = mixed(f"{low} * 1103515245 + {high} * 69069 + 12345", 13)
    second = mixed(f"{first} * 1597334677 + {low} + 1013904223", 15)
    third = mixed(f"{second} * 741103597 + {low} * 48271 + {high} + 7", 14)
    return f"({second} * 2147483648 + {third})"


def group_code(fields: Fields, texts: Iterable[tuple[str, ...]]) -> str:
    """SQL for the number of a row's group; texts are the labels of each group as text, in order."""
    dialect = fields.dialect
    branches = []
    for number, labels in enumerate(texts):
        tests = [
            f"{dialect.as_text(field.sql)} = {dialect.literal(label)}" for field, label in zip(fields.groups, labels, strict=True)
        ]
        branches.append(f"WHEN {' AND '.join(tests)} THEN {number}")
    return f"CASE {' '.join(branches)} END"
