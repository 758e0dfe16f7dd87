"""What is expected of a score, and how outcomes scatter around it, alike within a user."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from evenscore.errors import require_count, require_number, require_option
from evenscore.simulation.distributions import MAX_LEVELS
from evenscore.types import Floats, Ints

BINARY, HEAVY_TAILED = "binary", "heavy-tailed"
OUTCOMES = (BINARY, HEAVY_TAILED)
LINKS = {"logit": "logit s", "identity": "s", "log": "log s", "flip": "log(1 - s)"}
INVERSES = {"logit": "expit({})", "identity": "{}", "log": "exp({})", "flip": "1 - exp({})"}
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
    """The expected outcome at a score: g^-1(intercept + slope * f(s)) plus a bump, kept in [0, 1].

    g is the ``link``: "logit", "identity", "log" or "flip", which is log(1 - s); f is the ``transform``, by default the link. As it
    stands the curve is the score itself: perfectly calibrated.
    """

    intercept: float = 0.0
    slope: float = 1.0
    bump: Bump | None = None
    link: str = "logit"
    transform: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "intercept", require_number("intercept of a curve", self.intercept))
        object.__setattr__(self, "slope", require_number("slope of a curve", self.slope))
        require_option("link", self.link, LINKS)
        require_option("transform", self.transform, (None, *LINKS))

    def at(self, score: ArrayLike) -> Floats:
        """The curve at scores in [0, 1]."""
        score = np.asarray(score, dtype=np.float64)
        transform = self.transform or self.link
        if (self.intercept, self.slope, transform) == (0, 1, self.link):
            values = score
        else:
            # 0 times an infinite logit is not 0
            moved = np.zeros(score.shape) if self.slope == 0 else self.slope * _transform(score, transform)
            values = _inverse_link(self.intercept + moved, self.link)
        if self.bump is None:
            return np.asarray(values)
        distance = (score - self.bump.centre) / self.bump.width
        return np.clip(values + self.bump.height * np.exp(-(distance**2) / 2), 0, 1)

    def __str__(self) -> str:
        transform = self.transform or self.link
        inner = f"{self.intercept:g} + {self.slope:g} {LINKS[transform]}"
        calibrated = (self.intercept, self.slope, transform) == (0, 1, self.link)
        curve = "s" if calibrated else INVERSES[self.link].format(inner)
        return f"{curve} with {self.bump}" if self.bump else curve


@dataclass(frozen=True, slots=True)
class BusyCurve:
    """A curve for each number of rows: as ``Curve(intercept, slope)``, but nearer to calibration the more rows a user has.

    With z = min(n / limit, 1) the intercept is intercept * (1 - z) and the slope is slope + z (1 - slope).
    """

    intercept: float = -1.0
    slope: float = 0.6
    limit: int = 8
    link: str = "logit"

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", require_count("limit of a BusyCurve", self.limit, high=MAX_LEVELS))
        plain = Curve(self.intercept, self.slope, link=self.link)
        object.__setattr__(self, "intercept", plain.intercept)
        object.__setattr__(self, "slope", plain.slope)

    def of(self, n_rows: int) -> Curve:
        """The curve of users with so many rows."""
        z = min(n_rows / self.limit, 1.0)
        return Curve(self.intercept * (1 - z), self.slope + z * (1 - self.slope), link=self.link)

    def __str__(self) -> str:
        return f"{Curve(self.intercept, self.slope, link=self.link)}, calibrated from {self.limit} rows on"


AnyCurve = Curve | BusyCurve


def curve_of(curve: AnyCurve, n_rows: int) -> Curve:
    """The curve of users with so many rows."""
    return curve.of(n_rows) if isinstance(curve, BusyCurve) else curve


def _transform(score: Floats, transform: str) -> Floats:
    """f(s); scipy's functions give -inf at the end without a warning."""
    if transform == "logit":
        return special.logit(score)
    if transform == "log":
        return special.xlogy(1.0, score)
    return special.log1p(-score) if transform == "flip" else score


def _inverse_link(linear: Floats, link: str) -> Floats:
    """g^-1 of the linear part, kept in [0, 1]."""
    if link == "logit":
        return np.asarray(special.expit(linear))
    if link == "log":
        return np.exp(np.minimum(linear, 0))
    return -np.expm1(np.minimum(linear, 0)) if link == "flip" else np.clip(linear, 0, 1)


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
