"""Which groups an audit judges: a few people are no curve, and what is said of them would be said of persons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.auditing.deciding import DecidedPair, Decision
from evenscore.errors import OptionError, listing, shortened
from evenscore.marginal.marginal_result import GroupMarginal, MarginalTest, OtherSide
from evenscore.naming import is_called, label_text, plain_label
from evenscore.tallies.group_sums import GroupTally
from evenscore.tallies.reshaping import keep_groups
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.two_way import FEWEST, few_words

MIN_USERS = 10
MOST_NAMED = 3  # groups in a sentence
WITHHELD = ("mean_score", "mean_outcome", "mean_outcome_per_row")  # of few people they would be what persons scored and did


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A group that is not judged. few: whether it has fewer users than the minimum; keys: that it has too few users or items for
    variances that heed both, if so; justification: the caller's words, if any."""

    group: Any
    users: int
    few: bool
    justification: str
    independent: bool
    keys: str = ""

    @property
    def words(self) -> str:
        """Why it is not judged, for a table."""
        unit = "row" if self.independent else "user"
        size = f"{self.users:,} {unit}{'' if self.users == 1 else 's'}" if self.few else self.keys.partition(";")[0]
        return "; ".join(filter(None, (f"not judged: {size}" if size else "left out", self.justification)))


@dataclass(frozen=True, slots=True)
class Selection:
    """The groups of a tally that are judged. whole: all groups; tally: only those that are judged; unjudged: the others."""

    whole: Tally
    tally: Tally
    min_users: int
    unjudged: tuple[Unjudged, ...] = ()

    @classmethod
    def of(cls, tally: Tally, min_users: int, left_out: Mapping[Any, str]) -> Selection:
        """Without groups of fewer users or items than it takes, and without those that the caller leaves out."""
        judged, unjudged = [], []
        for number, (label, group) in enumerate(tally.by_group):
            users, words, keys = group.n_users * group.has_weight, find_justification(label, left_out), few_words(tally, number)
            if users < min_users or keys or words is not None:
                unjudged.append(Unjudged(label, users, users < min_users, words or "", tally.independent, keys))
            else:
                judged.append(label)
        return cls(tally, keep_groups(tally, judged), min_users, tuple(unjudged))

    def judges(self, group: Any) -> bool:
        """Whether a group is judged; labels of another type are other labels."""
        return any(type(label) is type(group) and label == group for label in self.tally.groups)

    def keep_judged(self, tally: Tally) -> Tally:
        """Another tally of the same data with the judged groups only."""
        return keep_groups(tally, [group for group in tally.groups if self.judges(group)])

    def incomparable(self, reference: Any) -> str:
        """Why there is nothing to compare; empty when there is."""
        if reference is not None and not self.judges(reference):
            meant = [own for own in self.unjudged if type(own.group) is type(reference) and own.group == reference]
            return f"the reference {label_text(reference)} is {meant[0].words}" if meant else ""  # no group: the tests say so
        if self.unjudged and len(self.tally.groups) < 2:
            few = [f"{label_text(own.group)} has {own.keys.partition(';')[0]}" for own in self.unjudged[:MOST_NAMED] if own.keys]
            return f"fewer than two groups are judged{': ' * bool(few)}{', '.join(few)}; a group takes at least {self._least}"
        return ""

    @property
    def _least(self) -> str:
        """How many users, and items, a group takes to be judged."""
        unit = "rows" if self.whole.independent else "users"
        if self.whole.item is None:
            return f"{self.min_users} {unit}"
        return f"{max(self.min_users, FEWEST)} {unit} and {FEWEST} values of {self.whole.item}"

    @property
    def unexcused(self) -> tuple[Unjudged, ...]:
        """The groups whose absence nobody justifies: without them parity is not shown for everyone."""
        return tuple(group for group in self.unjudged if not group.justification)

    @property
    def justifications(self) -> dict[str, str]:
        """The caller's words, by the group's text."""
        return {plain_label(group.group): group.justification for group in self.unjudged if group.justification}

    @property
    def sentence(self) -> str:
        """How many groups are judged, and why the others are not; empty when all are."""
        if not self.unjudged:
            return ""
        few = [group for group in self.unjudged if group.few]
        keys = [group for group in self.unjudged if group.keys and not group.few]
        chosen = [group for group in self.unjudged if not (group.few or group.keys)]
        reasons = []
        if few:
            unit = "rows" if self.whole.independent else "users"
            reasons.append(f"{len(few)} {'has' if len(few) == 1 else 'have'} fewer than {self.min_users} {unit}")
        if keys:
            least = f"{FEWEST} users or values of {self.whole.item}"
            reasons.append(f"{len(keys)} {'has' if len(keys) == 1 else 'have'} fewer than {least}")
        if chosen:
            reasons.append(f"{len(chosen)} {'is' if len(chosen) == 1 else 'are'} left out with a justification")
        return f"{len(self.tally.groups)} of {len(self.whole.groups)} groups compared; {', '.join(reasons)}"

    def to_dict(self) -> dict[str, Any]:
        """In JSON-ready values: for all groups together."""
        judged = {"groups": len(self.tally.groups), "of": len(self.whole.groups), "sentence": self.sentence}
        return {"min_users": self.min_users, "judged": judged, "left_out": self.justifications}

    def rows(self) -> list[dict[str, Any]]:
        """One row a group, all groups: why one is not judged, and then no means."""
        words = {self.whole.index(group.group): group.words for group in self.unjudged}
        return [
            _row(row | {"mean_outcome_per_row": _mean_per_row(self.whole, group)}, words.get(position))
            for position, (row, group) in enumerate(zip(self.whole.rows(), self.whole.group_tallies, strict=True))
        ]


