"""What miscalibration costs people, by group: the result of ``es.classification_impact`` and ``es.rank_impact``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenscore.errors import OptionError, listing, require_number, shortened
from evenscore.tables import Table, json_ready, values_of

CLASSIFICATION, RANK = "classification", "rank"

Rows = tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, repr=False)
class Impact(Table):
    """Changes by group if scores were calibrated.

    table: one dict for each group (None: all groups) and threshold. pairs: the same between groups. slots: for ranks, one dict for
    each group and position. what: the change in words. keep: whether decisions by calibrated scores have the same "threshold", or
    the same overall "rate".

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(people, score="score", outcome="outcome", group="group", user="user", cuts=[0.5])
    >>> impact = es.classification_impact(tally, threshold=0.5)
    >>> [(row["group"], round(row["estimate"], 2)) for row in impact.rows()[:2]]
    [('a', -0.0), ('b', -0.22)]
    """

    kind: str
    what: str
    table: Rows
    pairs: Rows
    alpha: float
    notes: tuple[str, ...] = ()
    slots: Rows = ()
    keep: str = "threshold"
    frame_kind: str | None = None

    @property
    def groups(self) -> tuple[Any, ...]:
        """The groups, in order."""
        return tuple(dict.fromkeys(row["group"] for row in self.table if row["group"] is not None))

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The thresholds of decisions; none for ranks."""
        return tuple(dict.fromkeys(row["threshold"] for row in self.table if "threshold" in row))

    def of(self, group: Any, threshold: float | None = None) -> dict[str, Any]:
        """The row of one group (None: all groups); with several thresholds also say which."""
        rows = [row for row in self.table if type(row["group"]) is type(group) and row["group"] == group]
        if not rows:
            raise OptionError(f"no group {shortened(group)}; there are: {listing(repr(label) for label in (*self.groups, None))}")
        if threshold is not None:
            threshold = require_number("threshold", threshold)
            rows = [row for row in rows if row.get("threshold") == threshold]
        if len(rows) != 1:
            known = listing(f"{known:g}" for known in self.thresholds)
            raise OptionError(f"threshold={shortened(threshold)}: name one of the thresholds {known}")
        return dict(rows[0])

    def rows(self) -> list[dict[str, Any]]:
        """One row for each group (None: everybody) and threshold: estimate of the change with limits, and what it is made of."""
        return [dict(row) for row in self.table]

    def differences(self) -> list[dict[str, Any]]:
        """One row for each pair of groups (and threshold): the change of group_a minus that of group_b."""
        return [dict(row) for row in self.pairs]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        document = values_of(self, ("kind", "what", "alpha") + (("keep",) if self.kind == CLASSIFICATION else ()))
        document |= {"rows": self.table, "differences": self.pairs, "notes": self.notes}
        return json_ready(document | {"slots": self.slots} if self.slots else document)

    def _title(self) -> str:
        return self.what

    def _notes(self) -> list[str]:
        return [f"ci: {1 - self.alpha:.0%} limits", *self.notes]
