"""Charts along the score: what a score means in each group, and the gaps between groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenscore.estimation.fitted_curves import Curve, Curves
from evenscore.estimation.smoothing import FEW_VALUES
from evenscore.parity.parity_result import PairTest, ParityTest
from evenscore.report.chart import Axis, Limits, Panel, Rule, Series
from evenscore.report.ticks import percent, score_ticks, short
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.tally_state import Tally
from evenscore.types import Floats
from evenscore.wording import p_short

DENSITY_BINS = 60
RARE = 0.03  # the share of a band's limits that may lie outside the picture, on either side


def pair_name(pair: Any) -> str:
    """Which group is subtracted from which."""
    return f"{short(pair.group_a)} − {short(pair.group_b)}"


def score_axis(positions: Sequence[Floats], score: str = "score", lattice: Lattice | None = None, kind: str = "line") -> Axis:
    """The scores, on the scale of a lattice if there is one. kind: of the series."""
    known = [position for position in positions if len(position)]
    if not known:
        return Axis(score, (0.0, 1.0))
    low, high = min(float(p[0]) for p in known), max(float(p[-1]) for p in known)
    pad = (0.05 if kind == "dodged" else 0.02) * (high - low) or 0.5
    limits = (low - pad, high + pad)
    if lattice is None or lattice.scale == "score":
        return Axis(score, limits)
    return Axis(f"{score} ({lattice.scale} scale)", limits, score_ticks(lattice, limits))


# Curves and distributions


def curve_panel(curves: Curves, shown: Sequence[Curve] = (), score: str = "score", lattice: Lattice | None = None) -> Panel:
    """The expected outcome along the score, a line and a simultaneous band a group; on the scale of a lattice if there is one."""
    shown = shown or curves.curves
    kind = "dodged" if has_few_values(curves, shown) else "line"
    positions = [curve.score if lattice is None else curve.position for curve in shown]
    series = tuple(
        Series(short(curve.group), style, position, curve.estimate, low=curve.band_low, high=curve.band_high, kind=kind)
        for style, (curve, position) in enumerate(zip(shown, positions, strict=True))
    )
    return Panel(
        score_axis(positions, score, lattice, kind),
        Axis("expected outcome", outcome_limits(curves.binary, series, 0.0 if kind == "dodged" else RARE)),
        series,
        legend=f"line: estimate; band: {percent(1 - curves.alpha)}, all scores at once",
    )


def has_few_values(curves: Curves, shown: Sequence[Curve]) -> bool:
    """Whether each score is a point by itself."""
    return curves.lattice.discrete and all(len(curve.position) <= FEW_VALUES for curve in shown)


def outcome_limits(binary: bool, series: Sequence[Series], rare: float) -> Limits:
    """All estimates and most of the bands: a band of a few users would stretch the axis beyond what an outcome can be."""
    estimates = np.concatenate([own.y for own in series])
    bands = np.concatenate([np.zeros(0), *(end for own in series for end in (own.low, own.high) if end is not None)])
    bands = bands[np.isfinite(bands)]
    estimates = estimates[np.isfinite(estimates)]
    low, high = (float(estimates.min()), float(estimates.max())) if len(estimates) else (0.0, 1.0)
    if len(bands):
        low, high = min(low, float(np.quantile(bands, rare))), max(high, float(np.quantile(bands, 1 - rare)))
    if binary:
        low, high = max(low, 0.0), min(high, 1.0)
    pad = 0.05 * (high - low) or 0.5
    return low - pad, high + pad


def share_of_people(tally: Tally, group: Any, style: int, edges: Floats | None = None, kind: str = "line") -> Series:
    """The share of a group's people at each score, or in bins of the axis, every user weighing the same."""
    sums = tally.sums(group)
    weight = sums.A if sums.A.sum() > 0 else sums.W
    if edges is None:
        used = weight > 0
        return Series(short(group), style, sums.position[used], weight[used] / weight.sum(), kind=kind)
    cumulative = np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum()
    shares = np.diff(np.interp(edges, tally.lattice.axis_edges, cumulative))
    return Series(short(group), style, (edges[1:] + edges[:-1]) / 2, shares, kind=kind)


# Gaps


def gap_panel(test: ParityTest, score: str = "score") -> Panel:
    """The gap of each pair along the score, with its simultaneous band."""
    pairs = [pair for pair in test.pairs if len(pair.score)]
    series = tuple(
        Series(_with_p(pair_name(pair), pair.p_adjusted), style, pair.score, pair.gap, pair.band_low, pair.band_high)
        for style, pair in enumerate(pairs)
    )
    return Panel(
        score_axis([pair.score for pair in pairs], score) if pairs else Axis(score),
        Axis("gap in expected outcome", gap_limits(pairs, test.tolerance)),
        series,
        gap_rules(test.tolerance),
        title=_with_p(test.verdict, test.p_value),
        legend=f"line: gap; band: {percent(1 - test.alpha)}, all scores at once",
    )


def _with_p(words: str, p_value: float) -> str:
    """The exact value stands in the tables."""
    return " ".join(filter(None, (words, p_short(p_value) and f"({p_short(p_value)})")))


def gap_rules(tolerance: float | None) -> tuple[Rule, ...]:
    """No gap, and the tolerance on either side."""
    zero = (Rule(0.0, kind="zero"),)
    return zero if tolerance is None else (*zero, Rule(tolerance, "tolerance"), Rule(-tolerance))


def gap_limits(pairs: Sequence[PairTest], tolerance: float | None) -> Limits:
    """All gaps and most of the bands."""
    bands = np.concatenate([np.concatenate([pair.band_low, pair.band_high]) for pair in pairs] or [np.zeros(0)])
    bands = bands[np.isfinite(bands)]
    reach = [0.0, *(gap for pair in pairs for gap in pair.gap)]
    if tolerance is not None:
        reach += [tolerance, -tolerance]
    if len(bands):
        reach += [float(np.quantile(bands, RARE)), float(np.quantile(bands, 1 - RARE))]
    low, high = float(np.nanmin(reach)), float(np.nanmax(reach))
    pad = 0.08 * (high - low) or 0.5
    return low - pad, high + pad
