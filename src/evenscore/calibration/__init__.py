"""``es.calibrate``: fits a map for each group from the tally alone."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from evenscore.calibration.binning import Binning
from evenscore.calibration.calibrator import Calibrator
from evenscore.calibration.fit import as_map
from evenscore.calibration.isotonic import Isotonic
from evenscore.calibration.kernel_map import KernelMap
from evenscore.calibration.maps import GroupMap, knot_weights
from evenscore.calibration.platt import Platt
from evenscore.calibration.reference import beyond, identity, to_reference
from evenscore.calibration.shrinkage import mix_maps, own_share
from evenscore.calibration.sketching import sketch_users
from evenscore.calibration.stacking import Auto, Method
from evenscore.engines.data_or_tally import DataColumns, as_tally
from evenscore.errors import DataError, OptionError, require_flag, require_option, shortened, warn
from evenscore.estimation.smoothing import Smoothing
from evenscore.saving import pack_label
from evenscore.tables import label_text
from evenscore.tallies.tally_state import WEIGHTINGS, Tally
from evenscore.tallies.view import GroupView
from evenscore.threads import in_one_thread

METHODS = ("kernel", "isotonic", "platt", "binning", "auto")
FEWEST_USERS = 10  # a group with fewer gets the pooled map


@in_one_thread
def calibrate(
    tally: Any,
    *,
    method: str = "kernel",
    degree: int = 1,
    kernel: str = "gaussian",
    bandwidth: float | str = "risk",
    bins: int = 15,
    bin_by: str = "mass",
    monotone: bool = False,
    shrink: bool = False,
    reference: Any = None,
    weighting: str = "user",
    remember_users: str | None = None,
    **columns: Unpack[DataColumns],
) -> Calibrator:
    """Fit a map for each group from its scores to the outcome that they stand for.

    Parameters
    ----------
    tally
        What ``es.tally`` made, also as the path of a saved one; or data.
    columns
        With data: ``score=``, ``outcome=``, ``group=``, ``user=`` and what else ``es.tally`` takes.
    method
        "kernel": the paper's t(s, g), local linear regression at knots with straight lines between them. "isotonic": the nearest
        map that never falls. "platt": expit(b0 + b1 logit s), for 0/1 outcomes. "binning": one value a bin. "auto": Platt or a
        mixture of methods, by squared error on users left out; ``repr`` says why.
    degree, kernel, bandwidth
        Of "kernel": 0 is the paper's Nadaraya-Watson, 1 local linear, 2 local quadratic. The bandwidth is chosen by squared error
        on users left out ("risk"), by another rule of ``es.curves`` ("band" with its guide, for limits that hold), or is a number.
    bins, bin_by
        Of "binning": how many, of equal "mass" or "width".
    monotone
        Make every map never fall.
    shrink
        Let small groups lean on everybody: a group's map is a mixture of its own and the pooled one, its own as far as users left
        out show that it has the smaller squared error. ``es.audit`` suggests such maps.
    reference
        Keep the scale of this group: a score of another group becomes the reference's score that stands for the same outcome.
        Without it scores become expected outcomes.
    weighting
        "user": every user counts the same; "row": every row does.
    remember_users
        A secret under which hashes of the fitted users are kept, so that ``es.verify`` can recognise them with the same secret.

    Returns
    -------
    Calibrator
        With ``.transform(scores, groups)``, ``.save(path)`` and exports to SQL, ONNX and lookup tables.

    Examples
    --------
    >>> import evenscore as es
    >>> data = es.simulate(200, curve={"a": (0, 1), "b": (-0.5, 1)}).data(seed=1)
    >>> tally = es.tally(data, score="score", outcome="outcome", group="group", user="user")
    >>> es.calibrate(tally, method="platt").transform([0.5, 0.5], ["a", "b"]).round(2)
    array([0.48, 0.39])
    """
    tally = as_tally(tally, columns, call="calibrate")
    require_option("method", method, METHODS)
    fitter = _fitter(method, KernelMap(Smoothing(degree, kernel, bandwidth)), Binning(bins, bin_by))
    require_option("weighting", weighting, WEIGHTINGS)
    require_flag("monotone", monotone)
    require_flag("shrink", shrink)
    if not tally.groups or not any(tally.n_rows.values()):
        raise DataError("the tally has no labelled rows: there is nothing to calibrate on")
    if reference is not None:
        reference = _reference_label(tally, reference, method)
    maps, pooled, reasons = _fit_all(tally, fitter, weighting, monotone or reference is not None, shrink)
    if reference is not None:
        maps, pooled, reasons = _on_scale_of(tally, reference, maps, pooled, reasons)
    return Calibrator(
        maps=maps,
        pooled=pooled,
        method=method,
        weighting=weighting,
        monotone=monotone,
        lattice=tally.lattice,
        binary=tally.binary,
        columns=tally.columns,
        fingerprint=fingerprint(tally),
        reference=reference,
        split=tally.split,
        sketch=None if remember_users is None else sketch_users(tally, remember_users),
        reasons=reasons,
        frame_kind=tally.frame_kind,
        item=tally.item,
        by_item=tally.by_item,
    )


def _fitter(method: str, kernel: KernelMap, binning: Binning) -> Method:
    """The way of fitting that was asked for."""
    methods: dict[str, Method] = {
        "kernel": kernel,
        "isotonic": Isotonic(),
        "platt": Platt(),
        "binning": binning,
        "auto": Auto(kernel, binning),
    }
    return methods[method]


def _settled(fitter: Method, view: GroupView) -> Method:
    """The method with what it chooses by a group's risk chosen, so that its map and those without each fold share the choice."""
    return fitter.settle(view) if isinstance(fitter, KernelMap) else fitter


