"""Data with a known truth, and studies that measure methods on it."""

from evenscore.simulation.distributions import Beta, Discrete, FixedRows, ParetoRows, PoissonRows
from evenscore.simulation.objectives import JointTruth, Objectives, simulate_objectives
from evenscore.simulation.outcomes import Bump, Curve
from evenscore.simulation.ranking import RankingSimulation, simulate_ranking
from evenscore.simulation.specification import Simulation, simulate
from evenscore.simulation.truth import Truth

__all__ = [
    "Beta",
    "Bump",
    "Curve",
    "Discrete",
    "FixedRows",
    "JointTruth",
    "Objectives",
    "ParetoRows",
    "PoissonRows",
    "RankingSimulation",
    "Simulation",
    "Truth",
    "simulate",
    "simulate_objectives",
    "simulate_ranking",
]
