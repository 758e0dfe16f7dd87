"""How outcomes that are not 0/1 scatter in linear estimates of one side.

They show their variance themselves, and how well depends on their kurtosis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from evenscore.estimation.inference import small_sample
from evenscore.estimation.laws import Law, stack
from evenscore.estimation.side_laws import NumberLaw
from evenscore.estimation.spreads import Around
from evenscore.ratios import ratio
from evenscore.types import Floats, Ints, Mask

BORROWED_DF = 10.0  # degrees of freedom's worth of variance, where outcomes are not 0/1
FARTHER = 4.0  # times another side's variance, from where outcomes clearly spread more
HEAVY = 4.0  # skewness of rows, from where a sample seldom shows all of it; counts and exponential costs have less


@dataclass(frozen=True, slots=True)
class Scatter:
    """How outcomes scatter in linear estimates, (n,) each.

    effective: users; variance: what users show, with the factor for few of them; row_variance, skewness, kurtosis: of a row, the
    last two standardised; cubes: l^3 times the sum of w^3; quarts: l^4 times the sum of w^4, over the square of l^2 times the sum
    of w^2; effect: the design effect. tail, spread, doubt: of all rows of the side, whatever their score: their skewness, their
    variance, and the variance of its logarithm; a few users near a score seldom show how far outcomes can go. matrix, seen:
    (n, n_cells), l, and l times the residual pairs, for covariances.
    """

    effective: Floats
    variance: Floats
    row_variance: Floats
    skewness: Floats
    kurtosis: Floats
    cubes: Floats
    quarts: Floats
    effect: Floats
    tail: Floats
    spread: Floats
    doubt: Floats
    matrix: Floats
    seen: Floats

    @classmethod
    def of(cls, around: Around, matrix: Floats, effective: Floats) -> Scatter:
        """From residuals around a fit."""
        squares, sums, fit = matrix * matrix, around.view.sums, around.fit
        seen = matrix @ around.residual
        shown, weight = np.einsum("jc,jc->j", seen, matrix), squares @ sums.V0
        rows = squares @ around.rows
        variance = np.maximum(shown, 0) * np.where(effective > 1 + 1e-9, small_sample(effective), 1.0) ** 2
        row_variance = np.divide(rows, weight, out=np.zeros_like(rows), where=weight > 0)
        skewness, kurtosis, higher = np.zeros_like(rows), np.full_like(rows, 3.0), around.view.higher
        cubes, quarts = (squares * matrix) @ around.cubes, np.zeros_like(rows)
        if higher is not None:
            third = higher.T3 - 3 * fit * higher.T2 + 3 * fit**2 * higher.T1 - fit**3 * higher.T0
            fourth = higher.Q4 - 4 * fit * higher.Q3 + 6 * fit**2 * higher.Q2 - 4 * fit**3 * higher.Q1 + fit**4 * higher.Q0
            size, fours = squares * np.abs(matrix), squares * squares
            skewness = ratio(ratio(size @ third, size @ higher.T0), row_variance**1.5)
            quarts = fours @ higher.Q0
            kurtosis = ratio(ratio(fours @ np.maximum(fourth, 0), quarts), row_variance**2)
        effect = np.maximum(ratio(shown, rows), 1.0)
        quarts = ratio(quarts, weight**2)
        tail, spread, doubt = np.zeros_like(rows), np.zeros_like(rows), np.full_like(rows, np.inf)
        if higher is not None and around.rows.sum() > 0:
            spread += around.rows.sum() / sums.V0.sum()
            tail += third.sum() / higher.T0.sum() / spread**1.5
            doubt = effect * (fourth.sum() / higher.Q0.sum() / spread**2 - 1) * higher.Q0.sum() / sums.V0.sum() ** 2
        wide = (tail, spread, doubt)
        return cls(effective, variance, row_variance, skewness, kurtosis, cubes, quarts, effect, *wide, matrix, seen)

    @classmethod
    def each(
        cls, arounds: Sequence[Around], matrices: Sequence[Floats], effective: Sequence[Floats]
    ) -> tuple[Scatter, list[Scatter]]:
        """Of several sides: all end to end, without cells, and each by itself."""
        made = [cls.of(*own) for own in zip(arounds, matrices, effective, strict=True)]
        return stack([own.alone for own in made]), made

    @property
    def alone(self) -> Scatter:
        """The same without cells, to be put together with those of others."""
        none = self.matrix[:, :0]
        return replace(self, matrix=none, seen=none)

    def at(self, keep: Mask | Ints | slice) -> Scatter:
        """Only these."""
        return Scatter(*(getattr(self, field.name)[keep] for field in fields(self)))

    def uncertainty(self, kurtosis: Floats) -> Floats:
        """The variance of the estimated variance over its square: (kurtosis - 1) / n for rows, 2 / (n - 1) for many users."""
        few = 2 / np.maximum(self.effective - 1, 0.5)
        return np.maximum(few, (kurtosis - 1) * self.quarts)


def pooled_shape(*sides: Scatter) -> tuple[Floats, Floats]:
    """Skewness and kurtosis of a row that all sides show together, (n,); a small side cannot tell its own tails."""
    users = np.sum([side.effective for side in sides], axis=0)
    skewness = ratio(np.sum([side.effective * side.skewness for side in sides], axis=0), users)
    return skewness, ratio(np.sum([side.effective * side.kurtosis for side in sides], axis=0), users)


def number_law(side: Scatter, variance: Floats, own: Floats, skewness: Floats, kurtosis: Floats) -> NumberLaw:
    """The law of linear estimates with this variance, of which the share ``own`` rests on what the side shows itself."""
    spread = np.sqrt(side.row_variance * ratio(variance, side.variance))
    third = skewness * spread**3 * side.cubes * side.effect * (1 + 2 * (side.effect - 1))
    pull = own * third
    known = variance > 0
    explained = np.where(known, pull / np.sqrt(np.where(known, variance, 1.0)), 0.0) ** 2  # powers of outcomes may be large
    least = 2 * variance**2 / np.maximum(side.effective - 1, 0.5)
    noise = np.maximum(side.uncertainty(kurtosis) * variance**2 - explained, least)
    return NumberLaw(Law(variance, third, pull, noise))


def number_laws(a: Scatter, b: Scatter) -> tuple[NumberLaw, NumberLaw]:
    """The laws of two sides' estimates: each one's variance per user is moved towards that of both by how little it can tell.

    Only upwards: a test must not become surer because the other side varies less.
    """
    skewness, kurtosis = pooled_shape(a, b)
    df_a, df_b = 2 / a.uncertainty(kurtosis), 2 / b.uncertainty(kurtosis)
    common = (df_a * a.variance * a.effective + df_b * b.variance * b.effective) / (df_a + df_b)
    laws = []
    for side, df in ((a, df_a), (b, df_b)):
        own = df / (df + BORROWED_DF)
        moved = own * side.variance + (1 - own) * ratio(common, side.effective)
        up = moved >= side.variance
        laws.append(number_law(side, np.where(up, moved, side.variance), np.where(up, own, 1.0), skewness, kurtosis))
    return laws[0], laws[1]


def unbalanced_skewness(a: Scatter, b: Scatter) -> Floats:
    """How skewed the difference of two sides' estimates may be where one side's heavy tails have no equal, (n,); else 0.

    Equal tails cancel in a difference. Where the variances of all rows differ much, and by more than one standard error, they do
    not, and then a studentised mean of few outcomes lies far from 0 too often: its own skewness is -2 gamma (Hall 1992).
    """
    known = (a.spread > 0) & (b.spread > 0)
    apart = np.abs(np.log(np.where(known, a.spread, 1.0) / np.where(known, b.spread, 1.0)))
    clear = known & (apart > np.maximum(np.log(FARTHER), np.sqrt(np.maximum(a.doubt + b.doubt, 0))))
    clear &= np.maximum(np.abs(a.tail), np.abs(b.tail)) > HEAVY
    thirds = [np.abs(side.tail * side.row_variance**1.5 * side.cubes) * side.effect for side in (a, b)]
    return np.where(clear, ratio(np.maximum(*thirds), (a.variance + b.variance) ** 1.5), 0.0)


def own_number_law(side: Scatter) -> NumberLaw:
    """The law of linear estimates by what the side shows alone."""
    return number_law(side, side.variance, np.ones_like(side.variance), side.skewness, side.kurtosis)


def scaled_law(side: NumberLaw, variance: Floats) -> NumberLaw:
    """The same shape with another variance."""
    factor = np.sqrt(ratio(variance, side.law.variance))
    law = side.law
    return replace(side, law=Law(variance, law.third * factor**3, law.pull * factor**3, law.noise * factor**4))
