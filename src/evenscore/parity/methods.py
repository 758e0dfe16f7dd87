"""The tests: what each makes of the processes along the score, and how draws of them become a p-value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from evenscore.estimation.comparison import Comparison
from evenscore.estimation.gaps import Judged, Process, judgeable, tame
from evenscore.estimation.inference import (
    RESOLVED,
    CommonNormals,
    PValue,
    Singles,
    SupTail,
    correlation,
    draw_standard,
    empirical_p,
    quadratic_tail,
)
from evenscore.estimation.laws import blocks, within
from evenscore.estimation.multiplicity import benjamini_hochberg, bonferroni, draw_ranks, holm
from evenscore.estimation.nulls import Null
from evenscore.estimation.pairwise import POWER
from evenscore.estimation.shifted import RowsAlike, Shifted
from evenscore.estimation.spreads import RateLaw
from evenscore.types import Floats, Ints, Mask

CORRECTIONS = {"bonferroni": bonferroni, "holm": holm, "bh": benjamini_hochberg}
# Which statistics a method looks at, and the share of the level that each gets. The supremum finds local gaps, the sum of squares
# slopes, and sums of residuals up to a score the small shifts of rare outcomes, of which no score has many events.
COMPONENTS = {
    "sup": {"sup": 1.0},
    "multiscale": {"multiscale": 1.0},
    "l2": {"l2": 1.0},
    "cumulative": {"cumulative": 1.0},
    "combined": {"sup": 0.6, "l2": 0.2, "cumulative": 0.2},
}
KINDS = {"sup": "gap", "l2": "gap", "multiscale": "multiscale", "cumulative": "cumulative"}
METHODS = (*COMPONENTS, *CORRECTIONS)
AUTO = "combined"
POWER_SHARE = 5  # of the draws one in so many shows with which probability a gap is found
FIRST_GAP, MOST_GAPS = 3.5, 2.0**12  # standard errors: the first gap tried, and how many times as much is the last
LEAST_SHARE = 5e-4
STEPS, CLOSE = 14, 0.02  # towards the gap that is found with a power: a share of the gap, or of a normal quantile


@dataclass(frozen=True, slots=True)
class Component:
    """One statistic: which columns of the stacked process it reads, and what it makes of them when standardised.

    size: (n,), what the values count in the largest of them; None where it is the sum of their squares. tail: its far tail.
    share: of the level, when there are several.
    """

    name: str
    columns: slice
    size: Floats | None
    tail: Callable[[float], float]
    share: float = 1.0

    def value(self, z: Floats | Singles) -> Floats:
        """The statistic, (...), of normal quantiles (..., n), in their precision."""
        values = z.T  # as draws lie in memory, so that sums run along them
        if self.size is None:
            return np.asarray(np.einsum("j...,j...->...", values, values))
        if not (self.size == 1).all():
            values = (values.T * self.size.astype(z.dtype)).T
        return np.asarray(np.abs(values).max(axis=0))


@dataclass(frozen=True)
class Evidence:
    """All that a method looks at for one comparison.

    comparison: None where there are no two sides. z: (n,) observed; corr: (n, n); matrix_a, matrix_b: (n, n_cells), with se_a,
    se_b: (n,), for joint draws. process: what z is of, null: around which, and share: the weight of side a in the pooled curve, for
    what a gap would do.
    """

    comparison: Comparison | None
    components: tuple[Component, ...]
    z: Floats
    corr: Floats
    matrix_a: Floats
    matrix_b: Floats
    se_a: Floats
    se_b: Floats
    process: Process | None = None
    share: float = 0.5
    null: Null | None = None

    @cached_property
    def first(self) -> Process:
        """The values that the first component looks at: of several the gap itself."""
        assert self.process is not None
        return self.process.at(self.components[0].columns)

    @property
    def signs(self) -> tuple[float, ...]:
        """The signs of a gap to imagine: of rates that which takes the smaller side nearer to one half, else both.

        Skewed outcomes hide a gap in one direction and not in the other; which group is higher nobody knows beforehand.
        """
        small = self.first.side_a if self.share < 0.5 else self.first.side_b
        if not isinstance(small, RateLaw):
            return (1.0, -1.0)
        rare = float(np.median(small.rate)) < 0.5
        return (1.0 if rare == (self.share < 0.5) else -1.0,)

    def statistics(self, z: Floats | Singles) -> Floats:
        """The statistic of each component, (n_components,) or, of draws, (draws, n_components); those of one lie side by side."""
        return np.array([component.value(z[..., component.columns]) for component in self.components]).T

    @property
    def shares(self) -> Floats:
        """The share of the level that each component gets, (n_components,)."""
        return np.array([component.share for component in self.components])

    def minima(self, statistics: Floats) -> Floats:
        """For each draw the smallest p-value of its components, each over its share, (draws,)."""
        return np.asarray((draw_ranks(statistics) / self.shares).min(axis=1))

    def single(self, statistics: Floats) -> Floats:
        """One statistic for each draw, (draws,): the component's own, or minus the smallest p-value of the components."""
        return statistics[:, 0] if len(self.components) == 1 else -self.minima(statistics)


