"""Refuses parameters that no simulation can have."""

from __future__ import annotations

import math
from typing import Any

from evenscore.errors import OptionError


def require_number(
    name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, open_low: bool = False, open_high: bool = False
) -> float:
    """A finite number inside the limits, as a float."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if is_number and (low < value if open_low else low <= value) and (value < high if open_high else value <= high):
        return float(value)
    raise OptionError(f"{name}={value!r} must be a number{_limits(low, high, open_low, open_high)}")


def require_count(name: str, value: Any, low: int = 1, high: int | None = None) -> int:
    """A whole number inside the limits."""
    whole = value.__index__() if hasattr(value, "__index__") and not isinstance(value, bool) else None
    if whole is not None and whole >= low and (high is None or whole <= high):
        return int(whole)
    most = "" if high is None else f" and at most {high:,}"
    raise OptionError(f"{name}={value!r} must be a whole number, at least {low}{most}")


def _limits(low: float, high: float, open_low: bool, open_high: bool) -> str:
    if math.isinf(low) and math.isinf(high):
        return ""
    if math.isinf(high):
        return f" above {low:g}" if open_low else f", at least {low:g}"
    return f" in {'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
