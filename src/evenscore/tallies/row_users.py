"""The tally as if every row were another person: what a test that does not know users would see, without a second scan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenscore.tallies.blocks import EVERYONE, ITEMS
from evenscore.tallies.group_sums import GroupTally
from evenscore.tallies.moments import WEIGHTINGS, Sums
from evenscore.tallies.pairs import USER_PAIRS, PairSums
from evenscore.tallies.tally_state import Tally
from evenscore.types import Floats

BY_ROW = [WEIGHTINGS.index("row")] * len(WEIGHTINGS)


def rows_as_users(tally: Tally) -> Tally:
    """Every labelled row as a user of its own, who shares nothing with any other row.

    It has the sums of ``es.tally(..., user=None)`` on the same lattice, but for the folds, which stay those of users.
    """
    columns = None if tally.columns is None else replace(tally.columns, user=None)
    groups = tuple(map(_group_by_rows, tally.group_tallies))
    return replace(
        tally,
        group_tallies=groups,
        cross_blocks={},
        n_spanning=0,
        columns=columns,
        sketch=None,
        item=None,
        item_counts=(),
        items=None,
    )


def _group_by_rows(group: GroupTally) -> GroupTally:
    vectors = _by_row(group.vectors)
    pairs = _own_cell(np.stack([vectors[name] for name in ("V0", "V1", "V1", "V2")], axis=1))
    blocks = {name: _by_row(sums) for name, sums in group.blocks.items() if name not in ("pairs", *EVERYONE, *ITEMS)}
    return replace(group, n_users=group.n_rows, cell_users=vectors["W"][0], blocks=blocks | {"pairs": pairs})


def _by_row(sums: Sums) -> Sums:
    """The sums with the weights of rows under both weightings: a user of one row weighs what the row does."""
    return replace(sums, values=sums.values[BY_ROW])


def _own_cell(values: Floats) -> PairSums:
    """Pair sums of users who are in one cell each; values: (2 weightings, 4 sums, n_cells)."""
    n_cells = values.shape[-1]
    used = np.flatnonzero(values[0, 0])
    return PairSums(USER_PAIRS, values[:, :, used], n_cells, True, (used * (n_cells + 1)).astype(np.int32))