def _make(view: GroupView, fitter: Method, monotone: bool) -> GroupMap:
    group_map = as_map(view, fitter.fit(view))
    return group_map.monotone(knot_weights(group_map.score, view.score, view.sums.W)) if monotone else group_map


def _fit_all(
    tally: Tally, fitter: Method, weighting: str, monotone: bool, shrink: bool
) -> tuple[tuple[GroupMap, ...], GroupMap, dict[Any, str]]:
    """A map for each group and one for everybody; groups with too few users have the latter, and a reason.

    shrink: whether fits without some users tell how much of each group's map should be its own; else all of it.
    """
    whole = GroupView.whole(tally, weighting)
    whole = whole.at(whole.used)
    method = _settled(fitter, whole)
    pooled = _make(whole, method, monotone)
    pooled_folds = method.fold_values(whole) if shrink and len(tally.groups) > 1 else None
    maps, reasons = [], {}
    for group in tally.groups:
        n_users, n_rows = tally.n_users[group], tally.n_rows[group]
        if n_users < FEWEST_USERS:
            maps.append(replace(pooled, group=group, users=n_users, rows=n_rows, source="pooled"))
            reasons[group] = f"has only {n_users} users with an outcome, fewer than {FEWEST_USERS}: it gets the pooled map"
        else:
            view = GroupView.of(tally, group, weighting).at(whole.cells)
            method = _settled(fitter, view)
            own = _make(view, method, monotone)
            if pooled_folds is not None:
                own = mix_maps(own, pooled, own_share(view, method.fold_values(view), pooled_folds))
            maps.append(own)
    if reasons:
        few = "; ".join(f"group {label_text(group)} {reason}" for group, reason in reasons.items())
        warn(few)
    return tuple(maps), pooled, reasons


def _reference_label(tally: Tally, reference: Any, method: str) -> Any:
    label = tally.groups[tally.index(reference)]
    if method == "binning":
        raise OptionError("reference= needs a curve to go back along, and method='binning' gives steps; use another method")
    if tally.n_users[label] < FEWEST_USERS:
        raise DataError(
            f"the reference {shortened(label)} has only {tally.n_users[label]} users with an outcome, fewer than {FEWEST_USERS}"
        )
    return label


def _on_scale_of(
    tally: Tally, reference: Any, maps: tuple[GroupMap, ...], pooled: GroupMap, reasons: dict[Any, str]
) -> tuple[tuple[GroupMap, ...], GroupMap, dict[Any, str]]:
    """All maps carried back to the scores of the reference; says where no score of it stands for an outcome."""
    target = maps[tally.index(reference)]
    carried = []
    for group_map in maps:
        if group_map is target:
            carried.append(identity(group_map))
            continue
        carried.append(to_reference(group_map, target))
        view = GroupView.of(tally, group_map.group, "user")
        missed = beyond(group_map, target, view.score, view.sums.A if view.sums.A.any() else np.ones_like(view.sums.A))
        if missed > 0:
            words = f"{missed:.1%} have an expected outcome that no score of {label_text(reference)} stands for: they get its end"
            reasons = reasons | {group_map.group: "; ".join(filter(None, [reasons.get(group_map.group), words]))}
    return tuple(carried), to_reference(pooled, target), reasons


def fingerprint(tally: Tally) -> str:
    """A digest of the sums that a tally holds: equal data give equal fingerprints."""
    digest = hashlib.sha256(repr([pack_label(group) for group in tally.groups]).encode())
    for array in (tally.lattice.edges, *(group.vectors.values for group in tally.group_tallies)):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
