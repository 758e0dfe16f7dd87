"""Finding fair thresholds where outcomes below the bar are not known: move a little, collect labels, look again.

The paper's last remark of Section 6, both ways: correct the thresholds step by step and test again, or lower the bar for a share of
people in order to learn what their outcomes are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from evenscore.calibration.matching import match_groups, read_scores
from evenscore.data.coding import FOLDS
from evenscore.data.columns import find_column, nulls_in
from evenscore.data.observations import users_of
from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import (
    DataError,
    OptionError,
    is_finite,
    require_alpha,
    require_gap,
    require_number,
    require_option,
    shortened,
)
from evenscore.estimation.smoothing import Smoothing
from evenscore.estimation.verdict import PARITY
from evenscore.marginal import marginal_test
from evenscore.marginal.cut import POSITIVE
from evenscore.saving import as_path
from evenscore.tables import Table, json_ready, label_text
from evenscore.tallies.tally_state import WEIGHTINGS, Tally
from evenscore.thresholds import solve_thresholds
from evenscore.thresholds.record import Round, Settings, Step, load_trial, save_trial
from evenscore.thresholds.thresholds_result import STRATEGIES, GroupThreshold
from evenscore.types import Mask
from evenscore.wording import figures, number_text, p_text

RESOLUTION = 1 << 20  # shares of people are told to a millionth


@dataclass(frozen=True, slots=True, repr=False)
class Proposal(Table):
    """The next thresholds; made by ``ThresholdTrial.propose``."""

    steps: tuple[Step, ...]
    explore: float | None
    done: bool
    reason: str

    @property
    def by_group(self) -> dict[Any, float]:
        """The next threshold of each group."""
        return {step.group: step.proposed for step in self.steps}

    def rows(self) -> list[dict[str, Any]]:
        """One row a group."""
        return [asdict(step) for step in self.steps]

    def _title(self) -> str:
        return "Thresholds to keep" if self.done else "Thresholds to try next"

    def _notes(self) -> list[str]:
        notes = [self.reason]
        if any(step.explore_to is not None for step in self.steps):
            notes.append(
                f"explore_to is for {self.explore:.1%} of people, chosen by a hash of their id; for the others nothing changes"
            )
        return notes


class ThresholdTrial(Table):
    """Rounds of moving thresholds and looking at the labels collected under them.

    Parameters
    ----------
    tally
        The tally of the data collected under ``threshold``, with cell edges at it, or the data; outcomes may be known for positive
        decisions only.
    columns
        With data: ``score=``, ``outcome=``, ``group=``, ``user=`` and what else ``es.tally`` takes.
    threshold, strategy, target, positive, weighting, alpha
        As for ``es.fair_thresholds``; a dict of thresholds by group is possible.
    max_step
        The most that a threshold may move in one round, in units of the score. When one group's step is cut, all are, in
        proportion, so that the overall positive rate stays as it is with strategy="rate".
    tolerance
        A gap in outcomes that does not matter: the trial is done when the marginal test shows parity within it.
    explore
        A share of people, such as 0.05: instead of continuing curves beyond what is known, the bar is lowered for this share only
        (``decide`` says for whom), until their labels tell where the threshold belongs.

    Examples
    --------
    >>> import evenscore as es
    >>> data = es.simulate(2000, curve={"a": (0, 1), "b": (-0.8, 1)}).data(seed=1)
    >>> tally = es.tally(data, score="score", outcome="outcome", group="group", user="user", cuts=[0.5])
    >>> trial = es.ThresholdTrial(tally, threshold=0.5, strategy="raise", max_step=0.05, tolerance=0.05)
    >>> {group: round(t, 3) for group, t in trial.propose().by_group.items()}, trial.done
    ({'a': 0.5, 'b': 0.55}, False)
    """

    __slots__ = ("_settings", "_steps", "rounds")

    def __init__(
        self,
        tally: Any,
        *,
        threshold: float | Mapping[Any, float],
        strategy: str = "rate",
        max_step: float,
        tolerance: float | None = None,
        target: float | None = None,
        positive: str = "above",
        explore: float | None = None,
        alpha: float = 0.05,
        weighting: str = "user",
        **columns: Unpack[DataColumns],
    ) -> None:
        tally = as_tally(tally, columns, call="ThresholdTrial", threshold=threshold)
        require_option("strategy", strategy, STRATEGIES)
        require_option("positive", positive, POSITIVE)
        require_option("weighting", weighting, WEIGHTINGS)
        require_alpha(alpha)
        require_gap("tolerance", tolerance)
        max_step = require_number("max_step", max_step, 0, open_low=True)
        if explore is not None and not (is_finite(explore) and 0 < explore <= 1):
            raise OptionError(f"explore={shortened(explore)} must be a share of people between 0 and 1, such as 0.05")
        self._settings = Settings(
            strategy=strategy,
            max_step=max_step,
            tolerance=tolerance,
            positive=positive,
            target=target,
            explore=explore,
            alpha=alpha,
            weighting=weighting,
        )
        self._steps: tuple[Step, ...] = ()
        self.rounds: tuple[Round, ...] = ()
        now = threshold if isinstance(threshold, Mapping) else dict.fromkeys(tally.groups, threshold)
        self._record(tally, dict(now))

    @property
    def settings(self) -> Settings:
        """What the trial was started with."""
        return self._settings

    @property
    def thresholds(self) -> dict[Any, float]:
        """The thresholds in force, by group."""
        return dict(self.rounds[-1].thresholds)

    @property
    def done(self) -> bool:
        """Whether there is nothing left to move."""
        return self.rounds[-1].verdict == PARITY or self._within_error

    @property
    def _within_error(self) -> bool:
        known = [step for step in self._steps if np.isfinite(step.ci_low)]
        return all(step.ci_low <= step.now <= step.ci_high for step in known)

    @property
    def reason(self) -> str:
        """Why the trial is done, or goes on."""
        last = self.rounds[-1]
        if last.verdict == PARITY:
            return f"the marginal outcomes are shown to be within {self._settings.tolerance:g} of each other"
        if self._within_error:
            return "the remaining steps are smaller than their intervals: more moving would follow noise"
        return f"the outcomes at the thresholds differ by {figures(abs(last.max_gap))} (p = {p_text(last.p_value)})"

    @property
    def cuts(self) -> list[float]:
        """The scores that must be cell edges of the next tally: ``es.tally(..., cuts=trial.cuts)``."""
        proposal = self.propose()
        explored = [step.explore_to for step in proposal.steps if step.explore_to is not None]
        return sorted({*proposal.by_group.values(), *explored})

    def propose(self) -> Proposal:
        """The next thresholds; those in force when the trial is done."""
        steps = tuple(map(_stay, self._steps)) if self.done else self._steps
        return Proposal(steps, self._settings.explore, self.done, self.reason)

    def exposed(self, users: Any) -> Mask:
        """Who belongs to the share of people that exploration is for: the same users in every round."""
        column = find_column(None, users, "users")
        if self._settings.explore is None:
            return np.zeros(len(column), dtype=bool)
        if (nulls := nulls_in(column)) is not None:
            column.refuse(nulls, "is null or NaN")
        known = users_of(column)
        hashes = known.hashes(known.codes.astype(np.int64))
        return np.asarray(hashes // FOLDS % RESOLUTION < self._settings.explore * RESOLUTION)

    def decide(self, scores: Any, groups: Any, users: Any = None) -> Mask:
        """The decision for each row under the proposed thresholds; with ``explore`` users must be given."""
        array, _ = read_scores(scores, "error")
        proposal = self.propose()
        labels = tuple(proposal.by_group)
        matched = match_groups(groups, labels, len(array))
        limits = np.array([step.proposed for step in proposal.steps])[matched.places]
        lowered = np.array([np.nan if step.explore_to is None else step.explore_to for step in proposal.steps])[matched.places]
        if np.isfinite(lowered).any():
            if users is None:
                raise OptionError("a share of people is explored: give users=, so that it is told who they are")
            limits = np.where(self.exposed(users) & np.isfinite(lowered), lowered, limits)
        return array >= limits if self._settings.positive == "above" else array < limits

    def update(self, tally: Any, **columns: Unpack[DataColumns]) -> ThresholdTrial:
        """Take the data collected under the proposed thresholds, or their tally; gives the trial itself."""
        now = self.propose().by_group
        self._record(as_tally(tally, columns, call="ThresholdTrial.update", threshold=now), now)
        return self

    def _record(self, tally: Tally, now: dict[Any, float]) -> None:
        settings = self._settings
        if self.rounds and (missing := [group for group in self.thresholds if group not in tally.groups]):
            raise DataError(f"the tally has no group {shortened(missing[0])}, which the trial has thresholds for")
        shared: dict[str, Any] = {"positive": settings.positive, "alpha": settings.alpha, "weighting": settings.weighting}
        test = marginal_test(tally, threshold=now, tolerance=settings.tolerance, both=False, **shared)
        # Limits are those of the solution itself, whose noise no step should follow; intervals for the truth are wider.
        smoothing = Smoothing(bandwidth="risk")
        fair = solve_thresholds(
            tally, smoothing, smoothing, threshold=now, strategy=settings.strategy, target=settings.target, **shared
        )
        users = sum(tally.n_users.values())
        outcomes = {group: values["estimate"] for group, values in test.by_group.items()}
        look = Round(
            thresholds=now,
            outcomes=outcomes,
            max_gap=test.max_gap,
            p_value=test.p_value,
            verdict=test.verdict,
            positive_rate=fair.positive_rate.before,
            n_users=users,
        )
        self._steps, self.rounds = _steps(fair.groups, settings), (*self.rounds, look)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each round and group."""
        return [
            {"round": number, "group": group, "threshold": threshold, "outcome": look.outcomes[group], "max_gap": look.max_gap}
            | {"p_value": look.p_value, "verdict": look.verdict, "positive_rate": look.positive_rate, "users": look.n_users}
            for number, look in enumerate(self.rounds)
            for group, threshold in look.thresholds.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON-ready values."""
        return {
            "settings": json_ready(asdict(self._settings)),
            "done": self.done,
            "reason": self.reason,
            "thresholds": json_ready(self.thresholds),
            "proposal": json_ready(self.propose().rows()),
            "rounds": json_ready(self.rows()),
        }

    def save(self, path: str | Path) -> None:
        """Write the trial as JSON, whole or not at all."""
        save_trial(as_path(path), self._settings, self._steps, self.rounds)

    @classmethod
    def load(cls, path: str | Path) -> ThresholdTrial:
        """Read a trial that ``save`` wrote."""
        trial = cls.__new__(cls)
        record = load_trial(as_path(path))
        trial._settings, trial._steps, trial.rounds = record.settings, record.steps, record.rounds
        return trial

    def _title(self) -> str:
        state = "done" if self.done else "goes on"
        now = ", ".join(f"{label_text(group)} {number_text(value)}" for group, value in self.thresholds.items())
        return f"Threshold trial, {len(self.rounds)} {'look' if len(self.rounds) == 1 else 'looks'}: {state}; thresholds {now}"

    def _notes(self) -> list[str]:
        return [self.reason]


def _stay(step: Step) -> Step:
    """Nothing moves."""
    return replace(step, proposed=step.now, explore_to=None)


def _steps(groups: tuple[GroupThreshold, ...], settings: Settings) -> tuple[Step, ...]:
    """From the solution to the next step: all shortened in proportion, so that none is longer than allowed."""
    longest = max(abs(group.threshold - group.before) for group in groups)
    share = min(1.0, settings.max_step / longest) if longest > 0 else 1.0
    steps = []
    for group in groups:
        moved = group.threshold if share == 1.0 else group.before + share * (group.threshold - group.before)
        explored = settings.explore is not None and group.suggestive
        steps.append(
            Step(
                group=group.group,
                now=group.before,
                proposed=group.before if explored else moved,
                solution=group.threshold,
                ci_low=group.ci_low,
                ci_high=group.ci_high,
                suggestive=group.suggestive,
                explore_to=moved if explored else None,
            )
        )
    return tuple(steps)
