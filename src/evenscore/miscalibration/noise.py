"""How far chance takes the values of a calibration error, for a truth of any size.

A 0/1 outcome has the variance of its rate, and a calibrated score is that rate: with few events this says more than the residuals
of these few, which are small just when the error happens to be. Other outcomes show their spread themselves. Either way draws are
bent, point by point, to the skewness of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from evenscore.estimation.bandwidth import by_rule
from evenscore.estimation.gaps import ROUNDING
from evenscore.estimation.inference import CommonNormals, correlation, draw_standard, standard_errors
from evenscore.estimation.laws import Law
from evenscore.estimation.one_side import user_correlation
from evenscore.estimation.scatters import Scatter, own_number_law, scaled_law
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.spreads import BORROWED_EVENTS, Around, Dependence, RateLaw, effective_users, rate_law, rate_spread
from evenscore.miscalibration.kernel_error import smoother_at
from evenscore.miscalibration.measure import Measure, small_sample_factor
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

DRAWS = 2000  # limits at 2.5 % rest on the 50 most extreme
MOST = 1e15  # units, which single precision holds and multiplies
BENDS = np.linspace(-3.5, 3.5, 9)  # normal quantiles at which a law is worked out
NEARNESS = np.exp(-(BENDS**2) / 4)  # how much a cubic should fit at each of them: the root of the normal density
CUBIC = np.linalg.pinv(np.vander(BENDS, 4) * NEARNESS[:, None]) * NEARNESS  # the nearest cubic, (4, 9)
FEWEST_USERS = 10.0  # from where on users' own scatter says how far a value may be off
EVENTS_OF_SCORE = 2.0  # events' worth of belief that a score is right, for variances only: a rate without events is not 0


@dataclass(frozen=True, slots=True)
class Background:
    """What the values of a group scatter around, as deviations from the centre.

    fit: the expected outcome at its cells that residuals are taken from, (n_cells,), rates moved towards the score; rate: the same
    where variances are made of it; alike: how alike the rows of a user are.
    """

    fit: Floats
    rate: Floats
    alike: float

    @classmethod
    def each(cls, views: Sequence[GroupView], together: Sequence[GroupView]) -> list[Background]:
        """Of every view; how alike a user's rows are is told by those that stand together."""
        fits = {id(view): expected_outcome(view) for view in views}
        alike = user_correlation(together, [fits[id(view)][0] for view in together])
        return [cls(*fits[id(view)], alike) for view in views]


def expected_outcome(view: GroupView) -> tuple[Floats, Floats]:
    """The score and the smoothed residual, (n_cells,), as deviations from the centre; of rates also what variances are made of.

    Few events are followed by a curve too closely, which would take away from what a user's rows have in common; and no rate is
    as low as a stretch without events looks.
    """
    smoothing = by_rule(Smoothing(bandwidth="band"), [view])
    matrix = smoother_at(view, view.sums.position, smoothing)
    score, moved = view.score - view.tally.centre, matrix @ view.residual
    if not view.tally.binary:
        return score + moved, score + moved
    score = np.clip(score, 0, 1)
    followed = np.clip(score + moved, 0, 1)
    events = view.effective_users(matrix) * np.maximum(rate_spread(followed), rate_spread(score))
    fit = score + (followed - score) * events / (events + EVENTS_OF_SCORE)
    return fit, np.maximum(fit, followed)


@dataclass(frozen=True, eq=False)
class Observed:
    """A measure of a group before its background; what several steps ask of it is made once, when it is first needed.

    around: the group around the outcome that is expected there.
    """

    measure: Measure
    view: GroupView
    background: Callable[[], Background]
    around: Callable[[], Around]

    @classmethod
    def of(cls, measure: Measure, view: GroupView, background: Callable[[], Background]) -> Self:
        """By itself."""
        return cls(measure, view, background, cache(lambda: Around.of(view, background().fit)))

    @cached_property
    def effective(self) -> Floats:
        """How many users each value rests on, (n_points,)."""
        return effective_users(self.view, self.measure.matrix)

    @cached_property
    def factor(self) -> Floats:
        """What few users add to each value's deviation, (n_points,)."""
        return small_sample_factor(self.effective)


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of the values at n_points points.

    normal: standard normal draws that go together as the values do, (DRAWS, n_points), in single precision for speed; sway: draws
    of what the weights of the points do to the norm (DRAWS,); law_at: the law of the values where the truth is a share of the
    observed size, 0 for a calibrated score; fixed: whether it is the same for all.
    """

    normal: NDArray[np.float32]
    sway: Floats
    law_at: Callable[[float], Law]
    fixed: bool

    @property
    def unit(self) -> float:
        """A power of two near the largest standard error: outcomes may be too large or too small for single precision."""
        return 2.0 ** int(np.frexp(self.law_at(1.0).se.max(initial=0.0))[1])

    def at(self, share: float, unit: float) -> NDArray[np.float32]:
        """Draws of the noise, (DRAWS, n_points): normal quantiles taken to deviations of the law, a cubic but for its tails."""
        law = self.law_at(share)
        repeated = Law(*(np.repeat(part, len(BENDS)) for part in (law.variance, law.third, law.pull, law.noise)))
        reached = repeated.deviations(np.tile(BENDS, len(law.variance))).reshape(-1, len(BENDS))
        rounding = law.variance <= ROUNDING * unit**2
        reached[rounding] = 0.0  # there the skewness of nothing may be anything
        highest, *lower = np.clip(CUBIC @ (reached / unit).T, -MOST, MOST).astype(np.float32)
        noise = self.normal * highest
        for coefficient in lower[:-1]:
            noise += coefficient
            noise *= self.normal
        noise += lower[-1]
        return noise


def noise_of(observed: Observed, shape: Floats, rng: CommonNormals) -> Noise:
    """The noise of a measure's values; shape: the observed values over their norm, (n_points,)."""
    measure, view, around, effective = observed.measure, observed.view, observed.around(), observed.effective
    if around.known is None:
        covariance = measure.covariance(view, observed.factor)
        scatter = own_number_law(Scatter.of(around, measure.matrix, effective))
        law = scaled_law(scatter, np.maximum(np.diag(covariance), 0.0)).law  # rounding may have left it slightly below 0
        law = _tamed(law, effective)
        return Noise(*_draws(observed, covariance, 1.0, shape, rng), lambda _: law, fixed=True)
    background = observed.background()
    depend = Dependence.of(around, measure.matrix, effective)
    side, own = rate_law(depend, np.full(len(effective), background.alike), BORROWED_EVENTS)
    share = float(np.median(own))
    covariance = depend.covariance(around, share, background.alike)
    law_at = _rate_laws(measure, view, background.rate, around.cubes, side)
    return Noise(*_draws(observed, covariance, share, shape, rng), law_at, fixed=False)


