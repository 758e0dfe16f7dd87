"""Several objectives at once: correlated scores and labels of repeated users, with known conditional means given all scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from evenscore.data.columns import number_array
from evenscore.errors import (
    OptionError,
    require_count,
    require_number,
    require_option,
    require_sequence,
    require_text,
    shortened,
)
from evenscore.simulation.distributions import PoissonRows, RowsPerUser, rows_of
from evenscore.simulation.drawing import Data, Specification, label_array
from evenscore.simulation.ingredients import Label, as_rows, by_group, place_of, require_distinct
from evenscore.simulation.outcomes import BINARY
from evenscore.tables import label_text
from evenscore.types import Floats

Matrix = tuple[tuple[float, ...], ...]

REAL = "real"
KINDS = (BINARY, REAL)
WAVE = 1.5  # how fast the bend goes up and down, per standard deviation of the scores


@dataclass(frozen=True, slots=True, repr=False)
class Objectives(Specification):
    """What ``simulate_objectives`` specifies; tuples are in the order of the groups or of the objectives.

    Data are drawn by ``.data(seed)``: columns score_<objective> and <objective> for each, group and user.
    """

    name: str
    groups: tuple[Label, ...]
    users: tuple[int, ...]
    objectives: tuple[str, ...]
    kinds: tuple[str, ...]
    locations: tuple[float, ...]
    spreads: tuple[float, ...]
    intercepts: Matrix
    slopes: tuple[Matrix, ...]
    bends: tuple[float, ...]
    noise: tuple[float, ...]
    rows_per_user: RowsPerUser
    score_correlation: float
    label_correlation: float
    score_likeness: float
    outcome_likeness: float
    labelled: tuple[float, ...]

    def __post_init__(self) -> None:
        require_text("name", self.name)
        require_distinct(self.groups)
        if not self.objectives or len(set(self.objectives)) < len(self.objectives):
            raise OptionError(f"objectives must be at least one name, each once, not {shortened(self.objectives)}")
        k = len(self.objectives)
        for name in ("kinds", "locations", "spreads", "noise", "labelled"):
            if len(getattr(self, name)) != k:
                raise OptionError(f"{name} has {len(getattr(self, name))} entries for {k} objectives")
        for users in self.users:
            require_count("users", users)
        for kind in self.kinds:
            require_option("kind", kind, KINDS)
        for place in range(len(self.groups)):
            if np.shape(self.slopes[place]) != (k, k) or np.shape(self.intercepts[place]) != (k,):
                raise OptionError(f"{k} objectives need {k} intercepts and {k} x {k} slopes, a line for each outcome")
        for spread in self.spreads:
            require_number("spread", spread, 0, open_low=True)
        for share in self.labelled:
            require_number("labelled", share, 0, 1, open_low=True)
        lowest = -1 / (k - 1) if k > 1 else -1.0
        for name in ("score_correlation", "label_correlation"):
            require_number(name, getattr(self, name), lowest, 1, open_low=True, open_high=True)
        for name in ("score_likeness", "outcome_likeness"):
            require_number(name, getattr(self, name), 0, 1, open_high=True)

    @property
    def truth(self) -> JointTruth:
        """The conditional means given all scores."""
        return JointTruth(self)

    @property
    def score_columns(self) -> list[str]:
        """What the columns of the scores are called."""
        return [f"score_{name}" for name in self.objectives]

    @property
    def columns(self) -> dict[str, Any]:
        """The column arguments of ``es.calibrate_jointly`` and its audits."""
        return {"scores": self.score_columns, "outcomes": list(self.objectives), "group": "group", "user": "user"}

    def _draw(self, rng: np.random.Generator) -> Data:
        return _draw_rows(self, rng)

    def __repr__(self) -> str:
        people = ", ".join(f"{label_text(label)}: {users:,} users" for label, users in zip(self.groups, self.users, strict=True))
        objectives = ", ".join(f"{name} ({kind})" for name, kind in zip(self.objectives, self.kinds, strict=True))
        return f"Objectives: {self.name}\n  {people}, {self.rows_per_user} a user\n  {objectives}"


@dataclass(frozen=True, slots=True)
class JointTruth:
    """The conditional means given all scores."""

    spec: Objectives

    def means(self, scores: ArrayLike | Mapping[str, ArrayLike], group: Any) -> Floats:
        """E(Y_k | S_1 ... S_K, G = group), (n, K), at scores (n, K) or columns ``score_<objective>``.

        With x the scores, those of binary objectives on the logit scale, and z the same standardised, it is
        link(intercept_k + sum_j slope_kj x_j + bend cos(1.5 (z_k + z_k+1))), k + 1 of the last objective being the first.
        """
        spec, place = self.spec, place_of(group, self.spec.groups)
        if isinstance(scores, Mapping):
            scores = np.column_stack([np.asarray(scores[f"score_{name}"]) for name in spec.objectives])
        x = self._coordinates(np.asarray(scores, dtype=np.float64))
        z = (x - np.array(spec.locations)) / np.array(spec.spreads)
        wave = np.cos(WAVE * (z + np.roll(z, -1, axis=1)))
        linear = np.array(spec.intercepts[place]) + x @ np.array(spec.slopes[place]).T + spec.bends[place] * wave
        binary = np.array(spec.kinds) == BINARY
        return np.where(binary, special.expit(np.where(binary, linear, 0.0)), linear)

    def _coordinates(self, scores: Floats) -> Floats:
        if scores.ndim != 2 or scores.shape[1] != len(self.spec.objectives):
            raise OptionError(f"scores must have the shape (n, {len(self.spec.objectives)}), not {scores.shape}")
        binary = np.array(self.spec.kinds) == BINARY
        return np.where(binary, special.logit(np.where(binary, scores, 0.5)), scores)


def simulate_objectives(
    users: int | Mapping[Any, int] = 1000,
    *,
    groups: Iterable[Label] | None = None,
    objectives: Sequence[str] = ("like", "comment", "share"),
    kinds: str | Sequence[str] = BINARY,
    location: float | Sequence[float] = 0.0,
    spread: float | Sequence[float] = 1.0,
    intercept: Any = 0.0,
    slopes: Any = None,
    bend: float | Mapping[Any, float] = 0.0,
    noise: float | Sequence[float] = 1.0,
    rows_per_user: RowsPerUser | int = 4,
    score_correlation: float = 0.0,
    label_correlation: float = 0.0,
    score_likeness: float = 0.0,
    outcome_likeness: float = 0.0,
    labelled: float | Sequence[float] = 1.0,
    name: str | None = None,
) -> Objectives:
    """Specify data with several scores and outcomes, and known means of each outcome given all scores.

    Parameters
    ----------
    users, groups, rows_per_user
        As in ``es.simulate``.
    kinds
        "binary" (scores in (0, 1), normal on the logit scale) or "real" (normal scores, outcomes with normal noise); one for all
        objectives or a list.
    location, spread, noise, labelled
        Mean and standard deviation of the scores on their scale, standard deviation of the noise of real outcomes, and the share
        of rows whose outcome is known (the others are nan); one for all objectives or a list.
    intercept, slopes, bend
        The means given all scores, see ``JointTruth.means``; one for all groups or a dict by group. An intercept is a number or
        one for each outcome; slopes are a line for each outcome with a column for each score, by default 1 for its own score and
        0 for others: calibrated, given all scores.
    score_correlation, label_correlation
        Between objectives, of the normal values behind scores and behind labels.
    score_likeness, outcome_likeness
        The same between two rows of a user.
    objectives, name
        What the objectives and the simulation are called.

    Returns
    -------
    Objectives
        Frozen; ``.data(seed)`` draws rows, ``.truth`` has their means, ``.columns`` the names of the columns.

    Examples
    --------
    >>> spec = simulate_objectives(100, objectives=["click", "buy"], slopes={"a": [[1, 0.5], [0, 1]], "b": [[1, 0], [0, 1]]})
    >>> sorted(spec.data(seed=1))
    ['buy', 'click', 'group', 'score_buy', 'score_click', 'user']
    >>> spec.truth.means([[0.5, 0.5]], "a").tolist()
    [[0.5, 0.5]]
    """
    labels = require_sequence("groups", groups if groups is not None else users if isinstance(users, Mapping) else ("a", "b"))
    names = require_sequence("objectives", objectives)
    k = len(names)

    def each(value: Any) -> tuple[Any, ...]:
        return tuple(value) if isinstance(value, list | tuple) or np.ndim(value) else (value,) * k

    def numbers(name: str, value: Any) -> tuple[float, ...]:
        return tuple(number_array(name, each(value)).ravel().tolist())

    own = np.eye(k) if slopes is None else slopes
    rows = as_rows(rows_per_user)
    return Objectives(
        name=f"{k} objectives, {rows} a user" if name is None else name,
        groups=labels,
        users=tuple(by_group("users", users, labels)),
        objectives=names,
        kinds=each(kinds),
        locations=numbers("location", location),
        spreads=numbers("spread", spread),
        intercepts=tuple(numbers("intercept", value) for value in by_group("intercept", intercept, labels)),
        slopes=tuple(_matrix(value) for value in by_group("slopes", own, labels)),
        bends=tuple(require_number("bend", value) for value in by_group("bend", bend, labels)),
        noise=numbers("noise", noise),
        rows_per_user=rows,
        score_correlation=score_correlation,
        label_correlation=label_correlation,
        score_likeness=score_likeness,
        outcome_likeness=outcome_likeness,
        labelled=numbers("labelled", labelled),
    )


def _matrix(slopes: Any) -> tuple[tuple[float, ...], ...]:
    """A line for each objective."""
    lines = number_array("slopes", slopes)
    if lines.ndim != 2:
        raise OptionError(f"slopes={shortened(slopes)} must have a line of numbers for each objective")
    return tuple(map(tuple, lines.tolist()))


def feed(users: int = 1000, bend: float = 0.0) -> Objectives:
    """Like, comment and share: each label also depends on the other scores, upwards in group a and downwards in group b.

    With a bend no logistic regression is right.
    """
    up = ((0.9, 0.5, 0.3), (0.4, 0.9, 0.4), (0.3, 0.5, 0.9))
    down = ((1.1, -0.3, -0.2), (-0.3, 1.1, -0.2), (-0.2, -0.3, 1.1))
    return simulate_objectives(
        users,
        location=(0.0, -0.8, -1.2),
        intercept={"a": (0.5, 0.2, 0.3), "b": (-0.4, -0.3, -0.4)},
        slopes={"a": up, "b": down},
        bend=bend,
        rows_per_user=PoissonRows(3),
        score_correlation=0.3,
        label_correlation=0.4,
        score_likeness=0.3,
        outcome_likeness=0.4,
        name="like, comment, share" + (f", bend {bend:g}" if bend else ""),
    )


def toy(users: int = 1000) -> Objectives:
    """The paper's Appendix B: Y1 = S1 + S2 and Y2 = S2 + noise, so that each score is calibrated and their sum is not."""
    return simulate_objectives(
        users,
        objectives=("first", "second"),
        kinds=REAL,
        slopes=((1.0, 1.0), (0.0, 1.0)),
        noise=(0.0, 1.0),
        rows_per_user=1,
        name="two real outcomes of Appendix B",
    )


