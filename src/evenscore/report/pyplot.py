"""Charts through matplotlib, which is an extra. What ``.plot()`` returns is like scikit-learn's displays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from evenscore.errors import EvenscoreError, OptionError, shortened
from evenscore.report.chart import COLOURS, N_DASHES, N_MARKS, Axis, Limits, Panel, Rule, Series, named_series
from evenscore.report.ticks import minus_signs

# The dashes of the report's lines, in line widths.
DASHES = ("-", (0, (5, 2)), (0, (2.5, 1.5)), (0, (5, 1.5, 1, 1.5)))
MARKS = ("o", "s", "D", "^")
WIDTH, HEIGHT, BESIDE = 8.0, 4.5, 7.5  # inches; BESIDE: the width of each of several
LINE, ENTRY = 0.28, 0.2  # inches for a line of estimates, and of the legend below
FEW_ENTRIES = 12  # of a legend beside the axes; more stand below
CROWD = 4  # more bands than this must be faint
TONES = {"shown": "bad", "within": "good", "unshown": "mute"}  # what a series stands for, by the name of its colour
STRIP = 0.22  # of the height, for where people are
RULES = {"zero": ("-", 0.6, 0.8), "limit": ("--", 0.5, 1.0), "mark": (":", 0.8, 1.0)}  # dashes, opacity, width


@cache
def _palettes() -> tuple[dict[str, str], dict[str, str]]:
    """The report's colours on white and on black by name, from its style sheet."""
    style = (Path(__file__).parent / "page" / "figure.css").read_text(encoding="utf-8")
    found = re.findall(r"--(\w+): (#[0-9a-f]{6})", style)
    names = [name for name, _ in found]
    second = names.index(names[0], 1)
    return dict(found[:second]), dict(found[second:])


def _colour(ax: Any, style: int) -> str:
    """A line's colour on these axes, whose background may be dark."""
    return _palettes()[_is_dark(ax)][f"c{style % len(COLOURS)}"]


def _look_of(ax: Any, series: Series) -> str:
    """The colour of a group's own line, or of what a series stands for."""
    if not series.tone:
        return _colour(ax, series.style)
    return _palettes()[_is_dark(ax)][TONES[series.tone]]


def _is_dark(ax: Any) -> bool:
    from matplotlib.colors import to_rgb

    return bool(sum(to_rgb(ax.get_facecolor()[:3])) < DARK)


def _ink() -> str:
    """The colour of words and frames in the style at hand."""
    import matplotlib as mpl

    return str(mpl.rcParams["axes.edgecolor"])


DARK = 1.5  # the sum of red, green and blue below which a background is dark


class Display:
    """A picture: ``figure_`` and ``ax_`` (an array when there are several); everything else is asked of the axes."""

    def __init__(self, ax: Any) -> None:
        self.ax_ = ax
        self.figure_ = np.ravel(np.asarray(ax, dtype=object))[0].figure

    def __repr__(self) -> str:
        """What stands above the picture in a notebook."""
        return "Display: .figure_ is the picture, .ax_ its axes"

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
        if panel.people:
            add_strip(place, panel.people)
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
        ax.axvspan(low, high, color=_colour(ax, 1), alpha=0.12, linewidth=0)
    for rule in panel.rules:
        if rule.kind == "zero":
            _draw_rule(ax, rule)
    entries = named_series(panel)
    faint = len(entries) > CROWD
    for series in panel.series:
        _draw_series(ax, series, panel.by_name, escape(series.name) if series in entries else None, faint)
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
    dash, opacity, width = RULES[rule.kind] if rule.style is None else ("-", 1.0, 1.2)
    colour = _ink() if rule.style is None else _colour(ax, rule.style)
    across = ax.axvline if rule.upright else ax.axhline
    name = escape(rule.name) if rule.name else None
    across(rule.at, color=colour, alpha=opacity, linestyle=dash, linewidth=width, label=name)


def _draw_series(ax: Any, series: Series, by_name: bool, name: str | None, faint: bool = False) -> None:
    colour = _look_of(ax, series)
    if series.kind in ("points", "dodged", "bars"):
        _draw_points(ax, series, by_name, name)
        return
    dash, width = DASHES[series.style % N_DASHES], 1.5
    if series.kind in ("thin", "diagonal"):
        dash, width, colour = ":", 1.0, _ink() if series.kind == "diagonal" else colour
    mark = MARKS[series.style % N_MARKS] if series.kind == "marked" else None
    ax.plot(series.x, series.y, linestyle=dash, color=colour, linewidth=width, marker=mark, markersize=5, label=name)
    if series.kind == "area":
        ax.fill_between(series.x, 0, series.y, color=colour, alpha=0.1, linewidth=0)
    if series.low is not None and series.kind == "marked":
        ax.vlines(series.x, series.low, series.high, color=colour, linewidth=1.2)
    elif series.low is not None:
        ax.fill_between(series.x, series.low, series.high, color=colour, alpha=0.06 if faint else 0.15, linewidth=0)


