"""The definitions of calibration error, and the error of each group by the one that was asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

from evenscore.estimation.bandwidth import settle
from evenscore.estimation.inference import CommonNormals
from evenscore.estimation.smoothing import Smoothing
from evenscore.miscalibration.binned import Bins, binned_error, debiased_error, label_binned_error
from evenscore.miscalibration.cumulative import cumulative_error
from evenscore.miscalibration.intervals import Size, size_of
from evenscore.miscalibration.kernel_error import join_cells, kernel_error, quantile_error, rougher_error
from evenscore.miscalibration.measure import Measure
from evenscore.miscalibration.monotone_sweep import sweep_error
from evenscore.miscalibration.noise import Background
from evenscore.miscalibration.smooth_error import smooth_error
from evenscore.tallies.view import GroupView
from evenscore.types import Floats

ENDLESS = 5.0  # times the root mean square of outcome minus score

Move = tuple[Floats, Floats]  # reach and centre of a ``Size``, at every cell of the lattice


@dataclass(frozen=True, slots=True)
class Method:
    """One definition of calibration error: in words, the norms it has, and whether noise is taken off by default."""

    words: str
    norms: tuple[int, ...] = (2, 1)
    debias: bool = False
    chosen_by_data: str = ""


METHODS = {
    "kernel": Method("E(Y | S) − S along the score", debias=True),
    "ce_np": Method("E(Y | S) − S at 100 quantiles of the score"),
    "ece": Method("mean outcome less mean score of bins", (1, 2)),
    "debiased_ece": Method("mean outcome less mean score of bins, less noise", debias=True),
    "label_binned": Method("mean outcome of bins less own score"),
    "msce": Method("bins, as many as keep mean outcomes rising", chosen_by_data="the number of bins"),
    "smooth": Method("smooth calibration error", (1,), chosen_by_data="the width of the kernel"),
    "cumulative": Method("running sum of outcome minus score", (1,), chosen_by_data="where the sum is largest"),
}

_BINNED: dict[str, Callable[..., Measure]] = {
    "ece": binned_error,
    "debiased_ece": debiased_error,
    "label_binned": label_binned_error,
}


@dataclass(frozen=True, slots=True)
class Request:
    """What ``es.calibration_error`` was asked for, checked; power: of the norm, 1 or 2."""

    method: str
    power: int
    debias: bool
    smoothing: Smoothing
    bins: Bins
    spacing: str
    statistic: str
    interval: bool
    alpha: float
    seed: int

    @property
    def smooths(self) -> bool:
        """Whether the method smooths residuals along the score."""
        return self.method in ("kernel", "ce_np")

    @property
    def words(self) -> str:
        """What is measured."""
        words, norms = METHODS[self.method].words, METHODS[self.method].norms
        if len(norms) == 1:
            return words
        return words + (", mean absolute" if self.power == 1 else ", root mean square")

    def measure(self, view: GroupView, used: GroupView) -> Measure:
        """The error of a group by the method, on the cells that it is measured on."""
        if self.smooths:
            make = kernel_error if self.method == "kernel" else quantile_error
            return make(used, settle(self.smoothing, [view]), self.power)
        if self.method == "smooth":
            return smooth_error(used)
        if self.method == "cumulative":
            return cumulative_error(used, statistic=self.statistic)
        if self.method == "msce":
            return sweep_error(used, spacing=self.spacing, power=self.power)
        return _BINNED[self.method](used, bins=self.bins, spacing=self.spacing, power=self.power)


@dataclass(frozen=True)
class MeasuredError:
    """The error of one group, or of all: on all of its cells (view), and on those that it is measured on (used)."""

    view: GroupView
    used: GroupView
    measure: Measure
    size: Size

    @cached_property
    def move(self) -> Move | None:
        """What users add to the norm, at every cell of the lattice; None where there are no limits."""
        if self.size.reach is None or self.size.centre is None:
            return None
        return self.used.everywhere(self.size.reach), self.used.everywhere(self.size.centre)


def measure_all(request: Request, views: list[GroupView], n_groups: int) -> list[MeasuredError]:
    """The error of each view; the first n_groups tell how alike the rows of a user are."""
    filled = [view.at(view.used) for view in views]
    if request.smooths:
        filled = [join_cells(view, request.smoothing) for view in filled]
    backgrounds = cache(lambda: Background.each(filled, filled[:n_groups]))  # only where limits are wanted
    measured, rng = [], CommonNormals(request.seed)
    for number, (view, used) in enumerate(zip(views, filled, strict=True)):
        measure = request.measure(view, used)
        size = size_of(
            measure,
            used,
            partial(lambda place: backgrounds()[place], number),
            alpha=request.alpha,
            interval=request.interval,
            debias=request.debias,
            rng=rng,
            rougher=rougher_error(used, request.smoothing, request.power) if request.interval and request.smooths else None,
        )
        measured.append(MeasuredError(view, used, measure, _without_endless(size, used)))
    return measured


def _without_endless(size: Size, view: GroupView) -> Size:
    """Without an upper limit that is far beyond what an error can be: E (E(Y | S) - S)^2 is at most E (Y - S)^2.

    A few people whose numbers happen to be alike rule nothing out. For 0/1 outcomes limits end at 1.
    """
    sums, score = view.sums, view.score - view.tally.centre
    largest = math.sqrt(max(float((sums.Y2 - 2 * score * sums.Y + score**2 * sums.W).sum()) / view.total, 0.0))
    return replace(size, high=math.nan) if not view.tally.binary and size.high > ENDLESS * largest else size
