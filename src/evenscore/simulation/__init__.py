"""Data with a known truth, and studies that measure methods on it."""

from evenscore.simulation.distributions import Beta, BusyBeta, Discrete, FixedRows, ParetoRows, PoissonRows
from evenscore.simulation.objectives import JointTruth, Objectives, simulate_objectives
from evenscore.simulation.outcomes import Bump, BusyCurve, Curve
from evenscore.simulation.power_users import PowerUsers
from evenscore.simulation.ranking import RankingSimulation, simulate_ranking
from evenscore.simulation.specification import Simulation, simulate
from evenscore.simulation.truth import Truth
from evenscore.simulation.workers import Workers

__all__ = [
    "Beta",
    "Bump",
    "BusyBeta",
    "BusyCurve",
    "Curve",
    "Discrete",
    "FixedRows",
    "JointTruth",
    "Objectives",
    "ParetoRows",
    "PoissonRows",
    "PowerUsers",
    "RankingSimulation",
    "Simulation",
    "Truth",
    "Workers",
    "simulate",
    "simulate_objectives",
    "simulate_ranking",
]
