"""How scores are spread, and how many rows users have."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from evenscore.errors import OptionError, require_count, require_number
from evenscore.types import Floats, Ints

LATENT = np.linspace(-8.5, 8.5, 4097)  # beyond these a normal variable does not go in any sample one can hold
MAX_ROWS = 1_000_000
MAX_LEVELS = 200  # numbers of rows that scores or curves tell apart


# Scores: a normal latent variable goes through the quantile function, so that a Gaussian copula can tie scores together


@dataclass(frozen=True, slots=True)
class Beta:
    """Scores with a Beta(a, b) density on (0, 1)."""

    a: float = 2.0
    b: float = 2.0

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            object.__setattr__(self, name, require_number(f"Beta parameter {name}", getattr(self, name), 0, open_low=True))

    def scores(self, latent: Floats) -> Floats:
        """The scores that standard normal values stand for."""
        return np.interp(latent, LATENT, _beta_quantiles(self))

    def log_density(self, score: Floats) -> Floats:
        """The logarithm of the density; the ends are approached, not touched."""
        score = np.clip(score, 1e-300, 1 - 1e-16)
        return np.asarray((self.a - 1) * np.log(score) + (self.b - 1) * np.log1p(-score) - special.betaln(self.a, self.b))

    def share_from(self, threshold: float) -> float:
        """The share of scores at the threshold or above."""
        return float(special.betaincc(self.a, self.b, np.clip(threshold, 0, 1)))

    def mean(self, values_at: Floats) -> float:
        """The mean of a function of the score that is given at the scores of ``nodes``."""
        density = np.exp(-(LATENT**2) / 2)
        return float(values_at @ density / density.sum())

    def nodes(self) -> Floats:
        """Scores at which a function must be known for its mean; trapezoids under a normal density converge fast."""
        return _beta_quantiles(self)

    def __str__(self) -> str:
        return f"Beta({self.a:g}, {self.b:g})"


@lru_cache(maxsize=64)
def _beta_quantiles(density: Beta) -> Floats:
    table = np.asarray(special.betaincinv(density.a, density.b, special.ndtr(LATENT)), dtype=np.float64)
    upper = LATENT > 0  # 1 - Phi(z) keeps its digits where Phi(z) has lost them
    table[upper] = 1 - special.betaincinv(density.b, density.a, special.ndtr(-LATENT[upper]))
    table.flags.writeable = False
    return table


@dataclass(frozen=True, slots=True)
class Discrete:
    """Scores with these values, equally likely unless probabilities are given."""

    values: tuple[float, ...]
    probabilities: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        values = tuple(require_number("discrete score", value, 0, 1) for value in self.values)
        if not values or any(a >= b for a, b in itertools.pairwise(values)):
            raise OptionError("discrete scores must be at least one value, in rising order")
        chances = self.probabilities or (1 / len(values),) * len(values)
        chances = tuple(require_number("probability of a score", chance, 0, 1) for chance in chances)
        if len(chances) != len(values) or abs(sum(chances) - 1) > 1e-9:
            raise OptionError(f"the {len(values)} discrete scores need as many probabilities, which add up to 1")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "probabilities", chances)

    @classmethod
    def spaced(cls, n_values: int) -> Discrete:
        """The middles of so many equal steps from 0 to 1."""
        n_values = require_count("n_values", n_values)
        return cls(tuple((2 * step + 1) / (2 * n_values) for step in range(n_values)))

    def scores(self, latent: Floats) -> Floats:
        """The scores that standard normal values stand for."""
        limits = special.ndtri(np.minimum(np.cumsum(self.probabilities)[:-1], 1.0))
        return self.nodes()[np.searchsorted(limits, latent, side="right")]

    def share_from(self, threshold: float) -> float:
        """The share of scores at the threshold or above."""
        return float(np.array(self.probabilities)[self.nodes() >= threshold].sum())

    def mean(self, values_at: Floats) -> float:
        """The mean of a function of the score that is given at the scores of ``nodes``."""
        return float(values_at @ np.array(self.probabilities))

    def nodes(self) -> Floats:
        """The scores themselves."""
        return np.array(self.values)

    def __str__(self) -> str:
        return f"{len(self.values)} values from {self.values[0]:g} to {self.values[-1]:g}"


@dataclass(frozen=True, slots=True)
class BusyBeta:
    """Beta(min(n, limit), 1) for a user with n rows: the busier score higher, up to a limit."""

    limit: int = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", require_count("limit of a BusyBeta", self.limit, high=MAX_LEVELS))

    def of(self, n_rows: int) -> Beta:
        """The scores of users with so many rows."""
        return Beta(min(n_rows, self.limit), 1)

    def __str__(self) -> str:
        return f"Beta(min(rows, {self.limit}), 1)"


Density = Beta | Discrete
AnyDensity = Density | BusyBeta


def density_of(density: AnyDensity, n_rows: int) -> Density:
    """The scores of users with so many rows."""
    return density.of(n_rows) if isinstance(density, BusyBeta) else density


# Rows per user: a uniform variable, the user's activity, goes through the quantile function


@dataclass(frozen=True, slots=True)
class FixedRows:
    """The same number of rows for every user."""

    rows: int = 4

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", require_count("rows per user", self.rows, high=MAX_ROWS))

    def support(self) -> tuple[Ints, Floats]:
        """The numbers of rows that occur, and the chance of each number or fewer."""
        return np.array([self.rows]), np.ones(1)

    def __str__(self) -> str:
        return "1 row" if self.rows == 1 else f"{self.rows} rows"


@dataclass(frozen=True, slots=True)
class PoissonRows:
    """One row and a Poisson number of further ones."""

    mean: float = 3.0

    def __post_init__(self) -> None:
        value = require_number("mean of the further rows", self.mean, 0, 100_000, open_low=True)
        object.__setattr__(self, "mean", value)

    def support(self) -> tuple[Ints, Floats]:
        """The numbers of rows that occur, and the chance of each number or fewer."""
        further = np.arange(int(self.mean + 12 * np.sqrt(self.mean) + 30))
        return further + 1, _end_with_one(special.pdtr(further, self.mean))

    def __str__(self) -> str:
        return f"1 + Poisson({self.mean:g}) rows"


@dataclass(frozen=True, slots=True)
class ParetoRows:
    """Rows with P(n or more) = n^-shape up to a cap: a few users have very many."""

    shape: float = 1.2
    cap: int = 3000

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", require_number("Pareto shape", self.shape, 0, open_low=True))
        object.__setattr__(self, "cap", require_count("cap of the rows per user", self.cap, high=MAX_ROWS))

    def support(self) -> tuple[Ints, Floats]:
        """The numbers of rows that occur, and the chance of each number or fewer."""
        rows = np.arange(1, self.cap + 1)
        return rows, _end_with_one(1 - np.power(rows + 1.0, -self.shape, dtype=np.float64))

    def __str__(self) -> str:
        return f"Pareto({self.shape:g}) rows up to {self.cap:,}"


RowsPerUser = FixedRows | PoissonRows | ParetoRows


def _end_with_one(chances: Floats) -> Floats:
    """Cumulated chances that end with 1."""
    chances = np.asarray(chances, dtype=np.float64).copy()
    chances[-1] = 1.0
    return chances


@lru_cache(maxsize=64)
def _support(rows: RowsPerUser) -> tuple[Ints, Floats]:
    return rows.support()


def rows_of(rows: RowsPerUser, activity: Floats) -> Ints:
    """How many rows users of that activity (uniform on [0, 1)) have: more for the more active."""
    numbers, chances = _support(rows)
    return numbers[np.searchsorted(chances, activity, side="right")]


def masses(rows: RowsPerUser) -> tuple[Ints, Floats, Floats]:
    """The numbers of rows that occur, the share of users with each, and the part of it that is the more active half."""
    numbers, chances = _support(rows)
    before = np.concatenate([[0.0], chances[:-1]])
    return numbers, chances - before, np.maximum(chances - np.maximum(before, 0.5), 0)


def user_weights(numbers: Ints, share: float, labelled: float, weighting: str) -> Floats:
    """What users with so many rows add at a score, over their score density there.

    A row lies in the group with chance ``share`` and then has its outcome known with chance ``labelled``. Per user, each of the k
    rows that count weighs 1/k, which adds up to P(k >= 1) = 1 - (1 - share labelled)^n over ``labelled``; per row it is n.
    """
    n_rows = numbers.astype(np.float64)
    return n_rows if weighting == "row" else (1 - (1 - share * labelled) ** n_rows) / labelled


def busy_lead(rows: RowsPerUser, share: float = 1.0, labelled: float = 1.0, weighting: str = "user") -> float:
    """The weight of the more active half of the users minus that of the other, over both."""
    numbers, mass, busy = masses(rows)
    weight = user_weights(numbers, share, labelled, weighting)
    return float((2 * busy - mass) @ weight / (mass @ weight))
