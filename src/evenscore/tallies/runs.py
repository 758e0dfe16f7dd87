"""Runs of equal values in columns that are in order: where each begins, how long it is, and steps that cut none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evenscore.types import Array, Ints, Mask


def new_runs(*columns: Array) -> Mask:
    """Which lines differ from the one before in some column, as the first does from none, (n,)."""
    is_new = np.ones(len(columns[0]), dtype=bool)
    np.not_equal(columns[0][1:], columns[0][:-1], out=is_new[1:])
    for column in columns[1:]:
        is_new[1:] |= column[1:] != column[:-1]
    return is_new


def run_starts(*columns: Array) -> Ints:
    """Where lines begin that differ from the one before in some column."""
    return np.flatnonzero(new_runs(*columns))


def run_lengths(starts: Ints, end: int) -> Ints:
    """How many lines each run has, given where they start."""
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1:] = end - starts[-1:]
    return lengths


def whole_runs(starts: Ints, end: int, size: int) -> Iterator[tuple[slice, slice]]:
    """Steps of whole runs, each up to the first run that begins ``size`` lines after the step: its runs, and its lines."""
    first = 0
    while first < len(starts):
        begin = int(starts[first])
        last = max(first + 1, int(np.searchsorted(starts, begin + size)))
        yield slice(first, last), slice(begin, int(starts[last]) if last < len(starts) else end)
        first = last
