"""A simulation as a specification: what is drawn, and the truth behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from evenscore.errors import (
    OptionError,
    listing,
    require_count,
    require_flag,
    require_number,
    require_option,
    require_sequence,
    require_text,
    shortened,
)
from evenscore.simulation.distributions import (
    AnyDensity,
    BusyBeta,
    FixedRows,
    RowsPerUser,
    density_of,
)
from evenscore.simulation.drawing import Data, Specification, draw
from evenscore.simulation.ingredients import (
    Label,
    as_any_curve,
    as_any_density,
    as_rows,
    by_group,
    place_of,
    read_plain,
    require_distinct,
)
from evenscore.simulation.outcomes import BINARY, OUTCOMES, AnyCurve, BusyCurve
from evenscore.simulation.power_users import PowerUsers
from evenscore.simulation.truth import Truth
from evenscore.tables import label_text


@dataclass(frozen=True, slots=True, repr=False)
class Simulation(Specification):
    """What ``es.simulate`` specifies; tuples are in the order of the groups.

    Data are drawn by ``.data(seed)``; what they would show without end is ``.truth``.

    Examples
    --------
    >>> import evenscore as es
    >>> simulation = es.simulate(100, curve={"a": (0, 1), "b": (-0.5, 1)})
    >>> sorted(simulation.data(seed=1))
    ['group', 'outcome', 'score', 'user']
    """

    name: str
    groups: tuple[Label, ...]
    users: tuple[int, ...]
    scores: tuple[AnyDensity, ...]
    curves: tuple[AnyCurve, ...]
    rows_per_user: tuple[RowsPerUser, ...]
    outcome: str
    scale: float
    outcome_correlation: float
    score_correlation: float
    informative: tuple[float, ...]
    spanning: bool
    power_users: tuple[PowerUsers, ...] = ()
    threshold: float | None = None
    positive: str = "above"

    def __post_init__(self) -> None:
        require_text("name", self.name)
        for label in self.groups:
            if not isinstance(label, str | int | float):
                raise OptionError(f"group label {shortened(label)} must be text or a number")
        require_distinct(self.groups)
        for name in ("users", "scores", "curves", "rows_per_user", "informative"):
            if len(getattr(self, name)) != len(self.groups):
                raise OptionError(f"{name} has {len(getattr(self, name))} entries for {len(self.groups)} groups")
        for label, users in zip(self.groups, self.users, strict=True):
            require_count(f"users of group {shortened(label)}", users)
        require_option("outcome", self.outcome, OUTCOMES)
        require_number("scale", self.scale, 0)
        require_number("outcome_correlation", self.outcome_correlation, 0, 1, open_high=True)
        require_number("score_correlation", self.score_correlation, 0, 1, open_high=True)
        for strength in self.informative:
            require_number("informative", strength, -1, 1)
        require_flag("spanning", self.spanning)
        for power in self.power_users:
            if not isinstance(power, PowerUsers):
                raise OptionError(f"power_users={shortened(power)} must be PowerUsers")
            self.place(power.group)
        _require_possible(self)

    @property
    def truth(self) -> Truth:
        """The true curves, gaps and calibration errors."""
        return Truth(self)

    @property
    def shares(self) -> tuple[float, ...]:
        """Each group's share of a user's rows: 1 when users stay in one group."""
        total = sum(self.users)
        return tuple(users / total if self.spanning else 1.0 for users in self.users)

    def place(self, group: Any) -> int:
        """Where a group stands among the groups."""
        return place_of(group, self.groups)

    def _draw(self, rng: np.random.Generator) -> Data:
        return draw(self, rng)

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> Simulation:
        """A specification from what ``to_dict`` gave, for instance out of a JSON file."""
        known = {field.name for field in fields(cls)}
        if not isinstance(written, Mapping) or set(written) != known:
            given = set(written) if isinstance(written, Mapping) else set()
            wrong = listing(
                [*(f"no {name}" for name in sorted(known - given)), *(f"unknown {name}" for name in sorted(given - known))]
            )
            raise OptionError(f"this is not a written simulation: {wrong}")
        return cls(**{name: read_plain(value) for name, value in written.items()})

    def __repr__(self) -> str:
        head = f"Simulation: {self.name}" + (" (users span groups)" if self.spanning else "")
        lines = []
        for place, label in enumerate(self.groups):
            busy = f", busier half pulled {self.informative[place]:+g}" if self.informative[place] else ""
            drawn = f"{self.users[place]:,} users, {self.rows_per_user[place]} each, scores {self.scores[place]}"
            lines.append(f"  {label_text(label)}: {drawn}, curve {self.curves[place]}{busy}")
        lines += [f"  {label_text(power.group)}: and {power}" for power in self.power_users]
        alike = f"correlation of outcomes {self.outcome_correlation:g}, of scores {self.score_correlation:g}"
        noise = "" if self.outcome == BINARY else f" of scale {self.scale:g}"
        known = "" if self.threshold is None else f", known where the score is {_side(self)}"
        return "\n".join([head, *lines, f"  {self.outcome} outcomes{noise}{known}, {alike}"])


def simulate(
    users: int | Mapping[Any, int] = 1000,
    *,
    groups: Iterable[Label] | None = None,
    score: AnyDensity | tuple[float, float] | Mapping[Any, AnyDensity | tuple[float, float]] = (2, 2),
    curve: AnyCurve | tuple[float, float] | Mapping[Any, AnyCurve | tuple[float, float]] = (0, 1),
    rows_per_user: RowsPerUser | int | Mapping[Any, RowsPerUser | int] = 4,
    outcome: str = BINARY,
    scale: float = 0.5,
    outcome_correlation: float = 0.0,
    score_correlation: float = 0.0,
    informative: float | Mapping[Any, float] = 0.0,
    spanning: bool = False,
    power_users: PowerUsers | Sequence[PowerUsers] = (),
    threshold: float | None = None,
    positive: str = "above",
    name: str | None = None,
) -> Simulation:
    """Specify data with a known truth: repeated users, dependent rows, and any gap between the groups.

    Parameters
    ----------
    users
        Users of each group, or a dict by group.
    groups
        Labels; "a" and "b", or those of ``users`` when that is a dict.
    score
        ``Beta(a, b)``, the same as a tuple, ``Discrete(values)``, or ``BusyBeta(limit)``, which depends on a user's number of rows;
        one for all groups or a dict by group.
    curve
        E(Y | S = s): ``Curve(intercept, slope, bump, link, transform)``, a tuple (intercept, slope) on the logit scale, or
        ``BusyCurve(intercept, slope, limit)``, which is nearer to calibration the more rows a user has; one for all or a dict. By
        default s itself.
    rows_per_user
        A number, ``PoissonRows(mean)`` or ``ParetoRows(shape, cap)``; one for all or a dict.
    outcome, scale
        "binary", or "heavy-tailed": the curve plus ``scale`` times a Student t with 3 degrees of freedom.
    outcome_correlation, score_correlation
        Within a user, of the latent normal values behind outcomes and behind scores; in [0, 1).
    informative
        In [-1, 1]: the outcomes of the more active half of the users are pulled up by this share of what they can be, those of the
        other half down, in every second group the other way round. The per-user curve stays, the per-row one does not.
    spanning
        Draw the group of each row at random, in the proportions of ``users``, so that a user is in several groups.
    power_users
        ``PowerUsers(group, users, rows, lift)``, or several: users with very many rows who are no part of the truth. All other rows
        are the same with them and without.
    threshold, positive
        The outcome is known only where the decision is positive: from the threshold on, or with ``positive="below"`` below it.
    name
        What reports call it; made from its ingredients if not given.

    Returns
    -------
    Simulation
        Frozen; ``.data(seed)`` draws rows and ``.truth`` says what they would show without end of users.

    Examples
    --------
    >>> spec = simulate(500, curve={"a": (0, 1), "b": (-0.15, 1)}, outcome_correlation=0.5)
    >>> spec.data(seed=1)["score"].shape
    (4000,)
    >>> float(spec.truth.gap(0.5, "a", "b").round(4))
    0.0374
    """
    given = groups if groups is not None else users if isinstance(users, Mapping) else ("a", "b")
    labels = require_sequence("groups", given)
    rows = tuple(map(as_rows, by_group("rows_per_user", rows_per_user, labels)))
    pulls = by_group("informative", informative, labels)
    if not isinstance(informative, Mapping):
        pull = require_number("informative", informative, -1, 1)
        pulls = [-pull if place % 2 else pull for place in range(len(labels))]
    spec = Simulation(
        name="" if name is None else name,
        groups=labels,
        users=tuple(by_group("users", users, labels)),
        scores=tuple(map(as_any_density, by_group("score", score, labels))),
        curves=tuple(map(as_any_curve, by_group("curve", curve, labels))),
        rows_per_user=rows,
        outcome=outcome,
        scale=scale,
        outcome_correlation=outcome_correlation,
        score_correlation=score_correlation,
        informative=tuple(pulls),
        spanning=spanning,
        power_users=(power_users,) if isinstance(power_users, PowerUsers) else require_sequence("power_users", power_users),
        threshold=threshold,
        positive=positive,
    )
    return spec if name is not None else replace(spec, name=_made_up(spec))


def _made_up(spec: Simulation) -> str:
    """A name that says what is special."""
    rows = " or ".join(dict.fromkeys(map(str, spec.rows_per_user)))
    special = [f"{sum(power.users for power in spec.power_users):,} power users"] if spec.power_users else []
    special += [] if spec.threshold is None else [f"labels where the score is {_side(spec)}"]
    return ", ".join([f"{spec.outcome} outcomes", f"{rows} a user", *special])


def _side(spec: Simulation) -> str:
    return f"{spec.threshold:g} or more" if spec.positive == "above" else f"below {spec.threshold:g}"


# Checks


def _require_possible(spec: Simulation) -> None:
    """Refuse ingredients that do not go together, each with the reason."""
    pulled_rows = [rows for rows, pull in zip(spec.rows_per_user, spec.informative, strict=True) if pull]
    if any(isinstance(rows, FixedRows) for rows in pulled_rows):
        raise OptionError("informative rows need users with different numbers of rows: PoissonRows or ParetoRows")
    busy = any(isinstance(ingredient, BusyBeta | BusyCurve) for ingredient in (*spec.scores, *spec.curves))
    if busy and any(spec.informative):
        raise OptionError("BusyBeta and BusyCurve depend on the number of rows already; leave out informative")
    if spec.spanning and len(set(spec.rows_per_user)) > 1:
        raise OptionError("users who span groups have one rows_per_user, not one for each group")
    require_option("positive", spec.positive, ("above", "below"))
    if spec.threshold is None:
        return
    require_number("threshold", spec.threshold, 0, 1)
    if spec.score_correlation and (busy or any(spec.informative)):
        raise OptionError(
            "with a threshold, what users weigh depends on their number of rows and on how alike their scores are: leave out "
            "score_correlation, or the parts that depend on the number of rows"
        )
    for label, density in zip(spec.groups, spec.scores, strict=True):
        share = density_of(density, 1).share_from(spec.threshold)
        if (share if spec.positive == "above" else 1 - share) <= 0:
            raise OptionError(
                f"threshold={shortened(spec.threshold)} leaves group {shortened(label)} no known outcome: no score is {_side(spec)}"
            )