def _tamed(law: Law, effective: Floats) -> Law:
    """Values that rest on hardly anybody, at the ends of the scores, with the degrees of freedom of the others or of a few users.

    They are next to nothing in a norm over everybody; with half a degree of freedom their draws would still be all of it.
    """
    few = effective < FEWEST_USERS
    least = min(FEWEST_USERS - 1, float(np.median(law.df)))
    return replace(law, noise=np.where(few, np.minimum(law.noise, 2 * law.variance**2 / least), law.noise))


def _draws(
    observed: Observed, covariance: Floats, told: float, shape: Floats, rng: CommonNormals
) -> tuple[NDArray[np.float32], Floats]:
    """Standard normal draws of the values, and what the weights of the points do to the norm.

    told: how much of the covariance is what users' residuals show; only that can go with their weights.
    """
    corr, measure, view = correlation(covariance), observed.measure, observed.view
    if measure.share is None:
        return draw_standard(corr, rng, DRAWS), np.zeros(DRAWS)
    power = 2 if measure.norm == "l2" else 1
    pull = (np.abs(shape) ** power @ measure.share - 1) / view.total
    pairs = view.pairs
    mixed = told * observed.factor * (measure.matrix @ (pairs.yw @ pull) - measure.fitted @ (pairs.ww @ pull))
    deviation = standard_errors(covariance)
    varies = deviation > np.sqrt(ROUNDING) * deviation.max(initial=0.0)  # a cell with one person's row may have only rounding left
    mixed = np.divide(mixed, deviation, out=np.zeros_like(mixed), where=varies)
    joint = np.block([[corr, mixed[:, None]], [mixed[None, :], np.array([[pull @ pairs.ww @ pull]])]])
    drawn = draw_standard(joint, rng, DRAWS)
    return drawn[:, :-1], drawn[:, -1].astype(np.float64)


def _rate_laws(measure: Measure, view: GroupView, reached: Floats, cubes: Floats, side: RateLaw) -> Callable[[float], Law]:
    """Laws of 0/1 outcomes with the rate that a share of the way from the score to the rate reached would give."""
    squares, cubes = measure.matrix**2 * view.sums.V0, measure.matrix**2 * measure.matrix * cubes
    effect = _ratio(side.squares, squares.sum(axis=1))
    third_effect = _ratio(side.cubes, cubes.sum(axis=1))
    score = np.clip(view.score, 0, 1)
    values = measure.values(view)

    def law_at(share: float) -> Law:
        rate = np.clip(score + share * (reached - score), 0, 1)
        variance = squares @ rate_spread(rate) * effect
        third = cubes @ (rate_spread(rate) * (1 - 2 * rate)) * third_effect
        noise = side.noise * variance**2
        if measure.share is None:  # not a mean given the score: where people have their scores is part of the noise
            moved = measure.matrix * (rate - score) - share * values[:, None] / view.total
            variance = variance + np.einsum("jc,jc->j", moved @ view.pairs.ww, moved)
        return Law(variance, third, side.followed * third, noise)

    return law_at


def _ratio(top: Floats, bottom: Floats) -> Floats:
    return np.divide(top, bottom, out=np.ones_like(top), where=bottom != 0)


def possible_rates(observed: Observed, z: float) -> list[Floats]:
    """Rates at the cells, (n_cells,), that the number of events still allows: the score's times as much, and so for non-events.

    No events among 30 allow a rate of 10 %, whatever the curve that was seen looks like.
    """
    view = observed.view
    if not view.tally.binary:
        return []
    mean = np.full((1, len(view.score)), 1 / view.total)
    depend = Dependence.of(observed.around(), mean, effective_users(view, mean))
    side, _ = rate_law(depend, np.array([observed.background().alike]), BORROWED_EVENTS)
    level = mean @ view.sums.Y
    half = side.squares / 2  # of an event, as numbers of events come in steps
    low, high = float(side.limits(level - half, z)[0][0]), float(side.limits(level + half, z)[1][0])
    score = np.clip(view.score, 0, 1)
    expected = float(mean[0] @ (view.sums.W * score))
    rates = []
    if 0 < expected < high:
        rates.append(np.minimum(score * high / expected, 1))
    if low < expected < 1:
        rates.append(1 - np.minimum((1 - score) * (1 - low) / (1 - expected), 1))
    return rates
