import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

import evenscore as es
from evenscore.simulation import Beta, Bump, BusyBeta, BusyCurve, Curve, Discrete, FixedRows, ParetoRows, PoissonRows

Z = 4.5  # a true statement about 20 bins fails with chance 1e-4
EXACT = 1e-9
GRID = np.linspace(0.02, 0.98, 49)
GAP = {"a": Curve(0.3, 0.7), "b": Curve(bump=Bump(-0.2, 0.6, 0.1))}


def deviations(spec, weighting="user", n_bins=20, seed=0):
    """By group and score bin: the weighted mean of outcome minus truth, in user-robust standard errors."""
    data = spec.data(seed)
    found = []
    for label in spec.groups:
        own = (data["group"] == label) & ~np.isnan(data["outcome"])
        score, outcome, user = (data[name][own] for name in ("score", "outcome", "user"))
        n_rows = np.bincount(user)
        weight = 1 / n_rows[user] if weighting == "user" else np.ones(len(user))
        residual = weight * (outcome - spec.truth.curve(score, label, weighting))
        for bin_ in np.array_split(np.argsort(score, kind="stable"), n_bins):
            by_user = np.bincount(user[bin_], residual[bin_])
            found.append(by_user.sum() / np.sqrt((by_user**2).sum()))
    return np.array(found)


SPECS = {
    "calibrated": es.simulate(50_000),
    "gap": es.simulate(50_000, curve=GAP),
    "dependent": es.simulate(50_000, curve=GAP, outcome_correlation=0.6, score_correlation=0.6, rows_per_user=PoissonRows(4)),
    "densities": es.simulate(50_000, curve=GAP, score={"a": Beta(2, 5), "b": (0.5, 0.5)}),
    "discrete": es.simulate(50_000, curve=GAP, score=Discrete((0.1, 0.2, 0.7, 0.9), (0.1, 0.2, 0.3, 0.4)), score_correlation=0.3),
    "informative": es.simulate(50_000, curve=GAP, informative=0.7, rows_per_user=PoissonRows(2), outcome_correlation=0.3),
    "informative whales": es.simulate(50_000, informative={"a": -0.5, "b": 0.0}, rows_per_user=ParetoRows(1.5, 50)),
    "spanning": es.simulate(
        {"x": 60_000, "y": 20_000}, curve={"x": (0.3, 0.7), "y": (0, 1)}, spanning=True, outcome_correlation=0.5
    ),
    "informative spanning": es.simulate(60_000, informative=0.8, rows_per_user=PoissonRows(1), spanning=True),
    "heavy-tailed": es.simulate(50_000, curve=GAP, outcome="heavy-tailed", scale=0.2, outcome_correlation=0.5),
    "links": es.simulate(50_000, curve={"a": Curve(0.1, 0.6, link="identity"), "b": Curve(-0.3, 1.5, link="flip")}),
    "busy": es.simulate(50_000, score=BusyBeta(8), curve=BusyCurve(), rows_per_user={"a": PoissonRows(4), "b": 1}),
    "busy, correlated": es.simulate(
        50_000, score=BusyBeta(5), curve=GAP, rows_per_user=PoissonRows(4), score_correlation=0.6, outcome_correlation=0.5
    ),
    "busy spanning": es.simulate(
        {"x": 60_000, "y": 20_000},
        score={"x": BusyBeta(4), "y": (2, 2)},
        curve=BusyCurve(),
        rows_per_user=PoissonRows(2),
        spanning=True,
    ),
    "busy whales": es.simulate(50_000, curve=BusyCurve(1, 0.5, 20), rows_per_user=ParetoRows(1.5, 50)),
    "censored": es.simulate(50_000, curve=GAP, threshold=0.6, score_correlation=0.5, outcome_correlation=0.5),
    "busy censored": es.simulate(
        50_000, score=BusyBeta(6), curve=BusyCurve(-1, 0.4, 6), rows_per_user=PoissonRows(3), threshold=0.7, positive="below"
    ),
    "informative censored": es.simulate(50_000, informative=0.8, rows_per_user=PoissonRows(2), threshold=0.6),
}


@pytest.mark.parametrize("weighting", ["user", "row"])
@pytest.mark.parametrize("name", SPECS)
def test_truth_is_what_large_samples_show(name, weighting):
    assert np.abs(deviations(SPECS[name], weighting)).max() < Z


def test_deviations_would_show_a_wrong_truth():
    """The check above has power: per-row truth is not what users show."""
    spec = SPECS["informative spanning"]
    wrong = replace(spec, informative=(0.0, 0.0))
    data, label = spec.data(0), spec.groups[0]
    own = data["group"] == label
    weight = 1 / np.bincount(data["user"][own])[data["user"][own]]
    residual = weight * (data["outcome"][own] - wrong.truth.curve(data["score"][own], label))
    assert abs(residual.sum() / np.sqrt((residual**2).sum())) > Z


@pytest.mark.parametrize(
    ("name", "group", "other"),
    [
        ("busy", "a", {"rows_per_user": (FixedRows(3), FixedRows(1))}),
        ("busy spanning", "y", {"spanning": False}),
        ("busy censored", "a", {"threshold": None}),
        ("informative censored", "a", {"threshold": None}),
    ],
)
def test_what_users_weigh_depends_on_their_rows(name, group, other):
    """The truths above would be others without it, by more than the check lets pass."""
    spec = SPECS[name]
    wrong = replace(spec, **other).truth
    assert np.abs(spec.truth.curve(GRID, group) - wrong.curve(GRID, group)).max() > 0.005


