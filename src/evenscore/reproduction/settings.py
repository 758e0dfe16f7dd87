"""The settings of the paper's Section 8: what it states, and our reading of what it does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenscore.simulation import BusyBeta, BusyCurve, PoissonRows, PowerUsers, Simulation, simulate
from evenscore.types import Floats

ONE, TWO = "group 1", "group 2"

# Figures 1 and 2
FLIP_USERS = 50_000
FLIP_SHIFT = -0.10
FLIP_BANDWIDTH = 0.05
FLIP_POWER = PowerUsers(ONE, users=10, rows=1000, lift=0.7)
FLIP_POINTS = 20
FLIP_ENOUGH = 18  # of the 20 points: what the findings ask for

# Figure 3
BIAS_USERS = (50, 200, 500, 2000)
BIAS_ROWS = PoissonRows(4)
BIAS_LIMIT = 8
BIAS_CURVE = BusyCurve(-1.0, 0.6, BIAS_LIMIT)
BIAS_BINS = 15
DEPENDENT, INDEPENDENT = "dependent", "independent"

# (where, what, value, stated in the paper)
TABLE = (
    ("Figures 1, 2", "score density", "Beta(2, 2), the same in both groups", "a Beta density; parameters not stated"),
    ("Figures 1, 2", "rows", "50,000 users a group, one row each", "50k samples a group"),
    ("Figures 1, 2", "curve", "expit(b0 + logit s), b0 = -0.10 in group 1 and 0 in group 2", 'constants "slightly" changed'),
    (
        "Figures 1, 2",
        "injected",
        "10 users of group 1 with 1,000 rows each at the decile midpoints",
        "1000 samples at each of 10 deciles",
    ),
    ("Figures 1, 2", "their outcome", "the curve of group 1 plus 0.7 s, clipped at 1", "plus 0.7 s"),
    ("Figures 1, 2", "smoother", "Nadaraya-Watson, Gaussian kernel, h = 0.05", "Nadaraya-Watson; h not stated"),
    ("Figures 1, 2", "points", "20 quantiles of the score from 5 to 95 %", "not stated"),
    ("Figure 3", "rows per user", "1 + Poisson(4); independent: 1", "1 + Poisson(lambda); lambda not stated"),
    ("Figure 3", "score density", "Beta(min(N, 8), 1)", "Beta(max(N, Nmax), 1), which must be min; Nmax not stated"),
    ("Figure 3", "curve", "b0 = -1, b1 = 0.6, nearer to calibration by z = min(N / 8, 1)", "the same; b0, b1 not stated"),
    ("Figure 3", "sample size", "users", "not stated whether users or rows"),
    ("Figure 3", "TCE", "per user: the root of the mean of (E(Y|s) - s)^2 over users", "not stated whether per user or per row"),
    (
        "Figure 3",
        "CE_NP",
        "Nadaraya-Watson, h = 1.06 sd users^(-1/5), 100 quantiles (q - 1/2)/100, mean under the root",
        "h not stated",
    ),
    ("Figure 3", "ECE, MSCE", "15 bins of equal mass; monotonic sweep; root mean square; every row weighs the same", "the same"),
)


@dataclass(frozen=True, slots=True)
class Effort:
    """How many draws each study makes."""

    flip_runs: int
    null_runs: int
    bias_runs: int

    @property
    def total(self) -> int:
        """All draws."""
        return self.flip_runs + self.null_runs + 2 * len(BIAS_USERS) * self.bias_runs


FULL = Effort(flip_runs=100, null_runs=200, bias_runs=400)
FAST = Effort(flip_runs=4, null_runs=8, bias_runs=20)


def flip_simulation(shift: float = FLIP_SHIFT) -> Simulation:
    """Two groups with slightly different curves, and ten users in the lower one who look much better."""
    return simulate(
        FLIP_USERS,
        groups=(ONE, TWO),
        curve={ONE: (shift, 1.0), TWO: (0.0, 1.0)},
        rows_per_user=1,
        power_users=FLIP_POWER,
        name=f"ten injected users, shift {shift:g}" if shift else "ten injected users, no gap",
    )


def flip_grid() -> Floats:
    """The scores at which the curves are compared."""
    from scipy import special

    return np.asarray(special.betaincinv(2, 2, np.linspace(0.05, 0.95, FLIP_POINTS)))


def bias_simulation(users: int, kind: str) -> Simulation:
    """Users with more rows score higher and are better calibrated; or everybody has one row."""
    return simulate(
        users,
        groups=(ONE,),
        score=BusyBeta(BIAS_LIMIT),
        curve=BIAS_CURVE,
        rows_per_user=BIAS_ROWS if kind == DEPENDENT else 1,
        name=f"{kind}, {users:,} users",
    )