# Drawing


def _draw_rows(spec: Objectives, rng: np.random.Generator) -> Data:
    """Users and their rows, then scores and labels of all objectives."""
    n_users = sum(spec.users)
    n_rows = rows_of(spec.rows_per_user, rng.random(n_users))
    user = np.repeat(np.arange(n_users), n_rows)
    group = np.repeat(np.repeat(np.arange(len(spec.groups)), spec.users), n_rows)
    latent = _joint_normals(rng, user, n_users, len(spec.objectives), spec.score_correlation, spec.score_likeness)
    x = np.array(spec.locations) + np.array(spec.spreads) * latent
    binary = np.array(spec.kinds) == BINARY
    scores = np.where(binary, special.expit(x), x)
    truth, mean = spec.truth, np.empty_like(x)
    for place, label in enumerate(spec.groups):
        mine = group == place
        mean[mine] = truth.means(scores[mine], label)
    noise = _joint_normals(rng, user, n_users, len(spec.objectives), spec.label_correlation, spec.outcome_likeness)
    outcomes = np.where(binary, special.ndtr(noise) < mean, mean + np.array(spec.noise) * noise)
    known = rng.random(x.shape) < np.array(spec.labelled)
    columns: Data = {name: scores[:, k] for k, name in enumerate(spec.score_columns)}
    for k, name in enumerate(spec.objectives):
        values = outcomes[:, k] if spec.labelled[k] < 1 or not binary[k] else outcomes[:, k].astype(np.int64)
        columns[name] = values if spec.labelled[k] == 1 else np.where(known[:, k], values, np.nan)
    return columns | {"group": label_array(spec.groups)[group], "user": user}


def _joint_normals(rng: np.random.Generator, user: Any, n_users: int, k: int, between: float, within: float) -> Floats:
    """Standard normal values (n_rows, k): ``between`` columns and ``within`` a user they have these correlations."""
    root = np.linalg.cholesky(np.full((k, k), between) + (1 - between) * np.eye(k))
    own = rng.standard_normal((len(user), k))
    if within > 0:
        own = np.sqrt(within) * rng.standard_normal((n_users, k))[user] + np.sqrt(1 - within) * own
    return own @ root.T