def test_curves_are_as_described():
    truth = es.simulate(curve=GAP).truth
    odds = np.exp(0.3) * (GRID / (1 - GRID)) ** 0.7
    np.testing.assert_allclose(truth.curve(GRID, "a"), odds / (1 + odds), rtol=EXACT)
    np.testing.assert_allclose(truth.curve(GRID, "b"), np.clip(GRID - 0.2 * np.exp(-50 * (GRID - 0.6) ** 2), 0, 1), rtol=EXACT)
    np.testing.assert_allclose(truth.gap(GRID, "a", "b"), truth.curve(GRID, "a") - truth.curve(GRID, "b"), rtol=EXACT)
    assert truth.marginal(0.5) == {"a": pytest.approx(1 / (1 + np.exp(-0.3))), "b": pytest.approx(0.5 - 0.2 * np.exp(-0.5))}
    np.testing.assert_allclose(es.simulate(curve=(-1, 0)).truth.curve([0.0, 0.5, 1.0], "a"), 1 / (1 + np.e))


@pytest.mark.parametrize("density", [(2, 5), (0.5, 0.5), (8, 1)])
def test_true_calibration_error_by_integration(density):
    spec = es.simulate(score=density, curve=GAP)
    for label in spec.groups:
        square, _ = integrate.quad(lambda s, label=label: (spec.truth.curve(s, label) - s) ** 2 * stats.beta.pdf(s, *density), 0, 1)
        assert spec.truth.tce(label) == pytest.approx(np.sqrt(square), rel=1e-5)


def test_true_calibration_errors_known_by_heart():
    assert es.simulate().truth.tce("a") == 0
    assert es.simulate(score=(1, 1), curve=(0, 0)).truth.tce("a") == pytest.approx(np.sqrt(1 / 12), rel=1e-6)
    discrete = es.simulate(score=Discrete((0.1, 0.5), (0.25, 0.75)), curve=(0, 0))
    assert discrete.truth.tce("b") == pytest.approx(np.sqrt(0.25 * 0.4**2))


@pytest.mark.parametrize("weighting", ["user", "row"])
def test_true_curve_and_calibration_error_of_busy_users_by_integration(weighting):
    """Sums over the numbers of rows and an integral over the score, written out once more."""
    spec = es.simulate(score=BusyBeta(8), curve=BusyCurve(-1, 0.6, 8), rows_per_user=PoissonRows(4), groups=["a"])
    n = np.arange(1, 60)
    k, mass = np.minimum(n, 8), stats.poisson.pmf(n - 1, 4) * (n if weighting == "row" else 1)
    mass /= mass.sum()

    def weights(s):
        return mass * k * s ** (k - 1.0)

    def curve(s):
        z, own = k / 8, weights(s)
        return own @ (1 / (1 + np.exp(1 - z - (0.6 + 0.4 * z) * np.log(s / (1 - s))))) / own.sum()

    np.testing.assert_allclose(spec.truth.curve(GRID, "a", weighting), [curve(s) for s in GRID], rtol=1e-8)
    square, _ = integrate.quad(lambda s: (curve(s) - s) ** 2 * weights(s).sum(), 0, 1)
    assert spec.truth.tce("a", weighting) == pytest.approx(np.sqrt(square), rel=1e-5)
    above, _ = integrate.quad(lambda s: weights(s).sum(), 0.7, 1)
    assert spec.truth.positive_rate(0.7, weighting)["a"] == pytest.approx(above, rel=1e-8)


@pytest.mark.parametrize("weighting", ["user", "row"])
@pytest.mark.parametrize("name", ["gap", "densities", "discrete", "informative", "busy", "busy spanning", "busy whales"])
def test_true_calibration_errors_are_what_large_samples_show(name, weighting):
    """The mean of (curve - score)^2 over users or rows, with the standard error of users."""
    spec = SPECS[name]
    data = spec.data(5)
    for label in spec.groups:
        score, user = (data[column][data["group"] == label] for column in ("score", "user"))
        weight = 1 / np.bincount(user)[user] if weighting == "user" else np.ones(len(user))
        square = (spec.truth.curve(score, label, weighting) - score) ** 2
        for values, truth in (
            (square, spec.truth.tce(label, weighting) ** 2),
            (score >= 0.7, spec.truth.positive_rate(0.7, weighting)[label]),
        ):
            by_user = np.bincount(user, weight * (values - truth))
            assert abs(by_user.sum()) < Z * np.sqrt((by_user**2).sum())


def test_the_papers_calibration_errors():
    """Figures that were computed by quadrature outside of this package."""
    spec = es.simulate(score=BusyBeta(8), curve=BusyCurve(-1, 0.6, 8), rows_per_user={"a": PoissonRows(4), "b": 1})
    assert spec.truth.tce("a") == pytest.approx(0.096577, abs=1e-6)
    assert spec.truth.tce("a", "row") == pytest.approx(0.074101, abs=1e-6)
    assert spec.truth.tce("b") == pytest.approx(0.196797, abs=1e-6)


def test_the_truth_is_shown_and_written():
    truth = es.simulate(curve={"a": (0, 1), "b": (-0.5, 1)}).truth
    rows = truth.rows([0.25, 0.5])
    assert [(row["group"], row["score"]) for row in rows] == [("a", 0.25), ("a", 0.5), ("b", 0.25), ("b", 0.5)]
    assert rows[3]["per_user"] == truth.curve(0.5, "b") == rows[3]["per_row"]
    written = json.loads(json.dumps(truth.to_dict()))
    assert written["calibration_error"][1]["per_user"] == truth.tce("b") and len(written["curve"]) == 202
    assert "calibration error: a 0.0000, b" in repr(truth) and truth.frame("pandas").shape == (42, 4)