def components_of(*methods: str) -> dict[str, float]:
    """What these methods look at, with the shares of the level; corrections look at the gap, as sup does."""
    if len(methods) == 1:
        return COMPONENTS.get(methods[0], COMPONENTS["sup"])
    return dict.fromkeys((name for method in methods for name in components_of(method)), 1.0)


def kinds_of(shares: Mapping[str, float]) -> list[str]:
    """The kinds of processes that these components look at, and the gap, which tells where a comparison can be judged."""
    return list(dict.fromkeys(["gap", *(KINDS[name] for name in shares)]))


def gather(shares: Mapping[str, float], judged: Sequence[Judged]) -> list[Evidence]:
    """For each comparison the evidence for methods with these components, of which ``kinds_of`` were estimated."""
    return [_evidence(own, shares) for own in judged]


def _evidence(judged: Judged, shares: Mapping[str, float]) -> Evidence:
    look, estimates = judged.look, judged.estimates
    kinds = {name: "gap" if KINDS[name] == "multiscale" and look.comparison.unsmoothed else KINDS[name] for name in shares}
    chosen = {kind: _chosen(judged, kind) for kind in dict.fromkeys(kinds.values())}
    columns = dict(zip(chosen, blocks(map(len, chosen.values())), strict=True))
    process = estimates.whole.at(_run(np.concatenate(list(chosen.values()))))
    components = [_component(name, share, columns[kinds[name]], process) for name, share in shares.items()]
    a, b = look.comparison.sides
    return Evidence(
        comparison=look.comparison,
        components=tuple(components),
        z=process.z,
        corr=correlation(process.covariance),
        matrix_a=process.matrix_a,
        matrix_b=process.matrix_b,
        se_a=process.side_a.law.se,
        se_b=process.side_b.law.se,
        process=process,
        share=a.total / (a.total + b.total),
        null=look.null,
    )


def _run(numbers: Ints) -> Ints | slice:
    """Ascending numbers, as a slice where they are without a hole: nothing is copied then."""
    whole = len(numbers) > 0 and numbers[-1] - numbers[0] == len(numbers) - 1
    return slice(int(numbers[0]), int(numbers[-1]) + 1) if whole else numbers


def _chosen(judged: Judged, kind: str) -> Ints:
    """The numbers of the values of one kind that can be judged, among all that were estimated."""
    place = judged.estimates.places[kind]
    if kind == "gap":
        return place.start + np.flatnonzero(judged.keep)
    if kind == "cumulative":
        variance = judged.estimates.whole.law.variance[place]
        return place.start + np.flatnonzero(variance > 1e-12 * variance.max())
    process = judged.estimates[kind]
    return place.start + np.flatnonzero(tame(process, judgeable(process, judged.look.comparison)))


def _component(name: str, share: float, columns: slice, stacked: Process) -> Component:
    def corr() -> Floats:  # which only far tails need
        return correlation(stacked.at(columns).covariance)

    if name == "l2":
        return Component(name, columns, None, lambda x: quadratic_tail(x, np.asarray(np.linalg.eigvalsh(corr()))), share)
    # Cumulative sums, not their ratio to a standard error: early sums rest on few users and would dominate.
    se = stacked.se[columns]
    size = se / se.max() if name == "cumulative" else np.ones(len(se))
    return Component(name, columns, size, lambda x: SupTail.of(corr())(x), share)


