"""The tests: what each makes of the processes along the score, and how draws of them become a p-value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from evenscore.estimation.comparison import Comparison
from evenscore.estimation.gaps import Process, cumulative, judgeable, multiscale, stack_processes, tame
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
from evenscore.estimation.multiplicity import benjamini_hochberg, bonferroni, draw_ranks, holm
from evenscore.estimation.nulls import Null
from evenscore.estimation.pairwise import POWER
from evenscore.estimation.shifted import RowsAlike, Shifted
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.spreads import RateLaw
from evenscore.types import Floats, Mask

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
METHODS = (*COMPONENTS, *CORRECTIONS)
AUTO = "combined"
POWER_SHARE = 5  # of the draws one in so many shows with which probability a gap is found
FIRST_GAP, MOST_GAPS = 3.5, 2.0**60  # standard errors: the first gap tried, and how many times as much is the last
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
        """The statistic, (...), of normal quantiles (..., n)."""
        if self.size is None:
            doubles = z.astype(np.float64, copy=False)  # beforehand: in pieces, as the sum would do it, takes longer
            return np.asarray(np.einsum("...j,...j", doubles, doubles))
        sized = z if (self.size == 1).all() else z * self.size.astype(z.dtype)
        return np.asarray(np.maximum(sized.max(axis=-1), -sized.min(axis=-1)), dtype=np.float64)


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

    def seen(self, noise: Singles) -> Callable[[float], Singles]:
        """What draws of noise, (draws, n), make of z if there were such a constant gap."""
        shifted, drawn = self.shifted, noise.T

        def z(gap: float) -> Singles:
            level, slope, bend = shifted.parabolas(gap)[:, :, None].astype(noise.dtype)
            seen = drawn * bend
            seen += slope
            seen *= drawn
            seen += level
            return seen.T

        return z

    @cached_property
    def first(self) -> Process:
        """The values that the first component looks at: of several the gap itself."""
        assert self.process is not None
        return self.process.at(self.components[0].columns)

    @property
    def shifted(self) -> Shifted:
        """What a gap would do to all values."""
        assert self.process is not None and self.null is not None
        return Shifted.of(self.process, RowsAlike.of(self.first, self.null), self.share)

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
        """The statistic of each component, (..., n_components)."""
        return np.stack([component.value(z[..., component.columns]) for component in self.components], axis=-1)

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


def gather(
    shares: Mapping[str, float], gap: Process, comparison: Comparison, null: Null, points: Floats, smoothing: Smoothing
) -> Evidence:
    """The evidence for methods with these components, given the gap process at the points that can be judged."""
    processes: list[Process] = []
    components: list[Component] = []
    start = 0
    own: slice | None = None
    for name, share in shares.items():
        process = gap
        if own is not None and name in ("sup", "l2"):
            components.append(replace(_component(name, own, gap), share=share))
            continue
        if name == "multiscale" and not comparison.unsmoothed:
            process = multiscale(comparison, null, points, smoothing)
            process = process.at(tame(process, judgeable(process, comparison)))
        elif name == "cumulative":
            process = cumulative(comparison, null, smoothing.h)
            variance = process.law.variance
            process = process.at(variance > 1e-12 * variance.max())
        columns = slice(start, start + len(process.values))
        start = columns.stop
        own = columns if process is gap else own
        processes.append(process)
        components.append(replace(_component(name, columns, process), share=share))
    process = stack_processes(processes, null)
    weight_a, weight_b = comparison.a.total, comparison.b.total
    return Evidence(
        comparison=comparison,
        components=tuple(components),
        z=process.z,
        corr=correlation(process.covariance),
        matrix_a=process.matrix_a,
        matrix_b=process.matrix_b,
        se_a=process.side_a.law.se,
        se_b=process.side_b.law.se,
        process=process,
        share=weight_a / (weight_a + weight_b),
        null=null,
    )


def _component(name: str, columns: slice, process: Process) -> Component:
    def corr() -> Floats:  # which only far tails need
        return correlation(process.covariance)

    if name == "l2":
        return Component(name, columns, None, lambda x: quadratic_tail(x, np.asarray(np.linalg.eigvalsh(corr()))))
    # Cumulative sums, not their ratio to a standard error: early sums rest on few users and would dominate.
    size = process.se / process.se.max() if name == "cumulative" else np.ones(len(process.values))
    return Component(name, columns, size, lambda x: SupTail.of(corr())(x))


@dataclass(frozen=True)
class Drawn:
    """What a method looks at in draws without a gap: noise, (draws, n), and statistics, (draws, n_components)."""

    evidence: Evidence
    noise: Singles
    statistics: Floats

    @cached_property
    def minima(self) -> Floats:
        """For each draw the smallest p-value of the components, each over its share, (draws,)."""
        return self.evidence.minima(self.statistics)

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
        beyond = int((self.minima <= smallest).sum())
        if beyond >= RESOLVED:
            return PValue((beyond + 1) / (len(self.minima) + 1), "draws")
        return PValue(min(smallest, (beyond + 1) / (len(self.minima) + 1)), "tail")


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


def detectable_gap(method: str, drawn: Drawn, alpha: float, power: float = POWER) -> float:
    """The constant gap that the test finds with probability ``power``, by bisection on draws of the process and its statistics."""
    evidence, statistics = drawn.evidence, drawn.statistics
    z = evidence.seen(drawn.noise[: len(statistics) // POWER_SHARE])
    shown: Callable[[float], Mask]
    if method in CORRECTIONS:
        # The smallest adjusted p-value is below alpha: for Bonferroni and Holm when the largest |z| is beyond alpha / n, for
        # Benjamini-Hochberg when for some k the k-th largest is beyond k alpha / n.
        n = drawn.noise.shape[1]
        allowed = alpha * (np.arange(1, n + 1) if method == "bh" else np.ones(n)) / n
        limits = -_normal_quantile(allowed / 2)

        def shown(gap: float) -> Mask:
            return -np.sort(-np.abs(z(gap)), axis=1) >= limits

    else:
        rank = max(int(alpha * len(statistics)) - 1, 0)
        critical = np.partition(drawn.minima, rank)[rank]
        # A component rejects when at most this many draws are as large, so when it is beyond the next one.
        n_draws = len(statistics)
        beyond = np.minimum(np.floor(critical * evidence.shares * n_draws + 1e-9).astype(int), n_draws - 1)
        levels = np.array([np.partition(own, rank)[rank] for own, rank in zip(statistics.T, n_draws - 1 - beyond, strict=True)])

        def shown(gap: float) -> Mask:
            return evidence.statistics(z(gap)) > levels

    tested = evidence.first
    with np.errstate(divide="ignore"):
        start = FIRST_GAP * float(np.min(tested.se / np.abs(tested.shift)))

    signs = evidence.signs

    def found(gap: float) -> float:
        return min(float(shown(sign * gap).any(axis=1).mean()) for sign in signs)

    return _where_reached(found, alpha, power, start)


def _where_reached(share: Callable[[float], float], alpha: float, power: float, start: float) -> float:
    """The gap from which on a share that rises with it, from alpha at none, is at least the power.

    Of a normal statistic the share is nearly straight in normal quantiles, so that a line through the bracket hits it soon.
    """
    goal, low, at_low = _quantile_of(power), 0.0, _quantile_of(alpha)
    high, at_high = start, _quantile_of(share(start))
    while at_high < goal and high < MOST_GAPS * start:
        low, high, at_low = high, 2 * high, at_high
        at_high = _quantile_of(share(high))
    if at_high < goal:
        return np.inf  # a rate leaves room for gaps up to 1 only, and where users are few that may not be enough
    for _ in range(STEPS):
        if high - low <= CLOSE * high or at_high - goal <= CLOSE:
            break
        line = (goal - at_low) / max(at_high - at_low, CLOSE)
        middle = low + min(max(line + CLOSE, 0.1), 0.9) * (high - low)  # rather beyond: the end is the answer
        at_middle = _quantile_of(share(middle))
        if at_middle < goal:
            low, at_low = middle, at_middle
        else:
            high, at_high = middle, at_middle
    return high


def _quantile_of(share: float) -> float:
    """Of a share of draws, all of which say no more than that it is nearly 1."""
    return float(_normal_quantile(np.clip(share, LEAST_SHARE, 1 - LEAST_SHARE)))
