"""What a constant gap would do to a process: how large its values would be, and how the test would see them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenscore.estimation.gaps import Process
from evenscore.estimation.inference import Singles
from evenscore.estimation.laws import Law, skew, unskew
from evenscore.estimation.nulls import Null
from evenscore.estimation.side_laws import RateLaw, SideLaw
from evenscore.estimation.spreads import Around, Dependence, nested_pairs, overall_correlation, quadratic, rate_law, rate_spread
from evenscore.types import Floats, Ints, Mask

FARTHEST = 1e3  # normal quantiles: no noise goes there
SETTLED = 4  # rounds in which a value and the pooled rate that it brings about agree


@dataclass(frozen=True, slots=True)
class MovableSide:
    """One side of a process, (n,), whose expected outcomes may be moved.

    law: how its part is distributed; alike: the same where rates are so much higher that they hardly differ, None where outcomes
    are not 0/1.
    """

    law: SideLaw
    alike: RateLaw | None = None

    def at(self, keep: Mask | Ints | slice) -> MovableSide:
        """Only these."""
        return MovableSide(self.law.at(keep), None if self.alike is None else self.alike.at(keep))

    def reach(self, up: float) -> Floats | float:
        """How far it can be moved, (n,): a rate stays within [0, 1]."""
        return np.clip(self.law.rate + up, 0, 1) - self.law.rate if isinstance(self.law, RateLaw) else up

    def moved(self, up: Floats | float) -> Law:
        """Its law then. The rarer an outcome was, the more alike are its rates when all are higher, and so a user's rows."""
        if self.alike is None:
            return self.law.moved(up)
        assert isinstance(self.law, RateLaw)
        nearer = self._nearer(rate_spread(self.law.rate + up))
        squares, cubes = (
            getattr(self.law, name) + nearer * (getattr(self.alike, name) - getattr(self.law, name))
            for name in ("squares", "cubes")
        )
        return replace(self.law, squares=squares, cubes=cubes).moved(up)

    def variance(self, up: Floats | float) -> Floats:
        """The variance of that law alone, which draws are tested by one by one."""
        if self.alike is None:
            return self.law.moved(up).variance
        assert isinstance(self.law, RateLaw)
        after = rate_spread(self.law.rate + up)
        return after * (self.law.squares + self._nearer(after) * (self.alike.squares - self.law.squares))

    def _nearer(self, spread: Floats) -> Floats:
        """How far it is on the way from its own law to that of rates that hardly differ, where f (1 - f) is this."""
        assert isinstance(self.law, RateLaw)
        before = rate_spread(self.law.rate)
        return 1 - np.minimum(np.divide(before, spread, out=np.ones_like(spread), where=spread > 0), 1)