@dataclass(frozen=True)
class Drawn:
    """What a method looks at in draws without a gap: noise, (draws, n), and statistics, (draws, n_components)."""

    evidence: Evidence
    noise: Singles
    statistics: Floats

    @cached_property
    def ordered(self) -> Floats:
        """The statistics of each component in ascending order, (n_components, draws)."""
        return np.sort(self.statistics.T, axis=1)

    def beyond(self, p: float) -> Mask:
        """In which draws a component has at most this p-value over its share, (draws,)."""
        n_draws = len(self.statistics)
        counts = np.minimum(np.floor(p * self.evidence.shares * n_draws + 1e-9).astype(int), n_draws)
        least = (own[n_draws - count] if count else np.inf for own, count in zip(self.ordered, counts, strict=True))
        return np.asarray((self.statistics >= np.fromiter(least, self.statistics.dtype)).any(axis=1))

    def critical(self, alpha: float) -> float:
        """The p-value over the share that a component of so many draws has at most."""
        n_draws, shares = len(self.statistics), self.evidence.shares
        rank = max(int(alpha * n_draws) - 1, 0)
        # The component with the largest share alone has so many draws there: no others need be ranked.
        low = self.statistics[self.beyond((rank + 1) / (n_draws * shares.max()))]
        ranks = [n_draws - np.searchsorted(own, values) for own, values in zip(self.ordered, low.T, strict=True)]
        minima = (np.array(ranks) / (n_draws * shares[:, None])).min(axis=0)
        return float(np.partition(minima, rank)[rank])

    @property
    def p_value(self) -> PValue:
        """The p-value of the observed statistics among them."""
        observed, components = self.evidence.statistics(self.evidence.z), self.evidence.components
        p_values = [
            empirical_p(self.statistics[:, number], float(observed[number]), component.tail)
            for number, component in enumerate(components)
        ]
        if len(p_values) == 1:
            return p_values[0]
        # Among several, the smallest p-value over its share is compared with the same of the draws; where these are too few to
        # tell, Bonferroni with those shares is safe.
        smallest = min(p.value / component.share for p, component in zip(p_values, components, strict=True))
        beyond, n_draws = int(self.beyond(smallest).sum()), len(self.statistics)
        if beyond >= RESOLVED:
            return PValue((beyond + 1) / (n_draws + 1), "draws")
        return PValue(min(smallest, (beyond + 1) / (n_draws + 1)), "tail")


def draw(evidence: Evidence, rng: np.random.Generator | CommonNormals, draws: int) -> Drawn:
    """Draws of the standardised process under the null."""
    noise = draw_standard(evidence.corr, rng, draws)
    return Drawn(evidence, noise, evidence.statistics(noise))


def _normal_quantile(p: Floats) -> Floats:
    from scipy import special

    return np.asarray(special.ndtri(p))


def family(methods: Sequence[str], drawn: Drawn, z: Floats) -> dict[str, float]:
    """The p-value of each method from one set of draws; z: (n_points,) is the gap in standard errors."""
    p_values, evidence = {}, drawn.evidence
    for method in methods:
        if method in CORRECTIONS:
            p_values[method] = float(correct_points(method, z).min())
            continue
        shares = COMPONENTS[method]
        chosen = [number for number, component in enumerate(evidence.components) if component.name in shares]
        kept = (evidence.components[number] for number in chosen)
        components = replace(evidence, components=tuple(replace(component, share=shares[component.name]) for component in kept))
        p_values[method] = Drawn(components, drawn.noise, drawn.statistics[:, chosen]).p_value.value
    return p_values


def correct_points(method: str, z: Floats) -> Floats:
    """P-values at single points, adjusted by the paper's Bonferroni (or Holm, or Benjamini-Hochberg) correction."""
    from scipy import special

    return CORRECTIONS[method](2 * special.ndtr(-np.abs(z)))


