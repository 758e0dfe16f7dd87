"""Frames and arrays that are in memory already; lazy frames are collected, the needed columns only."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import narwhals.stable.v2 as nw

from evenscore.data.columns import open_table
from evenscore.data.observations import Observations, observe, only_users
from evenscore.data.splits import Split
from evenscore.errors import DataError, EvenscoreWarning, OptionError, first_line, listing, shortened
from evenscore.tallies.counting import count as count_rows
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.tally_state import Tally


def tally_frame(
    data: Any,
    *,
    lattice: Tally | Lattice | None,
    cuts: tuple[float, ...],
    cells: int,
    scale: str,
    progress: Any,
    split: str | None = None,
    **columns: Any,
) -> Tally:
    """The tally of a frame, a dict of arrays or arrays alone."""
    observations = observe(collected(data, columns), **columns)
    chosen = choose_lattice(observations, lattice, cuts, cells, scale)
    tally = count_rows(only_users(observations, split), chosen, progress)
    return tally if split is None else replace(tally, split=str(Split.parse(split)))


def choose_lattice(
    observations: Observations, lattice: Tally | Lattice | None, cuts: tuple[float, ...], cells: int, scale: str
) -> Lattice:
    """The lattice given, checked against the scores, or the one that suits them."""
    if lattice is None:
        return Lattice.from_scores(observations.score, cells=cells, cuts=cuts, scale=scale)
    given = given_lattice(lattice, cuts)
    check_outside(given, given.outside(observations.score), observations.n_rows, observations.columns.score)
    return given


def given_lattice(lattice: Tally | Lattice, cuts: tuple[float, ...]) -> Lattice:
    """The lattice to reuse, which must have the cuts as edges."""
    if isinstance(lattice, Tally):
        lattice = lattice.lattice
    if not isinstance(lattice, Lattice):
        raise OptionError(f"lattice={shortened(lattice)} must be a Tally or an es.Lattice, not of type {type(lattice).__name__}")
    missing = [cut for cut in cuts if lattice.first_cell(cut) is None]
    if missing:
        raise OptionError(f"the given lattice has no edge at {listing(missing)}; make it with cuts={list(cuts)}")
    return lattice


def check_outside(lattice: Lattice, outside: int, n_rows: int, score: str) -> None:
    """Refuse scores that are none of the lattice's, and warn when many share its end cells."""
    if outside == n_rows or (outside and lattice.discrete):
        what = "are none of the lattice's values" if lattice.discrete else "lie outside the lattice's range"
        raise DataError(f"column {shortened(score)} (score): {outside:,} of {n_rows:,} scores {what} ({lattice!r})")
    if outside > 0.01 * n_rows:
        warnings.warn(
            f"{outside:,} of {n_rows:,} scores lie outside {lattice!r}; they share its end cells", EvenscoreWarning, stacklevel=5
        )


def collected(data: Any, columns: dict[str, Any]) -> Any:
    """Data in memory; of a lazy frame only the columns that are named."""
    frame, _ = open_table(data)
    if not isinstance(frame, nw.LazyFrame):
        return data
    if frame.implementation.is_spark_like():
        raise DataError("a Spark frame cannot be brought into memory as it is; write what is needed to Parquet and name the files")
    if frame.implementation.is_duckdb():
        from evenscore.engines.files import fetch_relation

        return fetch_relation(data, columns)
    wanted = [name for value in columns.values() for name in (value if isinstance(value, list | tuple) else [value])]
    try:
        names = frame.collect_schema().names()
        wanted = [name for name in wanted if isinstance(name, str) and name in names]
        return frame.select(*(dict.fromkeys(wanted) or names)).collect().to_native()
    except Exception as error:  # whatever the caller planned
        raise DataError(f"the lazy frame cannot be collected: {type(error).__name__}: {first_line(error)}") from error
