"""A simulation as a specification: what is drawn, and the truth behind it."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from evenscore.errors import OptionError, listing, require_option
from evenscore.simulation.checks import require_count, require_number
from evenscore.simulation.distributions import Beta, Density, Discrete, FixedRows, ParetoRows, PoissonRows, RowsPerUser, rows_of
from evenscore.simulation.outcomes import BINARY, OUTCOMES, Curve, correlated_normals, draw_outcomes, pulled
from evenscore.simulation.truth import Truth
from evenscore.tables import FRAMES, label_text

Part = TypeVar("Part")
Label = str | int | float | bool
Data = dict[str, NDArray[Any]]
Seed = int | Sequence[int]


@dataclass(frozen=True, slots=True, repr=False)
class Simulation:
    """What ``es.simulate`` specifies; tuples are in the order of the groups.

    Data are drawn by ``.data(seed)``; what they would show without end is ``.truth``.
    """

    name: str
    groups: tuple[Label, ...]
    users: tuple[int, ...]
    scores: tuple[Density, ...]
    curves: tuple[Curve, ...]
    rows_per_user: RowsPerUser
    outcome: str
    scale: float
    outcome_correlation: float
    score_correlation: float
    informative: tuple[float, ...]
    spanning: bool

    def __post_init__(self) -> None:
        for label in self.groups:
            if not isinstance(label, str | int | float):
                raise OptionError(f"group label {label!r} must be text or a number")
        if not self.groups or len(set(self.groups)) < len(self.groups):
            raise OptionError(f"groups must be at least one label, each named once, not {self.groups!r}")
        for name in ("users", "scores", "curves", "informative"):
            if len(getattr(self, name)) != len(self.groups):
                raise OptionError(f"{name} has {len(getattr(self, name))} entries for {len(self.groups)} groups")
        for label, users in zip(self.groups, self.users, strict=True):
            require_count(f"users of group {label!r}", users)
        require_option("outcome", self.outcome, OUTCOMES)
        require_number("scale", self.scale, 0)
        require_number("outcome_correlation", self.outcome_correlation, 0, 1, open_high=True)
        require_number("score_correlation", self.score_correlation, 0, 1, open_high=True)
        for strength in self.informative:
            require_number("informative", strength, -1, 1)
        if any(self.informative) and isinstance(self.rows_per_user, FixedRows):
            raise OptionError("informative rows need users with different numbers of rows: PoissonRows or ParetoRows")

    @property
    def truth(self) -> Truth:
        """The true curves, gaps and calibration errors."""
        return Truth(self.groups, self.curves, self.scores, self.rows_per_user, self.informative, self._shares())

    def data(self, seed: Seed = 0, frame: str | None = None) -> Any:
        """Rows drawn with the seed, users side by side: a dict of arrays score, outcome, group, user, or a frame of that kind."""
        if frame is not None:
            require_option("frame", frame, FRAMES)
        columns = _draw(self, np.random.default_rng(_seed_words(seed)))
        if frame is None:
            return columns
        library = importlib.import_module(frame)
        return library.table(columns) if frame == "pyarrow" else library.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """The whole specification in JSON-ready values; a part also says what kind it is."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    def _shares(self) -> tuple[float, ...]:
        total = sum(self.users) if self.spanning else 0
        return tuple(users / total if self.spanning else 1.0 for users in self.users)

    def __repr__(self) -> str:
        head = f"Simulation: {self.name}" + (" (users span groups)" if self.spanning else "")
        lines = []
        for place, label in enumerate(self.groups):
            busy = f", busier half pulled {self.informative[place]:+g}" if self.informative[place] else ""
            parts = f"{self.users[place]:,} users, scores {self.scores[place]}, curve {self.curves[place]}{busy}"
            lines.append(f"  {label_text(label)}: {parts}")
        alike = f"correlation of outcomes {self.outcome_correlation:g}, of scores {self.score_correlation:g}"
        noise = "" if self.outcome == BINARY else f" of scale {self.scale:g}"
        return "\n".join([head, *lines, f"  {self.outcome} outcomes{noise}, {self.rows_per_user} a user, {alike}"])


