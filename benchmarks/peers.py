"""Other packages that answer the same question, or a part of it, from a pandas frame; the bench dependency group has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

BINS = 10
BOOTSTRAPS = 200
POINTS = 20


def run_binspwc(frame: Any, **draws: int) -> Any:
    """Binscatter comparison of the groups, bins fixed: choosing them fails with clusters."""
    import binsreg

    return binsreg.binspwc("outcome", "score", data=frame, by="group", cluster="user", bynbins=BINS, simsseed=0, **draws)


def run_feols(frame: Any) -> Any:
    """Outcome on bins by group with clustered variance, and a Wald test that the group plays no part."""
    import pandas
    import pyfixest

    binned = frame.assign(bin=pandas.qcut(frame["score"], BINS, labels=False))
    fit = pyfixest.feols("outcome ~ C(bin) * C(group)", data=binned, vcov={"CRV1": "user"})
    of_group = [place for place, name in enumerate(fit.coef().index) if "C(group)" in name]
    return fit.wald_test(R=np.eye(len(fit.coef()))[of_group])


def run_bootstrap(frame: Any) -> Any:
    """Calibration curves of each group for users drawn with replacement."""
    from sklearn.calibration import calibration_curve

    ordered = frame.sort_values("user")
    score, outcome, group, user = (ordered[name].to_numpy() for name in ("score", "outcome", "group", "user"))
    starts = np.flatnonzero(np.concatenate([[True], user[1:] != user[:-1]]))
    lengths = np.diff(np.append(starts, len(user)))
    rng = np.random.default_rng(0)
    curves = []
    for _ in range(BOOTSTRAPS):
        drawn = rng.integers(0, len(starts), len(starts))
        size = lengths[drawn]
        rows = np.repeat(starts[drawn] - np.cumsum(size) + size, size) + np.arange(size.sum())
        for label in (0, 1):
            mine = rows[group[rows] == label]
            curves.append(calibration_curve(outcome[mine], score[mine], n_bins=BINS))
    return curves


def run_lprobust(frame: Any, **bandwidth: Any) -> Any:
    """A local linear curve with clustered variance for each group; the two are left to be compared by hand."""
    import nprobust

    points = np.quantile(frame["score"], np.linspace(0.02, 0.98, POINTS))
    fits = []
    for _, part in frame.groupby("group"):
        outcome, score, user = (part[name].to_numpy() for name in ("outcome", "score", "user"))
        given = bandwidth or {"h": 1.06 * score.std() * len(score) ** -0.2}
        fits.append(nprobust.lprobust(outcome.astype(np.float64), score, eval=points, cluster=user, **given))
    return fits


PEERS: dict[str, Callable[[Any], Any]] = {
    "binsreg binspwc, 10 bins": run_binspwc,
    "the same with the draws it recommends for final results": lambda frame: run_binspwc(frame, nsims=2000, simsgrid=50),
    "pyfixest feols and Wald test, 10 bins": run_feols,
    "200 bootstraps of scikit-learn calibration_curve": run_bootstrap,
    "nprobust lprobust, bandwidth given": run_lprobust,
    "nprobust lprobust, bandwidth mse-rot": lambda frame: run_lprobust(frame, bwselect="mse-rot"),
}
