"""The other side of a threshold: do outcomes without the positive decision go beyond those at the threshold?

That marginal outcomes decide about fairness, and that new thresholds act like a calibrated score, rests on their not doing so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evenscore.estimation.gaps import MIN_EFFECTIVE as MIN_POINT
from evenscore.estimation.gaps import ROUNDING, SKEWNESS
from evenscore.estimation.inference import PValue, correlation, draw_normal, empirical_p, seeded
from evenscore.estimation.laws import Law
from evenscore.estimation.multiplicity import holm
from evenscore.estimation.one_side import side_spread, user_correlation
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.spreads import RateLaw
from evenscore.marginal.boundary import ONE_SIDED
from evenscore.marginal.cut import Cut
from evenscore.marginal.marginal_result import OtherSide
from evenscore.ratios import ratio
from evenscore.tallies.view import GroupView
from evenscore.types import Floats
from evenscore.wording import figures

LEVELS = np.linspace(0.05, 0.95, 20)
DRAWS = 2000


def check_other_side(
    views: Sequence[GroupView], cuts: Sequence[Cut], direction: int, smoothing: Smoothing | None, *, alpha: float, seed: int
) -> tuple[OtherSide, ...]:
    """Every group; direction: 1 when outcomes should be lower there than at the threshold, -1 when higher."""
    sides = [_check(view, cuts[index], direction, smoothing, seeded(seed, index, 7)) for index, view in enumerate(views)]
    adjusted = holm([side.p_value for side in sides])
    return tuple(_in_words(side, float(p), direction, alpha) for side, p in zip(sides, adjusted, strict=True))


def _check(view: GroupView, cut: Cut, direction: int, smoothing: Smoothing | None, rng: np.random.Generator) -> OtherSide:
    """The largest excess over the marginal outcome in standard errors, and how often noise alone gives as much."""
    group, beyond, positive = view.label, view.only(cut.outside), view.only(cut.inside)
    outside, inside = beyond.sums, positive.sums
    if not outside.W.any():
        return OtherSide(group, reason="no outcomes are known on the other side of the threshold")
    if not inside.W.any():
        return OtherSide(group, reason="no outcomes are known on the positive side")
    points = outside.position[outside.W > 0] if smoothing is None else np.unique(beyond.quantiles(LEVELS))
    wide = smoothing or Smoothing(bandwidth=1.0)
    there = wide.at(wide.h / ONE_SIDED).smoother(beyond, points)  # most points see both of their sides
    here = wide.smoother(positive, np.array([cut.position]))
    # A smoother has weights for empty cells too, which the other side's people must not get.
    matrix = np.concatenate([there.matrix * (outside.W > 0), here.matrix * (inside.W > 0)])
    both = view.at(view.used)
    matrix = matrix[:, both.cells]
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = both.effective_users(matrix)
        enough = (effective >= MIN_POINT) & np.isfinite(effective)  # without anybody near it would be infinite
    keep = enough[:-1]
    if not (keep.any() and enough[-1]):
        return OtherSide(group, reason=f"fewer than {MIN_POINT} effective users on the other side of the threshold, or at it")
    kept = np.append(keep, True)
    level = np.concatenate([there.curve(outside.Y, outside.tilt)[keep], here.curve(inside.Y, inside.tilt)])
    fit = np.where(outside.W > 0, wide.at(wide.h / ONE_SIDED).fit_at(beyond), here.local_fit(inside.Y)[0])[both.cells]
    if view.tally.binary:
        level, fit = np.clip(level, 0, 1), np.clip(fit, 0, 1)
    law, spread = _differences(both, matrix[kept], level, fit, direction)
    excess = direction * (level[:-1] - level[-1])
    known = law.variance > ROUNDING * float(both.sums.Y2.sum() / both.sums.W.sum()) / effective[kept][:-1]
    if not known.any():
        return OtherSide(group, reason="the outcomes do not vary")
    known &= np.abs(law.skewness) <= SKEWNESS[1]
    if not known.any():
        return OtherSide(group, reason="too few events, or too skewed outcomes, to tell what chance may have done")
    z = law.at(known).z(excess[known])
    maxima = draw_normal(correlation(spread[np.ix_(known, known)]), rng, DRAWS).max(axis=1)
    worst = int(np.argmax(z))
    p = empirical_p(maxima, float(z[worst]), lambda x: _tail(x, len(z))) if z[worst] > 0 else PValue(1.0, "draws")
    at_score = float(cut.lattice.to_score(points[keep][known][[worst]])[0])
    return OtherSide(group, float(excess[known][worst]), at_score, p.value)


def _differences(view: GroupView, matrix: Floats, level: Floats, fit: Floats, direction: int) -> tuple[Law, Floats]:
    """How the levels but the last less the last one are distributed, if they were equal, and their covariance (n, n)."""
    side, corr = side_spread(view, matrix, fit, level, user_correlation([view], [fit]))
    last = np.full(len(level) - 1, len(level) - 1)
    first = np.arange(len(last))
    at_first, at_last = side.at(first), side.at(last)
    law_one, law_two = at_first.law, at_last.law
    if isinstance(at_first, RateLaw) and isinstance(at_last, RateLaw):
        share = ratio(at_last.squares, at_first.squares + at_last.squares, 0.5)
        common = share * level[:-1] + (1 - share) * level[-1]
        law_one, law_two = at_first.with_rate(common), at_last.with_rate(common)
    law = law_one.minus(law_two, corr[:-1, -1] * law_one.se * law_two.se)
    contrast = np.column_stack([np.eye(len(last)), -np.ones(len(last))])
    se = np.append(law_one.se, law_two.se.max(initial=0.0))
    spread = contrast @ (corr * np.outer(se, se)) @ contrast.T
    return law if direction > 0 else law.turned, spread


def _tail(z: float, n: int) -> float:
    from scipy import special

    return min(1.0, n * float(special.ndtr(-z)))


def _in_words(side: OtherSide, p_value: float, direction: int, alpha: float) -> OtherSide:
    if np.isnan(p_value):
        return side
    way, against = ("above", "rise") if direction > 0 else ("below", "fall")
    if p_value <= alpha:
        excess = figures(abs(side.excess))
        reason = (
            f"on the other side, at score {figures(side.at_score)}, outcomes lie {excess} {way} those at the threshold: "
            "deciding by this score passes over people who do better"
        )
    else:
        reason = f"on the other side outcomes are not shown to {against} beyond those at the threshold"
    return replace(side, p_value=p_value, reason=reason)
