"""The parity test: do people with the same score have the same expected outcome, whatever their group?"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenscore.bandwidth import choose_bandwidth
from evenscore.curves import grid_positions, margins, residual_covariance, smooth_at
from evenscore.errors import OptionError, require_alpha, require_option
from evenscore.gaps import (
    MIN_EFFECTIVE,
    Gap,
    enough_users,
    estimate_gap,
    judgeable,
    outcome_square,
    pair_grid,
    require_inside,
)
from evenscore.inference import DRAWS, RESOLVED, correlation, draw_normal, empirical_p, quadratic_tail, sup_tail
from evenscore.multiplicity import holm, min_p
from evenscore.tables import Table, json_ready, label_text, p_text
from evenscore.tally import Tally, require_groups, require_tally
from evenscore.verdict import DISPARITY, INCONCLUSIVE, combine

Floats = NDArray[np.float64]

METHODS = ("sup", "l2")
AUTO = "sup"
COMPARISONS = ("pairs", "reference")
POWER = 0.8
JOINT_BYTES = 1 << 28

STATISTICS: dict[str, Callable[[Floats], Floats]] = {
    "sup": lambda z: np.abs(z).max(axis=-1),
    "l2": lambda z: (z * z).sum(axis=-1),
}


@dataclass(frozen=True, slots=True)
class PairTest:
    """The comparison of two groups.

    score, gap, se, band_low, band_high, p_points, effective_a, effective_b: (n_points,), gap = group_a minus group_b. left_out: grid
    points with too few users.
    """

    group_a: Any
    group_b: Any
    p_value: float = np.nan
    p_adjusted: float = np.nan
    p_source: str = "none"
    statistic: float = np.nan
    verdict: str = INCONCLUSIVE
    reason: str = ""
    bandwidth: float = np.nan
    minimum_detectable_gap: float = np.nan
    left_out: int = 0
    score: Floats = field(default_factory=lambda: np.zeros(0))
    gap: Floats = field(default_factory=lambda: np.zeros(0))
    se: Floats = field(default_factory=lambda: np.zeros(0))
    band_low: Floats = field(default_factory=lambda: np.zeros(0))
    band_high: Floats = field(default_factory=lambda: np.zeros(0))
    p_points: Floats = field(default_factory=lambda: np.zeros(0))
    effective_a: Floats = field(default_factory=lambda: np.zeros(0))
    effective_b: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def _largest(self) -> int | None:
        return int(np.argmax(np.abs(self.gap))) if len(self.gap) else None

    @property
    def max_gap(self) -> float:
        """The largest gap along the score, with its sign."""
        return float(self.gap[self._largest]) if self._largest is not None else np.nan

    @property
    def at_score(self) -> float:
        """The score at which the gap is largest."""
        return float(self.score[self._largest]) if self._largest is not None else np.nan

    def regions(self, alpha: float) -> list[dict[str, float]]:
        """Runs of grid points at which a gap of one sign is shown, for all points at once: limits, largest gap and where."""
        sign = np.where(self.p_points <= alpha, np.sign(self.gap), 0)
        ends = np.flatnonzero(np.diff(sign)) + 1
        found = []
        for start, end in zip([0, *ends], [*ends, len(sign)], strict=True):
            if start < end and sign[start] != 0:
                peak = start + int(np.argmax(np.abs(self.gap[start:end])))
                found.append(
                    {
                        "score_low": float(self.score[start]),
                        "score_high": float(self.score[end - 1]),
                        "gap": float(self.gap[peak]),
                        "at_score": float(self.score[peak]),
                    }
                )
        return found


@dataclass(frozen=True, slots=True, repr=False)
class ParityTest(Table):
    """The result of ``es.parity_test``."""

    pairs: tuple[PairTest, ...]
    method: str
    alpha: float
    weighting: str
    degree: int
    kernel: str
    adjustment: str
    independent: bool
    frame_kind: str | None = None

    @property
    def null(self) -> str:
        """What is tested, in words."""
        unit = "user" if self.weighting == "user" else "row"
        return f"people with the same score have the same expected outcome in every group (each {unit} weighs the same)"

    @property
    def p_value(self) -> float:
        """The smallest adjusted p-value; nan when no pair could be judged."""
        known = [pair.p_adjusted for pair in self.pairs if np.isfinite(pair.p_adjusted)]
        return min(known) if known else np.nan

    @property
    def verdict(self) -> str:
        """"disparity" or "inconclusive"."""
        return combine(pair.verdict for pair in self.pairs)

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        if self.verdict == DISPARITY:
            shown = [f"{label_text(pair.group_a)} and {label_text(pair.group_b)}" for pair in self.pairs if pair.verdict == DISPARITY]
            return "a gap is shown between " + "; ".join(shown)
        reasons = dict.fromkeys(pair.reason for pair in self.pairs if not np.isfinite(pair.p_value)) or {self._not_shown(): None}
        return "; ".join(reasons)

    def _not_shown(self) -> str:
        return (
            "no gap is shown; a constant gap of "
            f"{self.minimum_detectable_gap:.3g} or more would have been found with probability {POWER:g}"
        )

    @property
    def minimum_detectable_gap(self) -> float:
        """The constant gap that the test finds with probability .8 in each pair it could judge."""
        known = [pair.minimum_detectable_gap for pair in self.pairs if np.isfinite(pair.minimum_detectable_gap)]
        return max(known) if known else np.nan

    @property
    def max_gap(self) -> float:
        """The largest gap of all pairs, with its sign (group_a minus group_b)."""
        gaps = [pair.max_gap for pair in self.pairs if np.isfinite(pair.max_gap)]
        return max(gaps, key=abs) if gaps else np.nan

    @property
    def points(self) -> list[dict[str, Any]]:
        """One row for each pair and grid point."""
        names = ("score", "gap", "se", "band_low", "band_high", "p_points", "effective_a", "effective_b")
        columns = ("score", "gap", "se", "band_low", "band_high", "p_value", "effective_users_a", "effective_users_b")
        return [
            {"group_a": pair.group_a, "group_b": pair.group_b}
            | {column: float(value) for column, value in zip(columns, values, strict=True)}
            for pair in self.pairs
            for values in zip(*(getattr(pair, name) for name in names), strict=True)
        ]

    def rows(self) -> list[dict[str, Any]]:
        """One row a pair."""
        names = ("group_a", "group_b", "p_value", "p_adjusted", "max_gap", "at_score", "verdict")
        return [{name: getattr(pair, name) for name in names} for pair in self.pairs]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        names = ("method", "alpha", "weighting", "degree", "kernel", "adjustment", "null", "p_value", "verdict", "reason")
        return {name: json_ready(getattr(self, name)) for name in names} | {
            "minimum_detectable_gap": json_ready(self.minimum_detectable_gap),
            "max_gap": json_ready(self.max_gap),
            "pairs": [
                json_ready(row | {name: getattr(pair, name) for name in ("reason", "p_source", "bandwidth", "minimum_detectable_gap")})
                for row, pair in zip(self.rows(), self.pairs, strict=True)
            ],
            "points": json_ready(self.points),
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the gap of each pair along the score with its simultaneous band (needs matplotlib)."""
        from evenscore.report.figures import draw_gaps

        return draw_gaps(self, ax)

    def _title(self) -> str:
        return f"Parity test ({self.method}): {self.verdict}, p = {p_text(self.p_value)}"

    def _notes(self) -> list[str]:
        notes = [f"null: {self.null}", f"verdict: {self.verdict}, because {self.reason}"]
        if len(self.pairs) > 1:
            notes.append(f"p adjusted for {len(self.pairs)} pairs by {self.adjustment}")
        if any(pair.p_source == "tail" for pair in self.pairs):
            notes.append(f"p below {RESOLVED / DRAWS:g} is from a tail approximation, not from draws")
        for pair in self.pairs:
            if pair.left_out:
                name = f"{label_text(pair.group_a)} and {label_text(pair.group_b)}"
                notes.append(f"{name}: {pair.left_out} grid points left out, fewer than {MIN_EFFECTIVE} effective users in a group")
        return notes

    def _frame_kind(self) -> str | None:
        return self.frame_kind


