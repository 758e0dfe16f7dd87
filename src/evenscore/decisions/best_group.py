"""Impact ratios: each group's selection rate over that of a reference, or of the group that is selected most.

Which group is selected most is itself uncertain: limits of a ratio to the group that happens to have the highest rate exclude 1
far too often. Limits of all ratios at once, of every pair, hold for the ratio to whichever group is best (Hsu 1984).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenscore.decisions.comparing import critical_value, pair_limits
from evenscore.decisions.decision_result import FOUR_FIFTHS
from evenscore.decisions.rate_laws import Levels
from evenscore.estimation.inference import draw_normal, seeded
from evenscore.estimation.laws import skew
from evenscore.ratios import ratio
from evenscore.types import Ints

DRAWS = 20_000  # a share of data sets is told to a third of a point


def impact_ratios(
    labels: Sequence[Any], levels: Levels, places: Ints, reference: int | None, alpha: float, seed: int
) -> list[dict[str, Any]]:
    """One row for each group; places: of the groups' selection rates among the levels, reference: a number of a group."""
    rates = levels.level[places]
    base = int(np.argmax(rates)) if reference is None else reference
    n_groups = len(places)
    left, right = (side.ravel() for side in np.meshgrid(places, places, indexing="ij"))
    one_way = np.flatnonzero(np.triu(np.ones((n_groups, n_groups)), 1).ravel())
    critical = critical_value(levels, left[one_way], right[one_way], alpha, seed)[0]
    _, (low, high) = pair_limits(levels.differences(left, right), critical)
    low, high = (np.where(np.eye(n_groups, dtype=bool), 1.0, side.reshape(n_groups, n_groups)) for side in (low, high))
    rows = []
    for g, label in enumerate(labels):
        lower, upper = (low[g].min(), high[g].min()) if reference is None else (low[g, base], high[g, base])
        rows.append(
            {
                "group": label,
                "selection_rate": float(rates[g]),
                "ratio": float(rates[g] / rates[base]) if rates[base] > 0 else np.nan,
                "ci_low": float(lower),
                "ci_high": float(upper),
                "reference": labels[base],
            }
        )
    return rows


def equal_groups_below(levels: Levels, places: Ints, reference: int | None, seed: int) -> float:
    """How often the worst ratio of groups with one common rate would be below four fifths; nan when no rate is above 0."""
    side = levels.side.at(places)
    weight = ratio(1.0, side.squares)
    rates = levels.level[places]
    if len(places) < 2 or not (rates.any() and weight.all()):
        return np.nan
    common = float(weight @ rates / weight.sum())
    law = side.with_rate(np.full_like(rates, common))
    normal = draw_normal(levels.corr[np.ix_(places, places)], seeded(seed, 21), DRAWS)
    drawn = np.clip(common + skew(normal, law.skewness) * law.se, 0, 1)
    top = drawn.max(axis=1) if reference is None else drawn[:, reference]
    return float((drawn.min(axis=1) < FOUR_FIFTHS * top).mean())
