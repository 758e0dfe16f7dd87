"""The lattice: which cell of the score axis a score falls into.

Cells are half open, [low, high), and numbered from 0. A score's cell is the number of inner edges that are not above it, so a cut
is exact: ``score >= cut`` and ``cell >= first cell of the cut`` are the same statement, in every engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenscore.data.columns import number_array
from evenscore.errors import DataError, OptionError, is_finite, require_count, require_option, shortened
from evenscore.tallies.axis import Quantiles, backward, end_values_inside, forward, inside_unit
from evenscore.types import Floats, Ints

SCALES = ("score", "logit", "rank")
MAX_CELLS = 512
TAIL = 0.0005  # beyond these quantiles scores share an end cell, so that one outlier spoils nothing
CHUNK = 1 << 16
ORDER = ("edges", "values", "scale", "low", "high", "open_ended", "max_cells")


class Lattice:
    """Cells on the score axis.

    Parameters
    ----------
    low, high
        The range that is cut into equal cells. Scores beyond it fall into an end cell on either side; a range of exactly
        [0, 1] has no end cells.
    cells
        Number of cells, end cells included; at most 512.
    cuts
        Scores that must be cell edges, such as a decision threshold.
    scale
        "score" (equal steps of the score) or "logit" (equal steps of log(s / (1 - s)), for skewed probabilities). A "rank"
        lattice (equal numbers of rows) needs data: ``Lattice.from_scores``.

    Examples
    --------
    >>> Lattice(0, 1, cells=4).edges
    array([0.25, 0.5 , 0.75])
    >>> Lattice(300, 850, cells=5, cuts=[620]).edges
    array([300.        , 483.33333333, 620.        , 850.        ])
    """

    __slots__ = ("edges", "high", "low", "max_cells", "open_ended", "scale", "values")

    edges: Floats
    values: Floats | None
    scale: str
    low: float
    high: float
    open_ended: bool
    max_cells: int

    def __init__(
        self, low: float, high: float, *, cells: int = MAX_CELLS, cuts: Iterable[float] = (), scale: str = "score"
    ) -> None:
        _check_cells(cells)
        require_option("scale", scale, SCALES)
        if scale == "rank":
            raise OptionError("a lattice on scale='rank' needs scores: use es.tally(..., scale='rank') and reuse its lattice")
        if not (is_finite(low) and is_finite(high) and low < high):
            raise OptionError(f"a lattice needs finite limits with low < high, not low={shortened(low)}, high={shortened(high)}")
        if scale == "logit" and not (low >= 0 and high <= 1):
            raise OptionError(f"scale='logit' needs scores between 0 and 1; this lattice runs from {low:g} to {high:g}")
        open_ended = not (low == 0 and high == 1) or scale == "logit"
        if open_ended and cells < 3:
            raise OptionError(f"cells={cells}: a lattice with end cells needs at least 3")
        if scale == "logit":
            low, high = (float(np.clip(limit, 1e-6, 1 - 1e-6)) for limit in (low, high))
        axis = np.linspace(forward(low, scale), forward(high, scale), cells - 1 if open_ended else cells + 1)
        edges = backward(axis, scale)
        edges[0], edges[-1] = low, high
        self._set(_with_cuts(edges if open_ended else edges[1:-1], cuts), None, scale, float(low), float(high), open_ended, cells)

    def _set(
        self, edges: Floats, values: Floats | None, scale: str, low: float, high: float, open_ended: bool, max_cells: int
    ) -> None:
        edges.setflags(write=False)
        for name, value in zip(
            ORDER,
            (edges, values, scale, low, high, open_ended, max_cells),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return Lattice._make, tuple(getattr(self, name) for name in ORDER)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Lattice does not change; make a new one")

    @classmethod
    def _make(
        cls, edges: Floats, values: Floats | None, scale: str, low: float, high: float, open_ended: bool, max_cells: int
    ) -> Lattice:
        lattice = cls.__new__(cls)
        lattice._set(edges, values, scale, low, high, open_ended, max_cells)
        return lattice

    @classmethod
    def from_values(cls, values: ArrayLike, *, scale: str = "score", max_cells: int = MAX_CELLS) -> Lattice:
        """A cell for each distinct score: nothing is rounded.

        >>> Lattice.from_values([1, 2, 5]).cell([2.0, 5.0, 1.0])
        array([1, 2, 0])
        """
        require_option("scale", scale, SCALES)
        points = np.unique(np.asarray(values, dtype=np.float64))
        if not 0 < len(points) <= max_cells:
            raise OptionError(f"{len(points)} distinct scores: a lattice of values takes 1 to {max_cells}")
        if not np.isfinite(points).all():
            raise OptionError("the values of a lattice must be finite")
        if scale == "logit" and not (points[0] >= 0 and points[-1] <= 1):
            raise OptionError(f"scale='logit' needs scores between 0 and 1; they run from {points[0]:g} to {points[-1]:g}")
        points.setflags(write=False)
        return cls._make(points[1:].copy(), points, scale, float(points[0]), float(points[-1]), False, max_cells)

    @classmethod
    def from_scores(cls, scores: ArrayLike, *, cells: int = MAX_CELLS, cuts: Iterable[float] = (), scale: str = "score") -> Lattice:
        """The lattice that suits these scores; the order of the scores does not matter."""
        _check_cells(cells)
        require_option("scale", scale, SCALES)
        array = np.asarray(scores)
        if array.size == 0:
            raise DataError("there are no scores to make a lattice from")
        low, high = float(array.min()), float(array.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            raise DataError("scores must be finite; use nulls='drop' to leave out missing ones")
        if scale == "logit" and not (low >= 0 and high <= 1):
            raise DataError(f"scale='logit' needs scores between 0 and 1; these run from {low:g} to {high:g}")
        distinct = _few_distinct(array, cells)
        if distinct is not None:
            return cls.from_values(distinct, scale=scale, max_cells=cells)

        def at_ranks(ranks: Ints) -> Floats:
            return np.partition(array, np.unique(ranks))[ranks].astype(np.float64)

        return cls.from_quantiles(Quantiles(array.size, low, high, at_ranks), cells=cells, cuts=cuts, scale=scale)

    @classmethod
    def from_quantiles(cls, scores: Quantiles, *, cells: int, cuts: Iterable[float], scale: str) -> Lattice:
        """The lattice that suits many distinct scores, of which only some order statistics are looked at."""
        low, high = scores.low, scores.high
        if scale == "rank":
            edges = np.unique(scores.at_or_above(np.linspace(0, 1, cells + 1)))
            return cls._make(_with_cuts(edges[1:-1], cuts), None, "rank", float(edges[0]), float(edges[-1]), False, cells)
        if scale == "score" and low >= 0 and high <= 1:
            return cls(0.0, 1.0, cells=cells, cuts=cuts, scale=scale)
        inner_low, inner_high = scores.between(TAIL), scores.between(1 - TAIL)
        if not inner_low < inner_high:
            inner_low, inner_high = low, high
        if scale == "logit":
            inner_low, inner_high = inside_unit(inner_low, inner_high)
        return cls(inner_low, inner_high, cells=cells, cuts=cuts, scale=scale)

    @property
    def n_cells(self) -> int:
        """How many cells there are."""
        return len(self.edges) + 1

    @property
    def discrete(self) -> bool:
        """Whether each cell is one score value."""
        return self.values is not None

    def cell(self, scores: ArrayLike) -> Ints:
        """The cell of each score."""
        array = np.asarray(scores, dtype=np.float64)
        step = self._step()
        if step is None:
            return np.searchsorted(self.edges, array, side="right")
        first = self.low - step if self.open_ended else self.low
        guess = np.floor((array - first) * (1 / step))
        cells = np.clip(guess, 0, len(self.edges), out=guess).astype(np.int64)
        if not self.open_ended and np.log2(self.n_cells).is_integer() and step == 1 / self.n_cells:
            # Edges are multiples of a power of two: the product above was exact, unless a cut moved one.
            uniform = np.arange(1, self.n_cells) / self.n_cells
            if np.array_equal(self.edges, uniform):
                return cells
        padded = np.concatenate([[-np.inf], self.edges, [np.inf]])
        cells += array >= padded[cells + 1]
        cells -= array < padded[cells]
        return cells

    def _step(self) -> float | None:
        """The width of a cell if all inner edges are within half a cell of equal steps."""
        if self.scale != "score" or self.discrete or len(self.edges) < 2:
            return None
        steps = len(self.edges) - 1 if self.open_ended else len(self.edges) + 1
        step = (self.high - self.low) / steps
        start = self.low if self.open_ended else self.low + step
        uniform = start + step * np.arange(len(self.edges))
        return step if np.abs(self.edges - uniform).max() <= 0.5 * step else None

    def first_cell(self, cut: float) -> int | None:
        """The first cell of the scores >= cut, or None when the cut runs through a cell."""
        if self.values is not None:
            return int(np.searchsorted(self.values, cut, side="left"))
        index = int(np.searchsorted(self.edges, cut, side="left"))
        if index < len(self.edges) and self.edges[index] == cut:
            return index + 1
        if cut <= self.low and not self.open_ended:
            return 0
        return None

    def outside(self, scores: ArrayLike) -> int:
        """How many scores lie beyond the range; on a lattice of values, how many are none of them."""
        array = np.asarray(scores, dtype=np.float64)
        if self.values is not None:
            near = np.searchsorted(self.values, array).clip(max=len(self.values) - 1)
            return int((self.values[near] != array).sum())
        return int(((array < self.low) | (array > self.high)).sum())

    # The axis: where smoothing takes place. Positions are in units of the scale.

    @property
    def axis_edges(self) -> Floats:
        """Limits of the cells on the axis, (n_cells + 1,)."""
        if self.values is not None:
            points = self._value_positions()
            middle = (points[1:] + points[:-1]) / 2
            return np.concatenate([points[:1], middle, points[-1:]])
        if self.scale == "rank":
            ranks = np.arange(len(self.edges) + 2, dtype=np.float64)
            return ranks / ranks[-1]
        inner = forward(self.edges, self.scale)
        if not self.open_ended:
            return np.concatenate([[self.low], inner, [self.high]])
        width = (inner[-1] - inner[0]) / max(len(inner) - 1, 1)
        return np.concatenate([[inner[0] - width], inner, [inner[-1] + width]])

    @property
    def cell_widths(self) -> Floats:
        """The width of each cell on the axis, (n_cells,); 0 on a lattice of values, where nothing is rounded."""
        return np.zeros(self.n_cells) if self.discrete else np.diff(self.axis_edges)

    @property
    def cell_width(self) -> float:
        """The typical width of a cell on the axis."""
        return float(np.median(self.cell_widths))

    def _value_positions(self) -> Floats:
        assert self.values is not None
        if self.scale == "rank":
            return (np.arange(len(self.values)) + 0.5) / len(self.values)
        if self.scale == "logit":
            return end_values_inside(forward(self.values, "logit"))
        return self.values

    def positions(self, mean_scores: Floats) -> Floats:
        """Where each cell lies on the axis, given its mean score (nan for an empty cell: its middle)."""
        if self.values is not None:
            return self._value_positions()
        edges = self.axis_edges
        middle = (edges[1:] + edges[:-1]) / 2
        known = np.isfinite(mean_scores)
        mean_axis = self.to_axis(np.where(known, mean_scores, self.low))
        return np.where(known, np.clip(mean_axis, edges[:-1], edges[1:]), middle)

    def limits(self, cells: Ints, means: Floats) -> tuple[Floats, Floats]:
        """Between which scores cells lie; a cell of one value lies at it, an end cell without an end at its mean score."""
        if self.values is not None:
            return self.values[cells], self.values[cells]
        edges = np.concatenate([[self.low], self.edges, [self.high]])
        point = self.open_ended & ((cells == 0) | (cells == self.n_cells - 1))
        return np.where(point, means, edges[cells]), np.where(point, means, edges[cells + 1])

    def axis_slopes(self, mean_scores: Floats) -> Floats:
        """Steps on the axis per step of the score inside each cell; 0 where a cell is a point or has no end."""
        slopes = np.ones(self.n_cells)
        if self.discrete:
            return np.zeros(self.n_cells)
        if self.scale == "logit":
            inside = np.clip(np.where(np.isfinite(mean_scores), mean_scores, 0.5), 1e-9, 1 - 1e-9)
            slopes = 1 / (inside * (1 - inside))
        elif self.scale == "rank":
            slopes = np.diff(self.axis_edges) / np.diff(np.concatenate([[self.low], self.edges, [self.high]]))
        if self.open_ended:
            slopes[[0, -1]] = 0.0
        return slopes

    def to_axis(self, scores: ArrayLike) -> Floats:
        """Scores in units of the scale."""
        array = np.asarray(scores, dtype=np.float64)
        if self.scale != "rank":
            return forward(array, self.scale)
        if self.values is not None:
            return np.interp(array, self.values, self._value_positions())
        return np.interp(array, np.concatenate([[self.low], self.edges, [self.high]]), self.axis_edges)

    def to_score(self, positions: ArrayLike) -> Floats:
        """Positions on the axis in units of the score."""
        array = np.asarray(positions, dtype=np.float64)
        if self.values is not None:
            return np.interp(array, self._value_positions(), self.values)
        if self.scale == "rank":
            return np.interp(array, self.axis_edges, np.concatenate([[self.low], self.edges, [self.high]]))
        return backward(array, self.scale)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Lattice):
            return NotImplemented
        return (
            self.scale == other.scale
            and self.discrete == other.discrete
            and self.open_ended == other.open_ended
            and (self.low, self.high) == (other.low, other.high)
            and np.array_equal(self.edges, other.edges)
        )

    def __hash__(self) -> int:
        return hash((self.scale, self.discrete, self.open_ended, self.low, self.high, self.edges.tobytes()))

    def __repr__(self) -> str:
        kind = f"{self.n_cells} values" if self.discrete else f"{self.n_cells} cells"
        scale = "" if self.scale == "score" else f", scale={self.scale!r}"
        return f"<Lattice of {kind} from {self.low:.6g} to {self.high:.6g}{scale}>"

    def united(self, other: Lattice) -> Lattice | None:
        """A lattice of values that holds the values of both, while small enough."""
        if self.values is None or other.values is None or self.scale != other.scale:
            return None
        values = np.union1d(self.values, other.values)
        limit = max(self.max_cells, other.max_cells)
        return Lattice.from_values(values, scale=self.scale, max_cells=limit) if len(values) <= limit else None

    def to_dict(self) -> dict[str, object]:
        """Everything needed to make it again."""
        return {
            "low": self.low,
            "high": self.high,
            "scale": self.scale,
            "open_ended": self.open_ended,
            "max_cells": self.max_cells,
            "discrete": self.discrete,
        }

    @classmethod
    def from_parts(cls, edges: Floats, settings: dict[str, object]) -> Lattice:
        """The inverse of ``to_dict`` together with the edges; raises ValueError when they cannot be right."""
        low, high = float(settings["low"]), float(settings["high"])  # type: ignore[arg-type]
        scale, max_cells = str(settings["scale"]), int(settings["max_cells"])  # type: ignore[call-overload]
        require_option("scale", scale, SCALES)
        if len(edges) > 4 * MAX_CELLS or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
            raise OptionError("the lattice's edges are not ascending")
        if settings["discrete"]:
            return cls.from_values(np.concatenate([[low], edges]), scale=scale, max_cells=max(max_cells, len(edges) + 1))
        return cls._make(edges.copy(), None, scale, low, high, bool(settings["open_ended"]), max_cells)


def _check_cells(cells: int) -> None:
    require_count("cells", cells, high=MAX_CELLS)


def _with_cuts(edges: Floats, cuts: Iterable[float]) -> Floats:
    """The edges with each cut among them; a cut takes the place of the nearest edge that is not a cut itself."""
    edges = np.array(edges, dtype=np.float64)
    wanted = np.unique(number_array("cuts", cuts))
    if len(wanted) > 2 * MAX_CELLS:
        raise OptionError(f"{len(wanted)} cuts: at most {2 * MAX_CELLS} are possible")
    free = ~np.isin(edges, wanted)
    for cut in wanted:
        if cut in edges:
            continue
        inside = len(edges) > 1 and edges[0] < cut < edges[-1]
        candidates = np.flatnonzero(free)
        if inside and len(candidates):
            nearest = candidates[np.argmin(np.abs(edges[candidates] - cut))]
            spacing = np.diff(edges)[max(nearest - 1, 0) : nearest + 1].max()
            if abs(edges[nearest] - cut) <= 0.5 * spacing:
                edges[nearest], free[nearest] = cut, False
                continue
        place = int(np.searchsorted(edges, cut))
        edges, free = np.insert(edges, place, cut), np.insert(free, place, False)
    return edges


def _few_distinct(scores: NDArray[np.floating], limit: int) -> Floats | None:
    """The distinct scores if there are at most ``limit`` of them; stops looking as soon as there are more."""
    known = np.unique(scores[:CHUNK])
    for start in range(CHUNK, len(scores), CHUNK):
        if len(known) > limit:
            return None
        chunk = scores[start : start + CHUNK]
        near = np.searchsorted(known, chunk).clip(max=len(known) - 1)
        fresh = chunk[known[near] != chunk]
        if len(fresh):
            known = np.union1d(known, fresh)
    return known.astype(np.float64) if len(known) <= limit else None
