"""A result in a notebook: the picture, then its table, then the notes; in the colours of the page around."""

from __future__ import annotations

import html
from dataclasses import replace
from pathlib import Path
from typing import Any

from evenscore.report.chart import Axis, Chart, Panel
from evenscore.report.plots import PANELS, name_axes
from evenscore.report.sheets import Sheet, sheet
from evenscore.report.svg import draw, sample
from evenscore.tables import Table, printable

PAGE = Path(__file__).parent / "page"
ROWS = 12  # of a table; .frame() has all
MOST_NOTES = 3  # more are folded
LONG = 40  # characters of a cell that may be broken
CROWD = 4  # more groups than this get fainter bands
NO_TABLE = Sheet((), (), ())


def notebook_style() -> str:
    """Of pictures and tables, with the colours of the page around."""
    return "".join((PAGE / name).read_text(encoding="utf-8") for name in ("figure.css", "notebook.css"))


def result_html(result: Table) -> str:
    """Title, picture, tables and notes."""
    tables = "".join(table_html(rows) for rows in result._tables())
    charts = _charts(result)
    pictures = "".join(_picture(chart, len(charts) > 1) for chart in charts)
    return (
        f'<div class="evenscore-audit evenscore-notebook"><style>{notebook_style()}</style>'
        f"<p><b>{_plain(result._title().rstrip(':'))}</b></p>{pictures}{tables}{_notes(result._notes())}</div>"
    )


def table_html(rows: list[dict[str, Any]]) -> str:
    """A table; every label is escaped."""
    if not rows:
        return "<p>(no rows)</p>"
    table = sheet(_without_empty(rows), "", ROWS)
    body = "".join(_line(cells, table.numeric, "td") for cells in table.rows)
    more = f"<p class='more'>{table.left_out:,} more rows: .frame()</p>" if table.left_out else ""
    return f'<div class="scroll"><table>{_line(table.header, table.numeric, "th")}{body}</table></div>{more}'


def _without_empty(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without columns of words in which nothing is said."""
    said = [name for name in rows[0] if any(row.get(name) != "" for row in rows)]
    return [{name: row[name] for name in said if name in row} for row in rows]


def _line(cells: tuple[str, ...], numeric: tuple[bool, ...], tag: str) -> str:
    looks = []
    for cell, number in zip(cells, numeric, strict=True):
        looks.append((cell, "number" if number else "long" if len(cell) > LONG else "name"))
    return "<tr>" + "".join(f'<{tag} class="{look}">{html.escape(cell)}</{tag}>' for cell, look in looks) + "</tr>"


def _notes(notes: list[str]) -> str:
    items = "".join(f"<li>{_plain(note)}</li>" for note in notes)
    if len(notes) > MOST_NOTES:
        return f"<details><summary>{len(notes)} notes</summary><ul>{items}</ul></details>"
    return f"<ul>{items}</ul>" if notes else ""


def _plain(text: str) -> str:
    return html.escape(printable(text, 400))


# The picture


def _charts(result: Table) -> list[Chart]:
    """A chart for each panel that ``.plot()`` would draw."""
    if type(result) not in PANELS:
        return []
    panels = name_axes(PANELS[type(result)](result), result.group_names)
    return [_chart(result, panel) for panel in _flat(panels)]


def _flat(panels: Any) -> list[Panel]:
    return [panel for part in panels for panel in _flat(part)] if isinstance(panels, list) else [panels]


def _chart(result: Table, panel: Panel) -> Chart:
    crowded = len([series for series in panel.series if series.name]) > CROWD
    shown: tuple[Panel, ...] = (panel,)
    if panel.people:
        limits = panel.limits()[0]
        top = max(float(series.y.max()) for series in panel.people)
        areas = tuple(replace(series, kind="line" if crowded else "area") for series in panel.people)
        below = Panel(replace(panel.x, limits=limits), Axis("people", (0.0, 1.08 * top or 1.0), ticks=()), areas, height=60)
        shown = (replace(panel, x=replace(panel.x, limits=limits)), below)
    return Chart(f"notebook-{id(panel)}", panel.title or result._title(), panel.legend or "", shown, NO_TABLE, crowded=crowded)


def _picture(chart: Chart, titled: bool) -> str:
    entries = " &nbsp; ".join(f"{sample(series)} {_plain(series.name)}" for series in chart.legend)
    remark = f" &nbsp; ({_plain(chart.caption)})" if chart.caption and entries else ""
    title = f"<p>{_plain(chart.title)}</p>" if titled else ""
    return title + draw(chart) + (f'<p class="legend">{entries}{remark}</p>' if entries else "")
