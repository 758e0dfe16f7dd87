"""Who a user is, in SQL: for every type that an id may have the integer or the text that ``data.coding`` hashes.

The table of types is in docs/scale.md; ``coding.canonical_id`` says the same in Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NUMBERS = ("integer", "unsigned", "float", "decimal", "huge", "boolean")
TEXT_HINT = "; cast such ids to text"


@dataclass(frozen=True, slots=True)
class Identity:
    """How users of a kind are known, as templates with {x}: by an integer, by text, or, if both are given, by whichever it has.

    hash: the hash itself, where somebody has computed it. refused: what no id may be, and complaint: what is then wrong.
    """

    integer: str | None = None
    text: str | None = None
    hash: str | None = None
    refused: str | None = None
    complaint: str = ""

    @property
    def hashed(self) -> bool:
        """Whether the id is not an integer that is its own key."""
        return self.text is not None or self.hash is not None


def _padded(text: str, seconds: int) -> str:
    """Text of a time as Python writes it: fractions have six digits, or there are none."""
    return f"CASE WHEN length({text}) > {seconds} THEN rpad({text}, {seconds + 7}, '0') ELSE {text} END"


def _in_years(year: str) -> str:
    return f"coalesce({year}, 0) NOT BETWEEN 1 AND 9999"


TOO_FAR = "lies outside the years 1 to 9999"
TOO_FINE = "holds fractions of a microsecond, or lies outside the years 1 to 9999,"
WHOLE = Identity(integer="CAST({x} AS BIGINT)")
SMALLEST, LARGEST = -(2**63), 2**64 - 1  # integers that are hashed by arithmetic

_DUCK_INSTANT = "make_timestamp(epoch_us({x}))"
DUCKDB_IDS: Mapping[str, Identity] = {
    "integer": WHOLE,
    "unsigned": Identity(integer="{x}"),
    "float": WHOLE,
    "boolean": WHOLE,
    "hashed": Identity(hash="CAST({x} AS BIGINT)"),
    "text": Identity(text="CAST({x} AS VARCHAR)"),
    "binary": Identity(text="{x}"),
    "uuid": Identity(text="CAST({x} AS VARCHAR)"),
    "date": Identity(text="CAST({x} AS VARCHAR)", refused=_in_years("year({x})"), complaint=TOO_FAR),
    "time": Identity(text=_padded("CAST({x} AS VARCHAR)", 8)),
    "moment": Identity(
        text=_padded("CAST(CAST({x} AS TIMESTAMP) AS VARCHAR)", 19),
        refused=_in_years("year(CAST({x} AS TIMESTAMP))"),
        complaint=TOO_FAR,
    ),
    "fine moment": Identity(
        text=_padded("CAST(CAST({x} AS TIMESTAMP) AS VARCHAR)", 19),
        refused=f"coalesce(epoch_ns({{x}}) % 1000, 1) <> 0 OR {_in_years('year(CAST({x} AS TIMESTAMP))')}",
        complaint=TOO_FINE,
    ),
    "instant": Identity(
        text=_padded(f"CAST({_DUCK_INSTANT} AS VARCHAR)", 19), refused=_in_years(f"year({_DUCK_INSTANT})"), complaint=TOO_FAR
    ),
    "duration": Identity(integer="epoch_us({x})"),
    "huge": Identity(
        integer=f"CASE WHEN {{x}} BETWEEN {SMALLEST} AND {LARGEST} THEN TRY_CAST({{x}} AS HUGEINT) END", text="CAST({x} AS VARCHAR)"
    ),
    "decimal": Identity(
        integer=f"CASE WHEN {{x}} % 1 = 0 AND {{x}} BETWEEN {SMALLEST} AND {LARGEST} THEN TRY_CAST({{x}} AS HUGEINT) END",
        text="CASE WHEN {x} % 1 = 0 THEN CAST(CAST({x} AS HUGEINT) AS VARCHAR) ELSE rtrim(CAST({x} AS VARCHAR), '0') END",
    ),
}

# Spark writes a moment in the zone of its session and a small decimal with an exponent: both are taken apart instead.
_SPARK_DAYS = "(unix_micros({x}) - pmod(unix_micros({x}), 86400000000)) div 86400000000"
_SPARK_DAY = f"CAST(date_from_unix_date(CAST({_SPARK_DAYS} AS INT)) AS STRING)"
_SPARK_SECOND = "pmod(unix_micros({x}) - pmod(unix_micros({x}), 1000000), 86400000000) div 1000000"
_SPARK_CLOCK = ", ':', ".join(
    f"lpad(CAST({part} AS STRING), 2, '0')"
    for part in (f"({_SPARK_SECOND}) div 3600", f"({_SPARK_SECOND}) div 60 % 60", f"({_SPARK_SECOND}) % 60")
)
_SPARK_FRACTION = (
    "CASE WHEN pmod(unix_micros({x}), 1000000) = 0 THEN '' "
    "ELSE concat('.', lpad(CAST(pmod(unix_micros({x}), 1000000) AS STRING), 6, '0')) END"
)
_SPARK_DIGITS = "CAST(CAST(1 AS DECIMAL(1,0)) + CAST(abs({x}) % 1 AS DECIMAL(37,36)) AS STRING)"
_SPARK_WHOLE = "CAST(CAST(floor(abs({x})) AS DECIMAL(38,0)) AS STRING)"
FIRST_MOMENT, LAST_MOMENT = -62_135_596_800_000_000, 253_402_300_799_999_999  # years 1 to 9999 in microseconds
SPARK_IDS: Mapping[str, Identity] = {
    "integer": WHOLE,
    "float": WHOLE,
    "boolean": WHOLE,
    "text": Identity(text="CAST({x} AS STRING)"),
    "binary": Identity(text="{x}"),
    "date": Identity(text="CAST({x} AS STRING)", refused=_in_years("year({x})"), complaint=TOO_FAR),
    "time": Identity(text=_padded("CAST({x} AS STRING)", 8)),
    "moment": Identity(text=_padded("CAST({x} AS STRING)", 19), refused=_in_years("year({x})"), complaint=TOO_FAR),
    "instant": Identity(
        text=f"concat({_SPARK_DAY}, ' ', {_SPARK_CLOCK}, {_SPARK_FRACTION})",
        refused=f"unix_micros({{x}}) NOT BETWEEN {FIRST_MOMENT} AND {LAST_MOMENT}",
        complaint=TOO_FAR,
    ),
    "duration": Identity(
        integer="(extract(DAY FROM {x}) * 86400000000 + extract(HOUR FROM {x}) * 3600000000 + "
        "extract(MINUTE FROM {x}) * 60000000 + CAST(extract(SECOND FROM {x}) * 1000000 AS BIGINT))"
    ),
    "decimal": Identity(
        integer=f"CASE WHEN {{x}} % 1 = 0 AND {{x}} BETWEEN {SMALLEST} AND {LARGEST} THEN CAST({{x}} AS DECIMAL(20,0)) END",
        text=f"concat(CASE WHEN {{x}} < 0 THEN '-' ELSE '' END, {_SPARK_WHOLE}, "
        f"CASE WHEN {{x}} % 1 = 0 THEN '' ELSE concat('.', TRIM(TRAILING '0' FROM substr({_SPARK_DIGITS}, 3))) END)",
    ),
}
