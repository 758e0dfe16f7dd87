"""Round numbers on the axes of a picture, and the words in it."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from evenscore.report.chart import Axis, Limits, Ticks
from evenscore.tables import label_text, shorten
from evenscore.tallies.lattice import Lattice

NAME = 40  # characters
ONE_LINE = 20  # characters of a name in a small picture
HYPHEN = re.compile(r"(?<![\w.])-(?=\d)")  # that stands for a minus


def short(label: Any) -> str:
    """A group's name for a legend."""
    return shorten(label_text(label), NAME)


def pair_name(first: Any, second: Any, joined: str = "−") -> str:
    """The difference of two groups, or both of them: in two lines where their names are long."""
    name, other = short(first), f"{joined} {short(second)}"
    return f"{name} {other}" if len(name) + 1 + len(other) <= ONE_LINE else f"{name}\n{other}"


def in_json(count: int, one: str, many: str = "") -> str:
    """That there is more than is drawn or listed.

    >>> in_json(1, "pair"), in_json(2100, "row")
    ('1 more pair is in the JSON.', '2,100 more rows are in the JSON.')
    """
    return f"1 more {one} is in the JSON." if count == 1 else f"{count:,} more {many or one + 's'} are in the JSON."


def percent(share: float) -> str:
    """A share in words."""
    return f"{100 * share:.4g} %"


def axis_ticks(axis: Axis, limits: Limits, most: int = 6) -> Ticks:
    """The ticks of an axis: its own, or round numbers."""
    if axis.ticks is not None:
        return axis.ticks
    if axis.kind == "log":
        return tuple((tick, power_text(tick)) for tick in log_ticks(*limits))
    return tuple((tick, tick_text(tick)) for tick in nice_ticks(*limits, most))


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two limits.

    >>> nice_ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [low]
    rough = span / most
    if rough == 0:  # hardly any number lies between
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    return [round((first + i) * step, 12) + 0.0 for i in range(count)]


def minus_signs(words: str) -> str:
    """Numbers with minus signs for hyphens; dates and names keep theirs.

    >>> minus_signs("-9.7 (-15.1 to -3.1) on 2024-01-31")
    '−9.7 (−15.1 to −3.1) on 2024-01-31'
    """
    return HYPHEN.sub("−", words)


def tick_text(value: float) -> str:
    """A tick in as few digits as it has.

    >>> [tick_text(value) for value in (0.0, 0.25, 1500.0, 2000000.0)]
    ['0', '0.25', '1,500', '2,000,000']
    """
    return f"{value:,.10g}" if 1e-4 <= abs(value) < 1e9 or value == 0 else f"{value:.3g}"


def log_ticks(low: float, high: float, most: int = 4) -> list[float]:
    """Powers of ten between two limits, not too many."""
    powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    step = max(1, math.ceil(len(powers) / most))
    return [10.0**power for power in powers if power % step == 0]


def power_text(value: float) -> str:
    """A power of ten as a tick that leaves room for the label beside it.

    >>> [power_text(value) for value in (1.0, 0.01, 0.0001)]
    ['1', '0.01', '1e-4']
    """
    return f"{value:g}" if value >= 0.01 else f"1e{round(math.log10(value))}"


def score_ticks(lattice: Lattice, limits: Limits) -> Ticks | None:
    """Ticks of the score axis, which may be on another scale than the score: position and words."""
    if lattice.scale == "score":
        return None
    if lattice.scale == "logit":
        scores = (1e-6, 1e-5, 0.0001, 0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999, 0.9999)
        positions = lattice.to_axis(np.array(scores))
        ticks = tuple((float(x), tick_text(s)) for x, s in zip(positions, scores, strict=True) if limits[0] <= x <= limits[1])
        if len(ticks) > 1:
            return ticks
    rounded = np.unique([float(f"{score:.2g}") for score in lattice.to_score(np.linspace(*limits, 8)[1:-1])])
    return tuple((float(x), tick_text(s)) for x, s in zip(lattice.to_axis(rounded), rounded, strict=True))
