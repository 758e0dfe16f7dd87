"""Named designs: twelve without a gap, in which a test should reject as often as its level says, and three with one.

Every function takes the users of a group. All curves but those of the alternatives are bent and not calibrated: parity does not ask
for calibration, and a smoother must not mistake curvature for a gap.
"""

from __future__ import annotations

from collections.abc import Callable

from evenscore.simulation.distributions import Discrete, ParetoRows, PoissonRows
from evenscore.simulation.outcomes import Bump, Curve
from evenscore.simulation.specification import Simulation, simulate

BENT = Curve(-0.3, 1.4)
RARE = Curve(-3.7, 0.35)  # outcome rates of 1 to 6 %
SOME_ROWS = PoissonRows(3)
ALIKE = 0.8  # within a user; so strong that a test which takes rows for people rejects some 30 % with dependent scores


def independent(users: int) -> Simulation:
    """Several rows a user that have nothing in common."""
    return simulate(users, curve=BENT, rows_per_user=SOME_ROWS, name="independent")


def dependent_outcomes(users: int) -> Simulation:
    """Outcomes alike within a user."""
    return simulate(users, curve=BENT, rows_per_user=SOME_ROWS, outcome_correlation=ALIKE, name="dependent outcomes")


def dependent_scores(users: int) -> Simulation:
    """Outcomes and scores alike within a user."""
    return simulate(
        users, curve=BENT, rows_per_user=SOME_ROWS, outcome_correlation=ALIKE, score_correlation=ALIKE, name="dependent scores too"
    )


def heavy_users(users: int) -> Simulation:
    """A few users with up to thousands of rows."""
    return simulate(
        users,
        curve=BENT,
        rows_per_user=ParetoRows(1.1, 5000),
        outcome_correlation=ALIKE,
        score_correlation=ALIKE,
        name="heavy-tailed users",
    )


def different_densities(users: int) -> Simulation:
    """One group mostly at low scores, the other mostly at high ones."""
    return simulate(users, score={"a": (2, 5), "b": (5, 2)}, curve=BENT, rows_per_user=SOME_ROWS, name="different densities")


def different_densities_dependent(users: int) -> Simulation:
    """Different densities, with outcomes and scores alike within a user."""
    return simulate(
        users,
        score={"a": (2, 5), "b": (5, 2)},
        curve=BENT,
        rows_per_user=SOME_ROWS,
        outcome_correlation=ALIKE,
        score_correlation=ALIKE,
        name="different densities, dependent",
    )


def informative_rows(users: int) -> Simulation:
    """Users with many rows have better outcomes in one group and worse in the other: parity per user, none per row."""
    return simulate(
        users, curve=BENT, rows_per_user=SOME_ROWS, outcome_correlation=ALIKE, informative=0.6, name="informative rows per user"
    )


def unequal_groups(users: int) -> Simulation:
    """Groups 5:1; ``users`` are those of the larger."""
    return simulate(
        {"a": users, "b": max(1, users // 5)},
        curve=BENT,
        rows_per_user=SOME_ROWS,
        outcome_correlation=ALIKE,
        score_correlation=ALIKE,
        name="groups 5:1",
    )


def rare_outcomes(users: int) -> Simulation:
    """Outcome rates of 1 to 6 %."""
    return simulate(users, curve=RARE, rows_per_user=SOME_ROWS, outcome_correlation=ALIKE, name="outcome rate 1-6 %")


def real_outcomes(users: int) -> Simulation:
    """Real-valued outcomes with heavy tails and a heavy-tailed user effect."""
    return simulate(
        users,
        curve=BENT,
        rows_per_user=SOME_ROWS,
        outcome="heavy-tailed",
        scale=0.3,
        outcome_correlation=ALIKE,
        name="real-valued, heavy-tailed",
    )


def discrete_scores(users: int, n_values: int = 10) -> Simulation:
    """Scores with few values."""
    return simulate(
        users,
        score=Discrete.spaced(n_values),
        curve=BENT,
        rows_per_user=SOME_ROWS,
        outcome_correlation=ALIKE,
        name=f"{n_values} discrete scores",
    )


def many_discrete_scores(users: int) -> Simulation:
    """Scores in whole percent."""
    return discrete_scores(users, 100)


def spanning_users(users: int) -> Simulation:
    """Every row in a group drawn at random, so that nearly all users are in both; ``users`` in all, so about as many in each."""
    half = max(1, users // 2)
    return simulate(
        {"a": half, "b": half},
        curve=BENT,
        rows_per_user=PoissonRows(5),
        outcome_correlation=ALIKE,
        spanning=True,
        name="users span groups",
    )


DESIGNS: dict[str, Callable[[int], Simulation]] = {
    "independent": independent,
    "dependent-outcomes": dependent_outcomes,
    "dependent-scores": dependent_scores,
    "heavy-users": heavy_users,
    "different-densities": different_densities,
    "different-densities-dependent": different_densities_dependent,
    "informative-rows": informative_rows,
    "unequal-groups": unequal_groups,
    "rare-outcomes": rare_outcomes,
    "real-outcomes": real_outcomes,
    "discrete-10": discrete_scores,
    "discrete-100": many_discrete_scores,
    "spanning-users": spanning_users,
}


def _with_gap(users: int, curve: Curve, name: str) -> Simulation:
    """A calibrated group a, and a group b with another curve; nine rows a user on average, alike within a user."""
    return simulate(
        users,
        curve={"a": Curve(), "b": curve},
        rows_per_user=PoissonRows(8),
        outcome_correlation=0.5,
        score_correlation=0.3,
        name=name,
    )


def shift(users: int = 1000) -> Simulation:
    """Group b lower by 0.15 on the logit scale."""
    return _with_gap(users, Curve(-0.15, 1), "logit shift of 0.15")


def slope(users: int = 1000) -> Simulation:
    """Group b steeper by a quarter on the logit scale."""
    return _with_gap(users, Curve(0, 1.25), "logit slope of 1.25")


def bump(users: int = 1000) -> Simulation:
    """Group b higher by .08 at a score of .7, and by half of that at .64 and .76."""
    return _with_gap(users, Curve(bump=Bump(0.08, 0.7, 0.05)), "bump of +.08 at .7")


ALTERNATIVES: dict[str, Callable[[int], Simulation]] = {"shift": shift, "slope": slope, "bump": bump}
