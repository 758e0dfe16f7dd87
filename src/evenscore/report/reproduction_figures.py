"""The paper's figures as bytes: the same for the same numbers, wherever and whenever they are drawn."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from evenscore.errors import EvenscoreError
from evenscore.report.figures import COLOURS, STYLES
from evenscore.reproduction.bias import CE_NP, ECE, ECE_USER, MSCE, MSCE_USER, Bias, pick
from evenscore.reproduction.flip import Reading
from evenscore.reproduction.settings import BIAS_USERS, DEPENDENT, INDEPENDENT

MARKERS = {CE_NP: "o", ECE: "s", MSCE: "^", ECE_USER: "s", MSCE_USER: "^"}
GREY = "0.45"


@contextlib.contextmanager
def steady() -> Iterator[Any]:
    """matplotlib with its own defaults, whatever the user has set, and without dates or random names in what it writes."""
    try:
        import matplotlib
    except ImportError:
        raise EvenscoreError("figures need matplotlib: install evenscore[plot]") from None
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.hashsalt": "evenscore", "svg.fonttype": "none", "font.size": 9.5})
        matplotlib.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False})
        yield matplotlib


def new_figure(panels: int, width: float, height: float) -> tuple[Any, list[Any]]:
    """A figure of panels side by side that share their axes; without pyplot, so that no window system is needed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(1, panels, sharey=True, squeeze=False)[0])


def written(figure: Any) -> dict[str, bytes]:
    """The figure as PNG and SVG."""
    found = {}
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=120, metadata=metadata)
        found[kind] = buffer.getvalue()
    return found


def draw_flip(readings: list[Reading]) -> dict[str, bytes]:
    """Figure 1: the curves before the injection and after it, every row counting the same."""
    with steady():
        figure, axes = new_figure(2, 9, 4)
        for ax, reading in zip(axes, readings[:2], strict=True):
            _curves(ax, reading)
        axes[0].set_ylabel("smoothed expected outcome")
        axes[0].legend()
        return written(figure)


def draw_tests(readings: list[Reading]) -> dict[str, bytes]:
    """Figure 2: gaps on the injected data with rows taken for people, and with users."""
    with steady():
        figure, axes = new_figure(2, 9, 4)
        for ax, reading in zip(axes, readings[1:], strict=True):
            pair = reading.pair
            ax.axhline(0, color=GREY, linewidth=0.8)
            ax.fill_between(pair.score, pair.band_low, pair.band_high, color=COLOURS[0], alpha=0.18, linewidth=0)
            ax.plot(pair.score, pair.gap, "o-", color=COLOURS[0], markersize=3.5)
            ax.set(title=f"{reading.name}: group 1 below at {reading.below} of {reading.points}", xlabel="score")
        axes[0].set_ylabel("gap, group 1 minus group 2")
        return written(figure)


def _curves(ax: Any, reading: Reading) -> None:
    for place, curve in enumerate(reading.curves.curves):
        ax.plot(curve.score, curve.estimate, STYLES[place], color=COLOURS[place], label=str(curve.group))
    ax.set(title=f"{reading.name}: group 1 below at {reading.below} of {reading.points}", xlabel="score")


def draw_bias(found: list[Bias], truths: dict[str, float]) -> dict[str, bytes]:
    """Figure 3: bias over sample sizes, dependent on the left and independent on the right; lines are 2 Monte Carlo errors."""
    with steady():
        figure, axes = new_figure(2, 10, 4.4)
        for ax, kind in zip(axes, (DEPENDENT, INDEPENDENT), strict=True):
            ax.axhline(0, color=GREY, linewidth=0.8)
            for place, method in enumerate(MARKERS):
                if kind == DEPENDENT or method not in (ECE_USER, MSCE_USER):  # with one row a user they are the same
                    _bias_line(ax, found, kind, method, place)
            ax.set(xscale="log", title=f"{kind} rows", xlabel="users")
            ax.set_xticks(BIAS_USERS, [f"{users:,}" for users in BIAS_USERS])
            ax.minorticks_off()
        limit = truths["dependent, per row"] - truths["dependent, per user"]
        axes[0].axhline(limit, color=GREY, linewidth=0.8, linestyle=":", label="true error per row minus per user")
        axes[0].set_ylabel("bias, estimate minus true calibration error")
        axes[0].legend(fontsize=8)
        return written(figure)


def _bias_line(ax: Any, found: list[Bias], kind: str, method: str, place: int) -> None:
    own = [pick(found, kind, users, method) for users in BIAS_USERS]
    shift = 1 + 0.03 * (place - 2)  # side by side, not on top of each other
    ax.errorbar(
        np.array(BIAS_USERS) * shift,
        [bias.bias for bias in own],
        yerr=[2 * bias.error for bias in own],
        marker=MARKERS[method],
        linestyle="--" if method in (ECE_USER, MSCE_USER) else "-",
        color=COLOURS[place],
        markersize=5,
        capsize=2,
        label=method,
    )
