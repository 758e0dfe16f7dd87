"""The plan that will run: which engine, what the survey saw, and the steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenscore.engines.survey import Survey
from evenscore.tables import Table
from evenscore.tallies.lattice import Lattice
from evenscore.tallies.lattice_settings import lattice_settings

FETCHED = ("fetch the needed columns and count in memory",)
UNSURVEYED = {  # what is done whatever the data hold
    "memory": ("count in memory",),
    "ibis": ("select the needed columns", "count DuckDB's tables where they are; stream the rows of other backends"),
    "dask": ("survey every partition", "shuffle rows by user", "count partitions, add up their tallies"),
}


@dataclass(frozen=True, slots=True, repr=False)
class TallyPlan(Table):
    """What ``es.tally`` would do. n_rows, n_users (about) and lattice are None where nothing was surveyed."""

    engine: str
    steps: tuple[str, ...]
    n_rows: int | None = None
    n_users: int | None = None
    lattice: Lattice | None = None

    @classmethod
    def from_survey(cls, engine: str, facts: Survey, *steps: str) -> TallyPlan:
        """The plan for surveyed data."""
        return cls(engine, steps, facts.recipe.n_rows, facts.recipe.n_users, facts.recipe.lattice)

    def rows(self) -> list[dict[str, Any]]:
        """One row a step."""
        return [{"step": number, "does": step} for number, step in enumerate(self.steps, start=1)]

    def _title(self) -> str:
        seen = "" if self.n_rows is None else f": {self.n_rows:,} rows, about {self.n_users:,} users, {self.lattice!r}"
        return f"Plan of es.tally by {self.engine}{seen}"

    def to_dict(self) -> dict[str, Any]:
        """The plan in JSON-ready values."""
        lattice = None if self.lattice is None else lattice_settings(self.lattice)
        return {
            "engine": self.engine,
            "steps": list(self.steps),
            "n_rows": self.n_rows,
            "n_users": self.n_users,
            "lattice": lattice,
        }

    def __repr__(self) -> str:
        return "\n".join([self._title(), *(f"  {number}. {step}" for number, step in enumerate(self.steps, start=1))])

    def _notes(self) -> list[str]:
        return []