@dataclass(frozen=True, slots=True)
class Shifted:
    """A process, (n,), of which the smaller side may be moved by a constant gap.

    law: its null as it is; variance: (n,), of both sides in it; a, b: the sides; shift: (n,), what a gap of 1 adds to the values;
    share: of side a in the pooled curve.
    """

    law: Law
    variance: Floats
    a: MovableSide
    b: MovableSide
    shift: Floats
    share: float

    @classmethod
    def of(cls, process: Process, null: Null, share: float) -> Shifted:
        """Of a process around a null."""
        variance = process.side_a.moved(0.0).minus(process.side_b.moved(0.0)).variance
        return cls(process.law, variance, *_movable(process, null), process.shift, share)

    def at(self, keep: Mask | Ints | slice) -> Shifted:
        """Only these."""
        return Shifted(self.law.at(keep), self.variance[keep], self.a.at(keep), self.b.at(keep), self.shift[keep], self.share)

    def z_of_gap(self, gap: float, noise: Floats | Singles) -> Floats:
        """What draws of noise, (draws, n), make of the z if there were a constant gap."""
        moved, noise = self._moved(gap), np.asarray(noise, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):  # rates of 0 or 1 have no noise
            values = moved.mean + skew(noise, moved.apart.skewness) * moved.apart.se
            return self._null(moved, values).rough_z(values)

    def noise_of_gap(self, gap: float, t: Floats) -> Floats:
        """The inverse: which noise makes the values such Student quantiles of their null, (..., n)."""
        moved = self._moved(gap)
        values = moved.mean
        with np.errstate(divide="ignore", invalid="ignore"):  # rates of 0 or 1 have no noise, so that any is too little or enough
            for _ in range(SETTLED):
                values = self._null(moved, values).of_t(t)
            return np.clip(unskew((values - moved.mean) / moved.apart.se, moved.apart.skewness), -FARTHEST, FARTHEST)

    def _moved(self, gap: float) -> _Moved:
        """The smaller side moved by the gap."""
        up_a, up_b = (gap, 0.0) if self.share < 0.5 else (0.0, -gap)
        a, b = self.a.moved(up_a), self.b.moved(up_b)
        both = (a.variance + b.variance) * self.shift
        pull = self.share * a.variance - (1 - self.share) * b.variance
        return _Moved(
            mean=(self.a.reach(up_a) - self.b.reach(up_b)) * self.shift,
            apart=a.minus(b),
            pooled=self.share * up_a + (1 - self.share) * up_b,
            pull=np.divide(pull, both, out=np.zeros_like(both), where=both != 0),
        )

    def _null(self, moved: _Moved, values: Floats) -> Law:
        """The null that values, (..., n), are tested by.

        A gap of rare outcomes makes them less rare, and what is tested varies more; the larger the value happens to be, the more
        so. It is never taken to vary less.
        """
        pooled = moved.pooled + moved.pull * (values - moved.mean)
        after = self.a.variance(pooled) + self.b.variance(pooled)
        more = np.maximum(np.divide(after, self.variance, out=np.ones_like(after), where=self.variance > 0), 1.0)
        law = self.law
        return Law(law.variance * more, law.third * more, law.pull * more, law.noise * more**2)


@dataclass(frozen=True, slots=True)
class _Moved:
    """Values if there were a gap, (n,) each: their mean and the law around it; pooled: how far the pooled curve moves, and pull:
    what a value that is 1 above its mean adds to that."""

    mean: Floats
    apart: Law
    pooled: float
    pull: Floats


def _movable(process: Process, null: Null) -> tuple[MovableSide, MovableSide]:
    """Both sides; what a user's rows have in common is that of all scores, as a few events cannot show how alike more would be."""
    a, b = process.scatter_a, process.scatter_b
    if not (isinstance(a, Dependence) and isinstance(b, Dependence)):
        return MovableSide(process.side_a), MovableSide(process.side_b)
    nested = [_nested_potential(side, around) for side, around in ((a, null.a), (b, null.b))]
    common, alike = overall_correlation(a, b), overall_correlation(a, b, potentials=nested)
    sides = []
    for law, side in ((process.side_a, a), (process.side_b, b)):
        assert isinstance(law, RateLaw)
        sides.append(MovableSide(_at_least(law, side, common), _at_least(law, side, max(common, alike))))
    return sides[0], sides[1]


def _nested_potential(side: Dependence, around: Around) -> Floats:
    """What pairs of a user's rows can add at most where their rates differ, (n,)."""
    return np.maximum(quadratic(side.matrix, nested_pairs(around.view.pairs, around.fit)) - side.base, 0)


def _at_least(law: RateLaw, side: Dependence, common: float) -> RateLaw:
    """The law of a rate with no less than this correlation of a user's rows."""
    steady, _ = rate_law(side, np.full_like(side.base, common), np.inf)
    more = steady.squares > law.squares
    squares, cubes = (np.where(more, getattr(steady, name), getattr(law, name)) for name in ("squares", "cubes"))
    return replace(law, squares=squares, cubes=cubes)
