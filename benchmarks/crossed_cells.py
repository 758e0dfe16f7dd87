"""The crossed grid: rare and skewed outcomes, small groups, users with many rows and skewed scores, all with each other.

A cell is a population with a known truth: one curve of the expected outcome for both groups, or a known gap between them.
"""

from __future__ import annotations

import itertools
import math
import zlib
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

Floats = NDArray[np.float64]
Data = dict[str, Any]

LARGE, SMALL = 0, 1  # the groups
STEEPNESS = 1.2  # of the logit of a rate in standard normal quantiles of the score
GROWTH = 0.6  # of the logarithm of a mean count
SCORE_CORRELATION = 0.5  # of a user's scores, on the scale of normal quantiles
MOST_LIKELY = 0.95  # of a doubled rate
REACH, STEPS = 9.0, 2**15  # normal quantiles of the score, tabulated from -REACH to REACH
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(201)


# What the groups' curves are


@dataclass(frozen=True)
class Alternative:
    """How the small group departs from the common curve: not at all, outcomes "doubled", or a constant ``gap``."""

    kind: str = "none"
    gap: float = 0.0

    def rate(self, rate: Floats) -> Floats:
        """The small group's probability, but for a gap."""
        return np.minimum(2 * rate, MOST_LIKELY) if self.kind == "doubled" else rate


NONE, DOUBLED = Alternative(), Alternative("doubled")


@cache
def intercept(rate: float, steepness: float) -> float:
    """a so that the mean of expit(a + steepness Z) is the rate, Z standard normal."""

    def excess(a: float) -> float:
        return float(NODE_WEIGHTS @ special.expit(a + steepness * NODES) / NODE_WEIGHTS.sum()) - rate

    return float(optimize.brentq(excess, -40, 40))


# Users


@dataclass(frozen=True)
class Users:
    """So many users with so many rows each, whose numbers are drawn by ``rng``; icc: the correlation of a user's outcomes."""

    n_users: int
    n_rows: int
    icc: float
    rng: np.random.Generator

    def normal(self, correlation: float) -> Floats:
        """A standard normal number for each row, correlated within users: (n_users, n_rows)."""
        own = self.rng.standard_normal((self.n_users, self.n_rows))
        if self.n_rows == 1:
            return own
        shared = self.rng.standard_normal((self.n_users, 1))
        return math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own

    def uniform(self) -> Floats:
        """A uniform number for each row, drawn from a user's own Dirichlet process: (n_users, n_rows).

        By the urn of Blackwell and MacQueen (1973): a row takes the number of an earlier row of its user, or with probability
        A / (A + earlier rows) a new one. 1(number < f) is then beta-binomial with rate f and correlation 1 / (A + 1) at every f.
        """
        numbers = self.rng.random((self.n_rows, self.n_users))
        if self.icc:
            concentration = 1 / self.icc - 1
            everybody = np.arange(self.n_users)
            for row in range(1, self.n_rows):
                # At or above ``row``: a new number.
                taken = (self.rng.random(self.n_users) * (concentration + row)).astype(np.int64)
                copies = np.flatnonzero(taken < row)
                numbers[row, copies] = numbers[taken[copies], everybody[copies]]
        return np.ascontiguousarray(numbers.T)


# Outcomes


@dataclass(frozen=True)
class Event:
    """0 or 1; the curve is expit(a + steepness z), z the normal quantile of the score."""

    rate: float
    steepness: float = STEEPNESS

    binary = True

    @property
    def name(self) -> str:
        return f"rate_{100 * self.rate:g}%"

    def mean(self, z: Floats) -> Floats:
        return special.expit(intercept(self.rate, self.steepness) + self.steepness * z)

    def small_mean(self, z: Floats, alternative: Alternative) -> Floats:
        return np.clip(alternative.rate(self.mean(z)) + alternative.gap, 0, 1)

    def draw(self, users: Users, z: Floats, n_large: int, alternative: Alternative) -> Floats:
        rate = np.concatenate([self.mean(z[:n_large]), self.small_mean(z[n_large:], alternative)])
        return (users.uniform() < rate).astype(np.float64)


