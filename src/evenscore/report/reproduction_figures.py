"""The paper's figures as bytes: the same for the same numbers, wherever and whenever they are drawn."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from evenscore.errors import EvenscoreError
from evenscore.report.chart import Axis, Panel, Rule, Series
from evenscore.report.pyplot import draw
from evenscore.reproduction.bias import CE_NP, ECE, ECE_USER, MSCE, MSCE_USER, Bias, pick
from evenscore.reproduction.flip import Reading
from evenscore.reproduction.settings import BIAS_USERS, DEPENDENT, INDEPENDENT

METHODS = (CE_NP, ECE, MSCE, ECE_USER, MSCE_USER)
DIGITS = 6  # of biases, so that the figure follows from the numbers that are published
ZERO = Rule(0.0, kind="zero")


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


def draw_pair(panels: Sequence[Panel]) -> dict[str, bytes]:
    """Two panels side by side, as PNG and SVG; without pyplot, so that no window system is needed."""
    with steady():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 4.2), layout="constrained")
        FigureCanvasAgg(figure)
        draw(panels, figure.subplots(1, 2, sharey=True))
        files = {}
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, dpi=120, metadata=metadata)
            files[kind] = buffer.getvalue()
        return files


def draw_flip(readings: list[Reading]) -> dict[str, bytes]:
    """Figure 1: the curves before the injection and after it, every row counting the same."""
    panels = []
    for reading in readings[:2]:
        curves = reading.curves.curves
        lines = tuple(Series(str(curve.group), style, curve.score, curve.estimate) for style, curve in enumerate(curves))
        panels.append(Panel(Axis("score"), Axis("smoothed expected outcome"), lines, title=_title(reading), legend=""))
    return draw_pair(panels)


def draw_tests(readings: list[Reading]) -> dict[str, bytes]:
    """Figure 2: gaps on the injected data with rows taken for people, and with users."""
    panels = []
    for reading in readings[1:]:
        pair = reading.pair
        gap = Series("", 0, pair.score, pair.gap, pair.band_low, pair.band_high)
        points = Series("", 0, pair.score, pair.gap, kind="marked")
        panels.append(Panel(Axis("score"), Axis("gap, group 1 minus group 2"), (gap, points), (ZERO,), title=_title(reading)))
    return draw_pair(panels)


def _title(reading: Reading) -> str:
    return f"{reading.name}: group 1 below at {reading.below} of {reading.points}"


def draw_bias(biases: list[Bias], truths: dict[str, float]) -> dict[str, bytes]:
    """Figure 3: bias over sample sizes, dependent on the left and independent on the right; lines are 2 Monte Carlo errors."""
    difference = round(truths["dependent, per row"] - truths["dependent, per user"], DIGITS)
    limit = Rule(difference, "true error per row minus per user", "mark")
    left = _bias_panel(biases, DEPENDENT, METHODS, (ZERO, limit), legend="")
    right = _bias_panel(biases, INDEPENDENT, METHODS[:3], (ZERO,))  # with one row a user the other methods are the same
    return draw_pair([left, right])


def _bias_panel(biases: list[Bias], kind: str, methods: Sequence[str], rules: tuple[Rule, ...], legend: str | None = None) -> Panel:
    series = []
    for style, method in enumerate(methods):
        users = np.array(BIAS_USERS) * (1 + 0.03 * (style - 2))  # side by side, not on top of each other
        own = [pick(biases, kind, n_users, method) for n_users in BIAS_USERS]
        value, error = np.round([bias.bias for bias in own], DIGITS), 2 * np.round([bias.error for bias in own], DIGITS)
        series.append(Series(method, style, users, value, value - error, value + error, kind="marked"))
    ticks = tuple((float(users), f"{users:,}") for users in BIAS_USERS)
    axis, bias = Axis("users", ticks=ticks, kind="log"), Axis("bias, estimate minus true calibration error")
    return Panel(axis, bias, tuple(series), rules, title=f"{kind} rows", legend=legend)
