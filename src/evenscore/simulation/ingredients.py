"""What simulations are put together from: groups, and a density, a curve and a number of rows for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from evenscore.errors import OptionError, listing, require_option, shortened
from evenscore.simulation.distributions import (
    AnyDensity,
    Beta,
    BusyBeta,
    Density,
    Discrete,
    FixedRows,
    ParetoRows,
    PoissonRows,
    RowsPerUser,
)
from evenscore.simulation.outcomes import AnyCurve, Bump, BusyCurve, Curve
from evenscore.simulation.power_users import PowerUsers

Value = TypeVar("Value")
Pair = TypeVar("Pair", Beta, Curve)
Label = str | int | float | bool

INGREDIENTS = (Beta, BusyBeta, Discrete, FixedRows, PoissonRows, ParetoRows, Curve, BusyCurve, PowerUsers)
KINDS: dict[str, Callable[..., Any]] = {kind.__name__: kind for kind in INGREDIENTS}


def require_distinct(groups: tuple[Label, ...]) -> None:
    """Refuse no groups at all, and one that is named twice."""
    if not groups or len(set(groups)) < len(groups):
        raise OptionError(f"groups must be at least one label, each named once, not {shortened(groups)}")


def place_of(group: Any, groups: tuple[Label, ...]) -> int:
    """Where a group stands among the groups; 1, 1.0 and True differ."""
    for place, label in enumerate(groups):
        if type(label) is type(group) and label == group:
            return place
    raise OptionError(f"no group {shortened(group)}; the simulation has: {listing(map(repr, groups))}")


def by_group(name: str, given: Value | Mapping[Any, Value], labels: tuple[Label, ...]) -> list[Value]:
    """One value for each group."""
    if not isinstance(given, Mapping):
        return [given] * len(labels)
    if set(given) != set(labels):
        raise OptionError(f"{name} is given for {listing(map(repr, given))}; the groups are {listing(map(repr, labels))}")
    return [given[label] for label in labels]


def as_density(given: Any) -> Density:
    """A density, or the two numbers of a Beta."""
    hint = "give (a, b) for a Beta density, Beta(a, b) or Discrete(values)"
    return given if isinstance(given, Discrete) else _from_pair("score", given, Beta, hint)


def as_any_density(given: Any) -> AnyDensity:
    """The same, or one that depends on a user's number of rows."""
    return given if isinstance(given, BusyBeta) else as_density(given)


def as_curve(given: Any) -> Curve:
    """A curve, or its intercept and slope."""
    return _from_pair("curve", given, Curve, "give (intercept, slope) or Curve(intercept, slope, bump)")


def _from_pair(name: str, given: Any, kind: type[Pair], hint: str) -> Pair:
    if isinstance(given, kind):
        return given
    if isinstance(given, tuple) and len(given) == 2:
        return kind(*given)
    raise OptionError(f"{name}={shortened(given)} is not known; {hint}")


def as_any_curve(given: Any) -> AnyCurve:
    """The same, or one that depends on a user's number of rows."""
    return given if isinstance(given, BusyCurve) else as_curve(given)


def as_rows(given: Any) -> RowsPerUser:
    """How many rows a user has, or one number for all."""
    return given if isinstance(given, FixedRows | PoissonRows | ParetoRows) else FixedRows(given)


def plain(value: Any) -> Any:
    """JSON-ready values; an ingredient also says what kind it is."""
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {"kind": type(value).__name__} | asdict(value)
    return value


def read_plain(value: Any) -> Any:
    """The inverse of ``plain``."""
    if isinstance(value, list | tuple):
        return tuple(read_plain(item) for item in value)
    if not isinstance(value, Mapping):
        return value
    entries = dict(value)
    kind = entries.pop("kind", None)
    require_option("kind", kind, KINDS)
    if entries.get("bump") is not None:
        entries["bump"] = Bump(**entries["bump"])
    try:
        return KINDS[kind](**entries)
    except TypeError as error:
        raise OptionError(f"a written {kind} cannot be read: {error}") from error