def simulate(
    users: int | Mapping[Any, int] = 1000,
    *,
    groups: Iterable[Label] | None = None,
    score: Density | tuple[float, float] | Mapping[Any, Density | tuple[float, float]] = (2, 2),
    curve: Curve | tuple[float, float] | Mapping[Any, Curve | tuple[float, float]] = (0, 1),
    rows_per_user: RowsPerUser | int = 4,
    outcome: str = BINARY,
    scale: float = 0.5,
    outcome_correlation: float = 0.0,
    score_correlation: float = 0.0,
    informative: float | Mapping[Any, float] = 0.0,
    spanning: bool = False,
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
        ``Beta(a, b)``, the same as a tuple, or ``Discrete(values)``; one for all groups or a dict by group.
    curve
        E(Y | S = s): ``Curve(intercept, slope, bump)`` on the logit scale, or a tuple (intercept, slope); one for all or a dict.
        By default s itself.
    rows_per_user
        A number, ``PoissonRows(mean)`` or ``ParetoRows(shape, cap)``.
    outcome, scale
        "binary", or "heavy-tailed": the curve plus ``scale`` times a Student t with 3 degrees of freedom.
    outcome_correlation, score_correlation
        Within a user, of the latent normal values behind outcomes and behind scores; in [0, 1).
    informative
        In [-1, 1]: the outcomes of the more active half of the users are pulled up by this share of what they can be, those of the
        other half down, in every second group the other way round. The per-user curve stays, the per-row one does not.
    spanning
        Draw the group of each row at random, in the proportions of ``users``, so that a user is in several groups.

    Examples
    --------
    >>> spec = simulate(500, curve={"a": (0, 1), "b": (-0.15, 1)}, outcome_correlation=0.5)
    >>> spec.data(seed=1)["score"].shape
    (4000,)
    >>> float(spec.truth.gap(0.5, "a", "b").round(4))
    0.0374
    """
    labels = tuple(groups) if groups is not None else tuple(users) if isinstance(users, Mapping) else ("a", "b")
    rows = rows_per_user if isinstance(rows_per_user, FixedRows | PoissonRows | ParetoRows) else FixedRows(rows_per_user)
    densities = tuple(map(_density, _by_group("score", score, labels)))
    curves = tuple(map(_curve, _by_group("curve", curve, labels)))
    pulls = _by_group("informative", informative, labels)
    if not isinstance(informative, Mapping) and informative:
        pulls = [-pull if place % 2 else pull for place, pull in enumerate(pulls)]
    made_up = f"{outcome} outcomes, {rows} a user"
    return Simulation(
        name=made_up if name is None else name,
        groups=labels,
        users=tuple(_by_group("users", users, labels)),
        scores=densities,
        curves=curves,
        rows_per_user=rows,
        outcome=outcome,
        scale=scale,
        outcome_correlation=outcome_correlation,
        score_correlation=score_correlation,
        informative=tuple(pulls),
        spanning=spanning,
    )


def _by_group(name: str, given: Part | Mapping[Any, Part], labels: tuple[Label, ...]) -> list[Part]:
    """One value for each group."""
    if not isinstance(given, Mapping):
        return [given] * len(labels)
    if set(given) != set(labels):
        raise OptionError(f"{name} is given for {listing(map(repr, given))}; the groups are {listing(map(repr, labels))}")
    return [given[label] for label in labels]


def _density(given: Any) -> Density:
    if isinstance(given, Beta | Discrete):
        return given
    if isinstance(given, tuple) and len(given) == 2:
        return Beta(*given)
    raise OptionError(f"score={given!r} is not known; give (a, b) for a Beta density, Beta(a, b) or Discrete(values)")


def _curve(given: Any) -> Curve:
    if isinstance(given, Curve):
        return given
    if isinstance(given, tuple) and len(given) == 2:
        return Curve(*given)
    raise OptionError(f"curve={given!r} is not known; give (intercept, slope) or Curve(intercept, slope, bump)")


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {"kind": type(value).__name__} | asdict(value)
    return value


def _seed_words(seed: Seed) -> list[int]:
    words = list(seed) if isinstance(seed, Sequence) and not isinstance(seed, str) else [seed]
    return [require_count("seed", word, low=0) for word in words]


# Drawing


def _draw(spec: Simulation, rng: np.random.Generator) -> Data:
    """Users and their rows, then groups, scores and outcomes."""
    n_users = sum(spec.users)
    activity = rng.random(n_users)
    n_rows = rows_of(spec.rows_per_user, activity)
    user = np.repeat(np.arange(n_users), n_rows)
    if spec.spanning:
        group = np.searchsorted(np.cumsum(spec._shares())[:-1], rng.random(len(user)), side="right")
    else:
        group = np.repeat(np.repeat(np.arange(len(spec.groups)), spec.users), n_rows)
    latent = correlated_normals(rng, user, n_users, spec.score_correlation)
    score, mean = np.empty(len(user)), np.empty(len(user))
    for place, rows in enumerate(_rows_of_groups(group, len(spec.groups))):
        score[rows] = spec.scores[place].scores(latent[rows])
        mean[rows] = spec.curves[place].at(score[rows])
    if any(spec.informative):
        mean = pulled(mean, np.array(spec.informative)[group] * np.where(activity >= 0.5, 1.0, -1.0)[user])
    outcome = draw_outcomes(
        rng, mean=mean, user=user, n_users=n_users, kind=spec.outcome, correlation=spec.outcome_correlation, scale=spec.scale
    )
    return {"score": score, "outcome": outcome, "group": _labels(spec.groups)[group], "user": user}


def _rows_of_groups(group: NDArray[np.int64], n_groups: int) -> list[NDArray[np.int64]]:
    order = np.argsort(group, kind="stable")
    return np.split(order, np.cumsum(np.bincount(group, minlength=n_groups))[:-1])


def _labels(groups: tuple[Label, ...]) -> NDArray[Any]:
    """The labels as an array; mixed types stay what they are."""
    if len({type(label) for label in groups}) == 1:
        return np.array(groups)
    labels = np.empty(len(groups), dtype=object)
    labels[:] = groups
    return labels
