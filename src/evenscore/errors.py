"""What evenscore raises: one base class, and a few children that say where to look."""

from __future__ import annotations

import functools
import math
import numbers
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeGuard, TypeVar


def visible(text: str) -> str:
    """Text that a terminal shows and never obeys: what is not printable is replaced, line breaks are kept."""
    return "\n".join(line if line.isprintable() else _VEILED.sub(_veil, line) for line in text.split("\n"))


_VEILED = re.compile(r"[^ -~]")


def _veil(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else "\ufffd"


class EvenscoreError(ValueError):
    """Base of every error that evenscore raises on purpose; names of columns and files in it never reach a terminal as they are.

    Examples
    --------
    >>> import evenscore as es
    >>> try:
    ...     es.Lattice(1, 0)
    ... except es.EvenscoreError as error:
    ...     print(type(error).__name__)
    OptionError
    """

    def __init__(self, *words: object) -> None:
        super().__init__(*(visible(word) if isinstance(word, str) else word for word in words))


class DataError(EvenscoreError):
    """Something in the data is not as it must be.

    Examples
    --------
    >>> import evenscore as es
    >>> es.tally({"s": [0.5], "y": [1], "g": ["a"]}, score="scor", outcome="y", group="g", user=None)
    Traceback (most recent call last):
        ...
    evenscore.errors.DataError: no column 'scor' for score; the data has: s, y, g
    """


class OptionError(EvenscoreError):
    """An argument has a value that cannot be used.

    Examples
    --------
    >>> import evenscore as es
    >>> es.plan(gap=-0.1)
    Traceback (most recent call last):
        ...
    evenscore.errors.OptionError: gap=-0.1 must be a positive gap in units of the outcome, such as 0.02
    """


class MergeError(EvenscoreError):
    """Two tallies cannot be added up.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(people, score="score", outcome="outcome", group="group", user="user")
    >>> try:
    ...     tally + tally
    ... except es.MergeError as error:
    ...     print(str(error).split(" (")[0])
    this would add a tally to itself: its users would count twice
    """


class FileError(EvenscoreError):
    """A file cannot be read, or is not what it claims to be.

    Examples
    --------
    >>> import evenscore as es
    >>> es.Tally.load("no.tally")
    Traceback (most recent call last):
        ...
    evenscore.errors.FileError: cannot read no.tally: No such file or directory
    """


class EvenscoreWarning(UserWarning):
    """A result is usable, but something about it should be known.

    Examples
    --------
    >>> import evenscore as es
    >>> issubclass(es.EvenscoreWarning, UserWarning)
    True
    """


LARGEST_COUNT = 2**63 - 1


def warn(message: str) -> None:
    """Warn whoever called this package, however deep inside it something was noticed."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("evenscore."):
        level, frame = level + 1, frame.f_back
    warnings.warn(visible(message), EvenscoreWarning, stacklevel=level)


P = ParamSpec("P")
T = TypeVar("T")


def renamed(**names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function that still takes arguments by an old name (old=new), with a DeprecationWarning."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def renaming(*args: P.args, **kwargs: P.kwargs) -> T:
            for old, new in names.items():
                if old in kwargs:
                    if new in kwargs:
                        raise TypeError(f"{function.__name__}() got both {new}= and {old}=, its old name")
                    warnings.warn(f"{old}= is called {new}= now", DeprecationWarning, stacklevel=2)
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return renaming

    return decorate


def hush(message: str) -> None:
    """In place of ``warn``, for what has been said already."""


def listing(names: Iterable[object], limit: int = 30) -> str:
    """Names for an error message, cut off before it floods the screen."""
    shown = [str(name) for name in names]
    n_more = len(shown) - limit
    text = ", ".join(name if len(name) <= 60 else name[:57] + "..." for name in shown[:limit])
    return f"{text}, ... ({n_more} more)" if n_more > 0 else text


def no_column(name: str, role: str, where: str, names: Iterable[object], hint: str = "") -> DataError:
    """The error for a column that is not there: what there is, and which of it is spelt nearly so."""
    known = [str(known) for known in names]
    meant = did_you_mean(name, known)
    return DataError(f"no column {shortened(name)} for {role}; the {where} has: {listing(known) or 'no columns'}{hint}{meant}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Which of the names is spelt nearly so, to add to an error message; empty when none is."""
    near = _nearest(name, known)
    return "" if near is None else f"; did you mean {shortened(near)}?"


def _nearest(name: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    short = {spelling.lower(): spelling for spelling in known if len(spelling) <= 60}  # comparing long texts takes long
    close = get_close_matches(name.lower(), list(short)[:1000], n=1) if len(name) <= 60 else []
    return short[close[0]] if close else None


def require_option(name: str, value: object, allowed: Iterable[object]) -> None:
    """Refuse a value that is not among the allowed ones, and say which are; True is not 1, and an array is none of them."""
    allowed = tuple(allowed)
    for choice in allowed:
        if value is choice:
            return
    plain = value is None or isinstance(value, str | numbers.Real)
    if not plain or not any(isinstance(value, bool) == isinstance(choice, bool) and value == choice for choice in allowed):
        choices = ", ".join(repr(choice) for choice in allowed)
        raise OptionError(f"{name}={shortened(value)} is not known; choose one of {choices}")


def require_alpha(alpha: float) -> None:
    """A level strictly between 0 and 1."""
    if not is_finite(alpha) or not 0 < alpha < 1:
        raise OptionError(f"alpha={shortened(alpha)} must be a number between 0 and 1, such as 0.05")


def require_gap(name: str, value: object) -> None:
    """None, or a positive gap."""
    if value is not None and not (is_finite(value) and value > 0):
        raise OptionError(f"{name}={shortened(value)} must be a positive gap in units of the outcome, such as 0.02")


def require_number(
    name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, open_low: bool = False, open_high: bool = False
) -> float:
    """A finite number inside the limits, as a float."""
    if is_finite(value) and (low < value if open_low else low <= value) and (value < high if open_high else value <= high):
        return float(value)
    raise OptionError(f"{name}={shortened(value)} must be a number{_limits(low, high, open_low, open_high)}")


def require_count(name: str, value: Any, low: int = 1, high: int | None = None) -> int:
    """A whole number inside the limits."""
    whole = int(value) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else None
    if whole is not None and low <= whole <= (LARGEST_COUNT if high is None else high):
        return whole
    limits = f", at least {low}" if high is None else f" from {low} to {high:,}"
    raise OptionError(f"{name}={shortened(value)} must be a whole number{limits}")


def require_flag(name: str, value: object) -> None:
    """True or False, and nothing that merely counts as one."""
    require_option(name, value, (True, False))


def require_text(name: str, value: object) -> None:
    """A text."""
    if not isinstance(value, str):
        raise OptionError(f"{name}={shortened(value)} must be text")


def require_sequence(name: str, value: Any) -> tuple[Any, ...]:
    """Several things in a row, as a tuple; a text is one thing."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise OptionError(f"{name}={shortened(value)} must be a list")
    try:
        items = tuple(value)
        hash(items)
        return items
    except TypeError:  # an array without dimensions, or of several
        raise OptionError(f"{name}={shortened(value)} must be a list") from None


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a number that a float can hold; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def shortened(value: Any) -> str:
    """A value for a message, cut off before it floods the screen."""
    try:
        text = repr(value.item() if hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0 else value)
    except Exception:  # an integer of more digits than Python writes, or an object that cannot show itself
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 60 else text[:57] + "..."


def first_line(error: BaseException) -> str:
    """What another library complains of, without the pages that may follow."""
    return next((line.strip()[:400] for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _limits(low: float, high: float, open_low: bool, open_high: bool) -> str:
    if math.isinf(low) and math.isinf(high):
        return ""
    if math.isinf(high):
        return f" above {low:g}" if open_low else f", at least {low:g}"
    return f" in {'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
