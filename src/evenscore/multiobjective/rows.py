"""The border for several objectives: aligned, checked and coded columns, each outcome with its own labelled rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenscore.data.coding import CHUNK, Codes, Users, code_type, independent_users
from evenscore.data.columns import Column, common_length, find_column, nulls_in, numbers_in, open_table
from evenscore.data.groups import group_columns, groups_of
from evenscore.data.observations import NULLS, Columns, is_binary, users_of, weights_of
from evenscore.data.splits import Split
from evenscore.engines import collect
from evenscore.errors import DataError, OptionError, listing, require_option, shortened
from evenscore.naming import use_columns
from evenscore.saving import pack_label
from evenscore.types import Array, Floats, Ints, Mask, Say

N_FOLDS = 5  # of users: each is left out of one fit
SPARSE = 50_000_000  # a table of (user, group) larger than this, and ids are renumbered first


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivesSpec:
    """What is asked of the data: K scores, the outcome of each, and the other columns; checked when it is made."""

    scores: Sequence[Any]
    outcomes: Sequence[Any]
    group: Any
    user: Any
    weight: Any = None
    nulls: str = "unlabelled"
    split: str | None = None

    def __post_init__(self) -> None:
        require_option("nulls", self.nulls, NULLS)
        _require_pairs(self.scores, self.outcomes)

    @property
    def n_objectives(self) -> int:
        """The number K of scores and of outcomes."""
        return len(self.scores)


@dataclass(frozen=True, slots=True)
class JointColumns:
    """What each column is called."""

    scores: tuple[str, ...]
    outcomes: tuple[str, ...]
    group: tuple[str, ...]
    user: str | None
    weight: str | None = None


@dataclass(frozen=True, slots=True)
class JointRows:
    """Aligned columns of n_rows rows and K objectives.

    scores, outcomes: K arrays (n_rows,). labelled: K masks, None where every outcome is known. binary: which outcomes are 0 or 1.
    group: codes (n_rows,) into ``groups``. users: their codes begin with 0; fold: (n_codes,), the fold of each user.
    dropped: rows left out, by column. split: the share of the users, if not all.
    """

    scores: tuple[Array, ...]
    outcomes: tuple[Array, ...]
    labelled: tuple[Mask | None, ...]
    binary: tuple[bool, ...]
    group: NDArray[np.uint8]
    groups: tuple[Any, ...]
    users: Users
    fold: NDArray[np.int8]
    columns: JointColumns
    weight: Floats | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    frame: str | None = None
    split: str | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows, labelled or not."""
        return len(self.group)

    @property
    def n_objectives(self) -> int:
        """The number K of scores and of outcomes."""
        return len(self.scores)

    @property
    def user(self) -> Codes:
        """The code of each row's user, from 0, (n_rows,)."""
        return self.users.codes

    def fingerprint(self) -> str:
        """A digest of users, scores and outcomes: equal data give equal fingerprints, in any order of the rows up to rounding."""
        digest = hashlib.sha256(repr([pack_label(group) for group in self.groups]).encode())
        seen = np.bincount(self.user, minlength=len(self.fold))
        users = np.flatnonzero(seen)
        digest.update(repr((self.n_rows, int(np.bitwise_xor.reduce(self.users.hashes(users))))).encode())
        for column in (*self.scores, *self.outcomes):
            digest.update(f"{np.sum(column, dtype=np.float64):.9e}".encode())
        return digest.hexdigest()

    def users_in_groups(self) -> Codes:
        """A code for the user within the group of each row, (n_rows,)."""
        small = len(self.fold) * len(self.groups) < 2**31
        codes: Codes = self.user.astype(np.int32 if small else np.int64)
        return np.asarray(codes * len(self.groups) + self.group, dtype=codes.dtype)

    def labels_per_user(self, labelled: Mask | None, codes: Codes) -> Ints:
        """The number n_m of labelled rows for each user within each group, by the codes of ``users_in_groups``."""
        return np.bincount(codes if labelled is None else codes[labelled], minlength=len(self.fold) * len(self.groups))


