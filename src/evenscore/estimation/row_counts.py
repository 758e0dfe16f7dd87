"""Mean outcomes per user and per row: where the number of rows goes with the outcome, they answer different questions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenscore.tallies.tally_state import Tally
from evenscore.tallies.view import GroupView
from evenscore.wording import amount_text

MIN_USERS = 100  # of all folds together, for what the folds tell about chance
QUANTILE = 2.2622  # of Student's t with as many degrees of freedom as there are folds but one, 97.5 %


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The mean outcome of all, each user counting once and each row counting once; nan when nobody is there.

    ci_low, ci_high: 95 % limits of per_row minus per_user; nan where the tally keeps no user folds, or too few users. spanning:
    whether users of several groups count once in each, so that per_user is no mean over persons.
    """

    per_user: float
    per_row: float
    ci_low: float = np.nan
    ci_high: float = np.nan
    spanning: bool = False

    @property
    def difference(self) -> float:
        """Per row minus per user."""
        return self.per_row - self.per_user

    @property
    def differ(self) -> bool:
        """Whether the limits exclude that rows and outcomes have nothing to do with each other."""
        return bool(self.ci_low > 0 or self.ci_high < 0)

    @property
    def sentence(self) -> str:
        """Both means; empty unless they are shown to differ."""
        if not self.differ:
            return ""
        by, low, high = (amount_text(value, sign="+") for value in (self.difference, self.ci_low, self.ci_high))
        per_user, per_row = self._means
        means = f"the mean outcome is {per_user} and {per_row} (difference {by}, {low} to {high})"
        return f"{means}: {self._who}, so what holds per user need not hold per row"

    @property
    def short(self) -> str:
        """The same without limits."""
        return f"{self._who}: the mean is {', '.join(self._means)}" if self.differ else ""

    @property
    def _means(self) -> tuple[str, str]:
        return (
            f"{amount_text(self.per_user)} per user{' and group' if self.spanning else ''}",
            f"{amount_text(self.per_row)} per row",
        )

    @property
    def _who(self) -> str:
        more = "higher" if self.difference > 0 else "lower"
        return f"users with more rows{' in a group' * self.spanning} have {more} outcomes{' there' * self.spanning}"


def row_counts(tally: Tally) -> RowCounts:
    """Both means of all groups together, with limits by leaving out each user fold in turn (delete-a-group jackknife)."""
    if not tally.groups:
        return RowCounts(np.nan, np.nan)
    views = [GroupView.whole(tally, weighting) for weighting in ("user", "row")]
    if not all(view.total > 0 for view in views):
        return RowCounts(np.nan, np.nan)
    per_user, per_row = (tally.centre + view.mean for view in views)
    known = RowCounts(per_user, per_row)
    folds = [(view.folds.W.sum(axis=1), view.folds.Y.sum(axis=1)) for view in views]
    filled = [weight > 0 for weight, _ in folds]
    if sum(tally.n_users.values()) < MIN_USERS or not all(own.all() for own in filled) or tally.n_rows == tally.n_users:
        return known
    means = [(outcome.sum() - outcome) / (weight.sum() - weight) for weight, outcome in folds]
    without = means[1] - means[0]
    n = len(without)
    half = QUANTILE * float(np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum()))
    return RowCounts(per_user, per_row, known.difference - half, known.difference + half, tally.n_spanning > 0)
