"""One comparison where the package takes several at once."""

from evenscore.estimation.gaps import Look
from evenscore.estimation.nulls import Null


def of_one(make, comparison, points, smoothing, null=None):
    """What a function of many looks makes of one; null: by default that of the same smoothing."""
    (found,) = make([Look(comparison, points, smoothing, Null.of(comparison, smoothing) if null is None else null)])
    return found