def observe_jointly(data: Any, spec: ObjectivesSpec, say: Say | None = None) -> JointRows:
    """Check and code the columns of any data that ``es.tally`` takes."""
    roles = {"score": list(spec.scores), "outcome": list(spec.outcomes), "group": spec.group, "user": spec.user}
    table, kind = open_table(collect(data, roles | {"weight": spec.weight}, say))
    columns = _Columns.find(table, spec)
    common_length(table, [*columns.scores, *columns.outcomes, *columns.others])
    kept, labelled, dropped = _without_nulls([*columns.scores, *columns.others], columns.outcomes, spec.nulls)
    if kept is not None:
        columns = columns.take(kept)
        labelled = [None if known is None else known[kept] for known in labelled]
    for column, known in zip(columns.outcomes, labelled, strict=True):
        if known is not None and not known.any():
            raise DataError(f"{column} is null in all {len(column):,} rows: nothing is labelled")
    scores = [_varying_numbers(column) for column in columns.scores]
    outcomes = [numbers_in(column, known=known) for column, known in zip(columns.outcomes, labelled, strict=True)]
    group, groups = groups_of(columns.group)
    use_columns(Columns("", "", columns.names.group, None))
    given_users = independent_users(len(group)) if columns.user is None else users_of(columns.user)
    users, fold = _code_users(given_users, len(groups))
    rows = JointRows(
        scores=tuple(scores),
        outcomes=tuple(outcomes),
        labelled=tuple(labelled),
        binary=tuple(is_binary(y, known) for y, known in zip(outcomes, labelled, strict=True)),
        group=group,
        groups=groups,
        users=users,
        fold=fold,
        columns=columns.names,
        weight=None if columns.weight is None else weights_of(columns.weight),
        dropped=dropped,
        frame=kind,
    )
    rows = _only_weighty(rows)
    if spec.split is not None:
        rows = _only_users(rows, Split.parse(spec.split))
    _require_labels(rows)
    return rows


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of the data by what they are for."""

    scores: list[Column]
    outcomes: list[Column]
    group: list[Column]
    user: Column | None
    weight: Column | None

    @classmethod
    def find(cls, table: Any, spec: ObjectivesSpec) -> _Columns:
        """Those that are asked for."""
        return cls(
            scores=_find_each(table, spec.scores, "score"),
            outcomes=_find_each(table, spec.outcomes, "outcome"),
            group=group_columns(table, spec.group),
            user=None if spec.user is None else find_column(table, spec.user, "user"),
            weight=None if spec.weight is None else find_column(table, spec.weight, "weight"),
        )

    @property
    def others(self) -> list[Column]:
        """All but scores and outcomes."""
        return [*self.group, *(column for column in (self.user, self.weight) if column is not None)]

    @property
    def names(self) -> JointColumns:
        """What each column is called."""
        return JointColumns(
            scores=tuple(column.name for column in self.scores),
            outcomes=tuple(column.name for column in self.outcomes),
            group=tuple(column.name for column in self.group),
            user=None if self.user is None else self.user.name,
            weight=None if self.weight is None else self.weight.name,
        )

    def take(self, rows: Ints) -> _Columns:
        """Only some rows."""
        return _Columns(
            scores=[column.take(rows) for column in self.scores],
            outcomes=[column.take(rows) for column in self.outcomes],
            group=[column.take(rows) for column in self.group],
            user=None if self.user is None else self.user.take(rows),
            weight=None if self.weight is None else self.weight.take(rows),
        )


def _only_weighty(rows: JointRows) -> JointRows:
    """The rows that weigh anything, in units of their mean weight: penalties and limits speak of people."""
    if rows.weight is None:
        return rows
    kept = np.flatnonzero(rows.weight > 0)
    rows = rows if len(kept) == rows.n_rows else _take(rows, kept)
    assert rows.weight is not None
    binary = tuple(is_binary(y, known) for y, known in zip(rows.outcomes, rows.labelled, strict=True))
    return replace(rows, weight=rows.weight / rows.weight.mean(), binary=binary)


def _take(rows: JointRows, kept: Ints) -> JointRows:
    """Only some rows."""
    return replace(
        rows,
        scores=tuple(score[kept] for score in rows.scores),
        outcomes=tuple(outcome[kept] for outcome in rows.outcomes),
        labelled=tuple(None if known is None else known[kept] for known in rows.labelled),
        group=rows.group[kept],
        users=replace(rows.users, codes=rows.users.codes[kept]),
        weight=None if rows.weight is None else rows.weight[kept],
    )


def _only_users(rows: JointRows, split: Split) -> JointRows:
    """The rows of the users in a split."""
    seen = np.flatnonzero(np.bincount(rows.user, minlength=len(rows.fold)))
    held = np.zeros(len(rows.fold), dtype=bool)
    held[seen] = split.holds(rows.users.hashes(seen))
    kept = np.flatnonzero(held[rows.user])
    if len(kept) == 0:
        raise DataError(f"split={str(split)!r} holds none of the users of these {rows.n_rows:,} rows")
    return replace(_take(rows, kept), split=str(split))


def _require_pairs(scores: Any, outcomes: Any) -> None:
    """As many scores as outcomes, each score once."""
    for name, value in (("scores", scores), ("outcomes", outcomes)):
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise OptionError(f"{name}={shortened(value)} must be a list of columns, one for each objective")
    if len(scores) != len(outcomes):
        raise OptionError(
            f"there are {len(scores)} scores and {len(outcomes)} outcomes; each score needs its outcome, in the same place"
        )
    if not scores:
        raise OptionError("scores=[] names no column; give at least one score with its outcome")
    named = [name for name in scores if isinstance(name, str)]
    if twice := [name for name in dict.fromkeys(named) if named.count(name) > 1]:
        raise OptionError(f"the score {listing(map(repr, twice))} is named more than once")


def _find_each(table: Any, values: Sequence[Any], role: str) -> list[Column]:
    """A column for each name or array; arrays are called after their role and number."""
    columns = [find_column(table, value, role) for value in values]
    return [
        column if isinstance(value, str) else Column(f"{role} {number}", role, column.values)
        for number, (column, value) in enumerate(zip(columns, values, strict=True), start=1)
    ]


def _without_nulls(
    others: list[Column], outcomes: list[Column], nulls: str
) -> tuple[Ints | None, list[Mask | None], dict[str, int]]:
    """Rows to keep (None = all), which outcomes are known in all rows given, and how many rows were left out; or an error."""
    hint = "nulls='drop' leaves such rows out and counts them"
    missing: dict[str, Mask] = {}
    for column in others:
        mask = nulls_in(column)
        if mask is not None and nulls != "drop":
            column.refuse(mask, "is null or NaN", hint=hint)
        elif mask is not None:
            missing[column.name] = mask
    unknown = [nulls_in(column) for column in outcomes]
    for column, mask in zip(outcomes, unknown, strict=True):
        if mask is not None and nulls == "error":
            column.refuse(mask, "is null or NaN", hint="nulls='unlabelled' fits each objective on its own labelled rows")
    labelled = [None if mask is None else ~mask for mask in unknown]
    if not missing:
        return None, labelled, {}
    kept = np.flatnonzero(~np.logical_or.reduce(list(missing.values())))
    if len(kept) == 0:
        raise DataError(f"nulls='drop' leaves none of the {len(others[0]):,} rows: {listing(missing)} are null")
    return kept, labelled, {name: int(mask.sum()) for name, mask in missing.items()}


def _varying_numbers(column: Column) -> Array:
    values = numbers_in(column)
    if values.min() == values.max():
        raise DataError(f"{column} is {values[0]} in all {len(values):,} rows; a constant score says nothing: leave it out")
    return values


def _code_users(users: Users, n_groups: int) -> tuple[Users, NDArray[np.int8]]:
    """Users with codes from 0, and the fold of each code."""
    if users.span * n_groups > SPARSE or users.span > 2 * len(users.codes) + 1000:
        users = users.compact()
    fold = np.empty(users.span, dtype=np.int8)
    for start in range(0, users.span, CHUNK):
        stop = min(start + CHUNK, users.span)
        fold[start:stop] = users.hashes(np.arange(users.low + start, users.low + stop)) % N_FOLDS
    if users.low == 0:
        return users, fold
    given = users
    codes: Codes = np.asarray(given.codes - given.low).astype(code_type(given.span), copy=False)
    return Users(codes, 0, given.span, lambda picked: given.hashes(picked + given.low), given.independent), fold


def _require_labels(rows: JointRows) -> None:
    for k, known in enumerate(rows.labelled):
        counts = np.bincount(rows.group if known is None else rows.group[known], minlength=len(rows.groups))
        if (bare := np.flatnonzero(counts == 0)).size:
            raise DataError(
                f"column {rows.columns.outcomes[k]!r} (outcome) is labelled in no row of group "
                f"{listing(repr(rows.groups[g]) for g in bare)}; leave the group or the objective out"
            )
