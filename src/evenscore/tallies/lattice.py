"""The lattice: which cell of the score axis a score falls into.

Cells are half open, [low, high), and numbered from 0. A score's cell is the number of inner edges that are not above it, so a cut
is exact: ``score >= cut`` and ``cell >= first cell of the cut`` are the same statement, in every engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenscore.errors import DataError, OptionError, is_finite, require_count, require_option, shortened
from evenscore.tallies.axis import TIED, Quantiles, backward, end_values_inside, forward, inside_unit, rank_limits, typical_width
from evenscore.tallies.edges import MAX_CELLS as MAX_CELLS
from evenscore.tallies.edges import even_edges, few_distinct, find_in_unit, find_near_even, outer_edges, unit_edges, with_cuts
from evenscore.types import Floats, Ints

SCALES = ("auto", "score", "logit", "rank")
APART = 1e-9  # of the range: scores that are closer to a tie belong to it
PARTS = ("edges", "values", "scale", "low", "high", "open_ended", "max_cells", "auto", "weight", "reason", "ties")


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
        "auto": cells of [0, 1] are fine at both ends, those of other ranges equal, and each tally on them chooses the scale that
        suits its scores. "score" (equal steps of the score) or "logit" (equal steps of log(s / (1 - s)), for skewed
        probabilities) for that scale and no other. A "rank" lattice (equal numbers of rows) needs data:
        ``Lattice.from_scores``.

    Examples
    --------
    >>> Lattice(0, 1, cells=4, scale="score").edges
    array([0.25, 0.5 , 0.75])
    >>> Lattice(0, 1, cells=8).edges.round(4).tolist()
    [0.0003, 0.0432, 0.2478, 0.5, 0.7522, 0.9568, 0.9997]
    >>> Lattice(300, 850, cells=5, cuts=[620]).edges
    array([300.        , 483.33333333, 620.        , 850.        ])
    """

    # auto: the scale is what a tally on the lattice chose, from the weight (n_cells,) of people in the cells and for this reason;
    # "auto" itself, weight None and no reason as long as nobody is in them. ties: (n_cells,), the score of a cell in which most
    # people have one and the same, nan for others; None where there are none.

    __slots__ = (*PARTS, "_axis")

    edges: Floats
    values: Floats | None
    scale: str
    low: float
    high: float
    open_ended: bool
    max_cells: int
    auto: bool
    weight: Floats | None
    reason: str
    ties: Floats | None
    _axis: tuple[Floats, float]

    def __init__(self, low: float, high: float, *, cells: int = MAX_CELLS, cuts: Iterable[float] = (), scale: str = "auto") -> None:
        require_count("cells", cells, high=MAX_CELLS)
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
            low, high = inside_unit(low, high)
        unit = scale == "auto" and not open_ended
        edges = np.array(unit_edges(cells)) if unit else even_edges(low, high, cells, scale, open_ended)
        edges = with_cuts(edges, cuts)
        self._set(edges=edges, scale=scale, low=float(low), high=float(high), open_ended=open_ended, max_cells=cells)

    def _set(self, **parts: Any) -> None:
        """Set every part, once; what is not given is that of cells which nobody is in yet."""
        unused = {"values": None, "auto": parts["scale"] == "auto", "weight": None, "reason": "", "ties": None}
        parts["edges"].setflags(write=False)
        for name, value in (unused | parts).items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Lattice._of, **self._parts), ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Lattice does not change; make a new one")

    @classmethod
    def _of(cls, **parts: Any) -> Lattice:
        lattice = cls.__new__(cls)
        lattice._set(**parts)
        return lattice

    @property
    def _parts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in PARTS}

    def _with(self, **changes: Any) -> Lattice:
        return Lattice._of(**self._parts | changes)

    def on_scale(self, scale: str, weight: Floats | None, reason: str) -> Lattice:
        """The same cells, with the scale that was chosen for people of this weight in them, and why."""
        return self._with(scale=scale, weight=weight, reason=reason, ties=None)

    def only_on(self, scale: str, weight: Floats) -> Lattice:
        """The same cells on this scale and no other, for people of this weight in them."""
        return self._with(scale=scale, auto=False, weight=weight, reason="")

    def with_ties(self, ties: Floats | None) -> Lattice:
        """The same cells, with the score that most people of a cell share."""
        return self if ties is None and self.ties is None else self._with(ties=ties)

    @property
    def unread(self) -> Lattice:
        """The same cells before any scale was chosen."""
        return self.on_scale("auto", None, "") if self.auto else self

    @classmethod
    def from_values(cls, values: ArrayLike, *, scale: str = "auto", max_cells: int = MAX_CELLS) -> Lattice:
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
        low, high = float(points[0]), float(points[-1])
        return cls._of(
            edges=points[1:].copy(), values=points, scale=scale, low=low, high=high, open_ended=False, max_cells=max_cells
        )

    @classmethod
    def from_scores(cls, scores: ArrayLike, *, cells: int = MAX_CELLS, cuts: Iterable[float] = (), scale: str = "auto") -> Lattice:
        """The lattice that suits these scores; the order of the scores does not matter."""
        require_count("cells", cells, high=MAX_CELLS)
        require_option("scale", scale, SCALES)
        array = np.asarray(scores)
        if array.size == 0:
            raise DataError("there are no scores to make a lattice from")
        low, high = float(array.min()), float(array.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            raise DataError("scores must be finite; use nulls='drop' to leave out missing ones")
        if scale == "logit" and not (low >= 0 and high <= 1):
            raise DataError(f"scale='logit' needs scores between 0 and 1; these run from {low:g} to {high:g}")
        distinct = few_distinct(array, cells)
        if distinct is not None:
            return cls.from_values(distinct, scale=scale, max_cells=cells)

        def at_ranks(ranks: Ints) -> Floats:
            return np.partition(array, np.unique(ranks))[ranks].astype(np.float64)

        return cls.from_quantiles(Quantiles(array.size, low, high, at_ranks), cells=cells, cuts=cuts, scale=scale)

    @classmethod
    def from_quantiles(cls, scores: Quantiles, *, cells: int, cuts: Iterable[float], scale: str) -> Lattice:
        """The lattice that suits many distinct scores, of which only some order statistics are looked at."""
        low, high = scores.low, scores.high
        if scale in ("auto", "score") and low >= 0 and high <= 1:
            return cls(0.0, 1.0, cells=cells, cuts=cuts, scale=scale)
        if scale == "rank":
            return cls._by_rank(scores, cells, cuts, scale)
        low, high, crowded = scores.central_range()
        if scale == "auto" and crowded:
            return cls._by_rank(scores, cells, cuts, scale)
        return cls(low, high, cells=cells, cuts=cuts, scale=scale)

    @classmethod
    def _by_rank(cls, scores: Quantiles, cells: int, cuts: Iterable[float], scale: str) -> Lattice:
        """Cells with equal numbers of rows."""
        edges, times = np.unique(scores.at_or_above(np.linspace(0, 1, cells + 1)), return_counts=True)
        low, high = float(edges[0]), float(edges[-1])
        # A score that many have is a cell of its own.
        edges = np.union1d(edges, edges[:-1][times[:-1] > TIED * cells] + APART * (high - low))
        edges = with_cuts(edges[1:-1], cuts)
        return cls._of(edges=edges, scale=scale, low=low, high=high, open_ended=False, max_cells=cells)

    @property
    def notes(self) -> list[str]:
        """Which scale was chosen and why, if one was."""
        return [f"scale: {self.scale}, {self.reason}"] if self.reason else []

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
        if self.auto and self.is_unit:
            return find_in_unit(array, self.edges)
        if self.discrete or not (self.auto or self.scale == "score"):
            return np.searchsorted(self.edges, array, side="right")
        return find_near_even(array, self.edges, self.low, self.high, self.open_ended)

    @property
    def is_unit(self) -> bool:
        """Whether cells cover [0, 1] without end cells, whatever scores there are."""
        return self.values is None and not self.open_ended and (self.low, self.high) == (0.0, 1.0)

    @property
    def ends_at_data(self) -> bool:
        """Whether the range ends with the lowest and the highest score that somebody has."""
        return self.discrete or (self.scale == "rank" and not self.auto) or not (self.open_ended or self.is_unit)

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
        return self._on_axis[0]

    @property
    def _on_axis(self) -> tuple[Floats, float]:
        """Limits of the cells and their typical width, found once."""
        if not hasattr(self, "_axis"):
            edges = self._axis_edges()
            edges.setflags(write=False)
            widths = np.zeros(self.n_cells) if self.discrete else np.diff(edges)
            object.__setattr__(self, "_axis", (edges, typical_width(widths, self.weight, self.ties)))
        return self._axis

    def _axis_edges(self) -> Floats:
        if self.values is not None:
            points = self._value_positions()
            middle = (points[1:] + points[:-1]) / 2
            return np.concatenate([points[:1], middle, points[-1:]])
        if self.scale == "rank":
            return rank_limits(self.n_cells, self.weight)
        return self._limits(forward(self.edges, self.scale), endless=self.open_ended or self.scale == "logit")

    @property
    def _score_edges(self) -> Floats:
        """Limits of the cells as scores, (n_cells + 1,)."""
        return self._limits(self.edges, endless=self.open_ended)

    def _limits(self, inner: Floats, *, endless: bool) -> Floats:
        return outer_edges(inner) if endless and len(inner) else np.concatenate([[self.low], inner, [self.high]])

    @property
    def cell_widths(self) -> Floats:
        """The width of each cell on the axis, (n_cells,); 0 on a lattice of values, where nothing is rounded."""
        return np.zeros(self.n_cells) if self.discrete else np.diff(self.axis_edges)

    @property
    def cell_width(self) -> float:
        """The typical width of a cell on the axis, of one with people where that is known."""
        return self._on_axis[1]

    def _value_positions(self) -> Floats:
        assert self.values is not None
        if self.scale == "rank" and self.weight is None:
            return (np.arange(len(self.values)) + 0.5) / len(self.values)
        if self.scale == "rank":
            ranks = rank_limits(self.n_cells, self.weight)
            return (ranks[1:] + ranks[:-1]) / 2
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
            slopes = np.diff(self.axis_edges) / np.diff(self._score_edges)
        if self.open_ended or self.scale == "logit":
            slopes[[0, -1]] = 0.0
        if self.ties is not None:
            slopes[np.isfinite(self.ties)] = 0.0
        return slopes

    def to_axis(self, scores: ArrayLike) -> Floats:
        """Scores in units of the scale."""
        array = np.asarray(scores, dtype=np.float64)
        if self.scale != "rank":
            return forward(array, self.scale)
        if self.values is not None:
            return np.interp(array, self.values, self._value_positions())
        return np.interp(array, self._score_edges, self.axis_edges)

    def to_score(self, positions: ArrayLike) -> Floats:
        """Positions on the axis in units of the score."""
        array = np.asarray(positions, dtype=np.float64)
        if self.values is not None:
            return np.interp(array, self._value_positions(), self.values)
        scores = np.interp(array, self.axis_edges, self._score_edges) if self.scale == "rank" else backward(array, self.scale)
        return scores if self.ties is None else np.where(np.isnan(self._tie(array)), scores, self._tie(array))

    def snap(self, positions: Floats) -> Floats:
        """Positions on the axis, those inside a cell of people with one score at that score."""
        if self.ties is None:
            return positions
        tie = self._tie(positions)
        return np.where(np.isnan(tie), positions, self.to_axis(np.nan_to_num(tie)))

    @property
    def tie_positions(self) -> Floats:
        """Where on the axis people share one score, ascending."""
        return np.zeros(0) if self.ties is None else self.to_axis(self.ties[np.isfinite(self.ties)])

    def _tie(self, positions: Floats) -> Floats:
        """The score that people at a position share, nan where they do not."""
        assert self.ties is not None
        inner = self.axis_edges[1:-1]
        after = self.ties[np.searchsorted(inner, positions, side="right")]
        # At the upper end of a tied cell as well: people there have its score, or one of the next cell.
        return np.where(np.isnan(after), self.ties[np.searchsorted(inner, positions, side="left")], after)

    @property
    def _kind(self) -> tuple[Any, ...]:
        """What two lattices with the same edges must share to be the same; of one that chooses its scale, not what it chose."""
        return "auto" if self.auto else self.scale, self.discrete, self.open_ended, self.low, self.high

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Lattice):
            return NotImplemented
        return self._kind == other._kind and np.array_equal(self.edges, other.edges)

    def __hash__(self) -> int:
        return hash((*self._kind, self.edges.tobytes()))

    def __repr__(self) -> str:
        kind = f"{self.n_cells} values" if self.discrete else f"{self.n_cells} cells"
        scale = "" if self.scale == "score" else f", scale={self.scale!r}"
        if self.auto:
            scale = ", scale='auto'" + (f" ({self.scale})" if self.reason else "")
        return f"<Lattice of {kind} from {self.low:.6g} to {self.high:.6g}{scale}>"
