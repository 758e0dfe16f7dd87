"""Calibration error in all its definitions, with limits that respect users: one home for what is scattered over many packages."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import DataError, OptionError, is_finite, require_alpha, require_flag, require_option, shortened
from evenscore.estimation.smoothing import Smoothing
from evenscore.miscalibration.binned import Bins
from evenscore.miscalibration.definitions import METHODS, MeasuredError, Method, Move, Request, measure_all
from evenscore.miscalibration.error_result import CalibrationError, ErrorDifference, ErrorEstimate
from evenscore.miscalibration.intervals import Size
from evenscore.miscalibration.measure import require_outcome_scale
from evenscore.tallies.pairs import PairMatrices
from evenscore.tallies.tally_state import Tally
from evenscore.tallies.two_way import in_full, require_enough
from evenscore.tallies.view import GroupView, residual_covariance
from evenscore.threads import in_one_thread

__all__ = ["METHODS", "CalibrationError", "ErrorDifference", "ErrorEstimate", "calibration_error"]


FEW_USERS = 30  # of fewer the limits are called rough
NEAR_ZERO = 1 / 3  # of the upper limit: below this the lower one is near zero
MAX_PAIRS = 200  # of groups whose errors are compared


@in_one_thread
def calibration_error(
    tally: Any,
    *,
    method: str = "kernel",
    norm: int | None = None,
    weighting: str = "user",
    alpha: float = 0.05,
    bins: Bins = 15,
    spacing: str = "mass",
    bandwidth: float | str = "band",
    kernel: str = "gaussian",
    degree: int = 1,
    statistic: str = "largest",
    debias: bool | None = None,
    interval: bool = True,
    same_scale: bool | None = None,
    seed: int = 0,
    **columns: Unpack[DataColumns],
) -> CalibrationError:
    """How far scores are from the outcomes to be expected at them, by group, overall and between groups.

    Parameters
    ----------
    tally
        What ``es.tally`` made, also as the path of a saved one; or data.
    columns
        With data: ``score=``, ``outcome=``, ``group=``, ``user=`` and what else ``es.tally`` takes.
    method
        "kernel": the true calibration error, smoothing the residual. "ce_np": the paper's, at 100 quantiles. "ece", "debiased_ece"
        and "label_binned": by bins. "msce": monotonic sweep. "smooth": smECE. "cumulative": ECCE.
    norm
        2, the root of the mean square, or 1, the mean absolute error, where a method has both. By default 2, and 1 for "ece".
    weighting
        "user": every user counts the same, however many rows; "row": every row does. Limits respect users either way.
    bins, spacing
        How many bins of equal "mass" or "width"; or their limits; or "values", a bin for each score of few.
    bandwidth, kernel, degree
        Of the smoother of "kernel" and "ce_np", as in ``es.curves``.
    statistic
        Of "cumulative": "largest" (ECCE-MAD) or "range" (ECCE-R).
    debias
        Whether the estimate is freed of what noise adds to it; by default for "kernel" and "debiased_ece". The rows have both.
    interval
        False leaves out the limits, for speed.
    same_scale
        Whether score and outcome are on one scale; by default the data tell, and say so when they are not.
    alpha, seed
        The level, and the seed of the draws behind limits; the same seed gives the same result.

    Returns
    -------
    CalibrationError
        By group and overall, with limits; ``.differences()`` compares the groups.

    Examples
    --------
    >>> import evenscore as es
    >>> tally = es.tally(es.simulate(2000, curve=(-0.5, 1)).data(), score="score", outcome="outcome", group="group", user="user")
    >>> found = es.calibration_error(tally)
    >>> round(found.overall.estimate, 2), found.overall.ci_low < 0.102 < found.overall.ci_high
    (0.1, True)
    """
    tally = require_enough(in_full(as_tally(tally, columns, call="calibration_error")))
    require_option("method", method, METHODS)
    require_alpha(alpha)
    require_outcome_scale(tally, same_scale)
    require_flag("interval", interval)
    require_option("debias", debias, (None, True, False))
    request = Request(
        method=method,
        power=_power(method, METHODS[method], norm),
        debias=METHODS[method].debias if debias is None else debias,
        smoothing=Smoothing(degree, kernel, bandwidth),
        bins=bins,
        spacing=spacing,
        statistic=statistic,
        interval=interval,
        alpha=alpha,
        seed=seed,
    )
    measured = measure_all(request, _views(tally, weighting), len(tally.groups))
    estimates = [_estimate(error, request) for error in measured]
    if len(tally.groups) == 1:
        estimates.append(replace(estimates[0], group=None))
    pairs = list(itertools.combinations(range(len(measured) - 1), 2))[:MAX_PAIRS]  # the last is everybody
    return CalibrationError(
        method=method,
        estimates=tuple(estimates),
        pairs=tuple(_difference(estimates[a], estimates[b], measured[a], measured[b]) for a, b in pairs),
        norm=request.power,
        weighting=weighting,
        alpha=alpha,
        what=request.words,
        frame_kind=tally.frame_kind,
    )


def _power(method: str, definition: Method, norm: int | None) -> int:
    if norm is None:
        return definition.norms[0]
    if not is_finite(norm) or norm not in definition.norms:
        allowed = " or ".join(map(str, sorted(definition.norms)))
        raise OptionError(f"norm={shortened(norm)}: method={shortened(method)} is defined with norm={allowed}")
    return int(norm)


def _views(tally: Tally, weighting: str) -> list[GroupView]:
    """Each group that has labelled rows, then everybody unless that is the same."""
    views = [view for view in GroupView.each(tally, weighting) if view.n_rows > 0]
    if not views:
        raise DataError("the tally has no labelled rows: there is no outcome to compare scores with")
    return [*views, GroupView.whole(tally, weighting)] if len(tally.groups) > 1 else views


def _estimate(error: MeasuredError, request: Request) -> ErrorEstimate:
    size, used = error.size, error.used
    value = size.debiased if request.debias else size.plug_in
    return ErrorEstimate(
        group=used.label,
        estimate=value,
        ci_low=size.low,
        ci_high=size.high,
        plug_in=size.plug_in,
        debiased=size.debiased,
        n_users=used.n_users,
        flag=_flag(used, size, value, METHODS[request.method]),
        detail=error.measure.detail,
        notes=error.measure.notes,
    )


def _flag(view: GroupView, size: Size, value: float, definition: Method) -> str:
    """Why the limits need care, or nothing."""
    reasons = []
    if view.n_users < FEW_USERS:
        reasons.append(f"only {view.n_users} users: the limits are rough")
    if math.isnan(size.low):
        return "; ".join(reasons)
    if math.isnan(size.high):
        reasons.append("no upper limit: no error is too large for what was seen")
    if size.plug_in == size.high == 0:
        reasons.append("scores are outcomes, for everybody: limits without any width know no more than these people")
    if size.low <= 0:
        says = "" if math.isnan(size.high) else ", only the upper limit says something"
        reasons.append(f"compatible with perfect calibration{says}")
    if definition.chosen_by_data and size.low <= NEAR_ZERO * size.high:
        reasons.append(
            f"{definition.chosen_by_data} depends on the data, which the limits do not know: do not trust them near zero"
        )
    if value > size.high:
        reasons.append("the estimate is above its limits because noise adds to it: see debiased")
    return "; ".join(reasons)


# Between groups


def _difference(a: ErrorEstimate, b: ErrorEstimate, of_a: MeasuredError, of_b: MeasuredError) -> ErrorDifference:
    """Limits of a difference from the limits of both (MOVER; Zou and Donner 2008), which may be uneven around their estimates."""
    correlation, size_a, size_b = _correlation(of_a, of_b), of_a.size, of_b.size

    def reach(from_a: float, from_b: float) -> float:
        from_a, from_b = max(from_a, 0.0), max(from_b, 0.0)
        return math.sqrt(max(from_a**2 + from_b**2 - 2 * correlation * from_a * from_b, 0.0))

    centre = size_a.debiased - size_b.debiased
    low = centre - reach(size_a.debiased - size_a.low, size_b.high - size_b.debiased)
    high = centre + reach(size_a.high - size_a.debiased, size_b.debiased - size_b.low)
    return ErrorDifference(a.group, b.group, a.estimate - b.estimate, centre, low, high)


def _correlation(a: MeasuredError, b: MeasuredError) -> float:
    """How far users that are in both groups tie the two errors together."""
    shared = a.view.shared_pairs(b.view)
    if shared is None or a.move is None or b.move is None:
        return 0.0
    both = _product(shared, a.move, b.move)
    alone = _product(a.view.pairs, a.move, a.move), _product(b.view.pairs, b.move, b.move)
    return float(np.clip(both / math.sqrt(alone[0] * alone[1]), -1, 1)) if min(alone) > 0 else 0.0


def _product(pairs: PairMatrices, a: Move, b: Move) -> float:
    """The sum over users of what they add to one norm times what they add to the other."""
    (reach_a, centre_a), (reach_b, centre_b) = a, b
    return float(residual_covariance(pairs, reach_a[None, :], centre_a[None, :], reach_b[None, :], centre_b[None, :])[0, 0])