@dataclass(frozen=True, slots=True)
class Options:
    """How to test; the same for every pair."""

    method: str
    alpha: float
    weighting: str
    degree: int
    kernel: str
    bandwidth: float | str
    grid: Floats | None
    seed: int


def parity_test(
    tally: Tally,
    *,
    method: str = "auto",
    alpha: float = 0.05,
    compare: str = "pairs",
    reference: Any = None,
    weighting: str = "user",
    degree: int = 1,
    kernel: str = "gaussian",
    bandwidth: float | str = "test",
    grid: ArrayLike | None = None,
    seed: int = 0,
) -> ParityTest:
    """Test whether people with the same score have the same expected outcome in every group.

    Parameters
    ----------
    method
        "sup" (the largest gap in standard errors along the score), "l2" (the sum of its squares), or "auto", which is "sup".
    compare, reference
        "pairs" compares all groups with each other, "reference" each with one group; naming a ``reference`` implies the latter.
    weighting
        "user": every user counts the same, however many rows; "row": every row does. Both respect users in the variance.
    bandwidth
        "test" (1.06 sd users^-1/5, shared by the two groups), another rule, or a number in units of the scale.
    grid
        Scores to look at; by default where both groups have people.
    """
    tally = require_tally(tally, "parity_test")
    require_option("method", method, ("auto", *METHODS))
    require_option("compare", compare, COMPARISONS)
    require_alpha(alpha)
    require_groups(tally)
    positions = None if grid is None else grid_positions(tally.lattice, grid)
    if positions is not None:
        require_inside(tally, positions)
    options = Options(AUTO if method == "auto" else method, alpha, weighting, degree, kernel, bandwidth, positions, seed)
    chosen = _pairs(tally, compare, reference)
    tested = [_test_pair(tally, a, b, options, len(chosen)) for a, b in chosen]
    pairs, adjustment = _adjusted(tally, [pair for pair, _ in tested], [gap for _, gap in tested], options)
    return ParityTest(
        tuple(pairs),
        options.method,
        alpha,
        weighting,
        degree,
        kernel,
        adjustment,
        tally.independent,
        tally.frame_kind,
    )


