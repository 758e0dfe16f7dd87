"""What is expected of a score, and how outcomes scatter around it, alike within a user."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from evenscore.simulation.checks import require_number

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BINARY, HEAVY_TAILED = "binary", "heavy-tailed"
OUTCOMES = (BINARY, HEAVY_TAILED)
TAIL_DF = 3  # Student's t with a variance but no fourth moment


@dataclass(frozen=True, slots=True)
class Bump:
    """A gap in one place: height * exp(-((s - centre) / width)^2 / 2) is added to the curve."""

    height: float
    centre: float = 0.5
    width: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "height", require_number("height of a bump", self.height, -1, 1))
        object.__setattr__(self, "centre", require_number("centre of a bump", self.centre, 0, 1))
        object.__setattr__(self, "width", require_number("width of a bump", self.width, 0, open_low=True))

    def __str__(self) -> str:
        return f"bump {self.height:+g} at {self.centre:g}"


@dataclass(frozen=True, slots=True)
class Curve:
    """The expected outcome at a score: expit(intercept + slope * logit(s)) plus a bump, kept in [0, 1].

    As it stands it is the score itself: perfectly calibrated.
    """

    intercept: float = 0.0
    slope: float = 1.0
    bump: Bump | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "intercept", require_number("intercept of a curve", self.intercept))
        object.__setattr__(self, "slope", require_number("slope of a curve", self.slope))

    def at(self, score: ArrayLike) -> Floats:
        """The curve at scores in [0, 1]."""
        score = np.asarray(score, dtype=np.float64)
        if self.slope == 0:
            values = np.full(score.shape, special.expit(self.intercept))
        elif (self.intercept, self.slope) == (0, 1):
            values = score
        else:
            values = special.expit(self.intercept + self.slope * special.logit(score))
        if self.bump is None:
            return np.asarray(values)
        distance = (score - self.bump.centre) / self.bump.width
        return np.clip(values + self.bump.height * np.exp(-(distance**2) / 2), 0, 1)

    def __str__(self) -> str:
        parts = [f"expit({self.intercept:g} + {self.slope:g} logit s)"] if (self.intercept, self.slope) != (0, 1) else ["s"]
        return " with ".join(parts + ([str(self.bump)] if self.bump else []))


def pulled(mean: Floats, pull: Floats | float) -> Floats:
    """Expected outcomes moved by a share ``pull`` in [-1, 1] of their distance to the nearer end of [0, 1].

    Linear in the pull, so that users pulled up and as many pulled down leave the per-user curve as it was.
    """
    return mean + pull * np.minimum(mean, 1 - mean)


def correlated_normals(rng: np.random.Generator, user: Ints, n_users: int, correlation: float) -> Floats:
    """A standard normal value for each row; two rows of a user have this correlation."""
    own = rng.standard_normal(len(user))
    if correlation == 0:
        return own
    shared = rng.standard_normal(n_users)
    return np.sqrt(correlation) * shared[user] + np.sqrt(1 - correlation) * own


def draw_outcomes(
    rng: np.random.Generator, *, mean: Floats, user: Ints, n_users: int, kind: str, correlation: float, scale: float
) -> Ints | Floats:
    """Outcomes (n_rows,) with these expectations.

    Binary: 1 where a latent normal value lies below its mean's quantile; latent values of a user have the correlation.
    Heavy-tailed: mean + scale * (sqrt(correlation) * T_user + sqrt(1 - correlation) * T_row), each T a Student t with 3 degrees of
    freedom.
    """
    if kind == BINARY:
        chance = special.ndtr(correlated_normals(rng, user, n_users, correlation))
        return (chance < mean).astype(np.int64)
    noise = np.sqrt(1 - correlation) * rng.standard_t(TAIL_DF, len(user))
    if correlation > 0:
        noise += np.sqrt(correlation) * rng.standard_t(TAIL_DF, n_users)[user]
    return mean + scale * noise
