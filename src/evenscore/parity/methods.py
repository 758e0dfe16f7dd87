"""The tests: what each makes of the processes along the score, and how draws of them become a p-value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenscore.estimation.comparison import Comparison
from evenscore.estimation.gaps import Process, cumulative, judgeable, multiscale, tame
from evenscore.estimation.inference import RESOLVED, PValue, correlation, draw_normal, empirical_p, quadratic_tail, sup_tail
from evenscore.estimation.multiplicity import benjamini_hochberg, bonferroni, draw_ranks, holm
from evenscore.estimation.nulls import Null
from evenscore.estimation.pairwise import POWER
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.spreads import RateLaw
from evenscore.types import Floats

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
POWER_DRAWS = 1000


@dataclass(frozen=True, slots=True)
class Component:
    """One statistic: which columns of the stacked process it reads, and what it makes of them when standardised.

    value: from normal quantiles (..., n) to (...). tail: its far tail. share: of the level, when there are several.
    """

    name: str
    columns: slice
    value: Callable[[Floats], Floats]
    tail: Callable[[float], float]
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a method looks at for one comparison.

    z: (n,) observed; corr: (n, n); matrix_a, matrix_b: (n, n_cells), with se_a, se_b: (n,), for joint draws. processes: what z is
    of, one after the other, and share: the weight of side a in their pooled curve, for what a gap would do.
    """

    components: tuple[Component, ...]
    z: Floats
    corr: Floats
    matrix_a: Floats
    matrix_b: Floats
    se_a: Floats
    se_b: Floats
    processes: tuple[Process, ...] = ()
    share: float = 0.5

    def z_of_gap(self, gap: float, noise: Floats) -> Floats:
        """What draws of noise, (draws, n), make of z if there were a constant gap."""
        start, z = 0, []
        for process in self.processes:
            columns = slice(start, start + len(process.values))
            z.append(process.z_of_gap(gap, self.share, noise[:, columns]))
            start = columns.stop
        return np.concatenate(z, axis=1)

    @property
    def likelier(self) -> float:
        """The sign of the gap that is easier to imagine: the smaller side nearer to one half."""
        gap = self.processes[0]
        small = gap.side_a if self.share < 0.5 else gap.side_b
        rare = not isinstance(small, RateLaw) or float(np.median(small.rate)) < 0.5
        return 1.0 if rare == (self.share < 0.5) else -1.0

    def statistics(self, z: Floats) -> Floats:
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
            variance = np.diag(process.covariance)
            process = process.at(variance > 1e-12 * variance.max())
        columns = slice(start, start + len(process.values))
        start = columns.stop
        own = columns if process is gap else own
        processes.append(process)
        components.append(replace(_component(name, columns, process), share=share))
    covariance = _stack_covariance(processes, null)
    matrix_a, matrix_b = (np.concatenate([getattr(p, side) for p in processes]) for side in ("matrix_a", "matrix_b"))
    se_a, se_b = (np.concatenate([getattr(p, side).law.se for p in processes]) for side in ("side_a", "side_b"))
    z = np.concatenate([process.z for process in processes])
    weight_a, weight_b = comparison.a.total, comparison.b.total
    return Evidence(
        components=tuple(components),
        z=z,
        corr=correlation(covariance),
        matrix_a=matrix_a,
        matrix_b=matrix_b,
        se_a=se_a,
        se_b=se_b,
        processes=tuple(processes),
        share=weight_a / (weight_a + weight_b),
    )


def _stack_covariance(processes: list[Process], null: Null) -> Floats:
    """The covariance of several processes together."""
    if len(processes) == 1:
        return processes[0].covariance
    a, b = (np.concatenate([getattr(process, side) for process in processes]) for side in ("matrix_a", "matrix_b"))
    return null.spread(a, b).covariance


def _component(name: str, columns: slice, process: Process) -> Component:
    if name == "l2":
        corr = correlation(process.covariance)
        return Component(name, columns, _sum_of_squares, lambda x: quadratic_tail(x, np.asarray(np.linalg.eigvalsh(corr))))
    if name == "cumulative":
        # Sums, not their ratio to a standard error: early sums rest on few users and would dominate.
        size = process.se / process.se.max()
        corr = correlation(process.covariance)
        return Component(name, columns, lambda z: np.abs(z * size).max(axis=-1), lambda x: sup_tail(x, corr))
    corr = correlation(process.covariance)
    return Component(name, columns, _largest, lambda x: sup_tail(x, corr))


