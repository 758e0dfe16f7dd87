"""Rows drawn from a specification: users and their rows, then groups, scores and outcomes; as columns or as a frame."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evenscore.errors import require_count, require_option
from evenscore.simulation.distributions import BusyBeta, density_of, rows_of
from evenscore.simulation.ingredients import plain
from evenscore.simulation.outcomes import BusyCurve, correlated_normals, curve_of, draw_outcomes, pulled
from evenscore.tables import FRAMES, values_of
from evenscore.types import Array, Floats, Ints

if TYPE_CHECKING:
    from evenscore.simulation.specification import Simulation

Data = dict[str, Array]
Seed = int | Sequence[int]


class Specification:
    """What every simulation has: rows drawn with a seed, and its own fields in JSON-ready values. Subclasses are dataclasses."""

    __slots__ = ()

    def _draw(self, rng: np.random.Generator) -> Data:
        raise NotImplementedError

    def data(self, seed: Seed = 0, frame: str | None = None) -> Any:
        """Rows drawn with the seed: a dict of arrays, or a frame of that kind.

        An outcome that is not known is nan, or null in a frame.
        """
        if frame is not None:
            require_option("frame", frame, FRAMES)
        columns = self._draw(np.random.default_rng(_seed_words(seed)))
        return columns if frame is None else _as_frame(columns, frame)

    def to_dict(self) -> dict[str, Any]:
        """The whole specification in JSON-ready values; an ingredient also says what kind it is."""
        return {name: plain(value) for name, value in values_of(self).items()}


def _seed_words(seed: Seed) -> list[int]:
    words = list(seed) if isinstance(seed, Sequence) and not isinstance(seed, str) else [seed]
    return [require_count("seed", word, low=0) for word in words]


def _as_frame(columns: Data, kind: str) -> Any:
    """Columns as a pandas, polars or pyarrow frame; an outcome that is not known is null where the library tells null from nan."""
    library = importlib.import_module(kind)
    if kind == "pyarrow":
        return library.table({name: library.array(column, from_pandas=True) for name, column in columns.items()})
    return library.DataFrame(columns, **({"nan_to_null": True} if kind == "polars" else {}))


def draw(spec: Simulation, rng: np.random.Generator) -> Data:
    """The columns score, outcome, group and user; rows of power users come last, so that the others are the same without them."""
    n_users = sum(spec.users)
    activity = rng.random(n_users)
    n_rows = _numbers_of_rows(spec, activity)
    user = np.repeat(np.arange(n_users), n_rows)
    if spec.spanning:
        group = np.searchsorted(np.cumsum(spec.shares)[:-1], rng.random(len(user)), side="right")
    else:
        group = np.repeat(np.repeat(np.arange(len(spec.groups)), spec.users), n_rows)
    latent = correlated_normals(rng, user, n_users, spec.score_correlation)
    score, mean = _scores_and_means(spec, group, latent, n_rows[user])
    if any(spec.informative):
        mean = pulled(mean, np.array(spec.informative)[group] * np.where(activity >= 0.5, 1.0, -1.0)[user])
    columns = {"score": score, "outcome": _outcomes(spec, rng, mean, user), "group": group, "user": user}
    columns = _join_columns([columns, *_power_users(spec, rng, n_users)])
    columns["outcome"] = _withhold_outcomes(spec, columns["score"], columns["outcome"])
    return columns | {"group": label_array(spec.groups)[columns["group"]]}


def _numbers_of_rows(spec: Simulation, activity: Floats) -> Ints:
    if len(set(spec.rows_per_user)) == 1:
        return rows_of(spec.rows_per_user[0], activity)
    activities = np.split(activity, np.cumsum(spec.users)[:-1])
    return np.concatenate([rows_of(rows, own) for rows, own in zip(spec.rows_per_user, activities, strict=True)])


def _scores_and_means(spec: Simulation, group: Ints, latent: Floats, n_rows: Ints) -> tuple[Floats, Floats]:
    """Scores and expected outcomes; a busy density or curve is another one for each number of rows up to its limit."""
    score, mean = np.empty(len(group)), np.empty(len(group))
    for place, rows in enumerate(_split(group, len(spec.groups))):
        density, curve = spec.scores[place], spec.curves[place]
        limit = max([busy.limit for busy in (density, curve) if isinstance(busy, BusyBeta | BusyCurve)], default=1)
        for level, own in enumerate(_split(np.minimum(n_rows[rows], limit) - 1, limit), start=1):
            at = rows[own]
            score[at] = density_of(density, level).scores(latent[at])
            mean[at] = curve_of(curve, level).at(score[at])
    return score, mean


def _split(code: Ints, n_codes: int) -> list[Ints]:
    """The places of each code, in order."""
    order = np.argsort(code, kind="stable")
    return np.split(order, np.cumsum(np.bincount(code, minlength=n_codes))[:-1])


def _outcomes(spec: Simulation, rng: np.random.Generator, mean: Floats, user: Ints) -> Array:
    return draw_outcomes(
        rng,
        mean=mean,
        user=user,
        n_users=int(user[-1]) + 1,
        kind=spec.outcome,
        correlation=spec.outcome_correlation,
        scale=spec.scale,
    )


def _power_users(spec: Simulation, rng: np.random.Generator, n_users: int) -> list[Data]:
    """The rows of each kind of power users."""
    found = []
    for power in spec.power_users:
        place = spec.place(power.group)
        score = power.scores(spec.scores[place])
        user = np.repeat(np.arange(power.users), power.rows)
        outcome = _outcomes(spec, rng, power.means(score, spec.curves[place])[user], user)
        found.append({"score": score[user], "outcome": outcome, "group": np.full(len(user), place), "user": n_users + user})
        n_users += power.users
    return found


def _join_columns(drawn: list[Data]) -> Data:
    return drawn[0] if len(drawn) == 1 else {name: np.concatenate([columns[name] for columns in drawn]) for name in drawn[0]}


def _withhold_outcomes(spec: Simulation, score: Floats, outcome: Array) -> Array:
    """Outcomes with nan where the decision withheld them."""
    if spec.threshold is None:
        return outcome
    known = score >= spec.threshold if spec.positive == "above" else score < spec.threshold
    return np.where(known, outcome, np.nan)


def label_array(groups: tuple[Any, ...]) -> Array:
    """The labels as an array; mixed types stay what they are."""
    if len({type(label) for label in groups}) == 1:
        return np.array(groups)
    labels = np.empty(len(groups), dtype=object)
    labels[:] = groups
    return labels
