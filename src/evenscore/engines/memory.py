"""Frames and arrays that are in memory already; lazy frames are collected, the needed columns only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw

from evenscore.data.columns import open_table
from evenscore.data.observations import Observations, keep_split, observe, who_is_split
from evenscore.data.spec import TallySpec
from evenscore.data.splits import Split
from evenscore.errors import DataError, first_line, shortened, warn
from evenscore.tallies.counting import count as count_rows
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.two_way import fold_lines
from evenscore.types import Progress


def tally_memory(data: Any, spec: TallySpec, *, progress: Progress | None = None) -> Tally:
    """The tally of a frame, a dict of arrays or arrays alone."""
    return hold_memory(data, spec).tally(spec.split, progress)


def hold_memory(data: Any, spec: TallySpec) -> HeldRows:
    """The rows of a frame, a dict of arrays or arrays alone, checked and coded."""
    observations = observe(collect_frame(data, spec.roles), spec)
    return HeldRows(observations, choose_lattice(observations, spec))


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Rows that are checked and coded, of which any share of the users can be counted on one lattice."""

    observations: Observations
    lattice: Lattice

    def tally(self, split: Split | None = None, progress: Progress | None = None) -> Tally:
        """The tally of all users, or of those in a split."""
        tally = fold_lines(count_rows(keep_split(self.observations, split), self.lattice, progress))
        if split is None:
            return tally
        return replace(tally, split=str(split), by_item=who_is_split(self.observations) is self.observations.items)


def choose_lattice(observations: Observations, spec: TallySpec) -> Lattice:
    """The lattice given, checked against the scores, or the one that suits them."""
    if spec.lattice is None:
        return Lattice.from_scores(observations.score, cells=spec.cells, cuts=spec.cuts, scale=spec.scale)
    outside = spec.lattice.outside(observations.score)
    check_outside(spec.lattice, outside, observations.n_rows, observations.columns.score)
    return spec.lattice


def check_outside(lattice: Lattice, outside: int, n_rows: int, score: str) -> None:
    """Refuse scores that are none of the lattice's, and warn when many share its end cells."""
    if outside == n_rows or (outside and lattice.discrete):
        what = "are none of the lattice's values" if lattice.discrete else "lie outside the lattice's range"
        raise DataError(f"column {shortened(score)} (score): {outside:,} of {n_rows:,} scores {what} ({lattice!r})")
    if outside > 0.01 * n_rows:
        warn(f"{outside:,} of {n_rows:,} scores lie outside {lattice!r}; they share its end cells")


def collect_frame(data: Any, roles: Mapping[str, Any]) -> Any:
    """Data in memory; of a lazy frame only the columns that roles name."""
    frame, _ = open_table(data)
    if not isinstance(frame, nw.LazyFrame):
        return data
    if frame.implementation.is_spark_like():
        raise DataError("a Spark frame cannot be brought into memory as it is; write what is needed to Parquet and name the files")
    if frame.implementation.is_duckdb():
        from evenscore.engines.relations import fetch_relation

        return fetch_relation(data, roles)
    wanted = [name for value in roles.values() for name in (value if isinstance(value, list | tuple) else [value])]
    try:
        names = frame.collect_schema().names()
        wanted = [name for name in wanted if isinstance(name, str) and name in names]
        return frame.select(*(dict.fromkeys(wanted) or names)).collect().to_native()
    except Exception as error:  # whatever the caller planned
        raise DataError(f"the lazy frame cannot be collected: {type(error).__name__}: {first_line(error)}") from error
