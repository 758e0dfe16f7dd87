"""The joint calibrator: frozen maps from all scores and the group to the expected outcome of each objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evenscore.calibration.calibrator import OFTEN, Calibrator, Counted, counts_by_group
from evenscore.calibration.matching import Matched, match_groups, require_treatment
from evenscore.data.coding import CHUNK
from evenscore.data.columns import Column, common_length, find_column, nulls_in, number_array, numbers_in, open_table
from evenscore.errors import DataError, OptionError, listing, shortened
from evenscore.multiobjective.axes import Axis
from evenscore.multiobjective.maps import GroupMaps, ReadyMaps
from evenscore.multiobjective.rows import JointColumns
from evenscore.naming import GroupNames, in_names
from evenscore.saving import as_path
from evenscore.tables import Table, label_text
from evenscore.types import Array, Floats, Mask
from evenscore.wording import dropped_words

COUNTS = ("rows", "outside", "far", "null_scores")


@dataclass(frozen=True, slots=True, repr=False)
class JointApplied(Counted):
    """Jointly calibrated scores, (n_rows, K), with what was counted on the way; made by ``JointCalibrator.apply``."""

    scores: Floats

    @property
    def n_outside(self) -> int:
        """Rows with a score outside the range that their group had in training; it was held constant."""
        return sum(count["outside"] for count in self.counts)

    @property
    def n_far(self) -> int:
        """Rows whose scores, taken together, nobody in training came near; they have the value of the nearest who did."""
        return sum(count["far"] for count in self.counts)

    @property
    def notable(self) -> bool:
        """Whether somebody should be told: unknown groups, missing scores, or more than 1 % of rows outside the range or far."""
        return bool(self.n_unknown or self.n_null or max(self.n_outside, self.n_far) > OFTEN * self.n_rows)

    def _unusual(self) -> list[tuple[int, str, str]]:
        outside = "a score outside the range seen in training: held constant"
        far = "scores that together nobody in training came near: {} the value of the nearest"
        return [
            (self.n_outside, f"row has {outside}", f"rows have {outside}"),
            (self.n_far, f"row has {far.format('it has')}", f"rows have {far.format('they have')}"),
            self._of_unknown("got the pooled maps", "kept its scores"),
            (self.n_null, "row lacks a score and has none afterwards", "rows lack a score and have none afterwards"),
        ]

    def _title(self) -> str:
        return f"{self.scores.shape[0]:,} rows with {self.scores.shape[1]} jointly calibrated scores"


@dataclass(frozen=True, slots=True, repr=False)
class JointCalibrator(Table):
    """Maps for each group, and for everybody, from all scores to the outcomes they stand for; made by ``es.calibrate_jointly``.

    axes: the scale of each score. maps: by group, in the order of the groups. columns: what the columns were called. binary: which
    outcomes are 0 or 1. fingerprint: of the data it was fitted on; split: the share of their users; dropped: rows left out.
    single: with one score, the calibrator that ``es.calibrate`` makes.

    Examples
    --------
    >>> import evenscore as es
    >>> from evenscore.simulation.objectives import feed
    >>> posts = feed(150).data(seed=1)
    >>> columns = dict(scores=["score_like", "score_share"], outcomes=["like", "share"], group="group", user="user")
    >>> joint = es.calibrate_jointly(posts, **columns, method="logistic")
    >>> joint.transform(posts, posts["group"]).shape
    (1177, 2)
    >>> joint.composite([1, 2]).transform(posts, posts["group"]).shape
    (1177,)
    """

    axes: tuple[Axis, ...]
    maps: tuple[GroupMaps, ...]
    pooled: GroupMaps | None
    method: str
    weighting: str
    columns: JointColumns
    binary: tuple[bool, ...]
    fingerprint: str
    dropped: dict[str, int] = field(default_factory=dict)
    reasons: Mapping[Any, str] = field(default_factory=dict)
    split: str | None = None
    frame_kind: str | None = None
    single: Calibrator | None = None

    @property
    def group_names(self) -> GroupNames:
        """What its groups are called, also when it was read from a file."""
        return GroupNames(self.columns.group, super(JointCalibrator, self).group_names.texts)

    @property
    def groups(self) -> tuple[Any, ...]:
        """The groups, in order."""
        return tuple(maps.group for maps in (self.maps if self.single is None else self.single.maps))

    @property
    def scores(self) -> tuple[str, ...]:
        """The columns of the scores."""
        return self.columns.scores

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The outcomes, in the order of the scores."""
        return self.columns.outcomes

    def transform(self, data: Any, groups: Any = None, on_unknown: str = "error", nulls: str = "error") -> Floats:
        """Calibrated scores, (n_rows, K), in the order of ``scores``.

        Parameters
        ----------
        data
            A frame or dict that holds the score columns, or an array (n_rows, K).
        groups
            Labels, or the name of their column; by default the column that the groups were fitted on.
        on_unknown
            For groups that were not there in training, or missing: "error", "pooled" (the pooled maps) or "keep" (the scores
            as they are).
        nulls
            For missing scores: "error", or "keep" (all scores of the row are then missing).

        Notes
        -----
        Warns when groups are unknown, and when more than 1 % of rows lie outside what was seen in training, where the maps are held
        constant; ``apply`` gives the counts.
        """
        applied = self.apply(data, groups, on_unknown=on_unknown, nulls=nulls)
        applied._warn()
        return applied.scores

    @in_names
    def apply(self, data: Any, groups: Any = None, on_unknown: str = "error", nulls: str = "error") -> JointApplied:
        """Calibrated scores together with the counts of what was unusual."""
        require_treatment(on_unknown, nulls)
        scores, labels = self._columns(data, groups)
        if self.single is not None:
            return _from_single(self.single, scores[0].values, labels, on_unknown, nulls)
        if len(scores[0]) == 0:
            none = np.zeros((len(self.maps) + 1, len(COUNTS)), dtype=np.int64)
            return JointApplied(counts_by_group(self.groups, COUNTS, none), on_unknown, np.zeros((0, len(scores))))
        missing = _missing(scores, nulls)
        values = [numbers_in(column, known=None if missing is None else ~missing) for column in scores]
        matched = match_groups(labels, self.groups, len(values[0]), on_unknown)
        return self.map_rows(values, matched, missing, on_unknown)

    def _columns(self, data: Any, groups: Any) -> tuple[list[Column], Any]:
        """The score columns, and the labels."""
        k = len(self.scores)
        if isinstance(data, np.ndarray):
            if data.ndim != 2 or data.shape[1] != k:
                raise DataError(
                    f"scores must have the shape (n_rows, {k}), a column for each of {listing(self.scores)}, not {data.shape}"
                )
            table, scores = None, [Column(name, "score", data[:, j]) for j, name in enumerate(self.scores)]
        else:
            table, _ = open_table(data)
            scores = [find_column(table, name, "score") for name in self.scores]
            if any(len(column) for column in scores):
                common_length(table, scores)
        if groups is None:
            if table is None:
                raise OptionError("groups=None: give the label of each row, or a frame that holds the column")
            groups = list(self.columns.group) if len(self.columns.group) > 1 else self.columns.group[0]
        if isinstance(groups, str):
            groups = find_column(table, groups, "group").values
        elif isinstance(groups, list) and groups and table is not None and len(groups) == len(self.columns.group) > 1:
            groups = [find_column(table, given, "group").values if isinstance(given, str) else given for given in groups]
        return scores, groups

    def map_rows(self, scores: Sequence[Array], matched: Matched, missing: Any = None, on_unknown: str = "error") -> JointApplied:
        """Calibrated scores of rows whose groups are found already, in cache-sized steps."""
        mapped = np.empty((len(matched.places), len(scores)))
        unknown = self.pooled if on_unknown == "pooled" else None  # at place -1
        maps_by_place = [None if maps is None else ReadyMaps.of(maps, self.axes) for maps in (*self.maps, unknown)]
        counts = np.zeros((len(maps_by_place), len(COUNTS)), dtype=np.int64)
        for chunk, place, rows in matched.chunks(CHUNK // 2):
            mine, maps = [values[chunk][rows] for values in scores], maps_by_place[place]
            mapped[chunk][rows], outside, far = (np.stack(mine, axis=1), 0, 0) if maps is None else maps.at(mine)
            n_missing = 0 if missing is None else int(missing[chunk][rows].sum())
            counts[place] += (len(mine[0]), outside, far, n_missing)
        if missing is not None:
            mapped[missing] = np.nan
        return JointApplied(counts_by_group(self.groups, COUNTS, counts), on_unknown, mapped)

    def composite(self, weights: Any) -> Composite:
        """The blended score sum_k w_k E(Y_k | ...) for any weights: a list in the order of the scores, or a dict by outcome."""
        return Composite(self, tuple(check_weights(weights, self.scores, self.outcomes).tolist()))

    def save(self, path: str | Path) -> None:
        """Write the calibrator as JSON, whole or not at all."""
        from evenscore.multiobjective.storage import FILE

        FILE.save(self, as_path(path))

    @classmethod
    def load(cls, path: str | Path) -> JointCalibrator:
        """Read a calibrator that ``save`` wrote."""
        from evenscore.multiobjective.storage import FILE

        return FILE.load(as_path(path))

    def rows(self) -> list[dict[str, Any]]:
        """One row for each group and objective: users and rows with a label, the method and its squared error on users left out."""
        if self.single is not None:
            return [
                {"group": own.group, "outcome": self.outcomes[0], "users": own.users, "rows": own.rows, "method": own.words}
                for own in self.single.maps
            ]
        return [
            {
                "group": maps.group,
                "outcome": outcome,
                "users": own.users,
                "rows": own.rows,
                "method": own.method,
                "risk": own.risk.get(own.method, np.nan),
                "reason": own.reason,
            }
            for maps in self.maps
            for outcome, own in zip(self.outcomes, maps.objectives, strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The whole calibrator in JSON-ready values, as ``save`` writes it."""
        from evenscore.multiobjective.storage import FILE

        return FILE.document(self)

    def _title(self) -> str:
        pairs = ", ".join(f"{score} for {outcome}" for score, outcome in zip(self.scores, self.outcomes, strict=True))
        return f"Joint calibrator of {len(self.groups)} groups ({pairs}), weighted per {self.weighting}"

    def _notes(self) -> list[str]:
        return dropped_words(self.dropped) + [f"{label_text(group)}: {reason}" for group, reason in self.reasons.items()]


@dataclass(frozen=True, slots=True)
class Composite:
    """A blend of jointly calibrated scores; made by ``JointCalibrator.composite``. weights: in the order of the scores."""

    calibrator: JointCalibrator
    weights: tuple[float, ...]

    def transform(self, data: Any, groups: Any = None, on_unknown: str = "error", nulls: str = "error") -> Floats:
        """The blended score, (n_rows,)."""
        return self.calibrator.transform(data, groups, on_unknown=on_unknown, nulls=nulls) @ np.array(self.weights)


def check_weights(weights: Any, scores: Sequence[str], outcomes: Sequence[str]) -> Floats:
    """K finite weights, not all 0, from a list or a dict by outcome or score."""
    if isinstance(weights, Mapping):
        names = outcomes if set(weights) <= set(outcomes) else scores
        if unknown := [name for name in weights if name not in names]:
            raise OptionError(f"weights name {listing(map(repr, unknown))}; the outcomes are {listing(map(repr, outcomes))}")
        weights = [weights.get(name, 0.0) for name in names]
    values = number_array("weights", weights)
    if values.shape != (len(scores),):
        raise OptionError(f"there must be {len(scores)} weights, one for each of {listing(outcomes)}, not {shortened(weights)}")
    if not values.any():
        raise OptionError(f"weights={shortened(weights)} must be finite and not all 0")
    return values


def _missing(scores: list[Column], nulls: str) -> Mask | None:
    """Rows without all scores, or an error."""
    masks = [(column, mask) for column in scores if (mask := nulls_in(column)) is not None]
    for column, mask in masks:
        if nulls == "error":
            column.refuse(mask, "is null or NaN", hint="nulls='keep' leaves the scores of such rows missing and counts them")
    return np.logical_or.reduce([mask for _, mask in masks]) if masks else None


def _from_single(single: Calibrator, scores: Any, labels: Any, on_unknown: str, nulls: str) -> JointApplied:
    applied = single.apply(scores, labels, on_unknown=on_unknown, nulls=nulls)
    counts = tuple(
        {name: count[name] for name in ("group", "known", "rows")}
        | {"outside": count["below"] + count["above"], "far": 0, "null_scores": count["null_scores"]}
        for count in applied.counts
    )
    return JointApplied(counts, on_unknown, applied.scores[:, None])
