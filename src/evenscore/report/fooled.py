"""Would I have been fooled? The curves with bands that take rows for people, beside those that respect users."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evenscore.auditing.subject import Subject
from evenscore.estimation.fitted_curves import Curves
from evenscore.estimation.verdict import DISPARITY
from evenscore.parity.row_people import RowsAsPeople
from evenscore.report.chart import Chart, Limits, Panel
from evenscore.report.curve_charts import CROWD, outcome_axis, outcome_panel, shown_curves
from evenscore.report.document import Section
from evenscore.report.score_charts import curve_panel
from evenscore.report.sheets import Sheet, sheet
from evenscore.report.ticks import percent


def fooled_section(subject: Subject, prefix: str) -> Section | None:
    """Both pictures and both verdicts; None where every row is another person."""
    as_people = subject.rows_as_people
    if as_people is None:
        return None
    return Section(
        f"{prefix}fooled",
        "Would I have been fooled?",
        as_people.sentence,
        figures=(fooled_chart(subject, as_people, f"{prefix}{'rows' if as_people.fooled else 'same-rows'}"),),
        tables=(sheet(as_people.rows(), "The same test on the same data, by what is taken for a person"),),
    )


def fooled_chart(subject: Subject, as_people: RowsAsPeople, key: str) -> Chart:
    """Two panels on the same axes."""
    every = shown_curves(subject)
    drawn = [place for place, curve in enumerate(every) if len(every) <= CROWD or curve.group in _farthest(subject)]
    panels = []
    for title, curves in _both(as_people):
        panel = outcome_panel(subject, curves, [curves[every[place].group] for place in drawn])
        series = tuple(replace(own, style=drawn[own.style]) for own in panel.series)  # colours as in the other pictures
        panels.append(replace(panel, series=series, title=title, height=230, direct=False))
    wide, high = _shared(panels)
    panels = [replace(panel, x=replace(panel.x, limits=wide), y=outcome_axis(subject, high, panel.y.label)) for panel in panels]
    caption = (
        f"The same data twice. Band: {percent(1 - as_people.curves.alpha)}, for the whole curve; left as if each row were a person."
    )
    if len(drawn) < len(as_people.curves.curves):
        caption += " Drawn: the groups with the largest gaps."
    return Chart(key, "Rows taken for people, and people", caption, tuple(panels), Sheet((), (), ()), columns=2)


def _farthest(subject: Subject) -> list[Any]:
    """The groups of the two pairs with the largest gaps."""
    known = [pair for pair in subject.parity.pairs if len(pair.score)]
    pairs = sorted(known, key=lambda pair: (pair.verdict != DISPARITY, -abs(pair.max_gap)))[:2]
    return [group for pair in pairs for group in (pair.group_a, pair.group_b)]


def fooled_panels(as_people: RowsAsPeople) -> list[Panel]:
    """The same two panels for ``.plot()``."""
    panels = [replace(curve_panel(curves), title=title) for title, curves in _both(as_people)]
    panels[0] = replace(panels[0], legend=None)  # one serves for both
    wide, high = _shared(panels)
    return [replace(panel, x=replace(panel.x, limits=wide), y=replace(panel.y, limits=high)) for panel in panels]


def _both(as_people: RowsAsPeople) -> list[tuple[str, Curves]]:
    return [
        (f"{as_people.n_rows:,} rows taken for people: {as_people.by_row.verdict}", as_people.row_curves),
        (f"{as_people.people}: {as_people.by_user.verdict}", as_people.curves),
    ]


def _shared(panels: list[Panel]) -> tuple[Limits, Limits]:
    """The limits that hold all of them."""
    across, up = zip(*(panel.limits() for panel in panels), strict=True)
    (left, right), (low, high) = (tuple(zip(*limits, strict=True)) for limits in (across, up))
    return (min(left), max(right)), (min(low), max(high))
