"""``es.calibrate_jointly``: replaces each score by the outcome that is expected given all scores and the group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenscore.calibration import FEWEST_USERS, calibrate
from evenscore.engines import tally
from evenscore.errors import OptionError, is_finite, renamed, require_flag, require_option, shortened, warn
from evenscore.multiobjective.axes import NODES, Axis, make_axes, node_positions
from evenscore.multiobjective.calibrator import JointCalibrator
from evenscore.multiobjective.candidates import WIDTHS, Candidate, KernelGrid, KernelTarget, Regressed, regress
from evenscore.multiobjective.choosing import choose
from evenscore.multiobjective.maps import GroupMaps, ObjectiveMap
from evenscore.multiobjective.points import Points, join, points_of_groups
from evenscore.multiobjective.rows import JointColumns, JointRows, ObjectivesSpec, observe_jointly
from evenscore.tables import label_text, values_of
from evenscore.tallies.tally_state import WEIGHTINGS
from evenscore.threads import in_one_thread
from evenscore.types import Floats, Say

METHODS = ("auto", "kernel", "guided", "logistic", "linear")
SINGLE = {"auto": "auto", "kernel": "kernel", "logistic": "platt"}
MOST_SCORES = max(NODES)  # a kernel in more dimensions finds nobody near


@dataclass(frozen=True, slots=True)
class Setting:
    """How to fit; the same for every group."""

    method: str
    bandwidth: str | tuple[float, ...]
    degree: int
    squares: bool
    binary: tuple[bool, ...]
    centre: Floats

    @property
    def smooths(self) -> bool:
        """Whether kernels are among the candidates."""
        return self.method in ("kernel", "guided") or (self.method == "auto" and len(self.binary) <= MOST_SCORES)


@renamed(say="progress")
@in_one_thread
def calibrate_jointly(
    data: Any,
    *,
    scores: Sequence[Any],
    outcomes: Sequence[Any],
    group: Any,
    user: Any,
    method: str = "auto",
    weight: Any = None,
    weighting: str = "user",
    bandwidth: float | Sequence[float] | str = "risk",
    degree: int = 1,
    squares: bool = False,
    scale: str = "auto",
    nulls: str = "unlabelled",
    split: str | None = None,
    progress: Say | None = None,
) -> JointCalibrator:
    """Replace each of several scores by the outcome expected given all of them, so that every blend means the same in every group.

    Score k becomes :math:`E(Y_k \\mid S_1, \\ldots, S_K, G)`.

    Parameters
    ----------
    data
        As for ``es.tally``: a frame, a dict of arrays, paths, a DuckDB relation.
    scores, outcomes
        Lists of columns, the outcome of each score in the same place; 0/1 and real outcomes may be mixed. A null outcome is not
        labelled: each objective is fitted on its own labelled rows.
    group, user, weight
        As for ``es.tally``.
    method
        "kernel": product-kernel local regression, for at most 4 scores. "logistic" (0/1 outcomes) and "linear": a regression on
        all scores. "guided": a regression, and a kernel for what it leaves. "auto" mixes these for each group and objective so that
        the squared error on users left out is smallest, but keeps the plain regression unless the mixture is better by more than
        a standard error; the calibrator says why.
    weighting
        "user": every user counts the same, however many rows; "row": every row does.
    bandwidth
        Of kernels: "risk" (on users left out), "rule" (1.06 sd users^(-1 / (K + 4)) for each score), or a number, or one for each
        score, in units of the scale.
    degree
        1: local planes. 0: local means (Nadaraya-Watson).
    squares
        Let a regression have squares and products of the scores too.
    scale
        "auto": scores that lie in [0, 1] are taken as probabilities, on the logit scale; "score"; "logit".
    nulls
        "unlabelled", "drop" (rows without a score, group or user are left out and counted) or "error".
    split
        Fit on a share of the users, as in ``es.tally``: "1/2", and audit on the others, "2/2".
    progress
        Progress callback: called with what is being done, in words.

    Returns
    -------
    JointCalibrator
        With ``.transform(data, groups)``, ``.composite(weights)`` and ``.save(path)``. With one score its maps are
        those of ``es.calibrate``.

    Examples
    --------
    >>> from evenscore.simulation import simulate_objectives
    >>> spec = simulate_objectives(200, objectives=["click", "buy"])
    >>> joint = calibrate_jointly(spec.data(seed=1), **spec.columns, method="logistic")
    >>> joint.transform({"score_click": [0.2, 0.7], "score_buy": [0.1, 0.3]}, ["a", "b"]).shape
    (2, 2)
    """
    require_option("method", method, METHODS)
    require_option("weighting", weighting, WEIGHTINGS)
    require_option("degree", degree, (0, 1))
    spec = ObjectivesSpec(scores=scores, outcomes=outcomes, group=group, user=user, weight=weight, nulls=nulls, split=split)
    k = spec.n_objectives
    if k > MOST_SCORES and method in ("kernel", "guided"):
        raise OptionError(
            f"method={method!r} takes at most {MOST_SCORES} scores, not {k}: given so many, hardly anybody is near "
            "anybody. Use method='logistic' (0/1 outcomes) or method='linear', or leave scores out"
        )
    widths = _read_bandwidth(bandwidth, k)
    if k == 1:
        return _calibrate_one(data, spec, method=method, weighting=weighting, bandwidth=bandwidth)
    rows = observe_jointly(data, spec, progress)
    _require_binary(rows, method)
    axes = make_axes(rows.scores, rows.columns.scores, scale, NODES.get(k, 2))
    centre = np.array([0.0 if binary else _mean(rows, k) for k, binary in enumerate(rows.binary)])
    require_flag("squares", squares)
    setting = Setting(method, widths, degree, squares, rows.binary, centre)
    points = points_of_groups(rows, axes, weighting, centre)
    maps, pooled, reasons = _fit_all(rows, points, axes, setting)
    return JointCalibrator(
        axes=axes,
        maps=maps,
        pooled=pooled,
        method=method,
        weighting=weighting,
        columns=rows.columns,
        binary=rows.binary,
        dropped=rows.dropped,
        fingerprint=rows.fingerprint(),
        split=rows.split,
        reasons=reasons,
        frame_kind=rows.frame,
    )


def _read_bandwidth(bandwidth: Any, k: int) -> str | tuple[float, ...]:
    if isinstance(bandwidth, str):
        require_option("bandwidth", bandwidth, ("risk", "rule"))
        return bandwidth
    values = tuple(bandwidth) if isinstance(bandwidth, Sequence) or np.ndim(bandwidth) else (bandwidth,) * k
    if len(values) != k or not all(is_finite(h) and h > 0 for h in values):
        raise OptionError(
            f"bandwidth={shortened(bandwidth)} must be 'risk', 'rule', a positive number, or one for each of {k} scores"
        )
    return tuple(map(float, values))


def _require_binary(rows: JointRows, method: str) -> None:
    real = [name for name, binary in zip(rows.columns.outcomes, rows.binary, strict=True) if not binary]
    if method == "logistic" and real:
        raise OptionError(
            f"method='logistic' needs outcomes of 0 and 1; {', '.join(map(repr, real))} has others. "
            "Use 'linear', 'kernel' or 'auto'"
        )


def _mean(rows: JointRows, k: int) -> float:
    known = rows.labelled[k]
    return float(np.mean(rows.outcomes[k] if known is None else rows.outcomes[k][known], dtype=np.float64))


def _calibrate_one(data: Any, spec: ObjectivesSpec, *, method: str, weighting: str, bandwidth: Any) -> JointCalibrator:
    """One score: ``es.calibrate``."""
    if method not in SINGLE:
        raise OptionError(
            f"method={shortened(method)} is for several scores; with one, use {', '.join(map(repr, SINGLE))}, or es.calibrate"
        )
    others = values_of(spec, ("group", "user", "weight", "nulls", "split"))
    counted = tally(data, score=spec.scores[0], outcome=spec.outcomes[0], **others)
    options: dict[str, Any] = {} if method != "kernel" else {"bandwidth": "test" if bandwidth == "rule" else bandwidth}
    single = calibrate(counted, method=SINGLE[method], weighting=weighting, **options)
    columns = counted.columns
    assert columns is not None
    return JointCalibrator(
        axes=(),
        maps=(),
        pooled=None,
        method=method,
        weighting=weighting,
        columns=JointColumns((columns.score,), (columns.outcome,), columns.group, columns.user, columns.weight),
        binary=(counted.binary,),
        dropped=dict(counted.dropped),
        fingerprint=single.fingerprint,
        split=counted.split,
        reasons=dict(single.reasons),
        frame_kind=counted.frame_kind,
        single=single,
    )


def _fit_all(
    rows: JointRows, points: list[Points], axes: tuple[Axis, ...], setting: Setting
) -> tuple[tuple[GroupMaps, ...], GroupMaps, dict[Any, str]]:
    """The maps of each group and of everybody; groups with too few users have the latter, and a reason."""
    pooled = _fit_group(None, join(points) if len(points) > 1 else points[0], axes, setting)
    maps, reasons = [], {}
    for label, own in zip(rows.groups, points, strict=True):
        fewest = int(own.n_users.min())
        if fewest < FEWEST_USERS:
            reasons[label] = f"has only {fewest} users with an outcome, fewer than {FEWEST_USERS}: it gets the pooled maps"
            maps.append(replace(pooled, group=label, source="pooled"))
        elif len(points) == 1:
            maps.append(replace(pooled, group=label))
        else:
            maps.append(_fit_group(label, own, axes, setting))
    if reasons:
        few = "; ".join(f"{label_text(group)} {reason}" for group, reason in reasons.items())
        warn(few)
    return tuple(maps), pooled, reasons


def _fit_group(label: Any, points: Points, axes: tuple[Axis, ...], setting: Setting) -> GroupMaps:
    """The best candidate of each objective."""
    nodes = node_positions(axes) if setting.smooths else None
    maps = []
    for k, competing in enumerate(candidates_of(points, axes, setting)):
        best = choose(competing, points, k, nodes, setting.binary[k])
        maps.append(as_map(best, competing, points, k, setting))
    return GroupMaps(label, points.low, points.high, tuple(maps))


def candidates_of(points: Points, axes: tuple[Axis, ...], setting: Setting) -> list[list[Candidate]]:
    """What competes, by objective."""
    n_objectives = len(setting.binary)
    competing: list[list[Candidate]] = [[] for _ in range(n_objectives)]
    guides: list[Regressed | None] = [None] * n_objectives
    if setting.method != "kernel":
        for k in range(n_objectives):
            competing[k], guides[k] = _regressions(points, k, setting)
    if not setting.smooths:
        return competing
    if setting.method == "guided":
        competing = [[] for _ in range(n_objectives)]
    grid = KernelGrid(points, axes, setting.degree, setting.binary)
    targets = [KernelTarget(k) for k in range(n_objectives) if setting.method != "guided"]
    targets += [KernelTarget(k, guide) for k, guide in enumerate(guides) if guide is not None]
    batches = [targets] if points.alike else [[target for target in targets if target.k == k] for k in range(n_objectives)]
    for batch in batches:
        for target, candidate in zip(batch, grid.search(batch, _widths(grid, batch[0].k, setting)), strict=True):
            competing[target.k].append(candidate)
    return competing


def _regressions(points: Points, k: int, setting: Setting) -> tuple[list[Candidate], Regressed]:
    """The regressions that compete, and the better of them to guide a kernel."""
    logistic = setting.binary[k] and setting.method != "linear"
    name = "logistic" if logistic else "linear"
    forms = (False, True) if setting.method in ("auto", "guided") else (setting.squares,)
    fits = {squares: regress(points, k, logistic=logistic, squares=squares) for squares in forms}
    candidates = [
        Candidate(f"{name} with squares" if squares else name, fit.risk, regression=fit.whole, left_out=fit.left_out)
        for squares, fit in fits.items()
    ]
    return candidates, min(fits.values(), key=lambda fit: fit.risk)


def _widths(grid: KernelGrid, k: int, setting: Setting) -> list[Floats]:
    if isinstance(setting.bandwidth, tuple):
        return [np.array(setting.bandwidth)]
    factors = (1.0,) if setting.bandwidth == "rule" else WIDTHS
    return [factor * grid.rule(k) for factor in factors]


def as_map(best: Candidate, competing: Sequence[Candidate], points: Points, k: int, setting: Setting) -> ObjectiveMap:
    """The map that won, with what it won against."""
    risk = {candidate.name: candidate.risk for candidate in (best, *competing)}
    others = ", ".join(f"{value:.5g} ({name})" for name, value in risk.items() if name != best.name)
    reason = f"squared error {best.risk:.5g} on users left out" + (f", alone: {others}" if others else "")
    if len(competing) > 1 and best is competing[0]:
        reason += "; nothing is better than this simplest one by more than a standard error"
    return ObjectiveMap(
        method=best.name,
        grid=best.grid,
        known=best.known,
        regression=None if best.grid is not None else best.regression,
        bandwidth=() if best.bandwidth is None else tuple(best.bandwidth.tolist()),
        centre=float(setting.centre[k]),
        users=int(points.n_users[k]),
        rows=int(points.n_rows[k]),
        risk=risk,
        reason=reason,
    )
