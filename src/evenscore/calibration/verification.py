"""``es.verify``: did the repair work? Parity and accuracy before and after, on users the calibrator has not seen."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from evenscore.calibration.accuracy import Accuracy, accuracies
from evenscore.calibration.calibrated_tally import calibrated_tally, on_other_scales
from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.mean_shifts import mean_shifts
from evenscore.calibration.repair_state import NOT_SHOWN, UNJUDGED, VERIFIED, describe_change, gap_limit, judge_repair
from evenscore.calibration.repair_state import rms_gap as rms_gap
from evenscore.calibration.unseen import require_unseen
from evenscore.data.splits import Split
from evenscore.engines import tally as make_tally
from evenscore.errors import OptionError
from evenscore.estimation.verdict import PARITY, largest
from evenscore.naming import use_columns
from evenscore.ordering import ordering_test
from evenscore.ordering.ordering_result import OrderingTest
from evenscore.parity import parity_test
from evenscore.parity.parity_result import ParityTest
from evenscore.tables import Table, json_ready, label_text
from evenscore.tallies.tally_state import Tally
from evenscore.threads import in_one_thread
from evenscore.wording import amount_text, number_text, p_text


@dataclass(frozen=True, slots=True, repr=False)
class Verification(Table):
    """The result of ``es.verify``; its verdict is that of the parity test after the repair.

    before, after: parity tests with the old and the calibrated scores; ordering_before, ordering_after: whether a higher score
    ever stands for a lower outcome. accuracy: by group, all groups together last (group None). unseen: how it is known that the
    calibrator has not seen these users (by_item: these items). means: mean outcome and mean calibrated score, per user and per
    row, by group, all groups together last; empty when every user has one row, or scores keep the scale of a reference.
    other_scales: scales on which what is left would lie within the tolerance, when it does not on the one that was tested.

    Examples
    --------
    >>> import evenscore as es
    >>> people = es.simulate(300, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> columns = dict(score="score", outcome="outcome", group="group", user="user")
    >>> calibrator = es.calibrate(es.tally(people, **columns, split="1/2"), method="platt")
    >>> verification = es.verify(calibrator, people)
    >>> verification.state
    'no longer shown'
    """

    before: ParityTest
    after: ParityTest
    ordering_before: OrderingTest
    ordering_after: OrderingTest
    accuracy: tuple[Accuracy, ...]
    unseen: str
    frame_kind: str | None = None
    means: tuple[dict[str, Any], ...] = ()
    other_scales: tuple[str, ...] = ()
    by_item: bool = False

    @property
    def split_of(self) -> str:
        """Whom it was not fitted on: "users", or "items" where these have the groups."""
        return "items" if self.by_item else "users"

    @property
    def state(self) -> str:
        """ "verified" (the band of every remaining gap lies within the tolerance), "no longer shown", "still shown" or "could not
        be judged"."""
        return self._judged[0]

    @property
    def verified(self) -> bool:
        """Whether what is left of the gap is shown to lie within the tolerance; never without a tolerance."""
        return self.state == VERIFIED

    @property
    def _judged(self) -> tuple[str, str]:
        return judge_repair(self.before, self.after, self.ordering_before, self.ordering_after)

    @property
    def gap_limit(self) -> float:
        """The largest gap that the simultaneous bands after the repair still allow; nan when no pair could be judged."""
        return gap_limit(self.after)

    @property
    def rises(self) -> bool:
        """Whether the typical gap is larger after the repair."""
        return describe_change(self.before, self.after)[0] == "rises"

    @property
    def leaves_too_much(self) -> bool:
        """Whether the typical gap after the repair is beyond the tolerance, though no gap beyond it may be shown."""
        return self.after.tolerance is not None and self.rms_gap_after > self.after.tolerance

    @property
    def worse(self) -> tuple[Accuracy, ...]:
        """Groups whose squared error rises by more than chance explains, at the level shared among the groups."""
        from scipy import special

        groups = [own for own in self.accuracy if own.group is not None]
        factor = special.ndtri(1 - self.alpha / max(len(groups), 1)) / special.ndtri(1 - self.alpha / 2)
        return tuple(own for own in groups if own.mse[1] - own.mse[0] > factor * (own.mse_high - own.mse_low) / 2)

    @property
    def words(self) -> str:
        """What the repair does on these users, in a sentence."""
        return "; ".join(filter(None, (self._found, self._on_other_scales, self._row_means)))

    @property
    def _found(self) -> str:
        state, reason = self._judged
        moved = describe_change(self.before, self.after)[1]
        tolerance, largest_left = self.after.tolerance, f"largest estimate {amount_text(abs(self.after.max_gap))}"
        if state == VERIFIED:
            return f"{moved}; verified: the band of what is left lies within {tolerance:g} ({largest_left})"
        if state == UNJUDGED:
            return f"{moved}; whether a disparity is left could not be judged: {reason}"
        if state != NOT_SHOWN:
            return f"{moved}, and a disparity is still shown: {reason}"
        p = p_text(self.p_value)
        gone, seen = "no disparity is shown any more", f"p = {p}, {largest_left}"
        if tolerance is None:
            least = self.after.minimum_detectable_gap
            seen += f", smallest constant gap that would be found {amount_text(least) if least < math.inf else 'none'}"
            proof = "it cannot be verified without a tolerance"
        else:
            gone = f"no gap beyond {tolerance:g} is shown any more"
            proof = f"not verified: the band of what is left reaches {amount_text(self.gap_limit)}, beyond {tolerance:g}"
        unjudged = sum(not pair.judged for pair in self.after.pairs)
        rest = f"; {unjudged} of {len(self.after.pairs)} pairs could not be judged" if unjudged else ""
        return f"{moved}, and {gone}, which is not proof of parity ({seen}); {proof}{rest}"

    @property
    def _on_other_scales(self) -> str:
        if not self.other_scales:
            return ""
        return f"on scale {' and '.join(map(repr, self.other_scales))} what is left would lie within the tolerance"

    @property
    def _row_means(self) -> str:
        """What a repair fitted per user does to means over rows, where these are off."""
        off = [row for row in self.means if not row["ci_low"] <= 0 <= row["ci_high"]]
        if self.after.weighting != "user" or not off:
            return ""
        row = off[-1]  # everybody, if they are off
        whose = "" if row["group"] is None else f" of {label_text(row['group'])}"
        names = ("outcome_per_row", "calibrated_per_row", "outcome_per_user", "calibrated_per_user")
        by_row, calibrated, by_user, calibrated_by_user = (amount_text(row[name]) for name in names)
        return (
            f"fitted per user: over rows{whose} the mean outcome is {by_row} and the mean calibrated score {calibrated} "
            f"(per user {by_user} and {calibrated_by_user}); "
            "weighting='row' fits means over rows"
        )

    @property
    def null(self) -> str:
        """What is tested, in words."""
        return f"after the repair: {self.after.null}"

    @property
    def p_value(self) -> float:
        """Of the parity test after the repair."""
        return self.after.p_value

    @property
    def verdict(self) -> str:
        """Of the parity test after the repair; "parity" needs a tolerance."""
        return self.after.verdict

    @property
    def reason(self) -> str:
        """Why the verdict is what it is."""
        return self.after.reason

    @property
    def alpha(self) -> float:
        """The level of the tests."""
        return self.after.alpha

    @property
    def rms_gap_before(self) -> float:
        """The root mean squared gap along the score before the repair, less what noise adds; the largest of all pairs."""
        return _largest(self.before)

    @property
    def rms_gap_after(self) -> float:
        """The same after the repair."""
        return _largest(self.after)

    def rows(self) -> list[dict[str, Any]]:
        """Accuracy by group, all groups together last."""
        return [group.row() for group in self.accuracy]

    def gaps(self) -> list[dict[str, Any]]:
        """One row a pair: root mean squared and largest gap, before and after."""
        return [
            {
                "group_a": old.group_a,
                "group_b": old.group_b,
                "rms_gap_before": rms_gap(old),
                "rms_gap_after": rms_gap(new),
                "max_gap_before": old.max_gap,
                "max_gap_after": new.max_gap,
                "p_before": old.p_adjusted,
                "p_after": new.p_adjusted,
                "verdict": new.verdict,
            }
            for old, new in zip(self.before.pairs, self.after.pairs, strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        names = ("null", "alpha", "p_value", "verdict", "reason", "rms_gap_before", "rms_gap_after", "unseen")
        judged = ("state", "verified", "words", "gap_limit", "means", "other_scales")
        tests = ("before", "after", "ordering_before", "ordering_after")
        return (
            {name: json_ready(getattr(self, name)) for name in names + judged}
            | {"worse": json_ready([own.group for own in self.worse])}
            | {"gaps": json_ready(self.gaps()), "rows": json_ready(self.rows())}
            | {name: getattr(self, name).to_dict() for name in tests}
        )

    def _tables(self) -> list[list[dict[str, Any]]]:
        gaps = [{name: value for name, value in row.items() if name != "verdict"} for row in self.gaps()]  # p after tells it
        return [gaps, self._shown_rows()]

    def _short_notes(self) -> list[str]:
        return [self.words]

    def _title(self) -> str:
        tested = f"Repair tested on unseen {self.split_of}: {self.state}"
        if not all(map(math.isfinite, (self.p_value, self.rms_gap_before, self.rms_gap_after))):
            return tested
        gaps = f"{number_text(self.rms_gap_before)} before, {number_text(self.rms_gap_after)} after"
        return f"{tested}, p = {p_text(self.p_value)}, root mean squared gap {gaps}"

    def _notes(self) -> list[str]:
        worse = [label_text(own.group) for own in self.worse]
        return [
            f"repair: {self.words}",
            *([f"worse: the squared error of {', '.join(worse)} rises by more than chance explains"] if worse else []),
            f"null hypothesis: {self.null}",
            f"verdict: {self.verdict}, because {self.reason}",
            f"ordering: {self.ordering_before.verdict} before, {self.ordering_after.verdict} after ({self.ordering_after.reason})",
            f"unseen: {self.unseen}",
            "log loss and AUC are from cells of the score; gaps are less what noise adds, and 0 where that is all there is",
        ]


@in_one_thread
def verify(
    calibrator: Calibrator,
    data: Any,
    *,
    score: Any = None,
    outcome: Any = None,
    group: Any = None,
    user: Any = None,
    item: Any = None,
    split: str | None = None,
    key: str | None = None,
    unseen: bool = False,
    on_unknown: str = "error",
    method: str = "auto",
    tolerance: float | None = None,
    alpha: float = 0.05,
    reference: Any = None,
    weighting: str | None = None,
    same_scale: bool | None = None,
    both: bool = True,
    seed: int = 0,
    **options: Any,
) -> Verification:
    """Test parity before and after a repair, on users that the calibrator was not fitted on.

    Testing on the users it was fitted on always looks good: such data are refused.

    Parameters
    ----------
    calibrator
        What ``es.calibrate`` made.
    data
        A tally, or anything that ``es.tally`` takes; then the columns are those the calibrator was fitted on unless named here, and
        the users are those outside of its split unless ``split`` is given.
    split
        The share of users to verify on; with a calibrator fitted on split "1/2" it is "2/2" by itself.
    key
        The secret that ``es.calibrate(..., remember_users=...)`` was given: fitted users are recognised and refused.
    unseen
        True: you vouch that none of these users was fitted on; needed when there is neither a split nor a key.
    method, tolerance, alpha, reference, weighting, both, seed
        As for ``es.parity_test``; the ordering test has the same tolerance. A reference compares each group with that one only.
    options
        More arguments for ``es.tally``, such as ``nulls``.
    score, outcome, group, user, item
        Columns of ``data``; by default called as in the data fitted on.
    same_scale
        Whether score and outcome are on one scale; by default the data tell. Without, there is no squared error before the repair.
    on_unknown
        For groups that the calibrator does not know: "error", "pooled" or "keep".

    Returns
    -------
    Verification
        The tests before and after, and the accuracy by group; its verdict is that of the parity test after the repair.

    Examples
    --------
    >>> import evenscore as es
    >>> data = es.simulate(4000, curve={"a": (0, 1), "b": (-0.5, 1)}).data(seed=1)
    >>> columns = dict(score="score", outcome="outcome", group="group", user="user")
    >>> calibrator = es.calibrate(es.tally(data, **columns, split="1/2"))
    >>> found = es.verify(calibrator, data)  # on the other half
    >>> found.before.verdict, found.rms_gap_after < found.rms_gap_before / 2
    ('disparity', True)
    """
    if not isinstance(calibrator, Calibrator):
        raise OptionError(f"es.verify takes a calibrator first, not a {type(calibrator).__name__}; make one with es.calibrate")
    columns = {"score": score, "outcome": outcome, "group": group, "user": user, "item": item}
    tally = _tally(calibrator, data, columns, split, options)
    use_columns(tally.columns)
    words = require_unseen(calibrator, tally, key, unseen)
    weighting = weighting or calibrator.weighting
    repaired = calibrated_tally(tally, calibrator, on_unknown)
    counted = calibrator.reference is None and tally.n_rows != tally.n_users
    shared: dict[str, Any] = {"tolerance": tolerance, "alpha": alpha, "reference": reference, "weighting": weighting, "seed": seed}
    verification = Verification(
        before=parity_test(tally, method=method, both=both, **shared),
        after=parity_test(repaired, method=method, both=both, **shared),
        ordering_before=ordering_test(tally, **shared),
        ordering_after=ordering_test(repaired, **shared),
        accuracy=accuracies(tally, calibrator, on_unknown, weighting, alpha, same_scale),
        unseen=words,
        frame_kind=tally.frame_kind,
        means=mean_shifts(repaired, alpha) if counted else (),
        by_item=tally.by_item,
    )
    if tolerance is None or verification.state not in (NOT_SHOWN, UNJUDGED):
        return verification
    other = tuple(
        tally_on_it.lattice.scale
        for tally_on_it in on_other_scales(repaired)
        if parity_test(tally_on_it, method=method, both=False, **shared).verdict == PARITY
    )
    return replace(verification, other_scales=other)


def _tally(calibrator: Calibrator, data: Any, columns: dict[str, Any], split: str | None, options: dict[str, Any]) -> Tally:
    """The tally that is given, or that of the data on the columns and outside the users that the calibrator was fitted on."""
    if isinstance(data, Tally):
        if split is not None or options:
            given = ["split"] * (split is not None) + list(options)
            raise OptionError(f"{given[0]}= belongs to es.tally; this tally is made already")
        return data
    known = calibrator.columns
    for role in columns:
        if columns[role] is None and known is not None:
            columns[role] = calibrator.item if role == "item" else getattr(known, role)
    if isinstance(columns["group"], tuple):
        columns["group"] = columns["group"][0] if len(columns["group"]) == 1 else list(columns["group"])
    if split is None and calibrator.split is not None:
        split = str(Split.parse(calibrator.split).rest())
    lattice = None if calibrator.lattice.discrete else calibrator.lattice
    return make_tally(data, **{"lattice": lattice, "split": split, **columns, **options})


def _largest(test: ParityTest) -> float:
    return largest(map(rms_gap, test.pairs))
