"""The plan that will run: which engine, what the survey saw, and the steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenscore.engines.survey import Survey
from evenscore.tables import Table
from evenscore.tallies.lattice import Lattice


@dataclass(frozen=True, slots=True, repr=False)
class TallyPlan(Table):
    """What ``es.tally`` would do. n_rows, n_users (about) and lattice are None where nothing was surveyed."""

    engine: str
    steps: tuple[str, ...]
    n_rows: int | None = None
    n_users: int | None = None
    lattice: Lattice | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One row a step."""
        return [{"step": number, "does": step} for number, step in enumerate(self.steps, start=1)]

    def _title(self) -> str:
        seen = "" if self.n_rows is None else f": {self.n_rows:,} rows, about {self.n_users:,} users, {self.lattice!r}"
        return f"Plan of es.tally by {self.engine}{seen}"

    def to_dict(self) -> dict[str, Any]:
        """The plan in JSON-ready values."""
        lattice = None if self.lattice is None else self.lattice.to_dict()
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


def plan_of(engine: str, data: Any, memory_limit: str | int, options: dict[str, Any]) -> TallyPlan:
    """Survey the data where it is large, and say what will follow."""
    if engine == "memory":
        return TallyPlan(engine, ("count in memory",))
    if engine == "spark":
        from evenscore.engines.spark import plan_spark

        plan = plan_spark(data, options, options.pop("way", None))
        return _told(engine, plan.facts, plan.lattice, "survey (one aggregate, the groups, a sample of users)", *plan.lines())
    if engine == "dask":
        return TallyPlan(engine, ("survey every partition", "shuffle rows by user", "count partitions, add up their tallies"))
    from evenscore.engines.relations import explain_files

    facts, lattice, lines = explain_files(engine, data, memory_limit, options)
    if facts is None or lattice is None:
        return TallyPlan(engine, tuple(lines))
    return _told(engine, facts, lattice, "survey (one aggregate, the groups)", *lines)


def _told(engine: str, facts: Survey, lattice: Lattice, *steps: str) -> TallyPlan:
    return TallyPlan(engine, steps, facts.n_rows, facts.n_users, lattice)
