"""Groups whose scores overlap in part: parity where they do and the order of people beyond, in the same draws."""

from __future__ import annotations

import numpy as np

from evenscore.estimation.comparison import Comparison
from evenscore.estimation.inference import DRAWS, RESOLVED, correlation, draw_standard
from evenscore.estimation.multiplicity import draw_ranks
from evenscore.estimation.nulls import Null
from evenscore.estimation.point_pairs import OwnCurve, PointPairs
from evenscore.estimation.smoothing import Smoothing
from evenscore.parity.methods import CORRECTIONS, Evidence, components_of, gather
from evenscore.parity.pair_tests import gaps_under_null, look_at
from evenscore.types import Floats

SHARE = 0.1  # of the level that the order beyond the common scores gets; parity keeps the rest


def joint_p_value(
    comparison: Comparison,
    pairs: PointPairs,
    curves: tuple[OwnCurve, OwnCurve],
    *,
    p_parity: float,
    p_order: float,
    method: str,
    rng: np.random.Generator,
) -> float:
    """The p-value of the smaller of two p-values, each over its share of the level, among draws of both.

    Where draws are too few to tell, or there are none of the parity test, Bonferroni's bound with those shares is safe.
    """
    smallest = min(p_parity / (1 - SHARE), p_order / SHARE)
    if method in CORRECTIONS:
        return min(1.0, smallest)
    (gap,) = gaps_under_null([look_at(comparison, comparison.settle(Smoothing()))], components_of(method))
    if isinstance(gap, str):
        return min(1.0, smallest)
    (evidence,) = gather(components_of(method), [gap.judged])
    noise = draw_standard(_stacked_correlation(evidence, gap.look.null, curves), rng, DRAWS)
    n = len(evidence.z)
    of_parity, of_order = evidence.single(evidence.statistics(noise[:, :n])), pairs.maxima_of(noise[:, n:])
    minima = (draw_ranks(np.stack([of_parity, of_order], axis=1)) / np.array([1 - SHARE, SHARE])).min(axis=1)
    beyond = int((minima <= smallest).sum())
    by_draws = (beyond + 1) / (len(minima) + 1)
    return by_draws if beyond >= RESOLVED else min(smallest, by_draws)


def _stacked_correlation(evidence: Evidence, null: Null, curves: tuple[OwnCurve, OwnCurve]) -> Floats:
    """How the parity test's values and the estimates of both curves go together: one covariance of residuals for all.

    Each side's part of a value has the standard error that the test gives it.
    """
    own = [curve.matrix for curve in curves]  # on the cells of the comparison
    matrix_a = np.concatenate([evidence.matrix_a, own[0], np.zeros_like(own[1])])
    matrix_b = np.concatenate([evidence.matrix_b, np.zeros_like(own[0]), -own[1]])
    se_a, se_b = (np.concatenate([se, np.ones(len(own[0]) + len(own[1]))]) for se in (evidence.se_a, evidence.se_b))
    matrix_a, matrix_b = _scaled(matrix_a, null.a.residual, se_a), _scaled(matrix_b, null.b.residual, se_b)
    covariance = matrix_a @ null.a.residual @ matrix_a.T + matrix_b @ null.b.residual @ matrix_b.T
    if null.shared is not None:
        cross = matrix_a @ null.shared @ matrix_b.T
        covariance = covariance - cross - cross.T
    return correlation(covariance)


def _scaled(matrix: Floats, residual: Floats, se: Floats) -> Floats:
    """The rows of a matrix so that what they make of residuals has these standard errors; 0 where nothing varies."""
    variance = np.einsum("jc,jc->j", matrix @ residual, matrix)
    varies = variance > 0
    return matrix * np.where(varies, se / np.sqrt(np.where(varies, variance, 1.0)), 0.0)[:, None]
