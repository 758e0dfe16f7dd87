"""The calibrator: a frozen map from score and group to the outcome that the score stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evenscore.calibration.maps import GroupMap
from evenscore.calibration.matching import match_groups, read_scores, require_treatment
from evenscore.data.coding import CHUNK
from evenscore.data.observations import Columns
from evenscore.errors import OptionError, listing, shortened, warn
from evenscore.naming import GroupNames, in_names
from evenscore.saving import as_path
from evenscore.tables import Table, label_text
from evenscore.tallies.lattice import Lattice
from evenscore.types import Floats, Ints

COUNTS = ("rows", "below", "above", "null_scores")
UNKNOWN = "(unknown or missing)"  # in place of a group, for rows whose group has no map
OFTEN = 0.01  # a larger share of scores outside the range seen in training is worth a warning


@dataclass(frozen=True, slots=True)
class UserSketch:
    """Fitted users, for who has the key to recognise: keyed hashes, ascending, of all users whose plain hash is below ``below``."""

    hashes: tuple[int, ...]
    below: int


@dataclass(frozen=True, slots=True, repr=False)
class Counted(Table):
    """What was counted while scores were calibrated: one dict a group, unknown and missing groups (group None) last."""

    counts: tuple[dict[str, Any], ...]
    on_unknown: str

    @property
    def n_rows(self) -> int:
        """Rows in all."""
        return sum(count["rows"] for count in self.counts)

    @property
    def n_outside(self) -> int:
        """Scores outside the range that their group had in training; they were held constant."""
        return sum(count["below"] + count["above"] for count in self.counts)

    @property
    def n_unknown(self) -> int:
        """Rows whose group the calibrator does not know, missing ones included."""
        return sum(count["rows"] for count in self.counts if not count["known"])

    @property
    def n_null(self) -> int:
        """Rows without a score, or without one of several."""
        return sum(count["null_scores"] for count in self.counts)

    @property
    def notable(self) -> bool:
        """Whether somebody should be told: unknown groups, missing scores, or more than 1 % of scores outside the range."""
        return bool(self.n_unknown or self.n_null or self.n_outside > OFTEN * self.n_rows)

    def _warn(self) -> None:
        """Tell who called for the scores."""
        if self.notable:
            warn("; ".join(self.notes()))

    def rows(self) -> list[dict[str, Any]]:
        """One row for each group: rows, and how many scores were outside the range seen in training."""
        return [dict(count) for count in self.counts]

    def _shown_rows(self) -> list[dict[str, Any]]:
        """Rows of groups without a map are nobody's group."""
        return [
            {"group": own["group"] if own["known"] else UNKNOWN}
            | {name: own[name] for name in own if name not in ("group", "known")}
            for own in self.counts
        ]

    def notes(self) -> list[str]:
        """What was unusual, in words."""
        return [f"{n:,} {one if n == 1 else several}" for n, one, several in self._unusual() if n]

    def _unusual(self) -> list[tuple[int, str, str]]:
        outside = "outside the range seen in training: held constant"
        return [
            (self.n_outside, f"score lies {outside}", f"scores lie {outside}"),
            self._of_unknown("got the pooled map", "kept its score"),
            (self.n_null, "score is missing and stays so", "scores are missing and stay so"),
        ]

    def _of_unknown(self, pooled: str, kept: str) -> tuple[int, str, str]:
        """How rows of groups without a map were treated: their number, and what is said of one and of several."""
        one, several = (pooled, pooled) if self.on_unknown == "pooled" else (kept, "kept their scores")
        return self.n_unknown, f"row of an unknown or missing group {one}", f"rows of unknown or missing groups {several}"

    def _title(self) -> str:
        return f"{self.n_rows:,} rows with calibrated scores"

    def _notes(self) -> list[str]:
        return self.notes()


def counts_by_group(groups: Sequence[Any], names: Sequence[str], counts: Ints) -> tuple[dict[str, Any], ...]:
    """Counts (n_groups + 1, n_names) as one dict a group; the last, of unknown and missing groups, only if there are any."""
    labels = [*((group, True) for group in groups), (None, False)]
    rows = [
        {"group": group, "known": known} | dict(zip(names, line, strict=True))
        for (group, known), line in zip(labels, counts.tolist(), strict=True)
    ]
    return tuple(count for count in rows if count["known"] or count["rows"])