def _pairs(tally: Tally, compare: str, reference: Any) -> list[tuple[Any, Any]]:
    if reference is None:
        if compare == "reference":
            raise OptionError("compare='reference' needs reference=, the group to compare with")
        return list(itertools.combinations(tally.groups, 2))
    position = tally.index(reference)
    return [(group, reference) for i, group in enumerate(tally.groups) if i != position]


def _test_pair(tally: Tally, a: Any, b: Any, options: Options, n_pairs: int) -> tuple[PairTest, Gap | None]:
    """One comparison, before adjustment; the gap process is None when it cannot be judged."""
    empty = [label_text(group) for group in (a, b) if tally.n_rows[group] == 0]
    if empty:
        return PairTest(a, b, reason=f"{empty[0]} has no labelled rows"), None
    settings = {"degree": options.degree, "kernel": options.kernel, "weighting": options.weighting}
    h = choose_bandwidth(tally, (a, b), bandwidth=options.bandwidth, **settings)  # type: ignore[arg-type]
    points, reason = (options.grid, None) if options.grid is not None else pair_grid(tally, a, b, h, options.weighting)
    assert points is not None
    if reason is not None:
        return PairTest(a, b, reason=_few_users(tally, a, b) or reason, bandwidth=h), None
    process = estimate_gap(tally, a, b, points=points, bandwidth=h, impose_null=True, **settings)  # type: ignore[arg-type]
    keep = judgeable(process, outcome_square(tally, (a, b), options.weighting))
    if not keep.any():
        return PairTest(a, b, reason=_why_not(tally, a, b, process), bandwidth=h, left_out=len(points)), None
    process = process.at(keep)
    band_h = h
    if options.bandwidth == "test":
        band_h = choose_bandwidth(tally, (a, b), bandwidth="band", **settings)  # type: ignore[arg-type]
    shown = estimate_gap(tally, a, b, points=points[keep], bandwidth=band_h, impose_null=False, **settings)  # type: ignore[arg-type]
    rng = np.random.default_rng([options.seed, tally.index(a), tally.index(b)])
    _, margin = margins(shown.covariance, shown.df, options.alpha, rng)
    corr = correlation(process.covariance)
    draws = draw_normal(corr, rng)
    statistic = float(STATISTICS[options.method](process.z))
    found = empirical_p(STATISTICS[options.method](draws), statistic, _tail(options.method, corr))
    maxima = STATISTICS["sup"](draws)
    p_points = np.array([empirical_p(maxima, abs(z), _tail("sup", corr)).value for z in process.z])
    return (
        PairTest(
            a,
            b,
            p_value=found.value,
            p_source=found.source,
            statistic=statistic,
            bandwidth=h,
            minimum_detectable_gap=_detectable(draws, process.se, options.method, options.alpha / n_pairs),
            left_out=int((~keep).sum()),
            reason=_means_only(tally, process),
            score=tally.lattice.to_score(process.position),
            gap=shown.gap,
            se=shown.se,
            band_low=shown.gap - margin,
            band_high=shown.gap + margin,
            p_points=p_points,
            effective_a=shown.effective_a,
            effective_b=shown.effective_b,
        ),
        process,
    )


