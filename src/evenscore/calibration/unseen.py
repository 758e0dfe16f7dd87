"""How it is known that a calibrator has not seen the data that it is tested on; on what it was fitted on it always looks good."""

from __future__ import annotations

from evenscore.calibration import fingerprint
from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.sketching import overlap
from evenscore.data.splits import Split
from evenscore.errors import DataError, OptionError
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.two_way import has_groups_of_items

ENOUGH_CHECKED = 30  # users looked up in a sketch before an overlap of a tenth would be missed with less than 5 %


def require_unseen(calibrator: Calibrator, tally: Tally, key: str | None, vouched: bool) -> str:
    """How it is known that the calibrator has not seen these users, in words; an error when it has, or when nobody knows."""
    if fingerprint(tally) == calibrator.fingerprint:
        raise DataError(
            "these are the very data that the calibrator was fitted on. A repair always looks good there; "
            "fit on split='1/2' and verify on split='2/2'"
        )
    if calibrator.split is not None and tally.split is not None:
        _require_same_key(calibrator, tally)
        if Split.parse(calibrator.split).disjoint(Split.parse(tally.split)):
            return f"fitted on the {tally.split_of} of split {calibrator.split}, verified on those of split {tally.split}"
        raise DataError(
            f"the calibrator was fitted on split {calibrator.split}, and {tally.split_of} of split {tally.split} may be among "
            f"those; verify on {tally.split_of} outside, such as split='{_outside(calibrator.split)}'"
        )
    by_item = calibrator.by_item or has_groups_of_items(tally)
    if calibrator.sketch is not None and key is not None and not by_item:
        sought = overlap(calibrator.sketch, tally, key)
        if sought.n_shared:
            raise DataError(
                f"{sought.n_shared:,} of {sought.n_checked:,} users that could be looked up were fitted on. A repair always looks "
                "good on them; verify on other users"
            )
        if sought.n_checked >= ENOUGH_CHECKED or len(calibrator.sketch.hashes) < 1024:
            return f"none of {sought.n_checked:,} users that could be looked up was fitted on"
    if vouched:
        return f"the caller says that none of these {'items' if by_item else 'users'} was fitted on"
    if by_item:
        raise DataError(
            f"each {tally.item or calibrator.item} has a group, and nothing says that these are new to the calibrator: on items it "
            "was fitted on a repair always looks good. Either fit on es.tally(..., item=..., split='1/2') and verify on "
            "split='2/2', or vouch for it with unseen=True"
        )
    raise DataError(
        "nothing says that these users are new to the calibrator, and on the users it was fitted on a repair always looks good. "
        "Either fit on es.tally(..., split='1/2') and verify on split='2/2', or fit with remember_users='a secret' and verify "
        "with key='a secret', or vouch for it with unseen=True"
    )


def _require_same_key(calibrator: Calibrator, tally: Tally) -> None:
    """A share of the users and a share of the items have both in common."""
    if calibrator.by_item == tally.by_item:
        return
    fitted = "items" if calibrator.by_item else "users"
    raise DataError(
        f"the calibrator was fitted on a share of the {fitted}, and these data are a share of the {tally.split_of}: they may hold "
        f"any that it was fitted on. Fit and verify with item={calibrator.item or tally.item!r} alike, on data in which each has "
        "one group"
    )


def _outside(split: str) -> str:
    try:
        return str(Split.parse(split).rest())
    except OptionError:
        return "..."
