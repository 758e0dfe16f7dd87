"""What ``.plot()`` returns, as scikit-learn's displays: the figure and the axes, for whoever wants to go on drawing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from evenscore.errors import OptionError, shortened

Draw = TypeVar("Draw", bound=Callable[..., Any])


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


def _require_axes(ax: Any) -> None:
    """None, axes, or several of them."""
    axes: Any = [] if ax is None else np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if ax is not None and (len(axes) == 0 or not all(hasattr(each, "get_figure") for each in axes)):
        raise OptionError(f"ax={shortened(ax)} must be axes of matplotlib")


def displayed(draw: Draw) -> Draw:
    """Let a function that draws on axes and returns them return a display."""

    @functools.wraps(draw)
    def drawn(*arguments: Any, **options: Any) -> Display:
        _require_axes(options.get("ax", arguments[1] if len(arguments) > 1 else None))
        return Display(draw(*arguments, **options))

    return drawn  # type: ignore[return-value]