def _tail(method: str, corr: Floats) -> Callable[[float], float]:
    if method == "sup":
        return lambda statistic: sup_tail(statistic, corr)
    return lambda statistic: quadratic_tail(statistic, np.linalg.eigvalsh(corr))


def _detectable(draws: Floats, se: Floats, method: str, alpha: float) -> float:
    """The constant gap found with probability .8, by bisection on the draws."""
    statistic = STATISTICS[method]
    critical = np.quantile(statistic(draws), 1 - alpha)
    few = draws[:2000]
    low, high = 0.0, float(se.min())
    while (statistic(few + high / se) > critical).mean() < POWER:
        high *= 2
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if (statistic(few + middle / se) > critical).mean() < POWER else (low, middle)
    return high


# Reasons


def _few_users(tally: Tally, a: Any, b: Any) -> str | None:
    for group in (a, b):
        users = tally.n_users[group]
        if users < MIN_EFFECTIVE:
            counted = "1 user" if users == 1 else f"{users} users"
            return f"{label_text(group)} has only {counted}; at least {MIN_EFFECTIVE} are needed at a score to judge it"
    return None


def _why_not(tally: Tally, a: Any, b: Any, process: Gap) -> str:
    few = _few_users(tally, a, b)
    if few is not None:
        return few
    if enough_users(process).any():
        return "the outcomes do not vary: all are equal, so there is nothing to compare"
    return (
        f"at no score do both {label_text(a)} and {label_text(b)} have {MIN_EFFECTIVE} effective users "
        f"({tally.n_users[a]:,} and {tally.n_users[b]:,} users in all)"
    )


def _means_only(tally: Tally, process: Gap) -> str:
    if tally.lattice.n_cells == 1:
        return "the score is constant, so the groups' mean outcomes are compared"
    return ""


# Adjustment across pairs


