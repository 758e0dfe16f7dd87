"""Edges of cells: where they are put, and a quick way to find a score among them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evenscore.data.columns import number_array
from evenscore.errors import OptionError
from evenscore.tallies.axis import backward, forward
from evenscore.types import Floats, Ints

MAX_CELLS = 512
CHUNK = 1 << 16  # scores at a time
IN_CACHE = 1 << 13  # of which the steps of a look-up stay in the nearest cache
IN_LOGITS = 0.6  # of the cells of [0, 1] are equal steps of the logit, the others equal steps of the score
FINEST = 1e-6  # below it, and above 1 less it, scores share an end cell
EXACT = 2.0**30  # edges are multiples of its inverse: the same on every machine, and just as far from 1 as from 0
HALVINGS = 60  # until a double has no more digits
BUCKET_BITS = 52 - 7  # of a double that do not name its bucket: 2^7 buckets for each factor of two, narrower than any cell


@lru_cache(maxsize=16)
def unit_edges(cells: int) -> tuple[float, ...]:
    """Inner edges of [0, 1], fine at both ends and about even in between; they depend on nothing but the number of cells.

    Equal steps of (1 - q) s + q (logit(s) / (2 L) + 1/2), with q = ``IN_LOGITS`` and L = -logit(``FINEST``): of 512 cells one in
    the middle is 1/248 wide, and near 0 and 1 each reaches 9 % further than the one before.
    """
    widest = -float(forward(FINEST, "logit"))
    steps = np.arange(1, cells // 2 + 1) / cells  # up to the middle; the others mirror them
    low, high = np.full(len(steps), -widest), np.zeros(len(steps))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        reached = (1 - IN_LOGITS) * backward(middle, "logit") + IN_LOGITS * (middle / (2 * widest) + 0.5)
        low, high = np.where(reached < steps, middle, low), np.where(reached < steps, high, middle)
    lower = np.round(backward(high, "logit") * EXACT) / EXACT
    if cells % 2 == 0:
        lower[-1] = 0.5
    return tuple(np.unique(np.concatenate([lower, 1 - lower])).tolist())


def even_edges(low: float, high: float, cells: int, scale: str, open_ended: bool) -> Floats:
    """Inner edges of equal cells on a scale; with end cells beyond, the limits are edges too."""
    axis = np.linspace(forward(low, scale), forward(high, scale), cells - 1 if open_ended else cells + 1)
    edges = backward(axis, scale)
    edges[0], edges[-1] = low, high
    return edges if open_ended else edges[1:-1]


def outer_edges(inner: Floats) -> Floats:
    """Inner edges with two more, so that an end cell without an end is as wide as others."""
    width = (inner[-1] - inner[0]) / (len(inner) - 1) if len(inner) > 1 else 1.0
    return np.concatenate([[inner[0] - width], inner, [inner[-1] + width]])


def with_cuts(edges: Floats, cuts: Iterable[float]) -> Floats:
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
                order = np.argsort(edges)  # an earlier cut may lie between the cut and the edge that it takes the place of
                edges, free = edges[order], free[order]
                continue
        place = int(np.searchsorted(edges, cut))
        edges, free = np.insert(edges, place, cut), np.insert(free, place, False)
    return edges


def few_distinct(scores: NDArray[np.floating], limit: int) -> Floats | None:
    """The distinct scores if there are at most ``limit`` of them; stops looking as soon as there are more."""
    first = 8 * limit  # which most often tell already
    known = np.unique(scores[:first])
    for start in range(first, len(scores), CHUNK):
        if len(known) > limit:
            return None
        chunk = scores[start : start + CHUNK]
        near = np.searchsorted(known, chunk).clip(max=len(known) - 1)
        fresh = chunk[known[near] != chunk]
        if len(fresh):
            known = np.union1d(known, fresh)
    return known.astype(np.float64) if len(known) <= limit else None


# Looking up


def find_near_even(scores: Floats, edges: Floats, low: float, high: float, open_ended: bool) -> Ints:
    """The number of edges not above each score, quickly when edges are within half a cell of equal steps from low to high."""
    step = _even_step(edges, low, high, open_ended)
    if step is None:
        return np.searchsorted(edges, scores, side="right")
    guess = np.floor((scores - (low - step if open_ended else low)) * (1 / step))
    cells = np.clip(guess, 0, len(edges), out=guess).astype(np.int64)
    n_cells = len(edges) + 1
    exact = not open_ended and np.log2(n_cells).is_integer() and step == 1 / n_cells
    if exact and np.array_equal(edges, np.arange(1, n_cells) / n_cells):
        return cells  # multiples of a power of two, of which no cut moved one: the product above was exact
    padded = np.concatenate([[-np.inf], edges, [np.inf]])
    cells += scores >= padded[cells + 1]
    cells -= scores < padded[cells]
    return cells


def _even_step(edges: Floats, low: float, high: float, open_ended: bool) -> float | None:
    """The width of a cell if all inner edges are within half a cell of equal steps."""
    if len(edges) < 2:
        return None
    step = (high - low) / (len(edges) - 1 if open_ended else len(edges) + 1)
    even = (low if open_ended else low + step) + step * np.arange(len(edges))
    return step if np.abs(edges - even).max() <= 0.5 * step else None


def find_in_unit(scores: Floats, edges: Floats) -> Ints:
    """The number of edges not above each score, for edges of [0, 1]; other scores belong to the end cells.

    The leading bits of a double are its logarithm in steps of 1/128. Those of the distance to the nearer end, 1 - s being exact
    from 1/2 on, name a bucket with at most one edge in it, and one comparison decides.
    """
    first, below, padded = _buckets(edges.tobytes())
    if below is None:
        return np.searchsorted(edges, scores, side="right")
    cells = np.empty(scores.shape, dtype=np.int64)
    flat, out = np.ascontiguousarray(scores).reshape(-1), cells.reshape(-1)
    for start in range(0, len(flat), IN_CACHE):
        chunk = flat[start : start + IN_CACHE]
        distance = np.minimum(chunk, 1.0 - chunk)
        bucket = distance.view(np.int64) >> BUCKET_BITS
        bucket -= first
        np.maximum(bucket, 0, out=bucket)
        bucket ^= -(chunk >= 0.5).astype(np.int64)  # -1 - bucket: counted from the other end
        guess = below.take(bucket, mode="wrap")
        guess += chunk >= padded.take(guess + 1)
        out[start : start + IN_CACHE] = guess
    return cells


@lru_cache(maxsize=16)
def _buckets(raw: bytes) -> tuple[int, Ints | None, Floats]:
    """The number of the first bucket, edges below each bucket (None when one holds several), and the edges between infinities."""
    edges = np.frombuffer(raw)
    padded = np.concatenate([[-np.inf], edges, [np.inf]])
    end = int(np.array([0.5]).view(np.int64)[0] >> BUCKET_BITS)
    first = int(np.array([FINEST / 2]).view(np.int64)[0] >> BUCKET_BITS)
    limits = (np.arange(first, end + 2) << BUCKET_BITS).view(np.float64)
    limits[0] = -np.inf
    low, high = limits[:-1], limits[1:]
    # A bucket is [low, high) near 0, and (1 - high, 1 - low] near 1.
    below = np.searchsorted(edges, np.concatenate([low, 1 - high[::-1]]), side="right")
    upto = np.concatenate([np.searchsorted(edges, high), np.searchsorted(edges, 1 - low[::-1], side="right")])
    return first, below if (upto - below).max() <= 1 else None, padded
