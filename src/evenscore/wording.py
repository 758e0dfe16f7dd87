"""Numbers in words: as a person would write them in a table, a sentence or a headline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from evenscore.naming import plain_label

SMALL_P = 0.0001  # below this a headline says no more


def number_text(value: Any) -> str:
    """A number as a person would write it.

    >>> [number_text(value) for value in (5.0, 0.0, 0.5, 41.27, 1803.87, 7)]
    ['5', '0', '0.5000', '41.3', '1,803.9', '7']
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return plain_label(value)
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{value:,.0f}"
    if value != 0 and not 0.001 <= abs(value) < 100000:
        return f"{value:.2g}" if abs(value) < 0.001 else f"{value:,.0f}"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}"


def place_text(score: float) -> str:
    """A score in a sentence: a number without zeros that say nothing.

    >>> place_text(2.1), place_text(0.15732), place_text(850.0)
    ('2.1', '0.1573', '850')
    """
    text = number_text(score)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def decimals(*values: float, digits: int = 2) -> int:
    """How many decimals the smallest of several numbers needs for its digits, at most six.

    >>> decimals(0.123), decimals(12.3), decimals(0.004)
    (2, 0, 4)
    """
    known = [abs(value) for value in values if math.isfinite(value) and abs(value) > 1e-9]
    smallest = min(known, default=1.0)
    return min(6, max(0, digits - 1 - math.floor(math.log10(smallest))))


def at_least(share: float) -> str:
    """A share of what follows, in percent with three figures, rounded down: what is shown is no less."""
    if share > 1 - 1e-9:
        return "all"
    places = decimals(100 * share, digits=3)
    return f"at least {math.floor(100 * share * 10**places + 1e-9) / 10**places:.{places}f} % of"


def figures(value: float, digits: int = 3, sign: str = "") -> str:
    """A number of so many figures in a sentence, in whole digits where it is large; sign: "+" to write it always.

    >>> [figures(value) for value in (0.12345, 12.345, 637.2, 2041.7, 0.0)]
    ['0.123', '12.3', '637', '2,042', '0']
    """
    text = f"{value:{sign}.{digits}g}"
    return f"{value:{sign},.0f}" if "e+" in text else text


def amount_text(value: float, sign: str = "") -> str:
    """A gap, an error or a mean in a sentence: as fine as a share needs it, and no finer where it is large.

    >>> [amount_text(value) for value in (0.1234, 0.00012, 3.5, 41.27, 1803.87, 0.0)]
    ['0.123', '0.00012', '3.500', '41.3', '1,804', '0']
    """
    if value == 0:
        return "0"
    if 0.0005 <= abs(value) < 10:
        return f"{value:{sign}.3f}"
    if abs(value) < 0.0005:
        return f"{value:{sign}.2g}"
    return f"{value:{sign},.1f}" if abs(value) < 1000 else f"{value:{sign},.0f}"


def p_text(p_value: float) -> str:
    """A p-value: never a bare 0."""
    if math.isnan(p_value):
        return "–"
    if p_value >= 0.0995:
        return f"{p_value:.2f}"
    return f"{p_value:.3f}" if p_value >= 0.0005 else f"{p_value:.1e}"


def p_short(p_value: float) -> str:
    """A p-value for a headline; empty when there is none. The exact one stands in the tables."""
    if math.isnan(p_value):
        return ""
    if p_value < SMALL_P:
        return f"p < {SMALL_P:g}"
    return f"p = {p_value:.2g}" if p_value < 0.0995 else f"p = {p_value:.2f}"


def p_words(p_value: float) -> str:
    """A p-value to put after a sentence, as headlines have it; empty when there is none."""
    return "" if math.isnan(p_value) else f" ({p_short(p_value)})"


def dropped_words(dropped: Mapping[str, int], noun: str = "row", when: str = "") -> list[str]:
    """How many rows were left out, by the column in which they have a null; of several columns a row may lack more than one.

    >>> dropped_words({"age": 1}), dropped_words({"age": 12, "sex": 3})
    (['1 row left out: age is null'], ['rows left out: age is null in 12, sex in 3; some may lack several'])
    """
    if len(dropped) <= 1:
        return [f"{n:,} {noun}{'' if n == 1 else 's'} left out{when}: {name} is null" for name, n in dropped.items()]
    (first, most), *others = sorted(dropped.items(), key=lambda item: -item[1])
    listed = ", ".join([f"{first} is null in {most:,}", *(f"{name} in {n:,}" for name, n in others)])
    return [f"{noun}s left out{when}: {listed}; some may lack several"]