@dataclass(frozen=True, slots=True, repr=False)
class Applied(Counted):
    """Calibrated scores, (n_rows,), with what was counted on the way; made by ``Calibrator.apply``."""

    scores: Floats

    def _title(self) -> str:
        return f"{len(self.scores):,} calibrated scores"


@dataclass(frozen=True, slots=True, repr=False)
class Calibrator(Table):
    """A map for each group from the score to the expected outcome, and one for everybody; made by ``es.calibrate``.

    maps: by group, in the order of the groups. method: how it was asked for. reference: the group whose scale is kept, or None
    when scores become expected outcomes. fingerprint: of the tally it was fitted on. split: the share of users, or
    by_item of items, it was fitted on. sketch: the fitted users, if asked for. item: what the second key of its rows is called.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(people, score="score", outcome="outcome", group="group", user="user")
    >>> calibrator = es.calibrate(tally, method="platt")
    >>> calibrator.transform([0.5, 0.5], ["a", "b"]).round(2)
    array([0.49, 0.33])
    >>> calibrator.to_sql(score="score", group="group").splitlines()[0]
    'CASE'
    """

    maps: tuple[GroupMap, ...]
    pooled: GroupMap
    method: str
    weighting: str
    monotone: bool
    lattice: Lattice
    binary: bool
    columns: Columns | None
    fingerprint: str
    reference: Any = None
    split: str | None = None
    sketch: UserSketch | None = None
    reasons: Mapping[Any, str] = field(default_factory=dict)
    frame_kind: str | None = None
    item: str | None = None
    by_item: bool = False

    @property
    def group_names(self) -> GroupNames:
        """What its groups are called, also when it was read from a file."""
        texts = super(Calibrator, self).group_names.texts
        return GroupNames(texts=texts) if self.columns is None else GroupNames(self.columns.group, texts)

    @property
    def groups(self) -> tuple[Any, ...]:
        """The groups, in order."""
        return tuple(group_map.group for group_map in self.maps)

    def map_of(self, group: Any, unknown: str = "error") -> GroupMap:
        """The map of one group; of everybody with ``unknown="pooled"`` when there is no such group."""
        for group_map in self.maps:
            if type(group_map.group) is type(group) and group_map.group == group:
                return group_map
        if unknown == "pooled":
            return self.pooled
        raise OptionError(f"no group {shortened(group)}; the calibrator has: {listing(map(repr, self.groups))}")

    def transform(self, scores: Any, groups: Any, on_unknown: str = "error", nulls: str = "error") -> Floats:
        """Calibrated scores, (n_rows,).

        Parameters
        ----------
        scores, groups
            Arrays or columns of one length; several columns in a list for an intersection.
        on_unknown
            For groups that were not there in training, or missing: "error", "pooled" (the pooled map) or "keep" (the
            score as it is).
        nulls
            For missing scores: "error", or "keep" (they stay missing).

        Notes
        -----
        Warns when groups are unknown and when more than 1 % of scores lie outside the range seen in training, where the map is held
        constant; ``apply`` gives the counts.
        """
        applied = self.apply(scores, groups, on_unknown=on_unknown, nulls=nulls)
        applied._warn()
        return applied.scores

    @in_names
    def apply(self, scores: Any, groups: Any, on_unknown: str = "error", nulls: str = "error") -> Applied:
        """Calibrated scores together with the counts of what was unusual."""
        require_treatment(on_unknown, nulls)
        array, missing = read_scores(scores, nulls)
        matched = match_groups(groups, self.groups, len(array), on_unknown)
        calibrated = np.empty(len(array))
        maps = self._maps_by_place(on_unknown)
        counts = np.zeros((len(maps), len(COUNTS)), dtype=np.int64)
        for chunk, place, rows in matched.chunks(CHUNK):
            mine, group_map = array[chunk][rows], maps[place]
            calibrated[chunk][rows] = mine if group_map is None else group_map.at(mine)
            below, above = (0, 0) if group_map is None else group_map.outside(mine)
            n_missing = 0 if missing is None else int(missing[chunk][rows].sum())
            counts[place] += (len(mine), below, above, n_missing)
        if missing is not None:
            calibrated[missing] = np.nan  # a step would give them the last level
        return Applied(counts_by_group(self.groups, COUNTS, counts), on_unknown, calibrated)

    def standard_errors(self, scores: Any, groups: Any, on_unknown: str = "error") -> Floats:
        """Standard errors of the calibrated scores, from the users the maps were fitted on; nan where the score was kept."""
        require_treatment(on_unknown)
        array, _ = read_scores(scores, "error")
        matched = match_groups(groups, self.groups, len(array), on_unknown)
        maps = self._maps_by_place(on_unknown)
        errors = np.full(len(array), np.nan)
        for chunk, place, rows in matched.chunks(CHUNK // 8):
            group_map = maps[place]
            if group_map is not None:
                errors[chunk][rows] = group_map.se(array[chunk][rows])
        return errors

    def _maps_by_place(self, on_unknown: str) -> list[GroupMap | None]:
        """The maps by the place of their group; the last, at -1, is for unknown groups, None when they keep their scores."""
        return [*self.maps, self.pooled if on_unknown == "pooled" else None]

    def save(self, path: str | Path) -> None:
        """Write the calibrator as JSON, whole or not at all."""
        from evenscore.calibration.storage import FILE

        FILE.save(self, as_path(path))

    @classmethod
    def load(cls, path: str | Path) -> Calibrator:
        """Read a calibrator that ``save`` wrote."""
        from evenscore.calibration.storage import FILE

        return FILE.load(as_path(path))

    def to_sql(
        self,
        *,
        style: str = "case",
        table: str | None = None,
        score: str | None = None,
        group: str | Sequence[str] | None = None,
        name: str = "calibrated",
        on_unknown: str = "null",
    ) -> str:
        """SQL that computes what ``transform`` does.

        Parameters
        ----------
        style
            "case": a CASE expression for the calibrated score, or with ``table`` a SELECT of all columns and the calibrated score.
            "join": a SELECT that joins a table of pieces, shorter to run when there are many groups.
        table
            The table with the scores, such as "people" or "schema.people"; any other text is quoted as one name.
        score, group, name
            Column names; those of the training data by default, and "calibrated" for the new one.
        on_unknown
            For groups that were not there in training: "null", "pooled" or "keep".
        """
        from evenscore.calibration.export import to_sql

        return to_sql(self, style=style, table=table, score=score, group=group, name=name, on_unknown=on_unknown)

    def lookup(self) -> list[dict[str, Any]]:
        """The pieces of all maps: value + slope (s - origin) for score_from <= s < score_to; everybody's last (group None)."""
        from evenscore.calibration.export import lookup_rows

        return lookup_rows(self)

    def save_lookup(self, path: str | Path) -> None:
        """Write the lookup table as .csv or .parquet."""
        from evenscore.calibration.export import save_lookup

        save_lookup(self, as_path(path))

    def save_onnx(self, path: str | Path, on_unknown: str = "null") -> None:
        """Write an ONNX model with inputs ``score`` and ``group`` and output ``calibrated`` (needs onnx)."""
        from evenscore.calibration.onnx import save_onnx

        save_onnx(self, as_path(path), on_unknown)

    def rows(self) -> list[dict[str, Any]]:
        """The knots: one row for each group and knot, all groups together last (group None)."""
        return [
            {"group": group_map.group, "score": float(score), "value": float(value), "se": float(se)}
            for group_map in (*self.maps, self.pooled)
            for score, value, se in zip(group_map.score, group_map.value, np.sqrt((group_map.factor**2).sum(axis=1)), strict=True)
        ]

    def summary(self) -> list[dict[str, Any]]:
        """One row a group: users, rows, knots, the range seen in training, and how the map was fitted."""
        return [
            {
                "group": group_map.group,
                "users": group_map.users,
                "rows": group_map.rows,
                "knots": len(group_map.score),
                "from_score": group_map.low,
                "to_score": group_map.high,
                "map": group_map.words.split(";")[0],
            }
            for group_map in self.maps
        ]

    def to_dict(self) -> dict[str, Any]:
        """The whole calibrator in JSON-ready values, as ``save`` writes it."""
        from evenscore.calibration.storage import FILE

        return FILE.document(self)

    def _shown_rows(self) -> list[dict[str, Any]]:
        return self.summary()

    def _title(self) -> str:
        kept = "" if self.reference is None else f", on the scale of {label_text(self.reference)}"
        shape = ", never falling" if self.monotone else ""
        return f"Calibrator of {len(self.maps)} groups by {self.method}{kept}{shape}, weighted per {self.weighting}"

    def _notes(self) -> list[str]:
        chosen = [
            f"{label_text(group_map.group)}: {group_map.words}"
            for group_map in self.maps
            if self.method == "auto" and group_map.source == "own"
        ]
        return chosen + [f"{label_text(group)}: {reason}" for group, reason in self.reasons.items()]