def _largest(z: Floats) -> Floats:
    return np.abs(z).max(axis=-1)


def _sum_of_squares(z: Floats) -> Floats:
    return (z * z).sum(axis=-1)


def draw_statistics(evidence: Evidence, rng: np.random.Generator, draws: int) -> tuple[Floats, Floats]:
    """Draws of the standardised process under the null, (draws, n), and of the components' statistics, (draws, n_components)."""
    noise = draw_normal(evidence.corr, rng, draws)
    return noise, evidence.statistics(noise)


def p_value(evidence: Evidence, statistics: Floats) -> PValue:
    """The p-value of the observed statistics among draws of them, (draws, n_components)."""
    observed = evidence.statistics(evidence.z)
    p_values = [
        empirical_p(statistics[:, number], float(observed[number]), component.tail)
        for number, component in enumerate(evidence.components)
    ]
    if len(p_values) == 1:
        return p_values[0]
    # Among several, the smallest p-value over its share is compared with the same of the draws; where these are too few to tell,
    # Bonferroni with those shares is safe.
    smallest = min(p.value / component.share for p, component in zip(p_values, evidence.components, strict=True))
    minima = evidence.minima(statistics)
    beyond = int((minima <= smallest).sum())
    if beyond >= RESOLVED:
        return PValue((beyond + 1) / (len(minima) + 1), "draws")
    return PValue(min(smallest, (beyond + 1) / (len(minima) + 1)), "tail")


def _normal_quantile(p: Floats) -> Floats:
    from scipy import special

    return np.asarray(special.ndtri(p))


def family(methods: Sequence[str], evidence: Evidence, statistics: Floats, z: Floats) -> dict[str, float]:
    """The p-value of each method from one set of draws; z: (n_points,) is the gap in standard errors."""
    p_values = {}
    for method in methods:
        if method in CORRECTIONS:
            p_values[method] = float(correct_points(method, z).min())
            continue
        shares = COMPONENTS[method]
        chosen = [number for number, component in enumerate(evidence.components) if component.name in shares]
        kept = (evidence.components[number] for number in chosen)
        components = replace(evidence, components=tuple(replace(component, share=shares[component.name]) for component in kept))
        p_values[method] = p_value(components, statistics[:, chosen]).value
    return p_values


def correct_points(method: str, z: Floats) -> Floats:
    """P-values at single points, adjusted by the paper's Bonferroni (or Holm, or Benjamini-Hochberg) correction."""
    from scipy import special

    return CORRECTIONS[method](2 * special.ndtr(-np.abs(z)))


def detectable_gap(method: str, evidence: Evidence, noise: Floats, statistics: Floats, alpha: float, power: float = POWER) -> float:
    """The constant gap that the test finds with probability ``power``, by bisection on draws of the process and its statistics."""
    few, sign = noise[:POWER_DRAWS], evidence.likelier
    if method in CORRECTIONS:
        # The smallest adjusted p-value is below alpha: for Bonferroni and Holm when the largest |z| is beyond alpha / n, for
        # Benjamini-Hochberg when for some k the k-th largest is beyond k alpha / n.
        n = few.shape[1]
        allowed = alpha * (np.arange(1, n + 1) if method == "bh" else np.ones(n)) / n
        limits = -_normal_quantile(allowed / 2)

        def share(gap: float) -> float:
            ordered = -np.sort(-np.abs(evidence.z_of_gap(sign * gap, few)), axis=1)
            return float((ordered >= limits).any(axis=1).mean())

    else:
        minima = np.sort(evidence.minima(statistics))
        critical = minima[max(int(alpha * len(minima)) - 1, 0)]
        # A component rejects when at most this many draws are as large, so when it is beyond the next one.
        n_draws = len(statistics)
        beyond = np.minimum(np.floor(critical * evidence.shares * n_draws + 1e-9).astype(int), n_draws - 1)
        levels = np.sort(statistics, axis=0)[n_draws - 1 - beyond, np.arange(len(beyond))]

        def share(gap: float) -> float:
            return float((evidence.statistics(evidence.z_of_gap(sign * gap, few)) > levels).any(axis=1).mean())

    with np.errstate(divide="ignore"):
        low, high = 0.0, float(np.min(evidence.processes[0].se))
    for _ in range(60):
        if share(high) >= power:
            break
        high *= 2
    for _ in range(14):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle) < power else (low, middle)
    return high