def _draw_points(ax: Any, series: Series, by_name: bool, name: str | None) -> None:
    """Points or bars one by one, with their limits and notes."""
    from matplotlib.transforms import offset_copy

    colour, mark = _look_of(ax, series), MARKS[series.style % N_MARKS]
    look = {"color": colour, "fillstyle": "none" if series.hollow else "full"}
    beside = 5 * (series.style - 1) if series.kind == "dodged" else 0
    moved = offset_copy(ax.transData, fig=ax.figure, x=beside, units="points") if beside else ax.transData
    if name and series.kind != "bars":
        ax.plot([], [], mark, label=name, **look)
    if series.kind == "bars":
        ax.barh(series.y, series.x, height=0.5, color=colour, alpha=0.5, label=name)
        look["color"] = _ink()
    for place, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
        if series.low is not None and series.high is not None:
            ends = [series.low[place], series.high[place]]
            ax.plot(*((ends, [y, y]) if by_name else ([x, x], ends)), "-", color=look["color"], linewidth=1.8, transform=moved)
        if series.kind != "bars":
            ax.plot([x], [y], mark, transform=moved, clip_on=not by_name, **look)
    if ax.figure.get_layout_engine() is not None:  # else there may be no room on the right
        for y, note in zip(series.y, series.notes, strict=False):
            ax.annotate(minus_signs(note), (1, y), (6, 0), ax.get_yaxis_transform(), "offset points", va="center", fontsize="small")


def _draw_legend(ax: Any, panel: Panel) -> None:
    """Outside of the axes wherever the layout makes room for it: a legend inside hides what it explains."""
    look: dict[str, Any] = {"title": panel.legend or None, "fontsize": "small", "title_fontsize": "small"}
    look |= {"alignment": "left", "frameon": False}
    if ax.figure.get_layout_engine() is None:
        ax.legend(**look | {"frameon": True}, loc="upper left" if panel.people else "best", edgecolor="none", framealpha=0.8)
    elif len(named_series(panel)) <= FEW_ENTRIES and not panel.by_name:
        ax.legend(**look | {"title": _broken(panel.legend)}, loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)
    elif panel.title or not panel.by_name:
        below = offset_below(ax)
        ax.legend(**look, loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below, ncols=2)
    else:
        ax.legend(**look, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4)


def offset_below(ax: Any) -> Any:
    """Where the words below the axes end."""
    from matplotlib.transforms import offset_copy

    return offset_copy(ax.transAxes, fig=ax.figure, y=-32, units="points")


def _broken(title: str | None) -> str | None:
    """The title of a legend that stands beside the axes: one line for each remark."""
    return title.replace("; ", "\n").replace(", all scores at once", ",\nall scores at once") if title else None


# Where people are


def add_strip(ax: Any, series: tuple[Series, ...]) -> None:
    """The shares of people along the score, below the curves: without numbers, as only their shape matters."""
    from matplotlib.ticker import AutoLocator, FixedLocator

    low, high = ax.get_ylim()
    ax.set_ylim(low - STRIP * (high - low), high)
    ax.yaxis.set_major_locator(FixedLocator([tick for tick in AutoLocator().tick_values(low, high) if low <= tick <= high]))
    strip = ax.inset_axes((0, 0, 1, STRIP / (1 + STRIP)), sharex=ax)
    strip.patch.set_alpha(0)
    strip.tick_params(bottom=False, left=False, labelbottom=False, labelleft=False)
    for side, spine in strip.spines.items():
        spine.set_visible(side == "top")
    for own in series:
        colour = _colour(ax, own.style)
        strip.plot(own.x, own.y, color=colour, linewidth=0.8, linestyle=DASHES[own.style % N_DASHES])
        if len(series) <= CROWD:
            strip.fill_between(own.x, 0, own.y, color=colour, alpha=0.12, linewidth=0)
    strip.set_ylim(0, 1.12 * max((float(own.y.max()) for own in series), default=1.0) or 1.0)
    side = (0.005, "left") if _crowded_side(series, ax.get_xlim()) == "right" else (0.995, "right")
    strip.text(side[0], 0.92, "people", transform=strip.transAxes, ha=side[1], va="top", fontsize="x-small", alpha=0.8)


def _crowded_side(series: tuple[Series, ...], limits: Limits) -> str:
    """The side of the axes where there are more people, and less room for a word."""
    right = [float(own.y[own.x > sum(limits) / 2].sum()) / (float(own.y.sum()) or 1.0) for own in series]
    return "right" if sum(right) > len(right) / 2 else "left"
