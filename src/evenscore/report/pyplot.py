"""Charts through matplotlib, which is an extra. What ``.plot()`` returns is like scikit-learn's displays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from evenscore.errors import EvenscoreError, OptionError, shortened
from evenscore.report.chart import COLOURS, N_DASHES, N_MARKS, Axis, Limits, Panel, Rule, Series, named_series

DASHES, MARKS = ("-", "--", ":", "-."), ("o", "s", "D", "^")
WIDTH, HEIGHT, BESIDE = 7.0, 4.5, 6.0  # inches; BESIDE: the width of each of several
LINE, ENTRY = 0.28, 0.2  # inches for a line of estimates, and of the legend below
FEW_ENTRIES = 5  # of a legend, so that lines leave room for it
RULES = {"zero": ("-", "0.4", 0.8), "limit": ("--", "0.5", 1.0), "mark": (":", "0.3", 1.0)}


class Display:
    """A picture: ``figure_`` and ``ax_`` (an array when there are several); everything else is asked of the axes."""

    def __init__(self, ax: Any) -> None:
        self.ax_ = ax
        self.figure_ = np.ravel(np.asarray(ax, dtype=object))[0].figure

    def __iter__(self) -> Iterator[Any]:
        return iter(np.atleast_1d(np.asarray(self.ax_, dtype=object)))

    def __getitem__(self, place: Any) -> Any:
        return np.atleast_1d(np.asarray(self.ax_, dtype=object))[place]

    def __getattr__(self, name: str) -> Any:
        if name in ("ax_", "figure_"):  # not there yet, as while being copied
            raise AttributeError(name)
        return getattr(self.ax_, name)


def draw(panels: Any, ax: Any = None) -> Display:
    """Draw a panel, a row of panels, or rows of them, on the axes given or on new ones."""
    grid = np.asarray(panels, dtype=object)
    axes = new_axes(grid) if ax is None else _given_axes(ax, grid.size)
    for place, panel in zip(axes, grid.ravel(), strict=True):
        draw_panel(place, panel)
        if len(place.get_shared_y_axes().get_siblings(place)) > 1:
            place.label_outer()
    return Display(axes[0] if grid.ndim == 0 else axes.reshape(grid.shape))


def new_axes(grid: Any) -> Any:
    """Axes for panels; those beside each other share a vertical axis of the same meaning."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise EvenscoreError("plots need matplotlib: install evenscore[plot]") from None
    rows, columns = np.atleast_2d(grid).shape
    height = max(map(_height, grid.ravel()))
    alike = "row" if len({panel.y.label for panel in grid.ravel()}) == 1 else False
    size = (WIDTH if columns == 1 else BESIDE * columns, height * rows)
    return plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, sharey=alike)[1].ravel()


def _height(panel: Panel) -> float:
    if panel.by_name:
        return max(HEIGHT, 1.2 + LINE * sum(len(series.y) for series in panel.series))
    n_entries = len(named_series(panel))
    return HEIGHT + (ENTRY * n_entries / 2 if n_entries > FEW_ENTRIES else 0)


def _given_axes(ax: Any, needed: int) -> Any:
    axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if len(axes) == 0 or not all(hasattr(place, "get_figure") for place in axes):
        raise OptionError(f"ax={shortened(ax)} must be axes of matplotlib")
    if len(axes) < needed:
        raise EvenscoreError(f"the picture needs {needed} axes, not {len(axes)}")
    return axes[:needed]


def draw_panel(ax: Any, panel: Panel) -> None:
    """Draw on given axes; what is there already stays in sight."""
    own = not any(place.has_data() for place in ax.get_shared_y_axes().get_siblings(ax))
    for low, high in panel.shades:
        ax.axvspan(low, high, color=COLOURS[1], alpha=0.12, linewidth=0)
    for rule in panel.rules:
        if rule.kind == "zero":
            _draw_rule(ax, rule)
    entries = named_series(panel)
    for series in panel.series:
        _draw_series(ax, series, panel.by_name, escape(series.name) if series in entries else None)
    for rule in panel.rules:
        if rule.kind != "zero":
            _draw_rule(ax, rule)
    x_limits, y_limits = panel.limits()
    _set_axis(ax, "x", panel.x, x_limits, own)
    _set_axis(ax, "y", panel.y, y_limits, own)
    if panel.title:
        ax.set_title(escape(panel.title))
    if panel.legend is not None:
        _draw_legend(ax, panel)


def escape(words: str) -> str:
    """Words as they are: matplotlib would read $ as mathematics and hide a leading underscore."""
    words = words.replace("$", r"\$")
    return f"\u200b{words}" if words.startswith("_") else words


