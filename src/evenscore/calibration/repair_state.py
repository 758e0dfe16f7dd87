"""What can be said of a repair: it is verified only when what is left of the gap is shown to be small."""

from __future__ import annotations

import numpy as np

from evenscore.estimation.verdict import DISPARITY, PARITY, largest
from evenscore.ordering.ordering_result import OrderingTest
from evenscore.parity.parity_result import PairTest, ParityTest
from evenscore.wording import amount_text

VERIFIED, NOT_SHOWN, SHOWN, UNJUDGED = "verified", "no longer shown", "still shown", "could not be judged"
UNTESTED = "untested"
STATES = (VERIFIED, NOT_SHOWN, SHOWN, UNJUDGED, UNTESTED)


def judge_repair(
    before: ParityTest, after: ParityTest, ordering_before: OrderingTest, ordering_after: OrderingTest
) -> tuple[str, str]:
    """The state of a repair on users that it was not fitted on, and why.

    verified: every remaining gap has its simultaneous band within the tolerance; without a tolerance nothing is verified. no longer
    shown: every pair that showed a disparity before can be judged after, and none shows one.
    """
    if DISPARITY in (after.verdict, ordering_after.verdict):
        return SHOWN, after.reason if after.verdict == DISPARITY else ordering_after.reason
    if after.verdict == PARITY:
        return VERIFIED, after.reason
    unequal = [_key(pair) for test in (before, ordering_before) for pair in test.pairs if pair.verdict == DISPARITY]
    lost = [pair for pair in after.pairs if not pair.judged and (_key(pair) in unequal or not unequal)]
    if lost:
        return UNJUDGED, "; ".join(f"{pair.name}: {pair.reason}" for pair in lost)
    if not unequal:
        return UNJUDGED, "on these users no disparity is shown before the repair either"
    return NOT_SHOWN, after.reason


def _key(pair: PairTest | object) -> tuple[str, str]:
    return repr(getattr(pair, "group_a", None)), repr(getattr(pair, "group_b", None))


def rms_gap(pair: PairTest) -> float:
    """The root of the mean squared gap over the grid, less the squared standard errors: what would be left without noise."""
    known = np.isfinite(pair.gap)
    if not known.any():
        return np.nan
    squares = float(np.mean(pair.gap[known] ** 2 - np.nan_to_num(pair.se[known]) ** 2))
    return float(np.sqrt(max(squares, 0.0)))


def gap_limit(test: ParityTest) -> float:
    """The largest gap that the simultaneous bands of the judged pairs still allow; nan when none was judged."""
    sizes = [np.abs(np.concatenate([pair.band_low, pair.band_high])) for pair in test.pairs if pair.judged and len(pair.gap)]
    return largest(float(size) for size in np.concatenate(sizes)) if sizes else np.nan


def describe_change(before: ParityTest, after: ParityTest) -> tuple[str, str]:
    """How the typical gap moves, among pairs that could be judged both times: "falls", "rises", "stays" or "", and a sentence."""
    both = [(rms_gap(old), rms_gap(new)) for old, new in zip(before.pairs, after.pairs, strict=True) if old.judged and new.judged]
    both = [sizes for sizes in both if np.isfinite(sizes).all()]
    lost = any(old.verdict == DISPARITY and not new.judged for old, new in zip(before.pairs, after.pairs, strict=True))
    if lost or not both:  # of a pair that showed a gap nothing would be told
        return "", "the remaining gap cannot be given"
    sizes = [max(own) for own in zip(*both, strict=True)]
    old, new = (amount_text(size) if size > 0 else "no more than noise" for size in sizes)  # noise is taken off
    if old == new:
        return "stays", f"the typical gap stays at {old}"
    moves = "falls" if sizes[1] < sizes[0] else "rises"
    return moves, f"the typical gap {moves} from {old} to {new}"
