"""Ranks within queries, and what a rank is worth; ties are averaged over all their orders, so that the order of rows is nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evenscore.types import Floats, Ints

BLOCK = 1 << 18  # items ranked at a time
WORTHS = ("rank", "relative", "exposure", "top")


@dataclass(frozen=True, slots=True)
class Places:
    """Where items stand in their queries, from 1: between first and last when tied. n_items: of the item's query; (n,) each."""

    first: Ints
    last: Ints
    n_items: Ints

    @property
    def rank(self) -> Floats:
        """The mean rank over the orders of tied items."""
        return (self.first + self.last) / 2

    def among(self, k: int) -> Floats:
        """The chance to be among the first k."""
        size = self.last - self.first + 1
        return np.clip(k - self.first + 1, 0, size) / size

    def exposure(self) -> Floats:
        """The mean of 1 / log2(1 + rank)."""
        running = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, int(self.last.max(initial=0)) + 2)))])
        return (running[self.last] - running[self.first - 1]) / (self.last - self.first + 1)


def blocks(query: Ints) -> Iterator[slice]:
    """Slices of whole queries, for items that stand query by query."""
    edges = np.concatenate([[0], np.flatnonzero(query[1:] != query[:-1]) + 1, [len(query)]])
    start = 0
    while start < len(query):
        place = int(np.searchsorted(edges, start + BLOCK, side="right")) - 1
        end = int(edges[place]) if edges[place] > start else int(edges[place + 1])
        yield slice(start, end)
        start = end


def starts_of(query: Ints) -> Ints:
    """Where the query of each item begins, for items that stand query by query; (n,)."""
    fresh = np.concatenate([[True], query[1:] != query[:-1]])
    return np.flatnonzero(fresh)[np.cumsum(fresh) - 1]


def places_of(start: Ints, values: Floats) -> Places:
    """The places of items by value, the largest first; start: where each item's query begins."""
    order = np.lexsort((-values, start))
    by_query, by_value = start[order], values[order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (by_query[1:] != by_query[:-1]) | (by_value[1:] != by_value[:-1])
    tie = np.cumsum(fresh) - 1
    low = np.flatnonzero(fresh)
    high = np.concatenate([low[1:], [len(order)]]) - 1
    first, last = np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int64)
    first[order], last[order] = low[tie] - by_query + 1, high[tie] - by_query + 1
    return Places(first, last, np.bincount(start, minlength=len(start))[start])


def worths(places: Places, top_k: int | None) -> Floats:
    """What each place is worth, larger is better: (n, 3), or (n, 4) with top_k.

    Minus the rank; minus the rank as a share of the query's slots; discounted exposure; being among the first k.
    """
    columns = [-places.rank, -places.rank / places.n_items, places.exposure()]
    return np.column_stack(columns if top_k is None else [*columns, places.among(top_k)])
