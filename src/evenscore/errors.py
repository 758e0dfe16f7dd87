"""What evenscore raises: one base class, and a few children that say where to look."""

from __future__ import annotations

import math
from collections.abc import Iterable


class EvenscoreError(ValueError):
    """Base of every error that evenscore raises on purpose."""


class DataError(EvenscoreError):
    """Something in the data is not as it must be."""


class OptionError(EvenscoreError):
    """An argument has a value that cannot be used."""


class MergeError(EvenscoreError):
    """Two tallies cannot be added up."""


class FileError(EvenscoreError):
    """A file cannot be read, or is not what it claims to be."""


class EvenscoreWarning(UserWarning):
    """A result is usable, but something about it should be known."""


def listing(names: Iterable[object], limit: int = 30) -> str:
    """Names for an error message, cut off before it floods the screen."""
    shown = [str(name) for name in names]
    rest = len(shown) - limit
    text = ", ".join(name if len(name) <= 60 else name[:57] + "..." for name in shown[:limit])
    return f"{text}, ... ({rest} more)" if rest > 0 else text


def require_option(name: str, value: object, allowed: Iterable[object]) -> None:
    """Refuse a value that is not among the allowed ones, and say which are."""
    allowed = tuple(allowed)
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise OptionError(f"{name}={value!r} is not known; choose one of {choices}")


def require_alpha(alpha: float) -> None:
    """A level strictly between 0 and 1."""
    if not isinstance(alpha, int | float) or not 0 < alpha < 1:
        raise OptionError(f"alpha={alpha!r} must be a number between 0 and 1, such as 0.05")


def require_gap(name: str, value: object) -> None:
    """None, or a positive gap."""
    if value is not None and not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
        raise OptionError(f"{name}={value!r} must be a positive gap in units of the outcome, such as 0.02")