def detectable_gaps(method: str, drawn: Sequence[Drawn], alpha: float, power: float = POWER) -> Floats:
    """For each comparison the constant gap that the test finds with probability ``power``, by bisection on draws of the process
    and its statistics."""
    evidences = [own.evidence for own in drawn]
    shifted, places = shifted_by_gaps(evidences), blocks(len(evidence.z) for evidence in evidences)
    rejections = [_rejection(method, own, alpha) for own in drawn]
    noise = [own.noise[: len(own.statistics) // POWER_SHARE] for own in drawn]
    signs = np.array([evidence.signs for evidence in evidences]).T  # as many for each, as outcomes are of one kind

    def found(gaps: Floats, asked: Mask) -> Floats:
        """With which probability gaps are found, in normal quantiles; any number where nobody asks."""
        shares = np.ones(len(gaps))
        for sign in signs:
            parabolas = shifted.parabolas(np.repeat(sign * gaps, [len(evidence.z) for evidence in evidences]))
            for number in np.flatnonzero(asked):
                z = seen(parabolas[:, places[number]], noise[number])
                shares[number] = min(shares[number], rejections[number](z).mean())
        return _quantile_of(shares)

    firsts = [evidence.first for evidence in evidences]
    with np.errstate(divide="ignore"):
        start = np.array([FIRST_GAP * float(np.min(first.se / np.abs(first.shift))) for first in firsts])
    return _where_reached(found, alpha, power, start)


def shifted_by_gaps(evidences: Sequence[Evidence]) -> Shifted:
    """What a gap would do to all values of these comparisons, end to end."""
    processes, alike = [], []
    for evidence in evidences:
        assert evidence.process is not None and evidence.null is not None
        processes.append(evidence.process)
        alike.append(RowsAlike.of(evidence.first, evidence.null))
    return Shifted.of(processes, alike, [evidence.share for evidence in evidences])


def seen(parabolas: Floats, noise: Singles) -> Singles:
    """What draws of noise, (draws, n), make of z if there were the gap that these are of, (3, n)."""
    drawn = noise.T
    level, slope, bend = parabolas[:, :, None].astype(noise.dtype)
    z = drawn * bend
    z += slope
    z *= drawn
    z += level
    return z.T


def _rejection(method: str, drawn: Drawn, alpha: float) -> Callable[[Singles], Mask]:
    """Which draws of z, (draws, n), a test rejects, (draws,)."""
    evidence = drawn.evidence
    if method in CORRECTIONS:
        # The smallest adjusted p-value is below alpha: for Bonferroni and Holm when the largest |z| is beyond alpha / n, for
        # Benjamini-Hochberg when for some k the k-th largest is beyond k alpha / n.
        n = drawn.noise.shape[1]
        allowed = alpha * (np.arange(1, n + 1) if method == "bh" else np.ones(n)) / n
        limits = -_normal_quantile(allowed / 2)
        return lambda z: np.asarray((-np.sort(-np.abs(z), axis=1) >= limits).any(axis=1))
    # A component rejects when at most this many draws are as large, so when it is beyond the next one.
    n_draws = len(drawn.statistics)
    beyond = np.minimum(np.floor(drawn.critical(alpha) * evidence.shares * n_draws + 1e-9).astype(int), n_draws - 1)
    levels = drawn.ordered[np.arange(len(beyond)), n_draws - 1 - beyond]
    return lambda z: np.asarray((evidence.statistics(z) > levels).any(axis=1))


def _where_reached(found: Callable[[Floats, Mask], Floats], alpha: float, power: float, start: Floats) -> Floats:
    """The gaps from which on probabilities that rise with them, from alpha at none, are at least the power, (n,).

    found: makes them of gaps, in normal quantiles, where a mask says so. Of a normal statistic they are nearly straight there, so
    that a line through the bracket hits the power soon.
    """
    goal, low, at_low = float(_quantile_of(power)), np.zeros_like(start), np.full_like(start, _quantile_of(alpha))
    high, at_high = start, found(start, np.ones(len(start), dtype=bool))
    while (short := (at_high < goal) & (high < MOST_GAPS * start)).any():
        low, high, at_low = np.where(short, high, low), np.where(short, 2 * high, high), np.where(short, at_high, at_low)
        at_high = np.where(short, found(high, short), at_high)
    reached = at_high >= goal  # a rate leaves room for gaps up to 1 only, and where users are few that may not be enough
    for _ in range(STEPS):
        wide = reached & (high - low > CLOSE * high) & (at_high - goal > CLOSE)
        if not wide.any():
            break
        line = (goal - at_low) / np.maximum(at_high - at_low, CLOSE)
        middle = low + within(line + CLOSE, 0.1, 0.9) * (high - low)  # rather beyond: the end is the answer
        at_middle = found(middle, wide)
        short, beyond = wide & (at_middle < goal), wide & (at_middle >= goal)
        low, at_low = np.where(short, middle, low), np.where(short, at_middle, at_low)
        high, at_high = np.where(beyond, middle, high), np.where(beyond, at_middle, at_high)
    return np.where(reached, high, np.inf)


def _quantile_of(share: Floats | float) -> Floats:
    """Of a share of draws, all of which say no more than that it is nearly 1."""
    return _normal_quantile(np.clip(share, LEAST_SHARE, 1 - LEAST_SHARE))