def _set_axis(ax: Any, name: str, axis: Axis, limits: Limits, own: bool) -> None:
    if axis.kind == "log":
        ax.set(**{f"{name}scale": "log"})
    if axis.label:
        ax.set(**{f"{name}label": escape(axis.label)})
    if axis.ticks is not None:
        words = [escape(text) for _, text in axis.ticks]
        turned = {"rotation": 90, "fontsize": "small"} if name == "x" and sum(map(len, words)) > 80 else {}
        set_ticks = getattr(ax, f"set_{name}ticks")
        set_ticks([position for position, _ in axis.ticks], words, **turned)
        set_ticks([], minor=True)
    low, high = limits
    if not own and axis.kind != "names":
        before: Limits = getattr(ax, f"get_{name}lim")()
        low, high = min(low, before[0]), max(high, before[1])
    ax.set(**{f"{name}lim": (low, high)})


def _draw_rule(ax: Any, rule: Rule) -> None:
    dash, colour, width = RULES[rule.kind] if rule.style is None else ("-", COLOURS[rule.style % len(COLOURS)], 1.2)
    across = ax.axvline if rule.upright else ax.axhline
    across(rule.at, color=colour, linestyle=dash, linewidth=width, label=escape(rule.name) if rule.name else None)


def _draw_series(ax: Any, series: Series, by_name: bool, name: str | None) -> None:
    colour = COLOURS[series.style % len(COLOURS)]
    if series.kind in ("points", "dodged", "bars"):
        _draw_points(ax, series, by_name, name)
        return
    dash, width = DASHES[series.style % N_DASHES], 1.5
    if series.kind in ("thin", "diagonal"):
        dash, width, colour = ":", 1.0, "0.5" if series.kind == "diagonal" else colour
    mark = MARKS[series.style % N_MARKS] if series.kind == "marked" else None
    ax.plot(series.x, series.y, dash, color=colour, linewidth=width, marker=mark, markersize=5, label=name)
    if series.kind == "area":
        ax.fill_between(series.x, 0, series.y, color=colour, alpha=0.1, linewidth=0)
    if series.low is not None and series.kind == "marked":
        ax.vlines(series.x, series.low, series.high, color=colour, linewidth=1.2)
    elif series.low is not None:
        ax.fill_between(series.x, series.low, series.high, color=colour, alpha=0.15, linewidth=0)


def _draw_points(ax: Any, series: Series, by_name: bool, name: str | None) -> None:
    """Points or bars one by one, with their limits and notes."""
    from matplotlib.transforms import offset_copy

    colour, mark = COLOURS[series.style % len(COLOURS)], MARKS[series.style % N_MARKS]
    look = {"color": colour, "fillstyle": "none" if series.hollow else "full"}
    beside = 5 * (series.style - 1) if series.kind == "dodged" else 0
    moved = offset_copy(ax.transData, fig=ax.figure, x=beside, units="points") if beside else ax.transData
    if name and series.kind != "bars":
        ax.plot([], [], mark, label=name, **look)
    if series.kind == "bars":
        ax.barh(series.y, series.x, height=0.5, color=colour, alpha=0.5, label=name)
        look["color"] = "0.2"
    for place, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
        if series.low is not None and series.high is not None:
            ends = [series.low[place], series.high[place]]
            ax.plot(*((ends, [y, y]) if by_name else ([x, x], ends)), "-", color=look["color"], linewidth=1.8, transform=moved)
        if series.kind != "bars":
            ax.plot([x], [y], mark, transform=moved, clip_on=not by_name, **look)
    if ax.figure.get_layout_engine() is not None:  # else there may be no room on the right
        for y, note in zip(series.y, series.notes, strict=False):
            ax.annotate(note, (1, y), (6, 0), ax.get_yaxis_transform(), "offset points", va="center", fontsize="small")


def _draw_legend(ax: Any, panel: Panel) -> None:
    """A few lines leave room for it; points might be hidden."""
    from matplotlib.transforms import offset_copy

    look: dict[str, Any] = {"title": panel.legend or None, "fontsize": "small", "title_fontsize": "small", "frameon": False}
    entries = named_series(panel)
    lines = [series for series in entries if series.kind in ("line", "marked")]
    if lines and (len(entries) <= FEW_ENTRIES or ax.figure.get_layout_engine() is None):
        ax.legend(**look | {"frameon": True}, edgecolor="none", framealpha=0.8)
    elif panel.title:
        below = offset_copy(ax.transAxes, fig=ax.figure, y=-32, units="points")
        ax.legend(**look, loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below, ncols=2)
    else:
        ax.legend(**look, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4)
