"""Named designs: twelve without a gap, in which a test should reject as often as its level says, and three with one.

Each takes the users of a group. All curves but those of the alternatives are bent and not calibrated: parity does not ask
for calibration, and a smoother must not mistake curvature for a gap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evenscore.simulation.distributions import Discrete, ParetoRows, PoissonRows
from evenscore.simulation.outcomes import Bump, Curve
from evenscore.simulation.specification import Simulation, simulate

BENT = Curve(-0.3, 1.4)
RARE = Curve(-3.7, 0.35)  # outcome rates of 1 to 6 %
SOME_ROWS = PoissonRows(3)
ALIKE = 0.8  # within a user; so strong that a test which takes rows for people rejects some 30 % with dependent scores


USUAL: dict[str, Any] = {"curve": BENT, "rows_per_user": SOME_ROWS}
ALIKE_OUTCOMES: dict[str, Any] = {"outcome_correlation": ALIKE}
ALIKE_ROWS: dict[str, Any] = {"outcome_correlation": ALIKE, "score_correlation": ALIKE}
APART = {"a": (2, 5), "b": (5, 2)}  # score densities of the groups

Design = Callable[[int], Simulation]


def _design(words: str, name: str, *, sizes: Callable[[int], Any] = int, **options: Any) -> Design:
    """A design for any number of users of a group; words: what it is about, for the catalogue."""

    def make(users: int) -> Simulation:
        return simulate(sizes(users), **(USUAL | options), name=name)

    make.__doc__ = words
    return make


def _five_to_one(users: int) -> dict[str, int]:
    return {"a": users, "b": max(1, users // 5)}


def _halves(users: int) -> dict[str, int]:
    return dict.fromkeys("ab", max(1, users // 2))


DESIGNS: dict[str, Design] = {
    "independent": _design("Several rows a user that have nothing in common.", "independent"),
    "dependent-outcomes": _design("Outcomes alike within a user.", "dependent outcomes", **ALIKE_OUTCOMES),
    "dependent-scores": _design("Outcomes and scores alike within a user.", "dependent scores too", **ALIKE_ROWS),
    "heavy-users": _design(
        "A few users with up to thousands of rows.", "heavy-tailed users", rows_per_user=ParetoRows(1.1, 5000), **ALIKE_ROWS
    ),
    "different-densities": _design(
        "One group mostly at low scores, the other mostly at high ones.", "different densities", score=APART
    ),
    "different-densities-dependent": _design(
        "Different densities, with outcomes and scores alike within a user.",
        "different densities, dependent",
        score=APART,
        **ALIKE_ROWS,
    ),
    "informative-rows": _design(
        "Users with many rows have better outcomes in one group and worse in the other: parity per user, none per row.",
        "informative rows per user",
        informative=0.6,
        **ALIKE_OUTCOMES,
    ),
    "unequal-groups": _design("Groups 5:1; users are those of the larger.", "groups 5:1", sizes=_five_to_one, **ALIKE_ROWS),
    "rare-outcomes": _design("Outcome rates of 1 to 6 %.", "outcome rate 1-6 %", curve=RARE, **ALIKE_OUTCOMES),
    "real-outcomes": _design(
        "Real-valued outcomes with heavy tails and a heavy-tailed user effect.",
        "real-valued, heavy-tailed",
        outcome="heavy-tailed",
        scale=0.3,
        **ALIKE_OUTCOMES,
    ),
    "discrete-10": _design("Scores with few values.", "10 discrete scores", score=Discrete.spaced(10), **ALIKE_OUTCOMES),
    "discrete-100": _design("Scores in whole percent.", "100 discrete scores", score=Discrete.spaced(100), **ALIKE_OUTCOMES),
    "spanning-users": _design(
        "Every row in a group drawn at random, so that nearly all users are in both; users in all, so about as many in each.",
        "users span groups",
        sizes=_halves,
        rows_per_user=PoissonRows(5),
        spanning=True,
        **ALIKE_OUTCOMES,
    ),
}


def _with_gap(words: str, name: str, curve: Curve) -> Design:
    """A calibrated group a, and a group b with another curve; nine rows a user on average, alike within a user."""
    alike: dict[str, Any] = {"outcome_correlation": 0.5, "score_correlation": 0.3}
    return _design(words, name, curve={"a": Curve(), "b": curve}, rows_per_user=PoissonRows(8), **alike)


ALTERNATIVES: dict[str, Design] = {
    "shift": _with_gap("Group b lower by 0.15 on the logit scale.", "logit shift of 0.15", Curve(-0.15, 1)),
    "slope": _with_gap("Group b steeper by a quarter on the logit scale.", "logit slope of 1.25", Curve(0, 1.25)),
    "bump": _with_gap(
        "Group b higher by .08 at a score of .7, and by half of that at .64 and .76.",
        "bump of +.08 at .7",
        Curve(bump=Bump(0.08, 0.7, 0.05)),
    ),
}
