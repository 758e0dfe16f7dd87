"""Figures of a whole audit, of two audits, and of results that are mostly tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenscore.auditing.audit_comparison import AuditComparison
from evenscore.auditing.audit_result import Audit
from evenscore.errors import EvenscoreError
from evenscore.estimation.smoothing import unsmoothed
from evenscore.ordering import OrderingTest
from evenscore.planning import Plan
from evenscore.report.display import displayed
from evenscore.report.figures import COLOURS, STYLES, axes, draw_curves, draw_gaps, plain
from evenscore.simulation.study_result import Study
from evenscore.tables import label_text, p_text
from evenscore.tallies.tally_state import Tally


@displayed
def draw_audit(audit: Audit, ax: Any = None) -> Any:
    """Curves and gaps of each score and attribute; ``ax`` may be an array of axes with two columns."""
    places = _grid(len(audit.subjects)) if ax is None else np.reshape(np.asarray(ax, dtype=object), (-1, 2))
    if len(places) < len(audit.subjects):
        raise EvenscoreError(f"{len(audit.subjects)} scores and attributes need as many rows of two axes, not {len(places)}")
    for (left, right), subject in zip(places, audit.subjects, strict=False):
        draw_curves(subject.curves, left)
        draw_gaps(subject.parity, right)
        left.set_title(f"{plain(subject.name)}")
        if subject.threshold is not None:
            left.axvline(subject.threshold, color="0.4", linestyle=":", linewidth=1)
    return places


def _grid(n_rows: int) -> Any:
    axes(np.zeros(0))  # says what to install when matplotlib is missing
    import matplotlib.pyplot as plt

    return plt.subplots(n_rows, 2, figsize=(13, 4.5 * n_rows), layout="constrained", squeeze=False)[1]


@displayed
def draw_comparison(found: AuditComparison, ax: Any = None) -> Any:
    """The largest gap of each score and attribute before (hollow) and after (filled)."""
    ax = axes(ax)
    names = [plain(f"{change.score} by {label_text(change.attribute)}") for change in found.changes]
    for place, change in enumerate(found.changes):
        ax.plot([change.gap_before, change.gap_after], [place, place], color="0.6", linewidth=1)
        ax.plot([change.gap_before], [place], "o", fillstyle="none", color=COLOURS[0], label="before" if place == 0 else None)
        ax.plot([change.gap_after], [place], "o", color=COLOURS[1], label="after" if place == 0 else None)
    _lines(ax, names)
    ax.set(xlabel="largest gap in expected outcome", title=f"{found.verdict_before} before, {found.verdict_after} after")
    ax.set_xlim(left=0)
    ax.legend(frameon=False)
    return ax


@displayed
def draw_ordering(test: OrderingTest, ax: Any = None) -> Any:
    """The share of misordered pairs of people for each pair of groups; the bar is what is shown at least."""
    ax = axes(ax)
    names = [f"{plain(pair.group_a)}, {plain(pair.group_b)}" for pair in test.pairs]
    for place, pair in enumerate(test.pairs):
        ax.barh(place, pair.at_least, height=0.5, color=COLOURS[1], alpha=0.5, label="shown at least" if place == 0 else None)
        ax.plot([pair.misordered_share], [place], "D", color=COLOURS[0], label="estimate" if place == 0 else None)
    _lines(ax, names)
    ax.set(xlabel="share of misordered pairs of people", title=f"{test.verdict} (p = {p_text(test.p_value)})")
    ax.set_xlim(left=0)
    ax.legend(frameon=False)
    return ax


@displayed
def draw_plan(plan: Plan, ax: Any = None) -> Any:
    """The smallest gap for each pair of groups, with the users that it needs."""
    ax = axes(ax)
    names = [f"{plain(pair.group_a)}, {plain(pair.group_b)}" for pair in plan.pairs]
    for place, pair in enumerate(plan.pairs):
        if np.isfinite(pair.gap):
            ax.plot([0, pair.gap], [place, place], color=COLOURS[0], linewidth=2)
            ax.plot([pair.gap], [place], "o", color=COLOURS[0])
            ax.annotate(f"{pair.users_a:,.0f} and {pair.users_b:,.0f} users", (pair.gap, place), (6, 6), textcoords="offset points")
    _lines(ax, names)
    ax.set(xlabel=f"constant gap found with probability {plan.power:g}", xlim=(0, None))
    return ax


@displayed
def draw_tally(tally: Tally, ax: Any = None) -> Any:
    """The distribution of the scores of each group."""
    ax = axes(ax)
    edges = tally.lattice.axis_edges
    for place, group in enumerate(tally.groups):
        sums = tally.sums(group)
        weight = sums.A if sums.A.sum() > 0 else sums.W
        look = {"color": COLOURS[place % len(COLOURS)], "label": plain(group)}
        if unsmoothed(tally.lattice, sums) or tally.lattice.discrete:
            ax.plot(tally.lattice.to_score(sums.position), weight / weight.sum(), STYLES[place % len(STYLES)], marker="o", **look)
        else:
            cuts = np.linspace(edges[0], edges[-1], 65)
            share = np.diff(np.interp(cuts, edges, np.concatenate([[0.0], np.cumsum(weight)]) / weight.sum()))
            ax.plot(tally.lattice.to_score((cuts[1:] + cuts[:-1]) / 2), share, STYLES[place % len(STYLES)], **look)
    ax.set(xlabel="score", ylabel="share of people (each user counts the same)", ylim=(0, None))
    ax.legend(frameon=False)
    return ax


@displayed
def draw_study(study: Study, ax: Any = None) -> Any:
    """How often each method rejected, or its limits held the truth, with two Monte Carlo errors on either side."""
    ax = axes(ax)
    rows = study.rows()
    measure = next((name for name in ("rejected", "coverage", "bias") if name in rows[0]), "runs")
    aims = {"rejected": study.alpha, "coverage": 1 - study.alpha, "bias": 0.0}
    if measure in aims:
        ax.axvline(aims[measure], color="0.5", linestyle="--", linewidth=1)
    for place, row in enumerate(rows):
        error = 2 * float(row.get(f"{measure}_error", 0.0))
        ax.errorbar([row[measure]], [place], xerr=[error], fmt="o", color=COLOURS[place % len(COLOURS)])
    _lines(ax, [plain(row["method"]) for row in rows])
    ax.set(xlabel=f"{measure}, {study.runs:,} runs; lines: two Monte Carlo errors")
    return ax


def _lines(ax: Any, names: list[str]) -> None:
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
