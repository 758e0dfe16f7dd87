"""What a score means in each group, as a report draws it: smooth, named at the ends of lines, fading where few people are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evenscore.auditing.subject import Subject
from evenscore.estimation.fitted_curves import Curve, Curves
from evenscore.estimation.verdict import DISPARITY
from evenscore.report.chart import Axis, Chart, Limits, Panel, Rule, Series
from evenscore.report.findings import share_of
from evenscore.report.headline import score_name
from evenscore.report.score_charts import DENSITY_BINS, has_few_values, outcome_limits, share_of_people
from evenscore.report.sheets import Sheet
from evenscore.report.smooth_lines import fine_grid, smooth
from evenscore.report.ticks import in_json, nice_ticks, percent, score_ticks, short
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.tally_state import Tally
from evenscore.types import Floats
from evenscore.wording import decimals

MOST_GROUPS = 10
MOST_NAMED, MOST_LETTERS = 8, 15  # lines with names at their ends, and letters of these
CROWD = 4  # more groups than this get fainter bands
READINGS = 25  # rows of the table under a picture
FINE, FEWER = 64, 36  # points of a line; for many groups
FEWER_BINS = 30
FEW_USERS = 20  # effective ones; below that a curve is dotted and has no band
ROOM = 0.06  # of the axis, to see where lines go on as dots


def has_picture(subject: Subject) -> bool:
    """Whether any curve has enough points to be drawn."""
    return any(np.isfinite(curve.estimate).any() for curve in shown_curves(subject))


def curve_chart(subject: Subject, key: str) -> Chart:
    """The curves above the distribution of the scores, with the threshold if there is one."""
    shown = shown_curves(subject)
    panel = outcome_panel(subject, subject.curves, shown)
    left_out = len(subject.curves.curves) - len(shown)
    few = has_few_values(subject.curves, shown)
    caption = f"{'Point' if few else 'Line'}: estimate. Band: {percent(1 - subject.curves.alpha)}, for the whole curve at once."
    caption += " Below: where people are." if few else " Dotted: few people. Below: where people are."
    caption += " Grey: outcome equal to the score." if panel.series[0].kind == "diagonal" else ""
    caption += f" {in_json(left_out, 'group')}" if left_out else ""
    people = _distribution(subject.selection.tally, shown, panel)
    table, places = _curve_table(subject, shown, panel.limits()[0], few)
    title = f"{share_of(subject)}, by {score_name(subject)}"
    panels = mark_threshold((panel, people), subject)
    return Chart(key, title[:1].upper() + title[1:], caption, panels, table, places, crowded=len(shown) > CROWD)


def repair_chart(subject: Subject, before: Curves, after: Curves, whom: str, key: str) -> Chart:
    """Curves of users or items that the repair was not fitted on, before and after it, on the same axes."""
    drawn = [curve.group for curve in shown_curves(subject)]
    panels = []
    for title, curves in (("Before", before), ("After", after)):
        shown = [curve for curve in curves.curves if curve.group in drawn]
        panel = replace(outcome_panel(subject, curves, shown), title=title, height=230, direct=False)
        if len(shown) > CROWD:  # bands of many groups on a small picture hide each other
            panel = replace(panel, series=tuple(replace(own, low=None, high=None) for own in panel.series))
        panels.append(panel)
    limits = [panel.limits() for panel in panels]
    x, y = (tuple(zip(*(own[axis] for own in limits), strict=True)) for axis in (0, 1))
    wide, high = (min(x[0]), max(x[1])), (min(y[0]), max(y[1]))
    panels = [replace(panel, x=replace(panel.x, limits=wide), y=outcome_axis(subject, high, panel.y.label)) for panel in panels]
    level = percent(1 - before.alpha)
    band = "" if len(drawn) > CROWD else f" Band: {level}, for the whole curve."
    caption = f"{whom.capitalize()} that the repair was not fitted on, by the score and by the calibrated one.{band}"
    title = f"{share_of(subject)}, before and after"
    return Chart(
        key, title[:1].upper() + title[1:], caption, tuple(panels), Sheet((), (), ()), columns=2, crowded=len(drawn) > CROWD
    )


def shown_curves(subject: Subject) -> list[Curve]:
    """The curves to draw: if there are many, of the groups whose pairs differ most."""
    curves = list(subject.curves.curves)
    if len(curves) <= MOST_GROUPS:
        return curves
    wanted: list[Any] = []
    pairs = [pair for pair in subject.parity.pairs if len(pair.score)]
    for pair in sorted(pairs, key=lambda pair: (pair.verdict != DISPARITY, -abs(pair.max_gap))):
        wanted += [group for group in (pair.group_a, pair.group_b) if not any(group is known for known in wanted)]
    ranked = sorted(curves, key=lambda c: next((i for i, group in enumerate(wanted) if group is c.group), len(wanted)))
    chosen = ranked[:MOST_GROUPS]
    return [curve for curve in curves if any(curve is other for other in chosen)]


# The panel


def outcome_panel(subject: Subject, curves: Curves, shown: Sequence[Curve]) -> Panel:
    """A line and a simultaneous band a group; and where outcome and score are equal, if they are on one scale."""
    lattice, users = curves.lattice, subject.selection.tally.n_users
    few = has_few_values(curves, shown)
    series: list[Series] = []
    for style, curve in enumerate(shown):
        x = axis_positions(lattice, curve.score)
        note = f"{users[curve.group]:,}" if curve.group in users else ""
        if few:
            series.append(
                Series(
                    short(curve.group),
                    style,
                    x,
                    curve.estimate,
                    low=curve.band_low,
                    high=curve.band_high,
                    kind="dodged",
                    notes=(note,),
                )
            )
        else:
            series += _line(curve, x, style, note, FEWER if len(shown) > CROWD else FINE)
    across = _across(series, few)
    heights = outcome_limits(curves.binary, [own for own in series if own.kind != "thin"] or series, 0.0 if few else 0.01)
    label = score_name(subject)
    if lattice.scale == "logit":
        x_axis = Axis(f"{label} (logit scale)", across, score_ticks(lattice, across))
    else:
        x_axis = Axis(label, across)
    if curves.binary and lattice.scale != "logit" and lattice.low >= 0 and lattice.high <= 1:
        ends = np.array([max(across[0], heights[0]), min(across[1], heights[1])])
        series.insert(0, Series("", 0, ends, ends, kind="diagonal"))
    return Panel(x_axis, outcome_axis(subject, heights), tuple(series), legend="", height=265, direct=_named_at_ends(shown, few))


def _named_at_ends(shown: Sequence[Curve], few: bool) -> bool:
    """Whether the names of lines fit beside their ends, so that a large screen needs no legend."""
    return not few and len(shown) <= MOST_NAMED and all(len(short(curve.group)) <= MOST_LETTERS for curve in shown)


def axis_positions(lattice: Lattice, scores: Any) -> Floats:
    """Where scores lie in a picture: as they are, but for the logit scale."""
    scores = np.asarray(scores, float)
    return lattice.to_axis(scores) if lattice.scale == "logit" else scores


def outcome_axis(subject: Subject, limits: Limits, label: str = "") -> Axis:
    """The axis of an outcome or of a gap: in percent if it is a share."""
    if not subject.tally.binary:
        return Axis(label, limits)
    return Axis(label, limits, tuple((tick, f"{100 * tick:.10g} %") for tick in nice_ticks(*limits, 5)))


def _line(curve: Curve, x: Floats, style: int, note: str, points: int) -> list[Series]:
    """A line with its band where most people are, and a dotted one beyond.

    The curve is known at 50 quantiles of the scores, so that all but the outermost two hold the middle 95 % of people.
    """
    well = np.isfinite(curve.estimate) & np.isfinite(curve.band_low) & (curve.effective_users >= FEW_USERS)
    if len(x) >= 20:
        well[[0, -1]] = False
    known = np.isfinite(curve.estimate)
    name = short(curve.group)
    if not known.any():
        return []
    if well.sum() < 2:
        grid = fine_grid(x[known], points)
        return [Series(name, style, grid, smooth(x[known], curve.estimate[known], grid), kind="thin", notes=(note,))]
    first, last = np.flatnonzero(well)[[0, -1]]
    inner = slice(first, last + 1)
    grid = fine_grid(x[inner], points)
    estimate, low, high = (smooth(x[inner], column[inner], grid) for column in (curve.estimate, curve.band_low, curve.band_high))
    series = [Series(name, style, grid, estimate, low, high, notes=(note,))]
    for end in (slice(0, first + 1), slice(last, len(x))):
        own = known[end]
        if own.sum() > 1:
            grid = fine_grid(x[end][own], points // 5)
            series.append(Series("", style, grid, smooth(x[end][own], curve.estimate[end][own], grid), kind="thin"))
    return series


def _across(series: Sequence[Series], few: bool) -> Limits:
    """The scores of the lines that are not dotted, with room to see where they go on."""
    firm = [own for own in series if own.kind != "thin"] or list(series)
    low, high = min(float(own.x[0]) for own in firm), max(float(own.x[-1]) for own in firm)
    least, most = min(float(own.x[0]) for own in series), max(float(own.x[-1]) for own in series)
    room = ROOM * (high - low) or 0.5
    return (low - room, high + room) if few else (max(low - room, least - room / 3), min(high + room, most + room / 3))


def _distribution(tally: Tally, shown: Sequence[Curve], panel: Panel) -> Panel:
    """Where the scores of each group lie, every user weighing the same."""
    lattice, limits = tally.lattice, panel.limits()[0]
    densities = []
    for style, curve in enumerate(shown):
        if any(own.kind == "dodged" for own in panel.series):
            shares = share_of_people(tally, curve.group, style, kind="dodged")
            densities.append(replace(shares, x=axis_positions(lattice, lattice.to_score(shares.x))))
            continue
        n_bins = FEWER_BINS if len(shown) > CROWD or tally.n_users[curve.group] < 5000 else DENSITY_BINS
        places = np.linspace(*limits, n_bins + 1)
        edges = places if lattice.scale in ("logit", "score") else lattice.to_axis(np.clip(places, lattice.low, lattice.high))
        shares = share_of_people(tally, curve.group, style, edges, "line" if len(shown) > CROWD else "area")
        densities.append(replace(shares, x=(places[1:] + places[:-1]) / 2, y=shares.y * n_bins))
    top = max((float(series.y.max()) for series in densities), default=1.0) or 1.0
    return Panel(panel.x, Axis("", (0.0, top * 1.08), ticks=()), tuple(densities), height=56)


def mark_threshold(panels: tuple[Panel, ...], subject: Subject) -> tuple[Panel, ...]:
    """The panels with the threshold as an upright line, if it lies inside; its name stands in the first."""
    if subject.threshold is None:
        return panels
    position = float(axis_positions(subject.selection.tally.lattice, [subject.threshold])[0])
    low, high = panels[0].limits()[0]
    if not low <= position <= high:
        return panels
    names = [f"threshold {subject.threshold:g}"] + [""] * (len(panels) - 1)
    return tuple(
        replace(panel, rules=(*panel.rules, Rule(position, name, "mark", upright=True)))
        for panel, name in zip(panels, names, strict=True)
    )


# The table


def _curve_table(subject: Subject, curves: Sequence[Curve], limits: Limits, discrete: bool) -> tuple[Sheet, tuple[float, ...]]:
    """The curves side by side at scores that all of them share, and where these lie; between their points they are interpolated."""
    lattice = subject.curves.lattice
    own = [axis_positions(lattice, curve.score) for curve in curves]
    places = np.unique(np.concatenate(own)) if discrete else np.linspace(*limits, READINGS + 2)[1:-1]
    scores = lattice.to_score(places) if lattice.scale == "logit" else places
    columns = [[f"{score:,.{decimals(score, digits=3)}f}" for score in scores]]
    header = ["score"]
    for curve, x in zip(curves, own, strict=True):
        readings = [_read(x, getattr(curve, name), places, discrete) for name in ("estimate", "band_low", "band_high")]
        columns.append([with_band(*numbers) for numbers in zip(*readings, strict=True)])
        header.append(short(curve.group))
    title = share_of(subject)
    caption = f"{title[:1].upper() + title[1:]} (band) by score and group"
    return Sheet(tuple(header), tuple(zip(*columns, strict=True)), (True,) * len(header), caption), tuple(places.tolist())


def _read(x: Floats, column: Floats, places: Floats, discrete: bool) -> Floats:
    values = np.interp(places, x, column, left=np.nan, right=np.nan)
    if discrete:
        values[~np.isclose(places[:, None], x[None, :], rtol=1e-12, atol=1e-12).any(axis=1)] = np.nan
    return values


def with_band(value: float, low: float, high: float) -> str:
    """An estimate and its limits in a cell."""
    if not np.isfinite(value):
        return "–"
    return f"{value:.3f} ({low:.3f} to {high:.3f})" if np.isfinite(low) else f"{value:.3f}"