def _mean_per_row(tally: Tally, group: GroupTally) -> float:
    sums = group.vectors.under("row")
    weight = float(sums["W"].sum())
    return tally.centre + float(sums["Y"].sum()) / weight if weight > 0 else np.nan


def _row(row: dict[str, Any], unjudged: str | None) -> dict[str, Any]:
    shown = {name: np.nan if unjudged and name in WITHHELD else value for name, value in row.items()}
    return shown | {"not_judged": unjudged}


def find_justification(group: Any, left_out: Mapping[Any, str]) -> str | None:
    """The words for a group, which may be named by its label or by the label's text."""
    for name, words in left_out.items():
        if (type(name) is type(group) and name == group) or (isinstance(name, str) and is_called(group, name)):
            return words
    return None


def check_left_out(left_out: Any) -> dict[Any, str]:
    """A dict of groups and why each is left out."""
    given = {} if left_out is None else left_out
    if not isinstance(given, Mapping):
        raise OptionError(f"left_out={shortened(left_out)} must be a dict of groups, each with the reason why it is left out")
    for name, words in given.items():
        if not (isinstance(words, str) and words.strip()):
            raise OptionError(f"left_out: the reason why {shortened(name)} is left out must be text, not {shortened(words)}")
    return dict(given)


def require_known(left_out: Mapping[Any, str], tallies: Sequence[Tally]) -> None:
    """Every name is that of a group."""
    groups = [group for tally in tallies for group in tally.groups]
    for name, words in left_out.items():
        if not any(find_justification(group, {name: words}) is not None for group in groups):
            raise OptionError(f"left_out: no group {shortened(name)}; there are: {listing(dict.fromkeys(map(label_text, groups)))}")


def withhold(results: Mapping[str, Any], selection: Selection, reason: str) -> dict[str, Any]:
    """What tests of all groups found, without a judgement on any pair, and curves of the judged groups only."""
    curves = results["curves"]
    kept = replace(curves, curves=tuple(curve for curve in curves.curves if selection.judges(curve.group)))
    tests = {name: _unjudged(test, reason) for name, test in results.items() if name not in ("curves", "rows_as_people", "keys")}
    return tests | {"curves": kept}


def _unjudged(test: Any, reason: str) -> Any:
    if isinstance(test, Decision):
        undecided = (DecidedPair(pair.group_a, pair.group_b, pair.decided_by, reason=reason) for pair in test.pairs)
        return replace(test, pairs=tuple(undecided), whole_reason=reason)
    pairs = tuple(type(pair)(pair.group_a, pair.group_b, reason=reason) for pair in test.pairs)
    changes: dict[str, Any] = {"pairs": pairs} | ({"other": None} if hasattr(test, "other") else {})
    if isinstance(test, MarginalTest):
        changes["marginals"] = tuple(GroupMarginal(own.group, reason=reason) for own in test.marginals)
        changes["other_side"] = tuple(OtherSide(own.group, reason=reason) for own in test.other_side)
    return replace(test, **changes)