@dataclass(frozen=True)
class Cost:
    """Nothing for 70 % of rows, else log-normal with mean 1; the small group is ``spread`` times as far from the curve."""

    sigma: float
    spread: float = 1.0
    rate: float = 0.3

    binary = False

    @property
    def name(self) -> str:
        return f"cost_{self.sigma:g}" + ("" if self.spread == 1 else f"_sd_x{self.spread:g}")

    def mean(self, z: Floats) -> Floats:
        return Event(self.rate).mean(z)

    def small_mean(self, z: Floats, alternative: Alternative) -> Floats:
        return alternative.rate(self.mean(z)) + alternative.gap

    def draw(self, users: Users, z: Floats, n_large: int, alternative: Alternative) -> Floats:
        rate = np.concatenate([self.mean(z[:n_large]), alternative.rate(self.mean(z[n_large:]))])
        amount = np.exp(self.sigma * users.normal(users.icc) - self.sigma**2 / 2)
        cost = (users.uniform() < rate) * amount
        # A gap and a spread move what is paid, so that no probability leaves [0, 1].
        cost[n_large:] = rate[n_large:] + self.spread * (cost - rate)[n_large:] + alternative.gap
        return cost


@dataclass(frozen=True)
class Count:
    """Poisson counts whose users share shocks; or, with ``frailty``, negative binomial (variance m + m^2) with shared frailties."""

    average: float
    frailty: bool

    binary = False

    @property
    def name(self) -> str:
        return f"{'negbin' if self.frailty else 'poisson'}_{self.average:g}"

    def mean(self, z: Floats) -> Floats:
        return self.average * np.exp(GROWTH * z - GROWTH**2 / 2)

    def small_mean(self, z: Floats, alternative: Alternative) -> Floats:
        return self.mean(z) * (2 if alternative.kind == "doubled" else 1) + alternative.gap

    def draw(self, users: Users, z: Floats, n_large: int, alternative: Alternative) -> Floats:
        mean = np.concatenate([self.mean(z[:n_large]), self.small_mean(z[n_large:], alternative) - alternative.gap])
        if self.frailty:
            count = users.rng.poisson(-np.log1p(-users.uniform()) * mean).astype(np.float64)
        else:
            count = users.rng.poisson((1 - users.icc) * mean) + _shared_arrivals(users, users.icc * mean)
        count[n_large:] += alternative.gap
        return count


def _shared_arrivals(users: Users, until: Floats) -> Floats:
    """Arrivals of each user's own Poisson process up to the time of each row, so that rows with equal means share them."""
    count, arrival = np.zeros(until.shape), np.zeros((users.n_users, 1))
    rng = users.rng.spawn(1)[0]
    if not users.icc:
        return count
    while True:
        arrival = arrival + rng.standard_exponential((users.n_users, 1))
        arrived = arrival < until
        if not arrived.any():
            return count
        count += arrived


Outcome = Event | Cost | Count
FAMILIES: dict[str, tuple[Outcome, Outcome, Outcome, Outcome]] = {
    "rates": (Event(0.002), Event(0.01), Event(0.05), Event(0.3)),
    "costs": (Cost(1), Cost(1.5), Cost(1, 3), Cost(1.5, 3)),
    "counts": (Count(0.3, False), Count(0.3, True), Count(3, False), Count(3, True)),
}


# Cells