def _adjusted(
    tally: Tally, pairs: list[PairTest], gaps: list[Gap | None], options: Options
) -> tuple[list[PairTest], str]:
    """Adjusted p-values and verdicts, and how they were adjusted."""
    p_values = np.array([pair.p_value for pair in pairs])
    judged = [place for place, gap in enumerate(gaps) if gap is not None]
    adjusted, how = holm(p_values), "Holm's method"
    if len(judged) > 1:
        draws = _joint_draws(tally, [(pairs[place], gaps[place]) for place in judged], options)  # type: ignore[misc]
        if draws is not None:
            adjusted[judged], complete = min_p(p_values[judged], draws, RESOLVED)
            how = "joint draws of all pairs" if complete else "joint draws of all pairs, far tails by Holm's method"
    elif len(judged) == 1:
        how = "nothing: one pair"
    finished = []
    for pair, p_adjusted in zip(pairs, adjusted, strict=True):
        shown = bool(p_adjusted <= options.alpha)
        reason = pair.reason
        if not shown and np.isfinite(p_adjusted):
            found = f"no gap is shown; a constant gap of {pair.minimum_detectable_gap:.3g} would have been found with probability {POWER:g}"
            reason = f"{reason}; {found}" if reason else found
        elif shown:
            found = f"the gap is {pair.max_gap:+.3g} at score {pair.at_score:.3g}"
            reason = f"{reason}; {found}" if reason else found
        finished.append(replace(pair, p_adjusted=float(p_adjusted), verdict=DISPARITY if shown else INCONCLUSIVE, reason=reason))
    return finished, how


def _joint_draws(tally: Tally, tested: list[tuple[PairTest, Gap]], options: Options) -> Floats | None:
    """Draws of all pairs' statistics together, (draws, n_pairs): a group's noise is the same in each of its pairs.

    None when the covariance would be too large, then Holm's method serves.
    """
    owners: list[Any] = []
    blocks: list[Floats] = []
    for pair, gap in tested:
        owners += [pair.group_a, pair.group_b]
        blocks += [gap.matrix_a, gap.matrix_b]
    sizes = [len(block) for block in blocks]
    total = sum(sizes)
    if 8 * total * DRAWS > JOINT_BYTES:
        return None
    covariance = _stacked_covariance(tally, owners, blocks, options)
    noise = draw_normal(covariance, np.random.default_rng([options.seed, 1 << 20]))
    ends = np.cumsum(sizes)
    pieces = np.split(noise, ends[:-1], axis=1)
    statistics = []
    for place in range(len(tested)):
        difference = pieces[2 * place] - pieces[2 * place + 1]
        statistics.append(STATISTICS[options.method](difference / difference.std(axis=0)))
    return np.stack(statistics, axis=1)


def _stacked_covariance(tally: Tally, owners: list[Any], blocks: list[Floats], options: Options) -> Floats:
    """The covariance of all groups' smoothed noise, block by block; groups without common users are independent."""
    fits = {}
    for group in dict.fromkeys(owners):
        sums = tally.sums(group, options.weighting)
        h = choose_bandwidth(
            tally, [group], bandwidth=options.bandwidth, weighting=options.weighting, degree=options.degree, kernel=options.kernel
        )
        smooth = smooth_at(tally.lattice, sums, sums.position, h, options.degree, options.kernel)
        fits[group] = np.nan_to_num(smooth.matrix @ sums.Y)
    ends = np.cumsum([len(block) for block in blocks])
    covariance = np.zeros((ends[-1], ends[-1]))
    for i, j in itertools.combinations_with_replacement(range(len(blocks)), 2):
        pairs = tally.pair_matrices(owners[i], owners[j], options.weighting)
        if pairs is None:
            continue
        rows, columns = slice(ends[i] - len(blocks[i]), ends[i]), slice(ends[j] - len(blocks[j]), ends[j])
        piece = residual_covariance(pairs, blocks[i], blocks[i] * fits[owners[i]], blocks[j], blocks[j] * fits[owners[j]])
        covariance[rows, columns] = piece
        covariance[columns, rows] = piece.T
    return covariance
