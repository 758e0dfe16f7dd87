"""A repair to suggest when a disparity is shown: calibrated scores, tested on users that they were not fitted on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evenscore.calibration import calibrate
from evenscore.calibration.calibrated_tally import calibrated_tally
from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.repair_state import SHOWN, UNJUDGED, UNTESTED, VERIFIED
from evenscore.calibration.verification import Verification, verify
from evenscore.errors import EvenscoreError, listing
from evenscore.estimation.fitted_curves import Curves, curves
from evenscore.tables import label_text
from evenscore.tallies.tally_state import Tally
from evenscore.wording import number_text

FITTED, TESTED = "1/2", "2/2"  # the users that the repair is fitted and tested on

ReadSplit = Callable[[str], Tally]


@dataclass(frozen=True, slots=True)
class Repair:
    """Calibrated scores, and what they change on users that they were not fitted on.

    verification: None when there were no such users, and ``unverified`` says why. curves_before, curves_after: what the old and
    the calibrated score mean for those users.
    """

    calibrator: Calibrator
    verification: Verification | None = None
    curves_before: Curves | None = None
    curves_after: Curves | None = None
    unverified: str = ""

    @property
    def state(self) -> str:
        """ "verified", "no longer shown", "still shown" or "could not be judged" on users it was not fitted on; or "untested"."""
        return UNTESTED if self.verification is None else self.verification.state

    @property
    def verified(self) -> bool:
        """Whether what is left of the gap is shown to lie within the tolerance, on users it was not fitted on."""
        return self.state == VERIFIED

    @property
    def objection(self) -> str:
        """Why it is not suggested: a group it makes worse, or a gap that it does not close; empty when it is suggested."""
        found = self.verification
        if found is None:
            return ""
        if found.worse:
            errors = listing(
                f"{label_text(own.group)} from {number_text(own.mse[0])} to {number_text(own.mse[1])}" for own in found.worse
            )
            return (
                f"the squared error rises for {errors}, by more than chance explains. Collect more users there, or leave those "
                "scores as they are"
            )
        if found.rises and not found.verified:
            return "they do not close the gap. More users are needed to fit them"
        return ""

    @property
    def suggested(self) -> bool:
        """Whether the audit suggests it."""
        return not self.objection

    @property
    def words(self) -> str:
        """What the repair does, in a sentence."""
        if self.verification is None:
            return f"scores calibrated for each group, which are meant to even out the gaps; unverified: {self.unverified}"
        halves = f"scores calibrated for each group on half of the {self.verification.split_of}, tested on the other half"
        objection = f"{self.objection}. On the other half " if self.objection else ""
        return f"{halves}: {objection}{self.verification.words}"

    @property
    def sentence(self) -> str:
        """The same, and whether it is suggested."""
        called = {SHOWN: "a repair that does not remove the disparity", UNJUDGED: "a repair to try, not shown to work"}
        leaves = self.verification is not None and self.verification.leaves_too_much
        suggested = called.get(self.state, called[UNJUDGED] if leaves else "suggested repair")
        return f"{suggested if self.suggested else 'no repair is suggested'}: {self.words}"

    def to_dict(self) -> dict[str, Any]:
        """In JSON-ready values, with the whole calibrator."""
        return {
            "verified": self.verified,
            "state": self.state,
            "suggested": self.suggested,
            "words": self.words,
            "calibrator": self.calibrator.to_dict(),
            "verification": None if self.verification is None else self.verification.to_dict(),
        }


def find_repair(
    tally: Tally,
    read_split: ReadSplit | None,
    *,
    alpha: float,
    tolerance: float | None,
    reference: Any,
    weighting: str,
    seed: int,
    same_scale: bool | None = None,
) -> Repair:
    """Calibrate on half of the users and test on the other; on all of them, untested, when there is only the tally."""
    if read_split is None:
        why = (
            f"only the {tally.split_of} of split {tally.split} were audited"
            if tally.split
            else "a tally cannot be split by user; audit the data"
        )
        return Repair(calibrate(tally, weighting=weighting, shrink=True), unverified=why)
    try:
        fitted, tested = (read_split(split) for split in (FITTED, TESTED))
        calibrator = calibrate(fitted, weighting=weighting, shrink=True)
        # Of the audit only its own weighting is told of a repair, so the other is not tested.
        asked: dict[str, Any] = {"alpha": alpha, "tolerance": tolerance, "reference": reference, "both": False}
        found = verify(calibrator, tested, **asked, weighting=weighting, seed=seed, on_unknown="pooled", same_scale=same_scale)
        after = calibrated_tally(tested, calibrator, "pooled")
    except EvenscoreError as error:
        return Repair(calibrate(tally, weighting=weighting, shrink=True), unverified=str(error))
    shared: dict[str, Any] = {"weighting": weighting, "alpha": alpha, "seed": seed}
    return Repair(calibrator, found, curves(tested, **shared), curves(after, **shared))
