"""What a constant gap would do to a process: how large its values would be, and how the test would see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenscore.estimation.gaps import Process
from evenscore.estimation.inference import Singles
from evenscore.estimation.laws import Law, skew, stack, within
from evenscore.estimation.nulls import Null
from evenscore.estimation.scatters import Scatter
from evenscore.estimation.side_laws import RateLaw, SideLaw
from evenscore.estimation.spreads import Dependence, nested_pairs, overall_correlation, quadratic, rate_law, rate_spread
from evenscore.types import Floats, Ints, Mask

NODE = 1.5  # normal quantiles: between two such most noise lies, and power is decided by it


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

    def reach(self, up: Floats | float) -> Floats | float:
        """How far it can be moved, (n,): a rate stays within [0, 1]."""
        return within(self.law.rate + up) - self.law.rate if isinstance(self.law, RateLaw) else up

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
    share: (n,), of side a in the pooled curve.
    """

    law: Law
    variance: Floats
    a: MovableSide
    b: MovableSide
    shift: Floats
    share: Floats

    @classmethod
    def of(cls, processes: Sequence[Process], alike: Sequence[RowsAlike | None], shares: Sequence[float]) -> Shifted:
        """Of processes end to end; alike: how alike the rows of the users of each are, where outcomes are 0/1."""
        sizes = [len(process.values) for process in processes]
        law_a, law_b = stack([process.side_a for process in processes]), stack([process.side_b for process in processes])
        sides = zip(*((process.scatter_a.alone, process.scatter_b.alone) for process in processes), strict=True)
        scatter_a, scatter_b = (stack(own) for own in sides)
        known = [own for own in alike if own is not None]
        common, higher = ([getattr(own, name) for own in known] for name in ("common", "higher"))
        least = (np.repeat(common, sizes), np.repeat(higher, sizes)) if known else None
        return cls(
            stack([process.law for process in processes]),
            law_a.moved(0.0).minus(law_b.moved(0.0)).variance,
            _movable(law_a, scatter_a, least),
            _movable(law_b, scatter_b, least),
            np.concatenate([process.shift for process in processes]),
            np.repeat(shares, sizes),
        )

    def z_of_gap(self, gap: Floats | float, noise: Floats | Singles) -> Floats:
        """What draws of noise, (draws, n), make of the z if there were a constant gap, (n,) of each."""
        moved, noise = self._moved(gap), np.asarray(noise, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):  # rates of 0 or 1 have no noise
            values = moved.mean + skew(noise, moved.apart.skewness) * moved.apart.se
            return self._null(moved, values).rough_z(values)

    def parabolas(self, gap: Floats | float) -> Floats:
        """``z_of_gap`` as a parabola in the noise of each value, (3, n): its height at no noise, slope and bend.

        Through three noises: all that is nearly normal is nearly straight in them, and thousands of draws cost what three do.
        """
        low, middle, high = self.z_of_gap(gap, np.repeat([[-NODE], [0.0], [NODE]], len(self.shift), axis=1))
        return np.stack([middle, (high - low) / (2 * NODE), (low - 2 * middle + high) / (2 * NODE**2)])

    def _moved(self, gap: Floats | float) -> _Moved:
        """The smaller side moved by the gap."""
        up_a, up_b = np.where(self.share < 0.5, gap, 0.0), np.where(self.share < 0.5, 0.0, -np.asarray(gap))
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
    pooled: Floats
    pull: Floats


@dataclass(frozen=True, slots=True)
class RowsAlike:
    """The correlation of the 0/1 outcomes of a user's rows, of all scores together, as a few events cannot show it.

    common: now; higher: where rates are so much higher that they hardly differ.
    """

    common: float
    higher: float

    @classmethod
    def of(cls, gap: Process, null: Null) -> RowsAlike | None:
        """From the gap around a null; None where outcomes are others than 0 and 1."""
        a, b = gap.scatter_a, gap.scatter_b
        if not (isinstance(a, Dependence) and isinstance(b, Dependence)):
            return None
        nested = [nested_pairs(around.view.pairs, around.fit) for around in (null.a, null.b)]
        potentials = [np.maximum(quadratic(side.matrix, pairs) - side.base, 0) for side, pairs in zip((a, b), nested, strict=True)]
        common = overall_correlation(a, b)
        return cls(common, max(common, overall_correlation(a, b, potentials=potentials)))


def _movable(law: SideLaw, side: Dependence | Scatter, least: tuple[Floats, Floats] | None) -> MovableSide:
    """A side whose rates have no less than these correlations of a user's rows, now and where rates hardly differ, (n,) each."""
    if least is None or not isinstance(law, RateLaw) or not isinstance(side, Dependence):
        return MovableSide(law)
    return MovableSide(*(_at_least(law, side, common) for common in least))


def _at_least(law: RateLaw, side: Dependence, common: Floats) -> RateLaw:
    """The law of a rate with no less than this correlation of a user's rows."""
    steady, _ = rate_law(side, common, np.inf)
    more = steady.squares > law.squares
    squares, cubes = (np.where(more, getattr(steady, name), getattr(law, name)) for name in ("squares", "cubes"))
    return replace(law, squares=squares, cubes=cubes)