@dataclass(frozen=True)
class Cell:
    """One population: ``ratio`` times ``users`` people against ``users``, ``rows`` rows each, scores from Beta(*scores)."""

    outcome: Outcome
    ratio: int = 1
    users: int = 400
    rows: int = 1
    icc: float = 0.0
    scores: tuple[float, float] = (2.0, 2.0)

    @property
    def factors(self) -> dict[str, str]:
        """Its level of each factor, in words."""
        within = "1" if self.rows == 1 else f"{self.rows}, ICC {self.icc:g}"
        scores = "Beta({:g}, {:g})".format(*self.scores)
        levels = {"outcome": self.outcome.name.replace("_", " "), "ratio": f"{self.ratio}:1", "users": f"{self.users}"}
        return levels | {"rows a user": within, "scores": scores}

    @property
    def name(self) -> str:
        """All factors, fit for a file name."""
        scores = "_".join(f"{shape:g}" for shape in self.scores)
        words = (self.outcome.name, f"ratio_{self.ratio}", f"users_{self.users}", f"rows_{self.rows}", f"icc_{self.icc:g}")
        return "-".join((*words, f"beta_{scores}"))

    @property
    def events(self) -> float:
        """Expected events in the small group; for a real outcome, rows that are not expected to be 0."""
        z = NODES
        chance = self.outcome.mean(z) if not isinstance(self.outcome, Count) else -np.expm1(-self.outcome.mean(z))
        return float(NODE_WEIGHTS @ chance / NODE_WEIGHTS.sum()) * self.users * self.rows

    def data(self, run: int, alternative: Alternative = NONE, stream: int = 0) -> Data:
        """One draw, small group last; the same run has the same users, scores and luck under every alternative."""
        rng = np.random.default_rng([zlib.crc32(self.name.encode()), run, stream])
        n_large = self.users * self.ratio
        n_users = n_large + self.users
        users = Users(n_users, self.rows, self.icc, rng)
        z = users.normal(SCORE_CORRELATION)
        outcome = self.outcome.draw(users, z, n_large, alternative)
        return {
            "user": np.repeat(np.arange(n_users), self.rows),
            "group": np.repeat([LARGE, SMALL], [n_large * self.rows, self.users * self.rows]),
            "score": score_at(self.scores, z.ravel()),
            "outcome": outcome.ravel(),
        }


@cache
def _score_table(shapes: tuple[float, float]) -> Floats:
    """Scores at normal quantiles from -REACH to REACH."""
    z = np.linspace(-REACH, REACH, STEPS + 1)
    upper = z > 0
    table = special.betaincinv(*shapes, special.ndtr(np.where(upper, 0, z)))
    table[upper] = special.betainccinv(*shapes, special.ndtr(-z[upper]))
    return table


def score_at(shapes: tuple[float, float], z: Floats) -> Floats:
    """The score whose rank has the normal quantile z, a straight line between tabulated ones."""
    place = (np.clip(z, -REACH, REACH) + REACH) * (STEPS / (2 * REACH))
    left = np.minimum(place.astype(np.int64), STEPS - 1)
    table = _score_table(shapes)
    low = table[left]
    return low + (place - left) * (table[left + 1] - low)


def quantile_at(shapes: tuple[float, float], score: Floats) -> Floats:
    """The normal quantile of a score's rank: what ``score_at`` undoes."""
    return np.interp(score, _score_table(shapes), np.linspace(-REACH, REACH, STEPS + 1))


# The grid and its fractions

RATIOS, SMALL_USERS, ROWS = (1, 5, 20), (100, 400, 2000), (1, 4, 30)
ICCS, SCORES = (0.1, 0.4), ((2.0, 2.0), (0.5, 50.0))
FRACTIONS = (1, 2, 3, 6)


def levels_of(fraction: str) -> list[tuple[int, int, int, int, int, int]]:
    """Levels of outcome, ratio, users, rows, ICC and scores in one regular part of the 4 x 3 x 3 x 3 x 2 x 2 grid.

    "2/6" is the second of six parts. A half keeps the points whose bits add up to the same parity (the four outcomes are two bits),
    a third those whose three-level factors add up to the same number modulo 3, a sixth does both. In every part all pairs of levels
    of two factors occur equally often.
    """
    part, parts = (int(number) for number in fraction.split("/"))
    if parts not in FRACTIONS or not 1 <= part <= parts:
        raise ValueError(f"{fraction} is not a part of the grid; there are k/1, k/2, k/3 and k/6")
    halves, thirds = (2 if parts % 2 == 0 else 1), (3 if parts % 3 == 0 else 1)
    parity, remainder = (part - 1) % halves, (part - 1) // halves
    return [
        point
        for point in itertools.product(range(4), range(3), range(3), range(3), range(2), range(2))
        if (point[0] // 2 + point[0] + point[4] + point[5]) % halves == parity and sum(point[1:4]) % thirds == remainder
    ]


def grid(family: str, fraction: str = "1/1") -> list[Cell]:
    """The cells of a part of the grid; with one row a user the two ICCs are one cell."""
    outcomes = FAMILIES[family]
    cells = [
        Cell(outcomes[outcome], RATIOS[ratio], SMALL_USERS[users], ROWS[rows], ICCS[icc] if ROWS[rows] > 1 else 0.0, SCORES[scores])
        for outcome, ratio, users, rows, icc, scores in levels_of(fraction)
    ]
    return list(dict.fromkeys(cells))
