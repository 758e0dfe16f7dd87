"""How users spread over cells by all of their rows, with an outcome or not: what limits of selection rates rest on.

Where every row has an outcome this is what the labelled rows say, and nothing more is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evenscore.tallies.blocks import ALL_PAIRS, ALL_ROWS, EVERYONE
from evenscore.tallies.group_sums import GroupTally
from evenscore.tallies.moments import Sums
from evenscore.tallies.pairs import PairSums
from evenscore.tallies.tally_state import Tally
from evenscore.types import Floats


def has_unlabelled(tally: Tally) -> bool:
    """Whether any row has no outcome."""
    return any(group.n_unlabelled for group in tally.group_tallies)


def attach_everyone(tally: Tally, everyone: Tally) -> Tally:
    """The tally with sums of all rows; everyone: the tally of the same rows, each taken as labelled."""
    groups = tuple(
        group.with_blocks(**_all_blocks(every)) for group, every in zip(tally.group_tallies, everyone.group_tallies, strict=True)
    )
    cross = {**tally.cross_blocks, "all_pairs": {pair: _weights_only(sums) for pair, sums in everyone.cross.items()}}
    return replace(tally, group_tallies=groups, cross_blocks=cross)


def complete(tally: Tally) -> Tally:
    """The same with sums of all rows where every row has an outcome and they are the sums of labelled rows."""
    known = set(EVERYONE) <= set(tally.block_names)
    return tally if known or has_unlabelled(tally) or "higher" not in tally.block_names else attach_everyone(tally, tally)


def _all_blocks(group: GroupTally) -> Mapping[str, Sums]:
    powers = {"R2": group.vectors["V0"], "R3": group.blocks["higher"]["T0"]}
    return {"all_rows": Sums.from_named(ALL_ROWS, powers), "all_pairs": _weights_only(group.pairs)}


def _weights_only(pairs: PairSums) -> PairSums:
    return replace(pairs, moments=ALL_PAIRS, values=pairs.values[:, :1])


def all_pairs(tally: Tally, a: int, b: int, weighting: str) -> Floats | None:
    """What users put into a cell of one group times what they put into a cell of another (or the same), by all of their rows.

    (n_cells, n_cells); None where it was not kept, or nobody is in both groups.
    """
    if not has_unlabelled(tally):
        pairs = tally.pair_matrices(tally.groups[a], tally.groups[b], weighting)
        return None if pairs is None else pairs.ww
    if a == b:
        sums = tally.group_tallies[a].blocks.get("all_pairs")
        return sums.squares(weighting)["aa"] if isinstance(sums, PairSums) else None
    between = tally.cross_blocks.get("all_pairs", {}).get((min(a, b), max(a, b)))
    if between is None:
        return None
    return (between if a < b else between.transposed()).squares(weighting)["aa"]
