"""A repair to suggest when a disparity is shown: calibrated scores, tested on users that they were not fitted on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evenscore.calibration import calibrate
from evenscore.calibration.calibrated_tally import calibrated_tally
from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.verification import Verification, verify
from evenscore.errors import EvenscoreError
from evenscore.estimation.fitted_curves import Curves, curves
from evenscore.estimation.verdict import DISPARITY, PARITY
from evenscore.tables import p_text
from evenscore.tallies.tally_state import Tally

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
    def verified(self) -> bool:
        """Whether it was tested on users it was not fitted on."""
        return self.verification is not None

    @property
    def words(self) -> str:
        """What the repair does, in a sentence."""
        if self.verification is None:
            return f"scores calibrated for each group would even out the gaps; unverified: {self.unverified}"
        found = self.verification
        left = {DISPARITY: "a disparity is still shown", PARITY: "gaps stay within the tolerance"}
        rest = left.get(found.verdict, "no disparity is shown any more, which is not proof of parity")
        return (
            f"scores calibrated for each group on half of the users, tested on the other half: the typical gap falls from "
            f"{found.rms_gap_before:.3f} to {found.rms_gap_after:.3f}, and {rest} (p = {p_text(found.p_value)}, largest gap "
            f"{abs(found.after.max_gap):.3f}, smallest that would be seen {found.after.minimum_detectable_gap:.3f})"
        )

    def to_dict(self) -> dict[str, Any]:
        """In JSON-ready values, with the whole calibrator."""
        return {
            "verified": self.verified,
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
            f"only the users of split {tally.split} were audited"
            if tally.split
            else "a tally cannot be split by user; audit the data"
        )
        return Repair(calibrate(tally, weighting=weighting), unverified=why)
    try:
        fitted, tested = (read_split(split) for split in (FITTED, TESTED))
        calibrator = calibrate(fitted, weighting=weighting)
        asked: dict[str, Any] = {"alpha": alpha, "tolerance": tolerance, "reference": reference}
        found = verify(calibrator, tested, **asked, weighting=weighting, seed=seed, on_unknown="pooled", same_scale=same_scale)
        after = calibrated_tally(tested, calibrator, "pooled")
    except EvenscoreError as error:
        return Repair(calibrate(tally, weighting=weighting), unverified=str(error))
    shared: dict[str, Any] = {"weighting": weighting, "alpha": alpha, "seed": seed}
    return Repair(calibrator, found, curves(tested, **shared), curves(after, **shared))
